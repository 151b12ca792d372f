"""Features of labellings and of marginals compared with enumeration."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from numpy.testing import assert_allclose

from maxendnet.structures.bound.forest import BoundForest

pytestmark = pytest.mark.usefixtures("every_level")


@given(strategies.forest_cases())
@settings(deadline=None, max_examples=60)
def test_features_of_the_truth(case):
    size = np.arange(1.0, case.n_examples + 1)
    expected = sum(
        size[i] * brute_force.feature_vector(case.batch, i, brute_force.example_truth(case.batch, i), **case.kwargs)
        for i in range(case.n_examples)
    )
    assert_allclose(BoundForest(case.layout, case.batch).features(case.batch.y, size), expected, atol=1e-12)


@given(strategies.forest_cases())
@settings(deadline=None, max_examples=60)
def test_features_are_the_adjoint_of_the_scores(case):
    """``w . features(marginals)`` is the score of the marginals, node by node and edge by edge."""
    batch = case.batch
    forest = BoundForest(case.layout, batch._replace(largest=5.0))
    _, marginals = forest.logsum(case.w / 30, cliques=True)
    expected = 0.0
    for i, scores in enumerate(brute_force.scores_of_weights(case.w, batch, **case.kwargs)):
        for t, row in zip(brute_force.example_nodes(batch, i), scores.node_scores):
            expected += marginals.node[t] @ row
        for t, matrix in zip(brute_force.example_children(batch, i), scores.edge_scores):
            expected += np.sum(marginals.edge[t] * matrix)
    assert_allclose(case.w @ forest.features(marginals), expected, rtol=1e-9, atol=1e-9)
