"""Checks of examples of which at most one node is chosen."""

from __future__ import annotations

import numpy as np

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import place


def rest_of(batch: Batch, examples: Examples, n_labels: int) -> int:
    """The label of all nodes but the chosen one: the most frequent of those allowed everywhere (of two, the first).

    Raises
    ------
    ValueError
        Two nodes of an example have other labels.
    """
    everywhere = batch.allowed.all(axis=0) if batch.allowed.size else np.ones(n_labels, dtype=bool)
    rest = int(np.where(everywhere, np.bincount(batch.y, minlength=n_labels), -1).argmax())
    chosen = np.flatnonzero(batch.y != rest)
    owner = np.searchsorted(batch.offsets, chosen, side="right") - 1
    twice = np.flatnonzero(np.diff(owner) == 0)
    if len(twice):
        labels = np.asarray(examples.y).tolist()
        one, other = (int(chosen[twice[0] + k]) for k in (0, 1))
        raise ValueError(
            f"structure='choice' gives at most one node of an example another label than the most frequent one, but "
            f"{place('y', examples.offsets, one, examples.flat)} has the label {labels[one]!r} and "
            f"{place('y', examples.offsets, other, examples.flat)} {labels[other]!r}; make an example for each choice, "
            "or use structure='independent'."
        )
    return rest


def check_rest(batch: Batch, examples: Examples, rest: int) -> None:
    """Refuse a node that must be chosen."""
    if batch.allowed.size and not batch.allowed[:, rest].all():
        node = int(np.flatnonzero(batch.allowed[:, rest] == 0)[0])
        raise ValueError(
            f"{place('X', examples.offsets, node, examples.flat)} may not have the label of nodes that are not chosen; "
            "with structure='choice' it must be allowed everywhere."
        )
