"""Input that could be misread silently: masks, dates, columns in another order."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from maxendnet import L2CRF, M3N, Examples, load
from maxendnet.data.examples import as_examples

X = np.array([[1.0, 2.0], [0.0, 3.0], [2.0, 0.0]])
Y = ["a", "b", "a"]


class Frame:
    """Stand-in for a DataFrame, with the attributes that readers use."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), list(columns)

    @property
    def shape(self):
        return self.values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

    def __getitem__(self, names):
        return Frame(self.values[:, [self.columns.index(name) for name in names]], names)


FRAME = Frame(X, ["width", "height"])


# ---- columns of DataFrames -------------------------------------------------------------------------------------------


def test_columns_are_the_feature_names():
    model = M3N().fit(FRAME, Y)
    assert_array_equal(model.feature_names_in_, ["width", "height"])
    assert model.feature_names_ == ("width", "height")
    assert_array_equal(model.predict(FRAME), model.predict(X))
    assert not hasattr(M3N().fit(X, Y), "feature_names_in_") and not hasattr(M3N(), "feature_names_in_")


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME[["height", "width"]], "must be in the same order as they were in fit"),
        (Frame(X, ["width", "depth"]), "unseen at fit time:\n- depth\nFeature names seen at fit .*missing:\n- height"),
        (Frame(X[:, :1], ["width"]), "missing:\n- height"),
    ],
)
def test_other_columns_at_prediction(frame, message, as_list):
    model = M3N().fit([FRAME], [Y]) if as_list else M3N().fit(FRAME, Y)
    for method in (model.predict, model.predict_marginals, lambda x: model.score(x, [Y] if as_list else Y)):
        with pytest.raises(ValueError, match=f"(?s)should match those that were passed during fit.*{message}"):
            method([frame] if as_list else frame)


def test_columns_of_a_list_of_frames_agree():
    assert as_examples([FRAME, FRAME]).feature_names == ("width", "height")
    with pytest.raises(ValueError, match=r"X\[1\] has the columns"):
        as_examples([FRAME, FRAME[["height", "width"]]])
    with pytest.raises(ValueError, match=r"X\[1\] has the columns"):
        as_examples([(FRAME, []), (FRAME[["height", "width"]], [])])


def test_columns_that_cannot_be_names():
    assert as_examples(Frame(X, [0, 1])).feature_names is None
    with pytest.raises(TypeError, match="all input features have string names"):
        as_examples(Frame(X, ["a", 1]))
    with pytest.raises(ValueError, match="X has the column 'a' twice"):
        as_examples(Frame(X, ["a", "a"]))


def test_columns_are_saved_in_a_model_file(tmp_path):
    M3N().fit(FRAME, Y).save(tmp_path / "model")
    with pytest.raises(ValueError, match="same order"):
        load(tmp_path / "model").predict(FRAME[["height", "width"]])


def test_features_by_name_for_a_model_of_columns():
    model = M3N().fit([FRAME], [Y])
    named = [[dict(zip(FRAME.columns, row)) for row in X.tolist()]]
    assert_array_equal(model.predict(named)[0], model.predict([X])[0])


# ---- masked arrays ---------------------------------------------------------------------------------------------------

MASKED = np.ma.masked_array(X, mask=[[False, False], [True, False], [False, False]])


@pytest.mark.parametrize(
    "build",
    [
        lambda: as_examples(MASKED),
        lambda: as_examples([MASKED]),
        lambda: as_examples(list(MASKED)),
        lambda: as_examples([list(MASKED)]),
        lambda: as_examples(np.ma.masked_array(np.ones((2, 2, 2)), mask=np.arange(8).reshape(2, 2, 2) == 3)),
        lambda: as_examples(X, np.ma.masked_array([0, 1, 0], mask=[0, 1, 0])),
        lambda: as_examples([X], [np.ma.masked_array([0, 1, 0], mask=[0, 1, 0])]),
        lambda: as_examples(X, Y, sample_weight=np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0])),
        lambda: Examples.build([X], edges=[np.ma.masked_array([[0, 1]], mask=[[0, 1]])]),
        lambda: Examples.build([X], edge_features=[np.ma.masked_array([[0.5], [1.0]], mask=[[0], [1]])]),
        lambda: Examples.build([X], node_types=[np.ma.masked_array([0, 1, 0], mask=[0, 1, 0])]),
        lambda: Examples.build(
            [X], labels=["a", "b"], allowed=[np.ma.masked_array(np.ones((3, 2), bool), mask=np.eye(3, 2))]
        ),
    ],
)
def test_masked_values_are_refused(build):
    with pytest.raises(ValueError, match="masked"):
        build()


def test_a_masked_array_without_masked_values_is_an_array():
    assert_array_equal(as_examples(np.ma.masked_array(X)).X.toarray(), X)


# ---- dates, complex numbers, missing labels --------------------------------------------------------------------------

DAYS = np.array(["2020-01-01", "2020-01-02", "2020-01-01"], dtype="datetime64[D]")


@pytest.mark.parametrize("unit", ["D", "us"])
def test_days_are_labels(unit):
    for examples in (as_examples(X, DAYS.astype(f"M8[{unit}]")), as_examples([X], [DAYS.astype(f"M8[{unit}]")])):
        assert all(isinstance(label, datetime.date) for label in examples.y.tolist())


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[ns]"])
def test_nanoseconds_are_refused(dtype):
    times = DAYS.astype("datetime64[ns]").view(dtype)
    for X_, y in ((X, times), ([X], [times])):
        with pytest.raises(ValueError, match="for which Python has no type"):
            as_examples(X_, y)


def test_a_missing_time_is_refused():
    times = np.array(["2020-01-01", "NaT", "2020-01-01"], dtype="datetime64[D]")
    for X_, y in ((X, times), ([X], [times]), ([X], [list(times)]), (X, list(times))):
        with pytest.raises(ValueError, match="y contains Na"):
            as_examples(X_, y)


def test_scalar_times_are_not_converted():
    labels = as_examples(X, list(np.array([1, 2, 1], dtype="timedelta64[s]"))).y
    assert labels.dtype == object and labels[0] == np.timedelta64(1, "s")


@pytest.mark.parametrize(
    "bad", [
        [[np.datetime64("2020-01-01"), 1.0]], [[[np.datetime64("2020-01-01"), 1.0]]], [[[np.timedelta64(3, "s"), 1.0]]],
        [[{"when": np.datetime64("2020-01-01")}]], [[{"when": np.timedelta64(3, "s")}]],
    ],
)  # fmt: skip
def test_times_as_features_are_refused(bad):
    with pytest.raises((ValueError, TypeError), match=r"X(\[0\])?"):
        as_examples(bad)


class NA:
    """Stand-in for pandas' NA, whose comparisons have no truth value."""

    def __ne__(self, other):
        return self

    def __eq__(self, other):
        return self

    def __hash__(self):
        return 7

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


def test_missing_labels():
    for y in (["a", NA(), "b"], [["a", NA(), "b"]]):
        with pytest.raises(ValueError, match=r"y contains NaN.*y\[[01]\]"):
            as_examples(X if len(y) == 3 else [X], y)


@pytest.mark.parametrize(
    "cost", [
        np.array([[0, 1 + 5j], [1, 0]]), [[0, 1 + 5j], [1, 0]],
        np.ma.masked_array([[0.0, 9.0], [1.0, 0.0]], mask=np.eye(2)),
        [[0, "1"], [1, 0]], [[0, [1]], [1, 0]], [[0, 10**400], [1, 0]], np.array([[0, 1], [1, 0]], dtype="m8[s]"),
    ],
)  # fmt: skip
def test_costs_are_real_numbers(cost):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="cost must be a matrix of real numbers"):
            M3N(cost=cost, structure="independent").fit(X, Y)


@pytest.mark.parametrize(
    "sample_weight", [np.array([1 + 5j, 1, 1]), np.array([1, 2, 3], dtype="m8[s]"), [10**400, 1, 1]]
)
def test_sample_weights_are_real_numbers(sample_weight):
    with pytest.raises(ValueError, match=r"(?i)sample weight"):
        L2CRF().fit(X, Y, sample_weight=sample_weight)
