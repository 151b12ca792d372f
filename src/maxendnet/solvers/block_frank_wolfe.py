"""Generalised block-coordinate Frank-Wolfe: the default for every hinge model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver


@dataclass
class DualBlocks:
    """A dual point, kept as marginals per example, and what goes with it; the arrays are changed in place."""

    eta: FloatArray
    average: FloatArray | None
    blocks_node: FloatArray
    blocks_edge: FloatArray
    edge_block: NDArray[np.int64]
    blocks_tied: FloatArray
    costs: FloatArray
    gaps: FloatArray
    average_cost: FloatArray
    n_updates: FloatArray
    weights: NDArray
    rng: np.random.Generator
    C: float
    n_pass: int = 0
    gap: float = np.inf


@dataclass(eq=False, repr=False)
class BlockFrankWolfe(Solver):
    """Block-coordinate Frank-Wolfe on the dual of any factorised prior, with gap sampling and exact line search.

    One update takes one example: decode it with its costs added, move the example's dual block towards the labelling
    found, by the step that is best for the dual. After the first pass examples are drawn in proportion to their last
    known share of the duality gap; every ``check_every`` passes all shares are computed afresh, and their sum, primal
    minus dual, certifies the point. Stops when that gap, relative, is at most ``tol``.

    Lacoste-Julien et al. 2013, Algorithm 4, for the Gaussian prior; THEORY of this library for the others.

    Parameters
    ----------
    check_every : int, default=10
        Passes between two looks at the whole gap.
    average : bool, default=True
        Also keep the average of all iterates, later ones weighted higher (weight of the k-th update: k). Of the last
        iterate and the average the one with the lower objective is returned, and named in ``which_``.
    sampling : {"gap", "uniform"}, default="gap"

    Examples
    --------
    >>> from maxendnet import M3N
    >>> model = M3N(solver=BlockFrankWolfe(check_every=5)).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    check_every: int = 10
    average: bool = True
    sampling: str = "gap"
    requires = ("not loss.smooth", "prior.kernel_args")

    def check(self) -> None:
        if self.sampling not in ("gap", "uniform"):
            raise ValueError(f"sampling must be 'gap' or 'uniform', got {self.sampling!r}.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")

    def start(
        self, problem: Problem, warm: DualBlocks | None = None, seed: Any = None, tol: float = 1e-3
    ) -> DualBlocks:
        self.check()
        structure, batch = problem.structure, problem.batch
        n_nodes, n_examples, L, lanes = len(batch.parent), problem.n_examples, structure.n_labels, structure.lanes
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        has_edges = np.zeros(n_examples, dtype=bool)
        if structure.n_matrices:
            owner = np.repeat(np.arange(n_examples), np.diff(batch.offsets))
            has_edges[owner[batch.parent >= 0]] = True
        edge_block = np.where(has_edges, np.cumsum(has_edges) - 1, -1).astype(np.int64)
        single = np.abs(batch.data).max(initial=0.0) <= 1e4 and np.abs(batch.edge_features).max(initial=0.0) <= 1e4
        state = DualBlocks(
            eta=np.zeros(structure.padded_size),
            average=np.zeros(structure.padded_size) if self.average else None,
            blocks_node=np.zeros((n_nodes, lanes)),
            blocks_edge=np.zeros((int(has_edges.sum()), structure.n_matrices, L, lanes)),
            edge_block=edge_block,
            blocks_tied=np.zeros((n_examples, structure.n_tied)),
            costs=np.zeros(n_examples),
            gaps=np.full(n_examples, np.inf),
            average_cost=np.zeros(1),
            n_updates=np.zeros(1),
            weights=np.zeros(0, dtype=np.float32 if single else np.float64),
            rng=rng,
            C=problem.C,
        )
        if warm is not None and warm.blocks_node.shape == state.blocks_node.shape:
            self._take_over(problem, state, warm)
        self._set_weights(problem, state)
        return state

    def _take_over(self, problem: Problem, state: DualBlocks, warm: DualBlocks) -> None:
        """Start from an earlier dual point of the same examples, scaled to the new C and into the new domain."""
        share = problem.C / warm.C
        eta = share * problem.structure.unpad(warm.eta)
        share *= problem.dual(eta, share * float(warm.costs.sum()))[1]
        for name in ("blocks_node", "blocks_edge", "blocks_tied", "costs"):
            if getattr(warm, name).shape == getattr(state, name).shape:
                getattr(state, name)[...] = share * getattr(warm, name)
        self._refresh_eta(problem, state)

    def step(self, problem: Problem, state: DualBlocks) -> DualBlocks:
        n = problem.n_examples
        if self.sampling == "uniform" or not np.all(np.isfinite(state.gaps)):
            picks = state.rng.permutation(n)
        else:
            cumulative = np.cumsum(state.gaps)
            picks = np.searchsorted(cumulative, state.rng.random(n) * cumulative[-1], side="right").clip(0, n - 1)
        self._update(problem, state, picks.astype(np.int64))
        state.n_pass += 1
        return state

    def _update(self, problem: Problem, state: DualBlocks, picks: NDArray[np.int64]) -> None:
        structure = problem.structure
        kind, a, b, variance, mean = kernel_prior(problem)
        cost = structure.pad_cost(problem.cost)
        # about 50 ms of work a call, so that Ctrl-C is heard
        nodes = len(problem.batch.parent) / max(1, problem.n_examples)
        n_calls = int(np.ceil(len(picks) * nodes * structure.work_per_node(problem.batch) / 2e7))
        for part in np.array_split(picks, max(1, min(n_calls, len(picks)))):
            _kernels.block_frank_wolfe(
                problem.batch, structure.shape, problem.own_groups, kind, a, b, variance, mean, problem.C,
                state.weights, cost.astype(state.weights.dtype), cost, part, state,
            )  # fmt: skip
        problem.n_oracle += len(picks)

    def due(self, problem: Problem, state: DualBlocks, n_pass: int, tol: float) -> bool:
        if n_pass % self.check_every == 0 and n_pass > 0:
            return True
        # the last known shares overrate the gap (they were taken before each update): if they are small, look
        known = float(state.gaps.sum())
        return n_pass > 0 and known <= 1.5 * tol * max(state.costs.sum(), 1e-3 * problem.at_zero)

    def evaluate(self, problem: Problem, state: DualBlocks) -> Evaluation:
        structure, prior = problem.structure, problem.prior
        self._refresh_eta(problem, state)
        self._set_weights(problem, state)
        eta, cost = structure.unpad(state.eta), float(state.costs.sum())
        mu = prior.mean(eta)
        hinge, gaps = self._block_gaps(problem, state, mu)
        state.gaps[:] = gaps
        dual = problem.dual(eta, cost)[0]
        found = [(prior.penalty(mu) + problem.C * float(hinge @ problem.batch.weights), mu, eta, "last", cost)]
        weight = 0.5 * state.n_updates[0] * (state.n_updates[0] + 1)
        if state.average is not None and weight > 0:
            eta = eta - structure.unpad(state.average) / weight
            cost -= state.average_cost[0] / weight
            mu = prior.mean(eta)
            found.append((problem.primal(mu), mu, eta, "average", cost))
            dual = max(dual, problem.dual(eta, cost)[0])
        primal, mu, eta, which, cost = min(found, key=lambda entry: entry[0])
        gap = problem.relative(primal - dual, primal)
        return Evaluation(mu, eta, primal, dual, gap, gap, which, cost)

    def _block_gaps(self, problem: Problem, state: DualBlocks, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        structure = problem.structure
        weights, cost = structure.for_search(mu), structure.pad_cost(problem.cost)
        hinge, gaps = np.zeros(problem.n_examples), np.zeros(problem.n_examples)
        problem.backend.run(
            lambda first, last, _: _kernels.block_gaps(
                problem.batch, structure.shape, weights, cost, problem.C, first, last, state, hinge, gaps
            ),
            problem.shards,
        )
        problem.n_oracle += problem.n_examples
        return hinge, gaps

    def _refresh_eta(self, problem: Problem, state: DualBlocks) -> None:
        """eta afresh from the blocks: rounding does not pile up, and the certificate is for the very dual point."""
        eta = problem.sum_over(
            problem.shards,
            lambda first, last, buffer: _kernels.block_features(
                problem.batch, problem.structure.shape, state, first, last, buffer
            ),
            gradient=True,
        )
        state.eta[:] = problem.structure.pad(eta)

    def _set_weights(self, problem: Problem, state: DualBlocks) -> None:
        mu = problem.prior.mean(problem.structure.unpad(state.eta))
        state.weights = problem.structure.for_search(mu, state.weights.dtype.type)


def kernel_prior(problem: Problem) -> tuple[str, float, float, FloatArray | None, FloatArray | None]:
    """A prior as the kernels take it: kind, two scalars, and for a Gaussian with several variances two arrays."""
    kind, params = problem.prior.kernel_args()
    if kind == "gaussian" and any(np.ndim(p) > 0 for p in params):
        variance, mean = (np.broadcast_to(np.asarray(p, dtype=float), problem.n_weights) for p in params)
        return kind, 0.0, 0.0, problem.structure.pad(variance), problem.structure.pad(mean)
    a, b = (*map(float, params), 0.0)[:2]
    return kind, a, b, None, None
