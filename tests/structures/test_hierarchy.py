"""Hierarchies compared with equivalent forests; for other cases see `test_enumeration`."""

from __future__ import annotations

import pickle
from dataclasses import replace

import brute_force
import numpy as np
import pytest
from enumerated import hierarchy_cases, problem_of
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
from maxendnet.structures.bound.features import left_neighbours
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.bound.hierarchy import BoundHierarchy
from maxendnet.structures.weights.layout import Layout

pytestmark = pytest.mark.usefixtures("every_level")


@given(hierarchy_cases(siblings=False, forbidden=False))
@settings(deadline=None)
def test_without_siblings_and_forbidden_pairs_it_is_a_forest(case):
    forest = BoundForest(case.structure.layout, case.batch)
    for loss in (Hinge(case.case.cost), Log(), SoftHinge(case.case.cost, temperature=0.5)):
        value, slope = problem_of(case, loss).loss_and_gradient(case.w)[:2]
        other = Problem.pose(forest, loss, Gaussian()).loss_and_gradient(case.w)[:2]
        assert_allclose(value, other[0], rtol=1e-9, atol=1e-9)
        if not isinstance(loss, Hinge) or isinstance(loss, SoftHinge):
            assert_allclose(slope, other[1], rtol=1e-7, atol=1e-7)
    assert_allclose(case.structure.max_marginals(case.w), forest.max_marginals(case.w), atol=1e-9)
    assert_allclose(case.structure.maximum(case.w)[0], forest.maximum(case.w)[0], atol=1e-9)


@given(hierarchy_cases(min_nodes=2, forbidden=True), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=200)
def test_impossible_examples_are_found(case, seed):
    L = case.case.n_labels
    allowed = (np.random.default_rng(seed).random((case.case.n_nodes, L)) < 0.4).astype(np.uint8)
    allowed[np.arange(len(allowed)), np.random.default_rng(seed).integers(L, size=len(allowed))] = 1
    batch = case.batch._replace(allowed=allowed)
    structure = replace(case.structure, batch=batch)
    found = structure.impossible()
    for i, (begin, end) in enumerate(case.nodes):
        possible = len(brute_force.hierarchy_labellings(batch, i, L, case.structure.forbidden)) > 0
        assert (found[i] < 0) == possible
        assert found[i] < 0 or begin <= found[i] < end
    values, (node, _, _) = structure.logsum(case.w)  # examples without a valid labelling raise no error here
    labels = structure.decode(case.w)
    assert_array_equal(np.isneginf(values), found >= 0)
    assert np.isfinite(node).all() and labels.min() >= 0 and labels.max() < L


def star(n_children):
    """Return a root with children, random weights and labels, and more labels than fit into a register."""
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
    layout = Layout(2, L, 1, siblings=True)
    return BoundHierarchy(layout, batch), rng.normal(size=layout.n_weights)


def test_threads_give_the_same_bits():
    structure, w = star(40)
    for loss in (Hinge(), Log()):
        problems = [Problem.pose(structure, loss, Gaussian(), backend=Threads(n)) for n in (1, 2, 3)]
        values = [problem.loss_and_gradient(w)[:2] for problem in problems]
        for value, slope in values[1:]:
            assert value == values[0][0]
            assert_array_equal(slope, values[0][1])


def test_a_long_row_of_children_is_a_chain():
    """Given the label of the root, its children form a chain, equal to a forest chain with these transitions."""
    structure, w = star(40)
    batch, segments = structure.batch, structure.layout.segments(w)
    L = structure.n_labels
    found = structure.logsum(w)[0]
    X = np.zeros((len(batch.parent), 2))
    X[np.repeat(np.arange(len(X)), np.diff(batch.indptr)), batch.indices] = batch.data
    for i in range(6):
        nodes = X[batch.offsets[i] : batch.offsets[i + 1]] @ segments.node
        values = []
        for a in range(L):
            alpha = nodes[1] + segments.transitions[0, a]
            for row in nodes[2:]:
                alpha = logsumexp(alpha[:, None] + segments.siblings[0, a], axis=0) + row + segments.transitions[0, a]
            values.append(nodes[0, a] + logsumexp(alpha))
        assert_allclose(found[i], logsumexp(values), rtol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_labels_stay_within_bounds_where_scores_are_no_numbers(value):
    structure, w = star(5)
    for part in structure.layout.segments(w)[:4]:
        part.flat[::3] = value
    with np.errstate(all="ignore"):
        found = [
            structure.decode(w),
            structure.sample(w, 2, np.random.default_rng(0)),
            structure.top(w, 2)[1],
        ]
        structure.logsum(w, cliques=True)
        for loss in (Hinge(), Log(), SoftHinge()):
            Problem.pose(structure, loss, Gaussian()).loss_and_gradient(w)[:2]
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
    layout = Layout(3, 2, 2, 1, 2, siblings=True)
    w = np.arange(float(layout.n_weights))
    segments = layout.segments(w)
    assert [part.shape for part in segments] == [(3, 2), (2, 2, 2), (1, 2, 2), (2, 2, 2, 2), (0,), (2,)]
    assert_array_equal(layout.join(segments), w)
    assert layout.n_weights == 6 + 8 + 4 + 16 + 2
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_a_hierarchy_can_be_pickled_after_use():
    structure, w = star(3)
    structure = replace(structure, forbidden=((0, 1),))
    labels, impossible = structure.decode(w), structure.impossible()
    again = pickle.loads(pickle.dumps(structure))
    assert again.layout == structure.layout and again.forbidden == ((0, 1),)
    assert_array_equal(again.decode(w), labels)
    assert_array_equal(again.impossible(), impossible)


@pytest.mark.parametrize("wrong", ["weights", "table", "shift", "forbidden"])
def test_the_binding_refuses_arrays_of_the_wrong_size(wrong):
    arrays = {
        "weights": np.zeros(2 * 3 + 4 + 8), "table": np.ones(8), "shift": np.zeros(2),
        "forbidden": np.zeros(4, dtype=np.uint8),
    }  # fmt: skip
    shape = _kernels.Shape(3, 2, 1, 0, 0)
    _kernels.hierarchy(shape, True, **arrays)
    arrays[wrong] = arrays[wrong][:-1].copy()
    with pytest.raises(ValueError, match=wrong):
        _kernels.hierarchy(shape, True, **arrays)


def test_the_binding_refuses_a_table_without_its_shift():
    arrays = {"weights": None, "table": np.ones(8), "shift": None, "forbidden": None}
    with pytest.raises(ValueError, match="shift"):
        _kernels.hierarchy(_kernels.Shape(3, 2, 1, 0, 0), True, **arrays)
