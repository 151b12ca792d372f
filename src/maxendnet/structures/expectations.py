"""Features of marginals: the map from what sum-product finds back to the space of the weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.batch import Batch
from maxendnet.structures.forest import FloatArray, Forest, Parts


def features_of(structure: Forest, batch: Batch, node: FloatArray, matrices: FloatArray) -> FloatArray:
    """``sum_y alpha(y) f(x, y)`` over all examples, from the marginals of alpha; linear, the adjoint of the scores.

    Parameters
    ----------
    structure : Forest
    batch : Batch
    node : ndarray of shape (n_nodes, n_labels)
    matrices : ndarray of shape (n_matrices, n_labels, n_labels)
        Marginals of edges summed for every matrix of weights, see `edge_sums`.

    Returns
    -------
    ndarray of shape (n_weights,)
    """
    X = sparse.csr_array((batch.data, batch.indices, batch.indptr), shape=(len(node), structure.n_features))
    tied = np.einsum("tl,tlj->j", node, batch.label_features) if structure.n_tied else np.zeros(0)
    n_types = structure.n_edge_types
    return structure.join(Parts(np.asarray(X.T @ node), matrices[:n_types], matrices[n_types:], tied))


def edge_sums(
    structure: Forest,
    batch: Batch,
    nodes: NDArray[np.int64],
    above: NDArray[np.int32],
    below: NDArray[np.int32],
    weight: FloatArray,
) -> FloatArray:
    """Marginals of edges summed by type, and once more for every edge feature times its value.

    Parameters
    ----------
    structure : Forest
    batch : Batch
    nodes : ndarray of shape (n,)
        The child of an edge; one may occur several times.
    above, below, weight : ndarray of shape (n,)
        A label of the parent, one of the child, and the marginal of the two.

    Returns
    -------
    ndarray of shape (n_matrices, n_labels, n_labels)
        Row: label of the node that the user named first.
    """
    L = structure.n_labels
    flipped = batch.flipped[nodes].astype(bool)
    cell = np.where(flipped, below, above).astype(np.int64) * L + np.where(flipped, above, below)
    n_cells = structure.n_edge_types * L * L
    sums = [np.bincount(batch.edge_type[nodes] * (L * L) + cell, weight, n_cells)] if structure.n_edge_types else []
    for f in range(structure.n_edge_features):
        sums.append(np.bincount(cell, weight * batch.edge_features[nodes, f], L * L))
    return np.concatenate([np.zeros(0), *sums]).reshape(structure.n_matrices, L, L)


def true_marginals(structure: Forest, batch: Batch, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Marginals of the true labellings, each with the weight ``size`` of its example: of nodes, and summed of edges."""
    weight = np.repeat(size, np.diff(batch.offsets))
    node = np.zeros((len(weight), structure.n_labels))
    node[np.arange(len(weight)), batch.y] = weight
    child = np.flatnonzero(batch.parent >= 0)
    return node, edge_sums(structure, batch, child, batch.y[batch.parent[child]], batch.y[child], weight[child])
