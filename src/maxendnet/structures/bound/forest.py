"""Bound forests: exact inference on chains, trees and independent nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import Range, Threads, cut, each, pause
from maxendnet.data.batch import Batch
from maxendnet.data.ragged import is_mapped
from maxendnet.structures.base import EdgeTable, Excess, ExcessOptions, IntArray, Marginals, Table
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.kernel_structure import RecursiveStructure
from maxendnet.structures.weights import padding
from maxendnet.structures.weights.layout import FloatArray, Layout

SCALED, LOGARITHMIC, CAREFUL = 0, 1, 2
"""Modes of sum-product: scaled probabilities, log space, or scaled probabilities with checks (sum_product.hpp)."""
WIDEST_IF_CAREFUL = 100.0
"""Largest range of edge scores for mode `CAREFUL`."""
LONGEST_IN_SINGLE = 8192
"""Maximum nodes per example for float32 marginals, with an error of about 1e-6 (2e-4 at 100,000 nodes)."""


ENTRIES_AT_ONCE = 1 << 22
"""Number of memory-mapped feature entries that are transposed at a time (about 70 MB)."""


class Groups(NamedTuple):
    """Groups of examples with a few hundred nodes each. Gradients are accumulated per group."""

    ranges: list[Range]
    """Ranges of examples; each consists of whole groups."""
    transposed: _kernels.Groups


@dataclass(frozen=True, eq=False)
class BoundForest(RecursiveStructure):
    """Forest structure bound to examples, with linear scores and exact inference.

    The score of a labelling is the sum over nodes of ``x_t . node[:, y_t] + label_features[t, y_t] . label_weights``
    and over edges ``(s, t)`` of ``transitions[type, y_s, y_t] + edge_features . edge[:, y_s, y_t]``.

    Parameters
    ----------
    layout : Layout
    batch : Batch
    forbidden_matrix : uint8 ndarray of shape (n_labels, n_labels) or None, default=None
        1 for pairs of labels that cannot occur at an edge; rows are labels of the user's first node.

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Chain
    >>> forest = Chain().bind(Examples.build([[[1.0], [2.0]]], [["a", "b"]]), np.array(["a", "b"]))
    >>> forest.layout.n_weights
    6
    >>> forest.maximum(np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    (array([3.]), array([1, 1], dtype=int32))
    """

    forbidden_matrix: NDArray[np.uint8] | None = None
    described = "a forest"

    @cached_property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(
            blocks=True, forest=True, pairwise=self.forbidden_matrix is None,
            edge_features=self.layout.n_edge_features > 0, linear_nodes=True, edge_costs=True, unknown_labels=True,
            max_marginals=True, top=True, sample=True,
        )  # fmt: skip

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Weights as the recursions read them; -inf for forbidden pairs."""
        return padding.for_search(self.layout, w, dtype, self.forbidden_matrix)

    def recursion(self, w: FloatArray, dtype: type = np.float64, sums: bool = False) -> Any:
        """Recursion over labellings, for maxima or for sums."""
        return _kernels.forest(self.shape, self.for_search(w, dtype), self.sum_mode(w) if sums else SCALED)

    def sum_mode(self, w: FloatArray, centred: bool = False) -> int:
        """Mode of sum-product in double precision."""
        if self.forbidden_matrix is None:
            return sum_mode(self.layout, self.batch, w, np.float64, centred)
        spread = edge_range(self.layout, self.batch, w)
        return CAREFUL if spread * max(1, self.batch.max_children) <= WIDEST_IF_CAREFUL else LOGARITHMIC

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """As `RecursiveStructure.maximum`, but supports edge costs."""
        if table is not None and isinstance(table.joint, EdgeTable):
            structure, w = self._with_edge_table(w, table.joint)
            return structure.maximum(w, table._replace(joint=None), backend)
        return super().maximum(w, table, backend)

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """As `RecursiveStructure.logsum`, but supports edge costs."""
        if table is not None and isinstance(table.joint, EdgeTable):
            structure, w = self._with_edge_table(w, table.joint)
            return structure.logsum(w, table._replace(joint=None), cliques, backend)
        return super().logsum(w, table, cliques, backend)

    def clique_tables(self) -> tuple[FloatArray]:
        return (np.zeros((len(self.batch.parent), self.n_labels, self.n_labels)),)

    def edge_labels(self, labels: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[Any]]:
        """Labels at the edge of each node to its parent.

        Returns whether the edge exists, and the labels of the user's first and second node.
        """
        joined, flipped = self.batch.parent >= 0, self.batch.flipped.astype(bool)
        above = np.where(joined, labels[self.batch.parent], labels)
        return joined, np.where(flipped, labels, above), np.where(flipped, above, labels)

    def _with_edge_table(self, w: FloatArray, edges: EdgeTable) -> tuple[BoundForest, FloatArray]:
        """Add an edge table to the scores, as weights of indicator features.

        Every edge then has its own score matrix, so the time is proportional to the squared number of labels.
        """
        n_rows = len(edges.rows) - 1
        indicators = (edges.row[:, None] == np.arange(1, n_rows + 1)).astype(np.float64)
        batch = self.batch._replace(edge_features=np.hstack([self.batch.edge_features, indicators]))
        layout = replace(self.layout, n_edge_features=self.layout.n_edge_features + n_rows)
        segments = self.layout.segments(w)
        edge = np.concatenate([segments.edge, edges.rows[1:]])
        return replace(self, layout=layout, batch=batch), layout.join(segments._replace(edge=edge))

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """Return the k best labellings, best first.

        Returns
        -------
        values : ndarray of shape (n_examples, k)
            ``-inf`` if an example has fewer than k labellings.
        labels : ndarray of shape (k, n_nodes)
            -1 for missing labellings.
        """
        recursion, values = self.recursion(w), np.zeros((len(self.sample_weight), k))
        labels = np.zeros((k, len(self.batch.parent)), dtype=np.int32)
        self.for_each_range(
            backend,
            lambda a, b: _kernels.top(self.batch, recursion, k, a, b, values, labels, pause),
            slow=10 * k,
        )
        return values, labels

    # ---- sums over examples -------------------------------------------------------------------------------------

    def _logsum_excess(self, w: FloatArray, table: Table | None, options: ExcessOptions) -> Excess:
        masked, batch = self.forbidden_matrix is not None, self.with_rows(table or options.expected_table)
        single = options.single and self.longest <= LONGEST_IN_SINGLE and not (masked and self.steps == 0)
        dtype: type = np.float64
        mode = self.sum_mode(w, centred=True)
        if single and sum_mode(self.layout, batch, w, np.float32, centred=True) == SCALED:
            dtype, mode = np.float32, CAREFUL if masked else SCALED
        weights = self.for_search(w, dtype)
        rows, expected = self.rows_of(table, dtype), self.rows_of(options.expected_table, dtype)
        values, costs = np.zeros(len(self.sample_weight)), np.zeros(len(self.sample_weight))
        slope = np.zeros(self.slope_size if options.gradient else 0)
        gradient = slope if options.gradient else None
        for first, last, of_groups, groups in self.grouped(batch):
            recursion = _kernels.forest(self.shape, weights, mode, self.steps, groups.transposed)
            oracle = partial(_kernels.log_oracle, of_groups, recursion, rows, expected)
            of_values, of_costs = values[first:last], costs[first:last]
            each(lambda a, b: oracle(a, b, of_values, of_costs, gradient), groups.ranges)  # noqa: B023
        if dtype is np.float32 and masked and np.isnan(values).any():  # the score range of an example is too large
            return self._logsum_excess(w, table, options._replace(single=False))
        return Excess(values, slope, costs if options.expected_table and options.gradient else np.zeros(len(values)))

    @cached_property
    def steps(self) -> int:
        """Number of steps after which any label can follow any other, or 0 if there is none.

        Only for chains with forbidden pairs whose allowed labels are restricted at most at first and last nodes. The
        number bounds the score differences in sum-product.
        """
        if self.forbidden_matrix is None or self.layout.n_edge_features:
            return 0
        inner = np.ones(len(self.batch.parent), dtype=bool)
        nonempty = np.diff(self.offsets) > 0
        inner[self.offsets[:-1][nonempty]] = inner[self.offsets[1:][nonempty] - 1] = False
        if self.batch.allowed.size and not self.batch.allowed[inner].all():
            return 0
        permitted = reached = self.forbidden_matrix == 0
        for n in range(1, 5):
            if reached.all():
                return n
            reached = (reached.astype(np.int64) @ permitted) > 0
        return 0

    @cached_property
    def groups(self) -> Groups:
        """Groups of about 512 nodes, with transposed features.

        Groups are small enough that their marginals fit into the level 2 cache.
        """
        return self._transposed(self.batch, self._borders())

    def _borders(self) -> NDArray[np.int64]:
        """First example of every group, and the number of examples."""
        n_groups = max(1, int(self.offsets[-1]) // 512)
        cuts = [r for shard in cut(self.offsets, n_groups, 1 << 60) for r in shard]
        return np.array([first for first, _ in cuts] + [len(self.sample_weight)], dtype=np.int64)

    def _transposed(self, batch: Batch, examples: NDArray[np.int64]) -> Groups:
        node_offsets = np.ascontiguousarray(batch.offsets[examples])
        arrays = _kernels.group_features(batch.indptr, batch.indices, batch.data, node_offsets, self.layout.n_features)
        per_range = max(1, int(5e7 / (self.work_per_node * 512)))
        in_ranges = cut(np.arange(len(examples), dtype=np.int64), 1, per_range)
        ranges = [(int(examples[a]), int(examples[b])) for a, b in in_ranges[0]] if in_ranges else []
        return Groups(ranges, _kernels.Groups(examples, node_offsets, *arrays))

    def grouped(self, batch: Batch) -> Iterator[tuple[int, int, Batch, Groups]]:
        """Yield (first, last, batch, groups) for ranges of examples.

        Transposed features need as much memory as the features. For memory-mapped features they are therefore computed
        for a few groups at a time and not cached. The groups are the same.
        """
        if not is_mapped(batch.data):
            yield 0, len(self.sample_weight), batch, self.groups
            return
        borders = self._borders()
        entries = batch.indptr[batch.offsets[borders]]
        limits = np.arange(ENTRIES_AT_ONCE, entries[-1], ENTRIES_AT_ONCE)
        cuts = np.unique([0, *np.searchsorted(entries, limits).tolist(), len(borders) - 1])
        for begin, end in pairwise(cuts.tolist()):
            first, last = int(borders[begin]), int(borders[end])
            taken = batch.take(first, last)
            yield first, last, taken, self._transposed(taken, borders[begin : end + 1] - first)

    # ---- ranges of examples --------------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Approximate number of multiplications per node."""
        n_entries = len(self.batch.indices) / max(1, len(self.batch.parent))
        return (1 + n_entries + self.n_labels) * padding.lanes(self.layout)

    @cached_property
    def longest(self) -> int:
        """Number of nodes of the longest example."""
        return int(np.diff(self.offsets).max(initial=0))


def sum_mode(layout: Layout, batch: Batch, w: FloatArray, dtype: type, centred: bool = False) -> int:
    """Mode of sum-product: logarithms if scaled probabilities could underflow.

    The message of each neighbour can increase a belief by a factor of at most exp(range of the edge scores). If the
    product of these factors is far below the inverse of the smallest number, a belief that underflows is below rounding
    errors: 640 of log(1/smallest) = 708 are allowed for float64, 60 of 87 for float32. With ``centred``, row and column
    effects of transitions are removed first.

    In float32, examples must also have at most `LONGEST_IN_SINGLE` nodes.
    """
    most = (60 if dtype is np.float32 else 640) / (batch.max_children + 1)
    spread = edge_range(layout, batch, w)
    if not layout.n_edge_features and centred and spread > most:
        spread = layout.cache.of_weights(
            w, "centred range", lambda: max(_centred_range(matrix) for matrix in layout.segments(w).transitions)
        )
    return SCALED if spread <= most else LOGARITHMIC


def edge_range(layout: Layout, batch: Batch, w: FloatArray) -> float:
    """Upper bound of the score range of an edge."""
    spread: float = layout.cache.of_weights(w, "edge range", lambda: _largest_range(layout, w))
    if layout.n_edge_features and batch.edge_features.size:
        size = np.abs(batch.edge_features).max(axis=0)
        spread += float(sum(s * _range(matrix) for s, matrix in zip(size, layout.segments(w).edge)))
    return spread


def _largest_range(layout: Layout, w: FloatArray) -> float:
    return max((_range(matrix) for matrix in layout.segments(w).transitions), default=0.0)


def _range(matrix: FloatArray) -> float:
    low, high = float(matrix.min(initial=np.inf)), float(matrix.max(initial=-np.inf))
    if np.isfinite(low) and np.isfinite(high):
        return high - low
    finite = matrix[np.isfinite(matrix)]
    return float(finite.max() - finite.min()) if finite.size else 0.0


def _centred_range(matrix: FloatArray) -> float:
    """Range after removing row and column effects, as in the kernel (`centre`)."""
    if not np.all(np.isfinite(matrix)):
        return _range(matrix)
    row, column = np.zeros(len(matrix)), np.zeros(len(matrix))
    for _ in range(4):
        residual = matrix - column
        row = 0.5 * (residual.min(axis=1) + residual.max(axis=1))
        residual = matrix - row[:, None]
        column = 0.5 * (residual.min(axis=0) + residual.max(axis=0))
    return _range(matrix - row[:, None] - column)
