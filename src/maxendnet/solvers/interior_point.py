"""Interior-point method for L1-M3N and L1-CRFs, with the full Hessian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation
from maxendnet.solvers.certificate.dual_mixture import DualPoint, best_inside, share_inside
from maxendnet.solvers.lbfgs import LBFGS, Curvature, SmoothState
from maxendnet.solvers.owlqn import OWLQN
from maxendnet.solvers.smoothing import (
    SmoothPath,
    blur_of,
    dual_point,
    in_float64,
    soft_problem,
    with_hessian,
)
from maxendnet.solvers.subproblems.smooth_l1 import SmoothL1
from maxendnet.utils.state_fields import ROUNDING, NonNegative, require

ENTROPY_SHARE, BARRIER_SHARE = 0.7, 0.6
"""Largest shares of the requested gap that the entropy term and the barrier of the bounds may contribute at the end of
the path."""
MIN_FACTOR, MIN_FACTOR_LOG_LOSS = 0.4, 0.3
"""Smallest factor by which temperature and width are reduced in one update; and the same for the width under the log
loss."""
SETTLED_SHARE = 0.1
"""The barriers are reduced when the last gain is below this share of the gap that is due to them."""
MIN_WARM_FACTOR = 1e-4
"""Smallest initial temperature and width of a warm start, relative to those of a cold start."""
HESSIAN_EVERY = 40
"""Steps between two computations of the Hessian."""
ZEROING_GAP, ZEROING_RETRY_FACTOR = 0.9, 0.7
"""Share of the requested gap at which weights are set to zero, and the factor by which it is reduced after a failed
attempt."""
MAX_RISE = 0.01
"""Largest relative increase of the objective when weights are set to zero."""
ZERO_THRESHOLDS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.3, 0.0)
"""Thresholds relative to rho, tried in order: weights with a smaller ``|eta_k|`` are held at zero."""


@dataclass(eq=False, repr=False)
class HeldAtZero(OWLQN):
    """OWL-QN that holds the weights in ``held`` at zero."""

    held: Any = None

    def _at(self, problem: Problem, w: FloatArray, curvature: Curvature, single: bool = True) -> SmoothState:
        state = super()._at(problem, w, curvature, single)
        return state._replace(gradient=np.where(self.held, 0.0, state.gradient))


class PathState(NamedTuple):
    """State of `InteriorPoint`: the current smooth problem, and the best points so far."""

    soft: Problem
    """The problem at the current temperature and width."""
    inner: SmoothState
    points: tuple[DualPoint, ...]
    """As in `SmoothingState`; the first is the best one, and within the bounds."""
    tol: float
    width: NonNegative
    n_steps: int = 0
    n_falls: int = 0
    """Number of times that the barriers have been reduced."""
    value_before: float = np.inf
    """Smooth objective at the last evaluation."""
    hessian_at: int | None = None
    """Step at which the Hessian was computed; None if it was not computed for the current barriers."""
    held: NDArray[np.bool_] | None = None
    """Mask of the weights that are held at zero; None on the path."""
    near: NonNegative = ZEROING_GAP
    """Share of the requested gap at which weights are set to zero."""
    w: FloatArray | None = None
    primal: float = np.inf
    finished: bool = False

    @property
    def dual(self) -> float:
        """The best dual value so far."""
        return self.points[0].cost

    @property
    def temperature(self) -> float:
        """Temperature of the soft maximum; 0 for the log loss."""
        return self.soft.loss.temperature if isinstance(self.soft.loss, SoftHinge) else 0.0

    def check(self, problem: Problem) -> None:
        """Check the path."""
        require(len(self.points) >= 2, f"the path has {len(self.points)} dual points, expected at least 2")
        prior, rho = self.soft.prior, rho_of(problem)
        smooth = self.held is not None or offers(prior, "smooth")
        require(smooth, f"the prior on the path is {prior!r}, which is not smooth")
        require(getattr(prior, "rho", rho) == rho, f"the prior on the path is {prior!r}, but rho is {rho}")
        require(share_inside(rho, self.points[0].eta) >= 1 - ROUNDING, "the first dual point is outside the bounds")


@dataclass(eq=False, repr=False)
class InteriorPoint(SmoothPath):
    """Interior-point method for L1-M3N and L1-CRFs.

    The dual of an L1-M3N is a linear programme over probabilities of labellings with the bounds ``|eta_k| <= rho``. Two
    barriers are added. The first is ``temperature`` times the entropy of the probabilities, which makes the maximum in
    the hinge soft. The second is ``width`` times the logarithm of each bound, which rounds the penalty off at zero. The
    primal is then smooth, and L-BFGS minimises it, starting from the factorised Hessian (`sampled_hessian`). When it
    has nearly converged, both barriers are reduced, until they contribute less than the requested gap. The
    probabilities at the end of the path are a dual point, as in `Smoothing`. The log loss is already smooth and needs
    only the second barrier.

    Weights on the path are never zero. When the bound is nearly tight, weights with ``|eta_k|`` clearly below rho are
    set to zero, as many as the objective allows, and OWL-QN refits the other weights.

    Faster than `ProximalPoint` unless C is small (measured on OCR, see benchmarks/SOLVERS.md). With more than 6,000
    weights the Hessian covers the 4,000 weights best determined by the data.

    Parameters
    ----------
    first_temperature : float, default=0.3
        Initial temperature relative to the largest label cost.
    look_every : int, default=5
        Passes between two updates of the barriers and the bound.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1M3N(C=10, solver=InteriorPoint(), tol=0.01).fit(X, y).converged_
    True
    """

    requires: ClassVar[tuple[str, ...]] = (
        "loss.smooth or loss.linear_slack",
        "convex",
        "prior.rho",
        "structure.pairwise",
        "backend.local",
    )

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> PathState:
        self.check()
        temperature = self.first_temperature * (float(problem.cost.max(initial=0.0)) or 1.0)
        width = self._first_width(problem)
        if warm is not None:  # start near the end of the path; C may differ
            temperature *= float(np.clip(warm.temperature / MIN_FACTOR / temperature, MIN_WARM_FACTOR, 1.0))
            width *= float(np.clip(warm.width / MIN_FACTOR / width, MIN_WARM_FACTOR, 1.0))
        soft = smooth_problem(problem, temperature, width, exact=False)
        inner = LBFGS().start(soft, None if warm is None else warm.inner, tol=tol)
        zero = DualPoint(np.zeros(problem.n_weights), 0.0)
        problem.n_oracle += soft.n_oracle
        return PathState(soft, inner, (zero, zero), tol, width)

    def _first_width(self, problem: Problem) -> float:
        """Return the width that rounds the penalty off where a weight changes a score by the first temperature."""
        temperature = self.first_temperature * (float(problem.cost.max(initial=0.0)) or 1.0)
        return rho_of(problem) * temperature / (problem.batch.largest or 1.0)

    def _inner(self, problem: Problem, state: PathState | None = None) -> LBFGS:
        if state is None or state.held is None:
            return LBFGS()
        return HeldAtZero(dual_search=False, held=state.held)

    def _adapt(self, problem: Problem, state: PathState, gained: float) -> PathState:
        """Keep the current barriers, reduce them, or set weights to zero."""
        if state.held is not None:
            return self._check_zeros(problem, state, gained)
        inner, ended = state.inner, bool(state.inner.finished)
        gap_limit, entropy = gap_limit_of(problem, state), blur_of(state.soft, inner)
        barrier = SmoothL1(rho_of(problem), state.width).barrier(inner.w)
        cooler, narrower = (
            ENTROPY_SHARE * gap_limit / max(entropy, 1e-300),
            BARRIER_SHARE * gap_limit / max(barrier, 1e-300),
        )
        settled = ended or gained <= SETTLED_SHARE * max(entropy, barrier, BARRIER_SHARE * gap_limit)
        if min(cooler, narrower) < 1.0:
            least = MIN_FACTOR_LOG_LOSS if problem.loss.smooth else MIN_FACTOR
            factors = np.clip([0.9 * cooler, 0.9 * narrower], least, 1.0)
            return self._with_smaller_barriers(problem, state, *factors) if settled else state
        if not in_float64(state.soft, inner):
            exact = smooth_problem(problem, state.temperature, state.width, exact=True)
            state = self._in_float64(problem, state, exact, single=False)
        state = bounded(problem, state)
        primal = problem.primal(inner.w)
        if primal < state.primal:
            state = state._replace(primal=primal, w=inner.w)
        if state.primal - state.dual <= state.near * gap_limit_of(problem, state):
            return self._to_zeros(problem, state)
        largest = float(np.abs(dual_point(state.soft, inner).eta).max(initial=0.0))
        if ended or largest <= (1.0 + 0.3 * state.tol) * rho_of(problem):  # solved, but the bound is still not tight
            return self._with_smaller_barriers(problem, state, 0.5, 0.5)
        hessian_due = settled if state.hessian_at is None else state.n_steps >= state.hessian_at + HESSIAN_EVERY
        return with_hessian(problem, state)._replace(hessian_at=state.n_steps) if hessian_due else state

    def _with_smaller_barriers(self, problem: Problem, state: PathState, cooler: float, narrower: float) -> PathState:
        temperature, width = cooler * state.temperature, narrower * state.width
        coldest = 1e-9 * float(problem.cost.max(initial=0.0))
        if temperature < coldest or width < 1e-9 * self._first_width(problem):
            return state._replace(finished=True)
        exact = in_float64(state.soft, state.inner)
        soft = smooth_problem(problem, temperature, width, exact)
        new = self._moved_to(problem, state, soft, single=not exact)
        new = new._replace(width=width, hessian_at=None, held=None, n_falls=state.n_falls + 1)
        result: PathState = with_hessian(problem, new)._replace(hessian_at=state.n_steps) if state.n_falls else new
        return result

    def _to_zeros(self, problem: Problem, state: PathState) -> PathState:
        """Set weights to zero, and return to the original L1 penalty.

        As many weights are set to zero as possible without increasing the objective by more than the requested gap, or
        by 1 % if that is less. Refitting the other weights reverses the increase.
        """
        w, size = state.inner.w, np.abs(state.points[0].eta)
        limit = state.primal + min(1.0, MAX_RISE / state.tol) * gap_limit_of(problem, state)
        for cut in ZERO_THRESHOLDS:
            held = size < cut * rho_of(problem)
            if problem.primal(np.where(held, 0.0, w)) <= limit:
                break
        soft = problem.replace() if problem.loss.smooth else soft_problem(problem, state.temperature, exact=True)
        first = Curvature(state.inner.curvature.first)
        inner = HeldAtZero(dual_search=False, held=held)._at(soft, np.where(held, 0.0, w), first, single=False)
        return state._replace(soft=soft, inner=inner._replace(tol=state.tol), held=held, value_before=inner.value)

    def _check_zeros(self, problem: Problem, state: PathState, gained: float) -> PathState:
        """Finish, continue the refit, or return to the path if too many weights are zero."""
        state = bounded(problem, state)
        w, gap_limit, ended = state.inner.w, gap_limit_of(problem, state), bool(state.inner.finished)
        primal = problem.primal(w)
        if primal - state.dual <= gap_limit and (ended or gained <= 0.03 * gap_limit):
            return state._replace(w=w, primal=primal, finished=True)
        if ended or gained <= 0.01 * gap_limit:  # too many weights are zero
            return self._with_smaller_barriers(
                problem, state._replace(near=ZEROING_RETRY_FACTOR * state.near), 0.5, 0.5
            )
        return state

    def due(self, problem: Problem, state: PathState, n_pass: int, tol: float) -> bool:
        # once the gap is small enough, wait until weights have been set to zero
        gap_is_large = problem.relative(state.primal - state.dual, state.primal) > tol or state.w is None
        return state.finished or (gap_is_large and n_pass % (4 * self.look_every) == 0)

    def evaluate(self, problem: Problem, state: PathState) -> Evaluation:
        w, primal = (state.inner.w, problem.primal(state.inner.w)) if state.w is None else (state.w, state.primal)
        return Evaluation.certified(problem, w, None, primal, state.dual)


def rho_of(problem: Problem) -> float:
    return float(capable(problem.prior, "l1").rho)


def smooth_problem(problem: Problem, temperature: float, width: float, exact: bool) -> Problem:
    """Return the problem with both barriers; ``exact`` means in float64. The log loss needs no temperature."""
    soft = problem if problem.loss.smooth else soft_problem(problem, temperature, exact)
    return soft.replace(prior=SmoothL1(rho_of(problem), width))


def gap_limit_of(problem: Problem, state: PathState) -> float:
    """Return the requested gap as an absolute value."""
    return state.tol * problem.gap_scale(state.inner.value)


def bounded(problem: Problem, state: PathState) -> PathState:
    """Update the best mixture of dual points."""
    # the barrier costs about `price` for every weight near its bound, in total at most a twentieth of the requested gap
    price = 0.05 * gap_limit_of(problem, state) / (1 + np.count_nonzero(state.inner.w))
    mixture = best_inside(rho_of(problem), state.points, price)
    best = max(mixture, state.points[0], key=lambda point: point.cost)
    return state._replace(points=(best, *state.points[1:]))
