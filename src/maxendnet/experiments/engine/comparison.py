"""Cards that compare the errors of systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maxendnet.experiments.engine import statistics
from maxendnet.experiments.engine.experiment import Card, Row, Verdict
from maxendnet.experiments.engine.statistics import Paired, paired
from maxendnet.experiments.engine.systems import FINAL_TOL, STOPPING_TOLS
from maxendnet.experiments.engine.table import differences, distinct, select, values

Judge = Callable[[Paired], Verdict]
MARGIN = 0.005
"""Largest difference of *comparable* errors: half a percentage point."""


def difference(
    rows: list[Row], better: str, worse: str, pair: Sequence[str], within: Sequence[str] = (), overlap: float = 0.0
) -> Paired:
    """Paired test of the error of `worse` minus that of `better`, over draws or folds."""
    return paired(differences(rows, "system", better, worse, pair, within), overlap)


def clustered(rows: list[Row], better: str, worse: str, pair: Sequence[str]) -> Paired:
    """Paired test of the error of `worse` minus that of `better`, over groups of test examples.

    The difference is a ratio of sums over groups; its variance is that of the groups' deviations (the linearised ratio
    estimator). Cells are paired by the ``pair`` columns.
    """
    by_cell: list[dict[tuple[Any, ...], Row]] = [
        {tuple(row[name] for name in pair): row for row in rows if row["system"] == system and "group_wrong" in row}
        for system in (better, worse)
    ]
    n_groups = max((len(row["group_wrong"]) for cell in by_cell for row in cell.values()), default=0)
    wrong, labels = np.zeros(n_groups), np.zeros(n_groups)
    for name in by_cell[0].keys() & by_cell[1].keys():
        first, second = by_cell[0][name], by_cell[1][name]
        wrong[: len(first["group_wrong"])] += np.subtract(second["group_wrong"], first["group_wrong"])
        labels[: len(first["group_labels"])] += first["group_labels"]
    present = labels > 0
    if present.sum() < 2:
        return paired([])
    ratio = wrong.sum() / labels.sum()
    # values with mean `ratio` and the variance of the linearised estimator
    return paired(ratio + (wrong - ratio * labels)[present] / labels[present].mean())


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
    verdict: Judge,
    pair: Sequence[str],
    within: Sequence[str] = (),
    overlap: float = 0.0,
    numbers: Sequence[str] = (),
    beyond: bool = False,
) -> Card:
    """Card for one or more pairs (better, worse) of systems; it holds if every comparison holds."""
    tests = {f"{first} over {second}": difference(rows, first, second, pair, within, overlap)
             for first, second in comparisons}  # fmt: skip
    margin = None if verdict is better else MARGIN
    return card_of(key, claim, tests, verdict, numbers=numbers, margin=margin, beyond=beyond)


def card_of(
    key: str,
    claim: str,
    tests: Mapping[str, Paired],
    verdict: Judge | Verdict,
    *,
    unit: str = "points",
    scale: float = 100.0,
    margin: float | None = None,
    numbers: Sequence[str] = (),
    note: str = "",
    beyond: bool = False,
) -> Card:
    """Card for paired tests, which all have to support the claim."""
    tests = {label: test for label, test in tests.items() if test.n}
    judged = verdict if isinstance(verdict, Verdict) else statistics.combined(*map(verdict, tests.values()))
    return Card(
        key, claim, judged, [statistics.estimate(label, test, scale) for label, test in tests.items()], unit,
        None if margin is None else scale * margin, list(numbers),
        "; ".join([f"{label}: {test.text(unit, scale)}" for label, test in tests.items()] + [note] * bool(note)),
        max((test.p for test in tests.values()), default=None), beyond,
    )  # fmt: skip


def better(test: Paired) -> Verdict:
    return statistics.superiority(test)


def not_worse(test: Paired) -> Verdict:
    return statistics.non_inferiority(test, MARGIN)


def similar(test: Paired) -> Verdict:
    return statistics.equality(test, MARGIN)


def unconverged(rows: list[Row]) -> str:
    """Line about fits that stopped at the maximum number of passes."""
    stopped = [r for r in rows if not r["converged"]]
    if not stopped:
        return "Every fit reached its tolerance."
    gaps = [r["gap"] for r in stopped if np.isfinite(r["gap"])]
    worst = f"; their median gap is {np.median(gaps):.1g}, the largest {max(gaps):.1g}" if gaps else ""
    return f"{len(stopped)} of {len(rows)} fits stopped at the maximum number of passes{worst}."


def at_limit(rows: list[Row]) -> str:
    """Line about chosen constants at an end of their grid."""
    tuned = [row for row in rows if "at_limit" in row]
    systems = Counter(row["system"] for row in tuned if row["at_limit"])
    counts = ", ".join(f"{system} {n}" for system, n in systems.items())
    return f"{sum(systems.values())} of {len(tuned)} chosen constants are at an end of their grid" + (
        f" ({counts})." if counts else "."
    )


def stopping_rules(rows: list[Row]) -> str:
    """Line with the error of the unregularised CRF by its stopping rule."""
    with_rules = [row for row in rows if "stopping_errors" in row]
    if not with_rules:
        return "No errors by stopping rule."
    by_tol = dict(zip(STOPPING_TOLS, np.mean([row["stopping_errors"] for row in with_rules], axis=0)))
    by_tol[FINAL_TOL] = float(np.mean(values(with_rules, "error")))
    return "CRF by stopping rule (gradient relative to the first): " + ", ".join(
        f"{tol:g} {100 * by_tol[tol]:.1f} %" for tol in sorted(by_tol, reverse=True)
    )
