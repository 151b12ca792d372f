"""Hidden states: each label has several, and which of them a node has is not known.

A chain with hidden states is a chain whose labels are pairs (label, state), of whose truth only the label is known: a
set. Learning needs nothing else. Predictions are turned back into labels here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends import Threads
from maxendnet.data.examples import Examples
from maxendnet.data.labels import label_array
from maxendnet.data.unknown import UNKNOWN
from maxendnet.structures.base import IntArray, Marginals, decode
from maxendnet.structures.layout import FloatArray


def states_of(classes: NDArray, n_states: int) -> NDArray:
    """All pairs (label, state), the states of a label side by side.

    Examples
    --------
    >>> states_of(np.array(["a", "b"]), 2).tolist()
    [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
    """
    return label_array([(label, k) for label in classes.tolist() for k in range(n_states)])


def with_states(examples: Examples, classes: NDArray, n_states: int) -> Examples:
    """The same examples with pairs (label, state) in the place of labels; of the truth the label is known."""
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


def _states(label: Any, sets: dict[Any, frozenset]) -> Any:
    if label is UNKNOWN:
        return UNKNOWN
    if isinstance(label, frozenset):
        return frozenset().union(*(sets.get(member, {(member, 0)}) for member in label))
    return sets.get(label, label)


def between_labels(classes: NDArray, n_states: int) -> list[tuple[Any, Any]]:
    """Pairs of states of different labels, which do not follow each other where all nodes have the same label.

    Examples
    --------
    >>> between_labels(np.array(["a", "b"]), 1)
    [(('a', 0), ('b', 0)), (('b', 0), ('a', 0))]
    """
    states = states_of(classes, n_states).tolist()
    return [(one, other) for one in states for other in states if one[0] != other[0]]


@dataclass(frozen=True, eq=False)
class LabelsOfStates:
    """Predictions of labels by a bound structure whose labels are states.

    A label has the best of its states, or the sum of their probabilities.
    """

    inner: Any
    n_states: int

    @property
    def described(self) -> str:
        return f"{self.inner.described} with hidden states"

    @property
    def n_labels(self) -> int:
        return self.inner.n_labels // self.n_states

    @property
    def offsets(self) -> NDArray[np.int64]:
        return self.inner.offsets

    @property
    def within_truth(self) -> LabelsOfStates:
        """The same, limited to labellings that agree with what is known."""
        return LabelsOfStates(self.inner.within_truth, self.n_states)

    def maximum(self, w: FloatArray, table: Any = None, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """Best score of states for every example, and the labels of these."""
        values, states = self.inner.maximum(w, backend=backend)
        return values, states // np.int32(self.n_states)

    def decode(self, w: FloatArray, backend: Threads | None = None) -> IntArray:
        """The labels of the best states."""
        return decode(self.inner, w, backend) // np.int32(self.n_states)

    def logsum(
        self, w: FloatArray, table: Any = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Log-partition of every example, and the probabilities of labels."""
        values, marginals = self.inner.logsum(w, backend=backend)
        return values, Marginals(self._by_label(marginals.node).sum(axis=2))

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Best score with each label at each node."""
        return self._by_label(self.inner.max_marginals(w, backend=backend)).max(axis=2)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes)."""
        return self.inner.sample(w, n_draws, rng, backend=backend) // np.int32(self.n_states)

    def _by_label(self, values: FloatArray) -> FloatArray:
        return values.reshape(len(values), self.n_labels, self.n_states)
