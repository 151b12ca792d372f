"""Cutting planes for a Gaussian prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse

from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.subproblems.cuts import Cuts, violated
from maxendnet.solvers.subproblems.master_problem import solve_master
from maxendnet.utils.state_fields import Values, require, require_equal

MAX_IDLE = {"one": 20, "n": 3}
"""Consecutive passes without dual weight after which a cut is dropped, for each value of ``slacks``."""
MIN_DUAL_WEIGHT = {"one": 1e-9, "n": 1e-6}
"""Dual weight of a cut, relative to the limit of its group, up to which it counts as zero."""


class CuttingPlaneState(NamedTuple):
    """State of `CuttingPlane`: the cuts, and the best points so far."""

    cuts: Cuts
    gram: Annotated[FloatArray, Values("any")]
    """(n_cuts, n_cuts): inner products of the rows of the cuts."""
    w: FloatArray
    primal: Annotated[float, Values(also=(np.inf,))]
    eta: FloatArray
    gain: float
    dual: float
    C: float
    fingerprint: str
    slacks: str
    finished: bool = False

    def check(self, problem: Problem) -> None:
        """Recompute the inner products, and compare the cuts with the losses."""
        gram = capable(problem.prior, "gram").gram(self.cuts.rows, self.cuts.rows)
        require_equal(self.gram, gram, "gram")
        require_equal(self.C, problem.C, "C", rounding=0.0)
        one = self.slacks == "one" and not self.cuts.examples.any()
        require(one or self.slacks == "n", "the cuts belong to another number of slacks")
        self.cuts.check_below(self.w, problem, of_examples=self.slacks == "n")


@dataclass(eq=False, repr=False)
class CuttingPlane(Solver):
    """Cutting planes for a Gaussian prior, with one slack or one per example.

    The n-slack form is that of Tsochantaridis et al. (2004), the 1-slack form that of Joachims et al. (2009).

    A pass decodes every example for its most violated labelling, adds cuts, and solves the master problem, in which the
    loss is the maximum of the cuts: a quadratic programme in their multipliers, solved by Clarabel. With
    ``slacks="one"`` a cut lies below the sum of all losses (a bundle method), and a pass also adds a cut near the best
    point so far. With ``slacks="n"`` a cut lies below the hinge of one example. n-slack needs fewer passes, but its
    programme grows with the number of examples: use it for at most about a hundred.

    The multipliers are a dual point, whose value is a lower bound. Stops at the relative duality gap, and returns the
    point with the lowest objective (``which_`` is "best").

    Parameters
    ----------
    slacks : {"one", "n"}, default="one"
        Whether cuts bound the sum of all losses, or the loss of single examples.

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
    def requires(self) -> tuple[str, ...]:  # type: ignore[override]  # n-slack cuts must be labellings
        common = ("not loss.smooth", "prior.gram", "not has_linear_term")
        return common if self.slacks == "one" else (*common, "not structure.relaxed")

    def check(self) -> None:
        if self.slacks not in ("one", "n"):
            raise ValueError(f"slacks must be 'one' or 'n', got {self.slacks!r}.")

    def start(
        self, problem: Problem, warm: CuttingPlaneState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> CuttingPlaneState:
        self.check()
        zero = np.zeros(problem.n_weights)
        mean = problem.exact_prior.mean(zero)
        state = CuttingPlaneState(
            Cuts.none(problem.n_weights), np.zeros((0, 0)), mean, np.inf, zero, 0.0,
            -problem.exact_prior.cumulant(zero), problem.C, problem.fingerprint, self.slacks,
        )  # fmt: skip
        if warm is not None and warm.fingerprint == problem.fingerprint and warm.slacks == self.slacks:
            if self.slacks == "n" or problem.loss_scales(warm.C):  # cuts do not depend on the prior or on C
                cuts = warm.cuts._replace(idle=np.zeros_like(warm.cuts.idle))
                state = state._replace(cuts=cuts, gram=capable(problem.prior, "gram").gram(cuts.rows, cuts.rows))
            state = self._cut(problem, state, warm.w)
        # without any cut, the optimum is the prior's mean only if no labelling is violated there
        return state if len(state.cuts.gains) else self._cut(problem, state, mean)

    def _cut(self, problem: Problem, state: CuttingPlaneState, w: FloatArray) -> CuttingPlaneState:
        """Add the cuts at w, which takes one pass over the data."""
        if self.slacks == "n":
            hinge, groups, rows, gains = violated(problem, w, state.cuts)
            risk = float(problem.structure.sample_weight @ problem.hinge.slack_function.value(hinge, problem.C))
        else:
            at_w = problem.loss_and_gradient(w)
            risk, loss = problem.C * at_w.loss, at_w.loss - at_w.relaxation_gap
            known = float(np.max(state.cuts.gains - state.cuts.rows @ w, initial=0.0))
            n = int(loss > known + 1e-12 * loss)  # 0 if a known cut is tight at w
            groups, rows = np.zeros(n, dtype=np.int64), sparse.csr_array(-at_w.gradient[None, :])[:n]
            gains = np.full(n, loss - float(w @ at_w.gradient))
        primal = problem.prior.penalty(w) + risk
        if primal < state.primal:
            state = state._replace(primal=primal, w=w)
        if len(groups) == 0:
            return state
        products = capable(problem.prior, "gram").gram
        across = products(rows, state.cuts.rows)
        gram = np.block([[state.gram, across.T], [across, products(rows, rows)]])
        return state._replace(cuts=state.cuts.with_new(groups, rows, gains), gram=gram)

    def step(self, problem: Problem, state: CuttingPlaneState) -> CuttingPlaneState:
        cuts = state.cuts
        if len(cuts.gains) == 0:  # no labelling violates its margin at the prior's mean
            return state._replace(finished=True)
        alpha, price, size = self._solve(problem, state)
        eta, gain = cuts.rows.T @ alpha, float(cuts.gains @ alpha) - price
        dual, share = problem.dual(eta, gain)
        before = state.dual
        if dual > state.dual:
            state = state._replace(eta=share * eta, gain=share * gain, dual=dual)
        idle = np.where(alpha > MIN_DUAL_WEIGHT[self.slacks] * size, 0, cuts.idle + 1)
        keep = idle < MAX_IDLE[self.slacks]
        state = state._replace(cuts=cuts._replace(idle=idle).take(keep), gram=state.gram[np.ix_(keep, keep)])
        n_cuts = len(state.cuts.gains)
        w = problem.exact_prior.mean(eta)
        state = self._cut(problem, state, w)
        if self.slacks == "one" and state.w is not w:
            # w may be far from the optimum, and near the best point the cuts are deeper (Franc & Sonnenburg 2009)
            state = self._cut(problem, state, state.w + 0.1 * (w - state.w))
        return state._replace(finished=len(state.cuts.gains) == n_cuts and not dual > before)

    def _solve(self, problem: Problem, state: CuttingPlaneState) -> tuple[FloatArray, float, FloatArray | float]:
        """Return the multipliers of the cuts, the conjugate slack at them, and the limit of each multiplier."""
        examples = state.cuts.examples
        gains = state.cuts.gains - state.cuts.rows @ problem.exact_prior.mean(np.zeros(problem.n_weights))
        if self.slacks == "one":  # the slack is inside the cuts
            return solve_master(state.gram, gains, examples, np.ones(1), problem.C, "linear"), 0.0, problem.C
        present, groups = np.unique(examples, return_inverse=True)
        factor = problem.structure.sample_weight[present]
        alpha = solve_master(state.gram, gains, groups, factor, problem.C, problem.hinge.slack)
        if problem.hinge.linear_slack:
            return alpha, 0.0, problem.C * factor[groups]
        total = np.bincount(examples, alpha, problem.n_examples).astype(np.float64)
        return alpha, problem.slack_price(total), total[examples]

    def evaluate(self, problem: Problem, state: CuttingPlaneState) -> Evaluation:
        return Evaluation.certified(problem, state.w, state.eta, state.primal, state.dual, "best", state.gain)
