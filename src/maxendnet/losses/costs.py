"""Costs of wrong labels as a table with a row for every kind of truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.ragged import shorten
from maxendnet.data.truth import Kinds
from maxendnet.losses.base import FloatArray


def cost_rows(matrix: FloatArray, kinds: Kinds) -> FloatArray:
    """What each label costs at a node of each kind, shape (n_kinds, n_labels).

    Of a set of labels that may be the true one, the least cost counts; so no label of the set costs anything.

    Parameters
    ----------
    matrix : ndarray of shape (n_labels, n_labels)
        ``matrix[true, predicted]``
    kinds : Kinds

    Examples
    --------
    >>> sets = np.array([[1, 0, 0], [0, 1, 1]], dtype=np.uint8)
    >>> kinds = Kinds(sets, np.array([0, 1], dtype=np.int32), np.array([1.0, 2.0]))
    >>> cost_rows(1.0 - np.eye(3), kinds).tolist()
    [[0.0, 1.0, 1.0], [2.0, 0.0, 0.0]]
    """
    rows = matrix[kinds.label]
    several = np.flatnonzero(kinds.sets.sum(axis=1) > 1)
    for kind in several:
        rows[kind] = matrix[kinds.sets[kind].astype(bool)].min(axis=0)
    return rows * kinds.weight[:, None]


def named_costs(cost: dict[Any, Any], classes: NDArray) -> Any:
    """A matrix of costs from a dict of pairs ``(true, predicted)``; pairs that it does not have cost 1.

    Examples
    --------
    >>> named_costs({("a", "b"): 5.0}, np.array(["a", "b"])).tolist()
    [[0.0, 5.0], [1.0, 0.0]]
    """
    place = {label: k for k, label in enumerate(classes.tolist())}
    matrix = (1.0 - np.eye(len(classes))).astype(object)
    for pair, value in cost.items():
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ValueError(f"cost has the key {pair!r}; give pairs (true label, predicted label).")
        for label in pair:
            _require_class(label, place, "cost")
        matrix[place[pair[0]], place[pair[1]]] = value
    return _numbers(matrix, "cost")


def class_weights(weight: Any, classes: NDArray, y: NDArray) -> FloatArray:
    """A factor for every class: as given in a dict, or "balanced"; 1 where nothing is given.

    Examples
    --------
    >>> class_weights({"b": 3}, np.array(["a", "b"]), np.array(["a", "b"])).tolist()
    [1.0, 3.0]
    >>> class_weights("balanced", np.array(["a", "b"]), np.array(["a", "a", "a", "b"])).tolist()
    [0.6666666666666666, 2.0]
    """
    place = {label: k for k, label in enumerate(classes.tolist())}
    if weight is None:
        return np.ones(len(classes))
    if isinstance(weight, str) and weight == "balanced":
        known = [place[label] for label in y.tolist() if label in place]
        counts = np.bincount(known, minlength=len(classes))
        return len(known) / (len(classes) * np.maximum(counts, 1.0))
    if not isinstance(weight, dict):
        raise ValueError(f"class_weight must be a dict of labels and numbers, 'balanced' or None, got {weight!r}.")
    factors = np.ones(len(classes)).astype(object)
    for label, value in weight.items():
        _require_class(label, place, "class_weight")
        factors[place[label]] = value
    found = _numbers(factors, "class_weight")
    if not (np.all(np.isfinite(found)) and found.min(initial=0.0) >= 0):
        raise ValueError(f"class_weight must have finite numbers that are not negative, got {weight!r}.")
    return found


def _require_class(label: Any, place: dict[Any, int], name: str) -> None:
    if label not in place:
        raise ValueError(f"{name} names the label {label!r}, which is not one of the classes {shorten(list(place))}.")


def _numbers(values: NDArray, name: str) -> FloatArray:
    for value in values.ravel().tolist():
        if isinstance(value, (bool, str, complex)) or not np.isscalar(value):
            raise ValueError(f"{name} has the value {value!r}; give real numbers.")
    return values.astype(np.float64)
