"""What is computed once and needed again: by a fitted model with every prediction, by all shards of a sum."""

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


class Remembered:
    """Results that were computed before: some for the last weights, and a few that do not depend on weights.

    Threads that ask at the same time may compute a result twice; all get an equal one.

    Examples
    --------
    >>> remembered = Remembered()
    >>> remembered.result("rules", lambda: [1, 2]) is remembered.result("rules", lambda: [1, 2])
    True
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._of_weights: tuple[tuple[NDArray, dict[Hashable, Any]], ...] = ()

    def result(self, what: Hashable, compute: Callable[[], T]) -> T:
        """The result of ``compute``, called the first time only; of many results the last few are remembered."""
        results = self._results  # another thread may replace it
        if what not in results:
            if len(results) >= FEW:
                results = self._results = {}
            results[what] = compute()
        result: T = results[what]
        return result

    def of_weights(self, w: NDArray, what: Hashable, compute: Callable[[], T]) -> T:
        """The same for what is computed from weights. Those that can be written to are computed from each time."""
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
    def fixed(self, w: NDArray) -> Iterator[NDArray]:
        """The same weights, for all shards of a sum: what is computed from them is kept until its end.

        Examples
        --------
        >>> import numpy as np
        >>> remembered, w = Remembered(), np.ones(2)
        >>> with remembered.fixed(w) as fixed:
        ...     remembered.of_weights(fixed, "twice", lambda: 2 * w) is remembered.of_weights(fixed, "twice", list)
        True
        """
        before, fixed = self._of_weights, w.view()
        fixed.flags.writeable = False
        try:
            yield fixed
        finally:
            self._of_weights = before  # laid out, weights may take as much memory as a gradient
