"""Claim: the ball of the KL-norm lies between those of L2 and L1, and tends to L1 as lam grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from maxendnet import Laplace
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, Card, Estimate, Experiment, Row, Settings
from maxendnet.experiments.engine.table import distinct, select

LAMS = {
    "full": [1.0, 4.0, 16.0, 64.0, 256.0, 1000.0, 4000.0, 10000.0],
    "quick": [1.0, 16.0, 256.0, 10000.0],
    "tiny": [1.0, 10000.0],
}


def cells(scale: str) -> list[Settings]:
    return [{"lam": lam, "points": {"full": 101, "quick": 51, "tiny": 11}[scale]} for lam in LAMS[scale]]


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    """Compute the boundary through (0, 1) in the first quadrant; the other quadrants are mirror images."""
    penalty = Laplace(settings["lam"]).penalty
    level = penalty(np.array([1.0]))
    x = np.linspace(0, 1, settings["points"])
    y = [brentq(lambda v, u=u: penalty(np.array([u, v])) - level, 0, 1) if u < 1 else 0.0 for u in x]
    y[0] = 1.0
    return {"x": x, "y": y}


def rows(settings: Settings, numbers: Row) -> list[Row]:
    return [{"lam": settings["lam"], "w1": x, "w2": y} for x, y in zip(numbers["x"], numbers["y"])]


def farthest(table: list[Row], lam: float) -> float:
    """Largest distance of the boundary from that of the L1 ball."""
    return float(max((r["w1"] + r["w2"] - 1) / np.sqrt(2) for r in select(table, lam=lam)))


def cards(table: list[Row]) -> list[Card]:
    lams = distinct(table, "lam")
    if len(lams) < 2:
        return []
    away = [farthest(table, lam) for lam in lams]
    l2 = (np.sqrt(2) - 1) / np.sqrt(2)
    between = all(0 <= a <= l2 for a in away)
    return [
        Card(
            "towards_l1", "As lam grows the boundary of the KL-norm ball moves ever closer to that of the L1 ball.",
            HOLDS if all(np.diff(away) < 0) else FAILS,
            [Estimate(f"lam {lam:g}", *[a] * 3) for lam, a in zip(lams, away)][::-1], "from L1",
            numbers=["Largest distance to the L1 boundary: "
             + ", ".join(f"{a:.3f} (lam {lam:g})" for lam, a in zip(lams, away))
             + f"; the L2 ball is {l2:.3f} away.",
             "The approach is slow, like log(lam)/sqrt(lam)."],
            test="A computation, no data: no test is needed.",
        ),
        Card(
            "smooth", "The KL-norm boundary has no corner on the axes, unlike L1, and lies between L1 and L2.",
            HOLDS if between else FAILS,
            numbers=["Every boundary lies between the two; the penalty is differentiable with slope 0 at 0, so the "
             "boundary meets the axes at a right angle."],
            test="A computation, no data: no test is needed.",
        ),
    ]  # fmt: skip


def draw(figure: Any, table: list[Row]) -> None:
    from matplotlib import colormaps

    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.15, 1]})
    t = np.linspace(0, 2 * np.pi, 400)
    left.plot(np.cos(t), np.sin(t), color=figures.VERMILION, linestyle="--", label="L2")
    left.plot([0, 1, 0, -1, 0], [1, 0, -1, 0, 1], color=figures.BLACK, linestyle=":", linewidth=2, label="L1")
    lams = distinct(table, "lam")
    shades = colormaps["viridis"](np.linspace(0.1, 0.85, len(lams)))
    for lam, shade in zip(lams, shades):
        x = np.array([r["w1"] for r in select(table, lam=lam)])
        y = np.array([r["w2"] for r in select(table, lam=lam)])
        label = f"KL, lam {lam:g}" if lam in (lams[0], lams[len(lams) // 2], lams[-1]) else None
        left.plot(np.r_[x, x[::-1], -x, -x[::-1]], np.r_[y, -y[::-1], -y, y[::-1]], color=shade, label=label)
    left.set(aspect="equal", xlabel="weight 1", ylabel="weight 2", title="balls through (0, 1)")
    left.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8.5)
    right.loglog(lams, [farthest(table, lam) for lam in lams], **figures.style("LapMEDN"))
    right.axhline((np.sqrt(2) - 1) / np.sqrt(2), color=figures.VERMILION, linestyle="--", label="L2")
    right.set(xlabel="lam", ylabel="largest distance to the L1 boundary", title="towards L1 as lam grows")
    right.set_yticks([0.03, 0.1, 0.3], ["0.03", "0.1", "0.3"])
    right.minorticks_off()
    right.annotate("L2 ball", (lams[-1], 0.293), (0, -12), textcoords="offset points", ha="right", fontsize=8.5)


EXPERIMENT = Experiment(
    name="norms",
    title="What does the KL-norm look like beside L1 and L2?",
    paper="Section 4, figures of the norm balls",
    method="The set where the Laplace prior's penalty of (w1, w2) equals that of (0, 1), by root finding.",
    cells=cells, run=run, rows=rows, cards=cards, draw=draw, exact=True, size=(9.0, 4.2),
)  # fmt: skip
