"""What a loss offers, and the oracles by which shards of examples are asked for it.

An oracle is a pure function of a shard (a bound structure), a weight vector and a question. Questions are small and can
be pickled, so that a backend may send them anywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends.partial import EMPTY, Partial
from maxendnet.structures.base import Ask, Table

FloatArray = NDArray[np.float64]


@runtime_checkable
class Loss(Protocol):
    """A loss of examples, written in terms of the maximum or the log-partition of any structure."""

    smooth: bool

    @property
    def depends_on_C(self) -> bool:
        """Whether the loss itself, not only its weight, depends on C."""
        ...

    @property
    def described(self) -> str:
        """What tells it from other losses, without its costs."""
        ...

    def check(self) -> None: ...

    @property
    def curvature(self) -> float:
        """Of a smooth loss: its Hessian, in units of that of the log-partition."""
        ...

    @property
    def convex(self) -> bool:
        """Whether the loss is convex where some labels are not known."""
        ...

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """Costs ``[true, predicted]`` of a node; zeros for a loss without costs."""
        ...

    def evaluate(self, structure: Any, w: FloatArray, question: LossQuestion) -> Partial:
        """The loss of the examples of a bound structure."""
        ...


class LossQuestion(NamedTuple):
    """What a solver asks of every shard."""

    loss: Any
    C: float
    gradient: bool = True
    single: bool = False
    """Search in float32 where the numbers allow it."""
    values: bool = False
    """Report the loss of every example too."""
    cost: FloatArray | None = None
    """Costs of labels, a row for each kind of truth, where they are known to all shards; None is to be found out."""


def loss_oracle(shard: Any, w: FloatArray, question: LossQuestion) -> Partial:
    """The loss of a shard's examples."""
    return question.loss.evaluate(shard, w, question)


class TableQuestion(NamedTuple):
    """Tables with a row for every kind of truth: ``added`` to the scores, and ``counted`` in expectation."""

    added: FloatArray
    counted: FloatArray


def table_oracle(shard: Any, w: FloatArray, question: TableQuestion) -> Partial:
    """``logsum(w, added) - score(truth)``, its gradient, and the expected value of ``counted``; sums over a shard.

    What ``added`` has for the true labels is part of the score of the truth.
    """
    row = shard.row
    added, counted = (Table(rows, row) for rows in question)
    found = shard.excess("logsum", w, added, Ask(counted, packed=True))
    return total(shard, found.values, found.slope, found.counted)


def completion_oracle(shard: Any, w: FloatArray, gradient: bool) -> Partial:
    """``logsum over labellings that agree with the truth - score(the labelling taken for it)``, and its gradient."""
    found = shard.within_truth.excess("logsum", w, ask=Ask(gradient=gradient, packed=True))
    return total(shard, found.values, found.slope)


def total(
    structure: Any,
    values: FloatArray,
    slope: FloatArray,
    costs: FloatArray | None = None,
    keep_values: bool = False,
    short: FloatArray = EMPTY,
) -> Partial:
    """Values, costs and slope of the examples of a structure as a contribution to a sum."""
    factor = structure.sample_weight
    cost = 0.0 if costs is None else float(costs @ factor)
    missing = float(short @ factor) if short.size else 0.0
    return Partial(float(values @ factor), slope, cost, values if keep_values else EMPTY, missing)
