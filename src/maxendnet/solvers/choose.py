"""Which solver a model takes if none was asked for."""

from __future__ import annotations

from typing import Any

from maxendnet import solvers
from maxendnet.priors.base import offers
from maxendnet.problem import Problem
from maxendnet.solvers.base import Solver


def default_solver(prior: Any, loss: Any) -> Solver:
    """The solver made for a prior and a loss, on examples of which all labels are known."""
    if loss.smooth:
        return solvers.OWLQN() if offers(prior, "l1") else solvers.LBFGS()
    if not loss.linear_slack:
        if offers(prior, "l1_ball"):
            return solvers.ProjectedSubgradient()
        if offers(prior, "scale_mixture"):
            return solvers.Variational()
        return solvers.for_any_slack() if offers(prior, "gram") else solvers.Subgradient()
    if offers(prior, "l1", "l1_ball"):
        return solvers.ProximalPoint()
    # scale mixtures that the kernels do not know
    only_by_variances = offers(prior, "scale_mixture") and not offers(prior, "kernel")
    return solvers.Variational() if only_by_variances else solvers.BlockFrankWolfe()


def for_problem(default: Solver, problem: Problem, tol: float = 1e-3) -> Solver:
    """The solver for these examples, where the default for prior and loss is ``default``.

    What is best for the hinge depends on the examples.
    """
    if isinstance(default, (solvers.BlockFrankWolfe, solvers.ProximalPoint)):
        return solvers.for_hinge(problem, tol)
    return default
