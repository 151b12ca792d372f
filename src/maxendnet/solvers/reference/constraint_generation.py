"""L1-M3N as a linear programme, solved by row and column generation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver, missing, run
from maxendnet.solvers.certificate.dual_mixture import l1_dual_value
from maxendnet.solvers.proximal_point import ProximalPoint
from maxendnet.solvers.subproblems.cuts import Cuts, violated

MAX_IDLE = 20
"""Consecutive rounds with multiplier 0 after which a row is dropped, so that the programme stays small."""


class ProgrammeState(NamedTuple):
    """Rows and columns of the linear programme, and the best points so far."""

    cuts: Cuts
    """The rows of the programme."""
    columns: NDArray[np.bool_]
    w: FloatArray
    primal: float
    fingerprint: str
    dual: float = -np.inf
    finished: bool = False

    def check(self, problem: Problem) -> None:
        """Compare the cuts with the losses."""
        self.cuts.check_below(self.w, problem, of_examples=True)


@dataclass(eq=False, repr=False)
class ConstraintGeneration(Solver):
    """Linear programme of L1-M3N (Appendix A), by row and column generation.

    The programmes are solved by HiGHS.

    Minimises ``rho |mu|_1 + C sum_i u_i xi_i`` (or ``C sum_i u_i xi_i`` inside the L1 ball) subject to
    ``mu . df_i(y) >= l_i(y) - xi_i``. A row is the constraint of a labelling, and a column is a weight. A round solves
    the programme with the current rows and columns, and decodes every example for its most violated labelling. It then
    adds rows for these labellings, and columns for the weights with ``|eta_k| > rho``. The solution is a vertex, so its
    zeros are exact.

    The primal value is the objective over all labellings at the best point. The dual value is that of the multipliers
    of the rows, scaled until every ``|eta_k| <= rho``. Both are valid for the full problem after every round. The fit
    stops at the relative gap.

    Parameters
    ----------
    first : ProximalPoint or None, default=ProximalPoint()
        Solver that finds the initial rows and columns by a rough fit. If it is None or does not accept the problem (for
        example a hierarchy), the programme starts without any.
    first_gap : float, default=0.01
        Relative gap of this rough fit.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> model = L1M3N(solver=ConstraintGeneration(), tol=1e-9)
    >>> model.fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    first: ProximalPoint | None = field(default_factory=ProximalPoint)
    first_gap: float = 0.01
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.rho or prior.radius",
        "not has_linear_term",
        "not structure.relaxed",
    )

    def start(
        self, problem: Problem, warm: ProgrammeState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProgrammeState:
        if warm is not None and warm.fingerprint == problem.fingerprint:
            return warm._replace(dual=-np.inf, primal=problem.primal(warm.w), finished=False)
        zero, no_columns = np.zeros(problem.n_weights), np.zeros(problem.n_weights, dtype=bool)
        no_rows = Cuts.none(problem.n_weights)
        state = ProgrammeState(no_rows, no_columns, zero, problem.primal(zero), problem.fingerprint)
        if self.first is not None and not missing(self.first, problem):
            # stop after 300 passes, because row and column generation finds what is still missing then
            rough = run(self.first, problem, tol=max(tol, self.first_gap), max_passes=300, seed=seed, warn=False)
            examples, _, costs, labels = rough.state.dual_state.sets.labellings()
            eta = np.abs(problem.structure.blocks.unpad(rough.state.dual_state.eta))
            rows = problem.structure.differences(examples, labels)
            columns = (eta > 0.95 * rough.state.rho) | (rough.w != 0)
            state = state._replace(
                cuts=no_rows.with_new(examples, rows, costs), columns=columns, w=rough.w, primal=rough.primal,
                dual=rough.dual,
            )  # fmt: skip
        return self._add_violated(problem, state, state.w)

    def _add_violated(self, problem: Problem, state: ProgrammeState, w: FloatArray) -> ProgrammeState:
        """Add rows for the labellings most violated at w, unless the current rows cover them."""
        hinge, *rows = violated(problem, w, state.cuts)
        primal = problem.prior.penalty(w) + problem.C * float(hinge @ problem.structure.sample_weight)
        if primal < state.primal:
            state = state._replace(primal=primal, w=w)
        return state._replace(cuts=state.cuts.with_new(*rows))

    def step(self, problem: Problem, state: ProgrammeState) -> ProgrammeState:
        w, alpha = self._solve(problem, state)
        cuts, before = state.cuts, state.primal
        eta = cuts.rows.T @ alpha
        dual = l1_dual_value(problem.prior, eta, float(alpha @ cuts.gains))
        in_ball = float(np.abs(eta[state.columns]).max(initial=0.0))
        bound = capable(problem.prior, "l1").rho if offers(problem.prior, "l1") else in_ball
        missing_columns = (np.abs(eta) > bound * (1 + 1e-9)) & ~state.columns
        idle = np.where(alpha > 0, 0, cuts.idle + 1)
        state = state._replace(
            dual=max(dual, state.dual), columns=state.columns | missing_columns,
            cuts=cuts._replace(idle=idle).take(idle < MAX_IDLE),
        )  # fmt: skip
        n_rows = len(state.cuts.gains)
        state = self._add_violated(problem, state, w)
        # the vertex may be far from the optimum, and half-way to the best point the cuts are deeper
        state = self._add_violated(problem, state, 0.5 * (w + state.w))
        nothing_new = len(state.cuts.gains) == n_rows and not missing_columns.any() and state.primal >= before
        return state._replace(finished=bool(nothing_new))

    def _solve(self, problem: Problem, state: ProgrammeState) -> tuple[FloatArray, FloatArray]:
        """Solve the programme over the current rows and columns; return weights and multipliers."""
        examples, n_rows = state.cuts.examples, len(state.cuts.examples)
        columns, present = np.flatnonzero(state.columns), np.unique(examples)
        n, m = len(columns), len(present)
        sub = state.cuts.rows[:, columns]
        slack_of_row = np.arange(n_rows), np.searchsorted(present, examples)
        slack = sparse.csr_array((np.ones(n_rows), slack_of_row), shape=(n_rows, m))
        A: Any
        A, b = -sparse.hstack([sub, -sub, slack]), -state.cuts.gains
        radius = getattr(problem.prior, "radius", None)
        price = capable(problem.prior, "l1").rho if radius is None else 0.0
        objective = np.concatenate([np.full(2 * n, price), problem.C * problem.structure.sample_weight[present]])
        if radius is not None:
            A = sparse.vstack([A, sparse.csr_array(np.concatenate([np.ones(2 * n), np.zeros(m)])[None, :])])
            b = np.append(b, radius)
        matrix: Any = sparse.csr_array(A)  # linprog accepts sparse matrices, but its type stubs do not
        solution = linprog(objective, A_ub=matrix, b_ub=b, bounds=(0, None), method="highs")
        if solution.x is None:
            raise RuntimeError(f"HiGHS failed on the linear programme: {solution.message}")
        w = np.zeros(problem.n_weights)
        w[columns] = solution.x[:n] - solution.x[n : 2 * n]
        return w, np.maximum(-solution.ineqlin.marginals[:n_rows], 0.0)

    def evaluate(self, problem: Problem, state: ProgrammeState) -> Evaluation:
        return Evaluation.certified(problem, state.w, None, state.primal, state.dual)
