"""Reader of node features, which become one CSR matrix over all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from maxendnet.data.feature_dicts import encode_feature_dicts
from maxendnet.data.ragged import Array, FloatArray, IntArray, csr, offsets_of, place, plain_array, refuse_masked
from maxendnet.data.sparse_matrices import check_sparse, is_sparse

# Squares and sums of values up to this limit are finite in float64.
LARGEST_VALUE = 1e100
# Dense numbers that are converted to CSR at a time (32 MB), so that dense input needs little additional memory.
BLOCK_NUMBERS = 1 << 22
LARGEST_INDEX = np.iinfo(np.int32).max
TAGGER = " For sentences of plain words use maxendnet.text.Tagger, which computes features from [['the', 'dog'], ...]."


class NodeFeatures(NamedTuple):
    """Result of `read_node_features`."""

    X: sparse.csr_array  # (n_nodes, n_features) float64, int32 indices, sorted, no duplicates, no explicit zeros
    offsets: npt.NDArray[np.int64]  # (n_examples + 1,)
    edges: list[Any] | None  # one entry per example, if X has pairs (node_features, edges)
    feature_names: tuple[str, ...] | None
    flat: bool  # whether X was one table, in which each example is one node


def read_node_features(
    X: Any, feature_names: Sequence[str] | None = None, n_features: int | None = None, estimator: str = "the model"
) -> NodeFeatures:
    """Read the node features of a list of examples, a 3-D array or a table.

    Parameters
    ----------
    X : sequence of examples, array or sparse matrix
        See `maxendnet.data.examples.as_examples`.
    feature_names : sequence of str, optional
        Feature names of the fitted model; other names are ignored.
    n_features : int, optional
        Number of features of the fitted model.
    estimator : str
        Name for messages.

    Examples
    --------
    >>> features = read_node_features([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0]]])
    >>> features.offsets.tolist(), features.X.toarray().tolist()
    ([0, 2, 3], [[1.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    """
    if n_features is None and feature_names is not None:
        n_features = len(feature_names)
    columns = _column_names(X, "X", feature_names, estimator)
    table, items = _open(X)
    if table is not None:
        _check_table(table)
        data, names = _stack_numbers([table]), columns
        offsets = np.arange(table.shape[0] + 1, dtype=np.int64)
        edges = None
    else:
        items, edges = _split_edges(items)
        columns = _common_column_names(items, feature_names, estimator)
        items, named = _read_items(items)
        offsets = offsets_of(item.shape[0] if hasattr(item, "shape") else len(item) for item in items)
        if named:
            if feature_names is None and n_features is not None:
                raise ValueError(
                    f"X has named features, but {estimator} was fitted on arrays without names; pass arrays with "
                    f"{n_features} columns."
                )
            data, names = encode_feature_dicts(items, feature_names)
        else:
            data, names = _stack_numbers(items, n_features if n_features is not None else 0), columns
    flat = table is not None
    _check_values(data, offsets, names, flat)
    if n_features is not None and data.shape[1] != n_features:
        raise ValueError(
            f"X has {data.shape[1]} features, but {estimator} is expecting {n_features} features as input."
        )
    if names is None and feature_names is not None:
        names = tuple(feature_names)
    return NodeFeatures(data, offsets, edges, names, flat)


def _column_names(
    X: Any, name: str, expected: Sequence[str] | None, estimator: str = "the model"
) -> tuple[str, ...] | None:
    """Return the column names of a DataFrame, or None if they are not strings.

    They must be those of the fitted model.
    """
    if is_sparse(X) or not (hasattr(X, "columns") and hasattr(X, "__array__")):
        return None
    columns = list(X.columns)
    texts = [isinstance(column, str) for column in columns]
    if not any(texts):
        return None
    if not all(texts):  # this message and the following ones are those of scikit-learn
        kinds = sorted({type(column).__qualname__ for column in columns})
        raise TypeError(
            f"Feature names are only supported if all input features have string names, but {name} has {kinds} as "
            "feature name / column name types. Convert them with X.columns = X.columns.astype(str)."
        )
    names = tuple(map(str, columns))
    if len(set(names)) != len(names):
        twice = next(column for k, column in enumerate(names) if column in names[:k])
        raise ValueError(f"{name} has the column {twice!r} twice; feature names must be distinct.")
    if expected is not None and names != tuple(expected):
        raise ValueError(_names_message(name, names, tuple(expected), estimator))
    return names


def _names_message(name: str, names: tuple[str, ...], expected: tuple[str, ...], estimator: str) -> str:
    unseen, missing = sorted(set(names) - set(expected)), sorted(set(expected) - set(names))
    message = "The feature names should match those that were passed during fit.\n"
    for title, listed in (("Feature names unseen at fit time:", unseen),
                          ("Feature names seen at fit time, yet now missing:", missing)):  # fmt: skip
        if listed:
            message += f"{title}\n" + "".join(f"- {feature}\n" for feature in listed[:5])
            message += "- ...\n" * (len(listed) > 5)
    if not unseen and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message + f"Pass {name} with the columns that {estimator} was fitted on: X[list(model.feature_names_)]."


def _common_column_names(items: list[Any], expected: Sequence[str] | None, estimator: str) -> tuple[str, ...] | None:
    """Return the common column names of the DataFrames among the examples."""
    common: tuple[str, ...] | None = None
    for i, item in enumerate(items):
        names = _column_names(item, f"X[{i}]", expected, estimator)
        if names is not None and common is not None and names != common:
            raise ValueError(
                f"X[{i}] has the columns {list(names)[:5]}, but earlier examples have {list(common)[:5]}; all "
                f"examples must have the same columns in the same order."
            )
        common = common if names is None else names
    return common


def _open(X: Any) -> tuple[Any, list[Any]]:
    """Return X as a table or as a list of examples.

    A table is a 2-D array or sparse matrix. Of the two returned values, the unused one is None or an empty list.
    """
    if isinstance(X, memoryview):  # one with several dimensions cannot be iterated
        X = np.asarray(X)
    if is_sparse(X):  # tested before dicts, because a matrix in DOK format is a dict
        if X.ndim != 2:
            raise ValueError(_reshape_message(X.shape))
        check_sparse(X, "X")
        return X, []
    if isinstance(X, (str, bytes, Mapping)):
        raise ValueError(
            f"X is a {type(X).__name__}; expected a list of examples, each an array of shape (n_nodes, n_features) or "
            f"a list with a feature dict for each node."
        )
    if hasattr(X, "__array__"):
        X = plain_array(X, "X")
        if X.dtype.kind != "O" or X.ndim != 1:
            return _open_array(X)
    elif not isinstance(X, Iterable):
        raise ValueError(f"X is a {type(X).__name__}; expected a list of examples or an array.")
    items = list(X)
    if not items:
        raise ValueError("Found X with 0 sample(s) while a minimum of 1 is required; pass at least one example.")
    if _is_number(items[0]):
        raise ValueError(_reshape_message((len(items),)))
    if _is_row(items[0]):
        lengths = [len(item) if hasattr(item, "__len__") else -1 for item in items]
        odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if odd is not None:
            raise ValueError(
                f"X[0] is a row of {lengths[0]} numbers, so X is read as a table, but X[{odd}] has length "
                f"{lengths[odd]}; expected rows of one length, or an array of shape (n_nodes, n_features) per example."
            )
        return _open_array(_array_of(items, "X"))
    return None, items


def _open_array(X: Array) -> tuple[Any, list[Any]]:
    if X.ndim < 2:
        raise ValueError(_reshape_message(X.shape))
    if X.ndim > 3:
        raise ValueError(
            f"Expected a 2-D array (a node per row) or a 3-D array (n_examples, n_nodes, n_features), got shape "
            f"{X.shape}."
        )
    if X.shape[0] == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
    X = _as_numbers(X, "X")
    return (X, []) if X.ndim == 2 else (None, list(X))


def _check_table(table: Any) -> None:
    # these messages follow scikit-learn, because its estimator checks match them
    if table.shape[0] == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={table.shape}) while a minimum of 1 is required.")
    if table.shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={table.shape}) while a minimum of 1 is required.")


def _reshape_message(shape: tuple[int, ...]) -> str:
    return (
        f"Expected 2D array, got {len(shape)}D array of shape {shape} instead. Reshape your data: array.reshape(-1, 1) "
        f"for a single feature, array.reshape(1, -1) for a single node; sequences are a list of 2-D arrays."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (Number, np.bool_))


def _is_row(item: Any) -> bool:
    """Whether an item is a row of numbers of a table."""
    if isinstance(item, np.ndarray):
        return item.ndim == 1 and item.dtype.kind in "biufc" and len(item) > 0
    return isinstance(item, (list, tuple)) and len(item) > 0 and _is_number(item[0])


def _split_edges(items: list[Any]) -> tuple[list[Any], list[Any] | None]:
    """Split pairs (node_features, edges). Raise ``ValueError`` if only some examples have edges."""
    pairs = [isinstance(item, tuple) and len(item) == 2 for item in items]
    if not any(pairs):
        return items, None
    if not all(pairs):
        with_edges, without = pairs.index(True), pairs.index(False)
        raise ValueError(
            f"X[{with_edges}] is a pair (node_features, edges) but X[{without}] has no edges; pass edges for every "
            f"example, an empty list if there are none (and pass an example of two nodes as a list, not a tuple)."
        )
    return [item[0] for item in items], [item[1] for item in items]


def _read_items(items: list[Any]) -> tuple[list[Any], bool]:
    """Return the examples in their final form, and whether features have names."""
    read = [_read_item(i, item) for i, item in enumerate(items)]
    kinds = [None if kind == "empty" else kind for _, kind in read]
    named = "named" in kinds
    if named and "numbers" in kinds:
        raise ValueError(
            f"X[{kinds.index('named')}] has named features but X[{kinds.index('numbers')}] is an array; "
            f"all examples must have the same form."
        )
    return [item for item, _ in read], named


def _read_item(i: int, item: Any) -> tuple[Any, str]:
    """Return an example as an array, sparse matrix or list of nodes, and its kind.

    Kinds are "numbers", "named" and "empty".
    """
    if isinstance(item, memoryview):
        item = np.asarray(item)
    if is_sparse(item):
        if item.ndim != 2:
            raise ValueError(_dimension_message(i, item.shape))
        check_sparse(item, f"X[{i}]")
        return item, "numbers"
    if hasattr(item, "__array__"):
        item = plain_array(item, f"X[{i}]")
        if item.dtype.kind != "O" or item.ndim != 1:
            return _read_array(i, item)
    if isinstance(item, (str, bytes, Mapping)) or not isinstance(item, Iterable):
        raise ValueError(
            f"X[{i}] is a {type(item).__name__}; an example is an array of shape (n_nodes, n_features), "
            f"or a list with a feature dict or a list of feature names for each node. If X is one example, pass [X]."
            + (TAGGER if isinstance(item, str) else "")
        )
    nodes = list(item)
    node = next((node for node in nodes if is_sparse(node) or not isinstance(node, Sized) or len(node)), None)
    if node is None and None not in nodes:  # no nodes, or nodes without features
        return nodes, "named" if nodes else "empty"
    if isinstance(node, (Mapping, set, frozenset)) and not is_sparse(node):
        return nodes, "named"
    if _is_number(node):
        raise ValueError(_dimension_message(i, (len(nodes),)))
    if isinstance(node, str) or is_sparse(node) or not isinstance(node, Iterable):
        what = f"the string {node!r}" if isinstance(node, str) else f"a {type(node).__name__}"
        raise ValueError(
            f"X[{i}] has {what} as a node; a node is a row of numbers, a dict of features or a list of feature names "
            f"(pass a single name in a list, and sparse rows as one sparse matrix). If X is one example, pass [X]."
            + (TAGGER if isinstance(node, str) else "")
        )
    if isinstance(next(iter(node)), str):
        return nodes, "named"
    return _read_array(i, _array_of(nodes, f"X[{i}]"))


def _read_array(i: int, item: Array) -> tuple[Any, str]:
    if item.ndim == 1 and len(item) == 0:
        return [], "empty"
    if item.ndim != 2:
        raise ValueError(_dimension_message(i, item.shape) + (TAGGER if item.dtype.kind == "U" else ""))
    return _as_numbers(item, f"X[{i}]"), "numbers"


def _dimension_message(i: int, shape: tuple[int, ...]) -> str:
    return (
        f"X[{i}] has shape {shape}; an example is 2-D, of shape (n_nodes, n_features): "
        f"one row of features for each node."
    )


def _array_of(rows: list[Any], name: str) -> Array:
    """Convert a list of rows of numbers to an array."""
    for t, row in enumerate(rows):
        refuse_masked(row, f"{name}[{t}]")
    try:
        return np.array(rows)
    except ValueError:
        if any(isinstance(row, (str, Mapping)) for row in rows):
            raise ValueError(
                f"{name} mixes rows of numbers with named features; all nodes must have the same form."
            ) from None
        nested = next(
            (t for t, row in enumerate(rows) if isinstance(row, (list, tuple)) and any(map(_is_nested, row))), None
        )
        if nested is not None:
            raise ValueError(
                f"{name} row {nested} holds a list where a number is expected; a row has one number for each feature."
            ) from None
        lengths = [np.size(row) for row in rows]
        odd = next((t for t, length in enumerate(lengths) if length != lengths[0]), 0)
        raise ValueError(
            f"{name} is not rectangular: row {odd} has {lengths[odd]} numbers but row 0 has {lengths[0]}; "
            f"every node must have the same features."
        ) from None


def _is_nested(cell: Any) -> bool:
    return isinstance(cell, (Sized, Iterable)) and not isinstance(cell, (str, bytes))


def _as_numbers(array: Array, name: str) -> Array:
    """Return the array if it contains real numbers. Objects are converted to numbers."""
    kind = array.dtype.kind
    if kind in "biuf":
        return array
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}; pass real numbers.")
    if kind == "O":
        kinds = set(map(type, array.ravel().tolist()))
        if any(issubclass(kind, (str, bytes)) for kind in kinds):
            raise ValueError(f"{name} holds strings where numbers are expected; pass feature dicts or encode them.")
        if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
            raise ValueError(f"Complex data not supported: {name} holds complex numbers; pass real numbers.")
        if any(issubclass(kind, (np.datetime64, np.timedelta64)) for kind in kinds):
            raise ValueError(f"{name} holds dates or times where numbers are expected; pass numbers, such as days.")
        if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
            raise ValueError(f"{name} holds masked values; fill them in or remove them.")
        try:
            return array.astype(np.float64)
        except ValueError as error:  # an array as a cell
            raise ValueError(f"{name} holds arrays where numbers are expected: {error}.") from None
        except TypeError as error:
            raise TypeError(
                f"{name} is an array of objects that are not all numbers: {error}. Pass feature dicts as lists."
            ) from None
        except OverflowError:
            raise ValueError(f"{name} contains a value too large for float64; scale the feature.") from None
    what = "strings" if kind in "US" else f"values of dtype {array.dtype}"
    raise ValueError(f"{name} holds {what} where numbers are expected; pass feature dicts or encode them.")


def _stack_numbers(items: list[Any], n_features: int = 0) -> sparse.csr_array:
    """Stack the rows of all items as one CSR matrix.

    ``n_features`` is used if all items are empty.
    """
    arrays = [(i, item) for i, item in enumerate(items) if hasattr(item, "shape")]
    widths = [(i, item.shape[1]) for i, item in arrays if item.shape != (0, 0)]
    if widths:
        first, n_features = widths[0]
        for i, width in widths:
            if width != n_features:
                pair = " If X is one pair (node_features, edges), pass [X]." if len(items) == width == 2 else ""
                raise ValueError(
                    f"X[{i}] has {width} features but X[{first}] has {n_features}; every node must have the same "
                    f"features.{pair}"
                )
    if n_features > LARGEST_INDEX or sum(item.shape[0] for _, item in arrays) > LARGEST_INDEX:
        raise ValueError(f"X has more than {LARGEST_INDEX} features or nodes; hash features, or use fewer examples.")
    pieces = list(_pieces(item for _, item in arrays if item.shape[0]))
    if not pieces:
        return sparse.csr_array((0, n_features), dtype=np.float64)
    if len(pieces) == 1:
        data, indices, counts = pieces[0]
    else:
        data, indices, counts = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    if len(indices) and (indices.min() < 0 or indices.max() >= n_features):
        raise ValueError("X is a sparse matrix with column indices out of range; build it with scipy.sparse again.")
    X = csr(data, indices, offsets_of(counts), n_features)
    if not X.has_canonical_format or not X.data.all():
        if len(pieces) == 1:
            X = X.copy()  # the arrays may belong to the user
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def _pieces(items: Iterable[Any]) -> Iterator[tuple[FloatArray, IntArray, IntArray]]:
    """Yield the values, columns and row lengths of blocks of rows."""
    block: list[Array] = []
    size = 0
    for item in items:
        if is_sparse(item):
            if block:
                yield _nonzeros(block)
                block, size = [], 0
            yield _sparse_piece(item)
            continue
        rows_at_once = max(1, BLOCK_NUMBERS // max(1, item.shape[1]))
        for start in range(0, item.shape[0], rows_at_once):
            part = item[start : start + rows_at_once]
            block.append(part)
            size += part.size
            if size >= BLOCK_NUMBERS:
                yield _nonzeros(block)
                block, size = [], 0
    if block:
        yield _nonzeros(block)


def _nonzeros(block: list[Array]) -> tuple[FloatArray, IntArray, IntArray]:
    dense = block[0] if len(block) == 1 else np.concatenate(block, dtype=np.float64, casting="unsafe")
    with np.errstate(over="ignore"):  # values too large for float64 become infinity, which is refused later
        dense = np.asarray(dense, dtype=np.float64)
    rows, columns = np.nonzero(dense)
    return dense[rows, columns], columns.astype(np.int32), np.bincount(rows, minlength=len(dense))


def _sparse_piece(item: Any) -> tuple[FloatArray, IntArray, IntArray]:
    if item.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has a sparse matrix of dtype {item.dtype}; pass real numbers.")
    matrix = item.tocsr()
    n_entries = int(matrix.indptr[-1])
    return (
        matrix.data[:n_entries].astype(np.float64, copy=False),
        matrix.indices[:n_entries].astype(np.int32, copy=False),
        np.diff(matrix.indptr),
    )


def _check_values(X: sparse.csr_array, offsets: IntArray, names: tuple[str, ...] | None, flat: bool) -> None:
    """Raise ``ValueError`` for NaN, infinity and values above the limit."""
    if X.nnz == 0 or (X.data.min() >= -LARGEST_VALUE and X.data.max() <= LARGEST_VALUE):
        return  # with NaN the comparison is false
    k = int(np.flatnonzero(~(np.abs(X.data) <= LARGEST_VALUE))[0])
    value = X.data[k]
    node = int(np.searchsorted(X.indptr, k, side="right")) - 1
    column = X.indices[k]
    where = f"{place('X', offsets, node, flat)}, feature {column if names is None else repr(names[column])}"
    if np.isnan(value):
        raise ValueError(f"Input X contains NaN: {where}; impute or remove missing values.")
    if np.isinf(value):
        raise ValueError(f"Input X contains infinity or a value too large for float64: {where}; scale the feature.")
    raise ValueError(
        f"Input X contains {value:g}, {'above' if value > 0 else 'below'} the limit of "
        f"{np.copysign(LARGEST_VALUE, value):g}: {where}; scale the feature."
    )
