"""Definition of an experiment: its cells, and functions that turn results into a figure and cards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Row = dict[str, Any]

SCALES = ("full", "quick", "tiny")
"""Sizes of an experiment: as in the paper, a few seconds to try it, and the smallest for tests."""

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable"


@dataclass(frozen=True)
class Card:
    """One claim of the paper with our result.

    Parameters
    ----------
    key : str
        Short name, unique in its experiment.
    claim : str
        The claim, paraphrased.
    verdict : {"holds", "does not hold", "not decidable"}
    numbers : list of str
        Measured values, one line each.
    test : str
        The paired test behind the verdict with its interval, or the reason why no test is needed.
    """

    key: str
    claim: str
    verdict: str
    numbers: list[str] = field(default_factory=list)
    test: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in (HOLDS, FAILS, OPEN):
            raise ValueError(f"verdict must be {HOLDS!r}, {FAILS!r} or {OPEN!r}, got {self.verdict!r}.")


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
