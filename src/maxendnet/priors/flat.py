"""Flat (improper) prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray


@dataclass(eq=False, repr=False)
class Flat(Piece):
    """Improper constant density: no penalty (maximum likelihood).

    It has no cumulant and no posterior. On separable data the objective may have no minimiser, because it is the loss
    alone.

    Examples
    --------
    >>> Flat().penalty([1.0, -3.0]), Flat().gradient([1.0, -3.0]).tolist()
    (0.0, [0.0, 0.0])
    """

    def penalty(self, mu: FloatArray) -> float:
        return 0.0

    def gradient(self, mu: FloatArray) -> FloatArray:
        return np.zeros_like(np.asarray(mu, dtype=float))
