"""Forests whose neighbouring children are scored together, and in which pairs of labels may be forbidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import Threads, each
from maxendnet.structures.base import (
    GRADIENT,
    Excess,
    ExcessOptions,
    IntArray,
    Marginals,
    Table,
    composed_excess,
    no_table,
)
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.forest import kernels_take, uniform_curvature
from maxendnet.structures.bound.padded_blocks import KernelPrior
from maxendnet.structures.search.k_best import k_best
from maxendnet.structures.weights.layout import FloatArray

WIDEST = 600.0
"""Range of sibling weights up to which they are multiplied as exponentials; float64 goes down to exp(-708)."""


@dataclass(frozen=True, eq=False)
class BoundHierarchy(BatchStructure):
    """A forest with weights for neighbouring children given their parent, and with forbidden pairs of labels.

    To the score of a labelling every pair of neighbouring children ``s, t`` of a node p adds
    ``siblings[type, y_p, y_s, y_t]``, the type being that of the edge from p to the right one; children stand in the
    order of their numbers. A labelling in which a parent and a child have a forbidden pair of labels does not exist.

    Inference is exact: from the leaves to the roots, for each label of a parent, its children are a chain. The work is
    the sum over nodes of the allowed labels of parent, node and left neighbour, multiplied. It is done in double
    precision. Of the solvers with kernels of their own `BlockFrankWolfe` alone takes it, and `ProximalPoint` by it;
    the others are made for pairs of labels (`pairwise`).

    Parameters
    ----------
    layout : Layout
    batch : Batch
    forbidden : tuple of (int, int), default=()
        Pairs (label of the parent, label of the child).

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Tree
    >>> family = Examples.build([[[0.0]] * 3], [["a", "b", "b"]], edges=[[(0, 1), (0, 2)]])
    >>> hierarchy = Tree(siblings=True).bind(family, np.array(["a", "b"]))
    >>> hierarchy.layout.segments(np.arange(14.0)).siblings.shape
    (1, 2, 2, 2)
    """

    forbidden: tuple[tuple[int, int], ...] = ()
    described = "a forest with siblings or forbidden pairs"
    capabilities = Capabilities(
        blocks=True, linear_nodes=True, unknown_labels=True, max_marginals=True, top=True, sample=True
    )

    @cached_property
    def blocks(self) -> HierarchyBlocks:
        """What solvers that go from example to example need."""
        return HierarchyBlocks(self)

    @cached_property
    def forbidden_matrix(self) -> NDArray[np.uint8]:
        """1 where a pair is forbidden; row: label of the parent."""
        matrix = np.zeros((self.n_labels, self.n_labels), dtype=np.uint8)
        if self.forbidden:
            matrix[tuple(np.array(self.forbidden).T)] = 1
        return matrix

    def recursion(self, w: FloatArray, sums: bool = True) -> _kernels.Hierarchy:
        """The recursion over labellings; the exponentials of ``siblings`` are for sums."""
        w, s = np.ascontiguousarray(w, dtype=np.float64), self.layout  # not copied: block by block, weights change
        table = shift = None
        if s.n_siblings and sums:
            siblings = s.segments(w).siblings
            if np.all(siblings.max(axis=(2, 3)) - siblings.min(axis=(2, 3)) <= WIDEST):
                shift = siblings.max(axis=(2, 3))
                table = np.exp(siblings - shift[:, :, None, None])
        forbidden = self.forbidden_matrix if self.forbidden else None
        return _kernels.hierarchy(self.shape, s.siblings, w, table, shift, forbidden)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Best score of every example and a labelling that has it."""
        recursion, (batch, rows) = self.recursion(w), self.with_rows(table)
        values, labels = np.zeros(len(self.sample_weight)), np.zeros(len(batch.parent), dtype=np.int32)
        self.for_each_range(backend, lambda a, b: _kernels.decode(batch, recursion, rows, a, b, values, labels))
        return values, labels

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Score of the best labelling that has label a at node t, shape (n_nodes, n_labels)."""
        recursion, out = self.recursion(w), np.zeros((len(self.batch.parent), self.n_labels))
        self.for_each_range(backend, lambda a, b: _kernels.max_marginals(self.batch, recursion, a, b, out))
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Log-partition of every example, and its gradient: the marginals."""
        batch, rows = self.with_rows(table)
        recursion, values = self.recursion(w), np.zeros(len(self.sample_weight))
        n_nodes, L = len(batch.parent), self.n_labels
        node = np.zeros((n_nodes, L))
        edge = np.zeros((n_nodes, L, L)) if cliques else None
        siblings = np.zeros((n_nodes, L, L, L)) if cliques and self.layout.siblings else None
        self.for_each_range(
            backend,
            lambda a, b: _kernels.marginals(batch, recursion, rows, a, b, values, node, edge, siblings),
        )
        return values, Marginals(node, edge, siblings)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes)."""
        recursion, uniforms = self.recursion(w), rng.random((n_draws, len(self.batch.parent)))
        labels = np.zeros((n_draws, len(self.batch.parent)), dtype=np.int32)
        self.for_each_range(
            backend,
            lambda a, b: _kernels.sample(self.batch, recursion, None, uniforms, n_draws, a, b, labels),
            slow=1 + n_draws / self.n_labels,  # a draw goes through a chain for one label of the parent instead of all
        )
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """The k best labellings, best first."""
        return k_best(self, w, k)

    def impossible(self, backend: Threads | None = None) -> NDArray[np.int64]:
        """Of every example a node none of whose labels is possible with what lies below it, or -1."""
        nodes = np.full(len(self.sample_weight), -1)
        if self.forbidden:
            recursion = self.without_weights
            self.for_each_range(backend, lambda a, b: _kernels.impossible(self.batch, recursion, a, b, nodes))
        return nodes

    @cached_property
    def without_weights(self) -> _kernels.Hierarchy:
        """For operations that depend on sizes and forbidden pairs alone."""
        return _kernels.hierarchy(self.shape, self.layout.siblings, None, None, None, self.forbidden_matrix)

    # ---- sums over examples -------------------------------------------------------------------------------------

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """As `BoundStructure.excess`."""
        gradient, derivative, counted = options.gradient, options.slack_derivative, options.expected_table
        if not kernels_take(aggregate, table, options):
            return composed_excess(self, aggregate, w, table, options)
        values, costs = np.zeros(len(self.sample_weight)), np.zeros(len(self.sample_weight))
        slope = np.zeros(self.layout.n_weights if gradient else 0)
        added = slope if gradient else None
        recursion, batch = self.recursion(w, sums=aggregate == "logsum"), self.with_rows(table or counted)[0]
        rows, expected = (None if t is None else np.ascontiguousarray(t.rows) for t in (table, counted))
        if aggregate == "logsum":

            def part(a: int, b: int) -> None:
                _kernels.log_oracle(batch, recursion, rows, expected, a, b, values, costs, added)

        else:
            slack, C = (0, 1.0) if derivative is None else (derivative.code, derivative.C)
            table = no_table(self) if table is None else table
            hinge_batch, hinge_rows = self.with_rows(table)[0], np.ascontiguousarray(table.rows)

            def part(a: int, b: int) -> None:
                _kernels.hinge_oracle(hinge_batch, recursion, hinge_rows, a, b, values, added, slack, C)

        each(part, self.one_after_the_other())
        return Excess(values, slope, np.zeros(len(values)) if counted is None or not gradient else costs)

    def curvature(self) -> FloatArray:
        """Diagonal of the Hessian of the weighted log losses at ``w = 0``, as if all labels were equally likely."""
        return uniform_curvature(self.layout, self.batch)

    # ---- how the work is shared out ------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Multiplications for one node, on average; an exponential counts for ten."""
        n_nodes = max(1, len(self.batch.parent))
        allowed = self.batch.allowed
        labels = allowed.sum() / n_nodes if allowed.size else float(self.n_labels)
        chain = labels**2 * (3 * labels + 10) if self.layout.siblings else 20 * labels**2
        # numbers are worked on one by one here, not eight at a time as in a forest
        return 6 * (labels * len(self.batch.indices) / n_nodes + chain)


@dataclass(frozen=True, eq=False)
class HierarchyBlocks:
    """What `BlockFrankWolfe` asks of a structure, see `PaddedBlocks`; here the kernels keep eta in the order of the
    weights, in double precision."""

    structure: BoundHierarchy

    @property
    def size(self) -> int:
        return self.structure.layout.n_weights

    def pad(self, w: FloatArray) -> FloatArray:
        return np.array(w, dtype=np.float64)

    def unpad(self, padded: FloatArray) -> FloatArray:
        return padded.copy()

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        return np.array(w, dtype=np.float64)

    def update(
        self, prior: KernelPrior, C: float, weights: NDArray, eta: FloatArray, cost: FloatArray,
        picks: NDArray[np.int64], inner: int, sets: _kernels.ActiveSets, gaps: FloatArray,
    ) -> float:  # fmt: skip
        s = self.structure
        return _kernels.block_frank_wolfe(
            s.batch, s.recursion(weights, sums=False), *prior, C, eta, cost, cost, picks, inner, sets, gaps
        )

    def look(
        self, w: FloatArray, cost: FloatArray, C: float, sets: _kernels.ActiveSets, hinges: FloatArray,
        gaps: FloatArray,
    ) -> Callable[[int, int], None]:  # fmt: skip
        s = self.structure
        recursion = s.recursion(w, sums=False)
        return lambda a, b: _kernels.block_gaps(s.batch, recursion, cost, C, a, b, sets, hinges, gaps)

    def add_features(self, sets: _kernels.ActiveSets, first: int, last: int, eta: FloatArray) -> None:
        s = self.structure
        _kernels.active_features(s.batch, s.without_weights, sets, first, last, eta)
