"""Checks of the content of a model file: types, ranges and finiteness.

A checksum does not prove that `maxendnet.save` wrote a file. Values that kernels or numpy would trust are checked here,
such as sizes and positions in buffers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Weights of fits are far smaller: C is at most 1e20, and features at most 1e100. Scores of features and weights within
# these limits are finite, and therefore probabilities are never NaN.
LARGEST_NUMBER = 1e150


class ModelFileError(ValueError):
    """A model file is damaged or not readable, or a model cannot be written."""

    __module__ = "maxendnet"  # the public module


def entry(mapping: Any, key: str, owner: str) -> Any:
    """Return the value of a required key.

    Examples
    --------
    >>> entry({"gap": 0.1}, "gap", "fit")
    0.1
    """
    if not isinstance(mapping, dict):
        raise ModelFileError(f"{owner} is {_shown(mapping)}, expected a JSON object")
    if key not in mapping:
        raise ModelFileError(f"{owner} has no {key!r}")
    return mapping[key]


def pair(value: Any, owner: str) -> tuple[str, dict[str, Any]]:
    """Check a pair (name, settings)."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)):
        raise ModelFileError(f"{owner} is {_shown(value)}, expected a pair [name, settings]")
    return value[0], value[1]


def truth(value: Any, name: str) -> bool:
    """Check a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise ModelFileError(f"{name} is {_shown(value)}, expected true or false")
    return bool(value)


def count(value: Any, name: str) -> int:
    """Check a whole number of at least 0."""
    if type(value) is not int or value < 0:
        raise ModelFileError(f"{name} is {_shown(value)}, expected a whole number of at least 0")
    return value


def text(value: Any, name: str) -> str:
    """Check a string."""
    if not isinstance(value, str):
        raise ModelFileError(f"{name} is {_shown(value)}, expected text")
    return value


def number(value: Any, name: str, nan: bool = False) -> float:
    """Check a finite float, which may also be NaN with ``nan=True``."""
    if not (isinstance(value, float) and (math.isfinite(value) or (nan and math.isnan(value)))):
        raise ModelFileError(f"{name} is {_shown(value)}, expected a finite float{' or NaN' if nan else ''}")
    return value


def vector(array: Any, size: int, name: str, negative: bool = True) -> np.ndarray:
    """Check an array of ``size`` float64 numbers of at most `LARGEST_NUMBER` in absolute value.

    ``negative`` is whether they may be below 0.
    """
    if not (isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == (size,)):
        raise ModelFileError(f"{name} is {_shown(array)}, where {size} float64 numbers are expected")
    wrong = ~(np.abs(array) <= LARGEST_NUMBER)
    if not negative:
        wrong |= array < 0
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        limits = f"from {-LARGEST_NUMBER if negative else 0:g} to {LARGEST_NUMBER:g}"
        raise ModelFileError(f"{name}[{k}] is {array[k]}, where a finite number {limits} is expected")
    return array


def trace(array: Any, n_columns: int, counts: tuple[int, ...], times: tuple[int, ...]) -> np.ndarray:
    """Check rows of float64 numbers. The listed columns are counts and times."""
    if not (isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape[1:] == (n_columns,)):
        raise ModelFileError(f"trace is {_shown(array)}, where rows of {n_columns} float64 numbers are expected")
    whole = array[:, counts]
    if not np.all((whole >= 0) & (whole < 2**53) & (whole == np.floor(whole))):
        raise ModelFileError("trace has a count that is not a whole number of at least 0")
    if not np.all((array[:, times] >= 0) & np.isfinite(array[:, times])):
        raise ModelFileError("trace has a time that is not a finite number of at least 0")
    return array


def seen_pairs(pairs: Any, n_features: int, n_labels: int) -> None:
    """Check the feature-label pairs that have weights, because kernels use them as indices."""
    offsets, labels = _ragged(pairs, "the seen pairs")
    if len(offsets) != n_features + 1 or offsets[0] != 0 or offsets[-1] != len(labels) or np.any(np.diff(offsets) < 0):
        raise ModelFileError(
            f"offsets of the seen pairs do not describe {n_features} rows with {len(labels)} labels in all"
        )
    first = np.zeros(len(labels), dtype=bool)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    ascending = np.diff(labels, prepend=-1) > 0
    if np.any((labels < 0) | (labels >= n_labels)) or not np.all(first | ascending):
        raise ModelFileError(f"labels of the seen pairs are not ascending numbers below {n_labels} in every row")


def seen_ngrams(ngrams: Any, n_labels: int) -> None:
    """Check n-grams of labels. The first symbol may be the start, and the last symbol the end, of an example."""
    offsets, symbols = _ragged(ngrams, "the n-grams")
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(symbols) or np.any(np.diff(offsets) < 2):
        raise ModelFileError("offsets of the n-grams do not describe rows of at least two symbols")
    first, last = np.zeros(len(symbols), dtype=bool), np.zeros(len(symbols), dtype=bool)
    first[offsets[:-1]] = last[offsets[1:] - 1] = True
    start, end = symbols == n_labels, symbols == n_labels + 1
    if np.any((symbols < 0) | (symbols > n_labels + 1) | (start & ~first) | (end & ~last)):
        raise ModelFileError(
            f"an n-gram contains a number that is not a label (below {n_labels}), or a start or end in the wrong place"
        )
    if len(set(ngrams.tuples())) != len(offsets) - 1:
        raise ModelFileError("an n-gram occurs twice")


def _ragged(rows: Any, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """Check the dtypes of the offsets and values of a ragged array."""
    for array, dtype, name in zip(rows, (np.int64, np.int32), rows._fields):
        if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1):
            raise ModelFileError(f"{name} of {owner} is {_shown(array)}, expected a list of {np.dtype(dtype)}")
    return tuple(rows)


def labels(values: Any) -> np.ndarray:
    """Check that labels are valid (hashable and not NaN) and distinct, and return them as an array."""
    if not (isinstance(values, np.ndarray) and values.ndim == 1):
        raise ModelFileError("the labels are not a list of distinct values")
    listed = values.tolist()
    try:
        distinct = len(set(listed)) == len(listed) and all(label == label for label in listed)
    except TypeError as error:
        raise ModelFileError(f"an invalid label ({error})") from None
    if not distinct:
        raise ModelFileError("the labels are not a list of distinct values")
    return values


def feature_names(names: Any, n_features: int) -> tuple[str, ...]:
    """Check that there is one distinct name per feature, and return the names."""
    if not (isinstance(names, list) and set(map(type, names)) <= {str}):
        raise ModelFileError("the feature names are not a list of strings")
    if len(names) != n_features:
        raise ModelFileError(f"the model has {len(names)} feature names for {n_features} features")
    if len(set(names)) != len(names):
        raise ModelFileError("the feature names contain a name twice")
    return tuple(names)


# Largest valid values of buffer positions and flags in random states. numpy does not check them.
LARGEST_IN_STATE = {
    "pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1, "uinteger": 2**32 - 1,
    "state": 2**128 - 1, "inc": 2**128 - 1,
}  # fmt: skip


def random_state(state: Any, example: Any, name: str = "the random state") -> None:
    """Raise `ModelFileError` unless a random state has the same keys, types and shapes as ``example``.

    Examples
    --------
    >>> fresh = np.random.MT19937().state
    >>> random_state(fresh, np.random.MT19937().state)
    >>> fresh["state"]["pos"] = 625
    >>> random_state(fresh, np.random.MT19937().state)
    Traceback (most recent call last):
    maxendnet.ModelFileError: pos of the random state is 625, expected a whole number from 0 to 624
    """
    if not (isinstance(state, dict) and state.keys() == example.keys()):
        keys = sorted(map(str, state)) if isinstance(state, dict) else _shown(state)
        raise ModelFileError(f"{name} has {keys}, where {sorted(example)} are expected")
    for key, expected in example.items():
        value, where = state[key], f"{key} of the random state"
        if isinstance(expected, dict):
            random_state(value, expected, where)
        elif isinstance(expected, np.ndarray):
            if not (isinstance(value, np.ndarray) and value.dtype == expected.dtype and value.shape == expected.shape):
                raise ModelFileError(f"{where} is {_shown(value)}, where {_shown(expected)} is expected")
        elif isinstance(expected, str):
            if value != expected:
                raise ModelFileError(f"{where} is {_shown(value)}, where {expected!r} is expected")
        elif isinstance(expected, float):
            number(value, where)
        elif type(value) is not int or not 0 <= value <= LARGEST_IN_STATE[key]:
            raise ModelFileError(
                f"{where} is {_shown(value)}, expected a whole number from 0 to {LARGEST_IN_STATE[key]}"
            )
    if "inc" in state and state["inc"] % 2 == 0:
        raise ModelFileError("inc of the random state is even, but this generator needs an odd number")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
