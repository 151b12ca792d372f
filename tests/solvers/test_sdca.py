"""SDCA: marginals, entropies and steps against enumeration, on every kind of example."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from maxendnet import L1CRF, L2CRF, M3N, Gaussian, Log, MaxEnDNet
from maxendnet.problem import Problem
from maxendnet.solvers import LBFGS, SDCA, run


def problem_of(case, prior=None, C=0.8):
    if prior is None:  # another variance and mean for every weight
        rng = np.random.default_rng(case.seed)
        prior = Gaussian(rng.uniform(0.5, 2.0, case.layout.n_weights), rng.normal(size=case.layout.n_weights))
    return Problem.pose(case.forest, Log(), prior, C)


def distributions(problem, case, state):
    """For every example ``(features of all labellings, q of the state)``, q from its marginals, factorised."""
    batch = case.batch
    for i in range(case.n_examples):
        begin, end = batch.offsets[i], batch.offsets[i + 1]
        labellings = brute_force.labellings(end - begin, case.n_labels, brute_force.example_allowed(batch, i))
        q = np.ones(len(labellings))
        for k, y in enumerate(labellings):
            for t in range(begin, end):
                if batch.parent[t] < 0:
                    q[k] *= state.node[t, y[t - begin]]
                    continue
                above = y[batch.parent[t] - begin]
                joint, alone = state.edge[t, above, y[t - begin]], state.node[batch.parent[t], above]
                q[k] *= joint / alone if joint > 0 else 0.0
        f = np.array([brute_force.feature_vector(batch, i, y, **case.kwargs) for y in labellings])
        yield i, f, q


@settings(deadline=None, max_examples=60)
@given(strategies.any_case(max_nodes=4, max_labels=3, scales=(1.0,)), st.integers(0, 3))
def test_certificate_is_that_of_the_distributions_written_out(case, n_passes):
    problem, solver = problem_of(case), SDCA()
    state = solver.start(problem, seed=0)
    for _ in range(n_passes):
        solver.step(problem, state)
    found = solver.evaluate(problem, state)
    eta, entropy, loss = np.zeros(problem.n_weights), 0.0, 0.0
    for i, f, q in distributions(problem, case, state):
        assert q.sum() == pytest.approx(1.0)
        truth = brute_force.feature_vector(case.batch, i, brute_force.example_truth(case.batch, i), **case.kwargs)
        weight = problem.C * case.batch.sample_weight[i]
        eta += weight * (truth - q @ f)
        entropy -= weight * np.sum(q[q > 0] * np.log(q[q > 0]))
        loss += weight * (logsumexp(f @ found.w) - truth @ found.w)
    assert_allclose(found.eta, eta, atol=1e-9)
    assert_allclose(found.w, problem.prior.mean(eta), atol=1e-9)
    assert found.primal == pytest.approx(loss + problem.prior.penalty(found.w), abs=1e-8)
    assert found.dual == pytest.approx(entropy - problem.prior.cumulant(eta), abs=1e-8)
    # the blocks share out the gap
    assert state.gaps.sum() == pytest.approx(found.primal - found.dual, abs=1e-8)


@settings(deadline=None, max_examples=60)
@given(strategies.any_case(max_nodes=4, max_labels=3, scales=(1.0,)))
def test_no_update_lowers_the_dual(case):
    problem, solver = problem_of(case), SDCA()
    state = solver.start(problem, seed=0)
    last = solver.evaluate(problem, state).dual
    for _ in range(4):
        for i in range(case.n_examples):
            before = state.node.copy()
            solver.change(problem, state, np.array([i], dtype=np.int64))
            found = solver.evaluate(problem, state)
            assert found.dual >= last - 1e-9 * max(1.0, abs(last))
            last = found.dual
            others = np.ones(case.n_nodes, dtype=bool)
            others[case.batch.offsets[i] : case.batch.offsets[i + 1]] = False
            assert np.array_equal(state.node[others], before[others])
            if case.batch.sample_weight[i] == 0:
                assert np.array_equal(state.node, before)


@settings(deadline=None, max_examples=40)
@given(strategies.any_case(max_nodes=4, max_labels=3, scales=(1.0,)), st.sampled_from(["gap", "uniform"]))
def test_reaches_the_optimum_of_lbfgs(case, sampling):
    problem = problem_of(case)
    result = run(SDCA(sampling=sampling), problem, tol=1e-7, max_passes=3000, seed=0)
    assert result.converged
    assert result.primal == pytest.approx(run(LBFGS(), problem, tol=1e-9).primal, rel=1e-6, abs=1e-9)


def chains(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 6), 4)) for _ in range(n)]
    return X, [rng.integers(3, size=len(x)) for x in X]


def test_same_bits_for_any_number_of_threads_and_the_same_seed():
    X, y = chains()
    fits = [L2CRF(solver=SDCA(), n_jobs=n, random_state=3).fit(X, y) for n in (1, 2)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_) and fits[0].gap_ == fits[1].gap_


def test_warm_start_goes_on_and_other_trees_begin_afresh():
    X, y = chains()
    model = L2CRF(solver=SDCA(check_every=1), warm_start=True, random_state=0, tol=1e-6).fit(X, y)
    first = model.n_passes_
    assert model.set_params(lam=1.01).fit(X, y).n_passes_ < first
    joined = [np.concatenate(X[:2]), *X[2:]], [np.concatenate(y[:2]), *y[2:]]
    model.fit(*joined)
    assert model.objective_ == pytest.approx(L2CRF(lam=1.01, tol=1e-6).fit(*joined).objective_, rel=1e-5)


@settings(deadline=None, max_examples=30)
@given(strategies.any_case(max_nodes=4, max_labels=3, scales=(1.0,)))
def test_scores_so_far_apart_that_logarithms_are_needed(case):
    rng = np.random.default_rng(case.seed)
    size = problem_of(case).n_weights
    problem = problem_of(case, Gaussian(1.0, 1e3 * rng.normal(size=size)))
    result = run(SDCA(), problem, tol=1e-6, max_passes=5000, seed=0)
    assert result.converged
    # gaps are relative to the objective, or to a thousandth of that at 0, which here is large
    expected = run(LBFGS(), problem, tol=1e-8, warn=False).primal
    assert result.primal == pytest.approx(expected, rel=2e-6, abs=2e-9 * problem.at_zero)


@pytest.mark.parametrize(("option", "value"), [("sampling", "all"), ("check_every", 0)])
def test_options_that_make_no_sense(option, value):
    with pytest.raises(ValueError, match=f"{option} must be"):
        L2CRF(solver=SDCA(**{option: value})).fit([[[0.0], [1.0]]], [["a", "b"]])


@pytest.mark.parametrize(
    "model", [M3N(), L1CRF(), MaxEnDNet(Gaussian(np.eye(6) + 0.1), Log())], ids=["hinge", "L1", "full covariance"]
)
def test_refuses_other_problems(model):
    with pytest.raises(ValueError, match="SDCA needs"):
        model.set_params(solver=SDCA()).fit([[[0.0], [1.0]]], [["a", "b"]])
