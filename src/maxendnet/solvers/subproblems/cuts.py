"""Cuts: linear lower bounds of a loss."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.base import table_values
from maxendnet.utils.state_fields import Values, require, rounding_of


class Cuts(NamedTuple):
    """Linear functions ``gain - row . w`` below the hinge of an example, or below the sum of all losses."""

    examples: Annotated[NDArray[np.int64], Values("cuts", below="examples")]
    """Example of every cut; 0 for cuts below the sum of all losses."""
    rows: Annotated[Any, Values("cuts weights")]
    """csr_array of shape (n_cuts, n_weights)"""
    gains: Annotated[FloatArray, Values("cuts")]
    idle: Annotated[NDArray[np.int64], Values("cuts", low=0)]
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

    def check_below(self, w: FloatArray, problem: Problem, of_examples: bool) -> None:
        """Check that the cuts are below the losses, at a few weights around w."""
        rng = np.random.default_rng(0)
        size = float(np.abs(w).max(initial=0.0)) or 1.0
        for at in (w, 10.0 * w, *rng.normal(0.0, size, (2, problem.n_weights))):
            losses: Any
            if of_examples:
                losses = violated(problem, at, Cuts.none(problem.n_weights)).hinge[self.examples]
            else:
                losses = problem.loss_and_gradient(at, gradient=False).loss
            below = self.gains - self.rows @ at
            allowed = rounding_of(problem) * (1.0 + np.abs(below) + np.abs(losses))
            require(np.all(below <= losses + allowed), "a cut exceeds the loss")


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
