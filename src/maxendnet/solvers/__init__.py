"""Solvers: one class for each optimisation algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxendnet.solvers.base import Monitor, Result, Solver, TraceRow, run
from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    ALL: list[type[Solver]]
    from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe as BlockFrankWolfe
    from maxendnet.solvers.concave_convex import ConcaveConvex as ConcaveConvex
    from maxendnet.solvers.cutting_plane import CuttingPlane as CuttingPlane
    from maxendnet.solvers.interior_point import InteriorPoint as InteriorPoint
    from maxendnet.solvers.lbfgs import LBFGS as LBFGS
    from maxendnet.solvers.owlqn import OWLQN as OWLQN
    from maxendnet.solvers.potential_ascent import PotentialAscent as PotentialAscent
    from maxendnet.solvers.proximal_ascent import ProximalAscent as ProximalAscent
    from maxendnet.solvers.proximal_point import ProximalPoint as ProximalPoint
    from maxendnet.solvers.reference.constraint_generation import ConstraintGeneration as ConstraintGeneration
    from maxendnet.solvers.reference.exponentiated_gradient import ExponentiatedGradient as ExponentiatedGradient
    from maxendnet.solvers.reference.extragradient import Extragradient as Extragradient
    from maxendnet.solvers.reference.smo import SMO as SMO
    from maxendnet.solvers.self_training import SelfTraining as SelfTraining
    from maxendnet.solvers.smoothing import Smoothing as Smoothing
    from maxendnet.solvers.subgradient import Subgradient as Subgradient
    from maxendnet.solvers.subproblems.l1_projection import project_l1_ball as project_l1_ball
    from maxendnet.solvers.variational import Variational as Variational

_homes, _get, __dir__ = lazily(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "ALL":  # the classes of solvers, in alphabetical order
        return [_get(solver) for solver in sorted(_homes, key=str.lower) if solver[0].isupper()]
    return _get(name)


__all__ = ["ALL", "Monitor", "Result", "Solver", "TraceRow", "run", *_homes]
