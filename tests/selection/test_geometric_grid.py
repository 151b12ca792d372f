"""Grids that grow at their edges."""

from __future__ import annotations

from maxendnet.selection.geometric_grid import GeometricGrid


def line():
    return GeometricGrid({"C": 1.0}, ({"C": 10.0},), (3,))


def test_it_grows_at_either_edge_while_scores_rise():
    grid = line()
    assert grid.grow({(0,): 0.1, (1,): 0.2, (2,): 0.3}, (2,)) == [(3,)] and grid.point((3,)) == {"C": 1000.0}
    assert grid.grow({(0,): 0.1, (1,): 0.2, (2,): 0.3, (3,): 0.4}, (3,)) == [(4,)]
    assert line().grow({(0,): 0.3, (1,): 0.2, (2,): 0.1}, (0,)) == [(-1,)]


def test_it_does_not_grow_inside_or_on_a_plateau():
    assert line().grow({(0,): 0.1, (1,): 0.3, (2,): 0.2}, (1,)) == []
    assert line().grow({(0,): 0.3, (1,): 0.3, (2,): 0.3}, (0,)) == []


def test_at_a_corner_it_grows_along_both_axes_and_stays_a_box():
    grid = GeometricGrid({"C": 1.0, "lam": 1.0}, ({"C": 2.0, "lam": 2.0}, {"lam": 0.5}), (2, 2))
    scores = {(0, 0): 0.1, (0, 1): 0.2, (1, 0): 0.2, (1, 1): 0.3}
    assert sorted(grid.grow(scores, (1, 1))) == [(0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert len(grid.places) == len(set(grid.places)) == 9
    assert grid.point((2, 1)) == {"C": 4.0, "lam": 2.0}
