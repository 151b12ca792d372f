"""Unknown labels: losses against enumeration, monotone rounds, messages."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from enumerated import all_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    UNKNOWN,
    Chain,
    Choice,
    Examples,
    Independent,
    LapMEDN,
    MaxEnDNet,
    Tree,
)
from maxendnet.data.truth import LabelSets
from maxendnet.losses import Hinge, Log
from maxendnet.losses.costs import cost_rows
from maxendnet.priors import L1, Gaussian, L1Ball, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import (
    ALL,
    BlockFrankWolfe,
    ConcaveConvex,
    SelfTraining,
    Smoothing,
    Subgradient,
    run,
)
from maxendnet.solvers.base import missing
from maxendnet.solvers.choose import default_solver


@dataclass(frozen=True)
class PartialCase:
    """Enumerated case with label sets as the truth."""

    case: object
    sets: np.ndarray
    weight: np.ndarray
    structure: object

    def cost(self, i, y):
        """Of a labelling of example i."""
        begin, _ = self.case.nodes[i]
        matrix = Hinge(self.case.case.cost).cost_matrix(self.case.case.n_labels)
        return sum(
            self.weight[begin + t] * min(matrix[b, a] for b in np.flatnonzero(self.sets[begin + t]))
            for t, a in enumerate(y)
        )

    def inside(self, i):
        """Labellings of example i that agree with what is known."""
        begin, _ = self.case.nodes[i]
        return [y for y in self.case.labellings(i) if all(self.sets[begin + t, a] for t, a in enumerate(y))]

    def scores(self, i, labellings):
        return self.case.features(i, labellings) @ self.case.w

    @property
    def n_examples(self):
        return len(self.case.nodes)


@st.composite
def partial_cases(draw, weighted=True, **options):
    case = draw(all_cases(**options))
    batch, n_labels = case.batch, case.case.n_labels
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = len(batch.y)
    sets = rng.random((n, n_labels)) < rng.choice([0.0, 0.5, 1.0], size=(n, 1))
    sets[np.arange(n), batch.y] = True
    weight = rng.choice([0.0, 1.0, 2.5], size=n) if weighted and draw(st.booleans()) else np.ones(n)
    label_sets = LabelSets(sets.astype(np.uint8), batch.y.copy(), weight)
    structure = replace(case.structure, batch=batch._replace(row=np.arange(n, dtype=np.int32), label_sets=label_sets))
    return PartialCase(case, sets, weight, structure)


def limited(case):
    return replace(case, structure=case.structure.within_truth)


@given(partial_cases())
@settings(deadline=None, max_examples=200)
def test_within_the_truth_is_enumeration(partial):
    inside, w = partial.structure.within_truth, partial.case.w
    best, labels = inside.maximum(w)
    sums, (node, *_) = inside.logsum(w)
    for i, (begin, end) in enumerate(partial.case.nodes):
        every = partial.inside(i)
        scores = partial.scores(i, every)
        assert tuple(labels[begin:end].tolist()) in every
        assert_allclose(best[i], scores.max(), atol=partial.case.tolerance)
        assert_allclose(sums[i], logsumexp(scores), atol=partial.case.tolerance)
        shares = np.zeros((end - begin, partial.case.case.n_labels))
        for y, p in zip(every, np.exp(scores - logsumexp(scores))):
            shares[np.arange(end - begin), y] += p
        assert_allclose(node[begin:end], shares, atol=partial.case.tolerance)


@given(partial_cases(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=100)
def test_samples_and_the_best_agree_with_what_is_known(partial, seed):
    inside, w = partial.structure.within_truth, partial.case.w
    drawn = inside.sample(w, 3, np.random.default_rng(seed))
    values, top = inside.top(w, 3)
    for i, (begin, end) in enumerate(partial.case.nodes):
        every = partial.inside(i)
        for labels in drawn:
            assert tuple(labels[begin:end].tolist()) in every
        scores = np.sort(partial.scores(i, every))[::-1][:3]
        assert_allclose(values[i][: len(scores)], scores, atol=partial.case.tolerance)
        assert (values[i][len(scores) :] == -np.inf).all()
        for rank in range(len(scores)):
            assert tuple(top[rank, begin:end].tolist()) in every


@given(partial_cases())
@settings(deadline=None, max_examples=200)
def test_the_marginal_likelihood_is_enumeration(partial):
    problem = Problem.pose(partial.structure, Log(), Gaussian())
    found = problem.loss_and_gradient(partial.case.w, values=True)
    slope = np.zeros(problem.n_weights)
    for i, u in enumerate(problem.structure.sample_weight):
        everything, inside = partial.case.labellings(i), partial.inside(i)
        all_scores, scores = partial.scores(i, everything), partial.scores(i, inside)
        assert_allclose(found.values[i], logsumexp(all_scores) - logsumexp(scores), atol=10 * partial.case.tolerance)
        expected = np.exp(all_scores - logsumexp(all_scores)) @ partial.case.features(i, everything)
        slope += u * (expected - np.exp(scores - logsumexp(scores)) @ partial.case.features(i, inside))
    assert_allclose(found.gradient, slope, atol=1e3 * partial.case.tolerance)
    assert problem.convex == problem.label_sets.all_known


@given(partial_cases())
@settings(deadline=None, max_examples=200)
def test_the_hinge_above_the_best_completion_is_enumeration(partial):
    loss, w = Hinge(partial.case.case.cost), partial.case.w
    problem = Problem.pose(partial.structure, loss, Gaussian()).completed(w)
    value, convex = loss.completion_objective(problem, w)
    total = 0.0
    for i, u in enumerate(problem.structure.sample_weight):
        everything = partial.case.labellings(i)
        costs = np.array([partial.cost(i, y) for y in everything])
        hinge = (partial.scores(i, everything) + costs).max() - partial.scores(i, partial.inside(i)).max()
        total += u * hinge
    assert_allclose(value, 0.5 * w @ w + total, rtol=1e-9, atol=100 * partial.case.tolerance)
    assert convex is problem
    assert problem.convex


@given(partial_cases(), st.sampled_from([1.0, 0.3, 4.0]))
@settings(deadline=None, max_examples=150)
def test_the_hinge_above_the_averaged_completion_is_enumeration(partial, T):
    loss, w = Hinge(partial.case.case.cost, completion="average", temperature=T), partial.case.w
    problem = Problem.pose(partial.structure, loss, Gaussian(), C=0.7).completed(w)
    value, convex = loss.completion_objective(problem, w)
    total, target = 0.0, np.zeros(problem.n_weights)
    v = np.random.default_rng(0).normal(size=problem.n_weights)
    hinges = 0.0
    for i, u in enumerate(problem.structure.sample_weight):
        everything, inside = partial.case.labellings(i), partial.inside(i)
        costs = np.array([partial.cost(i, y) for y in everything])
        soft = T * (logsumexp(partial.scores(i, inside) / T) - np.log(len(inside)))
        total += u * ((partial.scores(i, everything) + costs).max() - soft)
        shares = np.exp(partial.scores(i, inside) / T - logsumexp(partial.scores(i, inside) / T))
        target += u * shares @ partial.case.features(i, inside)
        hinges += u * (partial.case.features(i, everything) @ v + costs).max()
    scale = 1e3 * partial.case.tolerance * (1 + 1 / T)
    assert_allclose(value, 0.5 * w @ w + 0.7 * total, rtol=1e-9, atol=scale)
    assert total >= -scale
    # the convex problem of a round, at other weights: above the expected features of the completion
    assert_allclose(
        convex.loss_and_gradient(v).loss, hinges - target @ v, rtol=1e-8, atol=scale * (1 + np.abs(v).sum())
    )


@given(all_cases(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_known_labels_in_any_order_of_kinds_give_the_same_bits(case, seed):
    n_labels, batch = case.case.n_labels, case.batch
    order = np.random.default_rng(seed).permutation(n_labels)
    label_sets = LabelSets(np.eye(n_labels, dtype=np.uint8)[order], order.astype(np.int32), np.ones(n_labels))
    row = np.argsort(order).astype(np.int32)[batch.y]
    other = replace(case.structure, batch=batch._replace(row=row, label_sets=label_sets))
    for loss in (Hinge(case.case.cost), Log()):
        one, two = (
            Problem.pose(structure, loss, Gaussian()).loss_and_gradient(case.w) for structure in (case.structure, other)
        )
        assert one.loss == two.loss
        assert_array_equal(one.gradient, two.gradient)


def test_costs_of_sets_are_the_least():
    label_sets = LabelSets(np.array([[1, 1, 0]], np.uint8), np.zeros(1, np.int32), np.array([2.0]))
    assert cost_rows(np.array([[0.0, 1, 5], [3, 0, 4], [1, 1, 0]]), label_sets).tolist() == [[0.0, 0.0, 8.0]]


# ---- fits ------------------------------------------------------------------------------------------------------------


def words(seed=0, n_examples=30, share=0.4, tree=False):
    """Sequences or trees of three labels; labels follow the features and the neighbour. Of a share nothing is known."""
    rng = np.random.default_rng(seed)
    X, y, edges = [], [], []
    for _ in range(n_examples):
        n = int(rng.integers(1, 6))
        labels = [int(rng.integers(3))]
        for _ in range(n - 1):
            labels.append(int(rng.choice([labels[-1], (labels[-1] + 1) % 3], p=[0.2, 0.8])))
        X.append(np.eye(3)[labels] + rng.normal(0.0, 0.4, size=(n, 3)))
        y.append(["abc"[k] for k in labels])
        edges.append(np.array([(int(rng.integers(t)), t) for t in range(1, n)] or np.zeros((0, 2)), dtype=int))
    hidden = [[hide(rng, label, share) for label in labels] for labels in y]
    items = list(zip(X, edges)) if tree else X
    return items, y, hidden


def hide(rng, label, share):
    if rng.random() > share:
        return label
    return UNKNOWN if rng.random() < 0.6 else {label, "abc"[int(rng.integers(3))]}


SYSTEMS = {
    "M3N": M3N(C=0.5),
    "M3N average": M3N(C=0.5, completion="average"),
    "LapMEDN": LapMEDN(C=1.0, lam=2.0),
    "LapMEDN average": LapMEDN(C=1.0, lam=2.0, completion="average"),
    "LapMEDN variational": LapMEDN(C=0.5, lam=2.0, method="variational", tol=1e-2),
    "LapMEDN variational average": LapMEDN(C=0.5, lam=2.0, method="variational", completion="average", tol=2e-2),
    "L1M3N": L1M3N(C=0.5, tol=1e-2),
    "L1M3N average": L1M3N(C=0.5, completion="average", tol=1e-2),
    "squared": MaxEnDNet(loss=Hinge(slack="squared"), C=0.5),
}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("structure", [Chain(bias=True), Tree(), Independent(), Tree(siblings=True)])
def test_rounds_never_raise_the_objective(system, structure):
    X, y, hidden = words(tree=isinstance(structure, Tree))
    model = SYSTEMS[system].set_params(structure=structure, random_state=0).fit(X, hidden)
    values = [row.primal for row in model.trace_]
    assert model.n_rounds_ == len(values)
    assert (np.diff(values) <= 1e-9 * np.abs(values[0])).all()
    assert model.objective_ == values[-1]
    assert np.isnan(model.gap_) and np.isnan(model.dual_)
    assert 0 <= model.round_gap_ <= model.tol
    assert model.converged_
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("estimator", [CRF(max_passes=60), L2CRF(), L1CRF(lam=0.3)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_likelihood_models(estimator):
    X, y, hidden = words()
    model = estimator.set_params(tol=1e-4).fit(X, hidden)
    assert np.isnan(model.gap_)
    assert model.score(X, y) > 0.8
    with_known = estimator.fit(X, y)
    assert with_known.score(X, y) >= model.score(X, y) - 0.05


def test_the_slope_of_the_likelihood_is_zero_at_the_end():
    X, _, hidden = words()
    model = L2CRF(lam=1, tol=1e-8).fit(X, hidden)
    problem = model.pose(Examples.build(X, hidden), model.classes_)
    slope = model.model_.weights + problem.loss_and_gradient(model.model_.weights).gradient
    assert np.abs(slope).max() < 1e-5


@pytest.mark.parametrize("solver", [BlockFrankWolfe(), Smoothing(), Subgradient(), ConcaveConvex(starts=3)])
def test_other_solvers_of_the_rounds(solver):
    X, y, hidden = words()
    model = M3N(C=0.5, solver=solver, tol=2e-2, random_state=1).fit(X, hidden)
    assert model.round_gap_ <= 2e-2
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("prior", "accepted"),
    [
        (Gaussian(), {"Smoothing", "Subgradient", "Extragradient", "ExponentiatedGradient"}),
        (Laplace(2.0), {"Smoothing", "Subgradient", "Extragradient", "ExponentiatedGradient", "Variational"}),
        (L1(0.5), {"Smoothing", "InteriorPoint"}),
        (L1Ball(2.0), {"Subgradient"}),
    ],
)
def test_every_solver_that_takes_an_average_for_the_truth_bounds_the_others(prior, accepted):
    X, _, hidden = words(n_examples=12)
    loss = Hinge(completion="average")
    bound = Chain().bind(Examples.build(X, hidden), np.array(["a", "b", "c"]))
    problem = Problem.pose(bound, loss, prior, C=0.5)
    w = np.random.default_rng(0).normal(size=problem.n_weights)
    convex = loss.completion_objective(problem.completed(w), w)[1]
    fitting = {}
    for kind in ALL:
        solver = kind()
        if kind not in (ConcaveConvex, SelfTraining) and not missing(solver, convex):
            fitting[kind.__name__] = run(solver, convex, tol=5e-3, max_passes=2000, seed=0, warn=False)
    assert set(fitting) == accepted
    lowest = min(result.primal for result in fitting.values())
    for name, result in fitting.items():
        assert_allclose(result.primal, convex.primal(result.w), rtol=1e-9, err_msg=name)
        assert result.dual <= lowest * (1 + 1e-9) + 1e-9, name
        assert result.gap < (0.2 if name in ("Extragradient", "ExponentiatedGradient") else 0.02), name
    # and no weights nearby are better than the bound
    rng = np.random.default_rng(1)
    best = min(fitting.values(), key=lambda result: result.primal)
    for scale in (1e-3, 1e-2, 0.1):
        near = best.w + scale * rng.normal(size=len(w))
        assert convex.primal(near) >= best.dual


def test_several_starts_are_at_least_as_good_as_one():
    X, _, hidden = words(share=0.9)
    one, several = (M3N(solver=ConcaveConvex(starts=k), random_state=3).fit(X, hidden).objective_ for k in (1, 4))
    assert several <= one * (1 + 1e-3)


def test_unlabelled_examples_do_not_affect_the_weights():
    X, y, _ = words(n_examples=10)
    more = [*X, np.ones((3, 3))]
    for estimator in (M3N(C=0.5, tol=1e-6), L2CRF(tol=1e-8)):
        known = estimator.fit(X, y).coef_
        assert_allclose(estimator.fit(more, [*y, UNKNOWN]).coef_, known, atol=2e-3)


def test_a_choice_of_which_one_node_is_known():
    X, y = [[[1.0], [3.0], [2.0]], [[4.0], [0.0]], [[1.0], [5.0]]], [["-", "best", "-"], [UNKNOWN, "-"], UNKNOWN]
    for estimator in (M3N(C=10), L2CRF(lam=0.1)):
        model = estimator.set_params(structure=Choice(rest="-")).fit(X, y)
        assert model.predict([[[2.0], [1.0], [5.0]]]) == [["-", "-", "best"]]
    clamped = model.predict([[[2.0], [1.0], [5.0]]], given=[[UNKNOWN, "best", UNKNOWN]])
    assert clamped == [["-", "best", "-"]]
    with pytest.raises(ValueError, match="at most one node"):
        model.predict([[[2.0], [1.0]]], given=[["best", "best"]])


def test_the_same_bits_for_any_number_of_threads():
    X, _, hidden = words()
    for estimator in (M3N(), M3N(completion="average"), L2CRF()):
        one, two = (estimator.set_params(n_jobs=n, random_state=0).fit(X, hidden).model_.weights for n in (1, 2))
        assert_array_equal(one, two)


def test_a_fit_with_unknown_labels_is_saved(tmp_path):
    from maxendnet import load

    X, _, hidden = words()
    model = LapMEDN(C=0.5).fit(X, hidden)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.n_rounds_, again.round_gap_) == (model.n_rounds_, model.round_gap_)
    assert again.predict(X) == model.predict(X)


# ---- given labels ----------------------------------------------------------------------------------------------------


def test_given_labels_in_all_predictions():
    X, y, _ = words()
    model = L2CRF().fit(X, y)
    given_labels = [[UNKNOWN if t % 2 else "c" for t in range(len(labels))] for labels in y]
    for labels in (model.predict(X, given=given_labels), *model.sample(X, 2, random_state=0, given=given_labels)):
        assert all(row[t] == "c" for row in labels for t in range(0, len(row), 2))
    for marginals in model.predict_marginals(X, given=given_labels):
        assert_allclose(marginals[::2, 2], 1.0)
    for example in model.predict_top(X, 3, given=given_labels):
        assert all(labels[0] == "c" for _, labels in example)
    best = model.predict_max_marginals(X, given=given_labels)
    assert (best[0][0, :2] == -np.inf).all()
    free, clamped = model.decision_function(X), model.decision_function(X, given=given_labels)
    assert (clamped <= free + 1e-9).all()
    assert model.predict(X, given=[UNKNOWN] * len(X)) == model.predict(X)


# ---- reading and messages --------------------------------------------------------------------------------------------


def test_unknown_is_one_object():
    assert copy.deepcopy(UNKNOWN) is UNKNOWN
    assert pickle.loads(pickle.dumps(UNKNOWN)) is UNKNOWN
    assert repr(UNKNOWN) == "UNKNOWN"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["a", None], ["b"]], r"y\[0\] node 1 has the label None.*maxendnet.UNKNOWN"),
        ([["a", float("nan")], ["b"]], r"contains NaN: the label of y\[0\] node 1.*maxendnet.UNKNOWN"),
        ([["a", set()], ["b"]], r"y\[0\] node 1 has an empty set of labels"),
        ([["a", frozenset([frozenset(["a"]), "b"])], ["b"]], r"y\[0\] node 1 has a set within a set"),
        ([["a", {"a", None}], ["b"]], r"y\[0\] node 1 has the label None"),
        ([{"a", "b"}, ["b"]], r"y\[0\] is the set .* has no order"),
        ([[UNKNOWN, UNKNOWN], UNKNOWN], "All labels of y are UNKNOWN"),
    ],
)
def test_messages(y, message):
    with pytest.raises(ValueError, match=message):
        M3N().fit([[[0.0], [1.0]], [[1.0]]], y)


@pytest.mark.parametrize(
    ("given_labels", "message"),
    [
        ([["z", UNKNOWN]], r"given\[0\] node 0 has the label 'z', which is not one of the 2 classes"),
        ([[{"a", "z"}, UNKNOWN]], r"given\[0\] node 0 has a set with the label 'z'"),
        ([["a"]], r"given\[0\] has 1 labels but X\[0\] has 2 nodes"),
    ],
)
def test_messages_of_given_labels(given_labels, message):
    model = M3N().fit([[[0.0], [1.0]]], [["a", "b"]])
    with pytest.raises(ValueError, match=message):
        model.predict([[[0.0], [1.0]]], given=given_labels)


def test_a_set_outside_the_allowed_labels():
    examples = Examples.build(
        [[[1.0]], [[0.0]]], [[{"a", "b"}], ["c"]], labels=["a", "b", "c"], allowed=[[["c"]], [None]]
    )
    with pytest.raises(ValueError, match=r"y\[0\] node 0 has the set \[\"'a'\", \"'b'\"\], which is not allowed there"):
        M3N().fit(examples)


def test_forbidden_pairs_leave_a_completion():
    structure = Chain(forbidden=[("a", "a"), ("b", "b")])
    X = [[[1.0], [0.0], [1.0]], [[0.0], [1.0]]]
    model = M3N(structure=structure).fit(X, [["a", UNKNOWN, UNKNOWN], ["b", "a"]])
    assert model.predict(X, given=[["a", UNKNOWN, UNKNOWN], UNKNOWN])[0] == ["a", "b", "a"]
    with pytest.raises(ValueError, match=r"\[0\]"):
        model.predict(X, given=[["a", "a", UNKNOWN], UNKNOWN])


def test_score_counts_known_nodes():
    X, y, _ = words()
    model = L2CRF().fit(X, y)
    hidden = [[UNKNOWN] * len(labels) for labels in y]
    hidden[3] = y[3]
    assert model.score(X, hidden) == model.score(X[3:4], y[3:4])


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Hinge(completion="worst"), "completion must be 'best' or 'average'"),
        (Hinge(completion="average", slack="squared"), "needs slack='linear'"),
        (Hinge(completion="average", temperature=0.0), "temperature must be a positive"),
    ],
)
def test_options(loss, message):
    with pytest.raises(ValueError, match=message):
        MaxEnDNet(loss=loss).fit([[[1.0]], [[0.0]]], [["a"], ["b"]])


def test_seen_pairs_are_those_of_known_labels_and_sets():
    X, y = [[["one"], ["two"]], [["three"]], [["four"]]], [["a", {"b", "c"}], [UNKNOWN], ["a"]]
    model = L2CRF(structure=Chain(pairs="seen")).fit(X, y)
    seen = np.abs(model.coef_.toarray()) > 0
    names = model.feature_names_
    assert not seen[names.index("three")].any()
    assert seen[names.index("two")].tolist() == [False, True, True]


# ---- unlabelled examples ---------------------------------------------------------------------------------------------


def test_self_training_learns_from_unlabelled_examples():
    X, y, _ = words(n_examples=60)
    hidden = [*y[:6], *[UNKNOWN] * 54]
    alone = M3N(C=0.5).fit(X, hidden)
    helped = M3N(C=0.5, unlabelled=0.2, random_state=0).fit(X, hidden)
    assert helped.n_rounds_ == 6
    assert np.isnan(helped.gap_) and 0 <= helped.round_gap_ <= helped.tol
    assert helped.converged_
    assert not np.array_equal(alone.model_.weights, helped.model_.weights)
    assert helped.score(X, y) > 0.6
    # with no weight it is the model of the labelled examples
    none = M3N(C=0.5, solver=SelfTraining(weight=0.0, rounds=1), tol=1e-5).fit(X, hidden)
    assert_allclose(none.coef_, M3N(C=0.5, tol=1e-5).fit(X[:6], y[:6]).coef_, atol=1e-2)


def test_self_training_beside_partly_known_examples():
    X, y, hidden = words(n_examples=30)
    model = M3N(C=0.5, unlabelled=0.1, random_state=0, tol=1e-2).fit(X, [*hidden[:20], *[UNKNOWN] * 10])
    assert model.score(X, y) > 0.7
    assert model.round_gap_ <= 1e-2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unlabelled": -1.0}, "unlabelled must be a finite number of at least 0"),
        ({"solver": SelfTraining(weight=np.inf)}, "weight must be a finite number"),
        ({"solver": SelfTraining(rounds=0)}, "rounds must be a whole number of at least 1"),
        ({"solver": ConcaveConvex(starts=0)}, "starts must be a whole number of at least 1"),
        ({"solver": ConcaveConvex(inner="BFW")}, "inner must be a solver"),
    ],
)
def test_options_of_rounds(settings, message):
    X, y, _ = words(n_examples=5)
    with pytest.raises(ValueError, match=message):
        M3N(**settings).fit(X, [*y[:4], UNKNOWN])


def test_rounds_that_are_not_solved_to_the_end_are_not_called_converged():
    X, _, hidden = words()
    with pytest.warns(ConvergenceWarning, match="ConcaveConvex stopped .* raise max_passes or tol"):
        model = M3N(C=5.0, solver=ConcaveConvex(max_passes=1), tol=1e-6).fit(X, hidden)
    assert model.round_gap_ > 1e-6
    assert not model.converged_


@pytest.mark.parametrize("around", [ConcaveConvex(), SelfTraining()])
def test_convex_rounds_are_solved_by_the_solver_for_tol(around):
    """The default for a gap of 1e-2 is not made for one of 1e-6."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 3)) for _ in range(120)]
    y = [(x[:, 0] > 0).astype(int).tolist() for x in X]
    convex = M3N(C=10.0).pose(Examples.build(X, y), np.array([0, 1]))
    for tol in (1e-2, 1e-6):
        assert type(around._inner(convex, tol)) is type(default_solver(convex, tol).solver)
    assert type(around._inner(convex, 1e-2)) is not type(around._inner(convex, 1e-6))
