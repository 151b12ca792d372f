"""partial_fit: the last posterior is the prior of the next fit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, Examples, Hinge, LapMEDN, Log, MaxEnDNet, load
from maxendnet.priors import Gaussian

TIGHT = {"tol": 1e-8, "random_state": 0}


def arrays(seed, n=8):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(4, 3)) for _ in range(n)]
    return X, [[("a", "b", "c")[k] for k in x.argmax(axis=1)] for x in X]


def dicts(words, seed, n=12):
    """Words whose label is their first letter."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(words, size=4).tolist() for _ in range(n)]
    return [[{f"word={word}": 1.0} for word in row] for row in rows], [[word[0] for word in row] for row in rows]


@pytest.mark.parametrize("structure", [Chain(), Chain(bias=True, ends=True), Chain(order=2)], ids=repr)
@pytest.mark.parametrize(("estimator", "loss", "C"), [(M3N(C=0.3), Hinge(), 0.3), (L2CRF(lam=0.5), Log(), 1.0)])
def test_the_prior_is_a_gaussian_at_the_last_weights(estimator, loss, C, structure):
    model = estimator.set_params(structure=structure, **TIGHT).fit(*arrays(0))
    first, variance = model.model_.weights, 1.0 if isinstance(loss, Hinge) else 2.0
    model.partial_fit(*arrays(1))
    expected = MaxEnDNet(Gaussian(variance, mean=first), loss, C=C, structure=structure, **TIGHT).fit(*arrays(1))
    assert model.gap_ <= 1e-8
    assert_allclose(model.model_.weights, expected.model_.weights, atol=2e-3)
    assert_allclose(model.objective_, expected.objective_, rtol=1e-6)
    assert np.abs(model.model_.weights - first).max() > 0.01


def test_moments_of_a_laplace_posterior():
    model = LapMEDN(C=0.2, lam=2.0, tol=1e-3, random_state=0).fit(*arrays(0))
    first = model.posterior_
    model.partial_fit(*arrays(1))
    prior = model.posterior_.prior
    assert_allclose(prior.prior_mean, first.mean)
    assert_allclose(prior.prior_variance, first.variance)
    assert model.gap_ <= 1e-3


@pytest.mark.parametrize("pairs", ["all", "seen"])
def test_new_features_get_weights_and_others_stay(pairs, tmp_path):
    structure = Chain(bias=True, pairs=pairs)
    model = L2CRF(lam=0.1, structure=structure, **TIGHT).fit(*dicts(["apple", "ant", "bee", "bear"], 0))
    names, before = model.feature_names_, model.coef_ if pairs == "all" else model.coef_.toarray()
    transitions, intercept = model.transitions_, model.intercept_
    model.partial_fit(*dicts(["ant", "axe", "bath", "bee"], 1))
    after = model.coef_ if pairs == "all" else model.coef_.toarray()
    assert model.feature_names_ == (*names, "word=axe", "word=bath")
    untouched = [k for k, name in enumerate(names) if name in ("word=apple", "word=bear")]
    assert_allclose(after[untouched], before[untouched], atol=1e-3)
    for word in ("axe", "bath"):
        row = after[model.feature_names_.index(f"word={word}")]
        assert model.classes_[row.argmax()] == word[0]
    assert not np.allclose(model.transitions_, transitions) or not np.allclose(model.intercept_, intercept)
    for word in ("apple", "bear", "axe", "bath"):
        assert model.predict([[{f"word={word}": 1.0}]]) == [[word[0]]]
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.model_.weights, model.model_.weights)
    again.partial_fit(*dicts(["bell"], 2))
    assert again.predict([[{"word=bell": 1.0}]]) == [["b"]]


def test_weights_of_new_pairs_compete_with_old_ones():
    model = L2CRF(lam=0.05, structure=Chain(pairs="seen"), **TIGHT).fit([[{"x": 1}, {"y": 1}]] * 5, [["a", "b"]] * 5)
    assert model.predict([[{"x": 1}]]) == [["a"]] and model.coef_.nnz == 2
    model.partial_fit([[{"x": 1}, {"y": 1}]] * 50, [["b", "a"]] * 50)
    assert model.coef_.nnz == 4
    assert model.predict([[{"x": 1}]]) == [["b"]]


def test_examples_that_weigh_nothing_change_nothing():
    model = M3N(C=1.0, **TIGHT).fit(*arrays(0))
    first = model.model_.weights
    X, y = arrays(1)
    assert_allclose(model.partial_fit(X, y, sample_weight=np.full(len(X), 1e-12)).model_.weights, first, atol=1e-6)


def test_the_first_call_is_a_fit():
    X, y = arrays(0)
    left, right = (M3N(C=1.0, **TIGHT) for _ in range(2))
    assert_array_equal(left.partial_fit(X, y).model_.weights, right.fit(X, y).model_.weights)


@pytest.mark.parametrize("estimator", [L1CRF(), CRF(), L1M3N(), LapMEDN(method="variational")], ids=repr)
def test_models_without_a_posterior_have_no_partial_fit(estimator):
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as error:
        estimator.partial_fit(*arrays(1))
    assert "has no posterior that could be the prior" in str(error.value.__cause__)


def test_inconsistent_input_is_refused():
    model = L2CRF().fit(*arrays(0))
    before = model.model_
    X, y = arrays(1)
    with pytest.raises(ValueError, match="X has 2 features, but L2CRF is expecting 3 features"):
        model.partial_fit([x[:, :2] for x in X], y)
    with pytest.raises(ValueError, match="with names"):
        model.partial_fit([[{"a": 1.0}]], [["a"]])
    with pytest.raises(ValueError, match="'z'"):
        model.partial_fit(X, [["z"] * 4] * len(X))
    model.structure = Chain(bias=True)
    with pytest.raises(ValueError, match="structure"):
        model.partial_fit(X, y)
    assert model.model_ is before
    full = MaxEnDNet(Gaussian(np.eye(18))).fit(*arrays(0))
    with pytest.raises(ValueError, match="does not support a full covariance"):
        full.partial_fit(X, y)


def test_examples_with_other_features_than_dicts():
    names = ["x", "y", "z"]
    X, y = arrays(0)
    model = M3N(C=1.0, **TIGHT).fit(Examples.build(X, y, feature_names=names))
    model.partial_fit(Examples.build([x[:, ::-1] for x in X], y, feature_names=names[::-1]))
    assert list(model.feature_names_) == names and model.score(Examples.build(X, y, feature_names=names)) == 1.0
