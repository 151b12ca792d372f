"""Claim: a Laplace prior shrinks small posterior means towards zero, while a normal prior does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import maxendnet
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, Card, Estimate, Experiment, Row, Settings
from maxendnet.experiments.engine.table import select

# priors whose posterior mean is drawn as a function of eta; the first three are in the paper
PRIORS: dict[str, tuple[str, dict[str, float]]] = {
    "normal": ("Gaussian", {}),
    "Laplace, lam 4": ("Laplace", {"lam": 4.0}),
    "Laplace, lam 6": ("Laplace", {"lam": 6.0}),
    "normal-gamma, a 0.5, lam 4": ("NormalGamma", {"a": 0.5, "lam": 4.0}),
    "normal-inverse-Gaussian, A 2, d 1": ("NormalInverseGaussian", {"A": 2.0, "d": 1.0}),
    "spike and slab, p 0.1, v 1": ("SpikeSlab", {"p": 0.1, "v": 1.0}),
    "uniform on [-2, 2]": ("Uniform", {"a": 2.0}),
    "exponential, lam 4 (weights >= 0)": ("Exponential", {"lam": 4.0}),
}
WIDTH = {"Laplace, lam 4": 2.0, "Laplace, lam 6": np.sqrt(6), "normal-gamma, a 0.5, lam 4": 2.0,
         "normal-inverse-Gaussian, A 2, d 1": 2.0}  # fmt: skip


def cells(scale: str) -> list[Settings]:
    return [{"prior": name, "points": {"full": 401, "quick": 101, "tiny": 21}[scale]} for name in PRIORS]


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    kind, constants = PRIORS[settings["prior"]]
    prior = getattr(maxendnet, kind)(**constants)
    width = 0.96 * WIDTH.get(settings["prior"], 2.6)
    eta = np.linspace(-width, width, settings["points"])
    return {"eta": eta, "mean": prior.mean(eta), "variance": prior.variance(eta)}


def rows(settings: Settings, numbers: Row) -> list[Row]:
    columns = ("eta", "mean", "variance")
    return [{"prior": settings["prior"], **dict(zip(columns, point))} for point in zip(*(numbers[c] for c in columns))]


def cards(table: list[Row]) -> list[Card]:
    def points(prior: str) -> tuple[np.ndarray, np.ndarray]:
        prior_rows = select(table, prior=prior)
        return np.array([r["eta"] for r in prior_rows]), np.array([r["mean"] for r in prior_rows])

    curves = {name: points(name) for name in list(PRIORS)[:3]}
    if not all(len(eta) for eta, _ in curves.values()):
        return []
    (_, normal), (eta4, four), (eta6, six) = curves.values()
    eta = curves["normal"][0]
    small = np.abs(eta4) <= 1
    shared = np.abs(eta6) < np.abs(eta4).max()
    at_six = np.abs(six[shared])
    at_four = np.abs(2 * eta6[shared] / (4 - eta6[shared] ** 2))
    shrinks = bool(np.all(np.abs(four[small]) <= np.abs(eta4[small])))
    ordered = bool(np.all(at_six <= at_four + 1e-12))
    all_nonzero = bool(np.all(four[eta4 != 0] != 0))
    no_chance = "A computation, no data: no test is needed."
    return [
        Card(
            "shrinks", "With a Laplace prior, posterior means are shrunk towards zero where eta is small; with a "
            "standard normal prior the mean is eta itself.",
            HOLDS if shrinks and np.allclose(normal, eta) else FAILS,
            [Estimate("slope at 0, lam 4", *[0.5] * 3)], "of eta",
            numbers=["At eta = 0.5 the mean is 0.50 (normal), 0.27 (Laplace, lam 4), 0.17 (Laplace, lam 6).",
             "The slope at zero is 2/lam: for lam below 2 there is no shrinkage but the opposite, and near the border "
             "of the domain, |eta| = sqrt(lam), the mean grows without bound. The statement is one about lam > 2 and "
             "small eta."],
            test=no_chance,
        ),
        Card(
            "larger_lam", "The larger lam, the stronger the shrinkage.", HOLDS if ordered else FAILS,
            [Estimate("lam 6 over lam 4, small eta", *[2 / 3] * 3)], "",
            numbers=[f"|mean| at lam 6 is at most that at lam 4 at all {int(shared.sum())} points where both exist; "
             f"the ratio at small eta is {2 / 6 / (2 / 4):.2f}."],
            test=no_chance,
        ),
        Card(
            "none_zero", "The curve is smooth, and no weight is set to zero.", HOLDS if all_nonzero else FAILS,
            [Estimate("weights set to zero", *[float(np.sum(four[eta4 != 0] == 0))] * 3)], "",
            numbers=["The mean is zero at eta = 0 only."], test=no_chance,
        ),
    ]  # fmt: skip


def draw(figure: Any, table: list[Row]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    names = list(PRIORS)
    for axis, group, title in ((left, names[:3], "the paper's three priors"), (right, names[3:], "other priors")):
        for name in group:
            prior_rows = select(table, prior=name)
            line_style = figures.style(name, names.index(name) - (0 if axis is left else 3)) | {"marker": ""}
            axis.plot([r["eta"] for r in prior_rows], [r["mean"] for r in prior_rows], label=name, **line_style)
        axis.axline((0, 0), slope=1, color="0.6", linewidth=0.8, zorder=0)
        axis.set(xlim=(-2.6, 2.6), ylim=(-3.2, 3.2), xlabel="eta (dual side of a weight)", title=title)
        axis.legend(loc="upper left", fontsize=8)
    left.set_ylabel("posterior mean of the weight")
    left.annotate("flatter than the grey\ndiagonal = shrunk", (0.5, 0.2), (0.55, -1.9), fontsize=8.5,
                  arrowprops={"arrowstyle": "->", "color": "0.4"})  # fmt: skip


EXPERIMENT = Experiment(
    name="shrinkage",
    title="Does a Laplace prior shrink small weights?",
    paper="Section 4, figure of posterior means against eta",
    method="The posterior mean phi'(eta) of every prior of the library, on a grid of eta inside its domain.",
    cells=cells, run=run, rows=rows, cards=cards, draw=draw, exact=True, size=(9.0, 4.4),
)  # fmt: skip
