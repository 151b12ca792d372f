"""Jeffreys prior on the variances: sparse weights, and no hyper-parameter to tune."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class Jeffreys(Piece):
    """Jeffreys prior (Figueiredo 2003): ``w ~ N(0, v)`` with density ``1/v`` of v.

    The penalty would be ``sum_k log |w_k|``, which is -inf at 0. The penalty used here is
    ``1/2 sum_k log(1 + w_k^2/floor)``, which differs only by a constant for weights well above ``sqrt(floor)``. The EM
    algorithm of `Variational` alternates between a Gaussian problem and ``v_k = w_k^2 + floor``; a weight that reaches
    0 stays there. The penalty is not convex, so a fit ends in a local minimum and has no duality gap. It is a point
    estimate.

    Parameters
    ----------
    floor : float, default=1e-8
        Smallest variance.

    Examples
    --------
    >>> Jeffreys().penalty([0.0]), round(Jeffreys().penalty([2.0]) - Jeffreys().penalty([1.0]), 6)
    (0.0, 0.693147)
    """

    floor: float = 1e-8

    def check(self) -> None:
        require_positive(
            self, "it is a lower bound of the variances; the default is good in practice.", floor=self.floor
        )

    def penalty(self, mu: FloatArray) -> float:
        return float(0.5 * np.sum(np.log1p(np.square(mu) / self.floor)))

    def first_variance(self, n_weights: int) -> FloatArray:
        return np.ones(n_weights)

    def next_variance(self, mu: FloatArray, variance: FloatArray) -> FloatArray:
        return mu**2 + self.floor
