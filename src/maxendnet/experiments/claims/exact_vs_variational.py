"""Beyond the paper: Algorithm 1 after 2, 3 and all iterations, compared with the exact model that it approximates."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet import LapMEDN
from maxendnet.experiments.engine import figures, statistics
from maxendnet.experiments.engine.comparison import MARGIN, card_of
from maxendnet.experiments.engine.data import chains, letters, letters_missing, split
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, Card, Estimate, Experiment, Row, Settings
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import measure
from maxendnet.experiments.engine.table import select, values

CONSTANTS = {"synthetic": {"lam": 36.0, "C": 1.0}, "OCR100": {"lam": 36.0, "C": 2.4}}
# repeats, words per fold, chains, tolerance, maximum number of passes
SIZES: dict[str, Any] = {
    "full": (10, 100, 1000, 1e-4, 5000), "quick": (2, 20, 200, 1e-3, 500), "tiny": (1, 4, 50, 1e-2, 100),
}  # fmt: skip


def cells(scale: str) -> list[Settings]:
    repeats, words, samples, tol, passes = SIZES[scale]
    return [
        {"data": data, "repeat": repeat, "words": words, "samples": samples, "tol": tol, "passes": passes}
        for repeat in range(repeats) for data in CONSTANTS
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    if settings["data"] == "synthetic":
        examples = chains(seed, settings["repeat"], settings["samples"], 30).examples
        train, test = examples[: settings["samples"] // 10], examples[settings["samples"] // 10 :]
    else:
        train, test, _ = split(letters(data), seed, settings["words"], settings["repeat"], "one")
    lam, C = (CONSTANTS[settings["data"]][name] for name in ("lam", "C"))
    exact = LapMEDN(C=2 * C, lam=4 * lam, tol=settings["tol"], max_passes=settings["passes"], random_state=seed)
    numbers = {f"exact_{name}": value for name, value in measure(exact, train, test).items()}
    mu = exact.posterior_.mean
    for iterations in (2, 3, None):
        model = LapMEDN(C=C, lam=lam, method="variational", iterations=iterations, tol=settings["tol"], max_passes=40,
                        random_state=seed)  # fmt: skip
        fit_numbers = measure(model, train, test)
        fit_numbers["distance"] = float(
            np.linalg.norm(model.posterior_.mean - mu) / max(float(np.linalg.norm(mu)), 1e-300)
        )
        numbers |= {f"{iterations or 'all'}_{name}": value for name, value in fit_numbers.items()}
    return numbers


METHODS = ("2", "3", "all", "exact")


def rows(settings: Settings, numbers: Row) -> list[Row]:
    fixed = {"data": settings["data"], "repeat": settings["repeat"]}
    return [
        fixed | {"iterations": m} | {n.removeprefix(f"{m}_"): v for n, v in numbers.items() if n.startswith(f"{m}_")}
        for m in METHODS
    ]  # fmt: skip


def cards(table: list[Row]) -> list[Card]:
    def column(m: str, name: str, **where: Any) -> np.ndarray:
        return values(select(table, iterations=m, **where), name)

    if not table:
        return []
    distance = {m: column(m, "distance") for m in METHODS[:3]}
    early = paired(column("3", "error") - column("exact", "error"))
    faster = paired(np.log2(column("all", "fit_seconds") / column("exact", "fit_seconds")))
    shown = [f"{name} iterations: distance {np.median(d):.3g} of the length of the exact weights (median), error "
             f"{100 * column(name, 'error').mean():.2f} %, {column(name, 'fit_seconds').mean():.2f} s"
             for name, d in distance.items()]  # fmt: skip
    shown.append(f"exact: error {100 * column('exact', 'error').mean():.2f} %, "
                 f"{column('exact', 'fit_seconds').mean():.2f} s, "
                 f"largest gap {column('exact', 'gap').max():.1g}")  # fmt: skip
    return [
        Card("same", "Algorithm 1 run to its end gives the weights of the exact LapMEDN with 4 lam and 2 C.",
             HOLDS if distance["all"].max() < 0.05 else FAILS,
             [Estimate("largest relative distance", *[float(distance["all"].max())] * 3)], "", numbers=shown,
             test=f"{len(distance['all'])} data sets, both fits to their tolerance or their limit of passes; no test "
             "is needed.", beyond=True),
        card_of("three_suffice", "Three iterations of Algorithm 1 are enough (within half a point of the exact model).",
                {"exact over 3 iterations": early}, partial(statistics.equality, margin=MARGIN), margin=MARGIN),
        card_of("exact_faster", "The exact model is trained faster than Algorithm 1 to its end.",
                {"seconds of Algorithm 1 / exact": faster}, statistics.is_positive, unit="doublings", scale=1.0,
                beyond=True),
    ]  # fmt: skip


def draw(figure: Any, table: list[Row]) -> None:
    axes = figure.subplots(1, 3)
    quantities = (("error", "wrong labels, %", 100), ("distance", "distance to the exact weights, relative", 1),
                  ("fit_seconds", "seconds to train (processor)", 1))  # fmt: skip
    for axis, (name, label, scale) in zip(axes, quantities):
        methods = METHODS[:3] if name == "distance" else METHODS
        for k, data in enumerate(CONSTANTS):
            groups = [scale * values(select(table, data=data, iterations=m), name) for m in methods]
            figures.curve(axis, range(len(methods)), groups, data, k, shift=0.06 * (k - 0.5))
        axis.set_xticks(range(len(methods)), methods)
        axis.set(xlabel="iterations of Algorithm 1, or exact", ylabel=label)
        if name != "error":
            axis.set_yscale("log")
    figures.legend(figure, axes[0])


EXPERIMENT = Experiment(
    name="exact_vs_variational",
    title="What does the paper's approximation cost?",
    paper="beyond the paper (its Algorithm 1, with 3 iterations)",
    method="Synthetic chains (30 of 100 inputs relevant, 100 chains to learn from) and OCR100 trained on one fold, ten "
    "each; Algorithm 1 with lam 36 and C 1 (chains) or 2.4 (OCR) after 2, 3 and all iterations, against the exact "
    "LapMEDN with 4 lam, 2 C; tolerance 1e-4.",
    cells=cells, run=run, rows=rows, cards=cards, draw=draw, size=(10.5, 4.2), needs=letters_missing,
)  # fmt: skip
