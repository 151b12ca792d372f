"""Given labels, rules, marginals, sample weights and unknown labels of taggers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_tagger import corpus

import maxendnet as mx
from maxendnet import UNKNOWN
from maxendnet.rules import at_most_once, bio, never, regex, starts_with
from maxendnet.text import Tagger, TextError, find_spans

SENTENCE = ["Ada", "met", "Dan", "Brown"]
GIVEN = [None, [UNKNOWN, UNKNOWN, {"B-PER", "O"}, "O"], UNKNOWN]
RULES = [None, starts_with("O"), at_most_once("B-PER"), [never(("O", "B-PER")), regex("(B-PER | I-PER | O)* O")]]


@pytest.fixture(scope="module", params=[None, "BIOES"])
def tagger(request):
    return Tagger(model={"lam": 3.0}, inner=request.param).fit(*corpus(30))


def accepted(tags, rules):
    """Whether tags satisfy all rules, by their automata."""
    labels = np.array(["B-PER", "I-PER", "O"], dtype=object)
    rows = [] if rules is None else rules if isinstance(rules, list) else [rules]
    return all(rule.automaton(labels).accepts([labels.tolist().index(tag) for tag in tags]) for rule in rows)


def enumerated(tagger, given, rules):
    """Return the probability of every labelling by the tags of the user, from all labellings without limits."""
    known = [UNKNOWN] * 4 if given is None or given is UNKNOWN else given
    probabilities = {}
    for ranked in tagger.predict_top([SENTENCE], k=1000)[0]:
        agrees = all(
            label is UNKNOWN or tag == label or (isinstance(label, set) and tag in label)
            for tag, label in zip(ranked.labels, known)
        )
        if agrees and accepted(ranked.labels, rules):
            probabilities[tuple(ranked.labels)] = probabilities.get(tuple(ranked.labels), 0) + ranked.probability
    total = sum(probabilities.values())
    return {tags: p / total for tags, p in probabilities.items()}


@pytest.mark.parametrize(("given", "rules"), list(itertools.product(GIVEN, RULES)))
def test_predictions_with_given_labels_and_rules_are_enumeration(tagger, given, rules):
    expected = enumerated(tagger, given, rules)
    limits = {"given": None if given is None else [given], "rules": rules}
    best = max(expected, key=expected.__getitem__)
    unbiased = tagger.outside_ == 0
    labels = tagger.predict([SENTENCE], **limits)[0]
    assert tuple(labels) in expected and (tuple(labels) == best or not unbiased)
    (marginals,) = tagger.predict_marginals([SENTENCE], **limits)
    for t, k in itertools.product(range(4), range(3)):
        total = sum(p for tags, p in expected.items() if tags[t] == tagger.labels_[k])
        assert_allclose(marginals[t, k], total, atol=1e-9)
    (prediction,) = tagger.predict_confidence([SENTENCE], **limits)
    assert prediction.labels == labels
    assert_allclose(prediction.sequence, expected[tuple(labels)])
    assert_allclose(
        prediction.tokens, [marginals[t, tagger.labels_.tolist().index(tag)] for t, tag in enumerate(labels)]
    )
    ranked = tagger.predict_top([SENTENCE], k=3, **limits)[0]
    assert_allclose([r.probability for r in ranked], [expected[tuple(r.labels)] for r in ranked])
    for span in tagger.predict_spans([SENTENCE], **limits)[0]:
        part = slice(span.start, span.end)
        # for rules that are no pair masks, the tags of the span are the predicted ones
        exact = any(
            rule.masks(tagger.labels_) is None for rule in (rules if isinstance(rules, list) else [rules]) if rule
        )
        contains = [
            p for tags, p in expected.items()
            if span[:3] in find_spans(tags) and not (exact and list(tags[part]) != labels[part])
        ]  # fmt: skip
        assert_allclose(span.probability, sum(contains), atol=1e-9)


def test_unknown_given_labels_are_an_error(tagger):
    with pytest.raises(ValueError, match=r"given\[0\] node 3 has the label 'B-LOC'"):
        tagger.predict([SENTENCE], given=[["O", "O", "O", "B-LOC"]])
    with pytest.raises(ValueError, match=r"given\[0\] has 1 labels"):
        tagger.predict([SENTENCE], given=[["O"]])


def test_rules_of_the_fit_hold_in_predictions():
    X, y = corpus(30)
    tagger = Tagger(rules=[bio(), at_most_once("B-PER")], calibrate=False)
    once = [i for i, tags in enumerate(y) if tags.count("B-PER") <= 1]
    tagger.fit([X[i] for i in once], [y[i] for i in once])
    assert tagger.inner_ is None and max(tags.count("B-PER") for tags in tagger.predict(X)) == 1
    with pytest.raises(TextError, match="inner='BIOES' does not support rules="):
        Tagger(rules=bio(), inner="BIOES").fit(X, y)
    with pytest.raises(TextError, match="rules need a chain"):
        Tagger("U0=%x[0,0]", rules=bio()).fit(X, y)


def test_rules_are_saved(tmp_path):
    X, y = corpus(30)
    tagger = Tagger(rules=starts_with("B-PER")).fit(X, y)
    tagger.save(tmp_path / "t")
    assert Tagger.load(tmp_path / "t").predict([["met", "met"]])[0][0] == "B-PER"


def test_sample_weights_are_those_of_the_estimator():
    X, y = corpus(20)
    wrong = [["O"] * len(tags) for tags in y]
    weights = [1.0] * 20 + [0.0] * 20
    tagger = Tagger(calibrate=False).fit(X + X, y + wrong, sample_weight=weights)
    assert tagger.predict(X) == y
    assert Tagger(calibrate=False).fit(X + X, y + wrong, sample_weight=weights[::-1]).predict(X) == wrong
    assert Tagger().fit(X + X, y + wrong, sample_weight=weights).predict(X) == y
    tagger.partial_fit(X + X, y + wrong, sample_weight=weights)
    assert tagger.predict(X) == y
    with pytest.raises(ValueError, match=r"Sample weights have shape \(1,\)"):
        Tagger().fit(X, y, sample_weight=[1.0])


@pytest.mark.parametrize("model", [None, mx.M3N(C=1.0, random_state=0)], ids=repr)
def test_unknown_labels(model):
    X, y = corpus(60)
    partial = [
        [{"B-PER", "I-PER"} if k == 0 else UNKNOWN if (i + k) % 5 == 0 else tag for k, tag in enumerate(tags)]
        for i, tags in enumerate(y)
    ]
    tagger = Tagger(model=model).fit(X, partial)
    assert tagger.scheme_ == "IOB2" and tagger.inner_ is None and tagger.score(*corpus(20, seed=1)) > 0.9
    with pytest.raises(TextError, match=r"inner='BIOES' does not support .* unknown labels"):
        Tagger(inner="BIOES").fit(X, partial)
    with pytest.raises(TextError, match="sentence 0 token 1: 'b-PER' in a set of labels is not a tag of IOB2"):
        Tagger().fit([["a", "b"]], [["B-PER", {"b-PER", "O"}]])
    if model is None:
        assert tagger.partial_fit(X, partial).score(X, y) > 0.9


def test_partial_fit_refuses_unknown_labels_of_models_with_bioes_tags():
    X, y = corpus(10)
    with pytest.raises(TextError, match="partial_fit does not support unknown labels"):
        Tagger(inner="BIOES").fit(X, y).partial_fit([["a"]], [[UNKNOWN]])


@pytest.mark.parametrize(("inner", "shown"), [(None, "'B-LOC' did not"), ("BIOES", "'S-LOC' did not .*BIOES tags")])
def test_new_labels_in_partial_fit_are_an_error(inner, shown):
    X, y = corpus(20)
    tagger = Tagger(inner=inner).fit(X, y)
    with pytest.raises(TextError, match=rf"sentence 1 token 1: the label {shown}.*Fit all sentences again"):
        tagger.partial_fit([["Ada"], ["in", "Rome"]], [["B-PER"], ["O", "B-LOC"]])
    assert tagger.predict(X) == y
