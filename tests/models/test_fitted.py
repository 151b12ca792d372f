"""Predictions as lists of labels, and the content of a fitted model."""

import copy
import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, cross_validate
from systems import every_system, flat, labelled_chains, roughly

from maxendnet import L2CRF, M3N, Chain, Examples
from maxendnet.estimators.fitted import FittedModel, Labellings
from maxendnet.text import span_f1


@pytest.fixture(scope="module")
def ragged():
    return labelled_chains()


@pytest.fixture(scope="module")
def equal():
    """Chains of the same length, which numpy would convert to rows of a matrix."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(3, 2)) for _ in range(30)]
    return X, [np.where(x[:, 0] > 0, "up", "down").tolist() for x in X]


@pytest.fixture(scope="module")
def entities():
    """Words with B-, I- and O labels."""
    texts = ["Ada met Alan Turing in London", "London is large", "Alan saw New York", "Ada is in New York"] * 5
    spans = {"Ada": "B-PER", "Alan": "B-PER", "Turing": "I-PER", "London": "B-LOC", "New": "B-LOC", "York": "I-LOC"}
    X = [[{"word": word, "upper": word[0].isupper()} for word in text.split()] for text in texts]
    return X, [[spans.get(word, "O") for word in text.split()] for text in texts]


# ---- lists of labels -------------------------------------------------------------------------------------------------


@every_system
def test_predictions_are_lists_of_the_labels_that_were_given(model, ragged):
    X, y = ragged
    fitted = roughly(model).fit(X, y)
    drawn = fitted.sample(X, 2, random_state=0)
    for predicted in (fitted.predict(X), *drawn):
        assert isinstance(predicted, list)
        assert [len(labels) for labels in predicted] == [len(labels) for labels in y]
        assert all(type(labels) is list for labels in predicted)
        assert {type(label) for label in flat(predicted)} == {str}
        assert set(flat(predicted)) <= {"a", "b", "c"}
    assert json.loads(json.dumps(fitted.predict(X))) == fitted.predict(X)
    for _, labels in fitted.predict_top(X, 2)[0]:
        assert type(labels) is list and {type(label) for label in labels} == {str}


@pytest.mark.parametrize(
    "labels", [[1, 2], [True, False], [("a", 1), ("b", 2)], [("x", None), "y"], [b"x", b"y"]], ids=str
)
def test_labels_come_back_as_python_objects(labels):
    X, y = [[[0.0], [1.0]], [[1.0]]], [labels, labels[1:]]
    predicted = M3N(C=100).fit(X, y).predict(X)
    assert predicted == y
    assert [type(label) for label in flat(predicted)] == [type(label) for label in flat(y)]


def test_a_table_is_predicted_as_one_array():
    X, y = np.array([[0.0], [1.0], [1.0]]), np.array(["a", "b", "b"])
    predicted = M3N(C=10).fit(X, y).predict(X)
    assert isinstance(predicted, np.ndarray) and predicted.shape == (3,)
    assert accuracy_score(y, predicted) == 1.0


def test_an_array_of_labellings_has_one_entry_for_each_example():
    for labellings in ([["a", "b"], ["b"]], [["a"], ["b"]], [["a", "b"], ["b", "a"]], [[], []], []):
        array = np.asarray(Labellings(labellings))
        assert array.shape == (len(labellings),) and array.dtype == object
        assert array.tolist() == labellings
    parts = [Labellings([["a", "b"]]), Labellings([["b", "b"], ["a", "a"]])]
    assert np.concatenate(parts).tolist() == [["a", "b"], ["b", "b"], ["a", "a"]]


def test_labellings_can_be_copied_and_pickled():
    labellings = Labellings([["a"], ["b", "a"]])
    for again in (copy.deepcopy(labellings), pickle.loads(pickle.dumps(labellings))):
        assert again == labellings and np.asarray(again).shape == (2,)


# ---- scorers of label sequences -----------------------------------------------------------------------------------


def f1_score(true, predicted):
    """Metric that accepts only lists of lists, as in seqeval."""
    assert type(true) is list and isinstance(predicted, list)
    assert all(type(labels) is list and all(type(label) is str for label in labels) for labels in predicted)
    return span_f1(true, predicted)


def test_scorers_of_spans_take_predictions_as_they_are(entities):
    X, y = entities
    model = M3N(C=1.0, random_state=0).fit(X, y)
    assert f1_score(y, model.predict(X)) == 1.0
    wrong = [["O"] * len(labels) for labels in y]
    assert f1_score(wrong, model.predict(X)) == 0.0
    forbidden = M3N(C=1.0, structure=Chain(forbidden=[("O", "I-PER"), ("O", "I-LOC")]), random_state=0).fit(X, y)
    assert f1_score(y, forbidden.predict(X)) == 1.0


def test_f1_of_spans_as_a_scorer(entities):
    X, y = entities
    scorer = make_scorer(f1_score)
    scores = cross_val_score(M3N(random_state=0), X, y, cv=KFold(4), scoring=scorer)
    first = M3N(random_state=0).fit(X[5:], y[5:])
    assert scores[0] == f1_score(y[:5], first.predict(X[:5]))
    search = GridSearchCV(L2CRF(tol=0.01), {"lam": [0.1, 1e4]}, scoring=scorer, cv=2).fit(X, y)
    assert search.best_params_ == {"lam": 0.1}
    assert search.score(X, y) == f1_score(y, search.predict(X))


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


def share_of_whole_examples(truth, predicted):
    """Metric on lists, which does not accept concatenated arrays."""
    assert len(truth) == len(predicted) and all(type(labels) is list for labels in predicted)
    return float(np.mean([list(left) == right for left, right in zip(truth, predicted)]))


@pytest.mark.parametrize("which", ["ragged", "equal"])
@pytest.mark.parametrize("form", ["list", "Examples"])
def test_cross_val_predict_has_an_entry_for_each_example_in_order(which, form, request):
    X, y = request.getfixturevalue(which)
    given = Examples.build(X) if form == "Examples" else X
    folds = KFold(4, shuffle=True, random_state=0)  # folds are not contiguous, so the order must be restored
    predicted = cross_val_predict(L2CRF(), given, y, cv=folds)
    assert predicted.shape == (len(X),)
    expected = [None] * len(X)
    for train, test in folds.split(X):
        model = L2CRF().fit([X[i] for i in train], [y[i] for i in train])
        for i, labels in zip(test, model.predict([X[i] for i in test])):
            expected[i] = labels
    assert predicted.tolist() == expected


@pytest.mark.parametrize("which", ["ragged", "equal"])
def test_a_scorer_of_lists(which, request):
    X, y = request.getfixturevalue(which)
    scorer = make_scorer(share_of_whole_examples)
    scores = cross_val_score(L2CRF(), X, y, cv=KFold(2), scoring=scorer)
    half = len(X) // 2
    first = L2CRF().fit(X[half:], y[half:])
    assert scores[0] == share_of_whole_examples(y[:half], first.predict(X[:half]))
    search = GridSearchCV(L2CRF(), {"lam": [0.1, 1e5]}, cv=2, scoring=scorer).fit(X, y)
    assert search.best_params_ == {"lam": 0.1}
    several = cross_validate(L2CRF(), X, y, cv=2, scoring={"whole": scorer, "nodes": _share_of_nodes})
    assert np.all(several["test_whole"] <= several["test_nodes"] + 1e-12) or which == "ragged"


def _share_of_nodes(model, X, y):
    return model.score(X, y)


def test_scores_of_nodes_and_of_lists_agree(ragged):
    X, y = ragged
    model = L2CRF().fit(X, y)
    right = [a == b for one, other in zip(model.predict(X), y) for a, b in zip(one, other)]
    assert model.score(X, y) == np.mean(right)


# ---- content of a fitted model ---------------------------------------------------------------------------------------


@every_system
def test_the_fitted_model_agrees_with_the_attributes(model, ragged):
    X, y = ragged
    fitted = roughly(model, structure=Chain(bias=True)).fit(X, y)
    model = fitted.model_
    assert isinstance(model, FittedModel)
    assert model.classes is fitted.classes_ and model.posterior is fitted.posterior_
    assert model.n_features_in == fitted.n_features_in_ == 4 and model.feature_names is None
    assert model.report == (
        fitted.objective_, fitted.dual_, fitted.gap_, fitted.converged_, fitted.which_, fitted.n_passes_, fitted.trace_,
        fitted.round_gap_, fitted.n_rounds_, fitted.solver_, model.report.constants,
    ) or np.isnan(fitted.gap_)  # fmt: skip
    segments = model.layout.segments(model.weights)
    assert_array_equal(segments.node, np.vstack([fitted.coef_, fitted.intercept_]))
    assert_array_equal(segments.transitions[0], fitted.transitions_)
    assert model.layout.n_weights == len(model.weights) == 4 * 3 + 3 + 9
    # the fitted model alone predicts the same as the estimator
    examples = model.read(X)
    assert model.labellings(examples, model.bind(examples).decode(model.weights)) == fitted.predict(X)


def test_a_model_makes_an_estimator_of_it(ragged):
    fitted = L2CRF().fit(*ragged)
    other = clone(fitted)
    other.set_model(fitted.model_)
    assert other.predict(ragged[0]) == fitted.predict(ragged[0])
    assert_array_equal(other.coef_, fitted.coef_)
