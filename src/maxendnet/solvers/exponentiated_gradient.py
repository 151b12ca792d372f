"""Exponentiated gradient on clique marginals, for all examples at once or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxendnet import _kernels
from maxendnet.priors.base import is_number
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.block_frank_wolfe import kernel_prior
from maxendnet.structures.features import features_of, true_marginals
from maxendnet.structures.padding import lanes, pad_rows

# How far alpha may begin from uniform, towards the truth.
STARTS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def best_start(value: Callable[[float], float]) -> float:
    """Where the dual is largest; beyond 16 only if all before is outside the domain of the cumulant.

    There rounding begins to hide how much weight the other labellings have.
    """
    values: dict[float, float] = {}
    for B in STARTS:
        if B > 16 and max(values.values()) > -np.inf:
            break
        values[B] = value(B)
    return max(values, key=values.__getitem__)


class SharedState(NamedTuple):
    """Of the batch version: ``log alpha_i(y) = A l_i(y) + W . f(x_i, y) + B r_i(y)`` + constant, for every example."""

    A: float
    W: FloatArray
    B: float
    step: float
    eta: FloatArray
    cost: float
    finished: bool = False


@dataclass
class OwnState:
    """Of the online version, with potentials for every example; the arrays are changed in place."""

    node_potentials: FloatArray
    """(n_nodes, lanes)"""
    matrix_potentials: FloatArray
    """(n_examples, n_matrices, n_labels, lanes)"""
    node_marginals: FloatArray
    matrix_marginals: FloatArray
    steps: FloatArray
    """(n_examples,)"""
    rng: np.random.Generator
    eta: FloatArray
    """Padded."""
    weights: FloatArray
    """mean(eta), as the recursions read it."""
    cost: float = 0.0


@dataclass(eq=False, repr=False)
class ExponentiatedGradient(Solver):
    """Exponentiated gradient on the dual of a hinge model; stops at the relative duality gap.

    The dual variables of an example move by ``alpha_i(y) <- alpha_i(y) exp(step (l_i(y) - mu . df_i(y)))`` and are
    brought back to their sum. The exponent is a sum over nodes and edges, and so is ``log alpha_i``: sum-product finds
    the marginals, and with them ``eta = sum alpha df`` and ``mu = phi'(eta)``. The online version takes one example
    after the other, in a random order, with a step size for each; the batch version all at once with a single step
    size, so that all examples share one weight vector and one number as their potentials, and need no memory.
    A step size is halved where the dual would fall or leave the domain of the cumulant, and grows otherwise.

    Dual weight never gets to zero, where most of it belongs: the gap shrinks as one over the number of passes, and the
    last digits are for `BlockFrankWolfe` or `SMO`.

    After Bartlett et al. 2004 (batch) and Collins et al. 2008 (online), who treat the Gaussian prior.

    Parameters
    ----------
    online : bool, default=True
        The batch version needs only the cumulant of the prior, and less memory; it takes many more passes.
    step_size : float or None, default=None
        Step size to begin with; None is 1.
    grow : float, default=1.1
        Factor of a step size after a step that was taken.
    check_every : int, default=10
        Passes between two looks at the gap.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(solver=ExponentiatedGradient(), tol=0.01).fit(X, y).converged_
    True
    >>> M3N(solver=ExponentiatedGradient(online=False), tol=0.01).fit(X, y).converged_
    True
    """

    online: bool = True
    step_size: float | None = None
    grow: float = 1.1
    check_every: int = 10
    accuracy = 1e-3

    @property
    def requires(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the version
        common = ("not loss.smooth", "loss.linear_slack", "not cost_table.joint")
        return (
            (*common, "prior.kernel_args", "structure.pairwise", "backend.local", "not tilted")
            if self.online
            else (*common, "prior.cumulant")
        )

    def check(self) -> None:
        if not (self.step_size is None or (is_number(self.step_size) and 0 < self.step_size < np.inf)):
            raise ValueError(f"step_size must be None or a positive finite number, got {self.step_size!r}.")
        if not (is_number(self.grow) and 1 <= self.grow <= 2):
            raise ValueError(f"grow must be from 1 to 2, got {self.grow!r}; a step that fails is halved.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> Any:
        self.check()
        size = 1.0 if self.step_size is None else float(self.step_size)
        if not self.online:
            return self._start_shared(problem, warm, size)
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        return self._start_own(problem, warm, size, rng)

    def step(self, problem: Problem, state: Any) -> Any:
        return self._step_own(problem, state) if self.online else self._step_shared(problem, state)

    def due(self, problem: Problem, state: Any, n_pass: int, tol: float) -> bool:
        return n_pass > 0 and n_pass % self.check_every == 0

    def evaluate(self, problem: Problem, state: Any) -> Evaluation:
        if self.online:
            refresh(problem, state)
            eta = problem.structure.blocks.unpad(state.eta)
        else:
            eta = state.eta
        mu = problem.dual_prior.mean(eta)
        primal, dual = problem.primal(mu), problem.dual(eta, state.cost)[0]
        gap = problem.relative(primal - dual, primal)
        return Evaluation(mu, eta, primal, dual, gap, gap, cost=state.cost)

    # ---- batch: potentials that all examples share ---------------------------------------------------------------

    def _start_shared(self, problem: Problem, warm: SharedState | None, size: float) -> SharedState:
        zero = np.zeros(problem.n_weights)
        if isinstance(warm, SharedState) and warm.W.shape == zero.shape:
            _, eta, cost = problem.gibbs(warm.A, warm.W, warm.B)
            if np.isfinite(problem.dual_prior.cumulant(eta)):
                return warm._replace(eta=eta, cost=cost, finished=False)

        def value(B: float) -> float:
            _, eta, cost = problem.gibbs(0.0, zero, B)
            return cost - problem.dual_prior.cumulant(eta)

        B = best_start(value)
        return SharedState(0.0, zero, B, size, *problem.gibbs(0.0, zero, B)[1:])

    def _step_shared(self, problem: Problem, state: SharedState) -> SharedState:
        prior, size = problem.dual_prior, state.step
        mu, dual = prior.mean(state.eta), state.cost - prior.cumulant(state.eta)
        while size > 1e-12 * state.step:
            A, W = state.A + size, state.W + size * mu
            _, eta, cost = problem.gibbs(A, W, state.B)
            if cost - prior.cumulant(eta) >= dual:
                return SharedState(A, W, state.B, size * self.grow, eta, cost)
            size *= 0.5
        return state._replace(finished=True)  # rounding hides what is left to gain

    # ---- online: potentials for every example --------------------------------------------------------------------

    def _start_own(self, problem: Problem, warm: OwnState | None, size: float, rng: np.random.Generator) -> OwnState:
        s, batch, blocks = problem.structure.layout, problem.batch, problem.structure.blocks
        node, matrix = (len(batch.parent), lanes(s)), (problem.n_examples, s.n_matrices, s.n_labels, lanes(s))
        state = OwnState(
            np.zeros(node), np.zeros(matrix), np.zeros(node), np.zeros(matrix), np.full(problem.n_examples, size),
            rng, np.zeros(blocks.size), np.zeros(0),
        )  # fmt: skip

        def dual() -> float:
            find_marginals(problem, state)
            return state.cost - problem.dual_prior.cumulant(blocks.unpad(state.eta))

        def value(B: float) -> float:
            state.node_potentials[:] = B * truth
            return dual()

        if isinstance(warm, OwnState) and warm.matrix_potentials.shape == matrix and warm.node_potentials.shape == node:
            state.node_potentials[:], state.matrix_potentials[:] = warm.node_potentials, warm.matrix_potentials
            if dual() > -np.inf:
                state.steps = warm.steps.copy()
                return state
            state.matrix_potentials[:] = 0.0
        truth = pad_rows(s, np.eye(s.n_labels))[batch.y]
        value(best_start(value))
        return state

    def _step_own(self, problem: Problem, state: OwnState) -> OwnState:
        structure, batch = problem.structure, problem.batch
        cost, picks = (
            pad_rows(structure.layout, problem.cost),
            state.rng.permutation(problem.n_examples).astype(np.int64),
        )
        # a call takes some 50 ms at most, so that Ctrl-C is heard
        n_calls = int(max(1, len(batch.parent) * structure.work_per_node / 5e6))
        for part in np.array_split(picks, min(n_calls, len(picks))):
            _kernels.exponentiated_gradient(
                batch, structure.shape, *kernel_prior(problem), problem.C, state.weights, state.eta, cost, part,
                most_spread(problem), self.grow, state.steps, state.node_potentials, state.matrix_potentials,
                state.node_marginals, state.matrix_marginals,
            )  # fmt: skip
        problem.n_oracle += problem.n_examples
        return state


def most_spread(problem: Problem) -> float:
    """The range of edge scores up to which sum-product may work with scaled probabilities, as in `sum_mode`."""
    return 400.0 / (problem.batch.max_children + 1)


def find_marginals(problem: Problem, state: OwnState) -> None:
    """Marginals from the potentials, and all that follows from them."""
    problem.backend.run(
        lambda first, last, _: _kernels.potential_marginals(
            problem.batch, problem.structure.shape, first, last, most_spread(problem), state.node_potentials,
            state.matrix_potentials, state.node_marginals, state.matrix_marginals,
        ),
        problem.structure.ranges(),
    )  # fmt: skip
    problem.n_oracle += problem.n_examples
    refresh(problem, state)


def refresh(problem: Problem, state: OwnState) -> None:
    """eta and the cost afresh from the marginals: rounding does not pile up, the certificate is for this dual point."""
    s, batch, blocks = problem.structure.layout, problem.batch, problem.structure.blocks
    size = problem.C * batch.sample_weight
    node = np.repeat(size, np.diff(batch.offsets))[:, None] * state.node_marginals[:, : s.n_labels]
    matrices = np.einsum("i,imab->mab", size, state.matrix_marginals[..., : s.n_labels])
    true_node, true_matrices = true_marginals(s, batch, size)
    eta = features_of(s, batch, true_node - node, true_matrices - matrices)
    state.eta[:] = blocks.pad(eta)
    state.cost = float(np.sum(node * problem.cost[batch.row]))
    state.weights = blocks.for_search(problem.dual_prior.mean(eta))
