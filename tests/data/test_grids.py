"""Edges of grids."""

import numpy as np
import pytest

from maxendnet import grid_edges


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (2, 3), (4, 5), (0, 3)])
@pytest.mark.parametrize("neighbours", [4, 8])
def test_edges_join_neighbours_in_their_direction(shape, neighbours):
    edges, types = grid_edges(shape, neighbours)
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]
    expected = {
        ((r, c), (r + down, c + right), kind)
        for r in range(shape[0])
        for c in range(shape[1])
        for kind, (down, right) in enumerate(steps)
        if r + down < shape[0] and 0 <= c + right < shape[1]
    }
    cells = [(divmod(int(a), shape[1]), divmod(int(b), shape[1]), int(kind)) for (a, b), kind in zip(edges, types)]
    assert len(cells) == len(expected) and set(cells) == expected
    assert edges.dtype == types.dtype == np.int32


@pytest.mark.parametrize("shape", [3, (2,), (2, 2, 2), (2.0, 3.0), (-1, 2)])
def test_shapes_that_are_none(shape):
    with pytest.raises(ValueError, match="two whole numbers"):
        grid_edges(shape)


@pytest.mark.parametrize("neighbours", [6, "4", True])
def test_other_neighbours_are_refused(neighbours):
    with pytest.raises(ValueError, match="neighbours must be 4 or 8"):
        grid_edges((2, 2), neighbours)
