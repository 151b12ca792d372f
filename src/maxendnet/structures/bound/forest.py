"""Forests with examples: exact recursions over the labellings of chains, trees and isolated nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import Range, Threads, cut, each, pause
from maxendnet.data.batch import Batch
from maxendnet.data.ragged import is_mapped
from maxendnet.structures.base import (
    GRADIENT,
    EdgeTable,
    Excess,
    ExcessOptions,
    IntArray,
    Marginals,
    Table,
    composed_excess,
    no_table,
)  # fmt: skip
from maxendnet.structures.bound import features as of_cliques
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.padded_blocks import PaddedBlocks
from maxendnet.structures.weights.layout import FloatArray, Layout
from maxendnet.structures.weights.padding import for_search, lanes, pad, pad_rows, padded_size, unpad

SCALED, LOGARITHMIC, CAREFUL = 0, 1, 2
WIDEST_IF_CAREFUL = 100.0
"""Range of edge scores up to which sums with forbidden pairs use scaled probabilities (sum_product.hpp)."""
LONGEST_IN_SINGLE = 8192
"""Nodes of an example up to which marginals in float32 are right to about 1e-6; at 100,000 nodes it would be 2e-4."""


NODES_AT_ONCE = 1 << 18
"""Whose features are squared at a time: of many nodes they would take as much memory as the features."""
ENTRIES_AT_ONCE = 1 << 22
"""Entries of features in files that are transposed at a time: some 70 MB."""


class Groups(NamedTuple):
    """Groups of whole examples, hundreds of nodes each: the unit in which gradients are gathered."""

    ranges: list[Range]
    """Ranges of examples, each of whole groups."""
    transposed: _kernels.Groups


@dataclass(frozen=True, eq=False)
class BoundForest(BatchStructure):
    """Linear scores on forests, and exact recursions over all their labellings.

    The score of a labelling is the sum over nodes of ``x_t . node[:, y_t] + label_features[t, y_t] . label_weights``
    and over edges ``(s, t)`` of ``transitions[type, y_s, y_t] + edge_features . edge[:, y_s, y_t]``.

    Parameters
    ----------
    layout : Layout
    batch : Batch
    forbidden_matrix : uint8 ndarray of shape (n_labels, n_labels) or None, default=None
        1 where a pair of labels cannot occur along an edge; row: the label of the user's first node.

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

    @cached_property
    def blocks(self) -> PaddedBlocks:
        """What solvers that go from example to example need."""
        return PaddedBlocks(self.layout, self.batch, self.shape, self.forbidden_matrix)

    def recursion(self, w: FloatArray, dtype: type = np.float64) -> _kernels.Forest32 | _kernels.Forest64:
        """The recursion over labellings, for maxima."""
        return _kernels.forest(self.shape, for_search(self.layout, w, dtype, self.forbidden_matrix))

    def sums(self, w: FloatArray) -> _kernels.Forest32 | _kernels.Forest64:
        """The recursion over labellings, for sums."""
        weights = for_search(self.layout, w, forbidden=self.forbidden_matrix)
        return _kernels.forest(self.shape, weights, self.sum_mode(w))

    def sum_mode(self, w: FloatArray, centred: bool = False) -> int:
        """How sums in double precision are kept from underflow."""
        if self.forbidden_matrix is None:
            return sum_mode(self.layout, self.batch, w, np.float64, centred)
        spread = edge_range(self.layout, self.batch, w)
        return CAREFUL if spread * max(1, self.batch.max_children) <= WIDEST_IF_CAREFUL else LOGARITHMIC

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Best score of every example and a labelling that has it; with the costs as ``table``, the most violating.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        table : Table, optional
            Added to the scores of nodes, and of edges if it has a part for them.
        backend : Threads, optional

        Returns
        -------
        values : ndarray of shape (n_examples,)
        labels : ndarray of shape (n_nodes,)
        """
        if table is not None and isinstance(table.joint, EdgeTable):
            structure, w = self._with_edge_table(w, table.joint)
            return structure.maximum(w, table._replace(joint=None), backend)
        recursion, (batch, rows) = self.recursion(w), self.with_rows(table)
        rows = None if rows is None else pad_rows(self.layout, rows)
        values, labels = np.zeros(len(self.sample_weight)), np.zeros(len(batch.parent), dtype=np.int32)
        self.for_each_range(backend, lambda a, b: _kernels.decode(batch, recursion, rows, a, b, values, labels))
        return values, labels

    def decode(self, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
        """Best labelling, searched in single precision where that cannot overflow: half the time of `maximum`.

        With ``added``, of shape (n_labels,), these are added to the scores of labels at every node.
        """
        dtype = np.float32 if self._single_is_enough(w) else np.float64
        recursion, batch, rows = self.recursion(w, dtype), self.batch, None
        labels = np.zeros(len(batch.parent), dtype=np.int32)
        if added is not None:
            batch, key = batch._replace(row=np.zeros(len(labels), dtype=np.int32)), (dtype, added.tobytes())
            rows = self.layout.cache.result(key, lambda: pad_rows(self.layout, added[None], dtype))
        self.for_each_range(backend, lambda a, b: _kernels.decode(batch, recursion, rows, a, b, None, labels))
        return labels

    def _single_is_enough(self, w: FloatArray) -> bool:
        return single_is_enough(w, self.batch, self.layout.cache.of_weights(w, "largest", lambda: largest_of(w)))

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Score of the best labelling that has label a at node t, shape (n_nodes, n_labels)."""
        recursion, out = self.recursion(w), np.zeros((len(self.batch.parent), self.n_labels))
        self.for_each_range(backend, lambda a, b: _kernels.max_marginals(self.batch, recursion, a, b, out))
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Log-partition of every example, and its gradient: the marginals."""
        if table is not None and isinstance(table.joint, EdgeTable):
            structure, w = self._with_edge_table(w, table.joint)
            return structure.logsum(w, table._replace(joint=None), cliques, backend)
        batch, rows = self.with_rows(table)
        padded = None if rows is None else pad_rows(self.layout, rows)
        recursion, values = self.sums(w), np.zeros(len(self.sample_weight))
        node = np.zeros((len(batch.parent), self.n_labels))
        edge = np.zeros((len(batch.parent), self.n_labels, self.n_labels)) if cliques else None
        self.for_each_range(
            backend, lambda a, b: _kernels.marginals(batch, recursion, padded, a, b, values, node, edge)
        )
        return values, Marginals(node, edge)

    def edge_labels(self, labels: NDArray) -> tuple[NDArray[np.bool_], NDArray, NDArray]:
        """Of the edge that joins a node to its parent: whether there is one, and the labels of its first and second
        node, as the user wrote it; those of the node itself where there is none."""
        joined, flipped = self.batch.parent >= 0, self.batch.flipped.astype(bool)
        above = np.where(joined, labels[self.batch.parent], labels)
        return joined, np.where(flipped, labels, above), np.where(flipped, above, labels)

    def _with_edge_table(self, w: FloatArray, edges: EdgeTable) -> tuple[BoundForest, FloatArray]:
        """The same scores plus those of the table: its rows are the weights of features that say which row an edge has.

        Every edge then has a matrix of its own, which takes time in proportion to the square of the number of labels.
        """
        n_rows = len(edges.rows) - 1
        which = (edges.row[:, None] == np.arange(1, n_rows + 1)).astype(np.float64)
        batch = self.batch._replace(edge_features=np.hstack([self.batch.edge_features, which]))
        layout = replace(self.layout, n_edge_features=self.layout.n_edge_features + n_rows)
        segments = self.layout.segments(w)
        edge = np.concatenate([segments.edge, edges.rows[1:]])
        return replace(self, layout=layout, batch=batch), layout.join(segments._replace(edge=edge))

    def sample(
        self,
        w: FloatArray,
        n_draws: int,
        rng: np.random.Generator,
        backend: Threads | None = None,
        table: Table | None = None,
    ) -> IntArray:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes); with ``table`` added to the scores of nodes."""
        recursion, uniforms = self.sums(w), rng.random((n_draws, len(self.batch.parent)))
        labels = np.zeros((n_draws, len(self.batch.parent)), dtype=np.int32)
        batch, rows = self.with_rows(table)
        cost = None if rows is None else pad_rows(self.layout, rows)
        self.for_each_range(
            backend, lambda a, b: _kernels.sample(batch, recursion, cost, uniforms, n_draws, a, b, labels)
        )
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """The k best labellings, best first.

        Returns
        -------
        values : ndarray of shape (n_examples, k)
            ``-inf`` where an example has fewer than k labellings.
        labels : ndarray of shape (k, n_nodes)
            -1 there.
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

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """As `BoundStructure.excess`, without ever holding the marginals of all examples."""
        if not kernels_take(aggregate, table, options):
            excess = composed_excess(self, aggregate, w, table, options)
            return excess._replace(slope=pad(self.layout, excess.slope)) if options.gradient else excess
        small = table is None or np.abs(table.rows).max(initial=0) < 1e5
        options = options._replace(single=options.single and small and self._single_is_enough(w))
        evaluate = self._maximum_excess if aggregate == "maximum" else self._logsum_excess
        return evaluate(w, table, options)

    def unpad(self, slope: FloatArray) -> FloatArray:
        """A vector that kernels have added up, in the order of the weights."""
        return unpad(self.layout, slope)

    def _maximum_excess(self, w: FloatArray, table: Table | None, options: ExcessOptions) -> Excess:
        gradient, derivative, single = options.gradient, options.slack_derivative, options.single
        dtype = np.float32 if single else np.float64
        table = no_table(self) if table is None else table
        batch = self.with_rows(table)[0]
        recursion, padded = self.recursion(w, dtype), pad_rows(self.layout, table.rows, dtype)
        values = np.zeros(len(self.sample_weight))
        slope = np.zeros(padded_size(self.layout) if gradient else 0)
        slack, C = (0, 1.0) if derivative is None else (derivative.code, derivative.C)
        each(
            lambda a, b: _kernels.hinge_oracle(
                batch, recursion, padded, a, b, values, slope if gradient else None, slack, C
            ),
            self.one_after_the_other(),
        )
        return Excess(values, slope, np.zeros(len(values)))

    def _logsum_excess(self, w: FloatArray, table: Table | None, options: ExcessOptions) -> Excess:
        layout, gradient, batch = self.layout, options.gradient, self.with_rows(table or options.expected_table)[0]
        single = (
            options.single and self.longest <= LONGEST_IN_SINGLE and (self.forbidden_matrix is None or self.steps > 0)
        )
        dtype = np.float32 if single and sum_mode(layout, batch, w, np.float32, centred=True) == SCALED else np.float64
        mode = self.sum_mode(w, centred=True)
        if dtype is np.float32:
            mode = SCALED if self.forbidden_matrix is None else CAREFUL
        weights = for_search(layout, w, dtype, self.forbidden_matrix)
        added, expected = (
            None if t is None else pad_rows(layout, t.rows, dtype) for t in (table, options.expected_table)
        )
        values, costs = np.zeros(len(self.sample_weight)), np.zeros(len(self.sample_weight))
        slope = np.zeros(padded_size(layout) if gradient else 0)
        for first, last, some, groups in self.grouped(batch):
            of_values, of_costs = values[first:last], costs[first:last]
            recursion = _kernels.forest(self.shape, weights, mode, self.steps, groups.transposed)
            part = partial(_kernels.log_oracle, some, recursion, added, expected)
            each(lambda a, b: part(a, b, of_values, of_costs, slope if gradient else None), groups.ranges)  # noqa: B023
        if dtype is np.float32 and self.forbidden_matrix is not None and np.isnan(values).any():
            # an example has scores too far apart
            return self._logsum_excess(w, table, options._replace(single=False))
        return Excess(values, slope, np.zeros(len(values)) if options.expected_table is None or not gradient else costs)

    @cached_property
    def steps(self) -> int:
        """With forbidden pairs, for a chain: after how many nodes any label can follow any other, 0 if not known.

        Labels may be limited at first and last nodes only. It bounds how far a label can fall behind.
        """
        if self.forbidden_matrix is None or self.layout.n_edge_features:
            return 0
        inner = np.ones(len(self.batch.parent), dtype=bool)
        some = np.diff(self.offsets) > 0
        inner[self.offsets[:-1][some]] = inner[self.offsets[1:][some] - 1] = False
        if self.batch.allowed.size and not self.batch.allowed[inner].all():
            return 0
        may = reached = self.forbidden_matrix == 0
        for n in range(1, 5):
            if reached.all():
                return n
            reached = (reached.astype(np.int64) @ may) > 0
        return 0

    @cached_property
    def groups(self) -> Groups:
        """Groups of about 512 nodes (their marginals fit the second cache), with their features transposed."""
        return self._transposed(self.batch, self._borders())

    def _borders(self) -> NDArray[np.int64]:
        """The first example of every group, and the number of examples."""
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
        """All groups, with the batch and the range of examples that they are of.

        Transposed features are as large as the features themselves. Those of examples in files are made anew for some
        groups at a time, and not kept; the groups are the same.
        """
        if not is_mapped(batch.data):
            yield 0, len(self.sample_weight), batch, self.groups
            return
        borders = self._borders()
        entries = batch.indptr[batch.offsets[borders]]
        wanted = np.arange(ENTRIES_AT_ONCE, entries[-1], ENTRIES_AT_ONCE)
        cuts = np.unique([0, *np.searchsorted(entries, wanted).tolist(), len(borders) - 1])
        for begin, end in pairwise(cuts.tolist()):
            first, last = int(borders[begin]), int(borders[end])
            some = batch.take(first, last)
            yield first, last, some, self._transposed(some, borders[begin : end + 1] - first)

    def curvature(self) -> FloatArray:
        """Diagonal of the Hessian of the weighted log losses at ``w = 0``, where all labellings are equally likely.

        Labels that are not allowed are counted as the others, and edges that share a node as if they did not: it serves
        as a scale of the weights.
        """
        return uniform_curvature(self.layout, self.batch)

    # ---- how the work is shared out ------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Multiplications for one node: features and edge, times lanes."""
        n_entries = len(self.batch.indices) / max(1, len(self.batch.parent))
        return (1 + n_entries + self.n_labels) * lanes(self.layout)

    @cached_property
    def longest(self) -> int:
        """Nodes of the longest example."""
        return int(np.diff(self.offsets).max(initial=0))

    @property
    def slope_size(self) -> int:
        """Numbers that a shard adds up."""
        return padded_size(self.layout)


def kernels_take(aggregate: str, table: Table | None, options: ExcessOptions) -> bool:
    """Whether kernels support the options: one row per node in both tables, single labels, no slack of soft maxima."""
    if table is not None and table.joint is not None:
        return False
    if aggregate == "maximum":
        return options.expected_table is None
    return options.slack_derivative is None and (
        table is None or options.expected_table is None or table.row is options.expected_table.row
    )


def single_is_enough(w: FloatArray, batch: Batch, largest: float | None = None) -> bool:
    """Whether scores can be searched in float32: numbers of everyday size. ``largest`` is that of ``w``, if known."""
    largest = largest_of(w) if largest is None else largest
    return batch.largest < 1e5 and largest * max(1.0, batch.largest) < 1e5


def largest_of(w: FloatArray) -> float:
    """The largest size of a weight."""
    return float(np.abs(w).max(initial=0.0))


def uniform_curvature(layout: Layout, batch: Batch) -> FloatArray:
    """Diagonal of the Hessian of the log losses where all labels of a clique are equally likely."""
    L = layout.n_labels
    u = np.repeat(batch.sample_weight, np.diff(batch.offsets))
    node, kinds = np.zeros(layout.n_features), np.zeros(max(1, layout.n_edge_types))
    edge = np.zeros(batch.edge_features.shape[1])
    for first in range(0, len(u), NODES_AT_ONCE):  # examples in files are so many that even a number for each counts
        nodes = slice(first, first + NODES_AT_ONCE)
        lengths = np.diff(batch.indptr[first : first + NODES_AT_ONCE + 1])
        some = slice(int(batch.indptr[first]), int(batch.indptr[first]) + int(lengths.sum()))
        entries = np.repeat(u[nodes], lengths) * batch.data[some] ** 2
        node += np.bincount(batch.indices[some], entries, minlength=layout.n_features)
        joined = batch.parent[nodes] >= 0
        kinds += np.bincount(batch.edge_type[nodes][joined], u[nodes][joined], minlength=len(kinds))
        edge += u[nodes][joined] @ batch.edge_features[nodes][joined] ** 2
    of_labels = u @ batch.label_features.var(axis=1) if layout.n_label_features else np.zeros(0)
    matrices = np.concatenate([kinds, edge])[: layout.n_matrices]
    right = of_cliques.left_neighbours(batch) >= 0 if layout.siblings else np.zeros(len(u), dtype=bool)
    n_sibling_types = layout.n_edge_types if layout.siblings else 0
    triples = np.bincount(batch.edge_type[right], u[right], minlength=n_sibling_types)[:n_sibling_types]

    def share(counts: NDArray, n_cells: int) -> FloatArray:
        return np.repeat((1 - 1 / n_cells) / n_cells * counts, n_cells)

    of_node = (1 - 1 / L) / L * (np.repeat(node, L) if layout.seen is None else node[layout.seen.features])
    return np.concatenate([of_node, share(matrices, L * L), share(triples, L**3), of_labels])


def sum_mode(layout: Layout, batch: Batch, w: FloatArray, dtype: type, centred: bool = False) -> int:
    """Whether sum-product may work with scaled probabilities, or needs logarithms.

    A belief that underflows to zero is lost; messages of its neighbours, children and parent, could have brought it
    back by at most exp(range of the edge scores) each. If that factor is far from the inverse of the smallest
    number, what is lost is below any rounding; 640 of log(1/smallest) = 708 are allowed for float64, 60 of 87 for
    float32. With ``centred``, transitions are without what belongs to their rows and columns alone.

    In float32 no example may be longer than `LONGEST_IN_SINGLE` either: marginals are products along it, and their
    rounding errors grow with it.
    """
    most = (60 if dtype is np.float32 else 640) / (batch.max_children + 1)
    spread = edge_range(layout, batch, w)
    if not layout.n_edge_features and centred and spread > most:
        # what is left when rows and columns are taken out has a smaller range
        spread = layout.cache.of_weights(
            w, "centred range", lambda: max(_centred_range(matrix) for matrix in layout.segments(w).transitions)
        )
    return SCALED if spread <= most else LOGARITHMIC


def edge_range(layout: Layout, batch: Batch, w: FloatArray) -> float:
    """Range of the scores of an edge, at most."""
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
