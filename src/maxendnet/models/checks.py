"""What the parts of a model file may be: their types, ranges and finiteness.

A checksum says that a file is what its writer meant, not that its writer was `maxendnet.save`. What a kernel or numpy
would take on trust (a size, a position in a buffer) is checked here, and the message names the part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class ModelFileError(ValueError):
    """A model cannot be written to a file, or a file is not a whole model file that this version can read."""

    __module__ = "maxendnet"  # where users find it


def entry(mapping: Any, key: str, owner: str) -> Any:
    """The value under a key that must be there.

    Examples
    --------
    >>> entry({"gap": 0.1}, "gap", "fit")
    0.1
    """
    if not isinstance(mapping, dict):
        raise ModelFileError(f"{owner} is {_shown(mapping)} and not a table of names and values")
    if key not in mapping:
        raise ModelFileError(f"{owner} has no {key!r}")
    return mapping[key]


def pair(value: Any, owner: str) -> tuple[str, dict[str, Any]]:
    """A name and its settings."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)):
        raise ModelFileError(f"{owner} is {_shown(value)} and not a name with its settings")
    return value[0], value[1]


def truth(value: Any, name: str) -> bool:
    """True or False, and no number in their place."""
    if not isinstance(value, (bool, np.bool_)):
        raise ModelFileError(f"{name} is {_shown(value)} and not true or false")
    return bool(value)


def count(value: Any, name: str) -> int:
    """A whole number of at least 0."""
    if type(value) is not int or value < 0:
        raise ModelFileError(f"{name} is {_shown(value)} and not a whole number of at least 0")
    return value


def text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ModelFileError(f"{name} is {_shown(value)} and not text")
    return value


def number(value: Any, name: str, nan: bool = False) -> float:
    """A finite float, or with ``nan`` also NaN: what has no certificate has no gap."""
    if not (isinstance(value, float) and (math.isfinite(value) or (nan and math.isnan(value)))):
        raise ModelFileError(f"{name} is {_shown(value)} and not a finite float{' or NaN' if nan else ''}")
    return value


def vector(array: Any, size: int, name: str, negative: bool = True) -> np.ndarray:
    """Finite float64 numbers, as many as expected; ``negative`` says whether they may be below 0."""
    if not (isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == (size,)):
        raise ModelFileError(f"{name} is {_shown(array)}, where {size} float64 numbers are expected")
    wrong = ~np.isfinite(array)
    if not negative:
        wrong |= array < 0
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        raise ModelFileError(
            f"{name}[{k}] is {array[k]}, where a finite number{'' if negative else ' of at least 0'} is expected"
        )
    return array


def trace(array: Any, n_columns: int, counts: tuple[int, ...], times: tuple[int, ...]) -> np.ndarray:
    """Rows of float64 numbers; some columns are counts, and some are times."""
    if not (isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape[1:] == (n_columns,)):
        raise ModelFileError(f"trace is {_shown(array)}, where rows of {n_columns} float64 numbers are expected")
    whole = array[:, counts]
    if not np.all((whole >= 0) & (whole < 2**53) & (whole == np.floor(whole))):
        raise ModelFileError("trace has a count that is not a whole number of at least 0")
    if not np.all((array[:, times] >= 0) & np.isfinite(array[:, times])):
        raise ModelFileError("trace has a time that is not a finite number of at least 0")
    return array


def seen_pairs(pairs: Any, n_features: int, n_labels: int) -> Any:
    """Rows of labels, as a sparse matrix has them: kernels read weights by them."""
    offsets, labels = pairs
    for array, dtype, name in ((offsets, np.int64, "offsets"), (labels, np.int32, "labels")):
        if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1):
            raise ModelFileError(f"{name} of the seen pairs is {_shown(array)} and not a list of {np.dtype(dtype)}")
    if len(offsets) != n_features + 1 or offsets[0] != 0 or offsets[-1] != len(labels) or np.any(np.diff(offsets) < 0):
        raise ModelFileError(f"offsets of the seen pairs are not those of {n_features} rows with {len(labels)} labels")
    first = np.zeros(len(labels), dtype=bool)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    ascending = np.diff(labels, prepend=-1) > 0
    if np.any((labels < 0) | (labels >= n_labels)) or not np.all(first | ascending):
        raise ModelFileError(f"labels of the seen pairs are not ascending numbers below {n_labels} in every row")
    return pairs


def seen_ngrams(ngrams: Any, n_labels: int) -> None:
    """Rows of symbols: labels, a start only at the beginning, an end only at the end. An automaton is built of them."""
    offsets, symbols = ngrams
    for array, dtype, name in ((offsets, np.int64, "offsets"), (symbols, np.int32, "symbols")):
        if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1):
            raise ModelFileError(f"{name} of the n-grams is {_shown(array)} and not a list of {np.dtype(dtype)}")
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(symbols) or np.any(np.diff(offsets) < 2):
        raise ModelFileError("offsets of the n-grams are not those of rows of two and more symbols")
    first, last = np.zeros(len(symbols), dtype=bool), np.zeros(len(symbols), dtype=bool)
    first[offsets[:-1]] = last[offsets[1:] - 1] = True
    start, end = symbols == n_labels, symbols == n_labels + 1
    if np.any((symbols < 0) | (symbols > n_labels + 1) | (start & ~first) | (end & ~last)):
        raise ModelFileError(f"symbols of the n-grams are not labels below {n_labels}, or a start or end out of place")
    if len(set(ngrams.tuples())) != len(offsets) - 1:
        raise ModelFileError("an n-gram is there twice")


def labels(values: Any) -> np.ndarray:
    """Distinct labels; NaN is not equal to itself and cannot be one."""
    if not (isinstance(values, np.ndarray) and values.ndim == 1):
        raise ModelFileError("the labels are not a list of distinct values")
    listed = values.tolist()
    try:
        distinct = len(set(listed)) == len(listed) and all(label == label for label in listed)
    except TypeError as error:
        raise ModelFileError(f"a label that cannot be one ({error})") from None
    if not distinct:
        raise ModelFileError("the labels are not a list of distinct values")
    return values


def feature_names(names: Any, n_features: int) -> tuple[str, ...]:
    """One distinct text for every feature."""
    if not (isinstance(names, list) and set(map(type, names)) <= {str}):
        raise ModelFileError("the feature names are not a list of texts")
    if len(names) != n_features:
        raise ModelFileError(f"the model has {len(names)} feature names for {n_features} features")
    if len(set(names)) != len(names):
        raise ModelFileError("the feature names hold a name twice")
    return tuple(names)


# Places in a buffer, and flags, by the largest value each may have; numpy sets them without a look at their range.
LARGEST_IN_STATE = {
    "pos": 624, "buffer_pos": 4, "has_uint32": 1, "has_gauss": 1, "uinteger": 2**32 - 1,
    "state": 2**128 - 1, "inc": 2**128 - 1,
}  # fmt: skip


def random_state(state: Any, example: Any, name: str = "the random state") -> None:
    """Refuse a state of a random generator that is not built like ``example``, a state of a fresh one.

    Examples
    --------
    >>> fresh = np.random.MT19937().state
    >>> random_state(fresh, np.random.MT19937().state)
    >>> fresh["state"]["pos"] = 625
    >>> random_state(fresh, np.random.MT19937().state)
    Traceback (most recent call last):
    maxendnet.ModelFileError: pos of the random state is 625 and not a whole number from 0 to 624
    """
    if not (isinstance(state, dict) and state.keys() == example.keys()):
        found = sorted(map(str, state)) if isinstance(state, dict) else _shown(state)
        raise ModelFileError(f"{name} has {found}, where {sorted(example)} are expected")
    for key, like in example.items():
        value, where = state[key], f"{key} of the random state"
        if isinstance(like, dict):
            random_state(value, like, where)
        elif isinstance(like, np.ndarray):
            if not (isinstance(value, np.ndarray) and value.dtype == like.dtype and value.shape == like.shape):
                raise ModelFileError(f"{where} is {_shown(value)}, where {_shown(like)} is expected")
        elif isinstance(like, str):
            if value != like:
                raise ModelFileError(f"{where} is {_shown(value)}, where {like!r} is expected")
        elif isinstance(like, float):
            number(value, where)
        elif type(value) is not int or not 0 <= value <= LARGEST_IN_STATE[key]:
            raise ModelFileError(f"{where} is {_shown(value)} and not a whole number from 0 to {LARGEST_IN_STATE[key]}")
    if "inc" in state and state["inc"] % 2 == 0:
        raise ModelFileError("inc of the random state is even, and this generator needs an odd one")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
