"""Labels of any hashable type."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning

from maxendnet.data.labels import distinct_labels, label_array, read_labels
from maxendnet.data.unknown import UNKNOWN

hashables = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=2), st.tuples(st.integers(0, 2), st.text(max_size=1))
)


@given(st.lists(hashables, min_size=1))
def test_distinct_labels_are_distinct_and_do_not_depend_on_order(labels):
    distinct = distinct_labels(label_array(labels)).tolist()
    assert set(distinct) == set(labels)
    assert len(distinct) == len(set(labels))
    # True and 1 are the same label, and which of the two represents it may depend on their order
    reordered = sorted(set(labels), key=repr)
    if not {type(label) for label in labels} >= {bool, int}:
        assert distinct_labels(label_array(reordered)).tolist() == distinct


@pytest.mark.parametrize(
    ("labels", "expected", "kind"),
    [
        (["b", "a", "b"], ["a", "b"], "U"),
        ([3, 1, 3], [1, 3], "i"),
        ([True, False], [False, True], "b"),
        ([1.0, 0.0], [0.0, 1.0], "f"),
        ([np.int16(2), np.int16(1)], [1, 2], "i"),
        ([1, "a"], [1, "a"], "O"),
        ([(1, 2), (0, 3)], [(0, 3), (1, 2)], "O"),
        (["a", 1], [1, "a"], "O"),
        (["a", UNKNOWN, frozenset(["b", "a"])], ["a", "b"], "U"),
        ([2**70, 1], [1, 2**70], "O"),
        ([2**63, -1], [-1, 2**63], "O"),  # numpy would make these floats
        (["a\0", "a"], ["a", "a\0"], "O"),  # numpy would drop the NUL
        ([], [], "O"),
    ],
)
def test_distinct_labels(labels, expected, kind):
    distinct = distinct_labels(labels)
    assert distinct.tolist() == expected
    assert distinct.dtype.kind == kind
    assert distinct.ndim == 1


def test_arrays_of_strings():
    assert distinct_labels(np.array(["b", "a", "b"])).tolist() == ["a", "b"]


def test_an_enum_stays_an_enum():
    Colour = IntEnum("Colour", ["RED", "BLUE"])
    assert label_array([Colour.RED, Colour.BLUE]).tolist() == [Colour.RED, Colour.BLUE]
    assert label_array([Colour.RED]).dtype == object


OFFSETS = np.array([0, 2, 2, 3])


@pytest.mark.parametrize(
    ("y", "expected", "kind"),
    [
        ([["a", "b"], [], ["c"]], ["a", "b", "c"], "O"),
        ([("a", "b"), (), np.array(["c"])], ["a", "b", "c"], "O"),
        ([np.array(["a", "bb"]), np.array([]), np.array(["ccc"])], ["a", "bb", "ccc"], "U"),
        ([np.array([1, 2], np.int8), [], np.array([300])], [1, 2, 300], "i"),
        ([[1, 2], [], [3]], [1, 2, 3], "i"),
        ([[1, "2"], [], [3]], [1, "2", 3], "O"),
        ([np.array([1, 2]), [], np.array(["a"])], [1, 2, "a"], "O"),
        ([[(0, 1), (2, 3)], [], [(4, 5)]], [(0, 1), (2, 3), (4, 5)], "O"),
        ((iter(row) for row in (["a", "b"], [], ["c"])), ["a", "b", "c"], "O"),
        (np.array([np.array([1, 2]), np.array([]), np.array([3])], dtype=object), [1, 2, 3], "i"),
    ],
)
def test_nested(y, expected, kind):
    labels = read_labels(y, OFFSETS, flat=False)
    assert labels.tolist() == expected
    assert labels.dtype.kind == kind


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ("abc", "y is the string 'abc'; expected a list of labels per example"),
        (5, "y is a int; expected a list of labels per example"),
        ([["a", "b"], []], "X has 3 examples but y has 2; expected a list of labels per example"),
        ([["a", "b"], [], []], r"y\[2\] has 0 labels but X\[2\] has 1 nodes; expected one label per node."),
        (["ab", [], ["c"]], r"y\[0\] is the string 'ab'; expected a list of labels per example"),
        ([1, [], [2]], r"y\[0\] is 1, a single label; expected a list of labels per example"),
        ([["a", "b"], [], np.array([["c"]])], r"y\[2\] has shape \(1, 1\); expected a list of labels per example"),
        ([["a", {"b": 1}], [], ["c"]], r"y\[0\] node 1 has the label \{'b': 1\} of type dict, which is not hashable"),
        ([["a", float("nan")], [], ["c"]], r"Input y contains NaN: the label of y\[0\] node 1"),
        ([[1.0, float("nan")], [], [2.0]], r"Input y contains NaN: the label of y\[0\] node 1"),
        ([[1.0, float("inf")], [], [2.0]], r"Input y contains infinity: the label of y\[0\] node 1"),
        ([[1.0, 2.0], [], [2.5]], r"Unknown label type: continuous. y\[2\] node 0 has the label 2.5"),
    ],
)
def test_nested_messages(y, message):
    with pytest.raises(ValueError, match=message):
        read_labels(y, OFFSETS, flat=False)


@pytest.mark.parametrize(
    ("y", "expected", "kind"),
    [
        (["a", "b"], ["a", "b"], "O"),
        (np.array(["a", "b"]), ["a", "b"], "U"),
        (np.array([1, 2], dtype=object), [1, 2], "i"),
        ([(0, 1), (2, 3)], [(0, 1), (2, 3)], "O"),
        (iter([1, 2]), [1, 2], "i"),
    ],
)
def test_flat(y, expected, kind):
    labels = read_labels(y, np.array([0, 1, 2]), flat=True)
    assert labels.tolist() == expected
    assert labels.dtype.kind == kind


def test_dates_are_labels_too():
    dates = np.array(["2020-01-02", "2020-01-01"], dtype="M8[D]")
    assert_array_equal(read_labels(dates, np.array([0, 1, 2]), flat=True), dates.tolist())
    assert_array_equal(read_labels([dates], np.array([0, 2]), flat=False), dates.tolist())
    assert distinct_labels(label_array(dates.tolist())).tolist() == dates.tolist()[::-1]


def test_a_column_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
        labels = read_labels(np.array([[1], [2]]), np.array([0, 1, 2]), flat=True)
    assert labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((2, 2)), r"y should be a 1d array with a label per row of X, got an array of shape \(2, 2\)"),
        ([1, 2, 3], "X has 2 rows but y has 3 labels; expected one label per row"),
        ([["a"], ["b"]], r"y\[0\] has the label \['a'\] of type list, which is not hashable.*X as a list of examples"),
        (np.array([1.0, np.nan]), r"Input y contains NaN: the label of y\[1\];"),
        (np.array([1.0, np.inf]), r"Input y contains infinity: the label of y\[1\];"),
        ([0.5, 1.0], "Unknown label type: continuous"),
    ],
)
def test_flat_messages(y, message):
    with pytest.raises(ValueError, match=message):
        read_labels(y, np.array([0, 1, 2]), flat=True)


def test_the_labels_of_one_example_without_their_list_are_named():
    with pytest.raises(ValueError, match=r"If y contains the labels of one example, pass \[y\]"):
        read_labels(["a", "b"], np.array([0, 2]), flat=False)
    with pytest.raises(ValueError, match=r"in the same order\.$"):
        read_labels([["a"], ["b"], ["c"]], np.array([0, 1, 2]), flat=False)
