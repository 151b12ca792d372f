"""The k best labellings of any structure that has max-marginals, by splitting the set of all labellings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.structures.weights.layout import FloatArray


class Share(NamedTuple):
    """All labellings with allowed labels, the best of them, and where the second best differs from it."""

    allowed: NDArray[np.uint8]
    value: float
    labels: NDArray[np.int32]
    second: float
    """Score of the second best, -inf if there is none."""
    node: int
    label: int


def k_best(structure: Any, w: FloatArray, k: int) -> tuple[FloatArray, NDArray[np.int32]]:
    """The k best labellings of every example of a structure on a batch, best first; as `BoundForest.top`.

    The best labelling but one has another label a at some node t, and its score is the max-marginal there. So the set
    of all labellings is split into those with a at t and the others: the best of both are known, and the next is the
    second best of one of them. Two sets are looked at for every labelling found. After Yanover & Weiss 2004.
    """
    offsets = structure.offsets
    n_examples = len(offsets) - 1
    values, labels = np.full((n_examples, k), -np.inf), np.full((k, int(offsets[-1])), -1, dtype=np.int32)
    for i in range(n_examples):
        found = _of_example(structure.take(i, i + 1), w, k)
        for rank, share in enumerate(sorted(found, key=lambda share: -share.value)):
            values[i, rank] = share.value
            labels[rank, offsets[i] : offsets[i + 1]] = share.labels
    return values, labels


def _of_example(one: Any, w: FloatArray, k: int) -> list[Share]:
    """The k best labellings, each the best of a share."""
    batch: Batch = one.batch
    allowed = batch.allowed if batch.allowed.size else np.ones((len(batch.parent), one.n_labels), dtype=np.uint8)
    shares = [_look(one, w, allowed)]
    found = shares[:] if shares[0].value > -np.inf else []
    while found and len(found) < k:
        best = max(range(len(shares)), key=lambda s: shares[s].second)
        split = shares.pop(best)
        if not split.second > -np.inf:
            break
        inside, outside = split.allowed.copy(), split.allowed.copy()
        inside[split.node] = 0
        inside[split.node, split.label] = 1
        outside[split.node, split.label] = 0
        shares += [_look(one, w, inside), _look(one, w, outside)]
        found.append(shares[-2])
    return found


def _look(one: Any, w: FloatArray, allowed: NDArray[np.uint8]) -> Share:
    inside = replace(one, batch=one.batch._replace(allowed=allowed))
    values, labels = inside.maximum(w)
    others = inside.max_marginals(w)
    others[np.arange(len(labels)), labels] = -np.inf
    if not others.size:
        return Share(allowed, float(values[0]), labels, -np.inf, 0, 0)
    node, label = divmod(int(np.argmax(others)), one.n_labels)
    return Share(allowed, float(values[0]), labels, float(others[node, label]), node, label)
