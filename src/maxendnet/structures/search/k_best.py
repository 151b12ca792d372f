"""The k best labellings, for any structure with max-marginals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.structures.weights.layout import FloatArray


class Subset(NamedTuple):
    """Labellings with allowed labels: the best, and where the second best differs."""

    allowed: NDArray[np.uint8]
    value: float
    labels: NDArray[np.int32]
    second: float
    """Score of the second best labelling, or -inf."""
    node: int
    label: int


def k_best(structure: Any, w: FloatArray, k: int) -> tuple[FloatArray, NDArray[np.int32]]:
    """Return the k best labellings of every example; see `BoundForest.top`.

    The second best labelling has another label a at some node t, and its score is the max-marginal there. Split the set
    of labellings into those with label a at t, and the others. The best labelling of both subsets is known, and the
    next labelling is the second best of a subset. Each labelling takes two evaluations (Yanover & Weiss 2004).
    """
    offsets = structure.offsets
    n_examples = len(offsets) - 1
    values, labels = np.full((n_examples, k), -np.inf), np.full((k, int(offsets[-1])), -1, dtype=np.int32)
    for i in range(n_examples):
        subsets = _of_example(structure.take(i, i + 1), w, k)
        for rank, subset in enumerate(sorted(subsets, key=lambda subset: -subset.value)):
            values[i, rank] = subset.value
            labels[rank, offsets[i] : offsets[i + 1]] = subset.labels
    return values, labels


def _of_example(example: Any, w: FloatArray, k: int) -> list[Subset]:
    """Subsets whose best labellings are the k best labellings of an example."""
    batch: Batch = example.batch
    allowed = batch.allowed if batch.allowed.size else np.ones((len(batch.parent), example.n_labels), dtype=np.uint8)
    subsets = [_evaluate(example, w, allowed)]
    best = subsets[:] if subsets[0].value > -np.inf else []
    while best and len(best) < k:
        split = subsets.pop(max(range(len(subsets)), key=lambda s: subsets[s].second))
        if not split.second > -np.inf:
            break
        inside, outside = split.allowed.copy(), split.allowed.copy()
        inside[split.node] = 0
        inside[split.node, split.label] = 1
        outside[split.node, split.label] = 0
        subsets += [_evaluate(example, w, inside), _evaluate(example, w, outside)]
        best.append(subsets[-2])
    return best


def _evaluate(example: Any, w: FloatArray, allowed: NDArray[np.uint8]) -> Subset:
    """Best labelling with allowed labels, and the score and place of the second best."""
    restricted = replace(example, batch=example.batch._replace(allowed=allowed))
    values, labels = restricted.maximum(w)
    scores = restricted.max_marginals(w)
    scores[np.arange(len(labels)), labels] = -np.inf
    if not scores.size:
        return Subset(allowed, float(values[0]), labels, -np.inf, 0, 0)
    node, label = divmod(int(np.argmax(scores)), example.n_labels)
    return Subset(allowed, float(values[0]), labels, float(scores[node, label]), node, label)
