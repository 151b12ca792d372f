"""Errors of predicted spans: pairs of true and predicted spans that differ.

A wrong span is paired with the wrong span of the other side with which it overlaps most. Pairs are errors of the type,
of the boundaries, or of both. Spans without a pair are missed or spurious. For labels that are not span tags, each
token is a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from maxendnet.text.reading.spans import LABELS, OUTSIDE, Span, find_spans

KINDS = ("type", "boundary", "type and boundary", "missed", "spurious")
NONE = "(none)"
"""Type that is shown where there is no span."""


class SpanPair(NamedTuple):
    """A true and a predicted span that overlap and differ, or one of them."""

    truth: Span | None
    predicted: Span | None

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.truth is None or self.predicted is None:
            return "spurious" if self.truth is None else "missed"
        if self.truth[:2] == self.predicted[:2]:
            return "type"
        return "boundary" if self.truth.type == self.predicted.type else "type and boundary"

    @property
    def types(self) -> tuple[str, str]:
        """The true and the predicted type."""
        return NONE if self.truth is None else self.truth.type, NONE if self.predicted is None else self.predicted.type

    @property
    def shift(self) -> tuple[int, int] | None:
        """How far the predicted start and end are from the true ones, as signs: -1 is too early, 1 too late."""
        if self.truth is None or self.predicted is None:
            return None
        starts, ends = self.predicted.start - self.truth.start, self.predicted.end - self.truth.end
        return (starts > 0) - (starts < 0), (ends > 0) - (ends < 0)

    @property
    def start(self) -> int:
        return min(span.start for span in self if span is not None)

    @property
    def end(self) -> int:
        """One past the last token of both spans."""
        return max(span.end for span in self if span is not None)


def units(tags: Sequence[Any], scheme: str, strict: bool = False) -> list[Span]:
    """Return the spans of a sentence, or its tokens if labels are not span tags.

    Examples
    --------
    >>> units(["DET", "NOUN"], "LABELS")
    [Span(start=0, end=1, type='DET'), Span(start=1, end=2, type='NOUN')]
    """
    if scheme == LABELS:
        return [Span(t, t + 1, str(tag)) for t, tag in enumerate(tags) if tag != OUTSIDE]
    return find_spans(tags, scheme, strict)


def span_errors(truth: Sequence[Span], predicted: Sequence[Span]) -> list[SpanPair]:
    """Return the errors of a sentence, in their order.

    Examples
    --------
    >>> for pair in span_errors([Span(0, 2, "PER"), Span(4, 5, "LOC")], [Span(1, 2, "PER"), Span(6, 7, "ORG")]):
    ...     print(pair.kind, pair.types, pair.shift)
    boundary ('PER', 'PER') (1, 0)
    missed ('LOC', '(none)') None
    spurious ('(none)', 'ORG') None
    """
    right = set(truth) & set(predicted)
    left = [span for span in truth if span not in right]
    others = [span for span in predicted if span not in right]

    def closeness(pair: tuple[Span, Span]) -> tuple[int, bool, int]:
        a, b = pair
        overlap = min(a.end, b.end) - max(a.start, b.start)
        return overlap, a.type == b.type, -abs(a.start - b.start)

    overlapping = [(a, b) for a in left for b in others if a.start < b.end and b.start < a.end]
    pairs: list[SpanPair] = []
    for a, b in sorted(overlapping, key=closeness, reverse=True):
        if a in left and b in others:
            pairs.append(SpanPair(a, b))
            left.remove(a)
            others.remove(b)
    pairs += [SpanPair(span, None) for span in left] + [SpanPair(None, span) for span in others]
    return sorted(pairs, key=lambda pair: (pair.start, pair.end))
