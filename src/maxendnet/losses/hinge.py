"""The structured hinge loss of max-margin learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.backends.partial import Partial
from maxendnet.losses.base import FloatArray, LossQuestion, total
from maxendnet.losses.slack import SLACKS, Slack, SlackPrice
from maxendnet.piece import Piece
from maxendnet.structures.base import Ask, Table, excess


@dataclass(eq=False, repr=False)
class Hinge(Piece):
    """``hinge_i(w) = max_y [cost(y_i, y) - w . (f(x_i, y_i) - f(x_i, y))]``, never below 0 since y may be y_i.

    What an example pays for its hinge h is ``U(h)``; the loss is ``U(h) / C``, so that ``C * sum_i loss_i`` is the sum
    of the ``U(hinge_i)``.

    Parameters
    ----------
    cost : ndarray of shape (n_labels, n_labels) or None, default=None
        ``cost[true, predicted]`` of one node, in the order of the sorted labels; zero on the diagonal, not negative.
        Costs add up over nodes. None is Hamming: every wrong node costs 1.
    slack : {"linear", "squared", "kl"}, default="linear"
        ``U(h)`` is ``C h``, ``C/2 h^2``, or the KL slack of maximum entropy discrimination: the slack has an
        exponential prior with rate C, and a mean slack of h costs the least divergence from it,
        ``C h - 1 - log(C h)`` if ``h > 1/C`` and else 0.

    Examples
    --------
    >>> Hinge().cost_matrix(2)
    array([[0., 1.],
           [1., 0.]])
    >>> Hinge(slack="squared").slack_function.value(np.array([0.0, 3.0]), C=2.0)
    array([0., 9.])
    """

    cost: Any = None
    slack: str = "linear"
    smooth = False

    def check(self) -> None:
        if not (isinstance(self.slack, str) and self.slack in SLACKS):
            raise ValueError(f"slack must be one of {', '.join(map(repr, SLACKS))}, got {self.slack!r}.")

    @property
    def linear_slack(self) -> bool:
        return self.slack == "linear"

    @property
    def depends_on_C(self) -> bool:
        """Whether ``U(h) / C`` does."""
        return self.slack == "kl"

    @property
    def curvature(self) -> float:
        """Piecewise linear: none."""
        return 0.0

    @property
    def described(self) -> str:
        return f"{type(self).__name__} {self.slack}"

    @property
    def slack_function(self) -> Slack:
        """``U``, its derivative and its conjugate."""
        return SLACKS[self.slack]

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """The label costs; Hamming unless others were given."""
        if self.cost is None:
            return 1.0 - np.eye(n_labels)
        try:
            given = np.asarray(self.cost)
            if given.dtype.kind not in "biufO" or np.ma.is_masked(self.cost):
                raise TypeError("complex numbers, text, dates and masked values are no costs")
            cost = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"cost must be a matrix of real numbers, or None for Hamming, got {self.cost!r}."
            ) from error
        if cost.shape != (n_labels, n_labels):
            raise ValueError(
                f"cost has shape {cost.shape}, but there are {n_labels} labels; give a ({n_labels}, {n_labels}) matrix "
                "with cost[true, predicted] in the order of classes_."
            )
        if not np.all(np.isfinite(cost)) or cost.min() < 0 or np.any(np.diag(cost) != 0):
            raise ValueError(
                "cost must be finite and not negative, with zeros on its diagonal (the right label costs nothing); "
                f"got a smallest entry of {cost.min()} and the diagonal {np.diag(cost).tolist()}."
            )
        return cost

    def evaluate(self, structure: Any, w: FloatArray, question: LossQuestion) -> Partial:
        """``U(hinge) / C`` of every example and, if asked, a subgradient of their weighted sum."""
        C = question.C
        found = excess(
            structure, "maximum", w, Table(self.cost_matrix(structure.n_labels), structure.y),
            Ask(
                price=None if self.linear_slack else SlackPrice(self.slack, C),
                gradient=question.gradient, single=question.single, packed=True,
            ),
        )  # fmt: skip
        values = found.values if self.linear_slack else self.slack_function.value(found.values, C) / C
        return total(structure, values, found.slope, keep_values=question.values)
