"""Forbidden pairs of labels of a parent and its child."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import Array, is_known, locate, place

Pairs = tuple[tuple[int, int], ...]


def pair_codes(pairs: Any, classes: Array) -> Pairs:
    """Return the forbidden pairs as indices of classes, sorted and without duplicates.

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
    index = {label: k for k, label in enumerate(classes.tolist())}
    codes = set()
    for k, pair in enumerate(pairs):
        if isinstance(pair, (str, bytes)) or not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
            raise ValueError(f"forbidden[{k}] is {pair!r}; expected a pair (label of the parent, label of the child).")
        for label in pair:
            if not is_known(label, index):
                raise ValueError(
                    f"forbidden[{k}] is {tuple(pair)!r}, but no node of y has the label {label!r}; remove the pair, or "
                    "correct the label."
                )
        codes.add((index[pair[0]], index[pair[1]]))
    return tuple(sorted(codes))


def check_directions(batch: Batch, examples: Examples) -> None:
    """Raise ``ValueError`` if a node has two incoming edges."""
    wrong = np.flatnonzero(batch.flipped)
    if len(wrong):
        i, _ = locate(examples.offsets, int(wrong[0]))
        raise ValueError(
            f"The edges of X[{i}] do not define parents: a node has two incoming edges. With siblings or forbidden "
            "pairs, edges must be (parent, child), at most one for each child."
        )


def check_pairs(batch: Batch, examples: Examples, classes: Array, forbidden: npt.NDArray[np.uint8]) -> None:
    """Raise ``ValueError`` for a forbidden pair of true labels."""
    child = np.flatnonzero(batch.parent >= 0)
    wrong = child[forbidden[batch.y[batch.parent[child]], batch.y[child]] > 0]
    if len(wrong):
        t = int(wrong[0])
        p = int(batch.parent[t])
        names = classes.tolist()
        raise ValueError(
            f"{place('y', examples.offsets, t, examples.flat)} has the label {names[batch.y[t]]!r} and its parent "
            f"{place('y', examples.offsets, p, examples.flat)} has {names[batch.y[p]]!r}, a pair that is listed in "
            "forbidden=; correct the labels, or remove the pair."
        )


def check_possible(nodes: npt.NDArray[np.int64], examples: Examples) -> None:
    """Raise ``ValueError`` if ``nodes`` lists a node without a possible label. Entries of -1 are ignored."""
    wrong = nodes[nodes >= 0]
    if len(wrong):
        raise ValueError(
            f"{place('X', examples.offsets, int(wrong[0]), examples.flat)} has no possible label: with each of its "
            "allowed labels, the forbidden pairs exclude all labels of a node below it. Allow more labels there, or "
            "forbid fewer pairs."
        )
