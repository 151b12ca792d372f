"""Warnings that refer to the line of the user's code."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.split(".")[0]


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the nearest caller outside this package."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").split(".")[0] == PACKAGE and sys._getframe(level).f_back:
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
