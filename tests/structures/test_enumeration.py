"""Hierarchies and choices compared with enumeration; features, scores and excess of all structures."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
from enumerated import all_cases, cases, problem_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain_structure import BoundPlain
from scipy.special import logsumexp

from maxendnet.losses import Hinge, Log
from maxendnet.losses.slack import SlackDerivative
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import BlockFrankWolfe
from maxendnet.solvers.blocks.updates import block_gaps, refresh_eta
from maxendnet.structures.base import ExcessOptions, Marginals, Table

pytestmark = pytest.mark.usefixtures("every_level")


@given(cases())
@settings(deadline=None, max_examples=300)
def test_maximum_is_enumeration(case):
    values, labels = case.structure.maximum(case.w)
    assert labels.dtype == np.int32
    assert_array_equal(case.structure.decode(case.w), labels)
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
    values, (node, edge, _) = case.structure.logsum(case.w, cliques=True)
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
    found = case.structure.max_marginals(case.w)
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
    drawn = case.structure.sample(case.w, n_draws, np.random.default_rng(case.case.seed))
    every = case.labellings(0)
    scores = case.features(0, every) @ case.w
    p = np.clip(np.exp(scores - logsumexp(scores)), 0.0, 1.0)
    number = {y: k for k, y in enumerate(every)}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=len(every))
    x = np.log(2e12)  # by Bernstein's inequality, a correct sampler fails with probability below 1e-12
    assert (np.abs(counts / n_draws - p) <= np.sqrt(2 * p * (1 - p) * x / n_draws) + x / (3 * n_draws)).all()


@given(cases(max_nodes=4))
@settings(deadline=None, max_examples=250)
def test_hinge_is_enumeration(case):
    value, slope = problem_of(case, Hinge(case.case.cost)).loss_and_gradient(case.w)[:2]
    expected, product = 0.0, 0.0
    for i in range(case.case.n_examples):
        every, u = case.labellings(i), case.batch.sample_weight[i]
        truth = case.features(i, [brute_force.example_truth(case.batch, i)])[0]
        cost = case.costs(i, every)
        hinges = cost + (case.features(i, every) - truth) @ case.w
        expected += u * hinges.max()
        # at ties, a subgradient is only known to belong to labellings with the largest hinge
        best = hinges >= hinges.max() - case.tolerance
        product += u * (hinges.max() - cost[best])[0] if best.sum() == 1 else np.nan
    tolerance = case.tolerance * (1 + case.batch.sample_weight.sum())
    assert_allclose(value, expected, atol=tolerance)
    if np.isfinite(product):
        assert_allclose(slope @ case.w, product, atol=tolerance)


@given(cases(max_nodes=4))
@settings(deadline=None, max_examples=150)
def test_hinge_subgradient_is_that_of_the_worst_labelling(case):
    slope = problem_of(case, Hinge(case.case.cost)).loss_and_gradient(case.w).gradient
    cost = 1.0 - np.eye(case.case.n_labels) if case.case.cost is None else case.case.cost
    labels = case.structure.maximum(case.w, Table(cost, case.batch.y))[1]
    expected = np.zeros_like(case.w)
    for i, (begin, end) in enumerate(case.nodes):
        truth, worst = case.features(i, [brute_force.example_truth(case.batch, i), tuple(labels[begin:end].tolist())])
        expected += case.batch.sample_weight[i] * (worst - truth)
    assert_allclose(slope, expected, atol=1e-12 * (1 + max(np.abs(x).sum() for x in case.values)))


@pytest.mark.parametrize("temperature", [None, 1.0, 0.05])
@given(case=cases(max_nodes=4))
@settings(deadline=None, max_examples=150)
def test_log_and_soft_hinge_are_enumeration(temperature, case):
    """The temperature None means the log loss."""
    loss = Log() if temperature is None else SoftHinge(case.case.cost, temperature=temperature)
    T = temperature or 1.0
    problem = problem_of(case, loss)
    value, slope, expected_cost = problem.loss_and_gradient(case.w)[:3]
    expected, gradient, total = 0.0, np.zeros_like(case.w), 0.0
    for i in range(case.case.n_examples):
        every, u = case.labellings(i), case.batch.sample_weight[i]
        truth = case.features(i, [brute_force.example_truth(case.batch, i)])[0]
        away = case.features(i, every) - truth
        cost = np.zeros(len(every)) if temperature is None else case.costs(i, every)
        exponents = (cost + away @ case.w) / T
        p = np.exp(exponents - logsumexp(exponents))
        expected += u * T * logsumexp(exponents)
        gradient += u * (p @ away)
        total += u * (p @ cost)
    tolerance = (
        5 * case.tolerance / T * (1 + case.batch.sample_weight.sum() + max(np.abs(x).sum() for x in case.values))
    )
    assert_allclose(value, expected, atol=tolerance)
    assert_allclose(slope, gradient, atol=tolerance)
    if temperature is not None:
        assert_allclose(expected_cost, total, atol=tolerance)


@pytest.mark.parametrize("prior", [Gaussian(0.5), Laplace(4.0)], ids=["gaussian", "laplace"])
@given(case=cases(max_nodes=4), seed=st.integers(0, 99), inner=st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_block_by_block_is_enumeration(prior, case, seed, inner):
    """After some steps, dual weights are on valid labellings, and eta, gaps and hinges agree with enumeration."""
    C = 0.7
    problem = Problem.pose(case.structure, Hinge(case.case.cost), prior, C)
    solver = BlockFrankWolfe(inner=inner)
    state = solver.start(problem, seed=seed, tol=1e-9)  # in double precision
    for _ in range(3):
        state = solver.step(problem, state)
    (state,) = state.collected().states
    along = case.structure.blocks.unpad(state.eta)
    refresh_eta(problem, state)
    eta = case.structure.blocks.unpad(state.eta)
    assert_allclose(along, eta, atol=1e-9 * (1 + np.abs(eta).max(initial=0.0)))
    owner, alpha, price, labels = state.sets.labellings()
    ends = np.cumsum([case.nodes[i][1] - case.nodes[i][0] for i in owner]).astype(int)
    expected, dual_cost, mean = np.zeros_like(eta), 0.0, problem.prior.mean(eta)
    hinges = block_gaps(problem, state, mean)
    for i, (begin, end) in enumerate(case.nodes):
        every, u = case.labellings(i), case.batch.sample_weight[i]
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
    rows = case.structure.differences(examples, np.array(sum(chosen, ()), dtype=np.int32))
    for i, y, row in zip(examples, chosen, rows.toarray()):
        truth, other = case.features(i, [brute_force.example_truth(case.batch, i), y])
        assert_allclose(row, truth - other, atol=1e-12)


@given(cases(max_nodes=4), st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_the_k_best_are_enumeration(case, k):
    values, labels = case.structure.top(case.w, k)
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


# ---- features and scores ---------------------------------------------------------------------------------------------


def random_labelling(case, rng):
    """Return a labelling of all examples, and its features for each example."""
    chosen = [every[rng.integers(len(every))] for every in map(case.labellings, range(case.case.n_examples))]
    features = [case.features(i, [y])[0] for i, y in enumerate(chosen)]
    return np.array(sum(chosen, ()), dtype=np.int32), np.array(features)


def mixture(case, rng, n_labellings=3):
    """Return random mixtures of labellings of each example as marginals, and their features."""
    n, L, batch = case.case.n_nodes, case.case.n_labels, case.batch
    q = Marginals(np.zeros((n, L)), np.zeros((n, L, L)), np.zeros((n, L, L, L)))
    features = np.zeros((case.case.n_examples, case.structure.layout.n_weights))
    share = rng.dirichlet(np.ones(n_labellings), size=case.case.n_examples)
    for k in range(n_labellings):
        labels, rows = random_labelling(case, rng)
        features += share[:, k, None] * rows
        for i, (begin, end) in enumerate(case.nodes):
            for t in range(begin, end):
                u, a, parent = share[i, k], labels[t], batch.parent[t]
                q.node[t, a] += u
                if parent >= 0:  # rows are labels of the user's first node
                    q.edge[t][(a, labels[parent]) if batch.flipped[t] else (labels[parent], a)] += u
                    left = brute_force.left_sibling(batch, t)
                    if left is not None:
                        q.siblings[t, labels[parent], labels[left], a] += u
    return q, features


@pytest.mark.parametrize("draw", [random_labelling, mixture])
@given(case=all_cases(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=150)
def test_features_and_scores_are_adjoint_and_those_of_the_labellings(draw, case, seed):
    rng = np.random.default_rng(seed)
    w, weight = rng.normal(size=len(case.w)), rng.normal(size=case.case.n_examples)
    q, features = draw(case, rng)
    tolerance = 1e-12 * (1 + np.abs(w).max(initial=0) * sum(np.abs(x).sum() for x in case.values) + case.case.n_nodes)
    scores = case.structure.score(w, q)
    assert scores.shape == weight.shape
    assert_allclose(scores, features @ w, atol=tolerance)
    found = case.structure.features(q, weight)
    assert_allclose(found, weight @ features, atol=tolerance * (1 + np.abs(weight).max()))
    assert_allclose(weight @ scores, w @ found, atol=10 * tolerance * (1 + np.abs(weight).sum()))
    assert_allclose(case.structure.features(q), features.sum(axis=0), atol=tolerance * case.case.n_examples)


# ---- the excess over the truth ---------------------------------------------------------------------------------------


def has_a_tie(case, table):
    """Whether the best labelling of an example is ambiguous up to rounding."""
    for i, (begin, _) in enumerate(case.nodes):
        every = case.labellings(i)
        scores = case.features(i, every) @ case.w
        if table is not None:
            added = table.at_nodes()
            scores = scores + [sum(added[begin + t, a] for t, a in enumerate(y)) for y in every]
        best = np.sort(scores)[::-1]
        if len(best) > 1 and best[0] - best[1] <= 10 * case.tolerance:
            return True
    return False


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("aggregate", ["maximum", "logsum"])
@given(case=all_cases(max_nodes=4), data=st.data())
@settings(deadline=None, max_examples=150)
def test_the_excess_of_a_structure_is_that_of_its_aggregates(aggregate, gradient, case, data):
    """Fused kernels return ``aggregate(w, table) - score(truth)`` and the difference of features."""
    rng, L = np.random.default_rng(case.case.seed), case.case.n_labels
    table, counted = (Table(rng.normal(size=(L, L)), case.batch.y) if data.draw(st.booleans()) else None for _ in "ab")
    if table is not None and data.draw(st.booleans()):
        np.fill_diagonal(table.rows, 0.0)
    derivative = data.draw(st.sampled_from([None, SlackDerivative("squared", 0.7), SlackDerivative("kl", 0.7)]))
    options = ExcessOptions(gradient, expected_table=counted, slack_derivative=derivative)
    own = case.structure.excess(aggregate, case.w, table, options)
    plain = BoundPlain(case.structure)
    composed = plain.excess(aggregate, case.w, table, options)
    assert set(plain.calls) >= {aggregate, "score"}
    scale = 1 + case.batch.sample_weight.max() + max(np.abs(x).sum() for x in case.values)
    tolerance = 10 * case.tolerance * scale
    assert_allclose(own.values, composed.values, atol=tolerance)
    if not gradient:
        assert own.slope.size == composed.slope.size == 0
        return
    if aggregate == "maximum" and has_a_tie(case, table):
        return
    if derivative is not None:  # it may change as fast as 1 / C
        tolerance *= 10 * (1 + own.values.max())
    assert_allclose(case.structure.unpad(own.slope), composed.slope, atol=tolerance)
    assert_allclose(own.expected_table, composed.expected_table, atol=tolerance)
    if counted is None:
        assert not own.expected_table.any()


@given(cases(min_nodes=1, max_nodes=4), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_differences_from_features_alone(case, n_rows, seed):
    rng = np.random.default_rng(seed)
    examples = rng.integers(case.case.n_examples, size=n_rows)
    chosen = [case.labellings(i)[rng.integers(len(case.labellings(i)))] for i in examples]
    labels = np.array(sum(chosen, ()), dtype=np.int32)
    composed = BoundPlain(case.structure).differences(examples, labels)
    assert_allclose(composed.toarray(), case.structure.differences(examples, labels).toarray(), atol=1e-12)
