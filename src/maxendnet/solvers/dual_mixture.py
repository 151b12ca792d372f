"""The best mixture of dual points: what a sequence of them proves together is more than each alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxendnet.problem import FloatArray
from maxendnet.solvers.subgradient import best_step


class DualPoint(NamedTuple):
    """``eta = sum alpha df`` and ``cost = sum alpha l`` of a dual point. Mixtures of dual points are dual points."""

    eta: FloatArray
    cost: float


def best_mixture(prior: Any, points: tuple[DualPoint, ...], rounds: int = 3) -> DualPoint:
    """Shares s on the simplex for which ``s . cost - cumulant(s . eta)`` is large; never worse than the first point.

    Newton's method: in every round the cumulant is replaced by its second-order model, whose best shares are found by
    steps between two points, and the step towards them has the best length. The first point must be in the domain.

    Examples
    --------
    >>> from maxendnet.priors import Gaussian
    >>> points = (DualPoint(np.array([2.0, 0.0]), 1.0), DualPoint(np.array([0.0, 2.0]), 1.0))
    >>> best_mixture(Gaussian(), points).eta
    array([1., 1.])
    """
    etas, costs = np.array([point.eta for point in points]), np.array([point.cost for point in points])
    shares = np.zeros(len(points))
    shares[0] = 1.0
    for _ in range(rounds):
        eta = shares @ etas
        gradient = costs - etas @ prior.mean(eta)
        curvature = (etas * prior.variance(eta)) @ etas.T
        goal = on_simplex(gradient, curvature, shares)
        size = best_step(prior, eta, (goal - shares) @ etas, float((goal - shares) @ costs))
        if not size > 0:
            break
        shares = shares + size * (goal - shares)
    return DualPoint(shares @ etas, float(shares @ costs))


def on_simplex(gradient: FloatArray, curvature: FloatArray, start: FloatArray, n_steps: int = 200) -> FloatArray:
    """Where ``gradient . d - d . curvature . d / 2`` with ``d = s - start`` is about largest for s on the simplex."""
    shares, slope, first_gain = start.copy(), gradient.copy(), 0.0
    for _ in range(n_steps):
        best = int(np.argmax(slope))
        worst = int(np.argmin(np.where(shares > 0, slope, np.inf)))
        gain = slope[best] - slope[worst]
        first_gain = max(first_gain, gain)
        if not gain > max(1e-2 * first_gain, 1e-12 * np.abs(gradient).max(initial=0.0)):
            break
        curve = curvature[best, best] + curvature[worst, worst] - 2 * curvature[best, worst]
        size = min(shares[worst], gain / curve) if curve > 0 else shares[worst]
        shares[best] += size
        shares[worst] = 0.0 if size == shares[worst] else shares[worst] - size
        slope -= size * (curvature[best] - curvature[worst])
    return shares
