"""Dual points of L1-CRFs from weights near the minimum: never above it, soon near it."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from maxendnet import L1CRF, Chain, Examples, Independent
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Log
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import L1
from maxendnet.problem import Problem
from maxendnet.solvers import OWLQN, run
from maxendnet.solvers.certificate.l1_dual import MAX_GROWTH, iterate_at, l1_dual, shifted
from maxendnet.solvers.curvature.newton import conjugate_gradients, hessian_diagonal, hessian_times
from maxendnet.solvers.lbfgs import Curvature
from maxendnet.structures.bound.forest import BoundForest


def chains(n_examples=40, n_features=8, n_labels=4, lam=0.3, seed=0, **options):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n_features, n_labels))
    X = [rng.normal(size=(rng.integers(1, 7), n_features)) for _ in range(n_examples)]
    y = [(x @ true + rng.gumbel(size=(len(x), n_labels))).argmax(axis=1) for x in X]
    examples = Examples.build(X, y)
    return L1CRF(lam=lam, **options).pose(examples, distinct_labels(examples.y))


def near(problem, least, part=5e-4):
    """Return the first state of OWL-QN that is this close to the minimum."""
    solver = OWLQN(dual_search=False)
    state = solver.start(problem, tol=1e-3)
    while state.value > least * (1 + part):
        state = solver.step(problem, state)
    return state


def minimum(problem):
    result = run(OWLQN(dual_search=False), problem, tol=1e-10, max_passes=2000)
    assert result.converged
    return result.primal


@settings(deadline=None, max_examples=25)
@given(strategies.tree_cases(max_nodes=4, max_labels=3, scales=(1.0,)), st.sampled_from([0.03, 0.3, 3.0]))
def test_no_dual_point_is_above_the_minimum(case, rho):
    forest = BoundForest(case.layout, case.batch._replace(largest=5.0))
    problem = Problem.pose(forest, Log(), L1(rho), C=1.5)
    point = l1_dual(problem, case.w, Curvature.of(problem), gap_limit=1e-3)
    assert np.abs(point.share * point.eta).max(initial=0.0) <= rho * (1 + 1e-9)
    least = run(OWLQN(), problem, tol=1e-9, max_passes=3000, warn=False).primal
    assert point.share * point.value <= least + 1e-6 * (1 + abs(least))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("structure", [Chain(), Chain(bias=True), Independent()], ids=["chain", "bias", "nodes"])
def test_proof_from_weights_that_are_near_the_minimum(structure, seed):
    problem = chains(seed=seed, structure=structure)
    least = minimum(problem)
    state = near(problem, least)
    before = OWLQN._gaps(problem, state)[0]
    point = l1_dual(problem, state.w, state.curvature, gap_limit=1e-3 * least)
    assert point.share == 1.0
    assert least * (1 - 1e-3) <= point.value <= least * (1 + 1e-9)
    assert before > 5 * (state.value - point.value)  # the share of the model itself proves far less


@pytest.mark.parametrize("seed", range(6))
def test_weights_that_run_away_prove_nothing(seed, monkeypatch):
    # features that say the same, and signs at random: along some directions the sum of losses is flat, and the price of
    # the weights with fixed signs falls for ever
    rng = np.random.default_rng(seed)
    bit = rng.integers(0, 2, size=(60, 1)).astype(float)
    X = np.hstack([bit, 1 - bit, np.ones((60, 1)), bit])
    examples = Examples.build(list(X[:, None]), [[label] for label in rng.integers(0, 3, size=60)])
    problem = L1CRF(lam=0.5, structure=Independent()).pose(examples, distinct_labels(examples.y))
    w = rng.normal(size=problem.n_weights)
    largest_weights = []
    monkeypatch.setattr(
        "maxendnet.solvers.certificate.l1_dual.iterate_at",
        lambda p, v: largest_weights.append(np.abs(v).max()) or iterate_at(p, v),
    )
    point = l1_dual(problem, w, Curvature.of(problem), gap_limit=1e-3)
    assert point.share * point.value <= run(OWLQN(), problem, tol=1e-6, warn=False).primal * (1 + 1e-9)
    assert max(largest_weights[:-1]) <= MAX_GROWTH * (np.abs(w).max() + 1)  # the first that is larger is the last one


def test_a_search_saves_passes():
    rng = np.random.default_rng(0)
    blurred = rng.normal(size=(30, 30)) ** 2 @ np.diag(0.8 ** np.arange(30))  # features that resemble each other
    X = [(rng.random((5, 30)) @ blurred > blurred.sum(axis=0) / 2).astype(float) for _ in range(150)]
    true = rng.normal(size=(30, 6))
    y = [(x @ true + rng.gumbel(size=(5, 6))).argmax(axis=1) for x in X]
    examples = Examples.build(X, y)
    problem = L1CRF(lam=0.1).pose(examples, distinct_labels(examples.y))
    used = {}
    for search in (False, True):
        result = run(OWLQN(dual_search=search), problem, tol=1e-3, max_passes=5000)
        assert result.converged
        used[search] = result.trace[-1].n_oracle
    assert used[True] < 0.8 * used[False], used


def test_the_margin_is_part_of_the_dual_value():
    problem = chains(seed=5)
    problem = problem.replace(loss=Log(margin=2.0))
    least = run(OWLQN(dual_search=False), problem, tol=1e-6, max_passes=2000).primal
    state = near(problem, least)
    point = l1_dual(problem, state.w, state.curvature, gap_limit=1e-3 * state.value)
    assert point.share == 1.0
    assert least * (1 - 1e-3) <= point.value <= least


def test_shifted_weights_have_the_same_loss():
    problem = chains(n_labels=4)
    w = np.random.default_rng(1).normal(size=problem.n_weights)
    layout = problem.structure.layout
    layout.segments(w).node[0, 0] = 0.0  # this feature has a zero already
    moved = shifted(problem, w)
    before, now = layout.segments(w).node, layout.segments(moved).node
    assert_allclose(problem.loss_and_gradient(moved).loss, problem.loss_and_gradient(w).loss, rtol=1e-12)
    assert_allclose(now[0], before[0])
    assert np.all((now == 0).any(axis=1))
    assert np.abs(moved).sum() < np.abs(w).sum()


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(0, 100))
def test_conjugate_gradients_solve(n, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n + 2))
    H, right = A @ A.T + 0.1 * np.eye(n), rng.normal(size=n)
    found, products = conjugate_gradients(
        lambda v: H @ v, lambda v: v / np.diag(H), right, enough=1e-10, most=20 * n, keep=3
    )
    assert_allclose(H @ found, right, atol=1e-8)
    assert len(products) <= 3
    for direction, product in products:
        assert_allclose(H @ direction, product)


def test_conjugate_gradients_along_a_flat_direction():
    found, products = conjugate_gradients(lambda v: 0 * v, lambda v: 2 * v, np.array([1.0, -1.0]), 0.0, 10, keep=3)
    assert_allclose(found, [2.0, -2.0])
    assert products == ()


@pytest.mark.parametrize("loss", [Log(), Log(margin=1.5), SoftHinge(temperature=0.3)], ids=["log", "margin", "soft"])
def test_second_derivatives(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 1, 3)), rng.integers(0, 3, size=(9, 1))
    examples = Examples.build(list(X), list(y))
    problem = Problem.pose(Chain().bind(examples, distinct_labels(examples.y)), loss, L1(0.1), C=1.5)
    w, n = rng.normal(size=problem.n_weights), problem.n_weights
    slope = problem.loss_and_gradient(w).gradient
    hessian = np.array([hessian_times(problem, w, slope, unit) for unit in np.eye(n)])
    assert_allclose(hessian, hessian.T, atol=1e-4)
    found, expected = hessian_diagonal(problem, w), np.diag(hessian)
    assert_allclose(found, np.maximum(expected, found.min()), rtol=1e-3, atol=1e-5)
    v = rng.normal(size=n)
    single = hessian_times(problem, w, problem.loss_and_gradient(w, single=True).gradient, v, single=True)
    assert_allclose(single, hessian @ v, atol=0.02 * np.abs(hessian @ v).max())
