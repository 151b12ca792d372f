"""Proximal points: the optimum and its certificate under every prior, and exact zeros under an L1 penalty."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from systems import labelled_chains

from maxendnet import L1M3N, Gaussian, Laplace, MaxEnDNet, NormalGamma, NormalInverseGaussian
from maxendnet.solvers import BlockFrankWolfe, ProximalPoint
from maxendnet.solvers.proximal_point import ProximalL1
from maxendnet.solvers.reference.constraint_generation import ConstraintGeneration

X, Y = labelled_chains()


def test_the_optimum_is_that_of_the_linear_programme():
    model = L1M3N(C=0.7, solver=ProximalPoint(), tol=1e-2, random_state=0).fit(X, Y)
    exact = L1M3N(C=0.7, solver=ConstraintGeneration(), tol=1e-6).fit(X, Y)
    assert model.converged_ and model.gap_ <= 1e-2
    assert model.dual_ <= exact.objective_ * (1 + 1e-6) and exact.dual_ <= model.objective_ * (1 + 1e-6)


@pytest.mark.parametrize(
    "prior", [Gaussian(0.5, 0.2), Laplace(4.0), NormalGamma(0.5, 2.0), NormalInverseGaussian(1.0, 0.5)], ids=str
)
@pytest.mark.parametrize("C", [0.05, 3.0, 30.0])
def test_the_optimum_is_that_of_block_frank_wolfe(prior, C):
    model = MaxEnDNet(prior, C=C, random_state=0, max_passes=20_000)
    proximal = clone(model).set_params(solver=ProximalPoint(), tol=1e-4).fit(X, Y)
    by_blocks = clone(model).set_params(solver=BlockFrankWolfe(), tol=1e-3).fit(X, Y)
    assert proximal.converged_ and proximal.gap_ <= 1e-4
    assert proximal.dual_ <= by_blocks.objective_ * (1 + 1e-9) and by_blocks.dual_ <= proximal.objective_ * (1 + 1e-9)
    assert proximal.objective_ <= by_blocks.objective_ * (1 + 1e-4)
    lowest = min(proximal.objective_, by_blocks.objective_)
    assert all(row.dual <= lowest * (1 + 1e-9) for row in proximal.trace_)


def test_weights_are_exactly_zero():
    rng = np.random.default_rng(0)
    noise = [np.hstack([np.asarray(x), rng.normal(size=(len(x), 20))]) for x in X]
    model = L1M3N(C=0.1, solver=ProximalPoint(), tol=0.05, random_state=0).fit(noise, Y)
    assert 0 < np.count_nonzero(model.coef_) < model.coef_.size / 2


@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_the_ball_holds(radius):
    model = L1M3N(radius=radius, solver=ProximalPoint(), tol=0.05, random_state=0).fit(X, Y)
    assert np.abs(model.model_.weights).sum() <= radius * (1 + 1e-9)
    assert model.dual_ <= model.objective_


def test_the_result_is_the_same_for_any_number_of_threads():
    solver = ProximalPoint(inner_steps=0)
    fits = [L1M3N(C=0.5, solver=solver, tol=0.1, random_state=0, n_jobs=n).fit(X, Y) for n in (1, 2)]
    assert_array_equal(fits[0].model_.weights, fits[1].model_.weights)


@pytest.mark.parametrize("options", [{"passes": 0}, {"inner_steps": -1}], ids=str)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must"):
        L1M3N(solver=ProximalPoint(**options)).fit(X, Y)


def test_the_proximal_penalty_and_its_mean_are_conjugate():
    rng = np.random.default_rng(0)
    prior = ProximalL1(0.4, 1.5, rng.normal(size=30))
    eta = rng.normal(size=30)
    mu = prior.mean(eta)
    value = lambda w: eta @ w - prior.penalty(w)  # noqa: E731
    assert prior.cumulant(eta) == pytest.approx(value(mu))
    assert all(value(mu + 0.01 * rng.normal(size=30)) <= value(mu) for _ in range(50))


def test_a_warm_start_takes_fewer_passes():
    cold = L1M3N(C=0.6, solver=ProximalPoint(), tol=1e-2, random_state=0).fit(X, Y)
    warm = L1M3N(C=0.55, solver=ProximalPoint(), tol=1e-2, random_state=0, warm_start=True).fit(X, Y)
    warm.set_params(C=0.6).fit(X, Y)
    assert warm.converged_ and warm.n_passes_ <= cold.n_passes_


def test_examples_whose_gap_was_zero_are_visited_after_the_centre_moved():
    """Two examples, solved exactly at the first centre: the fit cycled at a gap of 0.33."""
    tiny = [[[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]], [["b", "b"], ["a", "a"]]
    model = L1M3N(solver=ProximalPoint(), random_state=0).fit(*tiny)
    assert model.converged_ and model.objective_ == pytest.approx(1.5, rel=1e-2)
