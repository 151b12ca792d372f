"""Newton steps on the free weights: the pieces against brute force, the whole beyond where OWL-QN stalls."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from numpy.testing import assert_allclose

from maxendnet import L1CRF, Examples
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Log
from maxendnet.priors import L1
from maxendnet.problem import Problem
from maxendnet.solvers import OWLQN, ActiveSetNewton, run
from maxendnet.solvers.newton import hessian_diagonal, hessian_times
from maxendnet.structures.forest import BoundForest


def problem_of(case, prior):
    return Problem.pose(case.forest, Log(), prior, C=1.5)


def hessian(problem, w):
    """By central differences of the gradient, column by column."""
    columns = []
    for k in range(len(w)):
        step = 1e-5 * np.eye(len(w))[k]
        columns.append(problem.C * (problem.losses(w + step)[1] - problem.losses(w - step)[1]) / 2e-5)
    return np.array(columns).T


@settings(deadline=None, max_examples=30)
@given(strategies.tree_cases(max_nodes=4, max_labels=3, scales=(1.0,)))
def test_product_with_the_hessian(case):
    forest = BoundForest(case.layout, case.batch._replace(largest=5.0))
    problem, solver = Problem.pose(forest, Log(), L1(0.1), C=1.5), ActiveSetNewton()
    state = solver._at(problem, case.w, solver.start(problem).curvature, single=False)
    v = np.random.default_rng(0).normal(size=len(case.w)) * 10.0**3
    expected = hessian(problem, case.w)
    assert_allclose(
        hessian_times(problem, state.w, state.loss_slope, v),
        expected @ v,
        rtol=1e-4,
        atol=1e-2 * (1e-3 + np.abs(expected).max()),
    )


@settings(deadline=None, max_examples=30)
@given(strategies.independent_cases(max_nodes=1, max_labels=3, scales=(1.0,), max_examples=4))
def test_diagonal_is_exact_for_examples_of_one_node(case):
    problem = problem_of(case, L1(0.1))
    found = hessian_diagonal(problem, case.w)
    expected = np.diag(hessian(problem, case.w))
    assert_allclose(found, np.maximum(expected, found.min()), rtol=1e-4, atol=1e-6 * (1e-3 + expected.max(initial=0)))


def test_diagonal_is_exact_for_the_edge_of_two_nodes():
    rng = np.random.default_rng(3)
    case = chain_problem(n_examples=5, lengths=(2, 2), seed=3)
    w = rng.normal(size=case.n_weights)
    parts = case.structure.layout.parts
    found, expected = parts(hessian_diagonal(case, w)), parts(np.diag(hessian(case, w)))
    assert_allclose(found.transitions, expected.transitions, rtol=1e-4)
    assert_allclose(found.edge, expected.edge, rtol=1e-4)


def chain_problem(n_examples=30, lengths=(1, 6), n_features=8, n_labels=4, lam=0.5, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n_features, n_labels))
    X = [rng.normal(size=(rng.integers(*lengths, endpoint=True), n_features)) for _ in range(n_examples)]
    y = [(x @ true + rng.gumbel(size=(len(x), n_labels))).argmax(axis=1) for x in X]
    examples = Examples.build(X, y, edge_features=[rng.normal(size=(len(x) - 1, 1)) for x in X])
    return L1CRF(lam=lam).pose(examples, distinct_labels(examples.y))


@pytest.mark.parametrize("lam", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reaches_ten_digits(lam, seed):
    problem = chain_problem(lam=lam, seed=seed)
    result = run(ActiveSetNewton(), problem, tol=1e-10, max_passes=1000)
    assert result.converged
    # the optimality conditions themselves
    slope = problem.losses(result.w)[1]
    zero = result.w == 0
    assert_allclose(slope[~zero], -lam * np.sign(result.w[~zero]), atol=1e-8)
    assert np.all(np.abs(slope[zero]) <= lam * (1 + 1e-8))


def test_takes_fewer_passes_over_the_data_than_owlqn_to_eight_digits():
    problem = chain_problem(n_examples=200, n_features=30, lam=0.2, seed=2)
    used = {kind: run(kind(), problem, tol=1e-8, warn=False) for kind in (OWLQN, ActiveSetNewton)}
    assert used[ActiveSetNewton].converged
    assert used[ActiveSetNewton].trace[-1].n_oracle < used[OWLQN].trace[-1].n_oracle


def test_all_weights_zero_under_a_large_penalty():
    problem = chain_problem(lam=1e4)
    result = run(ActiveSetNewton(), problem, tol=1e-10)
    assert result.converged and not result.w.any()


@pytest.mark.parametrize(("option", "value"), [("switch", 0.0), ("switch", float("nan")), ("products", 0)])
def test_options_that_make_no_sense(option, value):
    model = L1CRF(solver=ActiveSetNewton(**{option: value}))
    with pytest.raises(ValueError, match=f"{option} must be"):
        model.fit([[[0.0], [1.0]]], [["a", "b"]])
