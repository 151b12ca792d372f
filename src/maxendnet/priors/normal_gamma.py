"""Normal-Gamma (variance-gamma) prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, quiet, require_positive, require_posterior
from maxendnet.priors.gaussian import Gaussian
from maxendnet.priors.laplace import Laplace


@dataclass(eq=False, repr=False)
class NormalGamma(Piece):
    """Independent Normal-Gamma prior.

    ``w ~ N(0, tau)`` with ``tau ~ Gamma(shape a, rate lam / 2)``.

    Its density is ``sqrt(lam/pi) / Gamma(a) * (sqrt(lam) |w| / 2)^(a - 1/2) * K_{a - 1/2}(sqrt(lam) |w|)`` with ``K``
    the Bessel function; its variance is ``2 a / lam``. ``a = 1`` is Laplace(lam); a smaller ``a`` has more mass near 0.
    The cumulant ``phi(eta) = -a log(1 - eta^2 / lam)`` is ``a`` times that of Laplace, so the penalty of a mean ``mu``
    is ``a`` times the Laplace penalty of ``mu / a``.

    Parameters
    ----------
    a : float, default=1.0
        Shape of the Gamma distribution of the variances.
    lam : float, default=1.0
        Twice the rate of the Gamma distribution.

    Examples
    --------
    >>> NormalGamma(a=0.5, lam=4.0).mean([1.0]).round(6).tolist()
    [0.333333]
    >>> NormalGamma(a=1.0, lam=4.0).penalty([0.3]) == Laplace(lam=4.0).penalty([0.3])
    True
    """

    a: float = 1.0
    lam: float = 1.0

    def check(self) -> None:
        hint = "a is the shape of the Gamma distribution of variances (1 is Laplace), lam twice its rate."
        require_positive(self, hint, a=self.a, lam=self.lam)

    def cumulant(self, eta: FloatArray) -> float:
        return self.a * Laplace(self.lam).cumulant(eta)

    def mean(self, eta: FloatArray) -> FloatArray:
        return self.a * Laplace(self.lam).mean(eta)

    def variance(self, eta: FloatArray) -> FloatArray:
        return self.a * Laplace(self.lam).variance(eta)

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        return self.a * Laplace(self.lam).penalty(np.asarray(mu, dtype=float) / self.a)

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        return Laplace(self.lam).gradient(np.asarray(mu, dtype=float) / self.a)

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Sample the difference of two Gamma(a) variables.

        Their rates are ``sqrt(lam) - eta`` and ``sqrt(lam) + eta``.
        """
        rate, eta = np.sqrt(self.lam), np.asarray(eta, dtype=float)
        require_posterior(self, np.abs(eta) < rate, eta, "|eta| < sqrt(lam)")
        above, below = rng.standard_gamma(self.a, (2, n, *eta.shape))
        values: FloatArray = above / (rate - eta) - below / (rate + eta)
        return values

    def sign(self, eta: FloatArray) -> FloatArray:
        # With the two Gammas of `sample`, B = G1 / (G1 + G2) ~ Beta(a, a) is compared with (1 - u) / 2, u = eta / rate.
        # Since (2B - 1)^2 ~ Beta(1/2, a), there is a closed form even if the mixing density is singular at 0.
        u = Laplace(self.lam).sign(eta)
        return np.sign(u) * betainc(0.5, self.a, u * u)

    def quadratic_bound(self, mu: FloatArray) -> Gaussian:
        bound = Laplace(self.lam).quadratic_bound(np.asarray(mu, dtype=float) / self.a)
        return Gaussian(self.a * bound.prior_variance)

    def kernel_args(self) -> tuple[str, tuple[float, float]]:
        return "normal_gamma", (float(self.a), float(self.lam))
