"""Initial curvature of `Smoothing` at a temperature, compared with differences of gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from maxendnet.data.examples import as_examples
from maxendnet.losses import Hinge
from maxendnet.priors import L1, Gaussian, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers.curvature.soft_curvature import BLOCK_SHARE, soft_curvature
from maxendnet.solvers.lbfgs import MAX_DENSE_FEATURES
from maxendnet.solvers.smoothing import soft_problem
from maxendnet.structures import Chain


def problem_of(X, y, prior, n_labels=3, C=2.0):
    return Problem.pose(Chain().bind(as_examples(X, y), np.arange(n_labels)), Hinge(), prior, C)


def single_nodes(seed, n=40, n_features=4):
    """Chains of one node: no other node moves its label, so that the blocks are those of the Hessian."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(1, n_features)) for _ in range(n)], [[int(rng.integers(3))] for _ in range(n)]


def slope_at(soft, w):
    return soft.C * soft.loss_and_gradient(w, single=False)[1]


@pytest.mark.parametrize("prior", [Gaussian(0.7), Laplace(5.0)], ids=["Gaussian", "Laplace"])
def test_blocks_and_diagonal_are_those_of_the_hessian(prior):
    problem = problem_of(*single_nodes(0), prior)
    w = 0.3 * np.random.default_rng(1).normal(size=problem.n_weights)
    soft, n, h = soft_problem(problem, 0.8, exact=True), 12, 1e-5
    steps = h * np.eye(problem.n_weights)[:n]
    hessian = np.array([(slope_at(soft, w + d) - slope_at(soft, w - d))[:n] / (2 * h) for d in steps])
    found = soft_curvature(soft, w)
    of_prior = (1.0 / prior.variance(prior.gradient(w)))[:n].reshape(4, 3)
    for a in range(3):
        block = BLOCK_SHARE * hessian.reshape(4, 3, 4, 3)[:, a, :, a]
        block += np.diag(of_prior[:, a] + 0.01 * np.trace(block) / 4)
        assert_allclose(np.linalg.inv(found.between[a]), block, atol=1e-5 * np.trace(block))
    diagonal = 1.0 / found.first
    expected = np.diag(hessian) + of_prior.ravel()
    assert_allclose(diagonal[:n] - expected, np.full(n, (diagonal[:n] - expected).mean()), rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([Gaussian(0.5), Gaussian(1e8), Laplace(30.0)]))
def test_blocks_are_positive_definite(seed, prior):
    rng = np.random.default_rng(seed)
    X, y = single_nodes(seed, n=6)
    size = 10.0 ** rng.integers(-6, 7, size=4)
    size[rng.integers(4)] = 0.0  # a feature that never occurs
    problem = problem_of([x * size for x in X], y, prior)
    soft = soft_problem(problem, 0.1, exact=True)
    curvature = soft_curvature(soft, rng.normal(size=problem.n_weights))
    for block in curvature.between:
        unit = np.sqrt(np.diag(block))
        assert np.linalg.eigvalsh(block / np.outer(unit, unit)).min() > 0
    g = rng.normal(size=problem.n_weights)
    expected = np.einsum("ajk,ka->ja", curvature.between, g[:12].reshape(4, 3))
    assert_allclose(curvature.times(g)[:12].reshape(4, 3), expected)


def test_no_blocks_for_many_features_an_l1_penalty_or_seen_pairs():
    n = MAX_DENSE_FEATURES + 1
    X, y = single_nodes(0)
    seen = Problem.pose(Chain(pairs="seen").bind(as_examples(X, y), np.arange(3)), Hinge(), Gaussian())
    for problem in (problem_of([np.eye(2, n)], [[0, 1]], Gaussian()), problem_of(X, y, L1(0.5)), seen):
        soft = soft_problem(problem, 0.3, exact=True)
        assert soft_curvature(soft, np.zeros(problem.n_weights)).between is None
