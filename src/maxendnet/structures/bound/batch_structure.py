"""Base class of bound structures that store a `Batch`: arrays, features and ranges of examples for threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet import _kernels
from maxendnet.backends.threads import Range, Threads, cut
from maxendnet.data.batch import Batch
from maxendnet.data.ragged import gather, is_mapped
from maxendnet.data.truth import LabelSets, known
from maxendnet.structures.base import BoundStructure, IntArray
from maxendnet.structures.bound import features as of_cliques
from maxendnet.structures.bound.curvature import uniform_curvature
from maxendnet.structures.weights.layout import FloatArray, Layout


def kernel_shape(layout: Layout, rest: int = -1) -> _kernels.Shape:
    """Sizes of a layout, as the kernels expect them."""
    sizes = (
        layout.n_features,
        layout.n_labels,
        layout.n_edge_types,
        layout.n_edge_features,
        layout.n_label_features,
        rest,
    )
    return _kernels.Shape(*sizes) if layout.seen is None else _kernels.Shape(*sizes, *layout.seen)


Self = TypeVar("Self", bound="BatchStructure")


@dataclass(frozen=True, eq=False)
class BatchStructure(BoundStructure):
    """Base class with a layout and a batch. Subclasses implement inference."""

    layout: Layout
    batch: Batch

    def __getstate__(self) -> dict[str, Any]:
        # drop caches, and kernel objects because they cannot be pickled
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def mapped(self) -> bool:  # type: ignore[override]
        """Whether features are memory-mapped."""
        return is_mapped(self.batch.data)

    @property
    def n_labels(self) -> int:
        return self.layout.n_labels

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self.batch.offsets

    @property
    def y(self) -> IntArray:
        return self.batch.y

    @property
    def row(self) -> IntArray:
        """Row of every node in cost tables: its label set, or its label if all labels are known."""
        return self.batch.row

    @cached_property
    def label_sets(self) -> LabelSets:
        """Label sets: the possible true labels for each row."""
        return known(self.n_labels) if self.batch.label_sets is None else self.batch.label_sets

    @property
    def sample_weight(self) -> FloatArray:
        return self.batch.sample_weight

    @cached_property
    def shape(self) -> _kernels.Shape:
        """Sizes of the layout, as the kernels expect them."""
        return self.layout.cache.result("shape", lambda: kernel_shape(self.layout))

    def take(self: Self, first: int, last: int) -> Self:
        """Return examples [first, last) as a bound structure."""
        return replace(self, batch=self.batch.take(first, last))

    @cached_property
    def within_truth(self) -> Any:
        """The same examples, with only possible true labels allowed."""
        return replace(self, batch=self.batch.within(self.label_sets))

    def completed(self: Self, labels: IntArray) -> Self:
        """Return the same examples with these labels as the target."""
        return replace(self, batch=self.batch.completed(self.label_sets, labels))

    def with_pseudo_labels(self: Self, nodes: NDArray[np.bool_], sample_weight: FloatArray) -> Self:
        """Return the same examples with these nodes labelled and new sample weights."""
        label_sets = self.label_sets
        sets = np.concatenate([label_sets.sets, np.eye(self.n_labels, dtype=np.uint8)])
        label = np.concatenate([label_sets.label, np.arange(self.n_labels, dtype=np.int32)])
        weight = np.concatenate([label_sets.weight, np.ones(self.n_labels)])
        used, row = np.unique(np.where(nodes, len(label_sets.sets) + self.y, self.row), return_inverse=True)
        batch = self.batch._replace(
            row=row.astype(np.int32).ravel(), sample_weight=np.ascontiguousarray(sample_weight),
            label_sets=LabelSets(np.ascontiguousarray(sets[used]), label[used], weight[used]),
        )  # fmt: skip
        return replace(self, batch=batch)

    # ---- features and scores -------------------------------------------------------------------------------------

    def labelling_rows(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        """Features of the concatenated labellings of these examples.

        Returns a sparse array of shape (len(examples), n_weights).
        """
        return of_cliques.labelling_rows(self.layout, self.batch, examples, labels)

    def marginal_score(self, w: FloatArray, q: Any) -> FloatArray:
        """Return the score of every example, for a fractional labelling."""
        return of_cliques.marginal_score(self.layout, self.batch, w, q)

    def marginal_features(self, q: Any, weight: FloatArray) -> FloatArray:
        """Return the features of a fractional labelling, summed over examples times their ``weight``."""
        return of_cliques.marginal_features(self.layout, self.batch, q, weight)

    def score(self, w: FloatArray, q: Any) -> FloatArray:
        """Return the score of every example, for a labelling or fractional labelling."""
        if isinstance(q, np.ndarray):
            return self.labelling_rows(np.arange(len(self.sample_weight)), q) @ w
        return self.marginal_score(w, q)

    def features(self, q: Any, weight: FloatArray | None = None) -> FloatArray:
        """Return the features of a (fractional) labelling, summed over examples times their ``weight``."""
        weight = np.ones(len(self.sample_weight)) if weight is None else weight
        if isinstance(q, np.ndarray):
            return self.labelling_rows(np.arange(len(weight)), q).T @ weight
        return self.marginal_features(q, weight)

    def differences(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        """Return features of the truth minus those of labellings, as sparse rows."""
        truth = self.y[gather(self.offsets, examples)[0]]
        rows = sparse.csr_array(self.labelling_rows(examples, truth) - self.labelling_rows(examples, labels))
        rows.eliminate_zeros()
        return rows

    def curvature(self) -> FloatArray:
        """Return the approximate diagonal Hessian of the log losses at ``w = 0``.

        The approximation ignores allowed labels, and correlations of edges that share a node.
        """
        return uniform_curvature(self.layout, self.batch)

    # ---- ranges of examples --------------------------------------------------------------------------------------

    def ranges(self, n_shards: int = 16, slow: float = 1.0) -> list[list[Range]]:
        """Return shards of examples as lists of ranges of about ten milliseconds.

        Interrupts (Ctrl-C) are handled between ranges.
        """
        nodes = int(max(1, 5e7 / (self.work_per_node * slow)))
        return cut(self.offsets, max(1, min(n_shards, len(self.sample_weight))), nodes)

    def serial_ranges(self) -> list[Range]:
        """Return all examples as ranges for one thread."""
        return [examples for shard in self.ranges(1) for examples in shard]

    def for_each_range(self, backend: Threads | None, function: Callable[[int, int], Any], slow: float = 1.0) -> None:
        """Call ``function(first, last)`` for ranges of all examples, in parallel."""
        # results are not summed over shards, so their number may depend on the work alone
        n_nodes = len(self.batch.parent)
        if n_nodes <= 64 and len(self.sample_weight):
            function(0, len(self.sample_weight))
            return
        n_shards = min(64, 1 + n_nodes // 512)
        (backend or Threads()).run(lambda a, b, _: function(a, b), self.ranges(n_shards, slow))
