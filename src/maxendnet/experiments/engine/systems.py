"""The six systems of the paper: construction, measurement, and choice of constants."""

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
"""Relative duality gap of fits in cross-validation; smaller gaps hardly change held-out errors."""
SELECTION_PASSES = 150
FINAL_TOL = 1e-3
FINAL_PASSES = 500

METHOD = (
    "LapMEDN(lam, C) is the fixed point of the paper's Algorithm 1, computed as the exact LapMEDN with 4 lam and 2 C, "
    f"which has the same weights. Final fits stop at a relative duality gap of {FINAL_TOL:g} or after "
    f"{FINAL_PASSES} passes (every cell records which), candidates in cross-validation at {SELECTION_TOL:g} or after "
    f"{SELECTION_PASSES}. Errors are shares of wrong labels."
)


def make(system: str, constants: Constants, **options: Any) -> MarkovNetwork:
    """Return an estimator for a system, with constants as in the paper."""
    if system == "LapMEDN":
        return LapMEDN(C=2 * constants["C"], lam=4 * constants["lam"], **options)
    kinds: dict[str, type] = {"M3N": M3N, "L1-M3N": L1M3N, "CRF": CRF, "L2-CRF": L2CRF, "L1-CRF": L1CRF}
    result: MarkovNetwork = kinds[system](**constants, **options)
    return result


def measure(model: MarkovNetwork, train: Examples, test: Examples) -> Row:
    """Fit a model and return errors, gap, passes and time."""
    began = time.process_time()  # CPU time, which does not depend on the load of the machine
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
    """Choose constants by cross-validation within the training examples.

    Parameters
    ----------
    system : str
    grid : sequence of dict
        Candidates in order of decreasing regularisation; the first one wins ties.
    train : Examples
    seed : int
    parts : int
        Number of random folds.
    used : int or None
        Number of folds that are held out in turn; None for all.
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
    """Choose constants by cross-validation, then fit all training examples."""
    constants = choose(system, grid, train, seed, parts, used)
    model = make(system, constants, tol=FINAL_TOL, max_passes=FINAL_PASSES, random_state=seed)
    return {"chosen_" + name: value for name, value in constants.items()} | measure(model, train, test)


def thin_grid(grid: Sequence[Any], n: int | None) -> list[Any]:
    """Return ``n`` evenly spaced candidates of a grid, for quick runs; None for all.

    >>> thin_grid([1, 2, 3, 4, 5, 6], 2), thin_grid([1, 2, 3], 1)
    ([2, 5], [2])
    """
    if n is None or n >= len(grid):
        return list(grid)
    return [grid[int((k + 0.5) * len(grid) / n)] for k in range(n)]


def grid_of(name: str, candidates: Sequence[float], **fixed: float) -> list[Constants]:
    """Return a grid over one constant, with the others fixed."""
    return [{name: value, **fixed} for value in candidates]
