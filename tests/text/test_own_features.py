"""Features from functions, alone and beside templates."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from test_tagger import corpus

import maxendnet as mx
from maxendnet import ModelFileError
from maxendnet.text import OwnFeatures, Tagger, TextError, TokenFeatures


def shapes(sentence):
    return [{"length": len(word), "title": word.istitle()} for word in sentence]


def names(sentence):
    return [["word=" + word.lower()] for word in sentence]


def vectors(sentence):
    return np.array([[len(word) / 10, float(word[0].isupper()), -1.0] for word in sentence])


def sparse_vectors(sentence):
    return sparse.csr_array(vectors(sentence))


class Embedding:
    """A callable object."""

    def __call__(self, sentence):
        return vectors(sentence)


FUNCTIONS = [shapes, names, vectors, sparse_vectors, Embedding()]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
@pytest.mark.parametrize("beside", [None, "words", TokenFeatures("U0=%x[0,0]\nB", min_count=2)], ids=repr)
def test_features_are_those_of_the_template_and_of_the_function(function, beside):
    X, y = corpus(10)
    features = OwnFeatures([beside, function] if beside else function)
    examples = features.fit_transform([*X, []], [*y, []])
    assert len(examples) == 11 and len(set(features.feature_names_)) == examples.n_features
    expected = mx.Examples.build([function(sentence) for sentence in X]).X.toarray()
    n = expected.shape[1]
    assert_allclose(examples.X.toarray()[:, -n:], expected)
    if beside:
        template = TokenFeatures(beside) if isinstance(beside, str) else beside
        assert_allclose(examples.X.toarray()[:, :-n], template.fit_transform(X).X.toarray())
    again = features.transform([X[3], [], ["New"]])
    assert_allclose(again.X.toarray()[: len(X[3])], examples[3].X.toarray())
    data, indices, indptr = features.entries(features.read([X[3]]))
    assert_allclose(sparse.csr_array((data, indices, indptr), (len(X[3]), examples.n_features)).toarray(),
                    examples[3].X.toarray())  # fmt: skip
    assert features.transform([]).X.shape == (0, examples.n_features)


def test_equal_names_are_one_feature():
    features = OwnFeatures(["U0=%x[0,0]", lambda sentence: [["U0=a"] for _ in sentence]])
    assert features.fit_transform([["a", "b"]]).X.toarray().tolist() == [[2, 0], [1, 1]]
    assert features.feature_names_ == ("U0=a", "U0=b")


@pytest.mark.parametrize("parts", [shapes, vectors, ["auto", vectors, names]], ids=["dicts", "array", "both"])
def test_taggers_with_functions(parts, tmp_path):
    X, y = corpus(60)
    tagger = Tagger(parts).fit(X, y, validation=(X, y))
    functions = [part for part in (parts if isinstance(parts, list) else [parts]) if callable(part)]
    new, truth = corpus(20, seed=1)
    assert tagger.temperature_ != 1.0 and tagger.estimator_.gap_ <= 1e-2
    if parts is not vectors:
        assert tagger.score(new, truth) > 0.9
    assert [len(spans) for spans in tagger.predict_spans(new)] and tagger.explain(new[0]).tokens[0].reasons
    tagger.save(tmp_path / "t")
    again = Tagger.load(tmp_path / "t", features=functions if len(functions) > 1 else functions[0])
    for fitted in (again, pickle.loads(pickle.dumps(tagger))):
        assert fitted.predict(new) == tagger.predict(new) == [fitted.predict([x])[0] for x in new]
        assert fitted.predict_spans(new) == tagger.predict_spans(new)
    again.partial_fit([["Zoe", "met"]] * 3, [["B-PER", "O"]] * 3)
    assert again.predict([["Zoe", "met"]]) == [["B-PER", "O"]]
    again.save(tmp_path / "again")
    assert Tagger.load(tmp_path / "again", features=functions).predict(new) == again.predict(new)


def test_functions_get_the_columns_of_a_sentence():
    sentences = []
    features = OwnFeatures(lambda sentence: sentences.append(sentence) or [{"x": 1} for _ in sentence])
    features.fit([[("Ada", "NNP"), ("met", "VBD")]])
    features.fit([["Ada", "met"]])
    assert sentences == [[("Ada", "NNP"), ("met", "VBD")], ["Ada", "met"]]


def test_sentences_of_feature_dicts():
    X, y = corpus(60)
    rows = [names(sentence) for sentence in X]
    tagger = Tagger(list).fit(rows, y)
    assert tagger.predict(rows) == y and tagger.score(rows, y) == 1.0
    dicts = [shapes(sentence) for sentence in X]
    assert Tagger(list, calibrate=False).fit(dicts, y).predict([dicts[0]]) != []


def test_max_weights_drops_columns_of_arrays(tmp_path):
    X, y = corpus(60)
    tagger = Tagger(["words", vectors], max_weights=40).fit(X, y)
    assert tagger.estimator_.coef_.nnz == 40
    tagger.save(tmp_path / "t")
    assert Tagger.load(tmp_path / "t", features=vectors).predict(X) == tagger.predict(X)


def test_the_functions_of_a_file_are_requested(tmp_path):
    X, y = corpus(10)
    Tagger(["words", vectors, shapes]).fit(X, y).save(tmp_path / "two")
    Tagger("words").fit(X, y).save(tmp_path / "none")
    with pytest.raises(
        TextError, match=r"two: its features are computed by 'vectors', 'shapes', .*features=\[vectors, s"
    ):
        Tagger.load(tmp_path / "two")
    with pytest.raises(TextError, match=r"instead of 'names'\.$"):
        Tagger.load(tmp_path / "two", features=names)
    with pytest.raises(TextError, match="none: the tagger has no feature functions"):
        Tagger.load(tmp_path / "none", features=names)


def test_files_hold_names_of_functions_and_no_code(tmp_path):
    tagger = Tagger(["words", vectors]).fit(*corpus(10))
    assert json.loads(json.dumps(tagger.features_.to_plain()))["functions"] == [["vectors", 3]]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (lambda sentence: [{"a": 1}], r"'<lambda>' returned 1 rows for sentence 1, which has 2 tokens"),
        (lambda sentence: None, "'<lambda>' must return a feature dict, a list of names or a row of numbers"),
        (lambda sentence: np.full((len(sentence), 2), np.nan), "Of its results, .*(NaN|nan)"),
        (lambda sentence: [{"a": object()} for _ in sentence], r"Of its results, X\[0\] node 0 feature 'a'"),
        ([vectors, vectors], "two of the feature functions have the same name"),
        (["words", "words", vectors], "a template, a function .* or a list of functions and at most one template"),
        (None, "a template, a function .* got None"),
        (3, "got 3"),
        ([TokenFeatures(n_hashed=10), vectors], "n_hashed is not supported beside"),
    ],
)
def test_invalid_features_are_an_error(functions, message):
    with pytest.raises(TextError, match=message):
        Tagger(functions).fit([["a"], ["b", "c"]], [["X"], ["X", "Y"]])


def test_other_columns_than_in_the_fit_are_an_error():
    width = [3]
    features = OwnFeatures(lambda sentence: np.ones((len(sentence), width[0]))).fit([["a"]])
    width[0] = 4
    with pytest.raises(TextError, match="returned 4 columns, but in the fit arrays with 3 columns"):
        features.transform([["a"]])
    named = [False]
    features = OwnFeatures(lambda sentence: shapes(sentence) if named[0] else vectors(sentence)).fit([["a"]])
    named[0] = True
    with pytest.raises(TextError, match="returned named features, but in the fit arrays"):
        features.transform([["a"]])


def test_a_damaged_description_is_an_error(tmp_path):
    tagger = Tagger(vectors).fit(*corpus(10))
    plain = tagger.features_.to_plain()
    for damage in ({"functions": 3}, {"functions": [["vectors", "x"]]}, {"n_columns_in": None}, {"template": 3}):
        tagger.features_.to_plain = lambda damage=damage: plain | damage
        tagger.save(tmp_path / "t")
        with pytest.raises(ModelFileError, match="the description of the tagger is damaged"):
            Tagger.load(tmp_path / "t", features=vectors)
