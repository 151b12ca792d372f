"""Partial sums over the examples of shards, and their addition along a fixed tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
EMPTY: FloatArray = np.zeros(0)


class Partial(NamedTuple):
    """Weighted sums over the examples of a shard."""

    loss: float
    gradient: FloatArray = EMPTY
    """Padded gradient, see `BoundStructure.unpad`, or an empty array if not requested."""
    cost: float = 0.0
    """Expected cost of labels, if the loss has costs."""
    values: FloatArray = EMPTY
    """Unweighted loss of each example, or an empty array if not requested."""
    relaxation_gap: float = 0.0
    """For relaxed structures: loss minus the loss of the fractional solution; gradient and cost are those of the
    fractional solution. Otherwise 0. ``loss - relaxation_gap + gradient . (v - w)`` is a lower bound of the sum of
    losses at any v."""

    def plus(self, right: Partial, overwrite: bool = True) -> Partial:
        """Return the sum of this and the next shard. With ``overwrite``, the gradient is added in place."""
        gradient = EMPTY
        if self.gradient.size:
            gradient = np.add(self.gradient, right.gradient, out=self.gradient if overwrite else None)
        values = np.concatenate([self.values, right.values])
        gap = self.relaxation_gap + right.relaxation_gap
        return Partial(self.loss + right.loss, gradient, self.cost + right.cost, values, gap)


class Span(NamedTuple):
    """Sum of the shards ``first`` to ``last - 1``, a node of the tree."""

    first: int
    last: int
    sum: Partial


def join(spans: Iterable[Span], n: int, overwrite: bool = True) -> list[Span]:
    """Add neighbouring sums along a binary tree over ``n`` shards.

    Returns the remaining sums.

    The tree depends only on n, so results are bit-for-bit identical if parts of the shards are joined in separate
    calls.

    Examples
    --------
    >>> spans = [Span(k, k + 1, Partial(2.0**k)) for k in range(3)]
    >>> [(span.first, span.last, span.sum.loss) for span in join(spans, 5)]
    [(0, 2, 3.0), (2, 3, 4.0)]
    """
    joined: list[Span] = []
    for span in spans:
        joined.append(span)
        while len(joined) > 1:
            left, right = joined[-2:]
            size = 2 * (left.last - left.first)
            if left.first % size or right.last != min(left.first + size, n):
                break
            joined[-2:] = [Span(left.first, right.last, left.sum.plus(right.sum, overwrite))]
    return joined


class Alone(list[Any]):
    """Handles that are processed by separate tasks, on the workers that hold them."""


def add_up(sums: Iterable[Partial], n: int) -> Partial:
    """Add the sums of ``n`` shards along the tree.

    If ``sums`` is an iterator, only a few sums are in memory at a time.

    Examples
    --------
    >>> add_up([Partial(1.0), Partial(2.0), Partial(4.0)], 3).loss
    7.0
    """
    (whole,) = join((Span(k, k + 1, part) for k, part in enumerate(sums)), n)
    return whole.sum
