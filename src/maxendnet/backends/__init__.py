"""Where the one big sum over examples is computed, and on how many threads."""

from maxendnet.backends.base import Backend
from maxendnet.backends.linear_algebra import one_blas_thread
from maxendnet.backends.partial import Partial
from maxendnet.backends.threads import Threads

__all__ = ["Backend", "Partial", "Threads", "one_blas_thread"]
