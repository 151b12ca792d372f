"""Forests compared with enumeration: of labellings if there are few, else of an array with one axis per node.

A batch tells how large its numbers are and how many children a node has (``largest``, ``max_children``). Without them
everything is searched in double and summed in logarithms; so cases come with and without (`sized`), and both paths
have to give the same.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import NamedTuple

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from maxendnet import _kernels
from maxendnet.structures.base import Table
from maxendnet.structures.bound.forest import LOGARITHMIC, SCALED, BoundForest, sum_mode
from maxendnet.structures.bound.kernel_structure import single_is_enough
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.padding import for_search, lanes, pad, pad_rows, padded_size, unpad

pytestmark = pytest.mark.usefixtures("every_level")

# lanes come in blocks of 32 and a rest of 24, 16 or 8: full blocks, every rest, and one label more or less
N_LABELS = [1, 2, 8, 9, 16, 17, 25, 31, 33, 40, 70]


def forest_of(batch, *sizes):
    return BoundForest(Layout(*sizes), batch)


# ------------------------------------------------------------------------------------------------ what is expected


class Expected(NamedTuple):
    best: float
    max_marginals: np.ndarray  # (n, L)
    log_partition: float
    node: np.ndarray  # (n, L)
    edge: np.ndarray  # (n_edges, L, L)
    ranked: np.ndarray  # scores of all labellings, best first


def by_labellings(scores):
    return Expected(
        brute_force.best(*scores)[0],
        brute_force.max_marginals(*scores),
        *brute_force.logsum(*scores),
        np.array([value for value, _ in brute_force.top(*scores, k=10**6)]),
    )


def by_array(scores):
    """Compute the same from an array of all scores with one axis per node, for many labels on two or three nodes."""
    node_scores, edges, edge_scores, allowed = scores
    n, L = node_scores.shape
    total = np.zeros((L,) * n)
    for t in range(n):
        row = node_scores[t] if allowed is None else np.where(allowed[t], node_scores[t], -np.inf)
        total += row.reshape([L if s == t else 1 for s in range(n)])
    for (first, second), matrix in zip(edges, edge_scores):
        shape = [L if s in (first, second) else 1 for s in range(n)]
        total += (matrix if first < second else matrix.T).reshape(shape)
    log_partition = float(logsumexp(total))
    p = np.exp(total - log_partition)
    rest = [tuple(s for s in range(n) if s != t) for t in range(n)]
    edge = np.zeros((len(edges), L, L))
    for e, (first, second) in enumerate(edges):
        pair = p.sum(axis=tuple(s for s in range(n) if s not in (first, second)))
        edge[e] = pair if first < second else pair.T
    ranked = total[np.isfinite(total)]
    return Expected(
        float(total.max()),
        np.array([total.max(axis=axes) for axes in rest]).reshape(n, L),
        log_partition,
        np.array([p.sum(axis=axes) for axes in rest]).reshape(n, L),
        edge,
        -np.sort(-ranked),
    )


def example_scores(case):
    return brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)


def magnitude(scores):
    """Return the maximum size of a sum of scores; rounding errors are relative to it."""
    return 1.0 + float(np.abs(scores.node_scores).sum() + sum(np.abs(matrix).max() for matrix in scores.edge_scores))


def example_slice(batch, i):
    return slice(int(batch.offsets[i]), int(batch.offsets[i + 1]))


def assert_exists(scores, labels):
    """Assert that all labels are in range and allowed."""
    assert all(0 <= a < scores.node_scores.shape[1] for a in labels)
    if scores.allowed is not None:
        assert all(scores.allowed[t][a] for t, a in enumerate(labels))


# --------------------------------------------------------------------------------------------------------- checks


def check_maximum(case, expect=by_labellings):
    values, labels = case.forest.maximum(case.w)
    assert values.shape == (case.n_examples,) and labels.shape == (case.n_nodes,) and labels.dtype == np.int32
    for i, scores in enumerate(example_scores(case)):
        tolerance = 1e-13 * magnitude(scores)
        found = labels[example_slice(case.batch, i)]
        assert_exists(scores, found)
        assert_allclose(values[i], expect(scores).best, rtol=0, atol=tolerance)
        assert_allclose(brute_force.score(*scores[:3], found), values[i], rtol=0, atol=tolerance)


def check_decode(case, expect=by_labellings):
    labels = case.forest.decode(case.w)
    assert labels.shape == (case.n_nodes,) and labels.dtype == np.int32
    # 2^-24 is the rounding error of float32, once per addition, and there are few additions
    precision = 1e-6 if single_is_enough(case.w, case.batch) else 1e-13
    for i, scores in enumerate(example_scores(case)):
        found = labels[example_slice(case.batch, i)]
        assert_exists(scores, found)
        best = expect(scores).best
        assert_allclose(brute_force.score(*scores[:3], found), best, rtol=0, atol=precision * magnitude(scores))


def check_max_marginals(case, expect=by_labellings):
    found = case.forest.max_marginals(case.w)
    assert found.shape == (case.n_nodes, case.n_labels)
    for i, scores in enumerate(example_scores(case)):
        assert_allclose(
            found[example_slice(case.batch, i)], expect(scores).max_marginals, rtol=0, atol=1e-13 * magnitude(scores)
        )


def check_logsum(case, expect=by_labellings):
    forest = case.forest
    values, (node, edge, _) = forest.logsum(case.w, cliques=True)
    assert values.shape == (case.n_examples,) and node.shape == (case.n_nodes, case.n_labels)
    assert edge.shape == (case.n_nodes, case.n_labels, case.n_labels)
    for i, scores in enumerate(example_scores(case)):
        expected, here = expect(scores), example_slice(case.batch, i)
        tolerance = 1e-13 * magnitude(scores)
        assert_allclose(values[i], expected.log_partition, rtol=0, atol=tolerance)
        assert_allclose(node[here], expected.node, rtol=0, atol=tolerance)
        assert_allclose(node[here].sum(axis=1), 1.0, rtol=0, atol=tolerance)
        if scores.allowed is not None:
            assert not node[here][~scores.allowed.astype(bool)].any()
        assert_allclose(
            edge[brute_force.example_children(case.batch, i)].reshape(expected.edge.shape),
            expected.edge,
            rtol=0,
            atol=tolerance,
        )
    assert not edge[case.batch.parent < 0].any()
    again, (same, nothing, _) = forest.logsum(case.w)
    assert nothing is None
    assert_allclose(again, values, rtol=1e-15)
    assert_allclose(same, node, rtol=1e-12, atol=1e-15)


def check_top(case, k, expect=by_labellings):
    values, labels = case.forest.top(case.w, k)
    assert values.shape == (case.n_examples, k) and labels.shape == (k, case.n_nodes)
    for i, scores in enumerate(example_scores(case)):
        ranked = expect(scores).ranked[:k]
        found = labels[:, example_slice(case.batch, i)]
        tolerance = 1e-13 * magnitude(scores)
        assert_allclose(values[i, : len(ranked)], ranked, rtol=0, atol=tolerance)
        assert (np.diff(values[i, : len(ranked)]) <= 0).all()
        assert (values[i, len(ranked) :] == -np.inf).all() and (found[len(ranked) :] == -1).all()
        assert len({tuple(y) for y in found[: len(ranked)]}) == len(ranked)  # no labelling twice
        for value, y in zip(values[i], found[: len(ranked)]):
            assert_exists(scores, y)
            assert_allclose(brute_force.score(*scores[:3], y), value, rtol=0, atol=tolerance)


def assert_frequencies(frequency, probability, n_draws):
    """Compare frequencies with probabilities. A correct sampler fails with probability below 1e-12 (Bernstein)."""
    x = np.log(2e12)
    bound = np.sqrt(2 * probability * (1 - probability) * x / n_draws) + x / (3 * n_draws)
    assert (np.abs(frequency - probability) <= bound).all()


def check_sample(case, expect=by_labellings, n_draws=4000):
    labels = case.forest.sample(case.w, n_draws, np.random.default_rng(case.seed))
    assert labels.shape == (n_draws, case.n_nodes) and labels.dtype == np.int32
    for i, scores in enumerate(example_scores(case)):
        found, expected = labels[:, example_slice(case.batch, i)], expect(scores)
        for t in range(found.shape[1]):
            frequency = np.bincount(found[:, t], minlength=case.n_labels) / n_draws
            assert not frequency[expected.node[t] == 0].any()
            assert_frequencies(frequency, np.clip(expected.node[t], 0, 1), n_draws)
        for e, (first, second) in enumerate(scores.edges):
            pairs = found[:, first].astype(np.int64) * case.n_labels + found[:, second]
            frequency = np.bincount(pairs, minlength=case.n_labels**2) / n_draws
            assert_frequencies(frequency, np.clip(expected.edge[e].ravel(), 0, 1), n_draws)
        if expect is by_labellings:
            probabilities = brute_force.probabilities(*scores)
            drawn, counts = np.unique(found, axis=0, return_counts=True)
            frequencies = dict.fromkeys(probabilities, 0.0)
            frequencies.update({tuple(y): count / n_draws for y, count in zip(drawn.tolist(), counts)})
            assert frequencies.keys() == probabilities.keys()
            assert_frequencies(
                np.array([frequencies[y] for y in probabilities]), np.array([*probabilities.values()]), n_draws
            )


# --------------------------------------------------------------------------------------- small cases of every kind


@given(strategies.any_case())
@settings(deadline=None)
def test_maximum_is_enumeration(case):
    check_maximum(case)


@given(strategies.any_case())
@settings(deadline=None)
def test_maximum_with_costs_is_enumeration(case):
    cost = 1.0 - np.eye(case.n_labels) if case.cost is None else case.cost
    values, labels = case.forest.maximum(case.w, Table(cost, case.batch.y))
    for i, scores in enumerate(example_scores(case)):
        truth, tolerance = brute_force.example_truth(case.batch, i), 1e-13 * magnitude(scores)
        found = labels[example_slice(case.batch, i)]
        assert_exists(scores, found)
        hinge, _ = brute_force.hinge(*scores[:3], truth, scores.allowed, cost)
        assert_allclose(values[i], hinge + brute_force.score(*scores[:3], truth), rtol=0, atol=tolerance)
        augmented = brute_force.score(*scores[:3], found) + brute_force.labelling_cost(truth, found, cost)
        assert_allclose(augmented, values[i], rtol=0, atol=tolerance)


@given(strategies.any_case())
@settings(deadline=None)
def test_decode_is_enumeration(case):
    check_decode(case)


@given(strategies.any_case())
@settings(deadline=None)
def test_max_marginals_are_enumeration(case):
    check_max_marginals(case)


@given(strategies.any_case())
@settings(deadline=None)
def test_logsum_is_enumeration(case):
    check_logsum(case)


@given(strategies.any_case(max_nodes=4), st.sampled_from([1, 2, 3, 7, 100]))
@settings(deadline=None)
def test_top_is_enumeration(case, k):
    check_top(case, k)


@given(strategies.any_case(max_nodes=4))
@settings(deadline=None, max_examples=50)
def test_sample_has_the_frequencies_of_enumeration(case):
    check_sample(case)


# more examples than shards, so that one call processes several: a reused workspace must not keep old values
@given(strategies.any_case(max_nodes=3, max_labels=3, max_examples=40))
@settings(deadline=None, max_examples=25)
def test_many_examples_in_one_call(case):
    check_maximum(case)
    check_decode(case)
    check_max_marginals(case)
    check_logsum(case)
    check_top(case, 4)
    check_sample(case, n_draws=200)


@given(strategies.any_case(max_nodes=3))
@settings(deadline=None, max_examples=30)
def test_expectations_agree(case):
    for scores in example_scores(case):
        for one, other in zip(by_labellings(scores), by_array(scores)):
            assert_allclose(one, other, rtol=0, atol=1e-12 * magnitude(scores))


# ----------------------------------------------------------------------------------------------- numbers of labels


@pytest.mark.parametrize("n_labels", N_LABELS)
def test_any_number_of_labels(n_labels):
    @given(strategies.any_case(max_nodes=3, max_examples=2, min_labels=n_labels, max_labels=n_labels))
    @settings(deadline=None, max_examples=8)
    def check(case):
        check_maximum(case, by_array)
        check_decode(case, by_array)
        check_max_marginals(case, by_array)
        check_logsum(case, by_array)
        check_top(case, 5, by_array)
        check_sample(case, by_array, n_draws=1000)

    check()


@pytest.mark.parametrize("n_labels", [1, 3, 8, 33])
def test_isolated_nodes_need_no_transitions(n_labels):
    rng = np.random.default_rng(n_labels)
    w = rng.normal(size=2 * n_labels)
    batch = chain_of(rng.normal(size=(4, 2)))
    batch = batch._replace(parent=np.full(4, -1, np.int32))
    forest = forest_of(batch, 2, n_labels, 0)
    node_scores = batch.data.reshape(4, 2) @ w.reshape(2, n_labels)
    values, (node, edge, _) = forest.logsum(w, cliques=True)
    assert_allclose(values, [logsumexp(node_scores, axis=1).sum()])
    assert_allclose(node, np.exp(node_scores - logsumexp(node_scores, axis=1, keepdims=True)))
    assert not edge.any()
    assert_allclose(forest.maximum(w)[0], [node_scores.max(axis=1).sum()])
    assert_array_equal(forest.decode(w), node_scores.argmax(axis=1))


def test_a_single_label_leaves_no_choice():
    w = np.array([1.0, -2.0, 0.5])  # two features, one transition
    batch = chain_of(np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]]))
    forest, score = forest_of(batch, 2, 1, 1), -1.0 + 2.0 - 6.0 + 2 * 0.5
    values, (node, edge, _) = forest.logsum(w, cliques=True)
    assert values == pytest.approx([score], abs=1e-14)
    assert node.tolist() == [[1.0]] * 3 and edge.ravel().tolist() == [0.0, 1.0, 1.0]
    assert forest.maximum(w)[0] == pytest.approx([score], abs=1e-14)
    assert forest.max_marginals(w) == pytest.approx(np.full((3, 1), score), abs=1e-14)
    values, labels = forest.top(w, 2)
    assert values[0, 0] == pytest.approx(score, abs=1e-14) and values[0, 1] == -np.inf
    assert labels.tolist() == [[0, 0, 0], [-1, -1, -1]]
    assert not forest.sample(w, 5, np.random.default_rng(0)).any()


@pytest.mark.parametrize("k", [2, 20])
def test_the_k_best_of_a_long_chain_pause_now_and_then(k, monkeypatch):
    """Ctrl-C is handled in pauses; an exception raised there ends the search."""
    rng, n, L = np.random.default_rng(0), 20_000, 5
    forest, w = forest_of(chain_of(rng.normal(size=(n, L))), L, L, 1), rng.normal(size=L * L + L * L)
    expected, pauses = forest.top(w, k), []
    monkeypatch.setattr("maxendnet.structures.bound.forest.pause", lambda: pauses.append(None))
    for found, before in zip(forest.top(w, k), expected):
        assert_array_equal(found, before)
    assert len(pauses) > n * L * L * k / 1e6  # a million ways are sorted in well under a second

    def give_up():
        pauses.append(None)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    pauses.clear()
    monkeypatch.setattr("maxendnet.structures.bound.forest.pause", give_up)
    with pytest.raises(KeyboardInterrupt):
        forest.top(w, k)
    assert len(pauses) == 3


# ------------------------------------------------------------------------------------------- empty and without labels


def test_examples_without_nodes():
    w = np.arange(6.0)
    batch = empty_batch()._replace(offsets=np.zeros(3, np.int64), sample_weight=np.ones(2))
    forest = forest_of(batch, 1, 2, 1)
    values, (node, edge, _) = forest.logsum(w, cliques=True)
    assert values.tolist() == [0.0, 0.0] and node.shape == (0, 2) and edge.shape == (0, 2, 2)
    values, labels = forest.maximum(w)
    assert values.tolist() == [0.0, 0.0] and labels.shape == (0,)
    assert forest.max_marginals(w).shape == (0, 2)
    assert forest.sample(w, 3, np.random.default_rng(0)).shape == (3, 0)
    values, labels = forest.top(w, 2)  # there is one labelling, the empty one
    assert values.tolist() == [[0.0, -np.inf]] * 2 and labels.shape == (2, 0)


def test_no_examples():
    w, forest = np.arange(6.0), forest_of(empty_batch(), 1, 2, 1)
    assert forest.logsum(w)[0].shape == forest.maximum(w)[0].shape == (0,)
    assert forest.decode(w).shape == (0,)
    assert forest.top(w, 2)[0].shape == (0, 2)
    assert forest.sample(w, 2, np.random.default_rng(0)).shape == (2, 0)


@given(strategies.any_case(max_nodes=3))
@settings(deadline=None, max_examples=20)
def test_true_labels_are_not_looked_at(case):
    forest, unknown = case.forest, BoundForest(case.layout, case.batch._replace(y=np.zeros(0, np.int32)))
    assert_array_equal(unknown.decode(case.w), forest.decode(case.w))
    for one, other in zip(unknown.maximum(case.w), forest.maximum(case.w)):
        assert_array_equal(one, other)
    (values, marginals), (other_values, other_marginals) = unknown.logsum(case.w), forest.logsum(case.w)
    assert_array_equal(values, other_values)
    assert_array_equal(marginals.node, other_marginals.node)
    assert marginals.edge is None and other_marginals.edge is None


@given(strategies.any_case())
@settings(deadline=None, max_examples=20)
def test_draws_follow_the_seed(case):
    forest = case.forest
    draws = [forest.sample(case.w, 4, np.random.default_rng(seed)) for seed in (1, 1)]
    assert_array_equal(*draws)


# ------------------------------------------------------------------------------------------------- large numbers


@given(strategies.any_case(scales=(1e4,)))
@settings(deadline=None, max_examples=60)
def test_scores_of_ten_thousand(case):
    check_maximum(case)
    check_decode(case)
    check_max_marginals(case)
    check_logsum(case)
    check_top(case, 3)
    check_sample(case, n_draws=50)


def check_huge(case):
    """Check scores with rounding errors far above 1, where only a clear winner has reliable marginals."""
    check_maximum(case)
    check_decode(case)
    check_max_marginals(case)
    check_top(case, 3)
    forest = case.forest
    values, (node, edge, _) = forest.logsum(case.w, cliques=True)
    labels = forest.sample(case.w, 20, np.random.default_rng(case.seed))
    assert np.isfinite(values).all() and np.isfinite(node).all() and np.isfinite(edge).all()
    assert_allclose(node.sum(axis=1), 1.0)
    for i, scores in enumerate(example_scores(case)):
        expected, here = by_labellings(scores), example_slice(case.batch, i)
        assert_allclose(values[i], expected.log_partition, rtol=0, atol=1e-13 * magnitude(scores))
        for y in labels[:, here]:
            assert_exists(scores, y)
        for child, (first, second) in zip(brute_force.example_children(case.batch, i), scores.edges):
            assert_allclose(edge[child].sum(axis=1), node[here][first], atol=1e-12)
            assert_allclose(edge[child].sum(axis=0), node[here][second], atol=1e-12)
        if len(expected.ranked) == 1 or expected.ranked[0] - expected.ranked[1] > 1e-10 * magnitude(scores):
            assert_allclose(node[here], expected.node, rtol=0, atol=1e-12)


@given(strategies.any_case(scales=(1e100,)))
@settings(deadline=None, max_examples=40)
def test_weights_of_1e100(case):
    check_huge(case)


@given(strategies.any_case())
@settings(deadline=None, max_examples=40)
def test_features_of_1e100(case):
    batch = case.batch._replace(
        data=case.batch.data * 1e100,
        edge_features=case.batch.edge_features * 1e100,
        label_features=case.batch.label_features * 1e100,
        ones=False,
    )
    check_huge(replace(case, batch=strategies.sized(batch) if batch.largest < 1e300 else batch))


def test_marginals_of_a_tie_far_from_zero():
    # log 2 is invisible beside 1e17, and yet there are two labels
    batch = chain_of([[1e17]])
    _, (node, _, _) = forest_of(batch, 1, 2, 1).logsum(np.array([1.0, 1.0, 0.0, 0.0, 0.0, 1000.0]))
    assert_allclose(node, [[0.5, 0.5]])


# --------------------------------------------------------------------- scaled probabilities, up to where they may go


@given(
    strategies.any_case(scales=(1.0,)),
    st.sampled_from([0.1, 10.0, 100.0, 199.0, 299.0, 399.0, 401.0, 799.0]),
    st.sampled_from([0.0, 1.0, 100.0, 300.0, 1000.0]),
)
@settings(deadline=None, max_examples=200)
def test_logsum_whatever_the_ranges_of_edges_and_nodes(case, spread, size):
    layout, batch = case.layout, strategies.sized(case.batch)
    segments = layout.segments(case.w)
    ranges = [np.ptp(matrix) for matrix in segments.transitions]
    ranges[0] += sum(np.abs(x).max(initial=0.0) * np.ptp(m) for x, m in zip(batch.edge_features.T, segments.edge))
    stretch = spread / max(1e-3, max(ranges) * batch.max_children)
    w = layout.join(
        segments._replace(
            node=size * segments.node,
            transitions=stretch * segments.transitions,
            edge=stretch * segments.edge,
            label_features=size * segments.label_features,
        )
    )
    check_logsum(replace(case, batch=batch, w=w))


def test_logsum_when_every_edge_scales_by_exp_minus_400():
    # the best path never uses the transition of 400, so that every message is exp(-400) times what it is shifted by
    batch = chain_of([[750.0, 0.0]] * 3)
    w = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 400.0])
    values, (node, _, _) = forest_of(batch, 2, 2, 1).logsum(w)
    assert_allclose(values, [2250.0])
    assert_allclose(node, [[1.0, 0.0]] * 3, atol=1e-12)


def test_logsum_when_child_and_parent_overrule_a_node():
    # label 1 of the middle node is 750 behind, and each of its two edges gives it 400
    batch = chain_of([[0.0, 1000.0], [750.0, 0.0], [0.0, 1000.0]])
    w = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 400.0])
    forest = forest_of(batch, 2, 2, 1)
    values, (node, _, _) = forest.logsum(w)
    assert_allclose(values, [2800.0])
    assert_allclose(node, [[0.0, 1.0]] * 3, atol=1e-12)
    assert (forest.sample(w, 10, np.random.default_rng(0)) == 1).all()


def test_sum_mode():
    batch, layout = chain_of([[1.0]] * 2), Layout(1, 2, 1)
    mode = lambda w, batch, dtype: sum_mode(layout, batch, np.array(w, dtype=float), dtype)  # noqa: E731
    assert mode([1e6, 0, 0, 0, 0, 0], batch, np.float64) == SCALED  # node scores do not matter
    assert mode([0, 0, 7, 7, 7, 7], batch, np.float64) == SCALED
    assert mode([0, 0, 0, 0, 0, 1e4], batch, np.float64) == LOGARITHMIC
    assert mode([0, 0, 0, 0, 0, 100], batch, np.float64) == SCALED
    assert mode([0, 0, 0, 0, 0, 100], batch, np.float32) == LOGARITHMIC
    assert mode([0, 0, 0, 0, 0, 100], batch._replace(max_children=50), np.float64) == LOGARITHMIC
    with_features, features = Layout(1, 2, 1, n_edge_features=1), batch._replace(edge_features=np.array([[0], [-3.0]]))
    w = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 300.0])
    assert sum_mode(with_features, features, w, np.float64) == LOGARITHMIC
    features = features._replace(edge_features=np.array([[0], [0.1]]))
    assert sum_mode(with_features, features, w, np.float64) == SCALED


def test_single_is_enough_for_numbers_of_everyday_size():
    batch = chain_of([[1.0, 0.5]] * 2)
    assert single_is_enough(np.array([3.0]), batch)
    assert not single_is_enough(np.array([-1e6]), batch)
    assert not single_is_enough(np.array([1.0]), batch._replace(largest=1e100))
    assert not single_is_enough(np.array([1.0]), batch._replace(largest=np.inf))


def test_decode_of_a_batch_that_does_not_tell_its_size():
    batch = chain_of([[1.0, 0.5]] * 2)._replace(largest=np.inf)
    assert forest_of(batch, 2, 2, 1).decode(np.zeros(8)).shape == (2,)


# --------------------------------------------------------------------------------------------------- many nodes


def test_a_node_of_many_children():
    # a star factorises given its centre; exp of 300 messages of either sign leaves every range
    rng = np.random.default_rng(0)
    n, L = 300, 5
    X, transitions = rng.normal(size=(n + 1, L)) * 10, rng.normal(size=(L, L)) * 10
    parent = np.zeros(n + 1, np.int32)
    parent[0] = -1
    batch = chain_of(X)._replace(parent=parent, max_children=n)
    w = np.concatenate([np.eye(L).ravel(), transitions.ravel()])
    forest = forest_of(batch, L, L, 1)
    by_centre = X[0] + logsumexp(transitions[None] + X[1:, None], axis=2).sum(axis=0)
    values, (node, _, _) = forest.logsum(w)
    assert_allclose(values, [logsumexp(by_centre)])
    assert_allclose(node[0], np.exp(by_centre - logsumexp(by_centre)), atol=1e-12)
    assert_allclose(forest.maximum(w)[0], [(X[0] + (transitions[None] + X[1:, None]).max(axis=2).sum(0)).max()])


def long_chain(n=100_000, L=3):
    rng = np.random.default_rng(7)
    X, transitions = rng.normal(size=(n, L)), rng.normal(size=(L, L))
    return X, transitions, chain_of(X), np.concatenate([np.eye(L).ravel(), transitions.ravel()])


def test_a_chain_of_100_000_nodes():
    X, transitions, batch, w = long_chain()
    n, L = X.shape
    forest = forest_of(batch, L, L, 1)
    # forward and backward, scaled at every node and the logarithms of the scales added exactly; forward of the best
    ahead, behind, highest, scales = np.ones((n, L)), np.ones((n, L)), np.zeros(L), np.ones(n)
    exp_node, exp_transitions = np.exp(X), np.exp(transitions)
    for t in range(n):
        if t:
            ahead[t] = ahead[t - 1] @ exp_transitions
            highest = (highest[:, None] + transitions).max(axis=0)
        ahead[t] *= exp_node[t]
        highest += X[t]
        scales[t] = ahead[t].sum()
        ahead[t] /= scales[t]
    for t in range(n - 2, -1, -1):
        behind[t] = exp_transitions @ (behind[t + 1] * exp_node[t + 1])
        behind[t] /= behind[t].sum()
    expected = ahead * behind
    expected /= expected.sum(axis=1, keepdims=True)

    values, (node, _, _) = forest.logsum(w)
    assert_allclose(values, [math.fsum(np.log(scales))], rtol=1e-11)
    assert_allclose(node, expected, atol=1e-10)
    in_logarithms = forest_of(batch._replace(max_children=1 << 30), L, L, 1)
    values, (node, _, _) = in_logarithms.logsum(w)
    assert_allclose(values, [math.fsum(np.log(scales))], rtol=1e-11)
    assert_allclose(node, expected, atol=1e-9)
    values, labels = forest.maximum(w)
    assert_allclose(values, [highest.max()], rtol=1e-11)
    assert_allclose(X[np.arange(n), labels].sum() + transitions[labels[:-1], labels[1:]].sum(), values[0], rtol=1e-11)
    decoded = forest.decode(w)
    score = X[np.arange(n), decoded].sum() + transitions[decoded[:-1], decoded[1:]].sum()
    assert values[0] - score <= 1e-6 * n  # the rounding error of float32 at one node, also in a long chain
    assert_allclose(forest.max_marginals(w).max(axis=1), values[0], rtol=1e-11)
    best, _ = forest.top(w, 2)
    assert_allclose(best[0, 0], values[0], rtol=1e-11)
    assert best[0, 1] < best[0, 0]
    draws = forest.sample(w, 2, np.random.default_rng(0))
    assert_frequencies(np.bincount(draws.ravel(), minlength=L) / draws.size, node.mean(axis=0), draws.size / 20)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e100])
def test_a_chain_of_100_000_nodes_is_finite_at_any_scale(scale):
    X, _, batch, w = long_chain()
    forest = forest_of(batch, 3, 3, 1)
    values, (node, _, _) = forest.logsum(scale * w)
    assert np.isfinite(values).all() and np.isfinite(node).all()
    assert_allclose(node.sum(axis=1), 1.0, rtol=1e-9)
    best, _ = forest.maximum(scale * w)
    # at most log(3) per node above the best score
    assert best[0] * (1 - 1e-12) <= values[0] <= (best[0] + len(X) * np.log(3)) * (1 + 1e-12)
    assert np.isfinite(forest.max_marginals(scale * w)).all()


def reversed_chain(batch):
    """Return a chain with edges (t, t + 1), rooted at the last node, so that every edge is flipped."""
    n = len(batch.parent)
    parent = np.append(np.arange(1, n), -1).astype(np.int32)
    flipped = np.append(np.ones(n - 1), 0).astype(np.uint8)
    return batch._replace(parent=parent, flipped=flipped, order=np.arange(n - 1, -1, -1, dtype=np.int32))


@pytest.mark.parametrize("spread", [1.0, 100.0])
@pytest.mark.parametrize("n_labels", [2, 9, 33])
def test_the_root_does_not_matter(n_labels, spread):
    rng = np.random.default_rng(n_labels)
    X, transitions = rng.normal(size=(50, n_labels)), rng.normal(size=(n_labels, n_labels)) * spread
    w, batch = np.concatenate([np.eye(n_labels).ravel(), transitions.ravel()]), chain_of(X)
    forest, turned = (forest_of(b, n_labels, n_labels, 1) for b in (batch, reversed_chain(batch)))
    values, (node, edge, _) = forest.logsum(w, cliques=True)
    other_values, (other_node, other_edge, _) = turned.logsum(w, cliques=True)
    assert_allclose(values, other_values)
    assert_allclose(node, other_node, atol=1e-11)
    # the edge (t, t + 1) belongs to t + 1 in one and to t in the other; its rows are labels of t in both
    assert_allclose(edge[1:], other_edge[:-1], atol=1e-11)
    assert_allclose(edge[1:].sum(axis=2), node[:-1], atol=1e-11)
    assert_allclose(forest.maximum(w)[0], turned.maximum(w)[0])
    assert_array_equal(forest.maximum(w)[1], turned.maximum(w)[1])
    assert_allclose(forest.max_marginals(w), turned.max_marginals(w))
    assert_allclose(forest.top(w, 3)[0], turned.top(w, 3)[0])


# ------------------------------------------------------------------------------------------------------- layouts

SHAPES = [
    Layout(n_features, n_labels, n_edge_types, n_edge_features, n_label_features)
    for n_labels in N_LABELS
    for n_features, n_edge_types, n_edge_features, n_label_features in [
        (3, 1, 0, 0),
        (1, 2, 1, 9),
        (4, 0, 0, 2),
        (2, 0, 0, 0),
    ]
]


@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_layouts(layout):
    L, width, w = layout.n_labels, lanes(layout), np.arange(1.0, layout.n_weights + 1)
    assert width == _kernels.padded(L) and width % 8 == 0 and 0 <= width - L < 8

    sizes = brute_force.Sizes(
        layout.n_features, L, layout.n_edge_types, layout.n_edge_features, layout.n_label_features
    )
    assert layout.n_weights == sizes.n_weights
    segments = layout.segments(w)
    assert segments.siblings.size == 0
    node, transitions, edge, _, _, label_weights = segments
    for part, expected in zip((node, transitions, edge, label_weights), sizes.split(w)):
        assert_array_equal(part, expected)
        assert part.size == 0 or np.shares_memory(part, w)
    assert_array_equal(layout.join(segments), w)

    padded = pad(layout, w)
    assert padded.shape == (padded_size(layout),) and padded.dtype == np.float64
    assert_array_equal(unpad(layout, padded), w)
    assert_array_equal(padded[padded != 0], w)  # in the same order, zeros between
    node = padded[: layout.n_features * width].reshape(layout.n_features, width)
    assert_array_equal(node[:, :L], segments.node)
    matrices = padded[node.size :][: layout.n_matrices * L * width].reshape(-1, L, width)
    assert_array_equal(matrices[: layout.n_edge_types, :, :L], segments.transitions)
    assert_array_equal(matrices[layout.n_edge_types :, :, :L], segments.edge)
    assert_array_equal(padded[node.size + matrices.size :][: layout.n_label_features], segments.label_features)

    for dtype in (np.float64, np.float32):
        search = for_search(layout, w, dtype)
        assert search.dtype == dtype and search.flags.c_contiguous
        assert search.size == node.size + 2 * matrices.size + layout.n_label_features
        assert_array_equal(search[: node.size], padded[: node.size])
        both = search[node.size :][: 2 * matrices.size].reshape(-1, 2, L, width)
        assert_array_equal(both[:, 0], matrices)
        assert_array_equal(both[:, 1, :, :L], matrices[:, :, :L].transpose(0, 2, 1))
        assert not both[..., L:].any()
        assert_array_equal(search[node.size + 2 * matrices.size :], segments.label_features)

    cost = np.random.default_rng(0).random((L, L))
    padded_cost = pad_rows(layout, cost, np.float32)
    assert padded_cost.shape == (L, width) and padded_cost.dtype == np.float32
    assert_array_equal(padded_cost[:, :L], cost.astype(np.float32))
    assert not padded_cost[:, L:].any()


def test_a_forest_can_be_pickled_after_use():
    w, forest = np.arange(8.0), forest_of(chain_of(np.eye(2)), 2, 2, 1)
    labels = forest.decode(w)
    values = forest.excess("logsum", w).values  # leaves groups behind, which kernels hold
    again = pickle.loads(pickle.dumps(forest))
    assert again.layout == forest.layout
    assert_array_equal(again.decode(w), labels)
    assert_array_equal(again.excess("logsum", w).values, values)


# --------------------------------------------------------------------------------------------------- batches by hand


def chain_of(X):
    """Return one chain of a given size with dense node features."""
    X = np.ascontiguousarray(X, dtype=float)
    n, k = X.shape
    batch = strategies.known_batch(
        indptr=np.arange(n + 1, dtype=np.int64) * k,
        indices=np.tile(np.arange(k, dtype=np.int32), n),
        data=X.ravel(),
        y=np.zeros(n, np.int32),
        offsets=np.array([0, n], np.int64),
        order=np.arange(n, dtype=np.int32),
        parent=np.arange(-1, n - 1, dtype=np.int32),
        edge_type=np.zeros(n, np.int32),
        flipped=np.zeros(n, np.uint8),
        edge_features=np.zeros((n, 0)),
        allowed=np.zeros((0, 0), np.uint8),
        label_features=np.zeros((0, 0, 0)),
        sample_weight=np.ones(1),
    )
    return strategies.sized(batch)


def empty_batch():
    """Return a batch without examples."""
    batch = chain_of(np.zeros((0, 1)))
    return batch._replace(offsets=np.zeros(1, np.int64), sample_weight=np.zeros(0))
