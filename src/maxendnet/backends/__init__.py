"""Backends, which compute sums over examples on threads or a Dask cluster."""

from typing import TYPE_CHECKING

from maxendnet.backends.base import Backend, BackendError
from maxendnet.backends.linear_algebra import one_blas_thread
from maxendnet.backends.partial import Partial
from maxendnet.backends.threads import Threads
from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    from maxendnet.backends.dask import Dask

_, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = ["Backend", "BackendError", "Dask", "Partial", "Threads", "one_blas_thread"]
