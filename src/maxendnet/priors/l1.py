"""L1 penalty, without a posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class L1(Piece):
    """L1 penalty ``rho |w|_1``.

    This is maximum a posteriori estimation with the density ``rho/2 * exp(-rho |w|)``.

    It is the limit of ``Laplace(lam)`` penalties divided by ``sqrt(lam) / rho`` as ``lam`` grows. The posterior shrinks
    to a point, so there is no cumulant, mean or sample, only a penalty and its proximal operator. The dual constraint
    is ``|eta_k| <= rho``.

    Parameters
    ----------
    rho : float, default=0.5
        Strength of the penalty, the factor of ``|w_k|``.

    Examples
    --------
    >>> L1(rho=0.5).prox([-2.0, 0.1, 1.0], step=1.0).tolist()
    [-1.5, 0.0, 0.5]
    """

    rho: float = 0.5

    def check(self) -> None:
        require_positive(self, "rho is the factor of |w|_1; for no penalty use Flat().", rho=self.rho)

    def penalty(self, mu: FloatArray) -> float:
        return float(self.rho * np.sum(np.abs(mu)))

    def prox(self, v: FloatArray, step: float | FloatArray) -> FloatArray:
        v = np.asarray(v, dtype=float)
        return v - np.clip(v, -self.rho * step, self.rho * step)
