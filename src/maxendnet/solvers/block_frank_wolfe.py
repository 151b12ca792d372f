"""Generalised block-coordinate Frank-Wolfe: the default for every hinge model."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import n_shards
from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.settings import require_count
from maxendnet.solvers.base import Evaluation, Solver, Support
from maxendnet.solvers.parts import InParts, PartsState, check_parts, in_one, round_of
from maxendnet.structures.forest import single_is_enough
from maxendnet.structures.padded_blocks import AtOnce, KernelPrior

MOST_FALLS = 4
"""Passes with several examples at once that are taken back, before it is given up; rounds are halved each time."""
MOST_HALVED = 7
SMALL_C = 4.0
"""Divided by the mean of ``|x|^2`` over the nodes and by the variance of the prior: a C that is small. There a ramp
saves no passes (with ramps of 0 and 7: addresses, C = 0.3, gap 3e-2, 66 and 79 passes; Chinese words, C = 0.3, gap
5e-2, 108 and 110; 700 OCR words, C = 1, gap 1e-3, 1,200 and 1,226), and weights are of use earlier without one: on
chunks of CoNLL-2000 with C = 0.1, F1 on sentences that were held out is 93.5 after 8 passes, and 91.6 with a ramp of
7."""


COPIED = ("sets", "eta", "weights", "gaps", "average")
"""What passes change in place."""


@dataclass
class DualState:
    """A dual point and what goes with it; the arrays are changed in place."""

    sets: _kernels.ActiveSets
    eta: FloatArray
    """Padded."""
    weights: NDArray
    """mean(eta), as the recursions read it."""
    gaps: FloatArray
    """Last known gap of every block."""
    C: float
    """Size of the dual simplices: grows to the C of the problem in the first passes."""
    rng: np.random.Generator
    problem: Problem
    """The problem whose examples and costs make labellings dual points."""
    average: FloatArray
    """Weighted average of eta over the passes, and of sum alpha l."""
    average_cost: float = 0.0
    n_averaged: int = 0
    n_falls: int = 0
    """Passes with several examples at once that were taken back, since the dual had fallen."""


@dataclass(eq=False, repr=False)
class BlockFrankWolfe(Solver):
    """Block-coordinate Frank-Wolfe on the dual of any factorised prior, with pairwise steps and exact line search.

    One update takes one example: decode it with its costs added, then move dual weight from the worst labelling of its
    active set to the one found, by the step that is best for the dual. After the first pass examples are drawn in
    proportion to the root of their last known share of the duality gap; every ``check_every`` passes all shares are
    computed afresh, and their sum, primal minus dual, certifies the point. Stops when that gap, relative, is at most
    ``tol``.

    After Lacoste-Julien et al. 2013 (Algorithm 4) and Osokin et al. 2016 (pairwise steps, gap sampling), who treat the
    Gaussian prior.

    Parameters
    ----------
    check_every : int, default=10
        Passes between two looks at the whole gap.
    ramp : int or None, default=None
        Under a Gaussian prior, start with C halved so many times, and double it whenever the gap is below a fifth: dual
        weight finds its place while there is little of it, which saves most of the passes when C is large. (Under a
        Laplace prior it saved nothing.) None is 7, or as many as make C a small one (`SMALL_C`).
    inner : int, default=0
        Further steps within the active set at each visit, without decoding.
    average : bool, default=True
        Also keep the average of the iterates, later ones weighted higher. Of the last iterate and the average the one
        with the lower objective is returned, and named in ``which_``.
    sampling : {"gap", "uniform"}, default="gap"
    parts : int or None, default=None
        Cut the examples into so many parts that are updated at the same time, on the threads or the workers of the
        backend, and whose changes are added (see `maxendnet.solvers.parts`): the dual never falls, but it takes more
        passes, so that it is of use only where examples are many (benchmarks/SCALE.md). The result depends on the
        number of parts, and not on that of threads or workers. None is 1 in this process, and one for every thread of
        the workers of a cluster.
    at_once : int, default=1
        Examples of a part that are updated at the same time, on the threads of the fit: all begin at the same eta, and
        after some 16 examples each their changes are added. With 2 it takes about as many passes as one after the
        other, and a third more CPU time (benchmarks/SPEED.md). A pass after which the dual is lower is taken back, and
        made one by one. The result depends on this number, and not on ``n_jobs``. Structures that are no forests go
        one by one.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> model = M3N(solver=BlockFrankWolfe(check_every=5)).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> model.converged_
    True
    """

    check_every: int = 10
    ramp: int | None = None
    inner: int = 0
    average: bool = True
    sampling: str = "gap"
    parts: int | None = None
    at_once: int = 1
    requires = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.kernel_args",
        "structure.blocks",
        "backend.hold",
        "not tilted",
        "not cost_table.joint",
    )

    def check(self) -> None:
        check_parts(self.parts)
        require_count("at_once", self.at_once)
        if self.sampling not in ("gap", "uniform"):
            raise ValueError(f"sampling must be 'gap' or 'uniform', got {self.sampling!r}.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")
        if not (self.inner >= 0 and (self.ramp is None or self.ramp >= 0)):
            raise ValueError(f"inner and ramp must be at least 0, got inner={self.inner!r}, ramp={self.ramp!r}.")

    def start(
        self, problem: Problem, warm: DualState | PartsState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> Any:
        self.check()
        if not in_one(self.parts, problem):
            return InParts(self).start(problem, seed, tol)
        blocks, batch = problem.structure.blocks, problem.batch
        # float32 finds labellings well enough unless numbers are large or the last digits of the gap are wanted
        small = batch.largest <= 1e4 and single_is_enough(problem.dual_prior.mean(np.zeros(problem.n_weights)), batch)
        single = small and problem.cost_is_small and tol >= 1e-6
        C = self.first_C(problem)
        state = DualState(
            sets=_kernels.ActiveSets(batch.offsets, batch.y, batch.sample_weight, C),
            eta=np.zeros(blocks.size),
            weights=np.zeros(0, dtype=np.float32 if single else np.float64),
            gaps=np.full(problem.n_examples, np.inf),
            C=C,
            rng=np.random.default_rng(seed),
            problem=problem,
            average=np.zeros(problem.n_weights if self.average else 0),
        )
        if isinstance(warm, DualState) and problem.same_sum(warm.problem):
            # an earlier dual point of the same examples, scaled to the new C and into the new domain
            state.sets, state.C = warm.sets.copy(), warm.C
            self.refresh_eta(problem, state)
            self._rescale(problem, state, problem.C)
        self.set_weights(problem, state)
        return state

    def first_C(self, problem: Problem) -> float:
        """The C to begin with."""
        return problem.C / 2 ** self.n_halved(problem)

    def n_halved(self, problem: Problem) -> int:
        """How often C is halved for the beginning."""
        if capable(problem.prior, "kernel").kernel_args()[0] != "gaussian":
            return 0
        if self.ramp is not None:
            return self.ramp
        small = small_C(problem)
        n = 0
        while n < MOST_HALVED and problem.C / 2**n > small:
            n += 1
        return n

    def of_part(self, problem: Problem) -> BlockFrankWolfe:
        """For a part of the examples; all parts begin with the same C."""
        return replace(self, parts=1, at_once=1, ramp=self.n_halved(problem))

    def carried(self, problem: Problem, state: DualState | PartsState) -> DualState | None:
        """The same dual weights: labellings and their costs do not depend on which labels are taken for the true."""
        if isinstance(state, PartsState):
            return None
        sets = state.sets.copy()
        sets.set_truth(problem.batch.offsets, problem.batch.y)
        return replace(state, sets=sets, problem=problem)

    def support(self, problem: Problem, state: DualState | PartsState) -> Support | Callable[[], Support]:
        """The active labellings of the last iterate."""
        if isinstance(state, PartsState):
            return partial(InParts(self).support, state)
        examples, weights, _, labels = state.sets.labellings()
        return Support(examples, weights, labels.astype(np.int32))

    def _rescale(self, problem: Problem, state: DualState, C: float) -> None:
        """The same dual point for another C, moved along its ray to where the dual is largest."""
        factor = C / state.C
        eta = factor * problem.structure.blocks.unpad(state.eta)
        state.sets.scale(factor, problem.dual(eta, factor * state.sets.total_cost())[1])
        state.C = C
        self.refresh_eta(problem, state)

    def step(self, problem: Problem, state: Any) -> Any:
        if isinstance(state, PartsState):
            return InParts(self).step(problem, state)
        if state.C < problem.C and state.gaps.sum() < 0.1 * state.sets.total_cost():
            self._rescale(problem, state, min(2 * state.C, problem.C))
            self.set_weights(problem, state)
        picks = self.draw(problem, state)
        if not self._pass_at_once(problem, state, picks):
            self._pass(problem, state, picks)
        problem.n_oracle += len(picks)
        return state

    def _pass(
        self, problem: Problem, state: DualState, picks: NDArray[np.int64], at_once: AtOnce | None = None
    ) -> None:
        blocks, total_cost, prior = problem.structure.blocks, state.sets.total_cost(), kernel_prior(problem)
        work = len(problem.batch.parent) * problem.structure.work_per_node
        for some in np.array_split(picks, self.rounds_of_one(problem, work)):
            total_cost += self.change(problem, state, some, prior, at_once)
            if self.average and state.C == problem.C:
                # the k-th point counts k times: the average forgets the beginning
                state.n_averaged += 1
                share = 2 / (state.n_averaged + 1)
                state.average += share * (blocks.unpad(state.eta) - state.average)
                state.average_cost += share * (total_cost - state.average_cost)

    def _pass_at_once(self, problem: Problem, state: DualState, picks: NDArray[np.int64]) -> bool:
        """A pass with several examples at a time; False, and all as before, if the dual fell or none is to be made."""
        several = self.at_once > 1 and problem.structure.capabilities.parallel_blocks
        if not several or state.n_falls >= MOST_FALLS:
            return False
        before, dual = self.copied(state), self._dual_here(problem, state)
        picks_of_a_round = max(1, round_of(problem) >> state.n_falls)
        n_threads = getattr(problem.backend, "n_jobs", 1)
        at_once = AtOnce.of(self.at_once, n_threads, picks_of_a_round, state.eta, state.weights)
        self._pass(problem, state, picks, at_once)
        if self._dual_here(problem, state) >= dual - 1e-9 * abs(dual):
            return True
        for name in COPIED:
            setattr(state, name, getattr(before, name))
        state.average_cost, state.n_averaged = before.average_cost, before.n_averaged
        state.n_falls += 1
        return False

    def _dual_here(self, problem: Problem, state: DualState) -> float:
        """The dual as it is reported; -inf outside of the domain of the cumulant, where weights mean nothing."""
        eta = problem.structure.blocks.unpad(state.eta)
        if not np.isfinite(problem.dual_prior.cumulant(eta)):
            return -np.inf
        return self.dual(problem, eta, state.sets.total_cost())

    def due(self, problem: Problem, state: Any, n_pass: int, tol: float) -> bool:
        if n_pass % self.check_every == 0 and n_pass > 0:
            return True
        if isinstance(state, PartsState):
            return n_pass > 0 and InParts(self).nearly(problem, state, tol)
        # the last known shares were taken before each update and overrate the gap: if they are small, look
        known = float(state.gaps.sum())
        return n_pass > 0 and known <= tol * problem.gap_scale(state.sets.total_cost())

    def evaluate(self, problem: Problem, state: Any) -> Evaluation:
        if isinstance(state, PartsState):
            return InParts(self).evaluate(problem, state)
        blocks, prior = problem.structure.blocks, problem.dual_prior
        self.refresh_eta(problem, state)
        self.set_weights(problem, state)
        eta, cost = blocks.unpad(state.eta), state.sets.total_cost()
        mu = prior.mean(eta)
        hinge = self.block_gaps(problem, state, mu)
        dual = problem.dual(eta, cost)[0]
        found = [(prior.penalty(mu) + problem.C * float(hinge @ problem.batch.sample_weight), mu, eta, "last", cost)]
        if state.n_averaged:
            mu = prior.mean(state.average)
            found.append((problem.primal(mu), mu, state.average.copy(), "average", state.average_cost))
        primal, mu, eta, which, cost = min(found, key=lambda entry: entry[0])
        gap = problem.relative(primal - dual, primal)
        return Evaluation(mu, eta, primal, dual, gap, gap, which, cost)

    def block_gaps(self, problem: Problem, state: DualState, mu: FloatArray) -> FloatArray:
        """Hinge of every example at mu; the gaps of all blocks (for the C they have reached) are computed afresh."""
        hinge = np.zeros(problem.n_examples)
        look = problem.structure.blocks.look(mu, problem.cost, state.C, state.sets, hinge, state.gaps)
        problem.backend.run(lambda first, last, _: look(first, last), problem.structure.ranges())
        problem.n_oracle += problem.n_examples
        return hinge

    def refresh_eta(self, problem: Problem, state: DualState) -> None:
        """eta afresh from the active sets: rounding does not pile up, the certificate is for this very dual point."""
        blocks = problem.structure.blocks
        state.eta[:] = problem.backend.sum_ranges(
            lambda first, last, eta: blocks.add_features(state.sets, first, last, eta),
            problem.structure.ranges(n_shards(problem.structure)),
            blocks.size,
        )

    # ---- of all examples, or of a part of them -------------------------------------------------------------------

    def rounds_of_one(self, problem: Problem, work: float) -> int:
        """Points of the average in a pass."""
        # at most about 50 ms each, so that Ctrl-C is heard; the cost of the average is kept to a twentieth of the work
        n_calls = int(max(work / 2e7, min(16, 0.05 * work / problem.n_weights), 1))
        return min(n_calls, problem.n_examples)

    def draw(self, problem: Problem, state: DualState) -> NDArray[np.int64]:
        """The examples of the next pass."""
        n = problem.n_examples
        if self.sampling == "uniform" or not np.all(np.isfinite(state.gaps)):
            return state.rng.permutation(n).astype(np.int64)
        # in proportion to the root: what is known of a gap ages, and other examples would wait too long
        cumulative = np.cumsum(np.sqrt(state.gaps))
        picks = np.searchsorted(cumulative, state.rng.random(n) * cumulative[-1], side="right").clip(0, n - 1)
        return picks.astype(np.int64)

    def change(
        self, problem: Problem, state: DualState, picks: NDArray[np.int64], prior: KernelPrior | None = None,
        at_once: AtOnce | None = None,
    ) -> float:  # fmt: skip
        """A step for every picked example; by how much the costs changed."""
        blocks, prior, changed = problem.structure.blocks, prior or kernel_prior(problem), 0.0
        work = np.diff(problem.batch.offsets)[picks].sum() * problem.structure.work_per_node
        for some in np.array_split(picks, max(1, min(len(picks), int(work / 5e7)))):  # so that Ctrl-C is heard
            asked = (prior, state.C, state.weights, state.eta, problem.cost, some, self.inner, state.sets, state.gaps)
            changed += blocks.update(*asked) if at_once is None else blocks.update_at_once(*asked, at_once)
        return changed

    def set_eta(self, problem: Problem, state: DualState, eta: FloatArray) -> None:
        """Go on from there, with the same active sets."""
        state.eta[:] = eta
        self.set_weights(problem, state)

    def scale(self, state: DualState, factor: float, share: float, C: float) -> None:
        state.sets.scale(factor, share)
        state.C = C

    def own(self, state: DualState) -> float:
        return state.sets.total_cost()

    def look(self, problem: Problem, state: DualState) -> tuple[float, float]:
        """Sum of hinges, and costs; the gaps of all blocks are computed afresh."""
        mu = problem.dual_prior.mean(problem.structure.blocks.unpad(state.eta))
        hinge = self.block_gaps(problem, state, mu)
        return float(hinge @ problem.batch.sample_weight), state.sets.total_cost()

    def dual(self, problem: Problem, eta: FloatArray, cost: float) -> float:
        return problem.dual(eta, cost)[0]

    def copied(self, state: DualState) -> DualState:
        """The same state as it is now, without its examples."""
        arrays = {name: getattr(state, name).copy() for name in COPIED}
        return replace(state, **arrays, rng=deepcopy(state.rng), problem=None)  # type: ignore[arg-type]

    def given_back(self, problem: Problem, state: DualState) -> DualState:
        """A copied state with its examples."""
        return replace(self.copied(state), problem=problem)

    def set_weights(self, problem: Problem, state: DualState) -> None:
        blocks = problem.structure.blocks
        mu = problem.dual_prior.mean(blocks.unpad(state.eta))
        state.weights = blocks.for_search(mu, state.weights.dtype.type)


def small_C(problem: Problem) -> float:
    """A C that needs no smaller one to begin with; 0 where examples are on workers, and not known here."""
    batch = getattr(problem.structure, "batch", None)
    if batch is None:
        return 0.0
    size = float(batch.data @ batch.data) * float(np.mean(capable(problem.prior, "kernel").kernel_args()[1][0]))
    return SMALL_C * len(batch.parent) / size if size > 0 else np.inf


def kernel_prior(problem: Problem) -> KernelPrior:
    """The prior as the kernels take it."""
    kind, params = capable(problem.prior, "kernel").kernel_args()
    wide = lambda values: problem.structure.blocks.pad(np.broadcast_to(np.asarray(values, float), problem.n_weights))  # noqa: E731
    if kind == "gaussian" and any(np.ndim(p) > 0 for p in params):
        return kind, 0.0, 0.0, wide(params[0]), wide(params[1])
    if kind == "proximal_l1":
        return kind, float(params[0]), float(params[1]), None, wide(params[2])
    a, b = (*map(float, params), 0.0)[:2]
    return kind, a, b, None, None
