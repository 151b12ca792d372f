"""One thread for the linear algebra below numpy while a model is fitted."""

from __future__ import annotations

import threading
from functools import cached_property
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread:
    """Within it, BLAS works on one thread; after the last of several that are within, as before.

    Solvers add and multiply vectors of a million numbers, many times a second. The threads that BLAS sets on such a
    task wait for each other longer than they work (20 times slower with two processors, 40 times if they are busy), and
    they take processors from the threads that go over examples. How many they are would also change the last digits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_within = 0
        self._limits: Any = None

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        return ThreadpoolController()  # to look for them takes milliseconds, some fits take one

    def __enter__(self) -> OneThread:
        with self._lock:
            if self._n_within == 0:
                self._limits = self._libraries.limit(limits=1, user_api="blas")
            self._n_within += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._n_within -= 1
            if self._n_within == 0:
                self._limits.restore_original_limits()
                self._limits = None


one_blas_thread = OneThread()
