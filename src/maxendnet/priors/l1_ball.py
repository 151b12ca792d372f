"""The L1 ball: weights whose absolute values add up to at most a radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class L1Ball(Piece):
    """No price inside the ball ``|w|_1 <= radius``, an infinite one outside: the second form of L1-M3N.

    Like `L1` it has no posterior. In the dual it charges ``radius * max_k |eta_k|``.

    Parameters
    ----------
    radius : float, default=1.0

    Examples
    --------
    >>> L1Ball(radius=2.0).penalty([1.0, -1.0]), L1Ball(radius=2.0).penalty([2.0, -1.0])
    (0.0, inf)
    """

    radius: float = 1.0

    def check(self) -> None:
        require_positive(self, "radius bounds the sum of the absolute weights.", radius=self.radius)

    def penalty(self, mu: FloatArray) -> float:
        # 1e-12: a point scaled onto the border may be outside by rounding
        return 0.0 if np.sum(np.abs(mu)) <= self.radius * (1 + 1e-12) else float("inf")
