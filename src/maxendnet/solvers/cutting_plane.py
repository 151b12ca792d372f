"""Cutting planes: the loss is replaced by the largest of the linear functions known to lie below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.subproblems.master_problem import solve_master
from maxendnet.solvers.subproblems.violated import violated

IDLE = {"one": 20, "n": 3}  # a cut that has had no weight for so many passes is dropped
SMALLEST = {"one": 1e-9, "n": 1e-6}  # a share of what a group may have that counts as none


class CuttingPlaneState(NamedTuple):
    """The cuts, and the best points so far."""

    groups: NDArray[np.int64]
    """Of every cut its example; 0 with one slack."""
    rows: Any
    """A cut is ``gain - row . w``: below the hinge of its example or, with one slack, below the sum of all losses."""
    gains: FloatArray
    idle: NDArray[np.int64]
    gram: FloatArray
    w: FloatArray
    primal: float
    eta: FloatArray
    gain: float
    dual: float
    C: float
    fingerprint: str
    slacks: str
    finished: bool = False


@dataclass(eq=False, repr=False)
class CuttingPlane(Solver):
    """Cutting planes for a Gaussian prior: n-slack (Tsochantaridis et al. 2004) or 1-slack (Joachims et al. 2009).

    A pass decodes every example for its most violated labelling, adds what it found to the cuts, and solves the problem
    in which the loss is the largest of the cuts: a quadratic programme in their multipliers, with Clarabel. With
    ``slacks="one"`` a cut lies below the sum of all losses (a bundle method); a pass makes one there, and another near
    the best point so far. With ``slacks="n"`` a cut lies below the hinge of one example. n-slack needs fewer passes,
    but its programme grows with the examples: take it for a hundred of them.

    The multipliers are a dual point, whose value is a lower bound. Stops at the relative duality gap; returns the point
    of the lowest objective (``which_`` is "best").

    Parameters
    ----------
    slacks : {"one", "n"}, default="one"

    Examples
    --------
    >>> from maxendnet import M3N
    >>> from maxendnet.solvers import CuttingPlane
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10, solver=CuttingPlane(), tol=1e-6).fit(X, y).converged_
    True
    >>> M3N(C=10, solver=CuttingPlane(slacks="n"), tol=1e-6).fit(X, y).n_passes_ < 10
    True
    """

    slacks: str = "one"

    @property
    def requires(self) -> tuple[str, ...]:  # type: ignore[override]  # cuts of one example are labellings
        common = ("not loss.smooth", "prior.gram", "not has_linear_term")
        return common if self.slacks == "one" else (*common, "not structure.relaxed")

    def check(self) -> None:
        if self.slacks not in ("one", "n"):
            raise ValueError(f"slacks must be 'one' or 'n', got {self.slacks!r}.")

    def start(
        self, problem: Problem, warm: CuttingPlaneState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> CuttingPlaneState:
        self.check()
        K, none = problem.n_weights, np.zeros(0, dtype=np.int64)
        zero = np.zeros(K)
        w = problem.exact_prior.mean(zero)
        state = CuttingPlaneState(
            none, sparse.csr_array((0, K)), np.zeros(0), none, np.zeros((0, 0)), w, np.inf, zero, 0.0,
            -problem.exact_prior.cumulant(zero), problem.C, problem.fingerprint, self.slacks,
        )  # fmt: skip
        if warm is not None and warm.fingerprint == problem.fingerprint and warm.slacks == self.slacks:
            w = warm.w
            if self.slacks == "n" or problem.loss_scales(warm.C):  # a cut knows nothing of the prior, nor of C
                state = state._replace(
                    groups=warm.groups, rows=warm.rows, gains=warm.gains, idle=np.zeros_like(warm.idle),
                    gram=capable(problem.prior, "gram").gram(warm.rows, warm.rows),
                )  # fmt: skip
        return self._cut(problem, state, w)

    def _cut(self, problem: Problem, state: CuttingPlaneState, w: FloatArray) -> CuttingPlaneState:
        """Add the cuts at w: one pass over the data."""
        if self.slacks == "n":
            found = violated(problem, w, state.groups, state.rows, state.gains)
            groups, rows, gains = found.examples, found.rows, found.costs
            risk = float(problem.structure.sample_weight @ problem.hinge.slack_function.value(found.hinge, problem.C))
        else:
            here = problem.loss_and_gradient(w)
            risk, loss = problem.C * here.loss, here.loss - here.relaxation_gap
            known = float(np.max(state.gains - state.rows @ w, initial=0.0))
            n = int(loss > known + 1e-12 * loss)  # nothing, if the cuts at hand say it already
            groups, rows = np.zeros(n, dtype=np.int64), sparse.csr_array(-here.gradient[None, :])[:n]
            gains = np.full(n, loss - float(w @ here.gradient))
        primal = problem.prior.penalty(w) + risk
        if primal < state.primal:
            state = state._replace(primal=primal, w=w)
        if len(groups) == 0:
            return state
        across = capable(problem.prior, "gram").gram(rows, state.rows)
        return state._replace(
            groups=np.concatenate([state.groups, groups]),
            rows=sparse.csr_array(sparse.vstack([state.rows, rows])),
            gains=np.concatenate([state.gains, gains]),
            idle=np.concatenate([state.idle, np.zeros(len(groups), dtype=np.int64)]),
            gram=np.block([[state.gram, across.T], [across, capable(problem.prior, "gram").gram(rows, rows)]]),
        )

    def step(self, problem: Problem, state: CuttingPlaneState) -> CuttingPlaneState:
        if len(state.gains) == 0:  # no labelling is violated at the prior's mean
            return state._replace(finished=True)
        alpha, price, size = self._solve(problem, state)
        eta, gain = state.rows.T @ alpha, float(state.gains @ alpha) - price
        dual, share = problem.dual(eta, gain)
        before = state.dual
        if dual > state.dual:
            state = state._replace(eta=share * eta, gain=share * gain, dual=dual)
        idle = np.where(alpha > SMALLEST[self.slacks] * size, 0, state.idle + 1)
        keep = idle < IDLE[self.slacks]
        state = state._replace(
            groups=state.groups[keep], rows=state.rows[keep], gains=state.gains[keep], idle=idle[keep],
            gram=state.gram[np.ix_(keep, keep)],
        )  # fmt: skip
        n_cuts = len(state.gains)
        w = problem.exact_prior.mean(eta)
        state = self._cut(problem, state, w)
        if self.slacks == "one" and state.w is not w:
            # w may be far off; near the best point the cuts are deeper (Franc & Sonnenburg 2009)
            state = self._cut(problem, state, state.w + 0.1 * (w - state.w))
        return state._replace(finished=len(state.gains) == n_cuts and not dual > before)

    def _solve(self, problem: Problem, state: CuttingPlaneState) -> tuple[FloatArray, float, FloatArray | float]:
        """Multipliers of the cuts, the price of their slack, and the size to which each is compared."""
        gains = state.gains - state.rows @ problem.exact_prior.mean(np.zeros(problem.n_weights))
        if self.slacks == "one":  # the slack is inside the cuts
            return solve_master(state.gram, gains, state.groups, np.ones(1), problem.C, "linear"), 0.0, problem.C
        present, groups = np.unique(state.groups, return_inverse=True)
        factor = problem.structure.sample_weight[present]
        alpha = solve_master(state.gram, gains, groups, factor, problem.C, problem.hinge.slack)
        if problem.hinge.linear_slack:
            return alpha, 0.0, problem.C * factor[groups]
        total = np.bincount(state.groups, alpha, problem.n_examples).astype(np.float64)
        return alpha, problem.slack_price(total), total[state.groups]

    def evaluate(self, problem: Problem, state: CuttingPlaneState) -> Evaluation:
        gap = problem.relative(state.primal - state.dual, state.primal)
        return Evaluation(state.w, state.eta, state.primal, state.dual, gap, gap, "best", state.gain)
