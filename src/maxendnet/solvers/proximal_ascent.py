"""Proximal-point method for CRFs with many sparse features, on a working set of weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from maxendnet.priors import ElasticNet, Gaussian
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver
from maxendnet.solvers.certificate.dual_mixture import share_inside
from maxendnet.solvers.potential_ascent import PotentialAscent, PotentialState, per_weight
from maxendnet.solvers.subproblems.working_set import WorkingSet, working_set
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.padding import padded_from_search, search_from_padded
from maxendnet.utils.checks import require_count
from maxendnet.utils.state_fields import (
    CHECKED_BY_OWNER,
    NonNegative,
    Positive,
    Values,
    require,
    require_shape,
)

KEEP_ABOVE = 0.8
"""A weight is in the working set if it is nonzero, or if ``|eta_k|`` is at least this share of the L1 factor."""
KEEP_ABOVE_AT_START = 2.0
"""The first working set contains the weights whose gradient at zero is at least this multiple of the L1 factor. On
CoNLL-2000 these are a third of the weights whose gradient exceeds the factor itself, and most of those needed."""

INNER_SHARE = (0.2, 0.6)
"""Shares of the gap that are due to the inexact solution of the proximal problem: tau is increased below the first, and
reduced above the second (chosen on Portuguese names, CoNLL-2000 and WNUT 2017)."""

STEP_POWER = 1 / 3
"""Power of the number of nodes with a feature, by which the variance of its weights is divided. On documents of
thousands of tokens, 1/3 and 1/2 take half the passes of 0. On sentences, 1/3 takes up to a sixth less than 0, and 1/2
takes more for L1-CRFs (measured on Portuguese names and CoNLL-2000)."""


@dataclass
class ProximalAscentState:
    """The current proximal problem, and the best points so far.

    The eta of ``inner`` is shifted: its prior mean, times the relative variance, solves the proximal problem. So passes
    do not need the centre.
    """

    keep: NDArray[np.bool_]
    """(n_weights,): mask of the working set."""
    inner: Annotated[PotentialState, CHECKED_BY_OWNER]
    tau: Positive
    centre: Annotated[NDArray[Any], Values("any")]
    """Centre of the proximal problem on the working set, in the padded layout and precision of ``inner.eta``."""
    last_weights: Annotated[NDArray[Any], Values("any")]
    """The weights at the last move of the centre, before extrapolation by ``push``, in the same layout."""
    push: NonNegative
    n_pass: int = 0
    w: FloatArray | None = None
    """The best weights so far, for the full problem."""
    eta: FloatArray | None = None
    """The eta from which the best weights were computed."""
    primal: float = np.inf
    dual: float = -np.inf
    gap: float = np.inf
    last_primal: float = np.inf
    """Objective at the last evaluation."""

    def __post_init__(self) -> None:
        self._easier: Any = None  # caches, not stored in checkpoints
        self._metric: Any = None

    @property
    def data(self) -> Any:
        return self.inner.data

    def restricted(self, problem: Problem) -> WorkingSet:
        """Return the problem restricted to the working set; cached, but not stored in checkpoints."""
        cached = vars(self).get("_restricted")
        if cached is None or cached[0] is not self.keep:
            cached = self._restricted = self.keep, working_set(problem, self.keep)
        return cached[1]

    def check(self, problem: Problem) -> None:
        """Check the potentials, and recompute eta and weights of the working set."""
        require(self.push < 1, f"push is {self.push}, expected less than 1")
        inner, restricted = self.inner, working_set(problem, self.keep).problem
        inner.check_shapes(problem, restricted)
        for array in (self.centre, self.last_weights):
            require_shape(array, inner.eta.shape, "the centre")
            require(array.dtype == inner.eta.dtype, "the centre has another precision than eta")
        variance = relative_variances(restricted)
        same = inner.row_variance is variance or np.array_equal(inner.row_variance, variance)  # type: ignore[arg-type]
        require(same, "row_variance is that of other examples")
        solver, expected = ProximalAscent(), replace(self, inner=replace(inner))
        eta, centre = inner.recomputed_eta(problem), solver._unpadded(problem, expected, self.centre)
        solver._set_eta(problem, expected, eta, centre)
        inner.check_same(expected.inner, ("weights", "eta") if penalty_factors(problem.prior)[0] > 0 else ("weights",))


@dataclass(eq=False, repr=False)
class ProximalAscent(Solver):
    """Proximal-point method for CRFs with L1 and squared penalties.

    The proximal problems are solved by `PotentialAscent`.

    Each proximal problem adds ``|w - centre|^2 / (2 tau)`` to the objective, which makes it easier to solve. tau is
    smaller for the weights of features that occur several times in an example (see `relative_variances`). Every
    ``passes`` passes, the centre moves to the current weights, extrapolated by the factor ``push``. Soft thresholding
    sets small weights exactly to zero. Passes use a working set, which contains the nonzero weights and those that may
    soon become nonzero; every evaluation considers all weights and updates the working set. The potentials are a dual
    point, whose value certifies the result. Under a pure L1 penalty, this point is first mixed with the true labelling
    until every ``|eta_k| <= rho``.

    Designed for many sparse features. Under a pure L1 penalty it reaches gaps of about 1e-3; use `OWLQN` for smaller
    ones. With a squared penalty it reaches 1e-6 (benchmarks/SOLVERS.md).

    Parameters
    ----------
    tau : float, default=1.5
        Initial value. With a larger tau, the proximal problem is closer to the original one and harder to solve. tau is
        increased when the proximal problem is solved more accurately than needed, and reduced in the opposite case.
    passes : int, default=1
        Passes between two moves of the centre.
    push : float, default=0.3
        Extrapolation factor of the centre. 0 is the plain proximal-point method. It is halved whenever the objective
        has increased between two evaluations.
    check_every : int, default=5
        Passes between two evaluations of the full gap.
    inner : PotentialAscent
        Solver of the proximal problems.

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> L1CRF(lam=0.1, solver=ProximalAscent()).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    tau: float = 1.5
    passes: int = 1
    push: float = 0.3
    check_every: int = 5
    inner: PotentialAscent = field(default_factory=PotentialAscent)
    requires: ClassVar[tuple[str, ...]] = (
        "loss.smooth", "convex", "prior.rho or prior.l1 or prior.ridge", "structure.pairwise",
        "not structure.edge_features", "backend.local",
    )  # fmt: skip
    accuracy: ClassVar[float] = 1e-3

    def check(self) -> None:
        if not self.tau > 0:
            raise ValueError(f"tau must be a positive number, got {self.tau!r}.")
        if not 0 <= self.push < 1:
            raise ValueError(f"push must be at least 0 and less than 1, got {self.push!r}.")
        for name in ("passes", "check_every"):
            require_count(name, getattr(self, name))

    def start(
        self, problem: Problem, warm: ProximalAscentState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> ProximalAscentState:
        self.check()
        l1 = penalty_factors(problem.prior)[0]
        same = warm is not None and problem.data.same_as(warm.data)
        w = warm.w if warm is not None and same and warm.w is not None else np.zeros(problem.n_weights)
        easier = problem.replace(prior=proximal_prior(problem.prior, self.tau))
        inner = self.inner.first_state(easier, warm.inner if warm is not None and same else None, seed, tol)
        eta, keep = self.inner.refresh(problem, inner), np.ones(problem.n_weights, dtype=bool)
        if l1 > 0:
            slope = -problem.C * problem.loss_and_gradient(np.zeros(problem.n_weights)).gradient
            keep = with_other_segments(problem, (np.abs(slope) >= KEEP_ABOVE_AT_START * l1) | (w != 0))
        none = np.zeros(0, inner.eta.dtype)
        state = ProximalAscentState(keep, inner, self.tau, none, none, self.push)
        self._set_working_set(problem, state, keep, w, w)
        self._set_eta(problem, state, eta, w)
        return state

    def _easier(self, problem: Problem, state: ProximalAscentState) -> Problem:
        """The proximal problem on the working set, without its centre; cached until tau or the problem changes."""
        restricted = state.restricted(problem).problem
        key = (restricted, problem.prior, state.tau)
        if state._easier is None or any(a is not b for a, b in zip(state._easier[0], key)):
            state._easier = key, restricted.replace(prior=proximal_prior(problem.prior, state.tau))
        easier: Problem = state._easier[1]
        return easier

    def _set_working_set(
        self, problem: Problem, state: ProximalAscentState, keep: NDArray[np.bool_], centre: FloatArray,
        last: FloatArray,
    ) -> None:  # fmt: skip
        """Set the working set, the centre and the last weights; both are given for all weights."""
        state.keep = keep
        restricted = state.restricted(problem)
        state.inner.row_variance = relative_variances(restricted.problem)
        pad, dtype = restricted.problem.structure.blocks.pad, state.inner.eta.dtype.type
        state.centre, state.last_weights = (pad(w[restricted.positions], dtype) for w in (centre, last))

    def _set_eta(self, problem: Problem, state: ProximalAscentState, eta: FloatArray, centre: FloatArray) -> FloatArray:
        """Set the weights from the eta of the current potentials and the centre, given for all weights.

        Returns the new weights, which solve the proximal problem for this eta.
        """
        restricted, easier = state.restricted(problem), self._easier(problem, state)
        l2 = penalty_factors(problem.prior)[1]
        relative = per_weight(easier.structure.layout, state.inner.row_variance)
        of_centre = 1 / (proximal_variance(l2, state.tau) * relative) - l2
        shifted = eta[restricted.positions] + centre[restricted.positions] * of_centre
        self.inner.set_eta(easier, state.inner, shifted)
        return restricted.widened(relative * easier.dual_prior.mean(shifted), problem.n_weights)

    def _unpadded(self, problem: Problem, state: ProximalAscentState, padded: NDArray[Any]) -> FloatArray:
        """Return the centre or the last weights for all weights."""
        restricted = state.restricted(problem)
        return restricted.widened(restricted.problem.structure.blocks.unpad(padded), problem.n_weights)

    def step(self, problem: Problem, state: ProximalAscentState) -> ProximalAscentState:
        easier = self._easier(problem, state)
        if state.n_pass and state.n_pass % self.passes == 0:
            self._move_centre(problem, state, easier.structure.layout)
        n_oracle = easier.n_oracle
        self.inner.step(easier, state.inner)
        problem.n_oracle += easier.n_oracle - n_oracle
        state.n_pass += 1
        return state

    def _move_centre(self, problem: Problem, state: ProximalAscentState, layout: Layout) -> None:
        inner, l1 = state.inner, penalty_factors(problem.prior)[0]
        variance, shift = self._metric(problem, state)
        # z is the variance times the shifted eta; the weights are its soft threshold
        z = padded_from_search(layout, inner.weights) if l1 == 0 else variance * inner.eta
        w = z if l1 == 0 else soft_threshold(z, l1 * variance)
        centre = w - state.last_weights
        centre *= state.push
        centre += w
        if l1 > 0:
            centre[w == 0] = 0
        moved = centre - state.centre
        moved *= shift
        moved += z
        state.centre, state.last_weights = centre, w
        if l1 > 0:
            inner.eta = moved / variance
            moved = soft_threshold(moved, l1 * variance)
        inner.weights = search_from_padded(layout, moved)

    def _metric(self, problem: Problem, state: ProximalAscentState) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the variance of every weight, and its change for a change of the centre by 1 before the threshold."""
        key = state.tau, state.inner.row_variance
        if state._metric is None or any(a is not b for a, b in zip(state._metric[0], key)):
            l2, easier = penalty_factors(problem.prior)[1], self._easier(problem, state)
            relative = per_weight(easier.structure.layout, state.inner.row_variance)
            variance = easier.structure.blocks.pad(proximal_variance(l2, state.tau) * relative, state.centre.dtype.type)
            variance[variance == 0] = 1  # padding
            state._metric = key, variance, 1 - l2 * variance
        metric: tuple[NDArray[Any], NDArray[Any]] = state._metric[1:]
        return metric

    def due(self, problem: Problem, state: ProximalAscentState, n_pass: int, tol: float) -> bool:
        if n_pass == 3:  # an evaluation updates the working set
            return penalty_factors(problem.prior)[0] > 0
        return n_pass > 0 and n_pass % self.check_every == 0

    def evaluate(self, problem: Problem, state: ProximalAscentState) -> Evaluation:
        eta, centre = self.inner.refresh(problem, state.inner), self._unpadded(problem, state, state.centre)
        w, tau = self._set_eta(problem, state, eta, centre), state.tau
        primal = problem.primal(w)
        dual = dual_value(problem, state.inner, eta)
        state.dual = max(state.dual, dual)
        if primal > state.last_primal:
            state.push /= 2
        state.last_primal = primal
        if primal < state.primal:
            state.primal, state.w, state.eta = primal, w, eta
        gap = problem.relative(state.primal - state.dual, state.primal)
        if state.inner.weights.dtype == np.float32 and gap > 0.95 * state.gap and gap < 1e-3:
            state.inner.in_double()  # rounding limits the progress
        state.gap = gap
        # gap of the proximal problem, and its share of the gap of this point
        entropy = problem.C * float(state.inner.entropies @ problem.batch.sample_weight)
        inner_gap = primal - problem.prior.penalty(w) - entropy + float(eta @ w)
        inner_share = inner_gap / max(primal - dual, 1e-300)
        state.tau *= 1.5 if inner_share < INNER_SHARE[0] else 1 / 1.5 if inner_share > INNER_SHARE[1] else 1.0
        l1, old = penalty_factors(problem.prior)[0], state.keep
        keep = with_other_segments(problem, (np.abs(eta) >= KEEP_ABOVE * l1) | (w != 0)) if l1 > 0 else old
        if np.any(keep & ~old) or keep.sum() < 0.8 * old.sum():
            last = self._unpadded(problem, state, state.last_weights)
            self._set_working_set(problem, state, keep, centre, last)
        if state.tau != tau or state.keep is not old:
            self._set_eta(problem, state, eta, centre)
        assert state.w is not None  # the objective is finite
        eta_of_best = state.eta if penalty_factors(problem.prior)[1] > 0 else None
        return Evaluation(state.w, eta_of_best, state.primal, state.dual, gap, gap)


def with_other_segments(problem: Problem, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add all weights that are not node weights to a working set, in place."""
    keep[problem.structure.layout.n_node_weights :] = True
    return keep


def penalty_factors(prior: Any) -> tuple[float, float]:
    """Return the factors of ``|w|_1`` and of ``|w|^2 / 2`` in the penalty."""
    if hasattr(prior, "ridge"):
        return 0.0, float(prior.ridge)
    return (prior.l1, prior.l2) if hasattr(prior, "l1") else (prior.rho, 0.0)


def proximal_variance(l2: float, tau: float) -> float:
    """Return the variance of the Gaussian whose penalty is ``l2 |w|^2 / 2 + |w|^2 / (2 tau)``."""
    return tau / (1.0 + tau * l2)


def proximal_prior(prior: Any, tau: float) -> Any:
    """Return the penalty plus ``|w|^2 / (2 tau)``."""
    l1, l2 = penalty_factors(prior)
    variance = proximal_variance(l2, tau)
    return ElasticNet(l1, 1.0 / variance) if l1 > 0 else Gaussian(variance)


def relative_variances(problem: Problem) -> FloatArray:
    """Return the relative variances of proximal problems, shape (n_features + 1,); the last is that of transitions.

    A step changes the weights of a feature in all nodes of an example at once. The more nodes have the feature, the
    smaller the step must be. The variance is a power of the number of nodes of an example that have a feature, given
    that one has it, if the nodes were distributed at random.

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet import Chain, Gaussian, Log
    >>> examples = Examples.build([[[1.0, 0.0]] * 4], [["a", "b", "a", "b"]])
    >>> problem = Problem.pose(Chain(bias=False).bind(examples, ["a", "b"]), Log(), Gaussian(), 1.0)
    >>> relative_variances(problem).round(2).tolist()
    [0.63, 1.0, 0.63]
    """
    batch, layout = problem.batch, problem.structure.layout
    counts = np.append(np.bincount(batch.indices, minlength=layout.n_features), batch.offsets[-1])
    shares = np.diff(batch.offsets) / max(1, batch.offsets[-1])
    together = 1.0 + np.maximum(counts - 1.0, 0.0) * float(shares @ shares)
    return np.asarray(together**-STEP_POWER)


def soft_threshold(z: NDArray[Any], threshold: Any) -> NDArray[Any]:
    """Return z moved towards 0 by the threshold."""
    rest: NDArray[Any] = z - np.clip(z, -threshold, threshold)
    return rest


def dual_value(problem: Problem, state: PotentialState, eta: FloatArray) -> float:
    """Return the dual value at the potentials, to which ``eta`` belongs.

    Under a pure L1 penalty all ``|eta_k|`` must be at most its factor, so the point is first mixed with the truth.
    """
    l1, l2 = penalty_factors(problem.prior)
    if l2 > 0:
        entropies, cumulant = state.entropies, problem.dual_prior.cumulant(eta)
    else:
        entropies, cumulant = mixed_with_truth(state.entropies, state.truths, share_inside(l1, eta)), 0.0
    return problem.C * float(entropies @ problem.batch.sample_weight) - cumulant


def mixed_with_truth(entropies: FloatArray, truths: FloatArray, share: float) -> FloatArray:
    """Return the entropy of ``share * q + (1 - share) * truth`` for every example.

    Parameters
    ----------
    entropies, truths : ndarray of shape (n_examples,)
        Entropy of the distribution q over labellings, and log-probability of the true labelling under q.
    share : float

    Examples
    --------
    >>> half = np.log([0.5])  # two labellings, equally likely
    >>> mixed_with_truth(-half, half, 1.0), mixed_with_truth(-half, half, 0.0)
    (array([0.69314718]), array([0.]))
    """
    truth = np.exp(truths)
    at_truth = 1.0 - share + share * truth
    others = share * (entropies + truth * truths) - (1.0 - truth) * xlogy(share, share)
    return others - xlogy(at_truth, at_truth)
