"""The corrections of docs/reproduction/errata.md, in numbers."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from maxendnet import Gaussian, Laplace, LapMEDN, MaxEnDNet
from maxendnet.experiments.claims.correlated import generating_error
from maxendnet.experiments.engine.data import chains

LAMS = [0.25, 4.0, 100.0]


@pytest.fixture(scope="module")
def drawn():
    return chains(0, 0, 150, 30, sweeps=500)


def kl_norm(mu, lam):
    """The KL-norm as printed in the paper."""
    s = np.sqrt(lam * mu**2 + 1)
    return float(np.sum(np.sqrt(mu**2 + 1 / lam) - np.log((s + 1) / 2) / np.sqrt(lam)))


def test_the_page_has_a_section_for_each_line_of_its_table():
    page = (Path(__file__).parents[2] / "docs/reproduction/errata.md").read_text()
    numbers = re.findall(r"^\| \[.*\]\(#(\d)-", page, re.MULTILINE)
    assert numbers == re.findall(r"^## (\d)\. ", page, re.MULTILINE) == list("12345678")


@pytest.mark.parametrize("lam", LAMS)
def test_1_the_kl_norm_is_at_least_the_number_of_weights_over_the_root_of_lam(lam):
    rng = np.random.default_rng(0)
    smallest = kl_norm(np.zeros(3), lam)
    assert smallest == pytest.approx(3 / np.sqrt(lam))
    values = [kl_norm(rng.normal(size=3), lam) for _ in range(50)]
    assert min(values) > smallest
    if lam > 1:
        assert smallest < 3  # below the printed bound
    # sqrt(lam) times the norm, minus the number of weights, is the KL divergence of the tilted prior, by integration
    eta = 0.6 * np.sqrt(lam)
    mu = 2 * eta / (lam - eta**2)

    def prior(w):
        return np.sqrt(lam) / 2 * np.exp(-np.sqrt(lam) * abs(w))

    z = lam / (lam - eta**2)
    end = 60 / (np.sqrt(lam) - eta)
    divergence, _ = quad(
        lambda w: prior(w) * np.exp(eta * w) / z * (eta * w - np.log(z)), -end, end, points=[0.0], limit=400
    )
    assert np.sqrt(lam) * kl_norm(np.array([mu]), lam) - 1 == pytest.approx(divergence, rel=1e-6)
    assert Laplace(lam).penalty(np.array([mu])) == pytest.approx(divergence, rel=1e-6)


def test_2_the_printed_norm_of_two_weights_is_not_symmetric_and_the_corrected_one_is_the_penalty():
    lam = 16.0

    def two_weights(w1, w2, second):
        roots = np.sqrt(w1**2 + 1 / lam) + np.sqrt(w2**2 + 1 / lam)
        return roots - sum(np.log(np.sqrt(lam * w**2 + 1) / 2 + 0.5) / np.sqrt(lam) for w in (w1, second))

    b = np.sqrt(1 / lam) + np.sqrt(1 + 1 / lam) - np.log(np.sqrt(lam + 1) / 2 + 0.5) / np.sqrt(lam)
    for w1, w2 in ((0.0, 1.0), (1.0, 0.0)):
        assert two_weights(w1, w2, w2) == pytest.approx(b)
        assert two_weights(w1, w2, w2) == pytest.approx((Laplace(lam).penalty(np.array([w1, w2])) + 2) / np.sqrt(lam))
    assert abs(two_weights(1.0, 0.0, 1.0) - b) > 0.1  # as printed: w1 twice
    assert abs(two_weights(0.0, 1.0, 0.0) - b) > 0.1


@pytest.mark.parametrize("lam", [1.5, 2.0, 4.0, 6.0])
def test_3_means_are_shrunk_where_eta_squared_is_below_lam_minus_2(lam):
    eta = np.linspace(0.01, 0.99 * np.sqrt(lam), 200)
    shrunk = np.abs(Laplace(lam).mean(eta)) < eta
    np.testing.assert_array_equal(shrunk, eta**2 < lam - 2)
    assert shrunk.any() == (lam > 2)


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("mu", [0.0, 0.03, 1.0])
def test_4_the_best_variance_is_at_least_1_over_lam(lam, mu):
    v = 1.0
    for _ in range(2000):  # step 2 of Algorithm 1
        v = np.sqrt((mu**2 + v) / lam)
    assert v == pytest.approx((1 + np.sqrt(1 + 4 * lam * mu**2)) / (2 * lam))
    assert v >= (1 - 1e-9) / lam

    def objective(log_v):
        return np.sqrt(lam * (mu**2 + np.exp(log_v))) - 0.5 * log_v

    best = minimize_scalar(objective, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).x
    assert np.exp(best) == pytest.approx(v, rel=1e-4)


def test_4_variances_of_a_fit(drawn):
    model = LapMEDN(lam=36.0, C=1.0, method="variational", tol=1e-3).fit(drawn.examples[:20])
    assert model.posterior_.variance.min() >= (1 - 1e-6) / 36


def test_5_the_variational_problem_is_convex_in_mean_and_standard_deviation(drawn):
    rng = np.random.default_rng(0)

    def objective(mu, sigma):
        return np.sqrt(9.0 * (mu**2 + sigma**2)) - np.log(sigma)

    for _ in range(200):
        (mu1, mu2), (s1, s2) = rng.normal(size=2), rng.gamma(1.0, size=2) + 1e-6
        middle = objective((mu1 + mu2) / 2, (s1 + s2) / 2)
        assert middle <= (objective(mu1, s1) + objective(mu2, s2)) / 2 + 1e-12
    train = drawn.examples[:20]
    variational = LapMEDN(lam=9.0, C=0.5, method="variational", tol=1e-5, max_passes=1000).fit(train)
    exact = LapMEDN(lam=36.0, C=1.0, tol=1e-6, max_passes=20_000).fit(train)
    apart = np.linalg.norm(variational.coef_ - exact.coef_) / np.linalg.norm(exact.coef_)
    assert apart < 0.01


def test_6_the_pseudo_code_with_t_3_solves_two_problems(drawn):
    train, lam, C, T = drawn.examples[:20], 36.0, 1.0, 3
    variance, n_solved, model = None, 0, None
    for _ in range(1, T):
        model = MaxEnDNet(prior=Gaussian() if variance is None else Gaussian(variance), C=C, tol=1e-4).fit(train)
        n_solved += 1
        before = np.ones(len(model.posterior_.mean)) if variance is None else variance
        variance = np.sqrt((model.posterior_.mean**2 + before) / lam)
    assert n_solved == 2
    distance = {}
    for iterations in (2, 3):
        fitted = LapMEDN(lam=lam, C=C, method="variational", iterations=iterations, tol=1e-4).fit(train)
        distance[iterations] = np.linalg.norm(fitted.coef_ - model.coef_) / np.linalg.norm(model.coef_)
    assert distance[2] < 0.005 and distance[3] > 0.02


def test_7_equality_in_the_dual_does_not_solve_the_primal_problem():
    C, cost, df = 10.0, 1.0, 1.0
    alphas = np.linspace(0, C, 100_001)
    best = alphas[np.argmax(alphas * cost - 0.5 * (alphas * df) ** 2)]  # at most C

    def primal(w):
        return 0.5 * w**2 + C * max(0.0, cost - w * df)

    solution = minimize_scalar(primal, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).x
    assert best * df == pytest.approx(solution, abs=1e-3) and solution == pytest.approx(1.0, abs=1e-3)
    assert primal(C * df) == 50.0 > 2 * primal(solution)  # equality forces alpha = C


def test_8_the_generating_model_errs_in_half_of_the_chains_and_at_one_node_in_twelve():
    models = [chains(0, draw, 200, 30, correlated=True, sweeps=300) for draw in range(5)]
    rows = [generating_error(drawn, drawn.examples) for drawn in models]
    assert 0.4 < np.mean([row["chain_error"] for row in rows]) < 0.6
    assert 0.06 < np.mean([row["error"] for row in rows]) < 0.11
