"""Bound structure of `Choice`: at most one node of an example is selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import Threads, each
from maxendnet.data.batch import Batch
from maxendnet.structures.base import GRADIENT, Excess, ExcessOptions, IntArray, Marginals, Table, sums
from maxendnet.structures.bound.batch_structure import kernel_shape
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.kernel_structure import KernelStructure
from maxendnet.structures.weights.layout import FloatArray


class Gains(NamedTuple):
    """Scores of all labellings: the score if no node is selected, and the gain of each selection."""

    of_rest: FloatArray
    """(n_examples,): score of the labelling in which no node is selected."""
    of_none: FloatArray
    """(n_examples,): gain of selecting no node: 0, or -inf if a node must be selected."""
    of_choice: FloatArray
    """(n_nodes, n_labels): gain of selecting a node with a label; -inf for the rest label and forbidden labels."""


class Aggregate(NamedTuple):
    """Maximum or log-partition of the gains of each example, and its gradient."""

    values: FloatArray
    shares: FloatArray
    """(n_nodes, n_labels): derivative with respect to each gain; 0 for the rest label."""


@dataclass(frozen=True, eq=False)
class BoundChoice(KernelStructure):
    """At most one node of an example has a label other than ``rest``; see `Choice`.

    Inference is exact and cheap: an example has one labelling per allowed pair of a node and a label, and one in which
    no node is selected. Of the solvers with kernels, only `BlockFrankWolfe` and `ProximalPoint` support it.

    Parameters
    ----------
    layout : Layout
        Without edges.
    batch : Batch
    rest : int, default=0
        Number of the rest label.
    must_choose : uint8 ndarray of shape (n_examples,) or (0,)
        1 if a node must be selected; empty if this is the case for no example.

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Choice
    >>> examples = Examples.build([[[1.0], [3.0], [2.0]], [[-1.0]]], [["rest", "best", "rest"], ["rest"]])
    >>> choice = Choice().bind(examples, np.array(["rest", "best"]))
    >>> choice.decode(np.array([0.0, 1.0])).tolist()  # the largest positive value is chosen
    [0, 1, 0, 0]
    """

    rest: int = 0
    must_choose: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    described = "a choice among nodes"
    capabilities = Capabilities(
        blocks=True, linear_nodes=True, unknown_labels=True, max_marginals=True, top=True,
        sample=True,
    )  # fmt: skip

    @cached_property
    def shape(self) -> _kernels.Shape:
        return kernel_shape(self.layout, self.rest)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def gains(self, w: FloatArray, table: Table | None = None, backend: Threads | None = None) -> Gains:
        """Return the scores of all labellings."""
        weights, scores = self.for_search(w), np.zeros((len(self.batch.parent), self.n_labels))
        self.for_each_range(backend, lambda a, b: _kernels.node_scores(self.batch, self.shape, weights, a, b, scores))
        if table is not None:
            scores += table.at_nodes()
        of_rest = scores[:, self.rest].copy()
        scores -= of_rest[:, None]
        scores[:, self.rest] = -np.inf
        of_none = np.zeros(len(self.sample_weight))
        if len(self.must_choose):
            of_none[self.must_choose.astype(bool)] = -np.inf
        return Gains(sums(of_rest, self.offsets), of_none, scores)

    @cached_property
    def within_truth(self) -> BoundChoice:
        """The same examples, with only possible true labels allowed."""
        batch = self.batch.within(self.label_sets)
        allowed = batch.allowed.copy()
        chosen = np.flatnonzero(allowed[:, self.rest] == 0)
        owner = np.repeat(np.arange(len(self.sample_weight)), np.diff(self.offsets))
        must = np.zeros(len(self.sample_weight), dtype=np.uint8)
        must[owner[chosen]] = 1
        not_chosen = must[owner].astype(bool)  # the node that must be selected excludes all others
        not_chosen[chosen] = False
        allowed[not_chosen] = 0
        allowed[:, self.rest] = 1
        return replace(self, batch=batch._replace(allowed=allowed), must_choose=must)

    def take(self, first: int, last: int) -> BoundChoice:
        """Return examples [first, last) as a bound structure."""
        return replace(self, batch=self.batch.take(first, last), must_choose=self.must_choose[first:last])

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the best score of every example, and a labelling that attains it."""
        of_rest, of_none, gains = self.gains(w, table, backend)
        best, shares = largest(gains, of_none, self.batch)
        labels = np.full(len(gains), self.rest, dtype=np.int32)
        node, label = np.nonzero(shares)
        labels[node] = label
        return of_rest + best, labels

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Return the best score with label a at node t, shape (n_nodes, n_labels)."""
        of_rest, of_none, gains = self.gains(w, backend=backend)
        best, shares = largest(gains, of_none, self.batch)
        chosen = shares.max(axis=1, initial=0.0) > 0
        second, _ = largest(np.where(chosen[:, None], -np.inf, gains), of_none, self.batch)
        sizes = np.diff(self.offsets)
        out = np.repeat(of_rest, sizes)[:, None] + gains
        out[:, self.rest] = np.where(chosen, np.repeat(of_rest + second, sizes), np.repeat(of_rest + best, sizes))
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Return the log-partition of every example, and the marginals."""
        of_rest, of_none, gains = self.gains(w, table, backend)
        values, shares = log_partition(gains, of_none, self.batch)
        shares[:, self.rest] = 1.0 - shares.sum(axis=1)
        return of_rest + values, Marginals(shares, np.zeros((*shares.shape, self.n_labels)) if cliques else None)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Sample labellings from p(y|x), shape (n_draws, n_nodes)."""
        _, of_none, gains = self.gains(w, backend=backend)
        shares = log_partition(gains, of_none, self.batch)[1]
        uniforms = rng.random((n_draws, len(self.sample_weight)))
        labels = np.full((n_draws, len(shares)), self.rest, dtype=np.int32)
        for i, (begin, end) in enumerate(zip(self.offsets[:-1], self.offsets[1:])):
            place = np.searchsorted(np.cumsum(shares[begin:end]), uniforms[:, i], side="right")
            draws = np.flatnonzero(place < (end - begin) * self.n_labels)  # higher numbers: no node is selected
            node, label = np.divmod(place[draws], self.n_labels)
            labels[draws, begin + node] = label
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """Return the k best labellings, best first."""
        of_rest, of_none, gains = self.gains(w, backend=backend)
        values, labels = np.full((len(of_rest), k), -np.inf), np.full((k, len(gains)), -1, dtype=np.int32)
        for i, (begin, end) in enumerate(zip(self.offsets[:-1], self.offsets[1:])):
            options = np.append(gains[begin:end].ravel(), of_none[i])
            for rank, place in enumerate(np.argsort(-options, kind="stable")[:k]):
                if not options[place] > -np.inf:
                    break
                values[i, rank] = of_rest[i] + options[place]
                labels[rank, begin:end] = self.rest
                if place < len(options) - 1:
                    node, label = divmod(int(place), self.n_labels)
                    labels[rank, begin + node] = label
        return values, labels

    # ---- sums over examples -------------------------------------------------------------------------------------

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """As `BoundStructure.excess`, computed from gains, in which large scores of the rest label cancel."""
        batch, (_, of_none, gains) = self.batch, self.gains(w, table)
        truth, chosen = np.zeros(len(gains)), np.flatnonzero(batch.y != self.rest)
        truth[chosen] = gains[chosen, batch.y[chosen]]
        aggregate_gains: Callable[..., Aggregate] = largest if aggregate == "maximum" else log_partition
        values, shares = aggregate_gains(gains, of_none, batch)
        # the truth is one of the labellings, so negative values are rounding errors
        values = np.maximum(values - sums(truth, self.offsets), 0.0)
        expected = np.zeros(len(values))
        if not options.gradient:
            return Excess(values, np.zeros(0), expected)
        if options.expected_table is not None:
            rows = options.expected_table.at_nodes()
            of_rest = rows[:, self.rest]
            expected = sums(of_rest + (shares * (rows - of_rest[:, None])).sum(axis=1), self.offsets)
        shares[chosen, batch.y[chosen]] -= 1.0
        shares[:, self.rest] = -shares.sum(axis=1)
        derivative = options.slack_derivative
        factor = self.sample_weight * (1.0 if derivative is None else derivative(values))
        shares *= np.repeat(factor, np.diff(self.offsets))[:, None]
        return Excess(values, self._add_features(batch, shares), expected)

    def _add_features(self, batch: Batch, shares: FloatArray) -> FloatArray:
        slope = np.zeros(self.slope_size)
        each(lambda a, b: _kernels.add_features(batch, self.shape, shares, a, b, slope), self.serial_ranges())
        return slope

    def curvature(self) -> FloatArray:
        """Return the approximate diagonal Hessian of the log losses at ``w = 0``.

        The approximation ignores correlations of nodes that share a feature.
        """
        batch, sizes = self.batch, np.diff(self.offsets)
        allowed = batch.allowed.astype(float) if batch.allowed.size else np.ones((len(batch.parent), self.n_labels))
        allowed[:, self.rest] = 0.0
        p = allowed / np.repeat(1.0 + sums(allowed.sum(axis=1), self.offsets), sizes)[:, None]
        p[:, self.rest] = p.sum(axis=1)
        p *= (1.0 - p) * np.repeat(self.sample_weight, sizes)[:, None]
        squares = batch._replace(data=batch.data**2, label_features=batch.label_features**2)
        return self.unpad(self._add_features(squares, p))

    @cached_property
    def work_per_node(self) -> float:
        n_nodes = max(1, len(self.batch.parent))
        allowed = self.batch.allowed
        labels = allowed.sum() / n_nodes if allowed.size else float(self.n_labels)
        return 4 * labels * (10 + len(self.batch.indices) / n_nodes)


def largest(gains: FloatArray, of_none: FloatArray, batch: Batch) -> Aggregate:
    """Largest gain of every example, or that of selecting no node; the first of equal gains wins."""
    nonempty = np.diff(batch.offsets) > 0
    owner = np.repeat(np.arange(len(nonempty)), np.diff(batch.offsets))
    values, shares = of_none.copy(), np.zeros_like(gains)
    of_node = gains.max(axis=1)
    if nonempty.any():
        values[nonempty] = np.maximum(np.maximum.reduceat(of_node, batch.offsets[:-1][nonempty]), of_none[nonempty])
    best = np.flatnonzero((of_node == values[owner]) & (of_node > of_none[owner]))
    node = best[np.unique(owner[best], return_index=True)[1]]
    shares[node, gains[node].argmax(axis=1)] = 1.0
    return Aggregate(values, shares)


def log_partition(gains: FloatArray, of_none: FloatArray, batch: Batch) -> Aggregate:
    """``log(exp(of_none) + sum exp(gains))`` of every example."""
    highest, _ = largest(gains, of_none, batch)
    sizes = np.diff(batch.offsets)
    shares = np.exp(gains - np.repeat(highest, sizes)[:, None])
    total = np.exp(of_none - highest) + sums(shares.sum(axis=1), batch.offsets)
    shares /= np.repeat(total, sizes)[:, None]
    return Aggregate(highest + np.log(total), shares)
