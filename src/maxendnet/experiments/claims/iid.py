"""Claim: on sparse synthetic chains LapMEDN beats M3N and is comparable with the L1 systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.experiments.engine import comparison, figures
from maxendnet.experiments.engine.comparison import better, compare, not_worse, similar
from maxendnet.experiments.engine.data import chains
from maxendnet.experiments.engine.experiment import Card, Experiment, Row, Settings
from maxendnet.experiments.engine.systems import METHOD, SYSTEMS, Constants, choose_and_measure, grid_of, thin_grid
from maxendnet.experiments.engine.table import distinct, select, values

CRF_GRID = [16.0, 9.0, 4.0, 1.0, 0.1, 0.01]
LAM_GRID = np.linspace(268, 1, 20).round().tolist()
MARGIN_GRID = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
L1_GRID = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
GRIDS: dict[str, list[Constants]] = {
    "LapMEDN": grid_of("lam", LAM_GRID, C=1.0),
    "M3N": grid_of("C", MARGIN_GRID),
    "L1-M3N": grid_of("C", L1_GRID),
    "CRF": [{}],
    "L2-CRF": grid_of("lam", CRF_GRID),
    "L1-CRF": grid_of("lam", CRF_GRID),
}
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "draws": 10,
        "relevant": [10, 30, 50],
        "train": [30, 50, 80, 100, 150],
        "samples": 1000,
        "candidates": None,
    },
    "quick": {"draws": 2, "relevant": [10, 50], "train": [30, 80], "samples": 200, "candidates": 2},
    "tiny": {"draws": 1, "relevant": [10], "train": [30], "samples": 60, "candidates": 1},
}


def cells(scale: str) -> list[Settings]:
    s = SIZES[scale]
    return [
        {"draw": draw, "relevant": relevant, "train": train, "system": system, "samples": s["samples"],
         "candidates": s["candidates"]}
        for draw in range(s["draws"]) for relevant in s["relevant"] for train in s["train"] for system in SYSTEMS
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    examples = chains(seed, settings["draw"], settings["samples"], settings["relevant"]).examples
    # every size uses the same random order, so small training sets are subsets of large ones
    order = np.random.default_rng([seed, settings["draw"], 1]).permutation(len(examples))
    train, test = examples[np.sort(order[: settings["train"]])], examples[np.sort(order[settings["train"] :])]
    grid = thin_grid(GRIDS[settings["system"]], settings["candidates"])
    return choose_and_measure(settings["system"], grid, train, test, seed)


def cards(rows: list[Row]) -> list[Card]:
    units: dict[str, Any] = {"pair": ["draw", "relevant"], "within": ["train"]}
    fewest, most = min(distinct(rows, "relevant")), max(distinct(rows, "relevant"))
    smallest = min(distinct(rows, "train"))
    numbers = [
        f"{relevant} relevant features, mean over training sizes: "
        + ", ".join(
            f"{s} {100 * np.mean(values(part, 'error')):.2f} %"
            for s in SYSTEMS
            if (part := select(rows, relevant=relevant, system=s))
        )
        for relevant in distinct(rows, "relevant")
    ]
    return [
        compare("beats_m3n", "LapMEDN consistently outperforms M3N.", rows, [("LapMEDN", "M3N")], better, **units,
                numbers=[*numbers, comparison.unconverged(rows)]),
        compare("not_below_m3n", "LapMEDN is at least as good as M3N (read: at most half a point worse).", rows,
                [("LapMEDN", "M3N")], not_worse, **units),
        compare("like_l1", "LapMEDN performs comparably with L1-CRF and L1-M3N (read: at most half a point worse).",
                rows, [("LapMEDN", "L1-CRF"), ("LapMEDN", "L1-M3N")], not_worse, **units),
        compare("regularised", "Regularised CRFs beat the unregularised one, above all with fewest training examples.",
                select(rows, train=smallest), [("L1-CRF", "CRF"), ("L2-CRF", "CRF")], better,
                pair=["draw", "relevant"],
                numbers=[f"Tested at the smallest size, {smallest} chains. Over all sizes: "
                         + comparison.difference(rows, "L2-CRF", "CRF", **units).text() + " for L2-CRF."]),
        compare("m3n_like_l2crf", "M3N and L2-CRF perform similarly (read: within half a point).", rows,
                [("M3N", "L2-CRF")], similar, **units),
        compare("l1_best_few", "With very fewest relevant features L1-M3N is best, slightly better than LapMEDN.",
                select(rows, relevant=fewest), [("L1-M3N", s) for s in SYSTEMS if s != "L1-M3N"], better, **units,
                numbers=[f"Read as {fewest} relevant features of 100."]),
        compare("lap_best_many", "With more relevant features LapMEDN is slightly better than L1-M3N.",
                select(rows, relevant=most), [("LapMEDN", "L1-M3N")], better, **units,
                numbers=[f"Read as {most} relevant features of 100."]),
    ]  # fmt: skip


def draw(figure: Any, rows: list[Row]) -> None:
    types = distinct(rows, "relevant")
    axes = np.atleast_1d(figure.subplots(1, len(types), sharey=True))
    for axis, relevant in zip(axes, types):
        sizes = sorted(distinct(rows, "train"))
        for k, system in enumerate(SYSTEMS):
            groups = [100 * values(select(rows, relevant=relevant, train=n, system=system), "error") for n in sizes]
            figures.curve(axis, sizes, groups, system, k, shift=0.8 * (k - 2.5))
        axis.set(title=f"{relevant} of 100 features relevant", xlabel="training chains")
    axes[0].set_ylabel("wrong labels on new chains, %")
    figures.legend(figure, axes[0])


EXPERIMENT = Experiment(
    name="iid",
    title="Who learns best from few chains with many irrelevant inputs?",
    paper="Section 7.1.1, figure of the six systems on i.i.d. inputs",
    method="Per type (10, 30, 50 relevant of 100 inputs) 10 random CRFs, 1,000 chains of 8 nodes each, labels by 5,000 "
    "Gibbs sweeps; 30 to 150 random chains to learn from, the rest to test. Constants by 5-fold cross-validation "
    "inside "
    "the training chains: CRFs from {0.01, 0.1, 1, 4, 9, 16}; LapMEDN lam from 20 values 1 to 268 at C = 1 (the C of "
    f"the paper's sensitivity section); the paper gives no grid for C: M3N from {MARGIN_GRID}, L1-M3N from {L1_GRID}. "
    + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(10.5, 4.4),
)  # fmt: skip
