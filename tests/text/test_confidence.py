"""Probabilities of spans, tokens and labellings, against enumeration of all labellings."""

from __future__ import annotations

from itertools import groupby, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from maxendnet import L2CRF, M3N, Chain, Examples
from maxendnet.rules import bio
from maxendnet.text import find_spans, predict_confidence, predict_ranked, predict_spans
from maxendnet.text.reading.spans import forbidden_pairs
from maxendnet.text.reading.tag_schemes import tag_problems
from maxendnet.text.results import confidence

LABELS = {
    "IOB2": ["B-X", "I-X", "B-Y", "I-Y", "O"],
    "BIOES": ["B-X", "I-X", "E-X", "S-X", "O"],
    "LABELS": ["A", "B", "O"],
}


def fitted(scheme, structure="chain", seed=0, scale=2.0, estimator=L2CRF):
    """Return a model with random weights for the labels of a scheme."""
    rng = np.random.default_rng(seed)
    labels = LABELS[scheme]
    X = [rng.normal(size=(len(labels), 3)) for _ in range(3)]
    model = estimator(structure=structure, tol=0.5).fit(X, [labels] * 3)
    weights = scale * rng.normal(size=len(model.model_.weights))
    object.__setattr__(model.model_, "weights", weights)
    model.model_.__post_init__()
    return model


def enumerated(model, x, temperature=1.0):
    """Return all possible labellings, and their probabilities."""
    bound = model.model_.bind(Examples.build([x]))
    classes = model.classes_.tolist()
    structure = model.model_.structure
    forbidden = set(getattr(structure, "forbidden", None) or ())
    labellings, scores = [], []
    for codes in product(range(len(classes)), repeat=len(x)):
        labels = [classes[k] for k in codes]
        broken = forbidden & set(pairwise(labels))
        broken |= set(tag_problems([labels], "IOB2")) if getattr(structure, "rules", None) else set()
        if getattr(structure, "durations", None):
            broken |= {label for label, run in groupby(labels) if len(list(run)) > structure.durations}
        if not broken:
            labellings.append(labels)
            scores.append(bound.score(model.model_.weights, np.array(codes, dtype=np.int32))[0] / temperature)
    scores = np.array(scores)
    p = np.exp(scores - scores.max())
    return labellings, p / p.sum()


@pytest.mark.parametrize("scheme", LABELS)
@pytest.mark.parametrize("kind", ["chain", "ends", "independent", "forbidden"])
@settings(max_examples=15)
@given(seed=st.integers(0, 50), n=st.integers(1, 4), temperature=st.sampled_from([1.0, 0.5, 3.0]))
def test_spans_have_the_probability_of_all_labellings_with_them(scheme, kind, seed, n, temperature):
    structure = {
        "ends": Chain(bias=True, ends=True),
        "forbidden": Chain(forbidden=forbidden_pairs(LABELS[scheme], scheme)),
    }
    model = fitted(scheme, structure.get(kind, kind), seed)
    x = np.random.default_rng(seed + 1000).normal(size=(n, 3))
    labellings, p = enumerated(model, x, temperature)
    (spans,) = predict_spans(model, [x], temperature=temperature)
    (best,) = model.predict([x])
    assert [span[:3] for span in spans] == [tuple(span) for span in find_spans(best, scheme)]
    for span in spans:
        having = [span[:3] in find_spans(labels, scheme) for labels in labellings]
        assert_allclose(span.probability, p[having].sum(), rtol=1e-9)


LONGER = {
    "pairs": Chain(rules=[bio()]), "order 2": Chain(order=2), "seen": Chain(order=2, ngrams="seen", ends=True),
    "order 2, rules": Chain(order=2, rules=[bio()]), "durations": Chain(durations=2),
}  # fmt: skip


@pytest.mark.parametrize("kind", LONGER)
@settings(max_examples=15)
@given(seed=st.integers(0, 50), n=st.integers(1, 4), temperature=st.sampled_from([1.0, 2.0]))
def test_spans_of_other_structures_have_the_probability_of_their_labels(kind, seed, n, temperature):
    model = fitted("IOB2", LONGER[kind], seed)
    x = np.random.default_rng(seed + 1000).normal(size=(n, 3))
    labellings, p = enumerated(model, x, temperature)
    (best,) = model.predict([x])
    with pytest.MonkeyPatch.context() as patch:
        if kind == "pairs":
            patch.setattr(confidence, "is_chain", lambda *_: False)
        (spans,) = predict_spans(model, [x], temperature=temperature)
    for start, end, kind, probability in spans:
        having = [
            labels[start:end] == best[start:end] and (end == n or labels[end] != f"I-{kind}")
            and not (start and best[start][0] == "I" and labels[start - 1] in (f"B-{kind}", f"I-{kind}"))
            for labels in labellings
        ]  # fmt: skip
        assert_allclose(probability, p[having].sum(), rtol=1e-9)
    (prediction,) = predict_confidence(model, [x], temperature)
    assert_allclose(prediction.sequence, p.max(), rtol=1e-9)


def test_hidden_states_are_summed_over():
    model = fitted("IOB2", Chain(hidden=2))
    x = np.random.default_rng(4).normal(size=(3, 3))
    every = list(product(model.classes_.tolist(), repeat=3))
    log_p = [model.model_.bind(Examples.build([x]), [labels]).logsum(model.model_.weights)[0][0] for labels in every]
    p = np.exp(np.array(log_p) - np.logaddexp.reduce(log_p))
    (prediction,) = predict_confidence(model, [x])
    assert_allclose(prediction.sequence, p[every.index(tuple(prediction.labels))])
    ((span, *_),) = predict_spans(model, [x])
    joined = {(f"B-{kind}", f"I-{kind}") for kind in "XY"} | {(f"I-{kind}", f"I-{kind}") for kind in "XY"}
    having = [
        list(labels[span.start : span.end]) == prediction.labels[span.start : span.end]
        and not (span.start and (labels[span.start - 1], labels[span.start]) in joined)
        and not (span.end < 3 and (labels[span.end - 1], labels[span.end]) in joined)
        for labels in every
    ]
    assert_allclose(span.probability, p[having].sum())


def test_one_label_for_all_tokens_has_no_spans():
    model = L2CRF(structure=Chain(whole=True)).fit([np.eye(3), np.eye(3)[::-1]], ["a", "b"])
    with pytest.raises(ValueError, match="assigns one label to all tokens"):
        predict_spans(model, [np.eye(3)])


def test_many_sentences_are_processed_in_batches(monkeypatch):
    model = fitted("IOB2")
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(n, 3)) for n in (3, 0, 1, 7, 2, 0, 12, 1)]
    expected = predict_spans(model, X)
    assert expected == [predict_spans(model, [x])[0] if len(x) else [] for x in X]
    for most in (1, 26, 100, 200):
        monkeypatch.setattr(confidence, "MAX_PAIR_MARGINALS", most)
        assert predict_spans(model, X) == expected


@settings(max_examples=15)
@given(seed=st.integers(0, 50), n=st.integers(1, 4), temperature=st.sampled_from([1.0, 0.5, 3.0]))
def test_tokens_sequences_and_the_k_best(seed, n, temperature):
    model = fitted("IOB2", "chain", seed)
    x = np.random.default_rng(seed + 1000).normal(size=(n, 3))
    labellings, p = enumerated(model, x, temperature)
    (prediction,) = predict_confidence(model, [x], temperature)
    assert prediction.labels == model.predict([x])[0]
    assert_allclose(prediction.sequence, p.max(), rtol=1e-9)
    expected = [sum(q for labels, q in zip(labellings, p) if labels[t] == prediction.labels[t]) for t in range(n)]
    assert_allclose(prediction.tokens, expected, rtol=1e-9)
    (ranked,) = predict_ranked(model, [x], 7, temperature)
    order = np.argsort(-p)[:7]
    assert_allclose([labelling.probability for labelling in ranked], p[order], rtol=1e-9)
    assert [labelling.labels for labelling in ranked] == [labellings[k] for k in order]


def test_a_temperature_does_not_change_predictions_and_scales_weights_once():
    model = fitted("IOB2")
    x = np.random.default_rng(3).normal(size=(4, 3))
    cold, hot = (predict_confidence(model, [x], temperature)[0] for temperature in (0.1, 10.0))
    assert cold.labels == hot.labels == model.predict([x])[0] and cold.sequence > hot.sequence
    assert confidence.scaled_weights(model, 0.1) is confidence.scaled_weights(model, 0.1)
    second = fitted("IOB2", seed=1)
    model.set_model(second.model_)
    assert_allclose(predict_confidence(model, [x], 0.1)[0].tokens, predict_confidence(second, [x], 0.1)[0].tokens)


def test_examples_with_allowed_labels():
    model = fitted("IOB2")
    x = np.random.default_rng(3).normal(size=(2, 3))
    only = Examples.build([x], allowed=[[{"B-X"}, {"I-X", "O"}]], labels=["B-X", "I-X", "O"])
    (spans,) = predict_spans(model, only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidence, "is_chain", lambda *_: False)
        (clamped,) = predict_spans(model, only)
    assert_allclose([span.probability for span in spans], [span.probability for span in clamped])
    assert spans[0].start == 0 and spans[0].type == "X"


def test_the_scheme_is_detected_from_the_labels_of_the_model():
    X = [np.eye(3)] * 3
    model = L2CRF().fit(X, [["B-X", "I-X", "0"], ["O", "B-Y", "I-Y"], ["B-X", "O", "O"]])
    with pytest.raises(ValueError, match=r"^the labels of the model: '0' is not a tag of IOB2"):
        predict_spans(model, X)
    assert predict_spans(model, X, "IOB2") != predict_spans(model, X, "LABELS")


def test_messages():
    model = fitted("IOB2", estimator=M3N)
    for temperature in (0, -1.0, np.inf, None):
        with pytest.raises(ValueError, match="temperature must be a positive number"):
            predict_spans(model, [np.zeros((1, 3))], temperature=temperature)
    with pytest.raises(ValueError, match="scheme must be one of"):
        predict_spans(model, [np.zeros((1, 3))], scheme="no")
