"""Checks of examples of which at most one node is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import place
from maxendnet.data.truth import known


def rest_of(batch: Batch, examples: Examples, classes: NDArray, given: Any = None) -> int:
    """The label of all nodes but the chosen one, as a number.

    If it is not given: the most frequent of the labels that are allowed everywhere, and with which no example has two
    other labels.

    Raises
    ------
    ValueError
        Two nodes of an example have other labels; it is not allowed everywhere; or two labels might be it alike.
    """
    n_labels, n_examples = len(classes), len(batch.offsets) - 1
    everywhere = batch.allowed.all(axis=0) if batch.allowed.size else np.ones(n_labels, dtype=bool)
    if given is not None:
        found = [k for k, label in enumerate(classes.tolist()) if label == given]
        if not found:
            raise ValueError(
                f"rest is {given!r}, and no node of y has this label; it is the one of all nodes but the chosen one."
            )
        check_rest(batch, examples, found[0])
        check_one_choice(batch, examples, classes, found[0])
        return found[0]
    if not everywhere.any():
        raise ValueError(
            "Choice() needs a label for all nodes but the chosen one, and no label is allowed at every node; "
            "allow one, and name it with Choice(rest=...)."
        )
    owner = np.repeat(np.arange(n_examples), np.diff(batch.offsets))
    label_sets = batch.label_sets or known(n_labels)
    one = label_sets.sets.sum(axis=1)[batch.row] == 1
    of_example = np.zeros((n_examples, n_labels), dtype=np.int64)
    np.add.at(of_example, (owner[one], batch.y[one]), 1)
    others = np.zeros((n_examples, n_labels), dtype=np.int64)  # nodes that cannot have the label
    np.add.at(others, owner, 1 - label_sets.sets[batch.row].astype(np.int64))
    possible = everywhere & (others <= 1).all(axis=0)
    counts = np.where(possible if possible.any() else everywhere, of_example.sum(axis=0), -1)
    best = np.flatnonzero(counts == counts.max())
    if len(best) > 1 and possible.any():
        one, other = (classes.tolist()[k] for k in best[:2])
        raise ValueError(
            f"Choice() cannot tell which label is that of nodes that are not chosen: {one!r} and {other!r} "
            f"are equally frequent. Say it, for instance Choice(rest={one!r})."
        )
    check_one_choice(batch, examples, classes, int(best[0]))
    return int(best[0])


def check_one_choice(batch: Batch, examples: Examples, classes: NDArray, rest: int) -> None:
    """Refuse an example in which two nodes have another label than the rest."""
    chosen = np.flatnonzero((batch.label_sets or known(len(classes))).sets[batch.row, rest] == 0)
    owner = np.searchsorted(batch.offsets, chosen, side="right") - 1
    twice = np.flatnonzero(np.diff(owner) == 0)
    if len(twice):
        labels = np.asarray(examples.y).tolist()
        one, other = (int(chosen[twice[0] + k]) for k in (0, 1))
        raise ValueError(
            f"Choice() gives at most one node of an example another label than {classes.tolist()[rest]!r}, "
            f"but {place('y', examples.offsets, one, examples.flat)} has the label {labels[one]!r} and "
            f"{place('y', examples.offsets, other, examples.flat)} {labels[other]!r}; make an example for each choice, "
            "name the label of the nodes that are not chosen with Choice(rest=...), or use structure=Independent()."
        )


def check_rest(batch: Batch, examples: Examples, rest: int) -> None:
    """Refuse a node that must be chosen."""
    if batch.allowed.size and not batch.allowed[:, rest].all():
        node = int(np.flatnonzero(batch.allowed[:, rest] == 0)[0])
        raise ValueError(
            f"{place('X', examples.offsets, node, examples.flat)} may not have the label of nodes that are not chosen; "
            "with Choice() it must be allowed everywhere."
        )
