"""Hidden states, and one label for each example."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, UNKNOWN, Chain, LapMEDN, load
from maxendnet.data.examples import Examples
from maxendnet.losses import Hinge, Log
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.rules import at_most_once, never, starts_with
from maxendnet.structures.base import Table

CLASSES = np.array(["a", "b"])


def small(seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in (3, 1, 2)]
    y = [["a", "b", "a"], ["b"], ["b", UNKNOWN]]
    return X, y


def path_scores(x, w, n_states):
    """Score of every sequence of states of one example, and their labels."""
    S = 2 * n_states
    node, pairs = w[: 2 * S].reshape(2, S), w[2 * S :].reshape(S, S)
    for states in itertools.product(range(S), repeat=len(x)):
        score = sum(x[t] @ node[:, s] for t, s in enumerate(states))
        score += sum(pairs[s, u] for s, u in itertools.pairwise(states))
        yield states, [CLASSES[s // n_states] for s in states], score


@pytest.mark.parametrize("n_states", [2, 3])
def test_losses_are_enumeration(n_states):
    X, y = small()
    piece = Chain(hidden=n_states)
    bound = piece.bind(Examples.build(X, y), CLASSES)
    w = np.random.default_rng(1).normal(size=bound.layout.n_weights)
    cost = np.array([[0.0, 2.0], [3.0, 0.0]])
    log = Problem.pose(bound, Log(), Gaussian()).loss_and_gradient(w, values=True).values
    hinge_loss = Hinge(cost).for_labels(CLASSES, np.zeros(0), n_states)
    hinge = Problem.pose(bound, hinge_loss, Gaussian()).completed(w).loss_and_gradient(w, values=True).values
    for i, (x, truth) in enumerate(zip(X, y)):
        paths = list(path_scores(x, w, n_states))
        inside = [score for _, labels, score in paths if all(t in (UNKNOWN, a) for a, t in zip(labels, truth))]
        assert_allclose(log[i], logsumexp([score for *_, score in paths]) - logsumexp(inside), atol=1e-10)
        spent = lambda labels: sum(  # noqa: E731
            0.0 if t is UNKNOWN else cost["ab".index(t), "ab".index(a)]
            for a, t in zip(labels, truth)  # noqa: B023
        )
        worst = max(score + spent(labels) for _, labels, score in paths)
        assert_allclose(hinge[i], worst - max(inside), atol=1e-10)


def test_predictions_are_enumeration():
    X, y = small()
    model = L2CRF(lam=0.3, structure=Chain(hidden=2), random_state=0).fit(X, y)
    w = model.model_.weights
    marginals, best = model.predict_marginals(X), model.predict_max_marginals(X)
    drawn = model.sample(X, 50, random_state=0)
    for i, x in enumerate(X):
        paths = list(path_scores(x, w, 2))
        assert model.predict(X)[i] == max(paths, key=lambda path: path[2])[1]
        total = logsumexp([score for *_, score in paths])
        for t in range(len(x)):
            for k, label in enumerate(CLASSES):
                of_label = [score for _, labels, score in paths if labels[t] == label]
                assert_allclose(marginals[i][t, k], np.exp(logsumexp(of_label) - total), atol=1e-10)
                assert_allclose(best[i][t, k], max(of_label), atol=1e-10)
    assert set(itertools.chain.from_iterable(itertools.chain.from_iterable(drawn))) <= {"a", "b"}
    clamped = model.predict(X, given=[["b", UNKNOWN, "b"], UNKNOWN, UNKNOWN])
    assert clamped[0][0] == clamped[0][2] == "b"
    with pytest.raises(ValueError, match="does not support top"):
        model.predict_top(X)


def test_added_scores_of_labels_are_enumeration():
    """What is added to the score of a label counts for all its states."""
    X, y = small()
    piece = Chain(hidden=2)
    bound = piece.bind(Examples.build(X, y), CLASSES)
    predicting, rng = piece.label_view(bound), np.random.default_rng(1)
    w, rows = rng.normal(size=bound.layout.n_weights), 3.0 * rng.normal(size=(2, 2))
    row = rng.integers(2, size=6).astype(np.int32)
    values, labels = predicting.maximum(w, Table(rows, row))
    totals, marginals = predicting.logsum(w, Table(rows, row))
    first = 0
    for i, x in enumerate(X):
        added = rows[row[first : first + len(x)]]
        paths = [
            (found, score + sum(added[t, "ab".index(a)] for t, a in enumerate(found)))
            for _, found, score in path_scores(x, w, 2)
        ]
        best, score = max(paths, key=lambda path: path[1])
        total = logsumexp([score for _, score in paths])
        assert CLASSES[labels[first : first + len(x)]].tolist() == best
        assert_allclose([values[i], totals[i]], [score, total], atol=1e-10)
        of_b = logsumexp([score for found, score in paths if found[0] == "b"])
        assert_allclose(marginals.node[first, 1], np.exp(of_b - total), atol=1e-10)
        first += len(x)


def labelled_paths(piece, bound, x, w, keeps):
    """Score of every sequence of states of one example whose labels keep the rules, and the labels."""
    states = [(label, k) for label in CLASSES.tolist() for k in range(piece.hidden)]
    node = w[: bound.layout.n_node_weights].reshape(-1, len(states))
    grams = piece.ngram_weights(bound.layout, w, CLASSES)
    for path in itertools.product(range(len(states)), repeat=len(x)):
        labels = [states[s][0] for s in path]
        if not keeps(labels):
            continue
        score = sum(x[t] @ node[:, s] for t, s in enumerate(path))
        for n in range(2, piece.order + 2):
            for t in range(len(x) - n + 1):
                score += grams.get(tuple(states[s] for s in path[t : t + n]), 0.0)
        yield labels, score


RULED = {
    "order 2": (Chain(hidden=2, order=2), lambda labels: True),
    "order 3, seen": (Chain(hidden=2, order=3), lambda labels: True),
    "neighbours": (Chain(hidden=2, rules=never(("b", "b"))), lambda labels: "bb" not in "".join(labels)),
    "three states": (Chain(hidden=3, forbidden=[("b", "b")]), lambda labels: "bb" not in "".join(labels)),
    "once": (Chain(hidden=2, order=2, rules=at_most_once("b")), lambda labels: labels.count("b") <= 1),
    "durations": (Chain(hidden=2, durations={"b": (None, 1)}), lambda labels: "bb" not in "".join(labels)),
    "first": (Chain(hidden=2, rules=starts_with("a")), lambda labels: labels[0] == "a"),
    "whole": (Chain(hidden=2, order=2, whole=True), lambda labels: len(set(labels)) == 1),
}


@pytest.mark.parametrize("name", RULED)
def test_order_and_rules_of_hidden_states_are_enumeration(name):
    piece, keeps = RULED[name]
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(n, 2)) for n in (4, 1, 3)]
    y = [["a", "b", "a", "a"], ["a"], ["a", UNKNOWN, "a"]]
    if piece.whole:
        y = [["a"] * 4, ["b"], ["a"] * 3]
    bound = piece.bind(Examples.build(X, y), CLASSES)
    w = rng.normal(size=bound.layout.n_weights)
    if name == "order 3, seen":  # all n-grams of states whose labels were seen: "ab", "ba", "aa"; 3 + 1 longer ones
        assert len(piece.ngram_weights(bound.layout, w, CLASSES)) == 3 * 4 + 2 * 8 + 1 * 16
    predicting = piece.label_view(bound)
    values, labels = predicting.maximum(w)
    totals, marginals = predicting.logsum(w)
    best = predicting.max_marginals(w)
    losses = Problem.pose(bound, Log(), Gaussian()).loss_and_gradient(w, values=True).values
    for i, (x, truth) in enumerate(zip(X, y)):
        begin, paths = int(bound.offsets[i]), list(labelled_paths(piece, bound, x, w, keeps))
        top = max(score for _, score in paths)
        assert_allclose(values[i], top, atol=1e-10)
        found = [str(CLASSES[k]) for k in labels[begin : begin + len(x)]]
        assert any(one == found and score > top - 1e-9 for one, score in paths)
        total = logsumexp([score for _, score in paths])
        assert_allclose(totals[i], total, atol=1e-10)
        inside = [score for one, score in paths if all(t in (UNKNOWN, a) for a, t in zip(one, truth))]
        assert_allclose(losses[i], total - logsumexp(inside), atol=1e-10)
        for t in range(len(x)):
            for k, label in enumerate(CLASSES):
                of_label = [score for one, score in paths if one[t] == label]
                expected = np.exp(logsumexp(of_label) - total) if of_label else 0.0
                assert_allclose(marginals.node[begin + t, k], expected, atol=1e-10)
                assert_allclose(best[begin + t, k], max(of_label, default=-np.inf), atol=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator", [L2CRF(lam=0.01), L1CRF(lam=0.01), M3N(C=10.0), LapMEDN(C=20.0, lam=1.0), L1M3N()]
)
def test_hidden_states_with_rules_fit_predict_and_are_saved(estimator, tmp_path):
    X, y = switching(20, 0)
    piece = Chain(hidden=2, order=2, rules=never(("b", "c"), ("c", "b")))
    model = estimator.set_params(structure=piece, random_state=0, tol=1e-2).fit(X, y)
    noise = [np.random.default_rng(k).normal(size=(6, 4)) for k in range(20)]
    for labels in model.predict(noise):
        assert not {("b", "c"), ("c", "b")} & set(itertools.pairwise(labels))
    ruled = model.predict(noise, rules=at_most_once("b"))
    assert max(labels.count("b") for labels in ruled) <= 1 < max(labels.count("b") for labels in model.predict(noise))
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(noise) == model.predict(noise)


def test_a_truth_that_breaks_a_rule_is_named():
    X = [np.zeros((3, 1))] * 2
    model = M3N(structure=Chain(hidden=2, rules=never(("b", "b"))), random_state=0)
    with pytest.raises(ValueError, match=r"y\[1\] node 2 has the label 'b' after 'b', which breaks the rule never"):
        model.fit(X, [["a", "b", "a"], ["a", "b", "b"]])


def switching(n_examples, seed):
    """Labels a b a c a b a c ...: what follows an "a" depends on what came before it, which the label does not tell.

    The features of "b" and "c" are the same but for the second node. Two states of "a" are enough to remember which
    one comes next.
    """
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_examples):
        first = int(rng.integers(2))
        labels = ["a" if t % 2 == 0 else "bc"[(t // 2 + first) % 2] for t in range(int(rng.integers(4, 11)))]
        x = np.array([[label == "a", label != "a", 0.0, 0.0] for label in labels], dtype=float)
        x[1, 2 + first] = 1.0
        X.append(x)
        y.append(labels)
    return X, y


@pytest.mark.parametrize(
    "estimator", [L2CRF(lam=0.01), CRF(max_passes=300), L1CRF(lam=0.01), M3N(C=10.0), LapMEDN(C=20.0, lam=1.0)]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_hidden_states_learn_what_labels_cannot(estimator):
    X, y = switching(60, 0)
    X_test, y_test = switching(60, 1)
    plain = L2CRF(lam=0.01).fit(X, y).score(X_test, y_test)
    best = max(
        estimator.set_params(structure=Chain(hidden=2), random_state=seed, tol=1e-2).fit(X, y).score(X_test, y_test)
        for seed in range(4)
    )
    assert plain < 0.9
    assert best > plain + 0.1


def whole_examples(seed, n=40):
    """Class "up" where a 1 is followed by a 2 somewhere, "down" where a 2 is followed by a 1, noise around."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(3, 7))
        signs = np.zeros(length, dtype=int)
        place = int(rng.integers(length - 1))
        up = bool(rng.integers(2))
        signs[place : place + 2] = (1, 2) if up else (2, 1)
        X.append(np.eye(3)[signs])
        y.append("up" if up else "down")
    return X, y


@pytest.mark.parametrize("estimator", [L2CRF(lam=0.01), M3N(C=20.0), LapMEDN(C=50.0, lam=1.0), L1M3N(C=5.0)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_label_for_each_example(estimator, tmp_path):
    X, y = whole_examples(0)
    X_test, y_test = whole_examples(1)
    model = estimator.set_params(structure=Chain(hidden=2, whole=True), random_state=0, tol=1e-2).fit(X, y)
    found = model.predict(X_test)
    assert found.shape == (40,)
    assert model.score(X_test, y_test) == np.mean(found == np.array(y_test)) > 0.9
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict(X_test).tolist() == found.tolist()
    assert model.predict(X_test, given=["up"] * 40).tolist() == ["up"] * 40
    probabilities = model.predict_marginals(X_test)
    for p in probabilities:  # all nodes of an example have the same label
        assert_allclose(p, np.repeat(p[:1], len(p), axis=0), atol=1e-9)


def test_wrong_labels_cost_the_same_whatever_the_length():
    bound = Chain(whole=True).bind(Examples.build([np.eye(2), np.eye(2)[:1]], [["a", "a"], ["b"]]), CLASSES)
    values = (
        Problem.pose(bound, Hinge(), Gaussian()).loss_and_gradient(np.zeros(bound.layout.n_weights), values=True).values
    )
    assert_allclose(values, [1.0, 1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden to be a whole number of at least 1"),
        ({"hidden": True}, "hidden to be a whole number"),
        ({"whole": 1}, "whole to be True or False"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        M3N(structure=Chain(**options)).fit(*small())


def test_examples_without_nodes_have_no_label():
    with pytest.raises(ValueError, match=r"X\[1\] has no nodes"):
        M3N(structure=Chain(whole=True)).fit([np.eye(2), np.zeros((0, 2))], ["a", "b"])
