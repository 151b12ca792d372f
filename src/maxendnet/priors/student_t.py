"""Student-t prior, the prior of the relevance vector machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class StudentT(Piece):
    """Independent Student-t prior.

    ``w ~ N(0, 1/alpha)`` with ``alpha ~ Gamma(shape a, rate b)``.

    Because of its heavy tails it has no cumulant and no exact posterior, so the only solver is `Variational`. The
    posterior is approximated by ``N(mu, v)`` times a Gamma distribution of alpha. For each weight its KL divergence
    from the prior is ``(a + 1/2) log(b + (mu^2 + v)/2) - 1/2 log v - a log b + log(Gamma(a)/Gamma(a + 1/2)) - 1/2``.
    The best v is ``(b + mu^2/2)/a``, with the penalty ``a log(1 + mu^2/(2b))`` plus a constant. This is not convex, so
    a fit ends in a local minimum and has no duality gap.

    Parameters
    ----------
    a, b : float, default=1.0
        Shape and rate of the precision: ``2a`` degrees of freedom and scale ``sqrt(b/a)``. Smaller values give sparser
        models.

    Examples
    --------
    >>> prior = StudentT(a=1.0, b=0.5)
    >>> round(prior.penalty([2.0]) - prior.penalty([0.0]), 6)  # log(5)
    1.609438
    """

    a: float = 1.0
    b: float = 1.0

    def check(self) -> None:
        require_positive(self, "a and b are the shape and rate of a Gamma distribution.", a=self.a, b=self.b)

    def penalty(self, mu: FloatArray) -> float:
        mu = np.asarray(mu, dtype=float)
        return self.bound(mu, (self.b + 0.5 * mu**2) / self.a)

    def bound(self, mu: FloatArray, variance: FloatArray) -> float:
        """Return an upper bound of ``KL(N(mu, variance) || Student-t)``."""
        a, b = self.a, self.b
        constant = gammaln(a) - gammaln(a + 0.5) - 0.5 - a * np.log(b)
        return float(np.sum((a + 0.5) * np.log(b + 0.5 * (mu**2 + variance)) - 0.5 * np.log(variance) + constant))

    def first_variance(self, n_weights: int) -> FloatArray:
        return np.full(n_weights, self.b / self.a)

    def next_variance(self, mu: FloatArray, variance: FloatArray) -> FloatArray:
        return (self.b + 0.5 * (mu**2 + variance)) / (self.a + 0.5)
