"""Options of chains: pairwise rules in the forest kernel, error messages, named weights and model files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone

import maxendnet as mx
from maxendnet import Chain, Examples
from maxendnet.estimators.info import describe, render
from maxendnet.models.json_values import FromPlain, ToPlain
from maxendnet.rules import at_most_once, bio, bioes, ends_with, never, regex, starts_with
from maxendnet.structures import Table
from maxendnet.structures.base import ExcessOptions
from maxendnet.structures.bound.automaton import BoundAutomaton
from maxendnet.structures.bound.forest import CAREFUL, LOGARITHMIC, BoundForest
from maxendnet.structures.bound.hierarchy import BoundHierarchy

pytestmark = pytest.mark.usefixtures("every_level")

LABELS = np.array(["B-x", "B-y", "I-x", "I-y", "O"])
Y = [["O", "B-x", "I-x"], ["B-y"], [], ["B-x", "I-x", "I-x", "B-y"]]


def valid(labels):
    before = "O"
    for label in labels:
        if label[0] == "I" and before not in (f"B{label[1:]}", f"I{label[1:]}"):
            return False
        before = label
    return True


def chunk_examples(seed=0, allowed=False, scale=1.0):
    rng = np.random.default_rng(seed)
    more = {}
    if allowed:
        masks = [rng.random((len(y), 5)) < 0.7 for y in Y]
        for mask, own in zip(masks, Y):
            mask[np.arange(len(own)), np.searchsorted(LABELS, own)] = True
        more = {"allowed": masks, "labels": LABELS.tolist()}
    return Examples.build([scale * rng.normal(size=(len(y), 2)) for y in Y], Y, **more)


def every(bound, i, allowed=True):
    begin, end = bound.offsets[i : i + 2]
    mask = bound.batch.allowed[begin:end] if bound.batch.allowed.size else np.ones((end - begin, 5))
    return [
        np.array(y, dtype=np.int32)
        for y in itertools.product(*[np.flatnonzero(row) for row in mask])
        if valid(LABELS[list(y)])
    ]


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("edges, size, mode", [(1, 1.0, CAREFUL), (1, 300.0, CAREFUL), (400, 400.0, LOGARITHMIC)])
def test_pairwise_rules_are_masks_on_the_forest(allowed, edges, size, mode):
    bound = Chain(bias=True, rules=[bio()]).bind(chunk_examples(allowed=allowed), LABELS)
    assert isinstance(bound, BoundForest) and not bound.capabilities.pairwise
    w = size * np.random.default_rng(1).normal(size=bound.layout.n_weights)
    bound.layout.segments(w).transitions[:] *= edges / size
    assert bound.sum_mode(w) == mode
    values, labels = bound.maximum(w)
    log_z, q = bound.logsum(w, cliques=True)
    top_values, top = bound.top(w, 3)
    max_marginals = bound.max_marginals(w)
    cost = Table(1 - np.eye(5), bound.y)
    hard, soft = (bound.excess(aggregate, w, cost) for aggregate in ("maximum", "logsum"))
    node, features, slope = np.zeros((len(bound.y), 5)), np.zeros(len(w)), [np.zeros(len(w)), np.zeros(len(w))]
    for i in range(len(Y)):
        one, some = bound.take(i, i + 1), slice(*bound.offsets[i : i + 2])
        labellings = every(bound, i)
        scores = np.array([one.score(w, y)[0] for y in labellings])
        assert_allclose(values[i], scores.max(), atol=1e-9 * size)
        assert_array_equal(labels[some], labellings[int(scores.argmax())])
        assert_allclose(log_z[i], logsumexp(scores), atol=1e-9 * size)
        best = np.argsort(-scores)[:3]
        assert_allclose(top_values[i, : len(best)], scores[best], atol=1e-9 * size)
        assert_array_equal(top[: len(best), some], [labellings[k] for k in best])
        expected = np.full((len(Y[i]), 5), -np.inf)
        augmented = scores + [np.sum(y != one.y) for y in labellings] - one.score(w, one.y)
        assert_allclose(hard.values[i], augmented.max(), atol=1e-9 * size)
        assert_allclose(soft.values[i], logsumexp(augmented), atol=1e-9 * size)
        shares = (augmented == augmented.max()).astype(float), np.exp(augmented - logsumexp(augmented))
        for k, y in enumerate(labellings):
            place = np.arange(len(y)), y
            expected[place] = np.maximum(expected[place], scores[k])
            p = np.exp(scores[k] - logsumexp(scores))
            node[some][place] += p
            features += p * one.features(y)
            for total, share in zip(slope, shares):
                total += share[k] * (one.features(y) - one.features(one.y))
        assert_allclose(max_marginals[some], expected, atol=1e-9 * size)
    assert_allclose(q.node, node, atol=1e-9 * size)
    assert_allclose(bound.features(q), features, atol=1e-9 * size)
    for found, expected in zip((hard, soft), slope):
        assert_allclose(bound.unpad(found.slope), expected, atol=1e-8 * size)


@pytest.mark.parametrize("size", [0.5, 50.0])
def test_sums_under_pairwise_rules_in_single_precision(size):
    """Sums use float32 if nothing can underflow, else double precision."""
    bound = Chain(bias=True, rules=[bio()]).bind(chunk_examples(), LABELS)
    assert bound.steps == 2  # I-x, B-y, I-y
    w = size * np.random.default_rng(2).normal(size=bound.layout.n_weights)
    one, other = (bound.excess("logsum", w, None, ExcessOptions(single=single)) for single in (True, False))
    assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-5 * size)
    assert_allclose(one.slope, other.slope, atol=1e-4)
    assert np.array_equal(one.values, other.values) == (size == 50.0)
    assert Chain(rules=[bio()]).bind(chunk_examples(allowed=True), LABELS).steps == 0
    assert bound.within_truth.steps == 0
    never_back = Chain(rules=[never(("O", "B-x"), ("O", "B-y"), ("O", "I-x"), ("O", "I-y"))])
    assert never_back.bind(Examples.build([np.zeros((2, 2))], [["B-x", "O"]]), LABELS).steps == 0


def test_forbidden_pairs_with_types_and_features_of_edges():
    """The forest kernel and the hierarchy kernel give the same results."""
    rng = np.random.default_rng(3)
    lengths = (3, 1, 4)
    examples = Examples.build(
        [rng.normal(size=(n, 2)) for n in lengths],
        [["b", "a", "c"], ["a"], ["c", "c", "b", "b"]],
        edge_types=[rng.integers(0, 2, size=n - 1) for n in lengths],
        edge_features=[rng.normal(size=(n - 1, 2)) for n in lengths],
    )
    classes = np.array(["a", "b", "c"])
    bound = Chain(bias=True, forbidden=[("a", "b"), ("b", "c")]).bind(examples, classes)
    assert isinstance(bound, BoundForest)
    other = BoundHierarchy(bound.layout, bound.batch, ((0, 1), (1, 2)))
    for size in (1.0, 60.0):
        w = size * rng.normal(size=bound.layout.n_weights)
        assert_array_equal(bound.maximum(w)[1], other.maximum(w)[1])
        assert_allclose(bound.max_marginals(w), other.max_marginals(w), rtol=1e-10, atol=1e-9)
        (values, q), (other_values, other_q) = bound.logsum(w, cliques=True), other.logsum(w, cliques=True)
        assert_allclose(values, other_values, rtol=1e-9, atol=1e-9)
        assert_allclose(q.node, other_q.node, rtol=1e-9, atol=1e-9)
        assert_allclose(q.edge, other_q.edge, rtol=1e-9, atol=1e-9)
        cost = Table(1 - np.eye(3), bound.y)
        for aggregate in ("maximum", "logsum"):
            one, its = (some.excess(aggregate, w, cost) for some in (bound, other))
            assert_allclose(one.values, its.values, rtol=1e-9, atol=1e-9)
            assert_allclose(bound.unpad(one.slope), other.unpad(its.slope), rtol=1e-9, atol=1e-8)


def test_draws_keep_pairwise_rules():
    bound = Chain(rules=[bioes()]).bind(
        Examples.build([np.zeros((4, 1))], [["B-x", "E-x", "O", "S-x"]]), np.array(["B-x", "E-x", "O", "S-x"])
    )
    drawn = bound.sample(np.zeros(bound.layout.n_weights), 500, np.random.default_rng(0))
    names = {
        "".join(label[0] for label in bound_labels) for bound_labels in np.array(["B-x", "E-x", "O", "S-x"])[drawn]
    }
    # chunks B E, O and S in four nodes: 5 sequences with two chunks or more, by counting
    assert names == {
        "".join(y) for y in itertools.product("BEOS", repeat=4) if "".join(y).replace("BE", "").strip("OS") == ""
    }  # fmt: skip


def test_what_only_a_forbidden_pair_leaves_is_not_lost():
    """A label with a very low score at every node is the only one that the forbidden pairs permit."""
    n = 40
    examples = Examples.build([np.ones((n, 1))], [["a"] * n])
    bound = Chain(rules=[ends_with("a"), never(("b", "a"))]).bind(examples, np.array(["a", "b"]))
    w = np.array([-30.0, 30.0, 0.0, 0.0, 0.0, 0.0])  # b is better by exp(60) at every node
    assert bound.sum_mode(w) == CAREFUL
    values, q = bound.logsum(w)
    assert_allclose(values, -30.0 * n)
    assert_allclose(q.node[:, 0], 1.0)
    found = bound.excess("logsum", w)
    assert_allclose(found.values, 0.0, atol=1e-9)
    assert_allclose(found.slope, 0.0, atol=1e-9)
    assert np.all(bound.sample(w, 3, np.random.default_rng(0)) == 0)


def test_without_rules_a_chain_is_the_forest_of_before():
    bound = Chain(bias=True).bind(chunk_examples(), LABELS)
    assert isinstance(bound, BoundForest) and bound.forbidden_matrix is None and bound.capabilities.pairwise


@pytest.mark.parametrize(
    "piece, y, message",
    [
        (
            Chain(rules=bio()),
            [["O", "I-x"]],
            r"y\[0\] node 1 has the label 'I-x' after 'O', which breaks the rule bio\(\)",
        ),
        (Chain(rules=bio()), [["O"], ["I-x", "O"]], r"y\[1\] node 0 has the label 'I-x' at the beginning, .* bio\(\)"),
        (Chain(rules=ends_with("O")), [["O", "I-x"]], r"y\[0\] node 1 .* at the end of the example"),
        (
            Chain(order=2, rules=at_most_once("O")),
            [["O", "I-x"], ["O", "I-x", "O"]],
            r"y\[1\] node 2 has the label 'O'",
        ),
        (Chain(durations={"O": (2, None)}), [["O", "O", "I-x", "O"]], r"y\[0\] node 3 .* durations\(.* at the end"),
        (Chain(durations={"O": (2, None)}), [["I-x", "O", "I-x"]], r"y\[0\] node 2 has the label 'I-x' after 'O'"),
        (Chain(forbidden=[("O", "I-x")]), [["O", "I-x"]], r"y\[0\] node 1 .* never\(\('O', 'I-x'\)\)"),
    ],
)
def test_a_true_labelling_that_breaks_a_rule_is_named(piece, y, message):
    X = [np.zeros((len(labels), 1)) for labels in y]
    with pytest.raises(ValueError, match=message):
        mx.M3N(structure=piece).fit(X, y)


def test_an_example_without_a_labelling_is_named():
    X, y = [np.zeros((2, 1)), np.zeros((4, 1))], [["a", "b"], ["a", "b", "a", "b"]]
    model = mx.M3N(structure=Chain(rules=regex("(a b)*"))).fit(X, y)
    assert model.predict([np.zeros((4, 1)), np.zeros((0, 1))]) == [["a", "b", "a", "b"], []]
    with pytest.raises(ValueError, match=r"X\[1\] node 2 has no possible label: .*regex\('\(a b\)\*'\)"):
        model.predict([np.zeros((2, 1)), np.zeros((3, 1))])
    allowed = Examples.build([np.zeros((2, 1))], allowed=[[{"b"}, {"a", "b"}]], labels=["a", "b"])
    with pytest.raises(ValueError, match=r"X\[0\] node 0 has no possible label"):
        model.predict(allowed)
    pairs = mx.M3N(structure=Chain(rules=[starts_with("a"), never(("a", "a"))])).fit(X, y)
    with pytest.raises(ValueError, match=r"X\[0\] node 1 has no possible label"):
        pairs.predict(Examples.build([np.zeros((2, 1))], allowed=[[{"a", "b"}, {"a"}]], labels=["a", "b"]))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 0}, "order to be a whole number of at least 1, got 0"),
        ({"order": True}, "order to be a whole number"),
        ({"order": 1.5}, "order to be a whole number"),
        ({"ngrams": "some"}, "ngrams to be 'all', 'seen' or None"),
        ({"rules": "bio"}, "rules must be a rule such as bio"),
        ({"rules": [1]}, "rules must be a rule"),
        ({"order": 12, "ngrams": "all"}, "order 12 with all n-grams of 2 labels|too many|too large"),
    ],
)
def test_options_that_make_no_sense(options, message):
    X, y = [np.zeros((26, 1))], [list("abcdefghijklmnopqrstuvwxyz")]
    with pytest.raises(ValueError, match=message):
        mx.M3N(structure=Chain(**options)).fit(X, y)


def test_edge_features_are_refused_by_higher_orders():
    rng = np.random.default_rng(0)
    examples = Examples.build([rng.normal(size=(3, 1))], [["a", "b", "a"]], edge_features=[rng.normal(size=(2, 1))])
    with pytest.raises(ValueError, match="does not support edge types and edge features"):
        Chain(order=2).bind(examples, np.array(["a", "b"]))


def test_weights_have_names():
    X, y = [np.eye(3)], [["a", "b", "a"]]
    model = mx.M3N(structure=Chain(order=2, ends=True)).fit(X, y)
    assert model.transitions_.shape == (2, 2)
    assert len(model.ngrams_) == 4 + 8 + 4 + 4 + 2
    for gram in (("a", "b"), ("b", "a")):
        k = [["a", "b"].index(label) for label in gram]
        assert model.ngrams_[gram] == model.transitions_[k[0], k[1]]
    score = sum(
        model.ngrams_[gram]
        for gram in [("a", "b"), ("b", "a"), ("a", "b", "a"), ("<start>", "a", "b"), ("b", "a", "<end>")]
    )
    score += model.coef_[0, 0] + model.coef_[1, 1] + model.coef_[2, 0] + model.start_[0] + model.end_[0]
    assert_allclose(model.decision_function(X), score)
    seen = mx.M3N(structure=Chain(order=3)).fit(X, y)
    assert set(seen.ngrams_) == {("a", "b"), ("b", "a"), ("a", "b", "a")}
    assert seen.transitions_.size == 0
    plain = mx.M3N().fit(X, y)
    assert plain.ngrams_["a", "b"] == plain.transitions_[0, 1] and ("a", "b", "a") not in plain.ngrams_


PIECES = [
    Chain(order=2, ends=True, rules=[bio(outside="o"), at_most_once("B", runs=True)]),
    Chain(order=3, rules=regex("(B I* | o)*"), pairs="seen", bias=True),
    Chain(rules=[never(("o", "I")), starts_with("B", "o")]),
    Chain(durations={"I": (None, 2), "o": (1, 3)}, ngrams="seen"),
    Chain(durations=3, order=2),
]


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_models_survive_a_file(piece, tmp_path):
    rng = np.random.default_rng(0)
    y = [["o", "B", "I", "I"], ["B"], ["o", "o"]]
    X = [rng.normal(size=(len(labels), 3)) for labels in y]
    model = mx.M3N(C=0.3, structure=piece).fit(X, y)
    model.save(tmp_path / "model")
    again = mx.load(tmp_path / "model")
    assert repr(again.structure) == repr(piece) and repr(clone(piece)) == repr(piece)
    assert again.model_.layout == model.model_.layout
    assert dict(again.ngrams_) == dict(model.ngrams_)
    fresh = [rng.normal(size=(n, 3)) for n in (1, 2, 4)]
    assert again.predict(fresh) == model.predict(fresh)
    assert_array_equal(again.decision_function(fresh), model.decision_function(fresh))
    assert again.predict_top(fresh, 3) == model.predict_top(fresh, 3)
    assert ("n-grams" in render(describe(tmp_path / "model"))) == (piece.order > 1 or piece.only_seen)


def damaged(model, tmp_path, change):
    """Return a model file with a modified header and a correct checksum."""
    from maxendnet.estimators import file
    from maxendnet.models.container import write_sealed
    from maxendnet.models.json_values import ToPlain

    plain = ToPlain()
    header = file._describe(model, plain)
    change(header, plain.arrays)
    write_sealed(tmp_path / "damaged", file.KIND, header, plain.arrays)
    return tmp_path / "damaged"


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: arrays["ngrams_symbols"].__setitem__(0, 7),
        lambda header, arrays: arrays["ngrams_symbols"].__setitem__(1, 2),  # a start symbol that is not first
        lambda header, arrays: arrays["ngrams_offsets"].__setitem__(1, 1),
        lambda header, arrays: arrays["ngrams_symbols"].__setitem__(slice(0, 2), arrays["ngrams_symbols"][2:4]),
        lambda header, arrays: header["layout"].__setitem__("n_ngrams", 9),
        lambda header, arrays: header["layout"].__setitem__("ngrams", None),
        lambda header, arrays: header["structure"]["piece"][1].__setitem__("order", 1),
        lambda header, arrays: header["structure"]["piece"][1].__setitem__("ngrams", "all"),
        lambda header, arrays: header["structure"]["piece"][1].__setitem__("rules", {"piece": ["Laplace", {}]}),
        lambda header, arrays: header["structure"]["piece"][1].__setitem__("rules", {"piece": ["Regex", {"x": 1}]}),
    ],
)
def test_damaged_files_are_refused(change, tmp_path):
    X, y = [np.eye(3)], [["a", "b", "a"]]
    model = mx.M3N(structure=Chain(order=2, ngrams="seen")).fit(X, y)
    assert mx.load(damaged(model, tmp_path, lambda header, arrays: None)).predict(X) == model.predict(X)
    with pytest.raises(mx.ModelFileError):
        mx.load(damaged(model, tmp_path, change))


@pytest.mark.parametrize("rule", [bio(), at_most_once("a", runs=True), regex("a*"), never(("a", 1))], ids=repr)
def test_rules_are_values_of_files(rule):
    plain = ToPlain()
    written = plain({"a": rule, 3: (None, 2)}, "x")
    again = FromPlain(plain.arrays)(written)
    assert again == {"a": rule, 3: (None, 2)} and repr(again["a"]) == repr(rule)


def test_rules_at_prediction_alone():
    rng = np.random.default_rng(0)
    y = [["O", "I-x", "B-x", "I-x"], ["I-x", "O"]]
    X = [rng.normal(size=(len(labels), 3)) for labels in y]
    fresh = [rng.normal(size=(n, 3)) for n in (4, 1, 3)]
    for structure in (Chain(), Chain(order=2), Chain(order=2, ngrams="seen")):
        model = mx.L2CRF(structure=structure).fit(X, y)
        for rules, kept in (
            (bio(), valid),
            ([bio(), at_most_once("O")], lambda labels: valid(labels) and labels.count("O") <= 1),
        ):
            bound = model.model_.bind(model.model_.read(fresh), rules=rules)
            on_forest = structure.order == 1 and rules == bio()
            assert isinstance(bound, BoundForest if on_forest else BoundAutomaton)
            every = [
                [list(y) for y in itertools.product(model.classes_.tolist(), repeat=len(x)) if kept(list(y))]
                for x in fresh
            ]
            predicted = model.predict(fresh, rules=rules)
            best = model.predict_top(fresh, 10**6, rules=rules)
            assert [sorted(labels for _, labels in some) for some in best] == [sorted(some) for some in every]
            assert predicted == [some[0][1] for some in best]
            assert_allclose(model.decision_function(fresh, rules=rules), [some[0][0] for some in best])
            for drawn in model.sample(fresh, 20, random_state=0, rules=rules):
                assert all(labels in some for labels, some in zip(drawn, every))
            for p, highest, some in zip(
                model.predict_marginals(fresh, rules=rules), model.predict_max_marginals(fresh, rules=rules), best
            ):
                scores = np.array([score for score, _ in some])
                for t, a in itertools.product(range(len(p)), range(3)):
                    has = np.array([labels[t] == model.classes_[a] for _, labels in some])
                    assert_allclose(p[t, a], np.exp(scores[has] - logsumexp(scores)).sum(), atol=1e-10)
                    assert_allclose(highest[t, a], max(scores[has], default=-np.inf))
        given = [["B-x", mx.UNKNOWN, mx.UNKNOWN, mx.UNKNOWN], ["O"], ["O", mx.UNKNOWN, "I-x"]]
        found = model.predict(fresh, given=given, rules=bio())
        assert found[0][0] == "B-x" and found[2] == ["O", "B-x", "I-x"] and all(map(valid, found))
        with pytest.raises(ValueError, match=r"node 0 has the label 'I-x' at the beginning, which breaks the rule bio"):
            model.predict([fresh[1]], given=[["I-x"]], rules=bio())


def test_rules_at_prediction_are_for_chains():
    model = mx.M3N(structure="independent").fit([np.eye(2)], [["a", "b"]])
    with pytest.raises(ValueError, match=r"rules need a chain, but the structure of the model is Independent\(\)"):
        model.predict([np.eye(2)], rules=never(("a", "b")))
    with pytest.raises(ValueError, match="rules must be a rule"):
        mx.M3N().fit([np.eye(2)], [["a", "b"]]).predict([np.eye(2)], rules=["bio"])


def test_unknown_labels_keep_the_rules():
    """Label sets are completed within the rules during training."""
    rng = np.random.default_rng(1)
    y = [["B-x", mx.UNKNOWN, "O"], [mx.UNKNOWN, "I-x", "O"], ["O", "B-x", "I-x"]] * 3
    X = [rng.normal(size=(3, 2)) for _ in y]
    for structure in (Chain(rules=bio()), Chain(order=2, rules=bio()), Chain(order=2, ngrams="seen")):
        for estimator in (mx.L2CRF(), mx.M3N()):
            model = estimator.set_params(structure=structure, random_state=0).fit(X, y)
            assert np.isfinite(model.objective_)
            assert structure.rules is None or all(map(valid, model.predict(X)))
    with pytest.raises(ValueError, match=r"X\[0\] node 1 has no possible label"):
        mx.L2CRF(structure=Chain(rules=bio())).fit([np.eye(2)] * 2, [["O", {"I-x", "I-y"}], ["O", "B-x"]])
