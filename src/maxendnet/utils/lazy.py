"""Names that are imported on first use: a fit needs one solver of many, and few programs need all."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazily(package: str, file: str) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Make the imports under ``if TYPE_CHECKING`` of a package available on first use.

    The imports for type checkers are the only list of these names, so that a name is registered once.

    Parameters
    ----------
    package, file : str
        Its ``__name__`` and ``__file__``.

    Returns
    -------
    homes : dict
        Module of each name, in the order of the imports.
    get, names : callable
        The ``__getattr__`` and ``__dir__`` of the package. ``names`` also lists ``__all__``: a package may wrap ``get``
        in a ``__getattr__`` of its own.
    """
    homes = type_checking_imports(Path(file).read_text(encoding="utf-8"))

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a submodule
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next lookup does not reach this function
        return value

    def __dir__() -> list[str]:
        present = vars(sys.modules[package])
        return sorted({*present, *present.get("__all__", ()), *homes})

    return homes, __getattr__, __dir__


def type_checking_imports(source: str) -> dict[str, str]:
    """Module of every name that is imported under ``if TYPE_CHECKING``.

    Examples
    --------
    >>> type_checking_imports("if TYPE_CHECKING:\\n    from a.b import C as C, d")
    {'C': 'a.b', 'd': 'a.b'}
    """
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
