"""What an experiment is: cells to compute, and functions that turn finished cells into numbers, a figure and cards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Row = dict[str, Any]

SCALES = ("full", "quick", "tiny")
"""Sizes of an experiment: the paper's; some seconds, to see that it works; and the one of the tests."""

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable"


@dataclass(frozen=True)
class Card:
    """One statement of the paper and what came of it.

    Parameters
    ----------
    key : str
        Short name, unique in its experiment.
    claim : str
        The paper's sentence in our words.
    verdict : {"holds", "does not hold", "not decidable"}
    numbers : list of str
        What was measured, one line each.
    test : str
        The paired test behind the verdict with its interval, or why none is needed.
    """

    key: str
    claim: str
    verdict: str
    numbers: list[str] = field(default_factory=list)
    test: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in (HOLDS, FAILS, OPEN):
            raise ValueError(f"the verdict of a card is {HOLDS!r}, {FAILS!r} or {OPEN!r}, got {self.verdict!r}.")


def settings_and_numbers(settings: Settings, numbers: Row) -> list[Row]:
    """The tidy form of a cell: one row, its settings before its numbers."""
    return [settings | numbers]


def nothing_needed(data: Path | None) -> str:
    """No data beyond what the experiment draws itself."""
    return ""


@dataclass(frozen=True)
class Experiment:
    """An experiment as data.

    Parameters
    ----------
    name : str
        What the command calls it.
    title : str
        The question it answers, for headings.
    paper : str
        Where in the paper this is, or what goes beyond it.
    method : str
        What is done, exactly, for the report.
    cells : callable
        ``cells(scale)`` lists the settings of all cells, each a dict that JSON can write. What belongs together in a
        paired test stands together, so that an unfinished run already compares like with like.
    run : callable
        ``run(settings, seed, data)`` computes one cell: a pure function, importable by name, that returns a dict of
        numbers (or lists of numbers) that JSON can write.
    cards : callable
        ``cards(rows)`` draws the conclusions from the rows of the finished cells; cells may be missing.
    draw : callable
        ``draw(figure, rows)`` draws on an empty matplotlib figure.
    size : pair of float
        Of the figure, inches.
    rows : callable
        ``rows(settings, numbers)``: the rows of the table that a cell gives.
    needs : callable
        ``needs(data)`` says in a sentence why the experiment cannot run now; empty when it can.
    revision : int
        Raised when the meaning of a cell changes: cells of an older revision are computed again.
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
    revision: int = 1
