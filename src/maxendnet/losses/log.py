"""The log loss of conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.backends.partial import Partial
from maxendnet.losses.base import FloatArray, LossQuestion, total
from maxendnet.piece import Piece
from maxendnet.structures.base import Ask, excess, kinds_of


@dataclass(eq=False, repr=False)
class Log(Piece):
    """``log_i(w) = -log p(y_i | x_i; w)``, with ``p(y | x; w)`` proportional to ``exp(w . f(x, y))``.

    Where labels are not known, p is the probability of all labellings that agree with what is known: the marginal
    likelihood. It is not convex.

    Examples
    --------
    >>> Log().smooth
    True
    """

    smooth = True

    convex = False
    depends_on_C = False
    curvature = 1.0
    """The Hessian of the sum of losses, in units of that of the log-partition."""

    @property
    def described(self) -> str:
        return "Log"

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """Zeros: wrong labels have no costs."""
        return np.zeros((n_labels, n_labels))

    def evaluate(self, structure: Any, w: FloatArray, question: LossQuestion) -> Partial:
        """Log loss of every example and, if asked, the gradient of their weighted sum."""
        ask = Ask(gradient=question.gradient, single=question.single, packed=True)
        values, slope, _, short = excess(structure, "logsum", w, ask=ask)
        if not kinds_of(structure).all_known:  # both are above the score of the same labelling, which cancels
            inside = excess(structure.within_truth, "logsum", w, ask=ask)
            values, slope = np.maximum(values - inside.values, 0.0), slope - inside.slope
        return total(structure, values, slope, keep_values=question.values, short=short)
