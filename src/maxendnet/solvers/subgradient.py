"""Subgradient method that also maintains a dual point, with batch or online steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from maxendnet.priors.base import ExactPrior, capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.subproblems.l1_projection import project_l1_ball
from maxendnet.solvers.subproblems.line_search import best_step
from maxendnet.utils.checks import is_number, require_count
from maxendnet.utils.state_fields import (
    ROUNDING,
    Values,
    require,
    require_equal,
    require_point,
    require_shape,
    rounding_of,
)

STEP_IN_BALL = 0.3
"""Default step size in the L1 ball, relative to ``radius / sqrt(sum of all |C g|^2 so far)``."""


class Corner(NamedTuple):
    """Corner of the dual domain: all dual weight is at the most violating labelling of each example (or of one)."""

    eta: FloatArray
    """``sum alpha df``: minus C times the subgradient of the loss."""
    gain: float
    """``sum alpha l``, minus the conjugate of the slack function."""
    risk: float
    """C times the loss at the weights."""


class Iterate(NamedTuple):
    """A dual point and its weights. Averages of iterates are iterates."""

    eta: FloatArray
    gain: float
    mass: Annotated[FloatArray, Values("any", low=0.0)]
    """Share of the available dual weight that each example uses; a single entry for batch steps."""
    w: Annotated[FloatArray, Values(may_be_empty=True)]
    """Weights in the L1 ball; empty under a prior with a cumulant, where weights are derived from ``eta``."""

    def moved(self, corner: Corner, share: float, example: int, w: FloatArray) -> Iterate:
        """Add ``share`` of a corner to the iterate, scaled by ``1 - share / n``, where n is the length of ``mass``."""
        rest = 1.0 - share / len(self.mass)
        mass = rest * self.mass
        mass[example] += share
        return Iterate(rest * self.eta + share * corner.eta, rest * self.gain + share * corner.gain, mass, w)

    def towards(self, end: Iterate, share: float) -> Iterate:
        """Return ``(1 - share)`` times this iterate plus ``share`` times ``end``."""
        eta, mass, w = (a + share * (b - a) for a, b in zip((self.eta, self.mass, self.w), (end.eta, end.mass, end.w)))
        return Iterate(eta, self.gain + share * (end.gain - self.gain), mass, w)

    def like(self, reference: Iterate) -> bool:
        """Whether both iterates have the same geometry and number of parts."""
        return self.w.shape == reference.w.shape and self.mass.shape == reference.mass.shape

    def times(self, factor: float) -> Iterate:
        return self._replace(eta=factor * self.eta, gain=factor * self.gain, mass=factor * self.mass)

    @property
    def largest(self) -> Iterate:
        """This dual point scaled up until an example uses all of its dual weight."""
        mass = float(self.mass.max())
        return self.times(1.0 / mass) if mass > 0 else self


class CumulantGeometry:
    """Relation between weights and dual points under a prior with a cumulant.

    Weights are the mean of the prior tilted by ``eta``, and a step moves ``eta`` towards the corner.
    """

    prior: ExactPrior
    problem: Problem

    def __init__(self, problem: Problem) -> None:
        self.problem, self.prior = problem, problem.exact_prior

    def first(self, n_parts: int) -> Iterate:
        return Iterate(np.zeros(self.problem.n_weights), 0.0, np.zeros(n_parts), np.zeros(0))

    def weights(self, at: Iterate) -> FloatArray:
        return self.prior.mean(at.eta)

    def step_size(self, at: Iterate, corner: Corner, t: int, squares: float) -> float:
        """Return the default size of the t-th step; ``squares`` is the sum of all ``|C g|^2`` so far."""
        if len(at.mass) == 1:
            return best_step(self.prior, at.eta, corner.eta - at.eta, corner.gain - at.gain)
        return one_over_t(at, t)

    def step(self, at: Iterate, corner: Corner, example: int, size: float) -> Iterate:
        share = min(size, 1.0)
        while True:
            moved = at.moved(corner, share, example, at.w)
            if np.isfinite(self.prior.cumulant(moved.eta)):  # shorten steps that leave the domain of the cumulant
                return moved
            share *= 0.5

    def price(self, eta: FloatArray) -> float:
        """Return the conjugate of the penalty; the dual value is the gain minus this price."""
        return self.prior.cumulant(eta)

    def dual(self, at: Iterate) -> tuple[float, float]:
        """Return the best dual value on the segment from 0 to a dual point, and where it is attained (0 to 1)."""
        return self.problem.dual(at.eta, at.gain)

    def inside(self, at: Iterate) -> Iterate:
        """Move an iterate of another problem into the domain of this one."""
        return at.times(self.dual(at)[1])


class BallGeometry:
    """Relation between weights and dual points in an L1 ball.

    Steps of the weights are projected onto the ball, and the dual point is an average of corners.
    """

    n_weights: int
    radius: Any

    def __init__(self, problem: Problem) -> None:
        self.n_weights, self.radius = problem.n_weights, capable(problem.prior, "l1_ball").radius

    def first(self, n_parts: int) -> Iterate:
        return Iterate(np.zeros(self.n_weights), 0.0, np.zeros(n_parts), np.zeros(self.n_weights))

    def weights(self, at: Iterate) -> FloatArray:
        return at.w

    def step_size(self, at: Iterate, corner: Corner, t: int, squares: float) -> float:
        return STEP_IN_BALL * self.radius / np.sqrt(squares) if squares > 0 else 0.0

    def step(self, at: Iterate, corner: Corner, example: int, size: float) -> Iterate:
        return at.moved(corner, 1.0, example, project_l1_ball(at.w + size * corner.eta, self.radius))

    def price(self, eta: FloatArray) -> float:
        return float(self.radius * float(np.abs(eta).max(initial=0.0)))

    def dual(self, at: Iterate) -> tuple[float, float]:
        value = at.gain - self.price(at.eta)
        return (value, 1.0) if value > 0 else (0.0, 0.0)

    def inside(self, at: Iterate) -> Iterate:
        return at._replace(w=project_l1_ball(at.w, self.radius))


Geometry = CumulantGeometry | BallGeometry


class Candidate(NamedTuple):
    """Weights that could be returned, with their objective; ``which`` is "last", "best" or "average"."""

    primal: float
    w: FloatArray
    which: str


class SubgradientState(NamedTuple):
    """The current iterate, and the average of all iterates with higher weights for later ones."""

    at: Iterate
    average: Iterate
    rng: np.random.Generator
    C: float
    fingerprint: str
    n_steps: int = 0
    squares: float = 0.0
    """Sum of the squared subgradients, times C^2."""
    corner: Corner | None = None
    """Corner of all examples at the iterate; None for online steps."""
    candidate: Candidate | None = None
    """The best iterate so far (the last one if ``average=False``); None for online steps."""

    def check(self, problem: Problem) -> None:
        """Check the dual weights of the iterates, and recompute the corner."""
        n_weights = problem.n_weights if hasattr(problem.prior, "radius") else 0
        for at in (self.at, self.average):
            require_shape(at.mass, self.at.mass.shape, "mass")
            require(at.mass.shape in ((1,), (max(problem.n_examples, 1),)), "mass belongs to other examples")
            require((at.mass <= 1 + ROUNDING).all(), "mass is above 1")
            require_shape(at.w, (n_weights,), "w of an iterate")
        require_equal(self.C, problem.C, "C", rounding=0.0)
        moved = self.at.mass.any() or self.average.mass.any()
        require(self.n_steps > 0 or not moved, "the iterate has moved, but n_steps is 0")
        if self.corner is not None:
            corner, rounding = corner_at(problem, geometry_of(problem).weights(self.at)), rounding_of(problem)
            require_point(self.corner[:2], corner[:2], "the corner", rounding)
            require_equal(self.corner.risk, corner.risk, "risk of the corner", 1e-3 * problem.at_zero, rounding)


@dataclass(eq=False, repr=False)
class Subgradient(Solver):
    """Subgradient method (Ratliff et al. 2007).

    For any prior with a cumulant, and for the L1 ball.

    Let g be a subgradient of the sum of losses. Under a prior with a cumulant, the method is mirror descent: a step of
    size s changes ``eta``, the gradient of the penalty at ``mu``, to ``(1 - s) eta - s C g``. Under a Gaussian prior
    with variance 1 this is ``mu - s (mu + C g)``. Under `L1Ball`, a step projects ``w - s C g`` onto the ball. A pass
    is a single step on all examples or, with ``online=True``, one step per example in random order. Then g belongs to
    one of n examples, and ``(1 - s / n) eta`` replaces ``(1 - s) eta``.

    ``-C g`` is the ``sum alpha df`` of a corner of the dual domain. Each iterate is therefore a mixture of corners,
    which is a dual point. The method also maintains its ``sum alpha l``, which certifies every iterate. In the ball,
    the dual point is the average of all corners.

    The fit stops at the relative duality gap. It returns the iterate with the lowest objective (the last iterate if
    ``online=True``) or the average of the iterates, with higher weights for later ones, whichever is better. ``which_``
    is "last", "best" or "average". The gap decreases as 1/n_pass, or at worst as 1/sqrt(n_pass) in the ball, so use
    another solver for small gaps.

    Parameters
    ----------
    beta : float or None, default=None
        If set, the t-th step has size ``1 / (2 beta sqrt(t))``, at most 1 under a prior with a cumulant. The paper uses
        these sizes with ``C = 200 beta``. None uses ``step_size``.
    step_size : {"1/t"} or None, default=None
        With "1/t" (priors with a cumulant only), the dual point is the plain average of all corners so far; online, the
        size is ``n / (n + t - 1)``. None uses the step size that maximises the dual, except that online steps use "1/t"
        and steps in the ball use ``0.3 * radius / sqrt(sum of all |C g|^2 so far)``. Steps that leave the domain of the
        cumulant are shortened.
    average : bool, default=True
        Whether to also evaluate the average of the iterates, which takes a pass over the data. If False, the last
        iterate is returned.
    online : bool, default=False
        Whether to make one step per example, as in the paper, instead of a single step on all examples.
    check_every : int, default=10
        Passes between two evaluations of the gap.

    Examples
    --------
    >>> from maxendnet import L1M3N, M3N
    >>> from maxendnet.solvers import Subgradient
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10, solver=Subgradient(), tol=0.01).fit(X, y).converged_
    True
    >>> L1M3N(radius=1.0, solver=Subgradient(online=True), tol=0.05, random_state=0).fit(X, y).converged_
    True
    """

    beta: float | None = None
    step_size: str | None = None
    average: bool = True
    online: bool = False
    check_every: int = 10
    accuracy: ClassVar[float] = 1e-2

    @property
    def requires(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the options
        prior = "prior.cumulant" if self.step_size == "1/t" else "prior.cumulant or prior.radius"
        common = ("not loss.smooth", prior)
        return (*common, "backend.local", "not has_linear_term") if self.online else common

    def check(self) -> None:
        if self.beta is not None and not (is_number(self.beta) and 0 < self.beta < np.inf):
            raise ValueError(f"beta must be a positive finite number, or None for other step sizes, got {self.beta!r}.")
        if self.step_size not in (None, "1/t"):
            raise ValueError(f"step_size must be None or '1/t', got {self.step_size!r}.")
        require_count("check_every", self.check_every)

    def start(
        self, problem: Problem, warm: SubgradientState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> SubgradientState:
        self.check()
        geometry, rng = geometry_of(problem), np.random.default_rng(seed)
        first = geometry.first(max(problem.n_examples, 1) if self.online else 1)
        state = SubgradientState(first, first, rng, problem.C, problem.fingerprint)
        if (
            warm is not None
            and warm.fingerprint == problem.fingerprint
            and problem.loss_scales(warm.C)
            and warm.at.like(first)
        ):
            factor = problem.C / warm.C
            scaled = (old._replace(eta=factor * old.eta, gain=factor * old.gain) for old in (warm.at, warm.average))
            at, average = map(geometry.inside, scaled)
            state = state._replace(at=at, average=average, n_steps=warm.n_steps, squares=factor**2 * warm.squares)
        return state if self.online else self._evaluated(problem, geometry, state)

    def _evaluated(self, problem: Problem, geometry: Geometry, state: SubgradientState) -> SubgradientState:
        """Compute the corner and the objective at the iterate, which takes one pass over the data."""
        w = geometry.weights(state.at)
        corner = corner_at(problem, w)
        candidate = Candidate(problem.prior.penalty(w) + corner.risk, w, "last")
        if self.average and state.candidate is not None and state.candidate.primal <= candidate.primal:
            candidate = state.candidate._replace(which="best")
        return state._replace(corner=corner, candidate=candidate)

    def step(self, problem: Problem, state: SubgradientState) -> SubgradientState:
        geometry = geometry_of(problem)
        if state.corner is not None:
            return self._evaluated(problem, geometry, self._moved(geometry, state, state.corner, 0))
        for example in state.rng.permutation(problem.n_examples).tolist():
            corner = corner_at(problem, geometry.weights(state.at), example)
            state = self._moved(geometry, state, corner, example)
        return state

    def _moved(self, geometry: Geometry, state: SubgradientState, corner: Corner, example: int) -> SubgradientState:
        at, t = state.at, state.n_steps + 1
        squares = state.squares + float(corner.eta @ corner.eta)
        if self.beta is not None:
            size = 1.0 / (2.0 * self.beta * np.sqrt(t))
        else:
            size = one_over_t(at, t) if self.step_size else geometry.step_size(at, corner, t, squares)
        at = geometry.step(at, corner, example, size)
        average = state.average.towards(at, 2.0 / (t + 1))  # the k-th iterate has weight k
        return state._replace(at=at, average=average, n_steps=t, squares=squares)

    def due(self, problem: Problem, state: SubgradientState, n_pass: int, tol: float) -> bool:
        if n_pass % self.check_every == 0 or state.candidate is None:
            return n_pass % self.check_every == 0
        # a bound of the gap is available without a pass over the data
        price, primal = geometry_of(problem).price, state.candidate.primal
        dual = max(iterate.gain - price(iterate.eta) for iterate in (state.at, state.average))
        return primal - dual <= tol * problem.gap_scale(primal)

    def evaluate(self, problem: Problem, state: SubgradientState) -> Evaluation:
        geometry = geometry_of(problem)
        w = geometry.weights(state.at)
        candidates = [state.candidate or Candidate(problem.primal(w), w, "last")]
        if self.average and state.n_steps:
            w = geometry.weights(state.average)
            candidates.append(Candidate(problem.primal(w), w, "average"))
        # online steps on a squared slack can diverge until numbers overflow; zero weights are better than those
        candidates = [candidate for candidate in candidates if np.isfinite(candidate.primal)]
        primal, w, which = min(
            candidates or [Candidate(problem.at_zero, np.zeros(problem.n_weights), "best")],
            key=lambda candidate: candidate.primal,
        )
        points = [iterate.largest for iterate in (state.at, state.average)]
        points = [point for point in points if np.isfinite(geometry.dual(point)[0])] or [geometry.first(1)]
        (dual, share), point = max(((geometry.dual(point), point) for point in points), key=lambda entry: entry[0])
        eta = share * point.eta if offers(problem.prior, "exact") else None
        return Evaluation.certified(problem, w, eta, primal, dual, which, share * point.gain)


def geometry_of(problem: Problem) -> Geometry:
    return BallGeometry(problem) if offers(problem.prior, "l1_ball") else CumulantGeometry(problem)


def corner_at(problem: Problem, w: FloatArray, example: int | None = None) -> Corner:
    """Return the corner at w, for all examples or for a single one."""
    if example is None:
        total = problem.loss_and_gradient(w)
    else:
        structure = problem.structure.take(example, example + 1)
        total = problem.loss.evaluate(structure, w, problem.C, problem.cost)
        total = total._replace(gradient=structure.unpad(total.gradient))
        problem.n_oracle += 1
    eta, risk = -problem.C * total.gradient, problem.C * total.loss
    # the loss is l(y*) - w . df(y*) at its most violating labelling y*, so the gain of the corner follows from it
    return Corner(eta, risk + float(w @ eta) - problem.C * total.relaxation_gap, risk)


def one_over_t(at: Iterate, t: int) -> float:
    """Return the step size for which the dual point is the plain average of all corners; 1/t for batch steps."""
    n_parts = len(at.mass)
    return n_parts / (n_parts + t - 1)
