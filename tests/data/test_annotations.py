"""Edges, types, edge and label features, allowed labels and weights: values and error messages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxendnet.data.annotations import (
    read_allowed,
    read_edge_features,
    read_edges,
    read_label_features,
    read_label_order,
    read_sample_weight,
    read_types,
)

OFFSETS = np.array([0, 3, 3, 5])
EDGE_OFFSETS = np.array([0, 2, 2, 3])
LABELS = ("a", "b")


@pytest.mark.parametrize(
    "edges",
    [
        [[(0, 1), (2, 1)], [], [(1, 0)]],
        [np.array([[0, 1], [2, 1]], np.int8), np.empty((0, 2)), np.array([[1, 0]], np.uint64)],
        ([[[0, 1], [2, 1]], np.array([]), [[1, 0]]]),
        iter([[(0, 1), (2, 1)], (), [(1, 0)]]),
    ],
)
def test_edges(edges):
    flat, edge_offsets = read_edges(edges, OFFSETS)
    assert flat.tolist() == [[0, 1], [2, 1], [1, 0]]
    assert flat.dtype == np.int32 and flat.flags.c_contiguous
    assert edge_offsets.tolist() == EDGE_OFFSETS.tolist()


def test_no_edges_at_all():
    flat, edge_offsets = read_edges([[], [], []], OFFSETS)
    assert flat.shape == (0, 2) and edge_offsets.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[], []], "edges has 2 entries but X has 3 examples; expected one per example"),
        (5, "edges is 5; expected a list with one entry per example"),
        ([[(0, 1, 2)], [], []], r"The edges of X\[0\] have shape \(1, 3\) and dtype int64; expected integers of shape"),
        ([[0, 1], [], []], r"The edges of X\[0\] have shape \(2,\)"),
        ([[(0.0, 1.0)], [], []], r"The edges of X\[0\] have shape \(1, 2\) and dtype float64"),
        ([[("0", "1")], [], []], r"The edges of X\[0\] have shape \(1, 2\) and dtype <U1"),
        ([[(True, False)], [], []], r"The edges of X\[0\] .* dtype bool"),
        ([None, [], []], r"The edges of X\[0\] have shape \(\)"),
        ([[(0, 1), (0,)], [], []], r"The edges of X\[0\] are ragged"),
        ([[(0, 3)], [], []], r"Edge 0 of X\[0\] is \(0, 3\), but X\[0\] has 3 nodes"),
        ([[], [(0, 1)], []], r"Edge 0 of X\[1\] is \(0, 1\), but X\[1\] has 0 nodes"),
        ([[], [], [(-1, 0)]], r"Edge 0 of X\[2\] is \(-1, 0\)"),
        ([np.array([[0, 2**64 - 1]], np.uint64), [], []], r"Edge 0 of X\[0\] is \(0, 9223372036854775807\)"),
        ([np.array([[0, 2**32 + 1]]), [], []], r"Edge 0 of X\[0\] is \(0, 4294967297\)"),
        ([[], [], [(1, 1)]], r"Edge 0 of X\[2\] is \(1, 1\), a loop"),
        ([[], [], [(0, 1), (1, 0)]], r"The edges of X\[2\] contain the pair \(0, 1\) twice"),
    ],
)
def test_edge_messages(edges, message):
    with pytest.raises(ValueError, match=message):
        read_edges(edges, OFFSETS)


def test_types():
    types = read_types("node_types", [[0, 1, 0], [], np.array([2, 0], np.int64)], OFFSETS, "nodes")
    assert types.tolist() == [0, 1, 0, 2, 0] and types.dtype == np.int32
    assert read_types("node_types", np.array([1, 0, 2]), np.array([0, 1, 2, 3]), "nodes", flat=True).tolist() == [
        1,
        0,
        2,
    ]
    assert read_types("edge_types", [[], [], []], np.zeros(4, int), "edges").tolist() == []


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ([[0, 1], [], [0, 0]], r"node_types\[0\] has 2 rows but X\[0\] has 3 nodes; expected one for each"),
        ([[0, 1, 0], [], [0.0, 1.0]], r"node_types\[2\] has dtype float64; expected integers"),
        ([[0, 1, 0], [], ["a", "b"]], r"node_types\[2\] has dtype <U1; expected integers"),
        ([[0, 1, 0], [], [0, -1]], r"node_types\[2\] holds -1 at position 1; types are numbered 0, 1, 2"),
        ([[0, 1, 0], [], [0, 2**31]], r"node_types\[2\] holds 2147483648 at position 1"),
        ([[[0], [1], [0]], [], [0, 1]], r"node_types\[0\] has shape \(3, 1\); expected an array with 1 dimension"),
        ([[0, 1, 0], []], "node_types has 2 entries but X has 3 examples"),
    ],
)
def test_type_messages(types, message):
    with pytest.raises(ValueError, match=message):
        read_types("node_types", types, OFFSETS, "nodes")


def test_flat_type_messages():
    with pytest.raises(ValueError, match="node_types has 2 rows but X has 3 nodes"):
        read_types("node_types", [0, 1], np.array([0, 1, 2, 3]), "nodes", flat=True)


def test_edge_features():
    features = read_edge_features([[[1, 2], [3, 4]], [], sparse.csr_array([[5.0, 6.0]])], EDGE_OFFSETS)
    assert features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert features.dtype == np.float64


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[[1.0]], [], [[1.0]]], r"edge_features\[0\] has 1 rows but X\[0\] has 2 edges; expected one for each"),
        ([[1.0, 2.0], [], [[1.0]]], r"edge_features\[0\] has shape \(2,\); expected an array with 2 dimension"),
        (
            [[[1.0], [2.0]], [], [[1.0, 2.0]]],
            r"edge_features\[2\] has shape \(1, 2\) but earlier examples have \('n', 1\)",
        ),
        ([[[1.0], [2.0]], [], [["a"]]], r"edge_features\[2\] has dtype <U1; expected numbers"),
        ([[[1.0], [2.0, 3.0]], [], [[1.0]]], r"edge_features\[0\] is ragged"),
        (
            [[[1.0], [np.nan]], [], [[1.0]]],
            r"edge_features\[0\] holds NaN, infinity or a value above 1e\+100 in row 1",
        ),
        ([[[1.0], [2.0]], [], [[-1e101]]], r"edge_features\[2\] holds NaN, infinity or a value above"),
    ],
)
def test_edge_feature_messages(features, message):
    with pytest.raises(ValueError, match=message):
        read_edge_features(features, EDGE_OFFSETS)


def test_label_features():
    values = np.arange(20.0).reshape(5, 2, 2)
    features = read_label_features([values[:3], [], values[3:]], LABELS, OFFSETS, False)
    assert features.tolist() == values.tolist()
    assert read_label_features(values, LABELS, np.arange(6), True).tolist() == values.tolist()
    assert read_label_features([[], []], LABELS, np.zeros(3, int), False).shape == (0, 2, 0)
    with pytest.raises(ValueError, match="label_features has 2 labels but `labels` lists 3"):
        read_label_features([values[:3], [], values[3:]], ("a", "b", "c"), OFFSETS, False)
    with pytest.raises(ValueError, match=r"label_features\[0\] has 2 rows but X\[0\] has 3 nodes"):
        read_label_features([values[:2], [], values[3:]], LABELS, OFFSETS, False)


def test_label_order():
    assert read_label_order(np.array([3, 1])) == (3, 1)
    assert read_label_order(label for label in "ab") == ("a", "b")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("ab", "labels is 'ab'; expected a list of all labels"),
        (3, "labels is 3; expected a list of all labels"),
        ([], "labels is empty"),
        (["a", "b", "a"], "labels lists a label twice"),
        (["a", ["b"]], "labels holds a value that cannot be a label"),
    ],
)
def test_label_order_messages(labels, message):
    with pytest.raises(ValueError, match=message):
        read_label_order(labels)


def test_allowed():
    expected = [[1, 0], [1, 1], [0, 1], [1, 1], [1, 1]]
    mask = np.array(expected[:3], dtype=bool)
    assert read_allowed([mask, None, None], LABELS, OFFSETS, False).astype(int).tolist() == expected
    lists = [[["a"], None, {"b"}], [], [("a", "b"), np.array(["b", "a"])]]
    assert read_allowed(lists, LABELS, OFFSETS, False).astype(int).tolist() == expected
    flat = [["a"], None, ["b"]]
    assert read_allowed(flat, LABELS, np.arange(4), True).astype(int).tolist() == expected[:3]
    assert read_allowed(mask, LABELS, np.arange(4), True).astype(int).tolist() == expected[:3]
    assert read_allowed([[[], None, None], None, None], LABELS, OFFSETS, False)[0].tolist() == [False, False]


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ([None, None], "allowed has 2 entries but X has 3 examples"),
        (
            [np.ones((3, 3), bool), None, None],
            r"allowed\[0\] has shape \(3, 3\); expected a bool array of .* = \(3, 2\)",
        ),
        (
            [np.ones((3, 2), int), None, None],
            r"allowed\[0\] node 0 lists 1, which is not in labels.*numpy array of dtype bool",
        ),
        ([[["a"], ["b"]], None, None], r"allowed\[0\] has 2 entries for 3 nodes; expected one collection per node"),
        (
            [[["a"], "b", None], None, None],
            r"allowed\[0\] node 1 is 'b'; expected a collection of labels, such as \['b'\]",
        ),
        ([[["a"], 3, None], None, None], r"allowed\[0\] node 1 is 3; expected a collection of labels"),
        ([[["a"], ["c"], None], None, None], r"allowed\[0\] node 1 lists 'c', which is not in labels"),
        ([[["a"], [["b"]], None], None, None], r"allowed\[0\] node 1 lists \['b'\], which is not in labels"),
        (["ab", None, None], r"allowed\[0\] is 'ab'; expected a bool array, or a collection of labels for each node"),
    ],
)
def test_allowed_messages(allowed, message):
    with pytest.raises(ValueError, match=message):
        read_allowed(allowed, LABELS, OFFSETS, False)


def test_sample_weight():
    given = np.array([1, 0, 2])
    array = read_sample_weight(given, 3)
    assert array.tolist() == [1, 0, 2] and array.dtype == np.float64
    floats = np.array([1.0, 2.0])
    assert not np.shares_memory(read_sample_weight(floats, 2), floats)


@pytest.mark.parametrize(
    ("sample_weight", "message"),
    [
        ([1.0, 2.0], r"Sample weights have shape \(2,\) but X has 3 examples; expected one per example"),
        (np.ones((3, 2)), r"Sample weights have shape \(3, 2\)"),
        (1.0, r"Sample weights have shape \(\)"),
        ([1.0, -2.0, 1.0], "The sample weight of example 1 is -2.0; expected finite weights of at least 0"),
        ([1.0, 2.0, np.nan], "The sample weight of example 2 is nan"),
        ([np.inf, 2.0, 1.0], "The sample weight of example 0 is inf"),
        ([0.0, 0.0, 0.0], "All sample weights are zero"),
        (["a", "b", "c"], "Sample weights must be real numbers"),
        ([1.0, [2.0], 3.0], "Sample weights must be real numbers"),
    ],
)
def test_sample_weight_messages(sample_weight, message):
    with pytest.raises(ValueError, match=message):
        read_sample_weight(sample_weight, 3)
