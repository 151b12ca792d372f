"""Models with known solutions, and limits in which one model becomes another."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from maxendnet import L1M3N, L2CRF, M3N, Laplace, LapMEDN, MaxEnDNet, NormalGamma
from maxendnet.solvers import ConstraintGeneration


@pytest.fixture(scope="module")
def chains():
    """Return data with noisy labels from random weights."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)) for n in rng.integers(2, 6, size=12)]
    weights = rng.normal(size=(4, 3))
    return X, [np.argmax(x @ weights + rng.normal(size=(len(x), 3)), axis=1) for x in X]


@pytest.fixture(scope="module")
def table():
    """Return a table as examples of one node."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5))
    return X, np.argmax(X @ rng.normal(size=(5, 3)) + rng.normal(size=(60, 3)), axis=1)


def weights_of(model):
    return np.concatenate([model.coef_.ravel(), model.transitions_.ravel()])


@pytest.mark.parametrize(("lam", "C"), [(0.25, 0.3), (1.0, 1.0), (4.0, 0.5)])
def test_variational_is_exact_with_four_lam_and_twice_C(chains, lam, C):
    exact = LapMEDN(C=2 * C, lam=4 * lam, tol=1e-9, max_passes=20_000, random_state=0).fit(*chains)
    variational = LapMEDN(C=C, lam=lam, method="variational", tol=1e-9, max_passes=200, random_state=0).fit(*chains)
    assert_allclose(weights_of(variational), weights_of(exact), atol=1e-4)
    assert_allclose(variational.posterior_.mean, exact.posterior_.mean, atol=1e-4)
    constant = len(exact.posterior_.mean) * (1 + 0.5 * np.log(lam))
    assert variational.objective_ == pytest.approx(0.5 * exact.objective_ + constant, rel=1e-6)
    # the variational variance is a function of the mean alone, and never below 1 / lam
    mu, v = variational.posterior_.mean, variational.posterior_.variance
    assert_allclose(v, (1 + np.sqrt(1 + 4 * lam * mu**2)) / (2 * lam), rtol=1e-9)
    assert np.all(v >= 1 / lam)


def test_at_equal_constants_variational_and_exact_are_different_models(chains):
    exact = LapMEDN(C=1.0, lam=1.0, random_state=0).fit(*chains)
    variational = LapMEDN(C=1.0, lam=1.0, method="variational", random_state=0).fit(*chains)
    assert np.abs(weights_of(exact) - weights_of(variational)).max() > 0.1


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_m3n_on_isolated_nodes_is_the_multiclass_svm_of_crammer_and_singer(table, C):
    X, y = table
    # both minimise 1/2 |w|^2 + C sum_i max_y [1(y != y_i) - w . df_i(y)]
    svm = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(X, y)
    expected = svm.coef_.T
    ours = M3N(C=C, structure="independent", tol=1e-9, max_passes=20_000, random_state=0).fit(X, y)
    assert_allclose(ours.coef_, expected, atol=1e-3)
    scores = X @ expected
    margins = scores + (np.arange(3) != y[:, None])
    objective = 0.5 * np.sum(expected**2) + C * np.sum(margins.max(axis=1) - scores[np.arange(len(y)), y])
    assert ours.objective_ == pytest.approx(objective, rel=1e-6)
    assert np.array_equal(ours.predict(X), svm.predict(X))


@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
def test_l2crf_on_isolated_nodes_is_logistic_regression(table, lam):
    X, y = table
    expected = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    ours = L2CRF(lam=lam, structure="independent", tol=1e-12).fit(X, y)
    assert_allclose(ours.coef_, expected.coef_.T, atol=1e-5)
    assert_allclose(ours.predict_marginals(X), expected.predict_proba(X), atol=1e-5)


def test_isolated_nodes_are_the_same_one_by_one_or_in_sequences_for_the_log_loss(chains):
    X, y = chains
    together = L2CRF(structure="independent", tol=1e-12).fit(X, y)
    apart = L2CRF(structure="independent", tol=1e-12).fit(np.concatenate(X), np.concatenate(y))
    assert_allclose(together.coef_, apart.coef_, atol=1e-6)


def test_lapmedn_tends_to_l1m3n_as_lam_grows(chains):
    C, rho = 0.4, 0.5
    goal = L1M3N(C=C, tol=1e-8, solver=ConstraintGeneration()).fit(*chains)
    away = []
    for lam in (1e1, 1e3, 1e5):
        near = LapMEDN(C=np.sqrt(lam) / rho * C, lam=lam, tol=1e-5, max_passes=20_000, random_state=0).fit(*chains)
        w = weights_of(near)
        value = rho * np.abs(w).sum() + C * hinge(near, *chains)
        away.append(value - goal.objective_)
        # THEORY 3.2: at the optimum of LapMEDN the gap to L1-M3N is at most K rho / sqrt(lam)
        assert -1e-5 * goal.objective_ <= away[-1] <= len(w) * rho / np.sqrt(lam) + 1e-4 * goal.objective_
    assert away[0] > away[1] > away[2]


def test_lapmedn_tends_to_m3n_as_lam_vanishes(chains):
    C = 0.4
    goal = M3N(C=C, tol=1e-8, max_passes=20_000, random_state=0).fit(*chains)
    away = []
    for lam in (1e0, 1e-2, 1e-4):
        near = LapMEDN(C=lam * C / 2, lam=lam, tol=1e-8, max_passes=20_000, random_state=0).fit(*chains)
        away.append(np.abs(weights_of(near) - weights_of(goal)).max())
    assert away[0] > away[1] > away[2]
    assert away[2] < 1e-3
    # at fixed C it does not: a flat prior costs nothing, and the loss decides alone
    fixed = LapMEDN(C=C, lam=1e-2, tol=0.05, max_passes=5000, random_state=0).fit(*chains)
    assert np.abs(weights_of(fixed) - weights_of(goal)).max() > 0.1


@pytest.mark.parametrize("a", [0.5, 2.0])
def test_normal_gamma_has_the_mean_of_a_laplace_but_not_its_variance(chains, a):
    lam, C, settings = 2.0, 0.7, {"tol": 1e-8, "max_passes": 20_000, "random_state": 0}
    gamma = MaxEnDNet(NormalGamma(a=a, lam=lam), C=C, **settings).fit(*chains)
    laplace = MaxEnDNet(Laplace(lam / a**2), C=C / a, **settings).fit(*chains)
    assert_allclose(gamma.posterior_.mean, laplace.posterior_.mean, atol=1e-4)
    assert gamma.objective_ == pytest.approx(a * laplace.objective_, rel=1e-6)
    assert_allclose(gamma.posterior_.variance, laplace.posterior_.variance / a, rtol=1e-2)


def hinge(model, X, y):
    """Return the sum of hinges of a fitted chain, by decoding with 1 added for every wrong label."""
    total = 0.0
    for x, labels in zip(X, y):
        scores = x @ model.coef_
        truth = scores[np.arange(len(labels)), labels].sum() + model.transitions_[labels[:-1], labels[1:]].sum()
        scores = scores + (np.arange(scores.shape[1]) != np.asarray(labels)[:, None])
        best = scores[0]
        for row in scores[1:]:
            best = (best[:, None] + model.transitions_).max(axis=0) + row
        total += best.max() - truth
    return total
