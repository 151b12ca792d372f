"""Dual support, and predictions under the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from maxendnet import L2CRF, M3N, UNKNOWN, Gaussian, Independent, Laplace, LapMEDN
from maxendnet.posterior import Posterior
from maxendnet.solvers import SMO, BlockFrankWolfe, Smoothing


def letters(seed=0, n_examples=20):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(rng.integers(1, 5)), 3)) for _ in range(n_examples)]
    return X, [["abc"[k] for k in (x + rng.normal(0.0, 0.5, x.shape)).argmax(axis=1)] for x in X]


def features(x, labels, classes=("a", "b", "c")):
    """Of a chain: node features by label, then pairs of labels."""
    node, pairs = np.zeros((x.shape[1], 3)), np.zeros((3, 3))
    numbers = [classes.index(label) for label in labels]
    for t, a in enumerate(numbers):
        node[:, a] += x[t]
        if t:
            pairs[numbers[t - 1], a] += 1
    return np.concatenate([node.ravel(), pairs.ravel()])


@pytest.mark.parametrize("solver", [BlockFrankWolfe(average=False), SMO()])
@pytest.mark.parametrize(("estimator", "prior"), [(M3N(C=0.7), Gaussian()), (LapMEDN(C=2.0, lam=3.0), Laplace(3.0))])
def test_the_support_makes_up_the_weights(estimator, prior, solver):
    X, y = letters()
    model = clone(estimator).set_params(solver=solver, tol=1e-2).fit(X, y)
    assert model.which_ == "last"
    eta = np.zeros(18)
    for x, truth, support in zip(X, y, model.support_):
        assert sum(weight for _, weight in support) <= estimator.C * (1 + 1e-9)
        for labels, weight in support:
            assert weight > 0 and labels != truth
            eta += weight * (features(x, truth) - features(x, labels))
    assert_allclose(prior.mean(eta), model.model_.weights, atol=1e-8)
    assert model.n_support_ == sum(map(len, model.support_)) > 0
    assert any(not support for support in model.support_)


@pytest.mark.parametrize("estimator", [L2CRF(), M3N(solver=Smoothing())])
def test_without_labellings_there_is_no_support(estimator):
    X, y = letters()
    model = estimator.fit(X, y)
    assert not hasattr(model, "support_")
    with pytest.raises(AttributeError, match="it exists for margin models fitted with ProximalPoint, BlockFrankWolfe"):
        model.n_support_  # noqa: B018


def test_before_a_fit_there_is_none():
    assert not hasattr(M3N(), "n_support_")


def test_votes_and_samples_come_from_the_posterior():
    X, y = letters()
    model = LapMEDN(C=2.0, lam=3.0, structure=Independent()).fit(X, y)
    rng = np.random.default_rng(7)
    again = np.random.default_rng(7)
    draws = [model.posterior_.sample(1, again)[0].reshape(3, 3) for _ in range(400)]
    expected = [[[model.classes_[(x[t] @ w).argmax()] for t in range(len(x))] for x in X] for w in draws]
    voted = model.predict(X, by="vote", n_draws=400, random_state=rng)
    for i, x in enumerate(X):
        for t in range(len(x)):
            counts = {label: sum(run[i][t] == label for run in expected) for label in "abc"}
            assert counts[voted[i][t]] == max(counts.values())
    drawn = model.predict(X, by="sample", random_state=3)
    weights = np.random.default_rng(3)
    for x, labels in zip(X, drawn):
        w = model.posterior_.sample(1, weights)[0].reshape(3, 3)
        assert labels == [model.classes_[a] for a in (x @ w).argmax(axis=1)]


def test_given_labels_hold_for_samples_and_votes():
    X, y = letters()
    model = M3N().fit(X, y)
    given = [["c", *[UNKNOWN] * (len(x) - 1)] for x in X]
    for by in ("sample", "vote"):
        assert all(labels[0] == "c" for labels in model.predict(X, given=given, by=by, random_state=0))


def test_messages():
    X, y = letters()
    with pytest.raises(ValueError, match="by must be 'mean', 'sample' or 'vote'"):
        M3N().fit(X, y).predict(X, by="mode")
    with pytest.raises(ValueError, match="point estimate and has no sample"):
        L2CRF().fit(X, y).predict(X, by="sample")


def test_the_scale_of_a_laplace_weight_is_that_of_enumeration():
    lam, eta = 3.0, np.array([0.0, 1.0, -1.6])
    tau = np.linspace(0.0, 400.0, 2_000_001)[1:]
    for k, scale in enumerate(Posterior(Laplace(lam), eta).scale):
        # the integral over w of N(w | 0, tau) exp(eta w) is exp(eta^2 tau / 2)
        density = np.exp(-0.5 * lam * tau + 0.5 * eta[k] ** 2 * tau)
        assert_allclose(scale, (tau * density).sum() / density.sum(), rtol=1e-3)
    with pytest.raises(AttributeError, match="not a hierarchical prior"):
        Posterior(Gaussian(), eta).scale  # noqa: B018
