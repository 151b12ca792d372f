"""The log loss of conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maxendnet import _kernels
from maxendnet.piece import Piece

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
        structure, batch = problem.structure, problem.batch
        dtype = np.float32 if single and structure.mode(w, batch, np.float32, centred=True) == 0 else np.float64
        mode = structure.mode(w, batch, dtype, centred=True)
        weights, values = structure.for_search(w, dtype), np.zeros(problem.n_examples)
        blocks, groups = problem.blocks

        def part(first: int, last: int, buffer: FloatArray | None) -> None:
            _kernels.log_oracle(
                batch, structure.shape, groups, blocks.examples, weights, None, mode, first, last, values, None, buffer
            )

        return values, problem.sum_over(blocks.shards, part, gradient)

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
        return np.concatenate([np.repeat(per_node * node, L), np.repeat(per_edge * matrices, L * L), tied])
