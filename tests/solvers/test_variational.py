"""`Variational` under every prior with ``next_variance``."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import norm
from scipy.stats import t as student_t

import maxendnet
from maxendnet import Examples, Jeffreys, Laplace, LapMEDN, Log, MaxEnDNet, SquaredL1, StudentT
from maxendnet.data.labels import distinct_labels
from maxendnet.priors import Gaussian
from maxendnet.solvers import LBFGS, BlockFrankWolfe, Variational, run

NOT_CONVEX = [StudentT(), StudentT(a=0.1, b=0.01), Jeffreys()]
TINY = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]


def chains(n=12, seed=0):
    """Return chains with two relevant and six irrelevant features."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), 8)) for _ in range(n)]
    true = np.zeros((8, 3))
    true[:2] = 3 * rng.normal(size=(2, 3))
    return X, [(x @ true + 0.3 * rng.normal(size=(len(x), 3))).argmax(axis=1) for x in X]


def problem_of(prior, C=2.0):
    examples = Examples.build(*chains())
    return MaxEnDNet(prior, C=C).pose(examples, distinct_labels(examples.y))


@pytest.mark.parametrize("prior", [*NOT_CONVEX, SquaredL1(30.0), Laplace(2.0)], ids=repr)
def test_objective_never_increases(prior):
    problem, solver = problem_of(prior), Variational(iterations=8)
    state = solver.start(problem, seed=0, tol=1e-4)
    values = []
    for _ in range(8):
        state = solver.step(problem, state)
        values.append(state.objective)
    assert np.diff(values).max() <= 2.5e-5 * abs(values[0])  # to the accuracy of the Gaussian problems
    assert values[-1] < values[0]


@pytest.mark.parametrize("prior", NOT_CONVEX, ids=repr)
def test_without_a_certificate_it_stops_at_a_fixed_point(prior):
    model = MaxEnDNet(prior, C=2.0, tol=1e-4, random_state=0).fit(*chains())
    assert model.converged_ and np.isnan(model.dual_) and np.isnan(model.gap_)
    mu, problem = model.posterior_.mean, problem_of(prior)
    # no small change of the mean is better: the loss is convex, and its subgradient the only one on the way
    rng = np.random.default_rng(0)
    here = problem.primal(mu)
    assert here <= model.objective_ + 1e-6 * abs(here)
    for _ in range(50):
        assert problem.primal(mu * (1 + 0.05 * rng.normal(size=len(mu)))) >= here - 2e-3 * abs(here)


def test_bound_of_student_t_is_the_divergence_of_the_joint_distribution():
    a, b, mu, v = 1.3, 0.4, 0.7, 0.2
    rate = b + (mu**2 + v) / 2  # of q(alpha), the best there is for this mean and variance

    def density(alpha, shape, rate):
        return np.exp(shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(alpha) - rate * alpha)

    def divergence(alpha):
        q = density(alpha, a + 0.5, rate)
        from_gaussian = 0.5 * (alpha * (mu**2 + v) - 1 - np.log(alpha * v))
        return q * (from_gaussian + np.log(q / density(alpha, a, b)))

    expected = quad(divergence, 1e-9, 200, limit=500)[0]
    prior = StudentT(a, b)
    assert prior.bound(np.array([mu]), np.array([v])) == pytest.approx(expected, rel=1e-6)
    # and an upper bound of the divergence from the Student-t density itself
    true = student_t(df=2 * a, scale=np.sqrt(b / a))
    alone = norm.expect(lambda w: norm.logpdf(w, mu, np.sqrt(v)) - true.logpdf(w), loc=mu, scale=np.sqrt(v))
    assert 0 < alone <= expected


def test_student_t_at_the_best_variance():
    prior, mu = StudentT(1.5, 0.7), np.array([-1.0, 0.0, 3.0])
    best = (prior.b + mu**2 / 2) / prior.a
    assert prior.penalty(mu) == prior.bound(mu, best)
    for factor in (0.9, 1.1):
        assert prior.bound(mu, factor * best) > prior.penalty(mu)
    np.testing.assert_allclose(prior.next_variance(mu, best), best)


def test_jeffreys_keeps_few_weights_and_among_them_those_that_matter():
    model = MaxEnDNet(Jeffreys(), C=5.0, tol=1e-3, random_state=0).fit(*chains(25))
    size = np.sort(np.abs(model.posterior_.mean))
    # a weight is either there or not: nothing between a hundred-thousandth and a tenth
    assert np.count_nonzero(size > 1e-5) == np.count_nonzero(size > 0.1) < 12
    size = np.abs(model.coef_).max(axis=1)
    assert size[:2].min() > 5 * size[2:].max()


def test_squared_l1_is_conjugate_to_its_dual():
    rng, prior = np.random.default_rng(0), SquaredL1(3.0)
    for _ in range(100):
        mu, eta = rng.normal(size=(2, 5))
        assert prior.penalty(mu) + prior.conjugate(eta) >= mu @ eta
        mu = prior.conjugate_slope(eta)
        assert prior.penalty(mu) + prior.conjugate(eta) == pytest.approx(mu @ eta)
    # the least over variances of sum K / lam
    tau = prior.next_variance(mu + 0.1, np.ones(5))
    assert tau.sum() == pytest.approx(5 / 3.0)
    assert prior.penalty(mu + 0.1) == pytest.approx(Gaussian(tau).penalty(mu + 0.1))
    assert prior.penalty(np.zeros(5)) == 0 and np.array_equal(prior.next_variance(np.zeros(5), tau), tau)


def test_squared_l1_has_exact_zeros_that_stay():
    problem, solver = problem_of(SquaredL1(5.0)), Variational(iterations=60)
    state, zero = solver.start(problem, seed=0, tol=0.02), np.zeros(problem.n_weights, dtype=bool)
    for _ in range(60):
        state = solver.step(problem, state)
        now = solver.evaluate(problem, state).w == 0
        assert np.all(now[zero])
        zero = now
    assert 0 < np.count_nonzero(zero) < len(zero)


def test_laplace_is_algorithm_1_of_the_paper():
    X, y = chains()
    lam, C = 0.5, 1.0
    problem = LapMEDN(C=C, lam=lam, method="variational").pose(Examples.build(X, y), distinct_labels(np.concatenate(y)))
    v = np.ones(problem.n_weights)
    for _ in range(3):
        used = v
        mu = run(BlockFrankWolfe(), problem.replace(prior=Gaussian(v), C=C), tol=1e-5, seed=0).w
        v = np.sqrt((mu**2 + v) / lam)
    model = LapMEDN(C=C, lam=lam, method="variational", iterations=3, tol=4e-5, random_state=0)
    model.fit(X, y)
    np.testing.assert_allclose(model.posterior_.mean, mu, atol=1e-2 * np.abs(mu).max())
    np.testing.assert_allclose(model.posterior_.variance, used, rtol=1e-2)


@pytest.mark.parametrize("prior", [StudentT(), Jeffreys(), SquaredL1()], ids=repr)
def test_default_solver_and_model_file(prior, tmp_path):
    model = MaxEnDNet(prior, random_state=0).fit(*TINY)
    model.save(tmp_path / "model")
    loaded = maxendnet.load(tmp_path / "model")
    assert np.array_equal(loaded.coef_, model.coef_) and repr(loaded.prior) == repr(prior)
    assert loaded.posterior_.kind == model.posterior_.kind
    assert model.posterior_.kind == ("variational" if isinstance(prior, StudentT) else "point")


def test_posterior_of_student_t():
    model = MaxEnDNet(StudentT(), C=2.0, random_state=0).fit(*chains())
    posterior = model.posterior_
    loss = problem_of(StudentT()).loss_and_gradient(posterior.mean).loss
    assert model.objective_ == pytest.approx(posterior.kl + 2.0 * loss, rel=1e-9)
    assert posterior.sample(10, random_state=0).shape == (10, len(posterior.mean))


@pytest.mark.parametrize("prior", [StudentT(), Jeffreys(), SquaredL1()], ids=repr)
def test_other_solvers_are_refused(prior):
    with pytest.raises(ValueError, match=r"BlockFrankWolfe needs prior\.kernel_args.*Solvers that fit: Variational\."):
        MaxEnDNet(prior, solver=BlockFrankWolfe()).fit(*TINY)
    with pytest.raises(ValueError, match="Solvers that fit: none"):
        MaxEnDNet(prior, loss=Log()).fit(*TINY)


def test_an_inner_solver_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"LBFGS needs loss\.smooth.*Solvers that fit:.*BlockFrankWolfe"):
        MaxEnDNet(Laplace(), solver=Variational(inner=LBFGS())).fit(*TINY)
    with pytest.raises(ValueError, match="inner must be a solver such as BlockFrankWolfe"):
        MaxEnDNet(Laplace(), solver=Variational(inner="fast")).fit(*TINY)


def test_the_warning_names_what_tol_is_on():
    with pytest.warns(match="stopped after 2 passes with relative change of the objective"):
        MaxEnDNet(StudentT(), C=2.0, max_passes=2, tol=1e-9, random_state=0).fit(*chains())


@pytest.mark.parametrize("prior", [StudentT(a=0.0), StudentT(b=-1.0), Jeffreys(floor=0.0), SquaredL1(lam=np.inf)])
def test_bad_hyper_parameters(prior):
    with pytest.raises(ValueError, match=f"{type(prior).__name__} needs .* > 0 and finite"):
        MaxEnDNet(prior).fit(*TINY)


@pytest.mark.parametrize("lam", [1e-300, 1e300])
def test_a_lam_near_the_end_of_floating_point_numbers(lam):
    model = LapMEDN(C=1, lam=lam, method="variational").fit([np.eye(3)] * 2, [[0, 1, 2]] * 2)
    assert model.converged_
    assert np.isfinite(model.coef_).all()
