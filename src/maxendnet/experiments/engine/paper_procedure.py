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
from maxendnet.experiments.engine.selection import Constants, FixedGrid
from maxendnet.experiments.engine.systems import evaluate, make, measure
from maxendnet.solvers import Subgradient

ITERATIONS = 3
"""Iterations of Algorithm 1."""
PASSES = 10
"""Passes of the on-line subgradient method."""
OCR_LAM = 36.0
OCR_RADIUS = 289.0
"""Middle of the radii in the paper's figure on regularisation constants."""
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
    """Fit LapMEDN, M3N or L1-M3N with ``C = 200 beta`` and on-line steps of size ``1 / (2 beta sqrt(t))``.

    L1-M3N projects onto an L1 ball. All predict with the weights after the last step.
    """
    beta = ocr_beta(words)
    steps = Subgradient(beta=beta, online=True, average=False)
    options: dict[str, Any] = {"C": 200 * beta, "max_passes": PASSES, "random_state": seed, "solver": steps}
    if system == "L1-M3N":
        return measure(L1M3N(radius=OCR_RADIUS, **options), train, test, groups)
    if system == "M3N":
        return measure(M3N(**options), train, test, groups)
    began = time.process_time()
    model = algorithm_1(OCR_LAM, train, **options)
    return evaluate(model, train, test, time.process_time() - began, groups)


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
