"""How readily spans are found: what is added to the score of the label O, for the best F1 on sentences held out.

The labelling with the highest score has the most right labels, and not the best F1. Where most tokens are outside and
many spans are missed, more spans with some doubt raise F1: with probabilities that can be believed, F1 is best if all
spans are taken that are more probable than half of the F1 itself (Lipton, Elkan & Naryanaswamy 2014). So the score of
the label O is lowered, by as little as is about the best on sentences that the model has not seen.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.structures.base import IntArray, decode
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.text.fitting.calibration import HeldOut
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import LABELS, OUTSIDE, find_spans

FloatArray = NDArray[np.float64]
LOWERED = np.arange(0.0, 3.01, 0.25)
"""By how much the logarithm of the odds of O is lowered: to a threshold of 5 % at most, that of an F1 of 10 %."""


def added_scores(classes: NDArray, outside: float) -> FloatArray | None:
    """What is added to the scores of all labels; None for nothing.

    Examples
    --------
    >>> added_scores(np.array(["B-PER", "I-PER", "O"]), -0.5).tolist()
    [0.0, 0.0, -0.5]
    """
    labels = classes.tolist()
    if outside == 0.0 or OUTSIDE not in labels:
        return None
    return np.array([outside if label == OUTSIDE else 0.0 for label in labels])


def decode_with(bound: Any, w: FloatArray, added: FloatArray | None, backend: Any = None) -> IntArray:
    """The best labelling of every example, with these numbers added to the scores of labels."""
    return decode(bound, w, backend, added)


def with_added(bound: Any, w: FloatArray, added: FloatArray | None) -> tuple[Any, FloatArray]:
    """A structure and weights with these numbers added to the scores of labels: as a feature of labels of weight 1."""
    if added is None:
        return bound, w
    if not isinstance(bound, BatchStructure):
        raise TextError(f"{bound.described} cannot rank labellings where outside is not 0; fit with outside=0.")
    n_nodes, n_known = int(bound.offsets[-1]), bound.layout.n_label_features
    features = np.empty((n_nodes, len(added), n_known + 1))
    features[..., :n_known] = bound.batch.label_features.reshape(n_nodes, len(added), n_known)
    features[..., n_known] = added
    layout = replace(bound.layout, n_label_features=n_known + 1)
    return replace(bound, layout=layout, batch=bound.batch._replace(label_features=features)), np.append(w, 1.0)


class Outside(NamedTuple):
    """What to add to the score of the label O, and the F1 of spans held out with it."""

    added: float
    f1: float


def fit_outside(folds: list[HeldOut], temperature: float, scheme: str) -> Outside:
    """What to add to the score of the label O: at most 0, and 0 where labels are not those of spans and outside.

    Of all numbers whose F1 is not clearly below the best one, by more than a standard error of the difference, it is
    the one nearest to 0.

    Parameters
    ----------
    folds : list of HeldOut
    temperature : float
        Of the models of the folds: its product with the steps of `LOWERED` is tried.
    scheme : str
        Of the tags.
    """
    truth = [labels for fold in folds for labels in truth_of(fold)]
    tags = {label for labels in truth for label in labels}
    if scheme == LABELS or OUTSIDE not in tags or not all(isinstance(tag, str) for tag in tags):
        return Outside(0.0, np.nan)
    true_spans = [set(find_spans(labels, scheme)) for labels in truth]
    counts = []
    for lowered in LOWERED.tolist():
        found: list[Any] = []
        for fold in folds:
            model = fold.model.model_
            added = added_scores(model.classes, -temperature * lowered)
            found += model.labellings(fold.examples, decode_with(fold.bound, model.weights, added))
        spans = [set(find_spans(labels, scheme)) for labels in found]
        counts.append([(2 * len(a & b), len(a) + len(b)) for a, b in zip(true_spans, spans)])
    table = np.array(counts, dtype=np.float64)
    best = nearest_to_best(table)
    right, all_spans = table[best].sum(axis=0)
    return Outside(0.0 - temperature * float(LOWERED[best]), float(right / max(all_spans, 1.0)))


def nearest_to_best(counts: FloatArray) -> int:
    """The first candidate whose F1 is at most a standard error of the difference below that of the best one.

    Parameters
    ----------
    counts : ndarray of shape (n_candidates, n_sentences, 2)
        Twice the spans that are right, and spans that there are and that were found: F1 is the ratio of their sums.

    Examples
    --------
    >>> one, two = [[2, 2], [2, 2], [0, 2], [2, 3]], [[2, 2], [2, 3], [2, 2], [2, 2]]
    >>> nearest_to_best(np.array([one, two, two], dtype=float))  # better in two sentences, worse in one
    0
    >>> nearest_to_best(np.array([one * 10, two * 10, two * 10], dtype=float))
    1
    """
    totals = counts.sum(axis=1)
    f1 = totals[:, 0] / np.maximum(totals[:, 1], 1.0)
    # by how much F1 changes with a sentence, to first order
    influence = (counts[..., 0] - f1[:, None] * counts[..., 1]) / np.maximum(totals[:, 1], 1.0)[:, None]
    best = int(np.argmax(f1))
    error = np.sqrt(((influence - influence[best]) ** 2).sum(axis=1))
    return int(np.argmax(f1[best] - f1 <= error))


def truth_of(fold: HeldOut) -> list[list[Any]]:
    """The true labels of every sentence."""
    labels = np.asarray(fold.examples.y).tolist()
    return [labels[first:last] for first, last in pairwise(fold.examples.offsets.tolist())]
