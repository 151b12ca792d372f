"""Explanations: weights of the model, contributions that add up, and output formats."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet import L2CRF, M3N, Chain, LapMEDN
from maxendnet.text import Tagger, TextError, explain_model, explain_sentence
from maxendnet.text.features.feature_counts import packed, unpacked

SENTENCES = [["Ada", "Lovelace", "wrote"], ["We", "met", "Ada"], ["<b>Bob</b>", "&", "Ada", "met"]]
TAGS = [["B-PER", "I-PER", "O"], ["O", "O", "B-PER"], ["B-PER", "O", "B-PER", "O"]]


@pytest.fixture(scope="module", params=["L2CRF", "LapMEDN", "seen", "independent", "bias"])
def tagger(request):
    model = {
        "L2CRF": L2CRF(), "LapMEDN": LapMEDN(random_state=0),
        "seen": M3N(structure=Chain(pairs="seen"), random_state=0),
        "independent": L2CRF(structure="independent"), "bias": L2CRF(structure=Chain(bias=True, ends=True)),
    }[request.param]  # fmt: skip
    return Tagger("words", model, calibrate=False).fit(SENTENCES, TAGS)


def test_a_model_is_explained_by_its_largest_weights(tagger):
    explanation, model = tagger.explain(top=4), tagger.estimator_
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    rows = dict(zip(model.feature_names_, coef))
    rows |= {"(bias)": model.intercept_, "(first token)": model.start_, "(last token)": model.end_}
    assert explanation.labels == ["B-PER", "I-PER", "O"] and explanation.n_weights == len(model.model_.weights)
    for a, label in enumerate(explanation.labels):
        weights = explanation.top[label]
        assert len(weights) == 4
        assert_allclose([weight.weight for weight in weights], [rows[weight.feature][a] for weight in weights])
        assert abs(weights[-1].weight) >= np.sort(np.abs([row[a] for row in rows.values()]))[-5] - 1e-12
        assert all((weight.spread is None) == (model.posterior_.kind == "point") for weight in weights)
    if tagger.estimator_.transitions_.shape == (3, 3):
        assert_allclose(explanation.transitions, model.transitions_)
    else:
        assert explanation.transitions == []


def test_spread_and_relevance_are_those_of_the_posterior():
    model = LapMEDN(random_state=0).fit([[["a"], ["b"]], [["a"]]], [["X", "Y"], ["X"]])
    variance, relevance = (
        model.model_.layout.segments(v).node for v in (model.posterior_.variance, model.posterior_.relevance)
    )
    for a, label in enumerate(["X", "Y"]):
        for feature, _, spread, sure, _ in explain_model(model).top[label]:
            k = model.feature_names_.index(feature)
            assert_allclose([spread, sure], [np.sqrt(variance[k, a]), relevance[k, a]])


def occurrences(tagger, sentences):
    X = tagger.examples(sentences).X
    return dict(zip(tagger.estimator_.feature_names_, np.bincount(X.indices, minlength=X.shape[1]).tolist()))


def test_features_have_their_number_of_training_tokens(tagger, tmp_path):
    expected = occurrences(tagger, SENTENCES)
    tagger.save(tmp_path / "m")
    for fitted in (tagger, Tagger.load(tmp_path / "m")):
        weights = [weight for weights in fitted.explain(top=20).top.values() for weight in weights]
        assert {weight.feature: weight.n_tokens for weight in weights}.items() <= expected.items() | {
            ("(bias)", None), ("(first token)", None), ("(last token)", None)
        }  # fmt: skip
        assert any(weight.n_tokens > 1 for weight in weights if weight.n_tokens)
        reasons = [reason for token in fitted.explain(SENTENCES[0]).tokens for reason in token.reasons]
        assert all(reason.n_tokens == expected.get(reason.name) for reason in reasons)
        count = weights[0].n_tokens
        text = str(fitted.explain(top=1))
        assert f"  ({count} token" in text and f">{count}</td>" in fitted.explain(top=1).to_html()


def test_counts_of_a_continued_fit_add_up():
    tagger = Tagger("words", calibrate=False).fit(SENTENCES[:2], TAGS[:2]).partial_fit(SENTENCES[2:], TAGS[2:])
    expected = occurrences(tagger, SENTENCES)
    counts = dict(zip(tagger.estimator_.feature_names_, tagger.feature_counts_.tolist()))
    first = occurrences(Tagger("words", calibrate=False).fit(SENTENCES[:2], TAGS[:2]), SENTENCES)
    assert all(counts[name] == expected[name] for name in counts if name in first)
    assert all(counts[name] <= expected[name] for name in counts)


def test_damaged_counts_are_refused():
    for text in ("", "a", 3, packed(np.ones(3, dtype=np.uint32)), packed(np.ones(5, dtype=np.uint32))):
        with pytest.raises(TextError, match="the feature counts are damaged"):
            unpacked(text, 4)


def test_names_of_own_templates_show_their_macros():
    tagger = Tagger("U0:%x[0,0]\nU01:%x[-1,lower]/%x[0,suffix2]\nB", calibrate=False).fit(SENTENCES, TAGS)
    names = {weight.feature for weights in tagger.explain(top=50).top.values() for weight in weights}
    assert "U0:Ada  [%x[0,0]]" in names and "U01:met/da  [%x[-1,lower]/%x[0,suffix2]]" in names


@pytest.mark.parametrize("inner", [None, "BIOES"])
def test_wrong_labels_are_compared_with_the_true_ones(inner):
    tagger = Tagger("words", calibrate=False, inner=inner).fit(SENTENCES, TAGS)
    truth = ["O", "O", "I-PER"]
    tokens = tagger.explain(["Ada", "met", "Bob"], truth=truth).tokens
    assert [token.truth for token in tokens][:2] == ["O", "O"]
    assert tokens[0].runner_up == "O" and ", true label O" in str(tagger.explain(["Ada", "met", "Bob"], truth=truth))
    assert "true label" in tagger.explain(["Ada", "met", "Bob"], truth=truth).to_html()
    assert_allclose(sum(reason.contribution for reason in tokens[0].reasons), tokens[0].lead, atol=1e-9)
    with pytest.raises(TextError, match="the sentence has 1 tokens, but there are 2 true labels"):
        tagger.explain(["Ada"], truth=["O", "O"])


def test_contributions_add_up_to_the_lead(tagger):
    for sentence in [["Ada", "Lovelace", "slept"], ["unknown"], *SENTENCES]:
        why = tagger.explain(sentence, top=3)
        examples = tagger.examples([sentence])
        bound = tagger.estimator_.model_.bind(examples)
        w, classes = tagger.estimator_.model_.weights, tagger.classes_.tolist()
        (labels,) = tagger.predict([sentence])
        codes = np.array([classes.index(label) for label in labels], dtype=np.int32)
        assert [token.label for token in why.tokens] == labels and [token.token for token in why.tokens] == sentence
        (marginals,) = tagger.estimator_.predict_marginals(examples)
        for t, token in enumerate(why.tokens):
            changed = codes.copy()
            changed[t] = classes.index(token.runner_up)
            assert_allclose(token.lead, (bound.score(w, codes) - bound.score(w, changed))[0], atol=1e-9)
            assert_allclose(sum(reason.contribution for reason in token.reasons), token.lead, atol=1e-9)
            assert sum(reason.kind == "feature" for reason in token.reasons) <= 3
            order = np.argsort(-marginals[t])
            assert_allclose(sorted([token.probability, token.runner_up_probability]), np.sort(marginals[t][order[:2]]))


def test_contributions_are_differences_of_weights():
    tagger = Tagger("words", L2CRF()).fit(SENTENCES, TAGS)
    why = tagger.explain(SENTENCES[0], top=1000).tokens[1]
    coef, names, classes = tagger.estimator_.coef_, tagger.estimator_.feature_names_, tagger.classes_.tolist()
    a, b = classes.index(why.label), classes.index(why.runner_up)
    expected = {name: coef[names.index(name), a] - coef[names.index(name), b] for name in ("Uexact=Lovelace", "Ubias")}
    T = tagger.estimator_.transitions_
    expected |= {"after B-PER": T[0, a] - T[0, b], "before O": T[a, 2] - T[b, 2]}
    contributions = {reason.name: reason.contribution for reason in why.reasons}
    assert_allclose([contributions[name] for name in expected], list(expected.values()))
    assert not any(reason.kind == "rest" for reason in why.reasons)


def test_output_formats(tagger, tmp_path):
    for explanation in (tagger.explain(), tagger.explain(SENTENCES[2])):
        plain = json.loads(explanation.to_json())
        assert plain == json.loads(json.dumps(explanation.as_dict()))
        rows = explanation.rows()
        assert rows and len({tuple(row) for row in rows}) == 1
        assert "PER" in str(explanation)
        text = explanation.to_html(tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
        assert explanation._repr_html_() in text
        assert "<script" not in text and not re.search(r"(src|href)\s*=|url\(|@import", text)
        assert "<b>Bob</b>" not in text
        ET.fromstring(re.sub(r"<meta[^>]*>", "", text.replace("<!doctype html>", "")).replace("<br>", "<br/>").replace(
            "&plusmn;", "+").replace("<details open>", "<details>"))  # fmt: skip


def test_words_are_escaped(tagger):
    assert "<b>&lt;b&gt;Bob&lt;/b&gt;</b>" in tagger.explain(SENTENCES[2]).to_html()
    assert "=&lt;b&gt;bob" in tagger.explain(top=1000).to_html()


def test_frames(tagger):
    pytest.importorskip("pandas", reason="needs pandas (pip install pandas)")
    assert list(tagger.explain().to_frame().columns) == ["label", "left", "feature", "weight", "spread", "relevance"]
    frame = tagger.explain(SENTENCES[0]).to_frame()
    assert_allclose(frame[frame.position == 0].contribution.sum(), frame.lead.iloc[0])


def test_a_single_label_has_no_runner_up():
    model = L2CRF().fit([[["a"]]], [["X"]])
    (token,) = explain_sentence(model, [[["a"]]]).tokens
    assert (
        token.runner_up is None and token.token == "token 0" and "token 0: X" in str(explain_sentence(model, [[["a"]]]))
    )
    assert "<details" in explain_sentence(model, [[["a"]]]).to_html()


def test_weights_of_n_grams_are_part_of_the_rest():
    model = L2CRF(structure=Chain(order=2)).fit(*[[[["Ada"], ["met"], ["Ada"]]], [["B-PER", "O", "B-PER"]]])
    for token in explain_sentence(model, [[["Ada"], ["met"], ["Ada"]]]).tokens:
        assert_allclose(sum(reason.contribution for reason in token.reasons), token.lead, atol=1e-9)
    assert explain_model(model).top["O"]


def test_hidden_states_are_an_error():
    model = L2CRF(structure=Chain(hidden=2), random_state=0).fit([[["a"], ["b"]]], [["X", "Y"]])
    for call in (lambda: explain_model(model), lambda: explain_sentence(model, [[["a"]]])):
        with pytest.raises(TextError, match="has weights for hidden states"):
            call()


def test_messages():
    model = L2CRF().fit([[["a"]]], [["X"]])
    with pytest.raises(TextError, match="expected one sentence, got 2"):
        explain_sentence(model, [[["a"]], [["b"]]])
    with pytest.raises(TextError, match="has 1 tokens, but there are 2 words"):
        explain_sentence(model, [[["a"]]], ["x", "y"])
