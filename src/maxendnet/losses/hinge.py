"""Structured hinge loss, for max-margin learning."""

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
    """Structured hinge loss.

    ``hinge_i(w) = max_y [cost(y_i, y) - w . (f(x_i, y_i) - f(x_i, y))]``.

    The hinge is non-negative, since the maximum includes ``y_i``. The loss of an example with hinge h is ``U(h) / C``
    for a slack function U, so that ``C * sum_i loss_i`` is the sum of the ``U(hinge_i)``.

    Parameters
    ----------
    cost : ndarray of shape (n_labels, n_labels), dict or None, default=None
        ``cost[true, predicted]`` of one node, in the order of the sorted labels; non-negative, with zeros on the
        diagonal. A dict maps pairs of labels ``(true, predicted)`` to costs; missing pairs cost 1. Its keys may also
        be pairs of tuples, ``((true, true), (predicted, predicted))``, for joint costs of the two labels of an edge
        or, for chains, of more consecutive labels. Joint costs are added to the costs of single labels. For example,
        ``{(("B", "I"), ("B", "O")): 2.0}`` adds 2 if B, I is predicted as B, O. Costs are summed over nodes, edges
        and n-grams. None means the Hamming cost: 1 for every wrong node.
    slack : {"linear", "squared", "kl"}, default="linear"
        Slack function: ``U(h)`` is ``C h``, ``C/2 h^2``, or the KL slack of maximum entropy discrimination. The KL
        slack assumes an exponential prior with rate C on the slack; ``U(h)`` is then the smallest KL divergence from
        this prior to a distribution with mean slack h: ``C h - 1 - log(C h)`` if ``h > 1/C``, else 0.
    class_weight : dict, "balanced" or None, default=None
        Factors of the costs by true label; labels missing from a dict have factor 1. "balanced" means
        ``n_nodes / (n_labels * count)``, as in scikit-learn, over the nodes with known labels.
    completion : {"best", "average"}, default="best"
        Target for examples with unknown labels. "best" is the labelling with the highest score among those that are
        consistent with the known labels. "average" replaces the best score by a soft maximum,
        ``temperature * (log sum over Y_i of exp(score / temperature) - log |Y_i|)``, as in the partially observed
        maximum entropy discrimination Markov network. It requires a linear slack.
    joint_costs : JointCosts or None, default=None
        Joint costs of several labels, with labels as numbers. `for_labels` sets them from ``cost``.
    temperature : float, default=0.1
        Temperature for ``completion="average"``; 0 would be "best". The scores of a margin model are of the same size
        as its costs, so that at temperature 1 all completions have almost equal weight and the model learns little
        from them. On OCR letters with half of the labels unknown, values from 0.02 to 0.2 are equally good. The KL
        divergence of Zhu, Xing & Zhang (2008) corresponds to 1/C.

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
        """Whether ``U(h) / C`` depends on C."""
        return self.slack == "kl"

    @property
    def curvature(self) -> float:
        """Curvature of the loss, which is 0 because the hinge is piecewise linear."""
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
        """Slack function ``U``, its derivative and its conjugate."""
        return SLACKS[self.slack]

    def for_labels(self, classes: Any, y: Any, n_states: int = 1) -> Hinge:
        """Return the loss with costs as a matrix instead of a dict.

        Parameters
        ----------
        classes : ndarray of shape (n_labels,)
        y : ndarray of shape (n_nodes,), or dict of labels to counts
            Labels that ``class_weight="balanced"`` counts.
        n_states : int, default=1
            Number of hidden states of each label, which share its costs.
        """
        if self.class_weight is None and not isinstance(self.cost, dict) and (n_states == 1 or self.cost is None):
            return self
        cost, joint = self.cost, None
        if isinstance(self.cost, dict):
            of_labels, of_several = split_costs(self.cost, classes)
            cost, joint = named_costs(of_labels, classes), joint_costs(of_several, classes)
        if joint is not None and n_states > 1:
            raise ValueError(
                "cost has joint costs of several labels, but hidden states support only costs of single labels."
            )
        matrix = replace(self, cost=cost, class_weight=None).cost_matrix(len(classes))
        matrix = matrix * class_weights(self.class_weight, classes, y)[:, None]
        by_state = np.kron(matrix, np.ones((n_states, n_states)))
        return replace(self, cost=by_state, class_weight=None, joint_costs=joint)

    def cost_matrix(self, n_labels: int) -> FloatArray:
        """Return the label costs; Hamming costs by default."""
        if self.cost is None:
            return 1.0 - np.eye(n_labels)
        try:
            matrix = np.asarray(self.cost)
            if matrix.dtype.kind not in "biufO" or np.ma.is_masked(self.cost):
                raise TypeError("costs cannot be complex numbers, text, dates or masked values")
            cost = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"cost must be a matrix of real numbers, or None for Hamming, got {self.cost!r}."
            ) from error
        if cost.shape != (n_labels, n_labels):
            raise ValueError(
                f"cost has shape {cost.shape}, but there are {n_labels} labels; pass a ({n_labels}, {n_labels}) matrix "
                "with cost[true, predicted] in the order of classes_."
            )
        if not np.all(np.isfinite(cost)) or cost.min() < 0 or np.any(np.diag(cost) != 0):
            raise ValueError(
                "cost must be finite and non-negative, with zeros on its diagonal (the right label costs nothing); "
                f"got a smallest entry of {cost.min()} and the diagonal {np.diag(cost).tolist()}."
            )
        return cost

    def completion_objective(self, problem: Any, w: FloatArray) -> tuple[float, Any]:
        """Return the objective with unknown labels, and the problem whose targets are their completions.

        Parameters
        ----------
        problem : Problem
            Problem whose unknown labels were completed with w.
        w : ndarray of shape (n_weights,)

        Returns
        -------
        objective : float
        problem : Problem
            Problem whose targets are the completions.
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
        """Compute the sum of ``U(hinge) / C`` over examples, and a subgradient if requested."""
        derivative = None if self.linear_slack else SlackDerivative(self.slack, C)
        table = cost_table(structure, cost, self.joint_costs)
        excess = structure.excess("maximum", w, table, options._replace(slack_derivative=derivative))
        if not self.linear_slack:
            values, gap = self.slack_function.value(excess.values, C) / C, excess.relaxation_gap
            if gap.size:
                gap = values - self.slack_function.value(excess.values - gap, C) / C
            excess = excess._replace(values=values, relaxation_gap=gap)
        return total(structure, excess, options.values)
