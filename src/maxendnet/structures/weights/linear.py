"""Base class of the built-in structures: options, layout and names of the weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch, encode, labels_by_node_type
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import gather, offsets_of
from maxendnet.structures.base import Structure
from maxendnet.structures.weights.layout import FloatArray, Layout, SeenPairs
from maxendnet.utils.memory import check_memory

VECTORS_OF_A_FIT = 4
"""Vectors of the length of the weights that every fit needs: weights and gradient, plain and padded."""


class LinearStructure(Structure):
    """Structure with node scores that are linear in the node features.

    Subclasses are dataclasses, with a field for each option that they support.
    """

    bias = False
    ends = False
    siblings = False
    pairs = "all"
    joined = "independent"
    """Shape of the edges, see `maxendnet.data.batch.encode`."""

    def check(self) -> None:
        """Raise ``ValueError`` for an invalid option."""
        for name in ("bias", "ends", "siblings", "whole"):
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{type(self).__name__} needs {name} to be True or False, got {value!r}.")
        if not (isinstance(self.pairs, str) and self.pairs in ("all", "seen")):
            raise ValueError(f"{type(self).__name__} needs pairs to be 'all' or 'seen', got {self.pairs!r}.")

    @property
    def n_columns_added(self) -> int:
        """Number of columns that the options ``bias`` and ``ends`` add to the node features."""
        return int(self.bias) + 2 * int(self.ends)

    def layout(self, examples: Examples, classes: NDArray[Any]) -> Layout:
        """Layout of the weights for labelled examples."""
        return self.layout_of(examples, classes, self.joined)

    def layout_of(self, examples: Examples, classes: NDArray[Any], joined: str) -> Layout:
        """Layout of the weights for labelled examples; ``joined`` is the shape of their edges."""
        layout = Layout(
            n_features=examples.n_features + self.n_columns_added,
            n_labels=len(classes),
            n_edge_types=0 if joined == "independent" else examples.n_edge_types,
            n_edge_features=0 if joined == "independent" else examples.n_edge_features,
            n_label_features=examples.n_label_features,
            siblings=bool(self.siblings),
            type_allowed=labels_by_node_type(examples, classes) if examples.node_types is not None else None,
        )
        self.check_memory(layout if self.pairs == "all" else replace(layout, n_features=0))
        if self.pairs == "all":
            return layout
        features, labels = seen_together(self.batch_of(examples, classes, layout, joined))
        return replace(layout, seen=SeenPairs.of(features, labels, layout.n_features, layout.n_labels))

    def check_memory(self, layout: Layout) -> None:
        """Raise ``ValueError`` if the weights of a fit do not fit into memory."""
        check_memory(
            VECTORS_OF_A_FIT * 8 * layout.n_weights,
            f"{self!r} with {layout.n_labels:,} labels or states has {layout.n_weights:,} weights and",
            "use fewer labels, hidden states or features, or pairs='seen'",
        )

    def batch_of(self, examples: Examples, classes: NDArray[Any], layout: Layout, joined: str = "") -> Batch:
        """Encode examples, which must match the layout, for the kernels."""
        return encode(
            examples, classes, joined or self.joined, bias=bool(self.bias), ends=bool(self.ends),
            type_allowed=layout.type_allowed, n_edge_types=layout.n_edge_types, n_edge_features=layout.n_edge_features,
            n_label_features=layout.n_label_features,
        )  # fmt: skip

    def layout_error(self, layout: Layout, n_features_in: int, classes: NDArray[Any]) -> str:
        """Error message if the layout does not match the structure, else an empty string."""
        return self.size_error(layout, n_features_in, self.joined != "independent")

    def size_error(self, layout: Layout, n_features_in: int, joined: bool) -> str:
        """Error message if the sizes of the layout do not match the structure, else an empty string."""
        expected = n_features_in + self.n_columns_added
        if (layout.seen is not None) != (self.pairs == "seen"):
            return f"pairs is {self.pairs!r}, but the weights have another layout"
        if layout.n_features != expected:
            return f"the model has {expected} features with bias and ends, but weights for {layout.n_features}"
        if joined != (layout.n_edge_types > 0) or layout.siblings != self.siblings:
            return f"the structure is {self!r}, but the weights belong to another structure"
        if layout.n_edge_features and not layout.n_edge_types:
            return "there are weights for edge features, but none for edges"
        return ""

    def named_weights(self, layout: Layout, w: FloatArray) -> dict[str, Any]:
        """Return the segments of a weight vector by attribute name, without the underscore."""
        segments, zero = layout.segments(w), np.zeros(layout.n_labels)
        n = layout.n_features - self.n_columns_added
        added = layout.node_rows(w, n)
        added = added.toarray() if layout.seen is not None else added

        def squeeze(segment: FloatArray) -> Any:
            return segment[0] if len(segment) == 1 else segment

        return {
            "coef": layout.node_rows(w, 0, n),
            "intercept": added[0] if self.bias else zero,
            "start": added[-2] if self.ends else zero,
            "end": added[-1] if self.ends else zero,
            "transitions": squeeze(segments.transitions),
            "edge_coef": segments.edge,
            "siblings": squeeze(segments.siblings),
            "label_coef": segments.label_features,
        }


def seen_together(batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the pairs of a feature and a label that occur together.

    A label set counts for each of its labels, an unknown label for none.
    """
    if batch.label_sets is None:
        return batch.indices, np.repeat(batch.y, np.diff(batch.indptr))
    node = np.repeat(np.arange(len(batch.row)), np.diff(batch.indptr))
    size = batch.label_sets.sets.sum(axis=1, dtype=np.int64)
    size[(size == batch.label_sets.sets.shape[1]) & (size > 1)] = 0
    n_labels = size[batch.row][node]
    features = np.repeat(batch.indices, n_labels)
    members = np.nonzero(batch.label_sets.sets * (size > 0)[:, None])[1].astype(np.int32)
    positions, _ = gather(offsets_of(size), batch.row[node])
    return features, members[positions]
