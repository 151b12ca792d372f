"""Exact line search in the dual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from maxendnet.problem import FloatArray


def best_step(prior: Any, eta: FloatArray, d: FloatArray, b: float) -> float:
    """Return the step size in [0, 1] that maximises ``size * b - cumulant(eta + size * d)``."""

    def slope(size: float) -> float:
        at = eta + size * d
        return b - float(d @ prior.mean(at)) if np.isfinite(prior.cumulant(at)) else -np.inf

    return where_falling(slope)


def where_falling(slope: Callable[[float], float]) -> float:
    """Return the zero of a decreasing function on [0, 1], or the nearest end if there is none.

    The function may be -inf on an interval that ends at 1.
    """
    low, high = 0.0, 1.0
    at_low, at_high = slope(low), slope(high)
    if at_low <= 0 or at_high >= 0:
        return low if at_low <= 0 else high
    for _ in range(100):  # bisect until the upper end is finite
        if np.isfinite(at_high):
            return float(brentq(slope, low, high, xtol=1e-16, disp=False))
        middle = 0.5 * (low + high)
        value = slope(middle)
        if value >= 0:
            low = middle
        else:
            high, at_high = middle, value
    return low
