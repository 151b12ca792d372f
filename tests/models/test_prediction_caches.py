"""Caches of predictions: feature names and padded weights belong to the last fit."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from maxendnet import L2CRF, M3N, Chain, load
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.structures.weights import padding

X = [[{"word": "the"}, {"word": "dog"}], [{"word": "dogs"}], [{"word": "a"}, {"word": "dog"}, {"word": "barked"}]]
Y = [["DET", "NOUN"], ["NOUN"], ["DET", "NOUN", "VERB"]]


@pytest.fixture
def counted(monkeypatch):
    """Count how often weights are padded and name tables are built."""
    calls = {"weights": 0, "names": 0}

    def lay_out(*arguments, original=padding._search_weights):
        calls["weights"] += not arguments[1].flags.writeable
        return original(*arguments)

    class Counted(FeatureNames):
        def __iter__(self):
            calls["names"] += 1
            return super().__iter__()

    monkeypatch.setattr(padding, "_search_weights", lay_out)
    calls["type"] = Counted
    return calls


def test_names_and_weights_are_gone_through_once(counted):
    model = L2CRF().fit(X, Y)
    object.__setattr__(model.model_, "feature_names", counted["type"](model.model_.feature_names))
    counted["weights"] = counted["names"] = 0
    first = [model.predict([x]) for x in X]
    assert counted["weights"] == 1 and counted["names"] == 1
    assert [model.predict([x]) for x in X] == first == [[labels] for labels in Y]
    assert counted["weights"] == 1 and counted["names"] == 1
    model.predict_marginals(X)  # in another precision
    model.predict_marginals(X)
    assert counted["weights"] == 2


def test_a_new_fit_has_new_caches():
    model = M3N(C=10).fit(X, Y)
    assert model.predict(X) == Y
    swapped = [["NOUN" if label == "DET" else "DET" for label in labels] for labels in Y]
    model.fit(X, swapped)
    assert model.predict(X) == swapped
    left, right = L2CRF(lam=0.1).fit(X, Y), L2CRF(lam=100.0).fit(X, Y)
    expected = [m.predict_marginals(X)[0].tolist() for m in (left, right)]
    left.set_model(right.model_)
    assert left.predict_marginals(X)[0].tolist() == expected[1] != expected[0]


def test_a_structure_that_was_changed_is_still_refused():
    model = M3N(structure=Chain()).fit(X, Y)
    model.predict(X)
    model.structure.bias = True
    with pytest.raises(ValueError, match=r"structure was changed after the fit, from Chain\(\) to Chain\(bias=True\)"):
        model.predict(X)
    model.structure.bias = False
    assert model.predict(X) == Y


@pytest.mark.parametrize("estimator", [L2CRF(), M3N(), L2CRF(structure=Chain(pairs="seen"))], ids=repr)
def test_weights_of_a_fit_cannot_be_changed_under_a_prediction(estimator):
    estimator.fit(X, Y)
    for array in (estimator.model_.weights, estimator.transitions_):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    if estimator.posterior_.kind == "point":
        with pytest.raises(ValueError, match="read-only"):
            estimator.posterior_.mean[...] = 0.0


def test_copies_and_files_predict_the_same(tmp_path):
    model = L2CRF().fit(X, Y)
    model.predict(X)
    model.save(tmp_path / "m")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), load(tmp_path / "m")):
        assert not other.model_.weights.flags.writeable and isinstance(other.model_.feature_names, FeatureNames)
        assert "_kept" not in vars(other.model_.layout)
        for actual, expected in zip(other.predict_marginals(X), model.predict_marginals(X)):
            assert np.array_equal(actual, expected)


def test_many_threads_at_once():
    rng = np.random.default_rng(0)
    sentences = [[{"word": f"w{k}"} for k in rng.integers(50, size=rng.integers(1, 9))] for _ in range(60)]
    labels = [[f"L{int(node['word'][1:]) % 3}" for node in sentence] for sentence in sentences]
    for _ in range(5):
        model = M3N(C=1.0, random_state=0).fit(sentences, labels)  # nothing is padded yet
        with ThreadPoolExecutor(8) as pool:
            predictions = list(pool.map(model.predict, [[sentence] for sentence in sentences * 5]))
        assert [labels for (labels,) in predictions] == list(model.predict(sentences)) * 5


def test_one_sentence_is_predicted_as_among_many():
    rng = np.random.default_rng(1)
    sentences = [[{"word": f"w{k}", "n": float(k)} for k in rng.integers(20, size=n)] for n in [0, 1, 2, 40, 70] * 3]
    labels = [[int(node["n"]) % 3 for node in sentence] for sentence in sentences]
    for structure in ("chain", "independent", Chain(bias=True, ends=True)):
        model = L2CRF(structure=structure).fit(sentences, labels)
        assert [model.predict([sentence])[0] for sentence in sentences] == list(model.predict(sentences))
        for alone, among in zip(
            [model.predict_marginals([x])[0] for x in sentences], model.predict_marginals(sentences)
        ):
            assert np.array_equal(alone, among)
