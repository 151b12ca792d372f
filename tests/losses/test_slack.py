"""Slack functions, their conjugates, and their implementation in the kernels."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from test_agreement import CASES, differences, primal_optimum

from maxendnet import L1M3N, M3N, Examples, Gaussian, Hinge, L1Ball, Laplace, LapMEDN, MaxEnDNet, SpikeSlab, load
from maxendnet.losses.slack import SLACKS
from maxendnet.solvers import (
    BlockFrankWolfe,
    ConstraintGeneration,
    CuttingPlane,
    ProximalPoint,
    Subgradient,
    Variational,
    run,
)

pytestmark = pytest.mark.usefixtures("every_level")

CHAINS = CASES["chains"][0]
sizes = st.floats(0.0, 1e3)
rates = st.floats(1e-3, 1e3)
every_slack = pytest.mark.parametrize("slack", SLACKS)


@every_slack
@given(h=sizes, share=st.floats(0.0, 0.999), C=rates)
def test_fenchel_young(slack, h, share, C):
    """``U(h) + U*(a) >= a h`` for every a of the domain, with equality at the derivative."""
    U, h = SLACKS[slack], np.array([h])
    a = np.array([share * C])
    assert U.value(h, C) + U.conjugate(a, C) >= a * h - 1e-9 * (1 + a * h)
    a = U.slope(h, C)
    if slack == "kl":  # where the derivative is C to rounding the conjugate is infinite there, and finite nearby
        a = np.minimum(a, C * (1 - 1e-9))
    both = U.value(h, C) + U.conjugate(a, C)
    assert both == pytest.approx(a * h, rel=1e-4, abs=1e-9)
    assert U.conjugate(np.zeros(1), C) == 0 and U.value(np.zeros(1), C) == 0


@every_slack
@given(h=st.floats(0.01, 100.0), C=st.floats(0.01, 100.0))
def test_slope_is_the_derivative(slack, h, C):
    U = SLACKS[slack]
    at, step = np.array([h]), 1e-6 * h
    numeric = (U.value(at + step, C) - U.value(at - step, C)) / (2 * step)
    assert U.slope(at, C) == pytest.approx(numeric, rel=1e-4, abs=1e-4 * C)


@pytest.mark.parametrize(("h", "C"), [(1.0, 2.0), (3.0, 1.0), (0.4, 10.0), (0.2, 2.0)])
def test_the_kl_slack_is_a_divergence(h, C):
    """Among densities of a slack with mean at least h, an exponential one is closest to the prior."""
    rate = min(1 / h, C)
    density = lambda s: rate * np.exp(-rate * s)  # noqa: E731
    kl, _ = quad(lambda s: density(s) * (np.log(rate / C) + (C - rate) * s), 0, 60 / rate)
    assert SLACKS["kl"].value(np.array([h]), C)[0] == pytest.approx(kl, abs=1e-9)


@every_slack
@pytest.mark.parametrize("case", CASES)
def test_losses_and_their_gradient(slack, case):
    """Compared with enumeration; except at ties the subgradient is the gradient."""
    examples, settings = CASES[case]
    settings = {name: value for name, value in settings.items() if name != "cost"}
    model = MaxEnDNet(Gaussian(), Hinge(slack=slack), C=1.7, **settings)
    problem = model.pose(examples, np.unique(examples.y))
    w = np.random.default_rng(0).normal(size=problem.n_weights)
    h = np.array([np.max(cost - df @ w) for df, cost, _ in differences(problem)])
    value, gradient = problem.loss_and_gradient(w)[:2]
    assert value == pytest.approx(problem.batch.sample_weight @ SLACKS[slack].value(h, 1.7) / 1.7, rel=1e-12)
    assert np.allclose(
        gradient, approx_fprime(w, lambda w: problem.loss_and_gradient(w, gradient=False).loss, 1e-7), atol=1e-4
    )
    single, _ = problem.loss_and_gradient(w, single=True)[:2]
    assert single == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("prior", "kind"),
    [
        (Gaussian(), CuttingPlane),
        (Laplace(), Variational),
        (SpikeSlab(), Subgradient),
        (L1Ball(), Subgradient),
    ],
)
@pytest.mark.parametrize("slack", ["squared", "kl"])
def test_it_works_without_naming_a_solver(prior, kind, slack):
    model = MaxEnDNet(prior, Hinge(slack=slack), C=2.0, tol=0.01, max_passes=5000)
    assert model.fit(CHAINS).converged_
    assert model.solver_.startswith(f"{kind.__name__}: ")


@pytest.mark.parametrize(
    ("solver", "prior", "fitting"),
    [
        (BlockFrankWolfe(), Gaussian(), ["CuttingPlane", "Subgradient"]),
        (BlockFrankWolfe(), Laplace(), ["Subgradient", "Variational"]),
        (ProximalPoint(), L1Ball(), ["Subgradient"]),
        (ConstraintGeneration(), L1Ball(), ["Subgradient"]),
    ],
)
def test_solvers_of_the_linear_slack_refuse_the_others(solver, prior, fitting):
    with pytest.raises(ValueError, match=r"needs loss.linear_slack.*with kl slack") as error:
        MaxEnDNet(prior, Hinge(slack="kl"), solver=solver).fit(CHAINS)
    assert error.value.args[0].endswith(f"Solvers that fit: {', '.join(fitting)}.")


@pytest.mark.parametrize("slack", ["cubic", None, 2])
def test_the_name_of_a_slack_is_checked(slack):
    with pytest.raises(ValueError, match="slack must be one of 'linear', 'squared', 'kl', got"):
        MaxEnDNet(loss=Hinge(slack=slack)).fit(CHAINS)


@pytest.mark.parametrize("slack", ["squared", "kl"])
@pytest.mark.parametrize("prior", [Gaussian(), Laplace(2.0)])
def test_a_model_file_keeps_the_slack(tmp_path, slack, prior):
    model = MaxEnDNet(prior, Hinge(slack=slack), C=2.0, tol=0.01).fit(CHAINS)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.loss.slack == slack and loaded.gap_ == model.gap_
    assert np.array_equal(loaded.coef_, model.coef_)


def test_the_price_of_dual_weight():
    """The dual value of an arbitrary dual point, computed by enumeration, is below every primal value."""
    problem = MaxEnDNet(Gaussian(), Hinge(slack="squared"), C=3.0).pose(CHAINS, np.unique(CHAINS.y))
    problem.batch.sample_weight[:] = np.linspace(0.0, 2.0, problem.n_examples)
    alpha = np.linspace(0.0, 1.0, problem.n_examples)
    by_hand = sum(a**2 / (2 * 3.0 * u) for a, u in zip(alpha, problem.batch.sample_weight) if u > 0)
    assert problem.slack_price(alpha) == pytest.approx(by_hand)


def posed(X, y):
    examples = Examples.build(X, y)
    return examples, np.unique(examples.y)


# ---- degenerate problems ---------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)
LABELS = [["a", "b"], ["b"], ["a", "a", "b"]]
NOISE = [list(rng.choice(["a", "b"], 2)) for _ in range(12)]
DEGENERATE = {
    "zero features": ([np.zeros((len(y), 2)) for y in LABELS], LABELS, 1.0),
    "equal rows": ([np.ones((len(y), 2)) for y in LABELS], LABELS, 1.0),
    "separable": ([np.eye(2)[[ord(a) - 97 for a in y]] for y in LABELS], LABELS, 10.0),
    "huge C": ([np.eye(2)[[ord(a) - 97 for a in y]] for y in LABELS], LABELS, 1e6),
    "huge C, not separable": ([rng.normal(size=(2, 2)) for _ in NOISE], NOISE, 1e4),
    "one label": ([np.ones((2, 2))], [["a", "a"]], 1.0),
    "tiny C": ([rng.normal(size=(len(y), 2)) for y in LABELS], LABELS, 1e-6),
}


@pytest.mark.parametrize("name", DEGENERATE)
@every_slack
@pytest.mark.parametrize("slacks", ["one", "n"])
def test_cutting_planes_on_degenerate_problems(name, slack, slacks):
    X, y, C = DEGENERATE[name]
    model = MaxEnDNet(Gaussian(), Hinge(slack=slack), C=C, solver=CuttingPlane(slacks), tol=1e-6).fit(X, y)
    assert model.converged_
    problem = model.pose(*posed(X, y))
    expected, rounding = reference(name, slack), 1e-9 + 1e-6 * max(model.objective_, 1e-3 * problem.at_zero)
    assert model.dual_ - rounding <= expected <= model.objective_ + rounding
    assert model.objective_ - expected <= model.gap_ * max(model.objective_, 1e-9 * problem.at_zero) + rounding


@cache
def reference(name, slack):
    X, y, C = DEGENERATE[name]
    problem = MaxEnDNet(Gaussian(), Hinge(slack=slack), C=C).pose(*posed(X, y))
    return primal_optimum(problem, lambda mu: cp.sum_squares(mu) / 2)


@pytest.mark.parametrize("name", [name for name in DEGENERATE if "huge" not in name])
@every_slack
@pytest.mark.parametrize("prior", [Gaussian(), Laplace(2.0)])
def test_subgradients_on_degenerate_problems(name, slack, prior):
    X, y, C = DEGENERATE[name]
    model = MaxEnDNet(prior, Hinge(slack=slack), C=C, solver=Subgradient(), tol=0.01, max_passes=5000).fit(X, y)
    assert model.converged_ and np.isfinite(model.objective_)


@every_slack
def test_balls_of_any_size(slack):
    X, y, _ = DEGENERATE["separable"]
    for radius in (1e-3, 1.0, 100.0):
        model = MaxEnDNet(L1Ball(radius), Hinge(slack=slack), C=2.0, solver=Subgradient(), tol=0.02)
        model.set_params(max_passes=5000).fit(X, y)
        assert model.converged_ and np.abs(model.model_.weights).sum() <= radius * (1 + 1e-12)


def test_the_linear_slack_is_the_default_everywhere():
    assert Hinge().slack == "linear"
    for model in (M3N(), LapMEDN(), L1M3N(), MaxEnDNet()):
        assert model.compose()[1].linear_slack


@every_slack
def test_examples_twice_are_twice_C_unless_C_is_a_rate(slack):
    X, y, _ = DEGENERATE["separable"]
    pose = lambda n, C: MaxEnDNet(Gaussian(), Hinge(slack=slack), C=C).pose(*posed(X * n, y * n))  # noqa: E731
    twice, doubled = (run(CuttingPlane(), problem, tol=1e-8).primal for problem in (pose(2, 2.0), pose(1, 4.0)))
    assert (twice == pytest.approx(doubled, rel=1e-6)) is (slack != "kl")
