"""L1-M3N along the path of LapMEDN: a log barrier that fades."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from maxendnet.priors import NormalGamma
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe, DualState


class BarrierState(NamedTuple):
    """Height of the barrier, where it stands, and the dual point inside it."""

    a: float
    rho: float
    blocks: DualState
    tol: float
    found: Evaluation | None = None


@dataclass(eq=False, repr=False)
class Continuation(Solver):
    """LapMEDN with growing lam, which tends to L1-M3N, with the duality gap of L1-M3N as certificate.

    In the scale of L1-M3N, LapMEDN has the cumulant ``-a log(1 - eta^2 / rho^2)``: a log barrier for ``|eta_k| <= rho``
    whose height a = rho / sqrt(lam) goes to zero. Every dual point inside the barrier is feasible for L1-M3N and its
    posterior mean is a primal point; the gap between the two is the certificate. A primal point is also tried with the
    weights at zero whose eta is well inside, which makes zeros exact.

    For the ball form, ``|mu|_1 <= radius``, rho is a variable: after every pass it is set to its best value for the
    barrier problem, which keeps mu inside the ball.

    Parameters
    ----------
    shrink : float, default=0.5
        Factor on a whenever the barrier is what limits the gap.
    inner : BlockFrankWolfe, default=BlockFrankWolfe(average=False)

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> model = L1M3N(solver=Continuation()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    shrink: float = 0.5
    inner: BlockFrankWolfe = field(default_factory=lambda: BlockFrankWolfe(average=False))
    requires = ("not loss.smooth", "prior.rho or prior.radius")

    def start(
        self, problem: Problem, warm: BarrierState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> BarrierState:
        radius = _radius(problem)
        rho = problem.prior.rho if radius is None else problem.at_zero / radius
        # the barrier may cost as much as a tenth of the objective at first
        a = 0.1 * problem.at_zero / problem.n_weights
        blocks = self.inner.start(self._barrier(problem, a, rho), warm.blocks if warm else None, seed, tol)
        return BarrierState(a, rho, blocks, tol)

    @staticmethod
    def _barrier(problem: Problem, a: float, rho: float) -> Problem:
        return problem.with_prior(NormalGamma(a, rho**2))

    def step(self, problem: Problem, state: BarrierState) -> BarrierState:
        barrier = self._barrier(problem, state.a, state.rho)
        self.inner.set_weights(barrier, state.blocks)
        blocks = self.inner.step(barrier, state.blocks)
        problem.n_oracle += barrier.n_oracle
        rho = state.rho
        radius, eta, a = _radius(problem), problem.structure.unpad(blocks.eta), state.a
        if radius is not None:
            rho = best_border(eta, a, radius)
        # the gap of the barrier problem, as last known, against what the barrier itself costs
        toll = a * float(np.sum(2 * np.abs(eta) / (rho + np.abs(eta))))
        known = float(blocks.gaps.sum())
        if known < toll and toll > 0.2 * state.tol * max(blocks.sets.total_cost(), 1e-3 * problem.at_zero):
            a *= self.shrink
        return state._replace(a=a, rho=rho, blocks=blocks)

    def due(self, problem: Problem, state: BarrierState, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % self.inner.check_every == 0

    def evaluate(self, problem: Problem, state: BarrierState) -> Evaluation:
        barrier, blocks = self._barrier(problem, state.a, state.rho), state.blocks
        self.inner.refresh_eta(barrier, blocks)
        eta = problem.structure.unpad(blocks.eta)
        mu = barrier.prior.mean(eta)
        self.inner.block_gaps(barrier, blocks, mu)
        problem.n_oracle += barrier.n_oracle
        cost = blocks.sets.total_cost()
        radius = _radius(problem)
        dual = cost if radius is None else cost - radius * float(np.abs(eta).max())
        points = [self._inside(problem, mu)]
        # away from the border a weight is zero at the optimum; where to draw the line is found by trying
        for share in (0.5, 0.8, 0.9, 0.97, 0.99):
            points.append(self._inside(problem, np.where(np.abs(eta) < share * state.rho, 0.0, mu)))
        primal, _, w = min((problem.primal(w), k, w) for k, w in enumerate(points))
        gap = problem.relative(primal - dual, primal)
        return Evaluation(w, None, primal, dual, gap, gap, "last", cost)

    @staticmethod
    def _inside(problem: Problem, mu: FloatArray) -> FloatArray:
        radius = _radius(problem)
        return mu if radius is None else mu * min(1.0, radius / max(np.abs(mu).sum(), 1e-300))


def _radius(problem: Problem) -> float | None:
    return getattr(problem.prior, "radius", None)


def best_border(eta: FloatArray, a: float, radius: float) -> float:
    """The rho that minimises ``radius rho - a sum [log(rho - |eta|) + log(rho + |eta|)]``."""
    size = np.abs(eta)
    largest = float(size.max())

    def slope(rho: float) -> float:
        return radius - a * float(np.sum(1 / (rho - size) + 1 / (rho + size)))

    # at the upper end every term is at most 1 / (rho - largest), so that the slope is positive
    high = largest + 2 * a * len(size) / radius
    low = largest + a / radius
    return float(brentq(slope, low * (1 - 1e-12), high * (1 + 1e-12))) if slope(low) < 0 < slope(high) else high
