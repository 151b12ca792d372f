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

    Of all distributions with given node and edge marginals the one that factorises over the forest has the largest
    entropy, which is the sum over edges minus, for every node, (its number of edges - 1) times the entropy of the
    node. So this is a dual value of the log loss at the mixed point, whatever ``share`` in [0, 1].

    Parameters
    ----------
    problem : Problem
        With the log loss; sample weights multiply the entropies.
    w : ndarray of shape (n_weights,)
    share : float

    Returns
    -------
    float
    """
    return problem.backend.sum(entropy_oracle, problem.data.shards, w, share).loss


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
    """Yield marginals of ``p(y|x; w)`` for a few thousand nodes at a time, to bound the memory of edge marginals.

    ``added`` has a row of scores for each label set, which are added to those of the labels.

    Yields
    ------
    part : Batch
        The examples.
    node : ndarray of shape (n_nodes, n_labels)
    edge : ndarray of shape (n_nodes, n_labels, n_labels) or None
        As `BoundForest.logsum` returns them; None without edge weights.
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
