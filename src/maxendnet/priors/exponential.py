"""Exponential prior, for non-negative weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, quiet, require_positive, require_posterior, total


@dataclass(eq=False, repr=False)
class Exponential(Piece):
    """Independent exponential prior on ``w >= 0``.

    The density is ``lam * exp(-lam w)`` and the mean ``1 / lam``.

    ``phi(eta) = -log(1 - eta / lam)`` for ``eta < lam``, and the posterior is the exponential of rate ``lam - eta``.
    The penalty of a mean ``mu > 0`` is ``lam mu - 1 - log(lam mu)``; it is infinite for ``mu <= 0``.

    Parameters
    ----------
    lam : float, default=1.0
        Rate.

    Examples
    --------
    >>> prior = Exponential(lam=2.0)
    >>> prior.mean([0.0, 1.0]).tolist(), prior.penalty([0.5]), prior.penalty([-1.0])
    ([0.5, 1.0], 0.0, inf)
    """

    lam: float = 1.0

    def check(self) -> None:
        require_positive(self, "lam is the rate of the exponential distribution, 1 / mean.", lam=self.lam)

    @quiet
    def cumulant(self, eta: FloatArray) -> float:
        eta = np.asarray(eta, dtype=float)
        return total(-np.log1p(-eta / self.lam), outside=eta >= self.lam)

    @quiet
    def mean(self, eta: FloatArray) -> FloatArray:
        return 1.0 / self._rate(eta)

    @quiet
    def variance(self, eta: FloatArray) -> FloatArray:
        return self._rate(eta) ** -2.0

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        x = self.lam * np.asarray(mu, dtype=float)
        # log1p is exact at x = 1, where the penalty is 0; below 1/2, x - 1 would lose digits of x
        logarithm = np.where(x < 0.5, np.log(x), np.log1p(x - 1.0))
        return total(x - 1.0 - logarithm, outside=(x <= 0) | (x == np.inf))

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        mu = np.maximum(np.asarray(mu, dtype=float), 0.0)
        return np.minimum(self.lam - 1.0 / mu, np.nextafter(self.lam, 0.0))

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        eta = np.asarray(eta, dtype=float)
        require_posterior(self, eta < self.lam, eta, "eta < lam")
        return rng.standard_exponential((n, *eta.shape)) / (self.lam - eta)

    def sign(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(np.asarray(eta, dtype=float))

    def kernel_args(self) -> tuple[str, tuple[float]]:
        return "exponential", (float(self.lam),)

    def _rate(self, eta: FloatArray) -> FloatArray:
        """Rate of the posterior; 0 at and beyond the border."""
        return np.maximum(self.lam - np.asarray(eta, dtype=float), 0.0)
