"""A structure as a setting of estimators: options by their path, copies, and the flags of version 0.1.0."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from systems import every_system, labelled_chains, roughly, weights_of

from maxendnet import CRF, L2CRF, M3N, Chain, Choice, Graph, Independent, LapMEDN, PathSearchCV, Tree, path
from maxendnet.structures import ALL, as_structure

# Options worth a visit; a piece that is not listed is tested with its defaults.
OPTIONS = {
    Chain: {"bias": True, "ends": True, "forbidden": [("a", "c")]},
    Tree: {"bias": True, "ends": True, "siblings": True, "forbidden": [("a", "c")]},
    Independent: {"bias": True, "ends": True},
    Graph: {"bias": True, "inference": "exact", "max_table": 500.0},
    Choice: {"bias": True, "ends": True, "rest": "-"},
}
every_piece = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


@pytest.fixture(scope="module")
def unbalanced():
    """Nodes without features, three of four of the same label: a bias is all that there is to learn."""
    labels = ["a", "a", "a", "b"]
    X = [np.zeros((1, 1))] * 40
    return X, [[labels[k % 4]] for k in range(40)]


# ---- options by their path -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["independent", Independent()], ids=["name", "piece"])
def test_grid_search_over_an_option(structure, unbalanced):
    model = L2CRF(lam=0.1, structure=structure)
    search = GridSearchCV(model, {"structure__bias": [False, True]}, cv=4, scoring=log_likelihood).fit(*unbalanced)
    assert search.best_params_ == {"structure__bias": True}
    assert search.best_estimator_.structure.bias is True
    assert search.best_estimator_.intercept_.any()
    assert repr(model) == repr(L2CRF(lam=0.1, structure=structure))  # the model that was given is as it was


@pytest.mark.parametrize("structure", ["chain", Chain()], ids=["name", "piece"])
def test_grid_search_over_options_and_structures(structure, data):
    grid = [
        {"structure__bias": [False, True], "structure__ends": [False, True]},
        {"structure": [Independent(), Chain(forbidden=[("a", "a")][:0])], "lam": [1.0]},
    ]
    search = GridSearchCV(L2CRF(structure=structure, tol=0.05), grid, cv=2).fit(*data)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 6 and np.all(np.isfinite(scores))
    # one cell by hand: the options arrive at the fits
    by_hand = L2CRF(structure=Chain(ends=True), tol=0.05)
    X, y = data
    expected = [by_hand.fit(X[20:], y[20:]).score(X[:20], y[:20]), by_hand.fit(X[:20], y[:20]).score(X[20:], y[20:])]
    cell = search.cv_results_["params"].index({"structure__bias": False, "structure__ends": True})
    assert scores[cell] == np.mean(expected)


def log_likelihood(model, X, y):
    columns = {label: k for k, label in enumerate(model.classes_.tolist())}
    marginals = model.predict_marginals(X)
    return float(np.mean([np.log(node[0, columns[labels[0]]]) for node, labels in zip(marginals, y)]))


def test_paths_and_their_search_take_options_too(unbalanced):
    fits = path(L2CRF(structure="independent"), *unbalanced, {"lam": [1.0, 0.1], "structure__bias": [False, True]})
    found = {(fit.params["lam"], fit.params["structure__bias"]): fit.model for fit in fits}
    assert len(found) == 4
    assert found[0.1, True].intercept_.any() and not found[0.1, False].intercept_.any()
    search = PathSearchCV(L2CRF(structure="independent"), {"structure__bias": [False, True]}, cv=2).fit(*unbalanced)
    assert search.best_estimator_.structure.bias in (False, True)


def test_a_name_stays_a_name_until_an_option_is_set():
    model = M3N(structure="tree")
    assert model.get_params()["structure"] == "tree"
    assert "structure__siblings" not in model.get_params()
    model.set_params(C=2.0)
    assert model.structure == "tree"
    model.set_params(structure__siblings=True)
    assert type(model.structure) is Tree and model.structure.siblings is True
    assert model.get_params()["structure__siblings"] is True
    # a structure and its option at once: the option is that of the new structure
    model.set_params(structure=Choice(), structure__rest="-")
    assert type(model.structure) is Choice and model.structure.rest == "-"
    model.set_params(structure="independent", structure__bias=True)
    assert type(model.structure) is Independent and model.structure.bias is True


def test_an_option_that_a_structure_does_not_have_is_refused():
    for structure in ("chain", Chain()):
        with pytest.raises(ValueError, match="Invalid parameter 'siblings' for estimator Chain"):
            M3N(structure=structure).set_params(structure__siblings=True)
    with pytest.raises(TypeError, match="siblings"):
        Chain(siblings=True)


# ---- copies ----------------------------------------------------------------------------------------------------------


@every_piece
def test_a_piece_can_be_cloned_pickled_and_shown(kind):
    piece = kind(**OPTIONS.get(kind, {}))
    for again in (clone(piece), pickle.loads(pickle.dumps(piece))):
        assert again is not piece and type(again) is kind
        assert again.get_params() == piece.get_params() == kind().get_params() | OPTIONS.get(kind, {})
    assert repr(kind()) == f"{kind.__name__}()"
    shown = eval(repr(piece), {kind.__name__: kind})
    assert shown.get_params() == piece.get_params()


@every_piece
def test_a_name_is_short_for_the_default(kind):
    piece = as_structure(kind.__name__.lower())
    assert type(piece) is kind and piece.get_params() == kind().get_params()
    given = kind()
    assert as_structure(given) is given


@every_system
def test_an_estimator_with_a_piece_can_be_cloned_pickled_and_shown(model, data):
    model = roughly(model, structure=Chain(bias=True, forbidden=[]))
    again = clone(model)
    assert again.structure is not model.structure
    assert repr(again) == repr(model) and "structure=Chain(bias=True, forbidden=[])" in repr(model)
    assert again.get_params()["structure__bias"] is True
    fitted = model.fit(*data)
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(weights_of(loaded), weights_of(fitted))
    assert loaded.predict(data[0]) == fitted.predict(data[0])
    assert loaded.model_.layout == fitted.model_.layout
    assert not hasattr(clone(fitted), "model_")


def test_the_constructor_only_stores_and_a_fit_changes_no_setting(data):
    structure = object()
    assert M3N(structure=structure).structure is structure
    for structure in ("chain", Chain(bias=True)):
        model = M3N(structure=structure, tol=0.2)
        before = repr(model)
        model.fit(*data)
        assert model.structure is structure and repr(model) == before


def test_the_fitted_model_keeps_the_structure_of_the_fit(data):
    structure = Chain(bias=True)
    model = M3N(structure=structure, tol=0.2).fit(*data)
    structure.bias = False  # the user's own object
    assert model.model_.structure.bias is True
    with pytest.raises(ValueError, match=r"changed after the fit, from Chain\(bias=True\) to Chain\(\)"):
        model.predict(data[0])
    assert not model.fit(*data).intercept_.any()


@pytest.mark.parametrize(
    ("fitted", "changed"),
    [
        (Tree(siblings=True), {"structure__siblings": False}),
        (Tree(forbidden=[("c", "a")]), {"structure__forbidden": None}),
        (Tree(forbidden=[("c", "a")]), {"structure__forbidden": [("c", "b")]}),
        (Tree(), {"structure__ends": True}),
        (Tree(), {"structure": "chain"}),
        (Tree(), {"structure": Independent()}),
    ],
    ids=str,
)
def test_changes_of_a_tree_after_the_fit_are_noticed(fitted, changed):
    X, y = [([[0.0], [1.0], [1.0]], [(0, 1), (0, 2)])] * 2, [["a", "b", "b"], ["a", "c", "b"]]
    model = L2CRF(structure=fitted).fit(X, y).set_params(**changed)
    with pytest.raises(ValueError, match="structure was changed after the fit"):
        model.predict(X)


def test_a_change_of_rest_after_the_fit_is_noticed():
    X, y = [[[1.0], [3.0], [2.0]], [[4.0], [0.0]]], [["-", "best", "-"], ["best", "-"]]
    model = L2CRF(structure=Choice(rest="-")).fit(X, y).set_params(structure__rest="best")
    with pytest.raises(ValueError, match=r"from Choice\(rest='-'\) to Choice\(rest='best'\)"):
        model.predict(X)


# ---- the flags of version 0.1.0 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "new"),
    [
        ("bias", True, "structure=Chain(bias=True)"),
        ("ends", False, "structure=Chain(ends=False)"),
        ("siblings", True, "structure=Tree(siblings=True)"),
        ("forbidden_pairs", [("O", "I")], "structure=Tree(forbidden=[('O', 'I')])"),
        ("rest", "-", "structure=Choice(rest='-')"),
    ],
)
@every_system
def test_an_old_flag_shows_the_new_form(model, name, value, new):
    kind = type(model)
    for use, error in ((kind, TypeError), (clone(model).set_params, ValueError)):
        with pytest.raises(error) as caught:
            use(**{name: value})
        message = str(caught.value)
        assert name in message and f"{kind.__name__}({new})" in message
    assert name not in model.get_params()


def test_an_unknown_setting_is_refused_as_ever():
    with pytest.raises(TypeError, match="colour"):
        CRF(colour=1)
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        LapMEDN().set_params(colour=1)
