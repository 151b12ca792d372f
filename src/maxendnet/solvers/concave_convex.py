"""Concave-convex procedure for margin models with unknown labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet.losses import Log
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import (
    Evaluation,
    Result,
    Solver,
    Support,
    check_requirements,
    missing,
    require_solver_or_none,
    run,
)
from maxendnet.solvers.lbfgs import LBFGS
from maxendnet.solvers.owlqn import OWLQN
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import NonNegative, Values, require

FIRST_TOL = 0.03
"""Tolerance of the first convex problem, whose solution is only used for the next completion."""


class Round(NamedTuple):
    """Weights of a round, and the convex problem with labels completed by these weights."""

    completed: Problem
    objective: Annotated[float, Values(also=(np.inf,))]
    """Objective at these weights of the problem with unknown labels (not of the convex problem)."""
    result: Result | None = None
    """Solution of the previous convex problem, which contains these weights; None at the start."""
    solved: Problem | None = None
    """The previous convex problem."""


class RoundsState(NamedTuple):
    """State of `ConcaveConvex`."""

    current: Round
    best_before: Round | None
    """Best round of the previous starts."""
    rng: np.random.Generator
    tol: float
    round_tol: NonNegative
    decrease: NonNegative = np.inf
    """Relative decrease of the objective in the last round."""
    n_rounds: int = 0
    starts_left: int = 0

    @property
    def settled(self) -> bool:
        """Whether the current start has converged."""
        return self.decrease <= self.tol

    @property
    def finished(self) -> str:
        """The reason to stop: "max_passes" after the last start has converged, else an empty string.

        It is only reported if the last convex problem was not solved to ``tol``.
        """
        return "max_passes" if self.settled and not self.starts_left else ""

    @property
    def best_round(self) -> Round:
        """The round with the lowest objective over all starts."""
        if self.best_before is None or self.current.objective < self.best_before.objective:
            return self.current
        return self.best_before

    def check(self, problem: Problem) -> None:
        """Check that rounds have solutions."""
        require(self.current.result is not None or not np.isfinite(self.decrease), "a round has no solution")
        require(self.best_before is None or self.best_before.result is not None, "the best round has no solution")


@dataclass(eq=False, repr=False)
class ConcaveConvex(Solver):
    """Concave-convex procedure for hinge losses with unknown labels.

    The loss of an example is ``max_y [score + cost] - max over Y_i of score``, where Y_i is the set of labellings that
    agree with the known labels. A round uses the best labelling in Y_i, a completion of the labels, as the target, and
    solves the resulting convex problem with a certificate. The objective never increases from round to round. With
    ``Hinge(completion="average")`` the maximum over Y_i is soft, and the completion an average over Y_i: the partially
    observed maximum entropy discrimination Markov network.

    The result is a local minimum, so ``gap_`` is nan; ``round_gap_`` is the certificate of the last convex problem.
    ``tol`` bounds both the relative decrease of the objective in a round and ``round_gap_``. A pass is a round.

    Based on Yuille & Rangarajan 2003, Yu & Joachims 2009, Zhu, Xing & Zhang 2008.

    Parameters
    ----------
    inner : Solver or None, default=None
        Solver of the convex problems. None uses the default solver of each problem.
    starts : int, default=1
        Number of starts. The first completes labels by a likelihood model, the others by random weights. The best
        result is returned.
    max_passes : int, default=1000
        Largest number of passes over the data in a round.

    Examples
    --------
    >>> from maxendnet import M3N, UNKNOWN
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], [UNKNOWN, "a"]]
    >>> model = M3N(C=10, solver=ConcaveConvex(starts=2)).fit(X, y)
    >>> model.predict(X), model.n_rounds_ > 0
    ([['a', 'b'], ['b', 'a']], True)
    """

    inner: Solver | None = None
    starts: int = 1
    max_passes: int = 1000
    requires: ClassVar[tuple[str, ...]] = ("not loss.smooth", "not label_sets.all_known")
    instead_of_gap = "decrease of the objective or gap of the last round"

    def check(self) -> None:
        require_solver_or_none("inner", self.inner)
        for name in ("starts", "max_passes"):
            require_count(name, getattr(self, name))

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> RoundsState:
        self.check()
        rng = np.random.default_rng(seed)
        w = likely_weights(problem, rng) if warm is None else warm.best_round.result.w
        first = round_at(problem, w)
        check_requirements(self._inner(first.completed, tol), first.completed)
        return RoundsState(first, None, rng, tol, max(tol, FIRST_TOL), starts_left=self.starts - 1)

    def _inner(self, convex: Problem, tol: float) -> Solver:
        """Return the solver of every round, chosen for the accuracy of the last one."""
        if self.inner is not None:
            return self.inner
        from maxendnet.solvers.choose import solver_of_round

        return solver_of_round(convex, tol)

    def step(self, problem: Problem, state: RoundsState) -> RoundsState:
        if state.settled:
            return self._next_start(problem, state)
        convex = state.current.completed
        inner = self._inner(convex, state.tol)
        before = state.current.result
        warm = None if before is None else inner.carried(convex, before.state)
        result = run(
            inner, convex, tol=state.round_tol, max_passes=self.max_passes, warm=warm, seed=state.rng, warn=False
        )
        problem.n_oracle += convex.n_oracle
        new = round_at(problem, result.w, result, convex)
        decrease = problem.relative(state.current.objective - new.objective, new.objective)
        if new.objective > state.current.objective and before is not None:
            # no progress: keep the previous weights, with a gap computed from the new bound
            primal = convex.primal(before.w)
            gap = convex.relative(primal - result.dual, primal)
            unchanged = replace(before, primal=primal, dual=result.dual, gap=gap)
            new, decrease = state.current._replace(result=unchanged, solved=convex), 0.0
        # approach the requested tolerance, faster when the rounds hardly improve
        round_tol = max(state.tol, 0.3 * state.round_tol if decrease > state.round_tol else 0.03 * state.round_tol)
        settled = decrease if state.round_tol <= state.tol or not result.converged else np.inf
        return state._replace(current=new, round_tol=round_tol, decrease=settled, n_rounds=state.n_rounds + 1)

    def _next_start(self, problem: Problem, state: RoundsState) -> RoundsState:
        """Start again from labels completed by random weights."""
        best = state.best_round.result
        size = 1.0 if best is None else max(float(np.abs(best.w).max(initial=0.0)), 1e-3)
        first = round_at(problem, state.rng.normal(0.0, size, problem.n_weights))
        return state._replace(
            current=first._replace(objective=np.inf), best_before=state.best_round, round_tol=max(state.tol, FIRST_TOL),
            decrease=np.inf, starts_left=state.starts_left - 1,
        )  # fmt: skip

    def support(self, problem: Problem, state: RoundsState) -> Support | Callable[[], Support] | None:
        """Return the support of the last convex problem."""
        best = state.best_round
        if best.result is None or best.solved is None:
            return None
        return self._inner(best.solved, state.tol).support(best.solved, best.result.state)

    def due(self, problem: Problem, state: RoundsState, n_pass: int, tol: float) -> bool:
        return n_pass > 0

    def evaluate(self, problem: Problem, state: RoundsState) -> Evaluation:
        best = state.best_round
        assert best.result is not None  # `due` waits for the first round
        measure = (
            max(state.decrease, best.result.gap if np.isfinite(best.result.gap) else 0.0) if state.finished else np.inf
        )
        return Evaluation(
            best.result.w, best.result.eta, best.objective, np.nan, np.nan, measure, best.result.which, best.result.cost
        )


def round_at(problem: Problem, w: FloatArray, result: Result | None = None, solved: Problem | None = None) -> Round:
    """Return the objective at these weights, and the convex problem with labels completed by them."""
    completed = problem.completed(w)
    value, completed = completed.hinge.completion_objective(completed, w)
    return Round(completed, value, result, solved)


def likely_weights(problem: Problem, rng: np.random.Generator) -> FloatArray:
    """Return rough weights of a likelihood model with the same prior, to complete labels with."""
    likelihood = problem.replace(loss=Log())
    for solver in (LBFGS(), OWLQN()):
        if not missing(solver, likelihood):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                rough = run(solver, likelihood, tol=0.03, max_passes=50, seed=rng, warn=False)
            problem.n_oracle += likelihood.n_oracle
            return rough.w
    return rng.normal(0.0, 1.0, problem.n_weights)
