"""The Jeffreys prior on the variances: sparse without a parameter to set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class Jeffreys(Piece):
    """``w ~ N(0, v)`` with the improper density ``1/v`` of v (Figueiredo 2003): the penalty is ``sum_k log |w_k|``.

    That is -inf at 0, so it is taken as ``1/2 sum_k log(1 + w_k^2/floor)``, which is the same up to a constant for
    weights well above ``sqrt(floor)``. EM, by `Variational`, alternates a Gaussian problem and ``v_k = w_k^2 + floor``:
    a weight that has come to 0 stays there (at ``floor`` times its gradient, nothing in effect). Not convex: a fit ends
    in a local minimum, without a certificate, and is a point estimate.

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
        require_positive(self, "it keeps variances off 0 and is best left alone.", floor=self.floor)

    def penalty(self, mu: FloatArray) -> float:
        return float(0.5 * np.sum(np.log1p(np.square(mu) / self.floor)))

    def first_variance(self, n_weights: int) -> FloatArray:
        return np.ones(n_weights)

    def next_variance(self, mu: FloatArray, variance: FloatArray) -> FloatArray:
        return mu**2 + self.floor
