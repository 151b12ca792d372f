"""Elastic net: conjugate pair, proximal map, limits of L1 and L2, and both losses (see also
tests/test_agreement.py)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from maxendnet import L1CRF, L2CRF, ElasticNet, Hinge, Log, MaxEnDNet, load

NUMBERS = st.floats(-5, 5)
POSITIVE = st.floats(0.05, 5)


@given(POSITIVE, POSITIVE, NUMBERS)
def test_conjugate_is_the_largest_difference(l1, l2, eta):
    prior = ElasticNet(l1, l2)
    best = minimize_scalar(lambda w: prior.penalty([w]) - eta * w, bounds=(-110, 110), method="bounded",
                           options={"xatol": 1e-10})  # fmt: skip
    assert prior.conjugate([eta]) == pytest.approx(-best.fun, abs=1e-6)
    (w,) = prior.conjugate_slope([eta])
    assert prior.penalty([w]) + prior.conjugate([eta]) == pytest.approx(eta * w, abs=1e-12)
    assert (w == 0) == (abs(eta) <= l1)


@given(POSITIVE, POSITIVE, NUMBERS, POSITIVE)
def test_prox_is_the_minimiser(l1, l2, v, step):
    prior = ElasticNet(l1, l2)
    (minimiser,) = prior.prox([v], step)
    price = lambda u: step * prior.penalty([u]) + (u - v) ** 2 / 2  # noqa: E731
    assert all(price(minimiser) <= price(minimiser + d) + 1e-12 for d in (-1e-3, 1e-3, -minimiser))


def chains(seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(4, 3)) for _ in range(15)]
    return X, [rng.integers(3, size=4) for _ in X]


def test_ends_are_l2_and_l1():
    X, y = chains()
    settings = {"tol": 1e-7, "max_passes": 3000, "random_state": 0}
    near_l2 = MaxEnDNet(ElasticNet(1e-9, 0.7), Log(), **settings).fit(X, y)
    assert near_l2.objective_ == pytest.approx(L2CRF(lam=0.7, **settings).fit(X, y).objective_, rel=1e-5)
    near_l1 = MaxEnDNet(ElasticNet(0.7, 1e-6), Log(), **settings).fit(X, y)
    assert near_l1.objective_ == pytest.approx(L1CRF(lam=0.7, **settings).fit(X, y).objective_, rel=1e-4)


@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=["hinge", "log"])
def test_certified_with_zeros_and_saved(loss, tmp_path):
    X, y = chains()
    model = MaxEnDNet(ElasticNet(0.5, 0.3), loss, C=0.3, tol=1e-3, random_state=0).fit(X, y)
    assert model.converged_ and 0 <= model.gap_ <= 1e-3
    assert np.count_nonzero(model.posterior_.mean) < model.posterior_.mean.size
    model.save(tmp_path / "model.medn")
    again = load(tmp_path / "model.medn")
    assert again.predict(X) == model.predict(X) and again.prior.l1 == 0.5 and again.solver_ == model.solver_


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (np.nan, 1.0)])
def test_refuses_other_constants(l1, l2):
    with pytest.raises(ValueError, match=r"ElasticNet needs l[12] > 0 and finite"):
        MaxEnDNet(ElasticNet(l1, l2), Log()).fit([[[1.0]]], [["a"]])
