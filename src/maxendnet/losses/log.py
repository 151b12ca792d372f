"""Log loss of conditional random fields."""

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
"""Maximum margin. Larger margins are not useful, because each wrong label would get a factor above exp(100)."""


@dataclass(eq=False, repr=False)
class Log(Piece):
    """Log loss, ``log_i(w) = -log p(y_i | x_i; w)``.

    ``p(y | x; w)`` is proportional to ``exp(w . f(x, y))``.

    With a margin, ``p(y | x_i; w)`` is proportional to ``exp(w . f(x_i, y) + margin * n_wrong)`` during learning, where
    n_wrong is the number of wrong labels in y: the softmax-margin of Gimpel & Smith (2010). As for the hinge, the true
    labels must win by a margin; as for the likelihood, all labellings contribute.

    With unknown labels, p is the total probability of all labellings that are consistent with the known labels. The
    marginal likelihood is not convex.

    Parameters
    ----------
    margin : float, default=0.0
        Added to the score of a labelling for every wrong label. With 0 the loss is the negative log-likelihood.

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
    """Hessian of the sum of losses divided by that of the log-partition."""

    @property
    def described(self) -> str:
        return f"Log {self.margin!r}" if self.margin else "Log"

    def check(self) -> None:
        if not (is_number(self.margin) and 0 <= self.margin <= LARGEST_MARGIN):
            raise ValueError(f"margin must be a number from 0 to {LARGEST_MARGIN:g}, got {self.margin!r}.")

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """Return the margin for every wrong label."""
        return self.margin * (1.0 - np.eye(n_labels))

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """Compute the sum of the log losses, and the gradient if requested."""
        excess = structure.excess("logsum", w, Table(cost, structure.row) if self.margin else None, options)
        if not structure.label_sets.all_known:
            # both excesses subtract the score of the target, so it cancels in their difference
            completion = structure.within_truth.excess("logsum", w, None, options)
            values = np.maximum(excess.values - completion.values, 0.0)
            excess = excess._replace(values=values, slope=excess.slope - completion.slope)
        return total(structure, excess, options.values)
