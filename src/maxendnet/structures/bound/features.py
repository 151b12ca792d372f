"""Features and scores of labellings and marginals of forests and hierarchies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.batch import Batch
from maxendnet.data.ragged import gather
from maxendnet.structures.base import IntArray, Marginals, sums
from maxendnet.structures.weights.layout import FloatArray, Layout, Segments

Entries = tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]
"""Rows, columns and values of a sparse matrix."""


def left_neighbours(batch: Batch) -> NDArray[np.int64]:
    """Left sibling of every node; -1 for first children and roots.

    Examples
    --------
    >>> from maxendnet.data.batch import encode
    >>> from maxendnet.data.examples import Examples
    >>> tree = Examples.build([[[0.0]] * 4], edges=[[(0, 1), (0, 2), (1, 3)]])
    >>> left_neighbours(encode(tree, ["a"], "tree")).tolist()
    [-1, -1, 1, -1]
    """
    left = np.full(len(batch.parent), -1)
    by_parent = np.argsort(batch.parent, kind="stable")
    same = np.flatnonzero(np.diff(batch.parent[by_parent]) == 0)
    same = same[batch.parent[by_parent[same]] >= 0]
    left[by_parent[same + 1]] = by_parent[same]
    return left


# ---- features of labellings, as sparse rows --------------------------------------------------------------------------


class _Nodes(NamedTuple):
    """Nodes of examples, which may repeat. ``parent`` and ``left`` are indices of nodes, or -1."""

    node: NDArray[np.int64]
    row: NDArray[np.int64]
    parent: NDArray[np.int64]
    left: NDArray[np.int64]


def _nodes_of(layout: Layout, batch: Batch, examples: NDArray[np.int64]) -> _Nodes:
    node, offsets = gather(batch.offsets, examples)
    shift = np.arange(len(node)) - node
    parent, left = (
        np.where(relative[node] < 0, -1, relative[node] + shift)
        for relative in (batch.parent, left_neighbours(batch) if layout.siblings else batch.parent)
    )
    return _Nodes(node, np.repeat(np.arange(len(examples)), np.diff(offsets)), parent, left)


def labelling_rows(layout: Layout, batch: Batch, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
    """Features ``f(x_i, y)`` of concatenated labellings, shape (n_rows, n_weights)."""
    nodes = _nodes_of(layout, batch, examples)
    node_entries = _node_entries(layout, batch, nodes.node, nodes.row, labels)
    joint_entries = _joint_entries(layout, batch, nodes, np.flatnonzero(nodes.parent >= 0), labels)
    rows, columns, values = (np.concatenate(pair) for pair in zip(node_entries, joint_entries))
    return sparse.csr_array((values, (rows, columns)), shape=(len(examples), layout.n_weights))


def changes(
    layout: Layout, batch: Batch, before: IntArray, after: IntArray
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Differences ``f(x, after) - f(x, before)``, by connected component.

    A component is a connected set of nodes whose labels differ. Its row includes the edges to adjacent nodes, whose
    labels are the same in both labellings.

    Returns
    -------
    rows : csr_array of shape (n_components, n_weights)
        Columns are in increasing order.
    examples : ndarray of shape (n_components,)
    """
    differ = before != after
    nodes = _nodes_of(layout, batch, np.arange(len(batch.offsets) - 1))
    above = np.where(nodes.parent >= 0, nodes.parent, nodes.node)
    changed, child = np.flatnonzero(differ), np.flatnonzero((nodes.parent >= 0) & (differ | differ[above]))
    tops = _tops(np.where(differ & differ[above], above, nodes.node))[changed]
    first, component = np.unique(tops, return_inverse=True)
    component_of = np.zeros(len(differ), dtype=np.int64)
    component_of[changed] = component
    joins = nodes._replace(row=np.where(differ, component_of, component_of[above]))
    entries = []
    for labels, sign in ((after, 1.0), (before, -1.0)):
        for rows, columns, values in (
            _node_entries(layout, batch, changed, component, labels[changed]),
            _joint_entries(layout, batch, joins, child, labels),
        ):
            entries.append((rows, columns, sign * values))
    rows, columns, values = (np.concatenate(arrays) for arrays in zip(*entries))
    differences = sparse.csr_array((values, (rows, columns)), shape=(len(first), layout.n_weights))
    differences.sum_duplicates()
    return differences, nodes.row[first]


def _tops(above: NDArray[np.int64]) -> NDArray[np.int64]:
    """Root of every node: follow ``above`` until a node is its own parent.

    Examples
    --------
    >>> _tops(np.array([0, 0, 1, 3, 3])).tolist()
    [0, 0, 0, 3, 3]
    """
    while True:
        further = above[above]
        if np.array_equal(further, above):
            return above
        above = further


def _node_entries(layout: Layout, batch: Batch, node: NDArray[Any], row: NDArray[Any], labels: IntArray) -> Entries:
    """Rows, columns and values of the node features."""
    entries, offsets = gather(batch.indptr, node)
    owner = np.repeat(np.arange(len(node)), np.diff(offsets))
    places = layout.node_places(batch.indices[entries], labels[owner])
    weighted = slice(None) if layout.seen is None else places >= 0
    rows, columns, values = [row[owner][weighted]], [places[weighted]], [batch.data[entries][weighted]]
    for j in range(layout.n_label_features):
        rows.append(row)
        columns.append(np.full(len(row), layout.n_weights - layout.n_label_features + j))
        values.append(batch.label_features[node, labels, j])
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def _joint_entries(layout: Layout, batch: Batch, nodes: _Nodes, child: NDArray[Any], labels: IntArray) -> Entries:
    """Rows, columns and values of the edge and sibling features of these child nodes."""
    L, start, row = layout.n_labels, layout.n_node_weights, nodes.row[child]
    rows, columns, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    if layout.n_matrices:
        cell = _cells(layout, batch, nodes.node[child], labels[nodes.parent[child]], labels[child])
        rows.append(row)
        columns.append(start + batch.edge_type[nodes.node[child]] * L * L + cell)
        values.append(np.ones(len(child)))
    for f in range(layout.n_edge_features):
        rows.append(row)
        columns.append(start + (layout.n_edge_types + f) * L * L + cell)
        values.append(batch.edge_features[nodes.node[child], f])
    if layout.siblings:
        has_left = nodes.left[child] >= 0
        right = child[has_left]
        triple = (labels[nodes.parent[right]].astype(np.int64) * L + labels[nodes.left[right]]) * L + labels[right]
        kind = batch.edge_type[nodes.node[right]].astype(np.int64)
        rows.append(row[has_left])
        columns.append(start + layout.n_matrices * L * L + kind * L**3 + triple)
        values.append(np.ones(len(right)))
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def _cells(layout: Layout, batch: Batch, child: NDArray[Any], above: IntArray, below: IntArray) -> NDArray[np.int64]:
    """Return flat indices of (parent, child) label pairs in a transition matrix.

    Rows of the matrix are labels of the first node of an edge as the user passed it, which may be the child.
    """
    flipped = batch.flipped[child].astype(bool)
    first, second = np.where(flipped, below, above), np.where(flipped, above, below)
    indices: NDArray[np.int64] = first.astype(np.int64) * layout.n_labels + second
    return indices


# ---- features and scores of marginals --------------------------------------------------------------------------------


def features_of(
    layout: Layout, batch: Batch, node: FloatArray, matrices: FloatArray, siblings: FloatArray | None = None
) -> FloatArray:
    """Features ``sum_y alpha(y) f(x, y)`` over all examples, from marginals.

    Parameters
    ----------
    layout : Layout
    batch : Batch
    node : ndarray of shape (n_nodes, n_labels)
    matrices : ndarray of shape (n_matrices, n_labels, n_labels)
        Edge marginals, summed for each weight matrix.
    siblings : ndarray of shape (n_edge_types, n_labels, n_labels, n_labels), optional
        Sibling marginals, summed by edge type.

    Returns
    -------
    ndarray of shape (n_weights,)
    """
    X = sparse.csr_array((batch.data, batch.indices, batch.indptr), shape=(len(node), layout.n_features))
    of_labels = np.einsum("tl,tlj->j", node, batch.label_features) if layout.n_label_features else np.zeros(0)
    n_types = layout.n_edge_types
    triples = np.zeros(layout.n_siblings) if siblings is None else siblings
    node_segment = layout.node_segment(X.T @ node)
    return layout.join(
        Segments(node_segment, matrices[:n_types], matrices[n_types:], triples, np.zeros(layout.n_ngrams), of_labels)
    )


def _dense(matrix: Any) -> FloatArray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def marginal_features(layout: Layout, batch: Batch, q: Marginals, weight: FloatArray) -> FloatArray:
    """Expected features under marginals, summed over examples times their ``weight``."""
    of_node = np.repeat(weight, np.diff(batch.offsets))
    matrices = np.zeros((layout.n_matrices, layout.n_labels, layout.n_labels))
    if layout.n_matrices:
        assert q.edge is not None, "features of marginals need marginals of edges: logsum(..., cliques=True)"
        edge = of_node[:, None, None] * q.edge
        np.add.at(matrices, batch.edge_type, edge)
        matrices[layout.n_edge_types :] = np.einsum("tf,tab->fab", batch.edge_features, edge)
    siblings = None
    if layout.siblings:
        assert q.siblings is not None, "features of marginals need marginals of siblings: logsum(..., cliques=True)"
        siblings = np.zeros((layout.n_edge_types, *q.siblings.shape[1:]))
        np.add.at(siblings, batch.edge_type, of_node[:, None, None, None] * q.siblings)
    return features_of(layout, batch, of_node[:, None] * q.node, matrices, siblings)


def node_scores(layout: Layout, batch: Batch, w: FloatArray) -> FloatArray:
    """Node scores, without edge scores, shape (n_nodes, n_labels)."""
    shape = (len(batch.parent), layout.n_features)
    scores = _dense(sparse.csr_array((batch.data, batch.indices, batch.indptr), shape=shape) @ layout.node_rows(w))
    return scores + batch.label_features @ layout.segments(w).label_features if layout.n_label_features else scores


def marginal_score(layout: Layout, batch: Batch, w: FloatArray, q: Marginals) -> FloatArray:
    """Expected score of each example under marginals."""
    segments, scores = layout.segments(w), node_scores(layout, batch, w)
    # labels that are not allowed have marginal 0, so their score may be infinite
    total = np.sum(np.where(q.node != 0, scores, 0.0) * q.node, axis=1)
    if layout.n_matrices and q.edge is not None:
        of_edge = segments.transitions[batch.edge_type] + np.einsum("tf,fab->tab", batch.edge_features, segments.edge)
        total += np.sum(of_edge * q.edge, axis=(1, 2))
    if layout.siblings and q.siblings is not None:
        total += np.sum(segments.siblings[batch.edge_type] * q.siblings, axis=(1, 2, 3))
    return sums(total, batch.offsets)
