"""Proximal points by ascent on potentials: certificates and optima of L1-CRFs, and the working set."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, xlogy
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1, L1CRF, L2CRF, Chain, ElasticNet, Gaussian, Log, MaxEnDNet
from maxendnet.problem import Problem
from maxendnet.solvers import LBFGS, OWLQN, ProximalAscent, run
from maxendnet.solvers.proximal_ascent import mixed_with_truth
from maxendnet.solvers.subproblems.working_set import working_set

CASES = strategies.any_case(max_nodes=4, max_labels=3, scales=(1.0,))


PRIORS = st.sampled_from([L1(0.3), ElasticNet(0.2, 0.1), Gaussian(3.0)])


def problem_of(case, prior):
    assume(case.layout.n_edge_features == 0)
    return Problem.pose(case.forest, Log(), prior, 0.8)


def best_of(problem):
    return run(
        LBFGS() if isinstance(problem.prior, Gaussian) else OWLQN(), problem, tol=1e-7, max_passes=2000, warn=False
    )


@settings(deadline=None, max_examples=40)
@given(CASES, st.integers(0, 5), PRIORS)
def test_dual_is_below_every_objective(case, n_passes, prior):
    """The dual value is that of a dual point, and no objective is below it."""
    problem, solver = problem_of(case, prior), ProximalAscent()
    state = solver.start(problem, seed=0, tol=1e-9)
    for _ in range(n_passes):
        solver.step(problem, state)
    found = solver.evaluate(problem, state)
    best = best_of(problem)
    assert found.dual <= best.primal + 1e-9 * abs(best.primal)
    loss = 0.0
    for i in range(case.n_examples):
        labellings = brute_force.labellings(*_size(case, i))
        f = np.array([brute_force.feature_vector(case.batch, i, y, **case.kwargs) for y in labellings])
        truth = brute_force.feature_vector(case.batch, i, brute_force.example_truth(case.batch, i), **case.kwargs)
        loss += case.batch.sample_weight[i] * (logsumexp(f @ found.w) - truth @ found.w)
    assert_allclose(found.primal, prior.penalty(found.w) + 0.8 * loss, rtol=1e-9, atol=1e-9)


def _size(case, i):
    n = int(case.batch.offsets[i + 1] - case.batch.offsets[i])
    return n, case.n_labels, brute_force.example_allowed(case.batch, i)


@settings(deadline=None, max_examples=25)
@given(CASES, PRIORS)
def test_optimum_is_that_of_quasi_newton_methods(case, prior):
    problem = problem_of(case, prior)
    found = run(ProximalAscent(), problem, tol=1e-4, max_passes=3000, seed=0, warn=False)
    best = best_of(problem)
    assert found.gap <= 1e-4
    assert found.primal == pytest.approx(best.primal, rel=2e-4, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(CASES, st.integers(0, 2**32 - 1))
def test_a_working_set_is_the_problem_with_the_other_weights_at_zero(case, seed):
    problem, rng = problem_of(case, L1(0.3)), np.random.default_rng(seed)
    restricted = working_set(problem, rng.random(problem.n_weights) < 0.5)
    w = rng.normal(size=len(restricted.positions))
    whole = restricted.widened(w, problem.n_weights)
    assert_array_equal(whole[restricted.positions], w)
    (loss, slope), (expected, whole_slope) = (
        restricted.problem.loss_and_gradient(w)[:2],
        problem.loss_and_gradient(whole)[:2],
    )
    assert_allclose(loss, expected, rtol=1e-10, atol=1e-10)
    assert_allclose(slope, whole_slope[restricted.positions], rtol=1e-9, atol=1e-9)
    assert set(range(problem.structure.layout.n_node_weights, problem.n_weights)) <= set(restricted.positions.tolist())


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_entropy_of_a_mixture_with_the_truth(seed, share):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(4, 0.5), size=3)
    mixed = share * q
    mixed[:, 0] += 1 - share
    found = mixed_with_truth(-xlogy(q, q).sum(axis=1), np.log(q[:, 0]), share)
    assert_allclose(found, -xlogy(mixed, mixed).sum(axis=1), atol=1e-12)


@pytest.fixture(scope="module")
def text():
    """Words that are rare, so that most weights are zero."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(150):
        labels = rng.choice(["A", "B", "C"], size=8)
        X.append([{f"w={a}{rng.zipf(1.5) % 300}": 1.0, f"s={rng.integers(40)}": 1.0} for a in labels])
        y.append(labels.tolist())
    return X, y


def test_default_for_sparse_features(text):
    X, y = text
    model = L1CRF(0.5, structure=Chain(pairs="seen"), tol=1e-3, random_state=0).fit(X, y)
    assert model.solver_.startswith("ProximalAscent: log loss") and model.gap_ <= 1e-3
    other = L1CRF(0.5, structure=Chain(pairs="seen"), solver=OWLQN(), tol=1e-5).fit(X, y)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-3)
    again = L1CRF(0.5, structure=Chain(pairs="seen"), tol=1e-3, random_state=0).fit(X, y)
    assert_array_equal(model.model_.weights, again.model_.weights)
    with pytest.warns(ConvergenceWarning):
        exact = L1CRF(0.5, structure=Chain(pairs="seen"), tol=1e-6, max_passes=3).fit(X, y)
    assert exact.solver_.startswith("OWLQN")


def test_default_for_other_penalties(text):
    X, y = text
    net = MaxEnDNet(ElasticNet(0.1, 0.2), Log(), structure=Chain(pairs="seen"), tol=1e-3, random_state=0).fit(X, y)
    assert net.solver_.startswith("ProximalAscent") and net.gap_ <= 1e-3
    weak, strong = (L2CRF(lam, structure=Chain(pairs="seen"), tol=1e-5, random_state=0).fit(X, y) for lam in (0.1, 5.0))
    assert weak.solver_.startswith("ProximalAscent") and strong.solver_.startswith("ProximalAscent")
    for model in (weak, strong):
        assert model.gap_ <= 1e-5
        exact = L2CRF(model.lam, structure=Chain(pairs="seen"), solver=LBFGS(), tol=1e-7).fit(X, y)
        assert model.objective_ == pytest.approx(exact.objective_, rel=2e-5)
        assert model.posterior_.mean is not None


def test_same_bits_on_two_threads_and_after_a_warm_start(text):
    X, y = text
    one, two = (L1CRF(0.5, solver=ProximalAscent(), tol=1e-3, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.model_.weights, two.model_.weights)
    model = L1CRF(0.6, solver=ProximalAscent(), tol=1e-3, random_state=0, warm_start=True).fit(X, y)
    cold = model.n_passes_
    model.set_params(lam=0.5).fit(X, y)
    assert model.gap_ <= 1e-3 and model.n_passes_ <= cold
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-3)


@pytest.mark.parametrize("options", [{"tau": 0.0}, {"push": 1.0}, {"passes": 0}, {"check_every": 0}], ids=str)
def test_options_out_of_range(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        L1CRF(solver=ProximalAscent(**options)).fit([[[0.0], [1.0]]], [["a", "b"]])


@settings(deadline=None, max_examples=40)
@given(CASES, st.integers(1, 4), st.booleans())
def test_passes_solve_the_proximal_problem_with_step_sizes(case, n_passes, has_l1):
    """Weights are those of the current potentials: passes and moves of the centre must not drift from the formula."""
    problem = problem_of(case, ElasticNet(0.2, 0.1) if has_l1 else Gaussian(3.0))
    solver = ProximalAscent(push=0.5)
    state = solver.start(problem, seed=0, tol=1e-9)
    for _ in range(n_passes):
        solver.step(problem, state)
    followed = state.inner.weights.copy()
    solver._set_eta(problem, state, solver.inner.refresh(problem, state.inner), centre_of(solver, problem, state))
    assert_allclose(followed, state.inner.weights, atol=1e-7)


def centre_of(solver, problem, state):
    return solver._unpadded(problem, state, state.centre)


@pytest.mark.parametrize("tau", [1.5, 20.0])
def test_a_few_long_examples_converge_from_any_tau(tau):
    """The first step of a long example must not round its marginals to 0 and 1, where later steps would stop."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(2):
        words = (rng.zipf(1.3, size=4000) % 5000).tolist()
        X.append([[f"{d}{words[t + d - 4000]}" for d in range(3)] + ["bias"] for t in range(4000)])
        y.append([str(word % 7) if word > 50 else "0" for word in words])
    model = L2CRF(lam=0.1, margin=3.0, solver=ProximalAscent(tau=tau), max_passes=200, random_state=0).fit(X, y)
    assert model.converged_
    assert model.objective_ - model.dual_ <= model.tol * model.objective_
