"""L1 penalty rounded off at zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.laplace import Laplace
from maxendnet.problem import FloatArray


@dataclass(eq=False, repr=False)
class SmoothL1(Piece):
    """Penalty ``rho |w|`` rounded off at zero, used in place of a prior: a scaled penalty of a Laplace prior.

    In the dual it is a logarithmic barrier of the bounds, ``-width sum log(1 - eta_k^2 / rho^2)``.

    Parameters
    ----------
    rho : float
    width : float
        For each weight the penalty is below ``rho |w|``, by at most ``width * (1 + log(1 + rho |w| / width))``.

    Examples
    --------
    >>> w = np.array([2.0, 0.001])
    >>> [round(SmoothL1(0.5, width).penalty(w), 3) for width in (0.1, 0.01, 0.001)]
    [0.734, 0.951, 0.993]
    """

    rho: float
    width: float

    @property
    def unit(self) -> Laplace:
        """The Laplace prior whose penalty is scaled."""
        return Laplace(self.rho**2)

    def cumulant(self, eta: FloatArray) -> float:
        return self.width * self.unit.cumulant(eta)

    def mean(self, eta: FloatArray) -> FloatArray:
        return self.width * self.unit.mean(eta)

    def variance(self, eta: FloatArray) -> FloatArray:
        return self.width * self.unit.variance(eta)

    def penalty(self, mu: FloatArray) -> float:
        return self.width * self.unit.penalty(mu / self.width)

    def gradient(self, mu: FloatArray) -> FloatArray:
        return self.unit.gradient(mu / self.width)

    def barrier(self, mu: FloatArray) -> float:
        """Return ``rho |w| - w . eta``, with eta the gradient at w: the contribution of the bounds to a duality gap."""
        return float(self.rho * np.abs(mu).sum() - mu @ self.gradient(mu))
