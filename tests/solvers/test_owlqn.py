"""OWL-QN: when the entropy of mixed marginals, which takes long, is computed."""

from __future__ import annotations

import numpy as np

from maxendnet import L1CRF
from maxendnet.solvers import OWLQN, owlqn


def test_entropies_are_not_computed_while_the_dual_point_is_mostly_the_truth(monkeypatch):
    rng = np.random.default_rng(0)
    y = [rng.integers(6, size=8) for _ in range(30)]
    X = [np.eye(6)[labels] + 0.5 * rng.normal(size=(8, 6)) for labels in y]
    shares, entropy = [], owlqn.mixed_entropy

    def noted(problem, w, share):
        shares.append(share)
        return entropy(problem, w, share)

    monkeypatch.setattr(owlqn, "mixed_entropy", noted)
    assert L1CRF(lam=0.3, solver=OWLQN(), tol=3e-3).fit(X, y).converged_
    assert shares and min(shares) > 0.5  # near w = 0 the gap to first order is small
