"""Orthant-wise limited-memory quasi-Newton, for the log loss with an L1 penalty or an elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxendnet.priors.base import Prior, capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation
from maxendnet.solvers.certificate.dual_mixture import share_inside
from maxendnet.solvers.certificate.l1_dual import can_search, l1_dual
from maxendnet.solvers.certificate.marginals import mixed_entropy
from maxendnet.solvers.lbfgs import LBFGS, Curvature, SmoothState, memory_for

SEARCH_EVERY = 10
"""Passes between two decisions about a dual search."""
SETTLED_SHARE, MAX_SETTLED_TOL = 0.25, 1e-3
"""A dual search begins when the objective decreases by less than `SETTLED_SHARE` of the requested gap (or of a gap of
`MAX_SETTLED_TOL`, if that is smaller). Earlier, too many weights still become zero or nonzero (measured on OCR)."""
MIN_GAP_FOR_SEARCH, MAX_GAP_FOR_SEARCH = 10.0, 0.1
"""The first search requires a gap above this multiple of the requested gap (or above `MAX_GAP_FOR_SEARCH`, if that is
smaller). With a smaller gap, a few more passes suffice."""
MIN_SHARE_TO_REPEAT = 0.5
"""A second search is only worthwhile if the share of the first dual point is at least this large."""
MIN_SHARE = 0.5
"""Smallest share of the model in the dual point for which the first-order gap is used. Near w = 0 that gap is always
small."""


@dataclass(eq=False, repr=False)
class OWLQN(LBFGS):
    """OWL-QN (Andrew & Gao 2007): L-BFGS for L1 penalties.

    Each step stays within one orthant: weights that would change their sign stop at zero.

    The dual point is ``p(y | x; w)``, mixed with the true labelling until every ``|eta_k| <= rho``. The share s of
    ``p`` in this mixture is 1 at the optimum. The entropy of the mixture is at least s times that of ``p``, which
    provides a gap at no cost. If only the first-order gap is small enough, the entropy is computed from the mixed
    marginals. (Hierarchies do not support this, and take a few more passes.) Under an elastic net every dual point has
    a finite value, and no mixture is needed.

    The objective converges long before the share does. Therefore, as soon as the objective hardly decreases, the solver
    searches for a better dual point (`l1_dual`). This takes a third of the time to a certificate (L1CRF on OCR).

    Parameters
    ----------
    memory : int or None, default=None
        Number of stored changes of w and gradient, as in `LBFGS`.
    dual_search : bool, default=True
        Whether to search for a better dual point.

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> L1CRF(lam=0.1, solver=OWLQN()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    dual_search: bool = True
    requires: ClassVar[tuple[str, ...]] = ("loss.smooth", "prior.rho or prior.l1")

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> SmoothState:
        w = problem.first_weights(seed) if warm is None else warm.w.copy()
        state = self._at(problem, w, Curvature.of(problem))._replace(tol=tol)
        slope = pseudo_gradient(w, state.gradient, l1_price(problem.prior))
        return state._replace(first_norm=float(np.linalg.norm(slope)) if warm is None else warm.first_norm)

    def _penalty_gradient(self, problem: Problem, w: FloatArray) -> FloatArray:
        """Return the gradient of the squared penalty of an elastic net, without the L1 penalty."""
        return getattr(problem.prior, "l2", 0.0) * w

    def step(self, problem: Problem, state: SmoothState) -> SmoothState:
        search = state.search._replace(n_steps=state.search.n_steps + 1)
        new = self._move(problem, state)._replace(search=search)
        return self._with_dual_search(problem, new) if search.n_steps % SEARCH_EVERY == 0 or new.finished else new

    def _with_dual_search(self, problem: Problem, state: SmoothState) -> SmoothState:
        """Search for a better dual value if the objective has settled and the gap is still large."""
        search, gap_limit = state.search, state.tol * abs(state.value)
        least = SETTLED_SHARE * min(state.tol, MAX_SETTLED_TOL) * abs(state.value)
        gained = 0.0 if state.finished else search.value - state.value
        search = search._replace(value=state.value)
        # repeat a search only if the dual value rather than the objective limits the gap
        settled = gained <= min(least, 0.1 * search.gained)
        first_search_gap = max(gap_limit, min(MIN_GAP_FOR_SEARCH * gap_limit, MAX_GAP_FOR_SEARCH * abs(state.value)))
        lags = self._gaps(problem, state)[0] > (first_search_gap if search.dual == -np.inf else gap_limit)
        if self.dual_search and settled and lags and can_search(problem):
            point = l1_dual(problem, state.w, state.curvature, gap_limit)
            # with a small share, the loss is almost flat in some directions, and a second search would fail too
            gained = gained if point.share >= MIN_SHARE_TO_REPEAT else 0.0
            search = search._replace(gained=gained)
            if point.share * point.value > search.dual:
                search = search._replace(dual=point.share * point.value, dual_weights=point.w)
        return state._replace(search=search)

    def _move(self, problem: Problem, state: SmoothState) -> SmoothState:
        """Make a step of the weights."""
        w, rho = state.w, l1_price(problem.prior)
        pseudo = pseudo_gradient(w, state.gradient, rho)
        # Andrew & Gao use the inverse of the full Hessian and drop coordinates that go uphill. Using only the block of
        # the coordinates that can move halves the number of passes (OCR), and only weights at zero need to be fixed.
        direction = -state.curvature.times(pseudo, free=(w != 0) | (pseudo != 0))
        direction[(w == 0) & (direction * pseudo >= 0)] = 0.0
        if not direction @ pseudo < 0:
            state = state._replace(curvature=state.curvature.forget())
            direction = -pseudo
        orthant = np.where(w != 0, np.sign(w), -np.sign(pseudo))
        length = 1.0 if state.curvature.s else min(1.0, 1.0 / max(float(np.linalg.norm(pseudo)), 1e-300))
        # below the rounding error of the objective the gradient is still a descent direction
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
            if state.single:  # no further decrease in float32: continue in float64
                return self._in_double(problem, state, (new or state).w, state.curvature.forget())
            if new is None:  # retry without curvature from distant points
                return state._replace(curvature=state.curvature.forget(), finished=not state.curvature.s)
        memory = memory_for(self.memory, problem.n_weights)
        curvature = state.curvature.add(new.w - w, new.gradient - state.gradient, memory)
        return new._replace(curvature=curvature, tol=state.tol, first_norm=state.first_norm)

    def due(self, problem: Problem, state: SmoothState, n_pass: int, tol: float) -> bool:
        if not problem.convex:
            return n_pass % 10 == 0 or self._slope(problem, state) <= tol
        return n_pass % 10 == 0 or self._gaps(problem, state)[0] <= 0.7 * tol * abs(state.value)

    def evaluate(self, problem: Problem, state: SmoothState) -> Evaluation:
        exact = self._evaluated(problem, state)
        if not problem.convex:
            slope = self._slope(problem, exact)
            return Evaluation(state.w, None, exact.value, np.nan, np.nan, slope)
        free, first_order, share = self._gaps(problem, exact)
        gap = free
        # the free bound is looser by (1 - share) * C * loss, so compute the exact one only if that difference matters
        if pairwise(problem) and share > MIN_SHARE and first_order <= state.tol * abs(exact.value) < free:
            gap = min(free, exact.value - problem.C * mixed_entropy(problem, state.w, share))
        return Evaluation.certified(problem, state.w, None, exact.value, exact.value - gap)

    @staticmethod
    def _slope(problem: Problem, state: SmoothState) -> float:
        """Return the norm of the smallest subgradient relative to that at the start; used without a certificate."""
        slope = pseudo_gradient(state.w, state.gradient, l1_price(problem.prior))
        return float(np.linalg.norm(slope)) / max(state.first_norm, np.finfo(float).tiny)

    @staticmethod
    def _gaps(problem: Problem, state: SmoothState) -> tuple[float, float, float]:
        """Return a valid gap, the gap to first order in 1 - share, and the share of the model in the dual point."""
        eta = -problem.C * state.loss_slope
        if offers(problem.prior, "conjugate"):  # without bounds the model itself is a dual point
            gap = problem.dual_prior.cumulant(eta) + problem.prior.penalty(state.w) - float(state.w @ eta)
            gap += problem.C * state.relaxation_gap
            return gap, gap, 1.0
        share = share_inside(l1_price(problem.prior), eta)
        first_order = problem.prior.penalty(state.w) - share * (float(state.w @ eta) - problem.C * state.relaxation_gap)
        free = first_order + (1.0 - share) * problem.C * state.loss
        return min(free, state.value - state.search.dual), first_order, share


def l1_price(prior: Prior) -> float:
    """Return the factor of ``|w|_1`` in the penalty."""
    return float(getattr(prior, "l1", None) or capable(prior, "l1").rho)


def pairwise(problem: Problem) -> bool:
    """Whether the entropy of mixed marginals can be computed as that of a forest."""
    return bool(problem.structure.capabilities.pairwise)


def pseudo_gradient(w: FloatArray, gradient: FloatArray, rho: float) -> FloatArray:
    """Return the subgradient of ``f(w) + rho |w|_1`` nearest to zero."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - rho, 0.0)
    return np.where(w != 0, gradient + rho * np.sign(w), at_zero)
