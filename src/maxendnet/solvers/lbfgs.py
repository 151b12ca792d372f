"""Limited-memory BFGS for smooth problems, such as conditional random fields with a smooth prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import blas

from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.certificate.dual_mixture import l1_dual_value
from maxendnet.solvers.curvature.factor import Factor
from maxendnet.utils.state_fields import (
    ROUNDING_SINGLE,
    NonNegative,
    Values,
    require,
    require_equal,
    require_shape,
    rounding_of,
)

MAX_DENSE_FEATURES = 512
"""Largest number of features for which a dense matrix of feature products is computed."""
MAX_SAMPLED_NODES = 4096
"""Largest number of nodes from which that matrix is estimated."""
PATIENCE = 5
"""Steps without a smaller gradient norm after which the curvature is discarded; after as many more the fit ends. (Near
the optimum the gradient norm does not decrease in every step.)"""


class Curvature(NamedTuple):
    """Approximate inverse Hessian, built from the last changes of the weights (s) and of the gradient (y)."""

    first: Annotated[FloatArray, Values(low=0.0)]
    """Diagonal of the initial inverse Hessian, up to a factor."""
    s: tuple[FloatArray, ...] = ()
    y: tuple[FloatArray, ...] = ()
    curves: tuple[NonNegative, ...] = ()
    """``s . y`` of each change."""
    between: Annotated[FloatArray, Values("any")] | None = None
    """Inverse Hessian of the node weights, used instead of the diagonal: one matrix for all labels, of shape
    (n_features, n_features), or one per label, of shape (n_labels, n_features, n_features)."""
    n_labels: int = 0
    whole: Factor | None = None
    """Factorised Hessian, used instead of ``first`` and ``between``."""
    covered: Annotated[NDArray[np.intp], Values("any", below="weights")] | None = None
    """Positions of the weights that ``whole`` covers; the diagonal is used for the others."""

    @classmethod
    def of(cls, problem: Problem) -> Curvature:
        """Return the curvature before the first step: the diagonal of the Hessian at w = 0."""
        diagonal = problem.curvature()
        diagonal += 0.01 * diagonal.mean()  # limits the steps of rare features
        if offers(problem.prior, "spread"):
            diagonal += 1.0 / capable(problem.prior, "spread").variance(np.zeros(problem.n_weights))
        diagonal += getattr(problem.prior, "l2", 0.0)  # of an elastic net
        return cls(1.0 / np.maximum(diagonal, np.finfo(float).tiny))

    def with_features(self, problem: Problem) -> Curvature:
        """Set ``between`` from products of features if there are few features; saves a fifth of the passes on OCR.

        Not used under a flat prior, where it would favour weights of rare feature differences, which generalise worse.
        """
        if not (problem.structure.capabilities.linear_nodes and offers(problem.prior, "spread")):
            return self
        layout, batch = problem.structure.layout, problem.batch
        if layout.seen is not None or not 1 < layout.n_features <= MAX_DENSE_FEATURES:
            return self
        nodes = np.linspace(0, len(batch.parent), min(len(batch.parent), MAX_SAMPLED_NODES), endpoint=False).astype(int)
        X = features_of(problem)[nodes].toarray()
        u = np.repeat(batch.sample_weight, np.diff(batch.offsets))[nodes]
        together = X.T @ (X * u[:, None])
        node = layout.segments(problem.curvature()).node[:, 0]
        # use a fifth of the curvature at w = 0, because it decreases as probabilities approach 0 and 1
        hessian = 0.2 * together * (node.sum() / max(np.trace(together), np.finfo(float).tiny))
        hessian[np.diag_indices_from(hessian)] += 0.01 * node.mean()
        variance = layout.segments(capable(problem.prior, "spread").variance(np.zeros(problem.n_weights))).node
        hessian[np.diag_indices_from(hessian)] += (1.0 / variance).mean(axis=1)
        between = inverse_of(hessian)
        return self if between is None else self._replace(between=between, n_labels=layout.n_labels)

    def add(self, s: FloatArray, y: FloatArray, memory: int) -> Curvature:
        curve = float(s @ y)
        if not curve > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            return self  # the update would not be positive definite
        return self._replace(s=(*self.s, s)[-memory:], y=(*self.y, y)[-memory:], curves=(*self.curves, curve)[-memory:])

    def forget(self) -> Curvature:
        return self._replace(s=(), y=(), curves=())

    def times(self, g: FloatArray, free: NDArray[np.bool_] | None = None, before_any: Any = None) -> FloatArray:
        """Multiply the inverse Hessian with g, by the two-loop recursion (Nocedal & Wright, Algorithm 7.4).

        With ``free``, use the inverse of the Hessian block of these coordinates, and return 0 for the others.
        ``before_any`` is a function that multiplies with the initial inverse Hessian; None uses that of this object.
        """
        mask = None if free is None else free.astype(np.float64)
        q = g.copy() if mask is None else g * mask  # stays zero outside `free`, so that only curvatures need the mask
        used = []
        for s, y, whole in zip(reversed(self.s), reversed(self.y), reversed(self.curves)):
            curve = whole if mask is None else np.einsum("k,k,k", s, y, mask)
            if not curve > 0:
                continue
            factor = (s @ q) / curve
            blas.daxpy(y, q, a=-factor)  # in place, without a temporary
            if mask is not None:
                q *= mask
            used.append((s, y, curve, factor))
        first = before_any or (lambda v: self._before_any(v, mask))
        q = first(q)
        if used:
            _, y, curve, _ = used[0]
            q *= curve / (y @ first(y))
        for s, y, curve, factor in reversed(used):
            blas.daxpy(s, q, a=factor - (y @ q) / curve)
            if mask is not None:
                q *= mask
        return q

    def _before_any(self, q: FloatArray, mask: FloatArray | None) -> FloatArray:
        """Multiply the initial inverse Hessian with q."""
        if mask is not None:
            return q * (self.first * mask)
        product = q * self.first
        if self.whole is not None:
            product[self.covered] = self.whole.inverse_times(q[self.covered])
            return product
        if self.between is not None:
            n = self.between.shape[-1] * self.n_labels  # weights of node features come first
            of_labels = q[:n].reshape(-1, self.n_labels)
            if self.between.ndim == 2:
                product[:n] = (self.between @ of_labels).ravel()
            else:
                product[:n] = (self.between @ of_labels.T[:, :, None])[:, :, 0].T.ravel()
        return product

    def check(self, problem: Problem) -> None:
        """Check the numbers of changes, and the shapes of the Hessians."""
        require(len(self.s) == len(self.y) == len(self.curves), "s, y and curves have different lengths")
        if self.between is not None:
            n, n_labels = problem.structure.layout.n_features, problem.structure.layout.n_labels
            require_shape(self.between, (n, n) if self.between.ndim == 2 else (n_labels, n, n), "between")
            require(self.n_labels == n_labels, f"the curvature has {self.n_labels} labels, expected {n_labels}")
        require((self.whole is None) == (self.covered is None), "whole and covered must be given together")
        if self.whole is not None and self.covered is not None:
            require_shape(self.covered, self.whole.size.shape, "covered")


def inverse_of(hessian: FloatArray) -> FloatArray | None:
    """Return the inverse of a Hessian with a row for each feature, or None if its entries are tiny or not finite.

    The matrix is first scaled to a unit diagonal and regularised, so that features may differ in scale by any factor.
    """
    size = np.sqrt(np.diag(hessian))
    if not (np.isfinite(hessian).all() and size.min() > 1e-100):
        return None
    unit = hessian / np.outer(size, size) + 1e-6 * np.eye(len(size))
    values: FloatArray = np.linalg.inv(unit) / np.outer(size, size)
    return values


def features_of(problem: Problem) -> Any:
    """Return the features of all nodes as a sparse matrix."""
    batch = problem.batch
    shape = (len(batch.parent), problem.structure.layout.n_features)
    return sparse.csr_array((batch.data, batch.indices, batch.indptr), shape=shape)


def memory_for(memory: int | None, n_weights: int) -> int:
    """Return the number of changes to store: ``memory``, or if it is None as many as fit 32 MB, from 6 to 200."""
    return int(np.clip(32e6 / (16 * n_weights), 6, 200)) if memory is None else memory


def has_certificate(problem: Problem) -> bool:
    """Whether a duality gap can be computed: the prior has a cumulant, and the sum of losses is convex."""
    return offers(problem.prior, "exact") and problem.convex


class Search(NamedTuple):
    """Progress of the dual search of `OWLQN`."""

    n_steps: int = 0
    value: float = np.inf
    """Objective at the last evaluation."""
    gained: float = np.inf
    """Decrease of the objective before the last search; 0 if a further search is not worthwhile."""
    dual: float = -np.inf
    """Best dual value so far."""
    dual_weights: FloatArray | None = None
    """Weights whose labelling probabilities are its dual point."""

    def check(self, problem: Problem) -> None:
        """Recompute the dual value."""
        expected = -np.inf
        if self.dual_weights is not None:
            total = problem.loss_and_gradient(self.dual_weights)
            eta = -problem.C * total.gradient
            value = problem.C * (total.loss - total.relaxation_gap) + float(self.dual_weights @ eta)
            expected = l1_dual_value(problem.prior, eta, value)
        require_equal(self.dual, expected, "the dual value", 1e-3 * abs(problem.at_zero), rounding_of(problem))


class SmoothState(NamedTuple):
    """State of `LBFGS` and `OWLQN`."""

    w: FloatArray
    value: float
    loss: float
    loss_slope: FloatArray
    gradient: FloatArray
    curvature: Curvature
    single: bool = True
    """Whether passes use float32."""
    first_norm: NonNegative = 1.0
    tol: float = 1e-3
    finished: bool = False
    least_norm: float = np.inf
    """Smallest gradient norm since the gains of steps fell below rounding."""
    idle: int = 0
    """Steps since the gradient norm last decreased."""
    cost: float = 0.0
    """Expected cost of the labellings; 0 if the loss has no costs."""
    relaxation_gap: float = 0.0
    """See `Partial`."""
    search: Search = Search()

    def check(self, problem: Problem) -> None:
        """Recompute loss and gradient, from which the certificate follows."""
        total = problem.loss_and_gradient(self.w, single=self.single)
        rounding, loss = max(ROUNDING_SINGLE if self.single else 0.0, rounding_of(problem)), problem.C * total.loss
        scale = max(abs(loss), 1e-3 * abs(problem.at_zero), 1e-300)
        for name in ("loss", "cost", "relaxation_gap"):
            require_equal(problem.C * getattr(self, name), problem.C * getattr(total, name), name, scale, rounding)
        penalty = problem.prior.penalty(self.w)
        require_equal(self.value, penalty + loss, "value", max(scale, abs(penalty)), rounding)
        require_equal(self.loss_slope, total.gradient, "loss_slope", scale / problem.C, rounding)


@dataclass(eq=False, repr=False)
class LBFGS(Solver):
    """L-BFGS on the smooth primal; stops at the relative gap.

    With the dual point ``alpha = p(y | x; w)`` and ``eta = sum alpha df``, the gap is
    ``penalty(w) + phi(eta) - w . eta``. For a Gaussian prior this is half the squared gradient norm times the variance,
    and costs nothing. There is no certificate under a flat prior, or with unknown labels, because the likelihood is not
    convex then. In these cases ``tol`` bounds the gradient norm relative to that at the start.

    Passes over larger problems use float32 as long as they make progress; reported values are computed in float64.

    Parameters
    ----------
    memory : int or None, default=None
        Number of stored changes of the weights and the gradient. None stores as many as fit 32 MB, from 6 to 200. On
        ill-conditioned problems a long memory halves the number of passes.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> L2CRF(solver=LBFGS(memory=5)).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    memory: int | None = None
    requires: ClassVar[tuple[str, ...]] = ("loss.smooth", "prior.gradient")
    warm_anywhere = True

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> SmoothState:
        curvature = Curvature.of(problem).with_features(problem)
        if warm is not None:
            return self._at(problem, warm.w, curvature)._replace(first_norm=warm.first_norm)
        w = problem.first_weights(seed)
        if not np.isfinite(problem.prior.penalty(w)):  # the prior excludes zero
            w = problem.exact_prior.mean(w)
        state = self._at(problem, w, curvature)
        return state._replace(first_norm=float(np.linalg.norm(state.gradient)))

    def _at(self, problem: Problem, w: FloatArray, curvature: Curvature, single: bool = True) -> SmoothState:
        loss, slope, cost, _, relaxation_gap = problem.loss_and_gradient(w, single=single)
        value = problem.prior.penalty(w) + problem.C * loss
        gradient = self._penalty_gradient(problem, w) + problem.C * slope
        return SmoothState(w, value, loss, slope, gradient, curvature, single, cost=cost, relaxation_gap=relaxation_gap)

    def _penalty_gradient(self, problem: Problem, w: FloatArray) -> FloatArray:
        values: FloatArray = capable(problem.prior, "smooth").gradient(w)
        return values

    def _in_double(self, problem: Problem, state: SmoothState, w: FloatArray, curvature: Curvature) -> SmoothState:
        """Return the state at w, computed in float64."""
        exact = self._at(problem, w, curvature, single=False)
        return exact._replace(tol=state.tol, first_norm=state.first_norm)

    def _evaluated(self, problem: Problem, state: SmoothState) -> SmoothState:
        """Return the same state, computed in float64."""
        if not state.single:
            return state
        return self._in_double(problem, state, state.w, state.curvature)._replace(search=state.search)

    def step(self, problem: Problem, state: SmoothState) -> SmoothState:
        direction = -state.curvature.times(state.gradient)
        slope = float(direction @ state.gradient)
        if not slope < 0:
            state = state._replace(curvature=state.curvature.forget())
            direction, slope = -state.gradient, -float(state.gradient @ state.gradient)
        length = 1.0 if state.curvature.s else min(1.0, 1.0 / max(float(np.linalg.norm(direction)), 1e-300))
        new = self._line_search(problem, state, direction, slope, length)
        if new is None or state.value - new.value <= 1e-8 * abs(state.value) * state.single:
            if state.single:  # no further decrease in float32: continue in float64
                return self._in_double(problem, state, (new or state).w, state.curvature.forget())
            state = self._in_rounding(state, new)
            if new is None or state.finished or state.idle == PATIENCE:
                return state
        memory = memory_for(self.memory, problem.n_weights)
        curvature = state.curvature.add(new.w - state.w, new.gradient - state.gradient, memory)
        return new._replace(
            curvature=curvature, first_norm=state.first_norm, least_norm=state.least_norm, idle=state.idle
        )

    @staticmethod
    def _in_rounding(state: SmoothState, new: SmoothState | None) -> SmoothState:
        """Count a step whose gain is below rounding; return the state before the step with updated counters.

        After `PATIENCE` steps without a smaller gradient norm, the curvature is discarded, because it stems from
        distant points. After as many more, the fit ends.
        """
        norm = np.inf if new is None else float(np.linalg.norm(new.gradient))
        idle = 0 if norm < state.least_norm else state.idle + 1
        if new is None:  # the line search failed: do not repeat it
            idle = PATIENCE if state.idle < PATIENCE and state.curvature.s else 2 * PATIENCE
        curvature = state.curvature.forget() if idle == PATIENCE else state.curvature
        return state._replace(
            least_norm=min(norm, state.least_norm), idle=idle, curvature=curvature, finished=idle >= 2 * PATIENCE
        )

    def _line_search(
        self, problem: Problem, state: SmoothState, direction: FloatArray, slope: float, length: float
    ) -> SmoothState | None:
        """Search for a step that meets the strong Wolfe conditions, by bracketing and quadratic interpolation.

        After 20 trials, return the last step with sufficient decrease, or None if there was none.
        """
        low, low_value, low_slope, high, high_value = 0.0, state.value, slope, np.inf, np.inf
        best = None
        # near the optimum, decreases are below rounding and only the slope is reliable (Hager & Zhang 2005)
        rounding = 0.0 if state.single else 1e-14 * abs(state.value)
        for _ in range(20):
            new = self._at(problem, state.w + length * direction, state.curvature, state.single)
            new_slope = float(new.gradient @ direction)
            if not np.isfinite(new.value):
                high, length = length, 0.5 * (low + length)
                continue
            if new.value > state.value + 1e-4 * length * slope + rounding or new.value >= low_value + 2 * rounding:
                high, high_value = length, new.value
            else:
                best = new
                if abs(new_slope) <= 0.9 * abs(slope):
                    return new
                if new_slope > 0:
                    high, high_value = length, new.value
                else:
                    low, low_value, low_slope = length, new.value, new_slope
            if not np.isfinite(high):
                length *= 4.0
                continue
            width = high - low
            if width <= 1e-12 * max(1.0, high):  # its square may be 0
                break
            # minimiser of the parabola through the value and slope at `low` and the value at `high`, kept inside
            curve = (high_value - low_value - low_slope * width) / width**2
            inner = -low_slope / (2 * curve) if np.isfinite(curve) and curve > 0 else 0.5 * width
            length = low + float(np.clip(inner, 0.1 * width, 0.9 * width))
        return best

    def due(self, problem: Problem, state: SmoothState, n_pass: int, tol: float) -> bool:
        return n_pass % 25 == 0 or self._measure(problem, state)[1] <= tol

    def evaluate(self, problem: Problem, state: SmoothState) -> Evaluation:
        exact = self._evaluated(problem, state)
        gap, measure = self._measure(problem, exact)
        eta = self._eta(problem, exact)
        has_dual = has_certificate(problem)
        dual = exact.value - gap if has_dual else np.nan
        relative = problem.relative(gap, exact.value) if has_dual else np.nan
        return Evaluation(state.w, eta if has_dual else None, exact.value, dual, relative, measure)

    def _measure(self, problem: Problem, state: SmoothState) -> tuple[float, float]:
        """Return the duality gap, and the measure that is compared with ``tol``."""
        if not has_certificate(problem):
            if problem.structure.n_labels == 1:
                return np.nan, 0.0
            return np.nan, float(np.linalg.norm(state.gradient)) / max(state.first_norm, np.finfo(float).tiny)
        prior, eta = problem.exact_prior, self._eta(problem, state)
        if offers(prior, "fenchel_gap"):
            gap = capable(prior, "fenchel_gap").fenchel_gap(state.w, eta)
        else:  # a difference of large numbers, accurate to about 1e-16 of them
            gap = prior.penalty(state.w) + prior.cumulant(eta) - float(state.w @ eta)
        gap += problem.C * state.relaxation_gap
        return gap, problem.relative(gap, state.value)

    @staticmethod
    def _eta(problem: Problem, state: SmoothState) -> FloatArray:
        """Return the eta of the dual point; 0 if there is a single label, whose gradient is only rounding."""
        values: FloatArray = -problem.C * state.loss_slope * (problem.structure.n_labels > 1)
        return values
