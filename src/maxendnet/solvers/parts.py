"""Dual ascent on several parts of the examples at a time, whose changes are added: CoCoA.

With K parts that begin at the same ``eta``, and change it by ``d_k`` each, ``phi(eta + sum d_k)`` is at most
``1/K sum phi(eta + K d_k)``, since the cumulant is convex. So if every part raises its own share of the dual minus
``phi(eta + K d_k) / K``, the dual of the sum does not fall, whatever the prior; to add changes that were made for
``phi`` itself could even leave its domain. Times K, what a part raises is the dual of its examples alone with K times
their dual weights and K times C: the kernels of one part do it as they are.

After Jaggi et al. 2014 and Ma et al. 2015 (safe adding), who treat smooth conjugates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends.threads import cut
from maxendnet.problem import FloatArray

Update = Callable[[NDArray[np.int64], FloatArray, NDArray], float]
"""Of some examples, on ``eta`` and weights that it changes; returns by how much the costs changed, times K."""


def check_parts(parts: Any) -> None:
    """Raise ``ValueError`` unless this is a number of parts."""
    if isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or parts < 1:
        raise ValueError(f"parts must be a whole number of at least 1, got {parts!r}.")


def owners_of(offsets: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """The part of every example: consecutive ones, with about the same number of nodes.

    Examples
    --------
    >>> owners_of(np.array([0, 3, 6, 7, 12]), 2).tolist()
    [0, 0, 1, 1]
    """
    shards = cut(offsets, parts, 1 << 60)
    return np.repeat(np.arange(len(shards)), [ranges[-1][1] - ranges[0][0] for ranges in shards])


def add_parts(
    backend: Any, eta: FloatArray, weights: NDArray, picks: NDArray[np.int64], owner: NDArray[np.int64], update: Update
) -> float:
    """Update all parts from the same point, on the threads of the backend; ``eta`` becomes that of the sum.

    Parts are added in order, so that bits do not depend on the number of threads. Returns by how much costs changed.
    """
    n_parts = int(owner[-1]) + 1
    shares = [picks[owner[picks] == k] for k in range(n_parts)]
    own: list[FloatArray] = [eta.copy() for _ in shares]
    costs = [0.0] * n_parts

    def work(k: int, _: int, __: int) -> None:
        if len(shares[k]):
            costs[k] = update(shares[k], own[k], weights.copy())

    backend.run(work, [[(k, k + 1)] for k in range(n_parts)])
    before = eta.copy()
    for changed in own:
        eta += (changed - before) / n_parts
    return sum(costs) / n_parts
