"""Dual coordinate ascent on potentials, for conditional random fields with many sparse features."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import n_shards
from maxendnet.priors import Gaussian
from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.structures.bound.forest import LONGEST_IN_SINGLE
from maxendnet.structures.bound.kernel_structure import single_is_enough
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.padding import lanes, pad_rows, transition_range
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import ROUNDING_SINGLE, Values, require, require_equal, require_shape

FIRST_POTENTIAL = 25.0
"""Initial potential of the true labels. In float32 this gives the true labelling a probability of 1."""
FIRST_BONUS = 5.0
"""Bonus of the true labels at the first visit of an example, when its potentials are set to the scores under the
current weights plus this bonus. It is increased until the dual does not decrease (chosen on CoNLL-2000)."""
FIRST_STEP = 0.2
"""Initial step size of every example."""
MIN_GAP_IN_SINGLE = 1e-5
"""Smallest requested gap for which passes begin in float32."""
MIN_CHANGE = {"float32": 1e-6, "float64": 1e-11}
"""Smallest change of a node's marginals that updates the weights. Smaller changes accumulate until they are large
enough, and `PotentialAscent.evaluate` recomputes all marginals."""


IN_SAME_PRECISION = ("node_potentials", "matrix_potentials", "node_marginals", "matrix_marginals", "eta", "weights")


@dataclass
class PotentialState:
    """State of `PotentialAscent`: a dual point, represented by potentials. Its arrays are changed in place."""

    node_potentials: Annotated[NDArray[Any], Values("nodes lanes")]
    """(n_nodes, lanes), where ``lanes`` is the padded number of labels."""
    matrix_potentials: Annotated[NDArray[Any], Values("examples edge_types labels lanes")]
    """(n_examples, n_edge_types, n_labels, lanes)"""
    node_marginals: Annotated[NDArray[Any], Values("nodes lanes", low=0.0)]
    matrix_marginals: Annotated[NDArray[Any], Values("examples edge_types labels lanes", low=0.0)]
    """Edge marginals, summed over the edges of each example."""
    eta: Annotated[NDArray[Any], Values("any")]
    """In the padded layout of the kernels. Not updated by passes if all weights have the same prior variance."""
    weights: Annotated[NDArray[Any], Values("any", also=(-np.inf,))]
    """Prior mean given ``eta``, in the layout and precision of the recursions."""
    steps: Annotated[FloatArray, Values("examples", low=0.0)]
    """(n_examples,): the best step size at the last visit of each example."""
    gaps: Annotated[FloatArray, Values("examples", low=0.0, also=(np.inf,))]
    """(n_examples,): approximate block gap of each example before its last update."""
    entropies: Annotated[FloatArray, Values("examples")]
    """(n_examples,): entropy plus expected cost."""
    truths: Annotated[FloatArray, Values("examples", also=(-np.inf, np.inf))]
    """(n_examples,): log-probability of the true labelling."""
    rng: np.random.Generator
    data: PlacedData
    """The examples to which the potentials belong."""
    row_variance: Annotated[FloatArray, Values("any", low=0.0)] | None = None
    """(n_features + 1,): factor of the prior means of the weights of each feature, and of all other weights; None is 1.
    `ProximalAscent` sets it."""
    primal: float = 0.0
    """Objective at the last evaluation."""
    gap: float = np.inf
    """Relative gap at the last evaluation."""

    def in_double(self) -> None:
        """Continue in float64."""
        for name in IN_SAME_PRECISION:
            setattr(self, name, getattr(self, name).astype(np.float64))

    def check(self, problem: Problem) -> None:
        """Check the arrays that the kernels index, which have no bounds checks, and recompute eta and weights."""
        self.check_shapes(problem, problem)
        require(self.row_variance is None, "row_variance is that of another solver")
        ascent, expected = PotentialAscent(), replace(self)
        ascent.set_eta(problem, expected, self.recomputed_eta(problem))
        self.check_same(expected, ("weights",) if isinstance(problem.prior, Gaussian) else ("weights", "eta"))

    def check_shapes(self, problem: Problem, inside: Problem) -> None:
        """Check the shapes of eta and weights, which belong to ``inside``, and the precision of all arrays."""
        dtype = self.node_potentials.dtype
        weights = inside.structure.blocks.for_search(np.zeros(inside.n_weights), dtype.type)
        require_shape(self.eta, (inside.structure.blocks.size,), "eta of the potentials")
        require_shape(self.weights, weights.shape, "weights of the potentials")
        for name in IN_SAME_PRECISION:
            require(getattr(self, name).dtype == dtype, f"{name} has another precision than node_potentials")
        require(np.array_equal(np.isinf(self.weights), np.isinf(weights)), "weights are infinite at other places")
        require(self.data is problem.data, "the potentials belong to other examples")

    def recomputed_eta(self, problem: Problem) -> FloatArray:
        """Return the eta that follows from the potentials."""
        return PotentialAscent().refresh(problem.replace(), deepcopy(self, {id(self.data): self.data}))

    def check_same(self, expected: PotentialState, names: tuple[str, ...]) -> None:
        """Compare arrays with those that follow from the potentials."""
        for name in names:
            require_equal(getattr(self, name), getattr(expected, name), name, 1e-3, ROUNDING_SINGLE)


@dataclass(eq=False, repr=False)
class PotentialAscent(Solver):
    """Dual ascent on potentials for CRFs with sparse features, one example at a time.

    For the log loss with a squared penalty: L2-CRFs and elastic nets.

    The dual is ``max sum_i C (entropy(q_i) + E_q cost_i) - phi(eta)``, where q_i is a distribution over the labellings
    of example i, ``eta = C sum_i (f(x_i, y_i) - E_q f)``, and the costs are 0 unless the loss has a margin. Each q_i is
    stored as potentials, its logarithm up to a constant: one row per node, and one matrix for all edges of the example.

    An update moves the potentials of one example part of the way towards its scores under the current weights (plus
    costs), and updates the weights. The step size is derived from the variance of the remaining difference and the
    curvature of the cumulant. Each example remembers its last step size, and a step that was much too long is undone.
    The method is the online exponentiated gradient of Collins et al. 2008 with different step sizes.

    Marginals, entropies and eta are recomputed in float64 every ``check_every`` passes, and also when the sum of the
    last known block gaps is small enough. This gives a certified gap, and the fit stops when it is at most ``tol``.
    Passes use float32 while its precision suffices.

    A pass takes about as long as one of `LBFGS`, because an update only changes the weights of features that occur in
    the example. On text, far fewer passes are needed (benchmarks/TEXT.md).

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
    requires: ClassVar[tuple[str, ...]] = (
        "loss.smooth", "convex", "prior.quadratic or prior.l2", "prior.kernel_args", "structure.pairwise",
        "not structure.edge_features", "backend.local",
    )  # fmt: skip

    def check(self) -> None:
        require_count("check_every", self.check_every)

    def start(
        self, problem: Problem, warm: PotentialState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> PotentialState:
        self.check()
        state = self.first_state(problem, warm, seed, tol)
        self.set_eta(problem, state, self.refresh(problem, state))
        return state

    def first_state(self, problem: Problem, warm: PotentialState | None, seed: Any, tol: float) -> PotentialState:
        """Return the initial potentials; eta and the weights are not set."""
        s, batch = problem.structure.layout, problem.batch
        node, matrix = (len(batch.parent), lanes(s)), (problem.n_examples, s.n_edge_types, s.n_labels, lanes(s))
        small = single_is_enough(problem.dual_prior.mean(np.zeros(problem.n_weights)), batch)
        single = tol >= MIN_GAP_IN_SINGLE and small and problem.structure.longest <= LONGEST_IN_SINGLE
        dtype = np.float32 if single else np.float64
        state = PotentialState(
            node_potentials=np.zeros(node, dtype),
            matrix_potentials=np.zeros(matrix, dtype),
            node_marginals=np.zeros(node, dtype),
            matrix_marginals=np.zeros(matrix, dtype),
            eta=np.zeros(0, dtype),
            weights=np.zeros(0, dtype),
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
        return state

    def refresh(self, problem: Problem, state: PotentialState) -> FloatArray:
        """Recompute marginals and entropies from the potentials, and return the eta of this dual point."""
        structure, cost = problem.structure, pad_rows(problem.structure.layout, problem.cost)
        part = lambda first, last, buffer: _kernels.potential_look(  # noqa: E731
            problem.batch, structure.shape, cost, first, last, most_spread(problem, np.float64), state.node_potentials,
            state.matrix_potentials, state.node_marginals, state.matrix_marginals, state.entropies, state.truths,
            buffer,
        )  # fmt: skip
        minus_eta = problem.backend.sum_ranges(part, structure.ranges(n_shards(structure)), structure.blocks.size)
        problem.n_oracle += problem.n_examples
        minus_eta *= -problem.C
        values: FloatArray = structure.blocks.unpad(minus_eta)
        return values

    def set_eta(self, problem: Problem, state: PotentialState, eta: FloatArray) -> None:
        """Set eta, which must be that of the current potentials, and the weights derived from it."""
        dtype = state.node_potentials.dtype.type
        state.eta = problem.structure.blocks.pad(eta, dtype)
        w = problem.dual_prior.mean(eta) * per_weight(problem.structure.layout, state.row_variance)
        state.weights = problem.structure.blocks.for_search(w, dtype)

    def step(self, problem: Problem, state: PotentialState) -> PotentialState:
        structure, batch = problem.structure, problem.batch
        dtype = state.weights.dtype.type
        if dtype is np.float32 and transition_range(structure.layout, state.weights) > 0.7 * most_spread(
            problem, dtype
        ):
            state.in_double()
            dtype = np.float64
        picks = state.rng.permutation(problem.n_examples).astype(np.int64)
        # each kernel call takes at most about 50 ms, because Ctrl-C is handled between calls
        n_calls = int(max(1, len(batch.parent) * structure.work_per_node / 1e7))
        prior, least = problem.kernel_prior, MIN_CHANGE[np.dtype(dtype).name]
        cost = pad_rows(structure.layout, problem.cost, dtype)
        for part in np.array_split(picks, min(n_calls, len(picks))):
            _kernels.potential_ascent(
                batch, structure.shape, *prior, state.row_variance, problem.C, state.weights, state.eta, cost, part,
                most_spread(problem, dtype), least, FIRST_BONUS, state.steps, state.node_potentials,
                state.matrix_potentials, state.node_marginals, state.matrix_marginals, state.gaps,
            )  # fmt: skip
        problem.n_oracle += problem.n_examples
        return state

    def due(self, problem: Problem, state: PotentialState, n_pass: int, tol: float) -> bool:
        # block gaps are those before each update, so their sum usually overestimates the current gap
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


def per_weight(layout: Layout, rows: FloatArray | None) -> Any:
    """Return the number of its row for every weight, from numbers of features and of all other weights; None is 1."""
    if rows is None:
        return 1.0
    n_node = layout.n_node_weights
    node = np.repeat(rows[:-1], layout.n_labels) if layout.seen is None else rows[layout.seen.features]
    return np.concatenate([node, np.full(layout.n_weights - n_node, rows[-1])])


def most_spread(problem: Problem, dtype: type) -> float:
    """Return the largest range of edge scores for sum-product without logarithms.

    With a wider range, scaled probabilities could underflow; see `sum_mode`.
    """
    return (60 if dtype is np.float32 else 640) / (problem.batch.max_children + 1)
