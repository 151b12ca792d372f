"""Template lines B with cells: features of pairs of neighbouring labels, as in CRF++."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from maxendnet import L2CRF, UNKNOWN, Chain, Examples
from maxendnet.text import ColumnFiles, Tagger, TextError, TokenFeatures
from maxendnet.text.features import token_features

TEMPLATE = "Ustart:%x[0,0]\nB\nB01:%x[0,0]\n"


def switches(n, seed):
    """Return sentences in which "keep" repeats the previous label, and "flip" takes the other one."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = [str(rng.choice(["a", "b"])), *rng.choice(["keep", "flip"], size=rng.integers(1, 7)).tolist()]
        labels = [words[0].upper()]
        for word in words[1:]:
            labels.append(labels[-1] if word == "keep" else {"A": "B", "B": "A"}[labels[-1]])
        X.append(words)
        y.append(labels)
    return X, y


@pytest.fixture(scope="module")
def tagger():
    return Tagger(TEMPLATE, {"lam": 0.1}, calibrate=False).fit(*switches(60, 0))


def test_pairs_have_the_cells_of_their_second_token():
    sentences = [["a", "b", "a"], ["b"], ["c", "a"], []]
    features = TokenFeatures("U0:%x[0,0]\nB01:%x[0,0]\nB02:%x[-1,0]/%x[0,0]\n")
    examples = features.fit_transform(sentences)
    names = features.pair_features_.feature_names_
    rows = [{names[k] for k in np.flatnonzero(row)} for row in examples.edge_features]
    assert rows == [{"UB01:b", "UB02:a/b"}, {"UB01:a", "UB02:b/a"}, {"UB01:a", "UB02:c/a"}]
    assert set(np.unique(examples.edge_features)) == {0, 1}
    new = features.transform([["a", "x", "b"]])
    assert [{names[k] for k in np.flatnonzero(row)} for row in new.edge_features] == [set(), {"UB01:b"}]
    assert features.transform([["a"]]).edge_features.shape == (0, len(names))


def test_what_no_feature_of_single_labels_can_express_is_learned(tagger):
    X, y = switches(30, 1)
    assert tagger.predict(X) == y
    assert [tagger.predict([x])[0] for x in X] == y == list(tagger.predict_stream(iter(X)))
    without = Tagger("Ustart:%x[0,0]\nB\n", {"lam": 0.1}, calibrate=False).fit(*switches(60, 0))
    assert without.score(X, y) < 0.8


def test_the_model_is_a_chain_with_edge_features():
    X, y = switches(20, 0)
    ours = Tagger(TEMPLATE, {"lam": 0.5, "margin": 0.0, "tol": 1e-6}, pairs="all").fit(X, y).estimator_
    words = ["flip", "keep"]
    edges = [[[float(word == name) for name in words] for word in x[1:]] for x in X]
    names = [[[f"Ustart:{word}"] for word in x] for x in X]
    direct = L2CRF(lam=0.5, tol=1e-6, structure=Chain()).fit(Examples.build(names, y, edge_features=edges))
    assert abs(ours.objective_ - direct.objective_) < 1e-4 * direct.objective_
    # the cells "a" and "b" occur at first tokens only, so that their pairs have no weights
    shown = np.abs(ours.edge_coef_).sum(axis=(1, 2))
    assert ours.edge_coef_.shape[0] == 4 and np.count_nonzero(shown > 1e-6) == 2


def test_confidence_spans_and_explanations(tagger):
    X, y = switches(5, 2)
    for x, labels, marginals in zip(X, y, tagger.predict_marginals(X)):
        (prediction,) = tagger.predict_confidence([x])
        assert prediction.labels == labels
        expected = [row[tagger.labels_.tolist().index(label)] for row, label in zip(marginals, labels)]
        np.testing.assert_allclose(prediction.tokens, expected)
        for token in tagger.explain(x).tokens:
            assert abs(sum(reason.contribution for reason in token.reasons) - token.lead) < 1e-9
    assert tagger.predict([["a", "keep", "flip"]], given=[["B", UNKNOWN, UNKNOWN]]) == [["B", "B", "A"]]


def test_bio_tags_with_bioes_inside():
    X = [["x", "in", "out"], ["x", "in", "in"], ["x", "out", "x"]] * 10
    y = [["B-N", "I-N", "O"], ["B-N", "I-N", "I-N"], ["B-N", "O", "B-N"]] * 10
    for inner in (None, "BIOES"):
        tagger = Tagger("U0:%x[0,0]\nB1:%x[0,0]", inner=inner).fit(X, y)
        assert tagger.predict(X) == y and (tagger.inner_ is None) == (inner is None)


def test_files_and_copies(tagger, tmp_path):
    X, y = switches(10, 3)
    tagger.save(tmp_path / "m")
    for other in (Tagger.load(tmp_path / "m"), pickle.loads(pickle.dumps(tagger))):
        assert other.predict(X) == y
        assert_array_equal(other.examples(X).edge_features, tagger.examples(X).edge_features)
    plain = tagger.features_.to_plain()
    names = tagger.features_.feature_names_
    with pytest.raises(TextError, match="the names of the features of label pairs do not match the template"):
        TokenFeatures.from_plain(plain | {"pair_features": None}, names)


def test_rare_cells_are_dropped():
    X = [["a", "x", "y"], ["a", "x"], ["a", "z"]]
    features = TokenFeatures(TEMPLATE, min_count=2).fit(X)
    assert list(features.pair_features_.feature_names_) == ["UB01:a", "UB01:x"]


def test_messages(tagger, monkeypatch):
    with pytest.raises(TextError, match=r"partial_fit does not support templates whose lines B have cells"):
        tagger.partial_fit(*switches(2, 0))
    with pytest.raises(TextError, match="feature functions cannot be combined with a template whose lines B have"):
        Tagger([TEMPLATE, list]).fit(*switches(2, 0))
    with pytest.raises(ValueError, match=r"the template has cells of label pairs \(B01:%x\[0,0\]\)"):
        ColumnFiles(["a.txt"], TEMPLATE)
    monkeypatch.setattr(token_features, "MAX_PAIR_BYTES", 1000)
    with pytest.raises(TextError, match=r"have 4 features of \d+ label pairs, which .* such as parts of speech, or a"):
        Tagger(TEMPLATE).fit(*switches(60, 0))
