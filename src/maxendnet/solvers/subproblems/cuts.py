"""Cuts: linear lower bounds of a loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.base import table_values


class Cuts(NamedTuple):
    """Linear functions ``gain - row . w`` below the hinge of an example, or below the sum of all losses."""

    examples: NDArray[np.int64]
    """Example of every cut; 0 for cuts below the sum of all losses."""
    rows: Any
    """csr_array of shape (n_cuts, n_weights)"""
    gains: FloatArray
    idle: NDArray[np.int64]
    """Consecutive passes in which the cut had no dual weight."""

    @classmethod
    def none(cls, n_weights: int) -> Cuts:
        """Return an empty set of cuts."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, sparse.csr_array((0, n_weights)), np.zeros(0), empty)

    def with_new(self, examples: NDArray[np.int64], rows: Any, gains: FloatArray) -> Cuts:
        """Return these cuts followed by new ones."""
        return Cuts(
            np.concatenate([self.examples, examples]),
            sparse.csr_array(sparse.vstack([self.rows, rows])),
            np.concatenate([self.gains, gains]),
            np.concatenate([self.idle, np.zeros(len(examples), dtype=np.int64)]),
        )

    def take(self, keep: NDArray[np.bool_]) -> Cuts:
        """Return the cuts for which ``keep`` is true."""
        return Cuts(self.examples[keep], self.rows[keep], self.gains[keep], self.idle[keep])


class Violated(NamedTuple):
    """Hinge of all examples, and the decoded labellings that are not covered by known cuts."""

    hinge: FloatArray
    examples: NDArray[np.int64]
    rows: Any
    """csr_array of shape (n_labellings, n_weights): the df of each labelling."""
    costs: FloatArray


def violated(problem: Problem, w: FloatArray, known: Cuts) -> Violated:
    """Decode every example with its costs added, and return the labellings that the known cuts do not cover.

    Examples with sample weight 0 are left out.
    """
    structure = problem.structure
    _, labels = structure.maximum(w, problem.cost_table, backend=problem.backend)
    problem.n_oracle += problem.n_examples
    cost = table_values(structure, problem.cost_table, labels)
    rows = structure.differences(np.arange(problem.n_examples), labels)
    hinge = np.maximum(cost - rows @ w, 0.0)
    covered = np.zeros(problem.n_examples)
    np.maximum.at(covered, known.examples, known.gains - known.rows @ w)
    new = np.flatnonzero((hinge > covered + 1e-9 * (1 + hinge)) & (structure.sample_weight > 0))
    return Violated(hinge, new, rows[new], cost[new])
