"""Calibration: map scores to confidences, the probability of an exact match on held-out pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.model.decode import BestLeaf

MIN_ANSWERS = 10
MAX_GROUP_WEIGHT = 2.0
MAX_UNCALIBRATED = 0.95
"""Largest confidence without held-out answers."""
PRIOR = np.array([1.0, 0.3, 0.3])  # slopes per standard deviation of score, lead and edge


@dataclass(frozen=True)
class Calibration:
    """Logistic curve from a `BestLeaf` to a confidence.

    Attributes
    ----------
    score, lead, edge, intercept : float
        Weights: ``confidence = expit(score * s + lead * l + edge * e + intercept)``.
    n_answers : float
        Total weight of the held-out answers; 0 for the fixed curve.

    Examples
    --------
    >>> Calibration()(BestLeaf(leaf=3, score=2.0, lead=0.0))
    0.8807970779778823
    """

    score: float = 1.0
    lead: float = 0.0
    edge: float = 0.0
    intercept: float = 0.0
    n_answers: float = 0.0

    def __call__(self, best: BestLeaf) -> float:
        z = self.score * squash(best.score) + self.lead * squash(best.lead) + self.edge * best.edge + self.intercept
        confidence = float(1.0 / (1.0 + np.exp(-np.clip(z, -50.0, 50.0))))
        # rule of succession: even n correct answers do not justify a higher confidence
        return min(confidence, 1.0 - 1.0 / (self.n_answers + 2.0) if self.n_answers else MAX_UNCALIBRATED)


def squash(x: float | NDArray[Any]) -> NDArray[Any]:
    """Clip scores to [-20, 20], because larger scores are no stronger evidence."""
    return np.clip(x, -20.0, 20.0)


def fit_calibration(
    answers: Sequence[BestLeaf], right: Sequence[bool], groups: Sequence[object] | None = None
) -> Calibration:
    """Fit a calibration curve to held-out answers.

    With fewer than `MIN_ANSWERS` answers, return the fixed curve.

    Slopes are non-negative, so that a better score never lowers the confidence, and they are regularised towards
    `PRIOR`. Two correct and two wrong pseudo-answers at the mean score prevent a small number of correct answers from
    yielding certainty.

    Parameters
    ----------
    answers : sequence of BestLeaf
    right : sequence of bool
        Whether each answer was correct.
    groups : sequence, optional
        Group of each answer. Answers of a group, such as those for one field of a new site, tend to be right or wrong
        together, so a group counts as at most `MAX_GROUP_WEIGHT` answers.
    """
    if len(answers) < MIN_ANSWERS:
        return Calibration()
    from scipy.optimize import minimize

    X = squash(np.array([[c.score, c.lead, c.edge] for c in answers]))
    y = np.asarray(right, dtype=float)
    scale = np.maximum(X.std(axis=0), 0.1)
    mean = X.mean(axis=0)
    Z = np.vstack([(X - mean) / scale, np.zeros((2, 3))])
    target = np.concatenate([y, [1.0, 0.0]])
    answer_weight = np.ones(len(y))
    if groups is not None:
        sizes = Counter(groups)
        answer_weight = np.array([min(1.0, MAX_GROUP_WEIGHT / sizes[group]) for group in groups])
    weight = np.concatenate([answer_weight, [2.0, 2.0]])

    def objective(v: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        z = Z @ v[:3] + v[3]
        p = 1.0 / (1.0 + np.exp(-z))
        value = float(np.sum(weight * (np.logaddexp(0.0, z) - target * z))) + 0.5 * float(np.sum((v[:3] - PRIOR) ** 2))
        residual = weight * (p - target)
        return value, np.append(Z.T @ residual + v[:3] - PRIOR, residual.sum())

    v = minimize(objective, np.zeros(4), jac=True, bounds=[(0.0, None)] * 3 + [(None, None)]).x
    slopes = v[:3] / scale
    score, lead, edge = slopes.tolist()
    return Calibration(score, lead, edge, float(v[3] - slopes @ mean), float(answer_weight.sum()))
