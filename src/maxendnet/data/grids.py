"""Edges of grids, for images and other arrays whose cells are nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""Row and column steps to a neighbour: right, down, down right, down left."""


def grid_edges(shape: Any, neighbours: int = 4) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the edges of a grid, and their directions as types.

    Nodes are numbered row by row.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns.
    neighbours : {4, 8}, default=4
        With 8, cells that touch at a corner are joined too.

    Returns
    -------
    edges : int32 ndarray of shape (n_edges, 2)
        The first cell is above the second, or to its left in the same row.
    edge_types : int32 ndarray of shape (n_edges,)
        0 right, 1 down; with eight neighbours also 2 down right, 3 down left.

    Examples
    --------
    >>> edges, edge_types = grid_edges((2, 2))
    >>> edges.tolist(), edge_types.tolist()
    ([[0, 1], [2, 3], [0, 2], [1, 3]], [0, 0, 1, 1])

    Pass both to `Examples.build`:

    >>> from maxendnet import M3N, Examples, Graph
    >>> image, labels = [[0.0], [1.0], [1.0], [1.0]], ["sky", "tree", "tree", "tree"]
    >>> data = Examples.build([image], [labels], edges=[edges], edge_types=[edge_types])
    >>> M3N(C=10, structure=Graph()).fit(data).predict(data)
    [['sky', 'tree', 'tree', 'tree']]
    """
    if not (neighbours in (4, 8) and not isinstance(neighbours, bool)):
        raise ValueError(f"neighbours must be 4 or 8, got {neighbours!r}.")
    sizes = np.asarray(shape)
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu" or sizes.min() < 0:
        raise ValueError(f"shape must be two whole numbers, (n_rows, n_columns), got {shape!r}.")
    n_rows, n_columns = (int(size) for size in sizes)
    cell = np.arange(n_rows * n_columns, dtype=np.int32).reshape(n_rows, n_columns)
    edges, types = [], []
    for kind, (down, right) in enumerate(STEPS[: neighbours // 2]):
        columns = slice(0, n_columns - right) if right >= 0 else slice(-right, n_columns)
        first = cell[: max(n_rows - down, 0), columns].ravel()
        edges.append(np.stack([first, first + down * n_columns + right], axis=1))
        types.append(np.full(len(first), kind, dtype=np.int32))
    return np.concatenate(edges).astype(np.int32), np.concatenate(types)
