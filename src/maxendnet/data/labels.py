"""Labels: any hashable values, compared as dict keys."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from maxendnet.data.ragged import Array, IntArray, place, plain_array
from maxendnet.data.truth import possible_labels
from maxendnet.data.unknown import UNKNOWN

# dtype kinds of arrays that are used directly. Other arrays, such as dates, become Python objects.
PLAIN_KINDS = frozenset("biufUS")


def distinct_labels(y: Array | Iterable[Hashable]) -> Array:
    """Return the distinct labels, sorted, including those that occur only in sets.

    Labels are identical if they are equal as dict keys: ``1``, ``1.0`` and ``True`` are one label. Labels that Python
    cannot compare, such as numbers and strings, are sorted by type name and ``repr``.

    Parameters
    ----------
    y : array of shape (n_nodes,) or iterable of labels

    Returns
    -------
    ndarray of shape (n_labels,)
        Of a numpy dtype if all labels have the same simple type, otherwise of objects.

    Examples
    --------
    >>> distinct_labels(["N", "V", "N"]).tolist()
    ['N', 'V']
    >>> distinct_labels([2, UNKNOWN, "a", 2]).tolist()
    [2, 'a']
    """
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
        return np.unique(y)
    labels = possible_labels(y.tolist() if isinstance(y, np.ndarray) else y)
    try:
        labels.sort()
    except TypeError:
        labels.sort(key=lambda label: (type(label).__name__, repr(label)))
    # string labels get a numpy dtype, unless a label ends with NUL, which numpy would drop
    if labels and set(map(type, labels)) == {str} and not any(label.endswith("\0") for label in labels):
        return np.array(labels, dtype=np.str_)
    return label_array(labels)


def label_array(labels: Sequence[Any]) -> Array:
    """Return a 1-D array of labels without type conversion.

    numpy would convert 1 and "a" to strings.

    Examples
    --------
    >>> label_array([1, "a"]).tolist(), label_array([(0, 1), (2, 3)]).shape, label_array([3, 4]).dtype.kind
    ([1, 'a'], (2,), 'i')
    """
    kinds = set(map(type, labels))
    kind = kinds.pop() if len(kinds) == 1 else object
    number = issubclass(kind, (np.number, np.bool_)) and not issubclass(kind, np.timedelta64)
    if kind in (bool, int, float) or number:  # this excludes IntEnum
        array = np.array(labels)
        # numpy would convert integers above 64 bits to floats
        if array.dtype.kind in "biu" or issubclass(kind, (float, np.floating)):
            return array
    return np.fromiter(labels, dtype=object, count=len(labels))


def read_labels(y: Any, offsets: IntArray, flat: bool, name: str = "y", whole: bool = False) -> Array:
    """Read the labels of all nodes.

    ``y`` contains one sequence per example, or is one sequence if each example is one node.

    Parameters
    ----------
    y : sequence
    offsets : ndarray of shape (n_examples + 1,)
    flat : bool
    name : str
        For messages.
    whole : bool
        Whether each example has one label, which applies to all its nodes.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Arrays keep their dtype, lists of numbers of one type get a numpy dtype, and other labels are objects. Sets
        become frozensets. If the entry of an example is `UNKNOWN`, all its nodes are.

    Examples
    --------
    >>> read_labels([["N", "V"], ["N"]], np.array([0, 2, 3]), flat=False).tolist()
    ['N', 'V', 'N']
    """
    if isinstance(y, (str, bytes)):
        raise ValueError(f"{name} is the string {y!r}; expected a list of labels per example.")
    if isinstance(y, memoryview):  # Python iterates over few of its formats
        y = np.asarray(y)
    labels = _read_flat(y, len(offsets) - 1, name) if flat or whole else _read_nested(y, offsets, name)
    if whole and not flat:
        sequences = [i for i, label in enumerate(labels.tolist()) if isinstance(label, (list, np.ndarray))]
        if sequences:
            i = sequences[0]
            raise ValueError(
                f"{name}[{i}] is {labels[i]!r}; with Chain(whole=True), {name} must be a list with one label per "
                f"example."
            )
        _check_labels(labels, np.arange(len(offsets)), True, name)
        return np.repeat(labels, np.diff(offsets))
    _check_labels(labels, offsets, flat, name)
    return labels


def _as_list(y: Any, name: str) -> list[Any]:
    try:
        return list(y)
    except TypeError:
        raise ValueError(f"{name} is a {type(y).__name__}; expected a list of labels per example.") from None


def _read_flat(y: Any, n_examples: int, name: str) -> Array:
    if hasattr(y, "__array__"):
        y = plain_array(y, name)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; reshape it with y.ravel().",
                DataConversionWarning,
                stacklevel=2,
            )
            y = y.ravel()
        if y.ndim != 1:
            raise ValueError(f"{name} should be a 1d array with a label per row of X, got an array of shape {y.shape}.")
        labels = y if y.dtype.kind in PLAIN_KINDS else label_array(_objects(y, name))
    else:
        labels = label_array(_with_frozen_sets(_as_list(y, name)))
    if len(labels) != n_examples:
        raise ValueError(f"X has {n_examples} rows but {name} has {len(labels)} labels; expected one label per row.")
    return labels


def _read_nested(y: Any, offsets: IntArray, name: str) -> Array:
    rows = _as_list(y, name)
    n_examples = len(offsets) - 1
    if len(rows) != n_examples:
        raise ValueError(
            f"X has {n_examples} examples but {name} has {len(rows)}; expected a list of labels per example, in the "
            f"same "
            "order."
            + (
                f" If {name} contains the labels of one example, pass [{name}]."
                if n_examples == 1 and len(rows) == offsets[-1]
                else ""
            )
        )
    for i, row in enumerate(rows):
        if isinstance(row, memoryview):
            rows[i] = row = np.asarray(row)
        if row is UNKNOWN:
            rows[i] = [UNKNOWN] * int(offsets[i + 1] - offsets[i])
        elif isinstance(row, (set, frozenset)):
            raise ValueError(
                f"{name}[{i}] is the set {row!r}, which has no order; expected a list with a label, a set of labels or "
                "UNKNOWN for each node."
            )
        elif isinstance(row, (str, bytes)):
            raise ValueError(
                f"{name}[{i}] is the string {row!r}; expected a list of labels per example, one for each node."
            )
        elif hasattr(row, "__array__"):
            rows[i] = row = plain_array(row, f"{name}[{i}]")
            if row.ndim != 1:
                raise ValueError(
                    f"{name}[{i}] has shape {row.shape}; expected a list of labels per example: 1-D, one label per "
                    f"node."
                )
        elif not isinstance(row, (list, tuple)):
            if not isinstance(row, Iterable):
                raise ValueError(
                    f"{name}[{i}] is {row!r}, a single label; expected a list of labels per example, one for each node."
                )
            rows[i] = list(row)
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    wrong = np.flatnonzero(lengths != np.diff(offsets))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"{name}[{i}] has {lengths[i]} labels but X[{i}] has {offsets[i + 1] - offsets[i]} nodes; "
            f"expected one label per node."
        )
    kinds = {row.dtype.kind if isinstance(row, np.ndarray) else "O" for row in rows if len(row)}
    if len(kinds) == 1 and kinds <= PLAIN_KINDS:
        return np.concatenate([row for row in rows if len(row)])
    lists = (_objects(row, f"{name}[{i}]") if isinstance(row, np.ndarray) else row for i, row in enumerate(rows))
    return label_array(_with_frozen_sets(list(chain.from_iterable(lists))))


def _with_frozen_sets(labels: list[Any]) -> list[Any]:
    """Replace sets by frozensets, and sets of one label by the label."""
    if not any(issubclass(kind, (set, frozenset)) for kind in set(map(type, labels))):
        return labels

    def frozen(members: Any) -> Any:
        return next(iter(members)) if len(members) == 1 else frozenset(members)

    return [frozen(label) if isinstance(label, (set, frozenset)) else label for label in labels]


def _objects(row: Array, name: str) -> list[Any]:
    """Return labels as Python objects. Raise ``ValueError`` for dates that Python cannot represent."""
    if row.dtype.kind in "mM":
        missing = np.flatnonzero(np.isnat(row))
        if len(missing):
            raise ValueError(
                f"Input {name.partition('[')[0]} contains NaT: {name}[{missing[0]}]; drop the node or label it."
            )
        if any(isinstance(label, int) for label in row[:1].tolist()):
            raise ValueError(
                f"{name} has dtype {row.dtype}, for which Python has no type; use strings or "
                "y.astype('datetime64[us]')."
            )
    values: list[Any] = row.tolist()
    return values


def _check_labels(labels: Array, offsets: IntArray, flat: bool, name: str) -> None:
    """Raise ``ValueError`` for labels that are unhashable, NaN or fractional."""
    kind = labels.dtype.kind
    if kind == "f":
        bad = np.flatnonzero(~np.isfinite(labels))
        if len(bad):
            value = "NaN" if np.isnan(labels[bad[0]]) else "infinity"
            raise ValueError(
                f"Input {name} contains {value}: the label of {place(name, offsets, int(bad[0]), flat)}; "
                f"drop the node or label it."
            )
        bad = np.flatnonzero(labels != np.floor(labels))
        if len(bad):
            raise ValueError(
                f"Unknown label type: continuous. {place(name, offsets, int(bad[0]), flat)} has the label "
                f"{labels[bad[0]]}; labels are classes, so use strings or whole numbers."
            )
    if kind != "O":
        return
    try:
        distinct = dict.fromkeys(labels.tolist())
    except TypeError:
        for k, label in enumerate(labels.tolist()):
            try:
                hash(label)
            except TypeError:
                raise ValueError(
                    f"{place(name, offsets, k, flat)} has the label {label!r} of type {type(label).__name__}, which is "
                    f"not hashable; expected a string, a number or a tuple"
                    + (". For sequences pass X as a list of examples, not as one table." if flat else ".")
                ) from None
        raise
    for label in distinct:
        problem = _problem(label)
        if problem:
            k = next(k for k, value in enumerate(labels.tolist()) if value is label)
            where = place(name, offsets, k, flat)
            raise ValueError(problem.format(where=where, name=name))


def _problem(label: Any) -> str:
    """Return the error message for an invalid label, or an empty string."""
    if isinstance(label, frozenset):
        if not label:
            return "{where} has an empty set of labels; pass the possible labels, or UNKNOWN."
        if any(isinstance(member, (frozenset, type(UNKNOWN))) for member in label):
            return "{where} has a set within a set; expected a set of labels, or UNKNOWN."
        return next(filter(None, map(_problem, label)), "")
    if label is None:
        return (
            "{where} has the label None, which is not a label; use maxendnet.UNKNOWN if the label is unknown, "
            "otherwise a string."
        )
    if _is_missing(label):
        return (
            "Input {name} contains NaN: the label of {where}; drop the node, label it, or use "
            "maxendnet.UNKNOWN if the label is unknown."
        )
    return ""


def _is_missing(label: Any) -> bool:
    """Whether a label is NaN, NaT, pandas' NA, or the constant of masked arrays."""
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True
