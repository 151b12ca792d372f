"""Orthant-wise limited-memory quasi-Newton, for the log loss with an L1 penalty or an elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.certificates import mixed_entropy
from maxendnet.priors.base import Prior, capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.lbfgs import Curvature, SmoothState, memory_for

LEAST_SHARE = 0.5
"""Of the model in the dual point, below which a gap to first order says nothing: near w = 0 it is always small."""


@dataclass(eq=False, repr=False)
class OWLQN(Solver):
    """OWL-QN (Andrew & Gao 2007): L-BFGS inside one orthant at a time, weights that would change sign stop at zero.

    The dual point is ``p(y | x; w)``, mixed with the truth until every ``|eta_k| <= rho``; the share s of the model is
    1 at the optimum. The entropy of the mixture is at least s times that of the model, which gives a gap for free;
    when that is not enough but the gap to first order is, the entropy is computed from the mixed marginals (on a
    hierarchy the free gap has to do, which takes some more passes). Under an elastic net every dual point has a finite
    value, and the gap comes for free.

    Parameters
    ----------
    memory : int or None, default=None
        Changes of w and gradient kept, as in `LBFGS`.

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> L1CRF(lam=0.1, solver=OWLQN()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    memory: int | None = None
    requires = ("loss.smooth", "prior.rho or prior.l1")
    warm_anywhere = True

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> SmoothState:
        w = problem.first_weights(seed) if warm is None else warm.w.copy()
        state = self._at(problem, w, Curvature.of(problem))._replace(tol=tol)
        slope = pseudo_gradient(w, state.gradient, l1_price(problem.prior))
        return state._replace(first_norm=float(np.linalg.norm(slope)) if warm is None else warm.first_norm)

    def _at(self, problem: Problem, w: FloatArray, curvature: Curvature, single: bool = True) -> SmoothState:
        loss, slope, cost, _, short = problem.look(w, single=single)
        value = problem.prior.penalty(w) + problem.C * loss
        gradient = problem.C * slope + getattr(problem.prior, "l2", 0.0) * w
        return SmoothState(w, value, loss, slope, gradient, curvature, single, cost=cost, short=short)

    def step(self, problem: Problem, state: SmoothState) -> SmoothState:
        w, rho = state.w, l1_price(problem.prior)
        pseudo = pseudo_gradient(w, state.gradient, rho)
        # Andrew & Gao use the whole inverse Hessian and drop what goes uphill. The inverse for the coordinates that can
        # move now is the right one, and then only weights at zero need to be held: half of the passes (OCR letters).
        direction = -state.curvature.times(pseudo, free=(w != 0) | (pseudo != 0))
        direction[(w == 0) & (direction * pseudo >= 0)] = 0.0
        if not direction @ pseudo < 0:
            state = state._replace(curvature=state.curvature.forget())
            direction = -pseudo
        orthant = np.where(w != 0, np.sign(w), -np.sign(pseudo))
        length = 1.0 if state.curvature.s else min(1.0, 1.0 / max(float(np.linalg.norm(pseudo)), 1e-300))
        # where the decrease drowns in rounding, the gradient still shows the way
        blind = 0.0 if state.single else 4 * np.finfo(float).eps * abs(state.value)
        for _ in range(30):
            moved = w + length * direction
            moved[moved * orthant <= 0] = 0.0
            new = self._at(problem, moved, state.curvature, state.single)
            if new.value <= state.value + 1e-4 * (pseudo @ (moved - w)) + blind:
                break
            length *= 0.5
        else:
            new = None
        if new is None or state.value - new.value <= 1e-8 * abs(state.value) * state.single:
            if state.single:  # float32 sees no further decrease: go on in float64
                exact = self._at(problem, w if new is None else new.w, state.curvature.forget(), single=False)
                return exact._replace(tol=state.tol, first_norm=state.first_norm)
            if new is None:  # what was learnt far away may mislead here: once more without it
                return state._replace(curvature=state.curvature.forget(), finished=not state.curvature.s)
        memory = memory_for(self.memory, problem.n_weights)
        curvature = state.curvature.add(new.w - w, new.gradient - state.gradient, memory)
        return new._replace(curvature=curvature, tol=state.tol, first_norm=state.first_norm)

    def due(self, problem: Problem, state: SmoothState, n_pass: int, tol: float) -> bool:
        if not problem.convex:
            return n_pass % 10 == 0 or self._slope(problem, state) <= tol
        return n_pass % 10 == 0 or self._gaps(problem, state)[0] <= 0.7 * tol * abs(state.value)

    def evaluate(self, problem: Problem, state: SmoothState) -> Evaluation:
        exact = self._at(problem, state.w, state.curvature, single=False) if state.single else state
        if not problem.convex:
            slope = self._slope(problem, exact._replace(first_norm=state.first_norm))
            return Evaluation(state.w, None, exact.value, np.nan, np.nan, slope)
        free, first_order, share = self._gaps(problem, exact)
        gap = free
        # the free bound is looser by (1 - share) * loss; the exact one is computed only where that is what is missing
        if pairwise(problem) and share > LEAST_SHARE and first_order <= state.tol * abs(exact.value) < free:
            gap = min(free, exact.value - problem.C * mixed_entropy(problem, state.w, share))
        relative = problem.relative(gap, exact.value)
        return Evaluation(state.w, None, exact.value, exact.value - gap, relative, relative)

    @staticmethod
    def _slope(problem: Problem, state: SmoothState) -> float:
        """Norm of the subgradient nearest to zero, relative to that at the start: where there is no certificate."""
        slope = pseudo_gradient(state.w, state.gradient, l1_price(problem.prior))
        return float(np.linalg.norm(slope)) / max(state.first_norm, np.finfo(float).tiny)

    @staticmethod
    def _gaps(problem: Problem, state: SmoothState) -> tuple[float, float, float]:
        """A sure gap, the gap to first order in 1 - share, and the share of the model in the dual point."""
        eta = -problem.C * state.loss_slope
        if offers(problem.prior, "conjugate"):  # no border: the model itself is a dual point
            gap = problem.dual_prior.cumulant(eta) + problem.prior.penalty(state.w) - float(state.w @ eta)
            gap += problem.C * state.short
            return gap, gap, 1.0
        rho, largest = l1_price(problem.prior), np.abs(eta).max(initial=0.0)
        share = min(1.0, rho / largest) if largest > 0 else 1.0
        first_order = problem.prior.penalty(state.w) - share * (float(state.w @ eta) - problem.C * state.short)
        return first_order + (1.0 - share) * problem.C * state.loss, first_order, share


def l1_price(prior: Prior) -> float:
    """What a unit of ``|w_k|`` costs, beside a smooth penalty or alone."""
    return float(getattr(prior, "l1", None) or capable(prior, "l1").rho)


def pairwise(problem: Problem) -> bool:
    """Whether the entropy of mixed marginals is that of a forest."""
    return getattr(problem.structure, "pairwise", False)


def pseudo_gradient(w: FloatArray, gradient: FloatArray, rho: float) -> FloatArray:
    """The subgradient of ``f(w) + rho |w|_1`` nearest to zero."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - rho, 0.0)
    return np.where(w != 0, gradient + rho * np.sign(w), at_zero)
