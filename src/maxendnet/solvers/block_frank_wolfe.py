"""Block-coordinate Frank-Wolfe on the dual of hinge models, for any prior with a cumulant in the kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from maxendnet.backends import Partial
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver, Support
from maxendnet.solvers.blocks import parts as of_part
from maxendnet.solvers.blocks.parts import Part, make_part
from maxendnet.solvers.blocks.updates import BlockState, first_state
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import (
    CHECKED_BY_OWNER,
    NonNegative,
    Values,
    require,
    require_equal,
)

MAX_ROUNDS = 16
"""Largest number of rounds in a pass. After each round, the changes of all parts are summed and the average is
updated."""
SHARE_OF_ADDING = 0.05
"""Largest share of the work of a pass that may be spent on these sums and updates."""
MAX_WORK_PER_ROUND = 2e7
"""Multiplications in a round of a single part, about 50 ms. Rounds are short because Ctrl-C is handled between them."""


@dataclass
class DualState:
    """The dual point of all parts. Its arrays are changed in place."""

    problem: Problem
    """The problem whose examples and costs define the dual point."""
    C: NonNegative
    """Size of the dual simplices."""
    eta: Annotated[FloatArray, Values("blocks")]
    """In the padded layout of the kernels."""
    average: Annotated[FloatArray, Values(may_be_empty=True)]
    """Weighted average of eta over the rounds; empty if the solver does not average."""
    states: Annotated[list[BlockState], CHECKED_BY_OWNER] = field(default_factory=list)
    """The states of the parts if no backend holds them, else empty."""
    sizes: list[int] = field(default_factory=list)
    """Number of examples in each part."""
    n_rounds: int = 1
    """Number of rounds in a pass."""
    cost: float = 0.0
    """``sum alpha l``."""
    gaps: float = np.inf
    """Sum of the last known block gaps."""
    average_cost: float = 0.0
    n_averaged: int = 0
    n_changes: int = 0
    """Number of changes made to every part so far. A part with a different count lost its state with a worker."""
    held: Any = field(default=None, compare=False)
    """The backend that holds the parts, and their handles."""

    @property
    def may_be_lost(self) -> bool:
        """Whether the parts are on workers, which may die."""
        return self.held is not None and not self.held[0].local

    def collected(self) -> DualState:
        """Return a copy that contains the states of all parts, from which a fit can resume."""
        states = self.states
        if self.held is not None:
            backend, handles = self.held
            states = backend.each(of_part.collect, handles, self.n_changes)
        return replace(self, eta=self.eta.copy(), average=self.average.copy(), states=states, held=None)

    def check(self, problem: Problem) -> None:
        """Check the states of the parts."""
        n_examples, n_parts, first = problem.n_examples, len(self.sizes), 0
        require(
            len(self.states) == n_parts and sum(self.sizes) == n_examples,
            f"the parts have {self.sizes} examples, but the problem {n_examples}",
        )
        require(1 <= self.n_rounds <= max(n_examples, 1), f"n_rounds is {self.n_rounds}")
        require_equal(self.C, problem.C, "C")
        for part, size in zip(self.states, self.sizes):
            require_equal(part.C, n_parts * self.C, "C of a part")
            part.check(problem, first, first + size)
            first += size


@dataclass(eq=False, repr=False)
class BlockFrankWolfe(Solver):
    """Block-coordinate Frank-Wolfe on the dual, with pairwise steps and line search.

    An update first decodes one example with its costs added. It then moves dual weight from the worst labelling in the
    active set of the example to the decoded one, with the step size that maximises the dual. After the first pass,
    examples are sampled in proportion to the square root of their last known block gap. Every ``check_every`` passes,
    all block gaps are recomputed. Their sum is primal minus dual, which certifies the result; the fit stops when this
    gap, relative to the objective, is at most ``tol``.

    Based on Lacoste-Julien et al. 2013 (Algorithm 4) and Osokin et al. 2016 (pairwise steps, gap sampling), who treat
    the Gaussian prior.

    Parameters
    ----------
    check_every : int, default=10
        Passes between two evaluations of the full gap.
    inner : int, default=0
        Number of additional steps within the active set at each visit, without decoding.
    average : bool, default=True
        Whether to also average the iterates, with higher weights for later ones. The last iterate or the average is
        returned, whichever has the lower objective; ``which_`` names it.
    sampling : {"gap", "uniform"}, default="gap"
        How examples are chosen: in proportion to the square root of their block gap, or in random order.
    parts : int or None, default=None
        Number of parts into which the examples are split. Parts are updated in parallel, on the threads or workers of
        the backend, and their changes are added (see `solvers.blocks.parts`). The dual never decreases, but a fit takes
        more passes, so several parts are only worthwhile for many examples (benchmarks/SCALE.md). The result depends on
        the number of parts, but not on the number of threads or workers. None uses one part in this process, or one per
        thread of the workers of a cluster.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> model = M3N(solver=BlockFrankWolfe(check_every=5)).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    check_every: int = 10
    inner: int = 0
    average: bool = True
    sampling: str = "gap"
    parts: int | None = None
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.kernel_args",
        "structure.blocks",
        "backend.hold",
        "not has_linear_term",
        "not cost_table.joint",
    )

    def check(self) -> None:
        require_count("parts", 1 if self.parts is None else self.parts)
        if self.sampling not in ("gap", "uniform"):
            raise ValueError(f"sampling must be 'gap' or 'uniform', got {self.sampling!r}.")
        require_count("check_every", self.check_every)
        if not self.inner >= 0:
            raise ValueError(f"inner must not be negative, got {self.inner!r}.")

    # ---- the dual point -----------------------------------------------------------------------------------------

    def start(self, problem: Problem, warm: DualState | None = None, seed: Any = None, tol: float = 1e-3) -> DualState:
        self.check()
        average = np.zeros(problem.n_weights if self.average else 0)
        state = DualState(problem, problem.C, np.zeros(problem.structure.blocks.size), average)
        n_parts = self.parts or (1 if problem.backend.local else problem.backend.n_slots())
        self._hold(problem, state, int(n_parts), np.random.default_rng(seed), tol)
        sizes = problem.backend.each(of_part.size, state.held[1])
        state.sizes, state.n_rounds = [n for _, n in sizes], n_rounds(problem, [work for work, _ in sizes])
        if warm is not None and self._continues(problem, state) and self._continues(problem, warm):
            # start from an earlier dual point of the same examples, scaled to the new C and into the new domain
            part, (earlier,) = state.held[1][0], warm.collected().states
            part.state.sets, state.C = earlier.sets.copy(), warm.C
            self._refresh(problem, state)
            self._rescale(problem, state, problem.C)
        return state

    def _continues(self, problem: Problem, state: DualState) -> bool:
        """Whether a state consists of a single local part and belongs to the same examples."""
        return len(state.sizes) == 1 and not state.may_be_lost and problem.same_sum(state.problem)

    def _hold(self, problem: Problem, state: DualState, n_parts: int, rng: Any = None, tol: float = 1.0) -> None:
        """Hand the parts over to the backend: those in ``state.states``, or new ones if there are none."""
        backend, states = problem.backend, list[Any](state.states)
        if backend.local and n_parts == 1:
            # Examples are not copied, and evaluations use all threads. The part gets its own copy of the problem, so
            # that its oracle calls are not counted twice.
            part = Part(problem.replace(), states[0].copy() if states else first_state(problem, state.C, rng, tol), 1)
            part.n_changes = state.n_changes
            handles = [part]
        else:
            shards = problem.data.parts(n_parts)
            K = len(shards)
            # not rng.spawn: NumPy 1.26 does not copy the seeds that it draws from
            seeds = [None] * K if states else [rng] if K == 1 else rng.integers(2**63, size=K).tolist()
            handles = backend.hold(make_part, shards, [
                (problem.loss, problem.prior, K * problem.C, K, (K * state.C, seed, tol), part_state, state.n_changes)
                for seed, part_state in zip(seeds, states or [None] * K)
            ])  # fmt: skip
        state.held, state.states = (backend, handles), []

    def _sum(self, problem: Problem, state: DualState, function: Callable[..., Partial], *arguments: Any) -> Partial:
        if state.held is None:
            self._hold(problem, state, len(state.sizes))
        result: Partial = problem.backend.sum(function, state.held[1], *arguments)
        return result

    def _change(self, problem: Problem, state: DualState, function: Callable[..., Partial], *arguments: Any) -> Partial:
        """Apply a function that changes every part, and update the dual point, which is the sum of their shares."""
        total = self._sum(problem, state, function, state.n_changes, *arguments)
        if total.gradient.size:
            state.eta = total.gradient
        state.cost, state.gaps, state.n_changes = total.cost, total.relaxation_gap, state.n_changes + 1
        return total

    def _refresh(self, problem: Problem, state: DualState) -> None:
        self._change(problem, state, of_part.refresh)

        def inside() -> bool:
            return bool(np.isfinite(problem.dual_prior.cumulant(problem.structure.blocks.unpad(state.eta))))

        if not inside():  # with enormous features, rounding can leave the domain of the cumulant
            self._rescale(problem, state, state.C)
        if not inside():
            self._change(problem, state, of_part.rescale, 1.0, 0.0, state.C)

    def _rescale(self, problem: Problem, state: DualState, C: float) -> None:
        """Scale the dual point to another C, and then by the factor in [0, 1] for which the dual is largest."""
        factor = C / state.C
        eta = factor * problem.structure.blocks.unpad(state.eta)
        share = problem.dual(eta, factor * state.cost)[1]
        state.C = C
        self._change(problem, state, of_part.rescale, factor, share, C)

    def carried(self, problem: Problem, state: DualState) -> DualState | None:
        """Return a state with the same dual weights but other target labels; None if the parts are not local."""
        if len(state.sizes) > 1 or state.may_be_lost:
            return None
        copy = state.collected()
        copy.states[0].sets.set_truth(problem.batch.offsets, problem.batch.y)
        return replace(copy, problem=problem)

    def support(self, problem: Problem, state: DualState) -> Support | Callable[[], Support]:
        """Return the labellings with positive dual weight in the last iterate (not the average)."""
        return partial(support_of, state) if state.may_be_lost else support_of(state)

    # ---- block updates and duality gaps -------------------------------------------------------------------------

    def step(self, problem: Problem, state: DualState) -> DualState:
        blocks, cost = problem.structure.blocks, state.cost
        for number in range(state.n_rounds):
            options = (number, state.n_rounds, self.sampling, self.inner)
            cost += self._change(problem, state, of_part.update, state.eta, *options).loss
            if self.average:
                # the k-th point has weight k, so that early points lose influence
                state.n_averaged += 1
                share = 2 / (state.n_averaged + 1)
                state.average += share * (blocks.unpad(state.eta) - state.average)
                state.average_cost += share * (cost - state.average_cost)
        problem.n_oracle += sum(state.sizes)
        return state

    def due(self, problem: Problem, state: DualState, n_pass: int, tol: float) -> bool:
        if n_pass == 0 or n_pass % self.check_every == 0:
            return n_pass > 0
        # block gaps are those before each update, so their sum usually overestimates the gap: evaluate once it is small
        self._set_objective_at_zero(problem, state)
        return state.gaps <= tol * problem.gap_scale(state.cost)

    def evaluate(self, problem: Problem, state: DualState) -> Evaluation:
        blocks, prior = problem.structure.blocks, problem.dual_prior
        self._refresh(problem, state)
        eta = blocks.unpad(state.eta)
        hinge = self._change(problem, state, of_part.evaluate, state.eta).loss
        problem.n_oracle += sum(state.sizes)
        mu, dual = prior.mean(eta), problem.dual(eta, state.cost)[0]
        points = [(prior.penalty(mu) + problem.C * hinge, mu, eta, "last", state.cost)]
        if state.n_averaged:
            mu = prior.mean(state.average)
            primal = self._primal(problem, state, mu)
            points.append((primal, mu, state.average.copy(), "average", state.average_cost))
        primal, mu, eta, which, cost = min(points, key=lambda point: point[0])
        self._set_objective_at_zero(problem, state)
        return Evaluation.certified(problem, mu, eta, primal, dual, which, cost)

    def _primal(self, problem: Problem, state: DualState, w: FloatArray) -> float:
        problem.n_oracle += sum(state.sizes)
        return problem.prior.penalty(w) + problem.C * self._sum(problem, state, of_part.losses_at, w).loss

    def _set_objective_at_zero(self, problem: Problem, state: DualState) -> None:
        """Compute the objective at zero weights, the scale of relative gaps, where the parts are held."""
        if problem.objective_at_zero is None:
            zero = np.zeros(problem.n_weights)
            value = self._primal(problem, state, zero)
            if not np.isfinite(value):
                value = self._primal(problem, state, problem.exact_prior.mean(zero))
            problem.objective_at_zero = value


def n_rounds(problem: Problem, work: list[float]) -> int:
    """Return the number of rounds in a pass, given the work of each part."""
    total = sum(work)
    rounds = min(MAX_ROUNDS, SHARE_OF_ADDING * total / problem.n_weights)
    if len(work) > 1:
        return int(max(rounds, 1))
    return min(int(max(total / MAX_WORK_PER_ROUND, rounds, 1)), problem.n_examples)


def support_of(state: DualState) -> Support:
    """Return the labellings with dual weight, of all parts."""
    K, firsts = len(state.sizes), np.cumsum([0, *state.sizes])
    labellings = [part.sets.labellings() for part in state.collected().states]
    return Support(
        np.concatenate([first + examples for first, (examples, *_) in zip(firsts, labellings)]),
        np.concatenate([weights / K for _, weights, *_ in labellings]),
        np.concatenate([labels for *_, labels in labellings]).astype(np.int32),
    )
