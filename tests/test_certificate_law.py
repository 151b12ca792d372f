"""Certificates of all solvers: dual <= minimum <= primal, and the reported gap is correct.

Every solver, with every prior and every loss that it accepts, on tiny random problems whose losses are enumerated; C
and the features range over many orders of magnitude, where rounding shows first. A solver, a prior or a slack is tested
here from the day it is exported.
"""

from __future__ import annotations

from functools import cache

import brute_force
import cvxpy as cp
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from maxendnet import CRF, L2CRF, M3N, Examples, priors, solvers
from maxendnet.losses import Hinge, Log
from maxendnet.losses.slack import SLACKS
from maxendnet.problem import Problem
from maxendnet.solvers import run
from maxendnet.solvers.base import missing
from maxendnet.structures import Chain

EPS = np.finfo(float).eps
MAX_PASSES = 15  # the law holds at every look, not only at the end
PROTOCOLS = {"Prior", "ExactPrior"}
PRIORS = [name for name in priors.__all__ if name not in PROTOCOLS]
SOLVERS = {kind.__name__: kind() for kind in solvers.ALL} | {
    "Subgradient online": solvers.Subgradient(online=True),
    "Subgradient online, beta": solvers.Subgradient(beta=0.5, online=True),
}
LOSSES = {"Log": Log()} | {f"Hinge {slack}": Hinge(slack=slack) for slack in SLACKS}


@cache
def problem_of(seed, prior, loss):
    """One to three chains of one to three nodes, two or three labels; C from 1e-2 to 1e6, features from .1 to 1e3."""
    rng = np.random.default_rng(seed)
    n_labels, n_features = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    size, C = 10.0 ** rng.uniform(-1, 3), 10.0 ** rng.uniform(-2, 6)
    X = [size * rng.normal(size=(rng.integers(1, 4), n_features)) for _ in range(rng.integers(1, 4))]
    y = [rng.integers(n_labels, size=len(x)) for x in X]
    examples = Examples.build(X, y, sample_weight=rng.uniform(0.2, 2.0, size=len(X)))
    bound = Chain().bind(examples, np.arange(n_labels))
    return Problem.pose(bound, LOSSES[loss], getattr(priors, prior)(), C)


def differences(problem):
    """Yield for every example ``(df of all labellings, their costs, sample weight)``."""
    batch, s = problem.batch, problem.structure.layout
    for i in range(problem.n_examples):
        truth = brute_force.example_truth(batch, i)
        f = {
            y: brute_force.feature_vector(batch, i, y, s.n_labels, s.n_features)
            for y in brute_force.labellings(len(truth), s.n_labels)
        }
        cost = np.array([brute_force.labelling_cost(truth, y, problem.cost) for y in f])
        yield np.array([f[truth] - features for features in f.values()]), cost, batch.sample_weight[i]


def primal(problem, mu):
    """Return the objective by enumeration, and a bound of its rounding error."""
    total, rounding = float(problem.prior.penalty(mu)), 0.0
    for df, cost, weight in differences(problem):
        rounding += 64 * EPS * problem.C * weight * float((np.abs(df) @ np.abs(mu) + cost).max())
        if problem.loss.smooth:
            total += problem.C * weight * float(logsumexp(-df @ mu))
        else:
            h = max(float(np.max(cost - df @ mu)), 0.0)
            slope = {"linear": 1.0, "squared": h, "kl": 1.0}[problem.loss.slack]
            rounding *= max(slope, 1.0)
            total += weight * float(problem.loss.slack_function.value(np.array([h]), problem.C)[0])
    return total, rounding


@cache
def minimiser(seed, prior, loss):
    """Return a point near the minimum by an independent solver, for problems that cvxpy supports."""
    problem = problem_of(seed, prior, loss)
    penalty = {"Gaussian": lambda mu: cp.sum_squares(mu) / 2, "L1": lambda mu: problem.prior.rho * cp.norm1(mu)}
    if prior not in penalty or loss not in ("Hinge linear", "Log"):
        return None
    mu = cp.Variable(problem.n_weights)
    losses = [
        weight * (cp.log_sum_exp(-df @ mu) if loss == "Log" else cp.max(cost - df @ mu))
        for df, cost, weight in differences(problem)
    ]
    try:
        cp.Problem(cp.Minimize(penalty[prior](mu) / problem.C + sum(losses))).solve(solver=cp.CLARABEL)
    except cp.error.SolverError:  # C and features together may span too much for it; the solvers judge each other
        return None
    return mu.value


def check_law(seed, prior, loss):
    """Check all solvers that accept this problem. The objective at any point bounds the minimum from above."""
    problem = problem_of(seed, prior, loss)
    results = {}
    for name, solver in SOLVERS.items():
        if not missing(solver, problem):
            with np.errstate(all="ignore"):
                results[name] = run(solver, problem, tol=solver.accuracy, max_passes=MAX_PASSES, seed=0, warn=False)
    if not results:
        return 0
    # 1e-12 of P(0): some 1e4 roundings of the numbers that are added up
    primals = {name: primal(problem, result.w) for name, result in results.items()}
    reference = minimiser(seed, prior, loss)
    points = [value for value, _ in primals.values()] + ([] if reference is None else [primal(problem, reference)[0]])
    highest = min(points)
    least = max(1e-3 * abs(problem.at_zero), np.finfo(float).tiny)
    for name, result in results.items():
        value, rounding = primals[name]
        scale = max(abs(value), least)
        assert result.primal >= value - (1e-9 * scale + rounding), (name, result.primal, value)
        if not hasattr(problem.prior, "bound"):  # where there is one, the objective is at this mean and a variance
            assert result.primal <= value + (1e-9 * scale + rounding), (name, result.primal, value)
        for row in result.trace:
            if np.isnan(row.dual):
                assert np.isnan(row.gap), name
                continue
            scale = max(abs(row.primal), 1e-9 * abs(problem.at_zero), np.finfo(float).tiny)
            allowed = 1e-9 * max(abs(highest), least) + rounding
            assert row.dual <= highest + allowed, (name, row.dual, highest)
            assert row.gap >= 0, name
            assert row.gap == pytest.approx((row.primal - row.dual) / scale, rel=1e-6, abs=1e-9 + rounding / scale)
    return len(results)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("seed", [0, 12, 21])  # in the last two a dual computed in float32 is above the minimum
def test_certificates(seed, prior, loss):
    check_law(seed, prior, loss)


def test_certificates_of_steps_that_overflow():
    """Online subgradient steps on the squared slack diverge."""
    check_law(1, "Gaussian", "Hinge squared")


@pytest.mark.long
@pytest.mark.parametrize("seed", [seed for seed in range(40) if seed not in (0, 12, 21)])
def test_certificates_of_many_problems(seed):
    for prior in PRIORS:
        for loss in LOSSES:
            check_law(seed, prior, loss)


def test_every_solver_is_judged():
    accepted = {
        kind for kind in solvers.ALL for prior in PRIORS for loss in LOSSES
        if not missing(kind, problem_of(0, prior, loss))
    }  # fmt: skip
    of_unknown_labels = {solvers.ConcaveConvex, solvers.SelfTraining}  # which have no certificate
    assert accepted == set(solvers.ALL) - of_unknown_labels


@pytest.mark.parametrize("name", SOLVERS)
def test_separated_far_and_a_large_C(name):
    """The minimum is 1 / (4 * 28^2): both weights at 1 / (2 * 28), no loss; C times a rounding in float32 is larger."""
    solver = SOLVERS[name]
    model = M3N(C=1000.0, solver=solver, tol=1e-5, max_passes=500)
    problem = model.pose(Examples.build([[28.0], [-28.0]], [1, 0]), np.array([0, 1]))
    if missing(solver, problem):
        return
    result = run(solver, problem, tol=1e-5, max_passes=500, seed=0, warn=False)
    minimum = 1 / (4 * 28.0**2)
    for row in result.trace:
        assert row.dual <= minimum * (1 + 1e-9)
        assert row.primal >= minimum * (1 - 1e-9)
        assert row.gap == pytest.approx((row.primal - row.dual) / row.primal, rel=1e-6, abs=1e-12)
    if result.reason == "tol" and result.gap == result.gap:
        assert result.primal - result.dual <= 1e-5 * result.primal


@pytest.mark.parametrize("solver", [solvers.Smoothing(), solvers.BlockFrankWolfe(), solvers.Subgradient()])
def test_the_gap_is_relative_to_the_objective_itself(solver):
    """The objective is 1e-6 of that at zero weights; the gap is still relative to the objective."""
    model = M3N(C=1000.0, solver=solver, tol=1e-2, structure="independent", max_passes=10_000)
    model.fit([[28.0], [-28.0]], [1, 0])
    assert model.gap_ == pytest.approx((model.objective_ - model.dual_) / model.objective_)
    assert model.gap_ <= 1e-2


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (M3N(C=1000.0), "a smaller C converges faster"),
        (L2CRF(lam=1e-6), "a larger lam converges faster"),
        (CRF(), r"a penalty, as in L2CRF\(lam=0.1\), converges faster"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_warning_near_separable_data_says_what_helps(model, advice):
    model.set_params(tol=1e-12, structure="independent", max_passes=2)
    with pytest.warns(ConvergenceWarning, match=f"nearly separable .*: {advice}.*; or raise max_passes or tol"):
        model.fit([[28.0], [-28.0]], [1, 0])


def test_the_warning_of_a_regularised_fit_asks_for_more_passes():
    """Half of the labels contradict the others, so that the loss stays large for all hyper-parameters."""
    model = M3N(C=1000.0, tol=1e-9, structure="independent", max_passes=2)
    with pytest.warns(ConvergenceWarning, match=r"> tol 1e-09; raise max_passes or tol\.$"):
        model.fit([[1.0], [1.0], [-1.0], [-1.0]], [1, 0, 1, 0])
