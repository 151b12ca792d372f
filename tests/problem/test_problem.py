"""Objective of a problem, dual values on a ray, and the scale of gaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from systems import labelled_chains

from maxendnet import L1, Chain, Examples, Gaussian, Hinge, Laplace, Log
from maxendnet.data.labels import distinct_labels
from maxendnet.problem import Problem

X, Y = labelled_chains()
EXAMPLES = Examples.build(X, Y)


def problem_of(prior=Gaussian(), loss=Hinge(), C=1.0, examples=EXAMPLES):  # noqa: B008
    return Problem.pose(Chain().bind(examples, distinct_labels(EXAMPLES.y)), loss, prior, C)


@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=repr)
@pytest.mark.parametrize("prior", [Gaussian(2.0), Laplace(3.0), L1(0.5)], ids=repr)
def test_the_objective_is_the_penalty_plus_C_times_the_losses(prior, loss):
    problem = problem_of(prior, loss, C=3.0)
    w = np.random.default_rng(0).normal(size=problem.n_weights)
    total = problem.loss_and_gradient(w)
    assert problem.primal(w) == pytest.approx(prior.penalty(w) + 3.0 * total.loss)
    assert total.gradient.shape == w.shape and problem.loss_and_gradient(w, gradient=False).gradient.size == 0


def test_every_sum_over_examples_is_counted():
    problem = problem_of()
    problem.primal(np.zeros(problem.n_weights))
    problem.loss_and_gradient(np.zeros(problem.n_weights))
    assert problem.n_oracle == 2 * len(EXAMPLES)


@given(seed=st.integers(0, 2**32 - 1), cost=st.floats(0.0, 100.0), size=st.floats(1e-3, 1e3))
def test_the_dual_is_the_best_along_the_ray(seed, cost, size):
    """Also from points outside of the domain of the cumulant."""
    problem = problem_of(Laplace(4.0))
    eta = size * np.random.default_rng(seed).normal(size=problem.n_weights)
    value, share = problem.dual(eta, cost)
    assert 0.0 <= share <= 1.0
    shares = np.linspace(0.0, 1.0, 101)
    with np.errstate(all="ignore"):
        values = [s * cost - problem.dual_prior.cumulant(s * eta) for s in shares]
    finite = [v for v in values if np.isfinite(v)]
    assert value >= max(finite) - 1e-5 * (1 + abs(value))
    assert_allclose(value, share * cost - problem.dual_prior.cumulant(share * eta))


def test_gaps_are_relative_to_the_objective():
    problem = problem_of()
    at_zero = problem.primal(np.zeros(problem.n_weights))
    assert problem.at_zero == pytest.approx(at_zero)
    assert problem.relative(0.5, 10.0) == 0.05 and problem.relative(-1.0, 10.0) == 0.0
    assert problem.relative(1.0, 0.0) == pytest.approx(1 / (1e-9 * at_zero))


def test_the_sum_of_losses_is_that_of_the_same_examples_loss_and_costs():
    problem = problem_of()
    assert problem.same_sum(problem_of(Laplace(), C=7.0))  # whatever the prior and C
    assert not problem.same_sum(problem_of(loss=Log()))
    assert not problem.same_sum(problem_of(loss=Hinge(2 * (1 - np.eye(len(problem.cost))))))
    assert not problem.same_sum(problem_of(examples=EXAMPLES[1:]))


@pytest.mark.parametrize(("n", "small"), [(1, True), (10_001, False)])
def test_small_problems_are_known_by_nodes_and_labels(n, small):
    examples = Examples.build([np.ones((n, 1))], [[*["a"] * (n - 1), "b"]])
    bound = Chain().bind(examples, np.array(["a", "b"]))
    assert Problem.pose(bound, Log(), Gaussian(), 1.0).is_small is small
