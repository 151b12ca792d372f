"""Proximal-point method for L1-M3N: a sequence of smooth dual problems whose solutions contain exact zeros."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq

from maxendnet.piece import Piece
from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe
from maxendnet.solvers.blocks import updates as block_updates
from maxendnet.solvers.blocks.updates import BlockState
from maxendnet.solvers.certificate.dual_mixture import l1_dual_value
from maxendnet.utils.state_fields import Positive

MIN_CHANCE = 0.02
"""Smallest sampling weight of an example, relative to the mean. An example whose gap was 0 at the previous centre must
be visited again, because its gap may be positive at the new one."""


@dataclass(eq=False, repr=False)
class ProximalL1(Piece):
    """Penalty ``rho |w|_1 + |w - centre|^2 / (2 tau)``, used in place of a prior; its mean is a soft threshold."""

    rho: float
    tau: float
    centre: FloatArray

    def mean(self, eta: FloatArray) -> FloatArray:
        z = self.centre + self.tau * eta
        return np.sign(z) * np.maximum(np.abs(z) - self.tau * self.rho, 0.0)

    def penalty(self, mu: FloatArray) -> float:
        return float(self.rho * np.abs(mu).sum() + np.sum((mu - self.centre) ** 2) / (2 * self.tau))

    def cumulant(self, eta: FloatArray) -> float:
        mu = self.mean(eta)
        return float(eta @ mu) - self.penalty(mu)

    def kernel_args(self) -> tuple[str, tuple[Any, ...]]:
        return "proximal_l1", (self.rho, self.tau, self.centre)


class ProximalState(NamedTuple):
    """The current proximal problem, and the best points so far."""

    rho: float
    tau: Positive
    centre: FloatArray
    dual_state: BlockState
    problem: Problem
    """The problem whose examples and costs define the dual point."""
    n_pass: int = 0
    w: FloatArray | None = None
    primal: float = np.inf
    dual: float = -np.inf
    here: float = np.inf
    """Objective at the last point, which need not be the best one."""


@dataclass(eq=False, repr=False)
class ProximalPoint(Solver):
    """Proximal-point method for L1-M3N, with an L1 penalty or within an L1 ball.

    The proximal problems are solved by block-coordinate Frank-Wolfe.

    Each proximal problem adds ``|mu - centre|^2 / (2 tau)`` to the objective. The result is an elastic net, whose dual
    is smooth. Every ``passes`` passes, the centre moves to the current mean. Soft thresholding sets small weights
    exactly to zero. The dual point, scaled until every ``|eta_k| <= rho``, certifies the result. Within a ball, rho is
    the threshold for which the mean lies in the ball.

    Designed for gaps down to about 1e-3 on problems of any size; below that, the scaled dual point improves slowly. For
    smaller gaps on small problems use `ConstraintGeneration`.

    Parameters
    ----------
    tau : float or None, default=None
        Initial value; None means 1. With a larger tau, the proximal problem is closer to the original one and harder to
        solve. tau is increased when the proximal problem is solved more accurately than needed, and reduced in the
        opposite case.
    passes : int, default=3
        Passes between two moves of the centre.
    inner : BlockFrankWolfe
        Solver of the proximal problems; only its options ``inner`` and ``sampling`` are used.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> model = L1M3N(solver=ProximalPoint()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    tau: float | None = None
    passes: int = 3
    inner: BlockFrankWolfe = field(default_factory=lambda: BlockFrankWolfe(average=False, inner=2))
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth", "loss.linear_slack", "prior.rho or prior.radius", "structure.blocks", "backend.local",
        "not has_linear_term", "not cost_table.joint",
    )  # fmt: skip
    accuracy: ClassVar[float] = 1e-3

    def start(
        self, problem: Problem, warm: ProximalState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProximalState:
        zero = np.zeros(problem.n_weights)
        radius = _radius(problem)
        tau = 1.0 if self.tau is None else self.tau
        rho = capable(problem.prior, "l1").rho if radius is None else 0.0
        centre = zero
        if warm is not None and warm.centre.shape == zero.shape:
            # tau is reset, because its last value would make the first proximal problems too hard
            centre = warm.centre if warm.w is None else warm.w
        self.inner.check()
        easier = problem.replace(prior=ProximalL1(rho, tau, centre))
        dual_state = block_updates.first_state(easier, problem.C, seed, tol)
        if warm is not None and problem.same_sum(warm.problem):
            dual_state.sets = warm.dual_state.sets.copy()
            block_updates.rescale(easier, dual_state, warm.dual_state.C)
        return self._fit_border(problem, ProximalState(rho, tau, centre, dual_state, problem))

    def _easier(self, problem: Problem, state: ProximalState) -> Problem:
        return problem.replace(prior=ProximalL1(state.rho, state.tau, state.centre))

    def _fit_border(self, problem: Problem, state: ProximalState) -> ProximalState:
        """Within a ball, set rho to the threshold for which the mean lies in the ball."""
        radius = _radius(problem)
        if radius is None:
            return state
        z = np.abs(state.centre + state.tau * problem.structure.blocks.unpad(state.dual_state.eta))

        def excess(threshold: float) -> float:
            return float(np.maximum(z - threshold, 0.0).sum() - radius)

        threshold = brentq(excess, 0.0, z.max()) if excess(0.0) > 0 else 0.0
        return state._replace(rho=threshold / state.tau)

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        if state.n_pass and state.n_pass % self.passes == 0:
            state = self._certify(problem, state)
            eta = problem.structure.blocks.unpad(state.dual_state.eta)
            centre = self._easier(problem, state).exact_prior.mean(eta)
            # share of the gap that is due to the inexact solution of the proximal problem
            inner_share = float(state.dual_state.gaps.sum()) / max(state.here - state.dual, 1e-300)
            tau = state.tau * (1.3 if inner_share < 0.3 else 1 / 1.3 if inner_share > 0.7 else 1.0)
            state = self._fit_border(problem, state._replace(centre=centre, tau=tau))
        easier = self._easier(problem, state)
        block_updates.set_weights(easier, state.dual_state)
        picks = block_updates.draw(easier, state.dual_state, self.inner.sampling, MIN_CHANCE)
        block_updates.update(easier, state.dual_state, picks, self.inner.inner)
        problem.n_oracle += len(picks)
        return self._fit_border(problem, state)._replace(n_pass=state.n_pass + 1)

    def _certify(self, problem: Problem, state: ProximalState) -> ProximalState:
        """Return the state with the objective and dual value at the current point, and updated best points."""
        easier, dual_state, radius = self._easier(problem, state), state.dual_state, _radius(problem)
        block_updates.refresh_eta(easier, dual_state)
        eta = problem.structure.blocks.unpad(dual_state.eta)
        mu = easier.exact_prior.mean(eta)
        if radius is not None:
            mu *= min(1.0, radius / max(np.abs(mu).sum(), 1e-300))
        hinge = block_updates.block_gaps(easier, dual_state, mu)
        problem.n_oracle += problem.n_examples
        primal = problem.prior.penalty(mu) + problem.C * float(hinge @ problem.structure.sample_weight)
        dual = l1_dual_value(problem.prior, eta, dual_state.sets.total_cost())
        if primal < state.primal:
            state = state._replace(primal=primal, w=mu)
        return state._replace(dual=max(dual, state.dual), here=primal)

    def due(self, problem: Problem, state: ProximalState, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % (3 * self.passes) == 0

    def evaluate(self, problem: Problem, state: ProximalState) -> Evaluation:
        state = self._certify(problem, state)
        assert state.w is not None  # the objective is finite
        return Evaluation.certified(problem, state.w, None, state.primal, state.dual)


def _radius(problem: Problem) -> float | None:
    return getattr(problem.prior, "radius", None)
