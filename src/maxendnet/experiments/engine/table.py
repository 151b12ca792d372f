"""Small tools for rows of finished cells: select, group, pair."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxendnet.experiments.engine.experiment import Row


def select(rows: list[Row], **where: Any) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in where.items())]


def distinct(rows: list[Row], name: str) -> list[Any]:
    """The values of a column, each once, in order of appearance."""
    return list(dict.fromkeys(row[name] for row in rows if name in row))


def values(rows: list[Row], name: str) -> np.ndarray:
    """A column of numbers."""
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
    """``value`` of ``second`` minus that of ``first``, one for every combination of the ``pair`` columns.

    Combinations of the ``within`` columns (say, sizes of the training set) that both have are averaged, so that a draw
    of the data counts once however many sizes were cut out of it.

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
    found: list[dict[tuple, float]] = [
        {tuple(row[name] for name in names): row[value] for row in rows if row[column] == which}
        for which in (first, second)
    ]
    groups: dict[tuple, list[float]] = {}
    for cell in found[0]:
        if cell in found[1]:
            groups.setdefault(cell[: len(pair)], []).append(found[1][cell] - found[0][cell])
    return np.array([np.mean(group) for group in groups.values()])


def as_csv(rows: list[Row]) -> str:
    """Rows as CSV text; lists become numbers with spaces between."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: " ".join(map(_short, v)) if isinstance(v, list) else _short(v) for k, v in row.items()})
    return text.getvalue()


def _short(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
