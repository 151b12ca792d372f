"""MultiLabel, compared with scikit-learn's estimators and enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxendnet import L2CRF, M3N, Graph, MultiLabel
from maxendnet.estimators.multi_label import chow_liu_tree


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    first = X[:, 0] + 0.5 * rng.normal(size=60) > 0
    second = np.where(rng.random(60) < 0.9, first, ~first)
    third = X[:, 1] + 0.5 * rng.normal(size=60) > 0
    return X, np.stack([first, second, third, ~third & second], axis=1).astype(int)


@pytest.mark.parametrize("edges", ["none", "tree", "full", [(0, 1), (1, 2), (2, 3), (3, 0)]], ids=str)
def test_probabilities_are_those_of_all_sets_of_labels(data, edges):
    X, Y = data
    model = MultiLabel(edges, L2CRF(lam=0.1, tol=1e-5)).fit(X, Y)
    fitted, k, d = model.estimator_, 4, 4
    coef = fitted.coef_.reshape(k, d, 2)
    transitions = np.asarray(fitted.transitions_).reshape(-1, 2, 2)
    rows = np.hstack([X, np.ones((len(X), 1))])
    sets = np.array(list(itertools.product([0, 1], repeat=k)))
    scores = np.zeros((len(X), len(sets)))
    for s, on in enumerate(sets):
        scores[:, s] = sum(rows @ coef[j, :, on[j]] for j in range(k))
        scores[:, s] += sum(transitions[e, on[a], on[b]] for e, (a, b) in enumerate(model.edges_))
    p = softmax(scores, axis=1)
    assert_allclose(model.predict_proba(X), p @ sets, atol=1e-9)
    assert_array_equal(model.predict(X), sets[scores.argmax(axis=1)])
    assert model.score(X, Y) == accuracy_score(Y, model.predict(X))


def test_labels_that_are_not_joined_are_logistic_regressions(data):
    """An indicator for each of two states, both penalised: a logistic regression whose C is twice as large."""
    X, Y = data
    ours = MultiLabel("none", L2CRF(lam=0.5, tol=1e-13)).fit(X, Y).predict_proba(X)
    rows = np.hstack([X, np.ones((len(X), 1))])
    theirs = OneVsRestClassifier(LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10)).fit(rows, Y)
    assert_allclose(ours, theirs.predict_proba(rows), atol=1e-5)


def test_the_tree_joins_labels_that_depend_on_each_other(data):
    Y = data[1]
    assert [0, 1] in chow_liu_tree(Y).tolist() and [2, 3] in chow_liu_tree(Y).tolist()
    assert len(chow_liu_tree(Y)) == 3 and len(chow_liu_tree(np.zeros((5, 4), dtype=int))) == 3
    assert chow_liu_tree(Y[:, :1]).shape == (0, 2)


def test_sparse_input_weights_and_searches(data):
    X, Y = data
    dense, thin = (
        MultiLabel("tree", M3N(C=0.1, tol=1e-9)).fit(x, y)
        for x, y in ((X, Y), (sparse.csr_array(X), sparse.csr_array(Y)))
    )
    # The optimum is unique, and two fits with a small gap are close to it whatever the order of their sums.
    assert_allclose(dense.estimator_.coef_, thin.estimator_.coef_, atol=1e-4)
    assert_array_equal(dense.predict(X), dense.predict(sparse.csr_array(X)))
    twice = MultiLabel("tree", L2CRF(tol=1e-9)).fit(np.concatenate([X, X[:20]]), np.concatenate([Y, Y[:20]]))
    weighted = MultiLabel("tree", L2CRF(tol=1e-9))
    weighted.edges = twice.edges_
    weighted.fit(X, Y, sample_weight=1.0 + (np.arange(60) < 20))
    assert_allclose(twice.predict_proba(X), weighted.predict_proba(X), atol=1e-4)
    search = GridSearchCV(MultiLabel(estimator=M3N()), {"edges": ["none", "tree"], "estimator__C": [0.01, 0.1]}, cv=2)
    assert search.fit(X, Y).best_score_ > 0.4


def test_a_graph_of_the_estimator_is_used(data):
    X, Y = data
    model = MultiLabel("full", M3N(C=0.1, structure=Graph("relaxed"), tol=0.1)).fit(X, Y)
    assert model.estimator_.structure.inference == "relaxed"


def test_bad_input_is_refused(data):
    X, Y = data
    for edges, message in (
        ("chain", "'tree', 'full', 'none' or a list of pairs"),
        ([(0, 7)], "the label 7, but y has the labels 0 to 3"),
        ([(0, -1)], "the label -1"),
        ([(0, 1, 2)], "list of pairs"),
        ([(1, 1)], "a loop"),
    ):
        with pytest.raises(ValueError, match=message):
            MultiLabel(edges).fit(X, Y)
    with pytest.raises(ValueError, match="one label per row"):
        MultiLabel().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="only zeros and ones"):
        MultiLabel().fit(X, Y + 1)


EXPECTED_FAILURES = {
    **dict.fromkeys(
        (
            "check_estimators_dtypes", "check_sample_weights_not_an_array", "check_sample_weights_shape",
            "check_sample_weights_not_overwritten", "check_classifier_data_not_an_array", "check_classifiers_one_label",
            "check_classifiers_one_label_sample_weights", "check_classifiers_classes",
            "check_classifiers_regression_target", "check_classifier_not_supporting_multiclass", "check_fit2d_1feature",
        ),
        "has a target of one dimension, or of values other than 0 and 1",
    ),
    **dict.fromkeys(
        ("check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_classifiers_train"),
        "expects results of shape (n,) or (n, 2), and those for a single label have shape (n, 1)",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([MultiLabel()], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_labels_are_y_as_elsewhere():
    X, Y = np.eye(4), np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    assert_array_equal(MultiLabel().fit(X, y=Y).predict(X), MultiLabel().fit(X, Y).predict(X))
