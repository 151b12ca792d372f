"""The log loss of conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.backends.partial import Partial
from maxendnet.losses.base import FloatArray, total
from maxendnet.piece import Piece
from maxendnet.structures.base import GRADIENT, ExcessOptions, Table
from maxendnet.utils.checks import is_number

LARGEST_MARGIN = 100.0
"""Wrong labels that are less likely by a factor of exp(100) are never seen."""


@dataclass(eq=False, repr=False)
class Log(Piece):
    """``log_i(w) = -log p(y_i | x_i; w)``, with ``p(y | x; w)`` proportional to ``exp(w . f(x, y))``.

    With a margin, ``p(y | x_i; w)`` is proportional to ``exp(w . f(x_i, y) + margin * n_wrong)`` in learning, where
    n_wrong is the number of labels in y that are wrong: the softmax-margin of Gimpel & Smith (2010). Right labels must
    win by the margin, as for the hinge, and all labellings count, as for the likelihood.

    Where labels are not known, p is the probability of all labellings that agree with what is known: the marginal
    likelihood. It is not convex.

    Parameters
    ----------
    margin : float, default=0.0
        What a wrong label adds to the score of a labelling. 0 is the likelihood.

    Examples
    --------
    >>> Log().smooth
    True
    >>> Log(margin=2.0).cost_matrix(2)
    array([[0., 2.],
           [2., 0.]])
    """

    margin: float = 0.0
    smooth = True
    convex = False
    depends_on_C = False
    curvature = 1.0
    """The Hessian of the sum of losses, in units of that of the log-partition."""

    @property
    def described(self) -> str:
        return f"Log {self.margin!r}" if self.margin else "Log"

    def check(self) -> None:
        if not (is_number(self.margin) and 0 <= self.margin <= LARGEST_MARGIN):
            raise ValueError(f"margin must be a number from 0 to {LARGEST_MARGIN:g}, got {self.margin!r}.")

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """The margin at every wrong label."""
        return self.margin * (1.0 - np.eye(n_labels))

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """Log loss of every example and, if requested, the gradient of their weighted sum."""
        excess = structure.excess("logsum", w, Table(cost, structure.row) if self.margin else None, options)
        if not structure.label_sets.all_known:  # both are above the score of the same labelling, which cancels
            inside = structure.within_truth.excess("logsum", w, None, options)
            values = np.maximum(excess.values - inside.values, 0.0)
            excess = excess._replace(values=values, slope=excess.slope - inside.slope)
        return total(structure, excess, options.values)
