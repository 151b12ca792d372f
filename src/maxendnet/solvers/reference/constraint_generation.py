"""L1-M3N as a linear programme, by rows and columns that are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver, missing, run
from maxendnet.solvers.proximal_point import ProximalPoint
from maxendnet.solvers.subproblems.violated import violated


class ProgrammeState(NamedTuple):
    """Rows and columns of the linear programme, and the best points so far."""

    examples: NDArray[np.int64]
    rows: sparse.csr_array
    costs: FloatArray
    columns: NDArray[np.bool_]
    w: FloatArray
    primal: float
    fingerprint: str
    dual: float = -np.inf
    idle: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    """For how many rounds a row has had no dual weight."""
    finished: bool = False


@dataclass(eq=False, repr=False)
class ConstraintGeneration(Solver):
    """The linear programme of L1-M3N (Appendix A of the paper), with HiGHS, by row and column generation.

    Minimises ``rho |mu|_1 + C sum_i u_i xi_i`` subject to ``mu . df_i(y) >= l_i(y) - xi_i`` for the labellings that
    matter (or ``C sum_i u_i xi_i`` inside the L1 ball). A round solves the programme over the rows and columns at hand,
    decodes every example for the most violated labelling, and adds rows for those and columns for the weights whose
    ``|eta_k|`` is beyond rho. The solution is a vertex: its zeros are exact.

    Primal: the hinge over all labellings at the best point. Dual: the multipliers of the rows, scaled until no weight
    is beyond rho. Both are bounds for the whole problem after every round. Stops at the relative gap.

    Parameters
    ----------
    first : ProximalPoint or None, default=ProximalPoint()
        Finds the first rows and columns, to a rough gap; None begins with none, and so do hierarchies.
    first_gap : float, default=0.01
        How rough.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> model = L1M3N(solver=ConstraintGeneration(), tol=1e-9)
    >>> model.fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    first: ProximalPoint | None = field(default_factory=ProximalPoint)
    first_gap: float = 0.01
    requires = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.rho or prior.radius",
        "not has_linear_term",
        "not structure.relaxed",
    )

    def start(
        self, problem: Problem, warm: ProgrammeState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProgrammeState:
        K = problem.n_weights
        if warm is not None and warm.fingerprint == problem.fingerprint:
            return warm._replace(dual=-np.inf, primal=problem.primal(warm.w), finished=False)
        zero = np.zeros(K)
        state = ProgrammeState(
            np.zeros(0, dtype=np.int64), sparse.csr_array((0, K)), np.zeros(0), np.zeros(K, dtype=bool), zero,
            problem.primal(zero), problem.fingerprint,
        )  # fmt: skip
        if self.first is not None and not missing(self.first, problem):
            # 300 passes: what is not known by then, rows and columns will find
            rough = run(self.first, problem, tol=max(tol, self.first_gap), max_passes=300, seed=seed, warn=False)
            examples, _, costs, labels = rough.state.dual_state.sets.labellings()
            eta = np.abs(problem.structure.blocks.unpad(rough.state.dual_state.eta))
            rows = problem.structure.differences(examples, labels)
            state = self._add_rows(state, examples, rows, costs)._replace(
                columns=(eta > 0.95 * rough.state.rho) | (rough.w != 0), w=rough.w, primal=rough.primal, dual=rough.dual
            )
        return self._add_violated(problem, state, state.w)

    def _add_rows(self, state: ProgrammeState, examples, rows, costs) -> ProgrammeState:
        return state._replace(
            examples=np.concatenate([state.examples, examples]),
            rows=sparse.csr_array(sparse.vstack([state.rows, rows])),
            costs=np.concatenate([state.costs, costs]),
            idle=np.concatenate([state.idle, np.zeros(len(examples), dtype=np.int64)]),
        )

    def _add_violated(self, problem: Problem, state: ProgrammeState, w: FloatArray) -> ProgrammeState:
        """Rows for the labellings most violated at w, where the rows at hand do not say so already."""
        found = violated(problem, w, state.examples, state.rows, state.costs)
        primal = problem.prior.penalty(w) + problem.C * float(found.hinge @ problem.structure.sample_weight)
        if primal < state.primal:
            state = state._replace(primal=primal, w=w)
        return self._add_rows(state, found.examples, found.rows, found.costs)

    def step(self, problem: Problem, state: ProgrammeState) -> ProgrammeState:
        w, alpha = self._solve(problem, state)
        eta = state.rows.T @ alpha
        rho: Any
        rho, radius = getattr(problem.prior, "rho", None), getattr(problem.prior, "radius", None)
        largest, cost = float(np.abs(eta).max(initial=0.0)), float(alpha @ state.costs)
        if radius is None:
            dual = cost * min(1.0, rho / largest if largest > 0 else 1.0)
            border = rho
        else:
            dual = max(cost - radius * largest, 0.0)
            border = float(np.abs(eta[state.columns]).max(initial=0.0))
        missing_columns = (np.abs(eta) > border * (1 + 1e-9)) & ~state.columns
        n_rows, before = len(state.costs), state.primal
        # rows that have been idle for long are dropped: the programme stays small
        idle = np.where(alpha > 0, 0, state.idle + 1)
        keep = idle < 20
        state = state._replace(
            dual=max(dual, state.dual), columns=state.columns | missing_columns, examples=state.examples[keep],
            rows=state.rows[keep], costs=state.costs[keep], idle=idle[keep],
        )  # fmt: skip
        n_rows = len(state.costs)
        state = self._add_violated(problem, state, w)
        # the vertex may be far off; half-way to the best point the cuts are deeper
        state = self._add_violated(problem, state, 0.5 * (w + state.w))
        nothing_new = len(state.costs) == n_rows and not missing_columns.any() and state.primal >= before
        return state._replace(finished=bool(nothing_new))

    def _solve(self, problem: Problem, state: ProgrammeState) -> tuple[FloatArray, FloatArray]:
        """The programme over the rows and columns at hand: weights and multipliers."""
        columns, present = np.flatnonzero(state.columns), np.unique(state.examples)
        n, m = len(columns), len(present)
        sub = state.rows[:, columns]
        slack = sparse.csr_array(
            (np.ones(len(state.examples)), (np.arange(len(state.examples)), np.searchsorted(present, state.examples))),
            shape=(len(state.examples), m),
        )
        A: Any
        A, b = -sparse.hstack([sub, -sub, slack]), -state.costs
        radius = getattr(problem.prior, "radius", None)
        price = capable(problem.prior, "l1").rho if radius is None else 0.0
        objective = np.concatenate([np.full(2 * n, price), problem.C * problem.structure.sample_weight[present]])
        if radius is not None:
            A = sparse.vstack([A, sparse.csr_array(np.concatenate([np.ones(2 * n), np.zeros(m)])[None, :])])
            b = np.append(b, radius)
        matrix: Any = sparse.csr_array(A)  # HiGHS takes sparse matrices, its type stubs do not
        found = linprog(objective, A_ub=matrix, b_ub=b, bounds=(0, None), method="highs")
        if found.x is None:
            raise RuntimeError(f"HiGHS gave up on the linear programme: {found.message}")
        w = np.zeros(problem.n_weights)
        w[columns] = found.x[:n] - found.x[n : 2 * n]
        return w, np.maximum(-found.ineqlin.marginals[: len(state.costs)], 0.0)

    def evaluate(self, problem: Problem, state: ProgrammeState) -> Evaluation:
        gap = problem.relative(state.primal - state.dual, state.primal)
        return Evaluation(state.w, None, state.primal, state.dual, gap, gap)
