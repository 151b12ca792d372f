"""The subgradient method on one example at a time, with or without projection onto the L1 ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxendnet.losses.base import LossQuestion, loss_oracle
from maxendnet.priors.base import capable, is_number, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.l1_projection import project_l1_ball
from maxendnet.solvers.subgradient import best_step


class OnlineState(NamedTuple):
    """The iterate, the average of all, and the best dual point that looks at all examples have found."""

    point: FloatArray
    """``eta = gradient(mu)`` under a prior with a cumulant, the weights themselves in the L1 ball."""
    average: FloatArray
    """Of the points; later ones count more."""
    n_steps: int
    squares: float
    """Sum of the squared slopes so far."""
    rng: np.random.Generator
    eta: FloatArray
    """``sum alpha df`` of the dual point."""
    gain: float
    """Its ``sum alpha l``, less the price of its slack."""
    mean: FloatArray | None = None
    """Of all corners, later ones count more: another dual point; and what it earns."""
    mean_gain: float = 0.0
    n_looks: int = 0
    primal: float = np.inf
    """Objective of the better one of the last iterate and the average, at the last look."""
    w: FloatArray | None = None
    which: str = "last"
    seen: int = -1
    """Steps before the last look."""


@dataclass(eq=False, repr=False)
class OnlineSubgradient(Solver):
    """The on-line subgradient method of Ratliff et al. (2007), which the paper uses: a step for every example.

    Under a prior with a cumulant a step of size s takes ``eta = gradient(mu)`` to ``(1 - s/n) eta - s C g``, with g a
    subgradient of the loss of the example; under a Gaussian prior these are the weights. In the L1 ball a step is
    ``w - s C g``, projected. The average of all points is returned, or the last if it is better (``which_``).

    Steps on single examples certify nothing. Every ``check_every`` passes there is a look at all examples: the features
    of their worst labellings are a corner of the dual domain. A dual point moves towards it as in Frank-Wolfe, another
    one is the mean of all corners; the better one counts.
    The gap is true and far from tight: this is for comparison with the paper, and `BlockFrankWolfe` also takes one
    example at a time.

    Parameters
    ----------
    beta : float or None, default=None
        Step sizes ``1 / (2 beta sqrt(t))`` for the t-th example, as in the paper, which takes them with
        ``C = 200 beta``. None is ``n / (n + t)``, and in the ball ``0.3 radius / sqrt(sum of all |C g|^2 so far)``.
    check_every : int, default=5
        Passes between two looks.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> model = M3N(solver=OnlineSubgradient(beta=1.0), tol=0.5, random_state=0).fit(X, y)
    >>> model.predict(X)
    [['a', 'b'], ['b']]
    """

    beta: float | None = None
    check_every: int = 5
    requires = ("not loss.smooth", "prior.cumulant or prior.radius", "backend.local", "not tilted")
    accuracy = 0.1

    def check(self) -> None:
        if self.beta is not None and not (is_number(self.beta) and 0 < self.beta < np.inf):
            raise ValueError(f"beta must be a positive finite number, or None for other step sizes, got {self.beta!r}.")
        if not self.check_every >= 1:
            raise ValueError(f"check_every must be at least 1, got {self.check_every!r}.")

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> OnlineState:
        self.check()
        zero = np.zeros(problem.n_weights)
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        return OnlineState(zero, zero, 0, 0.0, rng, zero, 0.0)

    def step(self, problem: Problem, state: OnlineState) -> OnlineState:
        structure, n, C = problem.structure, problem.n_examples, problem.C
        point, average, t, squares = state.point.copy(), state.average.copy(), state.n_steps, state.squares
        question = LossQuestion(problem.loss, C)
        for i in state.rng.permutation(n).tolist():
            t += 1
            one = structure.take(i, i + 1)
            found = loss_oracle(one, self._weights(problem, point), question)
            slope = C * one.unpack(found.gradient)
            squares += float(slope @ slope)
            point = self._moved(problem, point, self._size(problem, t, n, squares), slope, n)
            average += 2.0 / (t + 1) * (point - average)  # the k-th point counts k times
        problem.n_oracle += n
        state = state._replace(point=point, average=average, n_steps=t, squares=squares)
        return self._look(problem, state) if (t // max(n, 1)) % self.check_every == 0 else state

    def _size(self, problem: Problem, t: int, n: int, squares: float) -> float:
        """Size of the t-th step."""
        if self.beta is not None:
            return 1.0 / (2.0 * self.beta * np.sqrt(t))
        if offers(problem.prior, "l1_ball"):
            return 0.3 * capable(problem.prior, "l1_ball").radius / np.sqrt(squares) if squares > 0 else 0.0
        return n / (n + t)

    @staticmethod
    def _moved(problem: Problem, point: FloatArray, size: float, slope: FloatArray, n: int) -> FloatArray:
        """The point after a step for one of n examples."""
        prior = problem.prior
        if offers(prior, "l1_ball"):
            return project_l1_ball(point - size * slope, capable(prior, "l1_ball").radius)
        cumulant = problem.exact_prior.cumulant
        size = min(size, float(n))
        while True:
            moved = point - size * (point / n + slope)
            if np.isfinite(cumulant(moved)):  # where the domain of the prior ends, steps are shortened
                return moved
            size *= 0.5

    @staticmethod
    def _weights(problem: Problem, point: FloatArray) -> FloatArray:
        return point if offers(problem.prior, "l1_ball") else problem.exact_prior.mean(point)

    def due(self, problem: Problem, state: OnlineState, n_pass: int, tol: float) -> bool:
        return n_pass % self.check_every == 0

    def _look(self, problem: Problem, state: OnlineState) -> OnlineState:
        """Look at all examples: which of last iterate and average is better, and a better dual point."""
        found: list[tuple[float, str, FloatArray]] = []
        eta, gain, n_looks = state.eta, state.gain, state.n_looks + 1
        mean = np.zeros(problem.n_weights) if state.mean is None else state.mean
        mean_gain = state.mean_gain
        for which, point in (("last", state.point), ("average", state.average)):
            w = self._weights(problem, point)
            here = problem.look(w)
            found.append((problem.prior.penalty(w) + problem.C * here.loss, which, w))
            # a loss is l(y*) - w . df(y*) at its worst labelling, so what the corner earns follows from the loss
            corner = -problem.C * here.gradient
            earned = problem.C * (here.loss - here.short) + float(w @ corner)
            eta, gain = self._nearer(problem, eta, gain, corner, earned)
            share = (2.0 if which == "average" else 1.0) / (n_looks + 1)
            mean, mean_gain = mean + share * (corner - mean), mean_gain + share * (earned - mean_gain)
        if self._dual(problem, mean, mean_gain) > self._dual(problem, eta, gain):
            eta, gain = mean, mean_gain
        primal, which, w = min(found, key=lambda entry: entry[0])
        return state._replace(
            eta=eta, gain=gain, mean=mean, mean_gain=mean_gain, n_looks=n_looks, primal=primal, w=w, which=which,
            seen=state.n_steps,
        )  # fmt: skip

    def evaluate(self, problem: Problem, state: OnlineState) -> Evaluation:
        if state.seen != state.n_steps:
            state = self._look(problem, state)
        assert state.w is not None
        dual = self._dual(problem, state.eta, state.gain)
        gap = problem.relative(state.primal - dual, state.primal)
        eta = None if offers(problem.prior, "l1_ball") else state.eta
        return Evaluation(state.w, eta, state.primal, dual, gap, gap, state.which, state.gain)

    def _nearer(
        self, problem: Problem, eta: FloatArray, gain: float, corner: FloatArray, corner_gain: float
    ) -> tuple[FloatArray, float]:
        """The best dual point between one and a corner."""
        d, b = corner - eta, corner_gain - gain
        if offers(problem.prior, "l1_ball"):
            sizes = np.linspace(0.0, 1.0, 33)
            size = float(max(sizes, key=lambda s: self._dual(problem, eta + s * d, gain + s * b)))
        else:
            size = best_step(problem.exact_prior, eta, d, b)
        return eta + size * d, gain + size * b

    @staticmethod
    def _dual(problem: Problem, eta: FloatArray, gain: float) -> float:
        if offers(problem.prior, "l1_ball"):
            return max(0.0, gain - capable(problem.prior, "l1_ball").radius * float(np.abs(eta).max(initial=0.0)))
        return problem.dual(eta, gain)[0]
