"""Smoothing: bounds at every evaluation, few examples with a huge C, the choice of the default, warm starts."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from maxendnet import M3N, LapMEDN
from maxendnet.priors import Gaussian, Laplace
from maxendnet.solvers import BlockFrankWolfe, Smoothing, smoothing
from maxendnet.solvers.certificate.dual_mixture import DualPoint, best_mixture


def words(n, seed=0, n_labels=4, noise=1.0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(n_labels, size=rng.integers(2, 7)) for _ in range(n)]
    return [np.eye(n_labels)[labels] + noise * rng.normal(size=(len(labels), n_labels)) for labels in y], y


@pytest.mark.parametrize("model", [M3N(C=3.0), LapMEDN(C=3.0, lam=2.0)], ids=["M3N", "LapMEDN"])
def test_agrees_with_block_frank_wolfe_and_certifies_every_look(model):
    X, y = words(40, noise=0.5)  # prior and losses have similar weight, so that a mistake in either would show
    exact = model.set_params(solver=BlockFrankWolfe(), tol=1e-5, max_passes=20000).fit(X, y)
    low, high = exact.dual_, exact.objective_
    model = model.set_params(solver=Smoothing(), tol=1e-4).fit(X, y)
    assert model.converged_ and model.gap_ <= 1e-4
    for row in model.trace_:
        assert row.dual <= high + 1e-9 * high and row.primal >= low - 1e-9 * high
        assert_allclose(row.gap, (row.primal - row.dual) / row.primal, rtol=1e-9)


def test_few_examples_and_a_huge_C():
    # block coordinates stand at a gap of .15 here after 2,000 passes
    X, y = words(12, noise=0.6)
    model = M3N(C=1e4, solver=Smoothing(), tol=1e-2).fit(X, y)
    assert model.converged_ and model.n_passes_ < 1000


def test_a_large_tol_is_reached_although_the_first_temperature_seems_low_enough():
    # the soft problem was solved to all digits before the temperature fell: 150 passes
    X, y = words(40, noise=0.5)
    assert LapMEDN(C=5.0, lam=2.0, solver=Smoothing(), tol=0.1).fit(X, y).n_passes_ <= 50


def test_warm_start():
    X, y = words(40)
    model = M3N(C=3.0, solver=Smoothing(), tol=1e-2, warm_start=True).fit(X, y)
    first = model.n_passes_
    assert model.set_params(C=3.3).fit(X, y).n_passes_ <= first
    assert model.converged_


@pytest.mark.parametrize("model", [M3N(C=3.0), LapMEDN(C=3.0, lam=2.0)], ids=["M3N", "LapMEDN"])
def test_the_whole_hessian_saves_passes_and_changes_no_bound(model, monkeypatch):
    X, y = words(300, n_labels=5)
    model = model.set_params(solver=Smoothing(), tol=1e-3).fit(X, y)
    seen, own = [], smoothing.whole_curvature
    monkeypatch.setattr(smoothing, "whole_curvature", lambda *asked: seen.append(asked[2]) or own(*asked))
    monkeypatch.setattr(smoothing, "HESSIAN_AFTER", 5)
    monkeypatch.setattr(smoothing, "MIN_GAP_FOR_HESSIAN", 1.0)
    often = clone(model).fit(X, y)
    assert seen and often.converged_
    assert often.n_passes_ <= model.n_passes_
    assert often.dual_ <= model.objective_ and model.dual_ <= often.objective_


@pytest.mark.parametrize("option", [{"first_temperature": 0.0}, {"look_every": 0}])
def test_bad_options(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        M3N(solver=Smoothing(**option)).fit(*words(3))


@given(seed=st.integers(0, 1000), lam=st.sampled_from([0.5, 4.0, 100.0]))
@settings(deadline=None, max_examples=20)
def test_best_mixture_is_as_good_as_cvxpy(seed, lam):
    rng = np.random.default_rng(seed)
    etas, costs = rng.normal(size=(5, 7)), rng.uniform(0, 3, size=5)
    etas[0], costs[0] = 0.0, 0.0
    points = tuple(DualPoint(eta, float(cost)) for eta, cost in zip(etas, costs))
    root = rng.normal(size=(7, 7))
    full = root @ root.T + 0.1 * np.eye(7)
    share = cp.Variable(5, nonneg=True)
    eta = etas.T @ share
    for prior, phi in (
        (Gaussian(), cp.sum_squares(eta) / 2),
        (Gaussian(full), cp.quad_form(eta, full) / 2),
        (Laplace(lam), -cp.sum(cp.log(1 - eta / lam**0.5) + cp.log(1 + eta / lam**0.5))),
    ):
        problem = cp.Problem(cp.Maximize(costs @ share - phi), [cp.sum(share) == 1])
        best = problem.solve(solver=cp.CLARABEL)
        found = best_mixture(prior, points, accuracy=1e-8)
        value = found.cost - prior.cumulant(found.eta)
        assert_allclose(value, best, rtol=1e-5, atol=1e-7)
        assert best_mixture(prior, points).cost - prior.cumulant(best_mixture(prior, points).eta) >= 0


@pytest.mark.parametrize("model", [M3N(C=5.0), LapMEDN(C=5.0, lam=4.0)], ids=["M3N", "LapMEDN"])
def test_a_mixture_is_sought_once_for_a_step(model, monkeypatch):
    seen, best = [], smoothing.best_bound
    monkeypatch.setattr(
        smoothing,
        "best_bound",
        lambda problem, state, points: seen.append(state.n_steps) or best(problem, state, points),
    )
    X, y = words(40)
    model.set_params(solver=Smoothing(), tol=1e-3).fit(X, y)
    assert model.converged_ and len(seen) > 1
    assert len(set(seen)) == len(seen)
