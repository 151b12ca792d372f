"""Weight vectors in the layouts of the kernels of forests: rows of labels widened to whole vector registers.

`for_search` gives what the recursions read, with every matrix in both orientations. `pad` gives the layout in which
kernels add up gradients and dual points, and `unpad` undoes it.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.structures.weights.layout import FloatArray, Layout

CACHE_LINE = 64


def zeros_at_cache_line(shape: tuple[int, ...], dtype: type) -> NDArray:
    """Zeros that begin at a cache line: a row that is read by vector registers crosses no more lines than it must."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    first = -memory.__array_interface__["data"][0] % CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def lanes(layout: Layout) -> int:
    """Width of a row: the number of labels, rounded up to whole vector registers."""
    return _kernels.padded(layout.n_labels)


def node_size(layout: Layout) -> int:
    """Length of the padded weights of nodes: rows of labels, or the pairs that were seen in one row."""
    # behind the seen pairs is room for a vector that begins there
    return layout.n_features * lanes(layout) if layout.seen is None else _kernels.padded(layout.n_node_weights) + 8


def padded_size(layout: Layout, by_automaton: bool = False) -> int:
    """Length of a padded vector with one orientation of each matrix; label features are padded as labels are."""
    n_joint = layout.n_weights - layout.n_node_weights - layout.n_label_features
    joint = n_joint if by_automaton else n_joint // layout.n_labels * lanes(layout)
    return node_size(layout) + joint + _kernels.padded(layout.n_label_features)


def pad(layout: Layout, w: FloatArray, by_automaton: bool = False) -> FloatArray:
    """The layout in which kernels accumulate: nodes, matrices, label features.

    With ``by_automaton`` it is nodes, label features, n-grams.
    """
    out = np.zeros(padded_size(layout, by_automaton))
    fill(layout, out, w, by_automaton)
    return out


def fill(layout: Layout, padded: NDArray, w: FloatArray, by_automaton: bool = False) -> None:
    """Write weights into a padded vector."""
    for wide, narrow in _rows(layout, padded, w, by_automaton):
        wide[:] = narrow


def unpad(layout: Layout, padded: FloatArray, by_automaton: bool = False) -> FloatArray:
    """Undo `pad`."""
    out = np.empty(layout.n_weights)
    for wide, narrow in _rows(layout, padded, out, by_automaton):
        narrow[:] = wide
    return out


def _rows(layout: Layout, padded: FloatArray, w: FloatArray, by_automaton: bool) -> list[tuple[FloatArray, FloatArray]]:
    """Views of the same weights in a padded vector and in a plain one: nodes, pairs or n-grams, label features."""
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
) -> NDArray:
    """Weights as the recursions read them: padded, and every matrix in both orientations; forbidden pairs are -inf.

    Read-only weights are laid out once, see `Cache`.
    """
    what = ("for_search", dtype, None if forbidden is None else forbidden.tobytes())
    return layout.cache.of_weights(w, what, lambda: _laid_out(layout, w, dtype, forbidden))


def _laid_out(layout: Layout, w: FloatArray, dtype: type, forbidden: NDArray[np.uint8] | None) -> NDArray:
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
    for some, matrices in ((both[:n_types], segments.transitions), (both[n_types:], segments.edge)):
        if len(matrices):
            some[:, 0, :, :L] = matrices
            some[:, 1, :, :L] = matrices.transpose(0, 2, 1)
    if forbidden is not None:
        both[:n_types, 0, :, :L][:, forbidden > 0] = -np.inf
        both[:n_types, 1, :, :L][:, forbidden.T > 0] = -np.inf
    out[n_node + n_matrix :] = segments.label_features
    return out


def pad_rows(layout: Layout, rows: FloatArray, dtype: type = np.float64) -> NDArray:
    """Rows of numbers by label, such as costs, as the recursions read them: padded with zeros."""
    out = zeros_at_cache_line((len(rows), lanes(layout)), dtype)
    out[:, : layout.n_labels] = rows
    return out
