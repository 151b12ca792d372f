"""`Backend`: protocol of classes that hold examples and compute sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from maxendnet.backends.partial import Partial


class BackendError(RuntimeError):
    """The scheduler or the workers of a cluster cannot be reached, or do not respond."""

    __module__ = "maxendnet.backends"  # the public module


@runtime_checkable
class Backend(Protocol):
    """Protocol of backends, which hold examples and compute sums over them.

    A shard is a group of examples. Shards depend only on the data, and their sums are added along a fixed tree, so
    results are bit-for-bit identical for any number of threads or workers. scikit-learn's ``clone`` returns the same
    backend (``__sklearn_clone__``), and a backend is never saved with a model.

    Solvers that update single examples (`BlockFrankWolfe`) also need ``each(function, shards, *arguments)``, which
    returns the list of ``function(shard, *arguments)``, and ``hold(make, shards, given)``, which returns a handle of
    ``make(shard, *given)`` for each shard. `each` and `sum` accept these handles instead of shards. The functions that
    they call may change the objects.
    """

    local: bool
    """Whether shards are in this process, so that solvers can run kernels over all examples."""

    def place(self, structure: Any) -> Sequence[Any]:
        """Split a bound structure into shards, and return a handle for each."""
        ...

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """Return the sum of ``oracle(shard, *arguments)`` over all shards.

        The oracle is a pure function defined at module level, and all arguments can be pickled.
        """
        ...
