"""Laplace prior, the prior of LapMEDN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, quiet, require_positive, require_posterior, strictly_inside, total
from maxendnet.priors.gaussian import Gaussian


@dataclass(eq=False, repr=False)
class Laplace(Piece):
    """Independent Laplace prior.

    The density is ``sqrt(lam)/2 * exp(-sqrt(lam) |w|)`` and the variance ``2 / lam``.

    ``phi(eta) = -log(1 - eta^2 / lam)`` for ``|eta| < sqrt(lam)``. The penalty of a mean ``mu`` is
    ``s - 1 - log((s + 1) / 2)`` with ``s = sqrt(1 + lam mu^2)``: quadratic near 0, linear far from 0.

    Parameters
    ----------
    lam : float, default=1.0
        Squared rate. Larger values give sparser models.

    Examples
    --------
    >>> prior = Laplace(lam=4.0)
    >>> prior.mean([0.0, 1.0]).round(6).tolist()
    [0.0, 0.666667]
    >>> round(prior.penalty(prior.mean([1.0])) + prior.cumulant([1.0]), 6)  # = eta * mu
    0.666667
    """

    lam: float = 1.0

    def check(self) -> None:
        require_positive(self, "larger values give sparser models; for no prior use Flat().", lam=self.lam)

    @quiet
    def cumulant(self, eta: FloatArray) -> float:
        # 1/(1 - u) = 1 + u/(1 - u), and log1p of the second term is accurate both at 0 and at the border
        eta, below, above = self._rates(eta)
        return float(np.sum(np.log1p(eta / below * (eta / above))))

    @quiet
    def mean(self, eta: FloatArray) -> FloatArray:
        eta, below, above = self._rates(eta)
        return 2.0 * (eta / below) / above

    @quiet
    def variance(self, eta: FloatArray) -> FloatArray:
        _, below, above = self._rates(eta)
        return below**-2.0 + above**-2.0

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        x = np.abs(np.sqrt(self.lam) * np.asarray(mu, dtype=float))
        r = x * (x / (1.0 + np.hypot(1.0, x)))  # s - 1, without cancellation or overflow
        return total(r - np.log1p(r / 2.0), outside=np.isinf(x))

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        rate = np.sqrt(self.lam)
        x = np.clip(rate * np.asarray(mu, dtype=float), -1e300, 1e300)
        return strictly_inside(rate * (x / (1.0 + np.hypot(1.0, x))), rate)

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Sample from two exponential distributions, above and below 0.

        Their rates are ``sqrt(lam) - eta`` and ``sqrt(lam) + eta``.
        """
        eta, below, above = self._rates(eta)
        require_posterior(self, (below > 0) & (above > 0), eta, "|eta| < sqrt(lam)")
        positive = rng.random((n, *eta.shape)) * (below + above) < above
        return np.where(positive, 1.0 / below, -1.0 / above) * rng.standard_exponential(positive.shape)

    @quiet
    def sign(self, eta: FloatArray) -> FloatArray:
        rate = np.sqrt(self.lam)
        values: FloatArray = np.clip(np.asarray(eta, dtype=float) / rate, -1.0, 1.0)
        return values

    @quiet
    def scale(self, eta: FloatArray) -> FloatArray:
        """Return the posterior mean of each weight's variance.

        The posterior of the variance is exponential with rate ``(lam - eta^2) / 2``.
        """
        _, below, above = self._rates(eta)
        return 2.0 / below / above

    def kernel_args(self) -> tuple[str, tuple[float, float]]:
        return "normal_gamma", (1.0, float(self.lam))

    def quadratic_bound(self, mu: FloatArray) -> Gaussian:
        """Return the Gaussian prior with variance ``mu / gradient(mu) = (1 + sqrt(1 + lam mu^2)) / lam``."""
        return Gaussian((1.0 + np.hypot(1.0, np.sqrt(self.lam) * np.asarray(mu, dtype=float))) / self.lam)

    def _rates(self, eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return clipped eta, and the rates of the posterior above and below 0.

        At the border of the domain, one rate is 0.
        """
        rate = np.sqrt(self.lam)
        eta = np.clip(np.asarray(eta, dtype=float), -rate, rate)
        return eta, rate - eta, rate + eta

    # Scale mixture: a Gaussian with an exponential variance. Algorithm 1 of the paper uses twice these
    # variances and starts from 1, so its C and lam are the same as here.
    def first_variance(self, n_weights: int) -> FloatArray:
        return np.full(n_weights, 0.5)

    def next_variance(self, mu: FloatArray, variance: FloatArray) -> FloatArray:
        values: FloatArray = np.hypot(mu, np.sqrt(2 * variance)) / np.sqrt(
            self.lam
        )  # avoids a square that could overflow
        return values
