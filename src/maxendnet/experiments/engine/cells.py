"""Run the cells of an experiment in parallel, save each result, and resume interrupted runs."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from maxendnet.experiments.engine.experiment import Experiment, Row, Settings
from maxendnet.utils.progress import progress_bar

AHEAD = 32
"""Maximum number of submitted, unfinished cells."""


class Done(NamedTuple):
    """A finished cell."""

    settings: Settings
    numbers: Row
    seconds: float


class Outcome(NamedTuple):
    """Result of a run: finished cells in order, number of requested cells, error messages."""

    done: list[Done]
    n_cells: int
    failures: list[str]


def key(experiment: Experiment, settings: Settings, seed: int) -> str:
    """Return the key of a cell, a hash of experiment, revision, seed and settings."""
    text = json.dumps([experiment.name, experiment.revision, seed, settings], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Store:
    """Append-only file of finished cells, one JSON line each.

    Truncated lines (a killed process, a full disk) are ignored, and their cells are computed again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Done]:
        finished: dict[str, Done] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    finished[entry["key"]] = Done(entry["settings"], restored(entry["numbers"]), entry["seconds"])
                except (ValueError, KeyError, TypeError):
                    continue
        return finished

    def add(self, name: str, done: Done) -> None:
        entry = {"key": name, "settings": done.settings, "numbers": plain(done.numbers), "seconds": done.seconds}
        with open(self.path, "ab+") as file:
            file.seek(0, os.SEEK_END)
            cut = False
            if file.tell():
                file.seek(-1, os.SEEK_END)
                cut = file.read(1) != b"\n"
            line = json.dumps(entry, allow_nan=False)
            file.write((("\n" if cut else "") + line + "\n").encode())
            file.flush()
            os.fsync(file.fileno())


def plain(value: Any) -> Any:
    """Convert a value for JSON: NumPy numbers to Python numbers, NaN to None, infinities to strings."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and bool(getattr(value, "ndim", False))):
        return [plain(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def restored(value: Any) -> Any:
    """Invert `plain`."""
    if isinstance(value, dict):
        return {k: restored(v) for k, v in value.items()}
    if isinstance(value, list):
        return [restored(v) for v in value]
    return {None: math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value)


def compute(run: Callable[..., Row], settings: Settings, seed: int, data: Path | None) -> tuple[Row, float]:
    """Compute one cell on one thread, so that results do not depend on the number of BLAS threads."""
    began = time.process_time()  # CPU time: independent of the load of the machine
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells record whether their fits converged
        numbers = run(settings, seed, data)
    return restored(plain(numbers)), time.process_time() - began


def run_cells(
    experiment: Experiment,
    folder: Path,
    *,
    scale: str = "full",
    pool: Any = None,
    seed: int = 0,
    data: Path | None = None,
    only_finished: bool = False,
    progress: bool = True,
) -> Outcome:
    """Compute the missing cells of an experiment and return all finished ones.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Folder of ``cells.jsonl``, which stores the finished cells.
    scale : {"full", "quick", "tiny"}
    pool : ProcessPoolExecutor, Dask or None
        Pool from `workers`, or a cluster whose workers find the data at the same path. Results do not depend on the
        number of workers. None computes in this process.
    seed : int
    data : Path or None
        Folder of the data sets.
    only_finished : bool
        Return finished cells without computing missing ones.
    progress : bool
        Show a progress bar with the remaining time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder / "cells.jsonl")
    requested = {key(experiment, settings, seed): settings for settings in experiment.cells(scale)}
    finished = store.read()
    missing = [] if only_finished else [name for name in requested if name not in finished]
    failures: list[str] = []
    bar = progress_bar(
        total=len(requested), initial=len(requested) - len(missing), show=bool(progress and missing), unit=" cells",
        desc=experiment.name, smoothing=0.1, dynamic_ncols=True,
        bar_format="{desc}: {n_fmt}/{total_fmt} cells |{bar}| {elapsed} so far, about {remaining} left",
    )  # fmt: skip
    with bar:
        for name, result in _results(experiment, {n: requested[n] for n in missing}, pool, seed, data):
            if isinstance(result, str):
                failures.append(f"{json.dumps(requested[name])}: {result}")
            else:
                finished[name] = Done(requested[name], *result)
                store.add(name, finished[name])
            bar.update()
    return Outcome([finished[name] for name in requested if name in finished], len(requested), failures)


def _results(
    experiment: Experiment, cells: dict[str, Settings], pool: Any, seed: int, data: Path | None
) -> Iterator[tuple[str, tuple[Row, float] | str]]:
    """Yield the key and result of each cell as it finishes; for a failed cell, an error message."""
    if pool is None:
        for name, settings in cells.items():
            try:
                yield name, compute(experiment.run, settings, seed, data)
            except Exception:
                yield name, traceback.format_exc(limit=-1).strip().splitlines()[-1]
        return
    if hasattr(pool, "run_all"):
        cells_of = [(experiment.run, settings, seed, data) for settings in cells.values()]
        for number, result in pool.run_all(compute, cells_of):
            yield list(cells)[number], _failure(result) if isinstance(result, Exception) else result
        return
    waiting = iter(cells.items())
    running: dict[Future[Any], str] = {}
    while True:
        # a short queue keeps all workers busy and loses little work on an interrupt
        while len(running) < AHEAD and (cell := next(waiting, None)):
            running[pool.submit(compute, experiment.run, cell[1], seed, data)] = cell[0]
        if not running:
            return
        for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
            name, error = running.pop(future), future.exception()
            if isinstance(error, BrokenProcessPool):
                raise ChildProcessError(
                    f"A worker process of {experiment.name} died, possibly because memory ran out. Finished cells are "
                    "saved; run the command again with fewer --jobs."
                ) from error
            yield name, _failure(error) if error else future.result()


def _failure(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@contextmanager
def workers(n: int) -> Iterator[ProcessPoolExecutor | None]:
    """Pool of spawned processes that ignore Ctrl-C and end with their parent; None if ``n`` is 1."""
    if n == 1:
        yield None
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(n, multiprocessing.get_context("spawn"), _begin_worker, (os.getpid(),))
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _begin_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:  # a killed parent cannot stop its workers
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
