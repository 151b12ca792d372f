"""Whole calls with default settings: `Tagger().fit` beside CRFsuite, from sentences in memory to a fitted model.

CRFsuite has the features of `Tagger`, c1 = c2 = 0.1, and its usual limit of 100 iterations; its time includes the
features and their conversion to strings. The documents are the sentences of the names, joined to five sequences. Times
are CPU seconds of one thread; with ``--repeat`` the table has the median and the range. ``--busy`` starts processes
that compute all the time. ``--memory`` compares the peak memory (resident set size) of new processes that read the data
and fit: `Tagger`, CRFsuite, and `L2CRF` and CRFsuite on feature dicts.

    python benchmarks/whole_calls.py --data DATA --repeat 5
    python benchmarks/whole_calls.py --data DATA --repeat 5 --busy 2
    python benchmarks/whole_calls.py --data DATA --rows names --profile
    python benchmarks/whole_calls.py --data DATA --rows names,chunks --memory
"""

from __future__ import annotations

import contextlib
import cProfile
import multiprocessing
import pstats
import resource
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import common
import numpy as np
import text_defaults

from maxendnet import L2CRF
from maxendnet.text import Tagger, TokenFeatures, span_scores
from maxendnet.text.reading.tag_schemes import detect_scheme

ROWS = {
    "names": ("uner_pt", 1000),
    "documents": ("uner_pt", 1000),
    "wnut17": ("wnut17", None),
    "chunks": ("conll2000", 2000),
}
"""Data set and number of training sentences of each row."""
N_DOCUMENTS = 5
CONSTANTS = {"c1": 0.1, "c2": 0.1, "max_iterations": 100}


def joined(columns: Any, labels: list[list[str]]) -> tuple[Any, list[list[str]]]:
    """Join the sentences to `N_DOCUMENTS` sequences."""
    bounds = [len(labels) * k // N_DOCUMENTS for k in range(N_DOCUMENTS + 1)]
    words, offsets = columns.cells[0], columns.offsets
    rows = [words[a:b] for a, b in pairwise(offsets)]
    return (
        [[token for i in range(a, b) for token in rows[i]] for a, b in pairwise(bounds)],
        [[label for i in range(a, b) for label in labels[i]] for a, b in pairwise(bounds)],
    )


class Row:
    """Training and test sentences of a row of the table."""

    def __init__(self, name: str, folder: Path, quick: bool) -> None:
        data, n_sentences = ROWS[name]
        self.name, self.template = name, text_defaults.SETS[data]
        self.X, self.y = text_defaults.read(folder / data, "train", 100 if quick else n_sentences)
        self.new, self.truth = text_defaults.read(folder / data, "test", None)
        self.scheme = detect_scheme(self.y)
        if name == "documents":
            self.X, self.y = joined(self.X, self.y)

    def ours(self) -> tuple[float, float]:
        """Fit `Tagger`; return CPU seconds and F1."""
        tagger = Tagger(self.template)
        seconds, _ = common.cpu(lambda: tagger.fit(self.X, self.y))
        return seconds, self.f1(tagger.predict(self.new))

    def crfsuite(self) -> tuple[float, float]:
        """Train CRFsuite on the features of `Tagger`; return CPU seconds and F1."""
        features = TokenFeatures(self.template)
        reading, examples = common.cpu(lambda: features.fit_transform(self.X, self.y))
        seconds, labels = text_defaults.crfsuite(CONSTANTS, features, (examples, self.y), features.transform(self.new))
        return reading + seconds, self.f1(labels)

    def f1(self, labels: Any) -> float:
        return 100 * span_scores(self.truth, labels, scheme=self.scheme).f1

    def dicts(self) -> list[list[dict[str, bool]]]:
        """Return the training sentences as feature dicts."""
        features = TokenFeatures(self.template)
        examples = features.fit_transform(self.X, self.y)
        names = np.array(features.feature_names_, dtype=object)
        nodes = [dict.fromkeys(names[examples.X.indices[a:b]].tolist(), True) for a, b in pairwise(examples.X.indptr)]
        return [nodes[a:b] for a, b in pairwise(examples.offsets)]

    def fit_dicts(self) -> None:
        L2CRF(lam=0.1).fit(self.dicts(), self.y)

    def crfsuite_dicts(self) -> None:
        import pycrfsuite

        trainer = pycrfsuite.Trainer("lbfgs", CONSTANTS, verbose=False)
        for x, labels in zip(self.dicts(), self.y):
            trainer.append(pycrfsuite.ItemSequence(x), labels)
        trainer.train("/dev/null")


def middle(values: list[float], digits: int = 2) -> str:
    """Return the median, with the range if there are several values."""
    text = f"{np.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(n: int) -> Iterator[None]:
    """Run processes that compute all the time."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(n)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()


def times(rows: list[Row], repeat: int) -> str:
    lines = []
    for row in rows:
        pairs = [(row.ours(), row.crfsuite()) for _ in range(repeat)]
        seconds, peer = ([pair[k][0] for pair in pairs] for k in (0, 1))
        shares = [a / b for a, b in zip(seconds, peer)]
        lines.append(
            (row.name, middle(seconds), f"{pairs[0][0][1]:.2f}", middle(peer), f"{pairs[0][1][1]:.2f}", middle(shares))
        )
        common.say(str(lines[-1]))
    return common.table(("", "Tagger(), CPU s", "F1", "CRFsuite, CPU s", "F1", "share"), lines)


def peak(function: Callable[[], Any]) -> float:
    """Return the peak memory in MB of a new process that calls a function."""
    reader, writer = multiprocessing.Pipe(False)

    def call() -> None:
        function()
        writer.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)

    process = multiprocessing.get_context("fork").Process(target=call)
    process.start()
    megabytes: float = reader.recv()
    process.join()
    return megabytes


def memory(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        values = [peak(call) for call in (row.ours, row.crfsuite, row.fit_dicts, row.crfsuite_dicts)]
        lines.append(
            (row.name, *(f"{value:.0f}" for value in values[:2]), f"{values[0] / values[1]:.2f}",
             *(f"{value:.0f}" for value in values[2:]), f"{values[2] / values[3]:.2f}")
        )  # fmt: skip
    head = ("", "Tagger(), MB", "CRFsuite, MB", "share", "L2CRF on dicts, MB", "CRFsuite on dicts, MB", "share")
    return common.table(head, lines)


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with a subfolder for each data set")
    arguments.add_argument("--rows", default=",".join(ROWS), help="rows, separated by commas (default: %(default)s)")
    arguments.add_argument("--repeat", type=int, default=1, help="number of runs (default: %(default)s)")
    arguments.add_argument("--busy", type=int, default=0, help="number of busy processes (default: %(default)s)")
    arguments.add_argument("--profile", action="store_true", help="print a profile of Tagger.fit")
    arguments.add_argument("--memory", action="store_true", help="compare peak memory instead of time")
    args = arguments.parse_args()
    rows = [Row(name, Path(args.data), args.quick) for name in args.rows.split(",")]
    if args.profile:
        for row in rows:
            profiler = cProfile.Profile()
            profiler.runcall(row.ours)
            pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
        return
    with busy(args.busy):
        print(memory(rows) if args.memory else times(rows, args.repeat))
    print(common.machine())


if __name__ == "__main__":
    main()
