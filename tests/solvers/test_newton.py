"""Products with the Hessian and its diagonal, against differences of gradients."""

from __future__ import annotations

import numpy as np
import strategies
from hypothesis import given, settings
from numpy.testing import assert_allclose

from maxendnet import L1CRF, Examples
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Log
from maxendnet.priors import L1
from maxendnet.problem import Problem
from maxendnet.solvers.curvature.newton import hessian_diagonal, hessian_times
from maxendnet.structures.bound.forest import BoundForest


def problem_of(case, prior):
    return Problem.pose(case.forest, Log(), prior, C=1.5)


def hessian(problem, w):
    """By central differences of the gradient, column by column."""
    columns = []
    for k in range(len(w)):
        step = 1e-5 * np.eye(len(w))[k]
        columns.append(
            problem.C
            * (problem.loss_and_gradient(w + step).gradient - problem.loss_and_gradient(w - step).gradient)
            / 2e-5
        )
    return np.array(columns).T


@settings(deadline=None, max_examples=30)
@given(strategies.tree_cases(max_nodes=4, max_labels=3, scales=(1.0,)))
def test_product_with_the_hessian(case):
    forest = BoundForest(case.layout, case.batch._replace(largest=5.0))
    problem = Problem.pose(forest, Log(), L1(0.1), C=1.5)
    v = np.random.default_rng(0).normal(size=len(case.w)) * 10.0**3
    expected = hessian(problem, case.w)
    assert_allclose(
        hessian_times(problem, case.w, problem.loss_and_gradient(case.w).gradient, v),
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
    segments = case.structure.layout.segments
    found, expected = segments(hessian_diagonal(case, w)), segments(np.diag(hessian(case, w)))
    assert_allclose(found.transitions, expected.transitions, rtol=1e-4)
    assert_allclose(found.edge, expected.edge, rtol=1e-4)


def chain_problem(n_examples=30, lengths=(1, 6), n_features=8, n_labels=4, lam=0.5, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n_features, n_labels))
    X = [rng.normal(size=(rng.integers(*lengths, endpoint=True), n_features)) for _ in range(n_examples)]
    y = [(x @ true + rng.gumbel(size=(len(x), n_labels))).argmax(axis=1) for x in X]
    examples = Examples.build(X, y, edge_features=[rng.normal(size=(len(x) - 1, 1)) for x in X])
    return L1CRF(lam=lam).pose(examples, distinct_labels(examples.y))
