"""Soft hinge compared with enumeration at several temperatures, and with the hinge."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from maxendnet import L2CRF
from maxendnet.data.examples import Examples
from maxendnet.losses import Hinge, Log
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures import Chain

pytestmark = pytest.mark.usefixtures("every_level")

# at the lowest, edge scores are so far apart that sums are in logarithms
TEMPERATURES = [3.0, 0.3, 1e-3]


def problem_of(case, loss):
    return Problem.pose(case.forest, loss, Gaussian())


def enumerated(case, temperature):
    """Return values, gradient of their weighted sum and expected cost, by enumeration."""
    values, slope, expected = [], np.zeros_like(case.w), 0.0
    for i, s in enumerate(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)):
        truth, u = brute_force.example_truth(case.batch, i), case.batch.sample_weight[i]
        scores = brute_force.labelling_scores(*s)
        cost = np.array([brute_force.labelling_cost(truth, y, case.cost) for y in scores])
        exponents = (cost + np.array(list(scores.values())) - scores[tuple(truth)]) / temperature
        p = np.exp(exponents - logsumexp(exponents))
        f = np.array([brute_force.feature_vector(case.batch, i, y, **case.kwargs) for y in scores])
        values.append(temperature * logsumexp(exponents))
        slope += u * (p @ f - brute_force.feature_vector(case.batch, i, truth, **case.kwargs))
        expected += u * (p @ cost)
    return np.array(values), slope, expected


@pytest.mark.parametrize("temperature", TEMPERATURES)
@given(case=strategies.any_case(max_nodes=4))
@settings(deadline=None)
def test_soft_hinge_is_enumeration(temperature, case):
    problem = problem_of(case, SoftHinge(case.cost, temperature=temperature))
    values, slope, expected = enumerated(case, temperature)
    size = 1.0 + np.abs(values).max(initial=0.0) + np.abs(case.w).max(initial=0.0) * 10
    total, gradient, expected_cost = problem.loss_and_gradient(case.w)[:3]
    # scores divided by the temperature lose digits of p
    tolerance = 1e-12 * size / min(temperature, 1.0)
    assert_allclose(total, values @ case.batch.sample_weight, atol=tolerance * (1 + case.batch.sample_weight.sum()))
    scale = 1.0 + max((np.abs(a).max(initial=0.0) for a in (case.batch.data, case.batch.edge_features)), default=0.0)
    scale *= (1.0 + np.abs(case.batch.label_features).max(initial=0.0)) * (1 + case.batch.sample_weight.sum())
    assert_allclose(gradient, slope, atol=tolerance * scale * 5)
    assert_allclose(expected_cost, expected, atol=tolerance * scale * 5)


@given(case=strategies.any_case(max_nodes=4), temperature=st.sampled_from(TEMPERATURES))
@settings(deadline=None)
def test_above_the_hinge_by_at_most_the_temperature_times_the_log_of_the_number_of_labellings(case, temperature):
    soft = problem_of(case, SoftHinge(case.cost, temperature=temperature)).loss_and_gradient(case.w).loss
    hinge = problem_of(case, Hinge(case.cost)).loss_and_gradient(case.w).loss
    most = temperature * np.log(case.n_labels) * np.diff(case.batch.offsets) @ case.batch.sample_weight
    slack = 1e-12 * (1 + abs(hinge) + np.abs(case.w).max(initial=0.0) * 100)
    assert hinge - slack <= soft <= hinge + most + slack


@pytest.mark.parametrize("far", [0.0, 1e4])
def test_a_long_chain_at_a_low_temperature(far):
    """Sums over nearly equal labels, where the number of labellings exceeds floating-point numbers.

    ``far`` sets one pair of labels so far behind the others that sums are in logarithms; for the other pairs that
    changes nothing.
    """
    rng = np.random.default_rng(0)
    n, L, T = 3000, 3, 1e-2
    X, y = [rng.normal(size=(n, 2))], [rng.integers(L, size=n)]
    bound = Chain().bind(Examples.build(X, y), np.arange(L))
    w = 1e-4 * rng.normal(size=bound.layout.n_weights)
    bound.layout.segments(w).transitions[0, 2, 1] = -far
    cost = np.zeros((L, L))
    partial = Problem.pose(bound, SoftHinge(cost, temperature=T), Gaussian()).loss_and_gradient(w)
    (value,), marginals = bound.logsum(w / T, cliques=True)
    assert_allclose(partial.loss, T * (value - bound.score(w / T, bound.y)[0]), rtol=1e-12)
    expected = bound.features(marginals) - bound.features(bound.y)
    assert_allclose(partial.gradient, expected, atol=1e-8)


@given(case=strategies.any_case(max_nodes=4))
@settings(deadline=None)
def test_log_loss_with_a_margin_is_the_soft_hinge_at_temperature_one(case):
    soft = SoftHinge(2.5 * (1.0 - np.eye(case.n_labels)))
    computed, expected = (problem_of(case, loss).loss_and_gradient(case.w)[:2] for loss in (Log(margin=2.5), soft))
    assert_allclose(computed[0], expected[0], rtol=1e-12, atol=1e-12)
    assert_allclose(computed[1], expected[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("margin", [-1.0, np.nan, "3", 101.0])
def test_a_margin_that_makes_no_sense_is_refused(margin):
    with pytest.raises(ValueError, match="margin must be a number from 0 to 100"):
        L2CRF(margin=margin).fit([[[1.0]], [[0.0]]], [["a"], ["b"]])
