"""Newton directions by conjugate gradients, with a pass over the examples for every product with the Hessian."""

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
    """What conjugate gradients end with."""

    found: FloatArray
    products: tuple[tuple[FloatArray, FloatArray], ...]
    """Directions and the products of the Hessian with them, of which a quasi-Newton method can learn."""


def conjugate_gradients(
    hessian_times: Linear, inverse_times: Linear, right: FloatArray, enough: float, most: int, keep: int
) -> Solved:
    """About ``H^-1 right``, until no entry of the residual is larger than ``enough``.

    Parameters
    ----------
    hessian_times : callable
        A vector to its product with H.
    inverse_times : callable
        The preconditioner: a vector to its product with about the inverse of H.
    right : ndarray
    enough : float
    most : int
        Products, at most.
    keep : int
        Of these, how many of the last are returned.

    Returns
    -------
    Solved
        Without products where H is flat along the first direction, which is what is found then.
    """
    found, residual = np.zeros(len(right)), right
    direction = inverse_times(residual)
    size = float(residual @ direction)
    products: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=keep)
    for _ in range(most):
        product = hessian_times(direction)
        curve = float(direction @ product)
        if not curve > 1e-12 * np.linalg.norm(direction) * np.linalg.norm(product):
            break
        products.append((direction, product))
        found += size / curve * direction
        residual = residual - size / curve * product
        if np.abs(residual).max() <= enough:
            break
        towards = inverse_times(residual)
        size, before = float(residual @ towards), size
        direction = towards + size / before * direction
    return Solved(found if products else direction, tuple(products))


def hessian_times(
    problem: Problem, w: FloatArray, loss_slope: FloatArray, v: FloatArray, single: bool = False
) -> FloatArray:
    """Hessian of C times the sum of losses at w times v, from a gradient at weights that change scores a little.

    In float64 scores change by some 1e-6. Gradients are good to some 1e-13 and change linearly to some 1e-6, which
    leaves an error of 1e-6: far less than a direction of search needs. In float32 scores change by 3e-3, and the error
    is about as large; that is enough where a step has to make a residual only some times smaller, and takes two thirds
    of the time. An exact product would not be cheaper than this one pass.

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
    return problem.C * (problem.loss_and_gradient(w + step * v, single=single).gradient - loss_slope) / step


def hessian_diagonal(problem: Problem, w: FloatArray) -> FloatArray:
    """The diagonal of the Hessian of C times the sum of smooth losses, as if nodes and edges were independent.

    No entry is near 0.
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
    # the floor is for weights that no example speaks of, or that all agree on
    return problem.C * times * np.maximum(total, 1e-6 * total.max(initial=0.0) + 1e-300)
