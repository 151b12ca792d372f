"""Threads over shards of examples. The kernels release the GIL, so Python threads are enough."""

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
MOST_SHARDS = 16
_running = threading.local()
"""Of a thread: the errors of the call of `Threads.run` that it works for."""


class Threads:
    """Runs a function over shards of examples on ``n_jobs`` threads; one thread is the calling one.

    A shard is a list of ranges that are worked through in order. How the data is cut depends on the data alone, never
    on the number of threads, so that results are the same bits for any ``n_jobs``. Between two ranges the main thread
    can be interrupted, hence ranges are cut to take well under half a second.

    Parameters
    ----------
    n_jobs : int or None
        None is one thread; -1 all processors, -2 all but one, as in scikit-learn.
    shards : int, default=16
        Shards at most. More threads than shards do not help, and every shard takes memory for a gradient. The last
        digits of a sum depend on the number of shards, and not on that of threads.
    """

    def __init__(self, n_jobs: int | None = None, shards: int = MOST_SHARDS) -> None:
        if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
            raise ValueError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}; -1 is all of them.")
        require_count("shards", shards)
        self.shards = int(shards)
        self.n_jobs = 1 if n_jobs is None else (n_jobs if n_jobs > 0 else max(1, _processors() + 1 + n_jobs))

    local = True
    """Shards are in this process: solvers with kernels of their own can go through all examples."""

    def __sklearn_clone__(self) -> Threads:
        return self

    def place(self, structure: Any) -> list[Any]:
        """Cut a bound structure into shards; one that does not say how much work it is stays whole."""
        parts = structure.ranges(n_shards(structure, self.shards))
        if len(parts) <= 1:
            return [structure]
        cuts = [Cut(structure, part[0][0], part[-1][1]) for part in parts]
        # of examples in files, which are many, even the few numbers of a node that a shard has of its own would count
        return list(cuts) if structure.mapped else [one.take() for one in cuts]

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """``oracle(shard, *arguments)`` of all shards, added up along a fixed tree."""
        if self.n_jobs > 1:
            return add_up(self.each(oracle, shards, *arguments), len(shards))
        return add_up((oracle(taken(shard), *arguments) for shard in shards), len(shards))

    def each(self, function: Callable[..., Any], shards: Sequence[Any], *arguments: Any) -> list[Any]:
        """``function(shard, *arguments)`` of every shard, in order."""
        found: list[Any] = [None] * len(shards)

        def work(shard: int, _: int, __: int) -> None:
            found[shard] = function(taken(shards[shard]), *arguments)

        self.run(work, [[(k, k + 1)] for k in range(len(shards))])
        return found

    def hold(self, make: Callable[..., Any], shards: Sequence[Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What ``make(shard, *given)`` makes of each shard, for `each` and `sum` to change in place."""
        return [make(taken(shard), *arguments) for shard, arguments in zip(shards, given)]

    def sum_ranges(
        self, function: Callable[[int, int, Any], None], shards: Sequence[Sequence[Range]], size: int
    ) -> NDArray[np.float64]:
        """Run ``function(first, last, buffer)`` over ranges, a buffer for each shard; the sum of the buffers."""

        def fill(ranges: Sequence[Range]) -> Partial:
            buffer = np.zeros(size)
            each(lambda first, last: function(first, last, buffer), ranges)
            return Partial(0.0, buffer)

        return self.sum(fill, shards).gradient if shards else np.zeros(size)

    def run(self, function: Callable[[int, int, int], None], shards: Sequence[Sequence[Range]]) -> None:
        """Call ``function(first, last, shard)`` for every range of every shard."""
        if self.n_jobs == 1 or len(shards) <= 1:
            for number, ranges in enumerate(shards):
                for first, last in ranges:
                    function(first, last, number)
            return
        left = iter(range(len(shards)))  # one `next` at a time: a thread that takes a shard holds the interpreter lock
        errors: list[BaseException] = []

        def work() -> None:
            try:
                _running.errors = errors
                for number in left:
                    for first, last in shards[number]:
                        if errors:  # what runs ends with its range, the rest is dropped
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

        # This thread works too, so that two threads cost the start of one; and it does not wait for the other to come
        # up, as threading.Thread.start would do: a tenth of the time of a sweep over 50,000 nodes.
        others: list[_thread.LockType] = []
        ended: list[None] = []  # one for every other thread that is done
        n_started = 0
        try:
            for _ in range(min(self.n_jobs, len(shards)) - 1):
                done = _thread.allocate_lock()
                done.acquire()
                _thread.start_new_thread(work_beside, (done,))
                n_started += 1
                others.append(done)
            work()
            while others:
                others[-1].acquire()
                others.pop()
        except BaseException as error:  # Ctrl-C outside of `work`, or no more threads to be had
            errors.append(error)
            _wait(ended, n_started)
            raise
        if errors:
            raise errors[0]


class Cut(NamedTuple):
    """Some examples of a structure, which are taken from it whenever they are needed."""

    structure: Any
    first: int
    last: int

    def take(self) -> Any:
        return self.structure.take(self.first, self.last)


def taken(shard: Any) -> Any:
    """A shard itself, also where it is yet to be taken."""
    return shard.take() if isinstance(shard, Cut) else shard


class Stopped(BaseException):
    """A thread gives up because another one has failed."""


def each(function: Callable[[int, int], Any], ranges: Sequence[Range]) -> None:
    """Call ``function(first, last)`` for every range, unless the work of this thread was given up in the meantime."""
    errors = getattr(_running, "errors", None)
    for first, last in ranges:
        if errors:
            raise Stopped
        function(first, last)


def pause() -> None:
    """For kernels in which one example may take seconds, and which call it now and then.

    Here Ctrl-C is heard, as in any Python function, and a thread whose work was given up in the meantime stops.
    """
    if getattr(_running, "errors", None):
        raise Stopped


def n_shards(structure: Any, most: int = MOST_SHARDS) -> int:
    """Every shard has weights and a gradient of its own to lay out: a quarter of the work at most.

    4e6 multiplications are about a millisecond, ten times what a shard takes in Python.
    """
    work = structure.work_per_node * int(structure.offsets[-1])
    return int(np.clip(work / (4 * structure.slope_size + 4e6), 1, most))


def _wait(ended: list[None], n_started: int) -> None:
    """Until all threads have ended with their range, whatever keys are pressed: one that is still inside a kernel when
    the interpreter ends would bring it down."""
    while len(ended) < n_started:
        try:
            time.sleep(0.005)
        except KeyboardInterrupt:
            continue


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cut(offsets: NDArray[np.int64], n_shards: int, nodes_per_range: int) -> list[list[Range]]:
    """Cut examples into ``n_shards`` shards of about equal numbers of nodes, and those into ranges.

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
    # an empty example weighs as much as one node, so that examples without nodes are shared out too
    weight = offsets[first : last + 1] - offsets[first] + np.arange(last - first + 1)
    goals = weight[-1] * np.arange(1, parts) / parts
    return [first, *(first + np.searchsorted(weight, goals)).tolist(), last]
