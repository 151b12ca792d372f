"""Corrupt sparse matrices are refused before C code of scipy reads them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from maxendnet import M3N
from maxendnet.data.examples import as_examples
from maxendnet.data.sparse_matrices import check_sparse

DENSE = np.array([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 3.0, 0.0], [4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 5.0]])
FORMATS = ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"]


def put(name, place, value):
    def change(matrix):
        getattr(matrix, name)[place] = value

    return change


def replaced(name, value):
    return lambda matrix: setattr(matrix, name, value(getattr(matrix, name)))


CORRUPT = {
    "csr beyond": ("csr", put("indices", 0, 9), "it has the index 9, but columns go from 0 to 3"),
    "csr below": ("csr", put("indices", 0, -1), "it has the index -1"),
    "csr wraps to int32": ("csr", lambda m: widen(m, 2**32 + 1), "it has the index 4294967297"),
    "csr begins with 1": ("csr", put("indptr", 0, 1), "indptr begins with 1 instead of 0"),
    "csr decreases": ("csr", put("indptr", 1, 4), "indptr decreases"),
    "csr ends beyond": ("csr", put("indptr", 4, 10**6), "indptr ends with 1000000, but there are 5 entries"),
    "csr short indptr": ("csr", replaced("indptr", lambda a: a[:-1]), "indptr has 4 entries where 5 are expected"),
    "csr few values": ("csr", replaced("data", lambda a: a[:2]), "2 values for 5 indices"),
    "csr floats": ("csr", replaced("indices", lambda a: a * 1.0), "indices is not a 1-D array of integers"),
    "csc beyond": ("csc", put("indices", 0, 10**8), "it has the index 100000000, but rows go from 0 to 3"),
    "csc decreases": ("csc", put("indptr", 2, 0), "indptr decreases"),
    "csc few indices": ("csc", replaced("indices", lambda a: a[:1]), "5 values for 1 indices"),
    "bsr beyond": ("bsr", put("indices", 0, 77), "it has the index 77"),
    "bsr tiles": ("bsr", replaced("data", lambda a: np.zeros((len(a), 3, 3))), "do not tile"),
    "coo beyond": ("coo", put("col", 0, 10**8), "it has the index 100000000, but columns go from 0 to 3"),
    "coo below": ("coo", put("row", 0, -5), "it has the index -5, but rows"),
    "coo few values": ("coo", replaced("data", lambda a: a[:1]), "1 values for 5 rows"),
    "dia twice": ("dia", put("offsets", 0, 1), "a diagonal occurs twice"),
    "dia of 62 bits": (
        "dia",
        replaced("offsets", lambda a: a.astype(np.int64) + 2**62),
        r"it has the diagonal 46116860184273\d+",
    ),
    "dia few": ("dia", replaced("data", lambda a: a[:1]), "values of shape"),
    "lil beyond": ("lil", put("rows", 0, [1, 9]), "it has the index 9"),
    "lil uneven": ("lil", put("rows", 0, [1]), "row 0 does not have"),
    "lil no list": ("lil", put("rows", 0, None), "row 0 does not have"),
    "dok beyond": ("dok", lambda m: m._dict.update({(9, 0): 1.0}), r"an entry at \(9, 0\)"),
}


def widen(matrix, index):
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indices[0] = index


@pytest.mark.parametrize("what", CORRUPT)
def test_a_corrupt_matrix_is_refused(what):
    kind, change, message = CORRUPT[what]
    matrix = sparse.coo_array(DENSE).asformat(kind).copy()
    change(matrix)
    for X in (matrix, [matrix]):
        with pytest.raises(ValueError, match=f"corrupt sparse matrix in {kind} format: .*{message}"):
            as_examples(X)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("maker", [sparse.coo_array, sparse.coo_matrix])
def test_valid_matrices_are_read(kind, maker):
    matrix = maker(DENSE).asformat(kind)
    assert_array_equal(as_examples(matrix).X.toarray(), DENSE)
    assert_array_equal(as_examples([matrix]).X.toarray(), DENSE)


@settings(max_examples=60)
@given(st.sampled_from(FORMATS), st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_any_matrix_of_scipy_passes(kind, n_rows, n_columns, seed):
    rng = np.random.default_rng(seed)
    dense = rng.integers(3, size=(n_rows, n_columns)) * 1.0
    check_sparse(sparse.coo_array(dense).asformat(kind), "X")


def test_room_behind_the_last_entry_is_allowed():
    matrix = sparse.csr_array(DENSE)
    matrix.data, matrix.indices = np.append(matrix.data, 7.0), np.append(matrix.indices, 99)
    assert_array_equal(as_examples(matrix).X.toarray(), DENSE)


def test_masked_values_of_a_sparse_matrix():
    matrix = sparse.coo_array(DENSE)
    matrix.data = np.ma.masked_array(matrix.data, mask=[True, False, False, False, False])
    with pytest.raises(ValueError, match="X is a masked array with 1 masked values"):
        as_examples(matrix)


def test_a_corrupt_matrix_at_prediction_and_beside_the_features():
    model = M3N().fit(DENSE, [0, 1, 0, 1])
    matrix = sparse.csc_array(DENSE)
    matrix.indices[0] = 10**9
    with pytest.raises(ValueError, match="corrupt sparse matrix"):
        model.predict(matrix)


def test_the_process_survives():
    """scipy can crash the process with such a matrix, so the test runs in a separate process."""
    code = """
        import numpy as np
        from scipy import sparse
        from maxendnet import M3N
        for kind, name in (("csc", "indices"), ("coo", "row"), ("csc", "indptr"), ("bsr", "indices")):
            matrix = sparse.coo_array(np.eye(4)).asformat(kind).copy()
            getattr(matrix, name)[1] = 2**30
            try:
                M3N().fit(matrix, [0, 1, 0, 1])
            except ValueError as error:
                assert "corrupt" in str(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_diagonal_outside_of_the_matrix_is_empty():
    assert as_examples(sparse.dia_array((np.ones((1, 2)), [5]), shape=(2, 2))).X.nnz == 0
