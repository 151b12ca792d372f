"""Where the one big sum over examples is computed, and on how many threads."""

from maxendnet.backends.linear_algebra import one_blas_thread
from maxendnet.backends.threads import Threads

__all__ = ["Threads", "one_blas_thread"]
