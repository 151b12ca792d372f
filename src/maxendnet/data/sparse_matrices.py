"""Checks of sparse matrices from users, before any C code of scipy reads them.

scipy does not check a matrix whose index arrays were replaced or edited, and then reads and writes outside its arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxendnet.data.ragged import refuse_masked


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse matrix; for the type checker it remains ``Any``."""
    return bool(sparse.issparse(value))


def check_sparse(matrix: Any, name: str) -> None:
    """Raise ``ValueError`` for a 2-D sparse matrix with inconsistent or masked arrays.

    Parameters
    ----------
    matrix : sparse matrix or array of shape (n_rows, n_columns)
    name : str
        For messages.

    Examples
    --------
    >>> matrix = sparse.csc_array(np.eye(2))
    >>> check_sparse(matrix, "X")
    >>> matrix.indices[1] = 7
    >>> check_sparse(matrix, "X")
    Traceback (most recent call last):
    ValueError: X is a corrupt sparse matrix in csc format: it has the index 7, but rows go from 0 to 1. Build it ...
    """
    if matrix.format != "dok":
        refuse_masked(matrix.data, name)
    try:
        _check_format(matrix)
    except _CorruptError as error:
        raise ValueError(
            f"{name} is a corrupt sparse matrix in {matrix.format} format: {error}. Build it again with scipy.sparse "
            "from its values, rows and columns."
        ) from None


class _CorruptError(Exception):
    """The arrays of a sparse matrix violate its format."""


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise _CorruptError(problem)


def _check_format(matrix: Any) -> None:
    """Raise `_CorruptError` for arrays that do not fit the format or the shape."""
    checks = {"csr": _check_compressed, "csc": _check_compressed, "bsr": _check_blocks, "coo": _check_entries,
              "dia": _check_diagonals, "lil": _check_lists, "dok": _check_keys}  # fmt: skip
    _require(matrix.format in checks, "the format is not supported")
    _require(min(matrix.shape) >= 0, f"its shape is {matrix.shape}")
    checks[matrix.format](matrix)


def _check_integers(array: Any, name: str) -> None:
    is_valid = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"
    _require(is_valid, f"{name} is not a 1-D array of integers")


def _check_range(array: np.ndarray, size: int, unit: str) -> None:
    """Require indices from 0 to ``size - 1``, without a cast that could wrap around."""
    for index in (int(array.min()), int(array.max())) if len(array) else ():
        _require(0 <= index < size, f"it has the index {index}, but {unit} go from 0 to {size - 1}")


def _check_offsets(matrix: Any, n_major: int, n_stored: int) -> None:
    """Require that ``indptr`` delimits the entries of each row (or column)."""
    indptr = matrix.indptr
    _check_integers(indptr, "indptr")
    _require(len(indptr) == n_major + 1, f"indptr has {len(indptr)} entries where {n_major + 1} are expected")
    _require(indptr[0] == 0, f"indptr begins with {indptr[0]} instead of 0")
    _require(not np.any(indptr[1:] < indptr[:-1]), "indptr decreases")
    _require(int(indptr[-1]) <= n_stored, f"indptr ends with {indptr[-1]}, but there are {n_stored} entries")


def _check_values(data: Any, indices: np.ndarray, unit: str) -> None:
    has_values = isinstance(data, np.ndarray) and data.shape == indices.shape
    _require(has_values, f"it has {np.size(data)} values for {len(indices)} {unit}")


def _check_compressed(matrix: Any) -> None:
    by_row = matrix.format == "csr"
    n_major, n_minor = matrix.shape if by_row else matrix.shape[::-1]
    _check_integers(matrix.indices, "indices")
    _check_values(matrix.data, matrix.indices, "indices")
    _check_offsets(matrix, n_major, len(matrix.indices))
    _check_range(matrix.indices[: int(matrix.indptr[-1])], n_minor, "columns" if by_row else "rows")


def _check_blocks(matrix: Any) -> None:
    data = matrix.data
    is_valid = isinstance(data, np.ndarray) and data.ndim == 3 and min(data.shape[1:]) > 0
    _require(is_valid, "its values are not a 3-D array of blocks")
    (height, width), (n_rows, n_columns) = data.shape[1:], matrix.shape
    tiles = n_rows % height == 0 and n_columns % width == 0
    _require(tiles, f"blocks of shape {(height, width)} do not tile the shape {matrix.shape}")
    _check_integers(matrix.indices, "indices")
    _require(len(data) == len(matrix.indices), f"it has {len(data)} blocks for {len(matrix.indices)} indices")
    _check_offsets(matrix, n_rows // height, len(matrix.indices))
    _check_range(matrix.indices[: int(matrix.indptr[-1])], n_columns // width, "blocks of columns")


def _check_entries(matrix: Any) -> None:
    for array, size, unit in ((matrix.row, matrix.shape[0], "rows"), (matrix.col, matrix.shape[1], "columns")):
        _check_integers(array, unit)
        _check_values(matrix.data, array, unit)
        _check_range(array, size, unit)


def _check_diagonals(matrix: Any) -> None:
    data, offsets = matrix.data, matrix.offsets
    _check_integers(offsets, "offsets")
    is_valid = isinstance(data, np.ndarray) and data.ndim == 2 and len(data) == len(offsets)
    _require(is_valid, f"it has values of shape {np.shape(data)} for {len(offsets)} diagonals")
    _require(len(np.unique(offsets)) == len(offsets), "a diagonal occurs twice")
    # diagonals outside of the shape are valid and empty, but scipy computes with them, which may overflow
    for offset in (int(offsets.min()), int(offsets.max())) if len(offsets) else ():
        _require(abs(offset) < 2**31, f"it has the diagonal {offset}, but diagonals go up to {2**31 - 1}")


def _check_lists(matrix: Any) -> None:
    n_rows, n_columns = matrix.shape
    for array in (matrix.rows, matrix.data):
        is_valid = isinstance(array, np.ndarray) and array.dtype == object and array.shape == (n_rows,)
        _require(is_valid, f"it does not have one list for each of its {n_rows} rows")
    for t, (columns, values) in enumerate(zip(matrix.rows, matrix.data)):
        if not (isinstance(columns, list) and isinstance(values, list) and len(columns) == len(values)):
            raise _CorruptError(f"row {t} does not have lists of columns and values of equal length")
        for column in columns:
            if not (isinstance(column, (int, np.integer)) and 0 <= column < n_columns):
                raise _CorruptError(f"it has the index {column!r}, but columns go from 0 to {n_columns - 1}")


def _check_keys(matrix: Any) -> None:
    for key in matrix.keys():  # noqa: SIM118  (some versions of scipy iterate over rows, not keys)
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, (int, np.integer)) for k in key)):
            raise _CorruptError(f"the key {key!r} is not a pair (row, column)")
        if not (0 <= key[0] < matrix.shape[0] and 0 <= key[1] < matrix.shape[1]):
            raise _CorruptError(f"it has an entry at {tuple(map(int, key))}, but the shape is {matrix.shape}")
