"""The subgradient method, which is Frank-Wolfe on the dual: every step comes with a bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from maxendnet.priors.base import is_number
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver


class SubgradientState(NamedTuple):
    """A dual point whose mean is the iterate, the subgradient there, and the average of the dual points."""

    eta: FloatArray
    gain: float
    """What the dual point earns: sum alpha l, less the price of its slack."""
    corner: FloatArray
    """Minus C times the subgradient of the sum of losses at the iterate: sum alpha df of another dual point."""
    corner_gain: float
    risk: float
    """C times the sum of losses at the iterate."""
    average: FloatArray
    average_gain: float
    n_steps: int
    n_averaged: int
    C: float
    fingerprint: str


@dataclass(eq=False, repr=False)
class Subgradient(Solver):
    """The subgradient method (Ratliff et al. 2007) on all examples at once, for any prior with a cumulant.

    The prior's own metric gives the direction: a step of size s takes ``eta = gradient(mu)`` to
    ``(1 - s) eta - s C g``, with g a subgradient of the sum of losses at ``mu``. Under a Gaussian prior with variance 1
    that is ``mu - s (mu + C g)``. Since ``-C g`` is the ``sum alpha df`` of a corner of the dual domain, a step of at
    most 1 is a Frank-Wolfe step on the dual: carrying ``sum alpha l`` along certifies every iterate.

    Stops at the relative duality gap. Returns the last iterate or the average of the iterates (later ones weighted
    higher), whichever has the lower objective, and says which in ``which_``. Its gap shrinks as 1/n_pass: for the
    last digits take another solver.

    Parameters
    ----------
    beta : float or None, default=None
        Step sizes ``1 / (2 beta sqrt(t))``, at most 1: those of the paper, which takes them with ``C = 200 beta``.
        None: as ``step_size`` says.
    step_size : {"exact", "1/t"}, default="exact"
        The best step for the dual, or 1/t, with which the dual point is the plain average of all corners seen. Where
        the domain of the prior ends, steps of either kind are shortened.
    average : bool, default=True
        Also keep the average of the iterates; a look at it takes a pass over the data.
    check_every : int, default=10
        Passes between two looks at the gap.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> from maxendnet.solvers import Subgradient
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10, solver=Subgradient(), tol=0.01).fit(X, y).converged_
    True
    """

    beta: float | None = None
    step_size: str = "exact"
    average: bool = True
    check_every: int = 10
    requires = ("not loss.smooth", "prior.cumulant")
    accuracy = 1e-2

    def check(self) -> None:
        if self.beta is not None and not (is_number(self.beta) and 0 < self.beta < np.inf):
            raise ValueError(f"beta must be a positive finite number, or None for other step sizes, got {self.beta!r}.")
        if self.step_size not in ("exact", "1/t"):
            raise ValueError(f"step_size must be 'exact' or '1/t', got {self.step_size!r}.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")

    def start(
        self, problem: Problem, warm: SubgradientState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> SubgradientState:
        self.check()
        zero = np.zeros(problem.n_weights)
        state = SubgradientState(zero, 0.0, zero, 0.0, 0.0, zero, 0.0, 0, 0, problem.C, problem.fingerprint)
        if warm is not None and warm.fingerprint == problem.fingerprint and problem.loss_scales(warm.C):
            # a dual point of the same examples, scaled to the new C and moved along its ray into the new domain
            factor = problem.C / warm.C
            share = factor * problem.dual(factor * warm.eta, factor * warm.gain)[1]
            state = state._replace(eta=share * warm.eta, gain=share * warm.gain, n_steps=warm.n_steps)
        return self._look(problem, state)

    def _look(self, problem: Problem, state: SubgradientState) -> SubgradientState:
        """Find the subgradient: one pass over the data."""
        mu = problem.exact_prior.mean(state.eta)
        found = problem.look(mu)
        corner, risk = -problem.C * found.gradient, problem.C * found.loss
        # a loss is l(y*) - mu . df(y*) at its worst labelling, so what the corner earns follows from the loss
        gain = risk + float(mu @ corner) - problem.C * found.short
        return state._replace(corner=corner, corner_gain=gain, risk=risk)

    def step(self, problem: Problem, state: SubgradientState) -> SubgradientState:
        d, b, t = state.corner - state.eta, state.corner_gain - state.gain, state.n_steps + 1
        if self.beta is None and self.step_size == "exact":
            size = best_step(problem.prior, state.eta, d, b)
        else:
            size = 1.0 / t if self.beta is None else min(1.0, 1.0 / (2.0 * self.beta * np.sqrt(t)))
            while not np.isfinite(problem.exact_prior.cumulant(state.eta + size * d)):
                size *= 0.5
        state = state._replace(eta=state.eta + size * d, gain=state.gain + size * b, n_steps=t)
        if self.average:
            # the k-th point counts k times: the average forgets the beginning
            share = 2.0 / (state.n_averaged + 2)
            state = state._replace(
                average=state.average + share * (state.eta - state.average),
                average_gain=state.average_gain + share * (state.gain - state.average_gain),
                n_averaged=state.n_averaged + 1,
            )
        return self._look(problem, state)

    def due(self, problem: Problem, state: SubgradientState, n_pass: int, tol: float) -> bool:
        if n_pass % self.check_every == 0:
            return True
        # the gap of the iterate is at hand
        gap = state.corner_gain - state.gain - float((state.corner - state.eta) @ problem.exact_prior.mean(state.eta))
        return gap <= tol * problem.gap_scale(state.gain)

    def evaluate(self, problem: Problem, state: SubgradientState) -> Evaluation:
        prior = problem.exact_prior
        mu = prior.mean(state.eta)
        found = [(prior.penalty(mu) + state.risk, mu, "last")]
        duals = [(problem.dual(state.eta, state.gain)[0], state.eta, state.gain)]
        if state.n_averaged:
            mu = prior.mean(state.average)
            found.append((problem.primal(mu), mu, "average"))
            duals.append((problem.dual(state.average, state.average_gain)[0], state.average, state.average_gain))
        primal, mu, which = min(found, key=lambda entry: entry[0])
        dual, eta, gain = max(duals, key=lambda entry: entry[0])
        gap = problem.relative(primal - dual, primal)
        return Evaluation(mu, eta, primal, dual, gap, gap, which, gain)


def best_step(prior: Any, eta: FloatArray, d: FloatArray, b: float) -> float:
    """The size in [0, 1] for which ``size * b - cumulant(eta + size * d)`` is largest."""

    def slope(size: float) -> float:
        at = eta + size * d
        return b - float(d @ prior.mean(at)) if np.isfinite(prior.cumulant(at)) else -np.inf

    return where_falling(slope)


def where_falling(slope: Callable[[float], float]) -> float:
    """Where a falling function on [0, 1] crosses 0, or the end nearest to that; it may be -inf from somewhere on."""
    low, high = 0.0, 1.0
    at_low, at_high = slope(low), slope(high)
    if at_low <= 0 or at_high >= 0:
        return low if at_low <= 0 else high
    for _ in range(100):  # into the domain first
        if np.isfinite(at_high):
            return float(brentq(slope, low, high, xtol=1e-16, disp=False))
        middle = 0.5 * (low + high)
        value = slope(middle)
        if value >= 0:
            low = middle
        else:
            high, at_high = middle, value
    return low
