"""Finite automata that read labels: what chains of higher order, rules and durations are made of.

A deterministic automaton has states, of which one is the first, and for a state and a label at most one arc to another
state. It reads a labelling from left to right; the labelling exists if there is an arc for every label and the state at
the end accepts. An arc fires n-grams, numbers of weights that are added to the score; so does a state at the end. Since
labellings and paths correspond one to one, maxima and sums over labellings are those over paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order

from maxendnet.data.ragged import gather, offsets_of
from maxendnet.utils.memory import check_memory

IntArray = NDArray[np.int32]

MOST_ARCS = 50_000_000
"""Arcs up to which an automaton is built."""
BYTES_PER_ARC, BYTES_PER_FIRED = 30, 12
"""Memory while an automaton is built."""


def check_arcs(n_states: int, n_labels: int, what: str, n_fired: int = 0) -> None:
    """Raise ``ValueError`` for an automaton that is too large, before it is built."""
    fired = BYTES_PER_FIRED * n_fired
    check_memory(
        BYTES_PER_ARC * n_states * n_labels + fired,
        f"{what}: the automaton of {n_states:,} states and {n_labels:,} labels is too large and",
        "use a lower order, ngrams='seen', shorter durations or fewer rules",
        most=BYTES_PER_ARC * MOST_ARCS + fired,
    )


@dataclass(frozen=True, eq=False)
class Automaton:
    """States, arcs and what they fire, as flat arrays.

    Parameters
    ----------
    arcs : int32 ndarray of shape (n_states, n_labels)
        The state to which a label leads, -1 where it cannot be read.
    accepting : bool ndarray of shape (n_states,)
        Whether a labelling may end there.
    start : int, default=0
    fired_offsets : int64 ndarray of shape (n_states * n_labels + n_states + 1,), optional
        Rows of ``fired``: arc (s, a) is row ``s * n_labels + a``, the end at state s row
        ``n_states * n_labels + s``. None: nothing is fired.
    fired : int32 ndarray, optional
        Numbers of n-grams.

    Examples
    --------
    >>> never_twice = Automaton(np.array([[0, 1], [1, -1]], dtype=np.int32), np.array([True, True]))
    >>> never_twice.accepts([0, 1, 0]), never_twice.accepts([1, 1])
    (True, False)
    """

    arcs: IntArray
    accepting: NDArray[np.bool_]
    start: int = 0
    fired_offsets: NDArray[np.int64] | None = None
    fired: IntArray | None = None

    @property
    def n_states(self) -> int:
        return self.arcs.shape[0]

    @property
    def n_labels(self) -> int:
        return self.arcs.shape[1]

    @property
    def rows_fired(self) -> tuple[NDArray[np.int64], IntArray]:
        """Offsets and numbers of what is fired; empty rows where nothing is."""
        if self.fired_offsets is None or self.fired is None:
            return np.zeros(self.arcs.size + self.n_states + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return self.fired_offsets, self.fired

    def accepts(self, labels: object) -> bool:
        """Whether one labelling, as numbers of labels, exists."""
        state = self.start
        for label in np.asarray(labels, dtype=np.int64).tolist():
            state = int(self.arcs[state, label])
            if state < 0:
                return False
        return bool(self.accepting[state])

    def walk(self, labels: NDArray, offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Paths of many labellings, one behind the other.

        Returns
        -------
        before : int64 ndarray of shape (n_nodes,)
            The state before each node, -1 behind an arc that is missing.
        last : int64 ndarray of shape (n_examples,)
            The state at the end.
        """
        lengths = np.diff(offsets)
        before = np.full(int(offsets[-1] - offsets[0]), -1, dtype=np.int64)
        last = np.full(len(lengths), self.start, dtype=np.int64)
        # -1 takes the last row, and is put right below
        order = np.argsort(-lengths, kind="stable")
        sorted_lengths = lengths[order]
        for t in range(int(lengths.max(initial=0))):
            some = order[: int(np.searchsorted(-sorted_lengths, -t, side="left"))]
            nodes = offsets[some] - offsets[0] + t
            state = last[some]
            before[nodes] = state
            last[some] = np.where(state < 0, -1, self.arcs[state, labels[nodes]])
        return before, last


def anything(n_labels: int) -> Automaton:
    """The automaton with one state that reads all labellings."""
    return Automaton(np.zeros((1, n_labels), dtype=np.int32), np.ones(1, dtype=bool))


def intersect(first: Automaton, second: Automaton) -> Automaton:
    """The automaton of the labellings that both read, trimmed; an arc fires what both fire.

    Examples
    --------
    >>> even = Automaton(np.array([[1, 1], [0, 0]], dtype=np.int32), np.array([True, False]))
    >>> never_twice = Automaton(np.array([[0, 1], [1, -1]], dtype=np.int32), np.array([True, True]))
    >>> both = intersect(even, never_twice)
    >>> both.n_states, both.accepts([0, 1]), both.accepts([0]), both.accepts([1, 1])
    (4, True, False, False)
    """
    m, L = second.n_states, first.n_labels
    codes = frontier = np.array([first.start * m + second.start], dtype=np.int64)
    recent = codes[:0]  # joined to the others now and then: there may be as many rounds as states
    while len(frontier):
        targets = np.unique(_pair_arcs(first, second, frontier))
        frontier = np.setdiff1d(targets[targets >= 0], recent, assume_unique=True)
        place = np.minimum(np.searchsorted(codes, frontier), len(codes) - 1)
        frontier = frontier[codes[place] != frontier]
        recent = np.union1d(recent, frontier)
        if len(recent) ** 2 > len(codes) or not len(frontier):
            codes, recent = np.union1d(codes, recent), recent[:0]
            check_arcs(len(codes), L, "the order and the rules together")
    targets = _pair_arcs(first, second, codes)
    arcs = np.where(targets < 0, -1, np.searchsorted(codes, targets)).astype(np.int32)
    s, r = np.divmod(codes, m)
    accepting = first.accepting[s] & second.accepting[r]
    start = int(np.searchsorted(codes, first.start * m + second.start))
    parts = []
    for automaton, state in ((first, s), (second, r)):
        offsets, fired = automaton.rows_fired
        rows = (state[:, None] * L + np.arange(L)).ravel()
        rows = np.concatenate([rows, automaton.arcs.size + state])
        places, own = gather(offsets, rows)
        parts.append((fired[places], np.diff(own)))
    return trim(Automaton(arcs, accepting, start, *_side_by_side(parts)))


def _pair_arcs(first: Automaton, second: Automaton, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    s, r = np.divmod(codes, second.n_states)
    one, other = first.arcs[s].astype(np.int64), second.arcs[r].astype(np.int64)
    return np.where((one < 0) | (other < 0), -1, one * second.n_states + other)


def _side_by_side(parts: list[tuple[IntArray, NDArray[np.int64]]]) -> tuple[NDArray[np.int64], IntArray]:
    """Rows of several ragged arrays joined: row i of the result has the entries of row i of each."""
    offsets = offsets_of(np.sum([lengths for _, lengths in parts], axis=0))
    out = np.zeros(int(offsets[-1]), dtype=np.int32)
    begin = offsets[:-1].copy()
    for values, lengths in parts:
        own = offsets_of(lengths)
        out[np.repeat(begin - own[:-1], lengths) + np.arange(len(values))] = values
        begin += lengths
    return offsets, out


def trim(automaton: Automaton) -> Automaton:
    """Without states that cannot be reached from the first one or cannot reach an accepting one.

    The first state stays, so that an automaton that reads nothing has a state too.
    """
    arcs, n = automaton.arcs, automaton.n_states
    source, label = np.nonzero(arcs >= 0)
    ends = np.flatnonzero(automaton.accepting)  # joined to a node n, the end
    rows, columns = np.concatenate([source, ends]), np.concatenate([arcs[source, label], np.full(len(ends), n)])
    graph = sparse.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(n + 1, n + 1))
    reached, useful = np.zeros((2, n + 1), dtype=bool)
    reached[breadth_first_order(graph, automaton.start, return_predecessors=False)] = True
    useful[breadth_first_order(graph.T, n, return_predecessors=False)] = True
    useful = (useful & reached)[:n]
    keep = useful.copy()
    keep[automaton.start] = True
    if keep.all() and np.all((arcs < 0) | useful[arcs]):
        return automaton
    return renumbered(automaton, np.flatnonzero(keep), useful)


def renumbered(automaton: Automaton, states: NDArray, useful: NDArray[np.bool_] | None = None) -> Automaton:
    """The automaton with these states in this order; arcs to others, or to states that are not useful, are dropped."""
    L = automaton.n_labels
    number = np.full(automaton.n_states, -1, dtype=np.int32)
    number[states] = np.arange(len(states), dtype=np.int32)
    if useful is not None:
        number_of_target = np.where(useful, number, -1).astype(np.int32)
    else:
        number_of_target = number
    old = automaton.arcs[states]
    arcs = np.where(old < 0, np.int32(-1), number_of_target[old]).astype(np.int32)
    offsets, fired = automaton.rows_fired
    rows = (states[:, None] * L + np.arange(L)).ravel()
    rows = np.concatenate([rows, automaton.arcs.size + states])
    places, own = gather(offsets, rows)
    values, lengths = fired[places], np.diff(own)
    # arcs and ends that are not there fire nothing
    there = np.concatenate([arcs.ravel() >= 0, automaton.accepting[states]])
    kept = np.repeat(there, lengths)
    return Automaton(
        np.ascontiguousarray(arcs),
        automaton.accepting[states],
        int(number[automaton.start]),
        offsets_of(np.where(there, lengths, 0)),
        np.ascontiguousarray(values[kept]),
    )


class Sweeps(NamedTuple):
    """The states of an automaton in groups whose arcs lead to the same states, but for a few loose arcs.

    Recursions take a group at a time, with labels as vector lanes.
    """

    order: NDArray[np.int64]
    """(n_states,): states, group by group."""
    groups: NDArray[np.int64]
    """(n_groups + 1,): group g has the places ``groups[g]:groups[g + 1]`` of ``order``."""
    targets: IntArray
    """(n_groups, n_labels): where the arcs of a group lead, -1 if no state of the group has such an arc."""


def sweeps_of(arcs: IntArray) -> Sweeps:
    """Groups of states with the same arcs, but for an eighth of the labels at most.

    Examples
    --------
    >>> sweeps_of(np.array([[1, 2], [1, 2], [1, -1]], dtype=np.int32)).targets.tolist()
    [[1, 2]]
    """
    n_labels = arcs.shape[1]
    rows, first, inverse = np.unique(arcs, axis=0, return_index=True, return_inverse=True)
    few = max(1, n_labels // 8)
    templates = np.full((len(rows), n_labels), -1, dtype=np.int32)
    n_templates, template_of = 0, np.zeros(len(rows), dtype=np.int64)
    for k in np.argsort(first, kind="stable").tolist():
        known, row = templates[:n_templates], rows[k]
        differ = ((known != row) & (known >= 0) & (row >= 0)).sum(axis=1)
        # where one of the two has no arc they do not differ, but it is no reason to join them either
        same = ((known == row) & (row >= 0)).sum(axis=1)
        best = int(np.argmax(np.where(differ <= few, same, -1))) if n_templates else -1
        if best < 0 or differ[best] > few or (same[best] == 0 and np.any(row >= 0)):
            best = n_templates
            n_templates += 1
        template_of[k] = best
        free = templates[best] < 0
        templates[best, free] = row[free]
    group = template_of[np.asarray(inverse).ravel()]
    order = np.argsort(group, kind="stable")
    return Sweeps(order, offsets_of(np.bincount(group, minlength=n_templates)), templates[:n_templates].copy())
