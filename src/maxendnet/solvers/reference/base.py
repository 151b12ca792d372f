"""Base class of the reference solvers whose state is a dual point."""

from __future__ import annotations

from typing import Any, ClassVar

from maxendnet.problem import Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.utils.checks import require_count


class DualSolver(Solver):
    """Base class of solvers whose state contains a dual point, as ``eta`` and ``cost``.

    The gap is evaluated every ``check_every`` passes.
    """

    check_every: int
    accuracy: ClassVar[float] = 1e-3

    def check(self) -> None:
        require_count("check_every", self.check_every)

    def due(self, problem: Problem, state: Any, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % self.check_every == 0

    def evaluate(self, problem: Problem, state: Any) -> Evaluation:
        mu = problem.dual_prior.mean(state.eta)
        dual = problem.dual(state.eta, state.cost)[0]
        return Evaluation.certified(problem, mu, state.eta, problem.primal(mu), dual, cost=state.cost)
