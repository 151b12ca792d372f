"""Ascent on potentials: certificates, weights and steps against enumeration, on every kind of example."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import logsumexp, softmax

from maxendnet import L1CRF, L2CRF, M3N, Chain, ElasticNet, Gaussian, Laplace, Log, MaxEnDNet
from maxendnet.problem import Problem
from maxendnet.solvers import LBFGS, OWLQN, PotentialAscent, run
from maxendnet.structures.weights.padding import padded_from_search, search_from_padded

CASES = strategies.any_case(max_nodes=4, max_labels=3, scales=(1.0,))


def problem_of(case, prior=None, C=0.8, margin=0.0):
    assume(case.layout.n_edge_features == 0)
    if prior is None:  # another variance and mean for every weight
        rng = np.random.default_rng(case.seed)
        prior = Gaussian(rng.uniform(0.5, 2.0, case.layout.n_weights), rng.normal(size=case.layout.n_weights))
    return Problem.pose(case.forest, Log(margin), prior, C)


def distributions(case, state):
    """For every example ``(labellings, their features, q of the state)``, q from its potentials."""
    batch, L = case.batch, case.n_labels
    for i in range(case.n_examples):
        begin, end = batch.offsets[i], batch.offsets[i + 1]
        labellings = brute_force.labellings(end - begin, L, brute_force.example_allowed(batch, i))
        scores = np.zeros(len(labellings))
        for k, y in enumerate(labellings):
            for t in range(begin, end):
                scores[k] += state.node_potentials[t, y[t - begin]]
                if batch.parent[t] >= 0:
                    ends = y[batch.parent[t] - begin], y[t - begin]
                    first, second = ends[::-1] if batch.flipped[t] else ends
                    scores[k] += state.matrix_potentials[i, batch.edge_type[t], first, second]
        f = np.array([brute_force.feature_vector(batch, i, y, **case.kwargs) for y in labellings])
        yield i, labellings, f, softmax(scores)


@settings(deadline=None, max_examples=60)
@given(CASES, st.integers(0, 3), st.sampled_from(["gaussian", "elastic net"]), st.sampled_from([0.0, 1.5]))
def test_certificate_is_that_of_the_distributions_written_out(case, n_passes, kind, margin):
    problem = problem_of(case, ElasticNet(0.1, 0.5) if kind == "elastic net" else None, margin=margin)
    solver = PotentialAscent()
    state = solver.start(problem, seed=0, tol=1e-9)
    for _ in range(n_passes):
        solver.step(problem, state)
    followed = problem.structure.blocks.unpad(state.eta)
    found = solver.evaluate(problem, state)
    eta, entropy, loss = np.zeros(problem.n_weights), 0.0, 0.0
    for i, labellings, f, q in distributions(case, state):
        right = brute_force.example_truth(case.batch, i)
        truth = brute_force.feature_vector(case.batch, i, right, **case.kwargs)
        weight = problem.C * case.batch.sample_weight[i]
        cost = margin * np.array([np.sum(np.asarray(y) != right) for y in labellings])
        eta += weight * (truth - q @ f)
        entropy += weight * (q @ cost - np.sum(q[q > 0] * np.log(q[q > 0])))
        loss += weight * (logsumexp(f @ found.w + cost) - truth @ found.w)
    assert_allclose(found.eta, eta, atol=1e-9)
    assert_allclose(followed, eta, atol=1e-8)  # step by step
    assert_allclose(found.w, problem.dual_prior.mean(eta), atol=1e-9)
    assert found.primal == pytest.approx(loss + problem.prior.penalty(found.w), abs=1e-8)
    assert found.dual == pytest.approx(entropy - problem.dual_prior.cumulant(eta), abs=1e-8)


@settings(deadline=None, max_examples=40)
@given(CASES, st.integers(1, 4), st.floats(0.1, 10.0))
def test_passes_update_the_weights_of_a_prior_with_one_variance(case, n_passes, variance):
    """With one variance the kernel updates the weights only; they must stay the mean of the potentials' eta."""
    problem, solver = problem_of(case, Gaussian(variance)), PotentialAscent()
    state = solver.start(problem, seed=0, tol=1e-9)
    for _ in range(n_passes):
        solver.step(problem, state)
    weights = padded_from_search(problem.structure.layout, state.weights)
    evaluation = solver.evaluate(problem, state)
    assert_allclose(problem.structure.blocks.unpad(weights), evaluation.w, atol=1e-8)


@settings(deadline=None, max_examples=40)
@given(CASES)
def test_layouts_of_padded_weights_are_converted_into_each_other(case):
    problem = problem_of(case)
    w = np.random.default_rng(case.seed).normal(size=problem.n_weights)
    blocks, layout = problem.structure.blocks, problem.structure.layout
    assert np.array_equal(search_from_padded(layout, blocks.pad(w)), blocks.for_search(w))
    assert np.array_equal(padded_from_search(layout, blocks.for_search(w)), blocks.pad(w))


@settings(deadline=None, max_examples=40)
@given(CASES, st.sampled_from([1e-7, 1e-4]), st.sampled_from([0.0, 3.0]))
def test_reaches_the_optimum_of_lbfgs_in_either_precision(case, tol, margin):
    problem = problem_of(case, margin=margin)
    result = run(PotentialAscent(), problem, tol=tol, max_passes=3000, seed=0)
    assert result.converged
    assert result.primal == pytest.approx(run(LBFGS(), problem, tol=1e-9).primal, rel=10 * tol, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(CASES)
def test_elastic_nets_are_those_of_owlqn_and_have_zeros(case):
    problem = problem_of(case, ElasticNet(0.3, 0.2))
    result = run(PotentialAscent(), problem, tol=1e-7, max_passes=3000, seed=0)
    other = run(OWLQN(), problem, tol=1e-7, max_passes=3000)
    assert result.converged and other.converged
    assert result.primal == pytest.approx(other.primal, rel=1e-6)
    assert np.array_equal(result.w, problem.dual_prior.mean(result.eta))


@settings(deadline=None, max_examples=30)
@given(CASES)
def test_scores_so_far_apart_that_logarithms_are_needed(case):
    rng = np.random.default_rng(case.seed)
    problem = problem_of(case, Gaussian(1.0, 1e3 * rng.normal(size=case.layout.n_weights)))
    result = run(PotentialAscent(), problem, tol=1e-6, max_passes=5000, seed=0)
    assert result.converged
    # gaps are relative to the objective, or to a thousandth of that at 0, which here is large
    expected = run(LBFGS(), problem, tol=1e-8, warn=False).primal
    assert result.primal == pytest.approx(expected, rel=2e-6, abs=2e-9 * problem.at_zero)


def words(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = [[[f"f{k}" for k in rng.integers(200, size=4)] for _ in range(rng.integers(1, 8))] for _ in range(n)]
    return X, [[str(int(node[0][1:]) % 3) for node in x] for x in X]


def test_same_bits_for_any_number_of_threads_and_the_same_seed():
    X, y = words()
    model = L2CRF(solver=PotentialAscent(), structure=Chain(pairs="seen"), random_state=3)
    fits = [model.set_params(n_jobs=n).fit(X, y).posterior_.mean for n in (1, 2)]
    assert np.array_equal(*fits)


def test_warm_start_goes_on_and_other_examples_begin_afresh():
    X, y = words()
    model = L2CRF(solver=PotentialAscent(check_every=1), warm_start=True, random_state=0, tol=1e-6).fit(X, y)
    first = model.n_passes_
    assert model.set_params(lam=1.01).fit(X, y).n_passes_ < first
    model.fit(X[1:], y[1:])
    assert model.objective_ == pytest.approx(L2CRF(lam=1.01, tol=1e-6).fit(X[1:], y[1:]).objective_, rel=1e-5)


def test_float32_gives_way_where_it_does_not_serve():
    X, y = words()
    problem = L2CRF(lam=1e-4).pose(*_examples(X, y))
    solver = PotentialAscent(check_every=1)
    state = solver.start(problem, seed=0, tol=1e-3)
    assert state.weights.dtype == np.float32
    state.gap = 0.0  # pretend that the gap has not decreased since
    solver.evaluate(problem, state)
    assert state.weights.dtype == np.float64
    solver.step(problem, state)


def _examples(X, y):
    from maxendnet.data.examples import as_examples, distinct_labels

    examples = as_examples(X, y)
    return examples, distinct_labels(examples.y)


def test_the_default_for_many_sparse_features_says_why():
    X, y = words(n=400)
    model = L2CRF(lam=0.5, structure=Chain(pairs="seen"), random_state=0).fit(X, y)
    assert model.solver_.startswith("ProximalAscent: log loss, at least 1,000 nodes")
    assert L2CRF(random_state=0).fit([[[0.0], [1.0]]], [["a", "b"]]).solver_.startswith("LBFGS: log loss")
    assert L2CRF(solver=LBFGS()).fit(X, y).solver_ == "LBFGS: requested"


def test_options_that_make_no_sense():
    with pytest.raises(ValueError, match="check_every must be a whole number of at least 1, got 0"):
        L2CRF(solver=PotentialAscent(check_every=0)).fit([[[0.0], [1.0]]], [["a", "b"]])


@pytest.mark.parametrize(
    "model", [M3N(), L1CRF(), MaxEnDNet(Gaussian(np.eye(6) + 0.1), Log()), MaxEnDNet(Laplace(), Log())],
    ids=["hinge", "L1", "full covariance", "Laplace"],
)  # fmt: skip
def test_refuses_other_problems(model):
    with pytest.raises(ValueError, match="PotentialAscent needs"):
        model.set_params(solver=PotentialAscent()).fit([[[0.0], [1.0]]], [["a", "b"]])


def test_few_features_are_for_lbfgs():
    rng = np.random.default_rng(0)
    y = [rng.integers(3, size=20) for _ in range(60)]
    for n_features, solver in ((400, "LBFGS"), (600, "ProximalAscent")):
        X = [sparse.csr_array(np.eye(n_features)[rng.integers(n_features, size=20)]) for _ in y]
        assert L2CRF(lam=2.0, tol=0.1, random_state=0).fit(X, y).solver_.startswith(solver)
