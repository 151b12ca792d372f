"""Beyond the paper: all 6,877 words, compared with published errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from maxendnet.experiments.claims import ocr
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.data import READINGS
from maxendnet.experiments.engine.experiment import Card, Row, Settings
from maxendnet.experiments.engine.systems import METHOD, SYSTEMS
from maxendnet.experiments.engine.table import distinct, select, values

SIZES: dict[str, dict[str, Any]] = {
    "full": {"folds": 10, "words": None, "candidates": None},
    "quick": {"folds": 1, "words": 30, "candidates": 1},
    "tiny": {"folds": 1, "words": 4, "candidates": 1},
}
# letter error in % for training on one fold and on nine; linear models on the same pixels unless stated otherwise
PUBLISHED = {
    "linear CRF": (21.6, 14.2),
    "linear M3N": (21.1, 13.5),
    "M3N, cubic kernel": (13.0, None),
    "NeuroCRF": (10.8, 4.4),
}


def cells(scale: str) -> list[Settings]:
    s = SIZES[scale]
    return [
        {"words": s["words"], "fold": fold, "reading": reading, "system": system, "constants": ocr.CROSS_VALIDATED,
         "candidates": s["candidates"]}
        for reading in READINGS for fold in range(s["folds"]) for system in SYSTEMS
    ]  # fmt: skip


def cards(rows: list[Row]) -> list[Card]:
    conclusions = ocr.cards([row | {"words": row["words"] or "all"} for row in rows])
    for card in conclusions:
        if card.key.startswith("lap_best"):
            column = 0 if card.key.endswith("one") else 1
            marks = [f"{name} {pair[column]} %" for name, pair in PUBLISHED.items() if pair[column]]
            card.numbers.append("Published: " + ", ".join(marks) + ".")
    return conclusions


def draw(figure: Any, rows: list[Row]) -> None:
    there = [(reading, column) for column, reading in enumerate(("one", "nine")) if select(rows, reading=reading)]
    for axis, (reading, column) in zip(np.atleast_1d(figure.subplots(1, max(1, len(there)))), there):
        part = select(rows, reading=reading)
        names = [s for s in SYSTEMS if select(part, system=s)]
        means, halves = figures.mean_and_interval([100 * values(select(part, system=s), "error") for s in names])
        published = [(name, pair[column]) for name, pair in PUBLISHED.items() if pair[column] is not None]
        axis.bar(range(len(names)), means, 0.7, yerr=halves, capsize=2, color=[figures.STYLES[s][0] for s in names])
        places = np.arange(len(names), len(names) + len(published)) + 0.4
        axis.bar(places, [error for _, error in published], 0.7, color="0.75", hatch="//", edgecolor="white")
        labels = [*names, *(name for name, _ in published)]
        axis.set_xticks([*range(len(names)), *places], labels, rotation=40, ha="right")
        n = {"one": ("one fold", "nine"), "nine": ("nine folds", "one")}[reading]
        axis.set(title=f"trained on {n[0]}, tested on {n[1]}", ylabel="wrong letters, %")
        axis.grid(axis="x", visible=False)
    size = distinct(rows, "words")
    figure.suptitle(f"{'all words' if size == [None] else f'{size[0]} words a fold'}; grey: published", fontsize=10)


EXPERIMENT = replace(
    ocr.EXPERIMENT,
    name="ocr_full",
    title="How do the six do on all words, beside published errors?",
    paper="beyond the paper",
    method="All 6,877 words, ten folds, both readings of the protocol, grids and choice of constants as in `ocr`. "
    + METHOD,
    cells=cells, cards=cards, draw=draw, size=(10.0, 4.4),
)  # fmt: skip
