"""Prediction methods: consistency with each other, and with the constraints of examples."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from systems import every_system, flat, labelled_chains, roughly

from maxendnet import L2CRF, M3N, Chain, Examples, PathSearchCV


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


@every_system
def test_predictions_fit_together(model, data):
    X, y = data
    fitted = roughly(model).fit(X, y)
    predicted, best = fitted.predict(X), fitted.decision_function(X)
    top, marginals, maxima = fitted.predict_top(X, 4), fitted.predict_marginals(X), fitted.predict_max_marginals(X)
    assert best.shape == (len(X),)
    for i, x in enumerate(X):
        n_found = min(4, 3 ** len(x))
        assert type(predicted[i]) is list and len(predicted[i]) == len(x)
        assert marginals[i].shape == maxima[i].shape == (len(x), 3)
        assert len(top[i]) == n_found
        scores = [score for score, _ in top[i]]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(best[i])
        assert top[i][0][1] == predicted[i]
        assert len({tuple(labels) for _, labels in top[i]}) == n_found
        assert_allclose(marginals[i].sum(axis=1), 1.0)
        assert np.all(marginals[i] >= 0)
        assert_allclose(maxima[i].max(axis=1), best[i])
    right = np.array(flat(predicted)) == np.concatenate(y)
    assert fitted.score(X, y) == pytest.approx(right.mean())
    weights = np.arange(1.0, len(X) + 1)
    expected = np.average(right, weights=np.repeat(weights, [len(x) for x in X]))
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(expected)
    assert fitted.score(Examples.build(X, y)) == pytest.approx(right.mean())


def test_scores_and_marginals_are_those_of_all_labellings(data):
    """predict_top(all) against the marginals: two ways to the same distribution."""
    X, y = data
    model = L2CRF().fit(X, y)
    for x, top, marginals in zip(X[:5], model.predict_top(X[:5], 3**6), model.predict_marginals(X[:5])):
        assert len(top) == 3 ** len(x)
        scores = np.array([score for score, _ in top])
        p = np.exp(scores - scores.max())
        expected = np.zeros_like(marginals)
        for share, (_, labels) in zip(p / p.sum(), top):
            expected[np.arange(len(x)), np.searchsorted(model.classes_, labels)] += share
        assert_allclose(marginals, expected, atol=1e-12)


def test_samples_follow_the_marginals(data):
    X, y = data
    model = L2CRF().fit(X, y)
    draws = model.sample(X[:3], 4000, random_state=0)
    assert len(draws) == 4000 and len(draws[0]) == 3
    for i, marginals in enumerate(model.predict_marginals(X[:3])):
        frequencies = np.mean([np.array(draw[i])[:, None] == model.classes_ for draw in draws], axis=0)
        assert_allclose(frequencies, marginals, atol=0.04)  # five standard deviations of 4000 draws
    again = model.sample(X[:3], 4000, random_state=0)
    assert draws == again


def test_a_table_is_predicted_as_one_array():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] > 0, "up", "down")
    for given in (X, sparse.csr_array(X)):
        model = M3N(C=10.0, random_state=0).fit(given, y)
        assert_array_equal(model.predict(given), y)
        assert model.predict_marginals(given).shape == (30, 2)
        assert model.decision_function(given).shape == (30,)
        assert model.score(given, y) == 1.0
        assert model.sample(given, 2, random_state=0)[0].shape == (30,)


def test_prediction_needs_a_fit(data):
    for name in ("predict", "predict_marginals", "predict_max_marginals", "predict_top", "sample", "decision_function"):
        with pytest.raises(NotFittedError, match="not fitted"):
            getattr(M3N(), name)(data[0])
    with pytest.raises(NotFittedError, match="not fitted"):
        M3N().score(*data)


def test_a_forbidden_label_is_never_predicted(data):
    X, y = data
    model = M3N(tol=0.2, random_state=0).fit(X, y)
    allowed = [np.ones((len(x), 3), dtype=bool) for x in X]
    for mask in allowed:
        mask[:, 0] = False
    restricted = Examples.build(X, allowed=allowed, labels=["a", "b", "c"])
    assert "a" not in flat(model.predict(restricted))
    assert_array_equal(np.concatenate(model.predict_marginals(restricted))[:, 0], 0.0)
    assert all("a" not in labels for draw in model.sample(restricted, 3, random_state=0) for labels in draw)


def test_node_types_restrict_labels():
    X, y = [np.zeros((2, 1))] * 4, [["a", "b"]] * 4
    model = M3N(tol=0.1).fit(Examples.build(X, y, node_types=[[0, 1]] * 4))
    assert model.predict(Examples.build(X[:1], node_types=[[1, 0]])) == [["b", "a"]]


# ---- tables given where sequences are meant ------------------------------------------------------------------------


def test_a_table_given_to_a_chain_is_warned_of():
    X, y = np.array([[1.0], [0.0], [1.0]]), ["a", "b", "a"]
    for fit in (M3N().fit, L2CRF().partial_fit, M3N().fit):
        with pytest.warns(
            UserWarning, match=r"each of its 3 rows.*pass \[X\] and \[y\].*structure=Independent\(\)"
        ) as caught:
            fit(X, y)
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        M3N(structure="independent").fit(X, y)
        M3N(structure=Chain(whole=True)).fit(X, y)


@pytest.mark.parametrize("structure", ["chain", Chain(order=2), Chain(hidden=2)])
def test_one_sequence_without_its_list_is_refused(structure):
    X, y = labelled_chains()
    model = roughly(L2CRF(structure=structure)).fit(X, y)
    for ask in (model.predict, model.predict_marginals, model.decision_function, lambda x: model.score(x, y[0])):
        with pytest.raises(ValueError, match=r"X is one table.*If X is one example, pass \[X\]"):
            ask(X[0])
    assert len(model.predict([X[0]])[0]) == len(X[0])


@pytest.mark.parametrize("sentence", [[{"w": "a"}, {"w": "b"}], [["w=a"], ["w=b"]]])
def test_one_sentence_without_its_list_is_refused(sentence):
    model = L2CRF().fit([sentence], [["x", "y"]])
    with pytest.raises(ValueError, match=r"If X is one example, pass \[X\]"):
        model.predict(sentence)


def test_a_table_is_fine_where_neighbours_do_not_matter():
    X, y = labelled_chains()
    model = roughly(L2CRF(structure="independent")).fit(X, y)
    assert model.predict(X[0]).tolist() == model.predict([X[0]])[0]
    table, labels = np.concatenate(X), np.concatenate(y)
    with pytest.warns(UserWarning, match="X is one table"):
        model = roughly(L2CRF(structure=Chain(ends=True, order=2))).fit(table, labels)
    assert len(model.predict(table)) == len(table)


def test_score_warns_of_labels_it_has_never_seen(data):
    X, y = data
    model = L2CRF().fit(X, y)
    strange = [["?"] * len(labels) if i == 0 else labels for i, labels in enumerate(y)]
    n, total = len(y[0]), sum(map(len, y))
    with pytest.warns(UserWarning, match=rf"{n} of {total} labels in y did not occur in fit.*: '\?'\."):
        score = model.score(X, strange)
    right = [p == t for predicted, true in zip(model.predict(X)[1:], y[1:]) for p, t in zip(predicted, true)]
    assert score == pytest.approx(sum(right) / total)


def test_probabilities_of_rows_and_where_those_of_nodes_are():
    table, labels = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), ["a", "b", "b"]
    model = L2CRF(structure="independent").fit(table, labels)
    probabilities = model.predict_proba(table)
    assert_array_equal(probabilities, model.predict_marginals(table))
    assert probabilities.shape == (3, 2) and probabilities.sum(axis=1) == pytest.approx(1.0)
    assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(table))
    search = PathSearchCV(L2CRF(structure="independent"), {"lam": [1.0]}, cv=2).fit(table[[0, 1, 0, 1]], list("abab"))
    assert search.predict_proba(table).shape == (3, 2)
    with pytest.raises(ValueError, match=r"X is a list of 1 examples; predict_marginals\(X\) returns an array"):
        L2CRF().fit([table], [labels]).predict_proba([table])
