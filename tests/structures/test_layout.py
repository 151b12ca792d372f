"""Pairs of a feature and a label that were seen."""

import numpy as np
import pytest

from maxendnet.structures.weights.layout import SeenPairs


@pytest.mark.parametrize(("n", "n_features"), [(300, 20), (20, 500), (0, 4)])
def test_seen_pairs_are_the_distinct_ones_in_order(n, n_features):
    """Tests many entries for few pairs, few entries for many pairs, and no entries."""
    rng = np.random.default_rng(n)
    features, labels = rng.integers(0, n_features, n), rng.integers(0, 3, n)
    found = SeenPairs.of(features, labels, n_features, 3)
    assert list(zip(found.features.tolist(), found.labels.tolist())) == sorted(
        set(zip(features.tolist(), labels.tolist()))
    )
    assert len(found.offsets) == n_features + 1
