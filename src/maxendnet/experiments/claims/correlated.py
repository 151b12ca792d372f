"""Claim: the ranking of the systems is the same with correlated inputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxendnet import Examples
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.experiments.engine import comparison, figures, statistics
from maxendnet.experiments.engine.comparison import better, compare, not_worse, similar
from maxendnet.experiments.engine.data import Chains, best_labels, chains
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN, Card, Experiment, Row, Settings
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


def cells(scale: str) -> list[Settings]:
    s = SIZES[scale]
    return [
        {"draw": draw, "K": K, "train": s["samples"] // K, "system": system, "samples": s["samples"],
         "parts": s["parts"], "candidates": s["candidates"]}
        for draw in range(s["draws"]) for K in s["K"] for system in [*SYSTEMS, *[GENERATOR] * (s["K"][0] == K)]
    ]  # fmt: skip


GENERATOR = "generating model"


class Folds(NamedTuple):
    """A data set, the chosen constants, and for each fold a model with its training and test examples."""

    draw: Chains
    choice: Choice
    fits: list[tuple[MarkovNetwork, Examples, Examples]]


def one_part_folds(settings: Settings, seed: int, n_folds: int) -> Folds:
    """Return folds that train on one of K parts and test on the others.

    Constants are chosen by 5-fold cross-validation on additional chains, as many as a part contains.
    """
    n, system = settings["samples"], settings["system"]
    drawn = chains(seed, settings["draw"], n + n // settings["K"], 30, correlated=True)
    examples, extra = drawn.examples[:n], drawn.examples[n:]
    choice = choose(partial(make, system), GRIDS[system], extra, seed, candidates=settings["candidates"])
    part = np.random.default_rng([seed, settings["draw"], 2]).permutation(n) % settings["K"]
    options = {"tol": FINAL_TOL, "max_passes": FINAL_PASSES, "random_state": seed}
    models = [make(system, choice.constants, **options) for _ in range(n_folds)]
    fits = [(model, examples[part == k], examples[part != k]) for k, model in enumerate(models)]
    return Folds(drawn._replace(examples=examples), choice, fits)


def generating_error(drawn: Chains, test: Examples) -> Row:
    """Return the errors of the CRF that generated the labels, with its best labelling of each chain."""
    truth = test.split(np.asarray(test.y))
    wrong = np.array([np.sum(best != true) for best, true in zip(best_labels(drawn, test), truth)])
    return {"error": wrong.sum() / test.n_nodes, "chain_error": np.mean(wrong > 0), "gap": 0.0, "converged": True}


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    if settings["system"] == GENERATOR:
        drawn = chains(seed, settings["draw"], settings["samples"], 30, correlated=True)
        return generating_error(drawn, drawn.examples)
    _, (constants, about), folds = one_part_folds(settings, seed, settings["parts"] or settings["K"])
    fits = [measure(*fold) for fold in folds]
    means = {name: np.mean([fit[name] for fit in fits]) for name in fits[0] if name not in ("converged", "gap")}
    chosen = {"chosen_" + name: value for name, value in constants.items()}
    worst = {"converged": all(fit["converged"] for fit in fits), "gap": max(fit["gap"] for fit in fits)}
    return chosen | about | means | worst | {"errors": [fit["error"] for fit in fits]}


def cards(rows: list[Row]) -> list[Card]:
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
    generator = select(rows, system=GENERATOR)
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
    "were drawn. The paper's C = 200 beta is so large that every exact solution is the "
    "hard-margin one; it matters for its subgradient steps alone. " + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(7.0, 4.6),
)  # fmt: skip
