"""Restriction of a problem to a subset of its node weights, for fits in which most weights are zero."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.structures.weights.layout import SeenPairs


class WorkingSet(NamedTuple):
    """Problem on a subset of the weights; all other weights are zero."""

    problem: Problem
    positions: NDArray[np.int64] | slice
    """Position of each weight of the restricted problem in the full weight vector; a slice if these are all weights."""

    def widened(self, w: FloatArray, n_weights: int) -> FloatArray:
        """Return the full weight vector for weights of the restricted problem."""
        if len(w) == n_weights:
            return w
        out = np.zeros(n_weights)
        out[self.positions] = w
        return out


def working_set(problem: Problem, keep: NDArray[np.bool_]) -> WorkingSet:
    """Restrict a problem to the node weights for which ``keep`` is true.

    Weights other than node weights are always included. Features without any included weight are removed from the
    nodes, which makes passes faster. The structure must have a batch, as forests do.

    Parameters
    ----------
    problem : Problem
    keep : bool ndarray of shape (n_weights,)
        If it is false for all node weights, the first one is included.
    """
    layout, batch, structure = problem.structure.layout, problem.batch, problem.structure
    if keep.all():  # no copy of the examples
        return WorkingSet(problem, slice(None))
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
