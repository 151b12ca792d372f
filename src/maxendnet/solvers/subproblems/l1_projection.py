"""Projection onto the L1 ball."""

from __future__ import annotations

import numpy as np

from maxendnet.priors.base import FloatArray
from maxendnet.utils.checks import is_number


def project_l1_ball(v: FloatArray, radius: float) -> FloatArray:
    """Project v onto the L1 ball ``sum_k |w_k| <= radius``, in linear time.

    The projection is a soft threshold, ``sign(v) * max(|v| - theta, 0)``. As in Duchi et al. (2008), theta is found by
    repeatedly splitting the entries that may be the smallest nonzero one; here they are split at their median.

    Parameters
    ----------
    v : array-like of shape (n,)
    radius : float

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> project_l1_ball([3.0, -2.0, 0.5], radius=3.0).tolist()
    [2.0, -1.0, 0.0]
    >>> project_l1_ball([1.0, -1.0], radius=3.0).tolist()
    [1.0, -1.0]
    """
    v = np.array(v, dtype=np.float64)
    if v.ndim != 1 or not np.all(np.isfinite(v)):
        problem = f"shape {v.shape}" if v.ndim != 1 else f"{v[~np.isfinite(v)][0]} among its entries"
        raise ValueError(f"v must be a vector of finite numbers, got {problem}.")
    if not (is_number(radius) and 0 < radius < np.inf):
        raise ValueError(f"radius must be a positive finite number, got {radius!r}.")
    size = np.abs(v)
    if size.sum() <= radius:
        return v
    # subtract the largest entry, so that a radius far below it is not lost to rounding
    size -= size.max()
    total, count = 0.0, 0
    open_entries = size[size > -radius]  # smaller entries are projected to zero in any case
    while open_entries.size:
        middle = open_entries.size // 2
        pivot = np.partition(open_entries, middle)[middle]
        above = open_entries[open_entries >= pivot]
        if total + above.sum() - (count + above.size) * pivot < radius:  # the threshold is below the pivot
            total, count = total + above.sum(), count + above.size
            open_entries = open_entries[open_entries < pivot]
        else:
            open_entries = above[above > pivot]
    left = np.maximum(size - (total - radius) / count, 0.0)
    values: FloatArray = np.copysign(left * min(1.0, radius / left.sum()), v)
    return values
