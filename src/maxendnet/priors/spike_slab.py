"""Spike-and-slab prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf, expit, logit

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, increasing_root, quiet, require_positive
from maxendnet.utils.checks import is_number


@dataclass(eq=False, repr=False)
class SpikeSlab(Piece):
    """Independent spike-and-slab prior: ``(1 - p) delta_0 + p N(0, v)``.

    A weight is 0 with probability ``1 - p``, and else normal. ``phi(eta) = log(1 - p + p exp(v eta^2 / 2))``. The
    posterior is again a spike and a slab, ``N(v eta, v)`` with probability
    ``inclusion(eta) = sigmoid(logit(p) + v eta^2 / 2)``. The penalty has no closed form; it is computed by inverting
    the mean.

    Parameters
    ----------
    p : float, default=0.5
        Prior probability that a weight is non-zero, ``0 < p <= 1``; 1 is Gaussian(v).
    v : float, default=1.0
        Variance of the slab.

    Examples
    --------
    >>> prior = SpikeSlab(p=0.1, v=4.0)
    >>> prior.inclusion([0.0, 2.0]).round(6).tolist()
    [0.1, 0.99699]
    >>> prior.gradient(prior.mean([0.5])).round(9).tolist()
    [0.5]
    """

    p: float = 0.5
    v: float = 1.0

    def check(self) -> None:
        if not (is_number(self.p) and 0.0 < self.p <= 1.0):
            raise ValueError(
                f"SpikeSlab needs 0 < p <= 1, got p={self.p!r}; p is the prior probability of a non-zero weight."
            )
        require_positive(self, "v is the variance of the non-zero weights.", v=self.v)

    def inclusion(self, eta: FloatArray) -> FloatArray:
        """Return the posterior probability that each weight is non-zero."""
        return expit(self._log_odds(eta))

    @quiet
    def cumulant(self, eta: FloatArray) -> float:
        x = self._energy(eta)
        # log1p is accurate at 0. 700: exp overflows at 709, and the spike is negligible unless p < 1e-280.
        far = np.logaddexp(np.log1p(-self.p), np.log(self.p) + x)
        return float(np.sum(np.where(x < 700.0, np.log1p(self.p * np.expm1(np.minimum(x, 700.0))), far)))

    @quiet
    def mean(self, eta: FloatArray) -> FloatArray:
        return self.v * np.asarray(eta, dtype=float) * self.inclusion(eta)

    @quiet
    def variance(self, eta: FloatArray) -> FloatArray:
        # beyond 1e150 the inclusion is 1; clipping avoids inf * 0
        eta = np.clip(np.asarray(eta, dtype=float), -1e150, 1e150)
        included, excluded = self.inclusion(eta), expit(-self._log_odds(eta))
        return self.v * included + (self.v * eta * included) * (self.v * eta * excluded)

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        eta = self.gradient(mu)
        cumulant = self.cumulant(eta)
        # no cancellation: phi is convex in eta^2, so eta * mu >= 2 phi(eta); the test avoids inf - inf
        return cumulant if np.isinf(cumulant) else float(np.sum(eta * mu)) - cumulant

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        mu = np.asarray(mu, dtype=float)
        eta = np.array(np.abs(mu))  # correct at 0 and at infinity
        todo = (eta > 0) & (eta < np.inf)
        target = eta[todo]

        def newton(eta: FloatArray) -> tuple[FloatArray, FloatArray]:
            # Newton on log(mean) as a function of log(eta), whose slope is between 1 and about 1 + 2 log(1/p)
            residual = np.log(self.mean(eta) / target)
            slope = 1.0 + 2.0 * np.minimum(self._energy(eta), 1e300) * expit(-self._log_odds(eta))
            return residual, eta * np.exp(-residual / slope)

        # the inclusion lies in [p, 1], which gives the bracket; at the guess spike and slab are equally likely
        low, even = target / self.v, np.sqrt(2.0 * max(-logit(self.p), 0.0) / self.v)
        eta[todo] = increasing_root(newton, low, low / self.p, np.full_like(low, even))
        values: FloatArray = np.copysign(eta, mu)
        return values

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        eta = np.asarray(eta, dtype=float)
        slab = self.v * eta + np.sqrt(self.v) * rng.standard_normal((n, *eta.shape))
        return np.where(rng.random(slab.shape) < self.inclusion(eta), slab, 0.0)

    @quiet
    def sign(self, eta: FloatArray) -> FloatArray:
        values: FloatArray = self.inclusion(eta) * erf(np.sqrt(self.v / 2.0) * np.asarray(eta, dtype=float))
        return values

    def kernel_args(self) -> tuple[str, tuple[float, float]]:
        return "spike_slab", (float(self.p), float(self.v))

    @quiet
    def _energy(self, eta: FloatArray) -> FloatArray:
        return 0.5 * self.v * np.asarray(eta, dtype=float) ** 2

    @quiet
    def _log_odds(self, eta: FloatArray) -> FloatArray:
        return logit(self.p) + self._energy(eta)
