"""Edges of graphs beside the nodes of a batch: their scores, and the features of labellings along them."""

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
    """The edges of some examples."""

    pairs: IntArray
    """(n_edges, 2): nodes, numbered within the example; the first is the row of matrices."""
    offsets: NDArray[np.int64]
    """(n_examples + 1,): edges of an example."""
    kind: IntArray
    """(n_edges,): the type."""
    features: FloatArray
    """(n_edges, n_edge_features)"""

    @classmethod
    def of(cls, examples: Examples) -> Edges:
        """The edges that come with examples."""
        pairs, offsets = examples.edges, examples.edge_offsets
        if pairs is None or offsets is None:
            pairs, offsets = np.zeros((0, 2), dtype=np.int32), np.zeros(len(examples) + 1, dtype=np.int64)
        kind = np.zeros(len(pairs), dtype=np.int32) if examples.edge_types is None else examples.edge_types
        features = np.zeros((len(pairs), 0)) if examples.edge_features is None else examples.edge_features
        dense = np.ascontiguousarray
        return cls(dense(pairs), dense(offsets), dense(kind), dense(features))

    def take(self, first: int, last: int) -> Edges:
        """Those of examples [first, last)."""
        some = slice(int(self.offsets[first]), int(self.offsets[last]))
        offsets = self.offsets[first : last + 1] - some.start
        return Edges(self.pairs[some], offsets, self.kind[some], self.features[some])

    def nodes(self, node_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The nodes of every edge, numbered among those of all examples, shape (n_edges, 2)."""
        return self.pairs + node_offsets[owners(self.offsets)][:, None]


def matrices_of(layout: Layout, edges: Edges, w: FloatArray) -> tuple[FloatArray, IntArray]:
    """Matrices of scores and which of them each edge has: one for a type, or with features one for every edge."""
    segments = layout.segments(w)
    if not layout.n_edge_features:
        return np.ascontiguousarray(segments.transitions), edges.kind
    own = segments.transitions[edges.kind] + np.tensordot(edges.features, segments.edge, 1)
    return own, np.arange(len(own), dtype=np.int32)


def sums_by_matrix(layout: Layout, edges: Edges, tables: FloatArray, weight: FloatArray) -> FloatArray:
    """Tables of edges, times a weight, added up for every matrix of weights: (n_matrices, n_labels, n_labels)."""
    L, n = layout.n_labels, len(edges.kind)
    flat = tables.reshape(n, L * L)
    by_type = sparse.csr_array((weight, (edges.kind, np.arange(n))), shape=(layout.n_edge_types, n))
    by_feature = (edges.features * weight[:, None]).T @ flat
    return np.concatenate([by_type @ flat, by_feature]).reshape(-1, L, L)


def labelling_rows(
    layout: Layout, edges: Edges, node_offsets: NDArray[np.int64], examples: NDArray[np.int64], labels: IntArray
) -> sparse.csr_array:
    """Features along the edges of several labellings, one behind the other: sparse rows over all matrices."""
    L = layout.n_labels
    some, own_edges = gather(edges.offsets, examples)
    own_nodes = gather(node_offsets, examples)[1]
    row = owners(own_edges)
    first, second = labels[edges.pairs[some] + own_nodes[row][:, None]].T.astype(np.int64)
    cell = first * L + second
    columns = [edges.kind[some] * (L * L) + cell]
    values = [np.ones(len(some))]
    for f in range(layout.n_edge_features):
        columns.append((layout.n_edge_types + f) * L * L + cell)
        values.append(edges.features[some, f])
    rows = np.tile(row, len(columns))
    shape = (len(examples), layout.n_matrices * L * L)
    return sparse.csr_array((np.concatenate(values), (rows, np.concatenate(columns))), shape=shape)
