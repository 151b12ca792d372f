"""Sparse matrices at the door: the format is checked in full before any C code of scipy's reads it.

A matrix whose index arrays were set or edited by hand is not checked by scipy itself, which then reads and writes
outside of its arrays. All formats of scipy are known here; a new one is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxendnet.data.ragged import refuse_masked


def is_sparse(value: Any) -> bool:
    """Whether this is a sparse matrix or array of any format; for the type checker it stays Any."""
    return bool(sparse.issparse(value))


def check_sparse(matrix: Any, name: str) -> None:
    """Refuse a 2-D sparse matrix that is not what its format says, or does not hold real numbers.

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
    ValueError: X is a corrupt sparse matrix in csc format: an index of 7, and rows go from 0 to 1. Build it again ...
    """
    problem = _problem(matrix, name)
    if problem:
        raise ValueError(
            f"{name} is a corrupt sparse matrix in {matrix.format} format: {problem}. Build it again with scipy.sparse "
            "from its values, rows and columns."
        )


def _problem(matrix: Any, name: str) -> str:
    """What is wrong with the matrix, or nothing."""
    checks = {"csr": _compressed, "csc": _compressed, "bsr": _blocks, "coo": _entries, "dia": _diagonals,
              "lil": _lists, "dok": _keys}  # fmt: skip
    if matrix.format not in checks:
        return "a format that is not known here"
    rows, columns = matrix.shape
    if not (rows >= 0 and columns >= 0):
        return f"a shape of {matrix.shape}"
    if matrix.format != "dok":
        refuse_masked(matrix.data, name)
    return checks[matrix.format](matrix)


def _integers(array: Any, what: str) -> str:
    if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"):
        return f"{what} is not a 1-D array of integers"
    return ""


def _range(array: np.ndarray, size: int, what: str) -> str:
    """Whether indices are from 0 to before the size; asked in their own dtype, before any cast."""
    for index in (int(array.min()), int(array.max())) if len(array) else ():
        if not 0 <= index < size:
            return f"an index of {index}, and {what} go from 0 to {size - 1}"
    return ""


def _offsets(matrix: Any, n_major: int, n_stored: int) -> str:
    """Whether indptr delimits the entries of every row (or column)."""
    indptr = matrix.indptr
    problem = _integers(indptr, "indptr")
    if problem:
        return problem
    if len(indptr) != n_major + 1:
        return f"indptr has {len(indptr)} entries where {n_major + 1} are expected"
    if indptr[0] != 0:
        return f"indptr begins with {indptr[0]} and not with 0"
    if np.any(indptr[1:] < indptr[:-1]):
        return "indptr decreases"
    if int(indptr[-1]) > n_stored:
        return f"indptr ends with {indptr[-1]}, and there are {n_stored} entries"
    return ""


def _compressed(matrix: Any) -> str:
    by_row = matrix.format == "csr"
    n_major, n_minor = matrix.shape if by_row else matrix.shape[::-1]
    problem = _integers(matrix.indices, "indices")
    if problem:
        return problem
    if not (isinstance(matrix.data, np.ndarray) and matrix.data.shape == matrix.indices.shape):
        return f"{np.size(matrix.data)} values for {len(matrix.indices)} indices"
    problem = _offsets(matrix, n_major, len(matrix.indices))
    return problem or _range(matrix.indices[: int(matrix.indptr[-1])], n_minor, "columns" if by_row else "rows")


def _blocks(matrix: Any) -> str:
    data = matrix.data
    if not (isinstance(data, np.ndarray) and data.ndim == 3 and min(data.shape[1:]) > 0):
        return "its values are not a 3-D array of blocks"
    height, width = data.shape[1:]
    if matrix.shape[0] % height or matrix.shape[1] % width:
        return f"blocks of shape {(height, width)} do not tile the shape {matrix.shape}"
    problem = _integers(matrix.indices, "indices")
    if problem:
        return problem
    if len(data) != len(matrix.indices):
        return f"{len(data)} blocks for {len(matrix.indices)} indices"
    problem = _offsets(matrix, matrix.shape[0] // height, len(matrix.indices))
    return problem or _range(matrix.indices[: int(matrix.indptr[-1])], matrix.shape[1] // width, "blocks of columns")


def _entries(matrix: Any) -> str:
    for array, size, what in ((matrix.row, matrix.shape[0], "rows"), (matrix.col, matrix.shape[1], "columns")):
        problem = _integers(array, what)
        if problem:
            return problem
        if not (isinstance(matrix.data, np.ndarray) and matrix.data.shape == array.shape):
            return f"{np.size(matrix.data)} values for {len(array)} {what}"
        problem = _range(array, size, what)
        if problem:
            return problem
    return ""


def _diagonals(matrix: Any) -> str:
    problem = _integers(matrix.offsets, "offsets")
    if problem:
        return problem
    if not (isinstance(matrix.data, np.ndarray) and matrix.data.ndim == 2 and len(matrix.data) == len(matrix.offsets)):
        return f"values of shape {np.shape(matrix.data)} for {len(matrix.offsets)} diagonals"
    if len(np.unique(matrix.offsets)) != len(matrix.offsets):
        return "a diagonal that comes twice"
    return ""


def _lists(matrix: Any) -> str:
    for array in (matrix.rows, matrix.data):
        if not (isinstance(array, np.ndarray) and array.dtype == object and array.shape == (matrix.shape[0],)):
            return f"not one list for each of {matrix.shape[0]} rows"
    for t, (columns, values) in enumerate(zip(matrix.rows, matrix.data)):
        if not (isinstance(columns, list) and isinstance(values, list) and len(columns) == len(values)):
            return f"row {t} does not have a list of columns and a list of as many values"
        for column in columns:
            if not (isinstance(column, (int, np.integer)) and 0 <= column < matrix.shape[1]):
                return f"an index of {column!r}, and columns go from 0 to {matrix.shape[1] - 1}"
    return ""


def _keys(matrix: Any) -> str:
    for key in matrix.keys():  # noqa: SIM118  (iterating over it goes by rows in some versions of scipy)
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, (int, np.integer)) for k in key)):
            return f"a key {key!r} that is not a pair of row and column"
        if not (0 <= key[0] < matrix.shape[0] and 0 <= key[1] < matrix.shape[1]):
            return f"an entry at {tuple(map(int, key))}, and the shape is {matrix.shape}"
    return ""
