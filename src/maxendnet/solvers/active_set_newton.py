"""Newton steps on the weights that are not zero, for the log loss with an L1 penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.priors.base import capable
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.lbfgs import Curvature, SmoothState, memory_for
from maxendnet.solvers.newton import conjugate_gradients, hessian_diagonal, hessian_times
from maxendnet.solvers.owlqn import OWLQN, pseudo_gradient


@dataclass(eq=False, repr=False)
class ActiveSetNewton(OWLQN):
    """OWL-QN until the gap is moderate, then Newton steps on the free weights: for the last digits of an L1-CRF.

    Free are the weights that are not zero, and those at zero whose gradient exceeds rho. The Newton equation on them is
    solved by conjugate gradients. A product with the Hessian is the difference of two gradients, one pass over the
    data; as preconditioner serves the quasi-Newton matrix that OWL-QN has built up, in coordinates scaled by the
    diagonal of the Hessian, and every product improves it. The step is shortened until the objective falls, and
    weights that would change sign stop at zero.

    Certificate and stopping rule are those of `OWLQN`. ``n_passes_`` counts a Newton step once; all its passes over the
    data are in the column ``n_oracle`` of the trace.

    Parameters
    ----------
    memory : int or None, default=None
        Changes of w and gradient kept, as in `LBFGS`.
    switch : float, default=0.03
        Newton steps begin when the relative gap is at most this.
    products : int, default=100
        Products with the Hessian in one Newton step, at most.

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> model = L1CRF(lam=0.1, solver=ActiveSetNewton(), tol=1e-9)
    >>> model.fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).converged_
    True
    """

    switch: float = 0.03
    products: int = 100
    requires = ("loss.smooth", "not loss.margin", "prior.rho", "convex", "structure.pairwise")  # type: ignore[assignment]

    def check(self) -> None:
        if not self.switch > 0:
            raise ValueError(f"switch must be a positive number, got {self.switch!r}; it is a relative gap.")
        if not self.products >= 1:
            raise ValueError(f"products must be at least 1, got {self.products!r}.")

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> SmoothState:
        self.check()
        return super().start(problem, warm, seed, tol)

    def step(self, problem: Problem, state: SmoothState) -> SmoothState:
        if self._gaps(problem, state)[0] > self.switch * abs(state.value):
            return self._move(problem, state)
        if state.single:
            state = self._at(problem, state.w, state.curvature, single=False)._replace(tol=state.tol)
        pseudo = pseudo_gradient(state.w, state.gradient, capable(problem.prior, "l1").rho)
        direction, curvature = self._direction(problem, state, pseudo)
        new = self._shortened(problem, state, pseudo, direction)
        if new is None:  # a direction in which the loss is almost flat, or the end of what float64 can see
            return self._move(problem, state)
        return new._replace(curvature=curvature, tol=state.tol)

    def _direction(self, problem: Problem, state: SmoothState, pseudo: FloatArray) -> tuple[FloatArray, Curvature]:
        """About ``-H^-1 pseudo`` on the free weights, and what was learnt of H on the way."""
        free = np.flatnonzero((state.w != 0) | (pseudo != 0))
        root = np.sqrt(hessian_diagonal(problem, state.w)[free])
        known = Curvature(np.ones(len(free)))
        for s, y in zip(state.curvature.s, state.curvature.y):
            known = known.add(s[free] * root, y[free] / root, len(state.curvature.s))

        def widened(values: FloatArray) -> FloatArray:
            out = np.zeros(problem.n_weights)
            out[free] = values
            return out

        # What is left of the pseudo-gradient will be about the residual. The gap is about its largest entry, relative
        # to rho. A tenth: beyond that the Newton model itself is off, and the next step starts from a better one.
        enough = max(0.1 * np.abs(pseudo).max(initial=0.0), 0.3 * state.tol * capable(problem.prior, "l1").rho)
        found, products = conjugate_gradients(
            lambda p: hessian_times(problem, state.w, state.loss_slope, widened(p))[free],
            lambda r: known.times(r / root) / root,
            -pseudo[free],
            enough,
            self.products,
            keep=memory_for(self.memory, problem.n_weights),
        )
        curvature, memory = state.curvature, memory_for(self.memory, problem.n_weights)
        for p, Hp in products:
            curvature = curvature.add(widened(p), widened(Hp), memory)
        return widened(found), curvature

    def _shortened(
        self, problem: Problem, state: SmoothState, pseudo: FloatArray, direction: FloatArray
    ) -> SmoothState | None:
        """The first of the steps 1, 1/2, 1/4... that is good enough, kept inside the orthant."""
        w, rho = state.w, capable(problem.prior, "l1").rho
        direction = np.where((w == 0) & (direction * pseudo >= 0), 0.0, direction)
        orthant = np.where(w != 0, np.sign(w), -np.sign(pseudo))
        for halvings in range(10):
            moved = w + 0.5**halvings * direction
            moved[moved * orthant <= 0] = 0.0
            new = self._at(problem, moved, state.curvature, single=False)
            slope = pseudo @ (moved - w)
            if slope < 0 and new.value <= state.value + 1e-4 * slope:
                return new
            # near the optimum values differ by rounding alone; then the gradient decides
            left = np.linalg.norm(pseudo_gradient(moved, new.gradient, rho))
            if new.value <= state.value + 1e-13 * abs(state.value) and left < 0.9 * np.linalg.norm(pseudo):
                return new
        return None
