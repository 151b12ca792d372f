"""Which solver a model takes if none was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxendnet import solvers
from maxendnet.priors.base import capable, offers
from maxendnet.problem import Problem
from maxendnet.solvers.base import Solver, missing
from maxendnet.solvers.lbfgs import MOST_FEATURES_TOGETHER, features_of
from maxendnet.solvers.sampled_hessian import passes_are_dear, pays, pays_in_part
from maxendnet.solvers.soft_curvature import has_blocks

STRONG, STRONG_WITH_BLOCKS, FEW_NODES = 2.0, 0.09, 500
"""See `for_hinge`."""
STRONG_L1, ROUGH, MANY_FOR_L1 = 5.0, 0.1, 10_000
"""See `for_l1_hinge`."""
MANY_NODES, MANY_FOR_A_PATH = 1000, 2000
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
        return for_hinge(problem, tol), "the default for the hinge with this prior, C and number of nodes"
    if isinstance(default, solvers.OWLQN) and for_path(problem, tol):
        return solvers.InteriorPoint(), "many nodes for each weight, or features that depend on each other"
    if isinstance(default, (solvers.LBFGS, solvers.OWLQN)):
        strong = (getattr(problem.prior, "ridge", None) or 0.0) >= WEAK * problem.C
        kinds = (solvers.PotentialAscent, solvers.ProximalAscent)
        for kind in kinds if strong else reversed(kinds):
            if missing(kind, problem) or tol < kind.accuracy or not sparse_features(problem):
                continue
            if not (isinstance(default, solvers.LBFGS) and few_features(problem)):
                return kind(), "many sparse features, of which every example has a few"
    return default, "the default for this prior and loss"


def for_hinge(problem: Problem, tol: float = 1e-3) -> Solver:
    """The default for the hinge: block by block, or all examples at once where the prior has little say.

    ``C * nodes * prior variance / weights`` tells how much of it is left to the prior. Above 2, `BlockFrankWolfe` needs
    more and more passes, and `Smoothing` does not. With few features, for which `Smoothing` knows the Hessian better
    (`soft_curvature`), it is about as fast from ``C * standard deviation`` of 0.1 on, and the larger that is, the
    faster; where labels are hard to tell, ten times. To a gap of 1e-2, CPU seconds of the two: M3N(C=0.1) on the OCR
    letters 1.7 and 1.7, on 500 of the words 0.33 and 0.23, on Bach chorales 2.3 and 2.1, on 20,000 noisy nodes with 50
    labels 18 and 1.6; M3N(C=0.03) on the letters 0.7 and 1.6. On few nodes `Smoothing` takes up to three times as long.
    Where a sum over labellings is much dearer than a maximum (chains of higher order), the limit is as much higher: M3N
    of order 2 with seen n-grams (C=0.5), 6, takes 17 CPU seconds by blocks and 157 at once.
    A structure without blocks has `Smoothing`. L1-M3N has choices of its own, see `for_l1_hinge`.
    """
    if offers(problem.prior, "l1", "l1_ball"):
        return for_l1_hinge(problem, tol)
    if missing(solvers.BlockFrankWolfe, problem) or not problem.backend.local:  # parts take more passes
        return solvers.Smoothing()
    nodes = int(problem.structure.offsets[-1])
    if nodes < FEW_NODES or tol < solvers.Smoothing.accuracy or missing(solvers.Smoothing, problem):
        return solvers.BlockFrankWolfe()
    variance = float(np.mean(capable(problem.prior, "spread").variance(np.zeros(problem.n_weights))))
    strength = problem.C * nodes * variance / max(problem.n_weights, 1) / STRONG
    if has_blocks(problem):
        strength = max(strength, problem.C * np.sqrt(variance) / STRONG_WITH_BLOCKS)
    return (
        solvers.Smoothing() if strength > getattr(problem.structure, "cost_of_sums", 1.0) else solvers.BlockFrankWolfe()
    )


def for_l1_hinge(problem: Problem, tol: float = 1e-3) -> Solver:
    """The default for L1-M3N: `ProximalPoint`, or `InteriorPoint` on many nodes with few weights and a large C.

    CPU seconds of the two. OCR letters, 4,030 weights, to a gap of 1e-2: L1M3N(C=0.5) 62 and 11 on 47,535 nodes, 18 and
    10 on 15,000, 10 and 12 on 7,500; L1M3N(C=0.05) on all 8 and 11. To 1e-1: L1M3N(C=0.5) 8 and 10, L1M3N(C=0.1) 3 and
    6. CB513, 1,068 weights and 128,718 nodes, L1M3N(C=0.3) to 1e-1: 32 and 2, and to 1e-3 4 with the second. On 4,800
    nodes that can nearly all be fitted, 864 weights, L1M3N(C=1) to 1e-2: 0.7 and 1.7.

    A structure without blocks has `Smoothing`, and for the ball `ProjectedSubgradient`.
    """
    if offers(problem.prior, "l1_ball"):
        return solvers.ProjectedSubgradient() if missing(solvers.ProximalPoint, problem) else solvers.ProximalPoint()
    if missing(solvers.ProximalPoint, problem):
        return solvers.Smoothing()
    many = int(problem.structure.offsets[-1]) >= MANY_FOR_L1
    strong = problem.C * problem.batch.largest >= STRONG_L1 * tol * capable(problem.prior, "l1").rho
    if missing(solvers.InteriorPoint, problem) or tol > ROUGH or not (many and strong and pays(problem)):
        return solvers.ProximalPoint()
    return solvers.InteriorPoint()


def for_path(problem: Problem, tol: float = 1e-3) -> bool:
    """Whether `InteriorPoint` is the default for an L1-CRF: where `OWLQN` lacks a dual point.

    CPU seconds of `OWLQN` and `InteriorPoint` to a gap of 1e-3: 128,718 nodes of CB513 with 1,068 weights more than 40
    (with `ProximalAscent` too) and 3.6, 20,000 nodes with 5 labels and 60 features 5.5 and 0.8, the OCR letters 8.5 and
    8.4; the 20,000 nodes with 100 labels, 16,000 weights, to 1e-2 31 and 16. Features that depend on each other: 4,561
    nodes of Bach chorales more than 40 and 10, 2,430 of them 7.7 and 4.8, 1,132 of them 2.9 and 2.4, 521 of them 0.5
    and 1.3. Elsewhere: half of the OCR letters 3 and 4.4, 1,000 of the words 1.6 and 7.4.
    """
    if missing(solvers.InteriorPoint, problem) or tol < solvers.InteriorPoint.accuracy:
        return False
    many = int(problem.structure.offsets[-1]) >= MANY_FOR_A_PATH
    by_hessian = pays_in_part(problem) or (pays(problem) and passes_are_dear(problem))
    return many and (by_hessian or dependent_features(problem))


def dependent_features(problem: Problem) -> bool:
    """Whether some features are sums of others, as they are where each of several attributes has a feature for every
    value. It is told for few features, of which all labels have weights."""
    if not (getattr(problem.structure, "linear_nodes", False) and few_features(problem)):
        return False
    X = features_of(problem)
    with np.errstate(over="ignore"):
        gram = np.asarray((X.T @ X).toarray())
    size = np.sqrt(np.diag(gram))
    used = size > 0
    if not (used.any() and np.isfinite(gram).all()):
        return False
    unit = (gram / np.outer(size, size).clip(min=np.finfo(float).tiny))[np.ix_(used, used)]
    return bool(np.linalg.eigvalsh(unit)[0] < 1e-9)


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
