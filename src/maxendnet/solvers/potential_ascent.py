"""Dual coordinate ascent on potentials, for conditional random fields with many sparse features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import n_shards
from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.structures.bound.forest import LONGEST_IN_SINGLE, edge_range
from maxendnet.structures.bound.kernel_structure import single_is_enough
from maxendnet.structures.weights.padding import lanes, node_size, pad_rows
from maxendnet.utils.checks import require_count

FIRST_POTENTIAL = 25.0
"""Initial potential of the true labels: all probability is at the true labelling, to rounding in float32."""
FIRST_BONUS = 5.0
"""At the first visit of an example its potentials become the scores under the current weights, with this bonus for the
true labels; it is increased until the dual does not decrease (chosen on CoNLL-2000)."""
FIRST_STEP = 0.2
LEAST_IN_SINGLE = 1e-5
"""Smallest gap that float32 reaches."""
LEAST_CHANGE = {"float32": 1e-6, "float64": 1e-11}
"""Smallest change of the marginals of a node that updates the weights. Smaller changes accumulate until the next
update, and `PotentialAscent.evaluate` recomputes all marginals."""


@dataclass
class PotentialState:
    """State of `PotentialAscent`: a dual point as potentials; the arrays are changed in place."""

    node_potentials: NDArray
    """(n_nodes, lanes)"""
    matrix_potentials: NDArray
    """(n_examples, n_edge_types, n_labels, lanes)"""
    node_marginals: NDArray
    matrix_marginals: NDArray
    """Sums over the edges of an example."""
    eta: NDArray
    """Padded."""
    weights: NDArray
    """mean(eta), as the recursions read it."""
    scratch: NDArray
    steps: FloatArray
    """(n_examples,): the share of the way that was best at the last visit."""
    gaps: FloatArray
    """(n_examples,): about the gap of every block before its last update."""
    entropies: FloatArray
    """(n_examples,): with expected costs."""
    truths: FloatArray
    """(n_examples,): the logarithm of the weight of the true labelling."""
    rng: np.random.Generator
    data: PlacedData
    """The examples that these are potentials of."""
    primal: float = 0.0
    """At the last evaluation."""
    gap: float = np.inf
    """At the last evaluation, relative."""

    def in_double(self) -> None:
        """Continue in float64."""
        for name in ("node_potentials", "matrix_potentials", "node_marginals", "matrix_marginals", "eta", "weights",
                     "scratch"):  # fmt: skip
            setattr(self, name, getattr(self, name).astype(np.float64))


@dataclass(eq=False, repr=False)
class PotentialAscent(Solver):
    """Dual ascent on potentials for CRFs with sparse features, one example at a time.

    For the log loss with a squared penalty: L2-CRFs and elastic nets.

    The dual is ``max sum_i C (entropy(q_i) + E_q cost_i) - phi(eta)`` over a distribution q_i of labellings for every
    example, with ``eta = C sum_i (f(x_i, y_i) - E_q f)`` and the costs of a loss with a margin. The logarithm of q_i is
    kept: a row of potentials for every node and one matrix for the edges of an example. One update takes one example
    and goes a share of the way from its potentials to the scores under the weights at hand, with costs; the weights
    follow. Which share is best follows from the variance of what is missing and from how much the prior bends on the
    way; the last one is remembered for each example, and a step that was much too long is taken back. This is the
    online exponentiated gradient of Collins et al. 2008, with step sizes of its own.

    Every ``check_every`` passes, and when the sum of the last known gaps of the blocks is small enough, marginals,
    entropies and eta are computed afresh in float64, which certifies the point. Stops when that gap, relative, is at
    most ``tol``. Passes are in float32 where that serves.

    A pass touches only weights of features that an example has, and takes about as long as one of `LBFGS`; on text it
    needs far fewer (benchmarks/TEXT.md).

    Parameters
    ----------
    check_every : int, default=5
        Passes between two evaluations of the full gap.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(solver=PotentialAscent(), random_state=0).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    check_every: int = 5
    requires = (
        "loss.smooth", "convex", "prior.quadratic or prior.l2", "prior.kernel_args", "structure.pairwise",
        "not structure.edge_features", "backend.local",
    )  # fmt: skip

    def check(self) -> None:
        require_count("check_every", self.check_every)

    def start(
        self, problem: Problem, warm: PotentialState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> PotentialState:
        self.check()
        s, batch = problem.structure.layout, problem.batch
        node, matrix = (len(batch.parent), lanes(s)), (problem.n_examples, s.n_edge_types, s.n_labels, lanes(s))
        small = single_is_enough(problem.dual_prior.mean(np.zeros(problem.n_weights)), batch)
        single = tol >= LEAST_IN_SINGLE and small and problem.structure.longest <= LONGEST_IN_SINGLE
        dtype = np.float32 if single else np.float64
        state = PotentialState(
            node_potentials=np.zeros(node, dtype),
            matrix_potentials=np.zeros(matrix, dtype),
            node_marginals=np.zeros(node, dtype),
            matrix_marginals=np.zeros(matrix, dtype),
            eta=np.zeros(0, dtype),
            weights=np.zeros(0, dtype),
            scratch=np.zeros(0, dtype),
            steps=np.full(problem.n_examples, FIRST_STEP),
            gaps=np.full(problem.n_examples, np.inf),
            entropies=np.zeros(problem.n_examples),
            truths=np.zeros(problem.n_examples),
            rng=np.random.default_rng(seed),
            data=problem.data,
        )
        if warm is not None and problem.data.same_as(warm.data):
            state.node_potentials[:], state.matrix_potentials[:] = warm.node_potentials, warm.matrix_potentials
            state.steps[:], state.gaps[:] = warm.steps, 0.0  # no first visits
        else:
            state.node_potentials[np.arange(node[0]), batch.y] = FIRST_POTENTIAL
        self.set_eta(problem, state, self.refresh(problem, state))
        return state

    def refresh(self, problem: Problem, state: PotentialState) -> FloatArray:
        """Recompute marginals and entropies from the potentials, and return the eta of this dual point."""
        structure, cost = problem.structure, pad_rows(problem.structure.layout, problem.cost)
        part = lambda first, last, buffer: _kernels.potential_look(  # noqa: E731
            problem.batch, structure.shape, cost, first, last, most_spread(problem, np.float64), state.node_potentials,
            state.matrix_potentials, state.node_marginals, state.matrix_marginals, state.entropies, state.truths,
            buffer,
        )  # fmt: skip
        above = problem.backend.sum_ranges(part, structure.ranges(n_shards(structure)), structure.blocks.size)
        problem.n_oracle += problem.n_examples
        above *= -problem.C
        return structure.blocks.unpad(above)

    def set_eta(self, problem: Problem, state: PotentialState, eta: FloatArray) -> None:
        """Continue from this eta of the potentials, and from its weights."""
        blocks, dtype = problem.structure.blocks, state.node_potentials.dtype.type
        state.eta = blocks.pad(eta).astype(dtype)
        state.weights = blocks.for_search(problem.dual_prior.mean(eta), dtype)
        if len(state.scratch) != node_size(problem.structure.layout):
            state.scratch = np.zeros(node_size(problem.structure.layout), dtype)

    def step(self, problem: Problem, state: PotentialState) -> PotentialState:
        structure, batch = problem.structure, problem.batch
        dtype = state.weights.dtype.type
        if dtype is np.float32:
            w = problem.dual_prior.mean(structure.blocks.unpad(state.eta.astype(np.float64)))
            if edge_range(structure.layout, batch, w) > 0.7 * most_spread(problem, dtype):
                state.in_double()
                dtype = np.float64
        picks = state.rng.permutation(problem.n_examples).astype(np.int64)
        # at most about 50 ms a call, so that Ctrl-C is handled
        n_calls = int(max(1, len(batch.parent) * structure.work_per_node / 1e7))
        prior, least = problem.kernel_prior, LEAST_CHANGE[np.dtype(dtype).name]
        cost = pad_rows(structure.layout, problem.cost, dtype)
        for part in np.array_split(picks, min(n_calls, len(picks))):
            _kernels.potential_ascent(
                batch, structure.shape, *prior, problem.C, state.weights, state.eta, cost, part,
                most_spread(problem, dtype), least, FIRST_BONUS, state.scratch, state.steps, state.node_potentials,
                state.matrix_potentials, state.node_marginals, state.matrix_marginals, state.gaps,
            )  # fmt: skip
        problem.n_oracle += problem.n_examples
        return state

    def due(self, problem: Problem, state: PotentialState, n_pass: int, tol: float) -> bool:
        # the last known gaps were computed before each update and overestimate the gap
        enough = problem.relative(float(state.gaps.sum()), state.primal) <= tol if state.primal else False
        return n_pass > 0 and (n_pass % self.check_every == 0 or enough)

    def evaluate(self, problem: Problem, state: PotentialState) -> Evaluation:
        eta, prior = self.refresh(problem, state), problem.dual_prior
        self.set_eta(problem, state, eta)
        w = prior.mean(eta)
        state.primal = primal = problem.primal(w)
        dual = problem.C * float(state.entropies @ problem.batch.sample_weight) - prior.cumulant(eta)
        gap = problem.relative(primal - dual, primal)
        if state.weights.dtype == np.float32 and gap > 0.8 * state.gap:  # rounding limits the progress
            state.in_double()
        state.gap = gap
        return Evaluation(w, eta, primal, dual, gap, gap)


def most_spread(problem: Problem, dtype: type) -> float:
    """Return the largest range of edge scores for sum-product with scaled probabilities, as in `sum_mode`."""
    return (60 if dtype is np.float32 else 640) / (problem.batch.max_children + 1)
