"""Normal-inverse-Gaussian prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, quiet, require_positive, require_posterior, strictly_inside, total
from maxendnet.priors.gaussian import Gaussian


@dataclass(eq=False, repr=False)
class NormalInverseGaussian(Piece):
    """Independent Normal-inverse-Gaussian prior.

    ``w ~ N(0, tau)`` with ``tau ~ InverseGaussian(mean d/A, shape d^2)``.

    Its density is ``A d / (pi r) * exp(A d) * K_1(A r)`` with ``r = sqrt(d^2 + w^2)`` and ``K_1`` the Bessel function;
    its variance is ``d / A``. ``phi(eta) = d (A - sqrt(A^2 - eta^2))`` for ``|eta| <= A`` (finite on the border, where
    the mean is infinite). The penalty of a mean ``mu`` is ``A (sqrt(d^2 + mu^2) - d)``: a smoothed L1 norm.

    Parameters
    ----------
    A : float, default=1.0
        Slope of the penalty far from 0; the tails of the density decay like ``exp(-A |w|)``.
    d : float, default=1.0
        Width of the region around 0 where the penalty is quadratic.

    Examples
    --------
    >>> prior = NormalInverseGaussian(A=5.0, d=2.0)
    >>> prior.cumulant([3.0]), prior.mean([3.0]).tolist(), prior.penalty([1.5])
    (2.0, [1.5], 2.5)
    """

    A: float = 1.0
    d: float = 1.0

    def check(self) -> None:
        require_positive(
            self, "A is the slope of the penalty far from 0, d the width of its quadratic part.", A=self.A, d=self.d
        )

    @quiet
    def cumulant(self, eta: FloatArray) -> float:
        eta = np.asarray(eta, dtype=float)
        inside, gamma = self._gamma(eta)
        return total(self.d * inside * (inside / (self.A + gamma)), outside=np.abs(eta) > self.A)

    @quiet
    def mean(self, eta: FloatArray) -> FloatArray:
        eta, gamma = self._gamma(eta)
        return self.d * (eta / gamma)

    @quiet
    def variance(self, eta: FloatArray) -> FloatArray:
        _, gamma = self._gamma(eta)
        return self.d / gamma * (self.A / gamma) ** 2

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        mu = np.abs(np.asarray(mu, dtype=float))
        return total(self.A * mu * (mu / (self.d + np.hypot(self.d, mu))), outside=np.isinf(mu))

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        x = np.clip(np.asarray(mu, dtype=float) / self.d, -1e300, 1e300)
        return strictly_inside(self.A * (x / np.hypot(1.0, x)), self.A)

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        """Sample ``tau``, then ``w ~ N(eta tau, tau)``.

        ``tau`` is inverse Gaussian with mean ``d / sqrt(A^2 - eta^2)``.
        """
        eta = np.asarray(eta, dtype=float)
        require_posterior(self, np.abs(eta) < self.A, eta, "|eta| < A")
        _, gamma = self._gamma(eta)
        # Michael, Schucany & Haas (1976) with both roots, small and 1 / small, written without cancellation.
        q = np.abs(rng.standard_normal((n, *eta.shape))) / (2.0 * np.sqrt(self.d * gamma))
        small = (q + np.hypot(1.0, q)) ** -2.0
        tau = self.d / gamma * np.where(rng.random(q.shape) * (1.0 + small) < 1.0, small, 1.0 / small)
        return eta * tau + np.sqrt(tau) * rng.standard_normal(q.shape)

    @quiet
    def sign(self, eta: FloatArray) -> FloatArray:
        # Shifting the contour of the Laplace inversion of P(w < 0) to the imaginary axis gives, for eta > 0 and
        # g = sqrt(A^2 - eta^2),
        #     sign = 2/pi * integral over theta in [0, pi/2] of 1 - exp(-d (sqrt(A^2 + eta^2 tan^2 theta) - g)).
        # With tan theta = exp(u) the integrand is analytic and bounded for |Im u| < pi/4, and decays like exp(-|u|).
        # The errors of the trapezoidal rule, exp(-pi^2 / (2 step)) and exp(-22), are both below 1e-9.
        eta, gamma = self._gamma(eta)
        step = 0.23
        result = np.zeros_like(eta)
        for u in np.arange(-22.0, 22.0 + step, step):
            far = np.hypot(self.A, eta * np.exp(u))
            rise = eta * ((1.0 + np.exp(2.0 * u)) * eta / (far + gamma))  # far - gamma, without cancellation
            result -= np.expm1(-self.d * rise) * (step / (np.pi * np.cosh(u)))
        return np.sign(eta) * np.clip(result, 0.0, 1.0)

    def quadratic_bound(self, mu: FloatArray) -> Gaussian:
        """Return the Gaussian prior with variance ``mu / gradient(mu) = sqrt(d^2 + mu^2) / A``."""
        return Gaussian(np.hypot(self.d, np.asarray(mu, dtype=float)) / self.A)

    def kernel_args(self) -> tuple[str, tuple[float, float]]:
        return "normal_inverse_gaussian", (float(self.A), float(self.d))

    def _gamma(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return eta clipped to the domain, and ``sqrt(A^2 - eta^2)``."""
        eta = np.clip(np.asarray(eta, dtype=float), -self.A, self.A)
        return eta, np.sqrt((self.A - eta) * (self.A + eta))
