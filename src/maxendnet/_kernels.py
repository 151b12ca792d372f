"""The compiled kernels, at the best level of vector instructions that this processor has.

The same sources are compiled once per level, as `_kernels_baseline` and `_kernels_avx2` (other processors than x86-64
have only the first, and development builds that of their machine). All functions and classes of the chosen module
are names of this one. The environment variable ``MAXENDNET_LEVEL`` chooses another level, for instance to get the same
bits from the kernels on machines with different processors.
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
    """Levels that were compiled and that the processor has, the best last."""
    compiled = [name for name in _KNOWN if importlib.util.find_spec(f"maxendnet._kernels_{name}") is not None]
    if not compiled:
        raise ImportError("the kernels of maxendnet are not compiled; install the package with pip, or run make setup")
    # any module can tell: its own code is for every processor, only the kernels in it are not
    processor = importlib.import_module(f"maxendnet._kernels_{compiled[0]}")._processor_levels()
    usable = tuple(name for name in compiled if name in processor)
    if not usable:
        raise ImportError(
            f"the kernels of maxendnet were compiled for {' and '.join(compiled)}, which this processor lacks; install "
            "the package again on this machine"
        )
    return usable


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
    usable = levels()
    if name not in usable:
        known = "is not there on this machine" if name in _KNOWN else "is unknown"
        raise ValueError(f"{asked_by}: level {name!r} {known}; levels that can be used are {', '.join(usable)}")
    module = importlib.import_module(f"maxendnet._kernels_{name}")
    # as attributes of this module, so that a call costs no more than it does without levels
    globals().update({key: value for key, value in vars(module).items() if not key.startswith("_")})
    globals()["_level"] = name


_use(os.environ.get(_VARIABLE) or levels()[-1], _VARIABLE)
