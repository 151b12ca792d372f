"""Solvers on chains of higher order and with rules: certificates, and the same optimum from different solvers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet import L1CRF, L1M3N, L2CRF, M3N, Chain, LapMEDN, solvers
from maxendnet.rules import at_most_once, bio

LABELS = ["a", "b", "c"]


def data(seed=0, n=25, noise=1.5):
    """Sequences in which the label two nodes before matters."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.integers(0, 3, size=2).tolist()
        for _ in range(rng.integers(1, 6)):
            labels.append((labels[-2] + int(rng.random() < 0.2)) % 3)
        X.append(np.eye(3)[labels] + rng.normal(scale=noise, size=(len(labels), 3)))
        y.append([LABELS[a] for a in labels])
    return X, y


PIECES = {
    "order 2": Chain(order=2, bias=True),
    "order 3 seen": Chain(order=3, ends=True),
    "durations": Chain(order=2, ngrams="seen", durations={"a": (None, 9)}),
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize(
    "estimator, others",
    [
        (M3N(C=0.5), [solvers.CuttingPlane(), solvers.Smoothing(), solvers.BlockFrankWolfe(sampling="uniform")]),
        (LapMEDN(C=1.0, lam=4.0), [solvers.BlockFrankWolfe(inner=3)]),
        (L2CRF(), []),
        (L1CRF(), []),
        (L1M3N(C=0.5), [solvers.ConstraintGeneration()]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_certificates_and_agreement(piece, estimator, others):
    X, y = data()
    tol = 2e-3
    first = estimator.set_params(structure=piece, tol=tol, solver=None, random_state=0).fit(X, y)
    assert first.converged_ and first.dual_ <= first.objective_ and first.gap_ <= tol
    for solver in others:
        other = estimator.set_params(solver=solver).fit(X, y)
        assert other.converged_
        assert_allclose(other.objective_, first.objective_, rtol=2 * tol)


@pytest.mark.parametrize("estimator", [M3N(C=0.5), L2CRF(), LapMEDN()], ids=lambda value: type(value).__name__)
def test_a_rule_that_all_labellings_keep_changes_nothing(estimator):
    """Read by an automaton with memory, order 1 has the optimum of the plain chain."""
    X, y = data(1)
    fits = [estimator.set_params(structure=piece, tol=1e-4, random_state=0).fit(X, y).objective_ for piece in (
        Chain(bias=True, ends=True), Chain(bias=True, ends=True, durations=50)
    )]  # fmt: skip
    assert_allclose(fits[1], fits[0], rtol=2e-4)


def test_order_two_learns_what_order_one_cannot():
    X, y = data(2, n=150, noise=1.0)
    fresh_X, fresh_y = data(3, n=150, noise=1.0)
    first, second = (M3N(C=0.1, structure=Chain(order=k)).fit(X, y).score(fresh_X, fresh_y) for k in (1, 2))
    assert second > first + 0.05


def test_threads_give_the_same_bits():
    X, y = data(4)
    for estimator in (M3N(C=0.5), L2CRF()):
        fits = [
            estimator.set_params(structure=Chain(order=2), n_jobs=n_jobs, random_state=0).fit(X, y).model_.weights
            for n_jobs in (1, 2)
        ]
        assert np.array_equal(*fits)


def test_margin_models_learn_under_pairwise_rules():
    rng = np.random.default_rng(5)
    y = [["O", "B", "I", "O"], ["B", "I", "I"], ["O", "O", "B"]] * 5
    X = [rng.normal(size=(len(labels), 4)) for labels in y]
    for estimator in (M3N(), LapMEDN(), L1M3N(), L2CRF(), L1CRF()):
        model = estimator.set_params(structure=Chain(rules=bio()), tol=1e-3, random_state=0).fit(X, y)
        assert model.converged_ and model.gap_ <= 1e-3
        for labels in model.predict([rng.normal(size=(6, 4)) for _ in range(20)]):
            assert "OI" not in "".join(labels) and labels[0] != "I"


def test_solvers_for_forests_refuse():
    X, y = data(6)
    for estimator in (L2CRF(solver=solvers.PotentialAscent()), L1CRF(solver=solvers.ProximalAscent())):
        with pytest.raises(ValueError, match=r"structure\.pairwise"):
            estimator.set_params(structure=Chain(order=2)).fit(X, y)
        with pytest.raises(ValueError, match=r"structure\.pairwise"):
            estimator.set_params(structure=Chain(forbidden=[("a", "a")])).fit([np.zeros((1, 3))], [["a"]])


def test_at_most_once_in_learning_and_prediction():
    rng = np.random.default_rng(7)
    y = [["o", "p", "o", "o"], ["o", "o"], ["p", "o", "o"]] * 4
    X = [rng.normal(size=(len(labels), 2)) + [[2.0 * (a == "p"), 0.0] for a in labels] for labels in y]
    model = M3N(structure=Chain(rules=at_most_once("p"))).fit(X, y)
    assert all(labels.count("p") <= 1 for labels in model.predict([rng.normal(size=(9, 2)) for _ in range(30)]))
