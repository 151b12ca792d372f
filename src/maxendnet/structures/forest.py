"""The exact structure: labels on the nodes of a forest. Chains and isolated nodes are forests too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends import Threads
from maxendnet.backends.threads import Range, cut
from maxendnet.data.batch import Batch

if TYPE_CHECKING:
    from maxendnet.losses.slack import Slack
    from maxendnet.problem import Problem

FloatArray = NDArray[np.float64]
KernelPrior = tuple[str, float, float, FloatArray | None, FloatArray | None]
"""A prior as the kernels take it: kind, two scalars, and arrays of variances and means where weights differ."""
SCALED, LOGARITHMIC = 0, 1
LONGEST_IN_SINGLE = 8192
"""Nodes of an example up to which marginals in float32 are right to about 1e-6; at 100,000 nodes it would be 2e-4."""


class Parts(NamedTuple):
    """The parts of a weight vector, each in its own shape."""

    node: FloatArray
    transitions: FloatArray
    edge: FloatArray
    tied: FloatArray


@dataclass(frozen=True)
class Forest:
    """Linear scores on a forest, and exact recursions over all its labellings.

    The score of a labelling is the sum over nodes of ``x_t . node[:, y_t] + label_features[t, y_t] . tied`` and over
    edges ``(s, t)`` of ``transitions[type, y_s, y_t] + edge_features . edge[:, y_s, y_t]``. A weight vector is flat,
    its parts in the order of `Parts`, each row-major.

    Parameters
    ----------
    n_features, n_labels : int
    n_edge_types : int
        0 for isolated nodes: no transitions.
    n_edge_features, n_tied : int, default=0

    Examples
    --------
    >>> forest = Forest(n_features=3, n_labels=2, n_edge_types=1)
    >>> forest.n_weights
    10
    >>> forest.parts(np.arange(10.0)).transitions
    array([[[6., 7.],
            [8., 9.]]])
    """

    n_features: int
    n_labels: int
    n_edge_types: int
    n_edge_features: int = 0
    n_tied: int = 0
    described = "a forest"
    pairwise = True  # scores join two labels at most, and any two: what solvers with kernels of their own rely on

    # ---- weights: flat for everyone, padded for the kernels -----------------------------------------------------

    @property
    def n_matrices(self) -> int:
        return self.n_edge_types + self.n_edge_features

    @property
    def n_siblings(self) -> int:
        """Number of weights for three labels: none; see `Hierarchy`."""
        return 0

    @property
    def n_weights(self) -> int:
        return self.n_features * self.n_labels + self.n_matrices * self.n_labels**2 + self.n_tied

    @cached_property
    def lanes(self) -> int:
        return _kernels.padded(self.n_labels)

    @property
    def shape(self) -> _kernels.Shape:
        """The sizes as the kernels take them."""
        return _kernels.Shape(self.n_features, self.n_labels, self.n_edge_types, self.n_edge_features, self.n_tied)

    def parts(self, w: FloatArray) -> Parts:
        """Views of the parts of ``w``."""
        L = self.n_labels
        node, transitions, edge, tied = np.split(
            w, np.cumsum([self.n_features * L, self.n_edge_types * L * L, self.n_edge_features * L * L])
        )
        return Parts(node.reshape(-1, L), transitions.reshape(-1, L, L), edge.reshape(-1, L, L), tied)

    def join(self, parts: Parts) -> FloatArray:
        """The flat vector of some parts; undoes `parts`."""
        return np.concatenate([np.ravel(part) for part in parts])

    @property
    def padded_size(self) -> int:
        """Length of a padded vector with one orientation of each matrix; tied weights are padded as labels are."""
        return (self.n_features + self.n_matrices * self.n_labels) * self.lanes + _kernels.padded(self.n_tied)

    def pad(self, w: FloatArray) -> FloatArray:
        """Rows of labels widened to whole vector registers: the layout in which kernels accumulate."""
        L, rows = self.n_labels, self.n_features + self.n_matrices * self.n_labels
        out = np.zeros(self.padded_size)
        out[: rows * self.lanes].reshape(rows, self.lanes)[:, :L] = w[: rows * L].reshape(rows, L)
        out[rows * self.lanes :][: self.n_tied] = w[rows * L :]
        return out

    def unpad(self, padded: FloatArray) -> FloatArray:
        """Undo `pad`."""
        L, rows = self.n_labels, self.n_features + self.n_matrices * self.n_labels
        body = padded[: rows * self.lanes].reshape(rows, self.lanes)[:, :L]
        return np.concatenate([body.ravel(), padded[rows * self.lanes :][: self.n_tied]])

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        """Weights as the recursions read them: padded, and every matrix in both orientations."""
        L, lanes = self.n_labels, self.lanes
        n_node, n_matrix = self.n_features * lanes, self.n_matrices * 2 * L * lanes
        out: NDArray = np.zeros(n_node + n_matrix + self.n_tied, dtype=dtype)
        parts = self.parts(w)
        out[:n_node].reshape(self.n_features, lanes)[:, :L] = parts.node
        both = out[n_node : n_node + n_matrix].reshape(self.n_matrices, 2, L, lanes)
        matrices = np.concatenate([parts.transitions, parts.edge])
        both[:, 0, :, :L] = matrices
        both[:, 1, :, :L] = matrices.transpose(0, 2, 1)
        out[n_node + n_matrix :] = parts.tied
        return out

    def pad_cost(self, cost: FloatArray, dtype: type = np.float64) -> NDArray:
        """Label costs as the recursions read them: row the true label, padded with zeros."""
        out: NDArray = np.zeros((self.n_labels, self.lanes), dtype=dtype)
        out[:, : self.n_labels] = cost
        return out

    # ---- block by block, for `BlockFrankWolfe` ------------------------------------------------------------------

    def block_updates(
        self, batch: Batch, prior: KernelPrior, C: float, weights: NDArray, eta: FloatArray, cost: FloatArray,
        picks: NDArray[np.int64], inner: int, sets: _kernels.ActiveSets, gaps: FloatArray,
    ) -> float:  # fmt: skip
        """A step for every picked example; ``weights``, ``eta``, ``sets`` and ``gaps`` change. The change of costs."""
        wide = self.pad_cost(cost)
        return _kernels.block_frank_wolfe(
            batch, self.shape, *prior, C, weights, eta, wide.astype(weights.dtype), wide, picks, inner, sets, gaps
        )

    def block_gaps(
        self, batch: Batch, w: FloatArray, cost: FloatArray, C: float, sets: _kernels.ActiveSets, hinges: FloatArray,
        gaps: FloatArray,
    ) -> Callable[[int, int], None]:  # fmt: skip
        """What fills in hinges and gaps of examples from the first to before the last, at the weights ``w``."""
        weights, wide = self.for_search(w), self.pad_cost(cost)
        return lambda a, b: _kernels.block_gaps(batch, self.shape, weights, wide, C, a, b, sets, hinges, gaps)

    def active_features(self, batch: Batch, sets: _kernels.ActiveSets, first: int, last: int, eta: FloatArray) -> None:
        """Add up eta of active sets, padded."""
        _kernels.active_features(batch, self.shape, sets, first, last, eta)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, batch: Batch, cost: FloatArray | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        """Best score of every example and a labelling that has it; with ``cost``, the most violating labelling.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        batch : Batch
        cost : ndarray of shape (n_labels, n_labels), optional
            Added to the score of a node: row its true label, column the label tried.
        backend : Threads, optional

        Returns
        -------
        values : ndarray of shape (n_examples,)
        labels : ndarray of shape (n_nodes,)
        """
        weights = self.for_search(w)
        padded_cost = None if cost is None else self.pad_cost(cost)
        values, labels = np.zeros(_n_examples(batch)), np.zeros(_n_nodes(batch), dtype=np.int32)
        self._each(
            batch,
            backend,
            lambda a, b, _: _kernels.decode(batch, self.shape, weights, padded_cost, a, b, values, labels),
        )
        return values, labels

    def decode(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> NDArray[np.int32]:
        """Best labelling, searched in single precision where that cannot overflow: half the time of `maximum`."""
        dtype = np.float32 if single_is_enough(w, batch) else np.float64
        weights, labels = self.for_search(w, dtype), np.zeros(_n_nodes(batch), dtype=np.int32)
        self._each(
            batch, backend, lambda a, b, _: _kernels.decode(batch, self.shape, weights, None, a, b, None, labels)
        )
        return labels

    def max_marginals(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> FloatArray:
        """Score of the best labelling that has label a at node t, shape (n_nodes, n_labels)."""
        weights, out = self.for_search(w), np.zeros((_n_nodes(batch), self.n_labels))
        self._each(batch, backend, lambda a, b, _: _kernels.max_marginals(batch, self.shape, weights, a, b, out))
        return out

    def logsum(
        self, w: FloatArray, batch: Batch, edges: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Log-partition of every example, and its gradient: the marginals.

        Returns
        -------
        values : ndarray of shape (n_examples,)
        node_marginals : ndarray of shape (n_nodes, n_labels)
        edge_marginals : ndarray of shape (n_nodes, n_labels, n_labels) or None
            Of the edge that joins a node to its parent, as the user wrote it (row: first node); zero for a root.
        """
        weights, values = self.for_search(w), np.zeros(_n_examples(batch))
        node = np.zeros((_n_nodes(batch), self.n_labels))
        edge = np.zeros((_n_nodes(batch), self.n_labels, self.n_labels)) if edges else None
        mode = self.mode(w, batch, np.float64)
        self._each(
            batch,
            backend,
            lambda a, b, _: _kernels.marginals(batch, self.shape, weights, mode, a, b, values, node, edge),
        )
        return values, node, edge

    def sample(
        self, w: FloatArray, batch: Batch, n_draws: int, rng: np.random.Generator, backend: Threads | None = None
    ) -> NDArray[np.int32]:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes)."""
        weights, uniforms = self.for_search(w), rng.random((n_draws, _n_nodes(batch)))
        labels = np.zeros((n_draws, _n_nodes(batch)), dtype=np.int32)
        mode = self.mode(w, batch, np.float64)
        self._each(
            batch,
            backend,
            lambda a, b, _: _kernels.sample(batch, self.shape, weights, mode, uniforms, n_draws, a, b, labels),
        )
        return labels

    def top(
        self, w: FloatArray, batch: Batch, k: int, backend: Threads | None = None
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        """The k best labellings, best first.

        Returns
        -------
        values : ndarray of shape (n_examples, k)
            ``-inf`` where an example has fewer than k labellings.
        labels : ndarray of shape (k, n_nodes)
            -1 there.
        """
        weights, values = self.for_search(w), np.zeros((_n_examples(batch), k))
        labels = np.zeros((k, _n_nodes(batch)), dtype=np.int32)
        self._each(
            batch,
            backend,
            lambda a, b, _: _kernels.top(batch, self.shape, weights, k, a, b, values, labels),
            slow=10 * k,
        )
        return values, labels

    # ---- sums over examples -------------------------------------------------------------------------------------

    def hinges(
        self, problem: Problem, w: FloatArray, slack: Slack, gradient: bool, single: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Hinge h of every example and, if asked, a subgradient of the weighted sum of their ``U(h) / C``."""
        dtype = np.float32 if single else np.float64
        weights, cost = self.for_search(w, dtype), self.pad_cost(problem.cost, dtype)
        values = np.zeros(problem.n_examples)

        def part(first: int, last: int, buffer: FloatArray | None) -> None:
            _kernels.hinge_oracle(
                problem.batch, self.shape, weights, cost, first, last, values, buffer, slack.code, problem.C
            )

        return values, problem.sum_over(problem.shards, part, gradient)

    def log_losses(
        self, problem: Problem, w: FloatArray, cost: FloatArray | None, gradient: bool, single: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log loss of every example and, if asked, the gradient of their weighted sum.

        With ``cost``, of shape (n_labels, n_labels), it is added to the scores; then the second array returned has the
        expected cost of every example, where there is a gradient.
        """
        batch = problem.batch
        dtype = np.float32 if single and self.mode(w, batch, np.float32, centred=True) == 0 else np.float64
        mode = self.mode(w, batch, dtype, centred=True)
        weights, padded_cost = self.for_search(w, dtype), None if cost is None else self.pad_cost(cost, dtype)
        values, costs = np.zeros(problem.n_examples), np.zeros(problem.n_examples)
        blocks, groups = problem.blocks

        def part(first: int, last: int, buffer: FloatArray | None) -> None:
            _kernels.log_oracle(
                batch, self.shape, groups, blocks.examples, weights, padded_cost, None, mode, first, last, values,
                costs, buffer,
            )  # fmt: skip

        return values, costs, problem.sum_over(blocks.shards, part, gradient)

    def mode(self, w: FloatArray, batch: Batch, dtype: type, centred: bool = False) -> int:
        """Whether sum-product may work with scaled probabilities, or needs logarithms.

        A belief that underflows to zero is lost; messages of its neighbours, children and parent, could have brought it
        back by at most exp(range of the edge scores) each. If that factor is far from the inverse of the smallest
        number, what is lost is below any rounding; 640 of log(1/smallest) = 708 are allowed for float64, 60 of 87 for
        float32. With ``centred``, transitions are without what belongs to their rows and columns alone.

        In float32 no example may be longer than `LONGEST_IN_SINGLE`: marginals are products along it, and their
        rounding errors grow with it.
        """
        if dtype is np.float32 and np.diff(batch.offsets).max(initial=0) > LONGEST_IN_SINGLE:
            return LOGARITHMIC
        parts = self.parts(w)
        range_of = _centred_range if centred and not self.n_edge_features else _range
        spread = max((range_of(matrix) for matrix in parts.transitions), default=0.0)
        if self.n_edge_features and batch.edge_features.size:
            size = np.abs(batch.edge_features).max(axis=0)
            spread += float(sum(s * _range(matrix) for s, matrix in zip(size, parts.edge)))
        return SCALED if spread * (batch.max_children + 1) <= (60 if dtype is np.float32 else 640) else LOGARITHMIC

    def curvature(self, batch: Batch) -> FloatArray:
        """Diagonal of the Hessian of the weighted log losses at ``w = 0``, where all labellings are alike.

        Labels that are not allowed are counted as the others, and edges that share a node as if they did not: it serves
        as a scale of the weights.
        """
        L = self.n_labels
        u = np.repeat(batch.weights, np.diff(batch.offsets))
        entries = np.repeat(u, np.diff(batch.indptr)) * batch.data**2
        node = np.bincount(batch.indices, entries, minlength=self.n_features)
        joined = batch.parent >= 0
        kinds = np.bincount(batch.edge_type[joined], u[joined], minlength=self.n_edge_types)
        edge = u[joined] @ batch.edge_features[joined] ** 2
        tied = u @ batch.label_features.var(axis=1) if self.n_tied else np.zeros(0)
        per_node, per_edge = (1 - 1 / L) / L, (1 - 1 / L**2) / L**2
        matrices = np.concatenate([kinds, edge])[: self.n_matrices]
        return np.concatenate([np.repeat(per_node * node, L), np.repeat(per_edge * matrices, L * L), tied])

    def work_per_node(self, batch: Batch) -> float:
        """Multiplications for one node: features and edge, times lanes."""
        return (1 + len(batch.indices) / max(1, _n_nodes(batch)) + self.n_labels) * self.lanes

    def shards(self, batch: Batch, n_shards: int = 16, slow: float = 1.0) -> list[list[Range]]:
        """Examples cut for the threads; a range takes some ten milliseconds."""
        nodes = int(max(1, 5e7 / (self.work_per_node(batch) * slow)))
        return cut(batch.offsets, max(1, min(n_shards, _n_examples(batch))), nodes)

    def _each(self, batch: Batch, backend: Threads | None, function, slow: float = 1.0) -> None:
        # nothing is summed, so that shards are only there for the threads: few where there is little to do
        n_shards = min(64, 1 + _n_nodes(batch) // 512)
        (backend or Threads()).run(function, self.shards(batch, n_shards, slow))


def single_is_enough(w: FloatArray, batch: Batch) -> bool:
    """Whether scores can be searched in float32: numbers of everyday size."""
    return batch.largest < 1e5 and bool(np.abs(w).max(initial=0.0) * max(1.0, batch.largest) < 1e5)


def _range(matrix: FloatArray) -> float:
    finite = matrix[np.isfinite(matrix)]
    return float(finite.max() - finite.min()) if finite.size else 0.0


def _centred_range(matrix: FloatArray) -> float:
    """Range of what is left when row and column of every entry are taken out, as the kernel does it (`centre`)."""
    if not np.all(np.isfinite(matrix)):
        return _range(matrix)
    row, column = np.zeros(len(matrix)), np.zeros(len(matrix))
    for _ in range(4):
        left = matrix - column
        row = 0.5 * (left.min(axis=1) + left.max(axis=1))
        left = matrix - row[:, None]
        column = 0.5 * (left.min(axis=0) + left.max(axis=0))
    return _range(matrix - row[:, None] - column)


def _n_examples(batch: Batch) -> int:
    return len(batch.offsets) - 1


def _n_nodes(batch: Batch) -> int:
    return len(batch.parent)
