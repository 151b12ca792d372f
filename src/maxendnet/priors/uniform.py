"""Uniform prior on a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, increasing_root, quiet, require_positive, strictly_inside, total


@dataclass(eq=False, repr=False)
class Uniform(Piece):
    """Independent uniform prior on ``[-a, a]``, with variance ``a^2 / 3``.

    ``phi(eta) = log(sinh(a eta) / (a eta))``, and the posterior mean is ``a coth(a eta) - 1 / eta``. The penalty is
    finite for ``|mu| < a``. It has no closed form, and is computed by inverting the mean.

    Parameters
    ----------
    a : float, default=1.0
        Half the width of the interval.

    Examples
    --------
    >>> prior = Uniform(a=2.0)
    >>> prior.mean([0.0, 1e300]).tolist(), prior.penalty([2.0])
    ([0.0, 1.9999999999999998], inf)
    >>> prior.gradient(prior.mean([0.7])).round(9).tolist()
    [0.7]
    """

    a: float = 1.0

    def check(self) -> None:
        require_positive(self, "a is half the width of the interval of a weight.", a=self.a)

    @quiet
    def cumulant(self, eta: FloatArray) -> float:
        z = np.abs(self.a * np.asarray(eta, dtype=float))
        return total(_log_sinhc(z), outside=np.isinf(z))

    @quiet
    def mean(self, eta: FloatArray) -> FloatArray:
        z = self.a * np.asarray(eta, dtype=float)
        return strictly_inside(self.a * np.copysign(_langevin(np.abs(z)), z), self.a)

    @quiet
    def variance(self, eta: FloatArray) -> FloatArray:
        return self.a**2 * _langevin_slope(np.abs(self.a * np.asarray(eta, dtype=float)))

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        mu = np.abs(np.asarray(mu, dtype=float))
        m, r = mu / self.a, (self.a - mu) / self.a
        z = self._tilt(mu)
        # z m - log(sinh(z)/z); for large z in terms of 1 - m, since near the border z m and the logarithm cancel
        far = np.log(2.0 * z) - z * r - np.log1p(-np.exp(-2.0 * z))
        return total(np.where(z < 1.0, z * m - _log_sinhc(np.minimum(z, 1.0)), far), outside=mu >= self.a)

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        mu = np.asarray(mu, dtype=float)
        return np.copysign(self._tilt(np.abs(mu)) / self.a, mu)

    @quiet
    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        eta = np.asarray(eta, dtype=float)
        z = np.maximum(np.abs(self.a * eta), 1e-100)  # a smaller tilt has no effect; avoids 0/0
        # sample the distance from the more likely end by inversion of its truncated exponential distribution
        distance = -np.log1p(rng.random((n, *eta.shape)) * np.expm1(-2.0 * z)) / z
        return np.copysign(self.a, eta) * (1.0 - np.minimum(distance, 2.0))

    @quiet
    def sign(self, eta: FloatArray) -> FloatArray:
        return np.tanh(self.a * np.asarray(eta, dtype=float) / 2.0)

    def kernel_args(self) -> tuple[str, tuple[float]]:
        return "uniform", (float(self.a),)

    def _tilt(self, mu: FloatArray) -> FloatArray:
        """Return ``z = a |eta|`` for the mean ``mu >= 0``; +inf for ``mu >= a``."""
        z = np.where(mu < self.a, 0.0, np.inf)
        todo = (mu > 0) & (mu < self.a)
        m, r = mu[todo] / self.a, (self.a - mu[todo]) / self.a

        def newton(z: FloatArray) -> tuple[FloatArray, FloatArray]:
            # for z >= 1 compare 1 - Langevin(z) = 1/z - 2/(exp(2z) - 1) with r = 1 - m, since m is rounded near 1
            residual = np.where(z < 1.0, _langevin(np.minimum(z, 1.0)) - m, r - 1.0 / z + 2.0 / np.expm1(2.0 * z))
            return residual, z - residual / _langevin_slope(z)

        # z/(3 + z) <= Langevin(z) <= z/3 gives the bracket; the guess (Cohen 1991) is within 5 %
        z[todo] = increasing_root(newton, 3.0 * m, 3.0 * m / r, m * (3.0 - m * m) / (r * (1.0 + m)))
        return z


def _ratio(z: FloatArray) -> FloatArray:
    """Return ``Langevin(z) / z`` for 0 <= z <= 1.

    Its continued fraction is 1/(3 + z^2/(5 + z^2/(7 + ...))).
    """
    square, tail = z * z, np.full_like(z, 17.0)
    for odd in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        tail = odd + square / tail
    return 1.0 / tail


def _langevin(z: FloatArray) -> FloatArray:
    """Return ``coth z - 1/z`` for z >= 0."""
    return np.where(z < 1.0, z * _ratio(np.minimum(z, 1.0)), 1.0 / np.tanh(z) - 1.0 / z)


def _langevin_slope(z: FloatArray) -> FloatArray:
    """Return ``1/z^2 - 1/sinh(z)^2`` for z >= 0.

    For z < 1 it is computed as ``1 - L^2 - 2 L/z``, without cancellation.
    """
    small = np.minimum(z, 1.0)
    ratio = _ratio(small)
    return np.where(z < 1.0, 1.0 - (small * ratio) ** 2 - 2.0 * ratio, z**-2.0 - np.sinh(z) ** -2.0)


def _log_sinhc(z: FloatArray) -> FloatArray:
    """Return ``log(sinh(z) / z)`` for z >= 0.

    For z < 1 it is computed by the series of ``sinh(z)/z - 1``.
    """
    square, series = np.minimum(z, 1.0) ** 2, np.zeros_like(z)
    for n in (8, 7, 6, 5, 4, 3, 2, 1):
        series = square / (2 * n * (2 * n + 1)) * (1.0 + series)
    return np.where(z < 1.0, np.log1p(series), z - np.log(2.0 * z) + np.log1p(-np.exp(-2.0 * z)))
