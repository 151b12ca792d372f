"""Run the cells of an experiment in parallel, save each result, and resume interrupted runs."""

from __future__ import annotations

import json
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

import maxendnet
from maxendnet.experiments.engine.code_hash import code_hash
from maxendnet.experiments.engine.experiment import SCALES, Experiment, Row, Settings
from maxendnet.experiments.engine.results import Done, ResultsTable, identity, plain, restored
from maxendnet.utils.progress import progress_bar

AHEAD = 32
"""Maximum number of submitted, unfinished cells."""


class Outcome(NamedTuple):
    """Result of a run: finished cells in order, cells without results, error messages.

    ``n_older`` of the finished cells were computed by another version of the library or of the experiment's code.
    """

    done: list[Done]
    missing: list[Settings]
    failures: list[str]
    n_older: int = 0

    @property
    def n_cells(self) -> int:
        """Number of requested cells."""
        return len(self.done) + len(self.missing)


def compute(run: Callable[..., Row], settings: Settings, seed: int, data: Path | None) -> tuple[Row, float]:
    """Compute one cell on one thread, so that results do not depend on the number of BLAS threads."""
    began = time.process_time()  # CPU time: independent of the load of the machine
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells record whether their fits converged
        numbers = run(settings, seed, data)
    return restored(plain(numbers)), float(f"{time.process_time() - began:.3g}")


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

    A cell counts as finished if its results were computed by this version of the library and by the same code
    (`code_hash`). With ``only_finished``, results of other versions count too.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Folder of ``NAME.tsv``, the table of results.
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
    table = ResultsTable(folder / f"{experiment.name}.tsv")
    requested = {identity(settings, seed): settings for settings in experiment.cells(scale)}
    current = (maxendnet.__version__, code_hash(experiment.run))
    finished = {name: done for name, done in table.read().items() if name in requested}
    failures: list[str] = []
    if not only_finished:
        finished = {name: done for name, done in finished.items() if (done.version, done.code) == current}
        missing = {name: settings for name, settings in requested.items() if name not in finished}
        bar = progress_bar(
            total=len(requested), initial=len(finished), show=bool(progress and missing), unit=" cells",
            desc=experiment.name, smoothing=0.1, dynamic_ncols=True,
            bar_format="{desc}: {n_fmt}/{total_fmt} cells |{bar}| {elapsed} so far, about {remaining} left",
        )  # fmt: skip
        try:
            with bar:
                for name, result in _results(experiment, missing, pool, seed, data):
                    if isinstance(result, str):
                        failures.append(f"{json.dumps(requested[name])}: {result}")
                    elif result[0]:
                        finished[name] = Done(requested[name], *result, *current, seed)
                        table.add(finished[name])
                    bar.update()
        finally:
            every = [settings for size in SCALES for settings in experiment.cells(size)]
            table.arrange(every, requested.values(), seed)
    return Outcome(
        [finished[name] for name in requested if name in finished],
        [settings for name, settings in requested.items() if name not in finished],
        failures,
        sum((done.version, done.code) != current for done in finished.values()),
    )


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
