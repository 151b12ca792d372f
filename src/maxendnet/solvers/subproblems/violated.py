"""The most violated labellings, as rows for solvers with explicit constraints."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.base import table_values


class Violated(NamedTuple):
    """Labellings that are more violated than the known ones of their example; and the hinge of all examples."""

    hinge: FloatArray
    examples: NDArray[np.int64]
    rows: Any  # csr_array, df of each
    costs: FloatArray


def violated(
    problem: Problem, w: FloatArray, known_examples: NDArray[np.int64], known_rows: Any, known_costs: FloatArray
) -> Violated:
    """Decode every example with its costs added, and keep what the rows at hand do not say already.

    Examples of weight 0 have no rows.
    """
    structure = problem.structure
    _, labels = structure.maximum(w, problem.cost_table, backend=problem.backend)
    problem.n_oracle += problem.n_examples
    cost = table_values(structure, problem.cost_table, labels)
    rows = structure.differences(np.arange(problem.n_examples), labels)
    hinge = np.maximum(cost - rows @ w, 0.0)
    known = np.zeros(problem.n_examples)
    np.maximum.at(known, known_examples, known_costs - known_rows @ w)
    new = np.flatnonzero((hinge > known + 1e-9 * (1 + hinge)) & (structure.sample_weight > 0))
    return Violated(hinge, new, rows[new], cost[new])
