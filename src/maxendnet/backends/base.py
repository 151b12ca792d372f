"""What a backend offers: a place for the data, and a sum over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from maxendnet.backends.partial import Partial


@runtime_checkable
class Backend(Protocol):
    """Where examples live and where sums over them are computed.

    Shards are cut by example, from the data alone, and their sums are added along one fixed tree: the result has the
    same bits whatever the number of threads or workers. A backend survives scikit-learn's ``clone`` (it defines
    ``__sklearn_clone__``) and is never saved with a model.

    Solvers that go from example to example (`BlockFrankWolfe`) also need
    ``each(function, shards, *arguments)``, the list of ``function(shard, *arguments)``, and
    ``hold(make, shards, given)``, which returns handles of ``make(shard, *given)``, one for each shard, that `each` and
    `sum` take in the place of shards and whose objects they may change.
    """

    local: bool
    """Whether the shards are in this process, so that a solver can go through them with kernels of its own."""

    def place(self, structure: Any) -> Sequence[Any]:
        """Cut a bound structure into shards and bring them to where they will stay; returns a handle for each."""
        ...

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """``oracle(shard, *arguments)`` of all shards, added up.

        The oracle is a pure function, found by its name, and all arguments can be pickled.
        """
        ...
