"""`SequenceBinder` binds sequences as `Structure.bind` does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from systems import every_system, flat, labelled_chains, roughly

import maxendnet as mx
from maxendnet import Examples
from maxendnet.estimators.sequence_binder import SequenceBinder
from maxendnet.rules import at_most_once, bio, ends_with, never, regex, starts_with

LABELS = ["B-X", "I-X", "O"]
BOUND_FAST = {
    "chain": mx.Chain(),
    "seen pairs": mx.Chain(pairs="seen"),
    "independent": mx.Independent(),
    "forbidden": mx.Chain(forbidden=[("O", "I-X")]),
    "rules": mx.Chain(rules=[bio(), ends_with("O", "I-X")]),
}
BOUND_AS_USUAL = {
    "bias": mx.Chain(bias=True),
    "ends": mx.Independent(ends=True),
    "order": mx.Chain(order=2),
    "durations": mx.Chain(durations=9),
    "hidden": mx.Chain(hidden=2),
    "rule that remembers": mx.Chain(rules=at_most_once("B-X")),
    "no label at every node": mx.Chain(rules=[starts_with("B-X"), ends_with("O")]),
    "choice": mx.Chain(ngrams="seen"),
}


def sequences(rng, n, named=False):
    """Sequences of zero to six nodes with BIO labels that no feature determines."""
    X, y = [], []
    for length in rng.integers(0, 7, size=n).tolist():
        labels = [str(label) for label in rng.choice(LABELS, size=length)]
        for t in range(length):
            if labels[t] == "I-X" and (t == 0 or labels[t - 1] == "O"):
                labels[t] = "B-X"
        if labels:
            labels[-1] = "I-X" if len(labels) > 1 and labels[-2] != "O" else "O"
        values = rng.normal(size=(length, 3)) * (rng.random((length, 3)) < 0.7)
        X.append([{f"f{k}": v for k, v in enumerate(row)} for row in values.tolist()] if named else values)
        y.append(labels)
    return X, y


def bound_as_usual(model, X, rules=None):
    options = {} if rules is None else {"rules": rules}
    return model.structure.bind(replace(model.read(X), y=None), model.classes, model.layout, **options)


def assert_same_bound(bound, expected):
    assert type(bound) is type(expected) and bound.layout is expected.layout
    for name, value, other in zip(bound.batch._fields, bound.batch, expected.batch):
        assert np.array_equal(value, other), name
        if isinstance(value, np.ndarray):
            assert value.dtype == other.dtype and value.shape == other.shape and value.flags.c_contiguous, name
    assert (bound.forbidden_matrix is None) == (expected.forbidden_matrix is None)
    if bound.forbidden_matrix is not None:
        assert np.array_equal(bound.forbidden_matrix, expected.forbidden_matrix)


@pytest.fixture(scope="module")
def models():
    """Models with numeric and with named features, by structure."""
    rng = np.random.default_rng(0)
    data = [sequences(rng, 30, named) for named in (False, True)]
    return {
        name: [mx.L2CRF(structure=structure, tol=0.1).fit(X, y) for X, y in data]
        for name, structure in BOUND_FAST.items()
    }


@pytest.mark.parametrize("structure", BOUND_FAST)
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["arrays", "sparse", "dicts", "examples", "ones"]),
    scale=st.sampled_from([1.0, 1e7]),
    rules=st.sampled_from([None, never(("O", "B-X")), [starts_with("O", "B-X")], [ends_with("O")]]),
)
def test_random_sequences_are_bound_and_labelled_the_same(models, structure, n, seed, kind, scale, rules):
    X, _ = sequences(np.random.default_rng(seed), n, named=kind == "dicts")
    estimator = models[structure][kind == "dicts"]
    if structure == "independent":
        rules = None
    if kind != "dicts":
        X = [np.ones_like(x) if kind == "ones" else scale * x for x in X]
    if kind == "sparse":
        X = [sparse.csr_array(x) for x in X]
    elif kind == "examples":
        X = Examples.build(X, n_features=3)
    model = estimator.model_
    bound, expected = model.bind(model.read(X), rules=rules), bound_as_usual(model, X, rules)
    assert SequenceBinder.of(model, rules) is not None
    assert_same_bound(bound, expected)
    labels = model.classes[expected.decode(model.weights)]
    assert flat(estimator.predict(X, rules=rules)) == labels.tolist()
    added = np.array([0.5, -0.5, 0.0])
    assert np.array_equal(bound.decode(model.weights, added=added), expected.decode(model.weights, added=added))


@pytest.mark.parametrize("structure", BOUND_AS_USUAL)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_structures_are_bound_as_usual(structure):
    rng = np.random.default_rng(0)
    X, y = sequences(rng, 30)
    if "label" in structure or "remembers" in structure:
        X, y = [np.ones((3, 3))] * 2, [["B-X", "I-X", "O"]] * 2
    estimator = mx.M3N(structure=BOUND_AS_USUAL[structure], tol=0.5, max_passes=3, random_state=0).fit(X, y)
    model = estimator.model_
    assert SequenceBinder.of(model) is None
    bound = model.structure.label_view(bound_as_usual(model, X))
    assert flat(estimator.predict(X)) == model.classes[bound.decode(model.weights)].tolist()


@every_system
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_estimator_predicts_by_it(model, monkeypatch):
    X, y = labelled_chains()
    estimator = roughly(model).fit(X, y)
    expected = estimator.classes_[bound_as_usual(estimator.model_, X).decode(estimator.model_.weights)].tolist()
    monkeypatch.setattr(mx.Chain, "bind", None)
    assert flat(estimator.predict(X)) == expected


def test_examples_with_more_than_features_are_bound_as_usual():
    X, y = sequences(np.random.default_rng(0), 20)
    estimator = mx.L2CRF().fit(X, y)
    x = np.zeros((2, 3))
    limited = Examples.build([x], allowed=[[["O"], ["B-X"]]], labels=LABELS)
    assert estimator.predict(limited) == [["O", "B-X"]]
    with pytest.raises(ValueError, match="X has edges of type 1, but the model has weights for types 0 to 0"):
        estimator.predict(Examples.build([x], edge_types=[[1]]))
    with pytest.raises(ValueError, match="but X has edges"):
        estimator.predict([(x, [(0, 1)])])
    with pytest.raises(ValueError, match="the model is expecting 0"):
        estimator.predict(Examples.build([x], label_features=[np.ones((2, 3, 1))], labels=LABELS))


def test_models_with_more_than_features_refuse_sequences_without():
    x, y = np.zeros((2, 3)), ["O", "B-X"]
    typed = mx.L2CRF().fit(Examples.build([x], [y], node_types=[[0, 1]]))
    with pytest.raises(ValueError, match="X has no node_types"):
        typed.predict([x])
    weighted = mx.L2CRF().fit(Examples.build([x], [y], edge_features=[np.ones((1, 2))]))
    with pytest.raises(ValueError, match="X has 0 edge features, but the model is expecting 2"):
        weighted.predict([x])
    tied = mx.L2CRF().fit(Examples.build([x], [y], label_features=[np.ones((2, 2, 1))], labels=["B-X", "O"]))
    with pytest.raises(ValueError, match="X has 0 label features, but the model is expecting 1"):
        tied.predict([x])
    tree = mx.L2CRF(structure="tree").fit([(x, [(0, 1)])], [y])
    with pytest.raises(ValueError, match=r"Tree\(\) needs the edges"):
        tree.predict([x])


def test_sequences_without_a_labelling_and_mistaken_rules_are_refused():
    X, y = sequences(np.random.default_rng(0), 20)
    estimator, x = mx.L2CRF().fit(X, y), np.zeros((1, 3))
    rules = [starts_with("B-X"), ends_with("O")]
    assert estimator.predict([np.zeros((2, 3))], rules=rules) == [["B-X", "O"]]
    with pytest.raises(ValueError, match=r"X\[1\] node 0 has no possible label"):
        estimator.predict([np.zeros((2, 3)), x], rules=rules)
    assert estimator.predict([x], rules=regex("O")) == [["O"]]
    with pytest.raises(ValueError, match="Z"):
        estimator.predict([x], rules=starts_with("Z"))
    with pytest.raises(ValueError, match="rules need a chain"):
        mx.L2CRF(structure="independent").fit(X, y).predict([x], rules=rules)


def test_a_new_fit_and_a_file_have_their_own_binder(tmp_path):
    X, y = sequences(np.random.default_rng(0), 30)
    estimator = mx.L2CRF(tol=0.1).fit(X, y)
    first = estimator.predict(X)
    estimator.save(tmp_path / "model")
    assert mx.load(tmp_path / "model").predict(X) == first
    swapped = [["O" if label == "B-X" else "B-X" for label in labels] for labels in y]
    estimator.fit(X, swapped)
    assert estimator.classes_.tolist() == ["B-X", "O"]
    assert estimator.predict(X) == mx.L2CRF(tol=0.1).fit(X, swapped).predict(X) != first


def test_threads_with_rules_of_their_own():
    X, y = sequences(np.random.default_rng(0), 30)
    estimator = mx.L2CRF(tol=0.1).fit(X, y)
    rules = [starts_with(*labels) for labels in (["O"], ["B-X"], ["O", "B-X"], ["I-X"])]
    rules += [[rule, ends_with(*labels)] for rule in rules for labels in (["O"], ["B-X", "O"], LABELS)]
    usual = [bound_as_usual(estimator.model_, [X[1]] * 2, rule) for rule in rules]
    expected = [estimator.classes_[bound.decode(estimator.model_.weights)].tolist() for bound in usual]
    with ThreadPoolExecutor(8) as pool:
        predicted = list(pool.map(lambda rule: flat(estimator.predict([X[1]] * 2, rules=rule)), rules * 20))
    assert predicted == expected * 20
