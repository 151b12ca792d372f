"""The interior-point path for L1-M3N and L1-CRFs: its bound, its zeros, its limits, and when it is the default."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1CRF, L1M3N, Chain
from maxendnet.solvers import OWLQN, ConstraintGeneration, InteriorPoint
from maxendnet.solvers.curvature import sampled_hessian
from maxendnet.solvers.subproblems.smooth_l1 import SmoothL1


def words(n, seed=0, n_labels=3, noise=0.8, extra=0):
    """Words of two to six letters; ``extra`` features are noise."""
    rng = np.random.default_rng(seed)
    y = [rng.integers(n_labels, size=rng.integers(2, 7)) for _ in range(n)]
    X = [np.eye(n_labels)[labels] + noise * rng.normal(size=(len(labels), n_labels)) for labels in y]
    return [np.hstack([x, rng.normal(size=(len(x), extra))]) for x in X], y


def optimum(C, X, y):
    exact = L1M3N(C, solver=ConstraintGeneration(), tol=1e-8).fit(X, y)
    return exact.dual_, exact.objective_


@pytest.mark.parametrize("C", [0.05, 0.5, 20.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_every_look_is_a_bound(C, tol):
    X, y = words(40, extra=2)
    low, high = optimum(C, X, y)
    model = L1M3N(C, solver=InteriorPoint(), tol=tol).fit(X, y)
    assert model.converged_ and model.gap_ <= tol
    assert model.objective_ <= high * (1 + tol) + 1e-9
    for row in model.trace_:
        assert row.dual <= high + 1e-9 * high and row.primal >= low - 1e-9 * high


def test_weights_that_say_nothing_are_exactly_zero():
    X, y = words(300, extra=5)
    model = L1M3N(0.1, solver=InteriorPoint(), tol=1e-3).fit(X, y)
    node = model.posterior_.mean[: 8 * 3].reshape(8, 3)
    exact = L1M3N(0.1, solver=ConstraintGeneration(), tol=1e-6).fit(X, y)
    zeros = exact.posterior_.mean == 0
    assert zeros.sum() >= 8
    assert (model.posterior_.mean[zeros] == 0).mean() >= 0.8
    assert (node[3:] == 0).sum() > (node[:3] == 0).sum()


def test_few_examples_with_many_features():
    """With fewer nodes than weights, which the solver is not designed for, the result is still correct."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 20)) for _ in range(5)]
    y = [rng.integers(4, size=3) for _ in X]
    model = L1M3N(1.0, solver=InteriorPoint(), tol=1e-2).fit(X, y)
    low, high = optimum(1.0, X, y)
    assert model.converged_ and model.dual_ <= high and model.objective_ >= low
    assert (model.posterior_.mean == 0).any()


def test_all_weights_are_zero_under_a_tiny_C():
    X, y = words(40)
    model = L1M3N(1e-4, solver=InteriorPoint(), tol=1e-3).fit(X, y)
    assert model.converged_ and not model.posterior_.mean.any()


def test_one_label_and_no_features():
    X, _ = words(5)
    assert L1M3N(solver=InteriorPoint()).fit(X, [["a"] * len(x) for x in X]).converged_
    X, y = words(20)
    assert L1M3N(solver=InteriorPoint(), tol=1e-2).fit([np.zeros_like(x) for x in X], y).converged_


def test_features_too_large_for_float32():
    X, y = words(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = L1M3N(0.5, solver=InteriorPoint(), tol=1e-2, max_passes=100).fit([1e25 * x for x in X], y)
    assert np.isfinite(model.objective_) and 0 <= model.dual_ <= model.objective_


def test_without_a_hessian(monkeypatch):
    """If labellings cannot be sampled, the fit is slower, but its certificate is valid."""
    monkeypatch.setattr(sampled_hessian, "can_sample", lambda problem: False)
    X, y = words(40)
    low, high = optimum(0.5, X, y)
    model = L1M3N(0.5, solver=InteriorPoint(), tol=1e-2, max_passes=3000).fit(X, y)
    assert model.converged_ and model.dual_ <= high and model.objective_ >= low


def test_warm_start():
    X, y = words(60)
    model = L1M3N(0.5, solver=InteriorPoint(), tol=1e-2, warm_start=True).fit(X, y)
    assert model.set_params(C=0.6).fit(X, y).converged_


@pytest.mark.parametrize("option", [{"first_temperature": 0.0}, {"look_every": 0}])
def test_bad_options(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        L1M3N(solver=InteriorPoint(**option)).fit(*words(3))


def test_default_on_many_nodes_with_few_weights_and_a_large_C():
    def solver(C, n, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = L1M3N(C, max_passes=1, structure=Chain(), **options).fit(*words(n))
        return model.solver_.split(":")[0]

    assert solver(1.0, 2700, tol=1e-2) == "InteriorPoint"
    assert solver(1.0, 100, tol=1e-2) == "ProximalPoint"
    assert solver(1e-4, 2700, tol=1e-2) == "ProximalPoint"
    assert solver(1.0, 2700, tol=1e-2, radius=1.0) == "ProximalPoint"


@pytest.mark.parametrize("width", [1.0, 1e-2])
def test_smooth_l1_is_a_penalty_and_its_dual(width):
    prior, w, step = SmoothL1(0.5, width), np.array([-2.0, 1e-3, 0.3]), 1e-6
    slope = [(prior.penalty(w + step * e) - prior.penalty(w - step * e)) / (2 * step) for e in np.eye(3)]
    eta = prior.gradient(w)
    np.testing.assert_allclose(eta, slope, rtol=1e-5)
    np.testing.assert_allclose(prior.mean(eta), w, rtol=1e-6)
    np.testing.assert_allclose(prior.penalty(w) + prior.cumulant(eta), eta @ w, rtol=1e-9)
    assert prior.penalty(w) <= 0.5 * np.abs(w).sum() and 0 <= prior.barrier(w) <= 2 * width * 3


# ---- the log loss ----------------------------------------------------------------------------------------------------


def attributes(n, seed=0, n_values=4):
    """Words whose features are the values of two attributes and a bias: the features of an attribute add up to it."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(3, size=rng.integers(2, 7))
        one = np.where(rng.random(len(labels)) < 0.6, labels, rng.integers(3, size=len(labels)))
        X.append(
            np.hstack(
                [np.eye(3)[one], np.eye(n_values)[rng.integers(n_values, size=len(labels))], np.ones((len(labels), 1))]
            )
        )
        y.append(labels)
    return X, y


@pytest.mark.parametrize("make", [words, attributes])
@pytest.mark.parametrize("lam", [0.1, 3.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4])
def test_l1_crf_has_a_bound_at_every_look(make, lam, tol):
    X, y = make(40)
    exact = L1CRF(lam, solver=OWLQN(), tol=1e-9, max_passes=5000).fit(X, y)
    model = L1CRF(lam, solver=InteriorPoint(), tol=tol).fit(X, y)
    assert model.converged_ and model.gap_ <= tol
    assert model.objective_ <= exact.objective_ * (1 + tol)
    for row in model.trace_:
        assert row.dual <= exact.objective_ * (1 + 1e-9) and row.primal >= exact.dual_ * (1 - 1e-9)


def test_weights_of_an_l1_crf_that_say_nothing_are_exactly_zero():
    X, y = words(300, extra=5)
    model = L1CRF(5.0, solver=InteriorPoint(), tol=1e-3).fit(X, y)
    zeros = L1CRF(5.0, solver=OWLQN(), tol=1e-6).fit(X, y).posterior_.mean == 0
    assert zeros.sum() >= 8 and (model.posterior_.mean[zeros] == 0).mean() >= 0.8


def test_l1_crf_ends():
    """One label, a strong penalty, features that are zero, features too large for float32, few examples."""
    X, y = words(20)
    assert L1CRF(solver=InteriorPoint()).fit(X, [["a"] * len(x) for x in X]).converged_
    model = L1CRF(1e5, solver=InteriorPoint()).fit(X, y)
    assert model.converged_ and not model.posterior_.mean.any()
    assert L1CRF(solver=InteriorPoint(), tol=1e-2).fit([np.zeros_like(x) for x in X], y).converged_
    assert L1CRF(0.1, solver=InteriorPoint(), tol=1e-2).fit(X[:2], y[:2]).converged_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = L1CRF(solver=InteriorPoint(), tol=1e-2, max_passes=100).fit([1e25 * x for x in X], y)
    assert np.isfinite(model.objective_) and 0 <= model.dual_ <= model.objective_


def test_some_weights_of_many(monkeypatch):
    """The Hessian covers the weights that are best determined by the examples."""
    monkeypatch.setattr(sampled_hessian, "MAX_WEIGHTS_FULL", 10)
    monkeypatch.setattr(sampled_hessian, "N_COVERED_PARTIAL", 12)
    X, y = attributes(60)
    exact = L1CRF(0.5, solver=OWLQN(), tol=1e-8, max_passes=5000).fit(X, y)
    model = L1CRF(0.5, solver=InteriorPoint(), tol=1e-3, max_passes=3000).fit(X, y)
    assert model.converged_ and exact.dual_ <= model.objective_ <= exact.objective_ * (1 + 1e-3)


def test_default_of_an_l1_crf():
    def solver(X, y, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return L1CRF(max_passes=1, **options).fit(X, y).solver_.split(":")[0]

    assert solver(*words(600)) == solver(*attributes(600)) == "InteriorPoint"
    assert solver(*attributes(600, n_values=90)) == "InteriorPoint"  # sparse features, and few of them
    assert solver(*words(600), tol=1e-6) == solver(*words(100)) == "OWLQN"
    X, y = words(600, extra=400)  # few nodes for each weight
    assert solver(X, y) == "OWLQN"
    assert solver([np.hstack([x, x[:, :1]]) for x in X], y) == "InteriorPoint"


@pytest.mark.parametrize(
    ("model", "change"), [(L1M3N(0.5), {"C": 0.55}), (L1CRF(1.0), {"lam": 0.9})], ids=["hinge", "log"]
)
def test_a_warm_start_begins_near_the_end_of_the_path(model, change):
    X, y = words(60)
    model = clone(model).set_params(solver=InteriorPoint(), warm_start=True).fit(X, y)
    warm = model.set_params(**change).fit(X, y)
    cold = clone(model).fit(X, y)
    assert warm.converged_ and warm.n_passes_ < 0.7 * cold.n_passes_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2.1e-3)
