"""Features of marginals against features of labellings, enumerated."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from numpy.testing import assert_allclose

from maxendnet.structures.features import edge_sums, features_of, true_marginals
from maxendnet.structures.forest import BoundForest

pytestmark = pytest.mark.usefixtures("every_level")


@given(strategies.forest_cases())
@settings(deadline=None, max_examples=60)
def test_features_of_the_truth(case):
    size = np.arange(1.0, case.n_examples + 1)
    found = features_of(case.layout, case.batch, *true_marginals(case.layout, case.batch, size))
    truth = [brute_force.example_truth(case.batch, i) for i in range(case.n_examples)]
    expected = sum(
        size[i] * brute_force.feature_vector(case.batch, i, truth[i], **case.kwargs) for i in range(case.n_examples)
    )
    assert_allclose(found, expected, atol=1e-12)


@given(strategies.forest_cases())
@settings(deadline=None, max_examples=60)
def test_features_are_the_adjoint_of_the_scores(case):
    """``w . features_of(marginals)`` is the score of the marginals, node by node and edge by edge."""
    layout, batch = case.layout, case.batch
    forest = BoundForest(layout, batch._replace(largest=5.0))
    _, (node, edge, _) = forest.logsum(case.w / 30, cliques=True)
    child = np.flatnonzero(batch.parent >= 0)
    nodes, above, below = (
        a.ravel() for a in np.meshgrid(child, np.arange(case.n_labels), np.arange(case.n_labels), indexing="ij")
    )
    turned = batch.flipped[nodes].astype(bool)
    weight = edge[nodes, np.where(turned, below, above), np.where(turned, above, below)]
    matrices = edge_sums(layout, batch, nodes, above.astype(np.int32), below.astype(np.int32), weight)
    expected = 0.0
    for i, scores in enumerate(brute_force.scores_of_weights(case.w, batch, **case.kwargs)):
        for t, row in zip(brute_force.example_nodes(batch, i), scores.node_scores):
            expected += node[t] @ row
        for t, matrix in zip(brute_force.example_children(batch, i), scores.edge_scores):
            expected += np.sum(edge[t] * matrix)
    assert_allclose(case.w @ features_of(layout, batch, node, matrices), expected, rtol=1e-9, atol=1e-9)
