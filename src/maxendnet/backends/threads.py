"""Threads over ranges of examples. The kernels release the GIL, so Python threads are enough."""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Range = tuple[int, int]


class Threads:
    """Runs a function over shards of examples on ``n_jobs`` threads; one thread is the calling one.

    A shard is a list of ranges that are worked through in order. How the data is cut depends on the data alone, never
    on the number of threads, so that results are the same bits for any ``n_jobs``. Between two ranges the main thread
    can be interrupted, hence ranges are cut to take well under half a second.

    Parameters
    ----------
    n_jobs : int or None
        None is one thread; -1 all processors, -2 all but one, as in scikit-learn.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        if n_jobs is not None and (not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
            raise ValueError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}; -1 is all of them.")
        self.n_jobs = 1 if n_jobs is None else (n_jobs if n_jobs > 0 else max(1, _processors() + 1 + n_jobs))

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
                for number in left:
                    for first, last in shards[number]:
                        if errors:  # what runs ends with its range, the rest is dropped
                            return
                        function(first, last, number)
            except BaseException as error:
                errors.append(error)

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
