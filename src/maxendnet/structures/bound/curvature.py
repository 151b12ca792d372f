"""Curvature of the log loss at zero weights, from which solvers derive a scale for each weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.structures.bound.features import left_neighbours
from maxendnet.structures.weights.layout import FloatArray, Layout

NODES_AT_ONCE = 1 << 18
"""Nodes whose features are squared at a time, to save memory."""


def uniform_curvature(layout: Layout, batch: Batch) -> FloatArray:
    """Diagonal Hessian of the log losses for uniform clique marginals."""
    L = layout.n_labels
    u = np.repeat(batch.sample_weight, np.diff(batch.offsets))
    node, kinds = np.zeros(layout.n_features), np.zeros(max(1, layout.n_edge_types))
    edge = np.zeros(batch.edge_features.shape[1])
    for first in range(0, len(u), NODES_AT_ONCE):  # for memory-mapped data even one float per node is too much
        nodes = slice(first, first + NODES_AT_ONCE)
        lengths = np.diff(batch.indptr[first : first + NODES_AT_ONCE + 1])
        entries = slice(int(batch.indptr[first]), int(batch.indptr[first]) + int(lengths.sum()))
        squares = np.repeat(u[nodes], lengths) * batch.data[entries] ** 2
        node += np.bincount(batch.indices[entries], squares, minlength=layout.n_features)
        joined = batch.parent[nodes] >= 0
        kinds += np.bincount(batch.edge_type[nodes][joined], u[nodes][joined], minlength=len(kinds))
        edge += u[nodes][joined] @ batch.edge_features[nodes][joined] ** 2
    of_labels = u @ batch.label_features.var(axis=1) if layout.n_label_features else np.zeros(0)
    matrices = np.concatenate([kinds, edge])[: layout.n_matrices]
    right = left_neighbours(batch) >= 0 if layout.siblings else np.zeros(len(u), dtype=bool)
    n_sibling_types = layout.n_edge_types if layout.siblings else 0
    triples = np.bincount(batch.edge_type[right], u[right], minlength=n_sibling_types)[:n_sibling_types]

    def share(counts: NDArray[Any], n_cells: int) -> FloatArray:
        return np.repeat((1 - 1 / n_cells) / n_cells * counts, n_cells)

    of_node = (1 - 1 / L) / L * (np.repeat(node, L) if layout.seen is None else node[layout.seen.features])
    return np.concatenate([of_node, share(matrices, L * L), share(triples, L**3), of_labels])
