"""Named features, compared with DictVectorizer, and error messages."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer

from maxendnet.data import feature_dicts
from maxendnet.data.feature_dicts import align_columns, encode_feature_dicts

names = st.sampled_from(["a", "b", "c", "dd", "é"])
values = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["x", "y", ""]))
dicts = st.dictionaries(names, values, max_size=4)


def nested(depth):
    return {"a": nested(depth - 1) if depth else 1}


def is_canonical(X):
    return X.has_canonical_format and X.data.all() and X.data.dtype == np.float64 and X.indices.dtype == np.int32


@given(st.lists(st.lists(dicts, max_size=4), min_size=1, max_size=4))
def test_equals_dict_vectorizer(examples):
    X, names = encode_feature_dicts(examples)
    nodes = [node for example in examples for node in example]
    vectorizer = DictVectorizer()
    expected = vectorizer.fit_transform(nodes).toarray() if nodes else np.zeros((0, 0))
    is_used = np.abs(expected).sum(axis=0) > 0  # unlike DictVectorizer, names whose values are all zero are left out
    assert names == tuple(np.array(vectorizer.get_feature_names_out() if nodes else [], dtype=object)[is_used])
    assert_array_equal(X.toarray(), expected[:, is_used])
    assert is_canonical(X)


@given(st.lists(st.lists(dicts, max_size=4), min_size=1, max_size=4), st.lists(st.lists(dicts, max_size=4), max_size=4))
def test_known_names_keep_their_columns_and_others_are_ignored(train, test):
    X, names = encode_feature_dicts(train)
    assert_array_equal(encode_feature_dicts(train, names)[0].toarray(), X.toarray())
    X_both, all_names = encode_feature_dicts([*train, *test])
    expected = X_both.toarray()[X.shape[0] :][:, [all_names.index(name) for name in names]]
    X_test, same = encode_feature_dicts(test, names)
    assert same == names
    assert_array_equal(X_test.toarray(), expected)
    assert is_canonical(X_test)


def test_blocks_are_joined(monkeypatch):
    examples = [[{"a": i, "b": str(i)}, ["c"]] for i in range(7)]
    X, names = encode_feature_dicts(examples)
    monkeypatch.setattr(feature_dicts, "BLOCK_ENTRIES", 4)
    X_blocks, names_blocks = encode_feature_dicts(examples)
    assert names == names_blocks
    assert_array_equal(X.toarray(), X_blocks.toarray())


def test_collections_of_names():
    X, names = encode_feature_dicts([[["b", "a"], ("a", "a")], [{"b"}, frozenset(), np.array(["a"])]])
    assert names == ("a", "b")
    assert X.toarray().tolist() == [[1, 1], [2, 0], [0, 1], [0, 0], [1, 0]]


def test_values_of_other_number_types():
    node = {"a": np.float32(0.5), "b": np.bool_(True), "c": Fraction(1, 4), "d": np.int8(3), "e": np.float16(2)}
    X, names = encode_feature_dicts([[node]])
    assert names == tuple("abcde")
    assert X.toarray().tolist() == [[0.5, 1.0, 0.25, 3.0, 2.0]]


FORMS_OF_CRFSUITE = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["x", "y", "é"]),
        st.lists(st.sampled_from("xyz"), max_size=3, unique=True), st.sets(st.sampled_from("xyz"), max_size=3),
    ),
    lambda inner: st.dictionaries(st.sampled_from(["p", "q"]), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@given(
    st.lists(
        st.one_of(st.dictionaries(names, FORMS_OF_CRFSUITE, max_size=3), st.lists(names, max_size=3, unique=True)),
        max_size=4,
    )
)
def test_all_forms_that_crfsuite_takes_give_its_features(nodes):
    """CRFsuite uses ``:`` instead of ``=`` in names, and keeps features with the value 0."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite (pip install python-crfsuite)")
    X, names = encode_feature_dicts([nodes])
    rows = X.toarray()
    for t, expected in enumerate(pycrfsuite.ItemSequence(nodes).items()):
        total = {}
        for name, value in zip(names, rows[t]):
            if value != 0:
                name = name.replace("=", ":")
                total[name] = total.get(name, 0.0) + value
        assert total == {name: value for name, value in expected.items() if value != 0}


def test_collections_and_dicts_as_values():
    node = {"ends": ["ing", "ng"], "next": {"word": "dog", "title": False, "length": 3, "in": {"list": ("a",)}}}
    X, names = encode_feature_dicts([[node]])
    assert names == ("ends=ing", "ends=ng", "next:in:list=a", "next:length", "next:word=dog")
    assert X.toarray().tolist() == [[1.0, 1.0, 1.0, 3.0, 1.0]]


def test_names_are_indexed_once():
    names = feature_dicts.FeatureNames(["a", "b=x"])
    X, same = encode_feature_dicts([[{"a": 2, "b": "x", "c": 1}, {"b": "y"}, ["d"]]], names)
    assert same is names and X.toarray().tolist() == [[2.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    assert len(names.places) == 2, "unknown names must not be kept"
    assert pickle.loads(pickle.dumps(names)) == ("a", "b=x")


def test_string_subclasses():
    X, names = encode_feature_dicts([[{np.str_("a"): np.str_("x")}, [np.str_("b")]]])
    assert names == ("a=x", "b")
    assert {type(name) for name in names} == {str}
    assert X.toarray().tolist() == [[1, 0], [0, 1]]


def test_a_name_that_comes_twice_in_a_node_is_added_up():
    X, names = encode_feature_dicts([[{"a": "x", "a=x": 2.0}, {"a": "x", "a=x": -1}]])
    assert names == ("a=x",)
    assert X.toarray().tolist() == [[3.0], [0.0]]
    assert is_canonical(X)


def test_nothing_named():
    X, names = encode_feature_dicts([[{}, []], []])
    assert X.shape == (2, 0) and names == ()


def test_an_integer_beyond_float64_becomes_infinity_for_the_caller_to_refuse():
    X, _ = encode_feature_dicts([[{"a": 10**400, "b": 1}]])
    assert X.toarray().tolist() == [[np.inf, 1.0]]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            {"a": {"b": None}},
            r"X\[1\] node 2 feature 'a:b' has a value of type NoneType; expected a bool, a number, a string",
        ),
        ({"a": {3: 1}}, r"X\[1\] node 2 feature 'a' has a dict with the key 3 of type int; keys must be strings"),
        (
            {"a": ["b", 1]},
            r"X\[1\] node 2 feature 'a' has a list with 1 of type int inside; a collection holds strings",
        ),
        ({"a": {"b": [None]}}, r"X\[1\] node 2 feature 'a:b' has a list with None of type NoneType inside"),
        ({"a": None}, r"X\[1\] node 2 feature 'a' has a value of type NoneType"),
        (nested(30), r"X\[1\] node 2 feature '(a:)+a' has dicts nested more than 20 deep; flatten them"),
        ({"a": 1j}, r"X\[1\] node 2 feature 'a' has a value of type complex"),
        ({"a": np.complex64(1)}, r"X\[1\] node 2 feature 'a' has a value of type complex64"),
        ({"a": b"x"}, r"X\[1\] node 2 feature 'a' has a value of type bytes"),
        ({3: "x"}, r"X\[1\] node 2 has the feature name 3 of type int; feature names must be strings"),
        ({3: 1.0}, r"X\[1\] node 2 has the feature name 3 of type int"),
        ({None: True}, r"X\[1\] node 2 has the feature name None"),
        ([3], r"X\[1\] node 2 has the feature name 3"),
        ([["a"]], r"X\[1\] node 2 has the feature name \['a'\] of type list"),
        ("word", r"X\[1\] node 2 is 'word'; expected a dict of features or a list of feature names"),
        (None, r"X\[1\] node 2 is None; expected a dict"),
        (3.5, r"X\[1\] node 2 is 3.5; expected a dict"),
        ((name for name in "ab"), r"X\[1\] node 2 is a generator; expected a dict"),
    ],
)
@pytest.mark.parametrize("known", [None, ["a"]])
def test_messages(node, message, known):
    with pytest.raises(ValueError, match=message):
        encode_feature_dicts([[{}], [{"a": 1}, ["a"], node]], known)


def test_feature_names_must_be_distinct():
    with pytest.raises(ValueError, match="contains a name twice"):
        encode_feature_dicts([[{"a": 1}]], ["a", "b", "a"])


@given(st.permutations(list("abcd")), st.lists(st.sampled_from("abcdef"), unique=True))
def test_align_columns(old, new):
    X = sparse.csr_array(np.arange(12.0).reshape(3, 4))
    before = X.toarray()
    aligned = align_columns(X, old, new)
    expected = np.zeros((3, len(new)))
    for k, name in enumerate(new):
        if name in old:
            expected[:, k] = before[:, old.index(name)]
    assert_array_equal(aligned.toarray(), expected)
    assert_array_equal(X.toarray(), before)  # the input is not sorted in place
    assert is_canonical(aligned)
