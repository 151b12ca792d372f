"""Declarations of the fields of solver states, by which states from checkpoints are checked.

A state is a record of records, numbers and arrays. Its annotations declare what it may contain: numbers are finite,
counts are at least 0, and an array has one entry per weight. Other shapes and ranges are declared by `Values`, for
example ``gaps: Annotated[FloatArray, Values("examples", low=0.0, also=(np.inf,))]``. What depends on several fields is
checked by a method ``check(problem)`` of the record, which raises `StateError`. `models.state_checks` interprets all of
this, so that a new field or record is checked from the day it is defined.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

ROUNDING = 1e-6
"""Largest difference of a recomputed number, relative to its scale. Sums over shards differ by 1e-12."""
ROUNDING_SINGLE = 1e-3
"""The same for passes in float32."""
ROUNDING_RELAXED = 1e-2
"""The same for relaxed inference, whose messages are not saved."""


class StateError(ValueError):
    """A state contains a value that no fit writes."""


class Values(NamedTuple):
    """Shape and range of the numbers in a field.

    Examples
    --------
    >>> Values("examples", low=0.0).shape
    'examples'
    """

    shape: str = "weights"
    """Sizes of the axes of an array. Names that are not sizes of the problem have one value within a record; "any" is
    a shape that the record checks."""
    low: float | None = None
    below: str = ""
    """Name of the size that positions are below."""
    also: tuple[float, ...] = ()
    """Values that are not finite, but allowed."""
    may_be_empty: bool = False


NonNegative = Annotated[float, Values(low=0.0)]
Positive = Annotated[float, Values(low=5e-324)]
"""Declaration of a positive number: at least the smallest float."""
AnyFloat = Annotated[float, Values(also=(np.nan, np.inf, -np.inf))]
CHECKED_BY_OWNER = "checked by its owner"
"""Marks a field whose record is checked by the record that contains it."""


def require(condition: Any, message: str) -> None:
    """Raise `StateError` with a message unless a condition holds."""
    if not condition:
        raise StateError(message)


def require_shape(array: Any, shape: tuple[int, ...], name: str) -> None:
    """Raise `StateError` unless an array has this shape."""
    require(array.shape == shape, f"{name} has shape {array.shape}, expected {shape}")


def require_equal(actual: Any, expected: Any, name: str, scale: float = 0.0, rounding: float = ROUNDING) -> None:
    """Raise `StateError` unless numbers equal those that were recomputed, up to rounding.

    Differences are relative to the largest finite number that is expected, or to ``scale`` if that is larger. Infinite
    numbers must be at the same places.

    Examples
    --------
    >>> require_equal([1.0, 0.0], [1.0, 1e-9], "eta")
    >>> require_equal(1.0, 2.0, "cost")
    Traceback (most recent call last):
    maxendnet.utils.state_fields.StateError: cost does not follow from the rest of the state
    """
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    message = f"{name} does not follow from the rest of the state"
    require(actual.shape == expected.shape, message)
    finite = np.isfinite(expected)
    require(np.array_equal(actual[~finite], expected[~finite]), message)
    scale = max(scale, float(np.abs(expected[finite]).max(initial=1e-300)))
    require(np.all(np.abs(actual[finite] - expected[finite]) <= rounding * scale), message)


def require_point(
    actual: tuple[Any, float], expected: tuple[Any, float], name: str, rounding: float = ROUNDING
) -> None:
    """Raise `StateError` unless a dual point (eta and cost) equals the one that was recomputed."""
    scale = max(float(np.abs(expected[0]).max(initial=0.0)), abs(expected[1]), 1e-12)
    require_equal(actual[0], expected[0], f"eta of {name}", scale, rounding)
    require_equal(actual[1], expected[1], f"cost of {name}", scale, rounding)


def rounding_of(problem: Any) -> float:
    """Return the largest relative difference of numbers that are recomputed for a problem."""
    return ROUNDING_RELAXED if problem.structure.capabilities.relaxed else ROUNDING
