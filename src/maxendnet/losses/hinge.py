"""The structured hinge loss of max-margin learning."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxendnet.backends.partial import Partial
from maxendnet.losses.base import FloatArray, total
from maxendnet.losses.costs import (
    JointCosts,
    class_weights,
    cost_table,
    joint_costs,
    named_costs,
    split_costs,
)  # fmt: skip
from maxendnet.losses.slack import SLACKS, Slack, SlackDerivative
from maxendnet.piece import Piece
from maxendnet.structures.base import GRADIENT, ExcessOptions
from maxendnet.utils.checks import is_number


@dataclass(eq=False, repr=False)
class Hinge(Piece):
    """``hinge_i(w) = max_y [cost(y_i, y) - w . (f(x_i, y_i) - f(x_i, y))]``, never below 0 since y may be y_i.

    What an example pays for its hinge h is ``U(h)``; the loss is ``U(h) / C``, so that ``C * sum_i loss_i`` is the sum
    of the ``U(hinge_i)``.

    Parameters
    ----------
    cost : ndarray of shape (n_labels, n_labels), dict or None, default=None
        ``cost[true, predicted]`` of one node, in the order of the sorted labels; zero on the diagonal, not negative.
        A dict has pairs of labels ``(true, predicted)`` and their costs; pairs that it does not have cost 1. It may
        also have costs of two labels that are joined, ``((true, true), (predicted, predicted))``, and for chains of
        more labels in a row. These come on top of those of the labels: ``{(("B", "I"), ("B", "O")): 2.0}``. Costs add
        up over nodes, edges and n-grams. None is Hamming: every wrong node costs 1.
    slack : {"linear", "squared", "kl"}, default="linear"
        ``U(h)`` is ``C h``, ``C/2 h^2``, or the KL slack of maximum entropy discrimination: the slack has an
        exponential prior with rate C, and a mean slack of h costs the least divergence from it,
        ``C h - 1 - log(C h)`` if ``h > 1/C`` and else 0.

    class_weight : dict, "balanced" or None, default=None
        Factors of the costs by true label; labels that a dict does not have keep 1. "balanced" is
        ``n_nodes / (n_labels * count)``, as in scikit-learn, of the nodes whose label is known.
    completion : {"best", "average"}, default="best"
        Where labels are not known: which of the labellings that agree with what is known stands for the truth. "best"
        is the one of the highest score. "average" is a soft maximum,
        ``temperature * (log sum over Y_i of exp(score / temperature) - log |Y_i|)``, as in the partially observed
        maximum entropy discrimination Markov network; it needs a linear slack.
    joint_costs : JointCosts or None, default=None
        Costs of several labels together, as numbers; `for_labels` finds them in ``cost``.
    temperature : float, default=0.1
        For "average"; as it falls to 0 the average becomes the best. Scores of a margin model are of the size of its
        costs: at a temperature of 1 all completions are almost alike, and the model learns little from them. (OCR
        letters, half of them unknown, M3N: 26 % errors at 0.02 to 0.2, 36 % from 0.4 on.) The KL divergence of Zhu,
        Xing & Zhang (2008) is that of 1/C.

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
    completion: str = "best"
    temperature: float = 0.1
    class_weight: Any = None
    joint_costs: JointCosts | None = None
    smooth = False
    convex = True
    """Convex for a fixed completion; `ConcaveConvex` iterates over completions."""

    def check(self) -> None:
        if not (isinstance(self.slack, str) and self.slack in SLACKS):
            raise ValueError(f"slack must be one of {', '.join(map(repr, SLACKS))}, got {self.slack!r}.")
        if not (isinstance(self.completion, str) and self.completion in ("best", "average")):
            raise ValueError(f"completion must be 'best' or 'average', got {self.completion!r}.")
        if self.completion == "average" and not self.linear_slack:
            raise ValueError(f"completion='average' needs slack='linear', got slack={self.slack!r}.")
        if not (is_number(self.temperature) and 0 < self.temperature < np.inf):
            raise ValueError(f"temperature must be a positive finite number, got {self.temperature!r}.")

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
        return f"{type(self).__name__} {self.slack}{self._described_joint}"

    @property
    def _described_joint(self) -> str:
        if self.joint_costs is None:
            return ""
        return " " + hashlib.blake2b(b"".join(a.tobytes() for a in self.joint_costs), digest_size=16).hexdigest()

    @property
    def slack_function(self) -> Slack:
        """``U``, its derivative and its conjugate."""
        return SLACKS[self.slack]

    def for_labels(self, classes: Any, y: Any, n_states: int = 1) -> Hinge:
        """The same loss with costs as a matrix, where they were given by names of labels.

        Parameters
        ----------
        classes : ndarray of shape (n_labels,)
        y : ndarray of shape (n_nodes,), or dict of labels to counts
            The labels, which "balanced" counts.
        n_states : int, default=1
            States of a label, which cost the same.
        """
        if self.class_weight is None and not isinstance(self.cost, dict) and (n_states == 1 or self.cost is None):
            return self
        cost, joint = self.cost, None
        if isinstance(self.cost, dict):
            of_labels, of_several = split_costs(self.cost, classes)
            cost, joint = named_costs(of_labels, classes), joint_costs(of_several, classes)
        if joint is not None and n_states > 1:
            raise ValueError("cost names several labels together, which hidden states do not take; name single labels.")
        matrix = replace(self, cost=cost, class_weight=None).cost_matrix(len(classes))
        matrix = matrix * class_weights(self.class_weight, classes, y)[:, None]
        by_state = np.kron(matrix, np.ones((n_states, n_states)))
        return replace(self, cost=by_state, class_weight=None, joint_costs=joint)

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

    def completion_objective(self, problem: Any, w: FloatArray) -> tuple[float, Any]:
        """The objective at w where labels are not known, and the convex problem whose truth is their completion.

        Parameters
        ----------
        problem : Problem
            With labels that were completed by w.
        w : ndarray of shape (n_weights,)
        """
        value = problem.primal(w)
        if self.completion == "best":
            return value, problem
        T = self.temperature
        completion = problem.completion_logsum(w / T)
        log_count = problem.completion_logsum(0.0 * w, gradient=False).loss
        return value - problem.C * T * (completion.loss - log_count), problem.replace(linear_term=completion.gradient)

    def evaluate(
        self, structure: Any, w: FloatArray, C: float, cost: FloatArray, options: ExcessOptions = GRADIENT
    ) -> Partial:
        """``U(hinge) / C`` of every example and, if requested, a subgradient of their weighted sum."""
        derivative = None if self.linear_slack else SlackDerivative(self.slack, C)
        table = cost_table(structure, cost, self.joint_costs)
        excess = structure.excess("maximum", w, table, options._replace(slack_derivative=derivative))
        if not self.linear_slack:
            values, gap = self.slack_function.value(excess.values, C) / C, excess.relaxation_gap
            if gap.size:
                gap = values - self.slack_function.value(excess.values - gap, C) / C
            excess = excess._replace(values=values, relaxation_gap=gap)
        return total(structure, excess, options.values)
