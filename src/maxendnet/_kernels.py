"""Compiled kernels, at the best instruction level that the processor supports.

The kernels are compiled once per level of vector instructions, into the libraries `libmaxendnet_baseline` and
`libmaxendnet_avx2`; the extension module `_bindings` loads them and calls their functions. Processors other than x86-64
have only the first; development builds have only the level of their machine. This module exports all functions and
classes of the extension module. The environment variable ``MAXENDNET_LEVEL`` selects another level, for instance for
bit-for-bit identical results on machines with different processors.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

try:
    from maxendnet import _bindings
except ImportError as error:
    if error.name != "maxendnet" and error.name != "maxendnet._bindings":
        raise
    raise ImportError(
        "the kernels of maxendnet are not compiled; install the package with pip or run make setup"
    ) from error
from maxendnet._bindings import *  # noqa: F403

_VARIABLE = "MAXENDNET_LEVEL"
_KNOWN = ("baseline", "avx2")
_level = ""


def levels() -> tuple[str, ...]:
    """Return the compiled levels that the processor supports, the best last."""
    compiled = [name for name in _KNOWN if os.path.exists(_library(name))]
    if not compiled:
        raise ImportError("the kernels of maxendnet are not compiled; install the package with pip or run make setup")
    processor = _bindings._processor_levels()
    usable = tuple(name for name in compiled if name in processor)
    if not usable:
        raise ImportError(
            f"the kernels of maxendnet were compiled for {' and '.join(compiled)}, which this processor does not "
            "support; reinstall the package on this machine"
        )
    return usable


def level() -> str:
    """Return the level of the kernels in use."""
    return _level


def use(name: str) -> None:
    """Use the kernels of another level in the whole process; see `at_level`."""
    _use(name, "use")


@contextmanager
def at_level(name: str) -> Iterator[None]:
    """Context manager to use the kernels of another level in the whole process.

    For tests. Objects (`Shape`, `ActiveSets`, ...) do not depend on the level.
    """
    before = level()
    _use(name, "at_level")
    try:
        yield
    finally:
        _use(before, "at_level")


def _library(name: str) -> str:
    """Return the path of the library of a level."""
    suffix = ".dll" if os.name == "nt" else ".so"
    return os.path.join(os.path.dirname(str(_bindings.__file__)), f"libmaxendnet_{name}{suffix}")


def _use(name: str, caller: str) -> None:
    global _level
    usable = levels()
    if name not in usable:
        problem = "is not available on this machine" if name in _KNOWN else "is unknown"
        raise ValueError(f"{caller}: level {name!r} {problem}; available levels are {', '.join(usable)}")
    _bindings._use(_library(name))
    _level = name


_use(os.environ.get(_VARIABLE) or levels()[-1], _VARIABLE)
