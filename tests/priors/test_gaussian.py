from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from maxendnet.priors import Gaussian

S = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
M = np.array([1.0, 0.0, -2.0])
X = np.array([0.3, -1.0, 2.0])


def test_full_covariance():
    prior = Gaussian(S, M)
    prior.check()
    assert_allclose(prior.cumulant(X), M @ X + X @ S @ X / 2)
    assert_allclose(prior.mean(X), M + S @ X)
    assert_allclose(prior.variance(X), np.diag(S))
    assert_allclose(prior.penalty(X), (X - M) @ np.linalg.inv(S) @ (X - M) / 2)
    assert_allclose(prior.gradient(X), np.linalg.inv(S) @ (X - M))
    assert not hasattr(prior, "kernel_args")


def test_full_covariance_of_draws():
    w = Gaussian(S, M).sample(X, 200_000, np.random.default_rng(0))
    assert_allclose(np.cov(w.T), S, atol=0.03)
    assert_allclose(w.mean(axis=0), M + S @ X, atol=0.02)


@pytest.mark.parametrize("name", ["cumulant", "mean", "variance", "penalty", "gradient", "sign"])
def test_three_ways_to_say_the_same(name):
    expected = getattr(Gaussian(2.0, 1.0), name)(X)
    for variance in (np.full(3, 2.0), 2 * np.eye(3)):
        assert_allclose(getattr(Gaussian(variance, np.ones(3)), name)(X), expected, rtol=1e-14)


def test_density_of_the_docstring(tilted):
    prior, eta = Gaussian(2.0, -0.7), np.array([0.9])
    expected = tilted(lambda w: np.exp(-((w + 0.7) ** 2) / 4) / np.sqrt(4 * np.pi), 0.9, limit=40.0)
    assert_allclose(prior.cumulant(eta), expected.cumulant, rtol=1e-10)
    assert_allclose(prior.sign(eta), expected.sign, rtol=1e-10)


def test_names_of_parameters_and_methods_live_together():
    prior = Gaussian(variance=2.0, mean=0.5)
    assert prior.get_params() == {"variance": 2.0, "mean": 0.5}
    assert prior.set_params(mean=1.0) is prior
    assert prior.mean([0.0]).tolist() == [1.0] and prior.variance([0.0]).tolist() == [2.0]
    assert repr(prior) == "Gaussian(mean=1.0, variance=2.0)"
    with pytest.raises(ValueError, match="Gaussian has the parameters variance and mean, got 'lam'"):
        prior.set_params(lam=1.0)


def test_a_new_covariance_is_noticed():
    prior = Gaussian(S)
    prior.penalty(X)
    prior.set_params(variance=4 * S)
    assert_allclose(prior.penalty(X), Gaussian(4 * S).penalty(X), rtol=1e-13)
    for copy in (clone(prior), pickle.loads(pickle.dumps(prior))):
        assert_array_equal(copy.gradient(X), prior.gradient(X))


def test_a_covariance_changed_in_place_is_noticed_by_check():
    matrix = S.copy()
    prior = Gaussian(matrix)
    prior.penalty(X)
    matrix *= 4
    prior.check()
    assert_allclose(prior.penalty(X), Gaussian(4 * S).penalty(X), rtol=1e-13)


def test_kernel_arguments():
    assert Gaussian(2, 0).kernel_args() == ("gaussian", (2.0, 0.0))
    kind, (variance, mean) = Gaussian([1, 2, 3], 0.5).kernel_args()
    assert (kind, variance.dtype, mean) == ("gaussian", np.float64, 0.5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"variance": 0.0}, "needs variance > 0, got 0.0"),
        ({"variance": np.array([1.0, -1.0])}, "needs variance > 0, got -1.0"),
        ({"variance": np.ones((2, 3))}, r"needs a symmetric covariance, got shape \(2, 3\)"),
        ({"variance": np.array([[1.0, 0.5], [0.0, 1.0]])}, "needs a symmetric covariance"),
        ({"variance": np.array([[1.0, 2.0], [2.0, 1.0]])}, "needs a positive definite covariance"),
        ({"variance": np.ones((2, 2, 2))}, "finite numbers as variance, at most 2-dimensional"),
        ({"variance": np.empty(0)}, "finite numbers as variance"),
        ({"mean": np.eye(2)}, "finite numbers as mean, at most 1-dimensional"),
        ({"variance": np.ones(2), "mean": np.ones(3)}, "got 2 variances and 3 means"),
    ],
)
def test_hyper_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(**params).check()


@pytest.mark.parametrize("prior", [Gaussian(np.ones(2)), Gaussian(np.eye(2)), Gaussian(1.0, np.zeros(2))])
@pytest.mark.parametrize("name", ["cumulant", "mean", "variance", "penalty", "gradient", "sign"])
def test_a_wrong_number_of_weights(prior, name):
    with pytest.raises(ValueError, match=r"Gaussian has (variance|mean) for 2 weights, got a vector of shape \(3,\)"):
        getattr(prior, name)(X)
