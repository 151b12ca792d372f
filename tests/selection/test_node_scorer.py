"""scikit-learn metrics on the nodes of sequences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from systems import labelled_chains

from maxendnet import M3N, UNKNOWN, Examples, OnNodes, PathSearchCV
from maxendnet.selection import node_scorer

MODEL = M3N(tol=0.1, random_state=0)


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


def flat(labels):
    return [label for row in labels for label in row]


def macro_by_hand(model, X, y):
    return [
        f1_score(flat(y[i] for i in test), flat(model.fit([X[i] for i in train], [y[i] for i in train]).predict(
            [X[i] for i in test])), average="macro")
        for train, test in KFold(3).split(X)
    ]  # fmt: skip


def test_cross_validation_by_a_name(data):
    X, y = data
    expected = macro_by_hand(MODEL, X, y)
    assert cross_val_score(MODEL, X, y, cv=3, scoring=node_scorer("f1_macro")) == pytest.approx(expected)
    assert cross_val_score(MODEL, Examples.build(X, y), cv=3, scoring=node_scorer("f1_macro")) == pytest.approx(
        expected
    )
    # scikit-learn 1.7 compares pos_label with the labels also if it is not used
    scorer = node_scorer(make_scorer(f1_score, average="macro", pos_label=None))
    assert cross_val_score(MODEL, X, y, cv=3, scoring=scorer, n_jobs=2) == pytest.approx(expected)


def test_accuracy_is_the_score_of_the_estimator(data):
    scores = cross_val_score(MODEL, *data, cv=3, scoring=node_scorer("accuracy"))
    assert scores == pytest.approx(cross_val_score(MODEL, *data, cv=3))


def test_searches_by_a_name(data):
    X, y = data
    grid = {"C": [0.01, 0.1]}
    theirs = GridSearchCV(MODEL, grid, cv=3, scoring=node_scorer("f1_macro")).fit(X, y)
    ours = PathSearchCV(MODEL, grid, cv=3, scoring="f1_macro").fit(X, y)
    assert np.isfinite(theirs.best_score_) and np.isfinite(ours.cv_results_["mean_test_score"]).all()
    truth, predicted = flat(y), flat(ours.predict(X))
    assert ours.score(X, y) == pytest.approx(f1_score(truth, predicted, average="macro"))


def test_pipelines_tables_and_unknown_labels(data):
    X, y = data
    model = make_pipeline(OnNodes(StandardScaler()), MODEL)
    assert np.isfinite(cross_val_score(model, X, y, cv=2, scoring=node_scorer("accuracy"))).all()
    table, labels = np.concatenate(X), np.array(flat(y))
    rows = M3N(structure="independent", tol=0.1).fit(table, labels)
    assert node_scorer("accuracy")(rows, table, labels) == pytest.approx(rows.score(table, labels))
    hidden = [[UNKNOWN, *row[1:]] for row in y]
    fitted = MODEL.fit(X, y)
    assert node_scorer("accuracy")(fitted, X, hidden) == pytest.approx(fitted.score(X, hidden))


def test_names_that_do_not_exist_are_refused(data):
    with pytest.raises(ValueError, match="acuracy"):
        PathSearchCV(MODEL, {"C": [0.1]}, scoring="acuracy").fit(*data)
