"""Transformers on nodes, and features of kernels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxendnet import M3N, Examples, Independent, KernelFeatures, OnNodes, Tree


def sequences(seed=0, n=6):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(k, 3)) for k in rng.integers(1, 6, size=n)]
    return X, [["in" if row @ row < 2 else "out" for row in x] for x in X]


def test_nodes_are_the_rows():
    X, _ = sequences()
    scaled = OnNodes(StandardScaler()).fit_transform(X)
    every = np.concatenate(X)
    assert_allclose(scaled.X.toarray(), (every - every.mean(axis=0)) / every.std(axis=0))
    assert_array_equal(scaled.offsets, np.cumsum([0, *map(len, X)]))


def test_everything_else_stays():
    data = Examples.build(
        [np.eye(3)], [["a", "b", "b"]], edges=[[(0, 1), (0, 2)]], edge_types=[[0, 1]], sample_weight=[2.0]
    )
    transformed = OnNodes(PCA(1)).fit(data).transform(data)
    assert transformed.n_features == 1 and transformed.n_edge_types == 2 and transformed.sample_weight.tolist() == [2.0]
    assert transformed.y.tolist() == ["a", "b", "b"]
    pipeline = make_pipeline(OnNodes(StandardScaler()), M3N(C=10, structure=Tree()))
    assert pipeline.fit(data, [["a", "b", "b"]]).predict(data) == [["a", "b", "b"]]


def test_nodes_of_zeros_have_the_form_of_the_fit():
    """A scaler that centres does not take sparse matrices."""
    scaler = OnNodes(StandardScaler()).fit([np.array([[1.0, 2.0], [3.0, 6.0]])])
    assert_allclose(scaler.transform([np.zeros((1, 2))]).X.toarray(), [[-2.0, -2.0]])
    thin = OnNodes(StandardScaler(with_mean=False)).fit([np.eye(20)])
    assert not thin.is_dense_ and thin.transform([np.ones((1, 20))]).shape == (1, 20)


def test_feature_dicts_and_empty_examples():
    X = [[{"word": "the"}, {"word": "dog"}], []]
    transform = OnNodes(PCA(1)).fit(X)
    assert transform.transform(X).shape == (2, 1)
    assert transform.transform([[]]).shape == (1, 1)
    with pytest.raises(ValueError, match="OnNodes is expecting 3 features"):
        OnNodes(PCA(1)).fit(sequences()[0]).transform([np.ones((2, 5))])


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_products_of_the_features_are_the_kernel(kernel):
    rng = np.random.default_rng(0)
    X, new = rng.integers(0, 3, size=(40, 2)).astype(float), rng.normal(size=(5, 2))
    options = {"gamma": 0.5} if kernel == "rbf" else {"gamma": 0.5, "degree": 3, "coef0": 1.0}
    true = rbf_kernel if kernel == "rbf" else polynomial_kernel
    features = KernelFeatures(kernel, **options).fit(X)
    assert len(features.landmarks_) in (8, 9) and features.trace_left_ <= 1e-9  # of nine distinct rows
    assert_allclose(features.transform(X) @ features.transform(X).T, true(X, **options), atol=1e-6)
    assert_allclose(features.transform(new) @ features.transform(X).T, true(new, X, **options), atol=1e-5)
    assert_allclose(features.transform(sparse.csr_array(X)), features.transform(X))


def test_trace_left_is_the_residual_of_the_landmarks():
    X = np.random.default_rng(0).normal(size=(50, 3))
    left = []
    for n in (2, 10, 30, 50):
        features = KernelFeatures("rbf", n_landmarks=n, gamma=0.5).fit(X)
        phi = features.transform(X)
        assert phi.shape == (50, n)
        assert_allclose(features.trace_left_, 1 - (phi**2).sum() / 50, atol=1e-8)
        left.append(features.trace_left_)
    assert all(a > b for a, b in pairwise(left)) and left[-1] < 1e-8


def test_a_margin_model_on_kernel_features_is_a_kernel_machine():
    """Isolated nodes and two labels: the support vector machine of scikit-learn, without an intercept."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    y = np.where((X**2).sum(axis=1) > 1.5, 1, 0)
    K = rbf_kernel(X, gamma=0.7)
    model = make_pipeline(OnNodes(KernelFeatures("rbf", gamma=0.7)), M3N(C=1.0, structure=Independent(), tol=1e-6)).fit(
        [X], [y.tolist()]
    )
    # M3N: w_1 - w_0 with a margin of 1 and penalty |w|^2 / 2 each; its dual by projected gradient
    alpha, signs = np.zeros(40), 2 * y - 1
    Q = 2 * K * np.outer(signs, signs)
    for _ in range(20_000):
        alpha = np.clip(alpha + 0.01 * (1 - Q @ alpha), 0, 1.0)
    decision = 2 * K @ (alpha * signs)
    assert_array_equal(model.predict([X])[0], (decision > 0).astype(int))
    coef = model[-1].coef_
    phi = model[0].transform([X]).X.toarray()
    assert_allclose(phi @ (coef[:, 1] - coef[:, 0]), decision, atol=0.02)


def test_other_kernel_maps_of_scikit_learn_fit_too():
    X, y = sequences(2, 20)
    model = make_pipeline(OnNodes(Nystroem(gamma=0.5, n_components=30, random_state=0)), M3N(C=10)).fit(X, y)
    assert np.mean([a == b for p, t in zip(model.predict(X), y) for a, b in zip(p, t)]) > 0.9


def test_bad_numbers_of_landmarks():
    with pytest.raises(ValueError, match="n_landmarks must be a whole number of at least 1, got 0"):
        KernelFeatures(n_landmarks=0).fit(np.eye(2))


EXPECTED_FAILURES = dict.fromkeys(
    (
        "check_pipeline_consistency", "check_estimators_pickle", "check_transformer_data_not_an_array",
        "check_transformer_general", "check_transformer_preserve_dtypes", "check_methods_sample_order_invariance",
        "check_methods_subset_invariance", "check_fit_idempotent",
    ),
    "uses the result as an array, and OnNodes returns Examples",
)  # fmt: skip


@parametrize_with_checks(
    [KernelFeatures(), OnNodes(StandardScaler())],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES if isinstance(estimator, OnNodes) else {},
)
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_a_scaler_of_rows_before_examples_is_sent_to_on_nodes():
    examples = Examples.build([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    with pytest.raises(TypeError, match=r"OnNodes\(StandardScaler\(\)\)"):
        make_pipeline(StandardScaler(), M3N()).fit(examples)
    assert make_pipeline(OnNodes(StandardScaler()), M3N()).fit(examples).score(examples) == 1.0
