"""Names that are imported when somebody asks for them: a fit needs one solver of many, and few programs need all."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        In which module a name is at home.

    Returns
    -------
    get, names : callable
        ``names`` also lists what is in ``__all__``: a package may have a ``__getattr__`` of its own around this one.

    Examples
    --------
    >>> get, names = lazily("maxendnet.utils.lazy", {"Mapping": "collections.abc"})
    >>> "Mapping" in names() and "lazily" in names()
    True
    >>> get("Mapping").__name__
    'Mapping'
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # from now on found without this function
        return value

    def __dir__() -> list[str]:
        present = vars(sys.modules[package])
        return sorted({*present, *present.get("__all__", ()), *homes})

    return __getattr__, __dir__
