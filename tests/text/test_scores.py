"""Span scores: identical to conlleval and seqeval."""

from __future__ import annotations

import json
from pathlib import Path

import conlleval
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score

from maxendnet import M3N, PathSearchCV
from maxendnet.text import span_f1, span_scorer, span_scores


def taggings(tags):
    """Strategy for pairs of taggings of the same sentences."""
    pair = st.tuples(st.sampled_from(tags), st.sampled_from(tags))
    sentence = st.lists(pair, max_size=8)
    return st.lists(sentence, min_size=1, max_size=5).map(
        lambda sentences: tuple([[p[k] for p in sentence] for sentence in sentences] for k in (0, 1))
    )


IOB = ["O", "B-X", "I-X", "B-Y", "I-Y", "B-Y-Z", "I-Y-Z"]
CASES = json.loads(Path(__file__).with_name("seqeval_cases.json").read_text())
"""Scores of seqeval for random taggings; see make_seqeval_cases.py."""


@given(taggings(IOB))
def test_counts_are_those_of_conlleval(pair):
    scores = span_scores(*pair, scheme="IOB2")
    (right, true, predicted), (tokens, right_tokens) = conlleval.counts(*pair)
    assert (scores.overall.n_right, scores.overall.n_true, scores.overall.n_predicted) == (right, true, predicted)
    assert (scores.n_tokens, scores.n_right_tokens) == (tokens, right_tokens)


def read(sentences):
    return [sentence.split() for sentence in sentences]


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_scores_are_those_of_seqeval(average):
    cases = [
        case for case in CASES if case["scheme"] != "BILOU"
    ]  # seqeval does not read BILOU letters without a scheme
    for case in cases:
        scores = span_scores(read(case["true"]), read(case["predicted"]), scheme="IOB2").average(average)
        expected = [0.0 if score != score else score for score in case["scores"][average]]  # mean over no types
        assert list(scores) == expected, case
    assert len({scores["scores"][average][2] for scores in cases}) > 20


def test_strict_scores_are_those_of_seqeval():
    for case in CASES:
        ours = span_f1(read(case["true"]), read(case["predicted"]), scheme=case["scheme"], strict=True)
        assert ours == case["strict_f1"], case


def test_the_report_is_that_of_conlleval():
    truth = [["B-NP", "I-NP", "B-VP", "O"], ["B-PP", "B-NP"]]
    predicted = [["B-NP", "I-NP", "O", "B-VP"], ["B-PP", "I-NP"]]
    assert str(span_scores(truth, predicted)).splitlines() == [
        "processed 6 tokens with 4 phrases; found: 4 phrases; correct: 3.",
        "accuracy:  50.00%; precision:  75.00%; recall:  75.00%; FB1:  75.00",
        "               NP: precision: 100.00%; recall: 100.00%; FB1: 100.00  2",
        "               PP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1",
        "               VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1",
    ]


def test_the_report_of_plain_labels_counts_runs_of_one_label():
    report = str(span_scores([["DT", "NN", "NN"]], [["DT", "NN", "VB"]])).splitlines()
    assert report[0] == "processed 3 tokens with 2 runs of one label; found: 3 runs of one label; correct: 1."
    assert report[1].startswith("accuracy:  66.67%")


def test_scores_without_spans_are_zero():
    scores = span_scores([["O", "O"]], [["O", "O"]])
    assert scores.f1 == scores.precision == scores.recall == 0.0 and scores.accuracy == 1.0
    assert scores.average("macro") == (0.0, 0.0, 0.0)
    assert scores.as_dict()["by_type"] == {}


def test_spans_of_plain_labels_are_runs():
    scores = span_scores([["City", "City", "State"]], [["City", "State", "State"]])
    assert scores.overall.n_true == 2 and scores.f1 == 0.0


def test_a_misspelt_tag_is_an_error_or_repaired():
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-PER", "O"]]
    predicted = [["B-PER", "I-PER", "O", "O"], ["B-LOC", "B-PER", "O"]]
    wrong = [[tag.replace("O", "0") if tag == "O" else tag for tag in tags] for tags in truth]
    for scheme in ("auto", "IOB2"):
        with pytest.raises(ValueError, match=r"^sentence 0 token 2: '0' is not a tag of IOB2"):
            span_scores(wrong, predicted, scheme)
        assert span_scores(wrong, predicted, scheme, repair=True) == span_scores(truth, predicted)
    assert span_scores(truth, wrong, repair=True).f1 == span_f1(wrong, wrong, repair=True) == 1.0
    assert span_scores(wrong, predicted, "LABELS").overall.n_true > 3


def test_span_scorer_in_scikit_learn():
    X = [[[0.0], [1.0]], [[1.0], [1.0], [0.0]]] * 4
    y = [["O", "B-X"], ["B-X", "B-X", "O"]] * 4
    assert cross_val_score(M3N(C=10), X, y, cv=2, scoring=span_scorer).tolist() == [1.0, 1.0]
    assert cross_val_score(M3N(C=10), X, y, cv=2, scoring=make_scorer(span_f1)).tolist() == [1.0, 1.0]
    assert PathSearchCV(M3N(), {"C": [10.0]}, cv=2, scoring=span_scorer).fit(X, y).best_score_ == 1.0
    parts_of_speech = [["N", "V"], ["V", "V", "N"]] * 4
    assert cross_val_score(M3N(C=10), X, parts_of_speech, cv=2, scoring=span_scorer).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("truth", "predicted", "options", "message"),
    [
        ([["O"]], [["O"], ["O"]], {}, "y_true has 1 sentences and y_pred 2"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], {}, r"y_true\[1\] has 2 tags and y_pred\[1\] 1"),
        ([["O"]], [["O"]], {"scheme": "XYZ"}, "scheme must be one of IOB2, IOB1"),
        ([["O"]], [["O"]], {"average": "mean"}, "average must be 'micro', 'macro' or 'weighted'"),
        ([["B-X", 3]], [["O", "O"]], {"scheme": "IOB2"}, "3 is not a tag"),
    ],
)
def test_messages(truth, predicted, options, message):
    with pytest.raises(ValueError, match=message):
        span_f1(truth, predicted, **options)
