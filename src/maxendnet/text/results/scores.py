"""Precision, recall and F1 of spans, identical to conlleval and seqeval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import LABELS, find_spans
from maxendnet.text.reading.tag_schemes import as_lists, read_tags, repaired

IntArray = NDArray[np.int64]


class Score(NamedTuple):
    """Precision, recall and F1, with their counts."""

    precision: float
    recall: float
    f1: float
    n_true: int
    n_predicted: int
    n_right: int


@dataclass(frozen=True)
class SpanScores:
    """Scores of predicted spans. ``print`` shows the report of conlleval.

    Parameters
    ----------
    overall : Score
        Score of all spans.
    by_type : dict of str to Score
        Score of each type, sorted by type.
    n_tokens, n_right_tokens : int
        Number of tokens, and number of tokens with the correct label.
    scheme : str, default="IOB2"
        Tag scheme. For `LABELS`, spans are runs of one label, and the report says so.

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
    scheme: str = "IOB2"

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
        """Share of tokens with the correct label."""
        return self.n_right_tokens / self.n_tokens if self.n_tokens else 0.0

    def average(self, how: str) -> tuple[float, float, float]:
        """Return precision, recall and F1, averaged over types.

        Parameters
        ----------
        how : {"micro", "macro", "weighted"}
            "micro" counts all spans together, "macro" is the mean over types, and "weighted" the mean weighted by the
            number of true spans.
        """
        if how == "micro":
            return self.overall[:3]
        if how not in ("macro", "weighted"):
            raise TextError(f"average must be 'micro', 'macro' or 'weighted', got {how!r}.")
        rows = np.array([score[:3] for score in self.by_type.values()], dtype=np.float64).reshape(-1, 3)
        weights = [score.n_true for score in self.by_type.values()] if how == "weighted" else None
        if not len(rows) or (weights is not None and not sum(weights)):
            return 0.0, 0.0, 0.0
        # copied to contiguous columns, because numpy sums strided ones in another order
        precision, recall, f1 = (float(np.average(np.ascontiguousarray(rows[:, k]), weights=weights)) for k in range(3))
        return precision, recall, f1

    @classmethod
    def joined(cls, parts: Iterable[SpanScores]) -> SpanScores:
        """Return the scores of all sentences from the scores of parts.

        Examples
        --------
        >>> parts = [span_scores([["B-PER"]], [["B-PER"]]), span_scores([["B-LOC"]], [["O"]])]
        >>> SpanScores.joined(parts) == span_scores([["B-PER"], ["B-LOC"]], [["B-PER"], ["O"]])
        True
        """
        counts: dict[str, IntArray] = {}
        n_tokens = n_right_tokens = 0
        scheme = "IOB2"
        for part in parts:
            scheme, n_tokens, n_right_tokens = (
                part.scheme, n_tokens + part.n_tokens, n_right_tokens + part.n_right_tokens
            )  # fmt: skip
            for kind, score in part.by_type.items():
                counts[kind] = counts.get(kind, 0) + np.array(score[3:], dtype=np.int64)
        by_type = {kind: _score(*counts[kind].tolist()) for kind in sorted(counts)}
        overall = _score(*sum(counts.values(), np.zeros(3, dtype=np.int64)).tolist())
        return cls(overall, by_type, n_tokens, n_right_tokens, scheme)

    def as_dict(self) -> dict[str, Any]:
        """Return all scores as plain values for JSON."""
        return {
            **self.overall._asdict(),
            "accuracy": self.accuracy,
            "n_tokens": self.n_tokens,
            "by_type": {kind: score._asdict() for kind, score in self.by_type.items()},
        }

    def __str__(self) -> str:
        _, _, _, n_true, n_predicted, n_right = self.overall
        unit = "runs of one label" if self.scheme == LABELS else "phrases"
        lines = [
            f"processed {self.n_tokens} tokens with {n_true} {unit}; found: {n_predicted} {unit}; correct: {n_right}.",
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
    """Compare predicted with true spans.

    A span is correct if its first token, its last token and its type are correct.

    Parameters
    ----------
    y_true, y_pred : list of sequences of str
    scheme : str, default="auto"
        Tag scheme; see `maxendnet.text.reading.spans`. "auto" detects the scheme of ``y_true``.
    strict : bool, default=False
        Whether to ignore spans that violate the scheme, as with ``mode="strict"`` in seqeval. By default they are
        interpreted as by conlleval.
    repair : bool, default=False
        Whether to correct misspelt tags, such as ``0`` for ``O`` and ``B_PER`` for ``B-PER``, and to rewrite misplaced
        tags. By default misspelt tags in ``y_true`` raise an error.

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
        raise TextError(f"y_true has {len(truth)} sentences and y_pred {len(predicted)}; expected the same sentences.")
    truth, chosen = read_tags(truth, scheme, repair)
    if repair:
        predicted = repaired(predicted, chosen)
    n_true: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_right: Counter[str] = Counter()
    n_tokens = n_right_tokens = 0
    for i, (tags, predicted_tags) in enumerate(zip(truth, predicted)):
        if len(tags) != len(predicted_tags):
            raise TextError(
                f"y_true[{i}] has {len(tags)} tags and y_pred[{i}] {len(predicted_tags)}; expected one tag per token."
            )
        n_tokens += len(tags)
        n_right_tokens += sum(a == b for a, b in zip(tags, predicted_tags))
        spans, predicted_spans = find_spans(tags, chosen, strict), find_spans(predicted_tags, chosen, strict)
        n_true.update(span.type for span in spans)
        n_predicted.update(span.type for span in predicted_spans)
        n_right.update(span.type for span in set(spans) & set(predicted_spans))
    by_type = {kind: _score(n_true[kind], n_predicted[kind], n_right[kind]) for kind in sorted({*n_true, *n_predicted})}
    overall = _score(n_true.total(), n_predicted.total(), n_right.total())
    return SpanScores(overall, by_type, n_tokens, n_right_tokens, chosen)


def _score(n_true: int, n_predicted: int, n_right: int) -> Score:
    precision = n_right / n_predicted if n_predicted else 0.0
    recall = n_right / n_true if n_true else 0.0
    # same order of operations as in seqeval, for bit-for-bit identical results
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
    """Return the span F1. It can be passed to ``make_scorer``.

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
    """Return the span F1 of a model, as a scorer for ``scoring=`` in scikit-learn.

    For labels that are not span tags, such as parts of speech, the score is the token accuracy.

    Parameters
    ----------
    model : estimator
        A fitted model with ``predict``.
    X, y : as for ``model.score``
    scheme : str, default="auto"
        Tag scheme; "auto" detects it in y.

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
