"""The log loss of conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maxendnet.piece import Piece
from maxendnet.structures.hierarchy import left_neighbours

if TYPE_CHECKING:
    from maxendnet.problem import FloatArray, Problem


@dataclass(eq=False, repr=False)
class Log(Piece):
    """``log_i(w) = -log p(y_i | x_i; w)``, with ``p(y | x; w)`` proportional to ``exp(w . f(x, y))``.

    Examples
    --------
    >>> Log().smooth
    True
    """

    smooth = True

    def evaluate(self, problem: Problem, w: FloatArray, gradient: bool, single: bool) -> tuple[FloatArray, FloatArray]:
        """Log loss of every example and, if asked, the gradient of their weighted sum."""
        values, _, slope = problem.structure.log_losses(problem, w, None, gradient, single)
        return values, slope

    def curvature(self, problem: Problem) -> FloatArray:
        """Diagonal of the Hessian of the weighted sum at ``w = 0``, where all labellings are alike.

        Labels that are not allowed are counted as the others, and edges that share a node as if they did not: it serves
        as a scale of the weights.
        """
        structure, batch = problem.structure, problem.batch
        L = structure.n_labels
        u = np.repeat(batch.weights, np.diff(batch.offsets))
        entries = np.repeat(u, np.diff(batch.indptr)) * batch.data**2
        node = np.bincount(batch.indices, entries, minlength=structure.n_features)
        joined = batch.parent >= 0
        kinds = np.bincount(batch.edge_type[joined], u[joined], minlength=structure.n_edge_types)
        edge = u[joined] @ batch.edge_features[joined] ** 2
        tied = u @ batch.label_features.var(axis=1) if structure.n_tied else np.zeros(0)
        per_node, per_edge = (1 - 1 / L) / L, (1 - 1 / L**2) / L**2
        matrices = np.concatenate([kinds, edge])[: structure.n_matrices]
        siblings = np.zeros(0)
        if structure.n_siblings:
            right = left_neighbours(batch) >= 0
            pairs = np.bincount(batch.edge_type[right], u[right], minlength=structure.n_edge_types)
            siblings = np.repeat((1 - 1 / L**3) / L**3 * pairs, L**3)
        return np.concatenate([np.repeat(per_node * node, L), np.repeat(per_edge * matrices, L * L), siblings, tied])
