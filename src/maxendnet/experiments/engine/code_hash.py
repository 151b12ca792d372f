"""Hash of the code that computes the cells of an experiment."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

PACKAGE = "maxendnet.experiments"


def code_hash(run: Callable[..., Any]) -> str:
    """Return a hash of ``run`` and of the experiment code that it uses.

    This is the source of the functions and classes of this package (and of the module of ``run``) that ``run`` refers
    to, directly or through others, and the values of the constants that they read. Comments, docstrings and
    annotations do not count, nor do cards and figures, because they do not change results. The code of the library
    outside this package is represented by its version.
    """
    parts: dict[str, str] = {}
    waiting: list[Any] = [run]
    packages = (PACKAGE, run.__module__)
    while waiting:
        piece = inspect.unwrap(waiting.pop())
        name = f"{piece.__module__}.{piece.__qualname__}"
        if name in parts:
            continue
        tree = _source_tree(piece)
        if tree is None:  # defined without a file: a doctest or an interactive session
            code = piece.__code__
            parts[name] = f"{code.co_code.hex()} {code.co_consts!r}"
            continue
        parts[name] = ast.unparse(tree)
        for target_name, value in _references(tree, vars(sys.modules[piece.__module__])):
            if _is_code(value):
                if _inside(value, packages):
                    waiting.append(value)
            elif not isinstance(value, ModuleType):
                parts[f"{piece.__module__}:{target_name}"] = _constant(value, packages, waiting)
    text = "\n".join(f"{name} = {parts[name]}" for name in sorted(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _is_code(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value) if callable(value) else value)


def _inside(value: Any, packages: tuple[str, ...]) -> bool:
    return str(inspect.unwrap(value).__module__).startswith(packages)


def _source_tree(piece: Any) -> ast.Module | None:
    """Parse a function or class, without docstrings and annotations of arguments."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(piece)))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return tree


def _references(tree: ast.Module, scope: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the global names that the code uses, and attributes of global modules, with their values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in scope:
            yield node.id, scope[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = scope.get(node.value.id)
            if isinstance(module, ModuleType) and module.__name__.startswith(PACKAGE):
                yield f"{node.value.id}.{node.attr}", getattr(module, node.attr, None)


def _constant(value: Any, packages: tuple[str, ...], waiting: list[Any]) -> str:
    """Return a stable text of a constant; functions and classes in it are named, ours also queued."""
    if isinstance(value, Mapping):
        items = sorted((repr(key), _constant(item, packages, waiting)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in items) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        entries = [_constant(item, packages, waiting) for item in value]
        return "[" + ", ".join(sorted(entries) if isinstance(value, (set, frozenset)) else entries) + "]"
    if _is_code(value):
        if _inside(value, packages):
            waiting.append(value)
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return repr(value)
    return type(value).__qualname__
