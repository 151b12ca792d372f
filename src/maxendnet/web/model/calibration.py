"""Confidence of a cell: how often the value of such an answer was exactly right, on pages that were held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.model.decode import BestLeaf

FEWEST_ANSWERS = 10
MOST_OF_A_GROUP = 2.0
UNPROVED = 0.95
"""The largest confidence where no answer was held out: nothing is known of how often such answers are right."""
PRIOR = np.array([1.0, 0.3, 0.3])  # slopes for one standard deviation of score, lead and edge


@dataclass(frozen=True)
class Calibration:
    """A logistic curve over the score of an answer, its lead over the next, and the lead of the bounds of its value.

    Attributes
    ----------
    score, lead, edge, intercept : float
        Weights; ``confidence = 1 / (1 + exp(-(score s + lead l + edge e + intercept)))``.
    n_answers : float
        Held-out answers it was made from, each with its weight; 0: none, a fixed curve.

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
        # n answers, all of them right, do not promise more than this (the rule of succession)
        return min(confidence, 1.0 - 1.0 / (self.n_answers + 2.0) if self.n_answers else UNPROVED)


def squash(x: float | NDArray) -> NDArray:
    """Scores without their extremes, which say no more than large scores."""
    return np.clip(x, -20.0, 20.0)


def fit_calibration(
    answers: Sequence[BestLeaf], right: Sequence[bool], groups: Sequence[object] | None = None
) -> Calibration:
    """A curve from held-out answers; the fixed one, when they are few.

    The slopes are not negative: a better score never lowers the confidence. Without evidence they stay near those of
    ``PRIOR``. Two answers of each kind are added at the mean, so that few answers, all right, promise no certainty.
    Answers of one group, such as a field of a new site, are right or wrong together: no group counts for more than
    ``MOST_OF_A_GROUP`` answers.
    """
    if len(answers) < FEWEST_ANSWERS:
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
        times = Counter(groups)
        answer_weight = np.array([min(1.0, MOST_OF_A_GROUP / times[group]) for group in groups])
    weight = np.concatenate([answer_weight, [2.0, 2.0]])

    def objective(v: NDArray) -> tuple[float, NDArray]:
        z = Z @ v[:3] + v[3]
        p = 1.0 / (1.0 + np.exp(-z))
        value = float(np.sum(weight * (np.logaddexp(0.0, z) - target * z))) + 0.5 * float(np.sum((v[:3] - PRIOR) ** 2))
        residual = weight * (p - target)
        return value, np.append(Z.T @ residual + v[:3] - PRIOR, residual.sum())

    v = minimize(objective, np.zeros(4), jac=True, bounds=[(0.0, None)] * 3 + [(None, None)]).x
    slopes = v[:3] / scale
    score, lead, edge = slopes.tolist()
    return Calibration(score, lead, edge, float(v[3] - slopes @ mean), float(answer_weight.sum()))
