"""Claim: CRF and L1-CRF overfit during training, L2-CRF does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.experiments.engine import figures, statistics
from maxendnet.experiments.engine.comparison import card_of
from maxendnet.experiments.engine.data import letters, letters_missing, split
from maxendnet.experiments.engine.experiment import Card, Experiment, Row, Settings
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import make
from maxendnet.experiments.engine.table import distinct, select, values

CONSTANTS = {"CRF": {}, "L1-CRF": {"lam": 0.01}, "L2-CRF": {"lam": 1.0}}
PASSES = {
    "full": [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 65, 85, 110, 150, 200, 300, 450, 700, 1000],
    "quick": [1, 2, 4, 8, 15, 30, 60, 120],
    "tiny": [1, 4, 16],
}
SIZES: dict[str, Any] = {"full": (10, 100), "quick": (2, 40), "tiny": (1, 8)}


def cells(scale: str) -> list[Settings]:
    folds, words = SIZES[scale]
    return [
        {"fold": fold, "words": words, "reading": "nine", "system": system, "passes": PASSES[scale]}
        for fold in range(folds) for system in CONSTANTS
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    """Repeat the same fit with an increasing limit on the number of passes."""
    train, test, _ = split(letters(data), seed, settings["words"], settings["fold"], settings["reading"])
    numbers: Row = {"n_pass": [], "error": [], "training_error": [], "negative_log_likelihood": [], "change": []}
    lam = CONSTANTS[settings["system"]].get("lam", 0.0)
    n_before, before = 0, np.nan
    for limit in settings["passes"]:
        model = make(settings["system"], CONSTANTS[settings["system"]], tol=1e-9, max_passes=limit, random_state=seed)
        model.fit(train)
        w = model.posterior_.mean
        penalty = {"CRF": 0.0, "L1-CRF": lam * np.abs(w).sum(), "L2-CRF": 0.5 * lam * w @ w}[settings["system"]]
        numbers["n_pass"].append(model.n_passes_)
        numbers["error"].append(1 - model.score(test))
        numbers["training_error"].append(1 - model.score(train))
        numbers["negative_log_likelihood"].append(max(model.objective_ - penalty, 1e-12))
        before = before if n_before else train.n_nodes * np.log(len(model.classes_))  # uniform over labellings
        change = abs(before - model.objective_) / max(abs(before), 1e-300) / max(model.n_passes_ - n_before, 1)
        n_before, before = model.n_passes_, model.objective_
        numbers["change"].append(change)
        if model.n_passes_ < limit:  # converged
            break
    return numbers


def rows(settings: Settings, numbers: Row) -> list[Row]:
    # largest change from each stop to the end, because a first step may be short
    numbers = numbers | {"change": np.maximum.accumulate(numbers["change"][::-1])[::-1].tolist()}
    fixed = {name: settings[name] for name in ("fold", "words", "reading", "system")}
    return [fixed | dict(zip(numbers, point)) for point in zip(*numbers.values())]


def excess(table: list[Row], system: str) -> np.ndarray:
    """Final error minus the lowest error during training, per fold."""
    rises = []
    for fold in distinct(table, "fold"):
        errors = values(select(table, fold=fold, system=system), "error")
        if len(errors):
            rises.append(errors[-1] - errors.min())
    return np.array(rises)


def cards(table: list[Row]) -> list[Card]:
    rise = {system: excess(table, system) for system in CONSTANTS}
    if not all(map(len, rise.values())):
        return []
    lines = []
    for s in CONSTANTS:
        along = [values(select(table, fold=f, system=s), "error") for f in distinct(table, "fold")]
        lowest, last = (100 * np.mean([f(e) for e in along if len(e)]) for f in (np.min, lambda e: e[-1]))
        lines.append(f"{s}: lowest test error during training {lowest:.1f} %, at the end {last:.1f} %")
    tests = {s: paired(rise[s] - rise["L2-CRF"], overlap=1 / 9) for s in ("CRF", "L1-CRF")}
    return [
        card_of("overfit", "CRF and L1-CRF overfit during training; L2-CRF is robust (read: their test error rises "
                "more from its lowest point to the end than that of L2-CRF).",
                {f"rise of {s} over L2-CRF": test for s, test in tests.items()}, statistics.is_positive, numbers=lines),
    ]  # fmt: skip


def draw(figure: Any, table: list[Row]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for k, system in enumerate(CONSTANTS):
        for axis, name, top in ((left, "change", 1.0), (right, "negative_log_likelihood", 1000.0)):
            points = [r for r in select(table, system=system) if r[name] > 0]
            x, y = np.sqrt(top / values(points, name)), 100 * values(points, "error")
            colour = figures.style(system, k)["color"]
            axis.plot(x, y, ".", color=colour, markersize=3, alpha=0.35)
            passes = sorted(distinct(points, "n_pass"))
            steps = [[v for v, r in zip(zip(x, y), points) if r["n_pass"] == p] for p in passes]
            steps = [s for s in steps if len(s) > len(distinct(table, "fold")) // 2]
            label = system + (f", lam {CONSTANTS[system]['lam']:g}" if CONSTANTS[system] else "")
            middle = np.array([np.median(s, axis=0) for s in steps]).reshape(-1, 2)
            axis.plot(*middle.T, **figures.style(system, k), label=label)
            axis.set_xscale("log")
    left.set(
        xlabel="sqrt(1 / relative change of the objective in a pass)",
        ylabel="wrong letters on test words, %",
    )
    right.set(xlabel="sqrt(1000 / negative log-likelihood)")
    for axis in (left, right):
        axis.set_title("training goes from left to right", fontsize=9.5)
    figures.legend(figure, left, 3)


EXPERIMENT = Experiment(
    name="overfitting",
    title="Do likelihood models overfit while they are trained?",
    paper="Section 7.2, figure of CRF test errors during learning",
    method="OCR100, trained on nine folds, tested on one, ten folds; the same training stopped after 1 to 1,000 passes "
    "(CRF and L2-CRF by L-BFGS, L1-CRF by OWL-QN). The paper does not give the constants of this figure: L1-CRF with "
    "lam 0.01, L2-CRF with lam 1. Relative change: of the objective, for each pass between two stops, the largest from "
    "there on. Lines are medians over folds.",
    cells=cells, run=run, rows=rows, cards=cards, draw=draw, size=(9.5, 4.4), needs=letters_missing,
)  # fmt: skip
