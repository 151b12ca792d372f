"""The Student-t prior: a Gaussian whose precision has a Gamma distribution, as in the relevance vector machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class StudentT(Piece):
    """Independent Student-t prior: ``w ~ N(0, 1/alpha)`` with ``alpha ~ Gamma(a, b)``, b the rate.

    Its tails are so heavy that there is no cumulant, hence no exact posterior; only `Variational` solves it. The
    posterior is approximated by ``N(mu, v)`` times a Gamma distribution of alpha, whose divergence from the prior is,
    for each weight, ``(a + 1/2) log(b + (mu^2 + v)/2) - 1/2 log v - a log b + log(Gamma(a)/Gamma(a + 1/2)) - 1/2``.
    With the best v, which is ``(b + mu^2/2)/a``, a mean costs ``a log(1 + mu^2/(2b))`` plus a constant. This is not
    convex: a fit ends in a local minimum, without a certificate.

    Parameters
    ----------
    a, b : float, default=1.0
        Shape and rate of the precision; 2a degrees of freedom, scale ``sqrt(b/a)``. Smaller is sparser.

    Examples
    --------
    >>> prior = StudentT(a=1.0, b=0.5)
    >>> round(prior.penalty([2.0]) - prior.penalty([0.0]), 6)  # log(5)
    1.609438
    """

    a: float = 1.0
    b: float = 1.0

    def check(self) -> None:
        require_positive(self, "a and b are shape and rate of a Gamma distribution.", a=self.a, b=self.b)

    def penalty(self, mu: FloatArray) -> float:
        mu = np.asarray(mu, dtype=float)
        return self.bound(mu, (self.b + 0.5 * mu**2) / self.a)

    def bound(self, mu: FloatArray, variance: FloatArray) -> float:
        """Divergence of the approximation from the prior, at least ``KL(N(mu, variance) || Student-t)``."""
        a, b = self.a, self.b
        constant = gammaln(a) - gammaln(a + 0.5) - 0.5 - a * np.log(b)
        return float(np.sum((a + 0.5) * np.log(b + 0.5 * (mu**2 + variance)) - 0.5 * np.log(variance) + constant))

    def first_variance(self, n_weights: int) -> FloatArray:
        return np.full(n_weights, self.b / self.a)

    def next_variance(self, mu: FloatArray, variance: FloatArray) -> FloatArray:
        return (self.b + 0.5 * (mu**2 + variance)) / (self.a + 0.5)
