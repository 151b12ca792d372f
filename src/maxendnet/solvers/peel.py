"""Labellings with dual weights, from the marginals of nodes and edges that solvers keep in their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxendnet.problem import FloatArray
from maxendnet.solvers.base import Support
from maxendnet.structures.base import IntArray

LEAST = 1e-9
"""What is left of an example's weight when peeling ends, as a share of it: rounding is below that."""


def peel(
    nodes: FloatArray,
    pairs: tuple[NDArray, NDArray, NDArray, NDArray],
    offsets: NDArray[np.int64],
    order: IntArray,
    parent: IntArray,
    y: IntArray,
) -> Support:
    """Labellings that together have these marginals, those other than the truth.

    On a forest any consistent marginals are those of some labellings. They are peeled off one after the other: start
    at a root with the label that has most weight, go on with the label of each child that has most weight beside that
    of its parent, and take away from all these cliques the least weight among them. Each time at least one clique has
    nothing left, so that there are at most as many labellings as cliques with weight. Other labellings may have the
    same marginals; the dual value depends on the marginals alone.

    Parameters
    ----------
    nodes : ndarray of shape (n_nodes, n_labels)
        The weight of each label.
    pairs : tuple of arrays
        Of the pairs of labels that have weight: the node, the label of its parent, its own, and the weight.
    offsets, order, parent, y : ndarray
        As in a batch: where examples begin, parents before children, the parent of a node or -1, the true labels.

    Examples
    --------
    >>> nodes, none = np.array([[0.7, 0.3]]), np.zeros(0, dtype=int)
    >>> one, root = np.array([0]), np.array([-1])
    >>> peel(nodes, (none, none, none, none), np.array([0, 1]), one, root, np.array([0])).weights.tolist()
    [0.3]
    """
    node = nodes.copy()
    edges: list[dict[tuple[int, int], float]] = [{} for _ in range(len(node))]
    for t, above, label, weight in zip(*(values.tolist() for values in pairs)):
        edges[t][above, label] = weight
    found: list[tuple[int, float, NDArray[np.int32]]] = []
    for i in range(len(offsets) - 1):
        first, last = int(offsets[i]), int(offsets[i + 1])
        truth = y[first:last]
        if last > first and (node[np.arange(first, last), truth] < node[first:last].sum(axis=1)).any():
            labellings = _peel_one(node, edges, order[first:last].tolist(), parent, first)
            found += [(i, weight, labels) for weight, labels in labellings if not np.array_equal(labels, truth)]
    return Support(
        np.array([i for i, _, _ in found], dtype=np.int64),
        np.array([weight for _, weight, _ in found]),
        np.concatenate([np.zeros(0, dtype=np.int32), *(labels for _, _, labels in found)]),
    )


def _peel_one(
    node: FloatArray, edges: list[dict[tuple[int, int], float]], order: list[int], parent: IntArray, first: int
) -> list[tuple[float, NDArray[np.int32]]]:
    """Weights and labellings of one example; ``order`` has parents before children. The marginals are used up."""
    total = float(node[order[0]].sum())
    found: list[tuple[float, NDArray[np.int32]]] = []
    while True:
        labels = np.zeros(len(order), dtype=np.int32)
        weight = np.inf
        for t in order:
            above = int(parent[t])
            if above < 0:
                label = int(node[t].argmax())
            else:
                of_parent = int(labels[above - first])
                fits = {c: w for (a, c), w in edges[t].items() if a == of_parent}
                label = max(fits, key=fits.__getitem__, default=-1)
                weight = min(weight, fits.get(label, 0.0))
            if label < 0:  # only rounding is left
                return found
            labels[t - first] = label
            weight = min(weight, float(node[t, label]))
        if not weight > LEAST * total:
            return found
        found.append((weight, labels))
        for t in order:
            label = int(labels[t - first])
            node[t, label] -= weight
            if parent[t] >= 0:
                edges[t][int(labels[parent[t] - first]), label] -= weight
