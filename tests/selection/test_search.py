"""PathSearchCV: results of a plain grid search with less work, and the scikit-learn API."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from systems import labelled_chains, weights_of

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Examples, LapMEDN, MaxEnDNet, PathSearchCV
from maxendnet.selection.search import default_grid

ESTIMATORS = [M3N(), LapMEDN(), L1M3N(), L1CRF(), L2CRF()]
of_each = pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


SEARCH = PathSearchCV(M3N(tol=0.3, max_passes=5, random_state=0), {"C": [0.1, 1.0]}, cv=2, search_tol=0.5)
CHECKS = [
    pytest.param(estimator, check, id=check.func.__name__)
    for estimator, check in estimator_checks_generator(SEARCH)
    # a duplicated example and an example of weight 2 are split into folds differently
    if not check.func.__name__.startswith("check_sample_weight_equivalence")
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_agrees_with_grid_search(data):
    """With a small gap, warm and cold starts reach the same optimum of a convex problem, so scores are equal."""
    X, y = data
    grid = {"lam": [0.1, 30.0, 3.0]}
    ours = PathSearchCV(L2CRF(tol=1e-9), grid, cv=3, search_tol=None).fit(X, y)
    theirs = GridSearchCV(L2CRF(tol=1e-9), grid, cv=3).fit(X, y)
    scores = ours.cv_results_["mean_test_score"]
    assert_allclose(scores, theirs.cv_results_["mean_test_score"])
    assert ours.best_score_ == pytest.approx(theirs.best_score_) and ours.n_splits_ == theirs.n_splits_
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert_array_equal(ours.cv_results_["rank_test_score"], theirs.cv_results_["rank_test_score"])
    assert {key for key in theirs.cv_results_ if "time" not in key} <= set(ours.cv_results_)


@pytest.mark.parametrize(
    ("model", "powers"),
    [(M3N(), {"C": -2}), (LapMEDN(), {"C": 0, "lam": 2}), (L1M3N(), {"C": -1}), (L1CRF(), {"lam": 1}),
     (L2CRF(), {"lam": 2})],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_default_grids_follow_the_scale_of_the_features(model, powers, data):
    """If features are multiplied by a, the same problem has hyper-parameters multiplied by these powers of a."""
    X, y = data
    model = clone(model).set_params(structure="independent")
    left, right = (default_grid(model, Examples.build([a * x for x in X], y)) for a in (1.0, 100.0))
    assert len(left) == len(right) == (12 if isinstance(model, LapMEDN) else 7)
    for point, scaled in zip(left, right):
        assert scaled == pytest.approx({name: value * 100.0 ** powers[name] for name, value in point.items()})


def test_the_l1_grid_begins_where_weights_begin(data):
    X, y = data
    largest = default_grid(L1CRF(), Examples.build(X, y))[0]["lam"]
    none = L1CRF(lam=largest / 0.3).fit(X, y)
    assert not none.coef_.any() and not none.transitions_.any()
    sparse = L1CRF(lam=0.99 * largest / 0.3, tol=1e-6).fit(X, y)
    assert sparse.coef_.any() or sparse.transitions_.any()


@of_each
def test_a_search_without_a_grid(model, data):
    search = PathSearchCV(clone(model).set_params(random_state=0, tol=0.1), cv=2, search_tol=0.3).fit(*data)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_score_ == scores.max() > scores.min()
    assert search.best_estimator_.gap_ <= 0.1


def test_results_do_not_depend_on_n_jobs(data):
    X, y = data
    results = []
    for n_jobs in (1, 2):
        model = M3N(tol=0.2, random_state=np.random.RandomState(3))
        with parallel_config(backend="threading"):  # the default, processes, is slow to start
            search = PathSearchCV(model, {"C": [0.1, 1.0]}, cv=3, n_jobs=n_jobs).fit(X, y)
        results.append((search.cv_results_["mean_test_score"], weights_of(search.best_estimator_)))
    assert_array_equal(results[0][0], results[1][0])
    assert_array_equal(results[0][1], results[1][1])


def test_the_winner_is_fitted_to_the_full_tol(data):
    search = PathSearchCV(M3N(tol=1e-4, random_state=0), {"C": [0.05, 0.1]}, cv=2, search_tol=0.3).fit(*data)
    assert search.best_estimator_.gap_ <= 1e-4 < search.cv_results_["mean_gap"].min()
    expected = clone(search.estimator).set_params(**search.best_params_).fit(*data)
    assert_array_equal(weights_of(search.best_estimator_), weights_of(expected))
    assert not hasattr(search.estimator, "coef_")


def test_predictions_are_those_of_the_best_model(data):
    X, y = data
    search = PathSearchCV(M3N(tol=0.2, random_state=0), {"C": [0.1]}, cv=2)
    with pytest.raises(NotFittedError):
        search.predict(X)
    search.fit(X, y)
    best = search.best_estimator_
    for name in ("predict", "predict_marginals", "predict_max_marginals"):
        for left, right in zip(getattr(search, name)(X), getattr(best, name)(X)):
            assert_array_equal(left, right)
    assert_array_equal(search.decision_function(X), best.decision_function(X))
    assert len(search.predict_top(X, 2)[0]) == 2 and len(search.sample(X, 3, random_state=0)) == 3
    assert search.score(X, y) == best.score(X, y)
    assert_array_equal(search.classes_, best.classes_)
    unfitted = PathSearchCV(M3N(tol=0.2), {"C": [0.1]}, cv=2, refit=False).fit(X, y)
    assert not hasattr(unfitted, "predict") and unfitted.best_params_ == {"C": 0.1}


def test_groups_stay_together(data):
    X, y = data
    groups = np.arange(len(X)) % 4
    search = PathSearchCV(M3N(tol=0.2, random_state=0), {"C": [0.1, 1.0]}, cv=GroupKFold(4))
    search.fit(X, y, groups=groups)
    expected = cross_val_score(M3N(C=0.1, tol=0.2, random_state=0), X, y, groups=groups, cv=GroupKFold(4))
    scores = [search.cv_results_[f"split{k}_test_score"][0] for k in range(4)]
    assert_allclose(scores, expected)  # the first point of a path is a cold start
    with pytest.raises(ValueError, match="groups"):
        search.fit(X, y)


def test_feature_dicts_trees_weights_and_a_scorer():
    words = ["the", "dog", "a", "cat", "runs", "sleeps"]
    X = [([{"word": words[i % 6]}, {"word": words[(i + 1) % 6]}], [(0, 1)]) for i in range(12)]
    y = [["even" if int(words.index(node["word"])) % 2 == 0 else "odd" for node in nodes] for nodes, _ in X]
    arguments = []

    def exact(model, X, y):
        arguments.append((type(X), type(y)))
        return float(np.mean([list(p) == list(t) for p, t in zip(model.predict(X), y)]))

    search = PathSearchCV(L2CRF(structure="tree"), {"lam": [0.1, 1e6]}, cv=KFold(3), scoring=exact)
    search.fit(X, y, sample_weight=np.ones(12))
    assert search.best_params_ == {"lam": 0.1} and search.best_score_ == 1.0
    assert arguments[0] == (Examples, list) and search.score(X, y) == 1.0
    assert search.best_estimator_.feature_names_[0] == "word=a"


def test_one_split_one_point_and_progress(data, capsys):
    search = PathSearchCV(M3N(tol=0.2), {"C": [0.1]}, cv=[(np.arange(20), np.arange(20, 40))], verbose=1).fit(*data)
    assert search.n_splits_ == 1 and search.best_index_ == 0
    assert "M3N search" in capsys.readouterr().err
    with pytest.raises(ValueError, match="at least one"):
        PathSearchCV(M3N(), {"C": [0.1]}, cv=1).fit(*data)
    with pytest.raises(ValueError, match="yields no split"):
        PathSearchCV(M3N(), {"C": [0.1]}, cv=[]).fit(*data)


def test_of_equals_the_most_regularised(data):
    X = [[[1.0]], [[-1.0]]] * 6
    y = [["a"], ["b"]] * 6
    assert PathSearchCV(M3N(), {"C": [1.0, 10.0, 0.1]}, cv=2).fit(X, y).best_params_ == {"C": 0.1}


def test_a_constant_that_makes_a_fit_fail(data):
    search = PathSearchCV(M3N(tol=0.2), {"C": [-1.0, 0.1]}, cv=2)
    with pytest.warns(FitFailedWarning, match="2 fits of the search failed.*C must be a positive") as caught:
        search.fit(*data)
    assert caught[0].filename == __file__
    assert search.best_params_ == {"C": 0.1}
    assert np.isnan(search.cv_results_["mean_test_score"][0])
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1]
    with pytest.raises(ValueError, match="C must be a positive"):
        clone(search).set_params(error_score="raise").fit(*data)
    with pytest.raises(ValueError, match="All 2 fits of the search failed"):
        clone(search).set_params(grid={"C": [-1.0]}).fit(*data)


def test_fits_of_the_search_do_not_warn_and_the_last_one_does(data):
    rough = PathSearchCV(M3N(max_passes=1, tol=1e-6, random_state=0), {"C": [0.1, 1.0]}, cv=2, search_tol=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        clone(rough).set_params(refit=False).fit(*data)
    with pytest.warns(ConvergenceWarning) as caught:
        rough.fit(*data)
    assert len(caught) == 1 and (rough.cv_results_["mean_gap"] > 1e-6).all()


def less_is_better(model, X, y):
    return -model.C


def more_is_better(model, X, y):
    return min(model.C, 1e3)


def test_the_own_grid_grows_where_the_best_is_at_its_edge(data):
    model, first = M3N(tol=0.3, random_state=0, max_passes=3), [{"C": 0.1}]
    start = [point["C"] for point in default_grid(model, Examples.build(*data))]
    search = PathSearchCV(model, cv=2, search_tol=0.5, scoring=less_is_better, refit=False).fit(*data)
    constants = [point["C"] for point in search.cv_results_["params"]]
    assert constants[:7] == start and search.best_params_ == {"C": min(constants)}
    assert_allclose(constants[7:], [start[0] / 10**0.5, start[0] / 10])
    assert len(search.cv_results_["split1_test_score"]) == len(search.cv_results_["mean_gap"]) == 9
    search.set_params(scoring=more_is_better).fit(*data)
    assert search.best_params_["C"] == pytest.approx(start[-1] * 10)
    search.set_params(grid=first).fit(*data)  # a grid of the user does not grow
    assert search.cv_results_["params"] == first


def test_the_grid_of_two_constants_grows_along_both(data):
    model = LapMEDN(tol=0.3, random_state=0, max_passes=2)
    search = PathSearchCV(model, cv=2, search_tol=0.5, scoring=less_is_better, refit=False).fit(*data)
    points = search.cv_results_["params"]
    assert len(points) == 18 and search.best_params_["C"] == pytest.approx(10**-1.5)
    assert len({(round(np.log10(p["C"]), 6), round(np.log10(p["lam"] / p["C"]), 6)) for p in points}) == 18


def test_the_plot_has_a_line_for_every_other_constant(data):
    pytest.importorskip("matplotlib")
    X, y = data
    search = PathSearchCV(LapMEDN(tol=0.3), {"C": [0.1, 1.0], "lam": [1.0, 10.0, 100.0]}, cv=2, search_tol=0.5)
    with pytest.raises(NotFittedError):
        search.plot()
    ax = search.fit(X, y).plot()
    assert ax.get_xlabel() == "lam" and ax.get_xscale() == "log" and search.plot(ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == ["C=0.1", "C=1"]
    drawn = ax.containers[0].lines[0].get_xydata()
    assert_allclose(drawn, np.column_stack([[1.0, 10.0, 100.0], search.cv_results_["mean_test_score"][:3]]))
    star = next(line for line in ax.get_lines() if line.get_marker() == "*").get_xydata()
    assert_allclose(star, [[search.best_params_["lam"], search.best_score_]])
    categories = PathSearchCV(M3N(tol=0.3), {"structure": ["chain", "independent"]}, cv=2, search_tol=0.5).fit(X, y)
    with pytest.raises(ValueError, match="No hyper-parameter of the grid is a number"):
        categories.plot()


def test_without_matplotlib_the_error_names_the_package(data, monkeypatch):
    search = PathSearchCV(M3N(tol=0.3), {"C": [0.1, 1.0]}, cv=2, search_tol=0.5, refit=False).fit(*data)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'maxendnet\[plot\]'"):
        search.plot()


def test_stratified_folds_are_for_tables(data):
    X, y = data
    search = PathSearchCV(M3N(tol=0.3, structure="independent"), {"C": [0.1]}, cv=StratifiedKFold(2), search_tol=0.5)
    with pytest.raises(ValueError, match=r"StratifiedKFold needs one label per example.*KFold\(5, shuffle=True\)"):
        search.fit(X, y)
    labels = np.array(["rare"] * 2 + ["often"] * 18)
    search.set_params(scoring=lambda model, X, y: float(np.mean(np.asarray(y) == "rare"))).fit(np.eye(20), labels)
    assert [search.cv_results_[f"split{k}_test_score"][0] for k in range(2)] == [0.1, 0.1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "M3N"}, "estimator must be an estimator of maxendnet"),
        ({"estimator": CRF()}, "CRF has no default grid"),
        ({"estimator": MaxEnDNet()}, "MaxEnDNet has no default grid"),
        ({"grid": {}}, "grid has no points"),
        ({"grid": {"D": [1.0]}}, "Invalid parameter 'D'"),
        ({"scoring": 3}, "scoring must be None, a name such as 'f1_macro' or a function"),
        ({"error_score": "nan"}, "error_score must be"),
        ({"search_tol": 0.0}, "search_tol must be None or a positive"),
    ],
    ids=str,
)
def test_bad_settings(settings, message, data):
    with pytest.raises(ValueError, match=message):
        PathSearchCV(**{"estimator": M3N(), **settings}).fit(*data)
