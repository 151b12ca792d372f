"""Grids of constants with a constant ratio between neighbours, which can grow beyond their edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

Place = tuple[int, ...]


@dataclass
class GeometricGrid:
    """Box of points ``start * ratio ** place``, one whole number of a place for each axis.

    Parameters
    ----------
    start : dict
        Constants at the place (0, 0, ...).
    ratios : tuple of dicts
        For each axis the factors of a step; constants without one stay as they are.
    shape : tuple of int
        Number of points along each axis at first, at least 2.

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
        """Constants at a place."""
        point = dict(self.start)
        for ratio, steps in zip(self.ratios, place):
            for name, factor in ratio.items():
                point[name] *= factor**steps
        return point

    def grow(self, scores: Mapping[Place, float], best: Place) -> list[Place]:
        """Add a row beyond every edge on which the best place is, where scores rise towards it; return the new places.

        A place that is only as good as its neighbour inside is on a plateau, and nothing is added.
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
