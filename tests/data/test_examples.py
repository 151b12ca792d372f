"""`Examples`: reading of user input, and indexing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing

from maxendnet.data.examples import Examples, as_examples, distinct_labels

LABELS = ["a", "b", "c"]
ARRAYS = ["y", "offsets", "edges", "edge_offsets", "edge_types", "edge_features", "node_types", "allowed"]
ARRAYS += ["label_features", "sample_weight"]


def assert_same(actual, expected):
    assert actual.X.shape == expected.X.shape
    assert_array_equal(actual.X.toarray(), expected.X.toarray())
    assert actual.X.has_canonical_format and actual.X.indices.dtype == np.int32
    for name in ARRAYS:
        left, right = getattr(actual, name), getattr(expected, name)
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.shape == right.shape, name
            assert left.tolist() == right.tolist(), name
    for name in ("labels", "feature_names", "flat"):
        assert getattr(actual, name) == getattr(expected, name)


@st.composite
def inputs(draw):
    """Keyword arguments for Examples.build, each a list over examples, and the settings shared by all."""
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    with_edges = draw(st.booleans())
    edges = []
    for n in lengths:
        name = rng.permutation(n)
        edges.append(
            [(int(name[t]), int(name[rng.integers(t)])) for t in range(1, n) if not with_edges or rng.random() < 0.7]
        )
    lists = {
        "X": [rng.integers(0, 2, (n, 3)).astype(float) for n in lengths],
        "y": [[LABELS[k] for k in rng.integers(0, 3, n)] for n in lengths],
        "edge_types": [rng.integers(0, 3, len(here)) for here in edges],
        "edge_features": [rng.normal(size=(len(here), 2)) for here in edges],
        "node_types": [rng.integers(0, 3, n) for n in lengths],
        "allowed": [rng.random((n, 3)) < 0.5 for n in lengths],
        "label_features": [rng.normal(size=(n, 3, 2)) for n in lengths],
        "sample_weight": rng.uniform(0.5, 1, len(lengths)),
    }
    if with_edges:
        lists["edges"] = edges
    if draw(st.booleans()):
        lists["X"] = [[{f"f{k}": row[k] for k in range(3)} for row in item] for item in lists["X"]]
    dropped = draw(st.sets(st.sampled_from(sorted(set(lists) - {"X", "edges"}))))
    remaining = {name: values for name, values in lists.items() if name not in dropped}
    return remaining, {"labels": LABELS} if {"allowed", "label_features"} & set(remaining) else {}


def without_any(values, name):
    """Whether no example has an entry, so that the number of features is unknown."""
    return name in values and not any(len(entry) for entry in values[name])


@given(inputs(), st.data())
def test_indexing_is_building_from_the_sublists(case, data):
    lists, settings = case
    examples = Examples.build(**lists, **settings)
    n = len(lists["X"])
    rows = data.draw(st.lists(st.integers(-n, n - 1), min_size=1))
    chosen = {name: [values[i] for i in rows] for name, values in lists.items()}
    # if no example has an edge or a node, the number of features cannot be determined from a list
    assume(not any(without_any(chosen, name) for name in ("edge_features", "label_features")))
    expected = Examples.build(**chosen, **settings, feature_names=examples.feature_names)
    assert_same(examples[rows], expected)


@given(inputs(), st.data())
def test_every_kind_of_index(case, data):
    lists, settings = case
    examples = Examples.build(**lists, **settings)
    n = len(examples)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    rows = np.flatnonzero(mask)
    assert_same(examples[mask], examples[rows])
    assert_same(examples[mask.tolist()], examples[rows.tolist()])
    assert_same(examples[rows, ...], examples[rows])
    part = data.draw(st.slices(n))
    assert_same(examples[part], examples[np.arange(n)[part]])
    i = data.draw(st.integers(-n, n - 1))
    assert_same(examples[i], examples[[i]])
    assert_same(examples[np.int32(i)], examples[[i]])
    assert_same(examples[:], examples)
    assert_same(examples[rows][:0], examples[[]])
    assert len(examples[[]]) == 0
    assert [len(one) for one in examples] == [1] * n


def small(**more):
    return Examples.build([np.eye(2), np.eye(2)[:1], np.zeros((0, 2))], [["a", "b"], ["a"], []], **more)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "Index 3 is out of range for 3 examples"),
        (-4, "Index -4 is out of range"),
        ([0, 5], "Index 5 is out of range"),
        (np.array([True, False]), r"The mask has shape \(2,\) but there are 3 examples"),
        (1.5, "1.5 is not an index"),
        ("a", "'a' is not an index"),
        ([[0, 1]], "is not an index"),
        ((0, 1), "Examples have one axis"),
    ],
)
def test_index_messages(key, message):
    with pytest.raises(IndexError, match=message):
        small()[key]


def test_size_and_repr():
    examples = small()
    assert len(examples) == 3
    assert examples.shape == (3, 2)
    assert (examples.n_nodes, examples.n_features) == (3, 2)
    assert repr(examples) == "Examples(n_examples=3, n_nodes=3, n_features=2)"
    assert (examples.n_edge_types, examples.n_edge_features, examples.n_label_features) == (1, 0, 0)
    full = small(
        edge_types=[[4], [], []],
        edge_features=[np.ones((1, 3)), [], []],
        label_features=[np.ones((2, 2, 5)), np.ones((1, 2, 5)), []],
        labels=["a", "b"],
    )
    assert (full.n_edge_types, full.n_edge_features, full.n_label_features) == (5, 3, 5)
    assert full[[2]].n_edge_types == 1


def test_dtypes():
    examples = small(edges=[[(1, 0)], [], []], edge_types=[[1], [], []], node_types=[[0, 1], [1], []])
    assert examples.offsets.dtype == examples.edge_offsets.dtype == np.int64
    assert examples.edges.dtype == examples.edge_types.dtype == examples.node_types.dtype == np.int32
    assert examples.edges.tolist() == [[1, 0]]


def test_split_gives_one_array_per_example():
    examples = small()
    assert [part.tolist() for part in examples.split(np.array([5, 6, 7]))] == [[5, 6], [7], []]
    flat = as_examples(np.eye(2))
    values = np.array([3, 4])
    assert flat.split(values) is values


def test_pickle():
    examples = small(sample_weight=[1, 2, 3])
    assert_same(pickle.loads(pickle.dumps(examples)), examples)


def test_scikit_learn_splits_examples():
    examples = small(sample_weight=[1, 2, 3])
    train, test = train_test_split(examples, test_size=1, random_state=0)
    assert isinstance(train, Examples) and isinstance(test, Examples)
    assert len(train) + len(test) == 3
    for rows, _ in KFold(3).split(examples):
        assert_same(_safe_indexing(examples, rows), examples[rows])


def test_pairs_bring_their_edges():
    X = [(np.eye(3), [(0, 1), (0, 2)]), (np.eye(3)[:1], [])]
    y = [["a", "b", "b"], ["a"]]
    expected = Examples.build([item for item, _ in X], y, edges=[edges for _, edges in X])
    assert_same(as_examples(X, y), expected)
    assert expected.edges.tolist() == [[0, 1], [0, 2]]
    named = as_examples([([["a"], ["b"]], np.array([[1, 0]]))])
    assert named.edges.tolist() == [[1, 0]] and named.feature_names == ("a", "b")


def test_chains_have_types_and_features_of_their_implied_edges():
    examples = Examples.build(
        [np.eye(3), np.eye(3)[:0], np.eye(3)[:2]],
        edge_types=[[0, 1], [], [2]],
        edge_features=[[[1.0], [2.0]], [], [[3.0]]],
    )
    assert examples.edges is None and examples.edge_offsets is None
    assert examples[[2, 0]].edge_types.tolist() == [2, 0, 1]
    assert examples[[2, 0]].edge_features.ravel().tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match=r"edge_types\[0\] has 3 rows but X\[0\] has 2 edges"):
        Examples.build([np.eye(3)], edge_types=[[0, 1, 0]])


def test_a_table():
    examples = Examples.build(
        np.eye(3),
        ["a", "b", "a"],
        node_types=[0, 1, 0],
        allowed=[["a"], None, ["a", "b"]],
        labels=["a", "b"],
        sample_weight=[1, 2, 3],
    )
    assert examples.flat and len(examples) == 3
    assert examples[[2, 0]].flat
    assert examples[[1]].allowed.tolist() == [[True, True]]
    assert examples[[1]].node_types.tolist() == [1]


def test_label_features_of_a_table():
    values = np.arange(12.0).reshape(3, 2, 2)
    examples = Examples.build(np.eye(3), label_features=values, labels=["a", "b"])
    assert_array_equal(examples[[1]].label_features, values[1:2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.eye(2), "edges": [[], []]}, "X is one table, in which each example is one node without edges"),
        ({"X": np.eye(2), "edge_types": [[], []]}, "X is one table"),
        ({"X": [np.eye(2)], "allowed": [None]}, "allowed is given without labels; pass labels="),
        ({"X": [np.eye(2)], "label_features": [np.ones((2, 2, 1))]}, "label_features is given without labels"),
        (
            {"X": [(np.eye(2), [])], "edges": [[]]},
            r"X has pairs \(node_features, edges\), and edges= is given too",
        ),
        ({"X": [(np.eye(2), np.eye(2))]}, r"The edges of X\[0\] have .* dtype float64.*a pair in X is read as"),
        ({"X": [({"a": 1}, {"b": 1})]}, r"X\[0\] is a dict; an example is"),
        ({"X": [np.eye(2)], "y": [["a"]]}, r"y\[0\] has 1 labels but X\[0\] has 2 nodes; expected one label per node."),
        ({"X": [np.eye(2)], "y": [["a", "b"], ["a"]]}, "X has 1 examples but y has 2"),
        ({"X": [np.eye(2)], "y": "ab"}, "y is the string 'ab'; expected a list of labels per example"),
        ({"X": [np.eye(2)], "sample_weight": [1.0, 2.0]}, "Sample weights have shape"),
    ],
)
def test_messages(arguments, message):
    with pytest.raises(ValueError, match=message):
        Examples.build(**arguments)


@pytest.mark.parametrize("function", [Examples.build, as_examples])
def test_arguments_that_do_not_exist(function):
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'weights'; it was renamed to sample_weight"):
        function([np.eye(2)], [["a", "b"]], weights=[1.0])
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'colour'\.$"):
        function([np.eye(2)], [["a", "b"]], colour=1)


def test_examples_pass_through_and_take_new_labels_and_weights():
    examples = small(sample_weight=[1, 2, 3])
    assert as_examples(examples) is examples
    replaced = as_examples(examples, [["c", "d"], ["e"], []], sample_weight=[3, 2, 1])
    assert replaced.y.tolist() == ["c", "d", "e"]
    assert replaced.sample_weight.tolist() == [3, 2, 1]
    assert examples.y.tolist() == ["a", "b", "a"]
    with pytest.raises(ValueError, match=r"y\[1\] has 2 labels but X\[1\] has 1 nodes"):
        as_examples(examples, [["c", "d"], ["e", "f"], []])


def test_named_examples_are_put_in_the_order_of_the_model():
    train = as_examples([[{"a": 1, "b": 2}], [{"c": 3}]])
    test = as_examples([[{"c": 5, "d": 6}], [{"a": 7}]])
    aligned = as_examples(test, feature_names=train.feature_names, n_features=3)
    assert aligned.feature_names == ("a", "b", "c")
    assert aligned.X.toarray().tolist() == [[0, 0, 5], [7, 0, 0]]
    assert as_examples(train, feature_names=train.feature_names) is train


def test_examples_must_have_the_features_of_the_model():
    with pytest.raises(ValueError, match="X has 2 features, but M3N is expecting 3 features as input"):
        as_examples(small(), n_features=3, estimator="M3N")
    with pytest.raises(ValueError, match="X has 2 features, but the model is expecting 1 features as input"):
        as_examples(small(), feature_names=["a"])
    with pytest.raises(ValueError, match="X has named features, but M3N was fitted on arrays without names"):
        as_examples(as_examples([[{"a": 1}]]), n_features=1, estimator="M3N")


def test_needs_y():
    for X in ([np.eye(2)], Examples.build([np.eye(2)])):
        with pytest.raises(ValueError, match="M3N requires y to be passed, but the target y is None"):
            as_examples(X, estimator="M3N", needs_y=True)
    assert as_examples(small(), needs_y=True).y is not None


def test_sparse_input_is_never_dense():
    # a dense copy would be 8 TB
    X = sparse.csr_array((np.ones(3), np.array([5, 10**6, 7]), np.array([0, 2, 2, 3])), shape=(3, 2**30))
    examples = as_examples([X, X], [[0, 1, 0], [1, 1, 0]])
    assert examples[[1, 0, 1]].X.nnz == 9
    assert distinct_labels(examples.y).tolist() == [0, 1]


def test_conversion_to_an_array_is_refused_with_advice():
    examples = Examples.build([[[0.0], [1.0]], [[1.0]]])
    for make in (np.asarray, np.array, lambda x: np.asarray(x, dtype=float)):
        with pytest.raises(
            TypeError, match=r"cannot be converted to an array, .*examples.X.toarray\(\).*OnNodes\(StandardScaler\(\)\)"
        ):
            make(examples)
