"""Sequence labelling for people with text: column files, templates, spans and their scores.

>>> from maxendnet.text import TokenFeatures, find_spans, read_columns
>>> X, y = read_columns(["Ada B-PER", "met O", "Bob B-PER"]).split()
>>> TokenFeatures("words").fit_transform(X, y).n_nodes
3
>>> find_spans(y[0])
[Span(start=0, end=1, type='PER'), Span(start=2, end=3, type='PER')]
"""

from maxendnet.text.columns import Columns, read_columns, write_columns
from maxendnet.text.errors import TextError
from maxendnet.text.records import read_frame, read_records
from maxendnet.text.scores import SpanScores, span_f1, span_scorer, span_scores
from maxendnet.text.spans import Span, check_tags, convert_tags, find_spans, write_tags
from maxendnet.text.templates import read_template
from maxendnet.text.token_features import DictFeatures, TokenFeatures

__all__ = [
    "Columns",
    "DictFeatures",
    "Span",
    "SpanScores",
    "TextError",
    "TokenFeatures",
    "check_tags",
    "convert_tags",
    "find_spans",
    "read_columns",
    "read_frame",
    "read_records",
    "read_template",
    "span_f1",
    "span_scorer",
    "span_scores",
    "write_columns",
    "write_tags",
]
