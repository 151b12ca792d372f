"""Cache of arrays that kernels need, such as padded weights.

Results that depend on weights are cached only for read-only weight vectors, by identity: the weights of a fitted
model, and the weights during a sum over shards (`Cache.during`). Writeable vectors may change, so results for them are
computed each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

MAX_RESULTS = 8
MAX_WEIGHTS = 3
"""Number of cached weight vectors: that of a model, and scaled copies that a loss uses in two threads."""


class Cache:
    """Cache of results that depend on read-only weight vectors, or on no weights.

    Threads that need a result at the same time may compute it twice.

    Examples
    --------
    >>> cache = Cache()
    >>> cache.result("rules", lambda: [1, 2]) is cache.result("rules", lambda: [1, 2])
    True
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._of_weights: tuple[tuple[NDArray[Any], dict[Hashable, Any]], ...] = ()

    def result(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result of ``compute``; at most `MAX_RESULTS` are cached."""
        results = self._results  # another thread may replace it
        if key not in results:
            if len(results) >= MAX_RESULTS:
                results = self._results = {}
            results[key] = compute()
        result: T = results[key]
        return result

    def of_weights(self, w: NDArray[Any], key: Hashable, compute: Callable[[], T]) -> T:
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
    def during(self, w: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Context manager that returns a read-only view of weights and caches its results until the exit.

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
            self._of_weights = before  # drop the padded weights, which are as large as a gradient
