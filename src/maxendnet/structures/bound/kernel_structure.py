"""Bound structures with kernels: padded weights, and recursions over labellings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import Threads, each
from maxendnet.data.batch import Batch
from maxendnet.structures.base import (
    GRADIENT,
    Excess,
    ExcessOptions,
    IntArray,
    Marginals,
    Table,
    composed_excess,
    no_table,
)  # fmt: skip
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.structures.bound.blocks import Blocks
from maxendnet.structures.search.k_best import k_best
from maxendnet.structures.weights import padding
from maxendnet.structures.weights.layout import FloatArray


@dataclass(frozen=True, eq=False)
class KernelStructure(BatchStructure):
    """Structure whose kernels read padded weights, by default in the layout of forests.

    Recursions read the weights from `for_search` and the table rows from `pad_rows`. Gradients and dual points are in
    the layout of `pad`; `unpad` converts them to the order of the weights.
    """

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Weights as the recursions read them."""
        return padding.for_search(self.layout, w, dtype)

    def pad(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Weights in the layout of gradients, shape (slope_size,)."""
        return padding.pad(self.layout, w, dtype=dtype)

    def unpad(self, slope: FloatArray) -> FloatArray:
        """Remove the padding of `pad`."""
        return padding.unpad(self.layout, slope)

    @property
    def slope_size(self) -> int:
        """Length of a padded gradient."""
        return padding.padded_size(self.layout)

    def pad_rows(self, rows: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Rows of a table as the recursions read them."""
        return padding.pad_rows(self.layout, rows, dtype)

    def recursion_of(self, weights: NDArray[Any] | None) -> Any:
        """Return the kernel recursion with the weights of `for_search`, or with no weights."""
        return _kernels.forest(self.shape, weights)

    def recursion(self, w: FloatArray, dtype: type = np.float64, sums: bool = False) -> Any:
        """Recursion over labellings, for maxima or for sums."""
        return self.recursion_of(self.for_search(w, dtype))

    @cached_property
    def without_weights(self) -> Any:
        """Recursion for operations that do not need weights."""
        return self.recursion_of(None)

    @cached_property
    def blocks(self) -> Blocks:
        """Block updates, one example at a time."""
        return Blocks(self)


class RecursiveStructure(KernelStructure):
    """Structure with a kernel recursion over the labellings of each example."""

    marginals_type: type = Marginals

    def clique_tables(self) -> tuple[FloatArray | None, ...]:
        """Arrays of zeros that `logsum` fills with clique marginals."""
        raise NotImplementedError

    def with_rows(self, table: Table | None) -> Batch:
        """Return the batch with the row numbers of this table."""
        return self.batch if table is None else self.batch._replace(row=np.ascontiguousarray(table.row))

    def rows_of(self, table: Table | None, dtype: type = np.float64) -> NDArray[Any] | None:
        """Rows of a table as the recursions read them."""
        return None if table is None else self.pad_rows(table.rows, dtype)

    def single_is_enough(self, w: FloatArray) -> bool:
        """Whether maxima can be computed in float32."""
        return single_is_enough(w, self.batch, self.layout.cache.of_weights(w, "largest", lambda: largest_of(w)))

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the best score of every example, and a labelling that attains it.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        table : Table, optional
            Added to the scores; with costs, the labelling is the most violated constraint.
        backend : Threads, optional

        Returns
        -------
        values : ndarray of shape (n_examples,)
        labels : ndarray of shape (n_nodes,)
        """
        recursion, batch, rows = self.recursion(w), self.with_rows(table), self.rows_of(table)
        values, labels = np.zeros(len(self.sample_weight)), np.zeros(len(batch.parent), dtype=np.int32)
        self.for_each_range(backend, lambda a, b: _kernels.decode(batch, recursion, rows, a, b, values, labels))
        return values, labels

    def decode(self, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
        """Return the best labelling, in single precision if the scores cannot overflow.

        ``added``, of shape (n_labels,), is added to the scores of labels at every node.
        """
        dtype = np.float32 if self.single_is_enough(w) else np.float64
        recursion, batch, rows = self.recursion(w, dtype), self.batch, None
        labels = np.zeros(len(batch.parent), dtype=np.int32)
        if added is not None:
            batch, key = batch._replace(row=np.zeros(len(labels), dtype=np.int32)), (dtype, added.tobytes())
            rows = self.layout.cache.result(key, lambda: self.pad_rows(added[None], dtype))
        self.for_each_range(backend, lambda a, b: _kernels.decode(batch, recursion, rows, a, b, None, labels))
        return labels

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Return the best score with label a at node t, shape (n_nodes, n_labels)."""
        recursion, out = self.recursion(w), np.zeros((len(self.batch.parent), self.n_labels))
        self.for_each_range(backend, lambda a, b: _kernels.max_marginals(self.batch, recursion, a, b, out))
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Any]:
        """Return the log-partition of every example, and the marginals."""
        recursion, batch, rows = self.recursion(w, sums=True), self.with_rows(table), self.rows_of(table)
        values, node = np.zeros(len(self.sample_weight)), np.zeros((len(batch.parent), self.n_labels))
        tables = self.clique_tables() if cliques else ()
        self.for_each_range(
            backend,
            lambda a, b: _kernels.marginals(batch, recursion, rows, a, b, values, node, *tables),
            slow=self.capabilities.cost_of_sums,
        )
        return values, self.marginals_type(node, *tables)

    def sample(
        self,
        w: FloatArray,
        n_draws: int,
        rng: np.random.Generator,
        backend: Threads | None = None,
        table: Table | None = None,
    ) -> IntArray:
        """Sample labellings from p(y|x), shape (n_draws, n_nodes).

        ``table`` is added to the scores of nodes.
        """
        recursion, batch, rows = self.recursion(w, sums=True), self.with_rows(table), self.rows_of(table)
        uniforms = rng.random((n_draws, len(batch.parent)))
        labels = np.zeros(uniforms.shape, dtype=np.int32)
        self.for_each_range(
            backend,
            lambda a, b: _kernels.sample(batch, recursion, rows, uniforms, n_draws, a, b, labels),
            slow=self.capabilities.cost_of_sums + n_draws / self.n_labels,
        )
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """Return the k best labellings, best first; see `k_best`."""
        return k_best(self, w, k)

    # ---- sums over examples -------------------------------------------------------------------------------------

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """As `BoundStructure.excess`, without storing the marginals of all examples."""
        if not kernels_take(aggregate, table, options):
            excess = composed_excess(self, aggregate, w, table, options)
            return excess._replace(slope=self.pad(excess.slope)) if options.gradient else excess
        small = table is None or np.abs(table.rows).max(initial=0) < 1e5
        options = options._replace(single=options.single and small and self.single_is_enough(w))
        evaluate = self._maximum_excess if aggregate == "maximum" else self._logsum_excess
        return evaluate(w, table, options)

    def _maximum_excess(self, w: FloatArray, table: Table | None, options: ExcessOptions) -> Excess:
        derivative, dtype = options.slack_derivative, np.float32 if options.single else np.float64
        table = no_table(self) if table is None else table
        recursion, batch, rows = self.recursion(w, dtype), self.with_rows(table), self.pad_rows(table.rows, dtype)
        values, slope = np.zeros(len(self.sample_weight)), np.zeros(self.slope_size if options.gradient else 0)
        gradient = slope if options.gradient else None
        slack, C = (0, 1.0) if derivative is None else (derivative.code, derivative.C)
        each(
            lambda a, b: _kernels.hinge_oracle(batch, recursion, rows, a, b, values, gradient, slack, C),
            self.serial_ranges(),
        )
        return Excess(values, slope, np.zeros(len(values)))

    def _logsum_excess(self, w: FloatArray, table: Table | None, options: ExcessOptions) -> Excess:
        recursion, batch = self.recursion(w, sums=True), self.with_rows(table or options.expected_table)
        rows, expected = self.rows_of(table), self.rows_of(options.expected_table)
        values, costs = np.zeros(len(self.sample_weight)), np.zeros(len(self.sample_weight))
        slope = np.zeros(self.slope_size if options.gradient else 0)
        gradient = slope if options.gradient else None
        each(
            lambda a, b: _kernels.log_oracle(batch, recursion, rows, expected, a, b, values, costs, gradient),
            self.serial_ranges(),
        )
        return Excess(values, slope, costs if options.expected_table and options.gradient else np.zeros(len(values)))


def kernels_take(aggregate: str, table: Table | None, options: ExcessOptions) -> bool:
    """Whether the kernels support these options.

    Costs must be those of single labels. An expected table and a slack derivative exclude each other: the former is
    supported only for log-partitions, with the row numbers of ``table``, and the latter only for maxima.
    """
    if table is not None and table.joint is not None:
        return False
    if aggregate == "maximum":
        return options.expected_table is None
    return options.slack_derivative is None and (
        table is None or options.expected_table is None or table.row is options.expected_table.row
    )


def single_is_enough(w: FloatArray, batch: Batch, largest: float | None = None) -> bool:
    """Whether float32 is precise enough, because weights and features are of moderate size.

    ``largest`` is the largest absolute weight, if known.
    """
    largest = largest_of(w) if largest is None else largest
    return batch.largest < 1e5 and largest * max(1.0, batch.largest) < 1e5


def largest_of(w: FloatArray) -> float:
    """Return the largest absolute weight."""
    return float(np.abs(w).max(initial=0.0))
