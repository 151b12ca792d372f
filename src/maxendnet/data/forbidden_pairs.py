"""Pairs of labels that a parent and its child cannot have: from what the user wrote to numbers, and the checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import Array, locate, place

Pairs = tuple[tuple[int, int], ...]


def pair_codes(pairs: Any, classes: Array) -> Pairs:
    """Forbidden pairs as places in the classes, sorted and each once.

    Parameters
    ----------
    pairs : iterable of (label of the parent, label of the child), or None
    classes : array of shape (n_labels,)

    Examples
    --------
    >>> pair_codes([("none", "price"), ("none", "price")], np.array(["none", "offer", "price"]))
    ((0, 2),)
    """
    if pairs is None:
        return ()
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise ValueError(f"forbidden must be a list of pairs (label of parent, label of child), got {pairs!r}.")
    number = {label: k for k, label in enumerate(classes.tolist())}
    found = set()
    for k, pair in enumerate(pairs):
        if isinstance(pair, (str, bytes)) or not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
            raise ValueError(f"forbidden[{k}] is {pair!r}; give a pair (label of the parent, label of the child).")
        for label in pair:
            if not _among(label, number):
                raise ValueError(
                    f"forbidden[{k}] is {tuple(pair)!r}, and no node of y has the label {label!r}; leave "
                    "the pair out, or correct the label."
                )
        found.add((number[pair[0]], number[pair[1]]))
    return tuple(sorted(found))


def _among(label: Any, number: dict[Any, int]) -> bool:
    try:
        return label in number
    except TypeError:  # not hashable
        return False


def check_directions(batch: Batch, examples: Examples) -> None:
    """Raise ``ValueError`` unless all edges point from parents to children: otherwise it is not said who is whose."""
    wrong = np.flatnonzero(batch.flipped)
    if len(wrong):
        i, _ = locate(examples.offsets, int(wrong[0]))
        raise ValueError(
            f"The edges of X[{i}] do not say who is whose parent: a node has two incoming edges. With siblings or "
            "forbidden pairs give edges (parent, child), at most one to every child."
        )


def check_pairs(batch: Batch, examples: Examples, classes: Array, forbidden: npt.NDArray[np.uint8]) -> None:
    """Raise ``ValueError`` for the first node whose true label is forbidden under that of its parent."""
    child = np.flatnonzero(batch.parent >= 0)
    wrong = child[forbidden[batch.y[batch.parent[child]], batch.y[child]] > 0]
    if len(wrong):
        t = int(wrong[0])
        p = int(batch.parent[t])
        names = classes.tolist()
        raise ValueError(
            f"{place('y', examples.offsets, t, examples.flat)} has the label {names[batch.y[t]]!r} and its parent "
            f"{place('y', examples.offsets, p, examples.flat)} the label {names[batch.y[p]]!r}, a pair that "
            "forbidden= lists; correct the labels, or leave the pair out."
        )


def check_possible(nodes: npt.NDArray[np.int64], examples: Examples) -> None:
    """Raise ``ValueError`` for the first example without a possible labelling; ``nodes`` says where, -1 for nowhere."""
    wrong = nodes[nodes >= 0]
    if len(wrong):
        raise ValueError(
            f"{place('X', examples.offsets, int(wrong[0]), examples.flat)} has no possible label: whichever of its "
            "allowed labels it takes, some node below it is left without one that the forbidden pairs permit. Allow "
            "more labels there, or forbid fewer pairs."
        )
