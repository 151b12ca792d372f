"""The master problem of cutting planes, against cvxpy."""

import os
import queue
import signal
import sys
import threading
import time
import types

import clarabel
import cvxpy as cp
import numpy as np
import pytest

from maxendnet.solvers.subproblems.master_problem import solve_master

SLACKS = ["linear", "squared", "kl"]


def reference(rows, gains, groups, weights, C, slack):
    alpha = cp.Variable(len(gains), nonneg=True)
    totals = [cp.sum(alpha[np.flatnonzero(groups == g)]) for g in range(len(weights))]
    price, limits = 0.0, []
    for total, u in zip(totals, weights):
        if slack == "linear":
            limits.append(total <= C * u)
        elif slack == "squared":
            price += cp.square(total) / (2 * C * u)
        else:
            price -= u * cp.log(1 - total / (C * u))
    problem = cp.Problem(cp.Maximize(gains @ alpha - cp.sum_squares(rows.T @ alpha) / 2 - price), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def value(alpha, rows, gains, groups, weights, C, slack):
    total = np.bincount(groups, alpha, len(weights)) / weights
    price = {
        "linear": lambda: np.where(total <= C * (1 + 1e-12), 0.0, np.inf),
        "squared": lambda: total**2 / (2 * C),
        "kl": lambda: -np.log1p(-total / C),
    }[slack]()
    return gains @ alpha - np.sum((rows.T @ alpha) ** 2) / 2 - weights @ price


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("C", [1e-3, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_cvxpy_agrees(slack, C, seed):
    rng = np.random.default_rng(seed)
    rows, gains = rng.normal(size=(9, 4)), rng.exponential(size=9)
    groups, weights = np.array([0, 0, 1, 1, 1, 2, 3, 3, 3]), rng.uniform(0.2, 3, size=4)
    alpha = solve_master(rows @ rows.T, gains, groups, weights, C, slack)
    assert np.all(alpha >= 0)
    found = value(alpha, rows, gains, groups, weights, C, slack)
    expected = reference(rows, gains, groups, weights, C, slack)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("slack", SLACKS)
def test_rows_that_are_zero_and_rows_that_are_equal(slack):
    """All the weight of a group goes to the zero row, whose gain costs nothing but slack; twins share theirs."""
    rows, gains = np.array([[0.0], [1.0], [1.0]]), np.array([1.0, 1.0, 1.0])
    groups, weights, C = np.array([0, 1, 1]), np.array([1.0, 2.0]), 0.5
    alpha = solve_master(rows @ rows.T, gains, groups, weights, C, slack)
    best = {"linear": 0.5, "squared": 0.5, "kl": 0.0}[slack]  # a - a^2/(2C) at a = C; a + log(1 - a/C) falls for C < 1
    assert alpha[0] == pytest.approx(best, abs=1e-7)
    assert value(alpha, rows, gains, groups, weights, C, slack) == pytest.approx(
        reference(rows, gains, groups, weights, C, slack), abs=1e-8
    )


@pytest.mark.parametrize("while_starting", [False, True])
def test_control_c_stops_the_solver_of_a_master_problem(monkeypatch, while_starting):
    """The signal comes in the middle of a solution, which then waits, so that it cannot end by itself.

    On a busy machine this can be before the main thread has returned from the start of the solver's thread.
    """
    ends = queue.Queue()

    class SlowStart(threading.Thread):
        def start(self):
            super().start()
            self.join(300 if while_starting else 0)

    class Interrupted:
        def __init__(self, *problem):
            self.inner, self.n_looks = clarabel.DefaultSolver(*problem), 0

        def set_termination_callback(self, stop):
            def look(info):
                self.n_looks += 1
                if self.n_looks == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                    for _ in range(30_000):  # five minutes at most
                        if stop(info):
                            return True
                        time.sleep(0.01)
                return stop(info)

            self.inner.set_termination_callback(look)

        def solve(self):
            solution = self.inner.solve()
            ends.put((str(solution.status), self.n_looks))
            return solution

    patched = types.SimpleNamespace(**vars(clarabel) | {"DefaultSolver": Interrupted})
    monkeypatch.setitem(sys.modules, "clarabel", patched)
    monkeypatch.setattr(threading, "Thread", SlowStart)
    rows = np.random.default_rng(0).normal(size=(60, 30))
    with pytest.raises(KeyboardInterrupt):
        solve_master(rows @ rows.T, np.ones(60), np.zeros(60, dtype=int), np.ones(1), 1.0, "linear")
    assert ends.get(timeout=300) == ("CallbackTerminated", 3)
