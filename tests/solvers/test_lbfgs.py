"""L-BFGS: its initial Hessian, and how it stops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from maxendnet import L2CRF
from maxendnet.data.examples import as_examples
from maxendnet.losses import Log
from maxendnet.priors import Flat, Gaussian
from maxendnet.problem import Problem
from maxendnet.solvers.lbfgs import MAX_DENSE_FEATURES, Curvature
from maxendnet.structures import Chain


def problem_of(X, y, prior, n_labels):
    return Problem.pose(Chain().bind(as_examples(X, y), np.arange(n_labels)), Log(), prior)


def overlapping(n, n_features, seed=0):
    """Chains whose features are sums of few sources, so that many occur together."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(6, n_features))
    X = [rng.normal(size=(5, 6)) @ mix + 0.05 * rng.normal(size=(5, n_features)) for _ in range(n)]
    w = rng.normal(size=(n_features, 3))
    return X, [np.argmax(x @ w + 3 * rng.normal(size=(5, 3)), axis=1) for x in X]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([Gaussian(0.5), Gaussian(1e8)]))
def test_the_first_inverse_hessian_is_positive_definite(seed, prior):
    rng = np.random.default_rng(seed)
    X, y = overlapping(4, 5, seed)
    size = 10.0 ** rng.integers(-6, 7, size=5)
    size[rng.integers(5)] = 0.0  # a feature that never occurs
    problem = problem_of([x * size for x in X], y, prior, 3)
    curvature = Curvature.of(problem).with_features(problem)
    assert curvature.between is not None
    unit = np.sqrt(np.diag(curvature.between))
    eigenvalues = np.linalg.eigvalsh(curvature.between / np.outer(unit, unit))
    assert eigenvalues.min() > 0
    g = rng.normal(size=problem.n_weights)
    found = curvature.times(g)
    # rows of the matrix are features, whatever the label; the rest of the weights has its diagonal
    assert_allclose(found[:15].reshape(5, 3), curvature.between @ g[:15].reshape(5, 3))
    assert_allclose(found[15:], curvature.first[15:] * g[15:])


def test_many_features_and_a_flat_prior_keep_the_diagonal():
    n = MAX_DENSE_FEATURES + 1
    for problem in (problem_of([np.eye(2, n)], [[0, 1]], Gaussian(), 2), problem_of([np.eye(2)], [[0, 1]], Flat(), 2)):
        assert Curvature.of(problem).with_features(problem).between is None


def test_features_that_occur_together_take_fewer_passes(monkeypatch):
    X, y = overlapping(60, 30)
    model = L2CRF(lam=0.1, tol=1e-6).fit(X, y)
    passes, objective = model.n_passes_, model.objective_
    monkeypatch.setattr(Curvature, "with_features", lambda self, problem: self)
    assert passes < 0.8 * model.fit(X, y).n_passes_
    assert_allclose(model.objective_, objective, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # rounding ends the fit
def test_ends_in_rounding_with_a_tiny_gradient():
    rng = np.random.default_rng(42)
    model = L2CRF(lam=1.0, tol=1e-30, warm_start=True).fit(rng.normal(size=(45, 10)), rng.integers(3, size=45))
    assert model.n_passes_ < 100
    assert np.linalg.norm(model.warm_state[1].gradient) < 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_reaches_a_gap_far_below_what_the_objective_can_show(seed):
    """The objective is known to 1e-16 of itself; the gap under a Gaussian prior is a square, known to its own 1e-16."""
    rng = np.random.default_rng(seed)
    X, y = rng.random((30, 30)), rng.integers(3, size=30)
    model = L2CRF(lam=1.0, tol=1e-20, warm_start=True).fit(X, y)
    assert model.converged_ and model.gap_ <= 1e-20
    # half the squared gradient: the objective is quadratic with curvature lam = 1 at least
    gradient = model.warm_state[1].gradient
    assert_allclose(model.gap_ * model.objective_, 0.5 * gradient @ gradient, rtol=1e-6)
