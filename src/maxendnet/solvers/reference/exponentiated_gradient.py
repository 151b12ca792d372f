"""Batch exponentiated gradient on the dual of hinge models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.reference.base import DualSolver
from maxendnet.utils.checks import is_number
from maxendnet.utils.state_fields import NonNegative, require, require_point, rounding_of

# Candidates for the initial bonus B of true labels in log alpha; 0 is the uniform distribution.
STARTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def best_start(value: Callable[[float], float]) -> float:
    """Return the candidate in `STARTS` with the largest dual value.

    Candidates above 16 are only tried if all smaller ones are outside the domain of the cumulant, because rounding
    affects the small probabilities of the other labellings there.
    """
    values: dict[float, float] = {}
    for B in STARTS:
        if B > 16 and max(values.values()) > -np.inf:
            break
        values[B] = value(B)
    return max(values, key=values.__getitem__)


MAX_POTENTIAL = 1e100
"""Largest factor of costs and labels in a checkpoint."""


class GibbsState(NamedTuple):
    """Dual point ``log alpha_i(y) = A l_i(y) + W . f(x_i, y) + B r_i(y)`` + constant.

    ``r_i(y)`` is the number of correct nodes.
    """

    A: float
    W: FloatArray
    B: float
    step: NonNegative
    eta: FloatArray
    cost: float
    finished: bool = False

    def check(self, problem: Problem) -> None:
        """Recompute the dual point."""
        require(max(abs(self.A), abs(self.B)) <= MAX_POTENTIAL, f"the potentials have A={self.A} and B={self.B}")
        _, eta, cost = problem.gibbs(self.A, self.W, self.B)
        require_point((self.eta, self.cost), (eta, cost), "the potentials", rounding_of(problem))


@dataclass(eq=False, repr=False)
class ExponentiatedGradient(DualSolver):
    """Batch exponentiated gradient on the dual of a hinge model.

    A pass multiplies all dual variables, ``alpha_i(y) <- alpha_i(y) exp(step (l_i(y) - mu . df_i(y)))``, and
    normalises them. The exponent is a sum over nodes and edges, and therefore so is ``log alpha_i``. Sum-product
    then computes the marginals, from which ``eta = sum alpha df`` and ``mu = phi'(eta)`` follow. Because all examples
    share one step size, a single weight vector represents the potentials of all examples. The step size is halved when
    the dual would decrease or leave the domain of the cumulant, and grows otherwise.

    At the optimum most dual variables are zero, which this method only approaches, so the gap decreases as one over the
    number of passes. It is a reference for comparison; `BlockFrankWolfe` is much faster.

    Based on Bartlett et al. 2004, who treat the Gaussian prior.

    Parameters
    ----------
    step_size : float or None, default=None
        Initial step size; None means 1.
    grow : float, default=1.1
        Factor by which the step size grows after a successful step.
    check_every : int, default=10
        Passes between two evaluations of the gap.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(solver=ExponentiatedGradient(), tol=0.01).fit(X, y).converged_
    True
    """

    step_size: float | None = None
    grow: float = 1.1
    check_every: int = 10
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth",
        "loss.linear_slack",
        "not cost_table.joint",
        "prior.cumulant",
    )

    def check(self) -> None:
        super().check()
        if not (self.step_size is None or (is_number(self.step_size) and 0 < self.step_size < np.inf)):
            raise ValueError(f"step_size must be None or a positive finite number, got {self.step_size!r}.")
        if not (is_number(self.grow) and 1 <= self.grow <= 2):
            raise ValueError(f"grow must be from 1 to 2, got {self.grow!r}; a step that fails is halved.")

    def start(
        self, problem: Problem, warm: GibbsState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> GibbsState:
        self.check()
        zero, prior = np.zeros(problem.n_weights), problem.dual_prior
        if warm is not None and warm.W.shape == zero.shape:
            _, eta, cost = problem.gibbs(warm.A, warm.W, warm.B)
            if np.isfinite(prior.cumulant(eta)):
                return warm._replace(eta=eta, cost=cost, finished=False)

        def value(B: float) -> float:
            _, eta, cost = problem.gibbs(0.0, zero, B)
            return cost - prior.cumulant(eta)

        B = best_start(value)
        size = 1.0 if self.step_size is None else float(self.step_size)
        return GibbsState(0.0, zero, B, size, *problem.gibbs(0.0, zero, B)[1:])

    def step(self, problem: Problem, state: GibbsState) -> GibbsState:
        prior, size = problem.dual_prior, state.step
        mu, dual = prior.mean(state.eta), state.cost - prior.cumulant(state.eta)
        while size > 1e-12 * state.step:
            A, W = state.A + size, state.W + size * mu
            _, eta, cost = problem.gibbs(A, W, state.B)
            if cost - prior.cumulant(eta) >= dual:
                return GibbsState(A, W, state.B, size * self.grow, eta, cost)
            size *= 0.5
        return state._replace(finished=True)  # any further gain is below rounding
