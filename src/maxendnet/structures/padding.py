"""Weight vectors as the kernels of forests read them: rows of labels widened to whole vector registers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.structures.layout import FloatArray, Layout


def lanes(layout: Layout) -> int:
    """Width of a row: the number of labels, rounded up to whole vector registers."""
    return _kernels.padded(layout.n_labels)


def padded_size(layout: Layout) -> int:
    """Length of a padded vector with one orientation of each matrix; tied weights are padded as labels are."""
    rows = layout.n_features + layout.n_matrices * layout.n_labels
    return rows * lanes(layout) + _kernels.padded(layout.n_tied)


def pad(layout: Layout, w: FloatArray) -> FloatArray:
    """The layout in which kernels accumulate."""
    L, width, rows = layout.n_labels, lanes(layout), layout.n_features + layout.n_matrices * layout.n_labels
    out = np.zeros(padded_size(layout))
    out[: rows * width].reshape(rows, width)[:, :L] = w[: rows * L].reshape(rows, L)
    out[rows * width :][: layout.n_tied] = w[rows * L :]
    return out


def unpad(layout: Layout, padded: FloatArray) -> FloatArray:
    """Undo `pad`."""
    L, width, rows = layout.n_labels, lanes(layout), layout.n_features + layout.n_matrices * layout.n_labels
    body = padded[: rows * width].reshape(rows, width)[:, :L]
    return np.concatenate([body.ravel(), padded[rows * width :][: layout.n_tied]])


def for_search(layout: Layout, w: FloatArray, dtype: type = np.float64) -> NDArray:
    """Weights as the recursions read them: padded, and every matrix in both orientations."""
    L, width = layout.n_labels, lanes(layout)
    n_node, n_matrix = layout.n_features * width, layout.n_matrices * 2 * L * width
    out: NDArray = np.zeros(n_node + n_matrix + layout.n_tied, dtype=dtype)
    parts = layout.parts(w)
    out[:n_node].reshape(layout.n_features, width)[:, :L] = parts.node
    both = out[n_node : n_node + n_matrix].reshape(layout.n_matrices, 2, L, width)
    matrices = np.concatenate([parts.transitions, parts.edge])
    both[:, 0, :, :L] = matrices
    both[:, 1, :, :L] = matrices.transpose(0, 2, 1)
    out[n_node + n_matrix :] = parts.tied
    return out


def pad_rows(layout: Layout, rows: FloatArray, dtype: type = np.float64) -> NDArray:
    """Rows of numbers by label, such as costs, as the recursions read them: padded with zeros."""
    out: NDArray = np.zeros((len(rows), lanes(layout)), dtype=dtype)
    out[:, : layout.n_labels] = rows
    return out
