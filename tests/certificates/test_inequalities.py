"""Concentration inequalities compared with enumeration, binomial distributions and each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from maxendnet.certificates.inequalities import (
    binary_kl,
    chernoff,
    clopper_pearson,
    empirical_bernstein,
    kl_upper,
    margin_bound,
    mean_upper,
    pac_bayes_kl,
)

shares = st.floats(0.0, 1.0)


@given(shares, st.floats(0.0, 5.0))
def test_kl_upper_inverts_kl(q, c):
    p = kl_upper(q, c)
    assert q <= p <= 1.0
    assert binary_kl(q, max(q, p - 2e-12)) <= c + 1e-15
    assert p == 1.0 or binary_kl(q, p) >= c


@given(shares, shares)
def test_kl_is_above_twice_the_squared_difference(q, p):
    """By Pinsker's inequality the kl form is never worse than Hoeffding's bound."""
    assert binary_kl(q, p) >= 2 * (p - q) ** 2 - 1e-12


@pytest.mark.parametrize("p", [0.02, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_binomial_coverage_by_enumeration(p, n, delta):
    """Return the probability that a bound fails, by summation over all outcomes."""
    k = np.arange(n + 1)
    chance = binom.pmf(k, n, p)
    samples = [np.repeat([1.0, 0.0], [j, n - j]) for j in k]
    for bound in (
        [clopper_pearson(j, n, delta) for j in k],
        [chernoff(j / n, n, delta) for j in k],
        [empirical_bernstein(sample, delta) for sample in samples],
        [mean_upper(sample, delta) for sample in samples],
        [pac_bayes_kl(j / n, 0.0, n, delta) for j in k],
    ):
        assert chance[np.array(bound) < p].sum() <= delta
    # exact: the bound at j is the p at which j or fewer have probability delta
    exact = clopper_pearson(2, n, delta)
    assert binom.cdf(2, n, exact) == pytest.approx(delta)


def test_the_normalisation_of_pac_bayes_kl():
    """E exp(n kl(empirical || true)) <= 2 sqrt(n), the basis of the bound, by enumeration."""
    for n in (1, 2, 3, 5, 8, 30, 200):
        k = np.arange(n + 1)
        for p in (0.01, 0.3, 0.5):
            moment = np.exp(binom.logpmf(k, n, p) + [n * binary_kl(j / n, p) for j in k]).sum()
            assert moment <= 2 * np.sqrt(n) * (1 + 1e-12)


def test_pac_bayes_kl_by_hand():
    # log(2 sqrt(100) / 0.05) = 5.9915; kl(0.1 || p) = 0.159915
    p = pac_bayes_kl(0.1, 10.0, 100, 0.05)
    assert binary_kl(0.1, p) == pytest.approx((10.0 + np.log(400.0)) / 100, rel=1e-9)


def test_theorem_8_by_hand():
    """With a single margin only m is minimised."""
    n, kl, c, delta, log_y, margin = 1000, 3.0, 2.0, 0.1, 2.0, 1.5
    expected = min(
        np.exp(log_y - m * margin**2 / (32 * c**2))
        + np.sqrt((m * kl + np.log(n) + 3 * np.log((m + 1) / delta) + 2) / (2 * n - 1))
        for m in range(1, 3000)
    )
    bound, gamma = margin_bound(np.full(n, margin), kl, log_y, c, delta)
    assert gamma == pytest.approx(margin)
    assert bound == pytest.approx(expected, rel=1e-3) and bound >= expected * (1 - 1e-12)
    assert margin_bound(np.zeros(5), kl, log_y, c, delta)[0] == np.inf
