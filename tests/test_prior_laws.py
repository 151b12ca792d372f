"""Properties of all exported priors with a cumulant, independent of their formulas."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from maxendnet import Examples, MaxEnDNet, priors, solvers
from maxendnet.piece import Piece
from maxendnet.solvers.base import missing

K = 6
DIRECTION = np.array([1.0, -1.0, 0.7, -0.3, 0.05, 0.0])
FRACTIONS = (0.0, 1e-3, 0.1, 0.5, 0.9, 0.999)  # of the way to the border of the domain


def covariance() -> np.ndarray:
    root = np.random.default_rng(3).normal(size=(K, K))
    return root @ root.T + 0.1 * np.eye(K)


# Hyper-parameters worth a visit; a prior that is not listed is tested with its defaults.
SETTINGS = {
    "Gaussian": [
        {},
        {"variance": 3.0, "mean": -0.5},
        {"variance": np.linspace(0.1, 2.0, K), "mean": np.arange(K) - 2.0},
        {"variance": covariance()},
        {"variance": covariance(), "mean": np.arange(K) - 2.0},
    ],
    "Laplace": [{}, {"lam": 1e-6}, {"lam": 50.0}],
    "NormalGamma": [{}, {"a": 0.1, "lam": 2.0}, {"a": 30.0, "lam": 0.5}],
    "NormalInverseGaussian": [{}, {"A": 0.05, "d": 2.0}, {"A": 20.0, "d": 0.01}],
    "SpikeSlab": [{}, {"p": 1e-3, "v": 2.0}, {"p": 0.9, "v": 0.1}, {"p": 1.0, "v": 1.5}],
    "Exponential": [{}, {"lam": 0.02}, {"lam": 30.0}],
    "Uniform": [{}, {"a": 0.01}, {"a": 40.0}],
    "Logistic": [{}, {"b": 0.03}, {"b": 20.0}],
}


def prior_of_the_docs() -> type:
    """Return the class of the page on adding a prior."""
    page = (Path(__file__).parents[1] / "docs" / "extend" / "prior.md").read_text()
    names = {"__name__": __name__}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), names)
    return names["Logistic"]


def defined_priors() -> set[type]:
    """Return the priors of all modules of the package, exported or not."""
    modules = [
        importlib.import_module(f"{priors.__name__}.{item.name}") for item in pkgutil.iter_modules(priors.__path__)
    ]
    members = [member for module in modules for member in vars(module).values()]
    return {
        member
        for member in members
        if isinstance(member, type)
        and issubclass(member, Piece)
        and member.__module__.startswith(priors.__name__)
        and member.__module__ != f"{priors.__name__}.base"
    }


def exact_priors():
    classes = sorted((c for c in defined_priors() if hasattr(c, "cumulant")), key=lambda c: c.__name__)
    for cls in [*classes, prior_of_the_docs()]:
        for number, setting in enumerate(SETTINGS.get(cls.__name__, [{}])):
            yield pytest.param(cls(**setting), id=f"{cls.__name__}-{number}")


CASES = list(exact_priors())
every_prior = pytest.mark.parametrize("prior", CASES)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def reach(prior) -> float:
    """Return the length along DIRECTION up to which the cumulant is finite, at most 8 standard deviations."""
    high = 8.0 / np.sqrt(np.max(prior.variance(np.zeros(K))))
    if np.isfinite(prior.cumulant(high * DIRECTION)):
        return high
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.isfinite(prior.cumulant(middle * DIRECTION)) else (low, middle)
    return low


def points(prior):
    """Yield dual points from 0 to near the border, each with a step that stays inside the domain."""
    far = reach(prior)
    for fraction in FRACTIONS:
        yield fraction * far * DIRECTION, 1e-5 * far * (1 - fraction)


def differences(function, x, step):
    """Return central differences of a function of vectors, for every coordinate."""
    return np.array([(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(K)])


def test_every_prior_is_exported():
    assert {cls.__name__ for cls in defined_priors()} == set(priors.__all__) - {"Prior", "ExactPrior"}
    assert all(getattr(priors, cls.__name__) is cls for cls in defined_priors())


def test_the_exported_priors_are_all_here():
    names = {type(case.values[0]).__name__ for case in CASES}
    assert names >= {"Gaussian", "Laplace", "NormalGamma", "NormalInverseGaussian", "SpikeSlab"}
    assert names >= {"Exponential", "Uniform", "Logistic"}


@every_prior
def test_fenchel_young_equality(prior):
    for eta, _ in points(prior):
        mu = prior.mean(eta)
        assert_allclose(prior.cumulant(eta) + prior.penalty(mu), eta @ mu, rtol=1e-9, atol=1e-13)


@every_prior
def test_fenchel_young_inequality(prior):
    rng = np.random.default_rng(0)
    far = reach(prior)
    for _ in range(30):
        eta, dual = far * rng.uniform(-0.99, 0.99, (2, K)) * np.abs(DIRECTION)
        mu = prior.mean(dual)
        assert prior.cumulant(eta) + prior.penalty(mu) > eta @ mu


@pytest.mark.parametrize("variance", [2.0, np.array([0.5, 2.0, 1e-3]), np.diag([1.0, 2.0, 3.0]) + 0.5])
def test_the_gap_of_fenchel_and_young_as_one_square(variance):
    prior, rng = priors.Gaussian(variance, np.array([0.1, -1.0, 3.0])), np.random.default_rng(0)
    eta, mu = rng.normal(size=(2, 3))
    gap = prior.fenchel_gap(mu, eta)
    assert_allclose(gap, prior.penalty(mu) + prior.cumulant(eta) - mu @ eta, rtol=1e-10)
    # near equality too, where the three terms would leave nothing but rounding
    near = prior.mean(eta) + 1e-9 * (mu - prior.mean(eta))
    assert_allclose(prior.fenchel_gap(near, eta), 1e-18 * gap, rtol=1e-5)


@every_prior
def test_prior_costs_nothing_at_its_own_mean(prior):
    nothing = np.zeros(K)
    assert prior.cumulant(nothing) == 0
    assert_allclose(prior.penalty(prior.mean(nothing)), 0, atol=1e-15)


@every_prior
def test_mean_is_the_derivative_of_the_cumulant(prior):
    for eta, step in points(prior):
        scale = np.sqrt(prior.variance(eta))
        assert_allclose(prior.mean(eta), differences(prior.cumulant, eta, step), rtol=1e-5, atol=1e-6 * np.max(scale))


@every_prior
def test_variance_is_the_derivative_of_the_mean(prior):
    for eta, step in points(prior):
        slopes = differences(prior.mean, eta, step)
        assert_allclose(prior.variance(eta), np.diagonal(slopes), rtol=1e-5)


@every_prior
def test_gradient_inverts_the_mean(prior):
    far = reach(prior)
    for eta, _ in points(prior):
        assert_allclose(prior.gradient(prior.mean(eta)), eta, rtol=1e-9, atol=1e-10 * far)


@every_prior
def test_gradient_is_the_derivative_of_the_penalty(prior):
    for eta, _ in points(prior):
        mu = prior.mean(eta)
        step = 1e-5 * np.sqrt(np.min(prior.variance(eta)))
        scale = 1.0 / np.sqrt(np.min(prior.variance(eta)))
        assert_allclose(prior.gradient(mu), differences(prior.penalty, mu, step), rtol=1e-4, atol=1e-4 * scale)


BOUNDED = [case for case in CASES if hasattr(case.values[0], "quadratic_bound")]


def test_the_priors_with_a_quadratic_bound():
    names = {type(case.values[0]).__name__ for case in BOUNDED}
    assert names == {"Gaussian", "Laplace", "NormalGamma", "NormalInverseGaussian"}


@pytest.mark.parametrize("bounded", BOUNDED)
def test_the_quadratic_bound_touches_the_penalty_and_is_nowhere_below(bounded):
    prior = bounded
    rng = np.random.default_rng(0)
    scale = np.sqrt(np.max(prior.variance(np.zeros(K))))
    for size in (0.0, 1e-6, 1.0, 1e3):
        mu = size * scale * rng.normal(size=K)
        bound = prior.quadratic_bound(mu)
        assert_allclose(bound.gradient(mu), prior.gradient(mu), rtol=1e-9, atol=1e-12)
        for step in (1e-3, 1.0, 1e3):
            others = rng.permutation(np.concatenate([mu[:3] + step * scale * rng.normal(size=3), -mu[3:]]))
            rise = prior.penalty(others) - prior.penalty(mu)
            bound_rise = bound.penalty(others) - bound.penalty(mu)
            assert rise <= bound_rise + 1e-9 * (prior.penalty(others) + prior.penalty(mu) + abs(bound_rise))


@every_prior
@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9])
def test_draws_follow_the_posterior(prior, fraction):
    n, eta = 40_000, fraction * reach(prior) * DIRECTION
    w = prior.sample(eta, n, np.random.default_rng(7))
    assert w.shape == (n, K) and w.dtype == np.float64
    mean, variance, sign = prior.mean(eta), prior.variance(eta), prior.sign(eta)

    def within(draws, expected, rare=0.0):
        # Five standard errors, measured on the draws themselves, plus what ten unseen rare draws may hide.
        error = 5 * np.std(draws, axis=0) / np.sqrt(n) + 10 * rare / n
        assert np.all(np.abs(np.mean(draws, axis=0) - expected) <= error + 1e-12 * np.abs(expected))

    within(w, mean)
    within((w - mean) ** 2, variance)
    within(np.sign(w), sign, rare=np.where(np.abs(sign) < 1, 2.0, 0.0))
    # The moment generating function sees more than two moments; towards the prior it exists and its tail is light.
    back = -np.sign(eta) * np.minimum(np.abs(eta), 0.5 / np.sqrt(variance))
    expected = [prior.cumulant(eta + back * unit) - prior.cumulant(eta) for unit in np.eye(K)]
    within(np.exp(back * w), np.exp(expected))


@every_prior
def test_draws_come_from_the_generator_alone(prior):
    eta = 0.5 * reach(prior) * DIRECTION
    first, second = (prior.sample(eta, 3, np.random.default_rng(1)) for _ in range(2))
    assert_array_equal(first, second)
    assert not np.array_equal(first, prior.sample(eta, 3, np.random.default_rng(2)))


@every_prior
def test_extreme_values_are_never_nan(prior):
    extremes = [0.0, 1e-300, 1e-20, 1e20, 1e100]
    if np.ndim(prior.get_params().get("variance")) < 2:  # a full covariance times infinity is inf - inf
        extremes += [1e200, 1e308, np.inf]
    for extreme in [*extremes, *(-x for x in extremes)]:
        x = np.full(K, extreme)
        assert not np.isnan(prior.cumulant(x)) and not np.isnan(prior.penalty(x)), extreme
        for method in (prior.mean, prior.variance, prior.gradient, prior.sign):
            assert not np.any(np.isnan(method(x))), (extreme, method)
        assert np.all(np.abs(prior.sign(x)) <= 1)
        if abs(extreme) <= 1e100:
            assert prior.penalty(x) == np.inf or np.all(np.isfinite(prior.gradient(x)))


@every_prior
def test_the_domain_is_everything_or_ends_at_infinity(prior):
    beyond = 1.01 * reach(prior) * DIRECTION
    if np.isfinite(prior.cumulant(beyond)):
        assert np.isfinite(prior.cumulant(1e3 * beyond)) and np.all(np.isfinite(prior.mean(1e3 * beyond)))
        return
    assert prior.cumulant(beyond) == np.inf
    assert prior.mean(beyond)[0] == np.inf
    assert prior.variance(beyond)[0] == np.inf
    with pytest.raises(ValueError, match=r"has a posterior only for .* got eta\[0\]="):
        prior.sample(beyond, 1, np.random.default_rng(0))
    # A mean of any size is reached strictly inside.
    assert np.isfinite(prior.cumulant(prior.gradient(np.full(K, 1e100))))


@every_prior
def test_a_sign_grows_with_its_eta(prior):
    path = np.linspace(-0.9, 0.9, 19)[:, None] * reach(prior) * np.abs(DIRECTION)
    for k, unit in enumerate(np.eye(K)):
        assert np.all(np.diff([prior.sign(eta * unit)[k] for eta in path]) >= 0)


@every_prior
def test_scikit_learn_handles_it(prior):
    copy = clone(prior)
    assert copy is not prior and type(copy) is type(prior)
    for name, value in prior.get_params().items():
        assert_array_equal(copy.get_params()[name], value)
        copy.set_params(**{name: 0.123})
        assert copy.get_params()[name] == 0.123
    assert repr(copy).startswith(type(prior).__name__)
    eta = 0.5 * reach(prior) * DIRECTION
    assert_array_equal(clone(prior).mean(eta), prior.mean(eta))


@every_prior
def test_hyper_parameters_are_checked(prior):
    prior.check()
    for name in prior.get_params():
        for wrong in (np.nan, np.inf, "1", None):
            with pytest.raises(ValueError, match=f"{type(prior).__name__} needs .*{name}"):
                clone(prior).set_params(**{name: wrong}).check()


def assert_fitted_without_kernels(prior):
    """Compiled solvers reject a prior without kernel arguments, and an estimator chooses another solver."""
    model = MaxEnDNet(prior, C=0.1, structure="independent", tol=0.1)
    examples, labels = Examples.build(np.eye(3), ["a", "b", "a"]), np.array(["a", "b"])
    problem = model.pose(examples, labels)
    compiled = [solver for solver in solvers.ALL if "prior.kernel_args" in solver().requires]
    assert compiled and all(missing(solver, problem) for solver in compiled)
    assert model.fit(examples).converged_


@every_prior
def test_kernel_arguments_are_plain(prior):
    if not hasattr(prior, "kernel_args"):
        assert_fitted_without_kernels(prior)
        return
    kind, params = prior.kernel_args()
    assert kind in ("gaussian", "normal_gamma", "normal_inverse_gaussian", "spike_slab", "exponential", "uniform")
    for value in params:
        assert type(value) is float or (value.dtype == np.float64 and value.shape == (K,) and value.flags.c_contiguous)
