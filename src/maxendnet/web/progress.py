"""Progress functions, with which callers report the progress of long loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Progress = Callable[[Iterable[Any], str], Iterable[Any]]
"""Wraps the items of a loop; the second argument is a description."""


def quiet(items: Iterable[Any], _: str) -> Iterable[Any]:
    """Report nothing."""
    return items
