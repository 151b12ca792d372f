"""Every aggregate of Hierarchy against enumeration, and against Forest where the two are the same."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from maxendnet import _kernels
from maxendnet.backends import Threads
from maxendnet.losses import Hinge, Log
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures import Forest, Hierarchy
from maxendnet.structures.differences import differences
from maxendnet.structures.hierarchy import left_neighbours


@dataclass(frozen=True)
class HierarchyCase:
    """A hierarchy with a batch and weights; the true labels have no forbidden pair."""

    case: strategies.Case
    structure: Hierarchy
    w: np.ndarray

    @property
    def batch(self):
        return self.case.batch

    def labellings(self, i):
        return brute_force.hierarchy_labellings(self.batch, i, self.case.n_labels, self.structure.forbidden)

    def features(self, i, labellings):
        found = [
            brute_force.hierarchy_feature_vector(self.batch, i, y, **self.case.kwargs, siblings=self.structure.siblings)
            for y in labellings
        ]
        return np.array(found).reshape(-1, self.structure.n_weights)

    def costs(self, i, labellings):
        truth = brute_force.example_truth(self.batch, i)
        return np.array([brute_force.labelling_cost(truth, y, self.case.cost) for y in labellings])

    @property
    def nodes(self):
        """(first, last + 1) of every example."""
        return [(int(a), int(b)) for a, b in zip(self.batch.offsets, self.batch.offsets[1:])]

    @property
    def tolerance(self):
        return 2e-13 * (1 + np.abs(self.w).sum() * (1 + max(np.abs(x).max(initial=0.0) for x in self.values)))

    @property
    def values(self):
        return self.batch.data, self.batch.edge_features, self.batch.label_features


@st.composite
def hierarchy_cases(draw, siblings=None, forbidden=None, **options):
    family = draw(st.sampled_from([strategies.forest_cases, strategies.tree_cases, strategies.chain_cases]))
    case = draw(family(**options))
    batch = case.batch._replace(flipped=np.zeros_like(case.batch.flipped))
    case = strategies.replace(case, batch=batch)
    siblings = draw(st.booleans()) if siblings is None else siblings
    pairs = ()
    if draw(st.booleans()) if forbidden is None else forbidden:
        every = [(a, c) for a in range(case.n_labels) for c in range(case.n_labels)]
        child = np.flatnonzero(batch.parent >= 0)
        true = set(zip(batch.y[batch.parent[child]].tolist(), batch.y[child].tolist()))
        pairs = tuple(draw(st.lists(st.sampled_from(every), unique=True, max_size=6)))
        pairs = tuple(sorted(set(pairs) - true))
    structure = Hierarchy(
        case.n_features, case.n_labels, case.n_edge_types, case.n_edge_features, case.n_tied, siblings, pairs
    )
    scale = draw(st.sampled_from([1.0, 0.0, 30.0]))
    w = scale * np.random.default_rng(case.seed).normal(size=structure.n_weights)
    if siblings and draw(st.booleans()):  # so far apart that they are not multiplied as exponentials
        structure.parts(w).siblings[:] *= 400.0
    return HierarchyCase(case, structure, w)


def problem_of(case, loss):
    return Problem(case.batch, case.structure, loss, Gaussian())


# ------------------------------------------------------------------------------------------------- labellings


@given(hierarchy_cases())
@settings(deadline=None, max_examples=200)
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


@given(hierarchy_cases())
@settings(deadline=None, max_examples=200)
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


@given(hierarchy_cases())
@settings(deadline=None, max_examples=200)
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


@given(hierarchy_cases(max_examples=1))
@settings(deadline=None, max_examples=40)
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


# ------------------------------------------------------------------------------------------------------ losses


@given(hierarchy_cases(max_nodes=4))
@settings(deadline=None, max_examples=150)
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


@given(hierarchy_cases(max_nodes=4))
@settings(deadline=None, max_examples=100)
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
@given(case=hierarchy_cases(max_nodes=4))
@settings(deadline=None, max_examples=100)
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


@given(hierarchy_cases(siblings=False, forbidden=False))
@settings(deadline=None)
def test_without_siblings_and_forbidden_pairs_it_is_a_forest(case):
    sizes = asdict(case.structure)
    forest = Forest(*(sizes[name] for name in asdict(Forest(1, 1, 1))))
    for loss in (Hinge(case.case.cost), Log(), SoftHinge(case.case.cost, temperature=0.5)):
        value, slope = problem_of(case, loss).losses(case.w)
        other = Problem(case.batch, forest, loss, Gaussian()).losses(case.w)
        assert_allclose(value, other[0], rtol=1e-9, atol=1e-9)
        if not isinstance(loss, Hinge) or isinstance(loss, SoftHinge):
            assert_allclose(slope, other[1], rtol=1e-7, atol=1e-7)
    assert_allclose(
        case.structure.max_marginals(case.w, case.batch), forest.max_marginals(case.w, case.batch), atol=1e-9
    )
    assert_allclose(case.structure.maximum(case.w, case.batch)[0], forest.maximum(case.w, case.batch)[0], atol=1e-9)


@given(hierarchy_cases(siblings=True, min_nodes=3), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=150)
def test_differences_are_those_of_the_features(case, n_rows, seed):
    rng = np.random.default_rng(seed)
    examples = rng.integers(case.case.n_examples, size=n_rows)
    chosen = [case.labellings(i)[rng.integers(len(case.labellings(i)))] for i in examples]
    rows = differences(case.structure, case.batch, examples, np.array(sum(chosen, ()), dtype=np.int32))
    for i, y, row in zip(examples, chosen, rows.toarray()):
        truth, other = case.features(i, [brute_force.example_truth(case.batch, i), y])
        assert_allclose(row, truth - other, atol=1e-12)


# ---------------------------------------------------------------------------------------------------- the rest


@given(hierarchy_cases(min_nodes=2, forbidden=True), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=200)
def test_impossible_examples_are_found(case, seed):
    L = case.case.n_labels
    allowed = (np.random.default_rng(seed).random((case.case.n_nodes, L)) < 0.4).astype(np.uint8)
    allowed[np.arange(len(allowed)), np.random.default_rng(seed).integers(L, size=len(allowed))] = 1
    batch = case.batch._replace(allowed=allowed)
    found = case.structure.impossible(batch)
    for i, (begin, end) in enumerate(case.nodes):
        possible = len(brute_force.hierarchy_labellings(batch, i, L, case.structure.forbidden)) > 0
        assert (found[i] < 0) == possible
        assert found[i] < 0 or begin <= found[i] < end
    values, node, _ = case.structure.logsum(case.w, batch)  # nothing breaks where nothing is possible
    labels = case.structure.decode(case.w, batch)
    assert_array_equal(np.isneginf(values), found >= 0)
    assert np.isfinite(node).all() and labels.min() >= 0 and labels.max() < L


def star(n_children):
    """A node with children, weights and labels drawn at random; more labels than a register has places."""
    from maxendnet.data.batch import encode
    from maxendnet.data.examples import Examples

    rng = np.random.default_rng(0)
    L = 9
    examples = Examples.build(
        [rng.normal(size=(n_children + 1, 2)) for _ in range(6)],
        [rng.permutation(np.arange(n_children + 1) % L) for _ in range(6)],
        edges=[[(0, t) for t in range(1, n_children + 1)]] * 6,
    )
    batch = encode(examples, np.arange(L), "tree")
    structure = Hierarchy(2, L, 1, siblings=True)
    return batch, structure, rng.normal(size=structure.n_weights)


def test_threads_give_the_same_bits():
    batch, structure, w = star(40)
    for loss in (Hinge(), Log()):
        problems = [Problem(batch, structure, loss, Gaussian(), backend=Threads(n)) for n in (1, 2, 3)]
        values = [problem.losses(w) for problem in problems]
        for value, slope in values[1:]:
            assert value == values[0][0]
            assert_array_equal(slope, values[0][1])


def test_a_long_row_of_children_is_a_chain():
    """Given the label of the root, its children are a chain: the same as a forest of chains with these transitions."""
    batch, structure, w = star(40)
    parts = structure.parts(w)
    L = structure.n_labels
    found = structure.logsum(w, batch)[0]
    X = np.zeros((len(batch.parent), 2))
    X[np.repeat(np.arange(len(X)), np.diff(batch.indptr)), batch.indices] = batch.data
    for i in range(6):
        nodes = X[batch.offsets[i] : batch.offsets[i + 1]] @ parts.node
        values = []
        for a in range(L):
            alpha = nodes[1] + parts.transitions[0, a]
            for row in nodes[2:]:
                alpha = logsumexp(alpha[:, None] + parts.siblings[0, a], axis=0) + row + parts.transitions[0, a]
            values.append(nodes[0, a] + logsumexp(alpha))
        assert_allclose(found[i], logsumexp(values), rtol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_labels_stay_within_bounds_where_scores_are_no_numbers(value):
    batch, structure, w = star(5)
    for part in structure.parts(w)[:4]:
        part.flat[::3] = value
    with np.errstate(all="ignore"):
        found = [
            structure.decode(w, batch),
            structure.sample(w, batch, 2, np.random.default_rng(0)),
            structure.top(w, batch, 2)[1],
        ]
        structure.logsum(w, batch, edges=True)
        for loss in (Hinge(), Log(), SoftHinge()):
            Problem(batch, structure, loss, Gaussian()).losses(w)
    for labels in found:
        assert labels.min() >= -1 and labels.max() < structure.n_labels


def test_left_neighbours_are_siblings_in_the_order_of_their_numbers():
    case = hierarchy_cases(min_nodes=6, max_nodes=9)

    @given(case)
    @settings(deadline=None, max_examples=30)
    def check(case):
        found = left_neighbours(case.batch).tolist()
        assert found == [
            -1 if (s := brute_force.left_sibling(case.batch, t)) is None else s for t in range(case.case.n_nodes)
        ]

    check()


def test_parts_and_join_undo_each_other():
    structure = Hierarchy(3, 2, 2, 1, 2, siblings=True, forbidden=((0, 1),))
    w = np.arange(float(structure.n_weights))
    parts = structure.parts(w)
    assert [part.shape for part in parts] == [(3, 2), (2, 2, 2), (1, 2, 2), (2, 2, 2, 2), (2,)]
    assert_array_equal(structure.join(parts), w)
    assert structure.n_weights == 6 + 8 + 4 + 16 + 2
    assert pickle.loads(pickle.dumps(structure)) == structure


@given(hierarchy_cases(max_nodes=4), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
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


@pytest.mark.parametrize("wrong", ["weights", "table", "shift", "forbidden"])
def test_the_binding_refuses_arrays_of_the_wrong_size(wrong):
    arrays = {
        "weights": np.zeros(2 * 3 + 4 + 8), "table": np.ones(8), "shift": np.zeros(2),
        "forbidden": np.zeros(4, dtype=np.uint8),
    }  # fmt: skip
    shape = _kernels.Shape(3, 2, 1, 0, 0)
    _kernels.HierarchyModel(shape, True, **arrays)
    arrays[wrong] = arrays[wrong][:-1].copy()
    with pytest.raises(ValueError, match=wrong):
        _kernels.HierarchyModel(shape, True, **arrays)
