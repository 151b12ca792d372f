from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from maxendnet.priors import L1


def test_prox_is_the_minimiser():
    prior, step, rng = L1(rho=0.7), 0.6, np.random.default_rng(0)
    v = np.array([-2.0, -0.42, -0.1, 0.0, 0.3, 5.0])
    u = prior.prox(v, step)

    def objective(u):
        return step * prior.penalty(u) + np.sum((u - v) ** 2) / 2

    for size in (1e-3, 1e-1, 1.0):
        assert all(objective(u + size * rng.normal(size=6)) > objective(u) for _ in range(50))
    assert u[1:5].tolist() == [0.0] * 4  # exact zeros, including the border of the interval


def test_step_per_weight():
    assert_allclose(L1(1.0).prox([1.0, 1.0, -1.0], np.array([0.0, 0.25, 2.0])), [1.0, 0.75, 0.0])


def test_penalty():
    assert L1().penalty([1.0, -3.0]) == 2.0


def test_only_what_exists_is_offered():
    for name in ("cumulant", "mean", "variance", "gradient", "sample", "sign", "kernel_args"):
        assert not hasattr(L1(), name)


def test_hyper_parameters():
    with pytest.raises(ValueError, match=r"L1 needs rho > 0 and finite, got rho=-0\.5; "):
        L1(-0.5).check()
    assert clone(L1(0.2)).get_params() == {"rho": 0.2}
