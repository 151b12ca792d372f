"""The log loss of conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxendnet.piece import Piece

if TYPE_CHECKING:
    from maxendnet.problem import FloatArray, Problem


@dataclass(eq=False, repr=False)
class Log(Piece):
    """``log_i(w) = -log p(y_i | x_i; w)``, with ``p(y | x; w)`` proportional to ``exp(w . f(x, y))``.

    Examples
    --------
    >>> Log().smooth
    True
    """

    smooth = True

    def evaluate(self, problem: Problem, w: FloatArray, gradient: bool, single: bool) -> tuple[FloatArray, FloatArray]:
        """Log loss of every example and, if asked, the gradient of their weighted sum."""
        values, _, slope = problem.structure.log_losses(problem, w, None, gradient, single)
        return values, slope

    def curvature(self, problem: Problem) -> FloatArray:
        """Diagonal of the Hessian of the weighted sum at ``w = 0``, where all labellings are alike."""
        return problem.structure.curvature(problem.batch)
