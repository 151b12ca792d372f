"""Precision, recall and F1 of spans, as conlleval and seqeval count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import LABELS, find_spans
from maxendnet.text.reading.tag_schemes import as_lists, read_tags, repaired


class Score(NamedTuple):
    """Precision, recall and F1, and the counts behind them."""

    precision: float
    recall: float
    f1: float
    n_true: int
    n_predicted: int
    n_right: int


@dataclass(frozen=True)
class SpanScores:
    """What `span_scores` found; printed, it is the report of conlleval.

    Parameters
    ----------
    overall : Score
        Over spans of all types together.
    by_type : dict of str to Score
        Sorted by the type.
    n_tokens, n_right_tokens : int
        Tokens, and those with the right tag.

    Examples
    --------
    >>> print(span_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]]))
    processed 4 tokens with 2 phrases; found: 1 phrases; correct: 1.
    accuracy:  75.00%; precision: 100.00%; recall:  50.00%; FB1:  66.67
                  LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
                  PER: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
    """

    overall: Score
    by_type: dict[str, Score]
    n_tokens: int
    n_right_tokens: int

    @property
    def precision(self) -> float:
        return self.overall.precision

    @property
    def recall(self) -> float:
        return self.overall.recall

    @property
    def f1(self) -> float:
        return self.overall.f1

    @property
    def accuracy(self) -> float:
        """Share of tokens with the right tag."""
        return self.n_right_tokens / self.n_tokens if self.n_tokens else 0.0

    def average(self, how: str) -> tuple[float, float, float]:
        """Precision, recall and F1: "micro" over all spans, "macro" the mean over types, "weighted" by their spans."""
        if how == "micro":
            return self.overall[:3]
        if how not in ("macro", "weighted"):
            raise TextError(f"average must be 'micro', 'macro' or 'weighted', got {how!r}.")
        rows = np.array([score[:3] for score in self.by_type.values()], dtype=np.float64).reshape(-1, 3)
        weights = [score.n_true for score in self.by_type.values()] if how == "weighted" else None
        if not len(rows) or (weights is not None and not sum(weights)):
            return 0.0, 0.0, 0.0
        # column by column: numpy adds up a strided column in another order than a contiguous one
        precision, recall, f1 = (float(np.average(np.ascontiguousarray(rows[:, k]), weights=weights)) for k in range(3))
        return precision, recall, f1

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, ready for JSON."""
        return {
            **self.overall._asdict(),
            "accuracy": self.accuracy,
            "n_tokens": self.n_tokens,
            "by_type": {kind: score._asdict() for kind, score in self.by_type.items()},
        }

    def __str__(self) -> str:
        _, _, _, n_true, n_predicted, n_right = self.overall
        lines = [
            f"processed {self.n_tokens} tokens with {n_true} phrases; "
            f"found: {n_predicted} phrases; correct: {n_right}.",
            f"accuracy: {100 * self.accuracy:6.2f}%; {_percent(self.overall)}",
        ]
        lines += [f"{kind:>17}: {_percent(score)}  {score.n_predicted}" for kind, score in self.by_type.items()]
        return "\n".join(lines)


def _percent(score: Score) -> str:
    precision, recall, f1 = (100 * value for value in score[:3])
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def span_scores(
    y_true: Iterable[Sequence[Any]],
    y_pred: Iterable[Sequence[Any]],
    scheme: str = "auto",
    strict: bool = False,
    repair: bool = False,
) -> SpanScores:
    """Compare the spans of two taggings of the same sentences.

    A span is right if its first token, its last token and its type are.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
    scheme : str, default="auto"
        See `maxendnet.text.reading.spans`; "auto" finds that of ``y_true``.
    strict : bool, default=False
        Leave out spans, in both, that break the scheme; seqeval's ``mode="strict"``. Otherwise they are read as
        conlleval reads them.
    repair : bool, default=False
        In both, correct misspelt tags, such as ``0`` for ``O`` and ``B_PER`` for ``B-PER``, and write misplaced ones
        as the scheme asks for. Otherwise misspelt tags in ``y_true`` are an error.

    Returns
    -------
    SpanScores

    Examples
    --------
    >>> scores = span_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "O", "O"]])
    >>> scores.precision, scores.recall, round(scores.f1, 4)
    (1.0, 0.5, 0.6667)
    >>> scores.by_type["LOC"].n_true
    1
    """
    truth, predicted = as_lists(y_true), as_lists(y_pred)
    if len(truth) != len(predicted):
        raise TextError(f"y_true has {len(truth)} sentences and y_pred {len(predicted)}; give the same sentences.")
    truth, chosen = read_tags(truth, scheme, repair)
    if repair:
        predicted = repaired(predicted, chosen)
    n_true: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_right: Counter[str] = Counter()
    n_tokens = n_right_tokens = 0
    for i, (one, other) in enumerate(zip(truth, predicted)):
        if len(one) != len(other):
            raise TextError(f"y_true[{i}] has {len(one)} tags and y_pred[{i}] {len(other)}; give one for each token.")
        n_tokens += len(one)
        n_right_tokens += sum(a == b for a, b in zip(one, other))
        spans, found = (find_spans(tags, chosen, strict) for tags in (one, other))
        n_true.update(span.type for span in spans)
        n_predicted.update(span.type for span in found)
        n_right.update(span.type for span in set(spans) & set(found))
    by_type = {kind: _score(n_true[kind], n_predicted[kind], n_right[kind]) for kind in sorted({*n_true, *n_predicted})}
    overall = _score(n_true.total(), n_predicted.total(), n_right.total())
    return SpanScores(overall, by_type, n_tokens, n_right_tokens)


def _score(n_true: int, n_predicted: int, n_right: int) -> Score:
    precision = n_right / n_predicted if n_predicted else 0.0
    recall = n_right / n_true if n_true else 0.0
    # in the order of operations of seqeval, so that the last digit is the same
    f1 = 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Score(precision, recall, f1, n_true, n_predicted, n_right)


def span_f1(
    y_true: Any,
    y_pred: Any,
    scheme: str = "auto",
    average: str = "micro",
    strict: bool = False,
    repair: bool = False,
) -> float:
    """F1 of spans; a metric for ``make_scorer``.

    Parameters
    ----------
    y_true, y_pred, scheme, strict, repair : as for `span_scores`
    average : {"micro", "macro", "weighted"}, default="micro"

    Examples
    --------
    >>> round(span_f1([["B-PER", "O"], ["B-LOC"]], [["B-PER", "O"], ["O"]]), 4)
    0.6667
    """
    return span_scores(y_true, y_pred, scheme, strict, repair).average(average)[2]


def span_scorer(model: Any, X: Any, y: Any, scheme: str = "auto") -> float:
    """F1 of the spans that a model finds: ``scoring=span_scorer`` of scikit-learn's tools and of `PathSearchCV`.

    Where labels have no letters, as those of parts of speech, spans of one label say less than tokens do, and the
    share of tokens with the right label is taken.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from maxendnet import M3N
    >>> X = [[{"word": "Ada"}, {"word": "wrote"}], [{"word": "We"}, {"word": "met"}, {"word": "Ada"}]] * 4
    >>> y = [["B-PER", "O"], ["O", "O", "B-PER"]] * 4
    >>> cross_val_score(M3N(), X, y, cv=2, scoring=span_scorer).tolist()
    [1.0, 1.0]
    """
    truth, chosen = read_tags(y, scheme)
    scores = span_scores(truth, model.predict(X), chosen)
    return scores.accuracy if chosen == LABELS else scores.f1
