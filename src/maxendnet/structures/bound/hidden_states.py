"""Hidden states of labels.

A chain with hidden states is a chain whose labels are pairs (label, state). The state is unknown, so the truth is a
label set, and training works as for other label sets. This module encodes states, and converts predictions back to
labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends import Threads
from maxendnet.data.examples import Examples
from maxendnet.data.labels import label_array
from maxendnet.data.ragged import offsets_of
from maxendnet.data.unknown import UNKNOWN
from maxendnet.structures.automata.automaton import Automaton
from maxendnet.structures.automata.ngrams import SeenNGrams
from maxendnet.structures.base import IntArray, Marginals, Table, decode
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.rules import PairMasks
from maxendnet.structures.weights.layout import FloatArray
from maxendnet.utils.memory import check_memory


def states_of(classes: NDArray[Any], n_states: int) -> NDArray[Any]:
    """All pairs (label, state), ordered by label.

    Examples
    --------
    >>> states_of(np.array(["a", "b"]), 2).tolist()
    [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
    """
    return label_array([(label, k) for label in classes.tolist() for k in range(n_states)])


def with_states(examples: Examples, classes: NDArray[Any], n_states: int) -> Examples:
    """Replace labels by sets of pairs (label, state)."""
    changes: dict[str, Any] = {}
    if examples.y is not None:
        sets = {label: frozenset((label, k) for k in range(n_states)) for label in classes.tolist()}
        changes["y"] = label_array([_states(label, sets) for label in examples.y.tolist()])
    if examples.labels is not None:
        changes["labels"] = tuple((label, k) for label in examples.labels for k in range(n_states))
        for name in ("allowed", "label_features"):
            values = getattr(examples, name)
            changes[name] = None if values is None else np.repeat(values, n_states, axis=1)
    return replace(examples, **changes)


def _states(label: Any, sets: dict[Any, frozenset[Any]]) -> Any:
    if label is UNKNOWN:
        return UNKNOWN
    if isinstance(label, frozenset):
        return frozenset().union(*(sets.get(member, {(member, 0)}) for member in label))
    return sets.get(label, label)


def for_states(masks: PairMasks, automaton: Automaton | None, n_states: int) -> tuple[PairMasks, Automaton | None]:
    """Convert rules on labels to rules on states, which treat all states of a label equally.

    Examples
    --------
    >>> masks = PairMasks(np.array([True, False]), np.array([[True, False], [True, True]]), np.array([True, True]))
    >>> for_states(masks, None, 2)[0].first.tolist()
    [True, True, False, False]
    """
    if n_states == 1:
        return masks, automaton
    first, pairs, last = masks
    both = np.repeat(np.repeat(pairs, n_states, axis=0), n_states, axis=1)
    lifted = PairMasks(np.repeat(first, n_states), both, np.repeat(last, n_states))
    if automaton is None:
        return lifted, None
    return lifted, Automaton(
        np.ascontiguousarray(np.repeat(automaton.arcs, n_states, axis=1)), automaton.accepting, automaton.start
    )


def ngrams_of_states(ngrams: SeenNGrams, n_labels: int, n_states: int) -> SeenNGrams:
    """Return all n-grams of states that correspond to these n-grams of labels.

    Examples
    --------
    >>> pairs = SeenNGrams(np.array([0, 2]), np.array([0, 1], dtype=np.int32))
    >>> ngrams_of_states(pairs, n_labels=2, n_states=2).tuples()
    [(0, 2), (0, 3), (1, 2), (1, 3)]
    """
    if n_states == 1:
        return ngrams
    lengths = np.diff(ngrams.offsets) - np.add.reduceat(np.append(ngrams.symbols >= n_labels, 0), ngrams.offsets[:-1])
    n_symbols = sum(
        int(n) * n_states ** int(n) * int(count) for n, count in zip(*np.unique(lengths, return_counts=True))
    )
    check_memory(
        8 * n_symbols, f"hidden={n_states}: the table of n-grams of states", "use fewer hidden states or a lower order"
    )
    choices = [range(label * n_states, (label + 1) * n_states) for label in range(n_labels)]
    choices += [range(n_labels * n_states + k, n_labels * n_states + k + 1) for k in (0, 1)]  # start and end
    of_states = [states for gram in ngrams.tuples() for states in product(*(choices[symbol] for symbol in gram))]
    symbols = np.fromiter(chain.from_iterable(of_states), dtype=np.int32)
    return SeenNGrams(offsets_of([len(gram) for gram in of_states]), symbols)


@dataclass(frozen=True, eq=False)
class LabelsOfStates:
    """View of a bound structure with hidden states that predicts labels.

    The score of a label is that of its best state; its probability is the sum over its states.
    """

    inner: Any
    n_states: int

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities for predictions. ``top`` is unavailable, because it would return labellings of states."""
        inner = self.inner.capabilities
        return Capabilities(unknown_labels=inner.unknown_labels, max_marginals=True, sample=True)

    @property
    def described(self) -> str:
        return f"{self.inner.described} with hidden states"

    @property
    def n_labels(self) -> int:
        return int(self.inner.n_labels // self.n_states)

    @property
    def offsets(self) -> NDArray[np.int64]:
        offsets: NDArray[np.int64] = self.inner.offsets
        return offsets

    @property
    def within_truth(self) -> LabelsOfStates:
        """The same examples, with only possible true labels allowed."""
        return LabelsOfStates(self.inner.within_truth, self.n_states)

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the score of the best states of every example, and the labels of these states."""
        values, states = self.inner.maximum(w, self._for_states(table), backend=backend)
        return values, states // np.int32(self.n_states)

    def decode(self, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
        """Return the labels of the best states."""
        of_states = None if added is None else np.repeat(added, self.n_states)
        return decode(self.inner, w, backend, of_states) // np.int32(self.n_states)

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Return the log-partition of every example, and the probabilities of labels."""
        values, marginals = self.inner.logsum(w, self._for_states(table), backend=backend)
        return values, Marginals(self._by_label(marginals.node).sum(axis=2))

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Return the best score with each label at each node."""
        values: FloatArray = self._by_label(self.inner.max_marginals(w, backend=backend)).max(axis=2)
        return values

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Sample labellings from p(y|x), shape (n_draws, n_nodes)."""
        labels: NDArray[np.int32] = self.inner.sample(w, n_draws, rng, backend=backend) // np.int32(self.n_states)
        return labels

    def _for_states(self, table: Table | None) -> Table | None:
        """Convert a table of labels to a table of states."""
        return None if table is None else table._replace(rows=np.repeat(table.rows, self.n_states, axis=1))

    def _by_label(self, values: FloatArray) -> FloatArray:
        return values.reshape(len(values), self.n_labels, self.n_states)
