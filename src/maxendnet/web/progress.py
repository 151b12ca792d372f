"""Progress of long loops, reported by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Progress = Callable[[Iterable[Any], str], Iterable[Any]]
"""Wraps the items of a loop, given a word for it."""


def quiet(items: Iterable[Any], _: str) -> Iterable[Any]:
    """Report nothing."""
    return items
