from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet.priors import L1, Laplace


@pytest.mark.parametrize("lam", [0.04, 1.0, 9.0])
@pytest.mark.parametrize("fraction", [0.0, -0.3, 0.95])
def test_density_of_the_docstring(tilted, lam, fraction):
    rate, prior = np.sqrt(lam), Laplace(lam)
    eta = np.array([fraction * rate])
    expected = tilted(lambda w: rate / 2 * np.exp(-rate * np.abs(w)), eta[0], limit=700 / rate)
    assert_allclose(prior.cumulant(eta), expected.cumulant, rtol=1e-10, atol=1e-12)
    assert_allclose(prior.mean(eta), expected.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(prior.variance(eta), expected.variance, rtol=1e-10)
    assert_allclose(prior.sign(eta), expected.sign, rtol=1e-10, atol=1e-12)


def test_table_of_the_theory():
    eta, mu, lam = np.array([-1.2, 0.3, 1.9]), np.array([-2.0, 0.0, 0.7]), 4.0
    s = np.sqrt(1 + lam * mu**2)
    assert_allclose(Laplace(lam).cumulant(eta), -np.sum(np.log(1 - eta**2 / lam)), rtol=1e-14)
    assert_allclose(Laplace(lam).mean(eta), 2 * eta / (lam - eta**2), rtol=1e-14)
    assert_allclose(Laplace(lam).penalty(mu), np.sum(s - 1 - np.log((s + 1) / 2)), rtol=1e-14)


def test_small_values_keep_their_digits():
    prior = Laplace(4.0)
    assert_allclose(prior.cumulant([1e-9]), 1e-18 / 4, rtol=1e-14, atol=0)
    assert_allclose(prior.penalty([1e-9]), 4 * 1e-18 / 4, rtol=1e-14, atol=0)


def test_close_to_the_border():
    prior = Laplace(4.0)
    eta = np.array([2 - 2**-40])
    assert_allclose(prior.cumulant(eta), -np.log(2**-40 * (4 - 2**-40) / 4), rtol=1e-14)
    assert_allclose(prior.mean(eta), 2 * eta / (2**-40 * (4 - 2**-40)), rtol=1e-14)


def test_huge_means():
    prior = Laplace(4.0)
    assert_allclose(prior.penalty([1e100, -1e100]), 4e100, rtol=1e-14)
    assert_allclose(prior.gradient([1e100, -1e100]), [2.0, -2.0], rtol=1e-14)


def test_many_weights_give_l1():
    mu, rho = np.array([-1.0, 0.0, 0.2]), 0.5
    prices = [Laplace(lam).penalty(mu) * rho / np.sqrt(lam) for lam in (1e4, 1e8, 1e12)]
    errors = np.abs(np.array(prices) - L1(rho).penalty(mu))
    assert np.all(np.diff(errors) < 0) and errors[-1] < 1e-4


def test_hyper_parameters():
    with pytest.raises(ValueError, match=r"Laplace needs lam > 0 and finite, got lam=-1.0; "):
        Laplace(lam=-1.0).check()
    assert Laplace(2.0).kernel_args() == ("normal_gamma", (1.0, 2.0))
