"""Protocol of losses, and the oracles that compute sums over a shard of examples.

An oracle is a pure function of a shard (a bound structure), a weight vector and further arguments. These can be
pickled, so that a backend may send them anywhere.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends.partial import EMPTY, Partial
from maxendnet.structures.base import GRADIENT, Excess, ExcessOptions, Table

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

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """Sum of the losses of the examples of a bound structure, and its (sub)gradient as `excess` leaves it.

        Parameters
        ----------
        structure : BoundStructure
        w : ndarray of shape (n_weights,)
        C : float
        cost : ndarray of shape (n_sets, n_labels)
            `cost_matrix` with a row for each label set; a `Problem` has it as its attribute ``cost``.
        options : ExcessOptions
        """
        ...


def loss_oracle(
    shard: Any, w: FloatArray, loss: Loss, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
) -> Partial:
    """Loss of the examples of a shard. A function, so that backends find it by name and send the loss once."""
    return loss.evaluate(shard, w, C, cost, options)


def table_oracle(shard: Any, w: FloatArray, added: FloatArray, expected: FloatArray) -> Partial:
    """``logsum(w, added) - score(truth)``, its gradient, and the expected value of ``expected``; sums over a shard.

    Both tables have a row for each label set. The entries of ``added`` for the true labels are part of the score of the
    truth.
    """
    row = shard.row
    options = ExcessOptions(expected_table=Table(expected, row))
    return total(shard, shard.excess("logsum", w, Table(added, row), options))


def completion_oracle(shard: Any, w: FloatArray, options: ExcessOptions) -> Partial:
    """``logsum over labellings that agree with the truth - score(target)``, and its gradient; sums over a shard."""
    return total(shard, shard.within_truth.excess("logsum", w, None, options))


def total(structure: Any, excess: Excess, values: bool = False) -> Partial:
    """Contribution of the examples of a structure to a sum; with ``values``, also the value of every example."""
    weight, gap = structure.sample_weight, excess.relaxation_gap
    return Partial(
        float(excess.values @ weight),
        excess.slope,
        float(excess.expected_table @ weight),
        excess.values if values else EMPTY,
        float(gap @ weight) if gap.size else 0.0,
    )
