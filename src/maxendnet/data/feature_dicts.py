"""Features with names: every node a dict or a collection of names, all nodes together one CSR matrix.

A dict entry becomes a feature as in scikit-learn's ``DictVectorizer``, and may hold collections and dicts as in
CRFsuite:

==============================  =====================================================
``{"length": 3}``               feature ``length`` with value 3.0
``{"title": True}``             feature ``title`` with value 1.0
``{"title": False}``            nothing (the same as 0)
``{"word": "dog"}``             feature ``word=dog`` with value 1.0
``{"ends": ["ing", "ng"]}``     features ``ends=ing`` and ``ends=ng`` with value 1.0
``{"next": {"word": "dog"}}``   the features of the inner dict: ``next:word=dog``
==============================  =====================================================

A node given as a collection of names has the value 1.0 for each. A feature that comes twice in one node is added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from maxendnet import _kernels
from maxendnet.data.ragged import FloatArray, IntArray, csr, offsets_of

Node: TypeAlias = Mapping[str, Any] | Iterable[str]

# Types that numpy turns into float64 as they are; values of other types are looked at one by one.
PLAIN_NUMBERS = frozenset(
    (bool, int, float, np.bool_, np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8)
)
# What numpy counts among the numbers and is no value of a feature.
NOT_NUMBERS = (np.complexfloating, np.timedelta64)
COLLECTIONS = (list, tuple, set, frozenset)
# Dicts within dicts, at most: what is deeper holds itself, or is no feature.
DEEPEST = 20
# Entries held as Python objects before they become arrays: some tens of MB.
BLOCK_ENTRIES = 1 << 20
NAME_TWICE = "feature_names holds a name twice; give each feature its own name."


class Texts(NamedTuple):
    """Many texts in UTF-8, one behind the other, as kernels read them."""

    content: bytes
    offsets: IntArray
    """Text i has the bytes ``offsets[i]:offsets[i + 1]``."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        joined = "".join(texts)
        if joined.isascii():
            return cls(joined.encode(), offsets_of(map(len, texts)))
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        return cls(b"".join(encoded), offsets_of(map(len, encoded)))


class NameTable(NamedTuple):
    """A hash table of names, as kernels read it."""

    content: bytes
    offsets: IntArray
    slots: IntArray


class FeatureNames(tuple[str, ...]):
    """Names of features, with their places: the table is made once, however often examples are read.

    Examples
    --------
    >>> names = FeatureNames(["a", "b"])
    >>> names.places["b"], names.places["unknown"]
    (1, 2)
    """

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of every name; of other names, the number of names."""
        places = _Places(zip(self, range(len(self))))
        if len(places) != len(self):
            raise ValueError(NAME_TWICE)
        places.n_names = len(self)
        return places

    @cached_property
    def table(self) -> NameTable:
        """The same for `_kernels.find_features`, which looks names up without making strings of them."""
        content, offsets = Texts.of(self)
        slots = np.empty(2 << len(self).bit_length(), dtype=np.uint64)  # a quarter to a half of them are taken
        if not _kernels.name_slots(content, offsets, slots):
            raise ValueError(NAME_TWICE)
        return NameTable(content, offsets, slots)

    def __reduce__(self) -> Any:
        return FeatureNames, (tuple(self),)


class _Places(dict[str, int]):
    """A dict that does not grow when it is asked for a name that it does not hold, so that threads can share it."""

    n_names = 0

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        return self.n_names


def encode_feature_dicts(
    examples: Sequence[Sequence[Node]], feature_names: Sequence[str] | None = None
) -> tuple[sparse.csr_array, FeatureNames]:
    """Turn named features into one CSR matrix with a row per node.

    Parameters
    ----------
    examples : sequence of sequences of nodes
        A node is a dict from feature name to bool, number, string, a collection of strings or another dict, or it is a
        collection of feature names.
    feature_names : sequence of str, optional
        The columns. Features with other names are ignored, as prediction asks for. `FeatureNames` are looked up
        without going through all of them. Without it the columns are all names that have a value other than zero
        somewhere, sorted.

    Returns
    -------
    X : csr_array of shape (n_nodes, n_features)
        float64, sorted indices, no duplicates, no explicit zeros. NaN and infinity pass: the caller knows the limits.
    feature_names : FeatureNames

    Examples
    --------
    >>> X, names = encode_feature_dicts([[{"word": "the"}, {"word": "dog", "length": 3}], [["bias"]]])
    >>> names
    ('bias', 'length', 'word=dog', 'word=the')
    >>> X.toarray().tolist()
    [[0.0, 0.0, 0.0, 1.0], [0.0, 3.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    >>> encode_feature_dicts([[{"word": "cat", "length": 2}]], names)[0].toarray().tolist()
    [[0.0, 2.0, 0.0, 0.0]]
    """
    column_of: Mapping[str, int]
    if feature_names is None:
        growing: defaultdict[str, int] = defaultdict()
        growing.default_factory = growing.__len__  # a new name gets the next number, without a line of Python
        column_of = growing
    else:
        if not isinstance(feature_names, FeatureNames):
            feature_names = FeatureNames(map(str, feature_names))
        column_of = feature_names.places

    counts: list[int] = []
    columns: list[int] = []
    values: list[Any] = []
    column_blocks: list[IntArray] = []
    value_blocks: list[FloatArray] = []
    for i, nodes in enumerate(examples):
        for t, node in enumerate(nodes):
            before = len(columns)
            try:
                _append(node, column_of, columns, values)
            except TypeError as error:
                raise ValueError(_complaint(i, t, node, error)) from None
            counts.append(len(columns) - before)
        if len(columns) >= BLOCK_ENTRIES:
            column_blocks.append(np.array(columns, dtype=np.int32))
            value_blocks.append(_floats(values))
            columns.clear()
            values.clear()
    column_blocks.append(np.array(columns, dtype=np.int32))
    value_blocks.append(_floats(values))
    if feature_names is None:
        _check_names(examples, column_of)
    column, value = np.concatenate(column_blocks), np.concatenate(value_blocks)

    keep = value != 0
    if feature_names is None:
        known = list(column_of)
        used = np.zeros(len(known), dtype=bool)
        used[column[keep]] = True
        chosen = sorted(np.flatnonzero(used).tolist(), key=known.__getitem__)
        rank = np.zeros(len(known), dtype=np.int32)
        rank[chosen] = np.arange(len(chosen), dtype=np.int32)
        names = FeatureNames(map(str, map(known.__getitem__, chosen)))
        column = rank[column]
    else:
        names = feature_names
        keep &= column < len(names)
    return csr_of_entries(column, value, offsets_of(counts), keep, len(names)), names


def align_columns(X: sparse.csr_array, names: Sequence[str], new_names: Sequence[str]) -> sparse.csr_array:
    """Put columns named ``names`` in the order ``new_names``; columns without a new place are dropped.

    Examples
    --------
    >>> X = sparse.csr_array([[1.0, 2.0, 3.0]])
    >>> align_columns(X, ["a", "b", "c"], ["c", "d", "a"]).toarray().tolist()
    [[3.0, 0.0, 1.0]]
    """
    place = {name: k for k, name in enumerate(new_names)}
    target = np.array([place.get(name, -1) for name in names], dtype=np.int32)
    column = target[X.indices]
    # a copy: the entries are sorted in place
    return csr_of_entries(column, X.data.copy(), X.indptr, column >= 0, len(new_names))


def csr_of_entries(
    column: IntArray, value: FloatArray, offsets: IntArray, keep: IntArray, n_features: int
) -> sparse.csr_array:
    """CSR matrix of the entries marked by ``keep``, row after row: sorted, added up where doubled, no zeros.

    No entry that is kept may be zero itself.
    """
    if not keep.all():
        kept_before = np.zeros(len(keep) + 1, dtype=np.int64)
        np.cumsum(keep, out=kept_before[1:])
        value, column, offsets = value[keep], column[keep], kept_before[offsets]
    X = csr(value, column, offsets, n_features)
    n_entries = len(value)
    X.sum_duplicates()
    if X.nnz < n_entries:
        X.eliminate_zeros()  # a value and its negative
    return X


def _append(node: Node, column_of: Mapping[str, int], columns: list[int], values: list[Any]) -> None:
    """Append the columns and values of one node; TypeError for what is not a feature."""
    if isinstance(node, (dict, Mapping)):  # dict first: the test of an abstract class is slow
        # This loop is most of the time of a fit on text: 250 ns an entry.
        for name, value in node.items():
            kind = type(value)
            if kind is str:
                columns.append(column_of[name + "=" + value])  # not an f-string: it would accept any name
                values.append(1.0)
            elif kind in PLAIN_NUMBERS:
                columns.append(column_of[name])
                values.append(value)
            else:
                for inner, number in _parts(name, value):
                    columns.append(column_of[inner])
                    values.append(number)
    elif isinstance(node, COLLECTIONS):
        columns.extend(map(column_of.__getitem__, node))
        values.extend([1.0] * len(node))
    elif isinstance(node, np.ndarray) and node.ndim == 1:
        _append(node.tolist(), column_of, columns, values)
    else:
        raise TypeError


def _parts(name: str, value: Any, depth: int = 0) -> Iterable[tuple[str, Any]]:
    """Names and values of the features of an entry; ``TypeError`` says what is wrong with it."""
    if isinstance(value, str):
        yield name + "=" + str(value), 1.0
    elif isinstance(value, (Real, np.number, np.bool_)) and not isinstance(value, NOT_NUMBERS):
        yield name, value
    elif isinstance(value, COLLECTIONS):
        for text in value:
            if not isinstance(text, str):
                raise TypeError(
                    f"feature {name!r} has a {type(value).__name__} with {text!r} of type {type(text).__name__} inside;"
                    f" a collection holds strings, and numbers have names of their own: {{{name!r}: {{'part': 1.0}}}}."
                )
            yield name + "=" + str(text), 1.0
    elif isinstance(value, Mapping):
        if depth >= DEEPEST:
            raise TypeError(f"feature {name!r} has dicts within dicts, more than {DEEPEST} deep; flatten them.")
        for inner, part in value.items():
            if not isinstance(inner, str):
                raise TypeError(
                    f"feature {name!r} has the inner name {inner!r} of type {type(inner).__name__}; names are strings."
                )
            yield from _parts(name + ":" + inner, part, depth + 1)
    else:
        raise TypeError(
            f"feature {name!r} has a value of type {type(value).__name__}; give a bool, a number, a string, a "
            f"collection of strings or a dict of these."
        )


def _floats(values: list[Any]) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # integers of more than 308 digits: too large, like infinity, and the caller says so
        return np.array([np.inf if abs(value) > 1e300 else value for value in values], dtype=np.float64)


def _check_names(examples: Sequence[Sequence[Node]], column_of: Mapping[str, int]) -> None:
    """Raise for a name that is not a string; it is in the table already, so only a table with one needs the search."""
    if all(isinstance(name, str) for name in column_of):
        return
    for i, nodes in enumerate(examples):
        for t, node in enumerate(nodes):
            if not all(isinstance(name, str) for name in node):
                raise ValueError(_complaint(i, t, node))


def _complaint(i: int, t: int, node: Any, error: Exception | None = None) -> str:
    """What is wrong with a node that could not be read."""
    where = f"X[{i}] node {t}"
    if isinstance(node, str) or not isinstance(node, Iterable):
        return f"{where} is {node!r}; give each node a dict of features or a list of feature names."
    for name in node:
        if not isinstance(name, str):
            return f"{where} has the feature name {name!r} of type {type(name).__name__}; feature names are strings."
    if isinstance(node, Mapping):
        return f"{where} {error}"
    return f"{where} is a {type(node).__name__}; give each node a dict of features or a list of feature names."
