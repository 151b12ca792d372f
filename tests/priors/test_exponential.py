from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet.priors import Exponential


@pytest.mark.parametrize("eta", [-50.0, -0.2, 0.0, 2.5])
def test_density_of_the_docstring(tilted, eta):
    prior, x = Exponential(3.0), np.array([eta])
    limit = 14.0 if eta < 0 else 200.0
    expected = tilted(lambda w: np.where(w >= 0, 3.0 * np.exp(-3.0 * np.abs(w)), 0.0), eta, limit)
    assert_allclose(prior.cumulant(x), expected.cumulant, rtol=1e-10, atol=1e-11)
    assert_allclose(prior.mean(x), expected.mean, rtol=1e-10)
    assert_allclose(prior.variance(x), expected.variance, rtol=1e-10)
    assert_allclose(prior.sign(x), expected.sign, rtol=1e-12)


def test_penalty_from_end_to_end():
    prior = Exponential(2.0)
    assert prior.penalty([0.5]) == 0.0
    assert_allclose(prior.penalty([0.5 + 2**-30]), 2**-59, rtol=1e-6)  # (lam mu - 1)^2 / 2
    assert_allclose(prior.penalty([1e-100]), 100 * np.log(10) - np.log(2) - 1, rtol=1e-14)
    assert_allclose(prior.penalty([1e100]), 2e100, rtol=1e-14)
    assert prior.penalty([1.0, 0.0]) == np.inf
    assert prior.penalty([1.0, -1e-300]) == np.inf


def test_gradient_outside_points_inwards():
    assert Exponential(2.0).gradient([0.0, -1.0, 0.25]).tolist() == [-np.inf, -np.inf, -2.0]


def test_border_wins_over_a_weight_pushed_to_zero():
    assert Exponential(2.0).cumulant([2.0, -np.inf]) == np.inf


def test_draws_are_never_negative():
    assert np.all(Exponential(2.0).sample([1.9, -40.0], 1000, np.random.default_rng(0)) >= 0)


def test_hyper_parameters():
    with pytest.raises(ValueError, match="Exponential needs lam > 0 and finite, got lam=0; "):
        Exponential(0).check()
    assert Exponential(3).kernel_args() == ("exponential", (3.0,))
