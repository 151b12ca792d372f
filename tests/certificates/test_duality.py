"""Entropy of mixed tree marginals, compared with enumeration of all labellings."""

from __future__ import annotations

import math

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from maxendnet.backends import Threads
from maxendnet.losses import Log
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.solvers.certificate import marginals as duality
from maxendnet.solvers.certificate.marginals import mixed_entropy
from maxendnet.structures import Layout
from maxendnet.structures.bound.forest import BoundForest


def problem_of(case, n_jobs=1):
    return Problem.pose(case.forest, Log(), Gaussian(), backend=Threads(n_jobs))


def tree_distribution(scores, truth, share):
    """``{labelling: p}``: product of mixed edge marginals over mixed node marginals to the power (degree - 1)."""
    _, node, edge = brute_force.logsum(*scores)
    node, edge = share * node, share * edge
    for t, a in enumerate(truth):
        node[t, a] += 1 - share
    for e, (first, second) in enumerate(scores.edges):
        edge[e, truth[first], truth[second]] += 1 - share
    degree = np.bincount(np.array(scores.edges, dtype=int).ravel(), minlength=len(node))
    p = {}
    for y in brute_force.labellings(*scores.node_scores.shape, scores.allowed):
        nodes = [float(node[t, a]) for t, a in enumerate(y)]
        edges = [float(edge[e, y[first], y[second]]) for e, (first, second) in enumerate(scores.edges)]
        p[y] = math.prod(edges) * math.prod(m ** (1 - d) for m, d in zip(nodes, degree.tolist())) if all(nodes) else 0.0
    return p


def entropy(p):
    return -math.fsum(value * math.log(value) for value in p.values() if value > 0)


def expected_entropies(case, share):
    """Return for each example the entropies of the tree distribution and of the mixture of p(y|x) and the truth."""
    entropies = []
    for i, scores in enumerate(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)):
        truth = brute_force.example_truth(case.batch, i)
        tree = tree_distribution(scores, truth, share)
        assert_allclose(math.fsum(tree.values()), 1.0, rtol=1e-9)  # the marginals are those of some distribution
        mixture = {y: share * p + (1 - share) * (y == truth) for y, p in brute_force.probabilities(*scores).items()}
        entropies.append((entropy(tree), entropy(mixture)))
    return np.array(entropies).reshape(-1, 2)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.97, 1.0])
@given(case=strategies.any_case(max_nodes=4, scales=(1.0, 0.0, 5.0)))
@settings(deadline=None, max_examples=50)
def test_mixed_entropy_is_enumeration(share, case):
    expected = expected_entropies(case, share)
    value = mixed_entropy(problem_of(case), case.w, share)
    assert isinstance(value, float)
    assert_allclose(value, case.batch.sample_weight @ expected[:, 0], rtol=0, atol=1e-9)
    # of all distributions with these marginals the tree has the largest entropy, so it certifies at least as much
    assert value >= case.batch.sample_weight @ expected[:, 1] - 1e-9


@given(strategies.any_case(max_nodes=4))
@settings(deadline=None, max_examples=40)
def test_ends_of_the_mixture(case):
    problem = problem_of(case)
    assert mixed_entropy(problem, case.w, 0.0) == pytest.approx(0.0, abs=1e-12)
    scores = brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)
    expected = case.batch.sample_weight @ [brute_force.entropy(*s) for s in scores]
    assert_allclose(mixed_entropy(problem, case.w, 1.0), expected, rtol=0, atol=1e-8)


@given(strategies.any_case(max_nodes=4, max_examples=10), st.sampled_from([1, 2, 5]))
@settings(deadline=None, max_examples=30)
def test_examples_are_taken_some_at_a_time(case, nodes):
    whole = mixed_entropy(problem_of(case), case.w, 0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duality, "NODES_AT_A_TIME", nodes)
        assert_allclose(mixed_entropy(problem_of(case), case.w, 0.5), whole, rtol=1e-10, atol=1e-10)
        assert_allclose(mixed_entropy(problem_of(case, n_jobs=2), case.w, 0.5), whole, rtol=1e-10, atol=1e-10)


@given(strategies.any_case(max_nodes=4, scales=(1.0,)))
@settings(deadline=None, max_examples=30)
def test_it_is_a_dual_value_of_the_log_loss(case):
    # weak duality: sum u log_loss(v) >= entropy - v . eta, for any v, with eta the features of the truth minus those of
    # the mixed marginals, which is share times minus the gradient of the loss
    problem, share = problem_of(case), 0.7
    eta = -share * brute_force.log_loss_sum(case.w, case.batch, **case.kwargs)[1]
    value = mixed_entropy(problem, case.w, share)
    rng = np.random.default_rng(case.seed)
    for v in (case.w, np.zeros_like(case.w), rng.normal(size=len(case.w))):
        loss, _ = brute_force.log_loss_sum(v, case.batch, **case.kwargs)
        assert loss >= value - v @ eta - 1e-9


def test_isolated_nodes_without_transitions():
    case_w = np.array([0.3, -1.0, 2.0])
    batch = strategies.known_batch(
        indptr=np.arange(3, dtype=np.int64),
        indices=np.zeros(2, np.int32),
        data=np.array([1.0, 0.5]),
        y=np.array([0, 2], np.int32),
        offsets=np.array([0, 1, 2], np.int64),
        order=np.arange(2, dtype=np.int32),
        parent=np.full(2, -1, np.int32),
        edge_type=np.zeros(2, np.int32),
        flipped=np.zeros(2, np.uint8),
        edge_features=np.zeros((2, 0)),
        allowed=np.zeros((0, 0), np.uint8),
        label_features=np.zeros((0, 0, 0)),
        sample_weight=np.array([2.0, 3.0]),
    )
    expected = 0.0
    for x, y, u in ((1.0, 0, 2.0), (0.5, 2, 3.0)):
        p = np.exp(x * case_w)
        p = 0.5 * p / p.sum() + 0.5 * (np.arange(3) == y)
        expected -= u * (p * np.log(p)).sum()
    problem = Problem.pose(BoundForest(Layout(1, 3), batch), Log(), Gaussian())
    assert_allclose(mixed_entropy(problem, case_w, 0.5), expected)
