"""Checks of rules against examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.data.ragged import place
from maxendnet.structures.automata.automaton import Automaton
from maxendnet.structures.rules import Rule


def check_truth(batch: Batch, examples: Examples, classes: NDArray[Any], rules: list[Rule]) -> None:
    """Raise ``ValueError`` for the first node whose true label breaks a rule."""
    longest = int(np.diff(batch.offsets).max(initial=0))
    for rule in rules:
        automaton = rule.within(longest).automaton(classes)
        before, last = automaton.walk(batch.y, batch.offsets)
        lengths = np.diff(batch.offsets)
        reached = before >= 0
        stuck = np.flatnonzero(reached & (automaton.arcs[np.maximum(before, 0), batch.y] < 0))
        open_end = batch.offsets[1:][(lengths > 0) & (last >= 0) & ~automaton.accepting[np.maximum(last, 0)]] - 1
        wrong = np.concatenate([stuck, open_end])
        if not len(wrong):
            continue
        t = int(wrong.min())
        where = place("y", examples.offsets, t, examples.flat)
        names, first = classes.tolist(), t in examples.offsets[:-1]
        context = "at the beginning" if first else f"after {names[batch.y[t - 1]]!r}"
        raise ValueError(
            f"{where} has the label {names[batch.y[t]]!r} {context}, which breaks the rule {rule!r}"
            f"{' at the end of the example' if t in open_end else ''}; correct the labels, or remove the rule."
        )


def check_possible(
    automaton: Automaton, batch: Batch, examples: Examples, rules: list[Rule], nodes: NDArray[np.int64] | None = None
) -> None:
    """Raise ``ValueError`` for the first example without a valid labelling.

    ``nodes`` contains the first node of each example without a possible label, or -1. It is None if every label is
    allowed, because then only the lengths of examples matter.
    """
    if nodes is None:
        lengths = np.diff(batch.offsets)
        fits = lengths_read(automaton, int(lengths.max(initial=0)))
        nodes = np.where(fits[lengths] | (lengths == 0), -1, batch.offsets[1:] - 1)
    wrong = nodes[nodes >= 0]
    if len(wrong):
        shown = ", ".join(map(repr, rules))
        raise ValueError(
            f"{place('X', examples.offsets, int(wrong[0]), examples.flat)} has no possible label: no labelling of the "
            f"example up to this node satisfies the rules ({shown}) and the allowed labels; allow more labels, or "
            "remove a rule."
        )


def lengths_read(automaton: Automaton, longest: int) -> NDArray[np.bool_]:
    """Whether a valid labelling exists for each length 0, 1, ..., ``longest``.

    Examples
    --------
    >>> pairs = Automaton(np.array([[1], [0]], dtype=np.int32), np.array([True, False]))
    >>> lengths_read(pairs, 3).tolist()
    [True, False, True, False]
    """
    is_read = np.zeros(longest + 1, dtype=bool)
    states = np.array([automaton.start])
    first_visit: dict[bytes, int] = {}
    for n in range(longest + 1):
        is_read[n] = automaton.accepting[states].any()
        key = states.tobytes()
        if key in first_visit:  # results repeat from here on
            period = n - first_visit[key]
            for later in range(n, longest + 1):
                is_read[later] = is_read[later - period]
            break
        first_visit[key] = n
        targets = np.unique(automaton.arcs[states])
        states = targets[targets >= 0]
    return is_read
