"""Nodes that compete, with examples: at most one node of an example has another label than all the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxendnet import _kernels
from maxendnet.backends.threads import Threads, each
from maxendnet.data.batch import Batch
from maxendnet.structures.base import Excess, IntArray, Marginals, Price, Table, sums
from maxendnet.structures.layout import FloatArray
from maxendnet.structures.on_batch import OnBatch, kernel_shape
from maxendnet.structures.padded_blocks import PaddedBlocks
from maxendnet.structures.padding import for_search, padded_size, unpad


class Gains(NamedTuple):
    """Scores of all labellings of all examples: that of the rest alone, and what choices add to it."""

    of_rest: FloatArray
    """(n_examples,): score of the labelling in which every node has the label of the rest."""
    of_choice: FloatArray
    """(n_nodes, n_labels): what it adds to choose a node for a label; -inf if not allowed, and for the rest."""


class Aggregate(NamedTuple):
    """A maximum over the labellings of every example, hard or soft, above that without a choice; and its gradient."""

    values: FloatArray
    shares: FloatArray
    """(n_nodes, n_labels): of each choice; 0 for the rest."""


@dataclass(frozen=True, eq=False)
class BoundChoice(OnBatch):
    """At most one node of an example has a label other than ``rest``; see `Choice`.

    Inference is exact and easy: an example has one labelling for every allowed pair of a node and a label, and the one
    without a choice. Of the solvers with kernels of their own `BlockFrankWolfe` alone takes it, and `ProximalPoint`
    by it.

    Parameters
    ----------
    layout : Layout
        Without edges.
    batch : Batch
    rest : int, default=0
        The label of all nodes but the chosen one, as a number.

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Choice
    >>> examples = Examples.build([[[1.0], [3.0], [2.0]], [[-1.0]]], [["rest", "best", "rest"], ["rest"]])
    >>> choice = Choice().bind(examples, np.array(["rest", "best"]))
    >>> choice.decode(np.array([0.0, 1.0])).tolist()  # the largest; and none that is below 0
    [0, 1, 0, 0]
    """

    rest: int = 0
    described = "a choice among nodes"
    pairwise = False

    @cached_property
    def shape(self) -> _kernels.Shape:
        return kernel_shape(self.layout, self.rest)

    @cached_property
    def blocks(self) -> PaddedBlocks:
        """What solvers that go from example to example need."""
        return PaddedBlocks(self.layout, self.batch, self.shape)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def gains(self, w: FloatArray, table: Table | None = None, backend: Threads | None = None) -> Gains:
        """Scores of all labellings."""
        weights, scores = for_search(self.layout, w), np.zeros((len(self.batch.parent), self.n_labels))
        self.for_each_range(backend, lambda a, b: _kernels.node_scores(self.batch, self.shape, weights, a, b, scores))
        if table is not None:
            scores += table.at_nodes()
        of_rest = scores[:, self.rest].copy()
        scores -= of_rest[:, None]
        scores[:, self.rest] = -np.inf
        return Gains(sums(of_rest, self.offsets), scores)

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Best score of every example and a labelling that has it."""
        of_rest, gains = self.gains(w, table, backend)
        best, shares = largest(gains, self.batch)
        labels = np.full(len(gains), self.rest, dtype=np.int32)
        node, label = np.nonzero(shares)
        labels[node] = label
        return of_rest + best, labels

    def decode(self, w: FloatArray, backend: Threads | None = None) -> IntArray:
        """Best labelling."""
        return self.maximum(w, backend=backend)[1]

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Score of the best labelling that has label a at node t, shape (n_nodes, n_labels)."""
        of_rest, gains = self.gains(w, backend=backend)
        best, shares = largest(gains, self.batch)
        chosen = shares.max(axis=1, initial=0.0) > 0
        second, _ = largest(np.where(chosen[:, None], -np.inf, gains), self.batch)
        sizes = np.diff(self.offsets)
        out = np.repeat(of_rest, sizes)[:, None] + gains
        out[:, self.rest] = np.where(chosen, np.repeat(of_rest + second, sizes), np.repeat(of_rest + best, sizes))
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Log-partition of every example, and its gradient: the marginals."""
        of_rest, gains = self.gains(w, table, backend)
        values, shares = softly_largest(gains, self.batch)
        shares[:, self.rest] = 1.0 - shares.sum(axis=1)
        return of_rest + values, Marginals(shares, np.zeros((*shares.shape, self.n_labels)) if cliques else None)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes)."""
        shares = softly_largest(self.gains(w, backend=backend).of_choice, self.batch)[1]
        uniforms = rng.random((n_draws, len(self.sample_weight)))
        labels = np.full((n_draws, len(shares)), self.rest, dtype=np.int32)
        for i, (begin, end) in enumerate(zip(self.offsets[:-1], self.offsets[1:])):
            place = np.searchsorted(np.cumsum(shares[begin:end]), uniforms[:, i], side="right")
            draws = np.flatnonzero(place < (end - begin) * self.n_labels)  # beyond all choices: none
            node, label = np.divmod(place[draws], self.n_labels)
            labels[draws, begin + node] = label
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """The k best labellings, best first."""
        of_rest, gains = self.gains(w, backend=backend)
        values, labels = np.full((len(of_rest), k), -np.inf), np.full((k, len(gains)), -1, dtype=np.int32)
        for i, (begin, end) in enumerate(zip(self.offsets[:-1], self.offsets[1:])):
            every = np.append(gains[begin:end].ravel(), 0.0)
            for rank, place in enumerate(np.argsort(-every, kind="stable")[:k]):
                if not every[place] > -np.inf:
                    break
                values[i, rank] = of_rest[i] + every[place]
                labels[rank, begin:end] = self.rest
                if place < len(every) - 1:
                    node, label = divmod(int(place), self.n_labels)
                    labels[rank, begin + node] = label
        return values, labels

    # ---- sums over examples -------------------------------------------------------------------------------------

    def excess(
        self,
        aggregate: str,
        w: FloatArray,
        table: Table | None = None,
        *,
        counted: Table | None = None,
        price: Price | None = None,
        gradient: bool = True,
        single: bool = False,
        packed: bool = False,
    ) -> Excess:
        """As `maxendnet.structures.base.excess`: both maxima are taken of gains, so that large scores of the rest
        cancel."""
        batch, gains = self.batch, self.gains(w, table).of_choice
        truth, chosen = np.zeros(len(gains)), np.flatnonzero(batch.y != self.rest)
        truth[chosen] = gains[chosen, batch.y[chosen]]
        overall: Callable[..., Aggregate] = largest if aggregate == "maximum" else softly_largest
        values, shares = overall(gains, batch)
        # the truth is among all labellings: what is below is rounding
        values = np.maximum(values - sums(truth, self.offsets), 0.0)
        expected = np.zeros(len(values))
        if not gradient:
            return Excess(values, np.zeros(0), expected)
        if counted is not None:
            rows = counted.at_nodes()
            of_rest = rows[:, self.rest]
            expected = sums(of_rest + (shares * (rows - of_rest[:, None])).sum(axis=1), self.offsets)
        shares[chosen, batch.y[chosen]] -= 1.0
        shares[:, self.rest] = -shares.sum(axis=1)
        factor = self.sample_weight * (1.0 if price is None else price(values))
        shares *= np.repeat(factor, np.diff(self.offsets))[:, None]
        slope = self._add_features(batch, shares)
        return Excess(values, slope if packed else self.unpack(slope), expected)

    def unpack(self, slope: FloatArray) -> FloatArray:
        """A vector that kernels have added up, in the order of the weights."""
        return unpad(self.layout, slope)

    def _add_features(self, batch: Batch, shares: FloatArray) -> FloatArray:
        slope = np.zeros(self.slope_size)
        each(lambda a, b: _kernels.add_features(batch, self.shape, shares, a, b, slope), self.one_after_the_other())
        return slope

    def curvature(self) -> FloatArray:
        """Diagonal of the Hessian of the weighted log losses at ``w = 0``, where all choices are equally likely.

        Nodes of an example that share a feature are counted as if they did not: it serves as a scale of the weights.
        """
        batch, sizes = self.batch, np.diff(self.offsets)
        allowed = batch.allowed.astype(float) if batch.allowed.size else np.ones((len(batch.parent), self.n_labels))
        allowed[:, self.rest] = 0.0
        p = allowed / np.repeat(1.0 + sums(allowed.sum(axis=1), self.offsets), sizes)[:, None]
        p[:, self.rest] = p.sum(axis=1)
        p *= (1.0 - p) * np.repeat(self.sample_weight, sizes)[:, None]
        squares = batch._replace(data=batch.data**2, label_features=batch.label_features**2)
        return self.unpack(self._add_features(squares, p))

    @property
    def slope_size(self) -> int:
        return padded_size(self.layout)

    @cached_property
    def work_per_node(self) -> float:
        n_nodes = max(1, len(self.batch.parent))
        allowed = self.batch.allowed
        labels = allowed.sum() / n_nodes if allowed.size else float(self.n_labels)
        return 4 * labels * (10 + len(self.batch.indices) / n_nodes)


def largest(gains: FloatArray, batch: Batch) -> Aggregate:
    """The largest gain of every example, or 0 for no choice; the first of several that are equal."""
    some = np.diff(batch.offsets) > 0
    owner = np.repeat(np.arange(len(some)), np.diff(batch.offsets))
    values, shares = np.zeros(len(some)), np.zeros_like(gains)
    of_node = gains.max(axis=1)
    if some.any():
        values[some] = np.maximum(np.maximum.reduceat(of_node, batch.offsets[:-1][some]), 0.0)
    there = np.flatnonzero((of_node == values[owner]) & (of_node > 0.0))
    node = there[np.unique(owner[there], return_index=True)[1]]
    shares[node, gains[node].argmax(axis=1)] = 1.0
    return Aggregate(values, shares)


def softly_largest(gains: FloatArray, batch: Batch) -> Aggregate:
    """``log(1 + sum exp(gain))`` of every example: 1 is for no choice."""
    highest, _ = largest(gains, batch)
    sizes = np.diff(batch.offsets)
    shares = np.exp(gains - np.repeat(highest, sizes)[:, None])
    total = np.exp(-highest) + sums(shares.sum(axis=1), batch.offsets)
    shares /= np.repeat(total, sizes)[:, None]
    return Aggregate(highest + np.log(total), shares)
