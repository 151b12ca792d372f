"""Conversion of weight vectors to and from the padded layout of the kernels.

Rows of labels are padded to whole vector registers. `for_search` returns the weights that the recursions read, with
every matrix in both orientations. `pad` returns the layout of gradients and dual points; `unpad` is its inverse.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.structures.weights.layout import FloatArray, Layout

CACHE_LINE = 64


def zeros_at_cache_line(shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
    """Zeros aligned to a cache line, so that vector loads cross few lines."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    first = -memory.__array_interface__["data"][0] % CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def lanes(layout: Layout) -> int:
    """Number of labels, rounded up to a multiple of the vector register size."""
    return _kernels.padded(layout.n_labels)


def node_size(layout: Layout) -> int:
    """Length of the padded node weights; seen pairs are stored as one row."""
    # leaves room for a vector load at the last seen pair
    return layout.n_features * lanes(layout) if layout.seen is None else _kernels.padded(layout.n_node_weights) + 8


def padded_size(layout: Layout, by_automaton: bool = False) -> int:
    """Length of the vectors that `pad` returns."""
    n_joint = layout.n_weights - layout.n_node_weights - layout.n_label_features
    joint = n_joint if by_automaton else n_joint // layout.n_labels * lanes(layout)
    return node_size(layout) + joint + _kernels.padded(layout.n_label_features)


def pad(layout: Layout, w: FloatArray, by_automaton: bool = False, dtype: type = np.float64) -> NDArray[Any]:
    """Pad weights: nodes, matrices, label features.

    With ``by_automaton`` the order is nodes, label features, n-grams.
    """
    padded: NDArray[Any] = np.zeros(padded_size(layout, by_automaton), dtype)
    fill(layout, padded, w, by_automaton)
    return padded


def fill(layout: Layout, padded: NDArray[Any], w: FloatArray, by_automaton: bool = False) -> None:
    """Write weights into a padded vector."""
    for wide, narrow in _rows(layout, padded, w, by_automaton):
        wide[:] = narrow


def unpad(layout: Layout, padded: FloatArray, by_automaton: bool = False) -> FloatArray:
    """Remove the padding of `pad`."""
    w = np.empty(layout.n_weights)
    for wide, narrow in _rows(layout, padded, w, by_automaton):
        narrow[:] = wide
    return w


def _rows(layout: Layout, padded: FloatArray, w: FloatArray, by_automaton: bool) -> list[tuple[FloatArray, FloatArray]]:
    """Return pairs (padded view, plain view), one for each group of weights."""
    L, width, size = layout.n_labels, lanes(layout), node_size(layout)
    n, n_last = layout.n_node_weights, layout.n_label_features
    nodes, joint, last = w[:n], w[n : layout.n_weights - n_last], w[layout.n_weights - n_last :]
    rows = [(padded[:n], nodes)]
    if layout.seen is None:
        rows = [(padded[:size].reshape(-1, width)[:, :L], nodes.reshape(-1, L))]
    if by_automaton:
        first = size + _kernels.padded(n_last)
        return [*rows, (padded[size : size + n_last], last), (padded[first : first + len(joint)], joint)]
    first = size + len(joint) // L * width
    rows.append((padded[size:first].reshape(-1, width)[:, :L], joint.reshape(-1, L)))
    return [*rows, (padded[first : first + n_last], last)]


def for_search(
    layout: Layout, w: FloatArray, dtype: type = np.float64, forbidden: NDArray[np.uint8] | None = None
) -> NDArray[Any]:
    """Weights as the recursions read them, cached for read-only weights.

    Rows are padded, matrices are in both orientations, and forbidden pairs are -inf.
    """
    key = ("for_search", dtype, None if forbidden is None else forbidden.tobytes())
    return layout.cache.of_weights(w, key, lambda: _search_weights(layout, w, dtype, forbidden))


def _search_weights(layout: Layout, w: FloatArray, dtype: type, forbidden: NDArray[np.uint8] | None) -> NDArray[Any]:
    L, width = layout.n_labels, lanes(layout)
    n_node, n_matrix = node_size(layout), layout.n_matrices * 2 * L * width
    out = zeros_at_cache_line((n_node + n_matrix + layout.n_label_features,), dtype)
    segments = layout.segments(w)
    if layout.seen is None:
        out[:n_node].reshape(layout.n_features, width)[:, :L] = segments.node
    else:
        out[: layout.n_node_weights] = segments.node
    both = out[n_node : n_node + n_matrix].reshape(layout.n_matrices, 2, L, width)
    n_types = layout.n_edge_types
    for target, matrices in ((both[:n_types], segments.transitions), (both[n_types:], segments.edge)):
        if len(matrices):
            target[:, 0, :, :L] = matrices
            target[:, 1, :, :L] = matrices.transpose(0, 2, 1)
    if forbidden is not None:
        both[:n_types, 0, :, :L][:, forbidden > 0] = -np.inf
        both[:n_types, 1, :, :L][:, forbidden.T > 0] = -np.inf
    out[n_node + n_matrix :] = segments.label_features
    return out


def transition_range(layout: Layout, weights: NDArray[Any]) -> float:
    """Return the largest range of a transition matrix in the weights of `for_search`."""
    L, width, first = layout.n_labels, lanes(layout), node_size(layout)
    last = first + layout.n_edge_types * 2 * L * width
    matrices = weights[first:last].reshape(layout.n_edge_types, 2 * L, width)[..., :L]
    return max((float(matrix.max() - matrix.min()) for matrix in matrices), default=0.0)


def search_from_padded(layout: Layout, padded: NDArray[Any]) -> NDArray[Any]:
    """Convert weights from the layout of `pad` to that of `for_search`, without edge features or forbidden pairs."""
    n_node, n_last = node_size(layout), layout.n_label_features
    matrices = padded[n_node : len(padded) - _kernels.padded(n_last)].reshape(-1, layout.n_labels, lanes(layout))
    out = zeros_at_cache_line((n_node + 2 * matrices.size + n_last,), padded.dtype.type)
    out[:n_node] = padded[:n_node]
    both = out[n_node : len(out) - n_last].reshape(-1, 2, *matrices.shape[1:])
    both[:, 0] = matrices
    both[:, 1, :, : layout.n_labels] = matrices[..., : layout.n_labels].transpose(0, 2, 1)
    first = n_node + matrices.size
    out[len(out) - n_last :] = padded[first : first + n_last]
    return out


def padded_from_search(layout: Layout, weights: NDArray[Any]) -> NDArray[Any]:
    """Inverse of `search_from_padded`."""
    n_node, n_last = node_size(layout), layout.n_label_features
    both = weights[n_node : len(weights) - n_last].reshape(-1, 2, layout.n_labels * lanes(layout))
    out = np.zeros(padded_size(layout), weights.dtype)
    out[:n_node] = weights[:n_node]
    first = n_node + both[:, 0].size
    out[n_node:first] = both[:, 0].ravel()
    out[first : first + n_last] = weights[len(weights) - n_last :]
    return out


def pad_rows(layout: Layout, rows: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
    """Pad rows of a table with zeros, as the recursions read them."""
    out = zeros_at_cache_line((len(rows), lanes(layout)), dtype)
    out[:, : layout.n_labels] = rows
    return out
