"""Warm starts of solvers that store bounds: they resume where they stopped, and ignore bounds of other examples."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1M3N, M3N, Gaussian, Hinge, L1Ball, MaxEnDNet
from maxendnet.solvers import (
    BlockFrankWolfe,
    ConstraintGeneration,
    CuttingPlane,
    ProximalPoint,
    Subgradient,
    run,
)

GAUSSIAN = [Subgradient(), Subgradient(step_size="1/t"), Subgradient(beta=2.0), CuttingPlane("one"), CuttingPlane("n")]
BALL = [Subgradient(), ConstraintGeneration()]
ONLINE = [Subgradient(online=True), Subgradient(beta=2.0, online=True)]
OLDER = [BlockFrankWolfe(), ProximalPoint()]


def name(solver):
    return repr(solver).split("(first")[0].split("(inner")[0]


def data(seed, n=8):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(m, 3)) for m in rng.integers(1, 4, size=n)]
    return X, [rng.choice(list("abc"), size=len(x)) for x in X]


def model_for(solver, **settings):
    if solver in [*BALL, OLDER[1]]:
        return L1M3N(C=0.7, radius=2.0, solver=solver, warm_start=True, random_state=0, **settings)
    return M3N(C=0.7, solver=solver, warm_start=True, random_state=0, **settings)


def truth(model, X, y, sample_weight=None):
    """Optimum by a fresh solver, to many digits, as (dual, primal)."""
    if isinstance(model, L1M3N):
        fresh = L1M3N(model.C, model.radius, model.cost, solver=ConstraintGeneration(), tol=1e-8)
    else:
        fresh = M3N(model.C, model.cost, tol=1e-8, max_passes=20000)
    fresh.set_params(random_state=0).fit(X, y, sample_weight)
    return fresh.dual_, fresh.objective_


def quiet_fit(model, X, y, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **kwargs)


@pytest.mark.parametrize("solver", GAUSSIAN + BALL + ONLINE, ids=name)
def test_a_second_fit_goes_on(solver):
    X, y = data(0)
    model = quiet_fit(model_for(solver, tol=1e-6, max_passes=15), X, y)
    first = model.gap_
    quiet_fit(model, X, y)
    assert model.gap_ <= first
    cold = quiet_fit(model_for(solver, tol=1e-6, max_passes=1), X, y)
    assert model.trace_[0].n_pass == 0 and model.trace_[0].primal <= cold.objective_ + 1e-9


@pytest.mark.parametrize("solver", GAUSSIAN + BALL + ONLINE, ids=name)
def test_bounds_of_other_examples_are_forgotten(solver):
    X, y = data(0)
    model = quiet_fit(model_for(solver, tol=1e-6, max_passes=40), X, y)
    other = [0.2 * x for x in X]
    dual, primal = truth(model, other, y)
    quiet_fit(model, other, y)
    assert model.dual_ <= primal * (1 + 1e-9) and dual <= model.objective_ * (1 + 1e-9)
    again = quiet_fit(model_for(solver, tol=1e-6, max_passes=40), other, y)
    assert model.dual_ == pytest.approx(again.dual_, rel=1e-6) or model.converged_


@pytest.mark.parametrize("solver", GAUSSIAN + BALL + ONLINE, ids=name)
@pytest.mark.parametrize("factor", [0.1, 5.0])
def test_another_C(solver, factor):
    X, y = data(1)
    model = quiet_fit(model_for(solver, tol=1e-6, max_passes=40), X, y)
    model.C *= factor
    dual, primal = truth(model, X, y)
    quiet_fit(model, X, y)
    assert model.dual_ <= primal * (1 + 1e-9) and dual <= model.objective_ * (1 + 1e-9)
    assert all(row.dual <= primal * (1 + 1e-9) for row in model.trace_)


@pytest.mark.parametrize("solver", GAUSSIAN + BALL + OLDER, ids=name)
@pytest.mark.parametrize("change", ["cost", "weights"])
def test_other_costs_and_other_example_weights(solver, change):
    X, y = data(2)
    model = quiet_fit(model_for(solver, tol=1e-6, max_passes=40), X, y)
    weights = np.ones(len(X))
    if change == "cost":
        model.cost = [[0, 0.1, 0.2], [0.1, 0, 0.3], [0.2, 0.1, 0]]
    else:
        weights[::2] = 0.1
    dual, primal = truth(model, X, y, weights)
    quiet_fit(model, X, y, sample_weight=weights)
    assert all(row.dual <= primal * (1 + 1e-9) for row in model.trace_)
    assert dual <= model.objective_ * (1 + 1e-9)


@cache
def with_slack(slack):
    return MaxEnDNet(Gaussian(), Hinge(slack=slack), C=5.0, solver=CuttingPlane("n"), tol=1e-8).fit(*data(3))


@pytest.mark.parametrize("slack", ["squared", "kl"])
@pytest.mark.parametrize("solver", GAUSSIAN, ids=name)
def test_another_C_with_another_slack(solver, slack):
    model = MaxEnDNet(Gaussian(), Hinge(slack=slack), C=2.0, solver=solver, warm_start=True, tol=1e-6, max_passes=40)
    quiet_fit(model, *data(3))
    model.C = 5.0
    quiet_fit(model, *data(3))
    assert all(row.dual <= with_slack(slack).objective_ * (1 + 1e-9) for row in model.trace_)
    assert with_slack(slack).dual_ <= model.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("solver", GAUSSIAN + BALL, ids=name)
def test_the_result_is_the_same_for_any_number_of_threads(solver):
    X, y = data(4)
    one, two = (quiet_fit(model_for(solver, max_passes=20, tol=1e-9, n_jobs=n), X, y) for n in (1, 2))
    assert np.array_equal(one.model_.weights, two.model_.weights) and one.dual_ == two.dual_


@pytest.mark.parametrize("solver", GAUSSIAN + BALL, ids=name)
def test_empty_examples_and_examples_of_weight_zero_change_nothing(solver):
    X, y = data(5)
    plain = quiet_fit(model_for(solver, max_passes=20, tol=1e-9), X, y)
    X2, y2 = [np.zeros((0, 3)), *X, np.full((2, 3), 9.0)], [[], *y, ["a", "c"]]
    padded = quiet_fit(model_for(solver, max_passes=20, tol=1e-9), X2, y2, sample_weight=[1.0] * 9 + [0.0])
    assert padded.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert padded.dual_ == pytest.approx(plain.dual_, rel=1e-6, abs=1e-9)


def test_the_fingerprint_tells_examples_apart():
    X, y = data(6)
    pose = lambda X, prior=None, **kw: MaxEnDNet(prior, **kw).pose(*examples(X, y)).fingerprint  # noqa: E731
    first = pose(X)
    assert pose(X) == first == pose(X, L1Ball(3.0), C=7.0)
    changed = [x.copy() for x in X]
    changed[2][0, 1] += 1e-9
    assert pose(changed) != first
    assert pose(X, structure="independent") != first and pose(X, loss=Hinge(slack="kl")) != first
    assert pose(X, loss=Hinge(2 * (1 - np.eye(3)))) != first


def examples(X, y):
    from maxendnet import Examples

    return Examples.build(X, y), np.array(["a", "b", "c"])


def test_a_state_of_another_problem_is_not_used():
    X, y = data(7)
    problem = MaxEnDNet().pose(*examples(X, y))
    warm = run(CuttingPlane("one"), problem, tol=1e-3).state
    fresh = CuttingPlane("n").start(problem, warm)
    assert len(np.unique(fresh.cuts.examples)) > 1
