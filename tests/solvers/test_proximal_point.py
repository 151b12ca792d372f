"""Proximal points for L1-M3N: exact zeros, a certificate, and both forms of the problem."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from systems import labelled_chains

from maxendnet import L1M3N
from maxendnet.solvers import BlockFrankWolfe, ProximalPoint
from maxendnet.solvers.proximal_point import ProximalL1
from maxendnet.solvers.reference.constraint_generation import ConstraintGeneration

X, Y = labelled_chains()


def test_the_optimum_is_that_of_the_linear_programme():
    model = L1M3N(C=0.7, solver=ProximalPoint(), tol=1e-2, random_state=0).fit(X, Y)
    exact = L1M3N(C=0.7, solver=ConstraintGeneration(), tol=1e-6).fit(X, Y)
    assert model.converged_ and model.gap_ <= 1e-2
    assert model.dual_ <= exact.objective_ * (1 + 1e-6) and exact.dual_ <= model.objective_ * (1 + 1e-6)


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


def test_options_of_the_inner_solver():
    """``inner`` steps and sampling are those of `BlockFrankWolfe`; the result is the same for any number of threads."""
    solver = ProximalPoint(inner=BlockFrankWolfe(inner=0, sampling="uniform"))
    fits = [L1M3N(C=0.5, solver=solver, tol=0.1, random_state=0, n_jobs=n).fit(X, Y) for n in (1, 2)]
    assert_array_equal(fits[0].model_.weights, fits[1].model_.weights)
    with pytest.raises(ValueError, match="sampling must be 'gap' or 'uniform'"):
        L1M3N(solver=ProximalPoint(inner=BlockFrankWolfe(sampling="often"))).fit(X, Y)


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
