"""The subgradient method: its step sizes, and the dual point that it carries along."""

import numpy as np
import pytest
from test_agreement import CASES, model_of

from maxendnet import M3N, Gaussian, Laplace, LapMEDN, MaxEnDNet
from maxendnet.solvers import BlockFrankWolfe, Subgradient, Variational, run
from maxendnet.solvers.subgradient import where_falling

CHAINS = CASES["chains"][0]


def problem_of(prior=None, C=0.7):
    model = MaxEnDNet(prior or Gaussian(), C=C)
    return model.pose(CHAINS, np.unique(CHAINS.y))


@pytest.mark.parametrize("solver", [Subgradient(), Subgradient(step_size="1/t"), Subgradient(beta=0.7)])
def test_a_step_is_a_subgradient_step_of_the_primal(solver):
    """Under a unit Gaussian: from mu to mu - s (mu + C g), with one s for all weights."""
    problem = problem_of()
    state = solver.start(problem)
    for t in range(1, 8):
        mu = state.eta
        _, g = problem.losses(mu)
        state = solver.step(problem, state)
        direction = -(mu + problem.C * g)
        size = (state.eta - mu) @ direction / (direction @ direction)
        assert np.allclose(state.eta, mu + size * direction, atol=1e-12)
        if solver.beta is not None:
            assert size == pytest.approx(min(1.0, 1 / (2 * solver.beta * np.sqrt(t))))
        elif solver.step_size == "1/t":
            assert size == pytest.approx(1 / t)
        else:
            nearby = [problem.dual(mu + s * direction, state_gain(problem, mu, state, s, size))[0] for s in near(size)]
            assert max(nearby) <= problem.dual(state.eta, state.gain)[0] + 1e-12


def near(size):
    return [size * 0.9, min(1.0, size * 1.1)]


def state_gain(problem, mu, state, s, size):
    """What the dual point at another step size would earn; gains are straight along a step."""
    before = (state.gain - size * corner_gain(problem, mu)) / (1 - size) if size < 1 else 0.0
    return (1 - s) * before + s * corner_gain(problem, mu)


def corner_gain(problem, mu):
    loss, g = problem.losses(mu)
    return problem.C * (loss - mu @ g)


def test_1_over_t_is_the_plain_average_of_the_corners():
    problem, solver = problem_of(), Subgradient(step_size="1/t")
    state, corners = solver.start(problem), []
    for _ in range(12):
        corners.append((*state.corner, state.corner_gain))
        state = solver.step(problem, state)
    assert np.allclose((*state.eta, state.gain), np.mean(corners, axis=0), atol=1e-12)


@pytest.mark.parametrize("step_size", ["exact", "1/t"])
def test_steps_stay_inside_the_domain_of_the_prior(step_size):
    problem, solver = problem_of(Laplace(0.05), C=20.0), Subgradient(step_size=step_size)
    state = solver.start(problem)
    for _ in range(50):
        state = solver.step(problem, state)
        assert np.all(np.abs(state.eta) < np.sqrt(0.05)) and np.isfinite(problem.prior.cumulant(state.eta))


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_the_step_sizes_of_the_paper(beta):
    model = M3N(C=0.7, solver=Subgradient(beta=beta), tol=0.01).fit(CHAINS)
    assert model.converged_ and model.which_ in ("last", "average")


def test_average_and_last_are_told_apart():
    problem = problem_of()
    last = run(Subgradient(step_size="1/t", average=False), problem, tol=1e-9, max_passes=30, warn=False)
    better = run(Subgradient(step_size="1/t"), problem, tol=1e-9, max_passes=30, warn=False)
    assert last.which == "last" and better.primal <= last.primal
    assert better.primal == pytest.approx(problem.primal(better.w), rel=1e-12)


@pytest.mark.parametrize("as_method", [True, False])
def test_as_the_inner_solver_of_algorithm_1(as_method):
    """To convergence, the mean of the exact model with four times lam and twice C."""
    few = CHAINS[np.arange(4)]
    exact = LapMEDN(C=0.2, lam=4.0, tol=1e-9).fit(few)
    if as_method:
        model = LapMEDN(C=0.1, lam=1.0, method="variational", solver=Subgradient(), tol=1e-4)
    else:
        model = LapMEDN(C=0.2, lam=4.0, solver=Variational(inner=Subgradient()), tol=1e-4)
    model.fit(few)
    assert model.converged_
    assert np.abs(exact.posterior_.mean).max() > 0.1
    assert np.abs(model.posterior_.mean - exact.posterior_.mean).max() < 1e-3


def test_full_covariance():
    _, problem = model_of("chains", "Gaussian 1 Hinge")
    rough = run(Subgradient(), problem, tol=1e-2)
    assert rough.converged and rough.gap <= 1e-2


def test_agrees_with_block_frank_wolfe_when_C_is_large():
    problem = problem_of(C=10.0)
    exact = run(BlockFrankWolfe(), problem, tol=1e-7, max_passes=20000, seed=0)
    rough = run(Subgradient(), problem, tol=0.05, max_passes=20000)
    assert exact.dual <= rough.primal <= exact.primal * 1.06 and rough.dual <= exact.primal


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (Subgradient(beta=0.0), "beta must be a positive finite number"),
        (Subgradient(beta="fast"), "beta must be a positive finite number"),
        (Subgradient(step_size=0.1), "step_size must be 'exact' or '1/t', got 0.1"),
        (Subgradient(check_every=0), "check_every must be at least 1"),
    ],
)
def test_options_that_make_no_sense(solver, message):
    with pytest.raises(ValueError, match=message):
        M3N(solver=solver).fit(CHAINS)


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (lambda s: 1.0 - 4 * s, 0.25),
        (lambda s: 2.0 - s, 1.0),
        (lambda s: -s, 0.0),
        (lambda s: 1.0 - s / (0.5 - s) if s < 0.5 else -np.inf, 0.25),
        (lambda s: 1.0 if s < 0.3 else -np.inf, 0.3),
    ],
)
def test_where_falling(slope, expected):
    assert where_falling(slope) == pytest.approx(expected, abs=1e-12)
