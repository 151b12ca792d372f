from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gamma, kv

from maxendnet.priors import Laplace, NormalGamma


@pytest.mark.parametrize("a", [0.1, 0.5, 1.0, 7.0])
@pytest.mark.parametrize("fraction", [0.0, -0.01, 0.3, 0.9])
def test_density_of_the_docstring(tilted, a, fraction):
    lam, prior = 2.0, NormalGamma(a, 2.0)
    rate = np.sqrt(lam)

    def density(w):
        x = rate * np.abs(w)
        return np.sqrt(lam / np.pi) / gamma(a) * (x / 2) ** (a - 0.5) * kv(a - 0.5, x)

    eta = np.array([fraction * rate])
    expected = tilted(density, eta[0], limit=600 / rate, depth=400.0 if a < 0.5 else 60.0)
    assert_allclose(prior.cumulant(eta), expected.cumulant, rtol=1e-9, atol=1e-10)
    assert_allclose(prior.mean(eta), expected.mean, rtol=1e-9, atol=1e-10)
    assert_allclose(prior.variance(eta), expected.variance, rtol=1e-9)
    assert_allclose(prior.sign(eta), expected.sign, rtol=1e-9, atol=1e-10)


def test_a_tiny_shape_leaves_most_signs_open():
    # a = 0.001: the mixing density is almost all at 0, where both signs are equally likely.
    prior, eta = NormalGamma(1e-3, 1.0), np.array([0.5, 0.999])
    draws = np.sign(prior.sample(eta, 200_000, np.random.default_rng(0)))
    # Draws below the smallest float round to 0, equally often for both signs.
    assert_allclose(prior.sign(eta), draws.mean(axis=0), atol=5 / np.sqrt(200_000))
    assert np.all(prior.sign(eta) < 0.01)


def test_a_large_shape_is_gaussian():
    # The sum of many: variance 2 a / lam = 1, and phi tends to eta^2 / 2.
    assert_allclose(NormalGamma(1e8, 2e8).cumulant([1.5]), 1.125, rtol=1e-6)


def test_shape_one_is_laplace():
    eta = np.array([-1.0, 0.2, 1.3])
    for name in ("cumulant", "mean", "variance", "penalty", "gradient", "sign"):
        assert_allclose(getattr(NormalGamma(1.0, 2.0), name)(eta), getattr(Laplace(2.0), name)(eta), rtol=1e-14)


def test_same_mean_as_laplace_with_other_constants():
    # Dividing the objective by a: NormalGamma(a, lam) with C is Laplace(lam / a^2) with C / a.
    a, lam, mu = 0.3, 2.0, np.array([-1.0, 0.1, 4.0])
    assert_allclose(NormalGamma(a, lam).penalty(mu) / a, Laplace(lam / a**2).penalty(mu), rtol=1e-13)


def test_hyper_parameters():
    with pytest.raises(ValueError, match="NormalGamma needs a > 0 and finite, got a=0; "):
        NormalGamma(a=0).check()
    with pytest.raises(ValueError, match="NormalGamma needs lam > 0 and finite, got lam=-2"):
        NormalGamma(lam=-2).check()
    assert NormalGamma(0.5, 2.0).kernel_args() == ("normal_gamma", (0.5, 2.0))
