"""Learning curve: the score of a tagger by the number of training sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxendnet.text.reading.spans import LABELS
from maxendnet.text.results.scores import span_scorer
from maxendnet.utils.scikit_learn import clone

N_HALVINGS = 4
"""The smallest part of the training sentences is 1/16, so that all fits together take about twice as long as one."""
MIN_SENTENCES = 10
"""Minimum number of sentences of a part."""
MAX_SCORED = 2000
"""Maximum number of training sentences that are scored."""


class CurvePoint(NamedTuple):
    """Scores after a fit to a part of the training sentences."""

    n_sentences: int
    training: float
    """Score on the training sentences of the fit."""
    test: float
    """Score on the test sentences."""


def learning_curve(tagger: Any, X: Any, y: Sequence[Any], new: Any, truth: Any, seed: int = 0) -> list[CurvePoint]:
    """Score copies of a tagger after fits to parts of the training sentences.

    The parts are random and nested. Features, model and hyper-parameters are those of the tagger; the temperature and
    the outside bias are fitted each time. The score is that of `span_scorer`.

    Parameters
    ----------
    tagger : Tagger
        A fitted tagger.
    X, y : list of sentences, or Columns, and list of lists of labels
        Training sentences.
    new, truth : list of sentences, or Columns, and list of lists of labels
        Test sentences.
    seed : int, default=0
        Seed of the random parts.

    Returns
    -------
    list of CurvePoint
        With increasing numbers of sentences. Parts with a single label are left out.

    Examples
    --------
    >>> from maxendnet.text import Tagger, read_columns
    >>> X, y = read_columns(["Ada B-PER", "slept O", "", "Bob B-PER", "met O", ""] * 10).split()
    >>> tagger = Tagger().fit(X, y)
    >>> [(point.n_sentences, point.test) for point in learning_curve(tagger, X, y, X, y)]
    [(10, 1.0), (20, 1.0)]
    """
    X = tagger.features_.read(X)
    order = np.random.default_rng(seed).permutation(len(y))
    points = []
    for n in [len(y) >> k for k in range(N_HALVINGS, 0, -1) if len(y) >> k >= MIN_SENTENCES] + [len(y)]:
        rows = np.sort(order[:n])
        labels = [y[i] for i in rows]
        if len({label for row in labels for label in row}) < 2:
            continue
        copy = clone(tagger).set_params(
            scheme=tagger.scheme_, inner=None if tagger.inner_ is None else "BIOES", search=False
        )
        copy.fit(X[rows], labels)
        scored = rows[:MAX_SCORED]
        training = span_scorer(copy, X[scored], [y[i] for i in scored], tagger.scheme_)
        points.append(CurvePoint(n, training, span_scorer(copy, new, truth, tagger.scheme_)))
    return points


def measure_of(scheme: str) -> str:
    """Return the name of the score of a scheme."""
    return "accuracy" if scheme == LABELS else "F1"


def curve_text(points: Sequence[CurvePoint], scheme: str) -> str:
    """Return a learning curve as a table.

    Examples
    --------
    >>> print(curve_text([CurvePoint(50, 0.99, 0.6), CurvePoint(100, 0.98, 0.7)], "IOB2"))
    learning curve, F1
     sentences  training    test
            50     99.00   60.00
           100     98.00   70.00
    """
    rows = [f"{n:>10}{100 * training:>10.2f}{100 * test:>8.2f}" for n, training, test in points]
    return "\n".join([f"learning curve, {measure_of(scheme)}", " sentences  training    test", *rows])
