"""Dual ascent on several parts of the examples at a time, whose changes are added: CoCoA.

With K parts that begin at the same ``eta``, and change it by ``d_k`` each, ``phi(eta + sum d_k)`` is at most
``1/K sum phi(eta + K d_k)``, since the cumulant is convex. So if every part raises its own share of the dual minus
``phi(eta + K d_k) / K``, the dual of the sum does not fall, whatever the prior; to add changes that were made for
``phi`` itself could even leave its domain. Times K, what a part raises is the dual of its examples alone with K times
their dual weights and K times C: a part is the solver itself, on a problem of its own.

After Jaggi et al. 2014 and Ma et al. 2015 (safe adding), who treat smooth conjugates.

A part lives where the backend holds it, in this process or on a worker, and is changed there. What is asked of it are
the functions at the end of this module; sums of what they return are all that comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends import Partial, Threads
from maxendnet.data.placed import PlacedData
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Lost, Support

ROUNDS = 16
"""Times that changes are added in a pass, at most."""
SHARE_OF_ADDING = 0.05
"""Of the work of a pass that may go into adding changes."""
LEAST_ROUND = 16
"""Examples between two sums, at least: fewer take less time than threads need to meet."""


def check_parts(parts: Any) -> None:
    """Raise ``ValueError`` unless this is a number of parts."""
    if parts is not None and (isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or parts < 1):
        raise ValueError(f"parts must be None or a whole number of at least 1, got {parts!r}.")


def n_parts(parts: int | None, problem: Problem) -> int:
    """How many parts to make: None is one here, and elsewhere one for every thread of the workers."""
    if parts is not None:
        return int(parts)
    return 1 if problem.backend.local else problem.backend.n_slots()


def in_one(parts: int | None, problem: Problem) -> bool:
    """Whether the solver goes through all examples itself."""
    return problem.backend.local and n_parts(parts, problem) == 1


def round_of(problem: Problem) -> int:
    """Examples in a row between two sums of changes, where several are updated at once (kernels/parts.hpp).

    The fewer, the fewer passes, and the more time goes into sums. An L2-CRF on CoNLL-2000 takes 15 passes one by one;
    two at once 21, 17 and 16 with a factor of 4, 2 and 1 here.
    """
    structure = problem.structure
    work = structure.work_per_node * max(1.0, float(structure.offsets[-1]) / max(1, problem.n_examples))
    return int(max(LEAST_ROUND, 2 * structure.blocks.size / work))


# ---- what this process knows ----------------------------------------------------------------------------------------


@dataclass
class PartsState:
    """The dual point of all parts, as far as this process knows it."""

    eta: FloatArray
    """Padded."""
    C: float
    """Size of the dual simplices, as in `BlockFrankWolfe`."""
    average: FloatArray
    """Weighted average of eta over the rounds, and of what the costs were."""
    states: list[Any]
    """The states of the parts, where they are not held anywhere."""
    sizes: list[int]
    """Examples of every part."""
    n_rounds: int
    """Rounds of a pass."""
    own: float = 0.0
    """The share of the dual that belongs to examples: sum alpha l, or entropies."""
    gaps: float = np.inf
    """Sum of the last known gaps of all examples."""
    average_own: float = 0.0
    n_averaged: int = 0
    n_done: int = 0
    """Changes of the parts so far, looks included: these tell a part which examples to go to."""
    held: Any = field(default=None, compare=False)
    """Handles of the parts, on the backend that holds them."""

    @property
    def may_be_lost(self) -> bool:
        """Whether parts are on workers."""
        return self.held is not None and not self.held[0].local

    def collected(self) -> PartsState:
        """The same with the states of the parts, which are brought here; parts go on from copies of them."""
        if self.held is None:
            return replace(self, eta=self.eta.copy(), average=self.average.copy())
        backend, handles = self.held
        states = backend.each(collect, handles, self.n_done)
        return replace(self, eta=self.eta.copy(), average=self.average.copy(), states=states, held=None)


class InParts:
    """The steps of a solver of one part on several.

    Parameters
    ----------
    solver : BlockFrankWolfe
        It offers ``of_part``, ``draw``, ``change``, ``set_eta``, ``refresh_eta``, ``own`` and ``look`` for one part,
        and ``dual`` for all.
    """

    def __init__(self, solver: Any) -> None:
        self.solver = solver

    def start(self, problem: Problem, seed: Any, tol: float) -> PartsState:
        rng = np.random.default_rng(seed)
        shards = problem.data.parts(n_parts(self.solver.parts, problem))
        K = len(shards)
        seeds = [rng] if K == 1 else rng.spawn(K)
        handles = problem.backend.hold(make_part, shards, [(*self._question(problem, K), seed, tol) for seed in seeds])
        blocks = problem.structure.blocks
        sizes = problem.backend.each(weigh, handles)
        work = sum(work for work, _ in sizes)
        most = max(1, min(ROUNDS, SHARE_OF_ADDING * work / problem.n_weights))
        state = PartsState(
            np.zeros(blocks.size), self.solver.first_C(problem),
            np.zeros(problem.n_weights if getattr(self.solver, "average", False) else 0), [], [n for _, n in sizes],
            int(self.solver.rounds_of_one(problem, work) if K == 1 else most), held=(problem.backend, handles),
        )  # fmt: skip
        self._refresh(problem, state)
        return state

    def _question(self, problem: Problem, K: int) -> tuple[Any, ...]:
        return self.solver.of_part(problem), problem.loss, problem.prior, K * problem.C, K

    def _handles(self, problem: Problem, state: PartsState) -> Any:
        """The parts; they are held from here on if they were not."""
        if state.held is None:
            shards = problem.data.parts(len(state.states))
            question = self._question(problem, len(shards))
            given = [(*question, None, 1.0, own, state.n_done) for own in state.states]
            state.held = (problem.backend, problem.backend.hold(make_part, shards, given))
            state.states = []
        return state.held[1]

    def _sum(self, problem: Problem, state: PartsState, function: Callable[..., Partial], *arguments: Any) -> Partial:
        return problem.backend.sum(function, self._handles(problem, state), *arguments)

    def _refresh(self, problem: Problem, state: PartsState) -> None:
        found = self._sum(problem, state, refresh, state.n_done)
        state.eta, state.own, state.n_done = found.gradient, found.cost, state.n_done + 1

    def step(self, problem: Problem, state: PartsState) -> PartsState:
        blocks, C = problem.structure.blocks, problem.C
        if state.C < C and state.gaps < 0.1 * state.own:
            larger = min(2 * state.C, C)
            factor = larger / state.C
            share = problem.dual(factor * blocks.unpad(state.eta), factor * state.own)[1]
            found = self._sum(problem, state, rescale, state.n_done, factor, share, larger)
            state.eta, state.own, state.C, state.n_done = found.gradient, found.cost, larger, state.n_done + 1
        total = state.own
        for number in range(state.n_rounds):
            asked = (state.n_done, state.eta, number, state.n_rounds)
            found = self._sum(problem, state, update, *asked)
            state.eta = found.gradient if len(state.sizes) == 1 else state.eta + found.gradient
            state.own, state.gaps, state.n_done = found.cost, found.short, state.n_done + 1
            total += found.loss
            if state.average.size and state.C == C:
                # the k-th point counts k times: the average forgets the beginning
                state.n_averaged += 1
                share = 2 / (state.n_averaged + 1)
                state.average += share * (blocks.unpad(state.eta) - state.average)
                state.average_own += share * (total - state.average_own)
        problem.n_oracle += sum(state.sizes)
        return state

    def evaluate(self, problem: Problem, state: PartsState) -> Evaluation:
        blocks, prior = problem.structure.blocks, problem.dual_prior
        self._refresh(problem, state)
        eta = blocks.unpad(state.eta)
        seen = self._sum(problem, state, look, state.n_done, state.eta)
        problem.n_oracle += sum(state.sizes)
        state.gaps, own, state.n_done = seen.short, seen.cost, state.n_done + 1
        mu, dual = prior.mean(eta), self.solver.dual(problem, eta, own)
        found = [(prior.penalty(mu) + problem.C * seen.loss, mu, eta, "last", own)]
        if state.n_averaged:
            mu = prior.mean(state.average)
            found.append((self._primal(problem, state, mu), mu, state.average.copy(), "average", state.average_own))
        primal, mu, eta, which, own = min(found, key=lambda entry: entry[0])
        self._at_zero(problem, state)
        gap = problem.relative(primal - dual, primal)
        return Evaluation(mu, eta, primal, dual, gap, gap, which, own)

    def _primal(self, problem: Problem, state: PartsState, w: FloatArray) -> float:
        problem.n_oracle += sum(state.sizes)
        return problem.prior.penalty(w) + problem.C * self._sum(problem, state, losses_at, w).loss

    def _at_zero(self, problem: Problem, state: PartsState) -> float:
        """The scale of gaps, computed where the parts are."""
        if problem.objective_at_zero is None:
            zero = np.zeros(problem.n_weights)
            value = self._primal(problem, state, zero)
            if not np.isfinite(value):
                value = self._primal(problem, state, problem.exact_prior.mean(zero))
            problem.objective_at_zero = value
        return problem.at_zero

    def nearly(self, problem: Problem, state: PartsState, tol: float) -> bool:
        """Whether the gaps that are known are small."""
        self._at_zero(problem, state)
        return state.gaps <= tol * problem.gap_scale(state.own)

    def support(self, state: PartsState) -> Support:
        """The active labellings of all parts."""
        K, firsts = len(state.sizes), np.cumsum([0, *state.sizes])
        found = [part.sets.labellings() for part in state.collected().states]
        return Support(
            np.concatenate([first + examples for first, (examples, *_) in zip(firsts, found)]),
            np.concatenate([weights / K for _, weights, *_ in found]),
            np.concatenate([labels for *_, labels in found]).astype(np.int32),
        )


# ---- what is asked of a part, where it lives ------------------------------------------------------------------------


@dataclass
class Part:
    """Some of the examples and a solver at work on them."""

    solver: Any
    problem: Problem
    """Of these examples alone, with K times C."""
    state: Any
    K: int
    n_done: int = 0
    picks: list[NDArray[np.int64]] = field(default_factory=list)

    def expect(self, n_done: int) -> None:
        """Raise `Lost` where a worker that died took the last changes with it."""
        if self.n_done != n_done:
            raise Lost(f"A part of the examples stands at change {self.n_done}, and was expected at {n_done}.")

    def own(self) -> float:
        return self.solver.own(self.state) / self.K

    def eta(self) -> FloatArray:
        """Its share of the dual point of all, as a copy."""
        return self.state.eta / self.K


def make_part(
    structure: Any, solver: Any, loss: Any, prior: Any, C: float, K: int, seed: Any, tol: float, state: Any = None,
    n_done: int = 0,
) -> Part:  # fmt: skip
    """A part that begins, or goes on from a state."""
    problem = Problem(PlacedData(structure, Threads()), loss, prior, C)
    if state is None:
        return Part(solver, problem, solver.start(problem, None, seed, tol), K)
    return Part(solver, problem, solver.given_back(problem, state), K, n_done)


def weigh(part: Part) -> tuple[float, int]:
    """The work of a pass, and the number of examples."""
    structure = part.problem.structure
    return float(structure.offsets[-1]) * structure.work_per_node, part.problem.n_examples


def update(part: Part, n_done: int, eta: FloatArray, number: int, n_rounds: int) -> Partial:
    """One of the rounds of a pass; the change of eta, or with one part what it became."""
    part.expect(n_done)
    solver, problem, state = part.solver, part.problem, part.state
    if part.K > 1:
        solver.set_eta(problem, state, eta)
    if number == 0:
        part.picks = np.array_split(solver.draw(problem, state), n_rounds)
    changed = solver.change(problem, state, part.picks[number]) / part.K
    part.n_done += 1
    change = state.eta.copy() if part.K == 1 else (state.eta - eta) / part.K
    return Partial(changed, change, part.own(), short=float(state.gaps.sum()) / part.K)


def rescale(part: Part, n_done: int, factor: float, share: float, C: float) -> Partial:
    """The same dual point for another C."""
    part.expect(n_done)
    part.solver.scale(part.state, factor, share, part.K * C)
    part.n_done += 1
    part.solver.refresh_eta(part.problem, part.state)
    part.solver.set_eta(part.problem, part.state, part.state.eta)
    return Partial(0.0, part.eta(), part.own())


def refresh(part: Part, n_done: int) -> Partial:
    """eta afresh: rounding does not pile up, the certificate is for this very dual point."""
    part.expect(n_done)
    part.solver.refresh_eta(part.problem, part.state)
    part.n_done += 1
    return Partial(0.0, part.eta(), part.own())


def look(part: Part, n_done: int, eta: FloatArray) -> Partial:
    """Losses at the weights of eta, the share of the dual, and the gaps of all examples."""
    part.expect(n_done)
    part.solver.set_eta(part.problem, part.state, eta)
    loss, own = part.solver.look(part.problem, part.state)
    part.n_done += 1
    return Partial(loss, cost=own / part.K, short=float(part.state.gaps.sum()) / part.K)


def losses_at(part: Part, w: FloatArray) -> Partial:
    """The losses at some weights."""
    return Partial(part.problem.losses(w, gradient=False)[0])


def collect(part: Part, n_done: int) -> Any:
    """A copy of the state, without the examples."""
    part.expect(n_done)
    return part.solver.copied(part.state)
