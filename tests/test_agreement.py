"""Every solver on every problem it accepts, against an optimum found elsewhere: cvxpy on all labellings, enumerated.

A solver or a prior is tested here from the day it is exported. The certificate is tested at every row of the trace.
"""

from __future__ import annotations

import warnings
from functools import cache

import brute_force
import cvxpy as cp
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    ElasticNet,
    Examples,
    Exponential,
    Gaussian,
    Hinge,
    L1Ball,
    Laplace,
    LapMEDN,
    Log,
    MaxEnDNet,
    NormalGamma,
    NormalInverseGaussian,
    SpikeSlab,
    SquaredL1,
    Uniform,
    priors,
    solvers,
)
from maxendnet.data.labels import distinct_labels
from maxendnet.solvers.base import missing
from maxendnet.structures import Chain, Choice, Independent, Tree
from maxendnet.structures.bound.choice import BoundChoice

TOL = 1e-6
MAX_PASSES = 10_000
# Relative error of the optimum by cvxpy: 1e-10 is requested, and results worse than 5e-9 are refused.
SLACK = 1e-8


# The seeds were searched for data that no weights separate, without which the CRF has no minimiser.


def chains():
    """One of them a single node."""
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(n, 3)) for n in (3, 2, 3, 1, 2, 3, 3, 3)]
    return Examples.build(X, [rng.choice(list("abc"), size=len(x)) for x in X])


def trees():
    """Two edge types, an edge feature, edges in both directions, an isolated node, sample weights."""
    rng = np.random.default_rng(11)
    edges = [[(0, 1), (0, 2), (3, 0)], [(2, 1), (1, 0)], [(0, 1)], [(1, 2)], [(0, 1), (1, 2), (1, 3)], [(1, 0)]]
    edges += [[(0, 1), (2, 1)], [(1, 0), (1, 2)]]
    X = [rng.normal(size=(n, 1)) for n in (4, 3, 2, 3, 4, 2, 3, 3)]
    return Examples.build(
        X,
        [rng.integers(2, size=len(x)) for x in X],
        edges=edges,
        edge_types=[rng.integers(2, size=len(e)) for e in edges],
        edge_features=[rng.normal(size=(len(e), 1)) for e in edges],
        sample_weight=[1.0, 2.0, 0.5, 0.0, 1.5, 1.0, 1.0, 1.0],
    )


def isolated():
    """Nodes without edges."""
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(n, 3)) for n in (2, 2, 1, 3, 2, 1, 1, 2)]
    return Examples.build(X, [rng.choice(list("abc"), size=len(x)) for x in X])


def restricted():
    """Allowed labels, features of pairs of node and label, sample weights."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, 1)) for n in (3, 3, 3, 2, 3, 3, 3, 3)]
    y = [rng.integers(3, size=len(x)) for x in X]
    return Examples.build(
        X,
        y,
        allowed=[np.eye(3, dtype=bool)[labels] | (rng.random((len(labels), 3)) < 0.6) for labels in y],
        label_features=[rng.normal(size=(len(labels), 3, 1)) for labels in y],
        labels=[0, 1, 2],
        sample_weight=[1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0],
    )


def hierarchy():
    """Siblings given their parent, a forbidden pair (a child of 0 is 0), two edge types, a label feature, weights."""
    rng = np.random.default_rng(54)
    edges = [[(0, 1), (0, 2)], [(0, 1), (0, 2)], [(0, 2), (0, 1), (2, 3)], [(0, 1), (0, 2), (0, 3)]] * 3
    X = [rng.normal(size=(len(e) + 1, 1)) for e in edges]
    y = []
    for pairs in edges:
        parent, labels = {child: p for p, child in pairs}, {}
        for t in sorted(range(len(pairs) + 1), key=lambda t: (t in parent, parent.get(t, 0), t)):
            labels[t] = int(rng.random() < 0.7) if labels.get(parent.get(t), 1) else 0
        y.append([labels[t] for t in range(len(pairs) + 1)])
    return Examples.build(
        X,
        y,
        edges=edges,
        edge_types=[rng.integers(2, size=len(e)) for e in edges],
        label_features=[rng.normal(size=(len(x), 2, 1)) for x in X],
        labels=[0, 1],
        sample_weight=[1.0, 2.0, 0.5, 1.0] * 3,
    )


def choices():
    """At most one selected node per example, with one of two labels; some nodes may have only one of them."""
    rng = np.random.default_rng(55)
    y = [["a", "-", "-"], ["-", "b"], ["-", "-", "-", "a"], ["-"], ["b", "-", "-"], ["-", "-"]] * 2
    allowed = [
        [["-", *(["a"] if t % 3 != 1 or a == "a" else []), *(["b"] if t % 2 == 0 or a == "b" else [])]
         for t, a in enumerate(some)] for some in y
    ]  # fmt: skip
    return Examples.build(
        [rng.normal(size=(len(some), 2)) for some in y], y, labels=["-", "a", "b"], allowed=allowed,
        sample_weight=[1.0, 2.0, 0.5, 1.0, 1.0, 0.3] * 2,
    )  # fmt: skip


CASES = {
    "chains": (chains(), {}),
    "trees": (trees(), {"structure": "tree", "cost": [[0.0, 2.0], [0.5, 0.0]]}),
    "isolated": (isolated(), {"structure": Independent(bias=True), "cost": [[0, 1, 2], [1, 0, 0.5], [3, 1, 0]]}),
    "restricted": (restricted(), {"structure": Chain(ends=True)}),
    "choices": (choices(), {"structure": Choice(bias=True)}),
    "hierarchy": (hierarchy(), {"structure": Tree(siblings=True, forbidden=[(0, 1)])}),
}

SYSTEMS = {
    "M3N": M3N(C=0.7),
    "LapMEDN": LapMEDN(C=0.7, lam=2.0),
    "LapMEDN variational": LapMEDN(C=0.6, lam=0.5, method="variational"),
    "L1M3N": L1M3N(C=0.7),
    "L1M3N ball": L1M3N(C=0.7, radius=2.0),
    "CRF": CRF(),
    "L1CRF": L1CRF(lam=0.3),
    "L2CRF": L2CRF(lam=0.5),
    "L2CRF margin": L2CRF(lam=0.5, margin=1.5),
}

N_CHAIN_WEIGHTS = 18
PRIORS = [
    Gaussian(variance=2.0, mean=np.linspace(-1, 1, N_CHAIN_WEIGHTS)),
    Gaussian(variance=np.eye(N_CHAIN_WEIGHTS) + 0.5),
    Laplace(lam=1.5),
    NormalGamma(a=0.5, lam=2.0),
    NormalGamma(a=3.0, lam=2.0),
    NormalInverseGaussian(A=1.5, d=0.7),
    SpikeSlab(p=0.3, v=2.0),
    Exponential(lam=2.0),
    Uniform(a=1.5),
    SquaredL1(lam=3.0),
    ElasticNet(l1=0.2, l2=0.7),
]
exported = [getattr(priors, name) for name in priors.__all__ if name != "ExactPrior"]
listed = {type(prior) for prior in PRIORS}
# A prior that is not listed is tested with its defaults.
PRIORS += [kind() for kind in exported if hasattr(kind, "cumulant") and kind not in listed]


# ---- the reference ---------------------------------------------------------------------------------------------------


def differences(problem):
    """For every example ``(df of all labellings, their costs, weight of the example)``; the truth is among them."""
    batch, s, layout = problem.batch, problem.structure, problem.structure.layout
    sizes = {"n_labels": s.n_labels, "n_features": layout.n_features, "n_edge_types": layout.n_edge_types}
    siblings, forbidden = layout.siblings, getattr(s, "forbidden", ())
    for i in range(problem.n_examples):
        truth = brute_force.example_truth(batch, i)
        if isinstance(s, BoundChoice):
            found = brute_force.choice_labellings(batch, i, s.n_labels, s.rest)
        else:
            found = brute_force.hierarchy_labellings(batch, i, s.n_labels, forbidden)
        labellings = [truth, *found]
        f = np.array(
            [brute_force.hierarchy_feature_vector(batch, i, y, **sizes, siblings=siblings) for y in labellings]
        )
        cost = np.array([brute_force.labelling_cost(truth, y, problem.cost) for y in labellings])
        yield f[0] - f[1:], cost[1:], batch.sample_weight[i]


def primal_optimum(problem, penalty, constraints=()):
    """Minimum of ``penalty(mu) + C sum_i weight_i loss_i(mu)``."""
    mu = cp.Variable(problem.n_weights)
    loss = 0.0
    for df, cost, weight in differences(problem):
        loss += weight * (
            cp.log_sum_exp(cost - df @ mu) if problem.loss.smooth else slack_of(cp.max(cost - df @ mu), problem)
        )
    return solved(cp.Minimize(penalty(mu) + problem.C * loss), [constraint(mu) for constraint in constraints])


def slack_of(h, problem):
    """U(h) / C; the KL slack is the least ``t - 1 - log(t)`` of any t from C h on."""
    C = problem.C
    if problem.loss.slack == "squared":
        return cp.square(cp.pos(h)) / 2
    if problem.loss.slack == "kl":
        t = cp.Variable()
        return (t - 1 - cp.log(t)) / C + cp.transforms.indicator([t >= C * h])
    return h


def dual_optimum(problem):
    """Maximum of ``sum alpha cost - phi(eta)``; for the log loss the entropy comes on top.

    Less ``weight * U*(sum alpha / weight)`` where the slack is not linear.
    """
    gain, eta, simplices, dual_weights = 0.0, 0.0, [], []
    for df, cost, weight in differences(problem):
        size = problem.C * weight
        if size == 0:
            continue
        alpha = cp.Variable(len(cost), nonneg=True)
        slack = getattr(problem.loss, "slack", "linear")
        if slack == "linear":
            simplices.append(cp.sum(alpha) == size)
        elif slack == "squared":
            gain -= cp.square(cp.sum(alpha)) / (2 * size)
        else:
            gain += weight * cp.log(1 - cp.sum(alpha) / size)
        gain += alpha @ cost
        if problem.loss.smooth:
            gain += cp.sum(cp.entr(alpha)) + size * np.log(size)
        eta += df.T @ alpha
        truth = np.argmin(np.abs(df).sum(axis=1))
        alpha.value = np.where(np.arange(len(cost)) == truth, size, 0.0)  # so that eta is 0 at first
        dual_weights.append(alpha)
    phi = cumulant(problem.prior, eta)
    if phi is None:
        return newton_optimum(problem.prior, gain, eta, simplices, dual_weights)
    return solved(cp.Maximize(gain - phi), simplices)


def newton_optimum(prior, gain, eta, simplices, dual_weights):
    """Maximum of ``gain - phi(eta)`` for a cumulant that cvxpy cannot express.

    Each iteration replaces phi by its quadratic model at the last dual point, from the prior's own mean and variance.
    """

    def dual_at(weights):
        for variable, value in zip(dual_weights, weights):
            variable.value = value
        return gain.value - prior.cumulant(eta.value)

    weights, centre = [variable.value for variable in dual_weights], np.zeros(eta.size)
    best = dual_at(weights)
    for _ in range(50):
        shift = eta - centre
        quadratic = prior.mean(centre) @ shift + cp.sum_squares(cp.multiply(np.sqrt(prior.variance(centre)), shift)) / 2
        solved(cp.Maximize(gain - quadratic), simplices)
        target = [np.maximum(variable.value, 0.0) for variable in dual_weights]
        for share in 0.5 ** np.arange(40):
            trial = [share * new + (1 - share) * old for old, new in zip(weights, target)]
            value = dual_at(trial)
            if value > best:
                break
        else:
            return best
        if value - best <= 1e-12 * abs(value):
            return value
        weights, best, centre = trial, value, eta.value
    raise AssertionError(f"no optimum for {prior} after 50 Newton steps")


def cumulant(prior, eta):
    """The cumulant as cvxpy reads it, from its definition and not from the prior's own code; None if not given."""
    if isinstance(prior, Gaussian):
        v, m = prior.get_params().values()
        covariance = np.asarray(v) if np.ndim(v) == 2 else np.diag(np.broadcast_to(v, eta.shape))
        return np.broadcast_to(m, eta.shape) @ eta + cp.sum_squares(np.linalg.cholesky(covariance).T @ eta) / 2
    if isinstance(prior, (Laplace, NormalGamma)):
        rate = np.sqrt(prior.lam)
        return -getattr(prior, "a", 1.0) * cp.sum(cp.log(1 - eta / rate) + cp.log(1 + eta / rate))
    if isinstance(prior, NormalInverseGaussian):
        return prior.d * sum(prior.A - cp.geo_mean(cp.hstack([prior.A - e, prior.A + e])) for e in eta)
    if isinstance(prior, SpikeSlab):
        slab = np.log(prior.p) + prior.v * cp.square(eta) / 2
        return cp.sum(cp.log_sum_exp(cp.vstack([np.full(eta.shape, np.log(1 - prior.p)), slab]), axis=0))
    if isinstance(prior, Exponential):
        return -cp.sum(cp.log(1 - eta / prior.lam))
    if isinstance(prior, L1Ball):
        return prior.radius * cp.norm_inf(eta)
    if isinstance(prior, Uniform):
        # The integral, by Gauss-Legendre: with 16 points exact to rounding up to a eta = 10, and here it is at most 3.
        at, share = np.polynomial.legendre.leggauss(16)
        terms = [np.log(s / 2) + prior.a * x * eta for x, s in zip(at, share)]
        return cp.sum(cp.log_sum_exp(cp.vstack(terms), axis=0))
    if isinstance(prior, ElasticNet):
        return cp.sum_squares(cp.pos(cp.abs(eta) - prior.l1)) / (2 * prior.l2)
    if isinstance(prior, SquaredL1):
        return eta.size / (2 * prior.lam) * cp.square(cp.norm_inf(eta))
    return None


def solved(objective, constraints):
    """Optimal value to at least 5e-9: rounding limits how many of the requested digits Clarabel reaches."""
    problem = cp.Problem(objective, constraints)
    asked = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    least = {f"reduced_{name}": 50 * tol for name, tol in asked.items()}  # with less the status is an error
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, **asked, **least)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return problem.value


def variational_penalty(lam):
    """Of Algorithm 1, over means and variances: jointly convex in the mean and the standard deviation."""

    def penalty(mu):
        deviation = cp.Variable(mu.shape)
        return cp.sum(np.sqrt(lam) * cp.norm(cp.vstack([mu, deviation]), axis=0) - cp.log(deviation))

    return penalty


def model_of(case, system):
    """The estimator with the settings of the case, and its problem."""
    examples, settings = CASES[case]
    model = clone((SYSTEMS | OTHERS | SLACKS)[system])
    model.set_params(**{name: value for name, value in settings.items() if name in model.get_params()})
    problem = model.pose(examples, distinct_labels(examples.y))
    return model, problem


@cache
def optimum(case, system):
    model, problem = model_of(case, system)
    if system == "LapMEDN variational":
        # the problem is posed for the exact method with 2 C; the reference knows nothing of that
        problem.C = model.C
        return primal_optimum(problem, variational_penalty(model.lam))
    if system == "M3N":
        return primal_optimum(problem, lambda mu: cp.sum_squares(mu) / 2)
    if system == "L1M3N":
        return primal_optimum(problem, lambda mu: cp.norm1(mu) / 2)
    if system == "L1M3N ball":
        return primal_optimum(problem, lambda mu: 0.0, [lambda mu: cp.norm1(mu) <= model.radius])
    if system == "CRF":
        return primal_optimum(problem, lambda mu: 0.0)
    if system == "L1CRF":
        return primal_optimum(problem, lambda mu: model.lam * cp.norm1(mu))
    if system.startswith("L2CRF"):
        return primal_optimum(problem, lambda mu: model.lam * cp.sum_squares(mu) / 2)
    return dual_optimum(problem)


# ---- all solvers -----------------------------------------------------------------------------------------------------

OTHERS = {
    f"{type(prior).__name__} {k} {type(loss).__name__}": MaxEnDNet(prior, loss, C=0.8)
    for k, prior in enumerate(PRIORS)
    for loss in (Hinge(), Log())
} | {
    f"{type(prior).__name__} margin Log": MaxEnDNet(prior, Log(1.5), C=0.8)
    for prior in (Laplace(1.5), ElasticNet(0.2, 0.7))
}


# the penalty of the hinge need not be linear; trees have sample weights, one of them 0
SLACKS = {
    f"{type(prior).__name__} {slack} slack": MaxEnDNet(prior, Hinge(slack=slack), C=C)
    for prior in (Gaussian(variance=1.5, mean=0.1), Laplace(lam=1.5), SpikeSlab(p=0.3, v=2.0), L1Ball(radius=1.5))
    for slack, C in (("squared", 0.4), ("kl", 2.0))
}


def combinations():
    """Every case with every system and every solver that accepts the problem; the other priors on chains."""
    for case in CASES:
        further = {"chains": [*OTHERS, *SLACKS], "trees": SLACKS}
        for system in [*SYSTEMS, *further.get(case, ())]:
            _, problem = model_of(case, system)
            if system == "LapMEDN variational":  # its solver= is the one for the Gaussian problems
                problem = problem.replace(prior=Gaussian())
            for kind in solvers.ALL:
                if not missing(kind, problem):
                    yield pytest.param(case, system, kind, id=f"{case}-{system}-{kind.__name__}".replace(" ", "_"))


COMBINATIONS = list(combinations())


def test_every_solver_and_every_prior_is_here():
    of_unknown_labels = {solvers.ConcaveConvex, solvers.SelfTraining}  # in tests/test_unknown_labels.py
    assert {combination.values[2] for combination in COMBINATIONS} == set(solvers.ALL) - of_unknown_labels
    limits = {priors.L1, priors.L1Ball, priors.Flat}  # in the table of systems
    protocols = {priors.Prior, priors.ExactPrior}
    not_convex = {priors.StudentT, priors.Jeffreys}  # in tests/solvers/test_variational.py
    known = {getattr(priors, name) for name in priors.__all__}
    assert {type(prior) for prior in PRIORS} == known - limits - protocols - not_convex


@pytest.mark.parametrize("system", ["Laplace 2 Hinge", "SpikeSlab 6 Log", "Exponential 7 Hinge", "Uniform 8 Log"])
def test_the_reference_by_newton_steps_agrees_with_cvxpy(system, monkeypatch):
    expected, (_, problem) = optimum("chains", system), model_of("chains", system)
    monkeypatch.setitem(globals(), "cumulant", lambda prior, eta: None)
    assert dual_optimum(problem) == pytest.approx(expected, rel=SLACK)


@pytest.mark.parametrize(("case", "system", "kind"), COMBINATIONS)
def test_solver_reaches_the_optimum(case, system, kind):
    model, problem = model_of(case, system)
    expected = optimum(case, system)
    # without a certificate tol is on the gradient, whose square is the error
    tol = max(1e-5 if system == "CRF" else TOL, kind.accuracy)
    model.set_params(solver=kind(), tol=tol, max_passes=MAX_PASSES, random_state=0)
    model.fit(CASES[case][0])
    assert model.converged_
    assert model.objective_ == pytest.approx(expected, rel=max(1e-5, kind.accuracy))
    check_objective(model, problem)
    check_certificate(model, problem, expected)


@pytest.mark.parametrize("max_passes", [1, 3, 30])
@pytest.mark.parametrize(("case", "system", "kind"), COMBINATIONS)
def test_certificate_holds_long_before_convergence(case, system, kind, max_passes):
    model, problem = model_of(case, system)
    # A rough solver would spend minutes on the digits it is not made for; and a pass of Algorithm 1 is a whole Gaussian
    # problem.
    tol = max(TOL, kind.accuracy if system == "LapMEDN variational" else kind.accuracy / 10)
    model.set_params(solver=kind(), tol=tol, max_passes=max_passes, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(CASES[case][0])
    check_objective(model, problem)
    check_certificate(model, problem, optimum(case, system))


def system_is_variational(model):
    return getattr(model, "method", None) == "variational"


def check_objective(model, problem):
    """``objective_`` is the table's expression at the weights returned, the loss by enumeration."""
    mu, C, penalty = model.posterior_.mean, problem.C, problem.prior.penalty
    if system_is_variational(model):
        v = model.posterior_.variance
        C, penalty = model.C, lambda mu: np.sum(np.sqrt(model.lam * (mu**2 + v)) - 0.5 * np.log(v))
    losses = [
        weight * (logsumexp(cost - df @ mu) if problem.loss.smooth else slack_loss(np.max(cost - df @ mu), problem))
        for df, cost, weight in differences(problem)
    ]
    assert model.objective_ == pytest.approx(penalty(mu) + C * np.sum(losses), rel=1e-9)


def slack_loss(h, problem):
    """U(h) / C, from its definition."""
    if problem.loss.slack == "squared":
        return h**2 / 2
    if problem.loss.slack == "kl":
        return (problem.C * h - 1 - np.log(problem.C * h)) / problem.C if h > 1 / problem.C else 0.0
    return h


def check_certificate(model, problem, expected):
    """Dual below the optimum below the objective, and the true gap at most the reported one, in every row."""
    slack = SLACK * abs(expected)
    at_zero, constant = problem.at_zero, 0.0
    if system_is_variational(model):
        at_zero, constant = 0.5 * at_zero, problem.n_weights * (1 + 0.5 * np.log(model.lam))
    last = (model.objective_, model.dual_, model.gap_)
    assert np.allclose(last, model.trace_[-1][3:6], rtol=1e-9, equal_nan=True)
    for primal, dual, gap in [last, *(row[3:6] for row in model.trace_)]:
        assert primal >= expected - slack
        if isinstance(model, CRF):
            assert np.isnan(dual) and np.isnan(gap)
            continue
        assert dual <= expected + slack
        denominator = max(abs(primal - constant), 1e-9 * at_zero)
        assert primal - expected <= gap * denominator + slack
        assert gap == pytest.approx((primal - dual) / denominator, rel=1e-6, abs=1e-12)
