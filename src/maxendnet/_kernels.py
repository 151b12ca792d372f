"""The compiled kernels, at the best level of vector instructions that this processor has.

The same sources are compiled once per level, as `_kernels_baseline`, `_kernels_avx2` and `_kernels_avx512` (on
processors other than x86-64 only the first). All functions and classes of the chosen module are names of this one. The
environment variable ``MAXENDNET_LEVEL`` chooses another level, for instance to get the same bits from the kernels on
machines with different processors.
"""

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

from maxendnet import _kernels_baseline

_VARIABLE = "MAXENDNET_LEVEL"
_KNOWN = ("baseline", "avx2", "avx512")
_level = ""


def levels() -> tuple[str, ...]:
    """Levels that the processor has and that were compiled, the best last."""
    found = _kernels_baseline._processor_levels()
    return tuple(name for name in found if importlib.util.find_spec(f"maxendnet._kernels_{name}") is not None)


def level() -> str:
    """The level of the kernels in use."""
    return _level


def use(name: str) -> None:
    """Use the kernels of another level from here on, in the whole process: see `at_level` for what that means."""
    _use(name, "use")


@contextmanager
def at_level(name: str) -> Iterator[None]:
    """Use the kernels of another level for a while, in the whole process.

    For tests: objects made at one level (`Shape`, `ActiveSets`, ...) are not accepted by the functions of another, and
    names that were imported from here before stay at their level.
    """
    before = level()
    _use(name, "at_level")
    try:
        yield
    finally:
        _use(before, "at_level")


def _use(name: str, asked_by: str) -> None:
    if name not in levels():
        known = "is not there on this machine" if name in _KNOWN else "is unknown"
        raise ValueError(f"{asked_by}: level {name!r} {known}; levels that can be used are {', '.join(levels())}")
    module = importlib.import_module(f"maxendnet._kernels_{name}")
    # as attributes of this module, so that a call costs no more than it does without levels
    globals().update({key: value for key, value in vars(module).items() if not key.startswith("_")})
    globals()["_level"] = name


_use(os.environ.get(_VARIABLE) or levels()[-1], _VARIABLE)
