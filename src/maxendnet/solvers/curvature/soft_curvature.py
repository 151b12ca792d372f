"""Approximate Hessian of a smooth loss from node marginals, as initial curvature of a quasi-Newton method."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxendnet.priors.base import capable, offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.lbfgs import MAX_DENSE_FEATURES, Curvature, features_of, inverse_of
from maxendnet.structures.base import Table

MAX_BLOCK_WORK = 1e9
"""Largest ``n_labels * n_features^3``, about the number of multiplications for inverting all blocks."""
MAX_NODES_PER_LABEL = 2000
"""Largest number of nodes from which the block of a label is computed."""
MIN_UNCERTAINTY = 1e-2
"""Smallest ``p (1 - p)`` of a node, relative to the largest one; nodes below are ignored."""
BLOCK_SHARE = 0.5
"""Factor of the blocks, because they ignore that labels compete (measured on OCR)."""


def soft_curvature(soft: Problem, w: FloatArray) -> Curvature:
    """Return the initial curvature at w: the diagonal of the Hessian, and a block for each label.

    The Hessian block of label a is ``C/T sum_t x_t x_t' p_ta (1 - p_ta)``, with p_ta the marginal of label a at node t.
    Blocks are only used with few features, weights for every label, and no L1 penalty.
    """
    diagonal = soft.curvature()
    between = None
    if soft.structure.capabilities.linear_nodes:
        weight = node_curvature(soft, w)
        diagonal = diagonal_at(soft, diagonal, weight)
        between = blocks_at(soft, w, weight)
    if offers(soft.prior, "spread"):
        diagonal += prior_curvature(soft, w)
    diagonal += 0.01 * diagonal.mean()
    first = 1.0 / np.maximum(diagonal, np.finfo(float).tiny)
    return Curvature(first, between=between, n_labels=soft.structure.n_labels)


def node_curvature(problem: Problem, w: FloatArray) -> FloatArray:
    """Return the second derivatives of C times the sum of smooth losses by the node scores.

    For the log loss they are ``C u p (1 - p)``, with p the node marginals. The shape is (n_nodes, n_labels).
    """
    times = problem.loss.curvature
    cost = Table(problem.cost * times, problem.cost_table.row)
    share = problem.structure.logsum(w * times, cost, backend=problem.backend)[1].node
    u = np.repeat(problem.batch.sample_weight, np.diff(problem.batch.offsets))
    values: FloatArray = problem.C * times * u[:, None] * (share * (1 - share))
    return values


def diagonal_at(problem: Problem, at_zero: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the diagonal of the Hessian at w, given that at zero.

    Entries of node weights are exact. Those of edge weights are scaled by the mean change of the node entries.
    """
    layout = problem.structure.layout
    segments = layout.segments(at_zero)
    node = layout.node_segment(features_of(problem).power(2).T @ weight)
    less = node.sum() / max(segments.node.sum(), np.finfo(float).tiny)
    joined = {name: less * part for name, part in segments._asdict().items() if name not in ("node", "label_features")}
    values: FloatArray = layout.join(segments._replace(node=node, **joined))
    return values


def has_blocks(problem: Problem) -> bool:
    """Whether the Hessian is approximated by a block for each label."""
    return problem.structure.capabilities.linear_nodes and offers(problem.prior, "spread") and few_enough(problem)


def few_enough(problem: Problem) -> bool:
    """Whether there are few enough features, with weights for every label, to invert a block for each label."""
    layout = problem.structure.layout
    n = layout.n_features
    return layout.seen is None and 1 < n <= MAX_DENSE_FEATURES and layout.n_labels * n**3 <= MAX_BLOCK_WORK


def blocks_at(problem: Problem, w: FloatArray, weight: FloatArray) -> FloatArray | None:
    """Return the inverse of the block of each label, shape (n_labels, n_features, n_features)."""
    if not has_blocks(problem):
        return None
    layout = problem.structure.layout
    X, prior = features_of(problem), layout.segments(prior_curvature(problem, w)).node
    blocks: list[FloatArray | None] = [None] * layout.n_labels

    def invert(a: int, _: int, __: int) -> None:
        hessian = BLOCK_SHARE * label_gram(X, weight[:, a])
        hessian[np.diag_indices_from(hessian)] += prior[:, a] + 0.01 * np.trace(hessian) / len(hessian)
        blocks[a] = inverse_of(hessian)

    problem.backend.run(invert, [[(a, a + 1)] for a in range(layout.n_labels)])
    return None if any(block is None for block in blocks) else np.array(blocks)


def label_gram(X: Any, weight: FloatArray) -> FloatArray:
    """Estimate ``sum_t weight_t x_t x_t'`` from the nodes with large weights."""
    nodes = np.flatnonzero(weight > MIN_UNCERTAINTY * weight.max(initial=0.0))
    nodes = nodes[np.linspace(0, len(nodes), min(len(nodes), MAX_NODES_PER_LABEL), endpoint=False).astype(int)]
    of_nodes = weight[nodes] * (weight.sum() / max(weight[nodes].sum(), np.finfo(float).tiny))
    rows = X[nodes].toarray() * np.sqrt(of_nodes)[:, None]
    values: FloatArray = rows.T @ rows
    return values


def prior_curvature(problem: Problem, w: FloatArray) -> FloatArray:
    """Return the second derivatives of the penalty at w."""
    prior = capable(problem.prior, "spread")
    values: FloatArray = 1.0 / prior.variance(prior.gradient(w))
    return values
