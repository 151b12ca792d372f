"""Algorithm 1 of Zhu & Xing, a sequence of Gaussian problems, for any prior that is a scale mixture of Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from maxendnet.priors import Gaussian
from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Result, Solver, check_requirements, require_solver_or_none, run
from maxendnet.utils.state_fields import NonNegative, Values, require

# Smallest variance relative to the largest one. A weight with this variance is returned as 0. float64 has 16 digits,
# and the Gaussian problems are solved to fewer than 10.
MIN_VARIANCE_RATIO = 1e-10


class VariationalState(NamedTuple):
    """State of `Variational`: the variances of the next Gaussian problem, and the solution of the last one."""

    variance: Annotated[FloatArray, Values(low=5e-324)]
    rng: np.random.Generator
    inner_tol: NonNegative
    used_variance: Annotated[FloatArray, Values(low=5e-324)] | None = None
    inner: Result | None = None
    objective: float = np.nan
    last_objective: float = np.nan
    n_done: int = 0
    loose: NonNegative = 0.1
    finished: str = ""

    def check(self, problem: Problem) -> None:
        """Check that the solution and its variances belong together."""
        n_missing = (self.inner is None) + (self.used_variance is None) + (self.n_done == 0)
        require(n_missing in (0, 3), f"the solution and its variances do not match n_done = {self.n_done}")


@dataclass(eq=False, repr=False)
class Variational(Solver):
    """Algorithm 1 of the paper: alternate Gaussian problems and variance updates.

    The prior is a scale mixture of Gaussians. After each Gaussian problem, the variance v_k of weight k is updated from
    its mean mu_k and its previous variance:

    - `Laplace`: ``v_k = sqrt((mu_k^2 + 2 v_k)/lam)``, the paper's Algorithm 1. The paper's variance is 2 v_k; in its
      notation the update is ``sqrt((mu_k^2 + v_k)/lam)``, with a quarter of lam and half of C. The fixed point is the
      exact LapMEDN.
    - `SquaredL1`: ``v_k = K |mu_k|/(lam |mu|_1)``, the EM algorithm of Zhu, Xing & Zhang 2009.
    - `StudentT`: ``v_k = (b + (mu_k^2 + v_k)/2)/(a + 1/2)``.
    - `Jeffreys`: ``v_k = mu_k^2``, an EM algorithm.

    Under the first two priors the problem is convex, and the certificate is a duality gap. Under the others it is not
    convex: ``dual_`` and ``gap_`` are nan, and ``tol`` bounds the relative change of the objective. A pass is one
    Gaussian problem. The fit stops at ``tol``, or after ``iterations`` passes.

    Parameters
    ----------
    iterations : int or None, default=None
        Number of Gaussian problems to solve. The paper uses 3, which is often enough for prediction. None continues to
        convergence.
    inner : Solver or None, default=None
        Solver of the Gaussian problems. None uses their default solver, for example `ProximalPoint`, or `CuttingPlane`
        if the slack is not linear.

    Examples
    --------
    >>> from maxendnet import LapMEDN
    >>> model = LapMEDN(solver=Variational(iterations=3), tol=0.5)
    >>> model = model.fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    """

    iterations: int | None = None
    inner: Solver | None = None
    requires: ClassVar[tuple[str, ...]] = ("not loss.smooth", "prior.next_variance")
    instead_of_gap = "relative change of the objective"

    def start(
        self, problem: Problem, warm: VariationalState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> VariationalState:
        whole = isinstance(self.iterations, (int, np.integer)) and self.iterations >= 1
        if not (self.iterations is None or whole):
            raise ValueError(f"iterations must be a whole number of at least 1, or None, got {self.iterations!r}.")
        require_solver_or_none("inner", self.inner)
        check_requirements(self._inner(problem), problem.replace(prior=Gaussian()))
        rng = np.random.default_rng(seed)
        # the error of a Gaussian problem contributes to the gap, so solve these problems more accurately than tol
        inner_tol = tol / 4
        if warm is not None and warm.variance.shape == (problem.n_weights,):
            return warm._replace(rng=rng, inner_tol=inner_tol, n_done=0, loose=0.0, finished="")
        return VariationalState(
            capable(problem.prior, "scale_mixture").first_variance(problem.n_weights), rng, inner_tol
        )

    def _inner(self, problem: Problem) -> Solver:
        if self.inner is not None:
            return self.inner
        from maxendnet.solvers.choose import solver_of_round

        return solver_of_round(problem.replace(prior=Gaussian()), 1e-3)

    def step(self, problem: Problem, state: VariationalState) -> VariationalState:
        prior, variance = problem.prior, state.variance
        gaussian = problem.replace(prior=Gaussian(variance))
        # early Gaussian problems only determine the next variances and may be solved roughly, unless their number is
        # fixed
        loose = 0.0 if self.iterations is not None else state.loose
        result = run(
            self._inner(problem), gaussian, tol=max(state.inner_tol, loose), max_passes=500,
            warm=state.inner and state.inner.state, seed=state.rng, warn=False,
        )  # fmt: skip
        problem.n_oracle += gaussian.n_oracle
        n_done = state.n_done + 1
        new = capable(prior, "scale_mixture").next_variance(result.w, variance)
        if offers(prior, "variational_bound"):
            price = capable(prior, "variational_bound").bound(result.w, variance)
        else:
            price = prior.penalty(result.w)
        return state._replace(
            variance=np.maximum(new, MIN_VARIANCE_RATIO * new.max(initial=0.0)),
            used_variance=variance,
            inner=result,
            objective=price + result.primal - gaussian.prior.penalty(result.w),
            # while the Gaussian problems are solved roughly, a small change does not indicate convergence
            last_objective=np.nan if loose > state.inner_tol else state.objective,
            n_done=n_done,
            loose=0.3 * state.loose,
            finished="iterations" if n_done == self.iterations else "",
        )

    def due(self, problem: Problem, state: VariationalState, n_pass: int, tol: float) -> bool:
        return n_pass > 0

    def evaluate(self, problem: Problem, state: VariationalState) -> Evaluation:
        inner, variance, prior = state.inner, state.used_variance, problem.prior
        assert inner is not None and variance is not None  # `due` waits for the first problem
        if not (offers(prior, "exact", "conjugate")):
            change = problem.relative(abs(state.last_objective - state.objective), state.objective)
            return Evaluation(inner.w, None, state.objective, np.nan, np.nan, change, inner.which)
        mu = np.where(variance <= MIN_VARIANCE_RATIO * variance.max(initial=0.0), 0.0, inner.w)
        primal = problem.primal(mu)
        assert inner.eta is not None  # Gaussian problems have a dual point
        dual, share = problem.dual(inner.eta, inner.cost)
        eta = share * inner.eta if offers(prior, "exact") else None
        return Evaluation.certified(problem, mu, eta, primal, dual, inner.which, share * inner.cost)
