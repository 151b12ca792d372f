"""Proximal-point method for hinge models: a sequence of dual problems that are easier than that of the prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from maxendnet.piece import Piece
from maxendnet.priors import Gaussian
from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver, Support
from maxendnet.solvers.blocks import updates as block_updates
from maxendnet.solvers.blocks.updates import BlockState
from maxendnet.solvers.certificate.dual_mixture import l1_dual_value
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import NonNegative, Positive, require_equal, rounding_of

MIN_CHANCE = 0.2
"""Smallest sampling weight of an example, relative to the mean. An example whose gap was 0 at the previous centre must
be visited again, because its gap may be positive at the new one."""
MOVES_PER_EVALUATION = 3
"""Moves of the centre between two evaluations."""
INNER_SHARE = (0.3, 0.7)
"""Share of the gap that is due to the inexact solution of the proximal problem: below the first tau is increased, above
the second it is reduced, by the factor `TAU_STEP`."""
TAU_STEP = 1.3
REACHABLE_GAP_L1 = 1e-3
"""Smallest gap that is reached in a reasonable number of passes under an L1 penalty."""


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


def proximal_gaussian(prior: Any, tau: float, centre: FloatArray) -> Gaussian:
    """Return the Gaussian prior whose penalty is that of ``prior``, bounded at the centre, plus the proximal term.

    Examples
    --------
    >>> from maxendnet.priors import Laplace
    >>> centre = np.array([0.0, 2.0])
    >>> easier = proximal_gaussian(Laplace(lam=2.0), 1.0, centre)
    >>> slope = easier.gradient(centre)  # the same as that of the prior
    >>> slope.round(6).tolist(), Laplace(lam=2.0).gradient(centre).round(6).tolist()
    ([0.0, 1.0], [0.0, 1.0])
    """
    bound = capable(prior, "quadratic_bound").quadratic_bound(centre)
    variance = 1.0 / (1.0 / bound.prior_variance + 1.0 / tau)
    mean = variance * (bound.prior_mean / bound.prior_variance + centre / tau)
    return Gaussian(np.broadcast_to(variance, centre.shape).copy(), mean)


@dataclass
class ProximalState:
    """The current proximal problem, and the best points so far."""

    rho: NonNegative
    """Factor of the L1 norm; 0 without an L1 penalty."""
    tau: Positive
    next_tau: Positive
    """The tau after the next move of the centre."""
    centre: FloatArray
    dual_state: BlockState
    problem: Problem
    """The problem whose examples and costs define the dual point."""
    n_pass: int = 0
    w: FloatArray | None = None
    primal: float = np.inf
    eta: FloatArray | None = None
    """The best dual point so far."""
    cost: float = 0.0
    dual: float = -np.inf

    def check(self, problem: Problem) -> None:
        """Recompute the dual value."""
        expected = -np.inf if self.eta is None else dual_value(problem, self.eta, self.cost)[0]
        require_equal(self.dual, expected, "the dual value", 1e-3 * abs(problem.at_zero), rounding_of(problem))


@dataclass(eq=False, repr=False)
class ProximalPoint(Solver):
    """Proximal-point method for hinge models: a sequence of easier problems.

    The prior may be Gaussian, a scale mixture of Gaussians, or an L1 penalty. Each proximal problem adds to the
    objective the squared distance from a centre: ``|mu - centre|^2 / (2 tau)``. Every ``passes`` passes, the centre
    moves to the current mean. The smaller tau is, the fewer passes a proximal problem takes. Proximal problems are
    solved by block-coordinate Frank-Wolfe, as in `BlockFrankWolfe`.

    - An L1 penalty becomes an elastic net, whose dual is smooth. Soft thresholding sets small weights exactly to zero.
      The dual point, scaled until every ``|eta_k| <= rho``, certifies the result. Within a ball, rho is the threshold
      for which the mean lies in the ball.
    - The penalty of a scale mixture (`Laplace`, `NormalGamma`, `NormalInverseGaussian`) is replaced by the quadratic
      bound that touches it at the centre. As in the variational method of the paper, all proximal problems are
      therefore Gaussian, with a variance for each weight. The dual point certifies the result for the prior itself.

    Under an L1 penalty, gaps below 1e-3 take many passes; `ConstraintGeneration` is faster on small problems. With
    other priors, gaps of 1e-6 are reached. For smaller gaps `BlockFrankWolfe` is better: at the same gap its weights
    are more accurate.

    Parameters
    ----------
    tau : float or None, default=None
        Initial value; None means 1. tau is increased when the proximal problem is solved more accurately than needed,
        and reduced in the opposite case.
    passes : int, default=3
        Passes between two moves of the centre.
    inner_steps : int, default=2
        Number of additional steps within the active set of an example at each visit, without decoding.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> model = L1M3N(solver=ProximalPoint()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    tau: float | None = None
    passes: int = 3
    inner_steps: int = 2
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth", "loss.linear_slack", "prior.rho or prior.radius or prior.quadratic_bound",
        "structure.blocks", "backend.local", "not has_linear_term", "not cost_table.joint",
    )  # fmt: skip

    def reachable_gap(self, problem: Problem) -> float:
        return self.accuracy if offers(problem.prior, "exact") else REACHABLE_GAP_L1

    def start(
        self, problem: Problem, warm: ProximalState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProximalState:
        require_count("passes", self.passes)
        if not self.inner_steps >= 0:
            raise ValueError(f"inner_steps must not be negative, got {self.inner_steps!r}.")
        centre = np.zeros(problem.n_weights)
        if offers(problem.prior, "exact"):
            centre = problem.exact_prior.mean(centre)
        if warm is not None and warm.centre.shape == centre.shape:
            # tau is reset, because its last value would make the first proximal problems too hard
            centre = warm.centre if warm.w is None else warm.w
        rho = float(getattr(problem.prior, "rho", 0.0))
        tau = 1.0 if self.tau is None else self.tau
        easier = problem.replace(prior=_easier_prior(problem.prior, rho, tau, centre))
        dual_state = block_updates.first_state(easier, problem.C, seed, tol)
        if warm is not None and problem.same_sum(warm.problem):
            dual_state.sets = warm.dual_state.sets.copy()
            block_updates.rescale(easier, dual_state, warm.dual_state.C)
        state = ProximalState(rho, tau, tau, centre, dual_state, problem)
        self._fit_border(problem, state)
        return state

    def _easier(self, problem: Problem, state: ProximalState) -> Problem:
        return problem.replace(prior=_easier_prior(problem.prior, state.rho, state.tau, state.centre))

    def _fit_border(self, problem: Problem, state: ProximalState) -> None:
        """Within a ball, set rho to the threshold for which the mean lies in the ball."""
        radius = _radius(problem)
        if radius is None:
            return
        z = np.abs(state.centre + state.tau * problem.structure.blocks.unpad(state.dual_state.eta))

        def excess(threshold: float) -> float:
            return float(np.maximum(z - threshold, 0.0).sum() - radius)

        threshold = brentq(excess, 0.0, z.max()) if excess(0.0) > 0 else 0.0
        state.rho = threshold / state.tau

    def step(self, problem: Problem, state: ProximalState) -> ProximalState:
        easier, dual_state = self._easier(problem, state), state.dual_state
        if state.n_pass and state.n_pass % self.passes == 0:
            block_updates.refresh_eta(easier, dual_state)
            state.centre = easier.dual_prior.mean(problem.structure.blocks.unpad(dual_state.eta))
            state.tau = state.next_tau
            self._fit_border(problem, state)
            easier = self._easier(problem, state)
        block_updates.set_weights(easier, dual_state)
        picks = block_updates.draw(easier, dual_state, "gap", MIN_CHANCE)
        block_updates.update(easier, dual_state, picks, self.inner_steps)
        problem.n_oracle += len(picks)
        self._fit_border(problem, state)
        state.n_pass += 1
        return state

    def due(self, problem: Problem, state: ProximalState, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % (MOVES_PER_EVALUATION * self.passes) == 0

    def evaluate(self, problem: Problem, state: ProximalState) -> Evaluation:
        easier, dual_state, radius = self._easier(problem, state), state.dual_state, _radius(problem)
        block_updates.refresh_eta(easier, dual_state)
        eta = problem.structure.blocks.unpad(dual_state.eta)
        mu = easier.dual_prior.mean(eta)
        if radius is not None:
            mu *= min(1.0, radius / max(np.abs(mu).sum(), 1e-300))
        hinge = block_updates.block_gaps(easier, dual_state, mu)
        problem.n_oracle += problem.n_examples
        primal = problem.prior.penalty(mu) + problem.C * float(hinge @ problem.structure.sample_weight)
        if primal < state.primal:
            state.w, state.primal = mu, primal
        self._update_dual(problem, state, eta)
        inner_share = float(dual_state.gaps.sum()) / max(primal - state.dual, 1e-300)
        factor = TAU_STEP if inner_share < INNER_SHARE[0] else 1 / TAU_STEP if inner_share > INNER_SHARE[1] else 1.0
        state.next_tau = factor * state.tau
        assert state.w is not None  # the objective is finite
        # without a cumulant there is no posterior
        point = (state.eta, state.cost) if offers(problem.prior, "exact") else (None, np.nan)
        return Evaluation.certified(problem, state.w, point[0], state.primal, state.dual, cost=point[1])

    def _update_dual(self, problem: Problem, state: ProximalState, eta: FloatArray) -> None:
        """Store the current dual point, scaled to the largest dual value, if it is the best one so far."""
        cost = state.dual_state.sets.total_cost()
        dual, share = dual_value(problem, eta, cost)
        if dual > state.dual:
            state.eta, state.cost, state.dual = share * eta, share * cost, dual

    def carried(self, problem: Problem, state: ProximalState) -> ProximalState:
        """Return a state with the same dual weights but other target labels."""
        dual_state = state.dual_state.copy()
        dual_state.sets.set_truth(problem.batch.offsets, problem.batch.y)
        return replace(state, problem=problem, dual_state=dual_state)

    def support(self, problem: Problem, state: ProximalState) -> Support:
        """Return the labellings with positive dual weight in the last iterate."""
        examples, weights, _, labels = state.dual_state.sets.labellings()
        return Support(examples, weights, labels.astype(np.int32))


def _easier_prior(prior: Any, rho: float, tau: float, centre: FloatArray) -> ProximalL1 | Gaussian:
    """Return the prior of a proximal problem."""
    return proximal_gaussian(prior, tau, centre) if offers(prior, "quadratic_bound") else ProximalL1(rho, tau, centre)


def dual_value(problem: Problem, eta: FloatArray, cost: float) -> tuple[float, float]:
    """Return the best dual value on the segment from 0 to a dual point, and where it is attained (0 to 1)."""
    if offers(problem.prior, "exact"):
        return problem.dual(eta, cost)
    return l1_dual_value(problem.prior, eta, cost), 1.0


def _radius(problem: Problem) -> float | None:
    return getattr(problem.prior, "radius", None)
