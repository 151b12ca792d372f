"""Best labelling of a graph by branch and bound, with HiGHS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from maxendnet.structures.weights.layout import FloatArray

TOLERANCE = 1e-6
"""Relative tolerance of HiGHS: labellings whose scores differ by less are equally good."""


class Best(NamedTuple):
    """Labelling, its score, and a bound of all scores."""

    labels: NDArray[np.int32]
    score: float
    bound: float
    """Upper bound of the score of every labelling; equal to ``score`` if that is proven optimal."""


def branch_and_bound(
    node_scores: FloatArray, edges: NDArray[np.int32], edge_scores: FloatArray, seconds: float = 10.0
) -> Best | None:
    """Return the best labelling of a graph, or None if the time limit is too short.

    Parameters
    ----------
    node_scores : ndarray of shape (n_nodes, n_labels)
        -inf for labels that are not allowed.
    edges : ndarray of shape (n_edges, 2)
    edge_scores : ndarray of shape (n_edges, n_labels, n_labels)
        Row: the first node.
    seconds : float, default=10.0
        Time limit.

    Examples
    --------
    >>> different = 1.0 - np.eye(2)
    >>> triangle = np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int32)
    >>> best = branch_and_bound(np.array([[0.1, 0.0], [0.0, 0.0], [0.0, 0.5]]), triangle, np.stack([different] * 3))
    >>> best.labels.tolist()[::2], best.score, best.bound
    ([0, 1], 2.6, 2.6)
    """
    n, L = node_scores.shape
    m = len(edges)
    allowed = np.isfinite(node_scores)
    objective = np.concatenate([np.where(allowed, node_scores, 0.0).ravel(), edge_scores.ravel()])
    upper = np.concatenate([allowed.ravel().astype(np.float64), np.ones(m * L * L)])
    solution = milp(
        -objective,
        integrality=np.concatenate([np.ones(n * L), np.zeros(m * L * L)]),
        bounds=Bounds(np.zeros_like(upper), upper),
        constraints=LinearConstraint(*agreement(n, L, edges)),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if solution.x is None:
        return None
    labels = np.where(allowed, solution.x[: n * L].reshape(n, L), -1.0).argmax(axis=1).astype(np.int32)
    first, second = labels[edges].T
    score = float(node_scores[np.arange(n), labels].sum() + edge_scores[np.arange(m), first, second].sum())
    bound = -float(solution.mip_dual_bound) if solution.mip_dual_bound is not None else np.inf
    close = bound - score <= TOLERANCE * max(1.0, float(np.abs(objective).sum()))
    return Best(labels, score, score if close else max(bound, score))


def agreement(n_nodes: int, n_labels: int, edges: NDArray[np.int32]) -> tuple[sparse.csr_array, FloatArray, FloatArray]:
    """Constraints of the local polytope, as (matrix, low, high)."""
    L, m = n_labels, len(edges)
    node = np.arange(n_nodes * L)
    begin = n_nodes * L
    cell = begin + np.arange(m * L * L).reshape(m, L, L)
    labels = np.arange(L)
    # rows: one per node, then two per edge and label, for the first and the second node
    row_first = n_nodes + (np.arange(m)[:, None] * 2 * L + labels)
    row_second = row_first + L
    rows = [
        node // L,
        np.repeat(row_first.ravel(), L),
        np.repeat(row_second.ravel(), L),
        row_first.ravel(),
        row_second.ravel(),
    ]
    columns = [
        node, cell.ravel(), cell.transpose(0, 2, 1).ravel(), (edges[:, :1] * L + labels).ravel(),
        (edges[:, 1:] * L + labels).ravel(),
    ]  # fmt: skip
    values = [np.ones(len(rows[k])) * (1.0 if k < 3 else -1.0) for k in range(5)]
    shape = (n_nodes + 2 * m * L, begin + m * L * L)
    # int32, because milp of SciPy 1.12 refuses other indices
    row, column = (np.concatenate(parts).astype(np.int32) for parts in (rows, columns))
    matrix = sparse.csr_array((np.concatenate(values), (row, column)), shape=shape)
    right = np.concatenate([np.ones(n_nodes), np.zeros(2 * m * L)])
    return matrix, right, right
