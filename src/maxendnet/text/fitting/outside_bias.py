"""Outside bias: a number added to the score of O for a better span F1.

The labelling with the highest score maximises the number of correct labels, not F1. With calibrated probabilities, F1
is best when all spans are predicted whose probability exceeds half of the best F1 (Lipton, Elkan & Naryanaswamy 2014).
Therefore a lower score of O improves F1 if most tokens are outside of spans and many spans are missed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.estimators.fitted import Labellings
from maxendnet.structures.base import decode
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.text.fitting.calibration import HeldOut
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import LABELS, OUTSIDE, find_spans

FloatArray = NDArray[np.float64]
STEPS = np.arange(0.0, 3.01, 0.25)
"""Candidate reductions of the log odds of O. The largest is equivalent to a threshold of 5 %, which suits an F1 of
10 %."""


def added_scores(classes: NDArray[Any], outside: float) -> FloatArray | None:
    """Return the numbers to add to the scores of all labels, or None if nothing changes.

    Examples
    --------
    >>> added_scores(np.array(["B-PER", "I-PER", "O"]), -0.5).tolist()
    [0.0, 0.0, -0.5]
    """
    labels = classes.tolist()
    if outside == 0.0 or OUTSIDE not in labels:
        return None
    return np.array([outside if label == OUTSIDE else 0.0 for label in labels])


def with_added(bound: Any, w: FloatArray, added: FloatArray | None) -> tuple[Any, FloatArray]:
    """Return a bound structure and weights that include the added scores.

    The added scores become the values of a label feature with weight 1.
    """
    if added is None:
        return bound, w
    if not isinstance(bound, BatchStructure):
        raise TextError(f"{bound.described} can rank labellings only with outside=0; fit the tagger with outside=0.")
    n_nodes, n_known = int(bound.offsets[-1]), bound.layout.n_label_features
    features = np.empty((n_nodes, len(added), n_known + 1))
    features[..., :n_known] = bound.batch.label_features.reshape(n_nodes, len(added), n_known)
    features[..., n_known] = added
    layout = replace(bound.layout, n_label_features=n_known + 1)
    return replace(bound, layout=layout, batch=bound.batch._replace(label_features=features)), np.append(w, 1.0)


def fit_outside(folds: list[HeldOut], temperature: float, scheme: str) -> tuple[float, float]:
    """Fit the outside bias to held-out sentences.

    The bias is at most 0. Among all candidates whose F1 is within one standard error of the best, it is the one nearest
    to 0. If the labels are not span tags with an outside label, the bias is 0 and F1 is NaN.

    Parameters
    ----------
    folds : list of HeldOut
    temperature : float
        Temperature of the models of the folds. The candidates are `STEPS` times the temperature.
    scheme : str
        Tag scheme.

    Returns
    -------
    bias, f1 : float
        The bias, and the span F1 on the held-out sentences with this bias.
    """
    truth = [labels for fold in folds for labels in true_labels(fold)]
    tags = {label for labels in truth for label in labels}
    if scheme == LABELS or OUTSIDE not in tags or not all(isinstance(tag, str) for tag in tags):
        return 0.0, np.nan
    true_spans = [set(find_spans(labels, scheme)) for labels in truth]
    table = np.empty((len(STEPS), len(truth), 2))
    last: list[Any] = [None] * len(truth)
    for k, step in enumerate(STEPS.tolist()):
        predicted = [labels for fold in folds for labels in predicted_labels(fold, -temperature * step)]
        table[k] = table[k - 1]
        for i, labels in enumerate(predicted):
            if labels != last[i]:  # most sentences do not change from one step to the next
                spans = set(find_spans(labels, scheme))
                table[k, i] = 2 * len(true_spans[i] & spans), len(true_spans[i]) + len(spans)
        last = predicted
    best = nearest_to_best(table)
    n_right, n_all = table[best].sum(axis=0)
    return 0.0 - temperature * float(STEPS[best]), float(n_right / max(n_all, 1.0))


def nearest_to_best(counts: FloatArray) -> int:
    """Return the first candidate within one standard error of the best F1.

    Parameters
    ----------
    counts : ndarray of shape (n_candidates, n_sentences, 2)
        Twice the number of correct spans, and the number of true plus predicted spans. F1 is the ratio of their sums.

    Examples
    --------
    >>> a, b = [[2, 2], [2, 2], [0, 2], [2, 3]], [[2, 2], [2, 3], [2, 2], [2, 2]]
    >>> nearest_to_best(np.array([a, b, b], dtype=float))  # b is better in two sentences, and worse in one
    0
    >>> nearest_to_best(np.array([a * 10, b * 10, b * 10], dtype=float))
    1
    """
    totals = counts.sum(axis=1)
    f1 = totals[:, 0] / np.maximum(totals[:, 1], 1.0)
    # influence of each sentence on F1, by a first-order approximation
    influence = (counts[..., 0] - f1[:, None] * counts[..., 1]) / np.maximum(totals[:, 1], 1.0)[:, None]
    best = int(np.argmax(f1))
    error = np.sqrt(((influence - influence[best]) ** 2).sum(axis=1))
    return int(np.argmax(f1[best] - f1 <= error))


def true_labels(fold: HeldOut) -> Labellings:
    """Return the true labels of each held-out sentence."""
    return Labellings.split(np.asarray(fold.examples.y), fold.examples.offsets)


def predicted_labels(fold: HeldOut, outside: float) -> Any:
    """Return the predicted labels of each held-out sentence, with this outside bias."""
    model = fold.model.model_
    labels = decode(fold.bound, model.weights, added=added_scores(model.classes, outside))
    return model.labellings(fold.examples, labels)
