"""Labels marked with the n-grams that end at them, for n-gram costs.

The cost of an n-gram depends on the true labels, so it differs between nodes, while the scores of an automaton are the
same for all nodes. Therefore labels are replaced by symbols: a label together with the n-grams that end with it.
Labellings and sequences of symbols correspond one to one, and n-gram costs become costs of symbols at nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.data.ragged import owners
from maxendnet.structures.automata.automaton import Automaton, intersect
from maxendnet.structures.automata.ngrams import SeenNGrams, automaton_of
from maxendnet.structures.weights.layout import FloatArray


@dataclass(frozen=True, eq=False)
class MarkedLabels:
    """Automaton that reads marked labels.

    Parameters
    ----------
    automaton : Automaton
        It reads symbols: the labels, followed by the marked labels.
    label : int32 ndarray of shape (n_symbols,)
    marks : ndarray of shape (n_symbols, n_ngrams)
        1 if an n-gram ends with the symbol.

    Examples
    --------
    >>> from maxendnet.structures.automata.automaton import anything
    >>> pair = SeenNGrams(np.array([0, 2]), np.array([0, 1], dtype=np.int32))
    >>> marked = MarkedLabels.of(anything(2), pair, n_weights=0)
    >>> marked.label.tolist(), marked.marks.tolist()
    ([0, 1, 1], [[0.0], [0.0], [1.0]])
    >>> marked.automaton.accepts([0, 2]), marked.automaton.accepts([0, 1]), marked.automaton.accepts([1, 1])
    (True, False, True)
    """

    automaton: Automaton
    label: NDArray[np.int32]
    marks: FloatArray

    @classmethod
    def of(cls, automaton: Automaton, ngrams: SeenNGrams, n_weights: int) -> MarkedLabels:
        """Mark labels with n-grams; ``n_weights`` is the number of n-grams that ``automaton`` fires."""
        ending = automaton_of(ngrams, automaton.n_labels)
        offsets, fired = ending.rows_fired
        both = intersect(automaton, replace(ending, fired_offsets=offsets, fired=fired + np.int32(n_weights)))
        L, n_states = both.n_labels, both.n_states
        offsets, fired = both.rows_fired
        row = owners(offsets)
        is_mark = fired >= n_weights
        # symbol of every arc: its label, or a new symbol for the label and the n-grams that end with it
        marks_of: dict[int, tuple[int, ...]] = {}
        for arc, number in zip(row[is_mark].tolist(), (fired[is_mark] - n_weights).tolist()):
            marks_of[arc] = (*marks_of.get(arc, ()), number)
        keys = {arc: (arc % L, tuple(sorted(numbers))) for arc, numbers in marks_of.items()}
        place = {key: L + k for k, key in enumerate(sorted(set(keys.values())))}
        n_symbols = L + len(place)
        symbol = np.tile(np.arange(L), n_states)
        for arc, key in keys.items():
            symbol[arc] = place[key]
        state = np.repeat(np.arange(n_states), L)
        arcs = np.full((n_states, n_symbols), -1, dtype=np.int32)
        arcs[state, symbol] = both.arcs.ravel()
        # fired numbers that are not marks, sorted by row of the new automaton
        new_row = np.concatenate([state * n_symbols + symbol, n_states * n_symbols + np.arange(n_states)])[
            row[~is_mark]
        ]
        order = np.argsort(new_row, kind="stable")
        counts = np.bincount(new_row, minlength=n_states * n_symbols + n_states)
        read = Automaton(
            arcs, both.accepting, both.start,
            np.concatenate([[0], np.cumsum(counts)]), np.ascontiguousarray(fired[~is_mark][order]),
        )  # fmt: skip
        label = np.concatenate([np.arange(L), [key[0] for key in place]]).astype(np.int32)
        marks = np.zeros((n_symbols, len(ngrams.offsets) - 1))
        for (_, numbers), k in place.items():
            marks[k, list(numbers)] = 1.0
        return cls(read, label, marks)

    def batch(self, batch: Batch) -> Batch:
        """Return the same nodes with symbols as labels, without features, and with one table row per node."""
        n_nodes = len(batch.parent)
        allowed = batch.allowed[:, self.label] if batch.allowed.size else batch.allowed
        return batch._replace(
            indptr=np.zeros(n_nodes + 1, dtype=np.int64), indices=np.zeros(0, dtype=np.int32), data=np.zeros(0),
            y=np.zeros(0, dtype=np.int32), row=np.arange(n_nodes, dtype=np.int32), label_sets=None,
            allowed=np.ascontiguousarray(allowed), label_features=np.zeros((0, 0, 0)),
        )  # fmt: skip

    def by_label(self, values: FloatArray) -> FloatArray:
        """Sum over the symbols of each label, shape (n_nodes, n_labels)."""
        n_labels = len(self.label) - np.count_nonzero(self.marks.any(axis=1))
        out = values[:, :n_labels].copy()
        for k in range(n_labels, len(self.label)):
            out[:, self.label[k]] += values[:, k]
        return out
