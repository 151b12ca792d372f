"""The Hessian from sampled labellings, compared with enumeration, and its factorisation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from maxendnet.backends.threads import Threads
from maxendnet.data.examples import Examples
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import L1
from maxendnet.problem import Problem
from maxendnet.solvers.curvature import sampled_hessian as module
from maxendnet.solvers.curvature.factor import Factor
from maxendnet.solvers.curvature.sampled_hessian import (
    can_sample,
    distinct,
    drawn_rows,
    full_hessian_worthwhile,
    gram,
    partial_hessian_worthwhile,
    sampled_hessian,
    whole_curvature,
)
from maxendnet.solvers.curvature.soft_curvature import prior_curvature
from maxendnet.solvers.subproblems.smooth_l1 import SmoothL1
from maxendnet.structures import Chain, Tree
from maxendnet.structures.base import Table
from maxendnet.structures.bound.features import changes, labelling_rows

LABELS = np.array(["a", "b", "c"])


def trees(seed, n=3):
    """Trees of up to four nodes with two features, and features of edges."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n)
    edges = [[(int(rng.integers(t)), t) for t in range(1, m)] for m in sizes]
    return Examples.build(
        [rng.normal(size=(m, 2)) for m in sizes],
        [rng.choice(LABELS, size=m) for m in sizes],
        edges=edges,
        edge_features=[rng.normal(size=(m - 1, 1)) for m in sizes],
    )


def chains(seed, sizes=(3, 1, 4)):
    rng = np.random.default_rng(seed)
    return Examples.build([rng.normal(size=(m, 2)) for m in sizes], [rng.choice(LABELS, size=m) for m in sizes],
                          sample_weight=rng.uniform(0.5, 2.0, size=len(sizes)))  # fmt: skip


def soft(examples, structure):
    return Problem.pose(structure.bind(examples, LABELS), SoftHinge(temperature=0.7), L1(0.5), C=1.3)


def enumerated_hessian(problem, w):
    """``C / T sum_i u_i Cov_i(f)`` over all labellings."""
    structure, batch, T = problem.structure, problem.batch, problem.loss.temperature
    total = np.zeros((problem.n_weights, problem.n_weights))
    for i in range(problem.n_examples):
        one = slice(batch.offsets[i], batch.offsets[i + 1])
        every = np.array(list(itertools.product(range(3), repeat=one.stop - one.start)))
        rows = labelling_rows(structure.layout, batch, np.full(len(every), i), every.ravel()).toarray()
        cost = (every != batch.y[one]).sum(axis=1)
        score = (rows @ w + cost) / T
        share = np.exp(score - score.max())
        share /= share.sum()
        mean = share @ rows
        total += batch.sample_weight[i] * ((rows - mean).T * share) @ (rows - mean)
    return problem.C / T * total


@pytest.mark.parametrize(
    ("structure", "examples"), [(Chain(bias=True), chains(0)), (Tree(), trees(0, n=4))], ids=["chain", "tree"]
)
def test_hessian_by_enumeration(structure, examples, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAIRS", 4000)
    monkeypatch.setattr(module, "ROWS_PER_WEIGHT", 10**9)
    problem = soft(examples, structure)
    w = np.random.default_rng(1).normal(size=problem.n_weights)
    exact = enumerated_hessian(problem, w)
    found = np.tril(sampled_hessian(problem, w, seed=0))
    # 8,000 draws: entries are off by about their spread over 60
    assert_allclose(found, np.tril(exact), atol=0.08 * np.abs(exact).max())
    assert np.abs(found - np.tril(exact)).mean() < 0.01 * np.abs(exact).max()


def test_fewer_pairs_where_there_are_many_differences(monkeypatch):
    drawn = []
    own = module.drawn_changes
    monkeypatch.setattr(module, "drawn_changes", lambda p, w, n, rng: drawn.append(n) or own(p, w, n, rng))
    problem = soft(trees(0, n=20), Tree())
    sampled_hessian(problem, np.zeros(problem.n_weights), seed=0)
    monkeypatch.setattr(module, "ROWS_PER_WEIGHT", 1)
    sampled_hessian(problem, np.zeros(problem.n_weights), seed=0)
    assert drawn[0] == drawn[2] == 1 and drawn[1] > drawn[3] >= 0


@given(seed=st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_parts_of_changes_add_up_and_do_not_touch(seed):
    rng = np.random.default_rng(seed)
    examples = trees(seed)
    bound = Tree().bind(examples, LABELS)
    layout, batch = bound.layout, bound.batch
    before, after = rng.integers(3, size=(2, len(batch.parent)))
    rows, example = changes(layout, batch, before, after)
    every = np.arange(len(batch.offsets) - 1)
    expected = (labelling_rows(layout, batch, every, after) - labelling_rows(layout, batch, every, before)).toarray()
    summed = np.zeros_like(expected)
    np.add.at(summed, example, rows.toarray())
    assert_allclose(summed, expected, atol=1e-12)
    differ = before != after
    joined = differ & (batch.parent >= 0) & differ[batch.parent]
    assert rows.shape[0] == differ.sum() - joined.sum()  # a tree of k nodes has k - 1 edges
    # to exchange the two labellings in one part alone changes the sign of its row, and nothing else
    if differ.any():
        node = int(rng.choice(np.flatnonzero(differ)))
        part, size = {node}, 0
        while size != len(part):
            size = len(part)
            part |= {t for t in np.flatnonzero(joined).tolist() if batch.parent[t] in part}
            part |= {int(batch.parent[t]) for t in part if joined[t]}
        some = sorted(part)
        before[some], after[some] = after[some], before[some]
        swapped = changes(layout, batch, before, after)[0].toarray()
        same = np.abs(swapped - rows.toarray()).max(axis=1) < 1e-12
        assert (~same).sum() == 1
        assert_allclose(swapped[~same], -rows.toarray()[~same], atol=1e-12)


def test_draws_with_costs_have_the_shares_of_the_soft_hinge():
    examples = trees(3, n=2)
    bound = Tree().bind(examples, LABELS)
    rng = np.random.default_rng(0)
    w, rows = rng.normal(size=bound.layout.n_weights), rng.normal(size=(4, 3))
    table = Table(rows, rng.integers(4, size=len(bound.batch.parent)).astype(np.int32))
    drawn = bound.sample(w, 20_000, rng, None, table)
    expected = bound.logsum(w, table)[1].node
    found = np.stack([(drawn == a).mean(axis=0) for a in range(3)], axis=1)
    assert_allclose(found, expected, atol=0.02)


@given(seed=st.integers(0, 1000), n_jobs=st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=20)
def test_gram_of_sparse_rows(seed, n_jobs):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    dense = rng.normal(size=(int(rng.integers(0, 30)), n)) * (rng.random(n) < 0.3)
    found = gram(sparse.csr_array(dense), Threads(n_jobs))
    assert_allclose(np.tril(found), np.tril(dense.T @ dense), atol=1e-4)


def test_distinct_rows_have_the_same_gram():
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(rng.integers(-1, 2, size=(50, 3)).astype(float))
    found = distinct([rows, rows])
    assert found.shape[0] <= 14
    assert_allclose((found.T @ found).toarray(), 2 * (rows.T @ rows).toarray())


def test_a_factor_solves():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(60, 30)) * 10.0 ** rng.integers(-3, 4, size=30)  # weights of very different size
    matrix, added = root.T @ root, rng.random(30)
    factor = Factor.of(np.tril(matrix).astype(np.float32), added)
    v = rng.normal(size=30)
    expected = np.linalg.solve(matrix + np.diag(added), v)
    assert_allclose(factor.inverse_times(v), expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("diagonal", [[1.0, np.nan], [1.0, 0.0], [1.0, -1.0], [np.inf, 1.0]])
def test_no_factor_of_a_matrix_that_has_none(diagonal):
    assert Factor.of(np.diag(diagonal).astype(np.float32), np.zeros(2)) is None


def test_only_forests_with_few_weights(monkeypatch):
    assert can_sample(soft(trees(0), Tree()))
    assert not can_sample(soft(chains(0), Chain(order=2)))
    monkeypatch.setattr(module, "MIN_NODES_PER_WEIGHT", 0)
    assert full_hessian_worthwhile(soft(trees(0), Tree()))
    monkeypatch.setattr(module, "MAX_WEIGHTS_FULL", 5)
    assert not full_hessian_worthwhile(soft(trees(0), Tree()))


def test_some_of_many_weights_pay_where_a_pass_is_much_work(monkeypatch):
    problem = soft(chains(0), Chain())
    monkeypatch.setattr(module, "N_COVERED_PARTIAL", 2)
    assert not partial_hessian_worthwhile(problem)  # few weights: all of them, or none
    monkeypatch.setattr(module, "MAX_WEIGHTS_FULL", 5)
    assert partial_hessian_worthwhile(problem)
    monkeypatch.setattr(module, "N_COVERED_PARTIAL", 4000)
    assert not partial_hessian_worthwhile(problem)


def test_the_curvature_of_some_weights_is_that_block_and_a_diagonal(monkeypatch):
    problem = soft(chains(0), Chain()).replace(prior=SmoothL1(0.5, 0.1))
    w = np.random.default_rng(1).normal(size=problem.n_weights)
    monkeypatch.setattr(module, "MAX_WEIGHTS_FULL", 3)
    monkeypatch.setattr(module, "N_COVERED_PARTIAL", 5)
    curvature = whole_curvature(problem, w, seed=0)
    rows, prior = drawn_rows(problem, w, 0).toarray(), prior_curvature(problem, w)
    hessian = rows.T @ rows + np.diag(prior + 1e-3 * (rows**2).sum(axis=0).mean())
    covered = curvature.covered
    assert 0 < len(covered) <= 5 and (np.diff(covered) > 0).all()
    expected = w / np.diag(hessian)
    expected[covered] = np.linalg.solve(hessian[np.ix_(covered, covered)], w[covered])
    assert_allclose(curvature.times(w), expected, rtol=1e-3)
