"""Certificates on every structure: dual <= minimum <= objective, with all labellings enumerated.

A case is a structure of `test_structure_laws` (order 2 and 3, seen pairs, rules, durations, trees with siblings, graphs
with cycles, choices) with drawn features, label costs, sample weights, C, prior, loss and slack. Every solver that
accepts it is run. Objectives are computed from enumerated labellings, and the minimum is bounded by the lowest of them
and, where cvxpy can solve the problem, by its solution.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from structure_laws import LABELS, Subject
from test_certificate_law import EPS, MAX_PASSES, PRIORS, SOLVERS
from test_structure_laws import CYCLES, SUBJECTS, make_examples

from maxendnet import priors, structures
from maxendnet.losses import Hinge, Log
from maxendnet.losses.slack import SLACKS
from maxendnet.problem import Problem
from maxendnet.solvers import run
from maxendnet.solvers.base import missing

RELAXED = Subject(structures.Graph("relaxed"), make_examples(17, edges=CYCLES))
CASES = [subject for listed in SUBJECTS.values() for subject in listed] + [RELAXED]


def drawn(seed, subject):
    """Return a problem with the structure of a subject, and all labellings with their df and costs by example."""
    rng = np.random.default_rng(seed)
    X = subject.examples.X
    data = 10.0 ** rng.uniform(-1, 2) * rng.normal(size=X.nnz)
    examples = replace(
        subject.examples, X=sparse.csr_array((data, X.indices, X.indptr), shape=X.shape),
        sample_weight=rng.uniform(0.2, 2.0, size=len(subject.examples)),
    )  # fmt: skip
    bound = subject.piece.bind(examples, LABELS)
    cost = rng.uniform(0.2, 3.0, size=(3, 3)) * (1 - np.eye(3)) if rng.random() < 0.5 else None
    loss = Log() if rng.random() < 0.4 else Hinge(cost, slack=list(SLACKS)[int(rng.integers(len(SLACKS)))])
    prior = getattr(priors, PRIORS[int(rng.integers(len(PRIORS)))])()
    problem = Problem.pose(bound, loss, prior, 10.0 ** rng.uniform(-2, 4))
    table = np.ones((3, 3)) - np.eye(3) if cost is None else cost
    labellings = []
    for i in range(len(examples)):
        every = subject.labellings(bound, i)
        example, truth = bound.take(i, i + 1), bound.y[bound.offsets[i] : bound.offsets[i + 1]]
        at_truth = example.features(truth)
        df = np.array([at_truth - example.features(y) for y in every]).reshape(len(every), -1)
        costs = np.array([table[truth, y].sum() for y in every])
        labellings.append(SimpleNamespace(df=df, costs=costs, weight=float(bound.sample_weight[i])))
    return problem, labellings


def objective(problem, labellings, w):
    """Return the objective from enumerated labellings, and a bound of its rounding error."""
    total, rounding = float(problem.prior.penalty(w)), 0.0
    for of in labellings:
        rounding += 64 * EPS * problem.C * of.weight * float((np.abs(of.df) @ np.abs(w) + of.costs).max())
        if problem.loss.smooth:
            total += problem.C * of.weight * float(logsumexp(-of.df @ w))
        else:
            h = max(float(np.max(of.costs - of.df @ w)), 0.0)
            rounding *= max({"linear": 1.0, "squared": h, "kl": 1.0}[problem.loss.slack], 1.0)
            total += of.weight * float(problem.loss.slack_function.value(np.array([h]), problem.C)[0])
    return total, rounding


def minimiser(problem, labellings):
    """Return a point near the minimum by cvxpy, or None if cvxpy does not support the problem."""
    kind = type(problem.prior)
    w = cp.Variable(problem.n_weights)
    penalty = {priors.Gaussian: cp.sum_squares(w) / 2, priors.L1: cp.norm1(w)}.get(kind)
    if penalty is None or not (problem.loss.smooth or problem.loss.slack == "linear"):
        return None
    losses = [
        of.weight * (cp.log_sum_exp(-of.df @ w) if problem.loss.smooth else cp.max(of.costs - of.df @ w))
        for of in labellings
    ]
    try:
        cp.Problem(cp.Minimize(penalty / problem.C + sum(losses))).solve(solver=cp.CLARABEL)
    except cp.error.SolverError:  # the scales may span too much for it; the solvers judge each other
        return None
    return w.value


def check(seed, subject):
    """Check all solvers that accept the drawn problem; return their number."""
    problem, labellings = drawn(seed, subject)
    relaxed = problem.structure.capabilities.relaxed
    results = {}
    for name, solver in SOLVERS.items():
        if not missing(solver, problem):
            with np.errstate(all="ignore"):
                results[name] = run(solver, problem, tol=solver.accuracy, max_passes=MAX_PASSES, seed=0, warn=False)
    values = {name: objective(problem, labellings, result.w) for name, result in results.items()}
    reference = minimiser(problem, labellings) if results and not relaxed else None
    # relaxed losses are upper bounds, and so is the minimum
    above = [result.primal if relaxed else values[name][0] for name, result in results.items()]
    highest = min([*above, *([] if reference is None else [objective(problem, labellings, reference)[0]])], default=0.0)
    least = max(1e-3 * abs(problem.at_zero), np.finfo(float).tiny)
    where = f"seed {seed}, {subject.piece!r}, {problem.prior!r}, {problem.loss!r}, C={problem.C}"
    for name, result in results.items():
        value, rounding = values[name]
        scale = max(abs(value), least)
        assert result.primal >= value - (1e-9 * scale + rounding), (where, name, result.primal, value)
        if not (relaxed or hasattr(problem.prior, "bound")):
            assert result.primal <= value + (1e-9 * scale + rounding), (where, name, result.primal, value)
        for row in result.trace:
            if np.isfinite(row.dual):
                allowed = 1e-9 * max(abs(highest), least) + rounding
                assert row.dual <= highest + allowed, (where, name, row.dual, highest)
                assert row.gap >= 0, (where, name)
    return len(results)


GRAPHS = [number for number, subject in enumerate(CASES) if isinstance(subject.piece, structures.Graph)]


# graphs take seconds, because every solver makes many passes of exact inference
@pytest.mark.parametrize("number", [number for number in range(len(CASES)) if number not in GRAPHS])
def test_certificates_of_structures(number):
    check(number, CASES[number])


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(CASES)))
def test_certificates_of_many_drawn_problems(number):
    """About 5,000 fits over all structures."""
    n_cases = 10 if number in GRAPHS else 60
    assert sum(check(seed, CASES[number]) for seed in range(100, 100 + n_cases)) > n_cases
