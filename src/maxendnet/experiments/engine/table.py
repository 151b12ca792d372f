"""Select, group and pair the rows of finished cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxendnet.experiments.engine.experiment import Row


def select(rows: list[Row], **where: Any) -> list[Row]:
    """Return the rows with the given values."""
    return [row for row in rows if all(row.get(name) == value for name, value in where.items())]


def distinct(rows: list[Row], name: str) -> list[Any]:
    """Return the distinct values of a column in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def values(rows: list[Row], name: str) -> np.ndarray:
    """Return a column as an array."""
    return np.array([row[name] for row in rows], dtype=float)


def differences(
    rows: list[Row],
    column: str,
    first: Any,
    second: Any,
    pair: Sequence[str],
    within: Sequence[str] = (),
    value: str = "error",
) -> np.ndarray:
    """Paired differences ``value[second] - value[first]`` per combination of the ``pair`` columns.

    Differences within a pair are averaged over the ``within`` columns (for instance training set sizes), so that each
    draw of the data counts once.

    Examples
    --------
    >>> rows = [
    ...     {"system": s, "draw": d, "n": n, "error": e}
    ...     for s, d, n, e in [("a", 0, 1, 1.0), ("a", 0, 2, 2.0), ("b", 0, 1, 3.0), ("b", 0, 2, 5.0), ("b", 1, 1, 9.0)]
    ... ]
    >>> differences(rows, "system", "a", "b", pair=["draw"], within=["n"])
    array([2.5])
    """
    names = [*pair, *within]
    by_cell: list[dict[tuple[Any, ...], float]] = [
        {tuple(row[name] for name in names): row[value] for row in rows if row[column] == which}
        for which in (first, second)
    ]
    groups: dict[tuple[Any, ...], list[float]] = {}
    for cell in by_cell[0]:
        if cell in by_cell[1]:
            groups.setdefault(cell[: len(pair)], []).append(by_cell[1][cell] - by_cell[0][cell])
    return np.array([np.mean(group) for group in groups.values()])
