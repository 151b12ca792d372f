"""`Batch`: examples encoded as contiguous flat arrays for the kernels."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.data.forest_order import ForestOrder, chain_order, forest_order
from maxendnet.data.labels import label_array
from maxendnet.data.ragged import Array, BoolArray, FloatArray, csr, is_mapped, place
from maxendnet.data.truth import LabelSets, Truth, complete, encode_truth

__all__ = ["Batch", "encode", "forest_order", "labels_by_node_type"]

JOINED = ("chain", "tree", "independent", "graph")
"""How nodes are joined: each to the previous node, by the edges of the examples, not at all, or by the edges of a graph
(these are stored outside the batch)."""
PER_NODE = ("y", "row", "edge_type", "flipped", "edge_features", "allowed", "label_features")
"""Arrays of a `Batch` with one row per node and without indices of other nodes."""
NODES_AT_ONCE = 1 << 18
"""Number of nodes to which columns are appended at a time."""


class Batch(NamedTuple):
    """Input of the kernels: C-contiguous arrays over all nodes of all examples."""

    indptr: npt.NDArray[np.int64]  # (n_nodes + 1,) node features as CSR
    indices: npt.NDArray[np.int32]  # (n_entries,)
    data: FloatArray  # (n_entries,)
    y: npt.NDArray[np.int32]  # (n_nodes,) true labels as indices of classes, or (0,) if there are no labels
    row: npt.NDArray[np.int32]  # (n_nodes,) label set of a node, a row of tables; or (0,) if there are no labels
    label_sets: LabelSets | None  # by row; None if all labels are known, so that rows are labels
    offsets: npt.NDArray[np.int64]  # (n_examples + 1,) example i owns nodes offsets[i]:offsets[i + 1]
    order: npt.NDArray[np.int32]  # (n_nodes,) parents before children, each example in its own slice
    parent: npt.NDArray[np.int32]  # (n_nodes,) index of the parent among all nodes, -1 for a root
    edge_type: npt.NDArray[np.int32]  # (n_nodes,) type of the edge to the parent, 0 for a root
    flipped: npt.NDArray[np.uint8]  # (n_nodes,) 1 if the first node of that edge is the child
    edge_features: FloatArray  # (n_nodes, n_edge_features) of the edge to the parent, 0 for a root
    allowed: npt.NDArray[np.uint8]  # (n_nodes, n_labels), or (0, 0) if every label is allowed
    label_features: FloatArray  # (n_nodes, n_labels, n_label_features), or (0, 0, 0)
    sample_weight: FloatArray  # (n_examples,)
    largest: float = np.inf  # largest absolute value of any feature
    max_children: int = 1 << 30  # of a node
    ones: bool = False  # whether all values of `data` are known to be 1

    def take(self, first: int, last: int) -> Batch:
        """Return examples ``first`` to ``last - 1`` as a batch. Large arrays are views, not copies."""
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        start, stop = int(self.indptr[begin]), int(self.indptr[end])
        parent = self.parent[begin:end]
        return self._replace(
            indptr=self.indptr[begin : end + 1] - start,
            indices=self.indices[start:stop],
            data=self.data[start:stop],
            offsets=self.offsets[first : last + 1] - begin,
            order=_from_zero(self.order, begin, end),
            parent=np.where(parent < 0, np.int32(-1), parent - np.int32(begin)),
            sample_weight=self.sample_weight[first:last],
            **{name: getattr(self, name)[begin:end] for name in PER_NODE},
        )

    def within(self, label_sets: LabelSets) -> Batch:
        """Return the batch with allowed labels limited to possible true labels."""
        allowed = label_sets.sets[self.row]
        return self._replace(allowed=np.ascontiguousarray(allowed & self.allowed if self.allowed.size else allowed))

    def completed(self, label_sets: LabelSets, labels: npt.NDArray[np.int32]) -> Batch:
        """Return the batch with these labels as targets and unchanged label sets."""
        truth = complete(Truth(self.row, label_sets), labels)
        return self._replace(y=np.ascontiguousarray(labels), row=truth.row, label_sets=truth.label_sets)


def _from_zero(order: npt.NDArray[np.int32], begin: int, end: int) -> npt.NDArray[np.int32]:
    """Return the order of nodes ``begin`` to ``end - 1``, renumbered from 0.

    For chains the result is a view of ``order``.
    """
    renumbered, first = order[begin:end] - np.int32(begin), order[: end - begin]
    return first if np.array_equal(renumbered, first) else renumbered


def encode(
    examples: Examples,
    classes: Array | Sequence[Hashable],
    joined: str,
    *,
    bias: bool = False,
    ends: bool = False,
    type_allowed: BoolArray | None = None,
    n_edge_types: int | None = None,
    n_edge_features: int | None = None,
    n_label_features: int | None = None,
) -> Batch:
    """Encode examples for the kernels.

    Parameters
    ----------
    examples : Examples
        If ``y`` is not None, its labels must be classes that are allowed at their nodes. For predictions, ``y`` is
        None.
    classes : array of shape (n_labels,)
        Distinct labels in the order of the weights.
    joined : {"chain", "tree", "independent", "graph"}
        ``"tree"`` needs the edges of the examples, unless every example is one node. ``"chain"`` joins each node to
        the previous one, ``"independent"`` joins none; both ignore edges. ``"graph"`` only checks the types and
        features of edges, because a batch does not store the edges of a graph.
    bias : bool
        Whether to append a feature that is 1 at every node.
    ends : bool
        Whether to append two features that mark starts and ends: the first and last nodes of examples, or for trees
        the roots and leaves. The order of appended features is bias, start, end.
    type_allowed : bool array of shape (n_node_types, n_labels), optional
        Result of `labels_by_node_type`: a node may only have labels that occur with its type.
    n_edge_types, n_edge_features, n_label_features : int, optional
        Sizes that a fitted model expects. Other sizes raise ``ValueError``.

    Returns
    -------
    Batch

    Notes
    -----
    Columns of ``examples.allowed`` and ``examples.label_features`` are permuted from the order of ``examples.labels``
    to that of ``classes``. Labels that are not classes are dropped. Classes that are not listed are not allowed. If
    there are label features but no ``allowed``, all classes must be listed.

    Examples
    --------
    >>> from maxendnet.data.examples import as_examples
    >>> examples = as_examples([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> batch = encode(examples, np.array(["D", "N"]), "chain", bias=True)
    >>> batch.y.tolist(), batch.parent.tolist(), batch.indices.tolist()
    ([0, 1, 1], [-1, 0, -1], [1, 2, 0, 2, 0, 2])
    """
    if joined not in JOINED:
        raise ValueError(f"joined is {joined!r}; choose one of {', '.join(map(repr, JOINED))}.")
    if not isinstance(classes, np.ndarray):
        classes = label_array(list(classes))
    if not _ignores_edges(examples, joined):
        _check_edge_weights(examples, n_edge_types, n_edge_features)
    if n_label_features is not None and examples.n_label_features != n_label_features:
        raise ValueError(
            f"X has {examples.n_label_features} label features, but the model is expecting {n_label_features}."
        )

    forest = _orient(examples, joined)
    X = _with_bias_and_ends(examples, forest, joined, bias, ends)
    allowed = _allowed(examples, classes, type_allowed)
    y = row = np.zeros(0, dtype=np.int32)
    label_sets = None
    if examples.y is not None:
        row, label_sets = encode_truth(
            examples.y, classes, examples.offsets, examples.flat, allowed.astype(bool), examples.node_weight
        )
        y = row if label_sets.are_labels else np.ascontiguousarray(label_sets.label[row])
        label_sets = None if label_sets.are_labels else label_sets
    edge_type, edge_features = _along_edges(examples, forest, joined)
    sample_weight = np.ones(len(examples)) if examples.sample_weight is None else examples.sample_weight
    label_features = _label_features(examples, classes)
    children = forest.parent[:0] if joined == "chain" else forest.parent[forest.parent >= 0]
    return Batch(
        indptr=np.ascontiguousarray(X.indptr, dtype=np.int64),
        indices=np.ascontiguousarray(X.indices, dtype=np.int32),
        data=np.ascontiguousarray(X.data),
        y=y,
        row=row,
        label_sets=label_sets,
        offsets=np.ascontiguousarray(examples.offsets),
        order=forest.order,
        parent=forest.parent,
        edge_type=edge_type,
        flipped=forest.flipped,
        edge_features=edge_features,
        allowed=allowed,
        label_features=label_features,
        sample_weight=np.ascontiguousarray(sample_weight),
        largest=max(_largest(X.data), _largest(edge_features), _largest(label_features)),
        max_children=int(np.bincount(children).max()) if len(children) else 1,
        ones=bool(X.data.size and X.data.min() == X.data.max() == 1.0),
    )


def _largest(values: FloatArray) -> float:
    if not values.size:
        return 0.0
    # not np.abs, which copies the data
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def labels_by_node_type(examples: Examples, classes: Array) -> BoolArray:
    """Return which labels occur with each node type.

    Parameters
    ----------
    examples : Examples
        With ``y`` and ``node_types``.
    classes : array of shape (n_labels,)

    Returns
    -------
    bool ndarray of shape (n_node_types, n_labels)
        One row for each type up to the largest that occurs. Rows of types that do not occur are False. A set of labels
        counts for all its labels. `UNKNOWN` counts for no label, but if all labels of a type are unknown, the type
        allows every label.

    Examples
    --------
    >>> examples = Examples.build([[["a"], ["b"]]], [["N", "V"]], node_types=[[1, 0]])
    >>> labels_by_node_type(examples, np.array(["N", "V"])).tolist()
    [[False, True], [True, False]]
    """
    if examples.y is None or examples.node_types is None:
        missing = "y" if examples.y is None else "node_types"
        raise ValueError(f"Labels by node type need y and node_types, but the examples have no {missing}.")
    occurs = np.zeros((int(examples.node_types.max(initial=-1)) + 1, len(classes)), dtype=bool)
    truth = encode_truth(examples.y, classes, examples.offsets, examples.flat)
    sets = truth.label_sets.sets.astype(bool)
    is_informative = ~sets.all(axis=1) | (len(classes) == 1)
    for row in np.flatnonzero(is_informative):
        occurs[np.unique(examples.node_types[truth.row == row])] |= sets[row]
    types = np.unique(examples.node_types)
    occurs[types[~occurs[types].any(axis=1)]] = True
    return occurs


def _ignores_edges(examples: Examples, joined: str) -> bool:
    """Whether the types and features of edges are ignored.

    Chains ignore them only if the examples list edges. Otherwise they describe the edges of the chain.
    """
    return joined == "independent" or (joined == "chain" and examples.edges is not None)


def _check_edge_weights(examples: Examples, n_edge_types: int | None, n_edge_features: int | None) -> None:
    if n_edge_types is not None and examples.n_edge_types > n_edge_types:
        raise ValueError(
            f"X has edges of type {examples.n_edge_types - 1}, but the model has weights for types 0 to "
            f"{n_edge_types - 1}; fit with examples of every type."
        )
    if n_edge_features is not None and examples.n_edge_features != n_edge_features:
        raise ValueError(
            f"X has {examples.n_edge_features} edge features, but the model is expecting {n_edge_features}."
        )


def _orient(examples: Examples, joined: str) -> ForestOrder:
    """Return the parents of nodes, and an order with parents before children."""
    n_nodes = examples.n_nodes
    if joined in ("independent", "graph"):
        return ForestOrder(
            np.arange(n_nodes, dtype=np.int32),
            np.full(n_nodes, -1, dtype=np.int32),
            np.full(n_nodes, -1, dtype=np.int64),
            np.zeros(n_nodes, dtype=np.uint8),
        )
    if joined == "tree" and examples.edges is not None and examples.edge_offsets is not None:
        return forest_order(examples.edges, examples.edge_offsets, examples.offsets)
    if joined == "tree" and np.diff(examples.offsets).max(initial=0) > 1:
        raise ValueError(
            "Tree() needs the edges of every example, but X has none; pass pairs (node_features, edges) or "
            "Examples.build(..., edges=...), or use structure=Chain()."
        )
    return chain_order(examples.offsets)


def _with_bias_and_ends(
    examples: Examples, forest: ForestOrder, joined: str, bias: bool, ends: bool
) -> sparse.csr_array:
    """Return X with the requested columns bias, start and end."""
    columns: list[BoolArray] = []
    n_nodes = examples.n_nodes
    if bias:
        columns.append(np.ones(n_nodes, dtype=bool))
    if ends:
        start, end = np.zeros(n_nodes, dtype=bool), np.ones(n_nodes, dtype=bool)
        if joined == "independent":  # the same features as a chain
            has_nodes = np.diff(examples.offsets) > 0
            start[examples.offsets[:-1][has_nodes]] = True
            end[:] = False
            end[examples.offsets[1:][has_nodes] - 1] = True
        else:
            start = forest.parent < 0
            end[forest.parent[~start]] = False
        columns += [start, end]
    if not columns:
        return examples.X
    return append_columns(examples.X, np.stack(columns, axis=1))


def append_columns(X: sparse.csr_array, extra: BoolArray) -> sparse.csr_array:
    """Append columns of zeros and ones to X.

    If X is memory-mapped, the result is in a temporary file.

    Examples
    --------
    >>> append_columns(sparse.csr_array([[2.0, 0.0], [0.0, 3.0]]), np.array([[True], [False]])).toarray().tolist()
    [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]]
    """
    more = extra.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(np.diff(X.indptr) + more)]).astype(np.int64)
    data, indices = (_room(int(indptr[-1]), dtype, is_mapped(X.data)) for dtype in (np.float64, np.int32))
    for first in range(0, len(extra), NODES_AT_ONCE):
        last = min(first + NODES_AT_ONCE, len(extra))
        begin, end, old = int(indptr[first]), int(indptr[last]), slice(int(X.indptr[first]), int(X.indptr[last]))
        is_new = np.zeros(end - begin, dtype=bool)
        row_ends = np.repeat(indptr[first + 1 : last + 1] - begin, more[first:last])
        is_new[row_ends - 1 - _countdown(more[first:last])] = True
        data[begin:end][is_new], data[begin:end][~is_new] = 1.0, X.data[old]
        indices[begin:end][is_new] = X.shape[1] + np.nonzero(extra[first:last])[1]
        indices[begin:end][~is_new] = X.indices[old]
    return csr(data, indices, indptr, X.shape[1] + extra.shape[1])


def _countdown(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the concatenated ranges n - 1, ..., 0 for each length n."""
    ends = np.cumsum(lengths)
    return np.repeat(ends, lengths) - 1 - np.arange(ends[-1] if len(ends) else 0)


def _room(size: int, dtype: type, in_file: bool) -> Array:
    """Allocate an array in memory or in a temporary file."""
    if not (in_file and size):
        return np.empty(size, dtype=dtype)
    with tempfile.TemporaryFile() as file:  # the memory map outlives the file name
        return np.asarray(np.memmap(file, dtype=dtype, mode="w+", shape=(size,)))


def _along_edges(examples: Examples, forest: ForestOrder, joined: str) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Return the type and the features of the edge from each node to its parent."""
    ignored = _ignores_edges(examples, joined) or joined == "graph"
    child = forest.parent >= 0
    edge_type = np.zeros(examples.n_nodes, dtype=np.int32)
    if examples.edge_types is not None and not ignored:
        edge_type[child] = examples.edge_types[forest.edge[child]]
    edge_features = np.zeros((examples.n_nodes, 0 if ignored else examples.n_edge_features))
    if examples.edge_features is not None and not ignored:
        edge_features[child] = examples.edge_features[forest.edge[child]]
    return edge_type, edge_features


def _columns(examples: Examples, classes: Array) -> npt.NDArray[np.int64]:
    """Return the index of each class along the label axis, or -1."""
    index = {label: k for k, label in enumerate(examples.labels or ())}
    return np.array([index.get(label, -1) for label in classes.tolist()], dtype=np.int64)


def _allowed(examples: Examples, classes: Array, type_allowed: BoolArray | None) -> npt.NDArray[np.uint8]:
    if examples.allowed is None and type_allowed is None:
        return np.zeros((0, 0), dtype=np.uint8)
    allowed = np.ones((examples.n_nodes, len(classes)), dtype=bool)
    if examples.allowed is not None:
        columns = _columns(examples, classes)
        allowed = examples.allowed[
            :, columns
        ]  # column -1 (missing) copies the last column; the next line overwrites it
        allowed[:, columns < 0] = False
    if type_allowed is not None:
        allowed &= _by_type(examples, type_allowed)
    empty = np.flatnonzero(~allowed.any(axis=1))
    if len(empty):
        raise ValueError(
            f"{place('X', examples.offsets, int(empty[0]), examples.flat)} has no allowed label among the "
            f"{len(classes)} classes; allow at least one."
        )
    return np.ascontiguousarray(allowed).view(np.uint8)


def _by_type(examples: Examples, type_allowed: BoolArray) -> BoolArray:
    """Return the labels that the type of each node allows."""
    if examples.node_types is None:
        raise ValueError("The model restricts labels by node type, but X has no node_types; pass node_types.")
    in_training: BoolArray = np.asarray(type_allowed.any(axis=1))
    unseen = examples.node_types >= len(in_training)
    unseen[~unseen] = ~in_training[examples.node_types[~unseen]]
    if unseen.any():
        k = int(np.flatnonzero(unseen)[0])
        raise ValueError(
            f"{place('X', examples.offsets, k, examples.flat)} has node type {examples.node_types[k]}, which did "
            f"not occur in training; fit with examples of this type."
        )
    return type_allowed[examples.node_types]


def _label_features(examples: Examples, classes: Array) -> FloatArray:
    if examples.label_features is None:
        return np.zeros((0, 0, 0))
    columns = _columns(examples, classes)
    missing = columns < 0
    if missing.any() and examples.allowed is None:
        label = classes.tolist()[int(np.flatnonzero(missing)[0])]
        raise ValueError(f"label_features has no values for the class {label!r}; list all classes in labels.")
    if np.array_equal(columns, np.arange(examples.label_features.shape[1])):
        return np.ascontiguousarray(examples.label_features)
    features = examples.label_features[:, columns]
    features[:, missing] = 0.0
    return np.ascontiguousarray(features)
