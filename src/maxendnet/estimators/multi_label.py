"""Multi-label classification, with a graph over binary labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from maxendnet.data.examples import Examples, as_examples
from maxendnet.data.ragged import gather
from maxendnet.data.sparse_matrices import is_sparse
from maxendnet.estimators.table import L2CRF
from maxendnet.structures.graph import Graph
from maxendnet.utils.scikit_learn import BaseEstimator, ClassifierMixin, clone

FloatArray = NDArray[np.float64]

LAM_AT_NORM_1 = 0.2
"""Default lam if the mean squared norm of the node features is 1. Multi-label tables need a stronger penalty than
sequences (benchmarks/DEFAULTS.md)."""


class MultiLabel(ClassifierMixin, BaseEstimator):
    """Multi-label classifier with a graph over the labels.

    Each label is a binary node with weights for all features and an intercept. Each pair of joined labels has a weight
    for each of its four states.

    Parameters
    ----------
    edges : {"tree", "full", "none"} or list of (int, int), default="tree"
        Joined labels: the tree with the largest mutual information in the training labels (Chow & Liu 1968), all
        pairs, no pairs (independent classifiers), or the listed pairs. "full" is exact for up to about 19 labels, and
        relaxed for more, see `Graph`. It is expensive: with 14 labels (yeast) a fit takes about 80 times as long as
        with "tree".
    estimator : an estimator of this package or None, default=None
        Any estimator, such as ``M3N(C=0.1)`` or ``LapMEDN()``. If its structure is a `Graph`, the options of that are
        used. None is ``L2CRF(lam=0.2 * (R2 + 1))``, where R2 is the mean squared norm of a row and 1 is for the
        intercept. ``estimator_.lam_`` is the resulting number.

    Attributes
    ----------
    estimator_ : the fitted estimator
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of joined labels.
    n_labels_ : int
    classes_ : ndarray of shape (n_labels,)
        Indices of the labels.

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

    edges_: NDArray[np.int32]
    estimator_: L2CRF | Any

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
        """Fit the model to rows and their labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
        y : array or sparse matrix of shape (n, n_labels)
            1 if a row has a label, else 0.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        indicators = read_indicators(y, X.shape[0])
        self.n_labels_: Any = indicators.shape[1]
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
        """Return the pairs of joined labels."""
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
            raise ValueError(f"edges must be a list of pairs of label indices, got {self.edges!r}.")
        if pairs.min() < 0 or pairs.max() >= k:
            raise ValueError(f"edges has the label {pairs.max() if pairs.max() >= k else pairs.min()}, but y has the "
                             f"labels 0 to {k - 1}.")  # fmt: skip
        return pairs.astype(np.int32)

    def _examples(self, X: Any, edges: NDArray[np.int32]) -> Examples:
        """Return examples with a node for each label of each row.

        Each label has its own block of columns. A node has the features of the row and a 1 in the block of its label.
        """
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
        """Return the best labels of each row, as zeros and ones of shape (n, n_labels)."""
        examples = self._ready(X)
        return np.array([list(labels) for labels in self.estimator_.predict(examples)], dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the marginal probability of each label, of shape (n, n_labels).

        See `predict_marginals` of the estimators for margin models.
        """
        examples = self._ready(X)
        marginals = np.concatenate(self.estimator_.predict_marginals(examples))
        on = np.flatnonzero(self.estimator_.classes_ == 1)
        probability = marginals[:, on[0]] if len(on) else np.zeros(len(marginals))
        return probability.reshape(-1, self.n_labels_)


def read_indicators(y: Any, n_rows: int) -> NDArray[np.int64]:
    """Read labels as zeros and ones of shape (n_rows, n_labels)."""
    if y is None:
        raise ValueError("MultiLabel requires y to be passed, but the target y is None.")
    y = check_array(y, accept_sparse=True, dtype=None, ensure_2d=False, input_name="y")
    y = y.toarray() if is_sparse(y) else y
    if y.ndim != 2:
        raise ValueError(
            f"y has shape {y.shape}; expected zeros and ones of shape (n, n_labels), as from MultiLabelBinarizer. "
            "For one label per row use an estimator such as M3N(structure='independent')."
        )
    if len(y) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n_rows, len(y)]}")
    if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        raise ValueError(f"y must contain only zeros and ones, got the values {np.unique(y)[:5]}. Unknown label type.")
    indices: NDArray[np.int64] = y.astype(np.int64)
    return indices


def chow_liu_tree(Y: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the tree with the largest mutual information (Chow & Liu 1968).

    Parameters
    ----------
    Y : ndarray of shape (n, n_labels)
        Zeros and ones.

    Returns
    -------
    int32 ndarray of shape (n_labels - 1, 2)

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
        positive = (joint > 0) & (product > 0)
        information[positive] += joint[positive] * np.log(joint[positive] / product[positive])
    # lengths must be positive, because scipy treats zeros as missing edges
    tree = csgraph.minimum_spanning_tree(sparse.csr_array(np.triu(2.0 - information, 1)))
    pairs = np.stack(tree.nonzero(), axis=1)
    return pairs[np.lexsort(pairs.T[::-1])].astype(np.int32)
