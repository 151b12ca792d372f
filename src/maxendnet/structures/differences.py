"""Features of whole labellings, as sparse rows: what solvers with explicit constraints work on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.batch import Batch
from maxendnet.data.ragged import gather
from maxendnet.structures.forest import Forest
from maxendnet.structures.hierarchy import left_neighbours


def differences(
    structure: Forest, batch: Batch, examples: NDArray[np.int64], labels: NDArray[np.int32]
) -> sparse.csr_array:
    """``df_i(y) = f(x_i, y_i) - f(x_i, y)`` for several labellings.

    Parameters
    ----------
    structure : Forest or Hierarchy
    batch : Batch
        With true labels.
    examples : ndarray of shape (n_rows,)
        The example of each labelling; one may occur several times.
    labels : ndarray
        All labellings, one behind the other.

    Returns
    -------
    csr_array of shape (n_rows, n_weights)
    """
    nodes, offsets = gather(batch.offsets, examples)
    row = np.repeat(np.arange(len(examples)), np.diff(offsets))
    truth = batch.y[nodes]
    # where a node's parent and its neighbour stand among the gathered nodes
    shift = np.arange(len(nodes)) - nodes
    parent, left = (
        np.where(relative[nodes] < 0, -1, relative[nodes] + shift)
        for relative in (batch.parent, left_neighbours(batch) if structure.n_siblings else batch.parent)
    )
    parts = [_of(structure, batch, nodes, parent, left, row, some) for some in (truth, labels)]
    shape = (len(examples), structure.n_weights)
    right, wrong = (sparse.csr_array((v, (r, c)), shape=shape) for r, c, v in parts)
    result = sparse.csr_array(right - wrong)
    result.eliminate_zeros()
    return result


def _of(structure: Forest, batch: Batch, nodes, parent, left, row, labels):
    """Rows, columns and values of the features of labellings."""
    L = structure.n_labels
    entries, offsets = gather(batch.indptr, nodes)
    owner = np.repeat(np.arange(len(nodes)), np.diff(offsets))
    rows, columns = [row[owner]], [batch.indices[entries].astype(np.int64) * L + labels[owner]]
    values = [batch.data[entries]]
    start = structure.n_features * L
    child = np.flatnonzero(parent >= 0) if structure.n_matrices else np.zeros(0, dtype=np.int64)
    below, above = labels[child], labels[parent[child]]
    flipped = batch.flipped[nodes[child]].astype(bool)
    cell = np.where(flipped, below, above).astype(np.int64) * L + np.where(flipped, above, below)
    rows.append(row[child])
    columns.append(start + batch.edge_type[nodes[child]] * L * L + cell)
    values.append(np.ones(len(child)))
    for f in range(structure.n_edge_features):
        rows.append(row[child])
        columns.append(start + (structure.n_edge_types + f) * L * L + cell)
        values.append(batch.edge_features[nodes[child], f])
    if structure.n_siblings:
        right = np.flatnonzero(left >= 0)
        triple = (labels[parent[right]].astype(np.int64) * L + labels[left[right]]) * L + labels[right]
        rows.append(row[right])
        columns.append(
            start + structure.n_matrices * L * L + batch.edge_type[nodes[right]].astype(np.int64) * L**3 + triple
        )
        values.append(np.ones(len(right)))
    for j in range(structure.n_tied):
        rows.append(row)
        columns.append(np.full(len(row), structure.n_weights - structure.n_tied + j))
        values.append(batch.label_features[nodes, labels, j])
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
