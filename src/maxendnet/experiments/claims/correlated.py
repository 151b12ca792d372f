"""Claim: the ranking of the systems is the same with correlated inputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxendnet import Examples
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.experiments.claims.iid import CROSS_VALIDATED, PAPER
from maxendnet.experiments.engine import comparison, figures, statistics
from maxendnet.experiments.engine.comparison import better, compare, not_worse, similar
from maxendnet.experiments.engine.data import Chains, best_labels, chains
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN, Card, Experiment, Row, Settings
from maxendnet.experiments.engine.paper_procedure import BETA_GRID, ONLINE_LAM_GRID, PASSES, measure_online, tune_online
from maxendnet.experiments.engine.selection import Choice, choose
from maxendnet.experiments.engine.statistics import paired
from maxendnet.experiments.engine.systems import (
    FINAL_PASSES,
    FINAL_TOL,
    GRIDS,
    METHOD,
    SYSTEMS,
    make,
    measure,
)
from maxendnet.experiments.engine.table import distinct, select, values

SIZES: dict[str, dict[str, Any]] = {
    "full": {"draws": 10, "K": [20, 10, 7, 5, 4], "samples": 1000, "parts": None, "candidates": None},
    "quick": {"draws": 2, "K": [10, 4], "samples": 200, "parts": 2, "candidates": 2},
    "tiny": {"draws": 1, "K": [4], "samples": 80, "parts": 1, "candidates": 1},
}


GENERATOR = "generating model"
VARIANTS = [
    *((system, CROSS_VALIDATED) for system in SYSTEMS), ("LapMEDN", PAPER), ("M3N", PAPER), (GENERATOR, ""),
]  # fmt: skip
"""Systems with their procedures; the paper's are on-line subgradient steps with beta and lam from its grids."""


def cells(scale: str) -> list[Settings]:
    s = SIZES[scale]
    return [
        {"draw": draw, "K": K, "train": s["samples"] // K, "system": system, "procedure": procedure,
         "samples": s["samples"], "parts": s["parts"], "candidates": s["candidates"]}
        for draw in range(s["draws"]) for K in s["K"] for system, procedure in VARIANTS
        if system != GENERATOR or s["K"][0] == K
    ]  # fmt: skip


class Folds(NamedTuple):
    """A data set, the chosen constants, and for each fold a model with its training and test examples."""

    draw: Chains
    choice: Choice
    fits: list[tuple[MarkovNetwork, Examples, Examples]]


def one_part_folds(settings: Settings, seed: int, n_folds: int) -> Folds:
    """Return folds that train on one of K parts and test on the others.

    Constants are chosen by 5-fold cross-validation on additional chains, as many as a part contains.
    """
    system = settings["system"]
    drawn, extra, parts = parts_and_extra(settings, seed, n_folds)
    choice = choose(partial(make, system), GRIDS[system], extra, seed, candidates=settings["candidates"])
    options = {"tol": FINAL_TOL, "max_passes": FINAL_PASSES, "random_state": seed}
    fits = [(make(system, choice.constants, **options), train, test) for train, test in parts]
    return Folds(drawn, choice, fits)


def parts_and_extra(
    settings: Settings, seed: int, n_folds: int
) -> tuple[Chains, Examples, list[tuple[Examples, Examples]]]:
    """Return the data set, additional chains for the choice of constants, and training and test examples by fold."""
    n = settings["samples"]
    drawn = chains(seed, settings["draw"], n + n // settings["K"], 30, correlated=True)
    examples, extra = drawn.examples[:n], drawn.examples[n:]
    part = np.random.default_rng([seed, settings["draw"], 2]).permutation(n) % settings["K"]
    parts = [(examples[part == k], examples[part != k]) for k in range(n_folds)]
    return drawn._replace(examples=examples), extra, parts


def generating_error(drawn: Chains, test: Examples) -> Row:
    """Return the errors of the CRF that generated the labels, with its best labelling of each chain."""
    truth = test.split(np.asarray(test.y))
    wrong = np.array([np.sum(best != true) for best, true in zip(best_labels(drawn, test), truth)])
    return {"error": wrong.sum() / test.n_nodes, "chain_error": np.mean(wrong > 0), "gap": 0.0, "converged": True}


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    if settings["system"] == GENERATOR:
        drawn = chains(seed, settings["draw"], settings["samples"], 30, correlated=True)
        return generating_error(drawn, drawn.examples)
    n_folds = settings["parts"] or settings["K"]
    about: Row = {}
    if settings["procedure"] == PAPER:
        _, extra, parts = parts_and_extra(settings, seed, n_folds)
        constants = tune_online(settings["system"], extra, seed, candidates=settings["candidates"])
        fits = [measure_online(settings["system"], constants, *fold, seed) for fold in parts]
    else:
        _, (constants, about), folds = one_part_folds(settings, seed, n_folds)
        fits = [measure(*fold) for fold in folds]
    means = {name: np.mean([fit[name] for fit in fits]) for name in fits[0] if name not in ("converged", "gap")}
    chosen = {"chosen_" + name: value for name, value in constants.items()}
    worst = {"converged": all(fit["converged"] for fit in fits), "gap": max(fit["gap"] for fit in fits)}
    return chosen | about | means | worst | {"errors": [fit["error"] for fit in fits]}


def cards(rows: list[Row]) -> list[Card]:
    papers, generator = select(rows, procedure=PAPER), select(rows, system=GENERATOR)
    rows = select(rows, procedure=CROSS_VALIDATED)
    units: dict[str, Any] = {"pair": ["draw"], "within": ["K"]}
    conclusions = [
        compare("beats_m3n", "With correlated inputs too, LapMEDN outperforms M3N.", rows, [("LapMEDN", "M3N")],
                better, **units, numbers=[*comparison.errors(rows, SYSTEMS, "train"), comparison.unconverged(rows),
                         comparison.at_limit(rows)]),
        compare("like_l1", "LapMEDN performs comparably with L1-CRF and L1-M3N (at most half a point worse).",
                rows, [("LapMEDN", "L1-CRF"), ("LapMEDN", "L1-M3N")], not_worse, **units),
        compare("regularised", "Regularised CRFs beat the unregularised one.", rows,
                [("L1-CRF", "CRF"), ("L2-CRF", "CRF")], better, **units),
        compare("m3n_like_l2crf", "M3N and L2-CRF perform comparably (within half a point).", rows,
                [("M3N", "L2-CRF")], similar, **units),
    ]  # fmt: skip
    if papers:
        conclusions.append(
            compare("beats_m3n_paper", "With the paper's on-line steps and grids too, LapMEDN outperforms M3N.", papers,
                    [("LapMEDN", "M3N")], better, **units, numbers=comparison.errors(papers, SYSTEMS, "train"))
        )  # fmt: skip
    if generator:
        share = paired(values(generator, "chain_error"))
        conclusions.append(
            Card("generator", "The error of the generating model is about 0.5 (read: 0.4 to 0.6 of whole chains).",
                 HOLDS if share.low > 0.4 and share.high < 0.6 else FAILS if share.n and not 0.4 < share.mean < 0.6
                 else OPEN, [statistics.estimate("share of chains", share, 1.0)], "of 1",
                 numbers=[f"Wrong labels of nodes: {np.mean(values(generator, 'error')):.3f}. Labels drawn from the "
                          "CRF differ from its best labelling in about half of the chains, but at few nodes."],
                 test=f"Interval over {share.n} random CRFs.")
        )  # fmt: skip
    return conclusions


def draw(figure: Any, rows: list[Row]) -> None:
    rows = select(rows, procedure=CROSS_VALIDATED)
    axis = figure.subplots()
    sizes = sorted(distinct(rows, "train"))
    for k, system in enumerate(SYSTEMS):
        groups = [100 * values(select(rows, train=n, system=system), "error") for n in sizes]
        figures.curve(axis, sizes, groups, system, k, shift=1.2 * (k - 2.5))
    axis.set(xlabel="training chains", ylabel="wrong labels on new chains, %",
             title="30 of 100 features relevant, in groups of three correlated copies")  # fmt: skip
    figures.legend(figure, axis, 3)


EXPERIMENT = Experiment(
    name="correlated",
    title="Does the ranking stay when inputs are correlated?",
    paper="Section 7.1.2, figure of the six systems with 30 relevant features",
    method="10 random CRFs, 1,000 chains each, 30 relevant of 100 inputs in 10 groups of 3 (a standard normal number "
    "plus noise of standard deviation 0.05). K-fold with one part to train on and K - 1 to test, K = 20, 10, 7, 5, "
    "4; a cell averages the K runs. Constants are chosen in further chains of the same CRF, as many as a training part "
    "has, so that no test chain takes part. Generating model: the best labelling under the CRF from which labels "
    "were drawn. The paper's procedure: C = 200 beta, "
    f"{PASSES} passes of on-line subgradient steps 1/(2 beta sqrt t), beta from {BETA_GRID}, for LapMEDN three "
    f"iterations of Algorithm 1 with lam from {ONLINE_LAM_GRID}, by cross-validation. " + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(7.0, 4.6),
)  # fmt: skip
