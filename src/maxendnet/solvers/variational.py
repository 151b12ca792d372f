"""Algorithm 1 of Zhu & Xing: LapMEDN by a sequence of Gaussian MaxEnDNets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxendnet.priors import Gaussian
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.base import Evaluation, Solver, check_requirements, run
from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe
from maxendnet.solvers.cutting_plane import for_any_slack


class VariationalState(NamedTuple):
    """Variances of the next Gaussian problem, and the last one with its variances."""

    variance: FloatArray
    rng: np.random.Generator
    inner_tol: float
    used_variance: FloatArray | None = None
    inner: Any = None  # Result
    n_done: int = 0
    loose: float = 0.1
    finished: str = ""


@dataclass(eq=False, repr=False)
class Variational(Solver):
    """The paper's variational learning of LapMEDN: alternate a Gaussian MaxEnDNet and new variances.

    Step 1 solves a MaxEnDNet whose prior is a Gaussian with variances v (an M3N with rescaled features); step 2 sets
    ``v_k = sqrt((mu_k^2 + v_k) / lam)``. Its fixed point is the exact LapMEDN with four times lam and twice C. So, as a
    solver of the Laplace prior with (lam', C'), this runs the paper's algorithm with (lam'/4, C'/2); its certificate
    is the duality gap of that problem. Stops at ``tol``, or after ``iterations``.

    Parameters
    ----------
    iterations : int or None, default=None
        Number of Gaussian problems solved; the paper's 3 are often enough for prediction. None: to convergence.
    inner : Solver or None, default=None
        Solves the Gaussian problems. None is `BlockFrankWolfe` or, if the slack of the hinge is not linear,
        `CuttingPlane` (`Subgradient`, if clarabel is not installed).

    Examples
    --------
    >>> from maxendnet import LapMEDN
    >>> model = LapMEDN(solver=Variational(iterations=3), tol=0.5)
    >>> model = model.fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    """

    iterations: int | None = None
    inner: Solver | None = None
    requires = ("not loss.smooth", "prior.scale_mixture")

    def start(
        self, problem: Problem, warm: VariationalState | None = None, seed: Any = None, tol: float = 1e-3
    ) -> VariationalState:
        whole = isinstance(self.iterations, (int, np.integer)) and self.iterations >= 1
        if not (self.iterations is None or whole):
            raise ValueError(f"iterations must be a whole number of at least 1, or None, got {self.iterations!r}.")
        from maxendnet.solvers import ALL  # which has this solver too

        check_requirements(self._inner(problem), self._gaussian(problem, np.ones(problem.n_weights)), ALL)
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        # an error of the Gaussian problem passes into the gap, halved and blurred by the change of variances
        inner_tol = tol / 4
        if warm is not None and warm.variance.shape == (problem.n_weights,):
            return warm._replace(rng=rng, inner_tol=inner_tol, n_done=0, loose=0.0, finished="")
        return VariationalState(np.ones(problem.n_weights), rng, inner_tol)

    def _inner(self, problem: Problem) -> Solver:
        default = BlockFrankWolfe() if problem.loss.linear_slack else for_any_slack()
        return default if self.inner is None else self.inner

    def _gaussian(self, problem: Problem, variance: FloatArray) -> Problem:
        """The Gaussian problem with these variances and half the loss, times 2: half the variances, all the loss.

        Half the loss is what (lam'/4, C'/2) means, also where the loss is not proportional to C. In this form its dual
        points are those of the problem itself.
        """
        return problem.with_prior(Gaussian(0.5 * variance))

    def step(self, problem: Problem, state: VariationalState) -> VariationalState:
        lam = problem.prior.lam / 4
        gaussian = self._gaussian(problem, state.variance)
        # early problems only serve the next variances, unless their number is fixed and every one counts
        loose = 0.0 if self.iterations is not None else state.loose
        result = run(
            self._inner(problem), gaussian, tol=max(state.inner_tol, loose), max_passes=500,
            warm=state.inner and state.inner.state, seed=state.rng, warn=False,
        )  # fmt: skip
        problem.n_oracle += gaussian.n_oracle
        n_done = state.n_done + 1
        return state._replace(
            variance=np.sqrt((result.w**2 + state.variance) / lam),
            used_variance=state.variance,
            inner=result,
            n_done=n_done,
            loose=0.3 * state.loose,
            finished="iterations" if n_done == self.iterations else "",
        )

    def due(self, problem: Problem, state: VariationalState, n_pass: int, tol: float) -> bool:
        return n_pass > 0

    def evaluate(self, problem: Problem, state: VariationalState) -> Evaluation:
        mu = state.inner.w
        primal = problem.primal(mu)
        dual, share = problem.dual(state.inner.eta, state.inner.cost)
        gap = problem.relative(primal - dual, primal)
        eta, cost = share * state.inner.eta, share * state.inner.cost
        return Evaluation(mu, eta, primal, dual, gap, gap, state.inner.which, cost)
