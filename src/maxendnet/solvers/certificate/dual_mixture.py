"""Best mixture of dual points, which gives a better bound than each point alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxendnet.priors import Laplace
from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray


class DualPoint(NamedTuple):
    """``eta = sum alpha df`` and ``cost = sum alpha l`` of a dual point. Mixtures of dual points are dual points."""

    eta: FloatArray
    cost: float


def best_mixture(prior: Any, points: tuple[DualPoint, ...], accuracy: float = 1e-4, rounds: int = 60) -> DualPoint:
    """Maximise ``s . cost - cumulant(s . eta)`` over shares s on the simplex, to the relative ``accuracy``.

    Uses Newton's method with a decreasing logarithmic barrier for ``s >= 0``. The first point must be in the domain of
    the cumulant, and the mixture is never worse than this point.

    Examples
    --------
    >>> from maxendnet.priors import Gaussian
    >>> points = (DualPoint(np.array([2.0, 0.0]), 1.0), DualPoint(np.array([0.0, 2.0]), 1.0))
    >>> best_mixture(Gaussian(), points).eta.round(3)
    array([1., 1.])
    """
    etas, costs = np.array([point.eta for point in points]), np.array([point.cost for point in points])
    n, curvature_at = len(points), curvature_of(prior, etas)

    def value(shares: FloatArray) -> float:
        return float(float(shares @ costs) - prior.cumulant(shares @ etas))

    first = points[0].cost - prior.cumulant(points[0].eta)
    shares = near_the_first(value, n)
    if not np.isfinite(value(shares)):
        return points[0]
    scale = max(abs(first), float(np.abs(costs).max()), np.finfo(float).tiny)
    barrier, last = 1e-2 * scale / n, accuracy * scale / n
    for _ in range(rounds):
        eta = shares @ etas
        slope = costs - etas @ prior.mean(eta) + barrier / shares
        direction = newton_direction(slope, curvature_at(eta), barrier / shares**2)
        gain = float(slope @ direction)
        size = step_inside(lambda s: value(s) + barrier * np.log(s).sum(), shares, direction, gain)  # noqa: B023
        shares = shares + size * direction
        if gain * (size > 0) <= 0.5 * n * barrier:
            if barrier <= last:
                break
            barrier = max(0.1 * barrier, last)
    shares /= shares.sum()
    return DualPoint(shares @ etas, float(shares @ costs)) if value(shares) > first else points[0]


def best_inside(rho: float, points: tuple[DualPoint, ...], price: float) -> DualPoint:
    """Return the mixture with the largest cost among those with all ``|eta_k| < rho``.

    The bounds are enforced by a logarithmic barrier, which is the cumulant of a Laplace prior. The cost falls short of
    the largest one by about ``price`` for each ``eta_k`` near its bound. The first point must meet the bounds.

    Examples
    --------
    >>> points = (DualPoint(np.zeros(1), 0.0), DualPoint(np.ones(1), 4.0))
    >>> round(best_inside(0.5, points, price=1e-3).cost, 2)
    2.0
    """
    mixture = best_mixture(Laplace(rho**2), tuple(DualPoint(eta, cost / price) for eta, cost in points))
    return DualPoint(mixture.eta, mixture.cost * price)


def share_inside(rho: float, eta: FloatArray) -> float:
    """Return the largest factor of a dual point, at most 1, for which all ``|eta_k| <= rho``."""
    largest = float(np.abs(eta).max(initial=0.0))
    return min(1.0, rho / largest) if largest > 0 else 1.0


def l1_dual_value(prior: Any, eta: FloatArray, cost: float) -> float:
    """Return the dual value of a dual point under an L1 penalty or in an L1 ball.

    Under a penalty the point is first scaled until it meets the bounds.
    """
    if offers(prior, "l1_ball"):
        return float(max(cost - capable(prior, "l1_ball").radius * float(np.abs(eta).max(initial=0.0)), 0.0))
    return cost * share_inside(capable(prior, "l1").rho, eta)


def curvature_of(prior: Any, etas: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function that maps eta to the second derivatives of the cumulant by the shares of the points."""
    if not offers(prior, "gram"):
        return lambda eta: (etas * prior.variance(eta)) @ etas.T
    zero = prior.mean(np.zeros(etas.shape[1]))
    fixed = etas @ np.array([prior.mean(eta) - zero for eta in etas]).T
    return lambda eta: fixed


def near_the_first(value: Callable[[FloatArray], float], n: int) -> FloatArray:
    """Return positive shares in the domain, as even as possible, with at least half for the first point."""
    even, rest = np.full(n, 1.0 / n), np.eye(n)[0]
    for k in range(1, 1000):
        shares: FloatArray = rest + 0.5**k * (even - rest)
        if np.isfinite(value(shares)):
            break
    return shares


def newton_direction(slope: FloatArray, curvature: FloatArray, added: FloatArray) -> FloatArray:
    """Return the Newton direction among those whose entries add up to 0."""
    hessian = curvature + np.diag(added)
    unit = np.sqrt(np.diag(hessian))
    scaled = hessian / np.outer(unit, unit) + 1e-12 * np.eye(len(unit))
    free, even = (np.linalg.solve(scaled, np.stack([slope, np.ones(len(slope))], axis=1) / unit[:, None]).T) / unit
    values: FloatArray = free - even * (free.sum() / even.sum())
    return values


def step_inside(value: Callable[[FloatArray], float], at: FloatArray, direction: FloatArray, gain: float) -> float:
    """Return a step size that keeps all entries positive and increases the value enough, or 0 if there is none."""
    falling = direction < 0
    size = min(1.0, 0.99 * float(np.min(at[falling] / -direction[falling], initial=np.inf)))
    now = value(at)
    for _ in range(40):
        new = value(at + size * direction)
        if np.isfinite(new) and new >= now + 1e-4 * size * gain:
            return size
        size *= 0.5
    return 0.0
