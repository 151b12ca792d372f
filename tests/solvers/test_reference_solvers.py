"""Reference solvers of the hinge dual: exponentiated gradient, SMO, extragradient."""

from __future__ import annotations

import warnings

import brute_force
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from maxendnet import M3N, Chain, Examples, Gaussian, Hinge, Laplace, LapMEDN, MaxEnDNet
from maxendnet.backends import Threads
from maxendnet.problem import Problem
from maxendnet.solvers import SMO, BlockFrankWolfe, ExponentiatedGradient, Extragradient, Smoothing, run
from maxendnet.structures.bound.forest import BoundForest

SOLVERS = [pytest.param(kind(), id=kind.__name__) for kind in (ExponentiatedGradient, SMO, Extragradient)]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def problem_of(case, prior, C=0.7, n_jobs=1):
    """Sum-product works with scaled probabilities where the tree is small, or in logarithms: both occur."""
    batch = case.batch._replace(largest=5.0, max_children=4 if case.seed % 2 else 1 << 30)
    return Problem.pose(BoundForest(case.layout, batch), Hinge(case.cost), prior, C, Threads(n_jobs))


def words(n=12, n_labels=3, separable=False, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = [rng.integers(n_labels, size=rng.integers(1, 5)) for _ in range(n)]
    X = [4 * np.eye(n_labels)[labels] if separable else scale * rng.normal(size=(len(labels), 4)) for labels in y]
    return X, y


def dual_point(problem, probabilities):
    """``(eta, cost)`` of ``alpha_i = C u_i p_i``, p_i given as ``{labelling: probability}`` for every example."""
    s, batch = problem.structure.layout, problem.batch
    sizes = {"n_labels": s.n_labels, "n_features": s.n_features, "n_edge_types": s.n_edge_types}
    eta, cost = np.zeros(s.n_weights), 0.0
    for i, chances in enumerate(probabilities):
        truth = brute_force.example_truth(batch, i)
        right = brute_force.feature_vector(batch, i, truth, **sizes)
        for y, p in chances.items():
            alpha = problem.C * batch.sample_weight[i] * p
            eta += alpha * (right - brute_force.feature_vector(batch, i, y, **sizes))
            cost += alpha * brute_force.labelling_cost(truth, y, problem.cost)
    return eta, cost


# ---- dual points -----------------------------------------------------------------------------------------------------


@given(strategies.forest_cases(scales=(1.0, 0.0, 5.0)), st.sampled_from([0.0, 0.8, -1.0]), st.sampled_from([0.0, 1.5]))
@settings(deadline=None, max_examples=60)
def test_shared_potentials_are_enumeration(case, A, B):
    problem = problem_of(case, Gaussian())
    chances, value = [], 0.0
    for i, scores in enumerate(brute_force.scores_of_weights(case.w, case.batch, **case.kwargs)):
        truth = brute_force.example_truth(case.batch, i)
        node = scores.node_scores.copy()
        for t, right in enumerate(truth):
            node[t] += A * problem.cost[right] + B * (np.arange(case.n_labels) == right)
        chances.append(brute_force.probabilities(node, *scores[1:]))
        value -= case.batch.sample_weight[i] * np.log(max(chances[-1][truth], 1e-300))
    eta, cost = dual_point(problem, chances)
    found = problem.gibbs(A, case.w, B)
    assert_allclose(found[0], value, rtol=1e-8, atol=1e-8)
    assert_allclose(found[1], eta, atol=1e-9)
    assert_allclose(found[2], cost, atol=1e-9)


@given(strategies.forest_cases())
@settings(deadline=None, max_examples=40)
def test_dual_points_of_smo_are_enumeration(case):
    """Weights are positive and at most those of the examples; eta and the cost are those of the labellings."""
    problem = problem_of(case, Gaussian(variance=0.5, mean=0.1))
    result = run(SMO(), problem, tol=0.0, max_passes=5, seed=0, warn=False)
    support, lengths = SMO().support(problem, result.state), np.diff(problem.structure.offsets)
    cuts = np.cumsum(lengths[support.examples])[:-1]
    chances: list[dict] = [{} for _ in range(problem.n_examples)]
    for i, weight, labels in zip(support.examples, support.weights, np.split(support.labels, cuts)):
        assert weight > 0 and tuple(labels.tolist()) not in chances[i]
        chances[i][tuple(labels.tolist())] = weight / (problem.C * case.batch.sample_weight[i])
    assert all(sum(shares.values()) <= 1 + 1e-9 for shares in chances)
    eta, cost = dual_point(problem, chances)
    assert_allclose(result.eta, eta, atol=1e-9)
    assert_allclose(result.cost, cost, atol=1e-9)


# ---- the optimum -----------------------------------------------------------------------------------------------------


@every_solver
@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_every_kind_of_example_under_a_gaussian_with_its_own_variances(solver, data):
    """The optimum of block Frank-Wolfe is in the certified interval after a few passes, and found after many."""
    case = data.draw(strategies.forest_cases(max_nodes=4))
    rng = np.random.default_rng(case.seed)
    n_weights = len(case.w)
    case.batch.sample_weight[0] = data.draw(st.sampled_from([0.0, 1.0]))
    problem = problem_of(case, Gaussian(rng.uniform(0.1, 2.0, n_weights), rng.normal(size=n_weights)))
    best = run(BlockFrankWolfe(), problem, tol=1e-7, max_passes=5000, seed=0, warn=False)
    slack = 1e-8 * max(1.0, abs(best.primal))
    few = run(solver, problem, tol=1e-2, max_passes=7, seed=0, warn=False)
    assert few.dual <= best.primal + slack and few.primal >= best.dual - slack
    many = run(solver, problem, tol=1e-2, max_passes=2000, seed=0, warn=False, warm=few.state)
    assert many.converged
    assert many.dual <= best.primal + slack and many.primal >= best.dual - slack
    assert many.primal == problem.primal(many.w)
    assert_array_equal(many.w, problem.prior.mean(many.eta))
    assert problem.dual(many.eta, many.cost)[0] <= best.primal + slack  # (eta, cost) is a dual point as well


@every_solver
def test_inner_solver_of_the_variational_method(solver):
    """Algorithm 1 around it has the mean of the exact model with four times lam and twice C."""
    X, y = words(8, seed=3)
    tol = 1e-5 if isinstance(solver, Extragradient) else 5e-7
    model = LapMEDN(C=0.3, lam=0.5, method="variational", solver=solver, tol=tol, random_state=0).fit(X, y)
    exact = LapMEDN(C=0.6, lam=2.0, tol=1e-8, max_passes=10_000, random_state=0).fit(X, y)
    assert model.converged_
    assert_allclose(model.posterior_.mean, exact.posterior_.mean, atol=1e-3)


@every_solver
def test_stays_inside_the_domain_of_a_laplace_prior(solver):
    """Also if the eta of a uniform alpha is far outside the domain."""
    problem = small_problem(Laplace(lam=0.5), C=1.0, n=30)
    _, eta, _ = problem.gibbs(0.0, np.zeros(problem.n_weights))
    assert np.abs(eta).max() > 3 * np.sqrt(0.5)
    result = run(solver, problem, tol=0.02, max_passes=2000, seed=0)
    best = run(BlockFrankWolfe(), problem, tol=1e-5, max_passes=5000, seed=0)
    assert best.dual <= result.primal <= 1.03 * best.primal
    assert np.all(np.abs(result.eta) < np.sqrt(0.5))


# ---- degenerate data -------------------------------------------------------------------------------------------------


@every_solver
@pytest.mark.parametrize("C", [1e-6, 0.1, 1.0])
@pytest.mark.parametrize("prior", [Gaussian(), Laplace()], ids=["gaussian", "laplace"])
def test_features_that_are_all_zero(solver, prior, C):
    """All labels of a node score alike at the start, and only transitions can tell them apart later."""
    X, y = words(scale=0.0)
    model = MaxEnDNet(prior, C=C, solver=solver, tol=1e-2, random_state=0).fit(X, y)
    best = MaxEnDNet(prior, C=C, tol=1e-5, max_passes=5000, random_state=0).fit(X, y)
    assert model.objective_ == pytest.approx(best.objective_, rel=1.1e-2)
    assert np.all(model.coef_ == 0)


@every_solver
def test_nothing_to_learn_from(solver):
    """No edges and no features: the gradient is zero, and the hinge stays at the cost of the worst label."""
    X, y = words(scale=0.0)
    model = M3N(C=2.0, structure="independent", solver=solver, tol=1e-3).fit(X, y)
    assert model.objective_ == pytest.approx(2.0 * sum(map(len, y)))
    assert model.dual_ == pytest.approx(model.objective_, rel=1e-3)
    assert np.all(model.coef_ == 0)


@every_solver
def test_a_single_label(solver):
    model = M3N(solver=solver).fit([np.ones((3, 2)), np.ones((1, 2))], [["a"] * 3, ["a"]])
    assert model.objective_ == model.dual_ == 0.0


@every_solver
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_separable_data(solver, C):
    """With a large C the hinge is zero at the optimum, and dual weight remains small; the gap may be large."""
    X, y = words(separable=True)
    best = M3N(C=C, solver=Smoothing(), tol=1e-4, max_passes=5000, random_state=0).fit(X, y)
    model = M3N(C=C, solver=solver, tol=1e-2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.dual_ <= best.objective_ and best.dual_ <= model.objective_
    assert model.objective_ - best.objective_ <= max(1e-2, model.gap_) * model.objective_
    assert model.score(X, y) == 1.0


@every_solver
@pytest.mark.parametrize("prior", [Gaussian(), Laplace()], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_huge_C(solver, prior, scale):
    """No reference solver converges, but the reported bounds are valid."""
    X, y = words(scale=scale)
    model = MaxEnDNet(prior, C=1e6, solver=solver, tol=1e-2, max_passes=40, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        best = MaxEnDNet(prior, C=1e6, tol=1e-2, max_passes=300, random_state=0).fit(X, y)
    assert np.all(np.isfinite([model.objective_, model.dual_, model.gap_])) and np.all(np.isfinite(model.coef_))
    assert model.dual_ <= best.objective_ and best.dual_ <= model.objective_
    assert model.dual_ >= 0


@every_solver
def test_empty_examples_and_examples_without_weight(solver):
    X, y = words()
    noise = np.random.default_rng(1).normal(size=(4, 4))
    sample_weight = [1.0] * len(X) + [1.0, 0.0]
    more = Examples.build([*X, np.zeros((0, 4)), noise], [*y, [], [0, 1, 2, 0]], sample_weight=sample_weight)
    model = M3N(solver=solver, tol=1e-2, random_state=0).fit(more)
    plain = M3N(tol=1e-5, max_passes=5000, random_state=0).fit(X, y)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1.1e-2)


# ---- what every solver promises --------------------------------------------------------------------------------------


def small_problem(prior=None, C=0.7, n_jobs=1, n=60):
    forest = Chain().bind(Examples.build(*words(n)), np.arange(3))
    return Problem.pose(forest, Hinge(), prior or Gaussian(), C, Threads(n_jobs))


@every_solver
def test_resume(solver):
    """A solver resumes from its own state, and its dual value never falls below the previous one."""
    problem = small_problem()
    first = run(solver, problem, tol=0.0, max_passes=20, seed=0, warn=False)
    more = run(solver, problem, tol=0.0, max_passes=10, seed=1, warm=first.state, warn=False)
    assert more.trace[0].dual >= first.dual - 1e-9 * abs(first.dual)
    assert more.dual > first.dual


@every_solver
@pytest.mark.parametrize(
    ("prior", "C"), [(Gaussian(0.5), 0.7), (Gaussian(), 2.0), (Gaussian(), 0.1), (Laplace(5.0), 0.7)]
)
def test_warm_start_of_another_problem(solver, prior, C):
    """From the solution of a problem nearby: the certificate is that of the new one, which is reached."""
    first = run(solver, small_problem(), tol=1e-2, max_passes=2000, seed=0)
    problem = small_problem(prior, C)
    best = run(BlockFrankWolfe(), problem, tol=1e-6, max_passes=5000, seed=0)
    for max_passes in (1, 2000):
        result = run(solver, problem, tol=1e-2, max_passes=max_passes, seed=0, warm=first.state, warn=False)
        assert result.dual <= best.primal * (1 + 1e-9) and result.primal >= best.dual * (1 - 1e-9)
    assert result.converged


@every_solver
def test_a_state_of_other_data_is_not_taken(solver):
    first = run(solver, small_problem(n=30), tol=0.1, max_passes=100, seed=0)
    result = run(solver, small_problem(n=40), tol=1e-2, max_passes=2000, seed=0, warm=first.state)
    assert result.converged


@every_solver
def test_same_bits_for_any_number_of_threads_and_the_same_seed(solver):
    one, two, three = (
        run(solver, small_problem(n_jobs=k), tol=0.0, max_passes=12, seed=5, warn=False) for k in (1, 2, 3)
    )
    assert_array_equal(one.w, two.w)
    assert_array_equal(one.w, three.w)
    assert (one.primal, one.dual) == (two.primal, two.dual) == (three.primal, three.dual)


def test_priors_that_kernels_do_not_know():
    X, y = words()
    full = Gaussian(np.eye(21) + 0.3)
    fits = [MaxEnDNet(full, C=0.5, solver=kind(), tol=1e-2).fit(X, y) for kind in (ExponentiatedGradient, SMO)]
    other = MaxEnDNet(full, C=0.5, solver=Extragradient(), tol=1e-2).fit(X, y)
    for model in fits:
        assert model.objective_ == pytest.approx(other.objective_, rel=2e-2)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (ExponentiatedGradient(step_size=0.0), "step_size must be None or a positive finite number, got 0.0"),
        (ExponentiatedGradient(step_size="big"), "step_size must be None or a positive finite number, got 'big'"),
        (ExponentiatedGradient(grow=0.9), "grow must be from 1 to 2, got 0.9"),
        (ExponentiatedGradient(check_every=0), "check_every must be a whole number of at least 1, got 0"),
        (Extragradient(grow=3), "grow must be from 1 to 2, got 3"),
        (Extragradient(check_every=0), "check_every must be a whole number of at least 1, got 0"),
        (SMO(rounds=0), "rounds must be a whole number of at least 1, got 0"),
        (SMO(check_every=-1), "check_every must be a whole number of at least 1, got -1"),
    ],
)
def test_options_that_make_no_sense(solver, message):
    with pytest.raises(ValueError, match=message):
        M3N(solver=solver).fit(*words())
