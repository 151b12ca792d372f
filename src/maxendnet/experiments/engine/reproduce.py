"""Run experiments and write numbers, figures and cards."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import maxendnet
from maxendnet import experiments
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.cells import Outcome, plain, run_cells, workers
from maxendnet.experiments.engine.experiment import Experiment, Row
from maxendnet.experiments.engine.table import as_csv
from maxendnet.utils.atomic_write import write_whole


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_whole(path, lambda file: file.write(text.encode()))


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    scale: str = "full",
    jobs: int = 1,
    backend: Any = None,
    seed: int = 0,
    data: Path | None = None,
    only_finished: bool = False,
    progress: bool = True,
    echo: Callable[[str], object] = print,
) -> list[str]:
    """Run experiments in sequence; each writes a folder under ``out``.

    Parameters
    ----------
    names : sequence of str
    out : Path
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
                experiment, out / name, scale=scale, pool=pool, seed=seed, data=data, only_finished=only_finished,
                progress=progress,
            )  # fmt: skip
            failures += [f"{name}: {line}" for line in outcome.failures]
            if not outcome.done:
                echo(f"{name}: no finished cells.")
                continue
            cards = write_results(experiment, outcome, out / name, scale, seed, echo)
            count = f"{len(outcome.done)} of {outcome.n_cells} cells, " if len(outcome.done) < outcome.n_cells else ""
            echo(f"{name}: {count}{time.perf_counter() - began:.0f} s.")
            for card in cards:
                echo(f"  {card['verdict']:>13}: {card['claim']}")
    return failures


def why_not(name: str, data: Path | None, only_finished: bool = False) -> str:
    """Return the reason why an experiment cannot run, or an empty string."""
    return "" if only_finished else experiments.get(name).needs(data)


def write_results(
    experiment: Experiment, outcome: Outcome, folder: Path, scale: str, seed: int, echo: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Write ``NAME.csv``, ``NAME.png``, ``NAME.svg`` and ``cards.json``."""
    rows: list[Row] = [row for done in outcome.done for row in experiment.rows(done.settings, done.numbers)]
    write_text(folder / f"{experiment.name}.csv", as_csv(rows))
    note = "" if scale == "full" else "quick run: too small for conclusions"
    if scale == "full" and len(outcome.done) < outcome.n_cells:
        note = f"unfinished: {len(outcome.done)} of {outcome.n_cells} cells"
    try:
        figures.save(folder / experiment.name, experiment.size, lambda figure: experiment.draw(figure, rows), note)
    except ImportError as error:
        echo(f"{experiment.name}: no figure ({error}); it needs matplotlib: pip install 'maxendnet[plot]'")
    cards = [asdict(card) for card in experiment.cards(rows)]
    summary = {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "method": experiment.method,
        "scale": scale,
        "seed": seed,
        "n_done": len(outcome.done),
        "n_cells": outcome.n_cells,
        "cell_seconds": sum(done.seconds for done in outcome.done),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "versions": {"maxendnet": maxendnet.__version__, "numpy": np.__version__, "python": platform.python_version()},
        "settings": settings_summary([done.settings for done in outcome.done]),
        "cards": cards,
    }
    write_text(folder / "cards.json", json.dumps(plain(summary), indent=1, allow_nan=False) + "\n")
    return cards


def settings_summary(settings: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the distinct values of each setting."""
    taken: dict[str, list[Any]] = {}
    for cell in settings:
        for name, value in cell.items():
            values = taken.setdefault(name, [])
            if value not in values:
                values.append(value)
    return taken
