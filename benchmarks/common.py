"""Shared code of the benchmarks: the OCR letters, CRFsuite for comparison, timing and tables.

Import this module first, because it restricts the linear algebra of NumPy and SciPy to one thread.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

# for the processes that a benchmark starts; this one is held by threadpoolctl, whatever was imported before
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
import scipy
import scipy.linalg
import sklearn
import threadpoolctl

import maxendnet
from maxendnet.backends import Threads
from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.datasets import fetch_ocr_letters
from maxendnet.problem import Problem
from maxendnet.structures import Chain, Layout

threadpoolctl.threadpool_limits(1)

# ------------------------------------------------------------------------------------------- command line and output


def parser(description: str | None, letters: bool = True) -> argparse.ArgumentParser:
    """Return a parser of the options that all benchmarks share; ``description`` is the docstring of the script."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument(
        "--quick", action="store_true", help="a small run that shows that all works; its numbers mean little"
    )
    if letters:
        found.add_argument(
            "--data",
            metavar="PATH",
            default=os.environ.get("MAXENDNET_DATA"),
            help="file or folder with the OCR letters (default: the folder in $MAXENDNET_DATA, else the user's cache, "
            "else a download)",
        )
    return found


def say(text: str) -> None:
    """Print progress to stderr, because stdout is for the results in Markdown."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table with the first column left-aligned and the others right-aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    lines = [list(head), ["---"] + ["---:"] * (len(head) - 1), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def verdict(value: float, limit: float, least: bool = False) -> str:
    """Return the verdict on whether a number is at most the limit (with ``least``: at least the limit)."""
    kept = value >= limit if least else value <= limit
    return f"{'>=' if least else '<='} {limit:g}: {'yes' if kept else 'NO'}"


def machine() -> str:
    """Return a description of the processor, its current speed, and the versions of the software."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = names[0] if names else name
    try:
        from importlib.metadata import version

        crfsuite = f"python-crfsuite {version('python-crfsuite')}"
    except Exception:  # any failure means the same: it is not there
        crfsuite = "no python-crfsuite"
    return (
        f"{name}, {Threads(-1).n_jobs} processors, {dependent_addition():.2f} ns per dependent float64 addition; "
        f"{platform.system()}, Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, maxendnet {maxendnet.__version__}, {crfsuite}"
    )


def dependent_addition(n: int = 4_000_000) -> float:
    """Return the ns per addition in a chain of dependent additions, as a measure of the current clock speed.

    Such a chain cannot be made parallel or vector code, so that it measures the clock and little else.
    """
    ones, out = np.ones(n // 100), np.empty(n // 100)
    return 1e9 * min(cpu(lambda: [np.cumsum(ones, out=out) for _ in range(100)])[0] for _ in range(3)) / n


# ------------------------------------------------------------------------------------------------------------ clocks


def cpu(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of this process during a call, and the result of the call."""
    gc.collect()
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def wall(function: Callable[[], Any], repeat: int = 5) -> float:
    """Return the shortest wall time of several calls in seconds, after one call that is not timed."""
    function()
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


# -------------------------------------------------------------------------------------------------------------- data


def letters(path: str | None) -> tuple[Any, Examples]:
    """Return the OCR letters as loaded, and as `Examples`."""
    raw = fetch_ocr_letters(path)
    return raw, as_examples(raw.X, raw.y)


def subset(examples: Examples, n: int | None, seed: int = 0) -> Examples:
    """Return at most n examples, sampled without replacement, in their original order."""
    if n is None or n >= len(examples):
        return examples
    return examples[np.sort(np.random.default_rng(seed).permutation(len(examples))[:n])]


def repeated(examples: Examples, times: int) -> Examples:
    """Return the examples, repeated several times."""
    return examples[np.tile(np.arange(len(examples)), times)]


def problem_of(examples: Examples, loss: Any, prior: Any, C: float = 1.0, n_jobs: int = 1) -> Problem:
    """Return the problem of an estimator on chains, for timing kernels."""
    bound = Chain().bind(examples, distinct_labels(examples.y))
    return Problem.pose(bound, loss, prior, C, Threads(n_jobs))


# ---------------------------------------------------------------------------------------------------------- CRFsuite


class CRFsuite:
    """python-crfsuite with weights for all pairs of a feature and a label and all label pairs, as in our models.

    Parameters
    ----------
    examples : Examples
        Feature j of value 1 is the attribute ``"j"``.
    algorithm : {"lbfgs", "ap"}
    **settings
        Of CRFsuite: ``c1``, ``c2``, ``max_iterations``, ``epsilon``...
    """

    def __init__(self, examples: Examples, algorithm: str, **settings: Any) -> None:
        import pycrfsuite

        self.trainer = pycrfsuite.Trainer(algorithm, verbose=False)
        self.trainer.set_params({"feature.possible_states": True, "feature.possible_transitions": True, **settings})

        def fill() -> None:
            X, names = examples.X, [str(j) for j in range(examples.shape[1])]
            for first, last in zip(examples.offsets[:-1], examples.offsets[1:]):
                rows = [slice(X.indptr[t], X.indptr[t + 1]) for t in range(first, last)]
                if np.all(X.data[X.indptr[first] : X.indptr[last]] == 1.0):
                    items: list[Any] = [[names[j] for j in X.indices[row]] for row in rows]
                else:
                    items = [dict(zip([names[j] for j in X.indices[row]], X.data[row].tolist())) for row in rows]
                self.trainer.append(pycrfsuite.ItemSequence(items), [str(label) for label in examples.y[first:last]])

        self.door_seconds = cpu(fill)[0]

    def train(self) -> float:
        """Train, and return the CPU seconds; sets ``loss`` and ``n_passes`` to the last values of CRFsuite."""
        import pycrfsuite

        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model.crfsuite")
            seconds = cpu(lambda: self.trainer.train(file))[0]
            last = self.trainer.logparser.last_iteration
            self.loss, self.n_passes = last.get("loss", np.nan), last["num"]
            tagger = pycrfsuite.Tagger()
            tagger.open(file)
            self.info = tagger.info()
            tagger.close()
        return seconds

    def weights(self, layout: Layout, classes: Any) -> np.ndarray:
        """Return the trained weights in our layout; CRFsuite writes them with six decimals."""
        place = {str(label): k for k, label in enumerate(classes)}
        w = np.zeros(layout.n_weights)
        segments = layout.segments(w)
        for (feature, label), weight in self.info.state_features.items():
            segments.node[int(feature), place[label]] = weight
        for (left, right), weight in self.info.transitions.items():
            segments.transitions[0, place[left], place[right]] = weight
        return w


# ---------------------------------------------------------------------------------------------------- finished cells


class Cells:
    """Store of finished cells of a long table, one JSON object per line, from which an interrupted run resumes.

    Parameters
    ----------
    path : str or None
        None keeps nothing.
    """

    def __init__(self, path: str | None) -> None:
        self.path = Path(path) if path else None
        self.known: dict[str, dict[str, Any]] = {}
        if self.path and self.path.exists():
            for line in self.path.read_text().splitlines():
                cell = json.loads(line)
                self.known[_key(cell["key"])] = cell["value"]

    def has(self, key: dict[str, Any]) -> bool:
        """Return whether the cell of a key is finished."""
        return _key(key) in self.known

    def get(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the value of a key, and compute it if it is missing."""
        if _key(key) not in self.known:
            value = self.known[_key(key)] = compute()
            if self.path:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a") as file:
                    file.write(json.dumps({"key": key, "value": value}) + "\n")
        return self.known[_key(key)]


def _key(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
