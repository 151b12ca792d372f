"""Stochastic dual coordinate ascent for conditional random fields with a Gaussian prior."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import n_shards
from maxendnet.data.placed import PlacedData
from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.parts import InParts, PartsState, check_parts, in_one
from maxendnet.structures import padding
from maxendnet.structures.forest import sum_mode


@dataclass
class MarginalState:
    """A dual point, as marginals, and what goes with it; the arrays are changed in place."""

    node: FloatArray
    """(n_nodes, lanes)"""
    edge: FloatArray
    """(n_nodes, n_labels, lanes): of the edge to the parent, row its label."""
    eta: FloatArray
    """Padded, as are ``truth``, ``variance`` and ``mean``."""
    truth: FloatArray
    """Features of the true labellings, weighted."""
    weights: FloatArray
    """mean(eta), as the recursions read it."""
    gaps: FloatArray
    """Last known gap of every block."""
    variance: FloatArray
    mean: FloatArray
    rng: np.random.Generator
    data: PlacedData
    """The examples that these are marginals of."""


@dataclass(eq=False, repr=False)
class SDCA(Solver):
    """Stochastic dual coordinate ascent (Le Priol et al. 2018) for the log loss with a Gaussian prior: L2-CRFs.

    The dual is ``max sum_i C entropy(q_i) - phi(eta)`` over a distribution q_i of labellings for every example, with
    ``eta = C sum_i (f(x_i, y_i) - E_q f)``. A q_i is kept as its node and edge marginals. One update takes one example
    and moves its marginals towards those of ``p(y | x_i; w)``, by the step that is best for the dual (Newton, inside a
    bracket); the weights follow. After the first pass examples are drawn in proportion to their last known share of the
    duality gap; every ``check_every`` passes all shares are computed afresh, and their sum, primal minus dual,
    certifies the point. Stops when that gap, relative, is at most ``tol``.

    It takes fewer passes than `LBFGS`, and dearer ones: on 626 OCR words, lam = 2, to a gap of 1e-3, 15 against 52, in
    three times the time. The marginals take 8 bytes for every pair of labels of
    every edge, 6.7 kB a node for 26 labels.

    Parameters
    ----------
    check_every : int, default=5
        Passes between two looks at the whole gap.
    sampling : {"gap", "uniform"}, default="gap"
    parts : int or None, default=None
        Cut the examples into so many parts that are updated at the same time, on the threads or the workers of the
        backend, and whose changes are added, as in `BlockFrankWolfe`. None is 1 in this process, and one for every
        thread of the workers of a cluster.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(solver=SDCA(), random_state=0).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    check_every: int = 5
    sampling: str = "gap"
    parts: int | None = None
    requires = (
        "loss.smooth", "not loss.margin", "convex", "prior.quadratic", "prior.kernel_args", "structure.pairwise",
        "backend.hold",
    )  # fmt: skip

    def check(self) -> None:
        check_parts(self.parts)
        if self.sampling not in ("gap", "uniform"):
            raise ValueError(f"sampling must be 'gap' or 'uniform', got {self.sampling!r}.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")

    def start(
        self, problem: Problem, warm: MarginalState | PartsState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> Any:
        self.check()
        if not in_one(self.parts, problem):
            return InParts(self).start(problem, seed, tol)
        structure, batch, blocks = problem.structure, problem.batch, problem.structure.blocks
        n, L, lanes = len(batch.parent), structure.n_labels, padding.lanes(structure.layout)
        wide = lambda values: blocks.pad(np.broadcast_to(np.asarray(values, float), problem.n_weights))  # noqa: E731
        variance, mean = (wide(values) for values in capable(problem.prior, "kernel").kernel_args()[1])
        state = MarginalState(
            node=np.zeros((n, lanes)),
            edge=np.zeros((n if structure.layout.n_matrices else 0, L, lanes)),
            eta=np.zeros(blocks.size),
            truth=np.zeros(blocks.size),
            weights=np.zeros(0),
            gaps=np.full(problem.n_examples, np.inf),
            variance=variance,
            mean=mean,
            rng=seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed),
            data=problem.data,
        )
        state.node[np.arange(n), batch.y] = 1.0
        child = np.flatnonzero(batch.parent >= 0)
        state.edge[child, batch.y[batch.parent[child]], batch.y[child]] = 1.0
        state.truth = self._features(problem, state)
        if isinstance(warm, MarginalState) and problem.data.same_as(warm.data):
            state.node, state.edge = warm.node.copy(), warm.edge.copy()
        self.refresh_eta(problem, state)
        self.set_eta(problem, state, state.eta)
        return state

    def _features(self, problem: Problem, state: MarginalState) -> FloatArray:
        """Expected features under the marginals, padded."""
        part = lambda first, last, buffer: _kernels.sdca_features(  # noqa: E731
            problem.batch, problem.structure.shape, first, last, state.node, state.edge, buffer
        )
        structure = problem.structure
        return problem.backend.sum_ranges(part, structure.ranges(n_shards(structure)), structure.blocks.size)

    def step(self, problem: Problem, state: Any) -> Any:
        if isinstance(state, PartsState):
            return InParts(self).step(problem, state)
        picks = self.draw(problem, state)
        self.change(problem, state, picks)
        problem.n_oracle += len(picks)
        return state

    def due(self, problem: Problem, state: Any, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % self.check_every == 0

    def evaluate(self, problem: Problem, state: Any) -> Evaluation:
        if isinstance(state, PartsState):
            return InParts(self).evaluate(problem, state)
        prior = problem.exact_prior
        self.refresh_eta(problem, state)
        self.set_eta(problem, state, state.eta)
        eta = problem.structure.blocks.unpad(state.eta)
        w = prior.mean(eta)
        loss, own = self.look(problem, state)
        problem.n_oracle += problem.n_examples
        primal, dual = prior.penalty(w) + problem.C * loss, self.dual(problem, eta, own)
        gap = problem.relative(primal - dual, primal)
        return Evaluation(w, eta, primal, dual, gap, gap)

    # ---- of all examples, or of a part of them -------------------------------------------------------------------

    own_is_cost = False

    def first_C(self, problem: Problem) -> float:
        return problem.C

    def of_part(self, problem: Problem) -> SDCA:
        return replace(self, parts=1)

    def rounds_of_one(self, problem: Problem, work: float) -> int:
        return 1

    def refresh_eta(self, problem: Problem, state: MarginalState) -> None:
        """eta afresh from the marginals: rounding does not pile up, the certificate is for this very dual point."""
        state.eta[:] = problem.C * (state.truth - self._features(problem, state))

    def set_eta(self, problem: Problem, state: MarginalState, eta: FloatArray) -> None:
        """Go on from there, with the same marginals."""
        blocks = problem.structure.blocks
        state.eta[:] = eta
        state.weights = blocks.for_search(problem.exact_prior.mean(blocks.unpad(state.eta)))

    def draw(self, problem: Problem, state: MarginalState) -> NDArray[np.int64]:
        """The examples of the next pass."""
        n = problem.n_examples
        if self.sampling == "uniform" or not np.all(np.isfinite(state.gaps)):
            return state.rng.permutation(n).astype(np.int64)
        cumulative = np.cumsum(state.gaps)
        picks = np.searchsorted(cumulative, state.rng.random(n) * cumulative[-1], side="right").clip(0, n - 1)
        return picks.astype(np.int64)

    def change(self, problem: Problem, state: MarginalState, picks: NDArray[np.int64]) -> float:
        """A step for every picked example."""
        structure, batch, prior = problem.structure, problem.batch, problem.exact_prior
        # some 50 ms a call, so that Ctrl-C is heard: a line search takes ten times as long as the recursions
        work = np.diff(batch.offsets)[picks].sum() * structure.work_per_node
        n_calls = int(max(1, work / 5e6))
        for some in np.array_split(picks, max(1, min(n_calls, len(picks)))):
            mode = sum_mode(structure.layout, batch, prior.mean(structure.blocks.unpad(state.eta)), np.float64)
            _kernels.sdca(
                batch, structure.shape, state.variance, state.mean, problem.C, mode, state.weights, state.eta, some,
                state.node, state.edge, state.gaps,
            )  # fmt: skip
        return 0.0

    def own(self, state: MarginalState) -> float:
        return 0.0

    def look(self, problem: Problem, state: MarginalState) -> tuple[float, float]:
        """Sum of losses, and C times that of entropies; the gaps of all blocks are computed afresh."""
        structure, batch = problem.structure, problem.batch
        losses, entropies = np.zeros(problem.n_examples), np.zeros(problem.n_examples)
        w = problem.exact_prior.mean(structure.blocks.unpad(state.eta))
        mode = sum_mode(structure.layout, batch, w, np.float64)

        def part(first: int, last: int, _: int) -> None:
            _kernels.sdca_look(
                batch, structure.shape, state.weights, problem.C, mode, first, last, state.node, state.edge, losses,
                entropies, state.gaps,
            )  # fmt: skip

        problem.backend.run(part, structure.ranges())
        return float(losses @ batch.sample_weight), problem.C * float(entropies @ batch.sample_weight)

    def dual(self, problem: Problem, eta: FloatArray, own: float) -> float:
        return own - problem.exact_prior.cumulant(eta)

    def copied(self, state: MarginalState) -> MarginalState:
        """The same state as it is now, without its examples."""
        names = ("node", "edge", "eta", "truth", "weights", "gaps", "variance", "mean")
        arrays = {name: getattr(state, name).copy() for name in names}
        return replace(state, **arrays, rng=deepcopy(state.rng), data=None)  # type: ignore[arg-type]

    def given_back(self, problem: Problem, state: MarginalState) -> MarginalState:
        """A copied state with its examples."""
        return replace(self.copied(state), data=problem.data)
