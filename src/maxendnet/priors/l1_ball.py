"""L1 ball: a bound on the sum of the absolute weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class L1Ball(Piece):
    """Constraint ``|w|_1 <= radius``, which defines the second form of L1-M3N.

    The penalty is zero inside the ball and infinite outside. Like `L1` it has no posterior. Its conjugate is
    ``radius * max_k |eta_k|``.

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
        require_positive(self, "radius is the largest sum of the absolute weights.", radius=self.radius)

    def penalty(self, mu: FloatArray) -> float:
        # 1e-12 because of rounding: a point that was scaled to the border may be slightly outside
        return 0.0 if np.sum(np.abs(mu)) <= self.radius * (1 + 1e-12) else float("inf")
