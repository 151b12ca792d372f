"""Chains of higher order and with rules, compared with enumeration of all labellings and with n-gram counts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from maxendnet import Examples
from maxendnet.rules import at_most_once, bio, bioes, ends_with, never, regex, starts_with
from maxendnet.structures import Chain, Table
from maxendnet.structures.automata.automaton import intersect, sweeps_of
from maxendnet.structures.automata.ngrams import all_ngrams, automaton_of, seen_ngrams, table_of_all
from maxendnet.structures.base import ExcessOptions
from maxendnet.structures.bound.automaton import BoundAutomaton, Reader
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.rules import Durations

pytestmark = pytest.mark.usefixtures("every_level")

LABELS = np.array(["p", "q", "r"])
SIZES = (3, 1, 0, 4, 2)


def examples_of(seed, allowed=False, label_features=False, y=None):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in SIZES]
    y = [rng.choice(LABELS, size=n).tolist() for n in SIZES] if y is None else y
    more = {}
    if allowed:
        masks = [rng.random((n, 3)) < 0.6 for n in SIZES]
        for mask, own in zip(masks, y):
            mask[np.arange(len(own)), np.searchsorted(LABELS, own)] = True
        more |= {"allowed": masks, "labels": LABELS.tolist()}
    if label_features:
        more |= {"label_features": [rng.normal(size=(n, 3, 2)) for n in SIZES], "labels": LABELS.tolist()}
    return Examples.build(X, y, sample_weight=rng.uniform(0.5, 2.0, size=len(SIZES)), **more)


def plain_score(piece, bound, w, i, labels):
    """Return the score of a labelling by its definition: node features times weights, plus the weights of its
    n-grams."""
    layout, batch = bound.layout, bound.batch
    first, L = int(batch.offsets[i]), 3
    total = 0.0
    for t, a in enumerate(labels):
        for k in range(batch.indptr[first + t], batch.indptr[first + t + 1]):
            place = layout.node_places(batch.indices[k : k + 1], np.array([a]))[0]
            total += batch.data[k] * w[place] if place >= 0 else 0.0
        total += (
            batch.label_features[first + t, a] @ layout.segments(w).label_features if layout.n_label_features else 0
        )
    table = layout.ngrams or table_of_all(L, piece.order, piece.ends)
    weight = dict(zip(table.tuples(), w[layout.n_node_weights :]))
    symbols = [L, *labels, L + 1] if piece.ends else list(labels)
    for n in range(2, piece.order + 2):
        for k in range(len(symbols) - n + 1):
            gram = tuple(symbols[k : k + n])
            if len(labels) and (n > 2 or max(gram) < L):
                total += weight.get(gram, 0.0)
    return total


def enumerated(piece, bound, w, possible, table=None):
    """Return all labellings of each example, and their scores."""
    for i in range(len(bound.sample_weight)):
        begin, end = bound.offsets[i : i + 2]
        mask = bound.batch.allowed[begin:end] if bound.batch.allowed.size else np.ones((end - begin, 3))
        every = [
            np.array(y, dtype=np.int32)
            for y in itertools.product(*[np.flatnonzero(row) for row in mask])
            if possible(LABELS[list(y)].tolist())
        ]
        scores = np.array([plain_score(piece, bound, w, i, y) for y in every])
        if table is not None:
            at = table.at_nodes()[begin:end]
            scores = scores + [at[np.arange(end - begin), y].sum() for y in every]
        yield i, every, scores


def anything(labels):
    return True


def runs_of(labels):
    return [(label, len(list(run))) for label, run in itertools.groupby(labels)]


RULED = [["q", "r", "r"], ["q"], [], ["q", "p", "q", "q"], ["p", "q"]]
CASES = {
    "order 1 seen": (Chain(ngrams="seen"), {}, anything),
    "order 2 all": (Chain(order=2), {"allowed": True}, anything),
    "order 2 all, ends": (Chain(order=2, bias=True, ends=True), {"label_features": True}, anything),
    "order 2 seen, ends": (Chain(order=2, ngrams="seen", ends=True, pairs="seen"), {}, anything),
    "order 3 all, ends": (Chain(order=3, ngrams="all", ends=True), {"allowed": True}, anything),
    "order 3 seen": (Chain(order=3, bias=True), {"allowed": True, "label_features": True}, anything),
    "at most once": (Chain(rules=at_most_once("p")), {"y": RULED}, lambda y: y.count("p") <= 1),
    "regex, order 2": (
        Chain(order=2, ends=True, pairs="seen", rules=[regex("(p? q [q r]*)?"), never(("r", "q"))]),
        {"y": [["q", "r", "r"], ["q"], [], ["p", "q", "q", "r"], ["p", "q"]]},
        lambda y: not y or ("p" not in y[1:] and y[y[0] == "p" :][:1] == ["q"] and ["r", "q"] not in pairs_of(y)),
    ),
    "durations": (
        Chain(order=2, ngrams="seen", durations={"r": (2, None), "q": (None, 2)}),
        {"y": RULED},
        lambda y: all(n >= 2 if a == "r" else n <= 2 or a == "p" for a, n in runs_of(y)),
    ),
    "durations of all": (Chain(durations=2), {"y": RULED}, lambda y: all(n <= 2 for _, n in runs_of(y))),
}


def pairs_of(labels):
    return [list(pair) for pair in itertools.pairwise(labels)]


@pytest.fixture(params=CASES, scope="module")
def case(request, every_level):
    piece, options, possible = CASES[request.param]
    bound = piece.bind(examples_of(3, **options), LABELS)
    assert isinstance(bound, BoundAutomaton)
    return piece, bound, possible


def weights_for(bound, seed):
    return np.random.default_rng(seed).normal(size=bound.layout.n_weights)


def test_scores_are_sums_over_nodes_and_n_grams(case):
    piece, bound, possible = case
    w = weights_for(bound, 0)
    for i, every, scores in enumerated(piece, bound, w, possible):
        one = bound.take(i, i + 1)
        assert_allclose([one.score(w, y)[0] for y in every], scores, atol=1e-12)
        assert every, "the enumeration is empty"


def test_maximum_and_max_marginals_are_enumeration(case):
    piece, bound, possible = case
    w, rng = weights_for(bound, 1), np.random.default_rng(2)
    table = Table(rng.normal(size=(4, 3)), rng.integers(0, 4, len(bound.y)).astype(np.int32))
    for added in (None, table):
        values, labels = bound.maximum(w, added)
        for i, every, scores in enumerated(piece, bound, w, possible, added):
            assert_allclose(values[i], scores.max(), atol=1e-12)
            assert_array_equal(labels[bound.offsets[i] : bound.offsets[i + 1]], every[int(scores.argmax())])
    found = bound.max_marginals(w)
    for i, every, scores in enumerated(piece, bound, w, possible):
        expected = np.full((bound.offsets[i + 1] - bound.offsets[i], 3), -np.inf)
        for y, score in zip(every, scores):
            place = np.arange(len(y)), y
            expected[place] = np.maximum(expected[place], score)
        assert_allclose(found[bound.offsets[i] : bound.offsets[i + 1]], expected, atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 300.0], ids=["scaled", "logarithms"])
def test_logsum_and_marginals_are_enumeration(case, size):
    piece, bound, possible = case
    w, rng = size * weights_for(bound, 3), np.random.default_rng(4)
    table = Table(rng.normal(size=(4, 3)), rng.integers(0, 4, len(bound.y)).astype(np.int32))
    for added in (None, table):
        values, q = bound.logsum(w, added, cliques=True)
        node, features = np.zeros((len(bound.y), 3)), np.zeros(len(w))
        for i, every, scores in enumerated(piece, bound, w, possible, added):
            one = bound.take(i, i + 1)
            assert_allclose(values[i], logsumexp(scores), atol=1e-9 * size)
            for y, p in zip(every, np.exp(scores - logsumexp(scores))):
                node[np.arange(bound.offsets[i], bound.offsets[i + 1]), y] += p
                features += p * one.features(y)
        assert_allclose(q.node, node, atol=1e-10 * size)
        assert_allclose(bound.features(q), features, atol=1e-9 * size)
        other = weights_for(bound, 5)
        assert_allclose(other @ bound.features(q), bound.score(other, q).sum(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [1.0, 300.0], ids=["scaled", "logarithms"])
def test_samples_have_the_probabilities_of_the_model(case, size):
    piece, bound, possible = case
    w = size * weights_for(bound, 6) / 4
    drawn = bound.sample(w, 4000, np.random.default_rng(7))
    for i, every, scores in enumerated(piece, bound, w, possible):
        found = [tuple(labels) for labels in drawn[:, bound.offsets[i] : bound.offsets[i + 1]].tolist()]
        p = np.exp(scores - logsumexp(scores))
        share = np.array([found.count(tuple(y.tolist())) for y in every]) / len(found)
        assert share.sum() == pytest.approx(1.0)  # only valid labellings have probability
        assert_allclose(share, p, atol=5 * np.sqrt(0.25 / len(found)))


def test_top_is_enumeration(case):
    piece, bound, possible = case
    w = weights_for(bound, 8)
    values, labels = bound.top(w, 7)
    for i, every, scores in enumerated(piece, bound, w, possible):
        best = np.argsort(-scores)[:7]
        assert_allclose(values[i, : len(best)], scores[best], atol=1e-12)
        assert np.all(values[i, len(best) :] == -np.inf)
        for rank, k in enumerate(best):
            assert_array_equal(labels[rank, bound.offsets[i] : bound.offsets[i + 1]], every[k])


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("aggregate", ["maximum", "logsum"])
def test_excess_is_enumeration(case, aggregate, single):
    piece, bound, possible = case
    w, rng = weights_for(bound, 9), np.random.default_rng(10)
    cost = Table(rng.uniform(0.5, 2, size=(3, 3)) * (1 - np.eye(3)), bound.y)
    counted = Table(rng.normal(size=(3, 3)), bound.y) if aggregate == "logsum" else None
    found = bound.excess(aggregate, w, cost, ExcessOptions(expected_table=counted, single=single))
    slope, tolerance = np.zeros(len(w)), 1e-5 if single and aggregate == "maximum" else 1e-10
    for i, every, scores in enumerated(piece, bound, w, possible, cost):
        one = bound.take(i, i + 1)
        above = scores - one.score(w, one.y)[0]
        p = np.exp(above - logsumexp(above)) if aggregate == "logsum" else above == above.max()
        assert_allclose(found.values[i], logsumexp(above) if aggregate == "logsum" else above.max(), atol=tolerance)
        slope += one.sample_weight[0] * sum(x * (one.features(y) - one.features(one.y)) for x, y in zip(p, every))
        if counted is not None:
            expected = sum(x * counted.rows[one.y, y].sum() for x, y in zip(p, every))
            assert_allclose(found.expected_table[i], expected, atol=1e-10)
    assert_allclose(bound.unpad(found.slope), slope, atol=1e-10)


def test_order_1_has_the_numbers_of_the_forest(every_level):
    examples = examples_of(11, allowed=True)
    piece = Chain(bias=True, ends=True)
    forest = piece.bind(examples, LABELS)
    assert isinstance(forest, BoundForest)
    reader = Reader.of(all_ngrams(3, 1, True), 9)
    batch = replace(piece, order=2).bind(examples, LABELS).batch  # without edges
    bound = BoundAutomaton(forest.layout, batch, reader)
    w = weights_for(forest, 12)
    assert_array_equal(bound.maximum(w)[1], forest.maximum(w)[1])
    assert_allclose(bound.maximum(w)[0], forest.maximum(w)[0], atol=1e-12)
    assert_allclose(bound.max_marginals(w), forest.max_marginals(w), atol=1e-12)
    assert_allclose(bound.logsum(w)[0], forest.logsum(w)[0], atol=1e-12)
    assert_allclose(bound.logsum(w)[1].node, forest.logsum(w)[1].node, atol=1e-12)
    cost = Table(1 - np.eye(3), forest.y)
    for aggregate in ("maximum", "logsum"):
        one, other = (some.excess(aggregate, w, cost) for some in (bound, forest))
        assert_allclose(one.values, other.values, atol=1e-12)
        assert_allclose(bound.unpad(one.slope), forest.unpad(other.slope), atol=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.booleans(), st.integers(2, 9))
def test_any_weights_labels_and_orders(seed, order, seen, ends, n_labels):
    """Marginals sum to one, the maximum is the score of its labelling, and the log-partition bounds the maximum."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n_labels)
    lengths = rng.integers(0, 5, size=4)
    y = [rng.integers(0, n_labels, n).tolist() for n in lengths]
    if not sum(lengths):
        return
    examples = Examples.build([rng.normal(size=(n, 2)) for n in lengths], y)
    piece = Chain(
        order=order, ngrams="seen" if seen else "all", ends=ends, rules=[at_most_once(0)] if order > 1 else []
    )
    if order > 1 and any(labels.count(0) > 1 for labels in y):
        return
    if order == 1 and not seen:
        return
    bound = piece.bind(examples, classes)
    w = rng.normal(size=bound.layout.n_weights) * rng.choice([0.1, 3.0, 100.0])
    values, labels = bound.maximum(w)
    assert_allclose(bound.score(w, labels), values, rtol=1e-10, atol=1e-10)
    log_z, q = bound.logsum(w, cliques=True)
    assert_allclose(q.node.sum(axis=1), 1.0)
    assert np.all(log_z >= values - 1e-9 * (1 + np.abs(values)))
    assert_allclose(bound.max_marginals(w).max(axis=1), np.repeat(values, lengths), rtol=1e-10, atol=1e-9)
    # the gradient of the log-partition is the expected feature vector
    step = rng.normal(size=len(w)) * 1e-6
    difference = (bound.logsum(w + step)[0] - bound.logsum(w - step)[0]).sum()
    assert_allclose(difference, 2 * bound.features(q) @ step, rtol=1e-4, atol=1e-9 * max(1, np.abs(log_z).max()))


def test_labels_beyond_one_block_of_lanes(every_level):
    """With more than 32 labels, the recursions process several blocks of lanes."""
    rng = np.random.default_rng(13)
    n_labels, lengths = 41, [3, 2, 3]
    y = [rng.integers(0, n_labels, n).tolist() for n in lengths]
    bound = Chain(order=2, ngrams="seen").bind(
        Examples.build([rng.normal(size=(n, 2)) for n in lengths], y), np.arange(n_labels)
    )
    w = 2 * weights_for(bound, 14)
    values, labels = bound.maximum(w)
    log_z, q = bound.logsum(w, cliques=True)
    for i in (1,):
        one = bound.take(i, i + 1)
        every = [np.array(labels, dtype=np.int32) for labels in itertools.product(range(n_labels), repeat=2)]
        scores = np.array([one.score(w, labels)[0] for labels in every])
        assert_allclose(values[i], scores.max())
        assert_allclose(log_z[i], logsumexp(scores))
        p = np.exp(scores - log_z[i])
        expected = np.zeros((2, n_labels))
        for labels, share in zip(every, p):
            expected[np.arange(2), labels] += share
        assert_allclose(q.node[3:5], expected, atol=1e-12)


def test_a_path_far_behind_may_be_the_only_one(every_level):
    """Because of a rule, a label with a very low score may be the only valid one; sums must not lose it."""
    n = 30
    y = [["q"] * (n - 1) + ["p"]]
    examples = Examples.build([np.ones((n, 1))], y)
    bound = Chain(rules=[regex("q* p")], ngrams="all").bind(examples, np.array(["p", "q"]))
    w = np.zeros(bound.layout.n_weights)
    w[:2] = [50.0, -50.0]  # q, which the rule requires, has a factor of exp(-100) at every node
    values, q = bound.logsum(w)
    assert_allclose(values, 50.0 - 50.0 * (n - 1))
    assert_allclose(q.node[:, 1], [1.0] * (n - 1) + [0.0], atol=1e-12)


def test_long_examples_do_not_lose_digits(every_level):
    rng = np.random.default_rng(15)
    n = 3000
    y = [rng.choice(["p", "q"], size=n).tolist()]
    bound = Chain(order=2).bind(Examples.build([rng.normal(size=(n, 1))], y), np.array(["p", "q"]))
    w = 5 * weights_for(bound, 16)
    values, labels = bound.maximum(w)
    assert_array_equal(bound.decode(w), labels)
    assert_allclose(bound.score(w, labels), values, rtol=1e-12)
    assert_allclose(bound.logsum(w)[1].node.sum(axis=1), 1.0)


# ---- automata and rules ----------------------------------------------------------------------------------------------


def accepted(automaton, n_labels, longest=4):
    return {y for n in range(longest + 1) for y in itertools.product(range(n_labels), repeat=n) if automaton.accepts(y)}


@pytest.mark.parametrize(
    "rule, labels, possible",
    [
        (bio(), ["B-x", "B-y", "I-x", "I-y", "O"], lambda y: bio_is_valid(y)),
        (bio(), ["B", "I", "O"], lambda y: bio_is_valid(y)),
        (bioes(), ["B-x", "E-x", "I-x", "O", "S-x"], lambda y: bioes_is_valid(y)),
        (
            bioes(inside="M"),
            ["B", "E", "M", "S"],
            lambda y: bioes_is_valid([{"M": "I"}.get(label, label) for label in y]),
        ),
        (starts_with("a"), ["a", "b"], lambda y: not y or y[0] == "a"),
        (ends_with("a"), ["a", "b"], lambda y: not y or y[-1] == "a"),
        (never(("a", "b")), ["a", "b"], lambda y: ["a", "b"] not in pairs_of(y)),
        (at_most_once("a", "b"), ["a", "b", "c"], lambda y: y.count("a") <= 1 and y.count("b") <= 1),
        (
            at_most_once("a", "b", runs=True),
            ["a", "b", "c"],
            lambda y: all([label for label, _ in runs_of(y)].count(x) <= 1 for x in "ab"),
        ),
        (Durations(2), ["a", "b"], lambda y: all(n <= 2 for _, n in runs_of(y))),
        (Durations({"a": (2, 3)}), ["a", "b"], lambda y: all(2 <= n <= 3 for x, n in runs_of(y) if x == "a")),
        (regex("a* b"), ["a", "b"], lambda y: y[-1:] == ["b"] and "b" not in y[:-1]),
        (regex("(a | b b)+"), ["a", "b"], lambda y: y and all(n % 2 == 0 for x, n in runs_of(y) if x == "b")),
        (regex(". [^ a] [a b]?"), ["a", "b", "c"], lambda y: len(y) in (2, 3) and y[1] != "a" and y[2:] != ["c"]),
        (regex("a{2} b{1,2} 'c d'{0}"), ["a", "b", "c d"], lambda y: y in (["a", "a", "b"], ["a", "a", "b", "b"])),
        (regex("a{2,}"), ["a", "b"], lambda y: len(y) >= 2 and set(y) == {"a"}),
    ],
    ids=lambda value: repr(value) if hasattr(value, "automaton") else None,
)
def test_rules_accept_what_they_say(rule, labels, possible):
    automaton = rule.automaton(np.array(labels))
    found = accepted(automaton, len(labels), longest=5 if len(labels) < 4 else 4)
    for n in range(5 if len(labels) > 3 else 6):
        for y in itertools.product(range(len(labels)), repeat=n):
            names = [labels[a] for a in y]
            if n:  # an example without nodes has no labels
                assert (y in found) == bool(possible(names)), names
    masks = rule.masks(np.array(labels))
    if masks is not None:
        assert accepted(masks.automaton(), len(labels)) == accepted(automaton, len(labels))


def bio_is_valid(labels):
    before = "O"
    for label in labels:
        kind = label[2:]
        if label[0] == "I" and before not in (f"B-{kind}".rstrip("-"), f"I-{kind}".rstrip("-")):
            return False
        before = label
    return True


def bioes_is_valid(labels):
    inside = False
    for label in labels:
        if inside != (label[0] in "IE"):
            return False
        inside = label[0] in "BI"
    return not inside


@pytest.mark.parametrize("pattern", ["a (", "a )", "* a", "[a", "a{2,1}", "[a |]"])
def test_patterns_that_cannot_be_read(pattern):
    with pytest.raises(ValueError, match="cannot be parsed"):
        regex(pattern).automaton(np.array(["a"]))


@pytest.mark.parametrize(
    "rule, message",
    [
        (at_most_once("z"), "names 'z', which is not a label of y"),
        (starts_with("z"), "names 'z'"),
        (regex("a z"), "not a label of y"),
        (bio(), "needs labels 'B-...', 'I-...' or 'O', but y has 'a'"),
        (Durations(0), "at least 1"),
        (Durations({"a": (3, 2)}), "shortest <= longest"),
        (Durations({"a": 3}), "a pair"),
        (Durations("a"), "a whole number or a dict"),
        (never(("a",)), "a pair"),
    ],
)
def test_rules_that_do_not_fit_the_labels(rule, message):
    with pytest.raises(ValueError, match=message):
        rule.automaton(np.array(["a", "b"]))


def test_intersections_read_what_both_read():
    rules = [at_most_once("a"), regex("(a | b)* c?"), Durations(2), bio_like()]
    classes = np.array(["a", "b", "c"])
    expected, both = None, None
    for rule in rules:
        automaton = rule.automaton(classes)
        both = automaton if both is None else intersect(both, automaton)
        own = accepted(automaton, 3)
        expected = own if expected is None else expected & own
        assert accepted(both, 3) == expected
    reach = set(both.arcs[both.arcs >= 0].tolist()) | {both.start}
    assert reach == set(range(both.n_states))  # all states are reachable


def bio_like():
    return never(("b", "a"))


def test_states_of_the_seen_automaton_are_prefixes():
    y = np.array([0, 1, 2, 0, 1, 1])
    seen = seen_ngrams(y, np.array([0, 4, 6]), n_labels=3, order=2)
    assert seen.tuples() == [(0, 1), (1, 1), (1, 2), (2, 0), (0, 1, 2), (1, 2, 0)]
    assert automaton_of(seen, 3).n_states == 1 + 3 + 2  # nothing, 0, 1, 2, 01, 12
    unknown = seen_ngrams(np.array([0, -1, 2, 0]), np.array([0, 4]), n_labels=3, order=2)
    assert unknown.tuples() == [(2, 0)]


def test_groups_of_sweeps_hold_all_states_once():
    arcs = all_ngrams(5, 2, False).arcs
    sweeps = sweeps_of(arcs)
    assert sorted(sweeps.order.tolist()) == list(range(len(arcs)))
    assert len(sweeps.targets) == 6  # the start state, and one group per last label
