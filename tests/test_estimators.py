"""The estimators as a user of scikit-learn meets them: conventions, attributes, prediction."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    Examples,
    Gaussian,
    Hinge,
    Laplace,
    LapMEDN,
    Log,
    MaxEnDNet,
    SpikeSlab,
)
from maxendnet.posterior import PointEstimate, Posterior, VariationalPosterior
from maxendnet.solvers import LBFGS, BlockFrankWolfe, TraceRow, Variational

SYSTEMS = {
    "LapMEDN": LapMEDN(),
    "LapMEDN variational": LapMEDN(method="variational", iterations=3),
    "M3N": M3N(),
    "L1M3N": L1M3N(C=0.5),
    "L1M3N ball": L1M3N(radius=3.0),
    "CRF": CRF(),
    "L1CRF": L1CRF(),
    "L2CRF": L2CRF(),
    "MaxEnDNet": MaxEnDNet(SpikeSlab()),
}
every_system = pytest.mark.parametrize("model", [clone(m) for m in SYSTEMS.values()], ids=SYSTEMS.keys())


@pytest.fixture(scope="module")
def data():
    """Chains whose labels follow the features and the label before, with noise."""
    rng = np.random.default_rng(0)
    weights, X, y = rng.normal(size=(4, 3)), [], []
    for n in rng.integers(1, 7, size=40):
        x = rng.normal(size=(n, 4))
        scores, labels = x @ weights + 0.5 * rng.normal(size=(n, 3)), []
        for row in scores:
            labels.append("abc"[np.argmax(row + (np.array(list("abc")) == labels[-1] if labels else 0.0))])
        X.append(x)
        y.append(labels)
    return X, y


def roughly(model, **more):
    """A copy that is quick to fit: these tests are about what surrounds the optimum."""
    return clone(model).set_params(tol=0.2, random_state=0, **more)


def weights_of(model):
    return np.concatenate([np.ravel(part) for part in (model.coef_, model.transitions_, model.intercept_)])


# ---- conventions -----------------------------------------------------------------------------------------------------

# These checks look at 1e-7 in the scores, which takes a gap of 1e-14: see the next test, and
# `test_a_weight_is_a_repetition` for the margin models, whose solvers visit examples in another order when repeated.
TIGHT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "fitted to a gap of 0.3, and the check looks at 1e-7"
    for kind in ("dense", "sparse")
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        clone(model).set_params(tol=0.3, max_passes=10, **{"C": 0.01} if "C" in model.get_params() else {})
        for model in SYSTEMS.values()
    ],
    expected_failed_checks=lambda model: TIGHT,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # rounding ends these fits
@pytest.mark.parametrize("model", [L1CRF(tol=1e-15), L2CRF(tol=1e-15)], ids=["L1CRF", "L2CRF"])
@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data]
)
def test_scikit_learn_check_of_weights(model, check):
    check(type(model).__name__, clone(model))


@every_system
def test_clone_and_params(model):
    again = clone(model)
    assert again is not model
    assert repr(again) == repr(model)
    assert again.set_params(tol=0.5).get_params()["tol"] == 0.5
    assert model.tol == 1e-3


def test_the_constructor_only_stores():
    cost, solver, prior = object(), object(), object()
    assert M3N(C="x", cost=cost, solver=solver).cost is cost
    assert MaxEnDNet(prior=prior).prior is prior


def test_params_of_pieces_by_their_path():
    model = MaxEnDNet(Laplace(lam=1.0), Hinge(), solver=BlockFrankWolfe(check_every=5))
    assert model.get_params()["prior__lam"] == 1.0
    model.set_params(prior__lam=7.0, solver__check_every=3, loss__cost=[[0, 1], [1, 0]])
    assert (model.prior.lam, model.solver.check_every, model.loss.cost) == (7.0, 3, [[0, 1], [1, 0]])
    assert clone(model).prior is not model.prior
    assert MaxEnDNet(Gaussian(variance=2.0)).set_params(prior__variance=3.0).prior.get_params()["variance"] == 3.0


@pytest.mark.parametrize("form", ["list", "sparse", "dicts", "Examples"])
def test_grid_search_and_cross_validation_split_examples(data, form):
    X, y = data
    if form == "sparse":
        X = [sparse.csr_array(x) for x in X]
    if form == "dicts":
        X = [[{f"f{k}": value for k, value in enumerate(row)} for row in x] for x in X]
    if form == "Examples":
        X = Examples.build(X)
    model = L2CRF()
    scores = cross_val_score(model, X, y, cv=4)
    assert scores.shape == (4,)
    # one fold by hand: folds are runs of whole examples
    first = L2CRF().fit(X[10:], y[10:])
    assert scores[0] == pytest.approx(first.score(X[:10], y[:10]))
    search = GridSearchCV(model, {"lam": [0.1, 1e4]}, cv=2).fit(X, y)
    assert search.best_params_ == {"lam": 0.1}
    assert len(search.predict(X)) == len(X)


def test_grid_search_over_a_piece(data):
    search = GridSearchCV(MaxEnDNet(Laplace(), tol=0.2, random_state=0), {"prior__lam": [1.0, 1e6]}, cv=2).fit(*data)
    assert search.best_params_ == {"prior__lam": 1.0}


@every_system
@pytest.mark.parametrize("warm_start", [False, True])
def test_pickle_and_deepcopy(model, data, warm_start):
    X, y = data
    fitted = roughly(model, warm_start=warm_start).fit(X, y)
    for again in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert_array_equal(weights_of(again), weights_of(fitted))
        assert_array_equal(np.concatenate(again.predict(X)), np.concatenate(fitted.predict(X)))
        assert_array_equal(again.posterior_.mean, fitted.posterior_.mean)
        assert again.trace_ == fitted.trace_ or np.isnan(fitted.gap_)
        again.fit(X, y)  # from the beginning, even with warm_start
        assert_array_equal(weights_of(again), weights_of(fitted))
    pickle.loads(pickle.dumps(model))  # not fitted


@every_system
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(model, data):
    one = roughly(model, n_jobs=1).fit(*data)
    for n_jobs in (1, 2, -1):
        again = roughly(model, n_jobs=n_jobs).fit(*data)
        assert_array_equal(weights_of(again), weights_of(one))
        assert (again.objective_, again.n_passes_) == (one.objective_, one.n_passes_)
        for method in ("predict_marginals", "predict_max_marginals"):
            assert_array_equal(
                np.concatenate(getattr(again, method)(data[0])), np.concatenate(getattr(one, method)(data[0]))
            )


def test_random_state_of_any_kind(data):
    def fitted(random_state):
        return weights_of(M3N(random_state=random_state, tol=0.2).fit(*data))

    assert_array_equal(fitted(np.random.default_rng(3)), fitted(3))
    assert_array_equal(fitted(np.random.RandomState(3)), fitted(np.random.RandomState(3)))
    assert not np.array_equal(fitted(3), fitted(4))


@pytest.mark.parametrize(
    "model",
    [
        M3N(C=0.3, tol=1e-6),
        LapMEDN(C=0.3, tol=1e-6),
        LapMEDN(C=0.3, method="variational", tol=1e-6),
        L1M3N(C=0.3, tol=1e-6),
        L1CRF(tol=1e-8),
        L2CRF(tol=1e-10),
    ],
    ids=lambda model: f"{type(model).__name__}{getattr(model, 'method', '')}",
)
def test_a_weight_is_a_repetition(model, data):
    X, y = data[0][:12], data[1][:12]
    times = np.array([2, 0, 1, 1, 3, 1, 1, 0, 1, 2, 1, 1])
    rows = np.repeat(np.arange(12), times)
    model.set_params(random_state=0, max_passes=5000)
    weighted = clone(model).fit(X, y, sample_weight=times)
    repeated = clone(model).fit([X[i] for i in rows], [y[i] for i in rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=3 * model.tol)
    if not isinstance(model, L1M3N):  # whose minimiser need not be unique
        assert_allclose(weights_of(weighted), weights_of(repeated), atol=0.01)
    inside = clone(model).fit(Examples.build(X, y, weights=times))
    assert_array_equal(weights_of(inside), weights_of(weighted))


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (M3N(), "C", 1.2),
        (LapMEDN(), "C", 1.2),
        (LapMEDN(method="variational"), "C", 1.2),
        (L1M3N(C=0.2), "C", 0.22),
        (L1CRF(lam=1.0), "lam", 0.9),
        (L2CRF(lam=0.5), "lam", 0.45),
        (MaxEnDNet(SpikeSlab()), "C", 1.2),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else str(value),
)
def test_a_warm_start_saves_work(model, name, value, data):
    model = clone(model).set_params(warm_start=True, random_state=0, max_passes=5000).fit(*data)
    model.fit(*data)
    again = model.trace_[-1].n_oracle
    model.set_params(**{name: value}).fit(*data)
    warm = model.trace_[-1].n_oracle
    cold = clone(model).fit(*data)
    assert again < cold.trace_[-1].n_oracle
    assert warm < cold.trace_[-1].n_oracle
    assert model.objective_ == pytest.approx(cold.objective_, rel=2.1e-3)


def test_a_warm_start_of_the_unregularised_crf_is_done_at_once(data):
    model = CRF(warm_start=True, tol=1e-4).fit(*data)
    first = model.n_passes_
    assert model.fit(*data).n_passes_ <= 1 < first


@every_system
def test_a_warm_start_from_another_problem_is_a_cold_start(model, data):
    X, y = data
    model = roughly(model, warm_start=True).fit(X, y)
    model.fit([x[:, :2] for x in X], y)
    assert_array_equal(weights_of(model), weights_of(roughly(model).fit([x[:, :2] for x in X], y)))
    other = (
        {"solver": Variational()}
        if isinstance(model, LapMEDN) and model.method == "exact"
        else {"structure": "independent"}
    )
    model.set_params(**other).fit(X, y)
    assert_array_equal(weights_of(model), weights_of(clone(model).fit(X, y)))


def test_a_fit_that_fails_leaves_the_last_one_whole(data):
    X, y = data
    model = M3N(tol=0.2).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="C must be"):
        model.set_params(C=-1.0).fit([x[:, :2] for x in X], [["q"] * len(x) for x in X])
    for one, other in zip(model.predict(X), before):
        assert_array_equal(one, other)


def test_settings_changed_after_the_fit_are_noticed(data):
    for name, value in (("bias", True), ("ends", True), ("structure", "independent")):
        model = M3N(tol=0.2).fit(*data).set_params(**{name: value})
        with pytest.raises(ValueError, match="changed after the fit"):
            model.predict(data[0])


# ---- data ------------------------------------------------------------------------------------------------------------


@every_system
def test_bias_and_ends(model, data):
    X, y = data
    fitted = roughly(model, bias=True, ends=True).fit(X, y)
    n_labels = len(fitted.classes_)
    assert fitted.coef_.shape == (4, n_labels)
    assert fitted.intercept_.shape == fitted.start_.shape == fitted.end_.shape == (n_labels,)
    # the score by hand: what a bias and the two ends add
    x, labels = X[0], np.searchsorted(fitted.classes_, fitted.predict(X[:1])[0])
    score = (x @ fitted.coef_ + fitted.intercept_)[np.arange(len(x)), labels].sum()
    score += fitted.start_[labels[0]] + fitted.end_[labels[-1]] + fitted.transitions_[labels[:-1], labels[1:]].sum()
    assert fitted.decision_function(X[:1])[0] == pytest.approx(score)
    plain = roughly(model).fit(X, y)
    assert not plain.intercept_.any() and not plain.start_.any() and not plain.end_.any()


def test_a_bias_learns_the_frequencies():
    y = [["a"], ["a"], ["a"], ["b"]]
    model = CRF(bias=True, tol=1e-8).fit([[[0.0]]] * 4, y)
    assert_allclose(model.predict_marginals([[[0.0]]])[0], [[0.75, 0.25]], atol=1e-6)


def test_ends_learn_the_first_and_the_last_label():
    y = [["start", "end"]] * 3
    model = L2CRF(lam=0.1, ends=True).fit([[[0.0], [0.0]]] * 3, y)
    # two nodes without features are told apart by their ends alone
    independent = L2CRF(lam=0.1, ends=True, structure="independent").fit([[[0.0], [0.0]]] * 3, y)
    for fitted in (model, independent):
        assert fitted.predict([[[0.0], [0.0]]])[0].tolist() == ["start", "end"]
        assert fitted.start_[1] > fitted.start_[0] and fitted.end_[0] > fitted.end_[1]


@pytest.mark.parametrize(
    "classes",
    [
        ["x", "y"],
        [3, 7],
        [("a", 1), ("b", 2)],
        [None, "y"],
        [True, False],
        [1, "one"],
        [frozenset("a"), frozenset("b")],
    ],
    ids=str,
)
def test_labels_are_any_hashables(classes):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    codes = [(x[:, 0] > 0).astype(int) for x in X]
    y = [[classes[k] for k in row] for row in codes]
    model = M3N(C=10.0, random_state=0).fit(X, y)
    assert set(model.classes_) == set(classes)
    assert [list(labels) for labels in model.predict(X)] == y
    assert model.score(X, y) == 1.0
    assert model.sample(X, 2, random_state=0)[1][0][0] in classes
    assert list(model.predict_top(X, 1)[0][0][1]) == y[0]


def test_unseen_features_are_ignored():
    X = [[{"word": "the"}, {"word": "dog", "cap": True}], [{"word": "dogs"}]]
    model = LapMEDN(C=10.0, random_state=0).fit(X, [["D", "N"], ["N"]])
    assert model.feature_names_ == ("cap", "word=dog", "word=dogs", "word=the")
    assert model.n_features_in_ == 4
    known = model.decision_function([[{"word": "the"}, {}]])
    assert_allclose(model.decision_function([[{"word": "the", "new": 3.0}, {"word": "never seen"}]]), known)
    assert model.predict([[{"unknown": 1.0}]])[0].shape == (1,)
    assert model.score([[{"word": "the", "new": 3.0}]], [["D"]]) == 1.0


@pytest.mark.parametrize("structure", ["chain", "tree"])
def test_trees_come_as_pairs(structure):
    """A star whose leaves copy the middle, which alone has a feature."""
    rng = np.random.default_rng(0)
    edges = [(0, 1), (0, 2), (0, 3)]
    signs = rng.choice([-1.0, 1.0], size=20)
    X = [(np.array([[sign], [0.0], [0.0], [0.0]]), edges) for sign in signs]
    y = [["plus" if sign > 0 else "minus"] * 4 for sign in signs]
    model = M3N(C=10.0, structure=structure, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.transitions_[0, 0] > model.transitions_[0, 1]
    # without the edges the leaves cannot know
    alone = M3N(C=10.0, structure="independent", random_state=0).fit(X, y)
    assert alone.score(X, y) < 1.0
    assert alone.transitions_.size == 0


def test_a_transition_is_read_from_the_first_node_of_its_edge():
    X = [(np.zeros((2, 1)), [(1, 0)])] * 5  # node 1 is the parent
    y = [["child", "parent"]] * 5
    transitions = L2CRF(lam=0.1, structure="tree").fit(X, y).transitions_
    assert np.argmax(transitions) == np.ravel_multi_index((1, 0), (2, 2))  # row: parent, column: child


def test_everything_an_example_can_carry():
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=3) for _ in range(10)]
    examples = Examples.build(
        [rng.normal(size=(3, 2)) for _ in y],
        y,
        edge_types=[[0, 1]] * 10,
        edge_features=[rng.normal(size=(2, 2)) for _ in y],
        node_types=[[0, 1, 1]] * 10,
        label_features=[rng.normal(size=(3, 2, 3)) for _ in y],
        labels=[0, 1],
    )
    model = LapMEDN(tol=0.1, random_state=0).fit(examples)
    assert model.transitions_.shape == (2, 2, 2)
    assert model.edge_coef_.shape == (2, 2, 2)
    assert model.tied_coef_.shape == (3,)
    n_weights = 4 + 8 + 8 + 3
    assert model.posterior_.mean.shape == (n_weights,)
    assert 0.0 <= model.score(examples) <= 1.0


def test_a_forbidden_label_is_never_predicted(data):
    X, y = data
    model = M3N(tol=0.2, random_state=0).fit(X, y)
    allowed = [np.ones((len(x), 3), dtype=bool) for x in X]
    for mask in allowed:
        mask[:, 0] = False
    restricted = Examples.build(X, allowed=allowed, labels=["a", "b", "c"])
    assert "a" not in np.concatenate(model.predict(restricted))
    assert_array_equal(np.concatenate(model.predict_marginals(restricted))[:, 0], 0.0)
    assert all("a" not in labels for draw in model.sample(restricted, 3, random_state=0) for labels in draw)


def test_node_types_restrict_labels():
    X, y = [np.zeros((2, 1))] * 4, [["a", "b"]] * 4
    model = M3N(tol=0.1).fit(Examples.build(X, y, node_types=[[0, 1]] * 4))
    assert model.predict(Examples.build(X[:1], node_types=[[1, 0]]))[0].tolist() == ["b", "a"]


# ---- prediction ------------------------------------------------------------------------------------------------------


@every_system
def test_predictions_fit_together(model, data):
    X, y = data
    fitted = roughly(model).fit(X, y)
    predicted, best = fitted.predict(X), fitted.decision_function(X)
    top, marginals, maxima = fitted.predict_top(X, 4), fitted.predict_marginals(X), fitted.predict_max_marginals(X)
    assert best.shape == (len(X),)
    for i, x in enumerate(X):
        n_found = min(4, 3 ** len(x))
        assert predicted[i].shape == (len(x),)
        assert marginals[i].shape == maxima[i].shape == (len(x), 3)
        assert len(top[i]) == n_found
        scores = [score for score, _ in top[i]]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == pytest.approx(best[i])
        assert_array_equal(top[i][0][1], predicted[i])
        assert len({tuple(labels) for _, labels in top[i]}) == n_found
        assert_allclose(marginals[i].sum(axis=1), 1.0)
        assert np.all(marginals[i] >= 0)
        assert_allclose(maxima[i].max(axis=1), best[i])
    right = np.concatenate(predicted) == np.concatenate(y)
    assert fitted.score(X, y) == pytest.approx(right.mean())
    weights = np.arange(1.0, len(X) + 1)
    expected = np.average(right, weights=np.repeat(weights, [len(x) for x in X]))
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(expected)
    assert fitted.score(Examples.build(X, y)) == pytest.approx(right.mean())


def test_scores_and_marginals_are_those_of_all_labellings(data):
    """predict_top(all) against the marginals: two ways to the same distribution."""
    X, y = data
    model = L2CRF().fit(X, y)
    for x, top, marginals in zip(X[:5], model.predict_top(X[:5], 3**6), model.predict_marginals(X[:5])):
        assert len(top) == 3 ** len(x)
        scores = np.array([score for score, _ in top])
        p = np.exp(scores - scores.max())
        expected = np.zeros_like(marginals)
        for share, (_, labels) in zip(p / p.sum(), top):
            expected[np.arange(len(x)), np.searchsorted(model.classes_, labels)] += share
        assert_allclose(marginals, expected, atol=1e-12)


def test_samples_follow_the_marginals(data):
    X, y = data
    model = L2CRF().fit(X, y)
    draws = model.sample(X[:3], 4000, random_state=0)
    assert len(draws) == 4000 and len(draws[0]) == 3
    for i, marginals in enumerate(model.predict_marginals(X[:3])):
        frequencies = np.mean([draw[i][:, None] == model.classes_ for draw in draws], axis=0)
        assert_allclose(frequencies, marginals, atol=0.04)  # five standard deviations of 4000 draws
    again = model.sample(X[:3], 4000, random_state=0)
    assert all(np.array_equal(a, b) for one, other in zip(draws, again) for a, b in zip(one, other))


def test_a_table_is_predicted_as_one_array():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = np.where(X[:, 0] > 0, "up", "down")
    for given in (X, sparse.csr_array(X)):
        model = M3N(C=10.0, random_state=0).fit(given, y)
        assert_array_equal(model.predict(given), y)
        assert model.predict_marginals(given).shape == (30, 2)
        assert model.decision_function(given).shape == (30,)
        assert model.score(given, y) == 1.0
        assert model.sample(given, 2, random_state=0)[0].shape == (30,)


def test_prediction_needs_a_fit(data):
    for name in ("predict", "predict_marginals", "predict_max_marginals", "predict_top", "sample", "decision_function"):
        with pytest.raises(NotFittedError, match="not fitted"):
            getattr(M3N(), name)(data[0])
    with pytest.raises(NotFittedError, match="not fitted"):
        M3N().score(*data)


# ---- what a fit leaves behind ----------------------------------------------------------------------------------------


@every_system
def test_attributes(model, data):
    X, y = data
    fitted = clone(model).set_params(tol=0.05, random_state=0)
    assert fitted.fit(X, y) is fitted
    assert fitted.coef_.shape == (4, 3) and fitted.transitions_.shape == (3, 3)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.n_features_in_ == 4 and fitted.feature_names_ is None
    assert fitted.which_ in ("last", "average")
    assert type(fitted.objective_) is type(fitted.dual_) is type(fitted.gap_) is float
    assert type(fitted.converged_) is bool
    if isinstance(model, CRF):
        assert np.isnan(fitted.dual_) and np.isnan(fitted.gap_) and fitted.converged_
    else:
        assert fitted.dual_ <= fitted.objective_
        assert fitted.converged_ == (fitted.gap_ <= 0.05)
    assert TraceRow._fields == ("n_pass", "seconds", "n_oracle", "primal", "dual", "gap", "n_nonzero")
    trace = fitted.trace_
    assert all(isinstance(row, TraceRow) for row in trace)
    for column in ("n_pass", "seconds", "n_oracle"):
        values = [getattr(row, column) for row in trace]
        assert values == sorted(values)
    last = trace[-1]
    assert last.n_pass == fitted.n_passes_
    assert last.n_nonzero == np.count_nonzero(fitted.posterior_.mean)
    assert_array_equal(fitted.posterior_.mean, weights_of(fitted)[:-3])
    if not (isinstance(model, LapMEDN) and model.iterations):  # whose variances are the algorithm's own
        assert_allclose([fitted.objective_, fitted.dual_, fitted.gap_], last[3:6], rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "kind", "exact"),
    [
        (M3N(), Posterior, "exact"),
        (LapMEDN(), Posterior, "exact"),
        (LapMEDN(solver=Variational()), Posterior, "exact"),
        (LapMEDN(method="variational"), VariationalPosterior, "variational"),
        (LapMEDN(method="variational", iterations=3), VariationalPosterior, "variational"),
        (MaxEnDNet(SpikeSlab()), Posterior, "exact"),
        (L1M3N(C=0.5), PointEstimate, "point"),
        (L1M3N(radius=3.0), PointEstimate, "point"),
        (CRF(), PointEstimate, "point"),
        (L1CRF(), PointEstimate, "point"),
        (L2CRF(), PointEstimate, "point"),
        (MaxEnDNet(Laplace(), Log()), PointEstimate, "point"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_posterior(model, kind, exact, data):
    fitted = roughly(model).fit(*data)
    posterior = fitted.posterior_
    assert type(posterior) is kind and posterior.kind == exact
    # the weights that predict are the mean, also where a solver stopped early
    assert_allclose(posterior.mean, weights_of(fitted)[:-3], rtol=1e-9, atol=1e-12)
    if kind is PointEstimate:
        for name in ("variance", "sample", "kl", "relevance"):
            with pytest.raises(ValueError, match=f"point estimate and has no {name}; M3N, LapMEDN"):
                getattr(posterior, name)
        return
    assert posterior.variance.shape == posterior.mean.shape == posterior.relevance.shape
    assert np.all(posterior.variance > 0) and np.all((posterior.relevance >= 0) & (posterior.relevance <= 1))
    draws = posterior.sample(20_000, random_state=0)
    deviation = np.sqrt(posterior.variance / len(draws))
    assert np.abs(draws.mean(axis=0) - posterior.mean).max() < 6 * deviation.max()
    assert posterior.kl >= 0
    if kind is Posterior:
        prior = posterior.prior
        assert posterior.kl == pytest.approx(prior.penalty(posterior.mean), rel=1e-6)


def test_the_kl_of_the_variational_posterior_bounds_that_of_its_gaussian(data):
    """KL(N(mu, v) || Laplace) by simulation."""
    lam = 0.7
    posterior = LapMEDN(lam=lam, method="variational", random_state=0).fit(*data).posterior_
    w = posterior.sample(50_000, random_state=0)
    log_q = -0.5 * (w - posterior.mean) ** 2 / posterior.variance - 0.5 * np.log(2 * np.pi * posterior.variance)
    log_p = 0.5 * np.log(lam) - np.log(2) - np.sqrt(lam) * np.abs(w)
    true = np.mean((log_q - log_p).sum(axis=1))
    # the bound has sqrt(<w^2>) where the divergence has <|w|>
    second = np.sqrt(posterior.mean**2 + posterior.variance)
    loose = np.sqrt(lam) * np.sum(second - np.abs(w).mean(axis=0))
    assert loose > 0
    assert posterior.kl == pytest.approx(true + loose, abs=0.1)


@every_system
def test_a_fit_that_stops_early_names_the_gap(model, data):
    model = clone(model).set_params(tol=1e-9, max_passes=2, random_state=0)
    if getattr(model, "method", "exact") == "variational":
        model.set_params(iterations=None)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert len(caught) == 1 and caught[0].filename == __file__
    message = str(caught[0].message)
    assert "stopped after 2 passes" in message and "tol 1e-09" in message and "raise max_passes" in message
    assert not model.converged_
    if isinstance(model, CRF):
        assert "relative gradient norm" in message
    else:
        assert f"with gap {model.gap_:.2g} > tol" in message


@pytest.mark.parametrize(
    "model",
    [LapMEDN(method="variational", iterations=3, tol=1e-5), LapMEDN(solver=Variational(iterations=3), tol=1e-5)],
    ids=["method", "solver"],
)
def test_a_number_of_iterations_that_was_asked_for_is_no_reason_to_warn(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(random_state=0).fit(*data)
    assert model.n_passes_ == 3
    assert not model.converged_
    assert model.gap_ > 1e-5


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose(verbose, data, capsys):
    M3N(verbose=verbose, tol=0.2, random_state=0).fit(*data)
    out = capsys.readouterr()
    assert "gap" in (out.err if verbose == 1 else out.out)
    assert "M3N" in (out.err if verbose == 1 else out.out)
    M3N(tol=0.2, random_state=0).fit(*data)
    out = capsys.readouterr()
    assert out.out == out.err == ""


def test_maxendnet_is_every_row(data):
    settings = {"random_state": 0, "tol": 1e-5, "max_passes": 20_000}
    rows = [
        (M3N(C=0.5), MaxEnDNet(Gaussian(), Hinge(), C=0.5)),
        (LapMEDN(C=0.5, lam=2.0), MaxEnDNet(Laplace(2.0), C=0.5)),
        (L2CRF(lam=2.0), MaxEnDNet(Gaussian(0.5), Log())),
    ]
    for one, other in rows:
        one, other = (model.set_params(**settings).fit(*data) for model in (one, other))
        assert one.objective_ == other.objective_
        assert_array_equal(weights_of(one), weights_of(other))
    assert MaxEnDNet(C=0.5, **settings).fit(*data).objective_ == rows[0][0].objective_


@pytest.mark.parametrize("cost", [[[0.0, 1.0], [3.0, 0.0]], [[0.0, 3.0], [1.0, 0.0]]])
def test_the_margin_is_the_cost_of_the_mistake(cost):
    """Six examples say 'a' and four say 'b', of the same input: 'a' wins by what it costs to predict 'b' instead."""
    model = M3N(C=100.0, cost=cost, structure="independent", tol=1e-6, random_state=0, max_passes=5000)
    model.fit([[[1.0]]] * 10, [["a"]] * 6 + [["b"]] * 4)
    assert model.coef_[0, 0] - model.coef_[0, 1] == pytest.approx(cost[0][1], abs=1e-3)


def test_the_solver_of_the_variational_method_is_the_inner_one(data):
    model = LapMEDN(method="variational", iterations=2, solver=BlockFrankWolfe(check_every=3), random_state=0).fit(
        *data
    )
    assert model.n_passes_ == 2
    with pytest.raises(ValueError, match=r"LBFGS needs .*Gaussian prior and Hinge loss.*BlockFrankWolfe"):
        LapMEDN(method="variational", solver=LBFGS()).fit(*data)


def test_help_has_all_parameters_and_attributes():
    for system in SYSTEMS.values():
        doc = type(system).__doc__
        for name in system.get_params(deep=False):
            assert f"    {name} : " in doc, f"{name} is not described in {type(system).__name__}"
        assert doc.count("Parameters\n    ----------") == doc.count("Attributes\n    ----------") == 1
        assert "trace_ : " in doc
