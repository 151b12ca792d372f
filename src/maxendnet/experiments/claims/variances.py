"""Claim: LapMEDN's posterior variances show the groups of correlated features, and vanish for irrelevant ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet import LapMEDN
from maxendnet.experiments.claims import correlated
from maxendnet.experiments.claims.weights import cells
from maxendnet.experiments.engine import figures, statistics
from maxendnet.experiments.engine.comparison import card_of
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN, Card, Estimate, Experiment, Row, Settings
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import METHOD
from maxendnet.experiments.engine.table import select, values

COMPARED = ("LapMEDN", "M3N", "L2-CRF", "L1-M3N")


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    """Compute variances (LapMEDN, variational and exact) or squared weights (other systems), averaged over folds."""
    drawn, (constants, about), folds = correlated.one_part_folds(settings, seed, settings["folds"])
    lap = settings["system"] == "LapMEDN"
    size, exact, gaps, converged = [], [], [], []
    for model, train, _ in folds:
        model.fit(train)
        gaps.append(model.gap_)
        converged.append(bool(model.converged_))
        mu2 = model.coef_**2
        if isinstance(model, LapMEDN):
            lam = constants["lam"]
            # the variance of Algorithm 1 at its fixed point, a function of the mean
            size.append((1 + np.sqrt(1 + 4 * lam * mu2)).mean(axis=1) / (2 * lam))
            exact.append(model.posterior_.variance[: mu2.size].reshape(mu2.shape).mean(axis=1))
        else:
            size.append(mu2.mean(axis=1))
    average = np.mean(size, axis=0)
    groups = drawn.groups
    numbers: Row = about | {
        "within_relevant": spread(average[groups >= 0], groups[groups >= 0]),
        "across_relevant": spread(average[groups >= 0], None),
        # control: arbitrary groups of three irrelevant features, which must show no effect
        "within_irrelevant": spread(average[groups < 0][:69], np.arange(69) // 3),
        "across_irrelevant": spread(average[groups < 0][:69], None),
        "gap": max(gaps),
        "converged": all(converged),
        "values": average,
    }
    if lap:
        smallest = float(np.min(average[groups < 0]) * constants["lam"])
        numbers |= {"exact_variance": np.mean(exact, axis=0), "smallest_times_lam": smallest,
                    "irrelevant_over_relevant": float(average[groups < 0].mean() / average[groups >= 0].mean()),
                    "chosen_lam": constants["lam"], "chosen_C": constants["C"]}  # fmt: skip
    return numbers


def spread(size: np.ndarray, groups: np.ndarray | None) -> float:
    """Mean distance of two features on a log scale, within groups, or between any two features if ``groups`` is
    None."""
    logs = np.log(size + 1e-9)
    apart = np.abs(logs[:, None] - logs[None, :])
    pairs = np.triu(np.ones_like(apart, dtype=bool), 1)
    if groups is not None:
        pairs &= groups[:, None] == groups[None, :]
    return float(apart[pairs].mean())


def effect(rows: list[Row], system: str, where: str = "relevant") -> np.ndarray:
    """Group effect: 0 if features of a group are as far apart as any two features, 1 if they are equal."""
    system_rows = select(rows, system=system)
    shares: np.ndarray = 1 - values(system_rows, f"within_{where}") / values(system_rows, f"across_{where}")
    return shares


def cards(rows: list[Row]) -> list[Card]:
    lap = select(rows, system="LapMEDN")
    if not lap:
        return []
    inside, control = paired(effect(rows, "LapMEDN")), paired(effect(rows, "LapMEDN", "irrelevant"))
    others = {s: paired(effect(rows, s)) for s in COMPARED[1:] if select(rows, system=s)}
    bound = values(lap, "smallest_times_lam")
    return [
        card_of("groups", "Features of a group tend to have similar variances, unrelated features do not.",
                {"LapMEDN, relevant features": inside},
                statistics.combined(statistics.is_positive(inside), statistics.equality(control, 0.1)), unit="%",
                numbers=["Closeness inside groups, 0 % = none, 100 % = equal. Control on irrelevant features in "
                         "meaningless threes: " + control.text("%")]),
        card_of("groups_not_special", "The group structure is special to LapMEDN's variances.",
                {f"{s}, squared weights": test for s, test in others.items()},
                FAILS if any(test.low > 0 for test in others.values()) else OPEN, unit="%", beyond=True,
                numbers=["At convergence the variance is a function of the weight alone, so any system that gives "
                         "similar weights to similar features shows the same in its squared weights."]),
        Card("vanish", "The variances of irrelevant features go to zero.", HOLDS if np.all(bound < 0.5) else FAILS,
             [Estimate("smallest variance", *[float(bound.min())] * 3)], "/ lam",
             numbers=["It cannot be below 1 / lam, since v = (1 + sqrt(1 + 4 lam mu^2)) / (2 lam).",
                      "Mean variance of irrelevant over relevant features: "
                      f"{np.mean(values(lap, 'irrelevant_over_relevant')):.2f}."],
             test="A bound that holds always: no test is needed."),
    ]  # fmt: skip


def draw(figure: Any, rows: list[Row]) -> None:
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [2.3, 1]})
    first_draw = select(rows, draw=0, system="LapMEDN")
    if first_draw:
        size = np.array(first_draw[0]["values"]) * first_draw[0]["chosen_lam"]
        for group in range(10):
            left.axvspan(3 * group - 0.5, 3 * group + 2.5, color="0.93" if group % 2 else "0.97", zorder=0)
        inside = np.arange(len(size)) < 30
        index = np.arange(len(size))
        left.plot(
            index[inside], size[inside], "o", color=figures.BLUE, markersize=4.5, label="relevant, bands = groups"
        )
        left.plot(index[~inside], size[~inside], "x", color=figures.VERMILION, markersize=4.5, label="irrelevant")
        left.axhline(1, color="0.4", linestyle="--", linewidth=1)
        left.annotate("lower bound 1 / lam", (99, 1), (0, -11), textcoords="offset points", ha="right", fontsize=8.5)
        left.set_ylim(bottom=0.97 - 0.08 * (size.max() - 1))
        left.legend(loc="upper right")
    left.set(xlabel="feature", ylabel="average posterior variance x lam", title="LapMEDN, first data set")
    names = [s for s in COMPARED if select(rows, system=s)]
    places = np.arange(len(names))
    for shift, where, colour in ((-0.18, "relevant", figures.BLUE), (0.18, "irrelevant", figures.VERMILION)):
        means, halves = figures.mean_and_interval([100 * effect(rows, s, where) for s in names])
        right.bar(places + shift, means, 0.34, yerr=halves, color=colour, capsize=2, label=where)
    right.set_xticks(places, [n if n == "LapMEDN" else f"{n} *" for n in names], rotation=25, ha="right")
    right.axhline(0, color="0.3", linewidth=0.8)
    right.set(ylabel="closeness inside groups, %", title="group effect (* in squared weights)")


EXPERIMENT = Experiment(
    name="variances",
    title="Do posterior variances show which features belong together?",
    paper="Section 7.1.2, figure of average variances",
    method="Data, folds and constants of `weights`. The variance is that of the paper's Algorithm 1 at its fixed "
    "point, "
    "averaged over the two labels of a feature and over folds. Group effect: 1 - (mean distance of log variances "
    "inside "
    "groups) / (that of any two relevant features). " + METHOD,
    cells=partial(cells, systems=COMPARED), run=run, cards=cards, draw=draw, size=(10.0, 4.2),
)  # fmt: skip
