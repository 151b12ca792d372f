"""Paths: each point equals a separate fit, and warm starts save work."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from systems import labelled_chains, roughly, weights_of

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Examples, Laplace, LapMEDN, MaxEnDNet, path
from maxendnet.selection.regularisation_path import expand, visiting_order
from maxendnet.solvers import ConstraintGeneration

CASES = {
    "M3N": (M3N(), {"C": [0.3, 0.03, 0.1]}),
    "LapMEDN": (LapMEDN(), {"C": [1.0, 0.3], "lam": [2.0, 4.0]}),
    "variational": (LapMEDN(method="variational"), {"lam": [0.5, 1.0]}),
    "L1M3N": (L1M3N(), {"C": [0.02, 0.2, 0.3]}),
    "L1M3N ball": (L1M3N(), {"radius": [2.0, 1.0]}),
    "ConstraintGeneration": (L1M3N(solver=ConstraintGeneration()), {"C": [0.02, 0.2, 0.3]}),
    "L1CRF": (L1CRF(), {"lam": [0.5, 5.0]}),
    "L2CRF": (L2CRF(), {"lam": [0.5, 5.0]}),
    "MaxEnDNet": (MaxEnDNet(Laplace()), {"prior__lam": [2.0, 4.0], "C": [0.3]}),
}


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


@pytest.mark.parametrize(("model", "grid"), CASES.values(), ids=CASES)
def test_every_point_is_certified_as_if_alone(model, grid, data):
    model = clone(model).set_params(random_state=0, tol=1e-2)
    fits = path(model, *data, grid, validation=data)
    assert [point.params for point in fits] == expand(grid)
    assert not hasattr(model, "coef_") and not model.warm_start
    for point in fits:
        alone = clone(model).set_params(**point.params).fit(*data)
        assert point.converged and point.gap <= 1e-2
        # each dual value is a lower bound of the other objective, so both certificates are valid
        assert point.dual <= alone.objective_ * (1 + 1e-12) and alone.dual_ <= point.objective * (1 + 1e-12)
        assert point.score == point.model.score(*data)
        assert point.n_nonzero == np.count_nonzero(point.model.posterior_.mean)
        for name, value in point.params.items():
            assert point.model.get_params()[name] == value
        assert not point.model.warm_start
    assert fits.best.score == max(point.score for point in fits)


def test_the_order_of_the_grid_does_not_matter(data):
    model = roughly(L1M3N())
    values = [0.5, 0.05, 0.2]
    fits = path(model, *data, {"C": values})
    again = path(model, *data, {"C": sorted(values)})
    for point in again:
        other = fits[values.index(point.params["C"])]
        assert_array_equal(weights_of(point.model), weights_of(other.model))
    zeros = [point.n_nonzero for point in again]
    assert zeros[0] < zeros[-1] < len(again[-1].model.posterior_.mean)  # exact zeros


def test_warm_starts_save_passes(data):
    model, values = M3N(random_state=0, tol=5e-3), np.geomspace(0.1, 1.0, 6)
    fits = path(model, *data, {"C": values})
    cold = sum(clone(model).set_params(C=C).fit(*data).n_passes_ for C in values)
    assert sum(point.n_passes for point in fits) < 0.8 * cold


def test_rows_of_a_grid():
    points = expand({"lam": [1.0, 3.0, 2.0], "C": [5.0, 4.0], "bias": [False, True]})
    rows = visiting_order(points)
    assert sorted(number for row in rows for number in row) == list(range(12))
    for row in rows:
        assert len({(points[i]["C"], points[i]["bias"]) for i in row}) == 1
        assert [points[i]["lam"] for i in row] == [3.0, 2.0, 1.0]
    assert [points[row[0]]["C"] for row in rows] == [4.0, 5.0, 4.0, 5.0]


def test_points_as_a_list_do_not_inherit(data):
    fits = path(roughly(LapMEDN(C=0.5, lam=3.0)), *data, [{"C": 1.0}, {"lam": 2.0}, {}])
    assert [(p.model.C, p.model.lam) for p in fits] == [(1.0, 3.0), (0.5, 2.0), (0.5, 3.0)]


def test_examples_weights_and_the_table(data, capsys):
    X, y = data
    sample_weight = np.linspace(0.0, 1.0, len(X))
    fits = path(roughly(M3N()), Examples.build(X, y, sample_weight=sample_weight), grid={"C": [0.1, 1.0]}, verbose=1)
    assert "M3N path" in capsys.readouterr().err
    alone = path(roughly(M3N()), X, y, {"C": [0.1, 1.0]}, sample_weight=sample_weight)
    for left, right in zip(fits, alone):
        assert_array_equal(weights_of(left.model), weights_of(right.model))
    lines = str(fits).splitlines()
    assert lines[0].split() == ["C", "objective", "gap", "nonzero", "passes", "seconds"] and len(lines) == 3
    with pytest.raises(ValueError, match="No point has a score"):
        _ = fits.best


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (None, "grid has no points, got None"),
        ({}, "grid has no points"),
        ([], "grid has no points"),
        ({"C": []}, "must be a list of at least one value"),
        ({"C": 1.0}, "must be a list of at least one value"),
        ([1.0], "dict of lists or a list of dicts"),
        ({"D": [1.0]}, "At the point .*Invalid parameter 'D'"),
        ({"C": [1.0, -1.0]}, r"At the point \{'C': -1.0\} of the grid: C must be a positive finite number"),
    ],
)
def test_bad_grids_are_refused_before_the_first_fit(grid, message, data):
    with pytest.raises(ValueError, match=message):
        path(M3N(), *data, grid)


def test_bad_arguments(data):
    with pytest.raises(ValueError, match="estimator must be an estimator of maxendnet"):
        path("M3N", *data, {"C": [1.0]})
    with pytest.raises(ValueError, match="pair"):
        path(M3N(), *data, {"C": [1.0]}, validation=(1, 2, 3))
    assert len(path(CRF(tol=0.1), *data, [{}])) == 1
