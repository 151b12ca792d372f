"""L1-M3N and L1-CRFs by a path through the interior of what the dual allows, with the whole Hessian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation
from maxendnet.solvers.certificate.dual_mixture import DualPoint, best_inside
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

BLUR, BARRIER = 0.7, 0.6
"""Parts of the gap asked for that entropy and bounds may add at the end of the path."""
LEAST_FACTOR, LEAST_FACTOR_OF_LOG = 0.4, 0.3
"""By which temperature and width fall at once, at most; and the width under the log loss."""
SETTLED = 0.1
"""Part of what entropy or bounds add to the gap: a gain below it is not worth a step before they are made smaller."""
FARTHEST = 1e-4
"""Part of the first temperature and width, below which a warm start never begins."""
REPEAT = 40
"""Steps after which the Hessian is made up once more."""
NEAR, LESS_NEAR = 0.9, 0.7
"""Part of the gap asked for at which zeros are sought, and its factor when the rest was not enough for them."""
MOST_RISE = 0.01
CUTS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.3, 0.0)
"""Parts of rho; weights whose ``|eta|`` is below one of them are held at zero."""


@dataclass(eq=False, repr=False)
class HeldAtZero(OWLQN):
    """OWL-QN on the other weights."""

    held: Any = None

    def _at(self, problem: Problem, w: FloatArray, curvature: Curvature, single: bool = True) -> SmoothState:
        state = super()._at(problem, w, curvature, single)
        return state._replace(gradient=np.where(self.held, 0.0, state.gradient))


class PathState(NamedTuple):
    """Where the path is, and the best points so far."""

    soft: Problem
    """The problem at the present temperature and width."""
    inner: SmoothState
    points: tuple[DualPoint, ...]
    """As in `SmoothingState`."""
    tol: float
    width: float
    n_steps: int = 0
    n_falls: int = 0
    """How often barriers were made smaller."""
    value_before: float = np.inf
    """Smooth objective at the last look."""
    hessian_at: int | None = None
    """The step at which the Hessian was made up, None if it was not at this temperature."""
    held: NDArray[np.bool_] | None = None
    """The weights that are held at zero, while zeros are sought."""
    near: float = NEAR
    w: FloatArray | None = None
    primal: float = np.inf
    dual: float = 0.0
    finished: bool = False

    @property
    def temperature(self) -> float:
        """Of the soft maximum; 0 for the log loss, which needs none."""
        return self.soft.loss.temperature if isinstance(self.soft.loss, SoftHinge) else 0.0


@dataclass(eq=False, repr=False)
class InteriorPoint(SmoothPath):
    """L1-M3N and L1-CRFs of which few weights matter: barriers in the dual, whose weights fall.

    The dual of an L1-M3N is a linear programme over the shares of labellings, with ``|eta_k| <= rho``. Here it gets a
    barrier for each kind of border: ``temperature`` times the entropy of the shares, which makes the maximum of the
    hinge soft, and ``width`` times a logarithm for each bound, which rounds the penalty off at zero. So the primal is
    smooth, and L-BFGS solves it, beginning with the whole Hessian (`sampled_hessian`), factorised. When it has nearly
    settled both barriers are made smaller, until they add less than the gap asked for; the shares at the end of the
    path are a dual point, as in `Smoothing`. The log loss is smooth already, and has the second barrier alone.

    Weights on the path are never zero. When the bound is nearly tight enough, those whose ``|eta_k|`` is clearly below
    rho are set to zero, as many as the objective allows, and OWL-QN fits the others to that.

    On the OCR letters, L1M3N(C=0.5) to a gap of 1e-2 takes 135 passes, and `ProximalPoint` 828. With a small C
    `ProximalPoint` is faster. Of more than 6000 weights the Hessian is that of the 4000 on which the examples have most
    to say.

    Parameters
    ----------
    first_temperature : float, default=0.3
        As a share of the largest label cost.
    look_every : int, default=5
        Passes between two looks at the barriers and the bound.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1M3N(C=10, solver=InteriorPoint(), tol=0.01).fit(X, y).converged_
    True
    """

    requires = ("loss.smooth or loss.linear_slack", "convex", "prior.rho", "structure.pairwise", "backend.local")

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> PathState:
        self.check()
        temperature = self.first_temperature * (float(problem.cost.max(initial=0.0)) or 1.0)
        width = self._first_width(problem)
        if warm is not None:  # near the end of the path, with room for another C
            temperature *= float(np.clip(warm.temperature / LEAST_FACTOR / temperature, FARTHEST, 1.0))
            width *= float(np.clip(warm.width / LEAST_FACTOR / width, FARTHEST, 1.0))
        soft = smooth_problem(problem, temperature, width, exact=False)
        inner = LBFGS().start(soft, None if warm is None else warm.inner, tol=tol)
        zero = DualPoint(np.zeros(problem.n_weights), 0.0)
        problem.n_oracle += soft.n_oracle
        return PathState(soft, inner, (zero, zero), tol, width)

    def _first_width(self, problem: Problem) -> float:
        """The penalty is rounded off where a weight changes a score by the first temperature."""
        temperature = self.first_temperature * (float(problem.cost.max(initial=0.0)) or 1.0)
        return rho_of(problem) * temperature / (problem.batch.largest or 1.0)

    def _inner(self, problem: Problem, state: PathState | None = None) -> LBFGS:
        if state is None or state.held is None:
            return LBFGS()
        return HeldAtZero(dual_search=False, held=state.held)

    def _look(self, problem: Problem, state: PathState, gained: float) -> PathState:
        """Make another step at these barriers, or reduce them, or set weights to zero."""
        if state.held is not None:
            return self._look_at_zeros(problem, state, gained)
        inner, ended = state.inner, bool(state.inner.finished)
        wanted, entropy = wanted_of(problem, state), blur_of(state.soft, inner)
        barrier = SmoothL1(rho_of(problem), state.width).barrier(inner.w)
        cooler, narrower = BLUR * wanted / max(entropy, 1e-300), BARRIER * wanted / max(barrier, 1e-300)
        settled = ended or gained <= SETTLED * max(entropy, barrier, BARRIER * wanted)
        if min(cooler, narrower) < 1.0:
            least = LEAST_FACTOR_OF_LOG if problem.loss.smooth else LEAST_FACTOR
            factors = np.clip([0.9 * cooler, 0.9 * narrower], least, 1.0)
            return self._with_smaller_barriers(problem, state, *factors) if settled else state
        if not in_float64(state.soft, inner):
            exact = smooth_problem(problem, state.temperature, state.width, exact=True)
            state = self._in_float64(problem, state, exact, single=False)
        state = bounded(problem, state)
        primal = problem.primal(inner.w)
        if primal < state.primal:
            state = state._replace(primal=primal, w=inner.w)
        if state.primal - state.dual <= state.near * wanted_of(problem, state):
            return self._to_zeros(problem, state)
        largest = float(np.abs(dual_point(state.soft, inner).eta).max(initial=0.0))
        if ended or largest <= (1.0 + 0.3 * state.tol) * rho_of(problem):  # solved, and still not enough
            return self._with_smaller_barriers(problem, state, 0.5, 0.5)
        again = settled if state.hessian_at is None else state.n_steps >= state.hessian_at + REPEAT
        return with_hessian(problem, state)._replace(hessian_at=state.n_steps) if again else state

    def _with_smaller_barriers(self, problem: Problem, state: PathState, cooler: float, narrower: float) -> PathState:
        temperature, width = cooler * state.temperature, narrower * state.width
        coldest = 1e-9 * float(problem.cost.max(initial=0.0))
        if temperature < coldest or width < 1e-9 * self._first_width(problem):
            return state._replace(finished=True)
        exact = in_float64(state.soft, state.inner)
        soft = smooth_problem(problem, temperature, width, exact)
        new = self._moved_to(problem, state, soft, single=not exact)
        new = new._replace(width=width, hessian_at=None, held=None, n_falls=state.n_falls + 1)
        return with_hessian(problem, new)._replace(hessian_at=state.n_steps) if state.n_falls else new

    def _to_zeros(self, problem: Problem, state: PathState) -> PathState:
        """With many weights at zero, and the L1 penalty itself.

        As many as make the objective larger by no more than the gap asked for, or 1 %: to fit the others takes it back.
        """
        w, size = state.inner.w, np.abs(state.points[0].eta)
        limit = state.primal + min(1.0, MOST_RISE / state.tol) * wanted_of(problem, state)
        for cut in CUTS:
            held = size < cut * rho_of(problem)
            if problem.primal(np.where(held, 0.0, w)) <= limit:
                break
        soft = problem.replace() if problem.loss.smooth else soft_problem(problem, state.temperature, exact=True)
        first = Curvature(state.inner.curvature.first)
        inner = HeldAtZero(dual_search=False, held=held)._at(soft, np.where(held, 0.0, w), first, single=False)
        return state._replace(soft=soft, inner=inner._replace(tol=state.tol), held=held, value_before=inner.value)

    def _look_at_zeros(self, problem: Problem, state: PathState, gained: float) -> PathState:
        state = bounded(problem, state)
        w, wanted, ended = state.inner.w, wanted_of(problem, state), bool(state.inner.finished)
        primal = problem.primal(w)
        if primal - state.dual <= wanted and (ended or gained <= 0.03 * wanted):
            return state._replace(w=w, primal=primal, finished=True)
        if ended or gained <= 0.01 * wanted:  # too many zeros for this gap
            return self._with_smaller_barriers(problem, state._replace(near=LESS_NEAR * state.near), 0.5, 0.5)
        return state

    def due(self, problem: Problem, state: PathState, n_pass: int, tol: float) -> bool:
        # a point that is good enough and has no zeros yet is not the end
        far = problem.relative(state.primal - state.dual, state.primal) > tol or state.w is None
        return state.finished or (far and n_pass % (4 * self.look_every) == 0)

    def evaluate(self, problem: Problem, state: PathState) -> Evaluation:
        w, primal = (state.inner.w, problem.primal(state.inner.w)) if state.w is None else (state.w, state.primal)
        return Evaluation.certified(problem, w, None, primal, state.dual)


def rho_of(problem: Problem) -> float:
    return float(capable(problem.prior, "l1").rho)


def smooth_problem(problem: Problem, temperature: float, width: float, exact: bool) -> Problem:
    """The problem with both barriers; ``exact`` in float64. The log loss needs no temperature."""
    soft = problem if problem.loss.smooth else soft_problem(problem, temperature, exact)
    return soft.replace(prior=SmoothL1(rho_of(problem), width))


def wanted_of(problem: Problem, state: PathState) -> float:
    """The gap asked for, absolute."""
    return state.tol * problem.gap_scale(state.inner.value)


def bounded(problem: Problem, state: PathState) -> PathState:
    """With the best mixture of dual points."""
    # bounds cost about as many parts of 1/weight as there are weights near them: a twentieth of what is asked for
    price = 0.05 * wanted_of(problem, state) / (1 + np.count_nonzero(state.inner.w))
    mixture = best_inside(rho_of(problem), state.points, price)
    return state._replace(points=(mixture, *state.points[1:]), dual=max(state.dual, mixture.cost))
