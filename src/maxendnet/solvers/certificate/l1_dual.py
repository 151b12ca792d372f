"""Search for a dual point of a problem with an L1 penalty, given weights near the minimum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.curvature.newton import conjugate_gradients, hessian_diagonal, hessian_times
from maxendnet.solvers.curvature.soft_curvature import few_enough, label_gram, node_curvature
from maxendnet.solvers.lbfgs import Curvature, features_of, inverse_of, memory_for

MAX_STEPS = 12
"""Largest number of Newton steps."""
MAX_PRODUCTS = 25
"""Largest number of products with the Hessian in one Newton step."""
RESIDUAL_FACTOR = 0.5
"""Factor by which conjugate gradients reduce the largest residual before the next Newton step."""
TARGET_MARGIN = 0.4
"""Share of the requested gap by which targets stay inside the bounds, so that they need not be met exactly."""
MAX_GROWTH = 100.0
"""Largest growth of the largest weight. Beyond it weights diverge, and a dual value would only be rounding."""


class L1Dual(NamedTuple):
    """Dual point of the labelling probabilities at some weights; scaled by ``share``, it meets all bounds."""

    w: FloatArray
    loss: float
    eta: FloatArray
    value: float
    """Dual value of the point if it meets all bounds; ``share * value`` is always a lower bound of the objective."""
    share: float


def can_search(problem: Problem) -> bool:
    """Whether `l1_dual` accepts the problem."""
    exact = not problem.structure.capabilities.relaxed and np.isfinite(problem.batch.largest)
    return offers(problem.prior, "l1") and problem.convex and problem.backend.local and bool(exact)


def l1_dual(problem: Problem, w: FloatArray, curvature: Curvature, gap_limit: float) -> L1Dual:
    """Return a dual point with all ``|eta_k|`` at most rho, or nearly so, from weights w near the minimum.

    At the minimum, ``eta_k = rho sign(w_k)`` for all nonzero weights. A solver gets close to the minimum long before
    this holds, because weights keep becoming zero and nonzero. Here the signs of nonzero weights are fixed, which makes
    the penalty linear, ``rho sign(w_k) w_k``. The resulting problem is smooth, and a few Newton steps minimise it. Its
    minimiser has a larger objective than w, because some weights change sign. However, all these ``|eta_k|`` are rho
    there, whatever the signs, so the labelling probabilities are a dual point. Weights that are zero in w become free
    when their ``|eta_k|`` exceeds rho.

    Parameters
    ----------
    problem : Problem
        Problem with a smooth loss and an L1 penalty.
    w : ndarray of shape (n_weights,)
    curvature : Curvature
        Approximate inverse Hessian near w.
    gap_limit : float
        Requested absolute gap.

    Returns
    -------
    L1Dual
        The point with the largest share among all iterates.
    """
    rho = capable(problem.prior, "l1").rho
    slack = min(0.5, TARGET_MARGIN * gap_limit / max(rho * float(np.abs(w).sum()), np.finfo(float).tiny))
    w = shifted(problem, w)
    at = iterate_at(problem, w)
    best, known, sign, free = at.point, Known.at(problem, w, curvature), np.sign(w), w != 0
    largest = MAX_GROWTH * (float(np.abs(w).max(initial=0.0)) + 1.0 / max(problem.batch.largest, 1.0))
    idle = 0
    for _ in range(MAX_STEPS):
        over = ~free & (np.abs(at.point.eta) > rho)
        sign[over], free = np.sign(at.point.eta[over]), free | over
        target = (1.0 - slack) * rho * sign
        before = largest_residual(at, target, free)
        at, known = newton_step(problem, at, known, free, target, 0.5 * slack * rho)
        # If the loss is almost flat, the signs of w may not be those of a minimum, and weights diverge.
        if not np.abs(at.w).max(initial=0.0) <= largest:
            break
        best = max(best, at.point, key=lambda point: point.share)
        now = largest_residual(at, target, free)
        idle = idle + 1 if now > 0.8 * before else 0
        if best.share >= 1.0 or idle == 2 or now > 2 * before:
            break
    return best


def shifted(problem: Problem, w: FloatArray) -> FloatArray:
    """Shift the weights of each feature whose weights are all nonzero so that one becomes zero.

    This changes the scores of all labels of a node by the same constant. It is needed because the ``eta_k`` of all
    labels of a feature add up to zero. If no weight is zero, all ``eta_k`` can only be at their bounds if as many
    weights are positive as negative.
    """
    layout = problem.structure.layout
    if not problem.structure.capabilities.linear_nodes or layout.seen is not None:
        return w.copy()
    segments = layout.segments(w)
    node = segments.node.copy()
    full = (node != 0).all(axis=1)
    node[full] -= np.sort(node[full], axis=1)[:, [layout.n_labels // 2]]
    values: FloatArray = layout.join(segments._replace(node=node))
    return values


class Iterate(NamedTuple):
    """Weights and their dual point."""

    w: FloatArray
    point: L1Dual


def largest_residual(at: Iterate, target: FloatArray, free: NDArray[np.bool_]) -> float:
    return float(np.abs(at.point.eta - target)[free].max(initial=0.0))


def iterate_at(problem: Problem, w: FloatArray) -> Iterate:
    loss, slope, _, _, relaxation_gap = problem.loss_and_gradient(w)
    eta = -problem.C * slope
    share = min(1.0, capable(problem.prior, "l1").rho / max(float(np.abs(eta).max(initial=0.0)), 1e-300))
    value = problem.C * (loss - relaxation_gap) + float(w @ eta)
    return Iterate(w, L1Dual(w, loss, eta, value, share))


class Known(NamedTuple):
    """Approximate Hessian: its diagonal, a block for each label, and products with some vectors."""

    diagonal: FloatArray
    blocks: FloatArray | None
    """Shape (n_labels, n_features, n_features)."""
    place: NDArray[np.int64]
    """Position of the weight of each feature and label, shape (n_features, n_labels)."""
    products: tuple[tuple[FloatArray, FloatArray], ...]

    @classmethod
    def at(cls, problem: Problem, w: FloatArray, curvature: Curvature) -> Known:
        products, place = tuple(zip(curvature.s, curvature.y)), np.zeros((0, 0), dtype=np.int64)
        exact = problem.structure.capabilities.pairwise
        diagonal, blocks = hessian_diagonal(problem, w) if exact else problem.curvature(), None
        if problem.structure.capabilities.linear_nodes and few_enough(problem):
            layout, X, weight = problem.structure.layout, features_of(problem), node_curvature(problem, w)
            place = layout.segments(np.arange(problem.n_weights)).node
            blocks = np.array([label_gram(X, weight[:, a]) for a in range(layout.n_labels)])
        floor = 1e-6 * float(diagonal.max(initial=0.0))
        return cls(np.maximum(diagonal, floor if floor > 1e-100 else 1.0), blocks, place, products)

    def inverse(self, free: NDArray[np.intp]) -> Any:
        """Return a function that multiplies with an approximate inverse of the Hessian of the free weights."""
        position = np.full(len(self.diagonal), -1)
        position[free] = np.arange(len(free))
        inverses = []
        for places, block in zip(self.place.T, () if self.blocks is None else self.blocks):
            free_features = np.flatnonzero(position[places] >= 0)
            inverse = inverse_of(block[np.ix_(free_features, free_features)]) if len(free_features) else None
            if inverse is not None:
                inverses.append((position[places[free_features]], inverse))
        first = 1.0 / self.diagonal[free]
        pairs = Curvature(first)
        for s, y in self.products:
            pairs = pairs.add(s[free], y[free], len(self.products))

        def before_any(q: FloatArray) -> FloatArray:
            product = first * q
            for positions, inverse in inverses:
                product[positions] = inverse @ q[positions]
            return product

        return lambda q: pairs.times(q, before_any=before_any)


def newton_step(
    problem: Problem, at: Iterate, known: Known, free: NDArray[np.bool_], target: FloatArray, enough: float
) -> tuple[Iterate, Known]:
    """Make a Newton step for ``C sum loss + target . w`` over the free weights."""
    positions = np.flatnonzero(free)

    def widened(values: FloatArray) -> FloatArray:
        out = np.zeros(problem.n_weights)
        out[positions] = values
        return out

    residual = (at.point.eta - target)[positions]
    slope = problem.loss_and_gradient(at.w, single=True).gradient
    solved = conjugate_gradients(
        lambda p: hessian_times(problem, at.w, slope, widened(p), single=True)[positions],
        known.inverse(positions),
        residual,
        max(RESIDUAL_FACTOR * float(np.abs(residual).max(initial=0.0)), enough),
        MAX_PRODUCTS,
        keep=memory_for(None, problem.n_weights),
    )
    learnt = tuple((widened(p), widened(product)) for p, product in solved.products)
    known = known._replace(products=(*known.products, *learnt)[-memory_for(None, problem.n_weights) :])
    value, falls = problem.C * at.point.loss + float(target @ at.w), -float(residual @ solved.solution)
    for halvings in range(5):
        new = iterate_at(problem, at.w + widened(0.5**halvings * solved.solution))
        if problem.C * new.point.loss + float(target @ new.w) <= value + 1e-4 * 0.5**halvings * falls:
            return new, known
    return at, known
