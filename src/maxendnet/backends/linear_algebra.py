"""Context manager that limits BLAS to one thread during a fit."""

from __future__ import annotations

import threading
from functools import cached_property
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController


class OneThread:
    """Reentrant context manager that limits BLAS to one thread.

    For vectors of the sizes in solvers, synchronising BLAS threads costs more than the work, and BLAS threads compete
    with the threads over examples. Results would also depend on the number of BLAS threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_within = 0
        self._limits: Any = None

    @cached_property
    def _libraries(self) -> ThreadpoolController:
        return ThreadpoolController()  # cached, because this takes milliseconds, as long as a small fit

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


one_blas_thread: OneThread = OneThread()
