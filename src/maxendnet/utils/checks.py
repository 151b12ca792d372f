"""Checks of single values."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether a value is a real number, not a bool, that a float can represent."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating))


def require_count(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")


def require_level(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is a bool or an integer of at least 0, as for ``verbose``."""
    if not isinstance(value, (int, np.integer, np.bool_)) or value < 0:
        raise ValueError(f"{name} must be a bool or an integer of at least 0, got {value!r}.")


def generator(random_state: Any) -> np.random.Generator:
    """Convert a ``random_state`` as in scikit-learn to a random generator."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be None, a whole number of at least 0 or a random Generator, got {random_state!r}."
        ) from None
