"""A problem with some of its node weights: what is left to do when most weights are zero."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.structures.weights.layout import SeenPairs


class WorkingSet(NamedTuple):
    """The problem in which the other weights are zero."""

    problem: Problem
    kept: NDArray[np.int64]
    """(n_kept,): the places of its weights among all."""

    def widened(self, w: FloatArray, n_weights: int) -> FloatArray:
        """A weight vector of this problem as one of the whole problem."""
        out = np.zeros(n_weights)
        out[self.kept] = w
        return out


def working_set(problem: Problem, keep: NDArray[np.bool_]) -> WorkingSet:
    """The problem with the node weights for which ``keep`` is true, and with all others than node weights.

    Features that have none of these weights are taken out of the nodes, which then take less time. The problem needs a
    structure with a batch, such as a forest.

    Parameters
    ----------
    problem : Problem
    keep : bool ndarray of shape (n_weights,)
        If it is true for no node weight, the first one stays.
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
