from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet.priors import Gaussian, SpikeSlab


@pytest.mark.parametrize(("p", "v"), [(0.5, 1.0), (0.01, 4.0)])
@pytest.mark.parametrize("eta", [0.0, -0.4, 1.5])
def test_density_of_the_docstring(tilted, p, v, eta):
    prior = SpikeSlab(p, v)
    slab = tilted(lambda w: np.exp(-(w**2) / (2 * v)) / np.sqrt(2 * np.pi * v), eta, limit=30 * np.sqrt(v))
    mass = 1 - p + p * np.exp(slab.cumulant)
    included = p * np.exp(slab.cumulant) / mass
    x = np.array([eta])
    assert_allclose(prior.cumulant(x), np.log(mass), rtol=1e-9, atol=1e-12)
    assert_allclose(prior.inclusion(x), included, rtol=1e-9)
    assert_allclose(prior.mean(x), included * slab.mean, rtol=1e-9, atol=1e-12)
    second = included * (slab.variance + slab.mean**2)
    assert_allclose(prior.variance(x), second - (included * slab.mean) ** 2, rtol=1e-9)
    assert_allclose(prior.sign(x), included * slab.sign, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", [1e-300, 1e-12, 1e-3, 0.5, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("v", [1e-8, 1.0, 1e8])
def test_inversion_over_two_hundred_orders_of_magnitude(p, v):
    prior = SpikeSlab(p, v)
    mu = np.concatenate([-np.logspace(-100, 100, 2001), [0.0], np.logspace(-100, 100, 2001)])
    eta = prior.gradient(mu)
    # Where the slab takes over, the mean moves 1 + v eta^2 (1 - inclusion) times faster than eta, in relative terms.
    steep = 1 + v * eta**2 * (1 - prior.inclusion(eta))
    assert np.all(np.abs(prior.mean(eta) - mu) <= 1e-14 * steep * np.abs(mu))
    assert np.isfinite(prior.penalty(mu))


def test_everything_in_is_gaussian():
    eta = np.array([-30.0, -1.0, 1e-9, 2.0, 50.0])
    for name in ("cumulant", "mean", "variance", "penalty", "gradient", "sign"):
        assert_allclose(getattr(SpikeSlab(1.0, 2.5), name)(eta), getattr(Gaussian(2.5), name)(eta), rtol=1e-13)


def test_small_and_large_values_keep_their_digits():
    prior = SpikeSlab(p=1e-10, v=2.0)
    assert_allclose(prior.cumulant([1e-9]), 1e-28, rtol=1e-9, atol=0)  # p v eta^2 / 2
    assert_allclose(prior.cumulant([2.0]), 1e-10 * np.expm1(4.0), rtol=1e-8, atol=0)
    # On both sides of the switch at v eta^2 / 2 = 700.
    for x in (699.0, 701.0, 1e6):
        assert_allclose(prior.cumulant([np.sqrt(x)]), x + np.log(1e-10), rtol=1e-13)


def test_excluded_weights_are_exactly_zero():
    prior, eta = SpikeSlab(0.2, 1.0), np.array([0.0, 1.0])
    share = np.mean(prior.sample(eta, 20_000, np.random.default_rng(0)) != 0, axis=0)
    assert_allclose(share, prior.inclusion(eta), atol=5 * 0.5 / np.sqrt(20_000))


def test_hyper_parameters():
    for p in (0.0, -0.1, 1.1):
        with pytest.raises(ValueError, match=f"SpikeSlab needs 0 < p <= 1, got p={p}; "):
            SpikeSlab(p=p).check()
    with pytest.raises(ValueError, match="SpikeSlab needs v > 0 and finite, got v=0; "):
        SpikeSlab(v=0).check()
    assert SpikeSlab(1, 2).kernel_args() == ("spike_slab", (1.0, 2.0))
