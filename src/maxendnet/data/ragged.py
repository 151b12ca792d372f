"""Ragged arrays: row i of a flat array is ``flat[offsets[i]:offsets[i + 1]]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

Array: TypeAlias = npt.NDArray[Any]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


def offsets_of(lengths: Iterable[int] | IntArray) -> npt.NDArray[np.int64]:
    """Return the offsets of rows with the given lengths.

    Examples
    --------
    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    lengths = lengths if isinstance(lengths, np.ndarray) else np.array(list(lengths), dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def owners(offsets: IntArray) -> npt.NDArray[np.int64]:
    """Return the row of each entry.

    Examples
    --------
    >>> owners(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def gather(offsets: IntArray, rows: IntArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the positions of the entries of the given rows, and their new offsets.

    Examples
    --------
    >>> positions, new_offsets = gather(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> positions.tolist(), new_offsets.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    starts = offsets[:-1][rows]
    lengths = offsets[1:][rows] - starts
    new_offsets = offsets_of(lengths)
    shift = np.repeat(starts - new_offsets[:-1], lengths)
    return shift + np.arange(new_offsets[-1], dtype=np.int64), new_offsets


def locate(offsets: IntArray, position: int) -> tuple[int, int]:
    """Return the row of an entry of the flat array, and its position within the row.

    Examples
    --------
    >>> locate(np.array([0, 2, 2, 5]), 4)
    (2, 2)
    """
    row = int(np.searchsorted(offsets, position, side="right")) - 1
    return row, int(position - offsets[row])


def csr(data: FloatArray, indices: IntArray, offsets: IntArray, n_columns: int) -> sparse.csr_array:
    """Return a CSR matrix with int32 indices, without copying the entries.

    scipy stores both index arrays with one dtype, so int64 offsets would widen the indices. This is unavoidable with
    more than 2**31 entries.

    Examples
    --------
    >>> csr(np.array([1.0]), np.array([2], dtype=np.int32), np.array([0, 1]), 3).indices.dtype.name
    'int32'
    """
    index_type = np.int32 if len(data) <= np.iinfo(np.int32).max else np.int64
    indptr = offsets.astype(index_type, copy=False)
    return sparse.csr_array((data, indices, indptr), shape=(len(offsets) - 1, n_columns))


def is_mapped(array: Array) -> bool:
    """Whether an array is memory-mapped.

    Examples
    --------
    >>> is_mapped(np.zeros(3))
    False
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


def place(name: str, offsets: IntArray, position: int, flat: bool = False) -> str:
    """Return the name of a node for messages, such as ``X[2] node 5``.

    If each example is one node, the name is ``X[7]``.
    """
    row, t = locate(offsets, position)
    return f"{name}[{row}]" if flat else f"{name}[{row}] node {t}"


def refuse_masked(value: Any, name: str) -> None:
    """Raise ``ValueError`` for masked values, whose mask numpy would ignore.

    Examples
    --------
    >>> refuse_masked(np.ma.masked_array([1.0, 2.0], mask=[False, False]), "X")
    >>> refuse_masked(np.ma.masked_array([1.0, 2.0], mask=[False, True]), "X")
    Traceback (most recent call last):
    ValueError: X is a masked array with 1 masked values; fill them in with X.filled(...), or remove them.
    """
    if isinstance(value, np.ma.MaskedArray):
        n_masked = int(np.ma.getmaskarray(value).sum())
        if n_masked:
            raise ValueError(
                f"{name} is a masked array with {n_masked} masked values; fill them in with {name}.filled(...), or "
                "remove them."
            )


def plain_array(value: Any, name: str) -> Array:
    """Return ``np.asarray(value)``; raise ``ValueError`` if this would drop a mask."""
    refuse_masked(value, name)
    return np.asarray(value)


def is_known(label: Any, labels: Mapping[Any, Any]) -> bool:
    """Whether a value, hashable or not, is one of the labels."""
    try:
        return label in labels
    except TypeError:
        return False


def shorten(labels: list[Any]) -> str:
    """Return the first ten labels for a message."""
    shown = ", ".join(map(repr, labels[:10]))
    return f"[{shown}, ...]" if len(labels) > 10 else f"[{shown}]"
