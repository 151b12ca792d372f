"""Choice of the constants of a system by cross-validation on a grid that grows until its best point is inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from maxendnet import Examples, path
from maxendnet.experiments.engine.experiment import Row

Constants = dict[str, float]
Make = Callable[..., Any]
Position = tuple[int, ...]

SELECTION_TOL = 1e-2
"""Relative duality gap of fits in cross-validation; smaller gaps hardly change held-out errors."""
SELECTION_PASSES = 3000
SERIES = (1.0, 2.0, 5.0)
"""Values of a decade."""
DECADE = len(SERIES)


class Axis(NamedTuple):
    """One constant on the scale ..., 0.5, 1, 2, 5, 10, ...; the value at place ``3 k`` is ``10**k``.

    The grid starts with every ``step``-th place from ``first`` to ``last`` and never leaves ``limits``. Candidates with
    less regularisation have larger values if ``sign`` is 1, smaller ones if it is -1.
    """

    name: str
    first: int
    last: int
    limits: tuple[int, int]
    sign: int = 1
    step: int = 1

    def value(self, place: int) -> float:
        """Return the constant at a place.

        >>> [Axis("C", -3, 3, (-9, 9)).value(place) for place in (-3, -2, -1, 0, 4)]
        [0.1, 0.2, 0.5, 1.0, 20.0]
        """
        return float(f"{SERIES[place % DECADE] * 10.0 ** (place // DECADE):.6g}")


class Grid(NamedTuple):
    """Candidates for the constants of a system.

    Parameters
    ----------
    axes : tuple of Axis
        Empty for a system without constants.
    constants : callable
        Maps the values of the axes to the constants of the system.
    """

    axes: tuple[Axis, ...]
    constants: Callable[..., Constants] = dict

    def at(self, position: Position) -> Constants:
        return self.constants(**{axis.name: axis.value(place) for axis, place in zip(self.axes, position)})

    def start(self) -> list[Position]:
        """Return the first candidates, those with more regularisation first."""
        places = [range(axis.first, axis.last + 1, axis.step)[:: axis.sign] for axis in self.axes]
        return list(product(*places))

    def neighbours(self, position: Position) -> list[Position]:
        """Return the next candidates along each axis, within the limits."""
        nearby = []
        for k, axis in enumerate(self.axes):
            for place in (position[k] - axis.step, position[k] + axis.step):
                if axis.limits[0] <= place <= axis.limits[1]:
                    nearby.append((*position[:k], place, *position[k + 1 :]))
        return nearby

    def is_at_limit(self, position: Position) -> bool:
        """Whether a neighbour is missing because of the limits."""
        return len(self.neighbours(position)) < 2 * len(self.axes)

    def text(self) -> str:
        """Describe the grid for the report."""
        return " and ".join(
            f"{axis.name} from {axis.value(axis.first):g} to {axis.value(axis.last):g}"
            f" (extended to at most {axis.value(axis.limits[0]):g} and {axis.value(axis.limits[1]):g})"
            for axis in self.axes
        )


class FixedGrid(NamedTuple):
    """A list of candidates that is not extended, in order of decreasing regularisation."""

    points: Sequence[Constants]

    def at(self, position: Position) -> Constants:
        return dict(self.points[position[0]])

    def start(self) -> list[Position]:
        return [(k,) for k in range(len(self.points))]

    def neighbours(self, position: Position) -> list[Position]:
        return []

    def is_at_limit(self, position: Position) -> bool:
        """Whether the candidate is the first or the last one."""
        return position[0] in (0, len(self.points) - 1)


class Choice(NamedTuple):
    """The chosen constants, and what is recorded about the choice."""

    constants: Constants
    about: Row


def choose(
    make: Make, grid: Grid | FixedGrid, train: Examples, seed: int, *, parts: int = 5, candidates: int | None = None
) -> Choice:
    """Choose constants by cross-validation within the training examples.

    All candidates are fitted to a gap of 1e-2, with warm starts along the paths of `maxendnet.path`. The neighbours of
    the best candidate are added until none of them is better, so the choice is not at an end of the grid.

    Parameters
    ----------
    make : callable
        ``make(constants, **options)`` returns an estimator.
    grid : Grid or FixedGrid
    train : Examples
    seed : int
    parts : int
        Number of random folds, held out in turn.
    candidates : int or None
        Number of candidates of a reduced run, without neighbours; None for all.
    """
    new = thin_grid(grid.start(), candidates)
    if len(new) == 1:
        return Choice(grid.at(new[0]), {})
    part = np.random.default_rng(seed).permutation(len(train)) % parts
    wrong: dict[Position, float] = {}
    n_unconverged, best = 0, new[0]
    while new:
        points = [grid.at(position) for position in new]
        for k in range(parts):
            inside, outside = train[part != k], train[part == k]
            errors, n_stopped = held_out_errors(make, points, inside, outside, seed)
            n_unconverged += n_stopped
            for position, error in zip(new, errors):
                wrong[position] = wrong.get(position, 0.0) + error * outside.n_nodes
        best = min(wrong, key=wrong.__getitem__)  # the first one wins ties: more regularisation
        new = [position for position in grid.neighbours(best) if position not in wrong] if candidates is None else []
    return Choice(
        grid.at(best),
        {"n_candidates": len(wrong), "n_candidates_unconverged": n_unconverged, "at_limit": grid.is_at_limit(best)},
    )


def held_out_errors(
    make: Make, points: Sequence[Constants], inside: Examples, outside: Examples, seed: int
) -> tuple[list[float], int]:
    """Return the error of each candidate on held-out examples, and the number of fits above the tolerance."""
    options = {"tol": SELECTION_TOL, "max_passes": SELECTION_PASSES, "random_state": seed}
    models = [make(point, **options) for point in points]
    settings = [{name: model.get_params()[name] for name in point} for point, model in zip(points, models)]
    # the iterations of Algorithm 1 are counted from its own start, so it has no warm starts
    paths = [settings] if models[0].get_params().get("method") != "variational" else [[point] for point in settings]
    fits = [fit for points_of_path in paths for fit in path(models[0], inside, grid=points_of_path, validation=outside)]
    return [1.0 - fit.score for fit in fits], sum(not fit.converged for fit in fits)


def thin_grid(grid: Sequence[Any], n: int | None) -> list[Any]:
    """Return ``n`` evenly spaced candidates of a grid, for quick runs; None for all.

    >>> thin_grid([1, 2, 3, 4, 5, 6], 2), thin_grid([1, 2, 3], 1)
    ([2, 5], [2])
    """
    if n is None or n >= len(grid):
        return list(grid)
    return [grid[int((k + 0.5) * len(grid) / n)] for k in range(n)]
