"""The hinge loss with a soft maximum: what smooth solvers see of the hinge."""

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
    """``temperature * log sum_y exp([cost(y_i, y) - w . (f(x_i, y_i) - f(x_i, y))] / temperature)``.

    Above the hinge by at most the temperature times the entropy of ``p_i(y)``, which is proportional to the terms of
    the sum; without costs and at temperature 1 it is the log loss. Its gradient is that of the hinge with all
    labellings in the place of the worst one, in the shares p_i, so that they make up a dual point of the hinge.

    Parameters
    ----------
    temperature : float, default=1.0
    exact : bool, default=False
        Never in float32: a dual point that is to certify something must be computed in float64.

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
        """The Hessian of the sum of losses, in units of that of the log-partition."""
        return 1.0 / self.temperature

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """Loss of every example and, if requested, the gradient of their weighted sum; its cost is the expected one."""
        T = self.temperature
        table = cost_table(structure, cost / T, self.joint_costs)
        if table.joint is not None:
            table = table._replace(joint=table.joint._replace(rows=table.joint.rows / T))
        options = options._replace(expected_table=table, single=options.single and not self.exact)
        excess = structure.excess("logsum", divided(structure, w, T), table, options)
        values, slope, costs, gap = excess
        return total(structure, Excess(T * values, slope, T * costs, T * gap), options.values)


def divided(structure: Any, w: FloatArray, T: float) -> FloatArray:
    """``w / T``, which shards of a sum share if they share w."""

    def compute() -> FloatArray:
        found = w / T
        found.flags.writeable = w.flags.writeable
        return found

    cache = getattr(structure.layout, "cache", None)
    return compute() if cache is None else cache.of_weights(w, ("divided", T), compute)
