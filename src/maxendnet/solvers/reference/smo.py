"""Sequential minimal optimisation on pairs of labellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.ragged import gather
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Support
from maxendnet.solvers.reference.base import DualSolver
from maxendnet.solvers.subproblems.line_search import best_step
from maxendnet.structures.base import Table, sums, table_values
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import ROUNDING, Values, require, require_point, require_shape


class LabellingState(NamedTuple):
    """A dual point, represented by the labellings with dual weight other than the true ones."""

    examples: Annotated[NDArray[np.int64], Values("labellings", below="examples")]
    """Example of each labelling, ascending."""
    alpha: Annotated[FloatArray, Values("labellings", low=0.0)]
    """Dual weight of each labelling."""
    labels: Annotated[NDArray[np.int32], Values("any", below="labels")]
    """All labellings, concatenated."""
    eta: FloatArray
    cost: float
    """``sum alpha l``"""
    problem: Problem
    """The problem to which the labellings belong."""
    rng: np.random.Generator

    def check(self, problem: Problem) -> None:
        """Check the dual weights, and recompute the dual point."""
        require(np.all(np.diff(self.examples) >= 0), "the examples of the labellings are not in ascending order")
        require_shape(self.labels, (int(np.diff(problem.structure.offsets)[self.examples].sum()),), "labels")
        total = np.bincount(self.examples, self.alpha, minlength=problem.n_examples)
        allowed = problem.C * problem.structure.sample_weight * (1 + ROUNDING)
        require(np.all(total <= allowed), "the dual weights of an example exceed C times its sample weight")
        expected = with_sums(problem, self)
        require_point((self.eta, self.cost), (expected.eta, expected.cost), "the labellings")


@dataclass(eq=False, repr=False)
class SMO(DualSolver):
    """Sequential minimal optimisation of the dual of a hinge model.

    An update selects two labellings of one example: the most violated one, decoded with costs added, and the least
    violated one among those with dual weight. It moves dual weight from the second to the first, with the step size
    that maximises the dual. This is a reference implementation in NumPy; `BlockFrankWolfe` makes the same steps in a
    kernel.

    Based on Taskar et al. 2003 (section 6), who treat the Gaussian prior and choose pairs by marginals.

    Parameters
    ----------
    rounds : int, default=5
        Largest number of updates of an example at each visit.
    check_every : int, default=10
        Passes between two evaluations of the gap.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> M3N(solver=SMO()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    rounds: int = 5
    check_every: int = 10
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.cumulant",
        "backend.local",
        "not has_linear_term",
        "not structure.relaxed",
        "not cost_table.joint",
    )

    def check(self) -> None:
        super().check()
        require_count("rounds", self.rounds)

    def start(
        self, problem: Problem, warm: LabellingState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> LabellingState:
        self.check()
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        zero = np.zeros(problem.n_weights)
        state = LabellingState(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int32), zero, 0.0, problem, rng)
        if warm is None or not problem.same_sum(warm.problem):
            return state
        # start from the labellings of an earlier fit, with dual weights scaled to this C and into the domain
        alpha = problem.C / warm.problem.C * warm.alpha
        state = with_sums(problem, warm._replace(alpha=alpha, problem=problem, rng=rng))
        share = problem.dual(state.eta, state.cost)[1]
        return state._replace(alpha=share * state.alpha, eta=share * state.eta, cost=share * state.cost)

    def step(self, problem: Problem, state: LabellingState) -> LabellingState:
        structure, eta = problem.structure, state.eta.copy()
        rows = structure.differences(state.examples, state.labels)
        starts = np.searchsorted(state.examples, np.arange(problem.n_examples + 1))
        label_starts = np.concatenate([[0], np.cumsum(np.diff(structure.offsets)[state.examples])])
        blocks: dict[int, Block] = {}
        for i in state.rng.permutation(problem.n_examples).tolist():
            total = problem.C * float(structure.sample_weight[i])
            if not total > 0 or structure.offsets[i] == structure.offsets[i + 1]:
                continue
            first, last = starts[i], starts[i + 1]
            labels = state.labels[label_starts[first] : label_starts[last]]
            blocks[i] = self._visit(problem, i, total, rows[first:last], labels, state.alpha[first:last], eta)
        problem.n_oracle += problem.n_examples
        counts = [len(blocks[i].alpha) if i in blocks else 0 for i in range(problem.n_examples)]
        ordered = [blocks[i] for i in sorted(blocks)]
        return with_sums(
            problem,
            state._replace(
                examples=np.repeat(np.arange(problem.n_examples), counts),
                alpha=np.concatenate([np.zeros(0), *(block.alpha for block in ordered)]),
                labels=np.concatenate([np.zeros(0, np.int32), *(block.labels.ravel() for block in ordered)]),
            ),
        )

    def _visit(
        self, problem: Problem, i: int, total: float, rows: Any, labels: Any, alpha: FloatArray, eta: FloatArray
    ) -> Block:
        """Update one example, and return its labellings with dual weight; ``eta`` is changed in place."""
        prior, example = problem.dual_prior, problem.structure.take(i, i + 1)
        table = Table(problem.cost, example.row)
        # the true labelling, which has the remaining dual weight, followed by the active labellings
        labels = np.vstack([example.y, labels.reshape(-1, len(example.y))])
        df = np.vstack([np.zeros(len(eta)), rows.toarray()])
        alpha = np.concatenate([[max(total - alpha.sum(), 0.0)], alpha])
        best = example.maximum(prior.mean(eta), table)[1]
        if not (labels == best).all(axis=1).any():
            labels, alpha = np.vstack([labels, best]), np.append(alpha, 0.0)
            df = np.vstack([df, example.differences(np.zeros(1, np.int64), best).toarray()])
        cost = np.array([float(table_values(example, table, y)[0]) for y in labels])
        for _ in range(self.rounds):
            violation = cost - df @ prior.mean(eta)
            to, source = int(violation.argmax()), int(np.where(alpha > 0, violation, np.inf).argmin())
            if not violation[to] > violation[source]:
                break
            moved = alpha[source] * best_step(
                prior, eta, alpha[source] * (df[to] - df[source]), alpha[source] * (cost[to] - cost[source])
            )
            if not moved > 0:
                break
            eta += moved * (df[to] - df[source])
            alpha[to] += moved
            alpha[source] = max(alpha[source] - moved, 0.0)
        active = 1 + np.flatnonzero(alpha[1:] > 0)
        return Block(labels[active], alpha[active])

    def support(self, problem: Problem, state: LabellingState) -> Support:
        """Return the labellings with dual weight."""
        return Support(state.examples, state.alpha, state.labels)


class Block(NamedTuple):
    """The labellings of one example that have dual weight."""

    labels: NDArray[np.int32]
    """(n_labellings, n_nodes)"""
    alpha: FloatArray


def with_sums(problem: Problem, state: LabellingState) -> LabellingState:
    """Recompute eta and cost from the labellings, so that rounding errors do not accumulate."""
    structure, table = problem.structure, problem.cost_table
    eta = structure.differences(state.examples, state.labels).T @ state.alpha
    nodes, offsets = gather(structure.offsets, state.examples)
    costs = sums(table.rows[table.row[nodes], state.labels], offsets)
    return state._replace(eta=np.asarray(eta), cost=float(costs @ state.alpha))
