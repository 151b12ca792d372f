from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet.priors import Uniform


@pytest.mark.parametrize("a", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("z", [0.0, 1e-3, -0.99, 1.01, 30.0])
def test_density_of_the_docstring(tilted, a, z):
    prior, eta = Uniform(a), np.array([z / a])
    expected = tilted(lambda w: np.full_like(w, 1 / (2 * a)), eta[0], limit=a)
    assert_allclose(prior.cumulant(eta), expected.cumulant, rtol=1e-8, atol=1e-13)
    assert_allclose(prior.mean(eta), expected.mean, rtol=1e-10, atol=1e-13 * a)
    assert_allclose(prior.variance(eta), expected.variance, rtol=1e-10)
    assert_allclose(prior.sign(eta), expected.sign, rtol=1e-10, atol=1e-13)


def test_series_near_zero():
    z = np.array([1e-9, 1e-4, 1e-2])
    prior = Uniform(1.0)
    assert_allclose([prior.cumulant([x]) for x in z], z**2 / 6 - z**4 / 180 + z**6 / 2835, rtol=1e-14, atol=0)
    assert_allclose(prior.mean(z), z / 3 - z**3 / 45 + 2 * z**5 / 945, rtol=1e-14, atol=0)
    assert_allclose(prior.variance(z), 1 / 3 - z**2 / 15 + 2 * z**4 / 189, rtol=1e-14)


@pytest.mark.parametrize("name", ["mean", "variance", "cumulant"])
def test_the_two_branches_meet(name):
    below, above = np.array([np.nextafter(1.0, 0.0)]), np.array([1.0])
    assert_allclose(getattr(Uniform(1.0), name)(below), getattr(Uniform(1.0), name)(above), rtol=1e-14)


def test_huge_eta():
    prior, eta = Uniform(2.0), np.array([1e3, 1e10, 1e100])
    assert_allclose(prior.mean(eta), 2 - 1 / eta, rtol=1e-15)
    assert_allclose(prior.variance(eta), eta**-2.0, rtol=1e-14)
    assert_allclose(prior.cumulant([1e3]), 2e3 - np.log(4e3), rtol=1e-15)


def test_inversion_up_to_the_border():
    prior = Uniform(1.0)
    gap = 2.0 ** -np.arange(5, 53)
    # Close to the border the mean is 1 - 1/eta (the rest is exp(-2 eta)) and the penalty log(2 eta) - 1.
    assert_allclose(prior.gradient(1 - gap), 1 / gap, rtol=1e-13)
    assert_allclose([prior.penalty([1 - g]) for g in gap], np.log(2 / gap) - 1, rtol=1e-13)
    assert prior.gradient([1.0, -1.0, 3.0]).tolist() == [np.inf, -np.inf, np.inf]
    assert prior.penalty([0.0, 1.0]) == np.inf


def test_inversion_of_many_at_once():
    mu = np.random.default_rng(0).uniform(-3, 3, 100_000)
    assert_allclose(Uniform(3.0).mean(Uniform(3.0).gradient(mu)), mu, rtol=1e-13, atol=1e-16)


def test_draws_stay_in_the_box():
    eta = np.array([0.0, 1e-310, -1e-12, 3.0, -1e100, 1e308])
    w = Uniform(2.0).sample(eta, 5000, np.random.default_rng(0))
    assert np.all(np.abs(w) <= 2.0)
    assert_allclose(np.std(w[:, :3], axis=0), 2 / np.sqrt(3), rtol=0.05)
    assert_allclose(w[:, 4:], [[-2.0, 2.0]] * 5000)


def test_hyper_parameters():
    with pytest.raises(ValueError, match="Uniform needs a > 0 and finite, got a=-3; "):
        Uniform(-3).check()
    assert Uniform(3).kernel_args() == ("uniform", (3.0,))
