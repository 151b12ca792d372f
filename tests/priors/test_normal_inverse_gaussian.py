from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.special import erf, k1e

from maxendnet.priors import NormalInverseGaussian


@pytest.mark.parametrize(("A", "d"), [(1.0, 1.0), (5.0, 0.01), (0.1, 3.0), (8.0, 4.0)])
@pytest.mark.parametrize("fraction", [0.0, -0.01, 0.3, 0.95])
def test_density_of_the_docstring(tilted, A, d, fraction):
    def density(w):
        r = np.hypot(d, w)
        return A * d / (np.pi * r) * np.exp(A * d - A * r) * k1e(A * r)

    prior, eta = NormalInverseGaussian(A, d), np.array([fraction * A])
    expected = tilted(density, eta[0], limit=700 / A)
    assert_allclose(prior.cumulant(eta), expected.cumulant, rtol=1e-9, atol=1e-11)
    assert_allclose(prior.mean(eta), expected.mean, rtol=1e-9, atol=1e-11)
    assert_allclose(prior.variance(eta), expected.variance, rtol=1e-9)
    assert_allclose(prior.sign(eta), expected.sign, atol=1e-9)


@pytest.mark.parametrize(("A", "d"), [(1.0, 1.0), (2.0, 1e-4), (1.0, 1000.0), (30.0, 10.0)])
@pytest.mark.parametrize("fraction", [1e-6, 0.01, 0.3, 0.999999])
def test_sign_is_the_scale_mixture(A, d, fraction):
    # E[erf(eta sqrt(tau / 2))] over tau = m exp(x), whose density is sqrt(o / 2 pi) exp(-x/2 - o (cosh x - 1)).
    eta = fraction * A
    g = np.sqrt((A - eta) * (A + eta))
    m, o = d / g, d * g
    spread = 2 * np.arcsinh(20 / np.sqrt(o))
    x = np.linspace(-spread, spread + (60 if o < 1 else 0), 200_001)
    density = np.sqrt(o / (2 * np.pi)) * np.exp(-x / 2 - 2 * o * np.sinh(x / 2) ** 2)
    expected = trapezoid(density * erf(eta * np.sqrt(m / 2) * np.exp(x / 2)), x)
    assert_allclose(NormalInverseGaussian(A, d).sign([eta, -eta]), [expected, -expected], atol=1e-9)


def test_small_values_keep_their_digits():
    prior = NormalInverseGaussian(A=2.0, d=3.0)
    assert_allclose(prior.cumulant([1e-9]), 3 * 1e-18 / 4, rtol=1e-14, atol=0)  # d eta^2 / (2 A)
    assert_allclose(prior.penalty([1e-9]), 2 * 1e-18 / 6, rtol=1e-14, atol=0)  # A mu^2 / (2 d)


def test_border():
    prior = NormalInverseGaussian(A=2.0, d=3.0)
    # The prior's tails are exp(-A |w|) |w|^(-3/2): integrable after the tilt, but without a mean.
    assert prior.cumulant([2.0]) == 6.0
    assert prior.cumulant([np.nextafter(2.0, 3.0)]) == np.inf
    assert prior.mean([2.0, -2.0]).tolist() == [np.inf, -np.inf]
    with pytest.raises(ValueError, match=r"has a posterior only for \|eta\| < A, got eta\[1\]=2.0"):
        prior.sample([0.0, 2.0], 1, np.random.default_rng(0))


def test_draws_next_to_the_border_are_finite():
    w = NormalInverseGaussian(1.0, 1.0).sample(np.full(1000, 1 - 1e-15), 10, np.random.default_rng(0))
    assert np.all(np.isfinite(w))
    assert np.mean(w > 0) > 0.7  # sign 0.79


def test_huge_means():
    prior = NormalInverseGaussian(A=2.0, d=3.0)
    assert_allclose(prior.penalty([-1e100]), 2e100, rtol=1e-14)
    assert_allclose(prior.gradient([-1e100]), -2.0, rtol=1e-14)


def test_hyper_parameters():
    for name in ("A", "d"):
        with pytest.raises(ValueError, match=f"NormalInverseGaussian needs {name} > 0 and finite, got {name}=-1; "):
            NormalInverseGaussian(**{name: -1}).check()
    assert NormalInverseGaussian(2, 3).kernel_args() == ("normal_inverse_gaussian", (2.0, 3.0))
