"""What a fitted model computes once and needs with every prediction."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

FEW = 8


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
        self._of_weights: tuple[Any, dict[Hashable, Any]] = (None, {})

    def result(self, what: Hashable, compute: Callable[[], T]) -> T:
        """The result of ``compute``, called the first time only; of many results the last few are remembered."""
        if what not in self._results:
            if len(self._results) >= FEW:
                self._results = {}
            self._results[what] = compute()
        found: T = self._results[what]
        return found

    def of_weights(self, w: NDArray, what: Hashable, compute: Callable[[], T]) -> T:
        """The same for what is computed from weights. Those that can be written to are computed from each time."""
        if w.flags.writeable:
            return compute()
        weights, results = self._of_weights
        if weights is not w:
            results = {}
            self._of_weights = (w, results)  # in one step: the weights and what belongs to them
        if what not in results:
            results[what] = compute()
        found: T = results[what]
        return found
