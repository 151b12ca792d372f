"""Cache of values that kernels need, such as padded weights.

Values that depend on weights are cached only for read-only arrays, by identity: the weights of a fitted model, and the
weights of a sum over shards (`Cache.during`). Writeable arrays may change, so their values are computed each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

MAX_RESULTS = 8
MAX_WEIGHTS = 3
"""Number of cached weight vectors: those of a model, and scaled copies of a loss in two threads."""


class Cache:
    """Cached results, for read-only weight vectors or without weights.

    Threads that need a result at the same time may compute it twice.

    Examples
    --------
    >>> cache = Cache()
    >>> cache.result("rules", lambda: [1, 2]) is cache.result("rules", lambda: [1, 2])
    True
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._of_weights: tuple[tuple[NDArray, dict[Hashable, Any]], ...] = ()

    def result(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result of ``compute``; at most `MAX_RESULTS` are cached."""
        results = self._results  # another thread may replace it
        if key not in results:
            if len(results) >= MAX_RESULTS:
                results = self._results = {}
            results[key] = compute()
        result: T = results[key]
        return result

    def of_weights(self, w: NDArray, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of ``compute``, cached if the weights are read-only."""
        if w.flags.writeable:
            return compute()
        results = next((results for weights, results in self._of_weights if weights is w), None)
        if results is None:
            results = {}
            self._of_weights = ((w, results), *self._of_weights)[:MAX_WEIGHTS]  # atomic
        if key not in results:
            results[key] = compute()
        result: T = results[key]
        return result

    @contextmanager
    def during(self, w: NDArray) -> Iterator[NDArray]:
        """Read-only view of weights, with cached results until the end of the context.

        Examples
        --------
        >>> import numpy as np
        >>> cache, w = Cache(), np.ones(2)
        >>> with cache.during(w) as fixed:
        ...     cache.of_weights(fixed, "double", lambda: 2 * w) is cache.of_weights(fixed, "double", list)
        True
        """
        before, fixed = self._of_weights, w.view()
        fixed.flags.writeable = False
        try:
            yield fixed
        finally:
            self._of_weights = before  # padded weights are as large as a gradient
