"""The scikit-learn API of the estimators: conventions, reproducibility, warm starts, warnings."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    estimator_checks_generator,
)
from systems import SYSTEMS, every_system, labelled_chains, roughly, weights_of

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    Chain,
    Examples,
    Gaussian,
    Hinge,
    Independent,
    Laplace,
    LapMEDN,
    Log,
    MaxEnDNet,
    SpikeSlab,
)
from maxendnet.datasets import make_synthetic_chains
from maxendnet.solvers import LBFGS, BlockFrankWolfe, ConstraintGeneration, Variational


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


# These checks compare scores to 1e-7: see `test_scikit_learn_check_of_weights`.
TIGHT = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
CHECKS = [
    pytest.param(estimator, check, id=f"{estimator}-{check.func.__name__}")
    for model in SYSTEMS.values()
    for estimator, check in estimator_checks_generator(
        clone(model).set_params(tol=0.3, max_passes=10, **{"C": 0.01} if isinstance(model, LapMEDN) else {})
    )
    if check.func.__name__ not in TIGHT
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


# Quasi-Newton solvers take the same steps whether examples are repeated or weighted. Solvers of margin models visit
# examples one after the other, and agree near the optimum only. L1M3N is left out: on these data `ProximalPoint` ends
# at max_passes with a gap of 1e-4.
WEIGHTED = [
    CRF(),
    L1CRF(),
    L1CRF(tol=1e-15),
    L2CRF(),
    L2CRF(tol=1e-9),
    L2CRF(tol=1e-20),
    M3N(tol=1e-9),
    LapMEDN(tol=1e-9),
]


@pytest.mark.parametrize("model", WEIGHTED, ids=str)
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
    assert model.tol == 1e-2


@pytest.mark.parametrize("model", [LapMEDN, M3N, L2CRF])
def test_the_defaults_converge_on_few_examples_with_many_features(model):
    drawn = make_synthetic_chains(50, 30, 100, n_gibbs=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert model(random_state=0).fit(drawn.X, drawn.y).converged_


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
        assert again.predict(X) == fitted.predict(X)
        assert_array_equal(again.posterior_.mean, fitted.posterior_.mean)
        assert again.trace_ == fitted.trace_ or np.isnan(fitted.gap_)
        again.fit(X, y)  # from the beginning, even with warm_start
        assert_array_equal(weights_of(again), weights_of(fitted))
    pickle.loads(pickle.dumps(model))  # not fitted


@every_system
def test_the_same_seed_gives_identical_results_for_any_number_of_threads(model, data):
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
        L1M3N(C=0.3, tol=1e-6, solver=ConstraintGeneration()),
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
    inside = clone(model).fit(Examples.build(X, y, sample_weight=times))
    assert_array_equal(weights_of(inside), weights_of(weighted))


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (M3N(C=0.3), "C", 1.2),
        (LapMEDN(lam=30.0), "C", 1.2),
        (LapMEDN(lam=30.0, method="variational"), "C", 1.2),
        (L1M3N(C=0.2), "C", 0.22),
        (L1CRF(lam=1.0), "lam", 0.9),
        (L2CRF(lam=0.5), "lam", 0.45),
        (MaxEnDNet(SpikeSlab()), "C", 1.2),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else str(value),
)
def test_a_warm_start_saves_work(model, name, value, data):
    model = clone(model).set_params(warm_start=True, random_state=0, tol=1e-3, max_passes=5000).fit(*data)
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


@pytest.mark.parametrize("change", ["weights", "cost", "features", "allowed"])
@pytest.mark.parametrize(
    "model",
    [M3N(), LapMEDN(), LapMEDN(method="variational"), L1M3N(C=0.2), L1M3N(C=0.2, solver=ConstraintGeneration())],
    ids=["M3N", "LapMEDN", "variational", "L1M3N", "ConstraintGeneration"],
)
def test_dual_variables_of_other_examples_certify_nothing(model, change, data):
    """They would: sizes of the simplices, costs of labellings and the labellings themselves belong to the examples."""
    X, y = data
    rng = np.random.default_rng(0)
    model = roughly(model, warm_start=True).fit(X, y)
    examples = Examples.build(X, y)
    if change == "weights":
        examples = Examples.build(X, y, sample_weight=rng.uniform(0.0, 1.0, len(X)))
    elif change == "cost":
        model.set_params(cost=0.2 * (1 - np.eye(3)))
    elif change == "features":
        examples = Examples.build([rng.normal(size=x.shape) for x in X], y)
    else:
        allowed = [[{label, "a"} for label in labels] for labels in y]
        examples = Examples.build(X, y, allowed=allowed, labels=["a", "b", "c"])
    model.fit(examples)
    cold = roughly(model, warm_start=False).fit(examples)
    rounding = 1 + 1e-12  # where w = 0 is best, dual and primal are sums of the same numbers in another order
    assert model.dual_ <= cold.objective_ * rounding and cold.dual_ <= model.objective_ * rounding
    assert_array_equal(weights_of(model), weights_of(cold))


def test_a_fit_that_fails_leaves_the_last_one_whole(data):
    X, y = data
    model = M3N(tol=0.2).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="C must be"):
        model.set_params(C=-1.0).fit([x[:, :2] for x in X], [["q"] * len(x) for x in X])
    assert model.predict(X) == before


def test_settings_changed_after_the_fit_are_noticed(data):
    changes = {
        "structure__bias": True,
        "structure__ends": True,
        "structure__forbidden": [("a", "b")],
        "structure": Independent(),
    }
    methods = ("predict", "predict_marginals", "predict_max_marginals", "predict_top", "sample", "decision_function")
    for structure in ("chain", Chain()):
        for name, value in changes.items():
            model = clone(M3N(tol=0.2, structure=structure)).fit(*data)
            before = model.predict(data[0])
            model.set_params(**{name: value})
            for method in methods:
                with pytest.raises(ValueError, match=r"changed after the fit, from Chain\(\) to .*; restore it"):
                    getattr(model, method)(data[0])
            with pytest.raises(ValueError, match="changed after the fit"):
                model.score(*data)
            model.set_params(structure=Chain())  # as it was: what counts is the options, not the object
            assert model.predict(data[0]) == before


# ---- settings and warnings -------------------------------------------------------------------------------------------


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
def test_a_requested_number_of_iterations_does_not_warn(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(random_state=0).fit(*data)
    assert model.n_passes_ == 3
    assert not model.converged_
    assert model.gap_ > 1e-5


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose(verbose, data, capsys):
    M3N(verbose=verbose, tol=1e-3, random_state=0).fit(*data)
    out = capsys.readouterr()
    assert "gap" in (out.err if verbose == 1 else out.out)
    assert "s left" in (out.err if verbose == 1 else out.out)
    assert "M3N" in (out.err if verbose == 1 else out.out)
    M3N(tol=0.2, random_state=0).fit(*data)
    out = capsys.readouterr()
    assert out.out == out.err == ""


def test_maxendnet_is_every_row(data):
    settings = {"random_state": 0, "tol": 0.01}
    rows = [
        (M3N(C=0.5), MaxEnDNet(Gaussian(), Hinge(), C=0.5)),
        (LapMEDN(C=0.5, lam=2.0), MaxEnDNet(Laplace(2.0), C=0.5)),
        (L2CRF(lam=2.0), MaxEnDNet(Gaussian(0.5), Log())),
    ]
    for left, right in rows:
        left, right = (model.set_params(**settings).fit(*data) for model in (left, right))
        assert left.objective_ == right.objective_
        assert_array_equal(weights_of(left), weights_of(right))
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


def described(cls):
    """Sections of a docstring by their titles."""
    lines = inspect.cleandoc(cls.__doc__).splitlines()
    starts = [i for i in range(len(lines) - 1) if lines[i] and lines[i + 1] == "-" * len(lines[i])]
    return {lines[i]: lines[i + 2 : j - 1 if j else None] for i, j in zip(starts, [*starts[1:], None])}


def test_help_has_all_parameters_and_attributes():
    for system in SYSTEMS.values():
        sections = described(type(system))
        assert list(sections) == ["Parameters", "Attributes", "Examples"]
        for name in system.get_params(deep=False):
            descriptions = [line for line in sections["Parameters"] if line.startswith(f"{name} : ")]
            assert len(descriptions) == 1, f"{name} is not described in {type(system).__name__}"
        assert any(line.startswith("trace_ : ") for line in sections["Attributes"])
        assert any(line.startswith(">>> ") for line in sections["Examples"])


@pytest.mark.parametrize("indentation", ["", "    ", "        "])
def test_help_does_not_depend_on_the_indentation_of_docstrings(indentation):
    """Python 3.13 takes it out when it compiles, earlier versions leave it."""
    docstring = "One line.\n\nParameters\n----------\nC : float\n    Weight.\n\nExamples\n--------\n>>> 1\n1\n"
    for doc in (docstring, docstring.replace("Parameters\n----------\nC : float\n    Weight.\n\n", "")):
        first, *rest = doc.splitlines(keepends=True)
        text = first + "".join(indentation + line if line.strip() else line for line in rest) + indentation
        sections = described(type("Mine", (MaxEnDNet,), {"__doc__": text}))
        assert list(sections) == ["Parameters", "Attributes", "Examples"]
        assert sections["Parameters"][: 2 if doc is docstring else 0] == (
            ["C : float", "    Weight."] if doc is docstring else []
        )
        assert "tol : float, default=1e-2" in sections["Parameters"] and sections["Examples"] == [">>> 1", "1"]
    assert type("Bare", (MaxEnDNet,), {}).__doc__ is None
