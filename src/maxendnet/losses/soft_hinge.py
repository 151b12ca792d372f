"""The hinge loss with a soft maximum: what smooth solvers see of the hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maxendnet.losses.hinge import Hinge
from maxendnet.losses.log import Log

if TYPE_CHECKING:
    from maxendnet.problem import FloatArray, Problem


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
    expected_cost = np.nan
    """``sum_i weight_i sum_y p_i(y) cost(y_i, y)`` of the last evaluation with a gradient."""

    def evaluate(self, problem: Problem, w: FloatArray, gradient: bool, single: bool) -> tuple[FloatArray, FloatArray]:
        """Loss of every example and, if asked, the gradient of their weighted sum."""
        T, single = self.temperature, single and not self.exact
        values, costs, slope = problem.structure.log_losses(problem, w / T, problem.cost / T, gradient, single)
        if gradient:
            self.expected_cost = T * float(costs @ problem.batch.weights)
        return T * values, slope

    def curvature(self, problem: Problem) -> FloatArray:
        """Diagonal of the Hessian of the weighted sum where all labellings are alike, as a scale of the weights."""
        return Log().curvature(problem) / self.temperature
