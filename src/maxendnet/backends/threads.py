"""`Threads`: backend that runs kernels, which release the GIL, on threads."""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends.partial import Partial, add_up
from maxendnet.utils.checks import require_count

Range = tuple[int, int]
MAX_SHARDS = 16
_running = threading.local()
"""Thread-local list of the errors of the `Threads.run` call that the thread belongs to."""


class Threads:
    """Backend that runs functions over shards of examples on threads.

    Shards depend only on the data, so results are bit-for-bit identical for any ``n_jobs``. A shard is a list of ranges
    of examples, which are processed in order. The main thread can be interrupted between ranges. A range
    takes well under half a second.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads. None means 1, -1 all processors and -2 all but one, as in scikit-learn.
    shards : int, default=16
        Maximum number of shards. More threads than shards do not help, and each shard needs memory for a gradient.
        The number of shards changes the last digits of sums.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> from maxendnet.backends import Threads
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L2CRF(backend=Threads(2)).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    def __init__(self, n_jobs: int | None = None, shards: int = MAX_SHARDS) -> None:
        if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
            raise ValueError(
                f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}; -1 is all processors."
            )
        require_count("shards", shards)
        self.shards: int = int(shards)
        self.n_jobs: int = 1 if n_jobs is None else (n_jobs if n_jobs > 0 else max(1, _processors() + 1 + n_jobs))

    local = True
    """Shards are in this process."""

    def __sklearn_clone__(self) -> Threads:
        return self

    def place(self, structure: Any) -> list[Any]:
        """Split a bound structure into shards."""
        shards = structure.ranges(n_shards(structure, self.shards))
        if len(shards) <= 1:
            return [structure]
        cuts = [Cut(structure, ranges[0][0], ranges[-1][1]) for ranges in shards]
        # for memory-mapped data even a few numbers per node are too much, so shards are not stored
        return list(cuts) if structure.mapped else [cut.take() for cut in cuts]

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """Return the sum of ``oracle(shard, *arguments)`` over all shards."""
        if self.n_jobs > 1:
            return add_up(self.each(oracle, shards, *arguments), len(shards))
        return add_up((oracle(taken(shard), *arguments) for shard in shards), len(shards))

    def each(self, function: Callable[..., Any], shards: Sequence[Any], *arguments: Any) -> list[Any]:
        """Return ``function(shard, *arguments)`` of each shard, in order."""
        values: list[Any] = [None] * len(shards)

        def work(shard: int, _: int, __: int) -> None:
            values[shard] = function(taken(shards[shard]), *arguments)

        self.run(work, [[(k, k + 1)] for k in range(len(shards))])
        return values

    def hold(self, make: Callable[..., Any], shards: Sequence[Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return ``make(shard, *given)`` for each shard.

        `each` and `sum` may change these objects in place.
        """
        return [make(taken(shard), *arguments) for shard, arguments in zip(shards, given)]

    def sum_ranges(
        self, function: Callable[[int, int, Any], None], shards: Sequence[Sequence[Range]], size: int
    ) -> NDArray[np.float64]:
        """Run ``function(first, last, buffer)`` over ranges, and add the buffers.

        There is one buffer per shard.
        """

        def fill(ranges: Sequence[Range]) -> Partial:
            buffer = np.zeros(size)
            each(lambda first, last: function(first, last, buffer), ranges)
            return Partial(0.0, buffer)

        return self.sum(fill, shards).gradient if shards else np.zeros(size)

    def run(self, function: Callable[[int, int, int], None], shards: Sequence[Sequence[Range]]) -> None:
        """Call ``function(first, last, shard)`` for each range of each shard."""
        if self.n_jobs == 1 or len(shards) <= 1:
            for number, ranges in enumerate(shards):
                for first, last in ranges:
                    function(first, last, number)
            return
        left = iter(range(len(shards)))  # `next` is atomic under the interpreter lock
        errors: list[BaseException] = []

        def work() -> None:
            try:
                _running.errors = errors
                for number in left:
                    for first, last in shards[number]:
                        if errors:  # another thread failed, so stop after the current range
                            return
                        function(first, last, number)
            except Stopped:
                pass
            except BaseException as error:
                errors.append(error)
            finally:
                _running.errors = None

        def work_beside(done: _thread.LockType) -> None:
            try:
                work()
            finally:
                ended.append(None)
                done.release()

        # The calling thread works too. threading.Thread is not used, because its start waits for the new thread, which
        # takes a tenth of the time of a pass over 50,000 nodes.
        running: list[_thread.LockType] = []  # locks, which threads release when they end
        ended: list[None] = []  # one entry for each thread that has ended
        n_started = 0
        try:
            for _ in range(min(self.n_jobs, len(shards)) - 1):
                done = _thread.allocate_lock()
                done.acquire()
                _thread.start_new_thread(work_beside, (done,))
                n_started += 1
                running.append(done)
            work()
            while running:
                running[-1].acquire()
                running.pop()
        except BaseException as error:  # Ctrl-C outside of `work`, or a thread could not be started
            errors.append(error)
            _wait(ended, n_started)
            raise
        if errors:
            raise errors[0]


class Cut(NamedTuple):
    """Range of examples of a structure. They are extracted each time they are needed."""

    structure: Any
    first: int
    last: int

    def take(self) -> Any:
        return self.structure.take(self.first, self.last)


def taken(shard: Any) -> Any:
    """Return the shard itself, or the extracted examples if it is a `Cut`."""
    return shard.take() if isinstance(shard, Cut) else shard


class Stopped(BaseException):
    """Raised in a thread to stop it, because another thread has failed."""


def each(function: Callable[[int, int], Any], ranges: Sequence[Range]) -> None:
    """Call ``function(first, last)`` for each range.

    Raises `Stopped` if another thread has failed.
    """
    errors = getattr(_running, "errors", None)
    for first, last in ranges:
        if errors:
            raise Stopped
        function(first, last)


def pause() -> None:
    """Handle Ctrl-C, and raise `Stopped` if another thread has failed.

    Kernels in which one example may take seconds call it regularly.
    """
    if getattr(_running, "errors", None):
        raise Stopped


def n_shards(structure: Any, most: int = MAX_SHARDS) -> int:
    """Return the largest number of shards whose overhead is at most a quarter of the work.

    Each shard needs padded weights, a gradient, and some Python code: 4e6 multiplications take about a millisecond, ten
    times as long as the Python code of a shard.
    """
    work = structure.work_per_node * int(structure.offsets[-1])
    return int(np.clip(work / (4 * structure.slope_size + 4e6), 1, most))


def _wait(ended: list[None], n_started: int) -> None:
    """Wait until all threads have ended, even if there are further interrupts.

    A thread that is still inside a kernel at exit would crash the interpreter.
    """
    while len(ended) < n_started:
        try:
            time.sleep(0.005)
        except KeyboardInterrupt:
            continue


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cut(offsets: NDArray[np.int64], n_shards: int, nodes_per_range: int) -> list[list[Range]]:
    """Split examples into shards of about equal size, and those into ranges.

    Examples
    --------
    >>> cut(np.array([0, 4, 8, 12, 16]), 2, 4)
    [[(0, 1), (1, 2)], [(2, 3), (3, 4)]]
    """
    n_examples = len(offsets) - 1
    borders = _borders(offsets, 0, n_examples, n_shards)
    shards = []
    for first, last in pairwise(borders):
        n_ranges = max(1, -(-int(offsets[last] - offsets[first]) // nodes_per_range))
        inner = _borders(offsets, first, last, n_ranges) if n_ranges > 1 else [first, last]
        shards.append([(a, b) for a, b in pairwise(inner) if a < b])
    return [ranges for ranges in shards if ranges]


def _borders(offsets: NDArray[np.int64], first: int, last: int, parts: int) -> list[int]:
    # an example counts as one additional node, so that examples without nodes are distributed too
    weight = offsets[first : last + 1] - offsets[first] + np.arange(last - first + 1)
    goals = weight[-1] * np.arange(1, parts) / parts
    return [first, *(first + np.searchsorted(weight, goals)).tolist(), last]
