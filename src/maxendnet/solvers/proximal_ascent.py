"""Proximal-point method for CRFs with many sparse features, on a working set of weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.certificate.dual_mixture import share_inside
from maxendnet.solvers.potential_ascent import PotentialAscent, PotentialState
from maxendnet.solvers.proximal_point import ProximalL1
from maxendnet.solvers.subproblems.working_set import WorkingSet, working_set
from maxendnet.utils.checks import require_count

KEEP_ABOVE = 0.8
"""A weight is in the working set if it is nonzero, or if ``|eta_k|`` is at least this share of the L1 factor."""
KEEP_ABOVE_AT_START = 2.0
"""The first working set contains the weights whose gradient at zero is at least this multiple of the L1 factor. On
CoNLL-2000 these are a third of the weights whose gradient exceeds the factor itself, and most of those needed."""


@dataclass
class ProximalAscentState:
    """The current proximal problem, and the best points so far. Weight vectors cover the working set only."""

    keep: NDArray[np.bool_]
    """(n_weights,): mask of the working set."""
    inner: PotentialState
    tau: float
    centre: FloatArray
    last_weights: FloatArray
    """The weights at the last move of the centre, before extrapolation by ``push``."""
    push: float
    n_pass: int = 0
    w: Any = None
    """The best weights so far, for the full problem."""
    eta: Any = None
    """The eta from which the best weights were computed."""
    primal: float = np.inf
    dual: float = -np.inf
    gap: float = np.inf
    last_primal: float = np.inf
    """Objective at the last evaluation."""

    @property
    def data(self) -> Any:
        return self.inner.data

    def restricted(self, problem: Problem) -> WorkingSet:
        """Return the problem restricted to the working set; cached, but not stored in checkpoints."""
        cached = vars(self).get("_restricted")
        if cached is None or cached[0] is not self.keep:
            cached = self._restricted = self.keep, working_set(problem, self.keep)
        return cached[1]


@dataclass(eq=False, repr=False)
class ProximalAscent(Solver):
    """Proximal-point method for CRFs with L1 and squared penalties.

    The proximal problems are solved by `PotentialAscent`.

    Each proximal problem adds ``|w - centre|^2 / (2 tau)`` to the objective, which makes it easier to solve. Every
    ``passes`` passes, the centre moves to the current weights, extrapolated by the factor ``push``. Soft thresholding
    sets small weights exactly to zero. Passes use a working set, which contains the nonzero weights and those that may
    soon become nonzero; every evaluation considers all weights and updates the working set. The potentials are a dual
    point, whose value certifies the result. Under a pure L1 penalty, this point is first mixed with the true labelling
    until every ``|eta_k| <= rho``.

    Designed for gaps of about 1e-3 on many sparse features (benchmarks/TEXT.md). For smaller gaps use `OWLQN`.

    Parameters
    ----------
    tau : float, default=0.5
        Initial value. With a larger tau, the proximal problem is closer to the original one and harder to solve. tau is
        increased when the proximal problem is solved more accurately than needed, and reduced in the opposite case.
    passes : int, default=2
        Passes between two moves of the centre.
    push : float, default=0.7
        Extrapolation factor of the centre. 0 is the plain proximal-point method. It is halved whenever the objective
        has increased between two evaluations.
    check_every : int, default=6
        Passes between two evaluations of the full gap.
    inner : PotentialAscent
        Solver of the proximal problems.

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> L1CRF(lam=0.1, solver=ProximalAscent()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    tau: float = 0.5
    passes: int = 2
    push: float = 0.7
    check_every: int = 6
    inner: PotentialAscent = field(default_factory=PotentialAscent)
    requires = (
        "loss.smooth", "convex", "prior.rho or prior.l1 or prior.ridge", "structure.pairwise",
        "not structure.edge_features", "backend.local",
    )  # fmt: skip
    accuracy = 1e-3

    def check(self) -> None:
        if not self.tau > 0:
            raise ValueError(f"tau must be a positive number, got {self.tau!r}.")
        if not 0 <= self.push < 1:
            raise ValueError(f"push must be at least 0 and less than 1, got {self.push!r}.")
        for name in ("passes", "check_every"):
            require_count(name, getattr(self, name))

    def start(
        self, problem: Problem, warm: ProximalAscentState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProximalAscentState:
        self.check()
        zero, l1 = np.zeros(problem.n_weights), penalty_factors(problem.prior)[0]
        same = warm is not None and problem.data.same_as(warm.data)
        centre = warm.w if warm is not None and same and warm.w is not None else zero
        easier = problem.replace(prior=with_proximal_term(problem.prior, self.tau, centre))
        inner = self.inner.start(easier, warm.inner if warm is not None and same else None, seed, tol)
        # the potentials are still at the truth, where eta is 0, so the gradient at zero weights selects the working set
        slope = -problem.C * problem.loss_and_gradient(zero).gradient
        keep = with_other_segments(problem, (np.abs(slope) >= KEEP_ABOVE_AT_START * l1) | (centre != 0))
        state = ProximalAscentState(keep, inner, self.tau, centre, centre, self.push)
        state.centre = state.last_weights = centre[state.restricted(problem).positions]
        self._set_eta(problem, state, self.inner.refresh(problem, inner))
        return state

    def _easier(self, problem: Problem, state: ProximalAscentState) -> Problem:
        """The proximal problem on the working set."""
        return state.restricted(problem).problem.replace(
            prior=with_proximal_term(problem.prior, state.tau, state.centre)
        )

    def _set_eta(self, problem: Problem, state: ProximalAscentState, eta: FloatArray) -> None:
        self.inner.set_eta(self._easier(problem, state), state.inner, eta[state.restricted(problem).positions])

    def step(self, problem: Problem, state: ProximalAscentState) -> ProximalAscentState:
        if state.n_pass and state.n_pass % self.passes == 0:
            self._move_centre(problem, state)
        easier = self._easier(problem, state)
        self.inner.step(easier, state.inner)
        problem.n_oracle += easier.n_oracle
        state.n_pass += 1
        return state

    def _move_centre(self, problem: Problem, state: ProximalAscentState) -> None:
        easier = self._easier(problem, state)
        eta = easier.structure.blocks.unpad(state.inner.eta.astype(np.float64))
        w = easier.dual_prior.mean(eta)
        state.centre = np.where(w != 0, w + state.push * (w - state.last_weights), 0.0)
        state.last_weights = w
        self.inner.set_eta(self._easier(problem, state), state.inner, eta)

    def due(self, problem: Problem, state: ProximalAscentState, n_pass: int, tol: float) -> bool:
        # evaluate early once, because an evaluation updates the working set
        return n_pass == 3 or (n_pass > 0 and n_pass % self.check_every == 0)

    def evaluate(self, problem: Problem, state: ProximalAscentState) -> Evaluation:
        eta = self.inner.refresh(problem, state.inner)
        restricted = state.restricted(problem)
        w = restricted.widened(
            self._easier(problem, state).dual_prior.mean(eta[restricted.positions]), problem.n_weights
        )
        primal = problem.primal(w)
        state.dual = max(state.dual, dual_value(problem, state.inner, eta))
        if primal > state.last_primal:
            state.push /= 2
        state.last_primal = primal
        if primal < state.primal:
            state.primal, state.w, state.eta = primal, w, eta
        gap = problem.relative(state.primal - state.dual, state.primal)
        if state.inner.weights.dtype == np.float32 and gap > 0.95 * state.gap and gap < 1e-3:
            state.inner.in_double()  # rounding limits the progress
        state.gap = gap
        # share of the gap that is due to the inexact solution of the proximal problem
        inner_share = float(state.inner.gaps.sum()) / max(primal - state.dual, 1e-300)
        state.tau *= 1.5 if inner_share < 0.05 else 1 / 1.5 if inner_share > 0.3 else 1.0
        self._update_working_set(
            problem, state, eta, (np.abs(eta) >= KEEP_ABOVE * penalty_factors(problem.prior)[0]) | (w != 0)
        )
        eta_of_best = state.eta if penalty_factors(problem.prior)[1] > 0 else None
        return Evaluation(state.w, eta_of_best, state.primal, state.dual, gap, gap)

    def _update_working_set(
        self, problem: Problem, state: ProximalAscentState, eta: FloatArray, keep: NDArray[np.bool_]
    ) -> None:
        """Set the working set to ``keep`` if that adds a weight or removes more than a fifth of them."""
        keep = with_other_segments(problem, keep)
        if np.any(keep & ~state.keep) or keep.sum() < 0.8 * state.keep.sum():
            restricted = state.restricted(problem)
            centre, last = (restricted.widened(part, problem.n_weights) for part in (state.centre, state.last_weights))
            state.keep = keep
            positions = state.restricted(problem).positions
            state.centre, state.last_weights = centre[positions], last[positions]
        self._set_eta(problem, state, eta)


def with_other_segments(problem: Problem, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add all weights that are not node weights to a working set, in place."""
    keep[problem.structure.layout.n_node_weights :] = True
    return keep


def penalty_factors(prior: Any) -> tuple[float, float]:
    """Return the factors of ``|w|_1`` and of ``|w|^2 / 2`` in the penalty."""
    if hasattr(prior, "ridge"):
        return 0.0, float(prior.ridge)
    return (prior.l1, prior.l2) if hasattr(prior, "l1") else (prior.rho, 0.0)


def with_proximal_term(prior: Any, tau: float, centre: FloatArray) -> ProximalL1:
    """Return the penalty plus ``|w - centre|^2 / (2 tau)``, up to a constant."""
    l1, l2 = penalty_factors(prior)
    joint_tau = tau / (1.0 + tau * l2)  # the two squares are joined into one
    return ProximalL1(l1, joint_tau, joint_tau / tau * centre)


def dual_value(problem: Problem, state: PotentialState, eta: FloatArray) -> float:
    """Return the dual value at the potentials, to which ``eta`` belongs.

    Under a pure L1 penalty all ``|eta_k|`` must be at most its factor, so the point is first mixed with the truth.
    """
    l1, l2 = penalty_factors(problem.prior)
    if l2 > 0:
        entropies, cumulant = state.entropies, problem.dual_prior.cumulant(eta)
    else:
        entropies, cumulant = mixed_with_truth(state.entropies, state.truths, share_inside(l1, eta)), 0.0
    return problem.C * float(entropies @ problem.batch.sample_weight) - cumulant


def mixed_with_truth(entropies: FloatArray, truths: FloatArray, share: float) -> FloatArray:
    """Return the entropy of ``share * q + (1 - share) * truth`` for every example.

    Parameters
    ----------
    entropies, truths : ndarray of shape (n_examples,)
        Entropy of the distribution q over labellings, and log-probability of the true labelling under q.
    share : float

    Examples
    --------
    >>> half = np.log([0.5])  # two labellings, equally likely
    >>> mixed_with_truth(-half, half, 1.0), mixed_with_truth(-half, half, 0.0)
    (array([0.69314718]), array([0.]))
    """
    truth = np.exp(truths)
    at_truth = 1.0 - share + share * truth
    others = share * (entropies + truth * truths) - (1.0 - truth) * xlogy(share, share)
    return others - xlogy(at_truth, at_truth)
