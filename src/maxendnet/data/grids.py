"""Edges of grids: images and other arrays whose cells are nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""From a cell to its neighbour: to the right, down, down to the right, down to the left."""


def grid_edges(shape: Any, neighbours: int = 4) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Edges of a grid whose cells are nodes, row after row, and their directions as types.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns.
    neighbours : {4, 8}, default=4
        8 joins cells that touch at a corner too.

    Returns
    -------
    edges : int32 ndarray of shape (n_edges, 2)
        The cell above, or to the left in the same row, comes first.
    edge_types : int32 ndarray of shape (n_edges,)
        0 to the right, 1 down; with eight neighbours also 2 down to the right, 3 down to the left.

    Examples
    --------
    >>> edges, edge_types = grid_edges((2, 2))
    >>> edges.tolist(), edge_types.tolist()
    ([[0, 1], [2, 3], [0, 2], [1, 3]], [0, 0, 1, 1])

    A fit takes them as they are:

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
        raise ValueError(f"shape must be two whole numbers, of rows and of columns, got {shape!r}.")
    n_rows, n_columns = (int(size) for size in sizes)
    cell = np.arange(n_rows * n_columns, dtype=np.int32).reshape(n_rows, n_columns)
    edges, types = [], []
    for kind, (down, right) in enumerate(STEPS[: neighbours // 2]):
        columns = slice(0, n_columns - right) if right >= 0 else slice(-right, n_columns)
        first = cell[: max(n_rows - down, 0), columns].ravel()
        edges.append(np.stack([first, first + down * n_columns + right], axis=1))
        types.append(np.full(len(first), kind, dtype=np.int32))
    return np.concatenate(edges).astype(np.int32), np.concatenate(types)
