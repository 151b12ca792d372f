"""BIOES inside the model for BIO tags: predictions and probabilities by enumeration, the choice, files."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_few_tokens import noise

import maxendnet as mx
from maxendnet.rules import bioes
from maxendnet.text import Tagger, TextError, convert_tags, find_spans
from maxendnet.text.reading.tag_schemes import tag_problems

TEMPLATE = "U0=%x[0,0]\nU1=%x[-1,0]/%x[0,0]\nU2=%x[1,0]\nB"
MODEL = mx.L2CRF(lam=0.3, tol=1e-3)


def threes(n, seed):
    """Return sentences with adjacent spans of three equal tokens, which BIO tags cannot count."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=n)
    X = [["out", *["a"] * 3 * k, "out"] for k in counts.tolist()]
    return X, [["O", *["B-X", "I-X", "I-X"] * k, "O"] for k in counts.tolist()]


@pytest.fixture(scope="module")
def tagger():
    tagger = Tagger(TEMPLATE, MODEL, inner="BIOES", outside=-0.3).fit(*noise(60, 0))
    tagger.temperature_ = 1.7
    return tagger


def test_labels_are_those_of_a_model_of_bioes_tags(tagger):
    X, y = noise(60, 0)
    new, _ = noise(50, 1)
    by_hand = Tagger(TEMPLATE, MODEL, outside=-0.3).fit(X, convert_tags(y, "BIOES", "IOB2"))
    expected = by_hand.estimator_.model_
    assert expected.classes.tolist() == tagger.classes_.tolist()
    assert_allclose(tagger.estimator_.model_.weights, expected.weights)
    predicted = tagger.predict(new)
    assert not list(tag_problems(predicted, "IOB2"))
    assert [tagger.predict([x])[0] for x in new] == predicted
    plain = Tagger(TEMPLATE, MODEL, inner="BIOES", outside=0.0).fit(X, y)
    valid = by_hand.estimator_.predict(by_hand.examples(new), rules=bioes())
    assert plain.predict(new) == convert_tags(valid, "IOB2", "BIOES") != predicted


def enumerated(tagger, x):
    """Return all valid BIOES labellings: BIO tags, probabilities, and scores with the outside bias."""
    _, bound = tagger.estimator_._prepare(tagger.examples([x]))
    classes, labellings = tagger.classes_.tolist(), []
    for codes in product(range(len(classes)), repeat=len(x)):
        tags = [classes[k] for k in codes]
        if not list(tag_problems([tags], "BIOES")):
            score = float(bound.score(tagger.estimator_.model_.weights, np.array(codes, dtype=np.int32))[0])
            labellings.append(
                (convert_tags([tags], "IOB2", "BIOES")[0], score, score + tagger.outside_ * tags.count("O"))
            )
    p = np.exp(np.array([score for _, score, _ in labellings]) / tagger.temperature_)
    return [labels for labels, _, _ in labellings], p / p.sum(), [total for _, _, total in labellings]


def test_probabilities_by_enumeration(tagger):
    for x in [["a", "b", "c"], ["d"], ["b", "b"]]:
        every, p, totals = enumerated(tagger, x)
        (sure,), (top,), (spans,) = (
            tagger.predict_confidence([x]), tagger.predict_top([x], 4), tagger.predict_spans([x])
        )  # fmt: skip
        best = int(np.argmax(totals))
        assert tagger.predict([x])[0] == sure.labels == every[best]
        assert_allclose(sure.sequence, p[best], rtol=1e-6)
        expected = [sum(p[k] for k, tags in enumerate(every) if tags[t] == sure.labels[t]) for t in range(len(x))]
        assert_allclose(sure.tokens, expected, rtol=1e-6)
        order = np.argsort(totals)[::-1][:4]
        assert [ranked.labels for ranked in top] == [every[k] for k in order]
        assert_allclose([ranked.probability for ranked in top], p[order], rtol=1e-6)
        assert [span[:3] for span in spans] == find_spans(sure.labels)
        for span in spans:
            having = [span[:3] in [tuple(s) for s in find_spans(tags)] for tags in every]
            assert_allclose(span.probability, p[having].sum(), rtol=1e-6)
        assert [token.label[2:] for token in tagger.explain(x).tokens] == [tag[2:] for tag in sure.labels]


def test_the_better_scheme_is_chosen_on_held_out_sentences():
    X, y = threes(60, 0)
    new, truth = threes(20, 1)
    chosen = Tagger("U0=%x[0,0]\nB").fit(X, y)
    assert chosen.inner_ is not None and chosen.predict(new) == truth and chosen.score(new, truth) == 1.0
    assert set(chosen.classes_) == {"O", "B-X", "I-X", "E-X"}
    plain = Tagger("U0=%x[0,0]\nB", inner=None).fit(X, y)
    assert plain.inner_ is None and plain.score(new, truth) < 0.5


@pytest.mark.parametrize(
    ("options", "tags"),
    [
        ({"calibrate": False}, None), ({"model": MODEL}, None), ({"features": "U0=%x[0,0]"}, None), ({}, "BIOES"),
        ({}, "four types"), ({}, "without types"),
    ],
)  # fmt: skip
def test_cases_without_a_trial_of_bioes(options, tags, monkeypatch):
    X, y = threes(30, 0)
    if tags == "BIOES":
        y = convert_tags(y, "BIOES", "IOB2")
    elif tags == "four types":
        y = [[tag.replace("X", "XYZW"[i % 4]) for tag in row] for i, row in enumerate(y)]
    elif tags is not None:
        y = [[tag[0] for tag in row] for row in y]
    monkeypatch.setattr("maxendnet.text.tagger.as_bioes", None)
    assert Tagger(**{"features": "U0=%x[0,0]\nB", **options}).fit(X, y).inner_ is None


def test_files_and_partial_fit(tmp_path):
    X, y = threes(40, 0)
    tagger = Tagger("U0=%x[0,0]\nB", inner="BIOES").fit(X, y)
    tagger.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m")
    assert again.inner_ is not None and again.predict(X) == tagger.predict(X) == y
    assert again.predict_spans(X) == tagger.predict_spans(X)
    new = [["new" if word == "out" else word for word in x] for x in X]
    assert again.partial_fit(new, y).predict(new) == y


def test_invalid_inner_is_an_error():
    with pytest.raises(TextError, match="inner must be 'auto', 'BIOES' or None"):
        Tagger(inner="IOB1").fit(*threes(5, 0))
