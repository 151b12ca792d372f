"""A forest whose neighbouring children are scored together, and in which pairs of labels may be forbidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends import Threads
from maxendnet.data.batch import Batch
from maxendnet.structures.forest import FloatArray, Forest, KernelPrior
from maxendnet.structures.k_best import k_best

if TYPE_CHECKING:
    from maxendnet.losses.slack import Slack
    from maxendnet.problem import Problem

WIDEST = 600.0
"""Range of sibling weights up to which they are multiplied as exponentials; float64 goes down to exp(-708)."""


class HierarchyParts(NamedTuple):
    """The parts of a weight vector, each in its own shape."""

    node: FloatArray
    transitions: FloatArray
    edge: FloatArray
    siblings: FloatArray
    tied: FloatArray


@dataclass(frozen=True)
class Hierarchy(Forest):
    """A `Forest` with weights for neighbouring children given their parent, and with forbidden pairs of labels.

    To the score of a labelling every pair of neighbouring children ``s, t`` of a node p adds
    ``siblings[type, y_p, y_s, y_t]``, the type being that of the edge from p to the right one; children stand in the
    order of their numbers. A labelling in which a parent and a child have a forbidden pair of labels does not exist.

    Inference is exact: from the leaves to the roots, for each label of a parent, its children are a chain. The work is
    the sum over nodes of the allowed labels of parent, node and left neighbour, multiplied. Of the
    solvers with kernels of their own `BlockFrankWolfe` alone takes it, and `ProximalPoint` by it; the others are made
    for pairs of labels (`pairwise`).

    Parameters
    ----------
    n_features, n_labels, n_edge_types, n_edge_features, n_tied : int
        As in `Forest`.
    siblings : bool, default=False
        Whether there are weights for neighbouring children.
    forbidden : tuple of (int, int), default=()
        Pairs (label of the parent, label of the child).

    Examples
    --------
    >>> hierarchy = Hierarchy(n_features=3, n_labels=2, n_edge_types=1, siblings=True, forbidden=((0, 1),))
    >>> hierarchy.n_weights
    18
    >>> hierarchy.parts(np.arange(18.0)).siblings.shape
    (1, 2, 2, 2)
    """

    siblings: bool = False
    forbidden: tuple[tuple[int, int], ...] = ()
    pairwise = False
    described = "a hierarchy (siblings or forbidden_pairs)"

    # ---- weights: flat for everyone, the kernels too ------------------------------------------------------------

    @property
    def n_siblings(self) -> int:
        """Number of weights of neighbouring children."""
        return self.n_edge_types * self.n_labels**3 if self.siblings else 0

    @property
    def n_weights(self) -> int:
        return super().n_weights + self.n_siblings

    def parts(self, w: FloatArray) -> HierarchyParts:  # type: ignore[override]
        """Views of the parts of ``w``."""
        L, end = self.n_labels, len(w) - self.n_tied
        node, transitions, edge, _ = super().parts(w[: end - self.n_siblings])
        siblings = w[end - self.n_siblings : end].reshape(-1, L, L, L)
        return HierarchyParts(node, transitions, edge, siblings, w[end:])

    @property
    def padded_size(self) -> int:
        return self.n_weights

    def pad(self, w: FloatArray) -> FloatArray:
        return w.copy()

    def unpad(self, padded: FloatArray) -> FloatArray:
        return padded.copy()

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        return np.array(w, dtype=np.float64)  # in double precision always

    @cached_property
    def forbidden_matrix(self) -> NDArray[np.uint8]:
        """1 where a pair is forbidden; row: label of the parent."""
        matrix = np.zeros((self.n_labels, self.n_labels), dtype=np.uint8)
        if self.forbidden:
            matrix[tuple(np.array(self.forbidden).T)] = 1
        return matrix

    def model(self, w: FloatArray, sums: bool = True) -> _kernels.HierarchyModel:
        """What the kernels read; the exponentials of ``siblings`` are for sums over labellings."""
        w = np.ascontiguousarray(w)
        table = shift = None
        if self.n_siblings and sums:
            siblings = self.parts(w).siblings
            if np.all(siblings.max(axis=(2, 3)) - siblings.min(axis=(2, 3)) <= WIDEST):
                shift = siblings.max(axis=(2, 3))
                table = np.exp(siblings - shift[:, :, None, None])
        forbidden = self.forbidden_matrix if self.forbidden else None
        return _kernels.HierarchyModel(self.shape, self.siblings, w, table, shift, forbidden)

    # ---- block by block -----------------------------------------------------------------------------------------

    def block_updates(
        self, batch: Batch, prior: KernelPrior, C: float, weights: NDArray, eta: FloatArray, cost: FloatArray,
        picks: NDArray[np.int64], inner: int, sets: _kernels.ActiveSets, gaps: FloatArray,
    ) -> float:  # fmt: skip
        model = self.model(weights, sums=False)
        return _kernels.hierarchy_block_frank_wolfe(
            batch, model, *prior, C, weights, eta, cost, picks, inner, sets, gaps
        )

    def block_gaps(
        self, batch: Batch, w: FloatArray, cost: FloatArray, C: float, sets: _kernels.ActiveSets, hinges: FloatArray,
        gaps: FloatArray,
    ) -> Callable[[int, int], None]:  # fmt: skip
        model = self.model(w, sums=False)
        return lambda a, b: _kernels.hierarchy_block_gaps(batch, model, cost, C, a, b, sets, hinges, gaps)

    def active_features(self, batch: Batch, sets: _kernels.ActiveSets, first: int, last: int, eta: FloatArray) -> None:
        # of the model only its sizes matter here
        _kernels.hierarchy_active_features(batch, self._without_weights, sets, first, last, eta)

    @cached_property
    def _without_weights(self) -> _kernels.HierarchyModel:
        return self.model(np.zeros(self.n_weights), sums=False)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, batch: Batch, cost: FloatArray | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        model = self.model(w)
        cost = None if cost is None else np.ascontiguousarray(cost, dtype=np.float64)
        values, labels = np.zeros(len(batch.offsets) - 1), np.zeros(len(batch.parent), dtype=np.int32)
        self._each(batch, backend, lambda a, b, _: _kernels.hierarchy_decode(batch, model, cost, a, b, values, labels))
        return values, labels

    def decode(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> NDArray[np.int32]:
        """Best labelling."""
        return self.maximum(w, batch, backend=backend)[1]

    def max_marginals(self, w: FloatArray, batch: Batch, backend: Threads | None = None) -> FloatArray:
        model, out = self.model(w), np.zeros((len(batch.parent), self.n_labels))
        self._each(batch, backend, lambda a, b, _: _kernels.hierarchy_max_marginals(batch, model, a, b, out))
        return out

    def logsum(
        self, w: FloatArray, batch: Batch, edges: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        model, values = self.model(w), np.zeros(len(batch.offsets) - 1)
        node = np.zeros((len(batch.parent), self.n_labels))
        edge = np.zeros((len(batch.parent), self.n_labels, self.n_labels)) if edges else None
        self._each(batch, backend, lambda a, b, _: _kernels.hierarchy_marginals(batch, model, a, b, values, node, edge))
        return values, node, edge

    def sample(
        self, w: FloatArray, batch: Batch, n_draws: int, rng: np.random.Generator, backend: Threads | None = None
    ) -> NDArray[np.int32]:
        model, uniforms = self.model(w), rng.random((n_draws, len(batch.parent)))
        labels = np.zeros((n_draws, len(batch.parent)), dtype=np.int32)
        self._each(
            batch,
            backend,
            lambda a, b, _: _kernels.hierarchy_sample(batch, model, uniforms, n_draws, a, b, labels),
            slow=1 + n_draws / self.n_labels,  # a draw goes through a chain for one label of the parent instead of all
        )
        return labels

    def top(
        self, w: FloatArray, batch: Batch, k: int, backend: Threads | None = None
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        return k_best(self, w, batch, k)

    def impossible(self, batch: Batch, backend: Threads | None = None) -> NDArray[np.int64]:
        """Of every example a node none of whose labels is possible with what lies below it, or -1."""
        nodes = np.full(len(batch.offsets) - 1, -1)
        if self.forbidden:
            model = self._without_weights
            self._each(batch, backend, lambda a, b, _: _kernels.hierarchy_impossible(batch, model, a, b, nodes))
        return nodes

    # ---- sums over examples -------------------------------------------------------------------------------------

    def hinges(
        self, problem: Problem, w: FloatArray, slack: Slack, gradient: bool, single: bool
    ) -> tuple[FloatArray, FloatArray]:
        model, values = self.model(w, sums=False), np.zeros(problem.n_examples)

        def part(first: int, last: int, buffer: FloatArray | None) -> None:
            _kernels.hierarchy_hinge(
                problem.batch, model, problem.cost, first, last, values, buffer, slack.code, problem.C
            )

        return values, problem.sum_over(problem.shards, part, gradient)

    def log_losses(
        self, problem: Problem, w: FloatArray, cost: FloatArray | None, gradient: bool, single: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        model, values, costs = self.model(w), np.zeros(problem.n_examples), np.zeros(problem.n_examples)
        cost = None if cost is None else np.ascontiguousarray(cost)

        def part(first: int, last: int, buffer: FloatArray | None) -> None:
            _kernels.hierarchy_log(problem.batch, model, cost, None, first, last, values, costs, buffer)

        return values, costs, problem.sum_over(problem.shards, part, gradient)

    def curvature(self, batch: Batch) -> FloatArray:
        found, n_cells = super().curvature(batch), self.n_labels**3
        if not self.n_siblings:
            return found
        u, right = np.repeat(batch.weights, np.diff(batch.offsets)), left_neighbours(batch) >= 0
        pairs = np.bincount(batch.edge_type[right], u[right], minlength=self.n_edge_types)
        return np.insert(found, len(found) - self.n_tied, np.repeat((1 - 1 / n_cells) / n_cells * pairs, n_cells))

    def work_per_node(self, batch: Batch) -> float:
        """Multiplications for one node, on average; an exponential counts for ten."""
        n_nodes = max(1, len(batch.parent))
        labels = batch.allowed.sum() / n_nodes if batch.allowed.size else float(self.n_labels)
        chain = labels**2 * (3 * labels + 10) if self.siblings else 20 * labels**2
        # numbers are worked on one by one here, not eight at a time as in a forest
        return 6 * (labels * len(batch.indices) / n_nodes + chain)


def left_neighbours(batch: Batch) -> NDArray[np.int64]:
    """Of every node the child of the same parent that comes before it, -1 for the first child and for a root.

    Examples
    --------
    >>> from maxendnet.data.batch import encode
    >>> from maxendnet.data.examples import Examples
    >>> tree = Examples.build([[[0.0]] * 4], edges=[[(0, 1), (0, 2), (1, 3)]])
    >>> left_neighbours(encode(tree, ["a"], "tree")).tolist()
    [-1, -1, 1, -1]
    """
    found = np.full(len(batch.parent), -1)
    by_parent = np.argsort(batch.parent, kind="stable")
    same = np.flatnonzero(np.diff(batch.parent[by_parent]) == 0)
    same = same[batch.parent[by_parent[same]] >= 0]
    found[by_parent[same + 1]] = by_parent[same]
    return found
