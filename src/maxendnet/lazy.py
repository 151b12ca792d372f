"""Names that are imported when somebody asks for them: a fit needs one solver of many, and few programs need all."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        In which module a name is at home.

    Examples
    --------
    >>> lazily("collections", {"Mapping": "collections.abc"})("Mapping").__name__
    'Mapping'
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # from now on found without this function
        return value

    return __getattr__
