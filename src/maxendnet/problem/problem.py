"""Learning problem: placed examples, a loss, a prior and C."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends import Backend, Partial, Threads
from maxendnet.data.batch import Batch
from maxendnet.data.truth import LabelSets
from maxendnet.losses import Hinge
from maxendnet.losses.base import Loss, completion_oracle, loss_oracle, table_oracle
from maxendnet.losses.costs import cost_rows, cost_table
from maxendnet.priors.base import ConjugatePair, ExactPrior, Prior, capable, dual_form, offers
from maxendnet.problem.placed import PlacedData
from maxendnet.structures.base import ExcessOptions, Table
from maxendnet.structures.bound.blocks import KernelPrior

FloatArray = NDArray[np.float64]

SMALL_TABLE = 10_000
"""Nodes times labels below which float32 saves less than 0.01 s per fit (measured on chains with 4 to 200 labels)."""


@dataclass
class Problem:
    """Learning problem.

    ``minimise over w: prior.penalty(w) + C * sum_i weight_i * loss_i(w)``.

    Parameters
    ----------
    data : PlacedData
        The examples, bound to a structure.
    loss : Loss
    prior : Prior
    C : float, default=1.0
    linear_term : ndarray of shape (n_weights,) or None, default=None
        ``linear_term . w`` is subtracted from the sum of losses when the target is a distribution over labellings: its
        expected features minus those of the reference labelling.
    """

    data: PlacedData
    loss: Loss
    prior: Prior
    C: float = 1.0
    linear_term: FloatArray | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.C, (int, float, np.number)) and np.isfinite(self.C) and self.C > 0):
            raise ValueError(f"C must be a positive finite number, got {self.C!r}; larger C fits the examples closer.")
        self.prior.check()
        self.loss.check()
        self.structure: Any = self.data.structure
        """Bound structure of all examples."""
        self.backend: Any = self.data.backend
        self.n_examples: int = self.data.n_examples
        self.label_sets: LabelSets = self.structure.label_sets
        self.cost: FloatArray = cost_rows(self.loss.cost_matrix(self.structure.n_labels), self.label_sets)
        self.n_oracle: int = 0
        self.objective_at_zero: float | None = None
        """Cached value of `at_zero`, because it takes a pass over the data."""

    @classmethod
    def pose(cls, structure: Any, loss: Loss, prior: Prior, C: float = 1.0, backend: Backend | None = None) -> Problem:
        """Build a problem from a bound structure and a backend.

        ``backend=None`` uses a single thread. Unknown labels are replaced by their best completion under zero weights.
        """
        backend = Threads() if backend is None else backend
        problem = cls(PlacedData(structure, backend), loss, prior, C)
        return problem if problem.label_sets.all_known else problem.completed(np.zeros(problem.n_weights))

    @property
    def batch(self) -> Batch:
        """Arrays of all examples, for solvers that call kernels directly."""
        batch: Batch = self.structure.batch
        return batch

    @property
    def n_weights(self) -> int:
        return int(self.structure.layout.n_weights)

    @property
    def is_small(self) -> bool:
        """Whether passes are too cheap for float32 to be worthwhile.

        In float32, gradients of groups of nodes are summed in float32 too. If examples are reordered, or a repeated
        example is replaced by a sample weight, the sums then change by a relative 1e-7, compared to 1e-16 in float64.
        """
        return bool(self.data.n_nodes * self.structure.n_labels <= SMALL_TABLE)

    @property
    def convex(self) -> bool:
        """Whether the sum of losses is convex, so that a duality gap exists."""
        return self.loss.convex or self.label_sets.all_known

    @property
    def has_linear_term(self) -> bool:
        """Whether the target is a distribution over labellings.

        Solvers that store active labellings do not support such targets.
        """
        return self.linear_term is not None

    @cached_property
    def cost_table(self) -> Table:
        """Costs of labels at all nodes, including joint costs."""
        return cost_table(self.structure, self.cost, getattr(self.loss, "joint_costs", None))

    def completed(self, w: FloatArray) -> Problem:
        """Return the problem with unknown labels replaced by their best completion under the weights w."""
        return replace(self, data=self.data.completed(w), linear_term=None)

    @property
    def cost_is_small(self) -> bool:
        """Whether label costs are small enough for a search in float32."""
        return float(self.cost.max(initial=0.0)) < 1e5

    @property
    def hinge(self) -> Hinge:
        """The hinge loss. Raises ``TypeError`` if the loss is not a hinge."""
        if not isinstance(self.loss, Hinge):
            raise TypeError(f"the loss must be a hinge, got {self.loss!r}")
        return self.loss

    @cached_property
    def exact_prior(self) -> ExactPrior:
        """The prior, for solvers that need its cumulant.

        Raises ``TypeError`` if the prior has no cumulant.
        """
        prior: ExactPrior = capable(self.prior, "exact")
        return prior

    @cached_property
    def dual_prior(self) -> ExactPrior | ConjugatePair:
        """Penalty and cumulant (or conjugate) of the prior, for the dual."""
        return dual_form(self.prior)

    @cached_property
    def kernel_prior(self) -> KernelPrior:
        """The prior as arguments of the kernels."""
        kind, params = capable(self.prior, "kernel").kernel_args()

        def wide(values: Any) -> Any:
            return self.structure.blocks.pad(np.broadcast_to(np.asarray(values, float), self.n_weights))

        if kind == "gaussian" and any(np.ndim(p) > 0 for p in params):
            return kind, 0.0, 0.0, wide(params[0]), wide(params[1])
        if kind == "proximal_l1":
            centre = None if np.ndim(params[2]) == 0 and params[2] == 0 else wide(params[2])
            return kind, float(params[0]), float(params[1]), None, centre
        a, b = (*map(float, params), 0.0)[:2]
        return kind, a, b, None, None

    def replace(self, **changes: Any) -> Problem:
        """Return a problem on the same placed examples, with some fields replaced.

        These may be ``loss``, ``prior``, ``C`` and ``linear_term``.
        """
        return replace(self, **changes)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of examples, structure and loss; independent of the prior and C."""
        linear_term = b"" if self.linear_term is None else self.linear_term.tobytes()
        digest = hashlib.blake2b(self.loss.described.encode() + self.cost.tobytes() + linear_term, digest_size=16)
        return f"{self.data.fingerprint} {digest.hexdigest()}"

    def same_sum(self, problem: Problem) -> bool:
        """Whether another problem has the same examples, loss and costs."""
        if self.data is problem.data and self.linear_term is problem.linear_term:
            return self.loss.described == problem.loss.described and np.array_equal(self.cost, problem.cost)
        return self.fingerprint == problem.fingerprint

    def loss_scales(self, C: float) -> bool:
        """Whether a bound on the sum of losses that was computed with ``C`` is valid for this problem."""
        return C == self.C or not self.loss.depends_on_C

    # ---- the sum over examples ----------------------------------------------------------------------------------

    def loss_and_gradient(
        self, w: FloatArray, gradient: bool = True, single: bool = False, values: bool = False
    ) -> Partial:
        """Compute ``sum_i weight_i loss_i(w)``, a (sub)gradient and expected costs.

        This takes one pass over the examples.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
        gradient : bool, default=True
        single : bool, default=False
            Compute in float32 if the values allow it and it is worthwhile (see `is_small`). Use False for values that
            are reported to the user.
        values : bool, default=False
            Whether to return the loss of every example too.
        """
        if values and self.has_linear_term:
            raise ValueError("the loss of an example is not defined when the target is a distribution over labellings")
        options = ExcessOptions(gradient, single and not self.is_small, values)
        total = self._sum(loss_oracle, w, self.loss, self.C, self.cost, options)
        return self._without_linear_term(total, w)

    def completion_logsum(self, w: FloatArray, gradient: bool = True) -> Partial:
        """Sum the log-partition over completions minus the target score.

        Completions are the labellings that are consistent with the known labels. The gradient is computed if requested.
        """
        return self._sum(completion_oracle, w, ExcessOptions(gradient))

    def _sum(self, oracle: Callable[..., Partial], w: FloatArray, *arguments: Any) -> Partial:
        """Sum ``oracle(shard, w, *arguments)`` over all shards, in one pass.

        Shards in this process read the same read-only weights and share their padded copies. Gradients are summed in
        the padded layout of the kernels; the total is returned in the order of the weights.
        """
        self.n_oracle += self.n_examples
        cache = getattr(self.structure.layout, "cache", None)
        with cache.during(w) if cache and self.backend.local else nullcontext(w) as fixed:
            total = self.backend.sum(oracle, self.data.shards, fixed, *arguments)
        result: Partial = (
            total._replace(gradient=self.structure.unpad(total.gradient)) if total.gradient.size else total
        )
        return result

    def _without_linear_term(self, total: Partial, w: FloatArray) -> Partial:
        if self.linear_term is None:
            return total
        slope = total.gradient - self.linear_term if total.gradient.size else total.gradient
        return total._replace(loss=total.loss - float(self.linear_term @ w), gradient=slope)

    def gibbs(self, A: float, W: FloatArray, B: float = 0.0) -> tuple[float, FloatArray, float]:
        """Evaluate the dual point ``alpha_i(y) = C u_i p_i(y)`` of shared potentials.

        ``p_i(y)`` is proportional to ``exp(A l_i(y) + W . f(x_i, y) + B r_i(y))``, where ``r_i(y)`` is the number of
        correct nodes. With a large B the point is near the true labellings. All examples share A, B and W, so the point
        needs no memory per example, and its evaluation takes one pass of sum-product.

        Returns
        -------
        value : float
            ``-sum_i u_i log p_i(y_i)``, which is convex in (A, W, B). Divergences between such points are computed
            from it.
        eta : ndarray of shape (n_weights,)
            ``sum alpha df``.
        cost : float
            ``sum alpha l``.
        """
        potentials = A * self.cost + B * np.eye(self.structure.n_labels)[self.label_sets.label]
        total = self._without_linear_term(self._sum(table_oracle, W, potentials, self.cost), W)
        return total.loss, -self.C * total.gradient, self.C * total.cost

    def curvature(self) -> FloatArray:
        """Return the approximate diagonal Hessian at ``w = 0`` of C times the sum of a smooth loss.

        Structures without `curvature` are assumed to have the same curvature in all weights.
        """
        values: FloatArray = self.C * self.loss.curvature * self.data.curvature()
        return values

    def first_weights(self, seed: Any = None) -> FloatArray:
        """Return initial weights for primal solvers.

        These are the prior mean, or zero if the prior has no mean.

        If all labels are unknown, small random numbers break the symmetry between labels.
        """
        zero = np.zeros(self.n_weights)
        mean = self.exact_prior.mean(zero) if offers(self.prior, "exact") else zero
        return (
            mean if self.label_sets.some_known else mean + np.random.default_rng(seed).normal(0.0, 0.1, self.n_weights)
        )

    def primal(self, w: FloatArray) -> float:
        """Return the objective at w."""
        return self.prior.penalty(w) + self.C * self.loss_and_gradient(w, gradient=False).loss

    def dual(self, eta: FloatArray, cost: float) -> tuple[float, float]:
        """Scale a dual point to maximise its dual value; return value and factor.

        The factor is in [0, 1]. It multiplies both ``cost = sum alpha l - slack_price`` and ``eta = sum alpha df``. The
        scaled point is feasible, because the remaining dual weight goes to the true labelling. Scaling yields a lower
        bound on the objective even if the cumulant is infinite at ``eta``. The slack price is convex, so it is at most
        its value times the factor, and the bound remains valid.
        """
        # for a convex penalty without a density, use its conjugate and subgradient instead of cumulant and mean
        phi, slope = self.dual_prior.cumulant, self.dual_prior.mean

        def rising(s: float) -> bool:
            return bool(np.isfinite(phi(s * eta)) and cost >= eta @ slope(s * eta))

        low, high = (1.0, 1.0) if rising(1.0) else (0.0, 1.0)
        # the dual is concave on the ray; below `tiny` the middle rounds to 0 and the bisection would not terminate
        while high - low > 1e-6 * high and high > np.finfo(float).tiny:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if rising(middle) else (low, middle)
        return low * cost - phi(low * eta), low

    def slack_price(self, alpha: FloatArray) -> float:
        """Return ``sum_i u_i U*(alpha_i / u_i)``, the slack term of the dual.

        The dual weight of an example is ``alpha_i = sum_y alpha_i(y)``.

        The dual of a hinge model is ``max sum alpha l - phi(eta) - slack_price``. For a linear slack the price is 0 up
        to ``C u_i`` and infinite beyond. Examples with sample weight 0 have no dual weight.
        """
        is_positive = self.structure.sample_weight > 0
        u = self.structure.sample_weight[is_positive]
        return float(u @ self.hinge.slack_function.conjugate(alpha[is_positive] / u, self.C))

    @property
    def at_zero(self) -> float:
        """Objective P(0) at zero weights, or at the prior mean if the prior excludes zero."""
        if self.objective_at_zero is None:
            zero = np.zeros(self.n_weights)
            value = self.primal(zero)
            self.objective_at_zero = value if np.isfinite(value) else self.primal(self.exact_prior.mean(zero))
        return self.objective_at_zero

    def gap_scale(self, objective: float) -> float:
        """Return the denominator of the relative gap, ``max(|objective|, 1e-9 |P(0)|)``.

        The second term only matters if the objective is zero up to rounding.
        """
        return max(abs(objective), 1e-9 * abs(self.at_zero), np.finfo(float).tiny)

    def relative(self, gap: float, objective: float) -> float:
        """Return a duality gap relative to the objective.

        This defines ``gap_`` and all stopping rules.
        """
        return max(gap, 0.0) / self.gap_scale(objective)
