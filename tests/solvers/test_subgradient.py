"""The subgradient method with batch and online steps: step sizes and dual points."""

import numpy as np
import pytest
from test_agreement import CASES, check_certificate, check_objective, model_of, optimum

from maxendnet import L1M3N, M3N, Gaussian, L1Ball, Laplace, LapMEDN, MaxEnDNet
from maxendnet.solvers import BlockFrankWolfe, ConstraintGeneration, Subgradient, Variational, project_l1_ball, run

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
        mu = state.at.eta
        _, g = problem.loss_and_gradient(mu)[:2]
        state = solver.step(problem, state)
        direction = -(mu + problem.C * g)
        size = (state.at.eta - mu) @ direction / (direction @ direction)
        assert np.allclose(state.at.eta, mu + size * direction, atol=1e-12)
        if solver.beta is not None:
            assert size == pytest.approx(min(1.0, 1 / (2 * solver.beta * np.sqrt(t))))
        elif solver.step_size == "1/t":
            assert size == pytest.approx(1 / t)
        else:
            nearby = [problem.dual(mu + s * direction, state_gain(problem, mu, state, s, size))[0] for s in near(size)]
            assert max(nearby) <= problem.dual(state.at.eta, state.at.gain)[0] + 1e-12


def near(size):
    return [size * 0.9, min(1.0, size * 1.1)]


def state_gain(problem, mu, state, s, size):
    """Return the gain of the dual point at another step size; gains are linear along a step."""
    before = (state.at.gain - size * corner_gain(problem, mu)) / (1 - size) if size < 1 else 0.0
    return (1 - s) * before + s * corner_gain(problem, mu)


def corner_gain(problem, mu):
    loss, g = problem.loss_and_gradient(mu)[:2]
    return problem.C * (loss - mu @ g)


def test_1_over_t_is_the_plain_average_of_the_corners():
    problem, solver = problem_of(), Subgradient(step_size="1/t")
    state, corners = solver.start(problem), []
    for _ in range(12):
        corners.append((*state.corner.eta, state.corner.gain))
        state = solver.step(problem, state)
    assert np.allclose((*state.at.eta, state.at.gain), np.mean(corners, axis=0), atol=1e-12)


@pytest.mark.parametrize("solver", [Subgradient(), Subgradient(step_size="1/t"), Subgradient(online=True)])
def test_steps_stay_inside_the_domain_of_the_prior(solver):
    problem = problem_of(Laplace(0.05), C=20.0)
    state = solver.start(problem, seed=0)
    for _ in range(50):
        state = solver.step(problem, state)
        assert np.all(np.abs(state.at.eta) < np.sqrt(0.05)) and np.isfinite(problem.prior.cumulant(state.at.eta))


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_the_step_sizes_of_the_paper(beta):
    model = M3N(C=0.7, solver=Subgradient(beta=beta), tol=0.01).fit(CHAINS)
    assert model.converged_ and model.which_ in ("best", "last", "average")


def test_average_and_last_are_told_apart():
    problem = problem_of()
    last = run(Subgradient(step_size="1/t", average=False), problem, tol=1e-9, max_passes=30, warn=False)
    better = run(Subgradient(step_size="1/t"), problem, tol=1e-9, max_passes=30, warn=False)
    assert last.which == "last" and better.primal <= last.primal
    assert np.array_equal(last.w, problem.prior.mean(last.state.at.eta))
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
        (Subgradient(step_size=0.1), "step_size must be None or '1/t', got 0.1"),
        (Subgradient(check_every=0), "check_every must be a whole number of at least 1"),
    ],
)
def test_options_that_make_no_sense(solver, message):
    with pytest.raises(ValueError, match=message):
        M3N(solver=solver).fit(CHAINS)


# ---- the L1 ball -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
def test_agrees_with_the_linear_programme(radius):
    exact = L1M3N(C=0.7, radius=radius, solver=ConstraintGeneration(), tol=1e-9, random_state=0).fit(CHAINS)
    model = L1M3N(C=0.7, radius=radius, solver=Subgradient(), tol=0.01, max_passes=20000).fit(CHAINS)
    assert np.abs(model.model_.weights).sum() <= radius * (1 + 1e-12)
    assert exact.dual_ * (1 - 1e-9) <= model.objective_ <= exact.objective_ * 1.01
    assert model.dual_ <= exact.objective_ * (1 + 1e-9)
    assert model.which_ in ("average", "best", "last")


def test_three_digits_in_the_ball():
    problem = problem_of(L1Ball(2.0))
    assert run(Subgradient(), problem, tol=1e-3, max_passes=5000).converged


def test_a_ball_that_holds_the_unconstrained_minimum():
    """With separable data and a large ball, the loss is 0, and the certificate proves it."""
    X, y = [[[1.0, 0.0]], [[0.0, 1.0]]], [["a"], ["b"]]
    model = L1M3N(C=1.0, radius=50.0, solver=Subgradient(), tol=1e-6).fit(X, y)
    assert model.objective_ == 0.0 and model.gap_ == 0.0


@pytest.mark.parametrize("online", [False, True])
def test_the_step_sizes_of_the_paper_in_the_ball(online):
    problem, solver = problem_of(L1Ball(0.5)), Subgradient(beta=3.0, online=online)
    state = solver.start(problem, seed=0)
    state = solver.step(problem, state)
    assert state.n_steps == (problem.n_examples if online else 1)
    if not online:
        _, g = problem.loss_and_gradient(np.zeros(problem.n_weights))[:2]
        assert np.allclose(state.at.w, project_l1_ball(-problem.C * g / 6, 0.5))
    assert np.abs(state.at.w).sum() <= 0.5 * (1 + 1e-12)


def test_priors_without_a_cumulant_or_a_radius_are_refused():
    with pytest.raises(ValueError, match=r"Subgradient needs prior.cumulant or prior.radius"):
        L1M3N(solver=Subgradient()).fit(CHAINS)
    with pytest.raises(ValueError, match=r"Subgradient needs prior.cumulant, .*L1Ball"):
        L1M3N(radius=1.0, solver=Subgradient(step_size="1/t")).fit(CHAINS)


# ---- online ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"beta": 1.0}], ids=["1/t", "beta"])
@pytest.mark.parametrize("system", ["M3N", "LapMEDN", "L1M3N ball", "SpikeSlab kl slack", "L1Ball squared slack"])
@pytest.mark.parametrize("case", ["chains", "trees"])
def test_online_steps_reach_the_optimum(case, system, options):
    model, problem = model_of(case, system)
    model.set_params(solver=Subgradient(online=True, **options), tol=0.1, max_passes=1000, random_state=0)
    model.fit(CASES[case][0])
    assert model.converged_ and model.which_ in ("last", "average")
    check_objective(model, problem)
    check_certificate(model, problem, optimum(case, system))


@pytest.mark.parametrize("prior", [Gaussian(), L1Ball(2.0)])
def test_the_dual_point_of_online_steps_is_a_mixture_of_labellings(prior):
    """No example uses more than its dual weight after `largest`, in the middle of a pass as well."""
    problem, solver = problem_of(prior), Subgradient(beta=0.1, online=True)
    state = solver.start(problem, seed=0)
    for _ in range(3):
        state = solver.step(problem, state)
        for iterate in (state.at, state.average):
            assert iterate.mass.max() > 0
            assert iterate.largest.mass.max() == pytest.approx(1.0) and iterate.largest.mass.min() >= 0
            factor = 1 / iterate.mass.max()
            assert np.allclose(iterate.largest.eta, factor * iterate.eta)
            assert iterate.largest.gain == pytest.approx(factor * iterate.gain)


def test_a_single_example_online_is_that_example_at_once():
    examples = CHAINS[np.arange(1)]
    online, batch = (M3N(C=0.7, solver=Subgradient(online=o), tol=0.01).fit(examples) for o in (True, False))
    assert online.dual_ == pytest.approx(batch.dual_, rel=0.02)


def test_online_steps_need_the_examples_in_this_process():
    assert {"backend.local", "not has_linear_term"} <= set(Subgradient(online=True).requires)
    assert not {"backend.local", "not has_linear_term"} & set(Subgradient().requires)


def test_a_state_of_the_other_kind_is_not_used():
    gaussian, ball = problem_of(), problem_of(L1Ball(2.0))
    warm = run(Subgradient(), gaussian, tol=0.1).state
    for solver, problem in ((Subgradient(online=True), gaussian), (Subgradient(), ball)):
        assert solver.start(problem, warm, seed=0).n_steps == 0
    assert Subgradient().start(gaussian, warm).n_steps == warm.n_steps
