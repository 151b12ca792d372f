"""Costs of wrong labels, stored in tables with one row per label set."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.ragged import offsets_of, shorten
from maxendnet.data.truth import LabelSets
from maxendnet.losses.base import FloatArray
from maxendnet.structures.automata.ngrams import SeenNGrams, ends_of
from maxendnet.structures.base import EdgeTable, NGramTable, Table


def cost_rows(matrix: FloatArray, label_sets: LabelSets) -> FloatArray:
    """Return the cost of each label for each label set, shape (n_sets, n_labels).

    For a set of several possible true labels the cost is the smallest over the set, so labels in the set cost nothing.

    Parameters
    ----------
    matrix : ndarray of shape (n_labels, n_labels)
        ``matrix[true, predicted]``.
    label_sets : LabelSets

    Examples
    --------
    >>> sets = np.array([[1, 0, 0], [0, 1, 1]], dtype=np.uint8)
    >>> label_sets = LabelSets(sets, np.array([0, 1], dtype=np.int32), np.array([1.0, 2.0]))
    >>> cost_rows(1.0 - np.eye(3), label_sets).tolist()
    [[0.0, 1.0, 1.0], [2.0, 0.0, 0.0]]
    """
    rows = matrix[label_sets.label]
    for k in np.flatnonzero(label_sets.sets.sum(axis=1) > 1):
        rows[k] = matrix[label_sets.sets[k].astype(bool)].min(axis=0)
    return rows * label_sets.weight[:, None]


def named_costs(cost: dict[Any, Any], classes: NDArray[Any]) -> Any:
    """Convert a dict of costs to a matrix; missing pairs ``(true, predicted)`` cost 1.

    Examples
    --------
    >>> named_costs({("a", "b"): 5.0}, np.array(["a", "b"])).tolist()
    [[0.0, 5.0], [1.0, 0.0]]
    """
    place = {label: k for k, label in enumerate(classes.tolist())}
    matrix = (1.0 - np.eye(len(classes))).astype(object)
    for pair, value in cost.items():
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ValueError(f"cost has the key {pair!r}; keys must be pairs (true label, predicted label).")
        for label in pair:
            _require_class(label, place, "cost")
        matrix[place[pair[0]], place[pair[1]]] = value
    return _numbers(matrix, "cost")


class JointCosts(NamedTuple):
    """Joint costs of several labels.

    The labels are the two labels of an edge, or consecutive labels of a chain.
    """

    length: NDArray[np.int64]
    """(n_costs,): number of labels."""
    true: NDArray[np.int32]
    """(n_costs, longest): the true labels, padded with -1."""
    predicted: NDArray[np.int32]
    """(n_costs, longest): the predicted labels, padded with -1."""
    cost: FloatArray
    """(n_costs,)"""


def split_costs(cost: dict[Any, Any], classes: NDArray[Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Split a dict of costs into costs of single labels and joint costs of several labels.

    Examples
    --------
    >>> split_costs({("a", "b"): 2, (("a", "b"), ("a", "a")): 3}, np.array(["a", "b"]))
    ({('a', 'b'): 2}, {(('a', 'b'), ('a', 'a')): 3})
    """
    labels = set(classes.tolist())

    def is_joint(key: Any) -> bool:
        return isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, tuple) and k not in labels for k in key)

    return {k: v for k, v in cost.items() if not is_joint(k)}, {k: v for k, v in cost.items() if is_joint(k)}


def joint_costs(cost: dict[Any, Any], classes: NDArray[Any]) -> JointCosts | None:
    """Convert a dict of joint costs to arrays.

    Its keys are ``((true, true), (predicted, predicted))``.

    Examples
    --------
    >>> costs = joint_costs({(("a", "b"), ("a", "a")): 3}, np.array(["a", "b"]))
    >>> costs.true.tolist(), costs.predicted.tolist(), costs.cost.tolist()
    ([[0, 1]], [[0, 0]], [3.0])
    """
    place = {label: k for k, label in enumerate(classes.tolist())}
    entries = []
    for (true, predicted), value in cost.items():
        if len(true) != len(predicted) or len(true) < 2:
            raise ValueError(
                f"cost has the key {(true, predicted)!r}; keys must be pairs of labels, (true, predicted), or pairs of "
                "tuples of the same length, ((true, true), (predicted, predicted))."
            )
        for label in (*true, *predicted):
            _require_class(label, place, "cost")
        number = float(_numbers(np.array([value], dtype=object), "cost")[0])
        if not (np.isfinite(number) and number >= 0) or (true == predicted and number):
            raise ValueError(
                f"cost of {true!r} predicted as {predicted!r} is {value!r}; it must be finite and non-negative, and 0 "
                "if the prediction is right."
            )
        entries.append(([place[label] for label in true], [place[label] for label in predicted], number))
    if not entries:
        return None
    length = np.array([len(true) for true, _, _ in entries])
    rows = np.full((2, len(entries), int(length.max())), -1, dtype=np.int32)
    for k, (true, predicted, _) in enumerate(entries):
        rows[0, k, : length[k]], rows[1, k, : length[k]] = true, predicted
    return JointCosts(length, rows[0].copy(), rows[1].copy(), np.array([number for *_, number in entries]))


def cost_table(structure: Any, rows: FloatArray, joint: JointCosts | None = None) -> Table:
    """Return the costs at the nodes of a bound structure, including joint costs.

    ``rows`` contains one row per label set.
    """
    return Table(rows, structure.row, None if joint is None else joint_table(joint, structure))


def joint_table(costs: JointCosts, structure: Any) -> EdgeTable | NGramTable:
    """Return the joint costs as a table for a bound structure; they are 0 where true labels are unknown."""
    if structure.capabilities.ngram_costs:
        return ngram_table(costs, structure)
    if not structure.capabilities.edge_costs:
        raise ValueError(
            f"cost has joint costs of several labels, but {structure.described} supports only costs of single labels."
        )
    if costs.length.max() > 2:
        raise ValueError(
            f"cost has costs of {costs.length.max()} consecutive labels, but {structure.described} supports costs of "
            "at most two labels; use structure=Chain(order=2) or higher, or Chain(ngrams='seen')."
        )
    return edge_table(costs, structure)


def edge_table(costs: JointCosts, structure: Any) -> EdgeTable:
    """Return the label pair costs at the edges of a structure."""
    joined, first, second = structure.edge_labels(structure.y)
    if not joined.any() and len(joined):
        raise ValueError("cost has costs of pairs of labels, but there are no edges; use a chain or a tree.")
    _, first_known, second_known = structure.edge_labels(_is_known(structure))
    pairs, pair_of = np.unique(costs.true, axis=0, return_inverse=True)
    rows = np.zeros((len(pairs) + 1, structure.n_labels, structure.n_labels))
    rows[1 + pair_of.ravel(), costs.predicted[:, 0], costs.predicted[:, 1]] = costs.cost
    row = np.zeros(len(first), dtype=np.int32)
    for number, (a, b) in enumerate(pairs.tolist(), start=1):
        row[(first == a) & (second == b) & first_known & second_known & joined] = number
    return EdgeTable(rows, row)


def ngram_table(costs: JointCosts, structure: Any) -> NGramTable:
    """Return the n-gram costs of a chain, at the node where each n-gram ends."""
    labels = np.where(_is_known(structure), structure.y, -1)
    true, of_true = np.unique(costs.true, axis=0, return_inverse=True)
    predicted, of_predicted = np.unique(costs.predicted, axis=0, return_inverse=True)
    ends = [ends_of([a for a in gram if a >= 0], labels, structure.offsets) for gram in true.tolist()]
    contexts, row = np.unique(np.array(ends), axis=1, return_inverse=True)
    by_true = np.zeros((len(true), len(predicted)))
    by_true[of_true.ravel(), of_predicted.ravel()] = costs.cost
    symbols = predicted[predicted >= 0].astype(np.int32)
    ngrams = SeenNGrams(offsets_of((predicted >= 0).sum(axis=1)), symbols)
    return NGramTable(ngrams, contexts.T.astype(np.float64) @ by_true, row.ravel().astype(np.int32))


def _is_known(structure: Any) -> NDArray[np.bool_]:
    """Whether a node has a single possible true label."""
    values: NDArray[np.bool_] = structure.label_sets.sets.sum(axis=1)[structure.row] == 1
    return values


def class_weights(weight: Any, classes: NDArray[Any], y: NDArray[Any] | dict[Any, int]) -> FloatArray:
    """Return the cost factor of each class, from a dict or "balanced"; 1 by default.

    Parameters
    ----------
    weight : dict, "balanced" or None
    classes : ndarray of shape (n_labels,)
    y : ndarray of shape (n_nodes,), or dict of labels to counts

    Examples
    --------
    >>> class_weights({"b": 3}, np.array(["a", "b"]), np.array(["a", "b"])).tolist()
    [1.0, 3.0]
    >>> class_weights("balanced", np.array(["a", "b"]), np.array(["a", "a", "a", "b"])).tolist()
    [0.6666666666666666, 2.0]
    >>> class_weights("balanced", np.array(["a", "b"]), {"a": 3, "b": 1}).tolist()
    [0.6666666666666666, 2.0]
    """
    place = {label: k for k, label in enumerate(classes.tolist())}
    if weight is None:
        return np.ones(len(classes))
    if isinstance(weight, str) and weight == "balanced":
        count_of = y if isinstance(y, dict) else Counter(y.tolist())
        counts = np.array([count_of.get(label, 0) for label in place])
        values: FloatArray = counts.sum() / (len(classes) * np.maximum(counts, 1.0))
        return values
    if not isinstance(weight, dict):
        raise ValueError(f"class_weight must be a dict of labels to numbers, 'balanced' or None, got {weight!r}.")
    factors = np.ones(len(classes)).astype(object)
    for label, value in weight.items():
        _require_class(label, place, "class_weight")
        factors[place[label]] = value
    numbers = _numbers(factors, "class_weight")
    if not (np.all(np.isfinite(numbers)) and numbers.min(initial=0.0) >= 0):
        raise ValueError(f"class_weight must contain finite non-negative numbers, got {weight!r}.")
    return numbers


def _require_class(label: Any, place: dict[Any, int], name: str) -> None:
    if label not in place:
        raise ValueError(f"{name} has the label {label!r}, which is not one of the classes {shorten(list(place))}.")


def _numbers(values: NDArray[Any], name: str) -> FloatArray:
    for value in values.ravel().tolist():
        if isinstance(value, (bool, str, complex)) or not np.isscalar(value):
            raise ValueError(f"{name} has the value {value!r}; expected real numbers.")
    return values.astype(np.float64)
