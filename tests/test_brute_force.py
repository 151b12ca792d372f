"""The oracle itself, against arithmetic by hand and against laws that any right enumeration obeys."""

from __future__ import annotations

import math

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given
from numpy.testing import assert_allclose

# two nodes, two labels, one edge: scores 00: 1+0+3, 01: 1+5+0, 10: 2+0-1, 11: 2+5-4
HAND = ([[1.0, 2.0], [0.0, 5.0]], [(0, 1)], [[[3.0, 0.0], [-1.0, -4.0]]])


def test_two_nodes_by_hand():
    assert brute_force.labelling_scores(*HAND) == {(0, 0): 4.0, (0, 1): 6.0, (1, 0): 1.0, (1, 1): 3.0}
    assert brute_force.best(*HAND) == (6.0, (0, 1))
    assert brute_force.top(*HAND, k=3) == [(6.0, (0, 1)), (4.0, (0, 0)), (3.0, (1, 1))]
    assert_allclose(brute_force.max_marginals(*HAND), [[6.0, 3.0], [4.0, 6.0]])
    z = math.exp(4) + math.exp(6) + math.exp(1) + math.exp(3)
    value, node, edge = brute_force.logsum(*HAND)
    assert_allclose(value, math.log(z))
    assert_allclose(node[0, 0], (math.exp(4) + math.exp(6)) / z)
    assert_allclose(edge[0], np.exp([[4, 6], [1, 3]]) / z)
    assert_allclose(brute_force.log_loss(*HAND, (1, 1)), math.log(z) - 3)


def test_hinge_by_hand():
    # truth 11 (score 3): Hamming-augmented 00: 4+2, 01: 6+1, 10: 1+1, 11: 3
    assert brute_force.hinge(*HAND, (1, 1)) == (4.0, (0, 1))
    # cost[true, predicted]: predicting 0 for 1 costs 10 a node, so 00 wins with 4+20
    assert brute_force.hinge(*HAND, (1, 1), cost=[[0, 1], [10, 0]]) == (21.0, (0, 0))
    assert brute_force.hinge(*HAND, (1, 1), allowed=[[0, 1], [1, 1]]) == (0.0, (1, 1))


def test_forbidden_labels_do_not_exist():
    allowed = [[1, 1], [1, 0]]
    assert brute_force.labelling_scores(*HAND, allowed) == {(0, 0): 4.0, (1, 0): 1.0}
    assert_allclose(brute_force.max_marginals(*HAND, allowed), [[4.0, 1.0], [4.0, -np.inf]])
    _, node, _ = brute_force.logsum(*HAND, allowed)
    assert node[1].tolist() == [1.0, 0.0]


def test_an_empty_example_has_one_empty_labelling():
    empty = (np.zeros((0, 3)), [], [])
    assert brute_force.best(*empty) == (0.0, ())
    assert brute_force.logsum(*empty)[0] == 0.0
    assert brute_force.hinge(*empty, ()) == (0.0, ())


def test_uniform_entropy():
    assert_allclose(brute_force.entropy(np.zeros((3, 2)), [(0, 1)], [np.zeros((2, 2))]), 3 * math.log(2))


@given(strategies.score_cases())
def test_marginals_agree_with_each_other(scores):
    node_scores, edges, edge_scores, allowed = scores
    value, node, edge = brute_force.logsum(*scores)
    assert_allclose(node.sum(1), np.ones(len(node)))
    for e, (first, second) in enumerate(edges):
        assert_allclose(edge[e].sum(1), node[first], atol=1e-12)
        assert_allclose(edge[e].sum(0), node[second], atol=1e-12)
    # Gibbs: log Z = expected score + entropy
    expected = (node * node_scores).sum() + sum((m * s).sum() for m, s in zip(edge, edge_scores))
    assert_allclose(value, expected + brute_force.entropy(*scores), atol=1e-9)
    turned = [(second, first) for first, second in edges]
    assert_allclose(brute_force.log_partition(node_scores, turned, [m.T for m in edge_scores], allowed), value)


@given(strategies.score_cases())
def test_maxima_agree_with_each_other(scores):
    value, labelling = brute_force.best(*scores)
    assert brute_force.score(*scores[:3], labelling) == value
    everything = brute_force.top(*scores, k=10**6)
    assert everything[0] == (value, labelling)
    assert [s for s, _ in everything] == sorted((s for s, _ in everything), reverse=True)
    assert len({y for _, y in everything}) == len(brute_force.labelling_scores(*scores))
    if len(labelling):
        assert_allclose(brute_force.max_marginals(*scores).max(1), np.full(len(labelling), value))


FAMILIES = [
    strategies.chain_cases,
    strategies.tree_cases,
    strategies.forest_cases,
    strategies.independent_cases,
]


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_are_valid_batches(family):
    @given(family())
    def check(case):
        b = case.batch
        for name, dtype in {
            "indptr": "int64", "indices": "int32", "data": "float64", "y": "int32", "offsets": "int64",
            "order": "int32", "parent": "int32", "edge_type": "int32", "flipped": "uint8", "edge_features": "float64",
            "allowed": "uint8", "label_features": "float64", "sample_weight": "float64",
        }.items():  # fmt: skip
            array = getattr(b, name)
            assert array.dtype == dtype and array.flags.c_contiguous, name
        assert len(b.indptr) == case.n_nodes + 1 and b.indptr[-1] == len(b.data) == len(b.indices)
        for i in range(case.n_examples):
            nodes = list(brute_force.example_nodes(b, i))
            order = b.order[b.offsets[i] : b.offsets[i + 1]].tolist()
            assert sorted(order) == nodes
            for position, t in enumerate(order):
                assert b.parent[t] == -1 or b.parent[t] in order[:position]
            if family is strategies.chain_cases:
                assert brute_force.example_edges(b, i) == [(t, t + 1) for t in range(len(nodes) - 1)]
            if family is strategies.tree_cases and nodes:
                assert sum(b.parent[t] == -1 for t in nodes) == 1
            if family is strategies.independent_cases:
                assert not brute_force.example_edges(b, i)
        if b.allowed.size:
            assert b.allowed[np.arange(case.n_nodes), b.y].all()

    check()


@given(strategies.forest_cases())
def test_scores_are_linear_in_the_weights(case):
    for i, scores in enumerate(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)):
        for y, value in brute_force.labelling_scores(*scores).items():
            assert_allclose(case.w @ brute_force.feature_vector(case.batch, i, y, **case.kwargs), value, atol=1e-9)


def test_a_flipped_edge_reads_its_row_from_the_child():
    shape = {"n_labels": 2, "n_features": 1}
    batch = strategies.known_batch(
        indptr=np.zeros(3, np.int64), indices=np.zeros(0, np.int32), data=np.zeros(0), y=np.array([0, 1], np.int32),
        offsets=np.array([0, 2]), order=np.array([0, 1], np.int32), parent=np.array([-1, 0], np.int32),
        edge_type=np.zeros(2, np.int32), flipped=np.array([0, 1], np.uint8), edge_features=np.zeros((2, 0)),
        allowed=np.zeros((0, 0), np.uint8), label_features=np.zeros((0, 0, 0)), sample_weight=np.ones(1),
    )  # fmt: skip
    # node 0 has label 0, its child label 1; the child is the user's first node, so the pair is (row 1, column 0)
    assert brute_force.feature_vector(batch, 0, (0, 1), **shape).tolist() == [0, 0, 0, 0, 1, 0]
    (scores,) = brute_force.scores_of_weights(np.array([0, 0, 1.0, 2.0, 3.0, 4.0]), batch, **shape)
    assert brute_force.score(*scores[:3], (0, 1)) == 3.0


@given(strategies.forest_cases(max_nodes=3, max_examples=2, scales=(1.0,)))
def test_log_loss_gradient_is_the_finite_difference(case):
    value, gradient = brute_force.log_loss_sum(case.w, case.batch, **case.kwargs)
    assert_allclose(value, case.batch.sample_weight @ brute_force.log_loss_values(case.w, case.batch, **case.kwargs))
    direction = np.random.default_rng(case.seed).normal(size=len(case.w))
    step = 1e-5
    above, _ = brute_force.log_loss_sum(case.w + step * direction, case.batch, **case.kwargs)
    below, _ = brute_force.log_loss_sum(case.w - step * direction, case.batch, **case.kwargs)
    assert_allclose(gradient @ direction, (above - below) / (2 * step), rtol=1e-5, atol=1e-6)


@given(strategies.forest_cases(max_nodes=4, max_examples=2))
def test_hinge_obeys_the_subgradient_inequality(case):
    value, gradient = brute_force.hinge_sum(case.w, case.batch, **case.kwargs, cost=case.cost)
    values = brute_force.hinge_values(case.w, case.batch, **case.kwargs, cost=case.cost)
    assert (values >= -1e-9).all()
    assert_allclose(value, case.batch.sample_weight @ values)
    rng = np.random.default_rng(case.seed)
    for other in (np.zeros_like(case.w), rng.normal(size=len(case.w)), case.w + 1e-4 * rng.normal(size=len(case.w))):
        elsewhere, _ = brute_force.hinge_sum(other, case.batch, **case.kwargs, cost=case.cost)
        assert elsewhere >= value + gradient @ (other - case.w) - 1e-8


@given(strategies.forest_cases(min_labels=2, plain=True, scales=(0.0,)))
def test_hinge_at_zero_weights_counts_the_nodes(case):
    value, _ = brute_force.hinge_sum(case.w, case.batch, **case.kwargs)
    assert value == case.n_nodes
