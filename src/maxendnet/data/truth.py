"""Label sets: for each node the set of its possible true labels.

Tables that depend on true labels, such as costs, have one row for each distinct label set.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxendnet.data.ragged import Array, BoolArray, FloatArray, IntArray, place, shorten
from maxendnet.data.unknown import UNKNOWN


class LabelSets(NamedTuple):
    """Distinct label sets of nodes."""

    sets: npt.NDArray[np.uint8]
    """(n_sets, n_labels): 1 for possible true labels."""
    label: npt.NDArray[np.int32]
    """(n_sets,): the true label, or the target if it is unknown."""
    weight: FloatArray
    """(n_sets,): node weight, a factor of the costs."""

    @property
    def are_labels(self) -> bool:
        """Whether set k contains only label k, for all labels k, and there are no node weights."""
        n_sets, n_labels = self.sets.shape
        same = n_sets == n_labels and np.array_equal(self.label, np.arange(n_labels))
        return bool(same and self.all_known and (self.weight == 1).all())

    @property
    def some_known(self) -> bool:
        """Whether any set has only one label."""
        return bool((self.sets.sum(axis=1) == 1).any())

    @property
    def all_known(self) -> bool:
        """Whether every set has only one label."""
        return bool((self.sets.sum(axis=1) == 1).all())


class Truth(NamedTuple):
    """Distinct label sets, and the row of each node among them."""

    row: npt.NDArray[np.int32]
    label_sets: LabelSets


def known(n_labels: int) -> LabelSets:
    """Return the label sets for known labels without node weights: one set per label."""
    return LabelSets(np.eye(n_labels, dtype=np.uint8), np.arange(n_labels, dtype=np.int32), np.ones(n_labels))


def encode_truth(
    y: Array,
    classes: Array,
    offsets: IntArray,
    flat: bool = False,
    allowed: BoolArray | None = None,
    node_weight: FloatArray | None = None,
    name: str = "y",
) -> Truth:
    """Return the label set of each node.

    Parameters
    ----------
    y : ndarray of shape (n_nodes,)
        Labels, `UNKNOWN`, or frozensets of labels.
    classes : ndarray of shape (n_labels,)
    offsets, flat, name
        For messages.
    allowed : bool ndarray of shape (n_nodes, n_labels), optional
        Labels that a node may have; label sets are limited to them.
    node_weight : ndarray of shape (n_nodes,), optional

    Raises
    ------
    ValueError
        If a label is not a class, or not allowed at its node.

    Examples
    --------
    >>> y = np.array(["V", UNKNOWN, frozenset(["N", "V"])], dtype=object)
    >>> truth = encode_truth(y, np.array(["D", "N", "V"]), np.array([0, 3]))
    >>> truth.label_sets.sets[truth.row].tolist()
    [[0, 0, 1], [1, 1, 1], [0, 1, 1]]
    """
    code, sets = _codes(y, classes, offsets, flat, name)
    if allowed is not None and allowed.size:
        _check_allowed(code, sets, allowed, y, classes, offsets, flat, name)
        if len(sets) > len(classes):
            code, sets = _limited(code, sets, allowed)
    weight = np.ones(len(sets))
    if node_weight is not None:
        distinct, numbers = np.unique(
            np.stack([code.astype(np.float64), node_weight], axis=1), axis=0, return_inverse=True
        )
        code, weight = numbers.ravel().astype(np.int32), distinct[:, 1].copy()
        sets = np.ascontiguousarray(sets[distinct[:, 0].astype(np.int64)])
    label = sets.argmax(axis=1).astype(np.int32) if sets.size else np.zeros(len(sets), dtype=np.int32)
    return Truth(np.ascontiguousarray(code), LabelSets(sets, label, weight))


def _limited(code: IntArray, sets: npt.NDArray[np.uint8], allowed: BoolArray) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Limit label sets to the allowed labels of each node."""
    packed = np.packbits(allowed & sets[code].astype(bool), axis=1)
    distinct, numbers = np.unique(packed, axis=0, return_inverse=True)
    return numbers.ravel().astype(np.int32), np.ascontiguousarray(np.unpackbits(distinct, axis=1, count=sets.shape[1]))


def complete(truth: Truth, labels: npt.NDArray[np.int32]) -> Truth:
    """Return the same label sets with the given labels as targets.

    Examples
    --------
    >>> truth = encode_truth(np.array([UNKNOWN, "a"], dtype=object), np.array(["a", "b"]), np.array([0, 2]))
    >>> label_sets = complete(truth, np.array([1, 0], dtype=np.int32)).label_sets
    >>> label_sets.sets.tolist(), label_sets.label.tolist()
    ([[1, 0], [1, 1]], [0, 1])
    """
    n_labels = truth.label_sets.sets.shape[1]
    pairs, row = np.unique(truth.row.astype(np.int64) * n_labels + labels, return_inverse=True)
    number, label = np.divmod(pairs, n_labels)
    _, (sets, _, weight) = truth
    label_sets = LabelSets(np.ascontiguousarray(sets[number]), label.astype(np.int32), weight[number])
    return Truth(row.astype(np.int32).ravel(), label_sets)


def possible_labels(y: Iterable[Hashable]) -> list[Any]:
    """Return all labels that occur in y, including those in sets.

    Examples
    --------
    >>> sorted(possible_labels(["a", UNKNOWN, frozenset(["b", "c"])]))
    ['a', 'b', 'c']
    """
    labels: dict[Any, None] = {}
    for value in dict.fromkeys(y):
        if isinstance(value, frozenset):
            labels.update(dict.fromkeys(value))
        elif value is not UNKNOWN:
            labels[value] = None
    return list(labels)


def known_nodes(y: Array) -> BoolArray:
    """Return a mask of the nodes with known labels.

    Examples
    --------
    >>> known_nodes(np.array(["a", UNKNOWN, frozenset(["a", "b"])], dtype=object)).tolist()
    [True, False, False]
    """
    if y.dtype != object:
        return np.ones(len(y), dtype=bool)
    return np.fromiter((v is not UNKNOWN and not isinstance(v, frozenset) for v in y.tolist()), bool, count=len(y))


def _codes(
    y: Array, classes: Array, offsets: IntArray, flat: bool, name: str
) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Return the label set of each node, and the distinct sets.

    Known labels come first. Allowed labels and weights are not considered.
    """
    values = y.tolist()
    class_code = {label: code for code, label in enumerate(classes.tolist())}
    row_of: dict[Any, int] = {}
    sets = list(np.eye(len(classes), dtype=np.uint8))
    for value in dict.fromkeys(values):
        if value is UNKNOWN:
            members = list(range(len(classes)))
        else:
            labels = value if isinstance(value, frozenset) else (value,)
            unseen = [label for label in labels if label not in class_code]
            if unseen:
                raise ValueError(_unseen_message(unseen[0], value, values, classes, offsets, flat, name))
            members = sorted(class_code[label] for label in labels)
        if len(members) == 1:
            row_of[value] = members[0]
        else:
            row_of[value] = len(sets)
            sets.append(np.isin(np.arange(len(classes)), members).astype(np.uint8))
    code = np.fromiter(map(row_of.__getitem__, values), dtype=np.int32, count=len(values))
    return code, np.stack(sets) if sets else np.zeros((0, len(classes)), dtype=np.uint8)


def _unseen_message(
    label: Hashable, value: Any, values: list[Any], classes: Array, offsets: IntArray, flat: bool, name: str
) -> str:
    node = next(k for k, v in enumerate(values) if v is value or v == value)
    has = f"the label {label!r}" if value is label or value == label else f"a set with the label {label!r}"
    return (
        f"{place(name, offsets, node, flat)} has {has}, which is not one of the {len(classes)} classes "
        f"{shorten(classes.tolist())}; fit with examples of it, or correct the label."
    )


def _check_allowed(
    code: IntArray, sets: IntArray, allowed: BoolArray, y: Array, classes: Array, offsets: IntArray, flat: bool,
    name: str,
) -> None:  # fmt: skip
    """Raise ``ValueError`` if none of the possible true labels of a node is allowed."""
    wrong = np.flatnonzero(~(allowed & sets[code].astype(bool)).any(axis=1))
    if len(wrong):
        k = int(wrong[0])
        value = y.tolist()[k]
        has = f"the set {sorted(map(repr, value))}" if isinstance(value, frozenset) else f"the label {value!r}"
        raise ValueError(
            f"{place(name, offsets, k, flat)} has {has}, which is not allowed there; allow the true label, or correct "
            "it."
        )
