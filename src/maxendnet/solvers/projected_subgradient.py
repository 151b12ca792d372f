"""The ball form of L1-M3N by subgradient steps, projected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxendnet.priors.base import capable, is_number
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.l1_projection import project_l1_ball


class ProjectedState(NamedTuple):
    """The iterate, the subgradient there, and averages of iterates and subgradients, later ones weighted higher."""

    w: FloatArray
    corner: FloatArray
    """Minus C times the subgradient of the sum of losses: sum alpha df of a dual point."""
    gain: float
    """What that dual point earns: sum alpha l, less the price of its slack."""
    risk: float
    """C times the sum of losses at w."""
    average: FloatArray
    eta: FloatArray
    eta_gain: float
    best: FloatArray
    best_risk: float
    dual: float
    squares: float = 0.0
    """Sum of the squared subgradients."""
    total: float = 0.0
    """Of the weights in the averages."""
    n_steps: int = 0
    C: float = 1.0
    fingerprint: str = ""


@dataclass(eq=False, repr=False)
class ProjectedSubgradient(Solver):
    """Subgradient steps projected onto the L1 ball, on all examples at once: the ball form of L1-M3N.

    A step goes from ``w`` to the point of the ball nearest to ``w - s C g``, with g a subgradient of the sum of losses
    and ``s = step_size * radius / sqrt(sum of all |C g|^2 so far)``. The average of the ``-C g`` is the
    ``eta = sum alpha df`` of a dual point; with its ``sum alpha l`` carried along,
    ``sum alpha l - radius * max_k |eta_k|`` is a lower bound.

    Stops at the relative duality gap. Returns the average of the iterates (later ones weighted higher) or the best
    iterate, whichever has the lower objective (``which_``: "average" or "best"). Its gap shrinks as 1/sqrt(n_pass) at
    worst; `ConstraintGeneration` goes further.

    Parameters
    ----------
    step_size : float, default=0.3
    check_every : int, default=10
        Passes between two looks at the gap; a look takes a pass.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> from maxendnet.solvers import ProjectedSubgradient
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1M3N(radius=1.0, solver=ProjectedSubgradient(), tol=0.05).fit(X, y).converged_
    True
    """

    step_size: float = 0.3
    check_every: int = 10
    requires = ("not loss.smooth", "prior.radius")
    accuracy = 1e-3

    def check(self) -> None:
        if not (is_number(self.step_size) and 0 < self.step_size < np.inf):
            raise ValueError(f"step_size must be a positive finite number, got {self.step_size!r}.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")

    def start(
        self, problem: Problem, warm: ProjectedState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProjectedState:
        self.check()
        zero = np.zeros(problem.n_weights)
        state = ProjectedState(
            zero, zero, 0.0, 0.0, zero, zero, 0.0, zero, np.inf, 0.0, C=problem.C, fingerprint=problem.fingerprint
        )
        if warm is not None and warm.fingerprint == problem.fingerprint and problem.loss_scales(warm.C):
            factor = problem.C / warm.C
            state = state._replace(
                w=project_l1_ball(warm.w, capable(problem.prior, "l1_ball").radius),
                average=project_l1_ball(warm.average, capable(problem.prior, "l1_ball").radius),
                eta=factor * warm.eta, eta_gain=factor * warm.eta_gain, total=warm.total, n_steps=warm.n_steps,
                squares=factor**2 * warm.squares,
            )  # fmt: skip
        return self._look(problem, state)

    def _look(self, problem: Problem, state: ProjectedState) -> ProjectedState:
        """Find the subgradient: one pass over the data."""
        found = problem.look(state.w)
        corner, risk = -problem.C * found.gradient, problem.C * found.loss
        gain = risk + float(state.w @ corner) - problem.C * found.short
        state = state._replace(corner=corner, gain=gain, risk=risk)
        return state._replace(best=state.w, best_risk=risk) if risk < state.best_risk else state

    def step(self, problem: Problem, state: ProjectedState) -> ProjectedState:
        radius, t = capable(problem.prior, "l1_ball").radius, state.n_steps + 1
        squares = state.squares + float(state.corner @ state.corner)
        total = state.total + t
        share = t / total
        eta = state.eta + share * (state.corner - state.eta)
        eta_gain = state.eta_gain + share * (state.gain - state.eta_gain)
        average = state.average + share * (state.w - state.average)
        size = self.step_size * radius / np.sqrt(squares) if squares > 0 else 0.0
        w = project_l1_ball(state.w + size * state.corner, radius)
        dual = max(eta_gain - radius * float(np.abs(eta).max(initial=0.0)), state.dual)
        return self._look(
            problem,
            state._replace(
                w=w, average=average, eta=eta, eta_gain=eta_gain, dual=dual, squares=squares, total=total, n_steps=t
            ),
        )

    def due(self, problem: Problem, state: ProjectedState, n_pass: int, tol: float) -> bool:
        return n_pass % self.check_every == 0 or state.best_risk - state.dual <= tol * state.best_risk

    def evaluate(self, problem: Problem, state: ProjectedState) -> Evaluation:
        found = [(state.best_risk, state.best, "best")]
        if state.n_steps:
            found.append((problem.primal(state.average), state.average, "average"))
        primal, w, which = min(found, key=lambda entry: entry[0])
        gap = problem.relative(primal - state.dual, primal)
        return Evaluation(w, None, primal, state.dual, gap, gap, which, state.eta_gain)
