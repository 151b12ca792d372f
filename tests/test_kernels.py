"""Kernels compared with reference implementations in Python, scipy and enumeration.

Recursions and losses are tested in tests/structures and tests/losses.
"""

from __future__ import annotations

import itertools

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from maxendnet import _kernels, priors
from maxendnet.data.examples import Examples
from maxendnet.priors import Exponential, Gaussian, Laplace, NormalGamma, NormalInverseGaussian, SpikeSlab, Uniform
from maxendnet.structures import Chain, Layout, Tree
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.weights import padding

pytestmark = pytest.mark.usefixtures("every_level")

# --------------------------------------------------------------------------------------------------------- lanes


def test_padded_is_the_next_multiple_of_eight():
    assert [_kernels.padded(n) for n in (0, 1, 7, 8, 9, 24, 25, 33)] == [0, 8, 8, 8, 16, 24, 32, 40]


# -------------------------------------------------------------------------------------------------------- priors

# each with the border of |eta| or, for Exponential, of eta
PRIORS = [
    (Gaussian(), np.inf),
    (Gaussian(variance=0.3, mean=-2.0), np.inf),
    (Laplace(), 1.0),
    (Laplace(lam=1e-6), 1e-3),
    (Laplace(lam=2e8), np.sqrt(2e8)),
    (NormalGamma(a=0.25, lam=3.0), np.sqrt(3.0)),
    (NormalGamma(a=7.0, lam=0.1), np.sqrt(0.1)),
    (NormalInverseGaussian(), 1.0),
    (NormalInverseGaussian(A=3.0, d=0.01), 3.0),
    (NormalInverseGaussian(A=1e-3, d=50.0), 1e-3),
    (SpikeSlab(), np.inf),
    (SpikeSlab(p=1e-8, v=5.0), np.inf),
    (SpikeSlab(p=0.999, v=1e-4), np.inf),
    (SpikeSlab(p=1.0, v=2.0), np.inf),
    (Exponential(), 1.0),
    (Exponential(lam=1e-5), 1e-5),
    (Exponential(lam=300.0), 300.0),
    (Uniform(), np.inf),
    (Uniform(a=1e-3), np.inf),
    (Uniform(a=40.0), np.inf),
]


def kernel_mean(prior, eta):
    kind, params = prior.kernel_args()
    out = np.full_like(eta, np.nan)
    if any(np.ndim(p) for p in params):
        variance, mean = (np.ascontiguousarray(np.broadcast_to(p, eta.shape), dtype=float) for p in params)
        _kernels.prior_mean(kind, 0.0, 0.0, variance, mean, eta, out)
    else:
        a, b = (*params, 0.0)[:2]
        _kernels.prior_mean(kind, a, b, None, None, eta, out)
    return out


def grid(border):
    """Return values of all orders of magnitude from 0 to the border, with both signs."""
    if np.isinf(border):
        sizes = np.concatenate([np.logspace(-160, -8, 39), np.logspace(-8, 3, 400), np.logspace(3, 140, 50)])
    else:
        sizes = border * np.concatenate(
            [np.logspace(-150, -8, 39), np.logspace(-8, -0.01, 200), 1 - np.logspace(-1, -13, 61)]
        )
    return np.concatenate([-sizes[::-1], [0.0], sizes])


def assert_means_agree(prior, eta):
    expected = prior.mean(eta)
    with np.errstate(all="ignore"):
        # a mean is known only as well as eta is: one rounding of eta changes it by this much, near a border by a lot
        condition = np.nan_to_num(np.abs(eta * (prior.variance(eta) / expected)), posinf=1.0)
    # 2e-12: coth z - 1/z at z = 0.05, where the series ends, has lost three digits
    error = np.abs(kernel_mean(prior, eta) - expected) / np.where(expected == 0, 1.0, np.abs(expected))
    worst = int(np.argmax(error - 4e-15 * condition))
    assert (error <= 2e-12 + 4e-15 * condition).all(), (prior, eta[worst], expected[worst], error[worst])


@pytest.mark.parametrize(("prior", "border"), PRIORS, ids=[str(prior) for prior, _ in PRIORS])
def test_prior_means_equal_the_classes(prior, border):
    prior.check()
    eta = grid(border)
    assert_means_agree(prior, eta)
    if isinstance(prior, Exponential):  # no border below
        assert_means_agree(prior, -np.logspace(-3, 140, 100) * border)


@given(
    st.sampled_from([Gaussian, Laplace, NormalGamma, NormalInverseGaussian, SpikeSlab, Exponential, Uniform]),
    st.floats(1e-4, 1e4),
    st.floats(1e-4, 1e4),
    st.lists(st.one_of(st.floats(-1, 1), st.floats(-1e-3, 1e-3), st.floats(-100, 100)), min_size=1, max_size=9),
)
def test_prior_means_equal_the_classes_for_any_parameters(prior_class, first, second, sizes):
    sizes = np.array(sizes, dtype=float)
    if prior_class is SpikeSlab:
        prior, border = SpikeSlab(p=first / (1 + first), v=second), np.inf
    elif prior_class in (Gaussian, NormalGamma, NormalInverseGaussian):
        prior = prior_class(first, second)
        border = {Gaussian: np.inf, NormalGamma: np.sqrt(second), NormalInverseGaussian: first}[prior_class]
    else:
        prior = prior_class(first)
        border = {Laplace: np.sqrt(first), Exponential: first, Uniform: np.inf}[prior_class]
    eta = sizes if np.isinf(border) else border * np.clip(sizes, -0.999999, 0.999999)
    eta[np.abs(eta) < 1e-290] = 0.0  # among the subnormal numbers there is no relative error to speak of
    if prior_class is Gaussian:  # the sum of two numbers: exact up to their size
        assert_allclose(kernel_mean(prior, eta), prior.mean(eta), rtol=0, atol=1e-15 * (second + first * 100))
    else:
        assert_means_agree(prior, eta)


@pytest.mark.parametrize("arrays", [(True, True), (True, False), (False, True)])
def test_gaussian_with_a_variance_for_every_weight(arrays):
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.1, 9, size=13) if arrays[0] else 2.5
    mean = rng.normal(size=13) if arrays[1] else -1.0
    prior, eta = Gaussian(variance, mean), rng.normal(size=13) * 100
    assert_allclose(kernel_mean(prior, eta), prior.mean(eta), rtol=1e-14)


def test_every_prior_that_offers_itself_to_the_kernels_is_tested():
    offering = {
        name for name in priors.__all__ if hasattr(getattr(priors, name), "kernel_args") and name not in ("ExactPrior",)
    }
    assert offering == {type(prior).__name__ for prior, _ in PRIORS} | {"ElasticNet"}


def test_the_elastic_net_has_a_conjugate_in_the_place_of_a_cumulant():
    prior, eta = priors.ElasticNet(l1=0.3, l2=2.0), np.linspace(-2.0, 2.0, 13)
    kind, (l1, size, _) = prior.kernel_args()
    mean = np.full_like(eta, np.nan)
    _kernels.prior_mean(kind, l1, size, None, np.zeros(13), eta, mean)
    assert_allclose(mean, prior.conjugate_slope(eta), rtol=1e-14, atol=1e-15)


def test_a_kind_that_no_kernel_knows():
    with pytest.raises(ValueError, match="the kernels have no prior of kind 'cauchy'"):
        _kernels.prior_mean("cauchy", 1.0, 1.0, None, None, np.zeros(1), np.zeros(1))


# ------------------------------------------------------------------------------------------------ features by group


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 12), min_size=1, max_size=8),
    st.integers(1, 20),
    st.sampled_from([0.0, 0.2, 0.9]),
)
def test_group_features_are_transposes(seed, sizes, n_features, density):
    rng = np.random.default_rng(seed)
    n_nodes = sum(sizes)
    X = sparse.csr_array(rng.normal(size=(n_nodes, n_features)) * (rng.random((n_nodes, n_features)) < density))
    node_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    feature_offsets, features, entry_offsets, entry_nodes, entry_values = _kernels.group_features(
        X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, node_offsets, n_features
    )
    dtypes = [a.dtype for a in (feature_offsets, features, entry_offsets, entry_nodes, entry_values)]
    assert dtypes == [np.int64, np.int32, np.int64, np.int32, np.float64]
    assert len(feature_offsets) == len(sizes) + 1 and feature_offsets[0] == 0 and feature_offsets[-1] == len(features)
    assert len(entry_offsets) == len(features) + 1 and entry_offsets[-1] == len(entry_nodes) == X.nnz
    for g, (begin, end) in enumerate(itertools.pairwise(node_offsets)):
        here = slice(feature_offsets[g], feature_offsets[g + 1])
        transposed = sparse.csr_array(X[begin:end].T)
        transposed.sort_indices()
        used = np.flatnonzero(np.diff(transposed.indptr))
        assert sorted(features[here]) == used.tolist()  # each once
        for d in range(here.start, here.stop):
            entries = slice(entry_offsets[d], entry_offsets[d + 1])
            row = slice(transposed.indptr[features[d]], transposed.indptr[features[d] + 1])
            assert_array_equal(entry_nodes[entries], transposed.indices[row])  # in the order of the nodes
            assert_array_equal(entry_values[entries], transposed.data[row])


# -------------------------------------------------------------------------------------------------- dual variables

STEP_PRIORS = [
    (Gaussian(), 1.0),
    (Gaussian(variance=0.5, mean=0.1), 2.0),
    (Laplace(lam=2.0), 1.0),
    (Laplace(lam=0.05), 5.0),  # steps that would leave the domain
    (NormalGamma(a=0.5, lam=1.0), 1.0),
    (NormalInverseGaussian(A=0.7, d=1.0), 1.0),
    (SpikeSlab(p=0.2, v=1.0), 1.0),
    (Exponential(lam=2.0), 1.0),
    (Uniform(a=2.0), 1.0),
]


class Ascent:
    """Dual of a test case, maximised by block Frank-Wolfe."""

    def __init__(self, case, prior, C=1.0):
        self.case, self.prior, self.C, self.batch = case, prior, C, case.batch
        self.forest = case.forest
        self.layout = case.layout
        cost = 1.0 - np.eye(case.n_labels) if case.cost is None else case.cost
        self.cost = padding.pad_rows(self.layout, cost)
        self.sets = _kernels.ActiveSets(self.batch.offsets, self.batch.y, self.batch.sample_weight, C)
        self.eta = np.zeros(padding.padded_size(self.layout))
        self.gaps = np.full(case.n_examples, np.inf)
        self.set_weights()

    @property
    def unpadded_eta(self):
        return padding.unpad(self.layout, self.eta)

    def set_weights(self, dtype=np.float64):
        self.weights = padding.for_search(self.layout, self.prior.mean(self.unpadded_eta), dtype)

    def step(self, picks, inner=0):
        kind, params = self.prior.kernel_args()
        a, b = (*params, 0.0)[:2]
        _kernels.block_frank_wolfe(
            self.batch, _kernels.forest(self.forest.shape, self.weights), kind, a, b, None, None, self.C, self.eta,
            self.cost.astype(self.weights.dtype), self.cost, np.array(picks, np.int64), inner, self.sets, self.gaps,
        )  # fmt: skip

    @property
    def dual(self):
        return self.sets.total_cost() - self.prior.cumulant(self.unpadded_eta)

    def primal(self):
        mu = self.prior.mean(self.unpadded_eta)
        hinge, _ = brute_force.hinge_sum(mu, self.batch, **self.case.kwargs, cost=self.case.cost)
        return self.prior.penalty(mu) + self.C * hinge

    def features(self, sets=None):
        """Recompute eta from the active sets."""
        eta = np.zeros_like(self.eta)
        recursion = _kernels.forest(self.forest.shape, None)
        _kernels.active_features(self.batch, recursion, sets or self.sets, 0, self.case.n_examples, eta)
        return eta

    def block_gaps(self):
        values, gaps = np.zeros((2, self.case.n_examples))
        mu = padding.for_search(self.layout, self.prior.mean(self.unpadded_eta))
        arguments = (self.C, 0, self.case.n_examples, self.sets, values, gaps)
        _kernels.block_gaps(self.batch, _kernels.forest(self.forest.shape, mu), self.cost, *arguments)
        return values, gaps


dual_cases = strategies.forest_cases(max_nodes=3, scales=(0.0,), min_labels=2)


@pytest.mark.parametrize("inner", [0, 2])
@pytest.mark.parametrize(("prior", "C"), STEP_PRIORS, ids=[str(prior) for prior, _ in STEP_PRIORS])
def test_steps_climb_the_dual(prior, C, inner):
    @given(dual_cases)
    @settings(deadline=None, max_examples=20)
    def check(case):
        ascent = Ascent(case, prior, C)
        before = ascent.dual
        assert before == pytest.approx(0.0, abs=1e-12)
        for i in 3 * list(range(case.n_examples)):
            ascent.step([i], inner)
            assert np.isfinite(ascent.dual)
            assert ascent.dual >= before - 1e-9 * (1 + abs(before))
            before = ascent.dual
            eta = ascent.unpadded_eta
            # the weights follow eta, in both orientations of every matrix
            expected = padding.for_search(case.layout, prior.mean(eta))
            assert_allclose(ascent.weights, expected, rtol=1e-9, atol=1e-12)
        # eta and sum alpha l are those of the active sets
        assert_allclose(ascent.features(), ascent.eta, rtol=0, atol=1e-11)
        assert not (ascent.eta != padding.pad(case.layout, ascent.unpadded_eta)).any()  # nothing in the padding

        values, gaps = ascent.block_gaps()
        mu = prior.mean(ascent.unpadded_eta)
        expected = brute_force.hinge_values(mu, case.batch, **case.kwargs, cost=case.cost)
        assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
        # a sum over blocks: primal minus dual
        size = 1 + abs(ascent.primal()) + np.abs(mu).sum() * np.abs(ascent.eta).max()
        assert_allclose(gaps.sum(), ascent.primal() - ascent.dual, rtol=0, atol=1e-9 * size)

    check()


@pytest.mark.parametrize(("prior", "C"), STEP_PRIORS[:3], ids=[str(prior) for prior, _ in STEP_PRIORS[:3]])
def test_many_steps_close_the_gap(prior, C):
    @given(dual_cases)
    @settings(deadline=None, max_examples=10)
    def check(case):
        ascent = Ascent(case, prior, C)
        for _ in range(300):
            ascent.step(range(case.n_examples))
        primal = ascent.primal()
        assert primal - ascent.dual <= 0.02 * max(primal, 0.05)

    check()


@given(dual_cases)
@settings(deadline=None, max_examples=20)
def test_steps_in_single_precision(case):
    ascent, before = Ascent(case, Gaussian()), 0.0
    ascent.set_weights(np.float32)
    for i in 3 * list(range(case.n_examples)):
        ascent.step([i])
        assert ascent.dual >= before - 1e-5
        before = ascent.dual
    assert_allclose(ascent.features(), ascent.eta, rtol=0, atol=1e-11)  # eta itself is double


def n_active(sets):
    """Number of labellings with dual weight other than the true ones."""
    return len(sets.labellings()[0])


@given(dual_cases)
@settings(deadline=None, max_examples=20)
def test_fresh_active_sets_are_the_truth(case):
    ascent = Ascent(case, Gaussian())
    assert len(ascent.sets) == case.n_examples
    assert (n_active(ascent.sets), ascent.sets.total_cost()) == (0, 0.0)
    assert not ascent.features().any()


@pytest.mark.parametrize(("prior", "C"), STEP_PRIORS, ids=[str(prior) for prior, _ in STEP_PRIORS])
def test_active_labellings_written_out(prior, C):
    @given(dual_cases)
    @settings(deadline=None, max_examples=15)
    def check(case):
        ascent = Ascent(case, prior, C)
        ascent.step(4 * list(range(case.n_examples)), inner=1)
        examples, alpha, cost, labels = ascent.sets.labellings()
        assert len(examples) == len(alpha) == len(cost)
        assert (alpha > 0).all()
        assert_allclose(ascent.sets.total_cost(), alpha @ cost, rtol=1e-12)
        ends = np.cumsum(np.diff(case.batch.offsets)[examples])
        labellings = [tuple(y.tolist()) for y in np.split(labels, ends[:-1])] if len(ends) else []
        assert len({*zip(examples.tolist(), labellings)}) == len(labellings)  # none twice
        eta, held = np.zeros(case.layout.n_weights), np.zeros(case.n_examples)
        for i, u, price, y in zip(examples.tolist(), alpha, cost, labellings):
            truth = brute_force.example_truth(case.batch, i)
            assert y != truth
            assert y in brute_force.labellings(len(y), case.n_labels, brute_force.example_allowed(case.batch, i))
            assert price == pytest.approx(brute_force.labelling_cost(truth, y, case.cost))
            for sign, labelling in ((1, truth), (-1, y)):
                eta += sign * u * brute_force.feature_vector(case.batch, i, labelling, **case.kwargs)
            held[i] += u
        assert_allclose(ascent.unpadded_eta, eta, rtol=0, atol=1e-11)
        assert (held <= C * case.batch.sample_weight * (1 + 1e-12)).all()  # the truth has the rest

    check()


@given(dual_cases, st.sampled_from([0.25, 1.0, 3.0]), st.sampled_from([0.0, 0.5, 1.0]))
@settings(deadline=None, max_examples=40)
def test_scale(case, factor, share):
    ascent = Ascent(case, Gaussian())
    ascent.step(3 * list(range(case.n_examples)))
    cost, eta, before = ascent.sets.total_cost(), ascent.features(), n_active(ascent.sets)
    ascent.sets.scale(factor, share)
    assert_allclose(ascent.sets.total_cost(), factor * share * cost, rtol=1e-12)
    assert_allclose(ascent.features(), factor * share * eta, rtol=0, atol=1e-12 * (1 + factor))
    assert n_active(ascent.sets) == (before if share else 0)
    # a dual point of factor * C: the gaps add up again
    ascent.C *= factor
    ascent.eta = ascent.features()
    gaps = ascent.block_gaps()[1]
    assert_allclose(gaps.sum(), ascent.primal() - ascent.dual, rtol=0, atol=1e-9 * (1 + ascent.primal()))


@given(dual_cases, st.sampled_from([1.0, 2.0]))
@settings(deadline=None, max_examples=20)
def test_weight_that_is_taken_away_returns_to_the_truth(case, factor):
    ascent = Ascent(case, Gaussian())
    ascent.step(2 * list(range(case.n_examples)))
    ascent.sets.scale(factor, 0.0)
    ascent.C, ascent.eta = factor, ascent.features()
    ascent.set_weights()
    fresh = Ascent(case, Gaussian(), C=factor)
    for dual in (ascent, fresh):  # all weight is on the truth, so the same steps lead to the same place
        dual.step(2 * list(range(case.n_examples)))
    assert_allclose(ascent.eta, fresh.eta, rtol=0, atol=1e-12)
    assert_allclose(ascent.sets.total_cost(), fresh.sets.total_cost(), rtol=1e-12)


@given(dual_cases)
@settings(deadline=None, max_examples=20)
def test_a_copy_goes_its_own_way(case):
    ascent = Ascent(case, Gaussian())
    ascent.step(range(case.n_examples))
    copy, cost, before = ascent.sets.copy(), ascent.sets.total_cost(), n_active(ascent.sets)
    assert (copy.total_cost(), n_active(copy)) == (cost, before)
    assert copy.fits(case.batch.offsets, case.batch.y)
    assert_array_equal(ascent.features(copy), ascent.features())
    copy.scale(2.0, 0.0)
    assert (ascent.sets.total_cost(), n_active(ascent.sets)) == (cost, before)
    copy = ascent.sets.copy()
    ascent.step(range(case.n_examples))
    assert (copy.total_cost(), n_active(copy)) == (cost, before)


@given(dual_cases)
@settings(deadline=None, max_examples=30)
def test_fits(case):
    assume(case.n_nodes > 0)
    ascent, offsets, y = Ascent(case, Gaussian()), case.batch.offsets, case.batch.y
    ascent.step(range(case.n_examples))
    assert ascent.sets.fits(offsets, y)
    changed = y.copy()
    changed[-1] = (changed[-1] + 1) % case.n_labels
    assert not ascent.sets.fits(offsets, changed)
    assert not ascent.sets.fits(offsets[:-1], y[: offsets[-2]])
    assert not ascent.sets.fits(np.append(offsets, offsets[-1]), y)
    moved = offsets.copy()
    moved[0:-1] = 0  # as many examples and nodes, all of them in the last example
    assert ascent.sets.fits(moved, y) == np.array_equal(moved, offsets)


# ---------------------------------------------------------------------------------------- what the binding refuses

WRONG = {
    "data": lambda a: a.astype(np.float32),
    "indptr": lambda a: a.astype(np.int32),
    "indices": lambda a: a.astype(np.int64),
    "y": lambda a: a.astype(np.int64),
    "offsets": lambda a: a.astype(np.int32),
    "order": lambda a: np.repeat(a, 2)[::2],
    "parent": lambda a: a.astype(np.int64),
    "edge_type": lambda a: a.astype(np.int64),
    "flipped": lambda a: a.astype(bool),
    "edge_features": lambda a: np.asfortranarray(np.repeat(a, 2, axis=1)),
    "sample_weight": lambda a: np.repeat(a, 2)[::2],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_batch_of_other_arrays_is_refused(name):
    batch = strategies.known_batch(
        indptr=np.arange(4, dtype=np.int64),
        indices=np.zeros(3, np.int32),
        data=np.ones(3),
        y=np.zeros(3, np.int32),
        offsets=np.array([0, 1, 3], np.int64),
        order=np.arange(3, dtype=np.int32),
        parent=np.array([-1, -1, 1], np.int32),
        edge_type=np.zeros(3, np.int32),
        flipped=np.zeros(3, np.uint8),
        edge_features=np.ones((3, 2)),
        allowed=np.zeros((0, 0), np.uint8),
        label_features=np.zeros((0, 0, 0)),
        sample_weight=np.ones(2),
    )
    layout = Layout(1, 2, 1, 2)
    recursion = BoundForest(layout, batch).recursion(np.ones(layout.n_weights))
    wrong = batch._replace(**{name: WRONG[name](getattr(batch, name))})
    labels = np.zeros(3, np.int32)
    # the range of examples is empty, so that nothing is read
    _kernels.decode(batch, recursion, None, 0, 0, None, labels)
    with pytest.raises(ValueError, match=rf"batch\.{name} has the wrong dtype or is not C-contiguous"):
        _kernels.decode(wrong, recursion, None, 0, 0, None, labels)


def recursions():
    """Return for every structure a factory of its recursion, weights, and a batch of one example."""
    X, y, labels = [[[1.0], [2.0], [3.0]]], [["a", "b", "a"]], np.array(["a", "b"])
    family = Examples.build(X, y, edges=[[(0, 1), (0, 2)]])
    forest, tree = Tree().bind(family, labels), Tree(siblings=True).bind(family, labels)
    chain = Chain(order=2).bind(Examples.build(X, y), labels)
    w = [np.ones(s.layout.n_weights) for s in (chain, forest, tree)]
    return {
        "forest": (lambda w: _kernels.forest(forest.shape, w), padding.for_search(forest.layout, w[1]), forest),
        "paths": (lambda w: _kernels.paths(chain.shape, chain.reader.kernel, w), chain.for_search(w[0]), chain),
        "hierarchy": (lambda w: _kernels.hierarchy(tree.shape, True, w, None, None, None), w[2], tree),
    }


every_recursion = pytest.mark.parametrize("name", ["forest", "paths", "hierarchy"])


@every_recursion
def test_a_recursion_refuses_wrong_weights(name):
    build, weights, _ = recursions()[name]
    build(weights)
    for wrong in (weights[:-1].copy(), np.repeat(weights, 2)[::2], weights.astype(np.float16), np.append(weights, 0)):
        with pytest.raises(ValueError, match="weights has the wrong dtype or size, or is not C-contiguous"):
            build(wrong)
    with pytest.raises(ValueError, match="weights has"):
        build("weights")


@every_recursion
def test_operations_refuse_what_they_cannot_read(name):
    build, weights, bound = recursions()[name]
    batch, recursion, labels = bound.batch, build(weights), np.zeros(3, np.int32)
    values, cost, table = np.zeros(1), np.zeros((2, 8)), np.zeros((3, 2))
    with pytest.raises(ValueError, match="needs weights, but the recursion was created without"):
        _kernels.decode(batch, build(None), None, 0, 1, None, labels)
    with pytest.raises(ValueError, match="cost has the wrong dtype"):
        _kernels.decode(batch, recursion, cost.astype(np.float32), 0, 1, None, labels)
    with pytest.raises(TypeError):
        _kernels.decode(batch, bound.shape, None, 0, 1, None, labels)
    with pytest.raises(ValueError, match="more arrays than clique types"):
        _kernels.marginals(batch, recursion, None, 0, 1, values, table, None, None, None)
    with pytest.raises(ValueError, match="cliques has the wrong dtype"):
        _kernels.marginals(batch, recursion, None, 0, 1, values, table, labels)
    with pytest.raises(ValueError, match="an array of costs"):
        _kernels.log_oracle(batch, recursion, cost, None, 0, 1, values, None, np.zeros(100))
    unlabelled = batch._replace(y=np.zeros(0, np.int32))
    with pytest.raises(ValueError, match=r"batch\.y is empty"):
        _kernels.hinge_oracle(unlabelled, recursion, cost, 0, 1, values, None, 0, 1.0)


@every_recursion
def test_block_frank_wolfe_refuses_read_only_weights(name):
    build, weights, bound = recursions()[name]
    weights = weights.copy()
    weights.flags.writeable = False
    batch, cost, gaps = bound.batch, np.zeros((2, 8)), np.zeros(1)
    sets = _kernels.ActiveSets(batch.offsets, batch.y, batch.sample_weight, 1.0)
    arguments = (
        "gaussian",
        1.0,
        0.0,
        None,
        None,
        1.0,
        np.zeros(1000),
        cost,
        cost,
        np.zeros(1, np.int64),
        0,
        sets,
        gaps,
    )
    with pytest.raises(ValueError, match="weights has the wrong dtype, is not C-contiguous or is read-only"):
        _kernels.block_frank_wolfe(batch, build(weights), *arguments)


def test_the_log_loss_of_a_forest_needs_whole_groups():
    build, weights, bound = recursions()["forest"]
    groups = _kernels.forest(bound.shape, weights, groups=bound.groups.transposed)
    for recursion, last in ((build(weights), 1), (groups, 2)):
        with pytest.raises(ValueError, match="first and last must be borders of groups"):
            _kernels.log_oracle(bound.batch, recursion, None, None, 0, last, np.zeros(2), None, None)


@pytest.mark.parametrize(
    ("offsets", "labels"), [([0, 1, 2], None), ([0, 1, 2], [0]), ([0, 1], [0]), ([0, 1, 9], [0, 1])]
)
def test_a_shape_refuses_rows_that_do_not_fit(offsets, labels):
    labels = None if labels is None else np.array(labels, np.int32)
    with pytest.raises(ValueError, match=r"row_(offsets|labels) has the wrong dtype or size"):
        _kernels.Shape(2, 2, 0, 0, 0, -1, np.array(offsets), labels)
