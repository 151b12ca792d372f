"""Newton directions by conjugate gradients, in which every product with the Hessian takes a pass over the examples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from maxendnet.problem import FloatArray, Problem
from maxendnet.solvers.certificate.marginals import marginals_in_parts

Linear = Callable[[FloatArray], FloatArray]


class Solved(NamedTuple):
    """Result of conjugate gradients."""

    solution: FloatArray
    products: tuple[tuple[FloatArray, FloatArray], ...]
    """Directions and their products with the Hessian, for a quasi-Newton method."""


def conjugate_gradients(
    hessian_times: Linear, inverse_times: Linear, right: FloatArray, enough: float, most: int, keep: int
) -> Solved:
    """Approximate ``H^-1 right`` until no entry of the residual is larger than ``enough``.

    Parameters
    ----------
    hessian_times : callable
        Maps a vector to its product with H.
    inverse_times : callable
        Preconditioner: maps a vector to its product with an approximate inverse of H.
    right : ndarray
    enough : float
        Largest entry of the residual at which the iteration stops.
    most : int
        Largest number of products with H.
    keep : int
        Number of products to return, counted from the last one.

    Returns
    -------
    Solved
        If H is flat along the first direction, the solution is that direction, and ``products`` is empty.
    """
    solution, residual = np.zeros(len(right)), right
    direction = inverse_times(residual)
    size = float(residual @ direction)
    products: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=keep)
    for _ in range(most):
        product = hessian_times(direction)
        curve = float(direction @ product)
        if not curve > 1e-12 * np.linalg.norm(direction) * np.linalg.norm(product):
            break
        products.append((direction, product))
        solution += size / curve * direction
        residual = residual - size / curve * product
        if np.abs(residual).max() <= enough:
            break
        towards = inverse_times(residual)
        size, before = float(residual @ towards), size
        direction = towards + size / before * direction
    return Solved(solution if products else direction, tuple(products))


def hessian_times(
    problem: Problem, w: FloatArray, loss_slope: FloatArray, v: FloatArray, single: bool = False
) -> FloatArray:
    """Multiply the Hessian of C times the sum of losses at w with v, by a finite difference of gradients: one pass.

    In float64 scores change by about 1e-6, and the relative error is about 1e-6. In float32 scores change by 3e-3 and
    the error is about as large, which is accurate enough for the first digits of a residual and takes two thirds of the
    time.

    Parameters
    ----------
    problem : Problem
    w : ndarray of shape (n_weights,)
    loss_slope : ndarray of shape (n_weights,)
        Gradient of the sum of losses at w, in the same precision.
    v : ndarray of shape (n_weights,)
    single : bool, default=False
        Pass over the examples in float32.
    """
    change = max(problem.batch.largest, 1.0) * np.abs(v).max(initial=0.0)
    step = (3e-3 if single else 1e-6) / max(change * problem.loss.curvature, 1e-300)
    values: FloatArray = (
        problem.C * (problem.loss_and_gradient(w + step * v, single=single).gradient - loss_slope) / step
    )
    return values


def hessian_diagonal(problem: Problem, w: FloatArray) -> FloatArray:
    """Return the diagonal of the Hessian of C times the sum of smooth losses, as if nodes and edges were independent.

    A lower limit keeps all entries positive.
    """
    layout = problem.structure.layout
    total = np.zeros(problem.n_weights)
    segments = layout.segments(total)
    times = problem.loss.curvature
    added = times * problem.cost if problem.cost.any() else None
    for batch, node, edge in marginals_in_parts(problem.structure, times * w, problem.backend, added):
        factor = np.repeat(batch.sample_weight, np.diff(batch.offsets))
        squares = sparse.csr_array((batch.data**2, batch.indices, batch.indptr), (len(node), layout.n_features))
        segments.node[:] += layout.node_segment(squares.T @ (factor[:, None] * node * (1 - node)))
        if layout.n_label_features:
            mean = np.einsum("ta,taj->tj", node, batch.label_features)
            segments.label_features[:] += factor @ (np.einsum("ta,taj->tj", node, batch.label_features**2) - mean**2)
        if edge is None:
            continue
        for kind in range(layout.n_edge_types):  # a root has no edge: zeros
            of_kind = factor * (batch.edge_type == kind)
            segments.transitions[kind] += np.tensordot(of_kind, edge, 1) - np.einsum(
                "t,tab,tab->ab", of_kind, edge, edge
            )
        if layout.n_edge_features:
            spread = factor[:, None, None] * (edge - edge**2)
            segments.edge[:] += np.einsum("tf,tab->fab", batch.edge_features**2, spread)
    # the lower limit is for weights that do not affect the loss of any example
    values: FloatArray = problem.C * times * np.maximum(total, 1e-6 * total.max(initial=0.0) + 1e-300)
    return values
