"""Dual values from marginals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import xlogy

from maxendnet.backends import Partial
from maxendnet.data.batch import Batch
from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.base import Table

NODES_AT_A_TIME = 4096  # largest number of nodes whose edge marginals are in memory


def mixed_entropy(problem: Problem, w: FloatArray, share: float) -> float:
    """Sum the entropies of the tree distributions with marginals ``share * p(y|x; w) + (1 - share) * truth``.

    Among all distributions with given node and edge marginals, the one that factorises over the forest has the largest
    entropy. Its entropy is the sum of the edge entropies minus, for every node, (its number of edges - 1) times the
    entropy of the node. The result is therefore a dual value of the log loss at the mixed point, for any ``share`` in
    [0, 1].

    Parameters
    ----------
    problem : Problem
        Problem with the log loss. Sample weights multiply the entropies.
    w : ndarray of shape (n_weights,)
    share : float

    Returns
    -------
    float
    """
    return float(problem.backend.sum(entropy_oracle, problem.data.shards, w, share).loss)


def entropy_oracle(structure: Any, w: FloatArray, share: float) -> Partial:
    """Return `mixed_entropy` of the examples of a shard."""
    total = 0.0
    for part, node, edge in marginals_in_parts(structure, w):
        factor = np.repeat(part.sample_weight, np.diff(part.offsets))
        nodes = np.arange(len(node))
        node *= share
        node[nodes, part.y] += 1.0 - share
        joined = part.parent >= 0
        degree = joined + np.bincount(part.parent[joined], minlength=len(node))
        total += float(factor @ ((degree - 1) * xlogy(node, node).sum(axis=1)))
        if edge is not None and joined.any():
            edge = edge[joined]
            edge *= share
            label, above = part.y[joined], part.y[part.parent[joined]]
            flipped = part.flipped[joined].astype(bool)
            edge[np.arange(len(edge)), np.where(flipped, label, above), np.where(flipped, above, label)] += 1.0 - share
            total -= float(factor[joined] @ xlogy(edge, edge).sum(axis=(1, 2)))
    return Partial(total)


def marginals_in_parts(
    structure: Any, w: FloatArray, backend: Any = None, added: FloatArray | None = None
) -> Iterator[tuple[Batch, FloatArray, FloatArray | None]]:
    """Yield marginals of ``p(y|x; w)`` for a few thousand nodes at a time, which bounds the memory of edge marginals.

    ``added`` contains one row of additional label scores for each label set.

    Yields
    ------
    part : Batch
        The examples.
    node : ndarray of shape (n_nodes, n_labels)
    edge : ndarray of shape (n_nodes, n_labels, n_labels) or None
        As returned by `BoundForest.logsum`; None if there are no edge weights.
    """
    offsets, first = structure.offsets, 0
    n_examples = len(offsets) - 1
    while first < n_examples:
        last = int(np.searchsorted(offsets, offsets[first] + NODES_AT_A_TIME, side="right")) - 1
        last = min(max(last, first + 1), n_examples)
        part = structure.take(first, last)
        table = None if added is None else Table(added, part.row)
        _, q = part.logsum(w, table, cliques=structure.layout.n_matrices > 0, backend=backend)
        yield part.batch, q.node, q.edge
        first = last
