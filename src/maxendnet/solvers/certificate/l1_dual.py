"""A dual point of a problem with an L1 penalty, from weights that are near the minimum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.curvature.newton import conjugate_gradients, hessian_diagonal, hessian_times
from maxendnet.solvers.curvature.soft_curvature import few_enough, label_gram, node_curvature
from maxendnet.solvers.lbfgs import Curvature, features_of, inverse_of, memory_for

MOST_STEPS = 12
MOST_PRODUCTS = 25
"""In one Newton step."""
SMALLER = 0.5
"""Factor by which a Newton step reduces the largest residual: beyond that, the next one begins at better weights."""
SLACK = 0.4
"""Part of the gap asked for that is given away so that no ``|eta_k|`` has to meet its bound to all digits."""
LARGEST = 100.0
"""Times the largest weight at the start, above which weights run away: a dual value from them would be rounding."""


class L1Dual(NamedTuple):
    """The shares of labellings under some weights, as a dual point; ``share`` of it is inside all bounds."""

    loss: float
    eta: FloatArray
    value: float
    """Dual value of the point, where no bound is exceeded; ``share`` times it is below the minimum in any case."""
    share: float


def can_search(problem: Problem) -> bool:
    """Whether `l1_dual` can be asked for a point."""
    exact = not problem.structure.capabilities.relaxed and np.isfinite(problem.batch.largest)
    return offers(problem.prior, "l1") and problem.convex and problem.backend.local and bool(exact)


def l1_dual(problem: Problem, w: FloatArray, curvature: Curvature, wanted: float) -> L1Dual:
    """A dual point whose ``|eta_k|`` are at most rho, or nearly so, from weights w near the minimum.

    At the minimum ``eta_k = rho sign(w_k)`` for all weights that are not zero. Long before a solver comes to that in
    all entries, the value is minimal to many digits; what takes it so long is that weights come to zero and leave it.
    Here all weights that are not zero keep the sign that they have in w in their price: ``rho sign(w_k) w_k``. What is
    left is smooth, and some Newton steps minimise it. The weights found cost more than w, since some are on the other
    side of zero. But at their minimum all these ``|eta_k|`` are rho, whatever the signs of the weights, so that the
    shares of labellings are a dual point. Weights that are zero in w are let go when their ``|eta_k|`` exceeds rho.

    Parameters
    ----------
    problem : Problem
        With a smooth loss and an L1 penalty.
    w : ndarray of shape (n_weights,)
    curvature : Curvature
        What is known of the Hessian near w.
    wanted : float
        Gap that is asked for, absolute.

    Returns
    -------
    L1Dual
        The point found with the largest share.
    """
    rho = capable(problem.prior, "l1").rho
    slack = min(0.5, SLACK * wanted / max(rho * float(np.abs(w).sum()), np.finfo(float).tiny))
    w = shifted(problem, w)
    at = look(problem, w)
    best, known, sign, free = at.point, Known.at(problem, w, curvature), np.sign(w), w != 0
    largest = LARGEST * (float(np.abs(w).max(initial=0.0)) + 1.0 / max(problem.batch.largest, 1.0))
    idle = 0
    for _ in range(MOST_STEPS):
        over = ~free & (np.abs(at.point.eta) > rho)
        sign[over], free = np.sign(at.point.eta[over]), free | over
        target = (1.0 - slack) * rho * sign
        before = largest_residual(at, target, free)
        at, known = newton_step(problem, at, known, free, target, 0.5 * slack * rho)
        # Where the loss is almost flat, the signs of w may not be those of a minimum: then weights run away.
        if not np.abs(at.w).max(initial=0.0) <= largest:
            break
        best = max(best, at.point, key=lambda point: point.share)
        now = largest_residual(at, target, free)
        idle = idle + 1 if now > 0.8 * before else 0
        if best.share >= 1.0 or idle == 2 or now > 2 * before:
            break
    return best


def shifted(problem: Problem, w: FloatArray) -> FloatArray:
    """The same scores but for a constant, with the weights of every feature shifted so that at least one is zero.

    A feature whose weights for all labels are kept at their signs would meet its bounds only if there are as many
    positive weights as negative ones, since the ``eta_k`` of all its labels add up to zero.
    """
    layout = problem.structure.layout
    if not problem.structure.capabilities.linear_nodes or layout.seen is not None:
        return w.copy()
    segments = layout.segments(w)
    node = segments.node.copy()
    full = (node != 0).all(axis=1)
    node[full] -= np.sort(node[full], axis=1)[:, [layout.n_labels // 2]]
    return layout.join(segments._replace(node=node))


class Look(NamedTuple):
    """Weights, and what a pass over the examples tells of them."""

    w: FloatArray
    point: L1Dual


def largest_residual(at: Look, target: FloatArray, free: NDArray[np.bool_]) -> float:
    return float(np.abs(at.point.eta - target)[free].max(initial=0.0))


def look(problem: Problem, w: FloatArray) -> Look:
    loss, slope, _, _, relaxation_gap = problem.loss_and_gradient(w)
    eta = -problem.C * slope
    share = min(1.0, capable(problem.prior, "l1").rho / max(float(np.abs(eta).max(initial=0.0)), 1e-300))
    value = problem.C * (loss - relaxation_gap) + float(w @ eta)
    return Look(w, L1Dual(loss, eta, value, share))


class Known(NamedTuple):
    """What is known of the Hessian: its diagonal, a block for each label, and products with it."""

    diagonal: FloatArray
    blocks: FloatArray | None
    """Shape (n_labels, n_features, n_features)."""
    place: NDArray[np.int64]
    """Of the weight of each feature and label, shape (n_features, n_labels)."""
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
        """A function that multiplies with about the inverse of the Hessian of some weights."""
        position = np.full(len(self.diagonal), -1)
        position[free] = np.arange(len(free))
        inverses = []
        for places, block in zip(self.place.T, () if self.blocks is None else self.blocks):
            here = np.flatnonzero(position[places] >= 0)
            inverse = inverse_of(block[np.ix_(here, here)]) if len(here) else None
            if inverse is not None:
                inverses.append((position[places[here]], inverse))
        first = 1.0 / self.diagonal[free]
        pairs = Curvature(first)
        for s, y in self.products:
            pairs = pairs.add(s[free], y[free], len(self.products))

        def before_any(q: FloatArray) -> FloatArray:
            found = first * q
            for which, inverse in inverses:
                found[which] = inverse @ q[which]
            return found

        return lambda q: pairs.times(q, before_any=before_any)


def newton_step(
    problem: Problem, at: Look, known: Known, free: NDArray[np.bool_], target: FloatArray, enough: float
) -> tuple[Look, Known]:
    """Towards the minimum of ``C sum loss + target . w`` over the free weights."""
    which = np.flatnonzero(free)

    def widened(values: FloatArray) -> FloatArray:
        out = np.zeros(problem.n_weights)
        out[which] = values
        return out

    residual = (at.point.eta - target)[which]
    slope = problem.loss_and_gradient(at.w, single=True).gradient
    solved = conjugate_gradients(
        lambda p: hessian_times(problem, at.w, slope, widened(p), single=True)[which],
        known.inverse(which),
        residual,
        max(SMALLER * float(np.abs(residual).max(initial=0.0)), enough),
        MOST_PRODUCTS,
        keep=memory_for(None, problem.n_weights),
    )
    learnt = tuple((widened(p), widened(product)) for p, product in solved.products)
    known = known._replace(products=(*known.products, *learnt)[-memory_for(None, problem.n_weights) :])
    value, falls = problem.C * at.point.loss + float(target @ at.w), -float(residual @ solved.found)
    for halvings in range(5):
        new = look(problem, at.w + widened(0.5**halvings * solved.found))
        if problem.C * new.point.loss + float(target @ new.w) <= value + 1e-4 * 0.5**halvings * falls:
            return new, known
    return at, known
