"""Scale of features: the mean squared norm of the features of a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxendnet.data.unknown import UNKNOWN

NODES_AT_ONCE = 1 << 16
"""Number of nodes read at a time from memory-mapped examples."""
SMALLEST, LARGEST = 1e-12, 1e12
"""Limits of the mean, so that hyper-parameters derived from it stay far from overflow."""


class NormSum(NamedTuple):
    """Sum of squared norms over nodes. Sums of several partitions can be added."""

    total: float
    """Weighted sum of the squared norms of node features; the weight of a node is that of its example."""
    n_nodes: float
    """Sum of the weights of the nodes."""

    @classmethod
    def of(cls, examples: Any) -> NormSum:
        """Compute the sum over the nodes of labelled examples.

        Label features count with their mean over labels. Unlabelled examples do not count, because they must not
        affect the weights of a model.

        Examples
        --------
        >>> from maxendnet import Examples
        >>> NormSum.of(Examples.build([[[3.0, 4.0], [0.0, 1.0]], [[2.0, 0.0]]], sample_weight=[1.0, 0.5]))
        NormSum(total=28.0, n_nodes=2.5)
        """
        X, extra, total = examples.X, examples.label_features, 0.0
        lengths, weight = np.diff(examples.offsets), examples.sample_weight
        weights = np.repeat(np.ones(len(lengths)) if weight is None else weight, lengths)
        if examples.y is not None and examples.y.dtype == object:
            is_labelled = np.fromiter((label is not UNKNOWN for label in examples.y.tolist()), bool, len(weights))
            counts = np.diff(np.concatenate([[0], np.cumsum(is_labelled)])[examples.offsets])
            weights = weights * np.repeat(counts > 0, lengths)
        for first in range(0, len(weights), NODES_AT_ONCE):
            nodes = slice(first, first + NODES_AT_ONCE)
            ends = X.indptr[first : first + NODES_AT_ONCE + 1]
            values = X.data[ends[0] : ends[-1]]
            total += float(np.repeat(weights[nodes], np.diff(ends)) * values @ values)
            if extra is not None and extra.shape[1]:
                total += float(np.einsum("t,tlk,tlk->", weights[nodes], extra[nodes], extra[nodes])) / extra.shape[1]
        return cls(total, float(weights.sum()))

    @property
    def mean(self) -> float:
        """Mean squared norm of the features of a node, from 1e-12 to 1e12.

        It is 1 if all features are zero.

        Examples
        --------
        >>> NormSum(total=28.0, n_nodes=2.5).mean
        11.2
        """
        if not (self.total > 0 and self.n_nodes > 0):
            return 1.0
        return float(np.clip(self.total / self.n_nodes, SMALLEST, LARGEST))
