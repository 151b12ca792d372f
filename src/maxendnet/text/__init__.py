"""Sequence labelling for people with text: column files, templates, taggers, spans and their probabilities.

>>> from maxendnet.text import Tagger
>>> sentences = [["Ada", "met", "Bob"], ["Bob", "slept"]]
>>> tagger = Tagger().fit(sentences, [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
>>> tagger.predict([["Ada", "slept"]])
[['B-PER', 'O']]
"""

from typing import TYPE_CHECKING

from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    from maxendnet.text.features.templates import read_template
    from maxendnet.text.features.token_features import DictFeatures, TokenFeatures
    from maxendnet.text.fitting.calibration import Reliability, fit_temperature, reliability
    from maxendnet.text.reading.column_files import ColumnFiles
    from maxendnet.text.reading.columns import Columns, read_columns, write_columns
    from maxendnet.text.reading.errors import TextError
    from maxendnet.text.reading.records import read_frame, read_records
    from maxendnet.text.reading.spans import Span, find_spans, write_tags
    from maxendnet.text.reading.tag_schemes import check_tags, convert_tags
    from maxendnet.text.results.confidence import predict_confidence, predict_ranked, predict_spans
    from maxendnet.text.results.explain import explain_model, explain_sentence
    from maxendnet.text.results.scores import SpanScores, span_f1, span_scorer, span_scores
    from maxendnet.text.tagger import Tagger

_, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = [
    "ColumnFiles",
    "Columns",
    "DictFeatures",
    "Reliability",
    "Span",
    "SpanScores",
    "Tagger",
    "TextError",
    "TokenFeatures",
    "check_tags",
    "convert_tags",
    "explain_model",
    "explain_sentence",
    "find_spans",
    "fit_temperature",
    "predict_confidence",
    "predict_ranked",
    "predict_spans",
    "read_columns",
    "read_frame",
    "read_records",
    "read_template",
    "reliability",
    "span_f1",
    "span_scorer",
    "span_scores",
    "write_columns",
    "write_tags",
]
