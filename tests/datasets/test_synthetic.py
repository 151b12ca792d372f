from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from maxendnet.datasets import make_synthetic_chains, synthetic


def small(**changes):
    arguments = {"n_samples": 7, "n_relevant": 3, "n_features": 6, "n_gibbs": 5, "random_state": 0}
    return make_synthetic_chains(**{**arguments, **changes})


def test_shapes_and_types():
    data = make_synthetic_chains(n_samples=12, n_gibbs=3, random_state=1)
    assert len(data.X) == len(data.y) == 12
    assert {x.shape for x in data.X} == {(8, 100)} and {x.dtype for x in data.X} == {np.dtype(float)}
    assert {y.shape for y in data.y} == {(8,)} and {y.dtype for y in data.y} == {np.dtype(np.int64)}
    assert set(np.concatenate(data.y)) == {0, 1}
    assert data.coef.shape == (100, 2) and data.transitions.shape == (2, 2) and data.groups.shape == (100,)


def test_the_first_features_are_the_relevant_ones():
    data = make_synthetic_chains(n_samples=1, n_relevant=30, n_gibbs=0, random_state=2)
    assert (data.coef[:30] != 0).all() and not data.coef[30:].any()
    assert_array_equal(data.groups, [*range(30), *[-1] * 70])


def test_a_seed_fixes_everything():
    first, second, other = small(), small(), small(random_state=1)
    for a, b in zip(first, second):
        assert_array_equal(np.asarray(a), np.asarray(b))
    assert not np.array_equal(first.coef, other.coef)
    again = small(random_state=np.random.default_rng(0))
    assert_array_equal(first.coef, again.coef)


def test_iid_inputs_are_standard_normal():
    data = make_synthetic_chains(n_samples=3000, n_features=12, n_relevant=6, n_gibbs=0, random_state=3)
    covariance = np.cov(np.concatenate(data.X).T)
    # 24,000 rows: standard error of an entry at most 0.01
    assert_allclose(covariance, np.eye(12), atol=0.05)


def test_correlated_inputs_come_in_groups_of_three():
    data = make_synthetic_chains(
        n_samples=3000, n_features=12, n_relevant=6, correlated=True, n_gibbs=0, random_state=3
    )
    assert_array_equal(data.groups, [0, 0, 0, 1, 1, 1, *[-1] * 6])
    rows = np.concatenate(data.X)
    expected = np.eye(12)
    expected[:3, :3] = expected[3:6, 3:6] = 1.0
    assert_allclose(np.cov(rows.T), expected, atol=0.05)
    # the difference of two features of a group is the difference of two noises
    assert_allclose((rows[:, 0] - rows[:, 2]).std(), 0.05 * 2**0.5, rtol=0.05)


def test_noise_is_a_standard_deviation():
    data = small(n_samples=3000, correlated=True, noise=0.5)
    rows = np.concatenate(data.X)
    assert_allclose((rows[:, 0] - rows[:, 1]).std(), 0.5 * 2**0.5, rtol=0.05)
    still = np.concatenate(small(correlated=True, noise=0.0).X)
    assert_array_equal(still[:, 0], still[:, 2])


def test_the_last_group_may_be_smaller():
    assert_array_equal(small(n_relevant=4, correlated=True).groups, [0, 0, 0, 1, -1, -1])
    assert_array_equal(small(n_relevant=0, correlated=True).groups, [-1] * 6)


@pytest.mark.parametrize("n_nodes", [1, 2, 3, 4])
def test_gibbs_draws_from_the_chain(n_nodes):
    rng = np.random.default_rng(4)
    node_scores, transitions = rng.normal(size=(n_nodes, 2)), rng.normal(size=(2, 2))
    labellings = list(itertools.product([0, 1], repeat=n_nodes))
    scores = [
        sum(node_scores[t, a] for t, a in enumerate(y)) + sum(transitions[a, b] for a, b in itertools.pairwise(y))
        for y in labellings
    ]
    expected = np.exp(scores) / np.exp(scores).sum()

    n_samples = 40_000
    drawn = synthetic._gibbs(np.repeat(node_scores[None], n_samples, axis=0), transitions, 30, rng)
    codes = drawn @ 2 ** np.arange(n_nodes)[::-1]
    observed = np.bincount(codes, minlength=2**n_nodes) / n_samples
    # chi-square with 2**n - 1 degrees of freedom: 45 is beyond 1 - 1e-4 for 15 degrees, and the seed is fixed
    assert n_samples * ((observed - expected) ** 2 / expected).sum() < 45


def test_gibbs_keeps_the_samples_apart():
    # scores so large that each sample has one possible labelling, its own
    rng = np.random.default_rng(5)
    labels = rng.integers(2, size=(50, 8))
    node_scores = 1e3 * np.stack([1 - labels, labels], axis=2)
    assert_array_equal(synthetic._gibbs(node_scores, rng.normal(size=(2, 2)), 1, rng), labels)


def test_labels_of_a_strong_transition_alternate():
    # no inputs matter; row 0 column 1 and row 1 column 0 pay
    node_scores, transitions = np.zeros((500, 6, 2)), np.array([[0.0, 30.0], [30.0, 0.0]])
    drawn = synthetic._gibbs(node_scores, transitions, 500, np.random.default_rng(6))
    assert (drawn[:, 1:] != drawn[:, :-1]).mean() > 0.99


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_samples": 0}, "n_samples >= 1, got n_samples=0"),
        ({"n_features": 0}, "n_features >= 1, got n_features=0"),
        ({"n_nodes": 0}, "n_nodes >= 1, got n_nodes=0"),
        ({"n_relevant": -1}, "n_relevant >= 0, got n_relevant=-1"),
        ({"n_gibbs": -1}, "n_gibbs >= 0, got n_gibbs=-1"),
        ({"n_relevant": 7}, "n_relevant <= n_features, got n_relevant=7 and n_features=6"),
        ({"noise": -0.1}, "noise >= 0"),
        ({"noise": float("nan")}, "noise >= 0"),
    ],
)
def test_bad_arguments(changes, words):
    with pytest.raises(ValueError, match=words):
        small(**changes)
