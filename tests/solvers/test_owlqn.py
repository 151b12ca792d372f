"""OWL-QN: ten digits, and when the entropy of mixed marginals, which takes long, is computed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_l1_dual import chains

from maxendnet import L1CRF
from maxendnet.solvers import OWLQN, owlqn, run


@pytest.mark.parametrize("lam", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_reaches_ten_digits(lam, seed):
    problem = chains(lam=lam, seed=seed)
    result = run(OWLQN(), problem, tol=1e-10)
    assert result.converged
    # the optimality conditions themselves
    slope = problem.loss_and_gradient(result.w).gradient
    zero = result.w == 0
    assert_allclose(slope[~zero], -lam * np.sign(result.w[~zero]), atol=1e-8)
    assert np.all(np.abs(slope[zero]) <= lam * (1 + 1e-8))


def test_all_weights_are_zero_under_a_large_penalty():
    result = run(OWLQN(), chains(lam=1e4), tol=1e-10)
    assert result.converged and not result.w.any()


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
