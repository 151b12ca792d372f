"""Options that need too much memory raise an error early; unreachable states need no memory."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import maxendnet as mx
from maxendnet import Chain, Examples
from maxendnet.rules import regex
from maxendnet.structures.automata import label_regex
from maxendnet.utils import memory

X_SHORT, Y_SHORT = [np.array([[0.0], [1.0], [0.5]]), np.array([[1.0]])], [["a", "b", "b"], ["b"]]


@pytest.mark.parametrize(
    "options, size",
    [
        ({"hidden": 10**6}, r"4,000,000,000,000 weights and needs at least [\d.]+ TiB"),
        ({"hidden": 10**6, "order": 3}, "needs at least"),
        ({"hidden": 10**3, "order": 2, "ngrams": "seen"}, r"n-grams of states needs at least [\d.]+ GiB"),
        ({"order": 30, "ngrams": "all"}, r"order 30 with all n-grams of 2 labels: .* 2,147,483,647 states .* TiB"),
        ({"order": 10**12, "ngrams": "all"}, "too large and needs at least"),
        ({"rules": regex("a b{1000000000}")}, "it repeats more than 100,000 times"),
    ],
)
def test_settings_that_need_too_much_memory_are_refused_at_once(options, size, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**30)
    tracemalloc.start()
    with pytest.raises(ValueError, match=size):
        mx.M3N(structure=Chain(**options)).fit(X_SHORT, Y_SHORT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**28


def test_all_ngrams_of_a_single_label_are_limited_too():
    with pytest.raises(ValueError, match="order 10000000 with all n-grams of 1 labels"):
        mx.M3N(structure=Chain(order=10**7, ngrams="all")).fit([np.ones((2, 1))], [["a", "a"]])


def test_seen_ngrams_of_long_examples_are_limited(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**24)
    y = [np.random.default_rng(0).choice(["a", "b"], size=400).tolist()]
    with pytest.raises(ValueError, match=r"order 300: the table of n-grams of at most .* 16 MiB are available"):
        mx.M3N(structure=Chain(order=300)).fit([np.ones((400, 1))], y)


@pytest.mark.parametrize("pattern", ["(a?){900} b*", "((a{900}){900}){900} b"])
def test_work_for_patterns_is_limited(pattern, monkeypatch):
    monkeypatch.setattr(label_regex, "MAX_WORK", 10**5)
    monkeypatch.setattr(label_regex, "MAX_STATES", 10**3)
    with pytest.raises(ValueError, match="its automaton is too large; repeat fewer labels"):
        mx.M3N(structure=Chain(rules=regex(pattern))).fit(X_SHORT, Y_SHORT)


def test_an_order_beyond_the_longest_example_adds_nothing():
    longest, longer = (mx.L2CRF(structure=Chain(order=k, ends=True)).fit(X_SHORT, Y_SHORT) for k in (4, 10**9))
    assert dict(longer.ngrams_) == dict(longest.ngrams_)


@pytest.mark.parametrize("durations", [10**7, 10**30, {"b": (None, 10**12)}, {"b": (1, 10**12), "a": (1, None)}])
def test_durations_beyond_the_longest_example_change_nothing(durations, tmp_path):
    plain, model = (mx.L2CRF(structure=Chain(durations=d)).fit(X_SHORT, Y_SHORT) for d in ({}, durations))
    assert_array_equal(model.model_.weights, plain.model_.weights)
    model.save(tmp_path / "model.medn")
    X = [np.random.default_rng(1).normal(size=(20, 1))]
    assert mx.load(tmp_path / "model.medn").predict(X) == model.predict(X) == plain.predict(X)


def test_durations_count_in_examples_that_are_longer_than_those_of_the_fit():
    model = mx.L2CRF(structure=Chain(durations=4)).fit(X_SHORT, Y_SHORT)
    text = "".join(model.predict([np.ones((20, 1))])[0])
    assert "bbbb" in text and "bbbbb" not in text and "aaaaa" not in text
    assert model.predict([np.ones((4, 1))]) == [list("bbbb")]


def test_a_shortest_run_beyond_the_longest_example_excludes_the_label():
    X, y = [np.zeros((5, 1)), *X_SHORT], [list("aaaaa"), list("bbb"), ["b"]]
    model = mx.L2CRF(structure=Chain(durations={"a": (5, None)})).fit(X, y)
    assert model.predict([np.zeros((4, 1)), np.zeros((5, 1))])[0] == list("bbbb")
    assert model.predict([np.zeros((4, 1))]) == [list("bbbb")]


def test_weights_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    n = 60
    examples = Examples.build([np.ones((n, 1))], [list(range(n))], edges=[[(0, t) for t in range(1, n)]])
    with pytest.raises(ValueError, match=r"Tree\(siblings=True\) with 60 labels or states has 219,660 weights"):
        mx.M3N(structure=mx.Tree(siblings=True)).fit(examples)
    for structure in (mx.Chain(), mx.Choice(rest=0), mx.Independent()):
        with pytest.raises(
            ValueError, match=r"weights and needs at least [\d.]+ GiB of memory, but 1 MiB are available"
        ):
            mx.M3N(structure=structure).fit(sparse.csr_array((n, 10**7)), list(range(n)))


def test_tables_of_elimination_that_do_not_fit_into_memory_are_refused():
    n = 42
    edges = [list(itertools.combinations(range(n), 2))]
    examples = Examples.build([np.ones((n, 1))], [["a", "b"] * (n // 2)], edges=edges)
    with pytest.raises(ValueError, match=r"elimination with max_table=1e\+15 needs at least 32 TiB of memory"):
        mx.M3N(structure=mx.Graph(max_table=1e15)).fit(examples)
