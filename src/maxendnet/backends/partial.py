"""What a shard contributes to a sum over all examples, and how contributions are added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
EMPTY: FloatArray = np.zeros(0)


class Partial(NamedTuple):
    """Sums over the examples of a shard, each example times its weight."""

    loss: float
    gradient: FloatArray = EMPTY
    """As the kernels add it up, see `BoundStructure.unpad`; empty if it was not requested."""
    cost: float = 0.0
    """Expected cost of labels, where the loss has one."""
    values: FloatArray = EMPTY
    """Loss of every example, without its weight; empty if it was not requested."""
    relaxation_gap: float = 0.0
    """For relaxed structures: the loss minus that of the fractional labellings to which gradient and cost belong.
    0 otherwise. ``loss - relaxation_gap + gradient . (v - w)`` is below the sum of losses at any v."""

    def plus(self, other: Partial, overwrite: bool = True) -> Partial:
        """The sum with the next shard; with ``overwrite`` the gradient of this one becomes that of the sum."""
        gradient = EMPTY
        if self.gradient.size:
            gradient = np.add(self.gradient, other.gradient, out=self.gradient if overwrite else None)
        values = np.concatenate([self.values, other.values])
        gap = self.relaxation_gap + other.relaxation_gap
        return Partial(self.loss + other.loss, gradient, self.cost + other.cost, values, gap)


class Span(NamedTuple):
    """The sum of neighbouring shards, from the first to before the last: a node of the tree."""

    first: int
    last: int
    sum: Partial


def join(spans: Iterable[Span], n: int, overwrite: bool = True) -> list[Span]:
    """Add neighbours wherever a binary tree over ``n`` shards adds them, and return what is left.

    The tree depends on n alone. So the bits are the same whether all shards are joined at once, or some here and some
    there, in any order of calls.

    Examples
    --------
    >>> some = [Span(k, k + 1, Partial(2.0**k)) for k in range(3)]
    >>> [(span.first, span.last, span.sum.loss) for span in join(some, 5)]
    [(0, 2, 3.0), (2, 3, 4.0)]
    """
    found: list[Span] = []
    for span in spans:
        found.append(span)
        while len(found) > 1:
            left, right = found[-2:]
            size = 2 * (left.last - left.first)
            if left.first % size or right.last != min(left.first + size, n):
                break
            found[-2:] = [Span(left.first, right.last, left.sum.plus(right.sum, overwrite))]
    return found


class Alone(list[Any]):
    """Handles of which every one is asked by itself, where it is."""


def add_up(parts: Iterable[Partial], n: int) -> Partial:
    """The sum of ``n`` parts along that tree; an iterator needs memory for a few of them only.

    Examples
    --------
    >>> add_up([Partial(1.0), Partial(2.0), Partial(4.0)], 3).loss
    7.0
    """
    (whole,) = join((Span(k, k + 1, part) for k, part in enumerate(parts)), n)
    return whole.sum
