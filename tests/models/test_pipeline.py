"""Pipelines in model files: predictions after loading, and unsupported steps."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, RobustScaler, StandardScaler

from maxendnet import L2CRF, M3N, KernelFeatures, ModelFileError, OnNodes, load, save
from maxendnet.estimators import pipeline as pipelines
from maxendnet.estimators.file import KIND, read
from maxendnet.estimators.info import describe, render
from maxendnet.models.container import write_sealed


class Doubled(StandardScaler):
    """Transformer that is not part of scikit-learn or maxendnet."""


TRANSFORMERS = [
    StandardScaler(), StandardScaler(with_mean=False), MinMaxScaler((-1, 2)), MaxAbsScaler(), RobustScaler(), PCA(2),
    PCA(2, whiten=True), KernelFeatures("rbf", gamma=0.5), KernelFeatures("poly", n_landmarks=3),
]  # fmt: skip


def data(n=8):
    rng = np.random.default_rng(0)
    X = [rng.normal(3.0, 2.0, size=(k, 3)) for k in rng.integers(1, 6, size=n)]
    return X, [["a" if row.sum() > 9 else "b" for row in x] for x in X]


def saved(model, folder):
    save(model, folder / "model.medn")
    return load(folder / "model.medn")


def test_every_transformer_of_the_table_is_tested():
    assert {type(transformer) for transformer in TRANSFORMERS} == set(pipelines.ATTRIBUTES)


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_a_loaded_pipeline_predicts_the_same(transformer, tmp_path):
    X, y = data()
    model = make_pipeline(OnNodes(transformer), L2CRF()).fit(X, y)
    again = saved(model, tmp_path)
    assert_array_equal(again[:-1].transform(X).X.toarray(), model[:-1].transform(X).X.toarray())
    marginals = [np.concatenate(m[-1].predict_marginals(m[:-1].transform(X))) for m in (again, model)]
    assert_array_equal(*marginals)
    assert again.predict(X) == model.predict(X) and repr(again) == repr(model)
    assert clone(again).fit(X, y).predict(X) == model.predict(X)


def test_several_steps_and_names_of_features(tmp_path):
    X = [[{"word": "the", "size": 3.0}, {"word": "dog"}], [{"word": "dogs", "size": 4.0}]]
    model = make_pipeline(OnNodes(StandardScaler()), OnNodes(PCA(2)), M3N(C=10)).fit(X, [["D", "N"], ["N"]])
    again = saved(model, tmp_path)
    new = [[{"size": 1.0, "unseen": 2.0, "word": "dog"}], *X]
    assert_array_equal(again[:-1].transform(new).X.toarray(), model[:-1].transform(new).X.toarray())
    assert again.predict(new) == model.predict(new) and list(again.named_steps) == list(model.named_steps)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (OnNodes(QuantileTransformer(n_quantiles=3)), "'onnodes' .*QuantileTransformer.*supported are OnNodes with"),
        (OnNodes(Doubled()), "Doubled"),
        (OnNodes(make_pipeline(StandardScaler())), "Pipeline"),
        ("passthrough", "'passthrough', which a model file cannot store"),
        (OnNodes(KernelFeatures(np.dot)), "onnodes__kernel is <.*dot"),
    ],
    ids=range(5),
)  # fmt: skip
def test_unsupported_steps_are_named(step, message, tmp_path):
    model = make_pipeline(step, L2CRF()).fit(*data())
    with pytest.raises(ModelFileError, match=message):
        save(model, tmp_path / "model.medn")
    assert list(tmp_path.iterdir()) == []


def test_the_last_step_must_be_a_fitted_estimator_of_maxendnet(tmp_path):
    with pytest.raises(ModelFileError, match="LogisticRegression is not an estimator of maxendnet"):
        save(make_pipeline(StandardScaler(), LogisticRegression()), tmp_path / "model.medn")
    with pytest.raises(NotFittedError):
        save(make_pipeline(OnNodes(StandardScaler()), L2CRF()), tmp_path / "model.medn")


def test_readers_of_models_alone_refuse_a_pipeline(tmp_path):
    """A reader that ignored the steps would predict from unscaled features."""
    save(make_pipeline(OnNodes(StandardScaler()), L2CRF()).fit(*data()), tmp_path / "pipeline")
    save(L2CRF().fit(*data()), tmp_path / "model")
    version = {path.name: int.from_bytes(path.read_bytes()[8:12], "little") for path in tmp_path.iterdir()}
    assert version == {"pipeline": 4, "model": 3}


def forged(change, path):
    """Write a file with a valid checksum and a changed description of its first step."""
    save(make_pipeline(OnNodes(StandardScaler()), L2CRF()).fit(*data()), path)
    header, arrays = read(path)
    change(header["steps"][0], arrays)
    write_sealed(path, KIND, header, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda step, arrays: step.update(transformer=["FunctionTransformer", {}]), "unknown transformer"),
        (lambda step, arrays: step.update(transformer=["StandardScaler", {"fit": 1}]), "unknown setting 'fit'"),
        (lambda step, arrays: step["attributes"].pop("scale_"), "scale_"),
        (lambda step, arrays: step.update(n_features_in=2), "broadcast"),
        (lambda step, arrays: step.update(n_features_in=10**15), "of memory"),
        (lambda step, arrays: step.update(name=3), "expected text"),
        (lambda step, arrays: arrays.update(onnodes__scale_=np.ones(2)), "broadcast"),
        (
            lambda step, arrays: step["attributes"].update(mean_="text", transform="text"),
            "this version of maxendnet cannot read it",
        ),
        (
            lambda step, arrays: step.update(feature_names={"array": "onnodes__mean_"}),
            "this version of maxendnet cannot read it",
        ),
    ],
    ids=range(9),
)
def test_a_forged_step_is_refused(change, message, tmp_path):
    forged(change, tmp_path / "model.medn")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model.medn")


def test_steps_that_do_not_fit_together_are_refused(tmp_path):
    save(make_pipeline(OnNodes(PCA(2)), L2CRF()).fit(*data()), tmp_path / "model.medn")
    header, arrays = read(tmp_path / "model.medn")
    header["steps"] = [header["steps"][0], header["steps"][0] | {"name": "again"}, header["steps"][1]]
    write_sealed(tmp_path / "model.medn", KIND, header, arrays)
    with pytest.raises(ModelFileError, match="'onnodes' returns 2 features, but the next one expects 3"):
        load(tmp_path / "model.medn")


def test_info_shows_the_transformers(tmp_path):
    save(make_pipeline(OnNodes(StandardScaler()), L2CRF()).fit(*data()), tmp_path / "model.medn")
    about = describe(tmp_path / "model.medn")
    assert about["transformers"] == ["OnNodes(transformer=StandardScaler())"] and json.dumps(about)
    assert "OnNodes(transformer=StandardScaler())" in render(about)


def test_models_alone_do_not_import_transformers():
    script = "import sys, maxendnet.estimators.file; print('sklearn.decomposition' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_attributes_keep_their_memory_order(tmp_path):
    """Results of matrix products depend on it in the last bits."""
    model = make_pipeline(OnNodes(PCA(2)), L2CRF()).fit(*data())
    components = model[0].transformer_.components_ = np.asfortranarray(model[0].transformer_.components_)
    again = saved(model, tmp_path)[0].transformer_.components_
    assert again.strides == components.strides
    assert_array_equal(again, components)
