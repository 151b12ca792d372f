"""Extragradient method for the saddle-point form of hinge models, with relative entropy as the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation
from maxendnet.solvers.reference.base import DualSolver
from maxendnet.solvers.reference.exponentiated_gradient import MAX_POTENTIAL, STARTS
from maxendnet.utils.checks import is_number
from maxendnet.utils.state_fields import NonNegative, require, require_equal, require_point, rounding_of


class Gibbs(NamedTuple):
    """A dual point with the potentials ``A l + W . f + B r`` in all examples, and the results of `Problem.gibbs`."""

    A: float
    W: FloatArray
    B: float
    value: float
    eta: FloatArray
    cost: float

    def check(self, problem: Problem) -> None:
        """Recompute the dual point."""
        require(max(abs(self.A), abs(self.B)) <= MAX_POTENTIAL, f"the potentials have A={self.A} and B={self.B}")
        value, eta, cost = problem.gibbs(self.A, self.W, self.B)
        require_point((self.eta, self.cost), (eta, cost), "the potentials", rounding_of(problem))
        require_equal(self.value, value, "value of the potentials", 1.0, rounding_of(problem))


class SaddleState(NamedTuple):
    """The two players (alpha and mu), their averages, and the step size."""

    alpha: Gibbs
    eta: FloatArray
    """Average of the dual points; the player mu is ``phi'(eta)``."""
    cost: float
    """The same average of their costs."""
    total: NonNegative
    """Total weight in these averages: the sum of the step sizes."""
    mean_eta: FloatArray
    """Average of the eta of the trial points; under a Gaussian prior its mean is the average of the trial mu."""
    mean_cost: float
    """The same average of their costs."""
    size: NonNegative
    mu: FloatArray
    C: NonNegative
    finished: bool = False


@dataclass(eq=False, repr=False)
class Extragradient(DualSolver):
    """Extragradient method for the saddle-point form of a hinge model.

    Solves ``min over mu, max over alpha: penalty(mu) + sum alpha l - mu . eta(alpha)``.

    Each pass makes a trial step of both players, computes the gradients there, and uses them for the actual step from
    the starting point. mu is the mean under the prior at an average of dual points, weighted by step sizes. These sizes
    can grow with the number of passes, because the accumulated weight of the prior increases as well. As a result, the
    gap decreases with the square of the number of passes. Averages of the dual points and of mu are returned and
    certified.

    Taskar et al. 2006 replace the prior by a ball, and project marginals in Euclidean distance, which is a minimum-cost
    flow for matchings. For forests no such algorithm is known. With relative entropy as the distance, the projection is
    one sum-product, and a single weight vector represents the dual points of all examples. The distances are those of
    Nesterov's dual extrapolation (2007).

    Step sizes grow until the condition under which the method converges would be violated. Designed for gaps of about
    1e-3: for smaller gaps the potentials become large, and sum-product must work in logarithms, which is ten times
    slower.

    Parameters
    ----------
    grow : float, default=1.2
        Factor by which the step size grows after a successful step; it is halved after a failed one.
    check_every : int, default=10
        Passes between two evaluations of the gap.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(solver=Extragradient(), tol=0.01).fit(X, y).converged_
    True
    """

    grow: float = 1.2
    check_every: int = 10
    requires: ClassVar[tuple[str, ...]] = (
        "not loss.smooth",
        "loss.linear_slack",
        "prior.cumulant",
        "not cost_table.joint",
    )

    def check(self) -> None:
        super().check()
        if not (is_number(self.grow) and 1 <= self.grow <= 2):
            raise ValueError(f"grow must be from 1 to 2, got {self.grow!r}; a step that fails is halved.")

    def start(
        self, problem: Problem, warm: SaddleState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> SaddleState:
        self.check()
        zero = np.zeros(problem.n_weights)
        if warm is not None and warm.eta.shape == zero.shape:
            return self._resume(problem, warm)
        for B in STARTS:  # the smallest bonus of true labels for which eta is in the domain of the cumulant
            alpha = Gibbs(0.0, zero, B, *problem.gibbs(0.0, zero, B))
            if np.isfinite(problem.exact_prior.cumulant(alpha.eta)):
                break
        # the average starts with a small weight at the true labellings, whose eta = 0 is in the domain of any cumulant
        return SaddleState(alpha, zero, 0.0, 1e-3, zero, 0.0, 1e-3, problem.exact_prior.mean(zero), problem.C)

    def _resume(self, problem: Problem, warm: SaddleState) -> SaddleState:
        A, W, B = warm.alpha[:3]
        value, eta, cost = problem.gibbs(A, W, B)
        factor = problem.C / warm.C
        same_examples = value == warm.alpha.value and np.allclose(eta, factor * warm.alpha.eta, rtol=1e-12, atol=0.0)
        if same_examples:
            if factor == 1 and np.array_equal(problem.exact_prior.mean(warm.eta), warm.mu):
                return warm._replace(finished=False)  # the problem is the same too
            eta, cost = factor * warm.eta, factor * warm.cost
        # Reduce the weight of the average and the size of the potentials, so that the new problem can change them.
        share, early = problem.dual(eta, cost)[1], 0.1
        eta, cost, A, W = share * eta, share * cost, early * A, early * W
        return SaddleState(
            Gibbs(A, W, B, *problem.gibbs(A, W, B)), eta, cost, early * warm.total, eta, cost, early * warm.size,
            problem.exact_prior.mean(eta), problem.C,
        )  # fmt: skip

    def step(self, problem: Problem, state: SaddleState) -> SaddleState:
        prior, alpha, total, size = problem.exact_prior, state.alpha, state.total, state.size

        def average(point: Gibbs) -> tuple[FloatArray, float, FloatArray]:
            share = size / (total + size)
            eta = state.eta + share * (point.eta - state.eta)
            return eta, state.cost + share * (point.cost - state.cost), prior.mean(eta)

        def reached(mu: FloatArray) -> Gibbs:
            A, W = alpha.A + size, alpha.W + size * mu
            return Gibbs(A, W, alpha.B, *problem.gibbs(A, W, alpha.B))

        def inside(eta: FloatArray, mu: FloatArray) -> bool:
            return bool(np.isfinite(prior.cumulant(eta)) and np.all(np.isfinite(mu)))

        while size > 1e-12 * state.size:
            trial_eta, trial_cost, trial_mu = average(alpha)
            if inside(trial_eta, trial_mu):
                trial = reached(state.mu)
                eta, cost, mu = average(trial)
                if inside(eta, mu):
                    new = reached(trial_mu)
                    bend = (trial_mu - state.mu) @ (trial.eta - new.eta) - (trial.eta - alpha.eta) @ (trial_mu - mu)
                    room = divergence(problem, trial, alpha) + divergence(problem, new, trial)
                    room += total * between(prior, trial_eta, state.eta) + (total + size) * between(
                        prior, eta, trial_eta
                    )
                    if bend <= 0 or size * bend <= room:  # room is non-negative except for rounding
                        break
            size *= 0.5
        else:
            return state._replace(finished=True)  # any further gain is below rounding
        # trial points are weighted by their step sizes
        share = size / new.A
        return SaddleState(
            new, eta, cost, total + size,
            state.mean_eta + share * (trial_eta - state.mean_eta),
            state.mean_cost + share * (trial_cost - state.mean_cost),
            # the step size grows faster until the first step that was too long
            size * (2.0 if size == total else self.grow), mu, problem.C,
        )  # fmt: skip

    def evaluate(self, problem: Problem, state: SaddleState) -> Evaluation:
        eta, cost = state.mean_eta, state.mean_cost
        mu = problem.exact_prior.mean(eta)
        dual = max(problem.dual(eta, cost)[0], problem.dual(state.eta, state.cost)[0])
        return Evaluation.certified(problem, mu, eta, problem.primal(mu), dual, "average", cost)


def divergence(problem: Problem, p: Gibbs, q: Gibbs) -> float:
    """Return the Kullback-Leibler divergence ``sum alpha_p log(p / q)`` of two dual points; takes no pass."""
    return float(problem.C * (q.value - p.value) + p.eta @ (q.W - p.W) - p.cost * (q.A - p.A))


def between(prior: Any, eta: FloatArray, reference: FloatArray) -> float:
    """Return the Kullback-Leibler divergence from the posterior at ``eta`` to the one at ``reference``."""
    return float(prior.cumulant(reference) - prior.cumulant(eta) - prior.mean(eta) @ (reference - eta))
