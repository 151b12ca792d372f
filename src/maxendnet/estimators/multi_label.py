"""Multi-label classification: every label is a binary node, and labels that depend on each other are joined."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from maxendnet.data.examples import Examples, as_examples
from maxendnet.data.ragged import gather
from maxendnet.data.sparse_matrices import is_sparse
from maxendnet.estimators.table import L2CRF
from maxendnet.structures.graph import Graph

FloatArray = NDArray[np.float64]

LAM_AT_NORM_1 = 0.2
"""Default lam for nodes whose features have the mean squared norm 1. Labels of rows need a stronger penalty than
sequences (benchmarks/DEFAULTS.md)."""


class MultiLabel(ClassifierMixin, BaseEstimator):
    """Several labels for every row, as a graph over the labels.

    Label j is a node that is on or off. It has weights of its own for all features and an intercept, and every joined
    pair of labels has a weight for each of its four states. "none" is a classifier for every label by itself, "tree"
    joins those that depend on each other most, "full" joins all.

    Parameters
    ----------
    edges : {"tree", "full", "none"} or list of (int, int), default="tree"
        Which labels are joined: those of the tree with the largest mutual information in the labels of the fit (Chow &
        Liu 1968), all, none, or the given pairs. A graph that is too large to be exact is relaxed, see `Graph`; up to
        about 19 labels "full" is exact. "full" is expensive: with 14 labels (yeast) a fit takes about 80 times as long
        as with "tree".
    estimator : an estimator of this package or None, default=None
        Any of them, with its constants: ``M3N(C=0.1)``, ``LapMEDN()``. Its structure is taken if it is a `Graph`, for
        its options. None is ``L2CRF(lam=0.2 * (R2 + 1))``, R2 the mean squared norm of a row and 1 the intercept: its
        probabilities are those of a likelihood model. ``estimator_.lam_`` is the number.

    Attributes
    ----------
    estimator_ : the fitted estimator
    edges_ : ndarray of shape (n_edges, 2)
        The pairs of labels that are joined.
    n_labels_ : int
    classes_ : ndarray of shape (n_labels,)
        The numbers of the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from maxendnet import M3N, MultiLabel
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> Y = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
    >>> model = MultiLabel(edges="full", estimator=M3N(C=10)).fit(X, Y)
    >>> model.predict(X).tolist() == Y.tolist()
    True
    >>> MultiLabel(edges="tree").fit(X, Y).edges_.tolist()
    [[0, 1], [1, 2]]
    """

    def __init__(self, edges: Any = "tree", estimator: Any = None) -> None:
        self.edges = edges
        self.estimator = estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiLabel:
        """Learn from rows and their labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
        y : array or sparse matrix of shape (n, n_labels)
            1 where a row has a label, else 0.
        sample_weight : array of shape (n,), optional
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        indicators = read_indicators(y, X.shape[0])
        self.n_labels_ = indicators.shape[1]
        edges = self._edges(indicators)
        labels = [row.tolist() for row in indicators]
        examples = as_examples(self._examples(X, edges), labels, sample_weight=sample_weight, estimator="MultiLabel")
        if self.estimator is None:
            estimator = L2CRF(lam=float(f"{LAM_AT_NORM_1 * examples.mean_squared_norm:.3g}"))
        else:
            estimator = clone(self.estimator)
        if not isinstance(estimator.get_params()["structure"], Graph):
            estimator.set_params(structure=Graph())
        estimator.fit(examples)
        self.edges_, self.estimator_, self.classes_ = edges, estimator, np.arange(self.n_labels_)
        return self

    def _edges(self, Y: NDArray[np.int64]) -> NDArray[np.int32]:
        """The pairs of labels that are joined."""
        k = Y.shape[1]
        if isinstance(self.edges, str):
            if self.edges == "none":
                return np.zeros((0, 2), dtype=np.int32)
            if self.edges == "full":
                return np.stack(np.triu_indices(k, 1), axis=1).astype(np.int32)
            if self.edges == "tree":
                return chow_liu_tree(Y)
            raise ValueError(f"edges must be 'tree', 'full', 'none' or a list of pairs, got {self.edges!r}.")
        pairs = np.asarray(self.edges)
        if pairs.size == 0:
            return np.zeros((0, 2), dtype=np.int32)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(f"edges must be a list of pairs of numbers of labels, got {self.edges!r}.")
        if pairs.min() < 0 or pairs.max() >= k:
            raise ValueError(f"edges has the label {pairs.max() if pairs.max() >= k else pairs.min()}, and y has the "
                             f"labels 0 to {k - 1}.")  # fmt: skip
        return pairs.astype(np.int32)

    def _examples(self, X: Any, edges: NDArray[np.int32]) -> Examples:
        """A node for every label of every row: the features of the row and a 1, in columns of that label."""
        n, k = X.shape[0], self.n_labels_
        rows = sparse.csr_array(sparse.hstack([sparse.csr_array(X), sparse.csr_array(np.ones((n, 1)))], format="csr"))
        places, indptr = gather(rows.indptr, np.repeat(np.arange(n), k))
        shift = np.repeat(np.tile(np.arange(k) * rows.shape[1], n), np.diff(indptr))
        nodes = sparse.csr_array(
            (rows.data[places], rows.indices[places] + shift, indptr), shape=(n * k, k * rows.shape[1])
        )
        nodes.eliminate_zeros()
        m = len(edges)
        return Examples(
            X=nodes, offsets=np.arange(n + 1, dtype=np.int64) * k, edges=np.tile(edges, (n, 1)),
            edge_offsets=np.arange(n + 1, dtype=np.int64) * m, edge_types=np.tile(np.arange(m, dtype=np.int32), n),
        )  # fmt: skip

    def _ready(self, X: Any) -> Examples:
        check_is_fitted(self, "estimator_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._examples(X, self.edges_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The best set of labels of every row, as zeros and ones of shape (n, n_labels)."""
        examples = self._ready(X)
        return np.array([list(labels) for labels in self.estimator_.predict(examples)], dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every label by itself, shape (n, n_labels); for margin models see `predict_marginals`."""
        examples = self._ready(X)
        found = np.concatenate(self.estimator_.predict_marginals(examples))
        on = np.flatnonzero(self.estimator_.classes_ == 1)
        share = found[:, on[0]] if len(on) else np.zeros(len(found))
        return share.reshape(-1, self.n_labels_)


def read_indicators(y: Any, n_rows: int) -> NDArray[np.int64]:
    """Labels as zeros and ones of shape (n_rows, n_labels)."""
    if y is None:
        raise ValueError("MultiLabel requires y to be passed, but the target y is None.")
    y = check_array(y, accept_sparse=True, dtype=None, ensure_2d=False, input_name="y")
    y = y.toarray() if is_sparse(y) else y
    if y.ndim != 2:
        raise ValueError(
            f"y has shape {y.shape}; give zeros and ones of shape (n, n_labels), as MultiLabelBinarizer makes them. "
            "For one label per row take an estimator such as M3N(structure='independent')."
        )
    if len(y) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n_rows, len(y)]}")
    if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        raise ValueError(f"y must have zeros and ones only, got the values {np.unique(y)[:5]}. Unknown label type.")
    return y.astype(np.int64)


def chow_liu_tree(Y: NDArray[np.int64]) -> NDArray[np.int32]:
    """The tree over labels with the largest sum of mutual informations, shape (n_labels - 1, 2) (Chow & Liu 1968).

    Examples
    --------
    >>> chow_liu_tree(np.array([[0, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 1]])).tolist()
    [[0, 1], [0, 2]]
    """
    n, k = Y.shape
    both = (Y.T @ Y) / n
    on = np.diag(both)
    information = np.zeros((k, k))
    off, here = 1 - on, on[:, None]
    tables = (
        (both, here * on),
        (here - both, here * off),
        (on - both, (1 - here) * on),
        (off - here + both, (1 - here) * off),
    )
    for joint, product in tables:
        some = (joint > 0) & (product > 0)
        information[some] += joint[some] * np.log(joint[some] / product[some])
    # the least spanning tree of positive lengths; zeros would stand for no edge
    tree = csgraph.minimum_spanning_tree(sparse.csr_array(np.triu(2.0 - information, 1)))
    pairs = np.stack(tree.nonzero(), axis=1)
    return pairs[np.lexsort(pairs.T[::-1])].astype(np.int32)
