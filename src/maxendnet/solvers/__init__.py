"""Ways to the optimum, all in one protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxendnet.solvers.base import Monitor, Result, Solver, TraceRow, run
from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    ALL: list[type[Solver]]
    from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe
    from maxendnet.solvers.concave_convex import ConcaveConvex
    from maxendnet.solvers.cutting_plane import CuttingPlane
    from maxendnet.solvers.interior_point import InteriorPoint
    from maxendnet.solvers.l1_projection import project_l1_ball
    from maxendnet.solvers.lbfgs import LBFGS
    from maxendnet.solvers.owlqn import OWLQN
    from maxendnet.solvers.potential_ascent import PotentialAscent
    from maxendnet.solvers.proximal_ascent import ProximalAscent
    from maxendnet.solvers.proximal_point import ProximalPoint
    from maxendnet.solvers.reference.constraint_generation import ConstraintGeneration
    from maxendnet.solvers.reference.exponentiated_gradient import ExponentiatedGradient
    from maxendnet.solvers.reference.extragradient import Extragradient
    from maxendnet.solvers.reference.smo import SMO
    from maxendnet.solvers.self_training import SelfTraining
    from maxendnet.solvers.smoothing import Smoothing
    from maxendnet.solvers.subgradient import Subgradient
    from maxendnet.solvers.variational import Variational

_HOMES = {
    "BlockFrankWolfe": "maxendnet.solvers.block_frank_wolfe",
    "ConcaveConvex": "maxendnet.solvers.concave_convex",
    "ConstraintGeneration": "maxendnet.solvers.reference.constraint_generation",
    "CuttingPlane": "maxendnet.solvers.cutting_plane",
    "ExponentiatedGradient": "maxendnet.solvers.reference.exponentiated_gradient",
    "Extragradient": "maxendnet.solvers.reference.extragradient",
    "InteriorPoint": "maxendnet.solvers.interior_point",
    "project_l1_ball": "maxendnet.solvers.l1_projection",
    "LBFGS": "maxendnet.solvers.lbfgs",
    "OWLQN": "maxendnet.solvers.owlqn",
    "PotentialAscent": "maxendnet.solvers.potential_ascent",
    "ProximalAscent": "maxendnet.solvers.proximal_ascent",
    "ProximalPoint": "maxendnet.solvers.proximal_point",
    "SelfTraining": "maxendnet.solvers.self_training",
    "SMO": "maxendnet.solvers.reference.smo",
    "Smoothing": "maxendnet.solvers.smoothing",
    "Subgradient": "maxendnet.solvers.subgradient",
    "Variational": "maxendnet.solvers.variational",
}
_other, __dir__ = lazily(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "ALL":  # the classes of solvers, in alphabetical order
        return [_other(solver) for solver in _HOMES if solver[0].isupper()]
    return _other(name)


__all__ = [
    "ALL",
    "LBFGS",
    "OWLQN",
    "SMO",
    "BlockFrankWolfe",
    "ConcaveConvex",
    "ConstraintGeneration",
    "CuttingPlane",
    "ExponentiatedGradient",
    "Extragradient",
    "InteriorPoint",
    "Monitor",
    "PotentialAscent",
    "ProximalAscent",
    "ProximalPoint",
    "Result",
    "SelfTraining",
    "Smoothing",
    "Solver",
    "Subgradient",
    "TraceRow",
    "Variational",
    "project_l1_ball",
    "run",
]
