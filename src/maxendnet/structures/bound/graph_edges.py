"""Edges of graphs: their scores and features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.data.ragged import gather, owners
from maxendnet.structures.base import IntArray
from maxendnet.structures.weights.layout import FloatArray, Layout


class Edges(NamedTuple):
    """Edges of examples."""

    pairs: IntArray
    """(n_edges, 2): nodes, numbered within the example. Labels of the first node are rows of the matrices."""
    offsets: NDArray[np.int64]
    """(n_examples + 1,): example i has the edges ``offsets[i]:offsets[i + 1]``."""
    kind: IntArray
    """(n_edges,): edge type."""
    features: FloatArray
    """(n_edges, n_edge_features)"""

    @classmethod
    def of(cls, examples: Examples) -> Edges:
        """Return the edges of examples."""
        pairs, offsets = examples.edges, examples.edge_offsets
        if pairs is None or offsets is None:
            pairs, offsets = np.zeros((0, 2), dtype=np.int32), np.zeros(len(examples) + 1, dtype=np.int64)
        kind = np.zeros(len(pairs), dtype=np.int32) if examples.edge_types is None else examples.edge_types
        features = np.zeros((len(pairs), 0)) if examples.edge_features is None else examples.edge_features
        dense = np.ascontiguousarray
        return cls(dense(pairs), dense(offsets), dense(kind), dense(features))

    def take(self, first: int, last: int) -> Edges:
        """Return the edges of examples [first, last)."""
        edges = slice(int(self.offsets[first]), int(self.offsets[last]))
        offsets = self.offsets[first : last + 1] - edges.start
        return Edges(self.pairs[edges], offsets, self.kind[edges], self.features[edges])

    def nodes(self, node_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nodes of every edge, numbered over all examples, shape (n_edges, 2)."""
        return self.pairs + node_offsets[owners(self.offsets)][:, None]


def matrices_of(layout: Layout, edges: Edges, w: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return score matrices, and the number of the matrix of each edge.

    There is one matrix per type, or one per edge if edges have features.
    """
    segments = layout.segments(w)
    if not layout.n_edge_features:
        return np.ascontiguousarray(segments.transitions), edges.kind
    matrices = segments.transitions[edges.kind] + np.tensordot(edges.features, segments.edge, 1)
    return matrices, np.arange(len(matrices), dtype=np.int32)


def sums_by_matrix(layout: Layout, edges: Edges, tables: FloatArray, weight: FloatArray) -> FloatArray:
    """Weighted sums of edge tables by matrix, shape (n_matrices, n_labels, n_labels)."""
    L, n = layout.n_labels, len(edges.kind)
    flat = tables.reshape(n, L * L)
    by_type = sparse.csr_array((weight, (edges.kind, np.arange(n))), shape=(layout.n_edge_types, n))
    by_feature = (edges.features * weight[:, None]).T @ flat
    return np.concatenate([by_type @ flat, by_feature]).reshape(-1, L, L)


def labelling_rows(
    layout: Layout, edges: Edges, node_offsets: NDArray[np.int64], examples: NDArray[np.int64], labels: IntArray
) -> sparse.csr_array:
    """Edge features of concatenated labellings, as sparse rows over the entries of all matrices."""
    L = layout.n_labels
    edge, edge_offsets = gather(edges.offsets, examples)
    first_nodes = gather(node_offsets, examples)[1]
    row = owners(edge_offsets)
    first, second = labels[edges.pairs[edge] + first_nodes[row][:, None]].T.astype(np.int64)
    cell = first * L + second
    columns = [edges.kind[edge] * (L * L) + cell]
    values = [np.ones(len(edge))]
    for f in range(layout.n_edge_features):
        columns.append((layout.n_edge_types + f) * L * L + cell)
        values.append(edges.features[edge, f])
    rows = np.tile(row, len(columns))
    shape = (len(examples), layout.n_matrices * L * L)
    return sparse.csr_array((np.concatenate(values), (rows, np.concatenate(columns))), shape=shape)
