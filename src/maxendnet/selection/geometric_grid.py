"""`GeometricGrid`: grid with a fixed ratio between neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Place = tuple[int, ...]


@dataclass
class GeometricGrid:
    """Grid of hyper-parameters ``start * ratio ** place``, where a place is a tuple of integers, one per axis.

    Parameters
    ----------
    start : dict
        Hyper-parameters at place (0, 0, ...).
    ratios : tuple of dicts
        For each axis, the factor by which a step multiplies each hyper-parameter. Others do not change along the axis.
    shape : tuple of int
        Initial number of points along each axis, at least 2.

    Examples
    --------
    >>> grid = GeometricGrid({"C": 0.5}, ({"C": 2.0},), (3,))
    >>> [grid.point(place) for place in grid.places]
    [{'C': 0.5}, {'C': 1.0}, {'C': 2.0}]
    >>> grid.grow({(0,): 0.7, (1,): 0.8, (2,): 0.9}, best=(2,))
    [(3,)]
    """

    start: dict[str, float]
    ratios: tuple[dict[str, float], ...]
    shape: tuple[int, ...]
    places: list[Place] = field(init=False)

    def __post_init__(self) -> None:
        self.places = list(product(*map(range, self.shape)))

    def point(self, place: Place) -> dict[str, Any]:
        """Return the hyper-parameters at a place."""
        point = dict(self.start)
        for ratio, steps in zip(self.ratios, place):
            for name, factor in ratio.items():
                point[name] *= factor**steps
        return point

    def grow(self, scores: Mapping[Place, float], best: Place) -> list[Place]:
        """Extend the grid if the best place is at an edge, and return the new places.

        Nothing is added if the best place is not better than its inner neighbour.
        """
        new: list[Place] = []
        for axis, at in enumerate(best):
            numbers = [place[axis] for place in self.places]
            for edge, step in ((min(numbers), -1), (max(numbers), 1)):
                inside = (*best[:axis], at - step, *best[axis + 1 :])
                if at == edge and scores[best] > scores[inside]:
                    row = [place for place in self.places if place[axis] == edge]
                    new += [(*place[:axis], edge + step, *place[axis + 1 :]) for place in row]
                    self.places += new[-len(row) :]
        return new
