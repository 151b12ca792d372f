"""Forbidden pairs and siblings: error messages, and labels that are never predicted."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, Examples, Independent, LapMEDN, Tree, load
from maxendnet.certificates import pac_bayes
from maxendnet.data.forbidden_pairs import pair_codes
from maxendnet.solvers import (
    ConstraintGeneration,
    PotentialAscent,
    ProximalAscent,
    Smoothing,
)

PAIRS = [("none", "price"), ("none", "offer")]
SYSTEMS = [M3N(), LapMEDN(), L1M3N(), L1M3N(radius=2.0, tol=0.02), CRF(), L1CRF(lam=0.2), L2CRF(lam=0.5)]
every_system = pytest.mark.parametrize("system", SYSTEMS, ids=str)


def pages(n=20, seed=0, y=True):
    """Trees of nested blocks (none or offer) with leaves (none or price). All nodes below a none are none."""
    rng = np.random.default_rng(seed)
    X, labels, edges, kinds = [], [], [], []
    for _ in range(n):
        size = int(rng.integers(4, 9))
        parent = [-1, *(int(rng.integers(0, t)) for t in range(1, size))]
        leaf = [t not in parent for t in range(size)]
        tags = []
        for t in range(size):
            full = rng.random() < 0.6 and (t == 0 or tags[parent[t]] != "none")
            tags.append(("price" if leaf[t] else "offer") if full else "none")
        X.append(np.array([[name != "none", 1.0] for name in tags]) + 0.8 * rng.normal(size=(size, 2)))
        labels.append(tags)
        edges.append([(parent[t], t) for t in range(1, size)])
        kinds.append(np.array(leaf, dtype=int))
    return Examples.build(X, labels if y else None, edges=edges, node_types=kinds)


def broken(examples, labels):
    """Return the number of edges with a forbidden pair."""
    count = 0
    for i, y in enumerate(labels):
        for p, t in examples.edges[examples.edge_offsets[i] : examples.edge_offsets[i + 1]]:
            count += (y[p], y[t]) in PAIRS
    return count


@every_system
def test_no_prediction_has_a_forbidden_pair(system):
    train, test = pages(), pages(60, seed=1)
    test = replace(test, X=test.X + sparse.csr_array(3 * np.random.default_rng(2).normal(size=test.X.shape)))
    without = clone(system).set_params(structure="tree").fit(train)
    if not isinstance(system, CRF):  # whose weights go as far down as it takes
        assert broken(test, without.predict(test)) > 0
    model = clone(system).set_params(structure=Tree(forbidden=PAIRS)).fit(train)
    assert broken(test, model.predict(test)) == 0
    for drawn in model.sample(test, 3, random_state=0):
        assert broken(test, drawn) == 0
    assert model.siblings_.shape == (0, 3, 3, 3)


@every_system
def test_siblings_are_learnt(system):
    """The labels of children alternate independently of their features, so only sibling weights can learn this."""
    rng = np.random.default_rng(0)
    X, y, edges = [], [], []
    for _ in range(30):
        size, first = int(rng.integers(3, 7)), int(rng.integers(2))
        X.append(np.concatenate([np.zeros((1, 3)), rng.normal(size=(size, 3))]))
        X[-1][1, 0] = 4.0 * first - 2.0  # the features of the first child determine its label
        y.append(["top"] + ["ab"[(first + t) % 2] for t in range(size)])
        edges.append([(0, t) for t in range(1, size + 1)])
    examples = Examples.build(X, y, edges=edges)
    strong = {"C": 10.0} if "C" in system.get_params() else {"lam": 0.1} if "lam" in system.get_params() else {}
    strong |= {"radius": 40.0, "solver": ConstraintGeneration()} if getattr(system, "radius", None) else {}
    strong |= {"solver": Smoothing()} if type(system) is L1M3N and system.radius is None else {}  # with a large C
    plain = clone(system).set_params(structure="tree", tol=0.02, **strong).fit(examples)
    model = clone(plain).set_params(structure__siblings=True).fit(examples)
    assert plain.score(examples) < 0.85
    assert model.score(examples) > 0.93
    a, b, top = (model.classes_.tolist().index(label) for label in ("a", "b", "top"))
    weights = model.siblings_
    assert weights.shape == (3, 3, 3)
    assert weights[top, a, b] + weights[top, b, a] > weights[top, a, a] + weights[top, b, b]


def test_settings_survive_clone_and_files(tmp_path):
    model = M3N(structure=Tree(siblings=True, forbidden=PAIRS), tol=0.05).fit(pages())
    again = clone(model)
    assert again.structure.siblings is True and again.structure.forbidden == PAIRS
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.model_.layout == model.model_.layout and loaded.structure.forbidden == PAIRS
    assert loaded.structure.siblings is True
    assert_array_equal(loaded.siblings_, model.siblings_)
    test = pages(5, seed=3)
    for left, right in zip(model.predict_max_marginals(test), loaded.predict_max_marginals(test)):
        assert_array_equal(left, right)


def test_a_chain_has_pairs_too():
    X = [[[1.0], [0.2], [-1.0]], [[-1.0], [1.0]]]
    model = L2CRF(structure=Chain(forbidden=[("O", "I")])).fit(X, [["B", "I", "O"], ["O", "B"]])
    labels = model.predict([np.random.default_rng(0).normal(size=(50, 1))])[0]
    assert "I" in labels and ("O", "I") not in pairwise(labels)
    marginals = model.predict_marginals([[[-3.0], [0.3]]])[0]
    assert_allclose(marginals.sum(axis=1), 1.0)


def test_one_edge_type_more_is_one_cube_more():
    examples = pages()
    kinds = [np.arange(n - 1) % 2 for n in np.diff(examples.offsets)]
    typed = Examples.build(
        [examples.X[a:b].toarray() for a, b in zip(examples.offsets, examples.offsets[1:])],
        [examples.y[a:b] for a, b in zip(examples.offsets, examples.offsets[1:])],
        edges=[examples.edges[a:b] for a, b in zip(examples.edge_offsets, examples.edge_offsets[1:])],
        edge_types=kinds,
    )
    assert L2CRF(structure=Tree(siblings=True)).fit(typed).siblings_.shape == (2, 3, 3, 3)


# ---- invalid input ---------------------------------------------------------------------------------------------------


def test_a_true_labelling_with_a_forbidden_pair_is_named():
    X, y = [([[0.0], [1.0]], [(0, 1)]), ([[0.0], [1.0], [1.0]], [(0, 1), (1, 2)])], [["a", "a"], ["a", "b", "a"]]
    with pytest.raises(ValueError, match=r"y\[1\] node 2 has the label 'a' and its parent y\[1\] node 1 has 'b'"):
        M3N(structure=Tree(forbidden=[("b", "a")])).fit(X, y)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a", "c")], r"forbidden\[0\] is \('a', 'c'\), but no node of y has the label 'c'"),
        ([("a", "b"), ["a", ["b"]]], r"forbidden\[1\] is .* no node of y has the label \['b'\]"),
        (["ab"], r"forbidden\[0\] is 'ab'; expected a pair"),
        ([("a", "b", "a")], r"forbidden\[0\] is .*; expected a pair"),
        ("ab", "forbidden must be a list of pairs"),
        (3, "forbidden must be a list of pairs"),
    ],
)
def test_invalid_pairs_are_named(pairs, message):
    with pytest.raises(ValueError, match=message):
        L2CRF(structure=Chain(forbidden=pairs)).fit([[[0.0], [1.0]]], [["a", "b"]])


def test_pairs_of_any_kind_of_label():
    classes = np.array([3, 5, 7])
    assert pair_codes([(7, 3), (np.int64(3), 7.0), (7, 3)], classes) == ((0, 2), (2, 0))
    assert pair_codes(np.array([[3, 5]]), classes) == ((0, 1),)
    assert pair_codes([], classes) == pair_codes(None, classes) == ()


def test_edges_with_ambiguous_parents_are_refused():
    X = [([[0.0]] * 3, [(0, 1), (2, 1)])]
    with pytest.raises(ValueError, match=r"The edges of X\[0\] do not define parents"):
        L2CRF(structure=Tree(siblings=True)).fit(X, [["a", "b", "a"]])
    model = L2CRF(structure=Tree(siblings=True)).fit([([[0.0]] * 3, [(1, 0), (1, 2)])], [["a", "b", "a"]])
    with pytest.raises(ValueError, match="do not define parents"):
        model.predict(X)


def test_independent_nodes_have_neither():
    for option in ({"siblings": True}, {"forbidden": [("a", "b")]}):
        with pytest.raises(TypeError, match=next(iter(option))):
            Independent(**option)
    with pytest.raises(ValueError, match="Tree needs siblings to be True or False, got 'yes'"):
        M3N(structure=Tree(siblings="yes")).fit([([[0.0], [1.0]], [(0, 1)])], [["a", "b"]])


@pytest.mark.parametrize(
    ("setting", "form"),
    [
        ({"siblings": True}, r"M3N\(structure=Tree\(siblings=True\)\)"),
        ({"forbidden_pairs": [("a", "b")]}, r"M3N\(structure=Tree\(forbidden=\[\('a', 'b'\)\]\)\)"),
    ],
)
def test_settings_that_are_options_of_structures_are_named(setting, form):
    with pytest.raises(TypeError, match=f"{next(iter(setting))} is an option of structures: {form}"):
        M3N(**setting)


def test_a_node_without_a_possible_label_is_named():
    build = {"edges": [[(0, 1), (1, 2)]], "labels": ["a", "b"]}
    model = L2CRF(structure=Tree(forbidden=[("b", "a")])).fit(
        Examples.build([[[0.0], [1.0], [1.0]]], [["a", "a", "b"]], allowed=[[None] * 3], **build)
    )
    test = Examples.build([[[0.0], [1.0], [1.0]]], allowed=[[None, {"b"}, {"a"}]], **build)
    for method in ("predict", "predict_marginals", "predict_max_marginals", "decision_function", "sample"):
        with pytest.raises(ValueError, match=r"X\[0\] node 1 has no possible label"):
            getattr(model, method)(test)


def test_settings_changed_after_the_fit_are_named():
    model = L2CRF(structure=Tree(siblings=True)).fit(pages())
    with pytest.raises(ValueError, match=r"structure was changed after the fit, from Tree\(siblings=True\)"):
        model.set_params(structure__siblings=False).predict(pages())
    with pytest.raises(ValueError, match=r"structure was changed after the fit, from Tree\(siblings=True\)"):
        model.set_params(structure__siblings=True, structure__forbidden=PAIRS).predict(pages())


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (L2CRF(), PotentialAscent()), (L1CRF(), ProximalAscent()),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_solvers_made_for_pairs_refuse_and_name_others(model, solver):
    instead = {"L2CRF": "LBFGS", "L1CRF": "OWLQN"}[type(model).__name__]
    message = rf"needs structure.pairwise, .* on a forest with siblings or .*Solvers that fit: .*{instead}"
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(structure=Tree(siblings=True), solver=solver).fit(pages())


def test_the_k_best_and_the_bounds_know_of_pairs():
    model = M3N(structure=Tree(siblings=True, forbidden=PAIRS), tol=0.1).fit(pages())
    test = pages(3)
    for best, ranked in zip(model.predict(test), model.predict_top(test, 3)):
        assert len(ranked) == 3 and ranked[0][0] >= ranked[1][0] >= ranked[2][0]
        assert_array_equal(ranked[0][1], best)
    for rank in range(3):
        assert broken(test, [ranked[rank][1] for ranked in model.predict_top(test, 3)]) == 0
    assert "pac-bayes" in str(pac_bayes(model, pages(), n_draws=20)).lower()
