"""Constants that are "scale": their numbers follow the mean squared norm of the features of a node."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from systems import labelled_chains, weights_of

from maxendnet import L1CRF, L1M3N, L2CRF, M3N, Examples, LapMEDN, MaxEnDNet, MultiLabel, PathSearchCV, load, path
from maxendnet.data import feature_scale
from maxendnet.data.feature_scale import NormSum

X = [[[3.0, 4.0], [0.0, 1.0]], [[2.0, 0.0]]]  # squared norms 25, 1 and 4: their mean is 10
Y = [["a", "b"], ["b"]]
SCALED = [(M3N(), "C", 0.25), (LapMEDN(), "lam", 30.0), (L2CRF(), "lam", 0.3)]
of_scale = pytest.mark.parametrize(("model", "name", "number"), SCALED, ids=["M3N", "LapMEDN", "L2CRF"])


@pytest.fixture(scope="module")
def chains():
    return labelled_chains()


@of_scale
def test_scale_is_a_number_by_the_mean_squared_norm(model, name, number):
    fitted = clone(model).fit(X, Y)
    assert getattr(fitted, name) == "scale"
    assert getattr(fitted, f"{name}_") == number
    assert fitted.model_.report.constants[name] == number


@of_scale
def test_scale_is_the_same_as_its_number(model, name, number, chains):
    fitted = clone(model).set_params(random_state=0).fit(*chains)
    explicit = clone(fitted).set_params(**{name: getattr(fitted, f"{name}_")}).fit(*chains)
    assert_array_equal(weights_of(fitted), weights_of(explicit))


@of_scale
def test_a_factor_of_all_features_changes_only_the_unit_of_weights(model, name, number, chains):
    xs, y = chains
    tight = clone(model).set_params(structure="independent", tol=1e-6, max_passes=5000, random_state=0)
    small, large = clone(tight).fit(xs, y), clone(tight).fit([10.0 * np.asarray(x) for x in xs], y)
    assert_allclose(10.0 * large.coef_, small.coef_, atol=0.01 * np.abs(small.coef_).max())


def test_examples_count_by_their_weight():
    weighted = M3N().fit(X, Y, sample_weight=[1.0, 0.5])
    assert weighted.C_ == 0.223  # 2.5 / ((25 + 1 + 0.5 * 4) / 2.5)
    repeated = Examples.build([X[0], X[0], X[1]], [Y[0], Y[0], Y[1]])
    assert repeated.mean_squared_norm == Examples.build(X, Y, sample_weight=[2.0, 1.0]).mean_squared_norm


def test_label_features_count_by_their_mean_over_labels():
    values = [np.array([[[1.0], [3.0]]])]
    examples = Examples.build([[[2.0]]], [["a"]], label_features=values, labels=["a", "b"])
    assert NormSum.of(examples) == (4.0 + (1.0 + 9.0) / 2, 1.0)


def test_features_that_are_all_zero_have_the_scale_one():
    assert M3N().fit([[[0.0], [0.0]]], [["a", "b"]]).C_ == 2.5


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_extreme_features_have_constants_within_limits(size):
    examples = Examples.build([[[size]]], [["a"]])
    assert examples.mean_squared_norm in (feature_scale.SMALLEST, feature_scale.LARGEST)


def test_the_sum_is_the_same_in_chunks_and_in_files(chains, tmp_path, monkeypatch):
    examples = Examples.build(*chains)
    dense = examples.X.toarray()
    assert examples.mean_squared_norm == pytest.approx((dense**2).sum() / len(dense), rel=1e-12)
    monkeypatch.setattr(feature_scale, "NODES_AT_ONCE", 7)
    opened = Examples.write(tmp_path / "chains", [examples])
    assert opened.mean_squared_norm == pytest.approx((dense**2).sum() / len(dense), rel=1e-12)


def test_estimators_without_scale_report_their_constants():
    assert L1M3N(C=2).fit(X, Y).C_ == 2.0
    assert L1CRF().fit(X, Y).lam_ == 0.5
    assert MaxEnDNet().fit(X, Y).C_ == 1.0


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (M3N(C="scala"), "C must be a positive finite number or \"scale\", got 'scala'"),
        (L2CRF(lam=-1.0), 'lam must be a positive finite number or "scale", got -1.0'),
        (L1M3N(C="scale"), "C must be a positive finite number, got 'scale'"),
    ],
)
def test_other_words_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)


def test_files_have_the_number(tmp_path):
    fitted = M3N().fit(X, Y)
    fitted.save(tmp_path / "m.medn")
    loaded = load(tmp_path / "m.medn")
    assert (loaded.C, loaded.C_) == ("scale", 0.25)
    assert loaded.fit([[[1.0]]], [["a"]]).C_ == 2.5


def test_partial_fit_keeps_the_number_of_the_first_fit():
    model = L2CRF().fit(X, Y)
    assert model.partial_fit([[[100.0, 0.0]]], [["a"]]).lam_ == 0.3
    assert model.set_params(lam=2.0).partial_fit(X, Y).lam_ == 2.0


def test_searches_and_paths_take_scale(chains):
    grid = {"C": ["scale", 0.01]}
    number = M3N().fit(*chains).C_
    assert GridSearchCV(M3N(), grid, cv=2).fit(*chains).best_params_["C"] in grid["C"]
    assert PathSearchCV(M3N(), grid, cv=2).fit(*chains).best_params_["C"] in grid["C"]
    fits = path(M3N(), *chains, grid)
    assert [point.model.C_ for point in fits] == [number, 0.01]


def test_a_table_of_labels_has_a_stronger_penalty():
    rows, labels = np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[1, 0], [0, 1]])
    assert MultiLabel().fit(rows, labels).estimator_.lam_ == 2.8  # 0.2 * ((25 + 1) / 2 + 1)
