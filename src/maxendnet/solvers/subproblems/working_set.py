"""Problem restricted to a part of its node weights, for fits in which most weights are zero."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.structures.weights.layout import SeenPairs


class WorkingSet(NamedTuple):
    """Problem in which all weights outside the working set are zero."""

    problem: Problem
    positions: NDArray[np.int64]
    """Positions of its weights among all, shape (n_weights of the restricted problem,)."""

    def widened(self, w: FloatArray, n_weights: int) -> FloatArray:
        """Return a weight vector of this problem as one of the full problem."""
        out = np.zeros(n_weights)
        out[self.positions] = w
        return out


def working_set(problem: Problem, keep: NDArray[np.bool_]) -> WorkingSet:
    """Restrict a problem to the node weights for which ``keep`` is true, and all other kinds of weights.

    Features without such weights are removed from the nodes, which makes passes faster. The structure needs a batch, as
    forests have.

    Parameters
    ----------
    problem : Problem
    keep : bool ndarray of shape (n_weights,)
        If it is true for no node weight, the first one is used.
    """
    layout, batch, structure = problem.structure.layout, problem.batch, problem.structure
    if keep.all():  # no copy of the examples
        return WorkingSet(problem, np.arange(layout.n_weights))
    if layout.seen is None:
        features, labels = np.divmod(np.arange(layout.n_node_weights), layout.n_labels)
    else:
        features, labels = layout.seen.features, layout.seen.labels
    pairs = np.flatnonzero(keep[: layout.n_node_weights])
    if not len(pairs):
        pairs = np.zeros(min(1, layout.n_node_weights), dtype=np.int64)
    counts = np.bincount(features[pairs], minlength=layout.n_features)
    used = np.flatnonzero(counts)
    new_number = np.full(layout.n_features, -1, dtype=np.int32)
    new_number[used] = np.arange(len(used), dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum(counts[used])]).astype(np.int64)
    seen = SeenPairs(offsets, np.ascontiguousarray(labels[pairs], dtype=np.int32))
    indices = new_number[batch.indices]
    entries = indices >= 0
    smaller = batch._replace(
        indptr=np.concatenate([[0], np.cumsum(entries)])[batch.indptr],
        indices=indices[entries],
        data=batch.data[entries],
    )
    bound = replace(structure, layout=replace(layout, n_features=len(used), seen=seen), batch=smaller)
    rest = np.arange(layout.n_node_weights, layout.n_weights)
    return WorkingSet(
        replace(problem, data=PlacedData(bound, problem.backend)), np.concatenate([pairs, rest]).astype(np.int64)
    )
