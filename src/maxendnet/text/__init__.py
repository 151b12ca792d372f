"""Sequence labelling of text: taggers, features, column files and spans.

>>> from maxendnet.text import Tagger
>>> sentences = [["Ada", "met", "Bob"], ["Bob", "slept"]]
>>> tagger = Tagger().fit(sentences, [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
>>> tagger.predict([["Ada", "slept"]])
[['B-PER', 'O']]
"""

from typing import TYPE_CHECKING

from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    from maxendnet.text.features.own_features import OwnFeatures as OwnFeatures
    from maxendnet.text.features.templates import read_template as read_template
    from maxendnet.text.features.token_features import DictFeatures as DictFeatures
    from maxendnet.text.features.token_features import TokenFeatures as TokenFeatures
    from maxendnet.text.fitting.calibration import Reliability as Reliability
    from maxendnet.text.fitting.calibration import fit_temperature as fit_temperature
    from maxendnet.text.fitting.calibration import reliability as reliability
    from maxendnet.text.integrations.conllu import read_conllu as read_conllu
    from maxendnet.text.integrations.frames import read_frame as read_frame
    from maxendnet.text.integrations.frames import tag_frame as tag_frame
    from maxendnet.text.integrations.label_studio import label_studio_tasks as label_studio_tasks
    from maxendnet.text.integrations.label_studio import read_label_studio as read_label_studio
    from maxendnet.text.reading.column_files import ColumnFiles as ColumnFiles
    from maxendnet.text.reading.columns import Columns as Columns
    from maxendnet.text.reading.columns import read_columns as read_columns
    from maxendnet.text.reading.columns import stream_columns as stream_columns
    from maxendnet.text.reading.columns import write_columns as write_columns
    from maxendnet.text.reading.errors import TextError as TextError
    from maxendnet.text.reading.records import read_records as read_records
    from maxendnet.text.reading.spans import Span as Span
    from maxendnet.text.reading.spans import find_spans as find_spans
    from maxendnet.text.reading.spans import write_tags as write_tags
    from maxendnet.text.reading.tag_schemes import check_tags as check_tags
    from maxendnet.text.reading.tag_schemes import convert_tags as convert_tags
    from maxendnet.text.reading.tokenizer import Token as Token
    from maxendnet.text.reading.tokenizer import tokenize as tokenize
    from maxendnet.text.results.confidence import predict_confidence as predict_confidence
    from maxendnet.text.results.confidence import predict_ranked as predict_ranked
    from maxendnet.text.results.confidence import predict_spans as predict_spans
    from maxendnet.text.results.error_report import ErrorReport as ErrorReport
    from maxendnet.text.results.error_report import error_report as error_report
    from maxendnet.text.results.explain import explain_model as explain_model
    from maxendnet.text.results.explain import explain_sentence as explain_sentence
    from maxendnet.text.results.learning_curve import learning_curve as learning_curve
    from maxendnet.text.results.scores import SpanScores as SpanScores
    from maxendnet.text.results.scores import span_f1 as span_f1
    from maxendnet.text.results.scores import span_scorer as span_scorer
    from maxendnet.text.results.scores import span_scores as span_scores
    from maxendnet.text.tagger import Tagger as Tagger

_homes, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = [*_homes]
