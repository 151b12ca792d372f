"""Cutting planes with one slack and with n: the same optimum, by any slack, with a certificate."""

import numpy as np
import pytest
from test_agreement import CASES, check_certificate, check_objective, model_of, optimum

from maxendnet import M3N, Gaussian, Hinge, Laplace, LapMEDN, MaxEnDNet
from maxendnet.solvers import BlockFrankWolfe, CuttingPlane, Variational, run

CHAINS = CASES["chains"][0]
BOTH = [CuttingPlane("one"), CuttingPlane("n")]


@pytest.mark.parametrize("case", CASES)
def test_n_slack_reaches_the_optimum(case):
    """One slack is the default, which test_agreement compares."""
    model, problem = model_of(case, "M3N")
    model.set_params(solver=CuttingPlane("n"), tol=1e-8).fit(CASES[case][0])
    assert model.objective_ == pytest.approx(optimum(case, "M3N"), rel=1e-7)
    check_objective(model, problem)
    check_certificate(model, problem, optimum(case, "M3N"))
    assert model.which_ == "best"


@pytest.mark.parametrize("case", ["chains", "trees"])
@pytest.mark.parametrize("slack", ["squared", "kl"])
def test_n_slack_with_a_slack_that_is_not_linear(case, slack):
    system = f"Gaussian {slack} slack"
    model, problem = model_of(case, system)
    model.set_params(solver=CuttingPlane("n"), tol=1e-7).fit(CASES[case][0])
    assert model.objective_ == pytest.approx(optimum(case, system), rel=1e-6)
    check_objective(model, problem)
    check_certificate(model, problem, optimum(case, system))


@pytest.mark.parametrize("solver", BOTH, ids=["one", "n"])
@pytest.mark.parametrize(
    "prior",
    [Gaussian(np.linspace(0.1, 2, 18), np.linspace(-1, 1, 18)), Gaussian(np.eye(18) + 0.5, mean=0.3)],
    ids=["variances", "covariance"],
)
def test_means_and_variances(solver, prior):
    problem = MaxEnDNet(prior, C=0.7).pose(CHAINS, np.unique(CHAINS.y))
    found = run(solver, problem, tol=1e-7)
    # a change of variables leaves a plain Gaussian problem; here the subgradient of the optimum is checked instead
    assert found.converged
    assert np.allclose(prior.mean(found.eta), found.w, atol=1e-3)
    assert found.primal == pytest.approx(problem.primal(found.w), rel=1e-12)
    if np.ndim(prior.prior_variance) == 1:
        other = run(BlockFrankWolfe(), problem, tol=1e-7, max_passes=5000, seed=0)
        assert found.primal == pytest.approx(other.primal, rel=1e-6)


@pytest.mark.parametrize("solver", BOTH, ids=["one", "n"])
def test_as_the_inner_solver_of_algorithm_1(solver):
    """To convergence, the mean of the exact model with four times lam and twice C."""
    exact = LapMEDN(C=1.2, lam=2.0, tol=1e-9, max_passes=5000).fit(CHAINS)
    model = LapMEDN(C=0.6, lam=0.5, method="variational", solver=solver, tol=1e-7).fit(CHAINS)
    assert model.converged_
    assert np.abs(model.posterior_.mean - exact.posterior_.mean).max() < 1e-3


@pytest.mark.parametrize("slack", ["squared", "kl"])
def test_laplace_with_any_slack_by_algorithm_1_around_either(slack):
    results = [
        MaxEnDNet(Laplace(1.5), Hinge(slack=slack), C=2.0, solver=Variational(inner=inner), tol=1e-5).fit(CHAINS)
        for inner in BOTH
    ]
    assert results[0].objective_ == pytest.approx(results[1].objective_, rel=1e-5)
    assert np.abs(results[0].posterior_.mean - results[1].posterior_.mean).max() < 1e-2


def test_algorithm_1_refuses_an_inner_solver_that_does_not_fit():
    model = MaxEnDNet(Laplace(1.0), Hinge(slack="squared"), solver=Variational(inner=BlockFrankWolfe()))
    with pytest.raises(ValueError, match=r"BlockFrankWolfe needs loss.linear_slack.*squared slack.*fit: CuttingPlane"):
        model.fit(CHAINS)


def test_idle_cuts_are_dropped():
    problem = model_of("chains", "M3N")[1]
    solver = CuttingPlane("one")
    state = solver.start(problem)
    for n_pass in range(60):
        state = solver.step(problem, state)
        cuts = state.cuts
        assert len(cuts.gains) == len(cuts.idle) == len(state.gram) == cuts.rows.shape[0] <= 2 * n_pass + 3
        assert np.allclose(state.gram, (cuts.rows @ cuts.rows.T).toarray())
    assert len(cuts.gains) < 40


@pytest.mark.parametrize("slacks", ["one", "n"])
def test_a_warm_start_from_weights_without_violations_reaches_the_optimum(slacks):
    """With KL slack, small violations cost nothing: after C is lowered, the previous weights have no cut."""
    X, y = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]]], [["a", "b"], ["b"]]
    settings = {"prior": Gaussian(), "loss": Hinge(slack="kl"), "solver": CuttingPlane(slacks=slacks), "tol": 1e-4}
    warm = MaxEnDNet(C=100.0, warm_start=True, **settings).fit(X, y).set_params(C=2.0).fit(X, y)
    cold = MaxEnDNet(C=2.0, **settings).fit(X, y)
    assert warm.gap_ <= 1e-4
    np.testing.assert_allclose(warm.objective_, cold.objective_, rtol=2e-4)


def test_slacks_must_be_known():
    with pytest.raises(ValueError, match="slacks must be 'one' or 'n', got 'two'"):
        M3N(solver=CuttingPlane(slacks="two")).fit(CHAINS)


def test_other_priors_are_refused():
    with pytest.raises(ValueError, match=r"CuttingPlane needs prior.gram.*Laplace prior.*Subgradient"):
        LapMEDN(solver=CuttingPlane()).fit(CHAINS)
