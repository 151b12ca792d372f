"""What is known of the true labels: for every node a set of labels, one of which is the true one.

Nodes about which the same is known are of one *kind*. Kinds are few, so that tables which depend on the truth, such as
costs, have a row for every kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxendnet.data.ragged import Array, BoolArray, FloatArray, IntArray, place, shorten
from maxendnet.data.unknown import UNKNOWN


class Kinds(NamedTuple):
    """What is known of nodes, a row for every kind."""

    sets: npt.NDArray[np.uint8]
    """(n_kinds, n_labels): 1 where a label may be the true one."""
    label: npt.NDArray[np.int32]
    """(n_kinds,): the true label, or the one that is taken for it."""
    weight: FloatArray
    """(n_kinds,): factor of the costs of a node."""

    @property
    def are_labels(self) -> bool:
        """Whether a kind is a label, known, and nodes have no weights."""
        n_kinds, n_labels = self.sets.shape
        same = n_kinds == n_labels and np.array_equal(self.label, np.arange(n_labels))
        return bool(same and self.all_known and (self.weight == 1).all())

    @property
    def some_known(self) -> bool:
        """Whether some set has one label."""
        return bool((self.sets.sum(axis=1) == 1).any())

    @property
    def all_known(self) -> bool:
        """Whether every set has one label."""
        return bool((self.sets.sum(axis=1) == 1).all())


class Truth(NamedTuple):
    """What is known of every node: the number of its kind, and the kinds."""

    row: npt.NDArray[np.int32]
    kinds: Kinds


def known(n_labels: int) -> Kinds:
    """The kinds where all labels are known and nodes have no weights: one for every label."""
    return Kinds(np.eye(n_labels, dtype=np.uint8), np.arange(n_labels, dtype=np.int32), np.ones(n_labels))


def encode_truth(
    y: Array,
    classes: Array,
    offsets: IntArray,
    flat: bool = False,
    allowed: BoolArray | None = None,
    node_weight: FloatArray | None = None,
    name: str = "y",
) -> Truth:
    """The kind of every node.

    Parameters
    ----------
    y : ndarray of shape (n_nodes,)
        Labels, `UNKNOWN`, or frozensets of labels.
    classes : ndarray of shape (n_labels,)
    offsets, flat, name
        For messages.
    allowed : bool ndarray of shape (n_nodes, n_labels), optional
        Labels that a node may have; sets are limited to them.
    node_weight : ndarray of shape (n_nodes,), optional

    Raises
    ------
    ValueError
        For a label that is not among the classes, or not allowed, with its example and node.

    Examples
    --------
    >>> y = np.array(["V", UNKNOWN, frozenset(["N", "V"])], dtype=object)
    >>> truth = encode_truth(y, np.array(["D", "N", "V"]), np.array([0, 3]))
    >>> truth.kinds.sets[truth.row].tolist()
    [[0, 0, 1], [1, 1, 1], [0, 1, 1]]
    """
    code, sets = _codes(y, classes, offsets, flat, name)
    if allowed is not None and allowed.size:
        _check_allowed(code, sets, allowed, y, classes, offsets, flat, name)
        if len(sets) > len(classes):
            code, sets = _limited(code, sets, allowed)
    weight = np.ones(len(sets))
    if node_weight is not None:
        kinds, numbers = np.unique(
            np.stack([code.astype(np.float64), node_weight], axis=1), axis=0, return_inverse=True
        )
        code, weight = numbers.ravel().astype(np.int32), kinds[:, 1].copy()
        sets = np.ascontiguousarray(sets[kinds[:, 0].astype(np.int64)])
    label = sets.argmax(axis=1).astype(np.int32) if sets.size else np.zeros(len(sets), dtype=np.int32)
    return Truth(np.ascontiguousarray(code), Kinds(sets, label, weight))


def _limited(code: IntArray, sets: npt.NDArray[np.uint8], allowed: BoolArray) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Kinds whose sets have allowed labels only."""
    packed = np.packbits(allowed & sets[code].astype(bool), axis=1)
    kinds, numbers = np.unique(packed, axis=0, return_inverse=True)
    return numbers.ravel().astype(np.int32), np.ascontiguousarray(np.unpackbits(kinds, axis=1, count=sets.shape[1]))


def complete(truth: Truth, labels: npt.NDArray[np.int32]) -> Truth:
    """The same sets with these labels taken for the true ones.

    Examples
    --------
    >>> truth = encode_truth(np.array([UNKNOWN, "a"], dtype=object), np.array(["a", "b"]), np.array([0, 2]))
    >>> kinds = complete(truth, np.array([1, 0], dtype=np.int32)).kinds
    >>> kinds.sets.tolist(), kinds.label.tolist()
    ([[1, 0], [1, 1]], [0, 1])
    """
    n_labels = truth.kinds.sets.shape[1]
    pairs, row = np.unique(truth.row.astype(np.int64) * n_labels + labels, return_inverse=True)
    kind, label = np.divmod(pairs, n_labels)
    kinds = Kinds(np.ascontiguousarray(truth.kinds.sets[kind]), label.astype(np.int32), truth.kinds.weight[kind])
    return Truth(row.astype(np.int32).ravel(), kinds)


def possible_labels(y: Iterable[Hashable]) -> list[Any]:
    """All labels that occur in y, alone or in a set.

    Examples
    --------
    >>> sorted(possible_labels(["a", UNKNOWN, frozenset(["b", "c"])]))
    ['a', 'b', 'c']
    """
    found: dict[Any, None] = {}
    for label in dict.fromkeys(y):
        if isinstance(label, frozenset):
            found.update(dict.fromkeys(label))
        elif label is not UNKNOWN:
            found[label] = None
    return list(found)


def known_nodes(y: Array) -> BoolArray:
    """Which labels are known.

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
    """The kind of every node without weights and limits, and the sets of the kinds; known labels come first."""
    values = y.tolist()
    class_code = {label: code for code, label in enumerate(classes.tolist())}
    kind_of: dict[Any, int] = {}
    sets = list(np.eye(len(classes), dtype=np.uint8))
    for value in dict.fromkeys(values):
        if value is UNKNOWN:
            members = list(range(len(classes)))
        else:
            labels = value if isinstance(value, frozenset) else (value,)
            strange = [label for label in labels if label not in class_code]
            if strange:
                raise ValueError(_strange(strange[0], value, values, classes, offsets, flat, name))
            members = sorted(class_code[label] for label in labels)
        if len(members) == 1:
            kind_of[value] = members[0]
        else:
            kind_of[value] = len(sets)
            sets.append(np.isin(np.arange(len(classes)), members).astype(np.uint8))
    code = np.fromiter(map(kind_of.__getitem__, values), dtype=np.int32, count=len(values))
    return code, np.stack(sets) if sets else np.zeros((0, len(classes)), dtype=np.uint8)


def _strange(
    label: Hashable, value: Any, values: list[Any], classes: Array, offsets: IntArray, flat: bool, name: str
) -> str:
    node = next(k for k, other in enumerate(values) if other is value or other == value)
    has = f"the label {label!r}" if value is label or value == label else f"a set with the label {label!r}"
    return (
        f"{place(name, offsets, node, flat)} has {has}, which is not one of the {len(classes)} classes "
        f"{shorten(classes.tolist())}; fit with examples of it, or correct the label."
    )


def _check_allowed(
    code: IntArray, sets: IntArray, allowed: BoolArray, y: Array, classes: Array, offsets: IntArray, flat: bool,
    name: str,
) -> None:  # fmt: skip
    """Refuse a truth that lies outside the allowed labels of its node."""
    wrong = np.flatnonzero(~(allowed & sets[code].astype(bool)).any(axis=1))
    if len(wrong):
        k = int(wrong[0])
        value = y.tolist()[k]
        has = f"the set {sorted(map(repr, value))}" if isinstance(value, frozenset) else f"the label {value!r}"
        raise ValueError(
            f"{place(name, offsets, k, flat)} has {has}, which is not allowed there; allow the true label, or correct "
            "it."
        )
