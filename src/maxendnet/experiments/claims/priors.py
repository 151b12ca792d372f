"""Beyond the paper: does any prior beat Laplace?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import maxendnet
from maxendnet import MaxEnDNet
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.comparison import card_of
from maxendnet.experiments.engine.data import chains, letters, letters_missing, split
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN, Card, Experiment, Row, Settings
from maxendnet.experiments.engine.selection import Constants, FixedGrid
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import FINAL_TOL, tune_and_measure
from maxendnet.experiments.engine.table import differences, distinct, select, values

GRIDS: dict[str, tuple[str, list[Constants]]] = {
    "Laplace": ("Laplace", [{"prior__lam": lam, "C": lam**0.5 * c}
                            for lam in (576.0, 144.0, 36.0) for c in (0.1, 0.25, 0.6)]),
    "Gaussian": ("Gaussian", [{"C": C} for C in (0.003, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 1.0, 3.0)]),
    "normal-gamma": ("NormalGamma", [{"prior__a": 0.5, "prior__lam": lam, "C": 0.5 * 2 * lam**0.5 * c}
                                     for lam in (144.0, 36.0, 9.0) for c in (0.1, 0.25, 0.6)]),
    "normal-inverse-Gaussian": ("NormalInverseGaussian", [{"prior__A": A, "prior__d": d, "C": A * c}
                                for A, d in ((10.0, 1.0), (5.0, 1.0), (5.0, 4.0)) for c in (0.03, 0.1, 0.3)]),
    "spike and slab": ("SpikeSlab", [{"prior__p": p, "prior__v": 1.0, "C": C}
                                     for p in (0.05, 0.2, 0.5) for C in (0.03, 0.1, 0.5)]),
    "uniform": ("Uniform", [{"prior__a": a, "C": C} for a in (0.3, 1.0, 3.0) for C in (0.01, 0.1, 1.0)]),
    "exponential": ("Exponential", [{"prior__lam": lam, "C": lam * c}
                                    for lam in (20.0, 8.0, 3.0) for c in (0.05, 0.15, 0.5)]),
}  # fmt: skip
"""Prior and nine candidates for its constants and C."""
DATA = ("synthetic, 10 relevant", "synthetic, 50 relevant", "OCR100")
SIZES: dict[str, Any] = {"full": (10, 100, 1000, None), "quick": (2, 20, 200, 2), "tiny": (1, 4, 50, 1)}


def cells(scale: str) -> list[Settings]:
    repeats, words, samples, candidates = SIZES[scale]
    return [
        {"data": data, "repeat": repeat, "prior": prior, "words": words, "samples": samples, "candidates": candidates}
        for repeat in range(repeats) for data in DATA for prior in GRIDS
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    if settings["data"] == "OCR100":
        train, test, _ = split(letters(data), seed, settings["words"], settings["repeat"], "one")
    else:
        relevant = int(settings["data"].split()[1])
        examples = chains(seed, settings["repeat"], settings["samples"], relevant).examples
        train, test = examples[: settings["samples"] // 10], examples[settings["samples"] // 10 :]
    kind, points = GRIDS[settings["prior"]]

    def build(constants: Constants, **options: Any) -> MaxEnDNet:
        return MaxEnDNet(prior=getattr(maxendnet, kind)(), **options).set_params(**constants)

    return tune_and_measure(build, FixedGrid(points), train, test, seed, candidates=settings["candidates"])


def cards(rows: list[Row]) -> list[Card]:
    conclusions = []
    for data in distinct(rows, "data"):
        part = select(rows, data=data)
        rivals = [p for p in distinct(part, "prior") if p not in ("Laplace", "normal-gamma")]
        tests = {p: paired(differences(part, "prior", p, "Laplace", ["repeat"])) for p in rivals}
        tests = {p: t for p, t in tests.items() if t.n}
        # several rivals are tested at once: each at a level divided by their number
        beaten = [p for p, t in tests.items() if t.mean > 0 and t.p < 0.05 / len(tests)]
        ahead = all(t.high < 0 for t in tests.values()) and bool(tests)
        check = paired(differences(part, "prior", "Laplace", "normal-gamma", ["repeat"]))
        conclusions.append(
            card_of(f"laplace_best_{data.replace(', ', '_').replace(' ', '_')}", f"No prior beats Laplace on {data}.",
                    {f"Laplace over {p}": t._replace(mean=-t.mean, low=-t.high, high=-t.low) for p, t in tests.items()},
                    FAILS if beaten else HOLDS if ahead else OPEN, beyond=True,
                    numbers=["Errors: " + ", ".join(
                                 f"{p} {100 * np.mean(values(select(part, prior=p), 'error')):.2f} %"
                                 for p in distinct(part, "prior")),
                             "Beats Laplace (level 0.05 divided by the number of rivals): "
                             + (", ".join(beaten) or "none") + ".",
                             "Check: normal-gamma is the same predictor as Laplace at other constants: "
                             + check.text() + "."])
        )  # fmt: skip
    return conclusions


def draw(figure: Any, rows: list[Row]) -> None:
    data = distinct(rows, "data")
    axes = np.atleast_1d(figure.subplots(1, len(data), sharey=True))
    names = list(GRIDS)[::-1]
    for axis, which in zip(axes, data):
        groups = [100 * values(select(rows, data=which, prior=p), "error") for p in names]
        means, halves = figures.mean_and_interval(groups)
        colours = [figures.BLUE if p == "Laplace" else figures.SKY if p == "normal-gamma" else "0.7" for p in names]
        axis.barh(range(len(names)), means, 0.7, xerr=halves, color=colours, capsize=2, error_kw={"elinewidth": 0.9})
        laplace = means[names.index("Laplace")]
        axis.axvline(laplace, color=figures.BLUE, linewidth=0.9, linestyle="--")
        axis.set_yticks(range(len(names)), names)
        axis.set(title=which, xlabel="wrong labels, %", xlim=(0, None))
        axis.grid(axis="y", visible=False)


EXPERIMENT = Experiment(
    name="priors",
    title="Does any prior beat Laplace?",
    paper="beyond the paper",
    method="MaxEnDNet with every exact prior of the library: synthetic chains (10 and 50 of 100 inputs relevant, 100 "
    "chains to learn from, ten draws) and OCR100 trained on one fold, ten folds. Each prior has nine candidates for "
    "its "
    "constants and C, chosen by 5-fold cross-validation inside the training examples. The exponential prior allows "
    f"weights above zero only. Final fits to a relative duality gap of {FINAL_TOL:g}.",
    cells=cells, run=run, cards=cards, draw=draw, size=(10.5, 4.0), needs=letters_missing,
)  # fmt: skip
