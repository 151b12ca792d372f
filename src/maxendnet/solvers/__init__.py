"""Ways to the optimum, all in one protocol."""

from maxendnet.solvers.base import Monitor, Result, Solver, TraceRow, run
from maxendnet.solvers.block_frank_wolfe import BlockFrankWolfe
from maxendnet.solvers.continuation import Continuation
from maxendnet.solvers.lbfgs import LBFGS
from maxendnet.solvers.owlqn import OWLQN
from maxendnet.solvers.variational import Variational

ALL = [BlockFrankWolfe, Continuation, LBFGS, OWLQN, Variational]

__all__ = ["ALL", "LBFGS", "OWLQN", "BlockFrankWolfe", "Continuation", "Monitor", "Result", "Solver", "TraceRow",
           "Variational", "run"]  # fmt: skip
