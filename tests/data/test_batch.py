"""Encoding for the kernels, checked node by node against the input lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from maxendnet.data.batch import Batch, encode, forest_order, labels_by_node_type
from maxendnet.data.examples import Examples, as_examples, distinct_labels

DTYPES = {
    "indptr": np.int64,
    "indices": np.int32,
    "data": np.float64,
    "y": np.int32,
    "row": np.int32,
    "offsets": np.int64,
    "order": np.int32,
    "parent": np.int32,
    "edge_type": np.int32,
    "flipped": np.uint8,
    "edge_features": np.float64,
    "allowed": np.uint8,
    "label_features": np.float64,
    "sample_weight": np.float64,
}


def dense(batch, n_features):
    return sparse.csr_array(
        (batch.data, batch.indices, batch.indptr), shape=(len(batch.indptr) - 1, n_features)
    ).toarray()


def chains(**more):
    X = [np.eye(3), np.zeros((0, 3)), np.eye(3)[1:2]]
    return Examples.build(X, [["N", "V", "N"], [], ["D"]], **more)


CLASSES = np.array(["D", "N", "V"])


def assert_contiguous(batch):
    assert {*DTYPES, "label_sets", "largest", "max_children", "ones"} == set(Batch._fields)
    assert batch.ones == (batch.data.size > 0 and bool((batch.data == 1).all()))
    for name, dtype in DTYPES.items():
        array = getattr(batch, name)
        assert array.dtype == dtype, name
        assert array.flags.c_contiguous, name
    values = [batch.data, batch.edge_features.ravel(), batch.label_features.ravel()]
    assert batch.largest == np.abs(np.concatenate(values)).max(initial=0.0)
    n_children = [np.count_nonzero(batch.parent == t) for t in range(len(batch.parent))]
    assert batch.max_children == max([1, *n_children])


def test_chain():
    batch = encode(chains(sample_weight=[1, 2, 3]), CLASSES, "chain")
    assert_contiguous(batch)
    assert batch.y.tolist() == [1, 2, 1, 0]
    assert batch.offsets.tolist() == [0, 3, 3, 4]
    assert batch.order.tolist() == [0, 1, 2, 3]
    assert batch.parent.tolist() == [-1, 0, 1, -1]
    assert batch.sample_weight.tolist() == [1, 2, 3]
    assert batch.edge_features.shape == (4, 0)
    assert (batch.allowed.shape, batch.label_features.shape) == ((0, 0), (0, 0, 0))
    assert not batch.flipped.any() and not batch.edge_type.any()
    assert dense(batch, 3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_without_labels_or_weights():
    batch = encode(Examples.build([np.eye(2)]), ["a", "b"], "chain")
    assert_contiguous(batch)
    assert batch.y.shape == (0,)
    assert batch.sample_weight.tolist() == [1.0]


@pytest.mark.parametrize("joined", ["chain", "tree", "independent"])
def test_without_nodes(joined):
    batch = encode(Examples.build([[], []], [[], []]), CLASSES, joined, bias=True, ends=True)
    assert_contiguous(batch)
    assert len(batch.indptr) == 1 and len(batch.order) == 0


@st.composite
def trees(draw):
    """Lists for Examples.build with random forests, types and features."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    edges = []
    for n in lengths:
        name = rng.permutation(n).tolist()
        pairs = [(name[t], name[rng.integers(t)]) for t in range(1, n) if rng.random() < 0.8]
        edges.append([pair if rng.random() < 0.5 else pair[::-1] for pair in pairs])
    return {
        "X": [rng.integers(0, 2, (n, 3)).astype(float) for n in lengths],
        "y": [[f"L{k}" for k in rng.integers(0, 3, n)] for n in lengths],
        "edges": edges,
        "edge_types": [rng.integers(0, 3, len(here)) for here in edges],
        "edge_features": [rng.normal(size=(len(here), 2)) for here in edges],
    }


@given(trees())
def test_every_edge_is_found_again_at_its_child(lists):
    examples = Examples.build(**lists)
    batch = encode(examples, np.array(["L0", "L1", "L2"]), "tree")
    assert_contiguous(batch)
    position = np.argsort(batch.order)
    for i, edges in enumerate(lists["edges"]):
        start = batch.offsets[i]
        values_of_edges = {}
        for node in range(start, batch.offsets[i + 1]):
            assert start <= batch.order[node] < batch.offsets[i + 1]
            if batch.parent[node] < 0:
                assert batch.edge_type[node] == 0 and batch.flipped[node] == 0
                assert not batch.edge_features[node].any()
                continue
            assert position[batch.parent[node]] < position[node]
            pair = (batch.parent[node] - start, node - start)
            values_of_edges[pair[::-1] if batch.flipped[node] else pair] = (
                batch.edge_type[node],
                *batch.edge_features[node],
            )
        values = zip(lists["edge_types"][i], lists["edge_features"][i], strict=True)
        assert values_of_edges == {pair: (kind, *row) for pair, (kind, row) in zip(edges, values, strict=True)}


@given(trees(), st.booleans(), st.sampled_from(["chain", "tree", "independent"]))
def test_bias_and_ends(lists, with_edges, joined):
    if not with_edges:
        joined = "chain" if joined == "tree" else joined
        lists = {name: lists[name] for name in ("X", "y")}
    examples = Examples.build(**lists)
    classes = distinct_labels(examples.y)
    plain = encode(examples, classes, joined)
    batch = encode(examples, classes, joined, bias=True, ends=True)
    n = examples.n_nodes
    columns = dense(batch, 6)
    assert_array_equal(columns[:, :3], dense(plain, 3))
    assert_array_equal(columns[:, 3], np.ones(n))
    if joined != "tree":
        has_nodes = np.diff(examples.offsets) > 0
        start, end = examples.offsets[:-1][has_nodes], examples.offsets[1:][has_nodes] - 1
    else:
        start = np.flatnonzero(batch.parent < 0)
        end = np.setdiff1d(np.arange(n), batch.parent)
    assert_array_equal(np.flatnonzero(columns[:, 4]), start)
    assert_array_equal(np.flatnonzero(columns[:, 5]), end)
    assert_array_equal(dense(encode(examples, classes, joined, ends=True), 5)[:, 3:], columns[:, 4:])
    assert_array_equal(dense(encode(examples, classes, joined, bias=True), 4), columns[:, :4])


@given(trees(), st.sampled_from(["independent", "chain"]))
def test_independent_and_chain_ignore_edges(lists, joined):
    """Also ignore edge types and edge features. (`Chain` itself raises an error for such examples.)"""
    examples = Examples.build(**lists)
    with_edges = encode(examples, np.array(["L0", "L1", "L2"]), joined, n_edge_types=1, n_edge_features=0)
    assert_contiguous(with_edges)
    without = encode(as_examples(lists["X"], lists["y"]), np.array(["L0", "L1", "L2"]), joined)
    assert joined == "chain" or (with_edges.parent == -1).all()
    for name in Batch._fields:
        assert_array_equal(getattr(with_edges, name), getattr(without, name))


def test_edges_of_a_chain_carry_types_and_features():
    more = {"edge_types": [[1, 0], [], []], "edge_features": [[[5.0], [6.0]], [], []]}
    batch = encode(chains(**more), CLASSES, "chain")
    assert batch.edge_type.tolist() == [0, 1, 0, 0]
    assert batch.edge_features.ravel().tolist() == [0, 5, 6, 0]


def test_the_input_is_shared_where_nothing_changes():
    examples = chains()
    batch = encode(examples, CLASSES, "chain")
    assert np.shares_memory(batch.data, examples.X.data)
    assert np.shares_memory(batch.indices, examples.X.indices)


def test_allowed_and_label_features_follow_the_classes():
    labels = ["V", "X", "D", "N"]  # X is not a class
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4, 4, 2))
    allowed = np.array([[1, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0]], dtype=bool)
    parts = [slice(0, 3), slice(3, 3), slice(3, 4)]
    examples = chains(
        labels=labels, allowed=[allowed[part] for part in parts], label_features=[features[part] for part in parts]
    )
    batch = encode(examples, CLASSES, "chain")
    assert_contiguous(batch)
    assert batch.allowed.tolist() == allowed[:, [2, 3, 0]].astype(int).tolist()
    assert_array_equal(batch.label_features, features[:, [2, 3, 0]])


def test_a_class_that_is_not_listed_is_not_allowed():
    examples = Examples.build([np.eye(2)], allowed=[None], labels=["N"], label_features=[np.ones((2, 1, 1))])
    batch = encode(examples, CLASSES, "chain")
    assert batch.allowed.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert batch.label_features[:, :, 0].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert_contiguous(batch)


def test_label_features_in_the_order_of_the_classes_are_not_copied():
    examples = Examples.build([np.eye(2)], label_features=[np.ones((2, 3, 1))], labels=CLASSES)
    assert np.shares_memory(encode(examples, CLASSES, "chain").label_features, examples.label_features)


def test_labels_by_node_type():
    examples = chains(node_types=[[0, 3, 0], [], [3]])
    allowed_by_type = labels_by_node_type(examples, CLASSES)
    assert allowed_by_type.astype(int).tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 1]]
    batch = encode(examples, CLASSES, "chain", type_allowed=allowed_by_type)
    assert_contiguous(batch)
    assert batch.allowed.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0], [1, 0, 1]]
    both = chains(node_types=[[0, 3, 0], [], [3]], labels=CLASSES, allowed=[[None, ["N", "V"], None], [], [["D"]]])
    assert encode(both, CLASSES, "chain", type_allowed=allowed_by_type).allowed.tolist() == [
        [0, 1, 0],
        [0, 0, 1],
        [0, 1, 0],
        [1, 0, 0],
    ]


@pytest.mark.parametrize("missing", ["y", "node_types"])
def test_labels_by_node_type_needs_both(missing):
    examples = Examples.build(
        [np.eye(1)], None if missing == "y" else [["D"]], node_types=[[0]] if missing == "y" else None
    )
    with pytest.raises(ValueError, match=f"the examples have no {missing}"):
        labels_by_node_type(examples, CLASSES)


def test_mixed_and_tuple_labels():
    y = [[("a", 1), "b", 3]]
    examples = as_examples([np.eye(3)], y)
    classes = distinct_labels(examples.y)
    assert classes[encode(examples, classes, "chain").y].tolist() == y[0]


SEEN = np.array([[False, True, True], [False, False, False], [True, False, False]])


@pytest.mark.parametrize(
    ("examples", "joined", "options", "message"),
    [
        (chains(), "grid", {}, "joined is 'grid'; choose one of 'chain', 'tree', 'independent'"),
        (
            chains(),
            "tree",
            {},
            r"Tree\(\) needs the edges of every example, but X has none; pass pairs \(node_f",
        ),
        (
            as_examples([np.eye(2)], [["D", "X"]]),
            "chain",
            {},
            r"y\[0\] node 1 has the label 'X', which is not one of the 3",
        ),
        (as_examples(np.eye(2), ["D", "X"]), "chain", {}, r"y\[1\] has the label 'X'"),
        (
            Examples.build([np.eye(2)], allowed=[[["D"], []]], labels=CLASSES),
            "chain",
            {},
            r"X\[0\] node 1 has no allowed label among the 3 classes; allow at least one",
        ),
        (
            Examples.build([np.eye(2)], allowed=[[["D"], ["X"]]], labels=["D", "X"]),
            "chain",
            {},
            r"X\[0\] node 1 has no allowed label",
        ),
        (
            Examples.build([np.eye(2)], [["D", "N"]], allowed=[[["D"], ["D"]]], labels=CLASSES),
            "chain",
            {},
            r"y\[0\] node 1 has the label 'N', which is not allowed there; allow the true label",
        ),
        (chains(), "chain", {"type_allowed": SEEN}, "The model restricts labels by node type, but X has no node_types"),
        (
            Examples.build([np.eye(2)], node_types=[[0, 1]]),
            "chain",
            {"type_allowed": SEEN},
            r"X\[0\] node 1 has node type 1, which did not occur in training",
        ),
        (
            Examples.build([np.eye(2)], node_types=[[0, 3]]),
            "chain",
            {"type_allowed": SEEN},
            r"X\[0\] node 1 has node type 3, which did not occur in training",
        ),
        (
            Examples.build([np.eye(2)], [["N", "N"]], node_types=[[0, 2]]),
            "chain",
            {"type_allowed": SEEN},
            r"y\[0\] node 1 has the label 'N', which is not allowed there",
        ),
        (
            Examples.build([np.eye(2)], label_features=[np.ones((2, 2, 1))], labels=["D", "N"]),
            "chain",
            {},
            "label_features has no values for the class 'V'; list all classes in labels",
        ),
        (
            Examples.build([np.eye(2)], edge_types=[[2]]),
            "chain",
            {"n_edge_types": 2},
            "X has edges of type 2, but the model has weights for types 0 to 1",
        ),
        (
            Examples.build([np.eye(2)], edge_features=[[[1.0, 2.0]]]),
            "chain",
            {"n_edge_features": 1},
            "X has 2 edge features, but the model is expecting 1",
        ),
        (chains(), "chain", {"n_edge_features": 1}, "X has 0 edge features, but the model is expecting 1"),
        (chains(), "chain", {"n_label_features": 1}, "X has 0 label features, but the model is expecting 1"),
        (
            Examples.build([np.eye(3)], edges=[[(0, 1), (1, 2), (2, 0)]]),
            "tree",
            {},
            r"The edges of X\[0\] close a cycle",
        ),
    ],
)
def test_messages(examples, joined, options, message):
    with pytest.raises(ValueError, match=message):
        encode(examples, CLASSES, joined, **options)


def test_sizes_without_weights_are_refused():
    more = {"edge_types": [[1, 0], [], []], "edge_features": [[[5.0], [6.0]], [], []]}
    encode(chains(**more), CLASSES, "chain", n_edge_types=3, n_edge_features=1, n_label_features=0)


def test_single_nodes_are_trees_without_edges():
    batch = encode(as_examples(np.eye(3), ["D", "N", "V"]), CLASSES, "tree")
    assert (batch.parent == -1).all()


def test_forest_order_is_offered_here():
    forest = forest_order(np.array([[1, 0]]), np.array([0, 1]), np.array([0, 2]))
    assert forest.order.tolist() == [1, 0]


@pytest.mark.parametrize(("values", "ones"), [([1.0, 1.0], True), ([1.0, 2.0], False), ([-1.0, 1.0], False)])
def test_features_that_are_all_1(values, ones):
    """Kernels skip the multiplication if all stored values are 1. Zeros are not stored."""
    examples = Examples.build([np.array([[values[0], 0.0], [0.0, values[1]]])], [["N", "V"]])
    assert encode(examples, CLASSES, "chain").ones is ones
    assert encode(examples, CLASSES, "chain", bias=True).ones is ones
