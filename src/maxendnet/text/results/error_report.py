"""Errors of a tagger on labelled sentences, with probabilities and reasons, and counts of their kinds."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from maxendnet.text.fitting.calibration import Reliability, reliability
from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.spans import LABELS
from maxendnet.text.reading.tag_schemes import read_tags, repaired
from maxendnet.text.results import error_html
from maxendnet.text.results.explain import TokenExplanation
from maxendnet.text.results.learning_curve import CurvePoint, curve_text
from maxendnet.text.results.scores import SpanScores, span_scores
from maxendnet.text.results.span_errors import KINDS, SpanPair, span_errors, units
from maxendnet.utils.atomic_write import write_whole

N_REASONS = 5
"""Number of features that are shown for an error."""
CONTEXT = 6
"""Number of tokens before and after an error that are shown."""


@dataclass(frozen=True)
class Error:
    """An error of a tagger.

    Attributes
    ----------
    place : str
        File and line of the first token of the error, or the numbers of the sentence and token.
    pair : SpanPair
        The true and the predicted span.
    rows : list of tuples
        Columns of each token of the sentence.
    truth, predicted : list of labels
        Labels of the sentence.
    probability : float or None
        Probability of the predicted span, or of the predicted label if there is none. None without a model.
    """

    place: str
    pair: SpanPair
    rows: Sequence[Any]
    truth: Sequence[Any]
    predicted: Sequence[Any]
    probability: float | None

    @property
    def words(self) -> list[str]:
        return [row if isinstance(row, str) else str(row[0]) for row in self.rows]

    @property
    def token(self) -> int:
        """The first token with a wrong label."""
        wrong = (t for t in range(self.pair.start, self.pair.end) if self.truth[t] != self.predicted[t])
        return next(wrong, self.pair.start)

    @property
    def context(self) -> tuple[int, int]:
        """First token that is shown, and one past the last."""
        return max(0, self.pair.start - CONTEXT), min(len(self.rows), self.pair.end + CONTEXT)


@dataclass(eq=False)
class ErrorReport:
    """Scores and errors of predictions, which may be added in parts.

    Parameters
    ----------
    tagger : Tagger or None
        None for predictions of unknown origin, without probabilities and reasons.
    scheme : str
        Tag scheme of the labels. With `LABELS`, errors are single tokens.
    strict : bool, default=False
        Whether to ignore spans that violate the scheme.
    repair : bool, default=False
        Whether predicted tags are repaired before they are scored.

    Attributes
    ----------
    errors : list of Error
    curve : list of CurvePoint
        Learning curve, which is shown if it is not empty.

    Examples
    --------
    >>> report = ErrorReport(None, "IOB2")
    >>> report.add(Columns.of([["Ada", "met", "Bob"]]), [["B-PER", "O", "B-PER"]], [["B-PER", "O", "B-LOC"]])
    >>> report.scores.f1, report.confusion["PER", "LOC"]
    (0.5, 1)
    >>> print(next(report.error_lines()))
    sentence 0 token 2: type: truth PER "Bob", predicted LOC "Bob"
        Ada met Bob
    """

    tagger: Any
    scheme: str
    strict: bool = False
    repair: bool = False
    errors: list[Error] = field(default_factory=list, init=False)
    curve: list[CurvePoint] = field(default_factory=list, init=False)
    _scores: list[SpanScores] = field(default_factory=list, init=False)
    _right: Counter[str] = field(default_factory=Counter, init=False)
    _probabilities: list[float] = field(default_factory=list, init=False)
    _is_right: list[bool] = field(default_factory=list, init=False)

    def add(self, X: Columns, truth: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> None:
        """Add sentences with their true and predicted labels."""
        if self.repair:
            predicted = repaired(list(map(list, predicted)), self.scheme)
        self._scores.append(span_scores(truth, predicted, self.scheme, self.strict))
        marginals: list[Any] = [None] * len(truth) if self.tagger is None else self.tagger.predict_confidence(X)
        has_spans = self.tagger is not None and self.scheme != LABELS
        scored: list[Any] = self.tagger.predict_spans(X) if has_spans else [None] * len(truth)
        for i, (tags, labels) in enumerate(zip(truth, predicted)):
            true_spans, spans = (units(row, self.scheme, self.strict) for row in (tags, labels))
            self._right.update(span.type for span in set(true_spans) & set(spans))
            tokens = None if marginals[i] is None else marginals[i].tokens
            probabilities = {} if scored[i] is None else {span[:3]: span.probability for span in scored[i]}
            if self.scheme == LABELS and tokens is not None:
                probabilities = {tuple(span): float(tokens[span.start]) for span in spans}
            self._probabilities += [probabilities[span] for span in spans if span in probabilities]
            self._is_right += [span in true_spans for span in spans if span in probabilities]
            for pair in span_errors(true_spans, spans):
                error = Error(X.place(i, pair.start), pair, X[i], tags, labels, None)
                probability = probabilities.get(pair.predicted)
                if probability is None and tokens is not None:
                    probability = float(tokens[error.token])
                self.errors.append(Error(error.place, pair, error.rows, tags, labels, probability))

    @cached_property
    def _explains(self) -> bool:
        """Whether the labels of the tagger can be explained."""
        return self.tagger is not None and self.tagger.estimator_.model_.layout.n_labels == len(self.tagger.classes_)

    @property
    def scores(self) -> SpanScores:
        return SpanScores.joined(self._scores)

    @property
    def reliability(self) -> Reliability | None:
        """Accuracy of predicted spans, or of tokens for `LABELS`, by probability. None without a model."""
        return reliability(self._probabilities, self._is_right) if self._probabilities else None

    @property
    def confusion(self) -> Counter[tuple[str, str]]:
        """Number of spans of each true and predicted type, for spans whose boundaries are right or overlap."""
        counts = Counter({(kind, kind): n for kind, n in self._right.items()})
        counts.update(error.pair.types for error in self.errors)
        return counts

    @property
    def boundaries(self) -> Counter[tuple[int, int]]:
        """Number of errors for each `SpanPair.shift` of the start and the end."""
        return Counter(error.pair.shift for error in self.errors if error.pair.shift not in (None, (0, 0)))

    @property
    def kinds(self) -> dict[str, Counter[str]]:
        """Number of errors of each kind, and of right spans, by type. Spurious spans count for the predicted type."""
        counts: dict[str, Counter[str]] = {kind: Counter(right=n) for kind, n in self._right.items()}
        for error in self.errors:
            pair = error.pair
            counts.setdefault(pair.types[pair.truth is None], Counter())[pair.kind] += 1
        return dict(sorted(counts.items()))

    @property
    def by_confidence(self) -> list[Error]:
        """Errors with decreasing probability. The first ones are often errors of the annotation."""
        return sorted(self.errors, key=lambda error: -1.0 if error.probability is None else -error.probability)

    def why(self, error: Error, top: int = N_REASONS) -> TokenExplanation | None:
        """Return the explanation of the first wrong label of an error, or None if there is none."""
        if not self._explains:
            return None
        explanation: TokenExplanation = self.tagger.explain(error.rows, top, error.truth).tokens[error.token]
        return explanation

    # ---- output ------------------------------------------------------------------------------------------------------

    def error_lines(self) -> Iterator[str]:
        """Yield the text of each error, the most confident ones first."""
        for error in self.by_confidence:
            yield self._text(error)

    def _text(self, error: Error) -> str:
        words, (first, last) = error.words, error.context
        parts = []
        for name, span in (("truth", error.pair.truth), ("predicted", error.pair.predicted)):
            shown = "nothing" if span is None else f'{span.type} "{" ".join(words[span.start : span.end])}"'
            parts.append(f"{name} {shown}")
        probability = "" if error.probability is None else f" ({error.probability:.2f})"
        before, after = "... " if first else "", " ..." if last < len(words) else ""
        lines = [
            f"{error.place}: {error.pair.kind}: {', '.join(parts)}{probability}",
            f"    {before}{' '.join(words[first:last])}{after}",
        ]
        why = self.why(error)
        if why is not None and why.runner_up is not None:
            reasons = ", ".join(
                f"{reason.name} {reason.contribution:+.2f}" for reason in why.reasons if reason.kind != "rest"
            )
            lines.append(
                f'    at "{why.token}": {why.label} ({why.probability:.2f}), not {why.runner_up} '
                f"({why.runner_up_probability:.2f}): {reasons}"
            )
        return "\n".join(lines)

    def as_dict(self, with_errors: bool = True) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = self.scores.as_dict()
        if with_errors:
            values |= {
                "kinds": {kind: dict(counts) for kind, counts in self.kinds.items()},
                "confusion": [
                    {"truth": true, "predicted": predicted, "count": n}
                    for (true, predicted), n in sorted(self.confusion.items())
                ],
                "errors": [self._error_dict(error) for error in self.by_confidence],
            }
        if self.curve:
            values["learning_curve"] = [point._asdict() for point in self.curve]
        return values

    def _error_dict(self, error: Error) -> dict[str, Any]:
        why = self.why(error)
        return {
            "place": error.place, "kind": error.pair.kind, "tokens": error.words,
            "truth": None if error.pair.truth is None else error.pair.truth._asdict(),
            "predicted": None if error.pair.predicted is None else error.pair.predicted._asdict(),
            "probability": error.probability,
            "token": error.token,
            "why": [] if why is None else [reason._asdict() for reason in why.reasons],
        }  # fmt: skip

    def to_json(self, with_errors: bool = True) -> str:
        return json.dumps(self.as_dict(with_errors), indent=2, ensure_ascii=False)

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "Errors") -> str:
        """Return a self-contained HTML page, and write it to ``path`` if that is not None."""
        text = error_html.page(self, title)
        if path is not None:
            write_whole(path, lambda file: file.write(text.encode()))
        return text

    def __str__(self) -> str:
        return "\n".join([str(self.scores), *([curve_text(self.curve, self.scheme)] if self.curve else [])])

    @property
    def n_by_kind(self) -> dict[str, int]:
        """Number of errors of each kind."""
        counts = Counter(error.pair.kind for error in self.errors)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}


def error_report(tagger: Any, X: Any, y: Any, strict: bool = False) -> ErrorReport:
    """Compare the predictions of a tagger with true labels, and collect its errors.

    Parameters
    ----------
    tagger : Tagger
    X : Columns, or list of sentences
    y : list of lists of labels
    strict : bool, default=False
        Whether to ignore spans that violate the scheme.

    Returns
    -------
    ErrorReport
        Has ``scores``, ``errors``, ``confusion``, ``kinds``, ``boundaries`` and ``reliability``; ``to_html(path)``
        writes a page.

    Examples
    --------
    >>> from maxendnet.text import Tagger
    >>> sentences = [["Ada", "met", "Bob"], ["Bob", "slept"]]
    >>> tagger = Tagger().fit(sentences, [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
    >>> report = error_report(tagger, [["Ada", "met", "Bob"]], [["B-LOC", "O", "B-PER"]])
    >>> [(error.pair.kind, error.pair.types) for error in report.errors]
    [('type', ('LOC', 'PER'))]
    """
    columns = tagger.features_.read(X)
    truth, scheme = read_tags(y, tagger.scheme_, tagger.repair, columns.place)
    report = ErrorReport(tagger, scheme, strict, tagger.repair)
    report.add(columns, truth, tagger.predict(columns))
    return report
