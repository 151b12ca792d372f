"""Features of labellings and of marginals on forests and hierarchies, and the scores that are adjoint to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.batch import Batch
from maxendnet.data.ragged import gather
from maxendnet.structures.base import IntArray, Marginals, sums
from maxendnet.structures.weights.layout import FloatArray, Layout, Segments


def left_neighbours(batch: Batch) -> NDArray[np.int64]:
    """Of every node the child of the same parent that comes before it, -1 for the first child and for a root.

    Examples
    --------
    >>> from maxendnet.data.batch import encode
    >>> from maxendnet.data.examples import Examples
    >>> tree = Examples.build([[[0.0]] * 4], edges=[[(0, 1), (0, 2), (1, 3)]])
    >>> left_neighbours(encode(tree, ["a"], "tree")).tolist()
    [-1, -1, 1, -1]
    """
    found = np.full(len(batch.parent), -1)
    by_parent = np.argsort(batch.parent, kind="stable")
    same = np.flatnonzero(np.diff(batch.parent[by_parent]) == 0)
    same = same[batch.parent[by_parent[same]] >= 0]
    found[by_parent[same + 1]] = by_parent[same]
    return found


# ---- labellings: a few features each ---------------------------------------------------------------------------------


class _Nodes(NamedTuple):
    """Nodes of some examples, which may repeat; ``parent`` and ``left`` are places among them, or -1."""

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
    """``f(x_i, y)`` for several labellings, one behind the other: sparse rows of shape (n_rows, n_weights)."""
    nodes = _nodes_of(layout, batch, examples)
    rows, columns, values = _entries(layout, batch, nodes, labels)
    return sparse.csr_array((values, (rows, columns)), shape=(len(examples), layout.n_weights))


def changes(
    layout: Layout, batch: Batch, before: IntArray, after: IntArray
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """``f(x, after) - f(x, before)`` of two labellings of all examples, in parts that do not touch.

    A part is a set of nodes whose labels differ and that hang together. With each goes what joins it to the nodes
    around it, whose labels are the same in both.

    Returns
    -------
    rows : csr_array of shape (n_parts, n_weights)
        Columns are in increasing order.
    examples : ndarray of shape (n_parts,)
    """
    differ = before != after
    nodes = _nodes_of(layout, batch, np.arange(len(batch.offsets) - 1))
    above = np.where(nodes.parent >= 0, nodes.parent, nodes.node)
    own, child = np.flatnonzero(differ), np.flatnonzero((nodes.parent >= 0) & (differ | differ[above]))
    first, part = np.unique(_tops(np.where(differ & differ[above], above, nodes.node))[own], return_inverse=True)
    part_of = np.zeros(len(differ), dtype=np.int64)
    part_of[own] = part
    joins = nodes._replace(row=np.where(differ, part_of, part_of[above]))
    entries = []
    for labels, sign in ((after, 1.0), (before, -1.0)):
        for rows, columns, values in (
            _node_entries(layout, batch, own, part, labels[own]),
            _joint_entries(layout, batch, joins, child, labels),
        ):
            entries.append((rows, columns, sign * values))
    rows, columns, values = (np.concatenate(some) for some in zip(*entries))
    result = sparse.csr_array((values, (rows, columns)), shape=(len(first), layout.n_weights))
    result.sum_duplicates()
    return result, nodes.row[first]


def _tops(above: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the path ends that goes on from each node to the one above, until a node is above itself.

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


def _entries(layout: Layout, batch: Batch, nodes: _Nodes, labels: IntArray):
    """Rows, columns and values of the features of labellings."""
    own = _node_entries(layout, batch, nodes.node, nodes.row, labels)
    joint = _joint_entries(layout, batch, nodes, np.flatnonzero(nodes.parent >= 0), labels)
    return tuple(np.concatenate(pair) for pair in zip(own, joint))


def _node_entries(layout: Layout, batch: Batch, node: NDArray, row: NDArray, labels: IntArray):
    """Those of some nodes with a label each."""
    entries, offsets = gather(batch.indptr, node)
    owner = np.repeat(np.arange(len(node)), np.diff(offsets))
    places = layout.node_places(batch.indices[entries], labels[owner])
    known = slice(None) if layout.seen is None else places >= 0
    rows, columns, values = [row[owner][known]], [places[known]], [batch.data[entries][known]]
    for j in range(layout.n_label_features):
        rows.append(row)
        columns.append(np.full(len(row), layout.n_weights - layout.n_label_features + j))
        values.append(batch.label_features[node, labels, j])
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def _joint_entries(layout: Layout, batch: Batch, nodes: _Nodes, child: NDArray, labels: IntArray):
    """Those of some nodes, at these places, together with their parents and left neighbours."""
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
        beside = nodes.left[child] >= 0
        right = child[beside]
        triple = (labels[nodes.parent[right]].astype(np.int64) * L + labels[nodes.left[right]]) * L + labels[right]
        kind = batch.edge_type[nodes.node[right]].astype(np.int64)
        rows.append(row[beside])
        columns.append(start + layout.n_matrices * L * L + kind * L**3 + triple)
        values.append(np.ones(len(right)))
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


def _cells(layout: Layout, batch: Batch, child, above, below) -> NDArray[np.int64]:
    """Places of pairs (label of the parent, label of the child) in a matrix, whose row is the user's first node."""
    flipped = batch.flipped[child].astype(bool)
    first, second = np.where(flipped, below, above), np.where(flipped, above, below)
    return first.astype(np.int64) * layout.n_labels + second


# ---- marginals: all features of a node -------------------------------------------------------------------------------


def features_of(
    layout: Layout, batch: Batch, node: FloatArray, matrices: FloatArray, siblings: FloatArray | None = None
) -> FloatArray:
    """``sum_y alpha(y) f(x, y)`` over all examples, from the marginals of alpha.

    Parameters
    ----------
    layout : Layout
    batch : Batch
    node : ndarray of shape (n_nodes, n_labels)
    matrices : ndarray of shape (n_matrices, n_labels, n_labels)
        Marginals of edges summed for every matrix of weights.
    siblings : ndarray of shape (n_edge_types, n_labels, n_labels, n_labels), optional
        Those of neighbouring children, summed by the type of edge.

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


def _dense(matrix) -> FloatArray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def marginal_features(layout: Layout, batch: Batch, q: Marginals, weight: FloatArray) -> FloatArray:
    """Features of marginals, summed over examples times ``weight``."""
    of_node = np.repeat(weight, np.diff(batch.offsets))
    matrices = np.zeros((layout.n_matrices, layout.n_labels, layout.n_labels))
    if layout.n_matrices:
        assert q.edge is not None, "features of marginals need those of edges: logsum(..., cliques=True)"
        edge = of_node[:, None, None] * q.edge
        np.add.at(matrices, batch.edge_type, edge)
        matrices[layout.n_edge_types :] = np.einsum("tf,tab->fab", batch.edge_features, edge)
    siblings = None
    if layout.siblings:
        assert q.siblings is not None, "features of marginals need those of siblings: logsum(..., cliques=True)"
        siblings = np.zeros((layout.n_edge_types, *q.siblings.shape[1:]))
        np.add.at(siblings, batch.edge_type, of_node[:, None, None, None] * q.siblings)
    return features_of(layout, batch, of_node[:, None] * q.node, matrices, siblings)


def node_scores(layout: Layout, batch: Batch, w: FloatArray) -> FloatArray:
    """Score of every label at every node by itself, shape (n_nodes, n_labels)."""
    shape = (len(batch.parent), layout.n_features)
    scores = _dense(sparse.csr_array((batch.data, batch.indices, batch.indptr), shape=shape) @ layout.node_rows(w))
    return scores + batch.label_features @ layout.segments(w).label_features if layout.n_label_features else scores


def marginal_score(layout: Layout, batch: Batch, w: FloatArray, q: Marginals) -> FloatArray:
    """Score of marginals, for every example: scores of cliques times their weights."""
    segments, scores = layout.segments(w), node_scores(layout, batch, w)
    # what is not allowed has weight 0, and a score of any size
    total = np.sum(np.where(q.node != 0, scores, 0.0) * q.node, axis=1)
    if layout.n_matrices and q.edge is not None:
        of_edge = segments.transitions[batch.edge_type] + np.einsum("tf,fab->tab", batch.edge_features, segments.edge)
        total += np.sum(of_edge * q.edge, axis=(1, 2))
    if layout.siblings and q.siblings is not None:
        total += np.sum(segments.siblings[batch.edge_type] * q.siblings, axis=(1, 2, 3))
    return sums(total, batch.offsets)
