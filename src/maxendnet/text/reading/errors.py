"""The error for invalid text input, and checks that raise it."""

from __future__ import annotations

from numbers import Integral
from typing import Any


class TextError(ValueError):
    """Invalid column file, template, word list, tag sequence or option."""

    __module__ = "maxendnet.text"  # the public module


def check_count(name: str, value: Any) -> None:
    """Raise `TextError` unless the value is a positive 32-bit integer."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) < 2**31:
        raise TextError(f"{name} must be a whole number of at least 1, got {value!r}.")
