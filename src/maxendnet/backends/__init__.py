"""Where the one big sum over examples is computed."""

from maxendnet.backends.threads import Threads

__all__ = ["Threads"]
