"""Loss protocol, and the oracles that compute sums over a shard of examples.

An oracle is a pure function of a shard (a bound structure), a weight vector and further arguments. All of these can be
pickled, so that a backend can send them to workers.
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
    """Protocol of losses, which are computed from the maximum or the log-partition of any structure."""

    smooth: bool

    @property
    def depends_on_C(self) -> bool:
        """Whether the loss depends on C, apart from being multiplied by C."""
        ...

    @property
    def described(self) -> str:
        """Text that identifies the loss and its options, without its costs."""
        ...

    def check(self) -> None: ...

    @property
    def curvature(self) -> float:
        """Hessian of a smooth loss divided by the Hessian of the log-partition."""
        ...

    @property
    def convex(self) -> bool:
        """Whether the loss is convex when some labels are unknown."""
        ...

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """Return the costs ``[true, predicted]`` of a node; zeros if the loss has no costs."""
        ...

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """Compute the sum of the losses of all examples and its (sub)gradient.

        The gradient has the layout of `BoundStructure.excess`.

        Parameters
        ----------
        structure : BoundStructure
        w : ndarray of shape (n_weights,)
        C : float
        cost : ndarray of shape (n_sets, n_labels)
            `cost_matrix` with one row per label set: the attribute ``cost`` of a `Problem`.
        options : ExcessOptions
        """
        ...


def loss_oracle(
    shard: Any, w: FloatArray, loss: Loss, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
) -> Partial:
    """Evaluate the loss on a shard.

    This is a function, so that backends can send its name to workers, and the loss only once.
    """
    return loss.evaluate(shard, w, C, cost, options)


def table_oracle(shard: Any, w: FloatArray, added: FloatArray, expected: FloatArray) -> Partial:
    """Sum ``logsum(w, added) - score(truth)`` over a shard, with its gradient.

    The returned cost is the expectation of ``expected``. Both tables contain one row per label set. The score of the
    truth includes the entries of ``added`` for the true labels.
    """
    row = shard.row
    options = ExcessOptions(expected_table=Table(expected, row))
    return total(shard, shard.excess("logsum", w, Table(added, row), options))


def completion_oracle(shard: Any, w: FloatArray, options: ExcessOptions) -> Partial:
    """Sum the log-partition over completions minus the target score over a shard.

    Completions are the labellings that are consistent with the known labels.
    """
    return total(shard, shard.within_truth.excess("logsum", w, None, options))


def total(structure: Any, excess: Excess, values: bool = False) -> Partial:
    """Sum values over examples, and return each value too if ``values`` is requested."""
    weight, gap = structure.sample_weight, excess.relaxation_gap
    return Partial(
        float(excess.values @ weight),
        excess.slope,
        float(excess.expected_table @ weight),
        excess.values if values else EMPTY,
        float(gap @ weight) if gap.size else 0.0,
    )
