"""Compiled kernels, at the best instruction level that the processor supports.

The sources are compiled once per level of vector instructions, as `_kernels_baseline` and `_kernels_avx2`. Processors
other than x86-64 have only the first; development builds have only the level of their machine. This module exports all
functions and classes of the selected module. The environment variable ``MAXENDNET_LEVEL`` selects another level, for
instance for bit-for-bit identical results on machines with different processors.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "MAXENDNET_LEVEL"
_KNOWN = ("baseline", "avx2")
_level = ""


def levels() -> tuple[str, ...]:
    """Return the compiled levels that the processor supports, the best last."""
    compiled = [name for name in _KNOWN if importlib.util.find_spec(f"maxendnet._kernels_{name}") is not None]
    if not compiled:
        raise ImportError("the kernels of maxendnet are not compiled; install the package with pip or run make setup")
    # any of the modules can report this: their bindings run on every processor, only the kernels do not
    processor = importlib.import_module(f"maxendnet._kernels_{compiled[0]}")._processor_levels()
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

    For tests. Functions of one level do not accept objects (`Shape`, `ActiveSets`, ...) of another, and names that were
    imported from this module before keep their level.
    """
    before = level()
    _use(name, "at_level")
    try:
        yield
    finally:
        _use(before, "at_level")


def _use(name: str, caller: str) -> None:
    usable = levels()
    if name not in usable:
        problem = "is not available on this machine" if name in _KNOWN else "is unknown"
        raise ValueError(f"{caller}: level {name!r} {problem}; available levels are {', '.join(usable)}")
    module = importlib.import_module(f"maxendnet._kernels_{name}")
    # as attributes of this module, so that calls have no extra cost
    globals().update({key: value for key, value in vars(module).items() if not key.startswith("_")})
    globals()["_level"] = name


_use(os.environ.get(_VARIABLE) or levels()[-1], _VARIABLE)
