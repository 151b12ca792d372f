"""Expected values of a table that differs from the table added to the scores."""

import brute_force
import numpy as np
import pytest
import strategies
from enumerated import hierarchy_cases
from hypothesis import given, settings
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from maxendnet import _kernels
from maxendnet.structures.weights import padding

pytestmark = pytest.mark.usefixtures("every_level")


def tables(case, with_cost):
    """Return the table added to the scores (or None) and the table of the expectation, with both signs."""
    rng = np.random.default_rng(case.seed)
    cost = np.zeros((case.n_labels, case.n_labels))
    if with_cost:
        cost = rng.uniform(0.1, 2.0, cost.shape) * (1 - np.eye(case.n_labels))
    return cost, rng.normal(size=cost.shape)


def enumerated(case, scores, labellings, cost, counted):
    """Return the expected value of `counted` for every example, or 0 if it has no allowed labelling."""
    values = []
    for i in range(case.n_examples):
        truth = brute_force.example_truth(case.batch, i)
        exponents = np.array(scores[i]) + [brute_force.labelling_cost(truth, y, cost) for y in labellings[i]]
        p = np.exp(exponents - logsumexp(exponents))
        values.append(p @ [sum(counted[a, c] for a, c in zip(truth, y)) for y in labellings[i]])
    return values


@pytest.mark.parametrize("with_cost", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [0, 1])
@given(case=strategies.any_case(max_nodes=4, scales=(1.0,)))
@settings(max_examples=30)
def test_forests(mode, dtype, with_cost, case):
    layout = case.layout
    cost, counted = tables(case, with_cost)
    every = [brute_force.labelling_scores(*s) for s in brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)]
    scores, labellings = [list(table.values()) for table in every], [list(table) for table in every]
    batch, n = case.batch, case.n_examples
    nodes = np.array([0, case.n_nodes])
    arrays = _kernels.group_features(batch.indptr, batch.indices, batch.data, nodes, case.n_features)
    groups, weights = _kernels.Groups(np.array([0, n]), nodes, *arrays), padding.for_search(layout, case.w, dtype)
    values, costs, gradient = np.zeros(n), np.full(n, np.nan), np.zeros(padding.padded_size(layout))
    _kernels.log_oracle(
        batch, _kernels.forest(case.forest.shape, weights, mode, groups=groups),
        padding.pad_rows(layout, cost, dtype) if with_cost else None, padding.pad_rows(layout, counted, dtype),
        0, n, values, costs, gradient,
    )  # fmt: skip
    expected = enumerated(case, scores, labellings, cost, counted)
    size = 1 + max((np.abs(values).max(initial=0.0) for values in scores), default=0.0)
    assert_allclose(costs, expected, atol=size * (1e-4 if dtype is np.float32 else 1e-12))


@pytest.mark.parametrize("with_cost", [False, True])
@given(hierarchy=hierarchy_cases(max_nodes=4))
@settings(max_examples=60)
def test_hierarchies(with_cost, hierarchy):
    case, batch, n = hierarchy.case, hierarchy.batch, hierarchy.case.n_examples
    cost, counted = tables(case, with_cost)
    labellings = [hierarchy.labellings(i) for i in range(n)]
    scores = [hierarchy.features(i, labellings[i]) @ hierarchy.w for i in range(n)]
    values, costs, gradient = np.zeros(n), np.full(n, np.nan), np.zeros(hierarchy.structure.layout.n_weights)
    recursion = hierarchy.structure.recursion(hierarchy.w)
    _kernels.log_oracle(batch, recursion, cost if with_cost else None, counted, 0, n, values, costs, gradient)
    tolerance = 10 * hierarchy.tolerance
    assert_allclose(costs, enumerated(case, scores, labellings, cost, counted), atol=tolerance)
