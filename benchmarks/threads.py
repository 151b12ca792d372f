"""Speed-up of whole fits by a second thread, compared with two parallel processes.

All six systems are fitted to folds 1-9 of the OCR letters (pixels and transitions) with default settings, and `M3N`
also by two solvers that use several threads. For each, three measurements alternate: a fit on one thread, a fit on two
threads, and two processes that make the one-thread fit at the same time, which is an upper limit of the machine. The
share is the number of fits per second on two threads relative to that of the two processes. Times are wall seconds, the
median of ``--repeat`` turns; the machine must be idle otherwise.

    python benchmarks/threads.py
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from typing import Any

import common
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.solvers import BlockFrankWolfe, Smoothing

MODELS: dict[str, Any] = {
    **{f"{cls.__name__}()": cls() for cls in (LapMEDN, M3N, L1M3N, L2CRF, L1CRF, CRF)},
    "M3N(solver=Smoothing())": M3N(solver=Smoothing()),
    "M3N(solver=BlockFrankWolfe(parts=2))": M3N(solver=BlockFrankWolfe(parts=2)),
}


def seconds_of(model: Any, examples: Any, n_jobs: int) -> float:
    fitted = clone(model).set_params(n_jobs=n_jobs, random_state=0)
    began = time.perf_counter()
    fitted.fit(examples)
    return time.perf_counter() - began


def serve(data: str | None, n_words: int | None, pipe: Any) -> None:
    """Run the requested fits in a process that holds the examples."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    examples = letters(data, n_words)
    pipe.send("ready")
    for name in iter(pipe.recv, None):
        pipe.send(seconds_of(MODELS[name], examples, 1))


def letters(data: str | None, n_words: int | None) -> Any:
    raw, examples = common.letters(data)
    return common.subset(examples[raw.folds != 0], n_words)


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--only", default="", help="models whose name begins so, separated by semicolons")
    arguments.add_argument("--repeat", type=int, default=3, help="turns (default: %(default)s)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    n_words = 200 if given.quick else None
    examples = letters(given.data, n_words)
    spawned = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(2):
        mine, theirs = spawned.Pipe()
        spawned.Process(target=serve, args=(given.data, n_words, theirs), daemon=True).start()
        pipes.append(mine)
    for pipe in pipes:
        pipe.recv()
    rows = []
    for name, model in MODELS.items():
        if not any(name.startswith(begin) for begin in given.only.split(";")):
            continue
        found = []
        for _ in range(given.repeat):
            one, two = (seconds_of(model, examples, n) for n in (1, 2))
            for pipe in pipes:
                pipe.send(name)
            both = float(np.mean([pipe.recv() for pipe in pipes]))
            found.append((one, two, both))
            common.say(f"{name}: one thread {one:.2f} s, two {two:.2f}, two processes {both:.2f}")
        one, two, both = np.median(found, axis=0)
        share = float(np.median([b / (2 * t) for _, t, b in found]))
        rows.append((name, f"{one:.2f}", f"{two:.2f}", f"{one / two:.2f}", f"{both:.2f}", f"**{share:.2f}**",
                     common.verdict(share, 0.85, least=True)))  # fmt: skip
    for pipe in pipes:
        pipe.send(None)
    print(f"{len(examples):,} words, wall seconds, median of {given.repeat}:\n")
    head = ("", "one thread", "two threads", "ratio", "two processes, a fit each", "share", "target")
    print(common.table(head, rows))


if __name__ == "__main__":
    main()
