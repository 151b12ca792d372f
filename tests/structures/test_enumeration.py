"""Every aggregate of hierarchies and choices against enumeration."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
from enumerated import cases, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from maxendnet.losses import Hinge, Log
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import BlockFrankWolfe
from maxendnet.structures.differences import differences

pytestmark = pytest.mark.usefixtures("every_level")


@given(cases())
@settings(deadline=None, max_examples=300)
def test_maximum_is_enumeration(case):
    values, labels = case.structure.maximum(case.w, case.batch)
    assert labels.dtype == np.int32
    assert_array_equal(case.structure.decode(case.w, case.batch), labels)
    for i, (begin, end) in enumerate(case.nodes):
        every = case.labellings(i)
        scores = case.features(i, every) @ case.w
        found = tuple(labels[begin:end].tolist())
        assert found in every
        assert_allclose(values[i], scores.max(), atol=case.tolerance)
        assert_allclose(scores[every.index(found)], scores.max(), atol=case.tolerance)


@given(cases())
@settings(deadline=None, max_examples=300)
def test_logsum_is_enumeration(case):
    values, node, edge = case.structure.logsum(case.w, case.batch, edges=True)
    n_labels = case.case.n_labels
    for i, (begin, end) in enumerate(case.nodes):
        every = case.labellings(i)
        scores = case.features(i, every) @ case.w
        assert_allclose(values[i], logsumexp(scores), atol=case.tolerance)
        p = np.exp(scores - logsumexp(scores))
        expected = np.zeros((end - begin, n_labels))
        pairs = np.zeros((end - begin, n_labels, n_labels))
        for y, share in zip(every, p):
            for t, a in enumerate(y):
                expected[t, a] += share
                if case.batch.parent[begin + t] >= 0:
                    pairs[t, y[case.batch.parent[begin + t] - begin], a] += share
        assert_allclose(node[begin:end], expected, atol=case.tolerance)
        assert_allclose(edge[begin:end], pairs, atol=case.tolerance)


@given(cases())
@settings(deadline=None, max_examples=300)
def test_max_marginals_are_enumeration(case):
    found = case.structure.max_marginals(case.w, case.batch)
    for i, (begin, end) in enumerate(case.nodes):
        every = case.labellings(i)
        scores = case.features(i, every) @ case.w
        expected = np.full((end - begin, case.case.n_labels), -np.inf)
        for y, score in zip(every, scores):
            for t, a in enumerate(y):
                expected[t, a] = max(expected[t, a], score)
        assert_allclose(found[begin:end], expected, atol=case.tolerance)


@given(cases(max_examples=1))
@settings(deadline=None, max_examples=60)
def test_samples_have_the_frequencies_of_enumeration(case):
    n_draws = 3000
    drawn = case.structure.sample(case.w, case.batch, n_draws, np.random.default_rng(case.case.seed))
    every = case.labellings(0)
    scores = case.features(0, every) @ case.w
    p = np.clip(np.exp(scores - logsumexp(scores)), 0.0, 1.0)
    number = {y: k for k, y in enumerate(every)}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=len(every))
    x = np.log(2e12)  # Bernstein: a right sampler fails with probability below 1e-12
    assert (np.abs(counts / n_draws - p) <= np.sqrt(2 * p * (1 - p) * x / n_draws) + x / (3 * n_draws)).all()


@given(cases(max_nodes=4))
@settings(deadline=None, max_examples=250)
def test_hinge_is_enumeration(case):
    value, slope = problem_of(case, Hinge(case.case.cost)).losses(case.w)
    expected, product = 0.0, 0.0
    for i in range(case.case.n_examples):
        every, u = case.labellings(i), case.batch.weights[i]
        truth = case.features(i, [brute_force.example_truth(case.batch, i)])[0]
        cost = case.costs(i, every)
        hinges = cost + (case.features(i, every) - truth) @ case.w
        expected += u * hinges.max()
        # of a subgradient, at ties, only this is known: it belongs to labellings whose hinge is the largest
        best = hinges >= hinges.max() - case.tolerance
        product += u * (hinges.max() - cost[best])[0] if best.sum() == 1 else np.nan
    tolerance = case.tolerance * (1 + case.batch.weights.sum())
    assert_allclose(value, expected, atol=tolerance)
    if np.isfinite(product):
        assert_allclose(slope @ case.w, product, atol=tolerance)


@given(cases(max_nodes=4))
@settings(deadline=None, max_examples=150)
def test_hinge_subgradient_is_that_of_the_worst_labelling(case):
    slope = problem_of(case, Hinge(case.case.cost)).losses(case.w)[1]
    cost = 1.0 - np.eye(case.case.n_labels) if case.case.cost is None else case.case.cost
    labels = case.structure.maximum(case.w, case.batch, cost)[1]
    expected = np.zeros_like(case.w)
    for i, (begin, end) in enumerate(case.nodes):
        truth, worst = case.features(i, [brute_force.example_truth(case.batch, i), tuple(labels[begin:end].tolist())])
        expected += case.batch.weights[i] * (worst - truth)
    assert_allclose(slope, expected, atol=1e-12 * (1 + max(np.abs(x).sum() for x in case.values)))


@pytest.mark.parametrize("temperature", [None, 1.0, 0.05])
@given(case=cases(max_nodes=4))
@settings(deadline=None, max_examples=150)
def test_log_and_soft_hinge_are_enumeration(temperature, case):
    """None: the log loss."""
    loss = Log() if temperature is None else SoftHinge(case.case.cost, temperature=temperature)
    T = temperature or 1.0
    problem = problem_of(case, loss)
    value, slope = problem.losses(case.w)
    expected, gradient, total = 0.0, np.zeros_like(case.w), 0.0
    for i in range(case.case.n_examples):
        every, u = case.labellings(i), case.batch.weights[i]
        truth = case.features(i, [brute_force.example_truth(case.batch, i)])[0]
        away = case.features(i, every) - truth
        cost = np.zeros(len(every)) if temperature is None else case.costs(i, every)
        exponents = (cost + away @ case.w) / T
        p = np.exp(exponents - logsumexp(exponents))
        expected += u * T * logsumexp(exponents)
        gradient += u * (p @ away)
        total += u * (p @ cost)
    tolerance = 5 * case.tolerance / T * (1 + case.batch.weights.sum() + max(np.abs(x).sum() for x in case.values))
    assert_allclose(value, expected, atol=tolerance)
    assert_allclose(slope, gradient, atol=tolerance)
    if temperature is not None:
        assert_allclose(problem.loss.expected_cost, total, atol=tolerance)


@pytest.mark.parametrize("prior", [Gaussian(0.5), Laplace(4.0)], ids=["gaussian", "laplace"])
@given(case=cases(max_nodes=4), seed=st.integers(0, 99), inner=st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_block_by_block_is_enumeration(prior, case, seed, inner):
    """After some steps: dual weights on possible labellings, eta is theirs, and gaps and hinges are those of all."""
    C = 0.7
    problem = Problem(case.batch, case.structure, Hinge(case.case.cost), prior, C)
    solver = BlockFrankWolfe(ramp=0, inner=inner)
    state = solver.start(problem, seed=seed, tol=1e-9)  # in double precision
    for _ in range(3):
        state = solver.step(problem, state)
    along = case.structure.unpad(state.eta)
    solver.refresh_eta(problem, state)
    eta = case.structure.unpad(state.eta)
    assert_allclose(along, eta, atol=1e-9 * (1 + np.abs(eta).max(initial=0.0)))
    owner, alpha, price, labels = state.sets.labellings()
    ends = np.cumsum([case.nodes[i][1] - case.nodes[i][0] for i in owner]).astype(int)
    expected, dual_cost, mean = np.zeros_like(eta), 0.0, problem.prior.mean(eta)
    hinges = solver.block_gaps(problem, state, mean)
    for i, (begin, end) in enumerate(case.nodes):
        every, u = case.labellings(i), case.batch.weights[i]
        truth = case.features(i, [brute_force.example_truth(case.batch, i)])[0]
        away, cost = truth - case.features(i, every), case.costs(i, every)
        weight = np.zeros(len(every))
        for k in np.flatnonzero(owner == i):
            found = every.index(tuple(labels[ends[k] - (end - begin) : ends[k]].tolist()))
            weight[found] += alpha[k]
            assert_allclose(price[k], cost[found], atol=1e-9)
        assert weight.min(initial=0.0) >= 0.0 and weight.sum() <= C * u * (1 + 1e-9)
        expected += weight @ away
        dual_cost += weight @ cost
        violation = cost - away @ mean
        scale = 1e-8 * (1 + np.abs(violation).max())
        assert_allclose(hinges[i], max(violation.max(), 0.0), atol=scale)
        assert_allclose(state.gaps[i], max(0.0, C * u * hinges[i] - weight @ violation), atol=scale * (1 + C * u))
    assert_allclose(eta, expected, atol=1e-9 * (1 + np.abs(expected).max(initial=0.0)))
    assert_allclose(state.sets.total_cost(), dual_cost, atol=1e-9 * (1 + abs(dual_cost)))


@given(cases(min_nodes=3), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=250)
def test_differences_are_those_of_the_features(case, n_rows, seed):
    rng = np.random.default_rng(seed)
    examples = rng.integers(case.case.n_examples, size=n_rows)
    chosen = [case.labellings(i)[rng.integers(len(case.labellings(i)))] for i in examples]
    rows = differences(case.structure, case.batch, examples, np.array(sum(chosen, ()), dtype=np.int32))
    for i, y, row in zip(examples, chosen, rows.toarray()):
        truth, other = case.features(i, [brute_force.example_truth(case.batch, i), y])
        assert_allclose(row, truth - other, atol=1e-12)


@given(cases(max_nodes=4), st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_the_k_best_are_enumeration(case, k):
    values, labels = case.structure.top(case.w, case.batch, k)
    assert values.shape == (case.case.n_examples, k) and labels.shape == (k, case.case.n_nodes)
    for i, (begin, end) in enumerate(case.nodes):
        every = case.labellings(i)
        scores = case.features(i, every) @ case.w
        ranked = -np.sort(-scores)[:k]
        found = [tuple(row) for row in labels[: len(ranked), begin:end].tolist()]
        assert_allclose(values[i, : len(ranked)], ranked, atol=case.tolerance)
        assert len(set(found)) == len(ranked)
        assert_allclose([scores[every.index(y)] for y in found], ranked, atol=case.tolerance)
        assert np.isneginf(values[i, len(ranked) :]).all() and (labels[len(ranked) :, begin:end] == -1).all()
