"""Run experiments and write numbers, figures and cards."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from maxendnet import experiments
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.cells import Outcome, run_cells, workers
from maxendnet.experiments.engine.experiment import Card, Experiment, Row
from maxendnet.experiments.engine.results import plain
from maxendnet.utils.atomic_write import write_whole


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_whole(path, lambda file: file.write(text.encode()))


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    results: Path | None = None,
    scale: str = "full",
    jobs: int = 1,
    backend: Any = None,
    seed: int = 0,
    data: Path | None = None,
    only_finished: bool = False,
    progress: bool = True,
    echo: Callable[[str], object] = print,
) -> list[str]:
    """Run experiments in sequence; each writes a table of results, and a folder under ``out``.

    Parameters
    ----------
    names : sequence of str
    out : Path
        Folder of figures and cards.
    results : Path or None
        Folder of the tables of results, which runs extend; ``out/results`` by default.
    scale : {"full", "quick", "tiny"}
    jobs : int
        Number of processes.
    backend : Dask or None
        Cluster that computes the cells instead of local processes.
    seed : int
    data : Path or None
        Folder of the data sets.
    only_finished : bool
        Write figures and cards of finished cells without computing missing ones.
    progress : bool
    echo : callable
        Called with each line of output.

    Returns
    -------
    list of str
        One line per failed cell.
    """
    failures: list[str] = []
    with workers(jobs) if backend is None else nullcontext(backend) as pool:
        for name in names:
            reason = why_not(name, data, only_finished)
            if reason:
                echo(f"{name}: skipped: {reason}")
                continue
            experiment, began = experiments.get(name), time.perf_counter()
            outcome = run_cells(
                experiment, results or out / "results", scale=scale, pool=pool, seed=seed, data=data,
                only_finished=only_finished, progress=progress,
            )  # fmt: skip
            failures += [f"{name}: {line}" for line in outcome.failures]
            if not outcome.done:
                echo(f"{name}: no finished cells.")
                continue
            cards = write_results(experiment, outcome, out / name, scale, seed, echo)
            count = f"{len(outcome.done)} of {outcome.n_cells} cells, " if len(outcome.done) < outcome.n_cells else ""
            echo(f"{name}: {count}{time.perf_counter() - began:.0f} s.")
            for card in cards:
                echo(f"  {card['verdict']['word']:>18}: {card['claim']}")
    return failures


def why_not(name: str, data: Path | None, only_finished: bool = False) -> str:
    """Return the reason why an experiment cannot run, or an empty string."""
    return "" if only_finished else experiments.get(name).needs(data)


def write_results(
    experiment: Experiment, outcome: Outcome, folder: Path, scale: str, seed: int, echo: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Write ``NAME.png``, ``NAME.svg`` and ``cards.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = table_rows(experiment, outcome)
    note = "" if scale == "full" or experiment.exact else "quick run: too small for conclusions"
    if scale == "full" and len(outcome.done) < outcome.n_cells:
        note = f"unfinished: {len(outcome.done)} of {outcome.n_cells} cells"
    try:
        figures.save(folder / experiment.name, experiment.size, lambda figure: experiment.draw(figure, rows), note)
    except ImportError as error:
        echo(f"{experiment.name}: no figure ({error}); it needs matplotlib: pip install 'maxendnet[plot]'")
    cards = [card_dict(card) for card in experiment.cards(rows)]
    summary = {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "method": experiment.method,
        "scale": scale,
        "exact": experiment.exact,
        "seed": seed,
        "n_done": len(outcome.done),
        "n_cells": outcome.n_cells,
        "cell_seconds": sum(done.seconds for done in outcome.done),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "code": dict(Counter(f"{done.version}, code {done.code}" for done in outcome.done)),
        "n_older": outcome.n_older,
        "missing": missing_summary(outcome),
        "settings": settings_summary([done.settings for done in outcome.done]),
        "cards": cards,
    }
    write_text(folder / "cards.json", json.dumps(plain(summary), indent=1, allow_nan=False) + "\n")
    return cards


def card_dict(card: Card) -> dict[str, Any]:
    """Return a card as a dict of plain values."""
    estimates = [estimate._asdict() for estimate in card.estimates]
    return dict(plain(asdict(card) | {"verdict": card.verdict._asdict(), "estimates": estimates}))


def table_rows(experiment: Experiment, outcome: Outcome) -> list[Row]:
    """Return the rows of the finished cells, as cards and figures use them."""
    return [row for done in outcome.done for row in experiment.rows(done.settings, done.numbers)]


def missing_summary(outcome: Outcome) -> list[str]:
    """Describe the cells without results by the settings that distinguish them from all cells."""
    if not outcome.missing:
        return []
    everything = settings_summary([*(done.settings for done in outcome.done), *outcome.missing])
    without = settings_summary(outcome.missing)
    narrow = [
        f"{name} {', '.join(map(str, values))}" for name, values in without.items()
        if len(values) < len(everything[name])
    ]  # fmt: skip
    return [f"{len(outcome.missing)} of {outcome.n_cells} cells did not run", *narrow]


def settings_summary(settings: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the distinct values of each setting."""
    taken: dict[str, list[Any]] = {}
    for cell in settings:
        for name, value in cell.items():
            values = taken.setdefault(name, [])
            if value not in values:
                values.append(value)
    return taken
