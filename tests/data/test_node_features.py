"""All forms of X are converted to the same matrix, and error messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse

from maxendnet.data import node_features
from maxendnet.data.node_features import read_node_features

ITEMS = [np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]]), np.zeros((0, 3)), np.array([[0.0, -3.0, 0.0]])]
EXPECTED = np.concatenate(ITEMS)


def objects(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def generator(items):
    yield from items


class NotAnArray:
    def __init__(self, data):
        self.data = data

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.data, dtype=dtype)


FORMS = {
    "arrays": ITEMS,
    "tuple of arrays": tuple(ITEMS),
    "lists": [item.tolist() for item in ITEMS],
    "lists of rows": [list(item) for item in ITEMS],
    "generator": generator(ITEMS),
    "generators": [generator(item) for item in ITEMS],
    "object array": objects(ITEMS),
    "object arrays of rows": [objects([*item, None])[:-1] for item in ITEMS],
    "array-likes": [NotAnArray(item) for item in ITEMS],
    "integers": [item.astype(np.int8) for item in ITEMS],
    "float32 and others": [ITEMS[0].astype(np.float32), ITEMS[1], ITEMS[2].astype(object)],
    "fortran order": [np.asfortranarray(item) for item in ITEMS],
    "mixed dense and sparse": [ITEMS[0], sparse.csc_matrix(ITEMS[1]), sparse.coo_array(ITEMS[2])],
    "empty without a width": [ITEMS[0], [], ITEMS[2]],
    "empty 1-D": [ITEMS[0], np.array([]), ITEMS[2]],
    "pairs": [(item, []) for item in ITEMS],
} | {
    form: [getattr(sparse, form)(item) for item in ITEMS]
    for form in ("csr_array", "csr_matrix", "csc_array", "coo_array", "lil_array", "dok_matrix", "bsr_array")
}


def assert_canonical(X):
    assert isinstance(X, sparse.csr_array)
    assert X.has_canonical_format and X.data.all()
    assert (X.data.dtype, X.indices.dtype) == (np.float64, np.int32)


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    features = read_node_features(FORMS[form])
    assert_array_equal(features.X.toarray(), EXPECTED)
    assert_canonical(features.X)
    assert features.offsets.tolist() == [0, 2, 2, 3]
    assert features.feature_names is None and not features.flat


@pytest.mark.parametrize("form", ["named", "numbers"])
def test_a_3d_array_has_an_example_per_first_index(form):
    X = np.arange(12.0).reshape(2, 3, 2)
    features = read_node_features(X if form == "numbers" else X.astype(object))
    assert features.offsets.tolist() == [0, 3, 6]
    assert_array_equal(features.X.toarray(), X.reshape(6, 2))


@pytest.mark.parametrize(
    "table",
    [
        EXPECTED,
        EXPECTED.tolist(),
        [tuple(row) for row in EXPECTED[:, :2]],  # pairs of numbers are rows, not (node_features, edges)
        list(EXPECTED),
        NotAnArray(EXPECTED),
        EXPECTED.astype(object),
        EXPECTED.astype(bool),
        sparse.csr_matrix(EXPECTED),
        sparse.coo_array(EXPECTED),
        sparse.dok_array(EXPECTED),
    ],
)
def test_a_table_is_flat(table):
    features = read_node_features(table)
    assert features.flat
    assert features.offsets.tolist() == [0, 1, 2, 3]
    dense = table.toarray() if sparse.issparse(table) else np.asarray(table, dtype=float)
    assert_array_equal(features.X.toarray(), dense)
    assert_canonical(features.X)


def test_an_unsorted_matrix_with_duplicates_and_zeros_is_not_touched():
    arrays = np.array([1.0, 2.0, 3.0, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])
    X = sparse.csr_array(arrays, shape=(2, 3))
    copies = [array.copy() for array in (X.data, X.indices, X.indptr)]
    features = read_node_features(X)
    assert_canonical(features.X)
    assert features.X.toarray().tolist() == [[2, 0, 4], [0, 0, 0]]
    for actual, expected in zip((X.data, X.indices, X.indptr), copies, strict=True):
        assert_array_equal(actual, expected)


def test_a_clean_matrix_is_not_copied():
    X = sparse.csr_array(EXPECTED)
    assert np.shares_memory(read_node_features(X).X.data, X.data)


def test_entries_beyond_the_end_of_a_csr_matrix_are_not_read():
    X = sparse.csr_array([[1.0, 0.0]])
    X.data, X.indices = (
        np.array([1.0, np.nan]),
        np.array([0, 1], dtype=np.int32),
    )  # scipy allows unused entries at the end
    assert read_node_features([X, X]).X.toarray().tolist() == [[1, 0], [1, 0]]


def test_read_only_input():
    X = EXPECTED.copy()
    X.setflags(write=False)
    assert_array_equal(read_node_features(X).X.toarray(), EXPECTED)


numbers = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
    st.tuples(st.integers(0, 5), st.just(3)),
    elements=st.integers(0, 1),
)


@given(st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=5), st.sampled_from([1, 4, 1 << 22]))
def test_blocks_do_not_matter(items, block):
    before = node_features.BLOCK_NUMBERS
    try:
        node_features.BLOCK_NUMBERS = block
        features = read_node_features([sparse.csr_array(item) if as_sparse else item for item, as_sparse in items])
    finally:
        node_features.BLOCK_NUMBERS = before
    assert_array_equal(features.X.toarray(), np.concatenate([item for item, _ in items]).astype(float))
    assert_canonical(features.X)


def test_named():
    X = [[{"a": 2}, ["b"]], [], [{}]]
    features = read_node_features(X)
    assert features.feature_names == ("a", "b")
    assert features.X.toarray().tolist() == [[2, 0], [0, 1], [0, 0]]
    assert features.offsets.tolist() == [0, 2, 2, 3]
    features = read_node_features([[{"c": 1, "b": True}], []], feature_names=("a", "b"))
    assert features.X.toarray().tolist() == [[0, 1]]
    assert read_node_features([[[], ["a"]], [[]]]).X.toarray().tolist() == [[0], [1], [0]]
    assert read_node_features([[np.array(["a", "b"])], [{"b"}]]).X.toarray().tolist() == [[1, 1], [0, 1]]


def test_a_model_with_names_accepts_arrays_of_its_width():
    features = read_node_features([np.eye(2)], feature_names=("a", "b"))
    assert features.feature_names == ("a", "b")
    with pytest.raises(ValueError, match="X has 3 features, but M3N is expecting 2 features as input"):
        read_node_features([np.eye(3)], feature_names=("a", "b"), estimator="M3N")


@pytest.mark.parametrize(("n_features", "width"), [(None, 0), (4, 4)])
def test_examples_without_nodes(n_features, width):
    features = read_node_features([[], []], n_features=n_features)
    assert features.X.shape == (0, width)
    assert features.offsets.tolist() == [0, 0, 0]


A = np.eye(2)
FLAT = sparse.coo_array([1.0, 2.0])  # before scipy 1.13, sparse arrays always had two dimensions


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("word", "X is a str; expected a list of examples"),
        ({"a": 1}, "X is a dict; expected a list of examples"),
        (5, "X is a int; expected a list of examples or an array"),
        (None, "X is a NoneType; expected a list of examples or an array"),
        ([], r"0 sample\(s\) while a minimum of 1 is required"),
        (np.empty((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.empty((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (sparse.csr_array((0, 3)), r"0 sample\(s\)"),
        (sparse.csr_array((3, 0)), r"0 feature\(s\)"),
        (np.arange(3.0), r"Expected 2D array, got 1D array of shape \(3,\) instead. Reshape your data"),
        ([1.0, 2.0], "Reshape your data"),
        (np.float64(3), "Reshape your data"),
        *([(FLAT, "Reshape your data")] if FLAT.ndim == 1 else []),
        (np.zeros((1, 1, 1, 1)), r"got shape \(1, 1, 1, 1\)"),
        ([[1.0, 2.0], [1.0]], r"X\[0\] is a row of 2 numbers, so X is read as a table, but X\[1\] has length 1"),
        ([np.arange(3.0), None], r"X\[0\] is a row of 3 numbers.*X\[1\] has length -1"),
        ([A, "ab"], r"X\[1\] is a str; an example is an array of shape \(n_nodes, n_features\)"),
        ([A, {"a": 1}], r"X\[1\] is a dict; an example is"),
        ([{"a": 1}], r"X\[0\] is a dict; an example is"),
        ([A, None], r"X\[1\] is a NoneType; an example is"),
        ([A, 3], r"X\[1\] is a int; an example is"),
        ([A, np.arange(2.0)], r"X\[1\] has shape \(2,\); an example is 2-D"),
        ([A, [1.0, 2.0]], r"X\[1\] has shape \(2,\); an example is 2-D"),
        ([A, np.zeros((1, 2, 2))], r"X\[1\] has shape \(1, 2, 2\); an example is 2-D"),
        *([([A, FLAT], r"X\[1\] has shape \(2,\); an example is 2-D")] if FLAT.ndim == 1 else []),
        ([A, np.eye(3)], r"X\[1\] has 3 features but X\[0\] has 2; every node must have the same features"),
        ([A, np.zeros((0, 3))], r"X\[1\] has 3 features but X\[0\] has 2"),
        ([A, sparse.csr_array(np.eye(3))], r"X\[1\] has 3 features but X\[0\] has 2"),
        ([A, [[1.0, 2.0], [3.0]]], r"X\[1\] is not rectangular: row 1 has 1 numbers but row 0 has 2"),
        ([[[1.0, 2.0], {"a": 1}]], r"X\[0\] mixes rows of numbers with named features"),
        ([A, [{"a": 1}]], r"X\[1\] has named features but X\[0\] is an array; all examples must have the same form"),
        ([["a", "b"]], r"X\[0\] has the string 'a' as a node; a node is a row of numbers, a dict of features"),
        ([[None]], r"X\[0\] has a NoneType as a node"),
        ([[sparse.csr_array([[1.0]])]], r"X\[0\] has a csr_array as a node.*sparse rows as one sparse matrix"),
        ([[sparse.dok_array([[1.0]])]], r"X\[0\] has a dok_array as a node"),
        (np.array([["a", "b"]]), "X holds strings where numbers are expected"),
        (np.array([["1", 2.0]], dtype=object), "X holds strings where numbers are expected"),
        ([A, np.array([["a", "b"]])], r"X\[1\] holds strings where numbers are expected"),
        ([[[1.0, "b"]]], r"X\[0\] holds strings where numbers are expected"),
        ([np.zeros((1, 2), dtype="M8[D]")], r"X\[0\] holds values of dtype datetime64\[D\] where numbers"),
        (A * 1j, "Complex data not supported: X has dtype complex128"),
        ([A, A * 1j], r"Complex data not supported: X\[1\]"),
        ([sparse.csr_array(A * 1j)], "Complex data not supported"),
        (np.array([[1j, 2.0]], dtype=object), "Complex data not supported"),
        (np.array([[10**400, 2.0]], dtype=object), "X contains a value too large for float64"),
        ([A, np.array([[1.0, np.nan]])], r"Input X contains NaN: X\[1\] node 0, feature 1"),
        (
            [A, np.array([[-np.inf, 1.0]])],
            r"Input X contains infinity or a value too large for float64: X\[1\] node 0, f",
        ),
        (
            [A, np.array([[0.0, 2e100]])],
            r"Input X contains 2e\+100, above the limit of 1e\+100: X\[1\] node 0, feature 1",
        ),
        ([A, np.array([[0.0, -2e100]])], r"contains -2e\+100"),
        (np.array([[1.0, 0.0], [0.0, np.nan]]), r"Input X contains NaN: X\[1\], feature 1"),
        (sparse.csr_array([[0.0, np.inf]]), r"Input X contains infinity.*X\[0\], feature 1"),
        ([[{"a": 1.0}, {"b": np.nan}]], r"Input X contains NaN: X\[0\] node 1, feature 'b'"),
        ([[{"a": 1.0}, {"b": 10**400}]], r"Input X contains infinity.*X\[0\] node 1, feature 'b'"),
        ([[{"b": 1e101}]], r"above the limit of 1e\+100: X\[0\] node 0, feature 'b'"),
        ([(A, []), A], r"X\[0\] is a pair \(node_features, edges\) but X\[1\] has no edges"),
        ([sparse.csr_array((1, 2**31))], "X has more than 2147483647 features or nodes"),
    ],
)
def test_messages(X, message):
    with pytest.raises(ValueError, match=message):
        read_node_features(X)


def test_objects_that_are_not_numbers():
    with pytest.raises(TypeError, match=r"argument must be .* string.* number.*Pass feature dicts as lists"):
        read_node_features(np.array([[{"a": 1}, 1.0]], dtype=object))


def test_column_indices_out_of_range():
    X = sparse.csr_array(EXPECTED)
    X.indices[0] = 7
    with pytest.raises(ValueError, match="corrupt sparse matrix in csr format: it has the index"):
        read_node_features(X)


@pytest.mark.skipif(
    np.finfo(np.longdouble).max <= np.finfo(np.float64).max, reason="needs long double wider than double"
)
def test_extended_precision_beyond_float64():
    with pytest.raises(ValueError, match="infinity or a value too large"):
        read_node_features(np.array([[np.longdouble(10) ** 400]]))


def test_features_must_be_those_of_the_model():
    with pytest.raises(ValueError, match="X has 2 features, but LapMEDN is expecting 3 features as input"):
        read_node_features([A], n_features=3, estimator="LapMEDN")
    with pytest.raises(ValueError, match="X has named features, but LapMEDN was fitted on arrays without names"):
        read_node_features([[{"a": 1}]], n_features=1, estimator="LapMEDN")


@pytest.mark.parametrize(
    "X", [[["the", "dog"], ["dogs", "bark"]], ["the dog", "dogs bark"], [np.array(["the", "dog"])], ["the", "dog"]]
)
def test_plain_words_are_sent_to_the_tagger(X):
    with pytest.raises(ValueError, match=r"X\[0\].* For sentences of plain words use maxendnet.text.Tagger"):
        read_node_features(X)


def test_one_tree_without_its_list_is_named():
    with pytest.raises(ValueError, match=r"If X is one pair \(node_features, edges\), pass \[X\]"):
        read_node_features((np.eye(3), [(0, 1), (0, 2)]))
    with pytest.raises(ValueError, match=r"X\[0\] has 3; every node must have the same features\.$"):
        read_node_features([np.eye(3), np.eye(2), np.eye(2)])
