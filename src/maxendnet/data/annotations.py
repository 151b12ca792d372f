"""Readers of optional inputs: edges, types, allowed labels and weights.

Each reader takes one entry per example and returns one flat array over all nodes, edges or examples.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from maxendnet.data.forest_order import check_edges
from maxendnet.data.node_features import LARGEST_VALUE
from maxendnet.data.ragged import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    is_known,
    locate,
    offsets_of,
    place,
    refuse_masked,
)
from maxendnet.data.sparse_matrices import check_sparse, is_sparse

# If weights and C do not exceed this limit, and features do not exceed LARGEST_VALUE, squared sums are finite in
# float64.
LARGEST_WEIGHT = 1e20
# A model has weights for every type from 0 to the largest one. For edges, each type has a weight per pair of labels.
LARGEST_TYPE = 2**16 - 1


def read_edges(edges: Any, offsets: IntArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Read the edges of all examples, and return them with the offsets of each example.

    Each entry is array-like of shape (n_edges, 2).

    Examples
    --------
    >>> edges, edge_offsets = read_edges([[(0, 1), (0, 2)], []], np.array([0, 3, 4]))
    >>> edges.tolist(), edge_offsets.tolist()
    ([[0, 1], [0, 2]], [0, 2, 2])
    """
    rows = _per_example("edges", edges, len(offsets) - 1)
    for i, pairs in enumerate(rows):
        refuse_masked(pairs, f"edges[{i}]")
        try:
            row = np.asarray(pairs)
        except ValueError:
            raise ValueError(f"The edges of X[{i}] are ragged; expected two node numbers for every edge.") from None
        if row.size == 0 and row.ndim in (1, 2):
            rows[i] = np.empty((0, 2), dtype=np.int64)
        elif row.ndim != 2 or row.shape[1] != 2 or row.dtype.kind not in "iu":
            raise ValueError(
                f"The edges of X[{i}] have shape {row.shape} and dtype {row.dtype}; expected integers of shape "
                f"(n_edges, 2): two node numbers for every edge (a pair in X is read as (node_features, edges))."
            )
        else:
            rows[i] = _int64(row)
    flat = np.concatenate(rows)
    edge_offsets = offsets_of(map(len, rows))
    check_edges(flat, edge_offsets, offsets)
    return np.ascontiguousarray(flat, dtype=np.int32), edge_offsets


def read_types(name: str, values: Any, offsets: IntArray, unit: str, flat: bool = False) -> npt.NDArray[np.int32]:
    """Read the types of all nodes or edges, numbered from 0.

    Examples
    --------
    >>> read_types("node_types", [[0, 1], [1]], np.array([0, 2, 3]), "nodes").tolist()
    [0, 1, 1]
    """
    types = _stack(name, values, offsets, unit, "iu", 1, flat)
    wrong = np.flatnonzero(types < 0)
    if len(wrong):
        k = int(wrong[0])
        i, t = locate(offsets, k)
        raise ValueError(f"{name}[{i}] holds {types[k]} at position {t}; types are numbered 0, 1, 2, ...")
    if len(types) and types.max() > LARGEST_TYPE:
        i, t = locate(offsets, int(types.argmax()))
        raise ValueError(
            f"{name}[{i}] holds {types.max()} at position {t}, above the limit of {LARGEST_TYPE}. A model has weights "
            f"for every type up to the largest, so number the types 0, 1, 2, ... without gaps."
        )
    return np.ascontiguousarray(types, dtype=np.int32)


def read_edge_features(values: Any, edge_offsets: IntArray) -> FloatArray:
    """Read edge features as an array of shape (n_edges, n_edge_features).

    Examples
    --------
    >>> read_edge_features([[[0.5], [1.0]], [[2.0]]], np.array([0, 2, 3])).ravel().tolist()
    [0.5, 1.0, 2.0]
    """
    return _floats("edge_features", _stack("edge_features", values, edge_offsets, "edges", "biuf", 2), edge_offsets)


def read_label_features(values: Any, labels: tuple[Hashable, ...], offsets: IntArray, flat: bool) -> FloatArray:
    """Read the features of node-label pairs.

    Returns an array of shape (n_nodes, n_labels, n_label_features).

    Examples
    --------
    >>> read_label_features([[[[0.5], [1.0]]]], ("a", "b"), np.array([0, 1]), False).shape
    (1, 2, 1)
    """
    features = _stack("label_features", values, offsets, "nodes", "biuf", 3, flat)
    if features.shape[1] != len(labels) and len(features):
        raise ValueError(
            f"label_features has {features.shape[1]} labels but `labels` lists {len(labels)}; "
            f"expected arrays of shape (n_nodes, n_labels, n_label_features)."
        )
    return _floats("label_features", features.reshape(len(features), len(labels), features.shape[2]), offsets)


def read_label_order(labels: Any) -> tuple[Hashable, ...]:
    """Read the labels along the label axis of ``allowed`` and ``label_features``.

    Examples
    --------
    >>> read_label_order(["N", "V"])
    ('N', 'V')
    """
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise ValueError(f"labels is {labels!r}; expected a list of all labels.")
    listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    try:
        distinct = set(listed)
    except TypeError as error:
        raise ValueError(f"labels holds a value that cannot be a label: {error}.") from None
    if not listed:
        raise ValueError("labels is empty; expected a list of all labels.")
    if len(distinct) != len(listed):
        raise ValueError("labels lists a label twice; list each once, in the order of the label axis.")
    return tuple(listed)


def read_allowed(values: Any, labels: tuple[Hashable, ...], offsets: IntArray, flat: bool) -> BoolArray:
    """Read the labels that each node may have.

    Parameters
    ----------
    values : list
        One entry per example: a bool array of shape (n_nodes, n_labels); a collection of labels for each node, with
        None for all labels; or None if every node may have every label.
    labels : tuple
        Labels of the columns of the result.
    offsets : ndarray of shape (n_examples + 1,)
    flat : bool
        Whether each example is one node. Then ``values`` has one entry per node, or is one bool array.

    Returns
    -------
    bool ndarray of shape (n_nodes, n_labels)

    Examples
    --------
    >>> read_allowed([[["N"], None]], ("N", "V"), np.array([0, 2]), False).tolist()
    [[True, False], [True, True]]
    """
    n_examples = len(offsets) - 1
    if flat:  # read as one example with all nodes
        values, offsets = [values], np.array([0, n_examples])
    column_of = {label: k for k, label in enumerate(labels)}
    allowed = np.zeros((int(offsets[-1]), len(labels)), dtype=bool)
    for i, entry in enumerate(_per_example("allowed", values, len(offsets) - 1)):
        here = allowed[offsets[i] : offsets[i + 1]]
        where = "allowed" if flat else f"allowed[{i}]"
        if entry is None:
            here[:] = True
        elif isinstance(entry, np.ndarray) and entry.dtype == bool:
            refuse_masked(entry, where)
            if entry.shape != here.shape:
                raise ValueError(
                    f"{where} has shape {entry.shape}; expected a bool array of shape (n_nodes, n_labels) = "
                    f"{here.shape}."
                )
            here[:] = entry
        else:
            _mark(here, where, entry, column_of)
    return allowed


def read_sample_weight(sample_weight: Any, n_examples: int) -> FloatArray:
    """Read sample weights, which are finite, non-negative and not all zero.

    Examples
    --------
    >>> read_sample_weight([1, 2], 2).tolist()
    [1.0, 2.0]
    """
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight)
        if weights.dtype.kind not in "biufO":
            raise TypeError
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("Sample weights must be real numbers, one per example.") from None
    except OverflowError:
        raise ValueError("A sample weight is too large for float64; divide all weights by the largest.") from None
    if array.shape != (n_examples,):
        raise ValueError(
            f"Sample weights have shape {array.shape} but X has {n_examples} examples; expected one per example."
        )
    wrong = np.flatnonzero(~(array >= 0) | np.isinf(array))
    if len(wrong):
        raise ValueError(
            f"The sample weight of example {wrong[0]} is {array[wrong[0]]}; expected finite weights of at least 0 "
            f"(a weight of 0 leaves the example out)."
        )
    if array.max(initial=0.0) > LARGEST_WEIGHT:
        raise ValueError(
            f"The sample weight of example {np.argmax(array)} is {array.max():g}, above the limit of "
            f"{LARGEST_WEIGHT:g} up to which sums and squares are finite; divide all weights by the largest."
        )
    if not array.any():
        raise ValueError("All sample weights are zero; at least one example needs a positive weight.")
    return array


def read_node_weight(values: Any, offsets: IntArray, flat: bool = False) -> FloatArray:
    """Read node weights (factors of the node costs), which are finite and non-negative.

    Examples
    --------
    >>> read_node_weight([[1, 2], [0]], np.array([0, 2, 3])).tolist()
    [1.0, 2.0, 0.0]
    """
    weights = np.asarray(_stack("node_weight", values, offsets, "nodes", "biuf", 1, flat), dtype=np.float64)
    wrong = np.flatnonzero(~(weights >= 0) | (weights > LARGEST_WEIGHT))
    if len(wrong):
        raise ValueError(
            f"The weight of {place('node_weight', offsets, int(wrong[0]), flat)} is {weights[wrong[0]]:g}; expected "
            f"node "
            f"weights from 0 to {LARGEST_WEIGHT:g}."
        )
    return weights


def _per_example(name: str, values: Any, n_examples: int) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is {values!r}; expected a list with one entry per example.")
    rows = list(values)
    if len(rows) != n_examples:
        raise ValueError(f"{name} has {len(rows)} entries but X has {n_examples} examples; expected one per example.")
    return rows


def _stack(name: str, values: Any, offsets: IntArray, unit: str, kinds: str, ndim: int, flat: bool = False) -> Array:
    """Concatenate the entries of all examples, and check dtypes and shapes."""
    n_examples = len(offsets) - 1
    rows = [values] if flat else _per_example(name, values, n_examples)
    lengths = [n_examples] if flat else np.diff(offsets).tolist()
    arrays: list[Array] = []
    tail: tuple[int, ...] | None = None
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        where = name if flat else f"{name}[{i}]"
        if is_sparse(row):
            check_sparse(row, where)
        refuse_masked(row, where)
        try:
            array = row.toarray() if is_sparse(row) else np.asarray(row)
        except ValueError:
            raise ValueError(f"{where} is ragged; expected an array with {ndim} dimension(s).") from None
        if length == 0 and array.size == 0:
            continue
        if array.dtype.kind not in kinds:
            expected = "integers" if kinds == "iu" else "numbers"
            raise ValueError(f"{where} has dtype {array.dtype}; expected {expected}.")
        if array.ndim != ndim:
            raise ValueError(f"{where} has shape {array.shape}; expected an array with {ndim} dimension(s).")
        if len(array) != length:
            owner = "X" if flat else f"X[{i}]"
            raise ValueError(f"{where} has {len(array)} rows but {owner} has {length} {unit}; expected one for each.")
        if tail is None:
            tail = array.shape[1:]
        elif array.shape[1:] != tail:
            raise ValueError(
                f"{where} has shape {array.shape} but earlier examples have {('n', *tail)}; "
                f"all examples must have the same features."
            )
        arrays.append(_int64(array) if kinds == "iu" else array)
    if not arrays:
        return np.zeros((0,) * ndim, dtype=np.int32 if kinds == "iu" else np.float64)
    return np.concatenate(arrays)


def _int64(array: Array) -> npt.NDArray[np.int64]:
    """Convert integers to int64. Values above the largest int64 are clipped to it."""
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(np.iinfo(np.int64).max))
    return array.astype(np.int64, copy=False)


def _floats(name: str, array: Array, offsets: IntArray) -> FloatArray:
    floats = np.ascontiguousarray(array, dtype=np.float64)
    if floats.size and not (floats.min() >= -LARGEST_VALUE and floats.max() <= LARGEST_VALUE):
        k = int(np.argwhere(~(np.abs(floats) <= LARGEST_VALUE))[0, 0])
        i, t = locate(offsets, k)
        raise ValueError(
            f"{name}[{i}] holds NaN, infinity or a value above {LARGEST_VALUE:g} in row {t}; expected finite numbers."
        )
    return floats


def _mark(here: BoolArray, where: str, entry: Any, column_of: dict[Hashable, int]) -> None:
    """Set the allowed labels of the nodes of one example."""
    if isinstance(entry, (str, bytes)) or not isinstance(entry, Iterable):
        raise ValueError(f"{where} is {entry!r}; expected a bool array, or a collection of labels for each node.")
    nodes = list(entry)
    if len(nodes) != len(here):
        raise ValueError(f"{where} has {len(nodes)} entries for {len(here)} nodes; expected one collection per node.")
    rows: list[int] = []
    columns: list[int] = []
    for t, node in enumerate(nodes):
        if node is None:
            here[t] = True
            continue
        if isinstance(node, (str, bytes)) or not isinstance(node, Iterable):
            raise ValueError(
                f"{where} node {t} is {node!r}; expected a collection of labels, such as [{node!r}], or None."
            )
        listed = node.tolist() if isinstance(node, np.ndarray) else list(node)
        try:
            columns.extend(column_of[label] for label in listed)
        except (KeyError, TypeError):
            unknown = next(label for label in listed if not is_known(label, column_of))
            raise ValueError(
                f"{where} node {t} lists {unknown!r}, which is not in labels; add it to labels "
                f"(a mask must be a numpy array of dtype bool)."
            ) from None
        rows.extend([t] * len(listed))
    here[rows, columns] = True
