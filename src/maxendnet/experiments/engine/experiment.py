"""Definition of an experiment: its cells, and functions that turn results into a figure and cards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Settings = dict[str, Any]
Row = dict[str, Any]

SCALES = ("full", "quick", "tiny")
"""Sizes of an experiment: as in the paper, a few seconds to try it, and the smallest for tests."""


class Verdict(NamedTuple):
    """Result of a card in a word that fits the kind of claim.

    ``agrees`` says whether it agrees with the claim: None if it is undecided, or true but of no use.
    """

    word: str
    agrees: bool | None


HOLDS, FAILS, OPEN = Verdict("holds", True), Verdict("does not hold", False), Verdict("undecided", None)
"""Verdicts on facts and computations."""
BETTER, NOT_BETTER = Verdict("better", True), Verdict("not better", False)
"""Verdicts on superiority, with `OPEN`."""
COMPARABLE, WORSE, DIFFERENT = Verdict("comparable", True), Verdict("worse", False), Verdict("better", False)
"""Verdicts on equality within a margin, with `OPEN`; `DIFFERENT` is better than a claim of equality allows."""
INFORMATIVE, VACUOUS, VIOLATED = (
    Verdict("holds, informative", True),
    Verdict("holds, vacuous", None),
    Verdict("violated", False),
)
"""Verdicts on bounds."""


class Estimate(NamedTuple):
    """A number with its 95 % interval; the bounds of an exact number are equal to it."""

    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Card:
    """One claim with our result.

    Parameters
    ----------
    key : str
        Short name, unique in its experiment.
    claim : str
        The claim in a sentence.
    verdict : Verdict
    estimates : list of Estimate
        Numbers behind the verdict; positive differences agree with the claim.
    unit : str
        Unit of the estimates.
    margin : float or None
        Largest difference that counts as comparable, in this unit.
    numbers : list of str
        Further measured values, one line each.
    test : str
        The test behind the verdict, or the reason why no test is needed.
    p : float or None
        P-value of the test, the largest one of several comparisons. None if there is no test.
    beyond : bool
        Whether the claim is ours, not one of the paper.
    """

    key: str
    claim: str
    verdict: Verdict
    estimates: list[Estimate] = field(default_factory=list)
    unit: str = "points"
    margin: float | None = None
    numbers: list[str] = field(default_factory=list)
    test: str = ""
    p: float | None = None
    beyond: bool = False


def settings_and_numbers(settings: Settings, numbers: Row) -> list[Row]:
    """Return one row per cell: its settings, then its numbers."""
    return [settings | numbers]


def nothing_needed(data: Path | None) -> str:
    """Return an empty string: the experiment needs no data files."""
    return ""


@dataclass(frozen=True)
class Experiment:
    """Definition of an experiment.

    Parameters
    ----------
    name : str
        Name on the command line.
    title : str
        The question it answers, used as a heading.
    paper : str
        Section of the paper, or "beyond the paper".
    method : str
        Exact description of the procedure, for the report.
    cells : callable
        ``cells(scale)`` lists the settings of all cells, each a JSON-serialisable dict. Cells of the same paired test
        are adjacent, so that unfinished runs contain complete pairs.
    run : callable
        ``run(settings, seed, data)`` computes one cell: a pure function, importable by name, that returns a
        JSON-serialisable dict of numbers or lists of numbers. An empty dict means that its data are not available.
    cards : callable
        ``cards(rows)`` computes verdicts from the rows of the finished cells; cells may be missing.
    draw : callable
        ``draw(figure, rows)`` draws on an empty matplotlib figure.
    size : pair of float
        Width and height of the figure in inches.
    rows : callable
        ``rows(settings, numbers)`` returns the table rows of a cell.
    needs : callable
        ``needs(data)`` returns the reason why the experiment cannot run, or an empty string.
    exact : bool
        Whether it is a computation without data, which is conclusive at any scale.
    """

    name: str
    title: str
    paper: str
    method: str
    cells: Callable[[str], list[Settings]]
    run: Callable[[Settings, int, Path | None], Row]
    cards: Callable[[list[Row]], list[Card]]
    draw: Callable[[Any, list[Row]], None]
    size: tuple[float, float] = (8.0, 4.5)
    rows: Callable[[Settings, Row], list[Row]] = settings_and_numbers
    needs: Callable[[Path | None], str] = nothing_needed
    exact: bool = False
