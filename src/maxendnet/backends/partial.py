"""What a shard contributes to a sum over all examples, and how contributions are added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
EMPTY: FloatArray = np.zeros(0)


class Partial(NamedTuple):
    """Sums over the examples of a shard, each example times its weight."""

    loss: float
    gradient: FloatArray = EMPTY
    """As the kernels add it up, see `maxendnet.structures.base.unpack`; empty if it was not asked for."""
    cost: float = 0.0
    """Expected cost of labels, where the loss has one."""
    values: FloatArray = EMPTY
    """Loss of every example, without its weight; empty if it was not asked for."""
    short: float = 0.0
    """By how much the loss is above that of the fractional labellings that gradient and cost belong to: 0, unless the
    loss is an upper bound. ``loss - short + gradient . (v - w)`` is below the sum of losses at any v."""

    def plus(self, other: Partial) -> Partial:
        """The sum with the next shard. The gradient of this one is overwritten."""
        gradient = np.add(self.gradient, other.gradient, out=self.gradient) if self.gradient.size else EMPTY
        values = np.concatenate([self.values, other.values])
        return Partial(self.loss + other.loss, gradient, self.cost + other.cost, values, self.short + other.short)


def add_up(parts: Sequence[Partial]) -> Partial:
    """The sum of all parts along a binary tree that depends on their number alone: the same bits every time.

    Examples
    --------
    >>> add_up([Partial(1.0), Partial(2.0), Partial(4.0)]).loss
    7.0
    """
    row = list(parts)
    while len(row) > 1:
        row = [row[k].plus(row[k + 1]) if k + 1 < len(row) else row[k] for k in range(0, len(row), 2)]
    return row[0]
