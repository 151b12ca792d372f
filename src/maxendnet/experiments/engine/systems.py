"""The six systems of the paper: construction, grids of constants, and measurement."""

from __future__ import annotations

import time
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Examples, LapMEDN
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.experiments.engine.experiment import Row
from maxendnet.experiments.engine.selection import (
    DECADE,
    SELECTION_TOL,
    Axis,
    Constants,
    FixedGrid,
    Grid,
    Make,
    choose,
)

SYSTEMS = ("LapMEDN", "M3N", "L1-M3N", "CRF", "L2-CRF", "L1-CRF")

FINAL_TOL = 1e-3
FINAL_PASSES = 3000
STOPPING_TOLS = (1e-1, 1e-2, 1e-4)
"""Further stopping rules of the unregularised CRF, which has no minimiser on separable data."""


def on_l1_path(lam: float, c: float) -> Constants:
    """Return the constants of LapMEDN on the path that tends to L1-M3N(c) as lam grows."""
    return {"lam": lam, "C": float(f"{2 * sqrt(lam) * c:.6g}")}


LAM = Axis("lam", -DECADE, DECADE, (-4 * DECADE, 3 * DECADE), sign=-1)
GRIDS: dict[str, Grid | FixedGrid] = {
    "LapMEDN": Grid(
        (Axis("c", -4, -1, (-9, 6)), Axis("lam", DECADE, 3 * DECADE, (0, 5 * DECADE), step=DECADE)), on_l1_path
    ),
    "M3N": Grid((Axis("C", -6, 0, (-15, 12)),)),
    "L1-M3N": Grid((Axis("C", -4, 0, (-12, 6)),)),
    "CRF": Grid(()),
    "L2-CRF": Grid((LAM,)),
    "L1-CRF": Grid((LAM,)),
}
"""The constants of a grid have no end: it is extended until its best candidate has neighbours on all sides."""

METHOD = (
    "LapMEDN(lam, C) is the fixed point of the paper's Algorithm 1, computed as the exact LapMEDN with 4 lam and 2 C, "
    "which has the same weights. Constants by 5-fold cross-validation inside the training examples, with fits to a "
    f"relative duality gap of {SELECTION_TOL:g}. Grids are extended until the best candidate has neighbours on all "
    "sides: "
    + "; ".join(f"{name} {grid.text()}" for name, grid in GRIDS.items() if isinstance(grid, Grid) and grid.axes)
    + "; for LapMEDN C = 2 sqrt(lam) c. Final fits stop at a relative duality gap of "
    f"{FINAL_TOL:g}, the CRF, which has none, when its gradient is {FINAL_TOL:g} of the first. Errors are shares of "
    "wrong labels."
)


def make(system: str, constants: Constants, **options: Any) -> MarkovNetwork:
    """Return an estimator for a system, with constants as in the paper."""
    if system == "LapMEDN":
        return LapMEDN(C=2 * constants["C"], lam=4 * constants["lam"], **options)
    kinds: dict[str, type] = {"M3N": M3N, "L1-M3N": L1M3N, "CRF": CRF, "L2-CRF": L2CRF, "L1-CRF": L1CRF}
    result: MarkovNetwork = kinds[system](**constants, **options)
    return result


def measure(model: MarkovNetwork, train: Examples, test: Examples, groups: np.ndarray | None = None) -> Row:
    """Fit a model and return errors, gap, passes, time and dual support.

    With ``groups``, the group of each test example, the wrong labels are also counted by group.
    """
    began = time.process_time()  # CPU time, which does not depend on the load of the machine
    model.fit(train)
    return evaluate(model, train, test, time.process_time() - began, groups)


def evaluate(
    model: MarkovNetwork, train: Examples, test: Examples, seconds: float, groups: np.ndarray | None = None
) -> Row:
    """Return the numbers of `measure` for a fitted model."""
    wrong = wrong_labels(model, test)
    numbers: Row = {
        "error": wrong.sum() / test.n_nodes,
        "chain_error": np.mean(wrong > 0),
        "training_error": 1.0 - model.score(train),
        "gap": model.gap_,
        "converged": bool(model.converged_),
        "passes": model.n_passes_,
        "share_large": np.mean(np.abs(model.posterior_.mean) > 1e-3),
        "fit_seconds": seconds,
    }
    if hasattr(model, "n_support_"):
        numbers |= {
            "support_labellings": model.n_support_,
            "support_examples": sum(bool(labellings) for labellings in model.support_) / len(train),
        }
    if groups is not None:
        numbers |= {
            "group_wrong": np.bincount(groups, wrong).astype(int),
            "group_labels": np.bincount(groups, np.diff(test.offsets)).astype(int),
        }
    return numbers


def wrong_labels(model: MarkovNetwork, test: Examples) -> np.ndarray:
    """Return the number of wrong labels of each example."""
    truth = test.split(np.asarray(test.y))
    return np.array([np.sum(np.asarray(p) != t) for p, t in zip(model.predict(test), truth)], dtype=float)


def choose_and_measure(
    system: str, train: Examples, test: Examples, seed: int, *, candidates: int | None = None,
    groups: np.ndarray | None = None,
) -> Row:  # fmt: skip
    """Choose constants by cross-validation, then fit all training examples."""
    build = partial(make, system)
    numbers = tune_and_measure(build, GRIDS[system], train, test, seed, candidates=candidates, groups=groups)
    if system == "CRF":
        numbers["stopping_errors"] = stopping_errors(train, test, seed)
    return numbers


def tune_and_measure(
    build: Make, grid: Grid | FixedGrid, train: Examples, test: Examples, seed: int, *, candidates: int | None = None,
    groups: np.ndarray | None = None,
) -> Row:  # fmt: skip
    """Choose constants of any model on a grid, then fit all training examples."""
    constants, about = choose(build, grid, train, seed, candidates=candidates)
    model = build(constants, tol=FINAL_TOL, max_passes=FINAL_PASSES, random_state=seed)
    chosen = {"chosen_" + name: value for name, value in constants.items()}
    return chosen | about | measure(model, train, test, groups)


def stopping_errors(train: Examples, test: Examples, seed: int) -> list[float]:
    """Return the error of the unregularised CRF by the tolerances `STOPPING_TOLS`."""
    models = [CRF(tol=tol, max_passes=FINAL_PASSES, random_state=seed) for tol in STOPPING_TOLS]
    return [1.0 - model.fit(train).score(test) for model in models]
