"""L-BFGS on the hinge with a soft maximum, at decreasing temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors.base import capable, offers
from maxendnet.problem import Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.certificate.dual_mixture import DualPoint, best_inside, best_mixture, l1_dual_value
from maxendnet.solvers.curvature.sampled_hessian import (
    full_hessian_worthwhile,
    whole_curvature,
)
from maxendnet.solvers.curvature.soft_curvature import soft_curvature
from maxendnet.solvers.lbfgs import LBFGS, SmoothState
from maxendnet.solvers.owlqn import OWLQN
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import Values, require, require_equal, rounding_of

MAX_POINTS = 20
"""Largest number of dual points in a mixture."""
TIGHT_GAP = 3.0
"""Multiple of the requested gap below which the bound is evaluated as often as possible."""
MIN_GAP_FOR_HESSIAN, HESSIAN_AFTER, HESSIAN_EVERY = 10.0, 20, 40
"""The Hessian is computed if the gap exceeds ``MIN_GAP_FOR_HESSIAN * tol``: first `HESSIAN_AFTER` passes after the
temperature was reduced, and then every `HESSIAN_EVERY` passes."""


class SmoothingState(NamedTuple):
    """State of `Smoothing`."""

    soft: Problem
    """The problem at the current temperature."""
    inner: SmoothState
    points: tuple[DualPoint, ...]
    """The best mixture so far, the point 0, and the dual points of the last passes in float64."""
    dual: float
    """Dual value of the mixture."""
    tol: float
    n_steps: int = 0
    value_before: float = np.inf
    """Soft objective at the last evaluation."""
    finished: bool = False
    mixed: Annotated[int, Values(low=-1)] = -1
    """Step at which the best mixture was last computed."""
    hessian_from: int = 0
    """First step at which the Hessian may be computed."""

    def check(self, problem: Problem) -> None:
        """Check the number of dual points, and the dual value if it belongs to them."""
        require(len(self.points) >= 2, f"the path has {len(self.points)} dual points, expected at least 2")
        if self.mixed == self.n_steps:
            expected, scale = bound_of(problem, self.points[0], self.points[-1]), 1e-3 * abs(problem.at_zero)
            require_equal(self.dual, expected, "the dual value", scale, rounding_of(problem))


@dataclass(eq=False, repr=False)
class SmoothPath(Solver):
    """Base class of solvers that minimise a sequence of smooth approximations of the problem.

    Each approximation is closer to the problem than the previous one.
    """

    first_temperature: float = 0.3
    look_every: int = 5
    accuracy: ClassVar[float] = 1e-4
    warm_anywhere = True

    def check(self) -> None:
        if not 0 < self.first_temperature < np.inf:
            raise ValueError(f"first_temperature must be a positive finite number, got {self.first_temperature!r}.")
        require_count("look_every", self.look_every)

    def carried(self, problem: Problem, state: Any) -> Any:
        """Return the same state, because its weights are a valid start for any target labels."""
        return state

    def _inner(self, problem: Problem, state: Any = None) -> LBFGS:
        """Return the solver of the smooth problems."""
        raise NotImplementedError

    def _adapt(self, problem: Problem, state: Any, gained: float) -> Any:
        """Return the state at the next smooth problem, or the same state to continue with the current one.

        ``gained`` is the decrease of the smooth objective since the last call, ``look_every`` steps ago.
        """
        raise NotImplementedError

    def step(self, problem: Problem, state: Any) -> Any:
        soft, before = state.soft, state.soft.n_oracle
        inner = self._inner(problem, state).step(soft, state.inner)
        problem.n_oracle += soft.n_oracle - before
        points = with_last(state.points, soft, inner)
        state = state._replace(inner=inner, points=points, n_steps=state.n_steps + 1)
        if state.n_steps % self.look_every and not inner.finished:
            return state
        gained = state.value_before - inner.value
        return self._adapt(problem, state._replace(value_before=inner.value), gained)

    def _in_float64(self, problem: Problem, state: Any, soft: Problem, single: bool) -> Any:
        """Return the state at the same weights for ``soft``, the same smooth problem with passes in float64."""
        inner = self._inner(problem)._at(soft, state.inner.w, state.inner.curvature, single)
        inner = inner._replace(first_norm=state.inner.first_norm, tol=state.inner.tol)
        problem.n_oracle += soft.n_oracle
        points = with_last(state.points, soft, inner)
        return state._replace(soft=soft, inner=inner, points=points, value_before=inner.value)

    def _moved_to(self, problem: Problem, state: Any, soft: Problem, single: bool) -> Any:
        """Return the state at the same weights for another smooth problem, with the curvature learnt so far."""
        w, learnt = state.inner.w, state.inner.curvature
        curvature = soft_curvature(soft, w)._replace(s=learnt.s, y=learnt.y, curves=learnt.curves)
        inner = self._inner(problem)._at(soft, w, curvature, single)
        inner = inner._replace(first_norm=state.inner.first_norm, tol=state.tol)
        problem.n_oracle += 2 * problem.n_examples
        return state._replace(soft=soft, inner=inner, value_before=np.inf)


@dataclass(eq=False, repr=False)
class Smoothing(SmoothPath):
    """L-BFGS or OWL-QN on the hinge with a soft maximum, at decreasing temperature.

    The maximum over labellings in the hinge is replaced by ``T log sum exp(. / T)``. This soft maximum is smooth, and
    exceeds the maximum by at most T times the entropy of the corresponding probabilities p of labellings. These
    probabilities are a dual point of the hinge problem, so every pass provides a lower bound; the best mixture of the
    last twenty points provides a better one. When the soft problem is nearly solved, or the entropy term explains most
    of the gap, the temperature is reduced. The curvature learnt so far is retained.

    If the bound is far from the objective, the full Hessian replaces the curvature (`sampled_hessian`), with at most
    6,000 weights and at least three nodes per weight.

    Passes use float32 until the bound is nearly tight, and then float64. Only dual points computed in float64 are used
    in a bound. In float32 their rounding errors, multiplied by C, could make a bound exceed the minimum.

    The number of passes hardly grows with C where the full Hessian is available. Passes are slower at low temperature,
    so `ProximalPoint` is faster for small gaps.

    Under an L1 penalty all ``|eta_k|`` of a dual point must be at most rho. Mixtures are therefore computed with a
    logarithmic barrier, and points that violate a bound are scaled.

    Based on the smoothing of a maximum by Nesterov 2005.

    Parameters
    ----------
    first_temperature : float, default=0.3
        Initial temperature relative to the largest label cost.
    look_every : int, default=5
        Passes between two updates of the temperature and the dual mixture.
    memory : int or None, default=None
        Number of stored changes of w and gradient, see `LBFGS`.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10, solver=Smoothing(), tol=0.01).fit(X, y).converged_
    True
    """

    memory: int | None = None
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth", "loss.linear_slack", "prior.gradient or prior.rho", "prior.variance or prior.rho",
        "prior.cumulant or prior.rho",
    )  # fmt: skip

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> SmoothingState:
        self.check()
        scale = float(problem.cost.max(initial=0.0)) or 1.0
        # use float64 from the start under L1: its dual is linear, and float32 cannot certify an optimum of all zeros
        soft = soft_problem(problem, self.first_temperature * scale, exact=offers(problem.prior, "l1"))
        inner = self._inner(problem).start(soft, None if warm is None else warm.inner, tol=tol)
        zero = DualPoint(np.zeros(problem.n_weights), 0.0)
        problem.n_oracle += soft.n_oracle
        return SmoothingState(soft, inner, with_last((zero, zero), soft, inner), 0.0, tol)

    def _inner(self, problem: Problem, state: Any = None) -> LBFGS:
        return OWLQN(self.memory, dual_search=False) if offers(problem.prior, "l1") else LBFGS(self.memory)

    def _adapt(self, problem: Problem, state: SmoothingState, gained: float) -> SmoothingState:
        """Reduce the temperature, update the bound, or continue."""
        inner, blur = state.inner, blur_of(state.soft, state.inner)
        # near the end the hinge objective is below the soft one by about half of the blur
        gap_limit = 2.0 * state.tol * abs(inner.value - 0.5 * blur)
        settled = gained <= 0.1 * blur or bool(inner.finished)
        lags_by_blur = inner.value - state.dual <= 1.1 * blur  # the blur alone explains the gap
        if settled and (blur > gap_limit or lags_by_blur):
            return self._cool(problem, state, float(np.clip(0.8 * gap_limit / blur, 0.3, 0.9)))
        if blur <= 2 * gap_limit:
            if not soft_hinge(state.soft).exact:
                exact = soft_problem(problem, soft_hinge(state.soft).temperature, exact=True)
                state = self._in_float64(problem, state, exact, single=True)
            state = self._with_hessian(problem, self._mixed(problem, state))
        # Values of relaxed graphs have limited accuracy, so solving the soft problem to the last digits is pointless.
        # (Under L1 these digits matter, because a dual point is scaled by its largest entry.)
        solved = gained <= 1e-3 * blur and problem.structure.capabilities.relaxed and not offers(problem.prior, "l1")
        if not (inner.finished or solved):
            return state
        # the soft problem is solved but the bound is still not tight: cool further, or give up at tiny temperatures
        coldest = soft_hinge(state.soft).temperature < 1e-9 * max(problem.cost.max(initial=0.0), 1e-300)
        return state._replace(finished=True) if coldest else self._cool(problem, state, 0.3)

    def _mixed(self, problem: Problem, state: SmoothingState) -> SmoothingState:
        """Update the best mixture of the dual points; while the gap is large, only at every second call.

        Points are stored between two updates, so none is lost. Under a Laplace prior, computing a mixture takes as long
        as a pass on one thread.
        """
        gap_is_large = state.inner.value - state.dual > TIGHT_GAP * state.tol * abs(state.inner.value)
        if gap_is_large and state.n_steps % (2 * self.look_every) and 2 * self.look_every <= MAX_POINTS:
            return state
        mixture, dual = best_bound(problem, state, state.points)
        return state._replace(points=(mixture, *state.points[1:]), dual=dual, mixed=state.n_steps)

    def _with_hessian(self, problem: Problem, state: SmoothingState) -> SmoothingState:
        """Replace the curvature by a Hessian at this point if the gap is large and a Hessian is worthwhile."""
        lags = state.inner.value - state.dual > MIN_GAP_FOR_HESSIAN * state.tol * abs(state.inner.value)
        if not (lags and state.n_steps >= state.hessian_from and offers(problem.prior, "spread")):
            return state
        if not full_hessian_worthwhile(problem):
            return state
        result: SmoothingState = with_hessian(problem, state)._replace(hessian_from=state.n_steps + HESSIAN_EVERY)
        return result

    def _cool(self, problem: Problem, state: SmoothingState, factor: float) -> SmoothingState:
        soft = soft_problem(problem, soft_hinge(state.soft).temperature * factor, soft_hinge(state.soft).exact)
        result: SmoothingState = self._moved_to(problem, state, soft, single=True)._replace(
            hessian_from=state.n_steps + HESSIAN_AFTER
        )
        return result

    def due(self, problem: Problem, state: SmoothingState, n_pass: int, tol: float) -> bool:
        nearly_tight = state.inner.value - state.dual <= TIGHT_GAP * tol * abs(state.inner.value)
        return n_pass % (4 * self.look_every) == 0 or (nearly_tight and n_pass % self.look_every == 0)

    def evaluate(self, problem: Problem, state: SmoothingState) -> Evaluation:
        w, points = state.inner.w, state.points
        primal = problem.primal(w)
        if not soft_hinge(state.soft).exact:
            soft = soft_problem(problem, soft_hinge(state.soft).temperature, exact=True)
            points = with_last(points, soft, self._inner(problem)._at(soft, w, state.inner.curvature))
            problem.n_oracle += soft.n_oracle
        is_current = state.mixed == state.n_steps and points is state.points
        point, dual = (points[0], state.dual) if is_current else best_bound(problem, state, points)
        eta = point.eta if offers(problem.prior, "exact") else None
        return Evaluation.certified(problem, w, eta, primal, dual, cost=point.cost)


def with_hessian(problem: Problem, state: Any) -> Any:
    """Replace the curvature of a state by the Hessian at its point, if it can be computed."""
    curvature = whole_curvature(state.soft, state.inner.w, state.n_steps)
    problem.n_oracle += problem.n_examples
    return state if curvature is None else state._replace(inner=state.inner._replace(curvature=curvature))


def best_bound(problem: Problem, state: SmoothingState, points: tuple[DualPoint, ...]) -> tuple[DualPoint, float]:
    """Return the best mixture of the dual points, and its dual value."""
    prior = problem.prior
    if offers(prior, "l1"):
        # the barrier costs about `price` for every weight near its bound, in total at most a twentieth of the gap
        gap_limit = 0.05 * state.tol * problem.gap_scale(state.inner.value)
        price = gap_limit / (1 + np.count_nonzero(state.inner.w))
        mixture = best_inside(capable(prior, "l1").rho, points, price)
    else:
        mixture = best_mixture(prior, points)
    return mixture, bound_of(problem, mixture, points[-1])


def bound_of(problem: Problem, mixture: DualPoint, last: DualPoint) -> float:
    """Return the dual value of a mixture; under an L1 penalty, that of the last point if it is larger."""
    if not offers(problem.prior, "l1"):
        return problem.dual(*mixture)[0]
    return max(l1_dual_value(problem.prior, *point) for point in (mixture, last))


def soft_problem(problem: Problem, temperature: float, exact: bool) -> Problem:
    """Return the problem with a soft hinge; ``exact`` means in float64."""
    hinge = problem.hinge
    return problem.replace(
        loss=SoftHinge(hinge.cost, temperature=temperature, exact=exact, joint_costs=hinge.joint_costs)
    )


def soft_hinge(soft: Problem) -> SoftHinge:
    """Return the loss of a soft problem."""
    assert isinstance(soft.loss, SoftHinge)
    return soft.loss


def blur_of(soft: Problem, inner: SmoothState) -> float:
    """Return temperature times entropy: the part of the gap that is due to smoothing.

    0 for the log loss, whose entropy is part of its dual value.
    """
    point = dual_point(soft, inner)
    return soft.C * inner.loss + float(inner.w @ point.eta) - point.cost


def dual_point(soft: Problem, inner: SmoothState) -> DualPoint:
    """Return the dual point ``alpha_i(y) = C u_i p_i(y)``, with p the probabilities of the soft maximum.

    For the log loss its cost includes the entropy of p. The entropy of a mixture is larger than that of its points, so
    that the cost of a mixture is still a lower bound.
    """
    eta = -soft.C * inner.loss_slope
    if isinstance(soft.loss, SoftHinge):
        return DualPoint(eta, soft.C * inner.cost)
    return DualPoint(eta, soft.C * (inner.loss - inner.relaxation_gap) + float(inner.w @ eta))


def in_float64(soft: Problem, inner: SmoothState) -> bool:
    """Whether the last pass was computed in float64, so that its dual point may enter a bound."""
    return soft.loss.exact if isinstance(soft.loss, SoftHinge) else not inner.single


def with_last(points: tuple[DualPoint, ...], soft: Problem, inner: SmoothState) -> tuple[DualPoint, ...]:
    """Replace the oldest dual point by that of the last pass, if it was computed in float64."""
    if not in_float64(soft, inner):
        return points
    most = int(np.clip(64e6 / (8 * max(soft.n_weights, 1)), 2, MAX_POINTS))
    return (*points[:2], *points[2:][1 - most :], dual_point(soft, inner))
