"""Lazy imports of public names."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazily(package: str, file: str) -> tuple[dict[str, str], Callable[[str], Any], Callable[[], list[str]]]:
    """Import the names under ``if TYPE_CHECKING`` of a package on first use.

    The names are parsed from the source file, so that the imports for type checkers are their only list.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__`` of the package.

    Returns
    -------
    homes : dict
        Module of each name, in the order of the imports.
    get, names : callable
        ``__getattr__`` and ``__dir__`` of the package. ``names`` includes ``__all__``, for packages that wrap ``get``.
    """
    homes = type_checking_imports(Path(file).read_text(encoding="utf-8"))

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a submodule
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # so that the next lookup does not call this function
        return value

    def __dir__() -> list[str]:
        present = vars(sys.modules[package])
        return sorted({*present, *present.get("__all__", ()), *homes})

    return homes, __getattr__, __dir__


def type_checking_imports(source: str) -> dict[str, str]:
    """Return the module of each name that is imported under ``if TYPE_CHECKING``.

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
