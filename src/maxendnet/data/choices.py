"""Checks of examples for the structure `Choice`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import place
from maxendnet.data.truth import known


def rest_of(batch: Batch, examples: Examples, classes: NDArray[Any], given: Any = None) -> int:
    """Return the index of the label of all nodes that are not chosen.

    Parameters
    ----------
    batch : Batch
    examples : Examples
    classes : ndarray of shape (n_labels,)
    given : label, optional
        Value of ``Choice(rest=...)``. By default the most frequent label that is allowed at every node and leaves at
        most one node of each example to be chosen.

    Raises
    ------
    ValueError
        If two nodes of an example have other labels, if the label is not allowed at every node, or if two labels are
        equally frequent.
    """
    n_labels, n_examples = len(classes), len(batch.offsets) - 1
    everywhere = batch.allowed.all(axis=0) if batch.allowed.size else np.ones(n_labels, dtype=bool)
    if given is not None:
        rest = next((k for k, label in enumerate(classes.tolist()) if label == given), None)
        if rest is None:
            raise ValueError(
                f"rest is {given!r}, but no node of y has this label; pass the label of the nodes that are not chosen."
            )
        check_rest(batch, examples, rest)
        check_one_choice(batch, examples, classes, rest)
        return rest
    if not everywhere.any():
        raise ValueError(
            "Choice() needs a label for the nodes that are not chosen, but no label is allowed at every node; allow "
            "one, and name it with Choice(rest=...)."
        )
    owner = np.repeat(np.arange(n_examples), np.diff(batch.offsets))
    label_sets = batch.label_sets or known(n_labels)
    is_known = label_sets.sets.sum(axis=1)[batch.row] == 1
    frequency = np.bincount(batch.y[is_known], minlength=n_labels)
    n_excluded = np.zeros((n_examples, n_labels), dtype=np.int64)  # nodes of an example that cannot have the label
    np.add.at(n_excluded, owner, 1 - label_sets.sets[batch.row].astype(np.int64))
    possible = everywhere & (n_excluded <= 1).all(axis=0)
    counts = np.where(possible if possible.any() else everywhere, frequency, -1)
    best = np.flatnonzero(counts == counts.max())
    if len(best) > 1 and possible.any():
        first, second = (classes.tolist()[k] for k in best[:2])
        raise ValueError(
            f"Choice() cannot determine the label of the nodes that are not chosen: {first!r} and {second!r} are "
            f"equally frequent. Name it, for instance Choice(rest={first!r})."
        )
    check_one_choice(batch, examples, classes, int(best[0]))
    return int(best[0])


def check_one_choice(batch: Batch, examples: Examples, classes: NDArray[Any], rest: int) -> None:
    """Raise ``ValueError`` if an example has two chosen nodes."""
    chosen = np.flatnonzero((batch.label_sets or known(len(classes))).sets[batch.row, rest] == 0)
    owner = np.searchsorted(batch.offsets, chosen, side="right") - 1
    twice = np.flatnonzero(np.diff(owner) == 0)
    if len(twice):
        labels = np.asarray(examples.y).tolist()
        first, second = (int(chosen[twice[0] + k]) for k in (0, 1))
        raise ValueError(
            f"Choice() allows at most one node per example with another label than {classes.tolist()[rest]!r}, but "
            f"{place('y', examples.offsets, first, examples.flat)} has the label {labels[first]!r} and "
            f"{place('y', examples.offsets, second, examples.flat)} has {labels[second]!r}; make an example for each "
            "choice, name the label of the nodes that are not chosen with Choice(rest=...), or use "
            "structure=Independent()."
        )


def check_rest(batch: Batch, examples: Examples, rest: int) -> None:
    """Raise ``ValueError`` if a node must be chosen because the rest label is not allowed there."""
    if batch.allowed.size and not batch.allowed[:, rest].all():
        node = int(np.flatnonzero(batch.allowed[:, rest] == 0)[0])
        raise ValueError(
            f"{place('X', examples.offsets, node, examples.flat)} must not have the label of nodes that are not "
            "chosen; with Choice() this label must be allowed at every node."
        )
