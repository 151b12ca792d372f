"""Beyond the paper: LapMEDN compared with the other systems on proteins, tweets, addresses and chorales."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.comparison import better, card_of, unconverged
from maxendnet.experiments.engine.experiment import Card, Experiment, Row, Settings
from maxendnet.experiments.engine.selection import choose
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import FINAL_PASSES, FINAL_TOL, GRIDS, METHOD, SYSTEMS, make, measure
from maxendnet.experiments.engine.table import distinct, select, values
from maxendnet.experiments.engine.tasks import FOLDS, TASKS, load

TITLES = {"usaddress": "US addresses", "bach_chorales": "Bach chorales", "cb513": "CB513 proteins, 3 states",
          "wnut17": "WNUT-17 entities"}  # fmt: skip
LIMITS: dict[str, int | None] = {"full": None, "quick": 30, "tiny": 8}
GROUPS = 20
"""Number of groups of test examples; each group is one pair in the paired test."""


BY_NODE = ("L2-CRF", "CRF")
"""Systems that are also decoded by the most probable label of each node."""


def cells(scale: str) -> list[Settings]:
    cell_settings: list[Settings] = [
        {"task": task, "fold": fold, "system": system, "limit": LIMITS[scale],
         "candidates": None if scale == "full" else 1}
        for task in TASKS for fold in range(FOLDS[task] if scale == "full" else 1) for system in SYSTEMS
    ]  # fmt: skip
    return cell_settings + [cell | {"decode": "by node"} for cell in cell_settings if cell["system"] in BY_NODE]


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    if data is None or not (data / settings["task"]).is_dir():
        return {}
    task = load(settings["task"], data, settings["limit"], settings["fold"])
    build, grid = partial(make, settings["system"]), GRIDS[settings["system"]]
    constants, about = choose(build, grid, task.train, seed, parts=2, candidates=settings["candidates"])
    model = build(constants, tol=FINAL_TOL, max_passes=FINAL_PASSES, random_state=seed)
    numbers = measure(model, task.train, task.test)
    if settings.get("decode") == "by node":
        predicted = model.classes_[np.concatenate(model.predict_marginals(task.test)).argmax(axis=1)]
    else:
        predicted = np.array([label for labels in model.predict(task.test) for label in labels])
    right = predicted == np.asarray(task.test.y)
    counted = np.ones(len(right), bool) if task.scored is None else task.scored
    group = np.repeat(np.arange(len(task.test)) % GROUPS, np.diff(task.test.offsets))
    parts = [counted & (group == g) for g in range(GROUPS)]
    return {"chosen_" + name: value for name, value in constants.items()} | about | numbers | {
        "error": float(np.mean(~right[counted])),
        "errors": [float(np.mean(~right[part])) for part in parts if part.any()],
        "n_features": task.train.n_features, "n_train": len(task.train), "n_test": len(task.test),
    }  # fmt: skip


def cards(rows: list[Row]) -> list[Card]:
    conclusions = []
    for task in distinct(rows, "task"):
        part, by_node = (
            [r for r in select(rows, task=task) if bool(r.get("decode")) == is_by_node] for is_by_node in (0, 1)
        )

        def errors(system: str, part: Any = part) -> np.ndarray:
            # one number per group of test examples, for all folds
            return np.array([e for r in select(part, system=system) for e in r["errors"]])

        rivals = [s for s in SYSTEMS[1:] if len(errors(s)) == len(errors("LapMEDN"))]
        tests = {s: paired(errors(s) - errors("LapMEDN")) for s in rivals}
        means = ", ".join(
            f"{s} {100 * np.mean(values(select(part, system=s), 'error')):.2f} %" for s in distinct(part, "system")
        )
        by_nodes = ", ".join(
            f"{s} {100 * np.mean(values(select(by_node, system=s), 'error')):.2f} %"
            for s in distinct(by_node, "system")
        )
        also = [f"With the most probable label of every node, instead of the best labelling: {by_nodes}."] * bool(
            by_node
        )
        conclusions.append(
            card_of(f"lap_best_{task}", f"LapMEDN is the best of the six on {TITLES[task]}.",
                    {f"LapMEDN over {s}": t for s, t in tests.items()}, better, beyond=True,
                    numbers=["Wrong labels: " + means, *also,
                             f"{part[0]['n_train']} training examples, {part[0]['n_test']} test examples, "
                             f"{part[0]['n_features']:,} features.", unconverged(part)])
        )  # fmt: skip
    return conclusions


def draw(figure: Any, rows: list[Row]) -> None:
    rows = [r for r in rows if not r.get("decode")]
    tasks = distinct(rows, "task")
    if not tasks:
        return
    for axis, task in zip(np.atleast_1d(figure.subplots(1, len(tasks))), tasks):
        names = [s for s in SYSTEMS if select(rows, task=task, system=s)]
        means, halves = figures.mean_and_interval(
            [100 * values(select(rows, task=task, system=s), "error") for s in names]
        )
        axis.bar(range(len(names)), means, 0.7, yerr=halves, capsize=2, color=[figures.STYLES[s][0] for s in names])
        axis.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axis.set(title=TITLES[task], ylabel="wrong labels, %" if task == tasks[0] else "")
        axis.grid(axis="x", visible=False)


def needs(data: Path | None) -> str:
    if data is None or not any((data / task).is_dir() for task in TASKS):
        return f"none of the folders {', '.join(TASKS)} is in the data path. Give it with --data."
    return ""


EXPERIMENT = Experiment(
    name="other_tasks",
    title="Is LapMEDN best on other tasks?",
    paper="beyond the paper",
    method="Four data sets, absent ones left out: US addresses and WNUT-17 with their own test parts (features of the "
    "token and its neighbours), CB513 (windows of 15 residues, three states, folds 0 to 4 in turn, scored on ordered "
    "residues of the domains) and Bach chorales (pitches, bass, metre; 5 folds). Two parts of the training examples, "
    "instead of five, for the choice of constants. Pairs of the tests are 20 groups of test examples. "
    + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(11.0, 4.0), needs=needs,
)  # fmt: skip
