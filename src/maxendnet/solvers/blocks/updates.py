"""Block-coordinate updates of a dual point, one example at a time; used by `BlockFrankWolfe` and `ProximalPoint`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import n_shards
from maxendnet.data.ragged import gather
from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.base import sums
from maxendnet.structures.bound.kernel_structure import single_is_enough
from maxendnet.utils.state_fields import NonNegative, Values, require, require_equal, require_shape

MAX_WORK_PER_CALL = 5e7
"""Multiplications in one kernel call, about a tenth of a second. Ctrl-C is handled between calls."""


@dataclass
class BlockState:
    """A dual point, represented by the active labellings of every example. Its arrays are changed in place."""

    sets: _kernels.ActiveSets
    """Active labellings (those with dual weight) and their dual weights."""
    eta: Annotated[FloatArray, Values("blocks")]
    """In the padded layout of the kernels."""
    weights: Annotated[NDArray[Any], Values("any", also=(-np.inf,))]
    """Prior mean given ``eta``, in the layout and precision of decoding."""
    gaps: Annotated[FloatArray, Values("any", low=0.0, also=(np.inf,))]
    """Last known gap of every block."""
    C: NonNegative
    """Size of the dual simplices."""
    rng: np.random.Generator

    def copy(self) -> BlockState:
        """Return an independent copy."""
        arrays = {name: getattr(self, name).copy() for name in ("sets", "eta", "weights", "gaps")}
        return replace(self, **arrays, rng=deepcopy(self.rng))

    def check(self, problem: Problem, first: int = 0, last: int | None = None) -> None:
        """Check the active labellings of the examples from ``first`` to ``last``: they are the dual point."""
        structure = problem.structure
        lengths, sample_weight = np.diff(structure.offsets)[first:last], structure.sample_weight[first:last]
        require_shape(self.gaps, lengths.shape, "gaps")
        expected = structure.blocks.for_search(np.zeros(problem.n_weights), self.weights.dtype.type)
        require(
            self.weights.shape == expected.shape and np.array_equal(np.isinf(self.weights), np.isinf(expected)),
            "the weights have another shape, or are infinite at other places than forbidden pairs of labels",
        )
        nodes, active, labels, alpha, cost = self.sets.__getstate__()
        require(np.array_equal(nodes, lengths), "the active labellings belong to other examples")
        require(np.all((labels >= 0) & (labels < structure.n_labels)), "an active labelling has an unknown label")
        require(np.isfinite(alpha).all() and (alpha >= 0).all(), "a dual weight is negative or not finite")
        owner = np.repeat(np.arange(len(active)), active)
        total = np.bincount(owner, alpha, minlength=len(active))
        require_equal(total, self.C * sample_weight, "the sum of the dual weights of an example")
        positions, offsets = gather(structure.offsets, owner + first)
        table = problem.cost_table
        require_equal(cost, sums(table.rows[table.row[positions], labels], offsets), "the cost of a labelling", 1.0)


def first_state(problem: Problem, C: float, seed: Any, tol: float) -> BlockState:
    """Return the state with ``eta = 0``: all dual weight is at the true labellings."""
    blocks, batch = problem.structure.blocks, problem.batch
    # decoding in float32 is accurate enough unless numbers are large or a tiny gap is requested
    small = batch.largest <= 1e4 and single_is_enough(problem.dual_prior.mean(np.zeros(problem.n_weights)), batch)
    single = small and problem.cost_is_small and tol >= 1e-6
    state = BlockState(
        sets=_kernels.ActiveSets(batch.offsets, batch.y, batch.sample_weight, C),
        eta=np.zeros(blocks.size),
        weights=np.zeros(0, dtype=np.float32 if single else np.float64),
        gaps=np.full(problem.n_examples, np.inf),
        C=C,
        rng=np.random.default_rng(seed),
    )
    set_weights(problem, state)
    return state


def set_weights(problem: Problem, state: BlockState) -> None:
    """Compute the weights used in decoding from eta."""
    blocks = problem.structure.blocks
    mu = problem.dual_prior.mean(blocks.unpad(state.eta))
    state.weights = blocks.for_search(mu, state.weights.dtype.type)


def refresh_eta(problem: Problem, state: BlockState) -> None:
    """Recompute eta from the active labellings, so that rounding errors do not accumulate."""
    blocks = problem.structure.blocks
    state.eta[:] = problem.backend.sum_ranges(
        lambda first, last, eta: blocks.add_features(state.sets, first, last, eta),
        problem.structure.ranges(n_shards(problem.structure)),
        blocks.size,
    )


def rescale(problem: Problem, state: BlockState, C: float) -> None:
    """Scale the dual point from ``C`` to the C of the problem, then by the factor that maximises the dual."""
    refresh_eta(problem, state)
    factor = problem.C / C
    eta = factor * problem.structure.blocks.unpad(state.eta)
    state.sets.scale(factor, problem.dual(eta, factor * state.sets.total_cost())[1])
    refresh_eta(problem, state)
    set_weights(problem, state)


def draw(problem: Problem, state: BlockState, sampling: str, least: float = 0.0) -> NDArray[np.int64]:
    """Sample the examples of the next pass.

    ``least`` times the mean is added to all sampling weights, so that examples with a last known gap of 0 are visited.
    """
    n = problem.n_examples
    if sampling == "uniform" or not np.all(np.isfinite(state.gaps)):
        return state.rng.permutation(n).astype(np.int64)
    # The square root makes sampling more even: known gaps are out of date, and examples with small ones would wait too
    # long.
    sampling_weights = np.sqrt(state.gaps)
    cumulative = np.cumsum(sampling_weights + least * (sampling_weights.mean() or 1.0))
    picks = np.searchsorted(cumulative, state.rng.random(n) * cumulative[-1], side="right").clip(0, n - 1)
    indices: NDArray[np.int64] = picks.astype(np.int64)
    return indices


def update(problem: Problem, state: BlockState, picks: NDArray[np.int64], inner: int) -> float:
    """Update the blocks of the sampled examples, and return the change of ``sum alpha l``.

    ``inner`` is the number of additional steps within the active set of an example, without decoding.
    """
    blocks, prior, change = problem.structure.blocks, problem.kernel_prior, 0.0
    work = np.diff(problem.batch.offsets)[picks].sum() * problem.structure.work_per_node
    for part in np.array_split(picks, max(1, min(len(picks), int(work / MAX_WORK_PER_CALL)))):
        change += blocks.update(
            prior, state.C, state.weights, state.eta, problem.cost, part, inner, state.sets, state.gaps
        )
    return change


def block_gaps(problem: Problem, state: BlockState, mu: FloatArray) -> FloatArray:
    """Return the hinge of every example at mu, and recompute the gaps of all blocks for the current ``state.C``."""
    hinge = np.zeros(problem.n_examples)
    evaluate_range = problem.structure.blocks.gap_evaluation(mu, problem.cost, state.C, state.sets, hinge, state.gaps)
    problem.backend.run(lambda first, last, _: evaluate_range(first, last), problem.structure.ranges())
    return hinge
