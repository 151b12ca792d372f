"""Claim: the error of L1-CRF depends strongly on its constant, that of LapMEDN hardly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.experiments.claims.ocr import OVERLAP
from maxendnet.experiments.engine import figures, statistics
from maxendnet.experiments.engine.comparison import card_of, unconverged
from maxendnet.experiments.engine.data import READINGS, letters, letters_missing, split
from maxendnet.experiments.engine.experiment import Card, Experiment, Row, Settings
from maxendnet.experiments.engine.selection import thin_grid
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import FINAL_PASSES, FINAL_TOL, METHOD, make, measure
from maxendnet.experiments.engine.table import distinct, select

CRF_GRID = [0.0001, 0.001, 0.01, 0.1, 1.0, 4.0, 9.0, 16.0, 25.0]
SQUARES = [float(k * k) for k in range(1, 10)]
LARGE_SQUARES = [float(k * k) for k in range(13, 22)]
GRIDS: dict[str, tuple[str, list[float], dict[str, float]]] = {
    "L1-CRF": ("lam", CRF_GRID, {}),
    "L2-CRF": ("lam", CRF_GRID, {}),
    "M3N": ("C", SQUARES, {}),
    "LapMEDN": ("lam", SQUARES, {"C": 1.0}),
    "L1-M3N": ("radius", LARGE_SQUARES, {"C": 1.0}),
}
SIZES: dict[str, Any] = {"full": (10, 100, None, READINGS), "quick": (2, 40, 3, ("one",)), "tiny": (1, 4, 2, READINGS)}


def cells(scale: str) -> list[Settings]:
    folds, words, candidates, readings = SIZES[scale]
    return [
        {"words": words, "fold": fold, "reading": reading, "system": system, "constant": value}
        for reading in readings for fold in range(folds) for system, (_, grid, _) in GRIDS.items()
        for value in thin_grid(grid, candidates)
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    train, test, _ = split(letters(data), seed, settings["words"], settings["fold"], settings["reading"])
    name, _, fixed = GRIDS[settings["system"]]
    constants = {name: settings["constant"], **fixed}
    model = make(settings["system"], constants, tol=FINAL_TOL, max_passes=FINAL_PASSES, random_state=seed)
    return measure(model, train, test)


def ranges(rows: list[Row], system: str, reading: str) -> dict[int, float]:
    """Largest minus smallest error over the grid, for each fold whose grid is complete."""
    spreads = {}
    n = len(distinct(select(rows, system=system), "constant"))
    for fold in distinct(rows, "fold"):
        errors = [r["error"] for r in select(rows, system=system, reading=reading, fold=fold)]
        if len(errors) == n > 1:
            spreads[fold] = max(errors) - min(errors)
    return spreads


def cards(rows: list[Row]) -> list[Card]:
    conclusions = []
    for reading in distinct(rows, "reading"):
        spread = {system: ranges(rows, system, reading) for system in GRIDS}

        def wider(first: str, second: str, spread: Any = spread, reading: str = reading) -> statistics.Paired:
            folds = [f for f in spread[first] if f in spread[second]]
            return paired([spread[first][f] - spread[second][f] for f in folds], OVERLAP[reading])

        numbers = [
            "Largest minus smallest error over the grid, mean over folds: "
            + ", ".join(f"{s} {100 * np.mean(list(v.values())):.1f} points" for s, v in spread.items() if v),
            unconverged(select(rows, reading=reading)),
        ]
        label = f" (training on {reading} fold{'s' * (reading == 'nine')})"
        first = {s: wider("L1-CRF", s) for s in GRIDS if s != "L1-CRF"}
        second = {f"{s} over {stable}": wider(s, stable) for stable in ("LapMEDN", "L1-M3N") for s in ("L2-CRF", "M3N")}
        conclusions += [
            card_of(f"l1crf_sensitive_{reading}",
                    "L1-CRF is quite sensitive to its constant, all others much less" + label + ".",
                    {f"range of L1-CRF over {s}": t for s, t in first.items()}, statistics.is_positive,
                    numbers=numbers),
            card_of(f"lap_stable_{reading}", "LapMEDN and L1-M3N are the most stable" + label + ".",
                    {f"range of {s}": t for s, t in second.items()}, statistics.is_positive,
                    numbers=["Each system has a grid of its own, as in the paper: the CRFs' spans five powers of ten, "
                             "the others' less than two. The comparison is one of these grids as much as of the "
                             "systems."]),
        ]  # fmt: skip
    return conclusions


def draw(figure: Any, rows: list[Row]) -> None:
    readings = distinct(rows, "reading")
    axes = figure.subplots(len(readings), 3, squeeze=False, sharey="row")
    panels = [(("L1-CRF", "L2-CRF"), "lam"), (("M3N", "LapMEDN"), "C (M3N), lam (LapMEDN)"), (("L1-M3N",), "radius")]
    for line, reading in zip(axes, readings):
        for axis, (systems, name) in zip(line, panels):
            for k, system in enumerate(systems):
                part = select(rows, reading=reading, system=system)
                grid = sorted(distinct(part, "constant"))
                groups = [np.array([100 * r["error"] for r in select(part, constant=c)]) for c in grid]
                # as in the paper, the values of the grid are drawn at equal distances
                figures.curve(axis, range(len(grid)), groups, system, k, shift=0.08 * k)
                axis.set_xticks(range(len(grid)), [f"{c:g}" for c in grid], rotation=45)
            axis.set_xlabel(name)
            axis.legend(loc="best")
        line[0].set_ylabel(f"wrong letters, %\n(trained on {reading} fold{'s' * (reading == 'nine')})")


EXPERIMENT = Experiment(
    name="sensitivity",
    title="How much does the choice of the constant matter?",
    paper="Section 7.3, figure of errors against regularisation constants",
    method="OCR100, ten folds, both readings of the protocol, the paper's grids: CRFs 0.0001 to 25; M3N C and LapMEDN "
    "lam k^2, k = 1 to 9; L1-M3N k^2, k = 13 to 21, read as the radius of its ball; C = 1 for LapMEDN and L1-M3N. "
    + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(10.0, 6.2), needs=letters_missing,
)  # fmt: skip
