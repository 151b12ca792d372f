"""Cards that compare the errors of systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from maxendnet.experiments.engine import statistics
from maxendnet.experiments.engine.experiment import Card, Row
from maxendnet.experiments.engine.statistics import Paired, paired
from maxendnet.experiments.engine.table import differences, distinct, select, values

MARGIN = 0.005
"""Largest difference of *comparable* errors: half a percentage point."""


def difference(
    rows: list[Row], better: str, worse: str, pair: Sequence[str], within: Sequence[str] = (), overlap: float = 0.0
) -> Paired:
    """Paired test of the error of `worse` minus that of `better`, over draws or folds."""
    return paired(differences(rows, "system", better, worse, pair, within), overlap)


def errors(rows: list[Row], systems: Sequence[str], by: str) -> list[str]:
    """Lines with the mean errors of the systems, one per value of a column."""
    return [
        f"{by} {value}: "
        + ", ".join(
            f"{system} {100 * np.mean(values(matches, 'error')):.1f} %"
            for system in systems
            if (matches := select(rows, **{by: value, "system": system}))
        )
        for value in distinct(rows, by)
    ]


def compare(
    key: str,
    claim: str,
    rows: list[Row],
    comparisons: Sequence[tuple[str, str]],
    verdict: Callable[[Paired], str],
    pair: Sequence[str],
    within: Sequence[str] = (),
    overlap: float = 0.0,
    numbers: Sequence[str] = (),
) -> Card:
    """Card for one or more pairs (better, worse); it holds if every comparison holds."""
    tests = {f"{worse} minus {better}": difference(rows, better, worse, pair, within, overlap)
             for better, worse in comparisons}  # fmt: skip
    return Card(
        key, claim, statistics.all_of(*(verdict(test) for test in tests.values())), list(numbers),
        "; ".join(f"{name}: {test.text()}" for name, test in tests.items()),
    )  # fmt: skip


def better(test: Paired) -> str:
    return statistics.is_positive(test)


def not_worse(test: Paired) -> str:
    return statistics.is_at_least(test, MARGIN)


def similar(test: Paired) -> str:
    return statistics.is_small(test, MARGIN)


def unconverged(rows: list[Row]) -> str:
    """Line about fits that stopped at the maximum number of passes."""
    stopped = [r for r in rows if not r["converged"]]
    if not stopped:
        return "Every fit reached its tolerance."
    gaps = [r["gap"] for r in stopped if np.isfinite(r["gap"])]
    worst = f"; their median gap is {np.median(gaps):.1g}, the largest {max(gaps):.1g}" if gaps else ""
    return f"{len(stopped)} of {len(rows)} fits stopped at the maximum number of passes{worst}."
