"""Transformers of nodes: `OnNodes` and `KernelFeatures`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted, validate_data

from maxendnet.data.examples import Examples, as_examples
from maxendnet.data.sparse_matrices import is_sparse
from maxendnet.utils.checks import require_count
from maxendnet.utils.scikit_learn import BaseEstimator, TransformerMixin, clone

FloatArray = NDArray[np.float64]


class OnNodes(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer to the nodes of examples.

    The rows are the nodes of all examples. The result is `Examples` with the same edges, types and weights, so that
    `OnNodes` can be a step of a scikit-learn ``Pipeline``.

    Parameters
    ----------
    transformer : a scikit-learn transformer
        A clone of it is fitted.

    Attributes
    ----------
    transformer_ : the fitted transformer
    is_dense_ : bool
        Whether the transformer receives dense arrays: True if at least a tenth of the training entries are non-zero.
        Otherwise it receives sparse matrices.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from maxendnet import M3N, KernelFeatures, OnNodes
    >>> X, y = [[[0.0], [1.0], [2.0]], [[1.0], [0.0]]], [["even", "odd", "even"], ["odd", "even"]]
    >>> model = make_pipeline(OnNodes(KernelFeatures("rbf", gamma=2.0)), M3N(C=100))
    >>> model.fit(X, y).predict(X)
    [['even', 'odd', 'even'], ['odd', 'even']]
    """

    feature_names_: tuple[str, ...] | None
    n_features_in_: int

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> OnNodes:
        """Fit the transformer to the nodes of all examples.

        Parameters
        ----------
        X : list of examples, or Examples
        y : list of label sequences, optional
            Passed to the transformer.

        Returns
        -------
        self
        """
        examples = as_examples(X, y)
        transformer, X = clone(self.transformer), examples.X
        self.is_dense_: Any = X.nnz >= 0.1 * X.shape[0] * X.shape[1]
        if examples.y is None:
            transformer.fit(self._rows(examples))
        else:
            transformer.fit(self._rows(examples), examples.y)
        self.transformer_ = transformer
        self.n_features_in_, self.feature_names_ = examples.n_features, examples.feature_names
        return self

    def transform(self, X: Any) -> Examples:
        """Return the examples with transformed nodes."""
        check_is_fitted(self, "transformer_")
        examples = as_examples(
            X, feature_names=self.feature_names_, n_features=self.n_features_in_, estimator="OnNodes"
        )
        if examples.n_nodes:
            transformed = self.transformer_.transform(self._rows(examples))
        else:
            transformed = np.zeros((0, self.transformer_.transform(np.zeros((1, self.n_features_in_))).shape[1]))
        rows = sparse.csr_array(transformed, dtype=np.float64)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return replace(examples, X=rows, feature_names=None)

    def _rows(self, examples: Examples) -> Any:
        """Return the features of all nodes as a dense or sparse matrix, as in the fit."""
        return examples.X.toarray() if self.is_dense_ else examples.X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelFeatures(TransformerMixin, BaseEstimator):
    """Explicit features of a kernel: a linear model on them is a kernel machine.

    Landmarks are distinct training rows, chosen by a pivoted Cholesky factorisation: each is the row with the largest
    residual. A row x becomes ``inv(L) k(landmarks, x)``, where ``K = L L'`` is the Gram matrix of the landmarks. If all
    distinct rows are landmarks, the features are exact. With fewer landmarks they are a projection (Nystroem), whose
    residual is `trace_left_`.

    The equivalence with kernel machines holds for Gaussian priors with one variance (`M3N`, `L2CRF`), because rotations
    of the features do not change their penalty. Models with other priors depend on the order of the landmarks.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        As in ``sklearn.metrics.pairwise.pairwise_kernels``: "rbf", "poly", "linear", "laplacian", ...
    n_landmarks : int or None, default=None
        Maximum number of landmarks. None uses all distinct rows.
    gamma, degree, coef0 : float or None, default=None
        Kernel parameters. None is scikit-learn's default.
    tol : float, default=1e-9
        Relative residual at which no more landmarks are added.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks, n_features)
    trace_left_ : float
        Relative residual, ``sum_x [k(x, x) - |features(x)|^2] / sum_x k(x, x)`` over the distinct training rows.

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
        parameters = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        options = {name: value for name, value in parameters.items() if value is not None}
        kernel: FloatArray = pairwise_kernels(
            A, B, metric=self.kernel, filter_params=isinstance(self.kernel, str), **options
        )
        return kernel

    def fit(self, X: Any, y: Any = None) -> KernelFeatures:
        """Choose landmarks among the rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
        y : ignored

        Returns
        -------
        self
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        X = X.toarray() if is_sparse(X) else X
        if self.n_landmarks is not None:
            require_count("n_landmarks", self.n_landmarks)
        distinct = np.unique(X, axis=0)
        most = len(distinct) if self.n_landmarks is None else min(int(self.n_landmarks), len(distinct))
        left = np.concatenate([np.diag(self._kernel(chunk, chunk)) for chunk in _chunks(distinct, 256)])
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
            raise ValueError("The kernel is not positive on any row; choose another kernel.")
        self.landmarks_: NDArray[np.float64] = distinct[chosen[:n]]
        self._factor = factor[chosen[:n], :n]
        self.trace_left_: float = float(left.sum()) / total
        self._n_features_out = n
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the features, of shape (n_rows, n_landmarks)."""
        check_is_fitted(self, "landmarks_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        from scipy.linalg import solve_triangular

        out = np.empty((X.shape[0], len(self.landmarks_)))
        for begin in range(0, X.shape[0], 4096):
            rows = X[begin : begin + 4096]
            across = self._kernel(self.landmarks_, rows.toarray() if is_sparse(rows) else rows)
            out[begin : begin + 4096] = solve_triangular(self._factor, across, lower=True).T
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _chunks(rows: FloatArray, size: int) -> list[FloatArray]:
    return [rows[k : k + size] for k in range(0, len(rows), size)]
