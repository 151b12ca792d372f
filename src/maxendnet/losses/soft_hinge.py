"""Hinge loss with a soft maximum, for smooth solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxendnet.backends.partial import Partial
from maxendnet.losses.base import FloatArray, total
from maxendnet.losses.costs import cost_table
from maxendnet.losses.hinge import Hinge
from maxendnet.structures.base import GRADIENT, Excess, ExcessOptions


@dataclass(eq=False, repr=False)
class SoftHinge(Hinge):
    """Hinge loss with a soft maximum.

    The loss is ``temperature * log sum_y exp([cost(y_i, y) - w . (f(x_i, y_i) - f(x_i, y))] / temperature)``.

    Let ``p_i(y)`` be proportional to the terms of the sum. The soft hinge exceeds the hinge by at most the temperature
    times the entropy of p_i. Without costs and at temperature 1 it is the log loss. Its gradient is an average
    over all labellings with probabilities p_i, while that of the hinge uses only the most violating labelling. So
    p_i is a dual point of the hinge.

    Parameters
    ----------
    temperature : float, default=1.0
    exact : bool, default=False
        Whether to always compute in float64, which is needed if the dual point is used for a duality gap.

    Examples
    --------
    >>> SoftHinge(temperature=0.1).smooth
    True
    """

    temperature: float = 1.0
    exact: bool = False
    smooth = True

    @property
    def described(self) -> str:
        return f"SoftHinge {self.slack} {self.temperature!r}{self._described_joint}"

    @property
    def curvature(self) -> float:
        """Hessian of the sum of losses divided by that of the log-partition."""
        return 1.0 / self.temperature

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """Compute the sum of the losses, the expected costs, and the gradient if requested."""
        T = self.temperature
        table = cost_table(structure, cost / T, self.joint_costs)
        if table.joint is not None:
            table = table._replace(joint=table.joint._replace(rows=table.joint.rows / T))
        options = options._replace(expected_table=table, single=options.single and not self.exact)
        excess = structure.excess("logsum", divided(structure, w, T), table, options)
        values, slope, costs, gap = excess
        return total(structure, Excess(T * values, slope, T * costs, T * gap), options.values)


def divided(structure: Any, w: FloatArray, T: float) -> FloatArray:
    """Return ``w / T``, cached for shards with the same w."""

    def compute() -> FloatArray:
        quotient = w / T
        quotient.flags.writeable = w.flags.writeable
        return quotient

    cache = getattr(structure.layout, "cache", None)
    return compute() if cache is None else cache.of_weights(w, ("divided", T), compute)
