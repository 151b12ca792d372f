"""Named features: nodes as dicts or collections of names.

Dict entries become features as in scikit-learn's ``DictVectorizer``, and may contain collections and dicts as in
CRFsuite:

==============================  =====================================================
``{"length": 3}``               feature ``length`` with value 3.0
``{"title": True}``             feature ``title`` with value 1.0
``{"title": False}``            no feature (the same as 0)
``{"word": "dog"}``             feature ``word=dog`` with value 1.0
``{"ends": ["ing", "ng"]}``     features ``ends=ing`` and ``ends=ng`` with value 1.0
``{"next": {"word": "dog"}}``   the features of the inner dict: ``next:word=dog``
==============================  =====================================================

If a node is a collection of names, each named feature has the value 1.0. If a feature occurs twice in a node, its
values are added.
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

# Types that numpy converts to float64 directly; values of other types are checked one by one.
PLAIN_NUMBERS = frozenset(
    (bool, int, float, np.bool_, np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8)
)
# Numeric types of numpy that cannot be the value of a feature.
NOT_NUMBERS = (np.complexfloating, np.timedelta64)
COLLECTIONS = (list, tuple, set, frozenset)
# Largest depth of nested dicts; a deeper one probably contains itself.
MAX_DEPTH = 20
# Number of entries collected as Python objects before conversion to arrays; they take a few tens of MB.
BLOCK_ENTRIES = 1 << 20
NAME_TWICE = "feature_names contains a name twice; feature names must be distinct."


class Texts(NamedTuple):
    """Texts in UTF-8, concatenated, as kernels read them."""

    content: bytes
    offsets: IntArray
    """Text i consists of the bytes ``offsets[i]:offsets[i + 1]``."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        joined = "".join(texts)
        if joined.isascii():
            return cls(joined.encode(), offsets_of(map(len, texts)))
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        return cls(b"".join(encoded), offsets_of(map(len, encoded)))


class NameTable(NamedTuple):
    """Hash table of names, as kernels read it."""

    content: bytes
    offsets: IntArray
    slots: IntArray


class FeatureNames(tuple[str, ...]):
    """Feature names with an index that is built once.

    Examples
    --------
    >>> names = FeatureNames(["a", "b"])
    >>> names.places["b"], names.places["unknown"]
    (1, 2)
    """

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Index of each name. Unknown names map to ``len(names)``."""
        places = _Places(zip(self, range(len(self))))
        if len(places) != len(self):
            raise ValueError(NAME_TWICE)
        places.n_names = len(self)
        return places

    @cached_property
    def table(self) -> NameTable:
        """Hash table for `_kernels.find_features`."""
        content, offsets = Texts.of(self)
        slots = np.empty(2 << len(self).bit_length(), dtype=np.uint64)  # a quarter to a half of them are used
        if not _kernels.name_slots(content, offsets, slots):
            raise ValueError(NAME_TWICE)
        return NameTable(content, offsets, slots)

    def __reduce__(self) -> Any:
        return FeatureNames, (tuple(self),)


class _Places(dict[str, int]):
    """Dict with a default that does not insert missing keys, so that threads can share it."""

    n_names = 0

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        return self.n_names


def encode_feature_dicts(
    examples: Sequence[Sequence[Node]], feature_names: Sequence[str] | None = None
) -> tuple[sparse.csr_array, FeatureNames]:
    """Encode named features as one CSR matrix with a row per node.

    Parameters
    ----------
    examples : sequence of sequences of nodes
        A node is a collection of feature names, or a dict whose values are bools, numbers, strings, collections of
        strings or dicts.
    feature_names : sequence of str, optional
        Names of the columns; other features are ignored. An index that `FeatureNames` already built is reused. By
        default the sorted names of all features with a non-zero value.

    Returns
    -------
    X : csr_array of shape (n_nodes, n_features)
        float64, with sorted indices, without duplicates or explicit zeros. The caller must check for NaN and infinity.
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
        growing.default_factory = growing.__len__  # a new name gets the next number
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
    """Permute columns from the order ``names`` to ``new_names``.

    Columns with other names are dropped.

    Examples
    --------
    >>> X = sparse.csr_array([[1.0, 2.0, 3.0]])
    >>> align_columns(X, ["a", "b", "c"], ["c", "d", "a"]).toarray().tolist()
    [[3.0, 0.0, 1.0]]
    """
    index = {name: k for k, name in enumerate(new_names)}
    target = np.array([index.get(name, -1) for name in names], dtype=np.int32)
    column = target[X.indices]
    # copied because the entries are sorted in place
    return csr_of_entries(column, X.data.copy(), X.indptr, column >= 0, len(new_names))


def csr_of_entries(
    column: IntArray, value: FloatArray, offsets: IntArray, keep: IntArray, n_features: int
) -> sparse.csr_array:
    """Return the CSR matrix of the entries marked by ``keep``. Their values must not be zero.

    Entries are sorted within rows, and duplicates are added.
    """
    if not keep.all():
        n_kept = np.zeros(len(keep) + 1, dtype=np.int64)
        np.cumsum(keep, out=n_kept[1:])
        value, column, offsets = value[keep], column[keep], n_kept[offsets]
    X = csr(value, column, offsets, n_features)
    n_entries = len(value)
    X.sum_duplicates()
    if X.nnz < n_entries:
        X.eliminate_zeros()  # the sum of a value and its negative is zero
    return X


def _append(node: Node, column_of: Mapping[str, int], columns: list[int], values: list[Any]) -> None:
    """Append the columns and values of one node.

    An invalid feature raises ``TypeError``.
    """
    if isinstance(node, (dict, Mapping)):  # dict comes first, because isinstance with an abstract class is slow
        # this loop is the most expensive part of encoding text
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
    """Yield names and values of the features of an entry.

    Raise ``TypeError`` if the entry is invalid.
    """
    if isinstance(value, str):
        yield name + "=" + str(value), 1.0
    elif isinstance(value, (Real, np.number, np.bool_)) and not isinstance(value, NOT_NUMBERS):
        yield name, value
    elif isinstance(value, COLLECTIONS):
        for text in value:
            if not isinstance(text, str):
                raise TypeError(
                    f"feature {name!r} has a {type(value).__name__} with {text!r} of type {type(text).__name__} inside;"
                    f" a collection holds strings, and each number needs a name: {{{name!r}: {{'part': 1.0}}}}."
                )
            yield name + "=" + str(text), 1.0
    elif isinstance(value, Mapping):
        if depth >= MAX_DEPTH:
            raise TypeError(f"feature {name!r} has dicts nested more than {MAX_DEPTH} deep; flatten them.")
        for inner, part in value.items():
            if not isinstance(inner, str):
                raise TypeError(
                    f"feature {name!r} has a dict with the key {inner!r} of type {type(inner).__name__}; "
                    "keys must be strings."
                )
            yield from _parts(name + ":" + inner, part, depth + 1)
    else:
        raise TypeError(
            f"feature {name!r} has a value of type {type(value).__name__}; expected a bool, a number, a string, a "
            f"collection of strings or a dict of these."
        )


def _floats(values: list[Any]) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # integers of more than 308 digits become infinity, which the caller refuses
        return np.array([np.inf if abs(value) > 1e300 else value for value in values], dtype=np.float64)


def _check_names(examples: Sequence[Sequence[Node]], column_of: Mapping[str, int]) -> None:
    """Raise ``ValueError`` for the first node with a name that is not a string."""
    if all(isinstance(name, str) for name in column_of):
        return
    for i, nodes in enumerate(examples):
        for t, node in enumerate(nodes):
            if not all(isinstance(name, str) for name in node):
                raise ValueError(_complaint(i, t, node))


def _complaint(i: int, t: int, node: Any, error: Exception | None = None) -> str:
    """Return the error message for a node that could not be read."""
    where = f"X[{i}] node {t}"
    if isinstance(node, str) or not isinstance(node, Iterable):
        return f"{where} is {node!r}; expected a dict of features or a list of feature names."
    for name in node:
        if not isinstance(name, str):
            return (
                f"{where} has the feature name {name!r} of type {type(name).__name__}; feature names must be strings."
            )
    if isinstance(node, Mapping):
        return f"{where} {error}"
    return f"{where} is a {type(node).__name__}; expected a dict of features or a list of feature names."
