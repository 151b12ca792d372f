"""Learning problem: examples on a backend, a loss, a prior and C."""

from maxendnet.problem.problem import FloatArray, Problem

__all__ = ["FloatArray", "Problem"]
