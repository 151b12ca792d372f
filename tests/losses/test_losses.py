"""Hinge and log loss compared with enumeration, finite differences and each other."""

from __future__ import annotations

from dataclasses import replace

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from maxendnet.backends import Threads
from maxendnet.losses import Hinge, Log
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures import Layout, Table
from maxendnet.structures.bound.forest import LONGEST_IN_SINGLE, BoundForest

pytestmark = pytest.mark.usefixtures("every_level")


def problem_of(case, loss):
    return Problem.pose(case.forest, loss, Gaussian())


def magnitude(case):
    """Return the size of sums of scores and features, the scale of rounding errors."""
    total = 1.0
    for scores, u in zip(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs), case.batch.sample_weight):
        total += max(1.0, u) * (np.abs(scores.node_scores).sum() + sum(np.abs(m).max() for m in scores.edge_scores))
    features = (case.batch.data, case.batch.edge_features, case.batch.label_features)
    return float(total + sum(np.abs(f).sum() for f in features))


def margin(case):
    """Return the smallest lead of a most violating labelling over the next one: 0 for a tie."""
    smallest = np.inf
    for i, s in enumerate(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)):
        truth = brute_force.example_truth(case.batch, i)
        scores = brute_force.labelling_scores(*s)
        values = sorted(value + brute_force.labelling_cost(truth, y, case.cost) for y, value in scores.items())
        smallest = min(smallest, values[-1] - values[-2] if len(values) > 1 else np.inf)
    return smallest


# float64 rounds at 1e-16, float32 at 6e-8; a handful of additions
PRECISION = {False: 1e-13, True: 1e-6}


@pytest.mark.parametrize("single", [False, True])
@given(case=strategies.any_case())
@settings(deadline=None)
def test_hinge_is_enumeration(single, case):
    problem = problem_of(case, Hinge(case.cost))
    tolerance = PRECISION[single] * magnitude(case)
    value, gradient = problem.loss_and_gradient(case.w, single=single)[:2]
    expected, expected_gradient = brute_force.hinge_sum(case.w, case.batch, **case.kwargs, cost=case.cost)
    assert isinstance(value, float) and gradient.shape == case.w.shape
    assert value >= 0
    assert_allclose(value, expected, rtol=0, atol=tolerance)
    if margin(case) > 2 * tolerance:
        assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-12 * magnitude(case))
    # a subgradient, whichever of the best labellings was taken
    rng = np.random.default_rng(case.seed)
    for point in (np.zeros_like(case.w), 2 * case.w, case.w + rng.normal(size=len(case.w))):
        elsewhere, _ = brute_force.hinge_sum(point, case.batch, **case.kwargs, cost=case.cost)
        assert elsewhere >= value + gradient @ (point - case.w) - 10 * tolerance


@pytest.mark.parametrize("single", [False, True])
@given(case=strategies.any_case())
@settings(deadline=None)
def test_log_is_enumeration(single, case):
    tolerance = PRECISION[single] * magnitude(case)
    value, gradient = problem_of(case, Log()).loss_and_gradient(case.w, single=single)[:2]
    expected, expected_gradient = brute_force.log_loss_sum(case.w, case.batch, **case.kwargs)
    assert isinstance(value, float) and gradient.shape == case.w.shape
    assert_allclose(value, expected, rtol=0, atol=tolerance)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=tolerance)


@pytest.mark.parametrize("single", [False, True])
@given(case=strategies.any_case(max_nodes=3, max_examples=30))
@settings(deadline=None, max_examples=25)
def test_many_examples(single, case):
    tolerance = PRECISION[single] * magnitude(case)
    value, gradient = problem_of(case, Log()).loss_and_gradient(case.w, single=single)[:2]
    expected, expected_gradient = brute_force.log_loss_sum(case.w, case.batch, **case.kwargs)
    assert_allclose(value, expected, rtol=0, atol=tolerance)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=tolerance)
    value, gradient = problem_of(case, Hinge(case.cost)).loss_and_gradient(case.w, single=single)[:2]
    expected, expected_gradient = brute_force.hinge_sum(case.w, case.batch, **case.kwargs, cost=case.cost)
    assert_allclose(value, expected, rtol=0, atol=tolerance)
    if margin(case) > 2 * tolerance:
        assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-12 * magnitude(case))


@pytest.mark.parametrize("loss", [Hinge, Log])
@given(case=strategies.any_case(scales=(1.0,)))
@settings(deadline=None, max_examples=50)
def test_gradient_is_the_finite_difference(loss, case):
    problem = problem_of(case, loss())
    direction, step = np.random.default_rng(case.seed).normal(size=len(case.w)), 1e-5
    value, gradient = problem.loss_and_gradient(case.w)[:2]
    above, below = (
        problem.loss_and_gradient(case.w + sign * step * direction, gradient=False).loss for sign in (1, -1)
    )
    if loss is Hinge and abs(above + below - 2 * value) > 1e-11 * magnitude(case):
        return  # a kink lies between the two; elsewhere the hinge is linear
    assert_allclose((above - below) / (2 * step), gradient @ direction, rtol=0, atol=1e-7 * magnitude(case))


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=["hinge", "log"])
@given(case=strategies.any_case())
@settings(deadline=None, max_examples=30)
def test_the_value_alone(loss, single, case):
    problem = problem_of(case, loss)
    value, nothing = problem.loss_and_gradient(case.w, gradient=False, single=single)[:2]
    assert value == problem.loss_and_gradient(case.w, single=single).loss
    assert nothing.size == 0
    assert problem.n_oracle == 2 * case.n_examples


@given(strategies.any_case())
@settings(deadline=None, max_examples=30)
def test_an_example_weight_multiplies(case):
    for loss in (Hinge(case.cost), Log()):
        total, slope = 0.0, np.zeros_like(case.w)
        for i, u in enumerate(case.batch.sample_weight):
            alone = replace(case, batch=case.batch.take(i, i + 1)._replace(sample_weight=np.ones(1)))
            value, gradient = problem_of(alone, loss).loss_and_gradient(case.w)[:2]
            total, slope = total + u * value, slope + u * gradient
        value, gradient = problem_of(case, loss).loss_and_gradient(case.w)[:2]
        assert_allclose(value, total, rtol=0, atol=1e-13 * magnitude(case))
        assert_allclose(gradient, slope, rtol=0, atol=1e-13 * magnitude(case))


@given(strategies.any_case(max_examples=2))
@settings(deadline=None, max_examples=20)
def test_an_example_of_weight_zero_does_not_count(case):
    none = replace(case, batch=case.batch._replace(sample_weight=np.zeros(case.n_examples)))
    for loss in (Hinge(), Log()):
        value, gradient = problem_of(none, loss).loss_and_gradient(case.w)[:2]
        assert value == 0 and not gradient.any()


@given(strategies.any_case(scales=(0.0,), plain=True))
@settings(deadline=None, max_examples=30)
def test_at_zero_weights(case):
    zero = np.zeros_like(case.w)
    hinge = 0 if case.n_labels == 1 else case.n_nodes
    assert problem_of(case, Hinge()).loss_and_gradient(zero).loss == pytest.approx(hinge, abs=1e-12)
    assert problem_of(case, Log()).loss_and_gradient(zero).loss == pytest.approx(
        case.n_nodes * np.log(case.n_labels), abs=1e-11
    )
    if case.n_labels > 1:
        cost = np.full((case.n_labels, case.n_labels), 2.5) - 2.5 * np.eye(case.n_labels)
        assert problem_of(case, Hinge(cost)).loss_and_gradient(zero).loss == pytest.approx(
            2.5 * case.n_nodes, abs=1e-12
        )


# ------------------------------------------------------------------------------------------------ numbers of labels


@pytest.mark.parametrize("n_labels", [1, 2, 8, 9, 16, 17, 25, 31, 33, 40, 70])
def test_any_number_of_labels(n_labels):
    @given(
        strategies.any_case(max_nodes=3, max_examples=3, min_labels=n_labels, max_labels=n_labels, scales=(1.0, 5.0))
    )
    @settings(deadline=None, max_examples=6)
    def check(case):
        hinge, log = 0.0, 0.0
        cost = 1 - np.eye(n_labels) if case.cost is None else case.cost
        for i, s in enumerate(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)):
            truth, u = brute_force.example_truth(case.batch, i), case.batch.sample_weight[i]
            right = brute_force.score(*s[:3], truth)
            hinge += u * (every_score(s, cost[list(truth)]).max() - right)
            log += u * (logsumexp(every_score(s)) - right)
        direction, step = np.random.default_rng(case.seed).normal(size=len(case.w)), 1e-5
        for loss, expected in ((Hinge(case.cost), hinge), (Log(), log)):
            problem, size = problem_of(case, loss), magnitude(case)
            value, gradient = problem.loss_and_gradient(case.w)[:2]
            assert_allclose(value, expected, rtol=0, atol=1e-13 * size)
            above, below = (
                problem.loss_and_gradient(case.w + sign * step * direction, gradient=False).loss for sign in (1, -1)
            )
            if isinstance(loss, Log) or abs(above + below - 2 * value) <= 1e-11 * size:
                assert_allclose((above - below) / (2 * step), gradient @ direction, rtol=0, atol=1e-7 * size)
            value, rough = problem.loss_and_gradient(case.w, single=True)[:2]
            assert_allclose(value, expected, rtol=0, atol=1e-6 * size)
            if isinstance(loss, Log):
                assert_allclose(rough, gradient, rtol=0, atol=1e-6 * size)

    check()


def every_score(scores, cost=None):
    """Return the scores of all labellings, with costs, as an array with one axis per node."""
    node_scores, edges, edge_scores, allowed = scores
    n, L = node_scores.shape
    total = np.zeros((L,) * n)
    for t in range(n):
        row = node_scores[t] if cost is None else node_scores[t] + cost[t]
        row = row if allowed is None else np.where(allowed[t], row, -np.inf)
        total += row.reshape([L if s == t else 1 for s in range(n)])
    for (first, second), matrix in zip(edges, edge_scores):
        total += (matrix if first < second else matrix.T).reshape([L if s in (first, second) else 1 for s in range(n)])
    return total


# --------------------------------------------------------------------------------------------------- large numbers


@pytest.mark.parametrize("single", [False, True])
@given(
    case=strategies.any_case(scales=(1.0,)),
    spread=st.sampled_from([0.1, 5.0, 19.0, 39.0, 100.0, 199.0, 399.0, 799.0]),
    size=st.sampled_from([0.0, 1.0, 40.0, 90.0, 300.0, 1000.0]),
)
@settings(deadline=None, max_examples=150)
def test_log_whatever_the_ranges_of_edges_and_nodes(single, case, spread, size):
    # beliefs are scaled probabilities for a small range of scores, else logarithms: both must keep all labels
    batch = strategies.sized(case.batch)
    layout = case.layout
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
    case = replace(case, batch=batch, w=w)
    value, gradient = problem_of(case, Log()).loss_and_gradient(case.w, single=single)[:2]
    expected, expected_gradient = brute_force.log_loss_sum(case.w, case.batch, **case.kwargs)
    tolerance = PRECISION[single] * magnitude(case)
    assert_allclose(value, expected, rtol=0, atol=tolerance)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=tolerance)


def test_log_in_single_precision_when_child_and_parent_overrule_a_node():
    # label 1 of the middle node is 87.5 behind, where float32 ends, and each of its two edges gives it 40
    X = np.array([[0.0, 300.0], [87.5, 0.0], [0.0, 300.0]])
    w = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 40.0])
    problem = Problem.pose(forest_of(chains([X], [[1, 0, 1]]), 2, 2, 1), Log(), Gaussian())
    value, gradient = problem.loss_and_gradient(w)[:2]
    assert_allclose(value, np.log1p(np.exp(80 - 87.5)), rtol=1e-10)
    rough, rough_gradient = problem.loss_and_gradient(w, single=True)[:2]
    assert_allclose(rough, value, atol=1e-4)
    assert_allclose(rough_gradient, gradient, atol=1e-3)


@pytest.mark.parametrize("scale", [1e4, 1e100])
@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_large_weights(scale, data):
    case = data.draw(strategies.any_case(scales=(scale,)))
    size = magnitude(case)
    for single in (False, True):  # True has no effect here, and must not overflow
        value, gradient = problem_of(case, Hinge(case.cost)).loss_and_gradient(case.w, single=single)[:2]
        expected, _ = brute_force.hinge_sum(case.w, case.batch, **case.kwargs, cost=case.cost)
        assert_allclose(value, expected, rtol=0, atol=PRECISION[single and scale < 1e5] * size)
        assert np.isfinite(gradient).all()
        value, gradient = problem_of(case, Log()).loss_and_gradient(case.w, single=single)[:2]
        expected, expected_gradient = brute_force.log_loss_sum(case.w, case.batch, **case.kwargs)
        assert_allclose(value, expected, rtol=0, atol=PRECISION[single and scale < 1e5] * size)
        assert np.isfinite(gradient).all()
        if scale == 1e4:  # at 1e100 a rounding error decides between labellings that almost tie
            assert_allclose(gradient, expected_gradient, rtol=0, atol=PRECISION[single] * size)


def test_large_costs_in_single_precision():
    cost = np.array([[0.0, 1e40], [1e40, 0.0]])
    # float32 ends at 3e38
    problem = Problem.pose(forest_of(chains([np.eye(2)], [[0, 0]]), 2, 2, 1), Hinge(cost), Gaussian())
    w = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    for double, single in zip(problem.loss_and_gradient(w)[:2], problem.loss_and_gradient(w, single=True)[:2]):
        assert_allclose(double, single)


@pytest.mark.parametrize("n", [LONGEST_IN_SINGLE, 100_000])
def test_a_long_chain(n):
    rng, L = np.random.default_rng(0), 3
    X, y, w = rng.normal(size=(n, L)), rng.integers(L, size=n), rng.normal(size=2 * L * L)
    forest = forest_of(chains([X], [y]), L, L, 1)
    log_partition, (node, _, _) = forest.logsum(w)
    right = (X @ w[: L * L].reshape(L, L))[np.arange(n), y].sum() + w[L * L :].reshape(L, L)[y[:-1], y[1:]].sum()
    for single, precision in ((False, 1e-11), (True, 1e-5)):
        value, gradient = Problem.pose(forest, Log(), Gaussian()).loss_and_gradient(w, single=single)[:2]
        assert_allclose(value, log_partition[0] - right, rtol=precision)
        expected = X.T @ (node - np.eye(L)[y])
        assert_allclose(forest.layout.segments(gradient).node, expected, atol=precision * n)
        in_double = np.array_equal(gradient, Problem.pose(forest, Log(), Gaussian()).loss_and_gradient(w).gradient)
        assert in_double == (not single or n > LONGEST_IN_SINGLE)
        value, gradient = Problem.pose(forest, Hinge(), Gaussian()).loss_and_gradient(w, single=single)[:2]
        best, labels = forest.maximum(w, Table(1 - np.eye(L), forest.y))
        assert_allclose(value, best[0] - right, rtol=precision)
        if not single:
            assert_allclose(forest.layout.segments(gradient).node, X.T @ (np.eye(L)[labels] - np.eye(L)[y]), atol=1e-8)


@pytest.mark.parametrize("n_labels", [1, 3, 8, 26, 32, 40])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_still_give_labels(n_labels, bad):
    # a label beyond the last would be out of bounds
    forest = forest_of(chains([np.ones((6, 2))], [np.zeros(6, dtype=int)]), 2, n_labels, 1)
    w = np.full(forest.layout.n_weights, bad)
    costs = Table(1 - np.eye(n_labels), forest.y)
    for labels in (forest.decode(w), forest.maximum(w)[1], forest.maximum(w, costs)[1]):
        assert labels.min() >= 0
        assert labels.max() < n_labels
    for loss in (Hinge(), Log()):
        Problem.pose(forest, loss, Gaussian()).loss_and_gradient(w)[:2]


# ------------------------------------------------------------------------ blocks of examples, threads, empty batches


def forest_of(batch, *sizes):
    return BoundForest(Layout(*sizes), batch)


def chains(X, y):
    """Return chains of given sizes with dense node features."""
    lengths = [len(x) for x in X]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.concatenate([np.zeros((0, X[0].shape[1])), *X])
    n, k = flat.shape
    parent = np.arange(-1, n - 1, dtype=np.int32)
    parent[offsets[:-1][np.array(lengths) > 0]] = -1
    batch = strategies.known_batch(
        indptr=np.arange(n + 1, dtype=np.int64) * k,
        indices=np.tile(np.arange(k, dtype=np.int32), n),
        data=flat.ravel(),
        y=np.concatenate(y).astype(np.int32),
        offsets=offsets,
        order=np.arange(n, dtype=np.int32),
        parent=parent,
        edge_type=np.zeros(n, np.int32),
        flipped=np.zeros(n, np.uint8),
        edge_features=np.zeros((n, 0)),
        allowed=np.zeros((0, 0), np.uint8),
        label_features=np.zeros((0, 0, 0)),
        sample_weight=np.ones(len(X)),
    )
    return strategies.sized(batch)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=["hinge", "log"])
def test_a_batch_of_many_blocks_is_the_sum_of_its_examples(loss, n_jobs):
    rng = np.random.default_rng(3)
    lengths = [0, 700, 3, 0, 1200, *rng.integers(0, 30, size=200), 0]
    n_labels, n_features = 9, 20
    X = [rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.5) for n in lengths]
    y = [rng.integers(n_labels, size=n) for n in lengths]
    batch = chains(X, y)._replace(sample_weight=rng.uniform(0.5, 2.0, size=len(lengths)))
    forest = forest_of(batch, n_features, n_labels, 1)
    w = rng.normal(size=forest.layout.n_weights)
    problem = Problem.pose(forest, loss, Gaussian(), backend=Threads(n_jobs))
    if isinstance(loss, Log):
        assert max(len(shard._borders()) for shard in problem.data.shards) > 3
    value, gradient = problem.loss_and_gradient(w)[:2]
    expected, slope = 0.0, np.zeros_like(w)
    for i in range(len(lengths)):
        partial = Problem.pose(forest.take(i, i + 1), loss, Gaussian()).loss_and_gradient(w)[:2]
        expected, slope = expected + partial[0], slope + partial[1]
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
    rough, rough_gradient = problem.loss_and_gradient(w, single=True)[:2]
    assert_allclose(rough, expected, rtol=1e-5)
    assert_allclose(rough_gradient, slope, atol=1e-3 * np.abs(slope).max())


@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=["hinge", "log"])
def test_examples_without_nodes(loss):
    batch = chains([np.zeros((0, 2))] * 3, [np.zeros(0)] * 3)
    value, gradient = Problem.pose(forest_of(batch, 2, 3, 1), loss, Gaussian()).loss_and_gradient(np.ones(15))[:2]
    assert value == 0 and not gradient.any() and gradient.shape == (15,)


@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=["hinge", "log"])
def test_nodes_without_features(loss):
    batch = chains([np.zeros((2, 1))], [[0, 1]])
    batch = batch._replace(indptr=np.zeros(3, np.int64), indices=batch.indices[:0], data=batch.data[:0])
    w = np.array([5.0, 7.0, 1.0, 2.0, 3.0, 4.0])
    value, gradient = Problem.pose(forest_of(batch, 1, 2, 1), loss, Gaussian()).loss_and_gradient(w)[:2]
    transitions = w[2:].reshape(2, 2)
    if isinstance(loss, Log):
        p = np.exp(transitions - logsumexp(transitions))
        assert value == pytest.approx(logsumexp(transitions) - 2.0, abs=1e-12)
    else:  # costs 1, 0, 2, 1
        p = np.array([[0.0, 0.0], [1.0, 0.0]])
        assert value == 3.0 + 2.0 - 2.0
    assert_allclose(gradient, [0, 0, *(p - [[0, 1], [0, 0]]).ravel()], atol=1e-14)


@given(strategies.any_case(max_examples=2))
@settings(deadline=None, max_examples=20)
def test_the_gradient_is_not_shared(case):
    for loss in (Hinge(), Log()):
        problem = problem_of(case, loss)
        _, first = problem.loss_and_gradient(case.w)[:2]
        copy = first.copy()
        problem.loss_and_gradient(-case.w)[:2]
        assert_array_equal(first, copy)


# --------------------------------------------------------------------------------------------------------- messages


def test_cost_matrix():
    assert Hinge().cost_matrix(3).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert Hinge([[0, 2], [3, 0]]).cost_matrix(2).tolist() == [[0, 2], [3, 0]]


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (np.zeros((2, 3)), r"cost has shape \(2, 3\), but there are 2 labels"),
        (np.zeros((3, 3)), r"cost has shape \(3, 3\), but there are 2 labels"),
        ([[0, -1], [1, 0]], "non-negative"),
        ([[0, np.inf], [1, 0]], "finite"),
        ([[0, np.nan], [1, 0]], "finite"),
        ([[1, 1], [1, 0]], "zeros on its diagonal"),
    ],
)
def test_messages(cost, message):
    with pytest.raises(ValueError, match=message):
        Hinge(cost).cost_matrix(2)
    with pytest.raises(ValueError, match=message):
        Problem.pose(forest_of(chains([np.eye(2)], [[0, 1]]), 2, 2, 1), Hinge(cost), Gaussian())


@given(strategies.any_case(scales=(1.0,), max_nodes=2))
@settings(max_examples=50, deadline=None)
def test_curvature_is_the_second_derivative_at_zero(case):
    """The curvature is exact if no two edges share a node."""
    batch = case.batch._replace(allowed=np.zeros((0, 0), dtype=np.uint8))
    problem = Problem.pose(BoundForest(case.layout, batch), Log(), Gaussian())
    step, diagonal = 1e-4, []
    for unit in np.eye(problem.n_weights):
        above, below = (problem.loss_and_gradient(sign * step * unit).gradient @ unit for sign in (1, -1))
        diagonal.append((above - below) / (2 * step))
    assert_allclose(problem.curvature(), diagonal, rtol=1e-5, atol=1e-7 * magnitude(case))
