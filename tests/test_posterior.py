from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from maxendnet.posterior import NoPosteriorError, PointEstimate, Posterior, VariationalPosterior
from maxendnet.priors import Exponential, Gaussian, Laplace, NormalInverseGaussian, SpikeSlab, Uniform

ETA = np.array([-0.9, 0.0, 0.2, 0.7])
PRIORS = [Gaussian(2.0, 0.3), Laplace(1.0), NormalInverseGaussian(), SpikeSlab(0.1), Exponential(), Uniform(3.0)]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_posterior_is_its_prior_at_eta(prior):
    posterior = Posterior(prior, ETA)
    assert_array_equal(posterior.mean, prior.mean(ETA))
    assert_array_equal(posterior.variance, prior.variance(ETA))
    assert_array_equal(posterior.relevance, np.abs(prior.sign(ETA)))
    assert_allclose(posterior.kl, prior.penalty(posterior.mean), rtol=1e-12)
    assert posterior.kind == "exact"


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_kl_is_the_expected_log_ratio(prior):
    # log q/p0 = eta . w - phi(eta), averaged over draws of q.
    posterior = Posterior(prior, ETA)
    ratio = posterior.sample(50_000, random_state=0) @ ETA - prior.cumulant(ETA)
    assert abs(ratio.mean() - posterior.kl) < 5 * ratio.std() / np.sqrt(50_000)


def test_nothing_learned_costs_nothing():
    assert Posterior(Exponential(3.0), np.zeros(4)).kl == 0.0
    assert Posterior(Laplace(), np.zeros(4)).relevance.tolist() == [0.0] * 4


def test_kl_outside_the_domain_is_infinite():
    assert Posterior(Laplace(1.0), np.array([0.5, 1.0])).kl == np.inf
    assert Posterior(NormalInverseGaussian(1.0), np.array([0.5, 1.0])).kl == np.inf


def test_full_covariance():
    S = np.array([[1.0, 0.5], [0.5, 2.0]])
    posterior = Posterior(Gaussian(S, np.ones(2)), np.array([1.0, -1.0]))
    assert_allclose(posterior.kl, 0.5 * (1 - 2 * 0.5 + 2))
    assert_allclose(posterior.variance, [1.0, 2.0])


@pytest.mark.parametrize(
    "posterior",
    [Posterior(Laplace(), ETA), VariationalPosterior(ETA, np.ones(4), 1.0)],
    ids=["exact", "variational"],
)
def test_draws(posterior):
    assert posterior.sample(3, random_state=0).shape == (3, 4)
    assert posterior.sample().shape == (1, 4)
    assert posterior.sample(0).shape == (0, 4)
    assert_array_equal(posterior.sample(3, random_state=5), posterior.sample(3, random_state=np.random.default_rng(5)))
    rng = np.random.default_rng(5)
    assert not np.array_equal(posterior.sample(3, rng), posterior.sample(3, rng))


def test_variational_posterior_is_gaussian():
    mean, variance = np.array([-1.0, 0.0, 3.0]), np.array([0.25, 1.0, 4.0])
    posterior = VariationalPosterior(mean, variance, kl=1.5)
    w = posterior.sample(100_000, random_state=0)
    assert_allclose(w.mean(axis=0), mean, atol=5 * 2 / np.sqrt(100_000))
    assert_allclose(w.var(axis=0), variance, rtol=0.03)
    assert_allclose(posterior.relevance, np.abs(2 * norm.cdf(mean / np.sqrt(variance)) - 1), rtol=1e-12)
    assert (posterior.kl, posterior.kind) == (1.5, "variational")
    assert repr(posterior) == "VariationalPosterior(n_weights=3, kl=1.5)"


@pytest.mark.parametrize("name", ["variance", "sample", "kl", "relevance"])
def test_point_estimate_says_what_it_is(name):
    estimate = PointEstimate(np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match=f"point estimate and has no {name}; M3N, LapMEDN and MaxEnDNet"):
        getattr(estimate, name)
    with pytest.raises(AttributeError):
        getattr(estimate, name)
    assert not hasattr(estimate, name)


def test_point_estimate():
    estimate = PointEstimate(np.array([1.0, 0.0]))
    assert estimate.mean.tolist() == [1.0, 0.0] and estimate.kind == "point"
    with pytest.raises(AttributeError) as error:
        _ = estimate.median
    assert not isinstance(error.value, NoPosteriorError)
    assert repr(estimate) == "PointEstimate(n_weights=2)"


@pytest.mark.parametrize(
    "posterior",
    [Posterior(Laplace(2.0), ETA), VariationalPosterior(ETA, np.ones(4), 1.0), PointEstimate(ETA)],
    ids=["exact", "variational", "point"],
)
def test_copies_and_pickles(posterior):
    for twin in (copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior))):
        assert_array_equal(twin.mean, posterior.mean)
        assert twin.kind == posterior.kind


def test_posterior_cannot_be_changed():
    with pytest.raises(AttributeError):
        Posterior(Laplace(), ETA).eta = np.zeros(4)
