"""Learning on graphs that are not eliminated: the optimum of the relaxed problem, by cvxpy, is between the bounds."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone

from maxendnet import L1CRF, L1M3N, L2CRF, M3N, Examples, Gaussian, Graph, Hinge, LapMEDN, MaxEnDNet
from maxendnet.solvers import ConstraintGeneration, CuttingPlane, Subgradient


def problem(seed=0, sizes=(4, 5, 3), n_labels=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in sizes]
    edges = [[(s, t) for s in range(n) for t in range(s) if rng.random() < 0.8 or n == 3] for n in sizes]
    types = [rng.integers(0, 2, size=len(pairs)).tolist() for pairs in edges]
    types[0][0] = 1
    y = [rng.integers(0, n_labels, size=n) for n in sizes]
    weight = rng.uniform(0.5, 2.0, size=len(sizes))
    labels = [[f"label {a}" for a in own] for own in y]
    data = Examples.build(X, labels, edges=edges, edge_types=types, sample_weight=weight)
    assert not Graph("relaxed").bind(data, np.array(sorted({a for own in labels for a in own}))).exact.any()
    return data, X, edges, types, y, weight


def relaxed_losses(w, seed, soft):
    """The losses of all examples as cvxpy reads them: the least over messages of local maxima, hard or soft."""
    _, X, edges, types, y, weight = problem(seed)
    L, losses = 3, []
    node = cp.reshape(w[: 2 * L], (2, L), order="C")
    matrices = [cp.reshape(w[2 * L + k * L * L : 2 * L + (k + 1) * L * L], (L, L), order="C") for k in range(2)]
    for i, x in enumerate(X):
        degree = np.bincount(np.ravel(edges[i]), minlength=len(x))
        share = [1 / max(degree[s], degree[t]) for s, t in edges[i]]
        left = [1.0 - sum(c for c, pair in zip(share, edges[i]) if t in pair) for t in range(len(x))]
        messages = [(cp.Variable(L), cp.Variable(L)) for _ in edges[i]]
        value = 0
        for t in range(len(x)):
            scores = x[t] @ node
            if not soft:
                scores = scores + (np.arange(L) != y[i][t])
            for pair, both in zip(edges[i], messages):
                scores = scores + (both[pair.index(t)] if t in pair else 0)
            if soft and left[t] > 1e-9:
                value = value + left[t] * cp.log_sum_exp(scores / left[t])
            else:
                value = value + cp.max(scores)
            value = value - x[t] @ node[:, int(y[i][t])]
        for (s, t), kind, c, both in zip(edges[i], types[i], share, messages):
            table = matrices[kind] - cp.reshape(both[0], (L, 1), order="C") @ np.ones((1, L))
            table = table - np.ones((L, 1)) @ cp.reshape(both[1], (1, L), order="C")
            value = value + (c * cp.log_sum_exp(table / c) if soft else cp.max(table))
            value = value - matrices[kind][int(y[i][s]), int(y[i][t])]
        losses.append(value)
    return losses, weight


def optimum(penalty, C, seed, loss):
    w = cp.Variable(6 + 18)
    losses, weight = relaxed_losses(w, seed, loss == "log")
    added, constraints = penalty(w)
    if loss == "squared":
        hinges = cp.Variable(len(losses))
        constraints = [*constraints, *(h >= value for h, value in zip(hinges, losses))]
        total = 0.5 * weight @ cp.square(hinges)
    else:
        total = sum(u * value for u, value in zip(weight, losses))
    found = cp.Problem(cp.Minimize(added + C * total), constraints)
    found.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return found.value


def quadratic(w):
    return 0.5 * cp.sum_squares(w), []


def absolute(factor):
    return lambda w: (factor * cp.norm1(w), [])


def ball(w):
    return 0.0, [cp.norm1(w) <= 2.0]


def laplace(w, lam=2.0):
    """``s - 1 - log((s + 1) / 2)`` with ``s = sqrt(1 + lam w^2)``, in which it rises."""
    s = cp.Variable(w.shape)
    sides = [s[k] >= cp.norm2(cp.hstack([1.0, np.sqrt(lam) * w[k]])) for k in range(w.shape[0])]
    return cp.sum(s - 1 - cp.log((s + 1) / 2)), sides


CASES = {
    "M3N": (M3N(C=0.7), quadratic, 0.7, "hinge"),
    "M3N cutting planes": (M3N(C=0.7, solver=CuttingPlane()), quadratic, 0.7, "hinge"),
    "M3N subgradient": (M3N(C=0.3, solver=Subgradient(), tol=3e-2), quadratic, 0.3, "hinge"),
    "M3N on-line": (M3N(C=0.1, solver=Subgradient(online=True), tol=0.1), quadratic, 0.1, "hinge"),
    "squared slack": (MaxEnDNet(Gaussian(), Hinge(slack="squared"), C=0.1), quadratic, 0.1, "squared"),
    "LapMEDN": (LapMEDN(C=0.7, lam=2.0), laplace, 0.7, "hinge"),
    "L1M3N": (L1M3N(C=0.7), absolute(0.5), 0.7, "hinge"),
    "L1M3N in a ball": (L1M3N(C=0.7, radius=2.0, tol=0.1), ball, 0.7, "hinge"),
    "L2CRF": (L2CRF(lam=1.0), quadratic, 1.0, "log"),
    "L1CRF": (L1CRF(lam=0.5), absolute(0.5), 1.0, "log"),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CASES)
def test_the_optimum_is_between_the_bounds(name, seed):
    model, penalty, C, loss = CASES[name]
    data = problem(seed)[0]
    model = clone(model).set_params(structure=Graph("relaxed"), random_state=0).fit(data)
    best = optimum(penalty, C, seed, loss)
    assert model.gap_ <= model.tol
    assert model.dual_ <= best + 1e-6 * abs(best) and best <= model.objective_ + 1e-6 * abs(best)
    assert all(row.dual <= best + 1e-6 * abs(best) for row in model.trace_)
    assert all(row.primal >= best - 1e-6 * abs(best) for row in model.trace_)


@pytest.mark.parametrize("model", [M3N(solver=CuttingPlane(slacks="n")), L1M3N(solver=ConstraintGeneration())])
def test_solvers_that_go_by_labellings_are_refused(model):
    with pytest.raises(ValueError, match=r"needs not structure\.relaxed.*on a graph"):
        model.set_params(structure=Graph("relaxed")).fit(problem()[0])
    model.set_params(structure=Graph("exact"), tol=1e-2).fit(problem()[0])
