"""Claim: on sparse synthetic chains LapMEDN beats M3N and is comparable with the L1 systems."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet import L1M3N, Examples
from maxendnet.experiments.engine import comparison, figures
from maxendnet.experiments.engine.comparison import better, compare, not_worse, similar
from maxendnet.experiments.engine.data import chains
from maxendnet.experiments.engine.experiment import Card, Experiment, Row, Settings
from maxendnet.experiments.engine.paper_procedure import ITERATIONS, SYNTHETIC_GRIDS, synthetic_model
from maxendnet.experiments.engine.selection import choose
from maxendnet.experiments.engine.systems import (
    FINAL_PASSES,
    FINAL_TOL,
    GRIDS,
    METHOD,
    SYSTEMS,
    choose_and_measure,
    make,
    measure,
    tune_and_measure,
)
from maxendnet.experiments.engine.table import distinct, select, values
from maxendnet.solvers import Subgradient

PROJECTED = "L1-M3N by projected subgradient"
PROJECTED_PASSES = 50
PAPER = "the paper's"
CROSS_VALIDATED = "cross-validated"
VARIANTS = [
    *((system, CROSS_VALIDATED) for system in SYSTEMS),
    *((system, PAPER) for system in SYNTHETIC_GRIDS),
    (PROJECTED, "50 passes"),
]
"""Systems with their procedures: constants on the paper's grids, or on grids without ends."""
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
        {"draw": draw, "relevant": relevant, "train": train, "system": system, "procedure": procedure,
         "samples": s["samples"], "candidates": s["candidates"]}
        for draw in range(s["draws"]) for relevant in s["relevant"] for train in s["train"]
        for system, procedure in VARIANTS
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    drawn = chains(seed, settings["draw"], settings["samples"], settings["relevant"])
    examples, system = drawn.examples, settings["system"]
    # every size uses the same random order, so small training sets are subsets of large ones
    order = np.random.default_rng([seed, settings["draw"], 1]).permutation(len(examples))
    train, test = examples[np.sort(order[: settings["train"]])], examples[np.sort(order[settings["train"] :])]
    if system == PROJECTED:
        return projected_subgradient(train, test, seed, settings["candidates"])
    if settings["procedure"] == PAPER:
        build = partial(synthetic_model, system)
        return tune_and_measure(build, SYNTHETIC_GRIDS[system], train, test, seed, candidates=settings["candidates"])
    return choose_and_measure(system, train, test, seed, candidates=settings["candidates"])


def projected_subgradient(train: Examples, test: Examples, seed: int, candidates: int | None) -> Row:
    """Fit L1-M3N by subgradient steps in the ball of the exact solution.

    The steps are on-line, as in the paper. The exact solution, whose L1 norm is the radius, has the constant that
    cross-validation chooses.
    """
    constants, _ = choose(partial(make, "L1-M3N"), GRIDS["L1-M3N"], train, seed, candidates=candidates)
    exact = make("L1-M3N", constants, tol=FINAL_TOL, max_passes=FINAL_PASSES, random_state=seed).fit(train)
    radius = max(float(np.abs(exact.model_.weights).sum()), 1e-3)
    steps = Subgradient(online=True, average=False)
    return measure(
        L1M3N(radius=radius, solver=steps, max_passes=PROJECTED_PASSES, random_state=seed, tol=1e-9), train, test
    )


def cards(rows: list[Row]) -> list[Card]:
    tuned = select(rows, procedure=CROSS_VALIDATED)
    # the paper's procedure differs for three systems; the others are shared
    papers = select(rows, procedure=PAPER) + [row for row in tuned if row["system"] not in SYNTHETIC_GRIDS]
    units: dict[str, Any] = {"pair": ["draw", "relevant"], "within": ["train"]}
    if not tuned:
        return []
    fewest, most = min(distinct(tuned, "relevant")), max(distinct(tuned, "relevant"))
    smallest = min(distinct(tuned, "train"))
    margin = "(at most half a point worse)"
    conclusions = [
        compare("beats_m3n", "LapMEDN consistently outperforms M3N.", tuned, [("LapMEDN", "M3N")], better, **units,
                numbers=[*errors_by_type(tuned), comparison.unconverged(tuned), comparison.at_limit(tuned)]),
        compare("like_l1", f"LapMEDN performs comparably with L1-CRF and L1-M3N {margin}.", tuned,
                [("LapMEDN", "L1-CRF"), ("LapMEDN", "L1-M3N")], not_worse, **units),
        compare("regularised", "Regularised CRFs beat the unregularised one, above all with few training examples.",
                select(tuned, train=smallest), [("L1-CRF", "CRF"), ("L2-CRF", "CRF")], better,
                pair=["draw", "relevant"],
                numbers=[f"Tested at the smallest size, {smallest} chains. Over all sizes: "
                         + comparison.difference(tuned, "L2-CRF", "CRF", **units).text() + " for L2-CRF.",
                         comparison.stopping_rules(tuned)]),
        compare("m3n_like_l2crf", "M3N and L2-CRF perform comparably (within half a point).", tuned,
                [("M3N", "L2-CRF")], similar, **units),
        compare("l1_best_few", "With very few relevant features L1-M3N is best, slightly better than LapMEDN.",
                select(tuned, relevant=fewest), [("L1-M3N", s) for s in SYSTEMS if s != "L1-M3N"], better, **units,
                numbers=[f"Read as {fewest} relevant features of 100."]),
        compare("lap_best_many", "With more relevant features LapMEDN is slightly better than L1-M3N.",
                select(tuned, relevant=most), [("LapMEDN", "L1-M3N")], better, **units,
                numbers=[f"Read as {most} relevant features of 100."]),
        compare("projected", "Projected subgradient steps reach worse errors than the exact solution of L1-M3N.",
                rows, [("L1-M3N", PROJECTED)], better, **units),
    ]  # fmt: skip
    if select(papers, system="LapMEDN"):
        conclusions += [
            compare("beats_m3n_paper", f"LapMEDN after {ITERATIONS} iterations, lam up to 268 at C = 1, outperforms "
                    "M3N.", papers, [("LapMEDN", "M3N")], better, **units,
                    numbers=[*errors_by_type(papers), comparison.at_limit(select(rows, procedure=PAPER))]),
            compare("like_l1_paper", f"With the paper's procedure LapMEDN performs comparably with L1-CRF and L1-M3N "
                    f"{margin}.", papers, [("LapMEDN", "L1-CRF"), ("LapMEDN", "L1-M3N")], not_worse, **units),
        ]  # fmt: skip
    return conclusions


def errors_by_type(rows: list[Row]) -> list[str]:
    """Lines with the mean error of each system by the number of relevant features."""
    return [
        f"{relevant} relevant features, mean over training sizes: "
        + ", ".join(
            f"{s} {100 * np.mean(values(part, 'error')):.2f} %"
            for s in SYSTEMS
            if (part := select(rows, relevant=relevant, system=s))
        )
        for relevant in distinct(rows, "relevant")
    ]


def draw(figure: Any, rows: list[Row]) -> None:
    rows = select(rows, procedure=CROSS_VALIDATED)
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
    "Gibbs sweeps; 30 to 150 random training chains, the others to test. The paper's procedure: "
    f"{ITERATIONS} iterations of Algorithm 1 with lam from 20 values 1 to 268 at C = 1 (the C of the paper's "
    "sensitivity section), CRFs from {0.01, 0.1, 1, 4, 9, 16}. It gives no grid for M3N and L1-M3N. Projected "
    f"subgradient: {PROJECTED_PASSES} on-line passes in the L1 ball of the exact solution. " + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(10.5, 4.4),
)  # fmt: skip
