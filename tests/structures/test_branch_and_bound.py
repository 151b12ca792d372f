"""Branch and bound compared with enumeration."""

import brute_force
import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet.structures.search.branch_and_bound import branch_and_bound


@pytest.mark.parametrize("seed", range(6))
def test_the_best_labelling_is_found_and_proven(seed):
    rng = np.random.default_rng(seed)
    n, L = 6, 3
    edges = np.array([(s, t) for s in range(n) for t in range(s)], dtype=np.int32)
    allowed = rng.random((n, L)) < 0.7
    allowed[np.arange(n), rng.integers(0, L, n)] = True
    node, along = rng.normal(size=(n, L)), rng.normal(size=(len(edges), L, L))
    best = branch_and_bound(np.where(allowed, node, -np.inf), edges, along)
    value, _ = brute_force.best(node, edges.tolist(), list(along), allowed)
    assert_allclose([best.score, best.bound], value, atol=1e-9)
    assert_allclose(brute_force.score(node, edges.tolist(), list(along), best.labels), value, atol=1e-9)
    assert np.all(allowed[np.arange(n), best.labels])
