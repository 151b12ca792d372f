"""Costs of wrong labels as a table with a row for every kind of truth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.ragged import shorten
from maxendnet.data.truth import Kinds
from maxendnet.losses.base import FloatArray
from maxendnet.structures.base import EdgeTable, kinds_of, row_of


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


class PairCosts(NamedTuple):
    """Costs of wrong pairs of labels along an edge."""

    true: NDArray[np.int64]
    """(n_rows, 2): the true labels of first and second node."""
    rows: FloatArray
    """(n_rows, n_labels, n_labels): what predicted labels cost there."""


def split_costs(cost: dict[Any, Any], classes: NDArray) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The costs of labels, and those of pairs of labels.

    Examples
    --------
    >>> split_costs({("a", "b"): 2, (("a", "b"), ("a", "a")): 3}, np.array(["a", "b"]))
    ({('a', 'b'): 2}, {(('a', 'b'), ('a', 'a')): 3})
    """
    labels = set(classes.tolist())

    def is_pair(key: Any) -> bool:
        return isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, tuple) and k not in labels for k in key)

    return {k: v for k, v in cost.items() if not is_pair(k)}, {k: v for k, v in cost.items() if is_pair(k)}


def pair_costs(cost: dict[Any, Any], classes: NDArray) -> PairCosts | None:
    """Costs of pairs from a dict of ``((true, true), (predicted, predicted))``; others cost nothing more.

    Examples
    --------
    >>> found = pair_costs({(("a", "b"), ("a", "a")): 3}, np.array(["a", "b"]))
    >>> found.true.tolist(), found.rows.tolist()
    ([[0, 1]], [[[3.0, 0.0], [0.0, 0.0]]])
    """
    place = {label: k for k, label in enumerate(classes.tolist())}
    rows: dict[tuple[int, int], NDArray] = {}
    for (true, predicted), value in cost.items():
        if len(true) != 2 or len(predicted) != 2:
            raise ValueError(
                f"cost has the key {(true, predicted)!r}; costs are those of single labels, (true, predicted), or of "
                "two labels that are joined, ((true, true), (predicted, predicted))."
            )
        for label in (*true, *predicted):
            _require_class(label, place, "cost")
        number = float(_numbers(np.array([value], dtype=object), "cost")[0])
        if not (np.isfinite(number) and number >= 0) or (true == predicted and number):
            raise ValueError(
                f"cost of {true!r} predicted as {predicted!r} is {value!r}; it must be finite and not negative, and 0 "
                "where the prediction is right."
            )
        row = rows.setdefault((place[true[0]], place[true[1]]), np.zeros((len(place), len(place))))
        row[place[predicted[0]], place[predicted[1]]] = number
    return PairCosts(np.array(list(rows), dtype=np.int64), np.array(list(rows.values()))) if rows else None


def edge_table(costs: PairCosts, structure: Any) -> EdgeTable:
    """The costs of pairs at the edges of a bound structure; edges of which a label is not known cost nothing."""
    if not hasattr(structure, "edge_labels"):
        raise ValueError(f"cost names pairs of labels, and {structure.described} takes costs of single labels only.")
    joined, first, second = structure.edge_labels(structure.y)
    if not joined.any() and len(joined):
        raise ValueError("cost names pairs of labels, and no two nodes are joined; take a chain or a tree.")
    is_known = kinds_of(structure).sets.sum(axis=1)[row_of(structure)] == 1
    _, first_known, second_known = structure.edge_labels(is_known)
    row = np.zeros(len(first), dtype=np.int32)
    for number, (a, b) in enumerate(costs.true.tolist(), start=1):
        row[(first == a) & (second == b) & first_known & second_known & joined] = number
    return EdgeTable(np.concatenate([np.zeros_like(costs.rows[:1]), costs.rows]), row)


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
