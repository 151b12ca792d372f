"""Transformers of scikit-learn on the nodes of examples, and features that stand for a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted, validate_data

from maxendnet.data.examples import Examples, as_examples
from maxendnet.data.sparse_matrices import is_sparse
from maxendnet.utils.checks import require_count

FloatArray = NDArray[np.float64]


class OnNodes(TransformerMixin, BaseEstimator):
    """Apply a transformer of rows to the nodes of examples: scalers, PCA, kernels, whatever scikit-learn has.

    The nodes of all examples are the rows. What comes out are `Examples` with the same edges, types, weights and so on,
    which every estimator of this package takes; so it is a step of a scikit-learn ``Pipeline``.

    Parameters
    ----------
    transformer : a transformer of scikit-learn
        It is cloned, and the clone is fitted.

    Attributes
    ----------
    transformer_ : the fitted transformer
    is_dense_ : bool
        Whether the transformer gets arrays: at least a tenth of the entries in the fit are not zero. Otherwise it gets
        sparse matrices.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from maxendnet import M3N, KernelFeatures, OnNodes
    >>> X, y = [[[0.0], [1.0], [2.0]], [[1.0], [0.0]]], [["even", "odd", "even"], ["odd", "even"]]
    >>> model = make_pipeline(OnNodes(KernelFeatures("rbf", gamma=2.0)), M3N(C=100))
    >>> model.fit(X, y).predict(X)
    [['even', 'odd', 'even'], ['odd', 'even']]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> OnNodes:
        """Fit the transformer to the nodes of all examples; y may have one label per node, and is given on."""
        examples = as_examples(X, y)
        transformer, X = clone(self.transformer), examples.X
        self.is_dense_ = X.nnz >= 0.1 * X.shape[0] * X.shape[1]
        if examples.y is None:
            transformer.fit(self._rows(examples))
        else:
            transformer.fit(self._rows(examples), examples.y)
        self.transformer_ = transformer
        self.n_features_in_, self.feature_names_ = examples.n_features, examples.feature_names
        return self

    def transform(self, X: Any) -> Examples:
        """The same examples with transformed nodes."""
        check_is_fitted(self, "transformer_")
        examples = as_examples(
            X, feature_names=self.feature_names_, n_features=self.n_features_in_, estimator="OnNodes"
        )
        if examples.n_nodes:
            found = self.transformer_.transform(self._rows(examples))
        else:
            found = np.zeros((0, self.transformer_.transform(np.zeros((1, self.n_features_in_))).shape[1]))
        rows = sparse.csr_array(found, dtype=np.float64)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return replace(examples, X=rows, feature_names=None)

    def _rows(self, examples: Examples) -> Any:
        """All nodes, in the form of the fit: a transformer may take one of them only."""
        return examples.X.toarray() if self.is_dense_ else examples.X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelFeatures(TransformerMixin, BaseEstimator):
    """Features whose products are a kernel: a linear model on them is a kernel machine.

    With the Gram matrix of landmarks ``K = L L'``, a row x becomes ``inv(L) k(landmarks, x)``. Landmarks are the
    distinct rows of the fit, one after the other, each the row that the ones before explain least (pivoted Cholesky),
    until there are ``n_landmarks`` or nothing is left. With all distinct rows as landmarks the model is that of the
    kernel itself; with fewer it is its projection on them (Nystroem), and `trace_left_` says what is missing.

    That a linear model on these features is the kernel machine holds for the Gaussian prior with one variance (`M3N`,
    `L2CRF`): its penalty does not change when the features are rotated. Other priors, of Laplace type or with L1, see
    the features themselves, which depend on the order of the landmarks; for another order the model is another one.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        As in ``sklearn.metrics.pairwise.pairwise_kernels``: "rbf", "poly", "linear", "laplacian", ...
    n_landmarks : int or None, default=None
        At most so many; None takes all distinct rows.
    gamma, degree, coef0 : float or None, default=None
        Of the kernel; None is scikit-learn's default.
    tol : float, default=1e-9
        Landmarks end when this share of the trace is left.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks, n_features)
    trace_left_ : float
        ``sum_x [k(x, x) - |features(x)|^2] / sum_x k(x, x)`` over the distinct rows of the fit: 0 if all is explained.

    Examples
    --------
    >>> import numpy as np
    >>> from maxendnet import KernelFeatures
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    >>> phi = KernelFeatures("poly", degree=3, gamma=1.0, coef0=1.0).fit_transform(X)
    >>> phi.shape, bool(np.allclose(phi @ phi.T, (X @ X.T + 1.0) ** 3))
    ((4, 3), True)
    """

    def __init__(
        self, kernel: Any = "rbf", n_landmarks: int | None = None, gamma: float | None = None,
        degree: float | None = None, coef0: float | None = None, tol: float = 1e-9,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol

    def _kernel(self, A: Any, B: Any) -> FloatArray:
        given = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        options = {name: value for name, value in given.items() if value is not None}
        return pairwise_kernels(A, B, metric=self.kernel, filter_params=isinstance(self.kernel, str), **options)

    def fit(self, X: Any, y: Any = None) -> KernelFeatures:
        """Choose landmarks among the rows."""
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        X = X.toarray() if is_sparse(X) else X
        if self.n_landmarks is not None:
            require_count("n_landmarks", self.n_landmarks)
        distinct = np.unique(X, axis=0)
        most = len(distinct) if self.n_landmarks is None else min(int(self.n_landmarks), len(distinct))
        left = np.concatenate([np.diag(self._kernel(some, some)) for some in _chunks(distinct, 256)])
        total, factor, chosen = float(left.sum()), np.zeros((len(distinct), most)), np.zeros(most, dtype=np.int64)
        n = 0
        while n < most and left.max() > 0 and left.sum() > self.tol * total:
            k = int(np.argmax(left))
            column = self._kernel(distinct, distinct[k : k + 1])[:, 0] - factor[:, :n] @ factor[k, :n]
            factor[:, n] = column / np.sqrt(left[k])
            left = np.maximum(left - factor[:, n] ** 2, 0.0)
            left[k] = 0.0
            chosen[n] = k
            n += 1
        if n == 0:
            raise ValueError("The kernel is zero, or not positive, on all rows; choose another one.")
        self.landmarks_ = distinct[chosen[:n]]
        self._factor = factor[chosen[:n], :n]
        self.trace_left_ = float(left.sum()) / total
        self._n_features_out = n
        return self

    def transform(self, X: Any) -> FloatArray:
        """The features, shape (n_rows, n_landmarks)."""
        check_is_fitted(self, "landmarks_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        from scipy.linalg import solve_triangular

        out = np.empty((X.shape[0], len(self.landmarks_)))
        for begin in range(0, X.shape[0], 4096):
            some = X[begin : begin + 4096]
            across = self._kernel(self.landmarks_, some.toarray() if is_sparse(some) else some)
            out[begin : begin + 4096] = solve_triangular(self._factor, across, lower=True).T
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _chunks(rows: FloatArray, size: int) -> list[FloatArray]:
    return [rows[k : k + size] for k in range(0, len(rows), size)]
