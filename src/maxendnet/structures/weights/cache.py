"""Cache of what kernels need: for all predictions of a fitted model, and for all shards of a sum.

Results of weights are kept for read-only arrays alone, by identity: the weights of a fitted model, and those of a sum
while it lasts (`Cache.during`). Arrays that can be written to may change, and are computed from each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

FEW = 8
WEIGHTS = 3
"""Weight vectors for which results are kept: those of a model, and what a loss makes of them, which two threads may do
at the same time."""


class Cache:
    """Results for the last few read-only weight vectors, and a few that do not depend on weights.

    Threads that need a result at the same time may compute it twice; all get an equal one.

    Examples
    --------
    >>> cache = Cache()
    >>> cache.result("rules", lambda: [1, 2]) is cache.result("rules", lambda: [1, 2])
    True
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._of_weights: tuple[tuple[NDArray, dict[Hashable, Any]], ...] = ()

    def result(self, what: Hashable, compute: Callable[[], T]) -> T:
        """Result of ``compute``, called the first time only; the last few results are kept."""
        results = self._results  # another thread may replace it
        if what not in results:
            if len(results) >= FEW:
                results = self._results = {}
            results[what] = compute()
        result: T = results[what]
        return result

    def of_weights(self, w: NDArray, what: Hashable, compute: Callable[[], T]) -> T:
        """Result of ``compute`` for these weights; kept if they are read-only."""
        if w.flags.writeable:
            return compute()
        results = next((results for weights, results in self._of_weights if weights is w), None)
        if results is None:
            results = {}
            self._of_weights = ((w, results), *self._of_weights)[:WEIGHTS]  # in one step
        if what not in results:
            results[what] = compute()
        result: T = results[what]
        return result

    @contextmanager
    def during(self, w: NDArray) -> Iterator[NDArray]:
        """The same weights, read-only, for all shards of a sum; results of them are kept until its end.

        Examples
        --------
        >>> import numpy as np
        >>> cache, w = Cache(), np.ones(2)
        >>> with cache.during(w) as fixed:
        ...     cache.of_weights(fixed, "twice", lambda: 2 * w) is cache.of_weights(fixed, "twice", list)
        True
        """
        before, fixed = self._of_weights, w.view()
        fixed.flags.writeable = False
        try:
            yield fixed
        finally:
            self._of_weights = before  # laid out, weights may take as much memory as a gradient
