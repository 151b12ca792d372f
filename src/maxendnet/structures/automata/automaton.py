"""Deterministic finite automata over labels.

An automaton reads a labelling from left to right. The labelling is valid if there is an arc for every label and the
last state is accepting. An arc *fires* n-grams, and so does the end of the labelling in a state: the weights of these
n-grams are added to the score. Labellings and paths correspond one to one, so maxima and sums over labellings are
maxima and sums over paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order

from maxendnet.data.ragged import gather, offsets_of
from maxendnet.utils.memory import check_memory

IntArray = NDArray[np.int32]

MAX_ARCS = 50_000_000
"""Maximum number of arcs of an automaton."""
BYTES_PER_ARC, BYTES_PER_FIRED = 30, 12
"""Memory per arc and per fired n-gram to build an automaton."""


def check_arcs(n_states: int, n_labels: int, what: str, n_fired: int = 0) -> None:
    """Raise ``ValueError`` if an automaton would be too large."""
    fired = BYTES_PER_FIRED * n_fired
    check_memory(
        BYTES_PER_ARC * n_states * n_labels + fired,
        f"{what}: the automaton of {n_states:,} states and {n_labels:,} labels is too large and",
        "use a lower order, ngrams='seen', shorter durations or fewer rules",
        most=BYTES_PER_ARC * MAX_ARCS + fired,
    )


@dataclass(frozen=True, eq=False)
class Automaton:
    """States, arcs and fired n-grams, as flat arrays.

    Parameters
    ----------
    arcs : int32 ndarray of shape (n_states, n_labels)
        Next state for a state and a label, -1 if there is none.
    accepting : bool ndarray of shape (n_states,)
        Whether a labelling may end in a state.
    start : int, default=0
    fired_offsets : int64 ndarray of shape (n_states * n_labels + n_states + 1,), optional
        Rows of ``fired``: arc (s, a) is row ``s * n_labels + a``, the end at state s row
        ``n_states * n_labels + s``. None if no n-grams are fired.
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
        return int(self.arcs.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.arcs.shape[1])

    @property
    def rows_fired(self) -> tuple[NDArray[np.int64], IntArray]:
        """Offsets and numbers of the n-grams fired by arcs and by ends."""
        if self.fired_offsets is None or self.fired is None:
            return np.zeros(self.arcs.size + self.n_states + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return self.fired_offsets, self.fired

    def accepts(self, labels: object) -> bool:
        """Whether a labelling, as a sequence of label numbers, is valid."""
        state = self.start
        for label in np.asarray(labels, dtype=np.int64).tolist():
            state = int(self.arcs[state, label])
            if state < 0:
                return False
        return bool(self.accepting[state])

    def walk(self, labels: NDArray[Any], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the paths of concatenated labellings.

        Returns
        -------
        before : int64 ndarray of shape (n_nodes,)
            The state before each node, -1 after a missing arc.
        last : int64 ndarray of shape (n_examples,)
            The last state.
        """
        lengths = np.diff(offsets)
        before = np.full(int(offsets[-1] - offsets[0]), -1, dtype=np.int64)
        last = np.full(len(lengths), self.start, dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        sorted_lengths = lengths[order]
        for t in range(int(lengths.max(initial=0))):
            active = order[: int(np.searchsorted(-sorted_lengths, -t, side="left"))]
            nodes = offsets[active] - offsets[0] + t
            state = last[active]
            before[nodes] = state
            last[active] = np.where(state < 0, -1, self.arcs[state, labels[nodes]])
        return before, last


def anything(n_labels: int) -> Automaton:
    """Automaton with one state that accepts all labellings."""
    return Automaton(np.zeros((1, n_labels), dtype=np.int32), np.ones(1, dtype=bool))


def intersect(first: Automaton, second: Automaton) -> Automaton:
    """Return the trimmed product automaton, which fires the n-grams of both automata.

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
    recent = codes[:0]  # merged into codes only occasionally, because there may be as many rounds as states
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
    fired_rows = [_rows_fired(first, s), _rows_fired(second, r)]
    return trim(Automaton(arcs, accepting, start, *_side_by_side(fired_rows)))


def _rows_fired(automaton: Automaton, states: NDArray[np.int64]) -> tuple[IntArray, NDArray[np.int64]]:
    """Return the n-grams fired by the arcs and ends of these states, and row lengths."""
    offsets, fired = automaton.rows_fired
    arcs = (states[:, None] * automaton.n_labels + np.arange(automaton.n_labels)).ravel()
    places, row_offsets = gather(offsets, np.concatenate([arcs, automaton.arcs.size + states]))
    return fired[places], np.diff(row_offsets)


def _pair_arcs(first: Automaton, second: Automaton, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    s, r = np.divmod(codes, second.n_states)
    targets, targets2 = first.arcs[s].astype(np.int64), second.arcs[r].astype(np.int64)
    return np.where((targets < 0) | (targets2 < 0), -1, targets * second.n_states + targets2)


def _side_by_side(arrays: list[tuple[IntArray, NDArray[np.int64]]]) -> tuple[NDArray[np.int64], IntArray]:
    """Concatenate ragged arrays row by row."""
    offsets = offsets_of(np.sum([lengths for _, lengths in arrays], axis=0))
    joined = np.zeros(int(offsets[-1]), dtype=np.int32)
    begin = offsets[:-1].copy()
    for values, lengths in arrays:
        joined[np.repeat(begin - offsets_of(lengths)[:-1], lengths) + np.arange(len(values))] = values
        begin += lengths
    return offsets, joined


def trim(automaton: Automaton) -> Automaton:
    """Remove the states that are not on a path from the start to an accepting state.

    The start state is never removed, so that an automaton that accepts nothing still has a state.
    """
    arcs, n = automaton.arcs, automaton.n_states
    source, label = np.nonzero(arcs >= 0)
    ends = np.flatnonzero(automaton.accepting)  # with an additional arc to node n, the end
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


def renumbered(automaton: Automaton, states: NDArray[Any], useful: NDArray[np.bool_] | None = None) -> Automaton:
    """Renumber the states in this order, and drop arcs to states that are not listed or not useful."""
    number = np.full(automaton.n_states, -1, dtype=np.int32)
    number[states] = np.arange(len(states), dtype=np.int32)
    number_of_target = number if useful is None else np.where(useful, number, np.int32(-1))
    old = automaton.arcs[states]
    arcs = np.where(old < 0, np.int32(-1), number_of_target[old]).astype(np.int32)
    values, lengths = _rows_fired(automaton, states)
    exists = np.concatenate([arcs.ravel() >= 0, automaton.accepting[states]])
    return Automaton(
        np.ascontiguousarray(arcs),
        automaton.accepting[states],
        int(number[automaton.start]),
        offsets_of(np.where(exists, lengths, 0)),
        np.ascontiguousarray(values[np.repeat(exists, lengths)]),
    )


class Sweeps(NamedTuple):
    """Groups of automaton states that have the same next state for almost every label.

    Recursions process one group at a time, vectorised over labels. The other arcs are processed one by one.
    """

    order: NDArray[np.int64]
    """(n_states,): states in the order of their groups."""
    groups: NDArray[np.int64]
    """(n_groups + 1,): group g is ``order[groups[g]:groups[g + 1]]``."""
    targets: IntArray
    """(n_groups, n_labels): next states of a group, -1 if no state of the group has such an arc."""


def sweeps_of(arcs: IntArray) -> Sweeps:
    """Group states whose next states differ for at most an eighth of the labels.

    Examples
    --------
    >>> sweeps_of(np.array([[1, 2], [1, 2], [1, -1]], dtype=np.int32)).targets.tolist()
    [[1, 2]]
    """
    n_labels = arcs.shape[1]
    rows, first, inverse = np.unique(arcs, axis=0, return_index=True, return_inverse=True)
    max_loose = max(1, n_labels // 8)
    templates = np.full((len(rows), n_labels), -1, dtype=np.int32)
    n_templates, template_of = 0, np.zeros(len(rows), dtype=np.int64)
    for k in np.argsort(first, kind="stable").tolist():
        known, row = templates[:n_templates], rows[k]
        differ = ((known != row) & (known >= 0) & (row >= 0)).sum(axis=1)
        # a missing arc counts neither as equal nor as different
        same = ((known == row) & (row >= 0)).sum(axis=1)
        best = int(np.argmax(np.where(differ <= max_loose, same, -1))) if n_templates else -1
        if best < 0 or differ[best] > max_loose or (same[best] == 0 and np.any(row >= 0)):
            best = n_templates
            n_templates += 1
        template_of[k] = best
        free = templates[best] < 0
        templates[best, free] = row[free]
    group = template_of[np.asarray(inverse).ravel()]
    order = np.argsort(group, kind="stable")
    return Sweeps(order, offsets_of(np.bincount(group, minlength=n_templates)), templates[:n_templates].copy())
