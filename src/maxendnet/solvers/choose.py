"""Which solver a model takes if none was asked for."""

from __future__ import annotations

from typing import Any

from maxendnet import solvers
from maxendnet.priors.base import offers
from maxendnet.problem import Problem
from maxendnet.solvers.base import Solver, missing
from maxendnet.solvers.lbfgs import MOST_FEATURES_TOGETHER

MANY_NODES = 1000
FEW_OF = 20
"""A node has one in so many of the features, or less."""
WEAK = 0.5
"""The price of ``w^2 / 2`` below which an L2-CRF on sparse features is solved by proximal points: on 2,500 Portuguese
sentences with names, to a gap of 1e-2, `ProximalAscent` and `PotentialAscent` take 3.1 and 17 CPU seconds at 0.1, 3.5
and 5.0 at 0.3, 2.0 and 1.8 at 2."""


def default_solver(prior: Any, loss: Any) -> Solver:
    """The solver made for a prior and a loss, on examples of which all labels are known."""
    if loss.smooth:
        return solvers.OWLQN() if offers(prior, "l1", "elastic_net") else solvers.LBFGS()
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


def choose(default: Solver, problem: Problem, tol: float = 1e-3) -> tuple[Solver, str]:
    """The solver for these examples, where the default for prior and loss is ``default``, and why it is that one.

    What is best depends on the examples too.
    """
    if isinstance(default, (solvers.BlockFrankWolfe, solvers.ProximalPoint)):
        return solvers.for_hinge(problem, tol), "the default for the hinge with this prior, C and number of nodes"
    if isinstance(default, (solvers.LBFGS, solvers.OWLQN)):
        strong = (getattr(problem.prior, "ridge", None) or 0.0) >= WEAK * problem.C
        kinds = (solvers.PotentialAscent, solvers.ProximalAscent)
        for kind in kinds if strong else reversed(kinds):
            if missing(kind, problem) or tol < kind.accuracy or not sparse_features(problem):
                continue
            if not (isinstance(default, solvers.LBFGS) and few_features(problem)):
                return kind(), "many sparse features, of which every example has a few"
    return default, "the default for this prior and loss"


def sparse_features(problem: Problem) -> bool:
    """Whether an example has a small part of the features, as in text, so that solvers for one example after the other
    have little to do at each: on chunks of CoNLL-2000 ten passes to where CRFsuite is after 161 (benchmarks/TEXT.md).

    On dense features, such as the OCR letters, `LBFGS` is faster; on few nodes all are fast.
    """
    batch, layout = problem.batch, problem.structure.layout
    n_nodes = len(batch.parent)
    return n_nodes >= MANY_NODES and len(batch.indices) * FEW_OF < n_nodes * layout.n_features


def few_features(problem: Problem) -> bool:
    """Whether L-BFGS knows which features occur together: on CB513, 353 features, L2CRF(lam=2) takes it 1.4 CPU seconds
    to a gap of 1e-2, and `PotentialAscent` 21."""
    layout = problem.structure.layout
    return layout.seen is None and layout.n_features <= MOST_FEATURES_TOGETHER


def for_problem(default: Solver, problem: Problem, tol: float = 1e-3) -> Solver:
    """The solver that `choose` finds."""
    return choose(default, problem, tol)[0]
