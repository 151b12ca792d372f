"""One node out of many: at most one node of an example has another label than all the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends import Threads
from maxendnet.data.batch import Batch
from maxendnet.structures.forest import FloatArray, Forest

if TYPE_CHECKING:
    from maxendnet.losses.slack import Slack
    from maxendnet.problem import Problem


class Gains(NamedTuple):
    """Scores of all labellings of all examples: that without a choice, and what choices add to it."""

    nothing: FloatArray
    """(n_examples,): score of the labelling in which no node is chosen."""
    of: FloatArray
    """(n_nodes, n_labels): what it adds to choose a node for a label; -inf if not allowed, and for the rest."""


class Aggregate(NamedTuple):
    """A maximum over the labellings of every example, hard or soft, above that without a choice; and its gradient."""

    values: FloatArray
    shares: FloatArray
    """(n_nodes, n_labels): of each choice; 0 for the rest."""


@dataclass(frozen=True)
class Choice(Forest):
    """At most one node of an example has a label other than ``rest``: which one, and which label, is to be learned.

    Nodes compete: what counts is by how much the right node is ahead of the others and of no choice at all, not how
    sure a label would be at each node by itself. So it is with the leaf of a page that has the price, the sentence of a
    text that answers a question, the cause among events. There are no edges; the score of a labelling is the sum over
    its nodes, as in `Forest`.

    Inference is exact and easy: an example has one labelling for every allowed pair of a node and a label, and the one
    without a choice. Of the solvers with kernels of their own `BlockFrankWolfe` alone takes it, and `ProximalPoint`
    by it.

    Parameters
    ----------
    n_features, n_labels, n_edge_types, n_edge_features, n_tied : int
        As in `Forest`; without edges.
    rest : int, default=0
        The label of all nodes but the chosen one.

    Examples
    --------
    >>> from maxendnet.data.batch import encode
    >>> from maxendnet.data.examples import Examples
    >>> choice = Choice(n_features=1, n_labels=2, n_edge_types=0)
    >>> batch = encode(Examples.build([[[1.0], [3.0], [2.0]], [[-1.0]]]), ["rest", "best"], "choice")
    >>> choice.decode(np.array([0.0, 1.0]), batch).tolist()  # the largest; and none that is below 0
    [0, 1, 0, 0]
    """

    rest: int = 0
    pairwise = False
    described = "a choice among nodes"

    @property
    def shape(self) -> _kernels.Shape:
        return _kernels.Shape(self.n_features, self.n_labels, 0, 0, self.n_tied, self.rest)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def gains(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> Gains:
        """Scores of all labellings."""
        weights, scores = self.for_search(w), np.zeros((len(batch.parent), self.n_labels))
        self._each(batch, backend, lambda a, b, _: _kernels.node_scores(batch, self.shape, weights, a, b, scores))
        of_rest = scores[:, self.rest].copy()
        scores -= of_rest[:, None]
        scores[:, self.rest] = -np.inf
        return Gains(sums(of_rest, batch), scores)

    def maximum(
        self, w: FloatArray, batch: Batch, cost: FloatArray | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        nothing, of = self.gains(w, batch, backend)
        if cost is not None:
            of += cost[batch.y] - cost[batch.y][:, [self.rest]]
            nothing += sums(cost[batch.y, self.rest], batch)
        best, shares = largest(of, batch)
        labels = np.full(len(of), self.rest, dtype=np.int32)
        node, label = np.nonzero(shares)
        labels[node] = label
        return nothing + best, labels

    def decode(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> NDArray[np.int32]:
        """Best labelling."""
        return self.maximum(w, batch, backend=backend)[1]

    def max_marginals(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> FloatArray:
        nothing, of = self.gains(w, batch, backend)
        best, shares = largest(of, batch)
        chosen = shares.max(axis=1, initial=0.0) > 0
        second, _ = largest(np.where(chosen[:, None], -np.inf, of), batch)
        sizes = np.diff(batch.offsets)
        out = np.repeat(nothing, sizes)[:, None] + of
        out[:, self.rest] = np.where(chosen, np.repeat(nothing + second, sizes), np.repeat(nothing + best, sizes))
        return out

    def logsum(
        self, w: FloatArray, batch: Batch, edges: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        nothing, of = self.gains(w, batch, backend)
        values, shares = softly_largest(of, batch)
        shares[:, self.rest] = 1.0 - shares.sum(axis=1)
        return nothing + values, shares, np.zeros((*shares.shape, self.n_labels)) if edges else None

    def sample(
        self, w: FloatArray, batch: Batch, n_draws: int, rng: np.random.Generator, backend: Threads | None = None
    ) -> NDArray[np.int32]:
        shares = softly_largest(self.gains(w, batch, backend).of, batch)[1]
        uniforms = rng.random((n_draws, len(batch.offsets) - 1))
        labels = np.full((n_draws, len(shares)), self.rest, dtype=np.int32)
        for i, (begin, end) in enumerate(zip(batch.offsets[:-1], batch.offsets[1:])):
            place = np.searchsorted(np.cumsum(shares[begin:end]), uniforms[:, i], side="right")
            draws = np.flatnonzero(place < (end - begin) * self.n_labels)  # beyond all choices: nothing
            node, label = np.divmod(place[draws], self.n_labels)
            labels[draws, begin + node] = label
        return labels

    def top(
        self, w: FloatArray, batch: Batch, k: int, backend: Threads | None = None
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        nothing, of = self.gains(w, batch, backend)
        values, labels = np.full((len(nothing), k), -np.inf), np.full((k, len(of)), -1, dtype=np.int32)
        for i, (begin, end) in enumerate(zip(batch.offsets[:-1], batch.offsets[1:])):
            all_of_them = np.append(of[begin:end].ravel(), 0.0)
            for rank, place in enumerate(np.argsort(-all_of_them, kind="stable")[:k]):
                if not all_of_them[place] > -np.inf:
                    break
                values[i, rank] = nothing[i] + all_of_them[place]
                labels[rank, begin:end] = self.rest
                if place < len(all_of_them) - 1:
                    node, label = divmod(int(place), self.n_labels)
                    labels[rank, begin + node] = label
        return values, labels

    # ---- sums over examples -------------------------------------------------------------------------------------

    def hinges(
        self, problem: Problem, w: FloatArray, slack: Slack, gradient: bool, single: bool
    ) -> tuple[FloatArray, FloatArray]:
        values, _, shares = self._beyond_truth(problem, w, problem.cost, largest)
        values = np.maximum(values, 0.0)  # the truth is among all labellings: what is below is rounding
        return values, self._slope(problem, shares, slack.slope(values, problem.C) / problem.C, gradient)

    def log_losses(
        self, problem: Problem, w: FloatArray, cost: FloatArray | None, gradient: bool, single: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        values, costs, shares = self._beyond_truth(problem, w, cost, softly_largest)
        return values, costs, self._slope(problem, shares, np.ones(len(values)), gradient)

    def _beyond_truth(
        self, problem: Problem, w: FloatArray, cost: FloatArray | None, aggregate: Callable[..., Aggregate]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """By how much the maximum over all labellings, costs added, is above the truth; expected costs; shares."""
        batch, costs = problem.batch, np.zeros(problem.n_examples)
        of = self.gains(w, batch, problem.backend).of
        truth, chosen = np.zeros(len(of)), np.flatnonzero(batch.y != self.rest)
        truth[chosen] = of[chosen, batch.y[chosen]]
        if cost is None:
            values, shares = aggregate(of, batch)
        else:
            more = cost[batch.y] - cost[batch.y][:, [self.rest]]
            values, shares = aggregate(of + more, batch)
            of_nothing = sums(cost[batch.y, self.rest], batch)
            costs = of_nothing + sums((shares * more).sum(axis=1), batch)
            values = values + of_nothing
        return values - sums(truth, batch), costs, shares

    def _slope(self, problem: Problem, shares: FloatArray, price: FloatArray, gradient: bool) -> FloatArray:
        """``sum_i weight_i price_i [expected features - true features]``."""
        if not gradient:
            return np.zeros(0)
        batch, chosen = problem.batch, np.flatnonzero(problem.batch.y != self.rest)
        shares[chosen, batch.y[chosen]] -= 1.0
        shares[:, self.rest] = -shares.sum(axis=1)
        shares *= np.repeat(price * batch.weights, np.diff(batch.offsets))[:, None]

        def part(first: int, last: int, buffer: FloatArray) -> None:
            _kernels.add_features(batch, self.shape, shares, first, last, buffer)

        return problem.sum_over(problem.shards, part, gradient)

    def curvature(self, batch: Batch) -> FloatArray:
        """Diagonal of the Hessian of the weighted log losses at ``w = 0``, where all choices are alike.

        Nodes of an example that share a feature are counted as if they did not: it serves as a scale of the weights.
        """
        allowed = batch.allowed.astype(float) if batch.allowed.size else np.ones((len(batch.parent), self.n_labels))
        allowed[:, self.rest] = 0.0
        p = allowed / np.repeat(1.0 + sums(allowed.sum(axis=1), batch), np.diff(batch.offsets))[:, None]
        p[:, self.rest] = p.sum(axis=1)
        p *= (1.0 - p) * np.repeat(batch.weights, np.diff(batch.offsets))[:, None]
        squares = batch._replace(data=batch.data**2, label_features=batch.label_features**2)
        out = np.zeros(self.padded_size)
        _kernels.add_features(squares, self.shape, p, 0, len(batch.offsets) - 1, out)
        return self.unpad(out)

    def work_per_node(self, batch: Batch) -> float:
        n_nodes = max(1, len(batch.parent))
        labels = batch.allowed.sum() / n_nodes if batch.allowed.size else float(self.n_labels)
        return 4 * labels * (10 + len(batch.indices) / n_nodes)


def sums(values: FloatArray, batch: Batch) -> FloatArray:
    """Sum of the values of an example's nodes."""
    some = np.diff(batch.offsets) > 0
    out = np.zeros(len(some))
    if some.any():
        out[some] = np.add.reduceat(values, batch.offsets[:-1][some])
    return out


def largest(of: FloatArray, batch: Batch) -> Aggregate:
    """The largest gain of every example, or 0 for no choice; the first of several that are alike."""
    some = np.diff(batch.offsets) > 0
    values, shares, owner = (
        np.zeros(len(some)),
        np.zeros_like(of),
        np.repeat(np.arange(len(some)), np.diff(batch.offsets)),
    )
    of_node = of.max(axis=1)
    if some.any():
        values[some] = np.maximum(np.maximum.reduceat(of_node, batch.offsets[:-1][some]), 0.0)
    there = np.flatnonzero((of_node == values[owner]) & (of_node > 0.0))
    node = there[np.unique(owner[there], return_index=True)[1]]
    shares[node, of[node].argmax(axis=1)] = 1.0
    return Aggregate(values, shares)


def softly_largest(of: FloatArray, batch: Batch) -> Aggregate:
    """``log(1 + sum exp(gain))`` of every example: 1 is for no choice."""
    highest, _ = largest(of, batch)
    sizes = np.diff(batch.offsets)
    shares = np.exp(of - np.repeat(highest, sizes)[:, None])
    total = np.exp(-highest) + sums(shares.sum(axis=1), batch)
    shares /= np.repeat(total, sizes)[:, None]
    return Aggregate(highest + np.log(total), shares)
