"""The six systems of the paper: how they are made from their constants, and how constants are chosen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Examples, LapMEDN
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.experiments.engine.experiment import Row

SYSTEMS = ("LapMEDN", "M3N", "L1-M3N", "CRF", "L2-CRF", "L1-CRF")
Constants = dict[str, float]

SELECTION_TOL = 1e-2
"""Relative duality gap at which candidates are compared: beyond it held-out errors hardly change."""
SELECTION_PASSES = 150
FINAL_TOL = 1e-3
FINAL_PASSES = 500

METHOD = (
    "LapMEDN(lam, C) stands for the fixed point of the paper's Algorithm 1; it is computed as the exact LapMEDN with "
    f"4 lam and 2 C, which has the same weights. Final fits stop at a relative duality gap of {FINAL_TOL:g} or after "
    f"{FINAL_PASSES} passes (every cell records which), candidates in cross-validation at {SELECTION_TOL:g} or after "
    f"{SELECTION_PASSES}. Errors are shares of wrong nodes."
)


def make(system: str, constants: Constants, **options: Any) -> MarkovNetwork:
    """A system with its constants in the paper's terms."""
    if system == "LapMEDN":
        return LapMEDN(C=2 * constants["C"], lam=4 * constants["lam"], **options)
    kinds: dict[str, type] = {"M3N": M3N, "L1-M3N": L1M3N, "CRF": CRF, "L2-CRF": L2CRF, "L1-CRF": L1CRF}
    return kinds[system](**constants, **options)


def measure(model: MarkovNetwork, train: Examples, test: Examples) -> Row:
    """Fit, and what is recorded of every fit."""
    began = time.process_time()  # of the processor: other work on the machine does not count
    model.fit(train)
    seconds = time.process_time() - began
    return {
        "error": 1.0 - model.score(test),
        "training_error": 1.0 - model.score(train),
        "gap": model.gap_,
        "converged": bool(model.converged_),
        "passes": model.n_passes_,
        "share_large": float(np.mean(np.abs(model.posterior_.mean) > 1e-3)),
        "fit_seconds": seconds,
    }


def choose(
    system: str, grid: Sequence[Constants], train: Examples, seed: int, parts: int = 5, used: int | None = None
) -> Constants:
    """The constants with the least error in cross-validation inside the training examples.

    Parameters
    ----------
    system : str
    grid : sequence of dict
        Of several with the same error the first is taken: give those that regularise most first.
    train : Examples
    seed : int
    parts : int
        Number of parts the training examples are cut into, at random.
    used : int or None
        How many of the parts are held out in turn; None is all.
    """
    if len(grid) == 1:
        return grid[0]
    part = np.random.default_rng(seed).permutation(len(train)) % parts
    wrong = np.zeros(len(grid))
    for k in range(parts if used is None else used):
        inside, outside = train[part != k], train[part == k]
        for j, constants in enumerate(grid):
            options = {"tol": SELECTION_TOL, "max_passes": SELECTION_PASSES, "random_state": seed}
            model = make(system, constants, **options).fit(inside)
            wrong[j] += (1.0 - model.score(outside)) * outside.n_nodes
    return grid[int(np.argmin(wrong))]


def choose_and_measure(
    system: str, grid: Sequence[Constants], train: Examples, test: Examples, seed: int, parts: int = 5,
    used: int | None = None,
) -> Row:  # fmt: skip
    """Constants by cross-validation, then a fit on all training examples."""
    constants = choose(system, grid, train, seed, parts, used)
    model = make(system, constants, tol=FINAL_TOL, max_passes=FINAL_PASSES, random_state=seed)
    return {"chosen_" + name: value for name, value in constants.items()} | measure(model, train, test)


def some_of(grid: Sequence[Any], n: int | None) -> list[Any]:
    """``n`` candidates evenly out of a grid, for quick runs; None is all.

    >>> some_of([1, 2, 3, 4, 5, 6], 2), some_of([1, 2, 3], 1)
    ([2, 5], [2])
    """
    if n is None or n >= len(grid):
        return list(grid)
    return [grid[int((k + 0.5) * len(grid) / n)] for k in range(n)]


def grid_of(name: str, candidates: Sequence[float], **fixed: float) -> list[Constants]:
    """Candidates of one constant beside fixed others."""
    return [{name: value, **fixed} for value in candidates]
