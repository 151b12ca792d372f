"""The procedures of the paper: three iterations of Algorithm 1, its grids and its subgradient steps.

The paper does not give the number of subgradient steps, the constants of the exponentiated gradient method, or the
radius of the L1 ball on real data. Our choices are constants of this module.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxendnet import L1M3N, M3N, Examples, Gaussian, LapMEDN, MaxEnDNet
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.experiments.engine.experiment import Row
from maxendnet.experiments.engine.selection import Constants, FixedGrid, thin_grid
from maxendnet.experiments.engine.systems import evaluate, make
from maxendnet.solvers import Subgradient

ITERATIONS = 3
"""Iterations of Algorithm 1."""
PASSES = 10
"""Passes of the on-line subgradient method."""
OCR_LAM = 36.0
OCR_RADIUS = 289.0
"""Middle of the radii in the paper's figure on regularisation constants."""
ONLINE_LAM_GRID = [64.0, 49.0, 36.0, 25.0, 16.0, 9.0]
BETA_GRID = [1.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
LAM_GRID = np.linspace(268, 1, 20).round().tolist()
CRF_GRID = [16.0, 9.0, 4.0, 1.0, 0.1, 0.01]
SYNTHETIC_GRIDS: dict[str, FixedGrid] = {
    "LapMEDN": FixedGrid([{"lam": lam, "C": 1.0} for lam in LAM_GRID]),
    "L2-CRF": FixedGrid([{"lam": lam} for lam in CRF_GRID]),
    "L1-CRF": FixedGrid([{"lam": lam} for lam in CRF_GRID]),
}


def synthetic_model(system: str, constants: Constants, **options: Any) -> MarkovNetwork:
    """Return a model of the i.i.d. experiment: for LapMEDN three iterations of Algorithm 1.

    The paper solves the first step of an iteration, a convex problem, by exponentiated gradient. The default solver
    reaches the same weights in less time.
    """
    if system == "LapMEDN":
        options |= constants
        return LapMEDN(method="variational", iterations=ITERATIONS, **options)
    return make(system, constants, **options)


def ocr_beta(words: int | None) -> float:
    """Return beta of the paper: 4 for OCR100 and OCR150, 2 for OCR200 and OCR250."""
    return 4.0 if words is not None and words <= 150 else 2.0


def measure_ocr(
    system: str, words: int | None, train: Examples, test: Examples, seed: int, groups: np.ndarray | None = None
) -> Row:
    """Fit LapMEDN, M3N or L1-M3N on OCR words, and return the numbers of `measure`."""
    return measure_online(system, {"lam": OCR_LAM, "beta": ocr_beta(words)}, train, test, seed, groups)


def measure_online(
    system: str, constants: Constants, train: Examples, test: Examples, seed: int, groups: np.ndarray | None = None
) -> Row:
    """Fit a model by on-line steps, and return the numbers of `measure`."""
    began = time.process_time()
    model = fit_online(system, constants, train, seed)
    return evaluate(model, train, test, time.process_time() - began, groups)


def fit_online(system: str, constants: Constants, train: Examples, seed: int) -> MarkovNetwork:
    """Fit LapMEDN, M3N or L1-M3N with ``C = 200 beta`` and on-line steps of size ``1 / (2 beta sqrt(t))``.

    L1-M3N projects onto an L1 ball. All predict with the weights after the last step.
    """
    beta = constants["beta"]
    steps = Subgradient(beta=beta, online=True, average=False)
    options: dict[str, Any] = {"C": 200 * beta, "max_passes": PASSES, "random_state": seed, "solver": steps}
    if system == "LapMEDN":
        return algorithm_1(constants["lam"], train, **options)
    model = M3N(**options) if system == "M3N" else L1M3N(radius=OCR_RADIUS, **options)
    return model.fit(train)


def tune_online(system: str, train: Examples, seed: int, *, parts: int = 5, candidates: int | None = None) -> Constants:
    """Choose beta, and lam of LapMEDN, from the grids of the paper by cross-validation within the training examples."""
    lams = ONLINE_LAM_GRID if system == "LapMEDN" else [0.0]
    points: list[Constants] = thin_grid([{"lam": lam, "beta": beta} for lam in lams for beta in BETA_GRID], candidates)
    part = np.random.default_rng(seed).permutation(len(train)) % parts
    wrong = [
        sum(
            (1.0 - fit_online(system, point, train[part != k], seed).score(train[part == k])) * train[part == k].n_nodes
            for k in range(parts)
        )
        for point in points
    ]
    return points[int(np.argmin(wrong))]


def algorithm_1(lam: float, train: Examples, **options: Any) -> MarkovNetwork:
    """Run the iterations of Algorithm 1 with a fixed number of subgradient steps each.

    ``LapMEDN(method="variational")`` instead solves the first step of each iteration to a tolerance.
    """
    model = MaxEnDNet(prior=Gaussian(), **options).fit(train)
    variance = np.ones(len(model.posterior_.mean))
    for _ in range(ITERATIONS - 1):
        variance = np.sqrt((model.posterior_.mean**2 + variance) / lam)
        model = MaxEnDNet(prior=Gaussian(variance), **options).fit(train)
    return model
