"""What the pieces have in common: checks of their options, sizes from examples, and names for their weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch, encode, labels_by_node_type
from maxendnet.data.examples import Examples
from maxendnet.data.forbidden_pairs import pair_codes
from maxendnet.data.ragged import gather, offsets_of
from maxendnet.structures.weights.layout import FloatArray, Layout, SeenPairs
from maxendnet.utils.memory import check_memory

VECTORS_OF_A_FIT = 4
"""As long as the weights, that every fit holds: weights, gradient, and both as the kernels need them."""


def check_options(piece: Any, *names: str) -> None:
    """Raise ``ValueError`` unless these options are True or False, and ``pairs`` is one of its two values."""
    for name in names:
        value = getattr(piece, name)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{type(piece).__name__} needs {name} to be True or False, got {value!r}.")
    if not (isinstance(piece.pairs, str) and piece.pairs in ("all", "seen")):
        raise ValueError(f"{type(piece).__name__} needs pairs to be 'all' or 'seen', got {piece.pairs!r}.")


def n_columns_added(piece: Any) -> int:
    """Columns that the options ``bias`` and ``ends`` add to the features of nodes."""
    return int(piece.bias) + 2 * int(piece.ends)


def layout_of(piece: Any, examples: Examples, classes: NDArray, joined: str, siblings: bool = False) -> Layout:
    """The layout of weights for labelled examples."""
    layout = Layout(
        n_features=examples.n_features + n_columns_added(piece),
        n_labels=len(classes),
        n_edge_types=0 if joined == "independent" else examples.n_edge_types,
        n_edge_features=0 if joined == "independent" else examples.n_edge_features,
        n_label_features=examples.n_label_features,
        siblings=siblings,
        type_allowed=labels_by_node_type(examples, classes) if examples.node_types is not None else None,
    )
    check_weights(piece, layout if piece.pairs == "all" else replace(layout, n_features=0))
    if piece.pairs == "all":
        return layout
    batch = batch_of(piece, examples, classes, layout, joined)
    features, labels = seen_together(batch)
    return replace(layout, seen=SeenPairs.of(features, labels, layout.n_features, layout.n_labels))


def check_weights(piece: Any, layout: Layout) -> None:
    """Raise ``ValueError`` if the weights do not fit into memory, before anything of their size is allocated."""
    check_memory(
        VECTORS_OF_A_FIT * 8 * layout.n_weights,
        f"{piece!r} with {layout.n_labels:,} labels or states has {layout.n_weights:,} weights and",
        "use fewer labels, hidden states or features, or pairs='seen'",
    )


def seen_together(batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Features and labels that occur together. A set of labels counts for all of them, an unknown label for none."""
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


def batch_of(piece: Any, examples: Examples, classes: NDArray, layout: Layout, joined: str) -> Batch:
    """The examples as the kernels see them; they must fit the layout."""
    return encode(
        examples, classes, joined, bias=bool(piece.bias), ends=bool(piece.ends), type_allowed=layout.type_allowed,
        n_edge_types=layout.n_edge_types, n_edge_features=layout.n_edge_features,
        n_label_features=layout.n_label_features,
    )  # fmt: skip


def check_layout(piece: Any, layout: Layout, n_features_in: int, joined: bool, siblings: bool = False) -> str:
    """What of a layout that was read from a file does not fit the options; empty if all does."""
    expected = n_features_in + n_columns_added(piece)
    if (layout.seen is not None) != (piece.pairs == "seen"):
        return f"pairs is {piece.pairs!r}, and the weights are laid out otherwise"
    if layout.n_features != expected:
        return f"the model has {expected} features with bias and ends, and weights for {layout.n_features}"
    if joined != (layout.n_edge_types > 0) or layout.siblings != siblings:
        return f"the structure is {piece!r}, and the weights are those of another one"
    if layout.n_edge_features and not layout.n_edge_types:
        return "there are weights for features of edges, and none for edges"
    return ""


def check_pairs(piece: Any, classes: NDArray) -> str:
    """What of the forbidden pairs does not fit the labels of a model; empty if all does."""
    try:
        pair_codes(piece.forbidden, classes)
    except ValueError as error:
        return str(error)
    return ""


def named_weights(piece: Any, layout: Layout, w: FloatArray) -> dict[str, FloatArray]:
    """The segments of a weight vector by the names of the attributes under which estimators show them."""
    segments, zero = layout.segments(w), np.zeros(layout.n_labels)
    n = layout.n_features - n_columns_added(piece)
    added = layout.node_rows(w, n)
    added = added.toarray() if layout.seen is not None else added
    single = lambda part: part[0] if len(part) == 1 else part  # noqa: E731
    return {
        "coef": layout.node_rows(w, 0, n),
        "intercept": added[0] if piece.bias else zero,
        "start": added[-2] if piece.ends else zero,
        "end": added[-1] if piece.ends else zero,
        "transitions": single(segments.transitions),
        "edge_coef": segments.edge,
        "siblings": single(segments.siblings),
        "label_coef": segments.label_features,
    }
