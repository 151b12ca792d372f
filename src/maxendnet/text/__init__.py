"""Sequence labelling for people with text: column files, spans and their scores.

>>> from maxendnet.text import find_spans, read_columns
>>> X, y = read_columns(["Ada B-PER", "met O", "Bob B-PER"]).split()
>>> find_spans(y[0])
[Span(start=0, end=1, type='PER'), Span(start=2, end=3, type='PER')]
"""

from maxendnet.text.columns import Columns, read_columns, write_columns
from maxendnet.text.errors import TextError
from maxendnet.text.scores import SpanScores, span_f1, span_scorer, span_scores
from maxendnet.text.spans import Span, check_tags, convert_tags, find_spans, write_tags

__all__ = [
    "Columns",
    "Span",
    "SpanScores",
    "TextError",
    "check_tags",
    "convert_tags",
    "find_spans",
    "read_columns",
    "span_f1",
    "span_scorer",
    "span_scores",
    "write_columns",
    "write_tags",
]
