"""Hessian of a smooth loss, estimated from sampled labellings."""

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

MAX_WEIGHTS_FULL, N_COVERED_PARTIAL = 6000, 4000
"""Largest number of weights with a full Hessian. With more weights, a partial Hessian covers the `N_COVERED_PARTIAL`
weights that matter most, because factorising a larger one would take longer than it saves."""
MAX_WEIGHTS_PARTIAL = 20_000
"""Largest number of weights with a partial Hessian. Beyond it, covering `N_COVERED_PARTIAL` weights does not help."""
MIN_PASS_WORK = 7e-4
"""Smallest work of a pass, relative to the cube of the number of weights in the Hessian, at which a Hessian saves time
(measured on Bach chorales and OCR, see benchmarks/SOLVERS.md)."""
MIN_CURVATURE_RATIO = 0.1
"""Ratio of loss curvature to prior curvature up to which the diagonal suffices for a weight."""
MIN_NODES_PER_WEIGHT = 3
"""Smallest number of nodes per weight at which the Hessian is worthwhile."""
MAX_PAIRS, ROWS_PER_WEIGHT = 16, 8
"""Largest number of sampled pairs of labellings per example, and the number of feature differences per weight at which
sampling stops. Larger values make the Hessian more accurate and more expensive."""
N_RANGES = 16
"""Number of column ranges that are computed in parallel."""


def can_sample(problem: Problem) -> bool:
    """Whether labellings can be sampled and their feature differences computed."""
    forest = problem.structure.capabilities.pairwise and problem.cost_table.joint is None
    return forest and problem.backend.local


def full_hessian_worthwhile(problem: Problem) -> bool:
    """Whether the full Hessian saves more time than it takes: there are few weights, and enough nodes per weight."""
    n_nodes = int(problem.structure.offsets[-1])
    is_small = problem.n_weights <= MAX_WEIGHTS_FULL
    return can_sample(problem) and is_small and n_nodes >= MIN_NODES_PER_WEIGHT * problem.n_weights


def partial_hessian_worthwhile(problem: Problem) -> bool:
    """Whether a partial Hessian saves more time than it takes."""
    return (
        can_sample(problem)
        and MAX_WEIGHTS_FULL < problem.n_weights <= MAX_WEIGHTS_PARTIAL
        and passes_are_expensive(problem)
    )


def passes_are_expensive(problem: Problem) -> bool:
    """Whether passes are so expensive that a Hessian costs less than the passes that it saves."""
    n = problem.n_weights if problem.n_weights <= MAX_WEIGHTS_FULL else N_COVERED_PARTIAL
    return bool(float(problem.structure.offsets[-1]) * problem.structure.work_per_node >= MIN_PASS_WORK * n**3)


def whole_curvature(problem: Problem, w: FloatArray, seed: int) -> Curvature | None:
    """Return the factorised Hessian of a smooth problem at w, as initial curvature of a quasi-Newton method.

    It covers the weights for which the loss matters. For the others the diagonal is used, because the prior dominates
    their curvature. Under a penalty that is steep at zero, these are most weights.

    Returns
    -------
    Curvature or None
        None if labellings cannot be sampled, or if features are too large for float32.
    """
    if not can_sample(problem):
        return None
    rows, prior = drawn_rows(problem, w, seed), prior_curvature(problem, w)
    with np.errstate(over="ignore"):  # an infinite matrix has no factor
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
    """Return the positions of the weights with the largest ratios of loss curvature to prior curvature.

    Weights with ratios of at most `MIN_CURVATURE_RATIO` are left out. Positions are in increasing order.

    Examples
    --------
    >>> weights_that_matter(np.array([0.5, 0.0, 2.0])).tolist()
    [0, 2]
    """
    most = len(ratio) if len(ratio) <= MAX_WEIGHTS_FULL else N_COVERED_PARTIAL
    largest = np.argsort(-ratio, kind="stable")[:most]
    return np.sort(largest[~(ratio[largest] <= MIN_CURVATURE_RATIO)])


def sampled_hessian(problem: Problem, w: FloatArray, seed: Any) -> NDArray[np.float32]:
    """Return an unbiased, positive semi-definite estimate of the Hessian of C times the sum of smooth losses at w.

    The Hessian is ``C / T sum_i u_i Cov_i(f)``, where Cov_i is the feature covariance over the labellings of an example
    and T the temperature. A covariance is half the mean of ``d d'``, where d is the feature difference of two samples.
    The nodes at which two labellings differ form connected components. Exchanging the labellings in one component gives
    an equally likely pair, so products of different components cancel on average. They are left out, which makes the
    rows sparse.

    Parameters
    ----------
    problem : Problem
    w : ndarray of shape (n_weights,)
    seed : int

    Returns
    -------
    ndarray of shape (n_weights, n_weights)
        Only the lower triangle is set.
    """
    return gram(drawn_rows(problem, w, seed), problem.backend)


def drawn_rows(problem: Problem, w: FloatArray, seed: Any) -> sparse.csr_array:
    """Return rows R such that ``R'R`` is `sampled_hessian`."""
    rng = np.random.default_rng(seed)
    changes_of_pairs = drawn_changes(problem, w, 1, rng)
    n_more = ROWS_PER_WEIGHT * min(problem.n_weights, MAX_WEIGHTS_FULL) // max(changes_of_pairs[0].shape[0], 1)
    changes_of_pairs += drawn_changes(problem, w, min(n_more, MAX_PAIRS - 1), rng)
    factor = problem.C * problem.loss.curvature / (2 * len(changes_of_pairs))
    return float(np.sqrt(factor)) * distinct(changes_of_pairs)


def drawn_changes(problem: Problem, w: FloatArray, n_pairs: int, rng: np.random.Generator) -> list[sparse.csr_array]:
    """Return feature differences of sampled pairs of labellings, times the square root of the sample weight."""
    times, layout, batch = problem.loss.curvature, problem.structure.layout, problem.batch
    cost = Table(problem.cost * times, problem.cost_table.row)
    drawn = problem.structure.sample(w * times, 2 * n_pairs, rng, problem.backend, cost)
    row_sets = []
    for k in range(n_pairs):
        rows, examples = changes(layout, batch, drawn[2 * k], drawn[2 * k + 1])
        rows.data *= np.repeat(np.sqrt(batch.sample_weight[examples]), np.diff(rows.indptr))
        row_sets.append(rows)
    return row_sets


def distinct(parts: list[sparse.csr_array]) -> sparse.csr_array:
    """Concatenate matrices, and merge n rows that are equal up to sign into one row times ``sqrt(n)``.

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
    """Return the lower triangle of ``R'R`` for sparse rows with sorted columns."""
    n = rows.shape[1]
    out = np.zeros((n, n), dtype=np.float32)
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    with np.errstate(over="ignore"):  # values too large for float32 become infinite
        data = rows.data.astype(np.float32)
    cuts = np.linspace(0, n, min(N_RANGES, n) + 1).astype(int)
    backend.run(
        lambda low, high, _: _kernels.add_gram(indptr, indices, data, low, high, out),
        [[(low, high)] for low, high in pairwise(cuts.tolist())],
    )
    return out
