"""Sequential minimal optimisation on clique marginals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from maxendnet import _kernels
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver, Support
from maxendnet.solvers.block_frank_wolfe import kernel_prior
from maxendnet.solvers.peel import peel
from maxendnet.structures.features import edge_sums, features_of, true_marginals
from maxendnet.structures.padding import pad_rows


@dataclass
class MarginalState:
    """A dual point by its clique marginals; the arrays are changed in place."""

    marginals: _kernels.CliqueMarginals
    problem: Problem
    """The problem whose examples these marginals belong to."""
    eta: FloatArray
    """Padded."""
    weights: FloatArray
    """mean(eta), as the recursions read it."""
    gaps: FloatArray
    """Last known gap of every example."""
    C: float
    rng: np.random.Generator
    cost: float = 0.0


@dataclass(eq=False, repr=False)
class SMO(Solver):
    """Sequential minimal optimisation of a hinge model's dual by clique marginals; stops at the relative duality gap.

    One update takes the two labellings of an example that violate the optimality conditions most: the most violating
    of all (decoded with its costs added), and the least deserving of those that have dual weight. Weight moves from the
    second to the first by the step that is best for the dual. What is kept of alpha are its marginals on nodes and
    edges, which are all that the dual sees. On a forest a labelling has weight to give if each of its nodes and edges
    has, and the second one is found by the same recursion as the first, over the pairs of labels that have weight.

    After Taskar et al. 2003 (section 6), who treat the Gaussian prior. Theirs takes weight from one labelling of the
    alpha of largest entropy; here any alpha with these marginals will do, which allows longer steps. After the first
    pass examples are drawn in proportion to their last known share of the gap.

    Parameters
    ----------
    rounds : int, default=5
        Steps at a visit, as long as the example has much of its gap left.
    check_every : int, default=10
        Passes between two looks at the whole gap.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> M3N(solver=SMO()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    rounds: int = 5
    check_every: int = 10
    requires = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.kernel_args",
        "structure.pairwise",
        "backend.local",
        "not tilted",
        "not cost_table.joint",
    )
    accuracy = 1e-6

    def check(self) -> None:
        if not (self.rounds >= 1 and self.check_every >= 1):
            got = f"rounds={self.rounds!r}, check_every={self.check_every!r}"
            raise ValueError(f"rounds and check_every must be at least 1, got {got}.")

    def start(
        self, problem: Problem, warm: MarginalState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> MarginalState:
        self.check()
        structure, batch = problem.structure, problem.batch
        state = MarginalState(
            _kernels.CliqueMarginals(batch, structure.shape, problem.C), problem, np.zeros(structure.blocks.size),
            np.zeros(0), np.full(problem.n_examples, np.inf), problem.C,
            seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed),
        )  # fmt: skip
        if warm is not None and problem.same_sum(warm.problem):
            # an earlier dual point of the same examples, scaled to the new C and into the new domain
            state.marginals, factor = warm.marginals.copy(), problem.C / warm.C
            eta = factor * structure.blocks.unpad(warm.eta)
            share = problem.dual(eta, factor * warm.cost)[1]
            state.marginals.scale(batch, structure.shape, problem.C, factor, share)
        refresh(problem, state)
        return state

    def support(self, problem: Problem, state: MarginalState) -> Callable[[], Support]:
        """Finds labellings that have the marginals of the last iterate."""
        batch, nodes = problem.batch, state.marginals.nodes().reshape(-1, problem.structure.layout.n_labels)
        return partial(peel, nodes, state.marginals.edges(), batch.offsets, batch.order, batch.parent, batch.y)

    def step(self, problem: Problem, state: MarginalState) -> MarginalState:
        structure, batch, n = problem.structure, problem.batch, problem.n_examples
        total = state.gaps.sum()
        if np.isfinite(total) and total > 0:
            picks = np.searchsorted(np.cumsum(state.gaps), state.rng.random(n) * total, side="right").clip(0, n - 1)
        else:
            picks = state.rng.permutation(n)
        # a call takes some 50 ms at most, so that Ctrl-C is heard
        n_calls = int(max(1, len(batch.parent) * structure.work_per_node * self.rounds / 2e7))
        for part in np.array_split(picks.astype(np.int64), min(n_calls, n)):
            _kernels.smo(
                batch, structure.shape, *kernel_prior(problem), problem.C, state.weights, state.eta,
                pad_rows(structure.layout, problem.cost), part, self.rounds, state.marginals, state.gaps,
            )  # fmt: skip
        problem.n_oracle += n
        return state

    def due(self, problem: Problem, state: MarginalState, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % self.check_every == 0

    def evaluate(self, problem: Problem, state: MarginalState) -> Evaluation:
        refresh(problem, state)
        state.gaps[:] = np.inf  # the next pass looks at every example: gaps that were small may have grown since
        eta = problem.structure.blocks.unpad(state.eta)
        mu = problem.dual_prior.mean(eta)
        primal, dual = problem.primal(mu), problem.dual(eta, state.cost)[0]
        gap = problem.relative(primal - dual, primal)
        return Evaluation(mu, eta, primal, dual, gap, gap, cost=state.cost)


def refresh(problem: Problem, state: MarginalState) -> None:
    """eta and the cost afresh from the marginals: rounding does not pile up, the certificate is for this dual point."""
    s, batch, blocks = problem.structure.layout, problem.batch, problem.structure.blocks
    node = state.marginals.nodes().reshape(-1, s.n_labels)
    true_node, true_matrices = true_marginals(s, batch, problem.C * batch.sample_weight)
    matrices = edge_sums(s, batch, *state.marginals.edges())
    eta = features_of(s, batch, true_node - node, true_matrices - matrices)
    state.eta[:] = blocks.pad(eta)
    state.cost = float(np.sum(node * problem.cost[batch.row]))
    state.weights = blocks.for_search(problem.dual_prior.mean(eta))
