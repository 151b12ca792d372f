"""The Hessian of a smooth loss, from labellings that are drawn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet import _kernels
from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.curvature.factor import Factor
from maxendnet.solvers.curvature.soft_curvature import prior_curvature
from maxendnet.solvers.lbfgs import Curvature
from maxendnet.structures.base import Table
from maxendnet.structures.bound.features import changes

MOST_WEIGHTS, MOST_OF_MANY = 6000, 4000
"""Up to the first number of weights, all of them may be in the Hessian. Of more weights, the Hessian is that of the
second number, those that matter most: to factorise a larger one would take longer than it saves."""
MANY = 20_000
"""With more weights than that, a Hessian of `MOST_OF_MANY` of them covers too few."""
WORK = 7e-4
"""Of a pass, as a share of the cube of the weights in the Hessian: with less, passes are cheaper than Hessians. On Bach
chorales, 17,760 weights, it is 7.5e-4, and M3N(C=0.3) to 1e-3 takes 290 passes and 21 CPU seconds with Hessians of
4,000 weights, more than 595 and 40 without. An L1-CRF on half of the OCR letters, 6.5e-4, takes 4.4 CPU seconds with
Hessians and 3 without."""
LITTLE = 0.1
"""Ratio of the curvature under the examples to that under the prior, up to which the diagonal suffices for a weight."""
NODES_OF_A_WEIGHT = 3
"""With fewer of them there is little that a Hessian could tell, and it saves less than it takes."""
MOST_PAIRS, ROWS = 16, 8
"""Pairs of labellings that are drawn for each example: at most so many, and fewer if there are so many differences for
each weight. With more of them the Hessian is nearer and takes longer."""
N_RANGES = 16


def can_sample(problem: Problem) -> bool:
    """Whether labellings can be drawn, and the changes between them be told by their features."""
    forest = problem.structure.capabilities.pairwise and problem.cost_table.joint is None
    return forest and problem.backend.local


def full_hessian_worthwhile(problem: Problem) -> bool:
    """Whether there are few weights, with enough nodes for each, so that the full Hessian saves more than it costs."""
    n_nodes = int(problem.structure.offsets[-1])
    few = problem.n_weights <= MOST_WEIGHTS
    return can_sample(problem) and few and n_nodes >= NODES_OF_A_WEIGHT * problem.n_weights


def partial_hessian_worthwhile(problem: Problem) -> bool:
    """Whether the Hessian of a part of many weights saves more than it costs."""
    return can_sample(problem) and MOST_WEIGHTS < problem.n_weights <= MANY and passes_are_expensive(problem)


def passes_are_expensive(problem: Problem) -> bool:
    """Whether a pass costs so much that Hessians are cheap beside the passes they save."""
    n = problem.n_weights if problem.n_weights <= MOST_WEIGHTS else MOST_OF_MANY
    return float(problem.structure.offsets[-1]) * problem.structure.work_per_node >= WORK * n**3


def whole_curvature(problem: Problem, w: FloatArray, seed: int) -> Curvature | None:
    """The Hessian of a smooth problem at w, factorised, for a quasi-Newton method to begin with.

    It is the Hessian of the weights that matter, and the diagonal of the others: under a penalty that is steep at zero,
    the prior alone tells of most weights how far they can go.

    Returns
    -------
    Curvature or None
        None where labellings cannot be drawn, or features are too large for float32.
    """
    if not can_sample(problem):
        return None
    rows, prior = drawn_rows(problem, w, seed), prior_curvature(problem, w)
    with np.errstate(over="ignore"):  # what is too large has no factor
        diagonal = np.asarray(rows.power(2).sum(axis=0)).ravel()
    floor = 1e-3 * diagonal.mean() + np.finfo(float).tiny
    inverse_diagonal = 1.0 / (diagonal + prior + floor)
    covered = weights_that_matter(diagonal / (prior + floor))
    if not len(covered):
        return Curvature(inverse_diagonal)
    covered_rows = sparse.csr_array(rows[:, covered])
    covered_rows.sort_indices()
    whole = Factor.of(gram(covered_rows, problem.backend), prior[covered] + floor)
    return None if whole is None else Curvature(inverse_diagonal, whole=whole, covered=covered)


def weights_that_matter(ratio: FloatArray) -> NDArray[np.intp]:
    """Positions of the weights with the largest ratios of curvature under the examples to that under the prior.

    Weights with ratios of at most `LITTLE` are left out. Positions are in increasing order.

    Examples
    --------
    >>> weights_that_matter(np.array([0.5, 0.0, 2.0])).tolist()
    [0, 2]
    """
    most = len(ratio) if len(ratio) <= MOST_WEIGHTS else MOST_OF_MANY
    largest = np.argsort(-ratio, kind="stable")[:most]
    return np.sort(largest[~(ratio[largest] <= LITTLE)])


def sampled_hessian(problem: Problem, w: FloatArray, seed: Any) -> NDArray[np.float32]:
    """The Hessian of C times the sum of smooth losses at w, without bias and never indefinite.

    It is ``C / T sum_i u_i Cov_i(f)``, where Cov_i is the covariance of features over the labellings of an example,
    and T the temperature. A covariance is half of the mean of ``d d'``, d the difference of two draws. Nodes at which
    two labellings differ come in parts that do not touch. To exchange the two in one part alone gives a pair that is
    as likely, so that products of different parts cancel on average, and are left out: what is left is sparse.

    Parameters
    ----------
    problem : Problem
    w : ndarray of shape (n_weights,)
    seed : int

    Returns
    -------
    ndarray of shape (n_weights, n_weights)
        Of which the lower triangle counts.
    """
    return gram(drawn_rows(problem, w, seed), problem.backend)


def drawn_rows(problem: Problem, w: FloatArray, seed: Any) -> sparse.csr_array:
    """Rows R with which ``R'R`` is `sampled_hessian`."""
    rng = np.random.default_rng(seed)
    found = drawn_changes(problem, w, 1, rng)
    n_more = ROWS * min(problem.n_weights, MOST_WEIGHTS) // max(found[0].shape[0], 1)
    found += drawn_changes(problem, w, min(n_more, MOST_PAIRS - 1), rng)
    factor = problem.C * problem.loss.curvature / (2 * len(found))
    return np.sqrt(factor) * distinct(found)


def drawn_changes(problem: Problem, w: FloatArray, n_pairs: int, rng: np.random.Generator) -> list[sparse.csr_array]:
    """Differences of features of pairs of labellings, times the square root of the weight of the example."""
    times, layout, batch = problem.loss.curvature, problem.structure.layout, problem.batch
    cost = Table(problem.cost * times, problem.cost_table.row)
    drawn = problem.structure.sample(w * times, 2 * n_pairs, rng, problem.backend, cost)
    found = []
    for k in range(n_pairs):
        rows, examples = changes(layout, batch, drawn[2 * k], drawn[2 * k + 1])
        rows.data *= np.repeat(np.sqrt(batch.sample_weight[examples]), np.diff(rows.indptr))
        found.append(rows)
    return found


def distinct(parts: list[sparse.csr_array]) -> sparse.csr_array:
    """All rows of some matrices; those that are the same up to their sign are one, times the root of their number.

    Examples
    --------
    >>> rows = sparse.csr_array([[0.0, 1.0], [2.0, 2.0], [0.0, -1.0]])
    >>> distinct([rows, rows]).toarray().round(2).tolist()
    [[0.0, 2.0], [2.83, 2.83]]
    """
    rows = sparse.csr_array(sparse.vstack(parts))
    code = np.abs(rows @ np.random.default_rng(0).random(rows.shape[1]))
    _, first, count = np.unique(code, return_index=True, return_counts=True)
    order = np.argsort(first)
    rows = rows[first[order]]
    rows.data *= np.repeat(np.sqrt(count[order]), np.diff(rows.indptr))
    return rows


def gram(rows: Any, backend: Any) -> NDArray[np.float32]:
    """``R'R`` of sparse rows with columns in increasing order; its lower triangle is filled in."""
    n = rows.shape[1]
    out = np.zeros((n, n), dtype=np.float32)
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    with np.errstate(over="ignore"):  # what is too large for float32 is infinite there
        data = rows.data.astype(np.float32)
    cuts = np.linspace(0, n, min(N_RANGES, n) + 1).astype(int)
    backend.run(
        lambda low, high, _: _kernels.add_gram(indptr, indices, data, low, high, out),
        [[(low, high)] for low, high in pairwise(cuts.tolist())],
    )
    return out
