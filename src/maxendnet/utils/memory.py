"""Checks of required against available memory."""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from pathlib import Path

ALWAYS_AVAILABLE = 1 << 20
"""Bytes below which the available memory is not determined, because that takes longer than a small prediction."""
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def available_memory() -> float:
    """Return the bytes that can be allocated without swapping, or infinity if unknown."""
    limits = [math.inf]
    with suppress(OSError, ValueError):  # limit of a container; int("max"), which means no limit, raises ValueError
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    try:
        match = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        match = None
    if match is not None:
        limits.append(int(match[1]) * 1024)
    elif hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits)


def check_memory(
    n_bytes: float, what: str, advice: str, most: float = math.inf, error: type[ValueError] = ValueError
) -> None:
    """Raise an error if more memory is required than is available.

    Parameters
    ----------
    n_bytes : int or float
        Lower bound on the required memory in bytes.
    what : str
        Object that needs the memory; the message begins with it.
    advice : str
        How to need less memory; the message ends with it.
    most : float, optional
        Fixed limit in bytes, applied in addition to the available memory.
    error : type, default=ValueError
        Type of the error.

    Examples
    --------
    >>> check_memory(10**20, "a table of 10 labels", "use fewer labels", most=2**30)
    Traceback (most recent call last):
    ValueError: a table of 10 labels needs at least 88,818 PiB of memory, but the limit is 1 GiB; use fewer labels.
    """
    if n_bytes <= min(ALWAYS_AVAILABLE, most):
        return
    limit = min(available_memory(), most)
    if n_bytes > limit:
        bound = f"the limit is {shown(most)}" if limit == most else f"{shown(limit)} are available"
        raise error(f"{what} needs at least {shown(n_bytes)} of memory, but {bound}; {advice}.")


def shown(n_bytes: float) -> str:
    """Format a number of bytes for messages.

    Examples
    --------
    >>> shown(3 * 2**30)
    '3 GiB'
    """
    whole = min(int(n_bytes), 2**80)  # larger integers may not fit a float
    power = min(len(UNITS) - 1, max(0, whole.bit_length() - 1) // 10)
    value = whole / 1024**power
    return f"{value:,.0f} {UNITS[power]}" if value >= 100 else f"{value:.3g} {UNITS[power]}"
