"""Ways to the optimum, all in one protocol."""

from maxendnet.solvers.active_set_newton import ActiveSetNewton
from maxendnet.solvers.base import Monitor, Result, Solver, TraceRow, run
from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe
from maxendnet.solvers.constraint_generation import ConstraintGeneration
from maxendnet.solvers.exponentiated_gradient import ExponentiatedGradient
from maxendnet.solvers.extragradient import Extragradient
from maxendnet.solvers.lbfgs import LBFGS
from maxendnet.solvers.owlqn import OWLQN
from maxendnet.solvers.proximal_point import ProximalPoint
from maxendnet.solvers.sdca import SDCA
from maxendnet.solvers.smo import SMO
from maxendnet.solvers.variational import Variational

ALL: list[type[Solver]] = [
    ActiveSetNewton,
    BlockFrankWolfe,
    ConstraintGeneration,
    ExponentiatedGradient,
    Extragradient,
    LBFGS,
    OWLQN,
    ProximalPoint,
    SDCA,
    SMO,
    Variational,
]

__all__ = [
    "ALL",
    "LBFGS",
    "OWLQN",
    "SDCA",
    "SMO",
    "ActiveSetNewton",
    "BlockFrankWolfe",
    "ConstraintGeneration",
    "ExponentiatedGradient",
    "Extragradient",
    "Monitor",
    "ProximalPoint",
    "Result",
    "Solver",
    "TraceRow",
    "Variational",
    "run",
]
