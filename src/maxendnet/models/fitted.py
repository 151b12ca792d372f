"""A fitted model: weights, structure, labels and posterior, and all predictions that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples, as_examples

FloatArray = NDArray[np.float64]


class Labellings(list):
    """A list with the labels of every example, as lists: what seqeval and scikit-learn's tools take as it is.

    As an array it is one of objects, a list for each example, so that predictions of several parts can be concatenated
    as ``cross_val_predict`` does.

    Examples
    --------
    >>> Labellings([["a", "b"], ["b"]])
    [['a', 'b'], ['b']]
    >>> np.concatenate([Labellings([["a", "b"]]), Labellings([["b"]])]).shape
    (2,)
    """

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray:
        out = np.empty(len(self), dtype=object)
        for i, labels in enumerate(self):  # all at once, numpy would take lists of equal length for rows of a matrix
            out[i] = labels
        return out


class FitReport(NamedTuple):
    """How a fit ended."""

    objective: float
    dual: float
    gap: float
    converged: bool
    which: str
    n_passes: int
    trace: list[Any]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a fit learned. Estimators, model files, bounds and applications share it.

    Parameters
    ----------
    structure : a structure
        The piece as it was at the fit.
    layout : Layout
        Of the weights.
    classes : ndarray of shape (n_labels,)
    weights : ndarray of shape (n_weights,)
    posterior : Posterior, VariationalPosterior or PointEstimate
    n_features_in : int
    feature_names : tuple of str or None
    report : FitReport
    estimator : str, default="the model"
        Name for messages.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> model = M3N(C=10).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).model_
    >>> model.classes.tolist(), model.layout.n_weights
    (['a', 'b'], 6)
    """

    structure: Any
    layout: Any
    classes: NDArray
    weights: FloatArray
    posterior: Any
    n_features_in: int
    feature_names: tuple[str, ...] | None
    report: FitReport
    estimator: str = "the model"

    def read(self, X: Any, y: Any = None, sample_weight: Any = None, needs_y: bool = False) -> Examples:
        """Examples with the features that the model knows."""
        return as_examples(
            X, y, feature_names=self.feature_names, n_features=self.n_features_in, sample_weight=sample_weight,
            estimator=self.estimator, needs_y=needs_y,
        )  # fmt: skip

    def bind(self, examples: Examples) -> Any:
        """The structure with examples to predict; their labels, if any, are left out: they may be unknown ones."""
        return self.structure.bind(replace(examples, y=None), self.classes, self.layout)

    def named_weights(self) -> dict[str, FloatArray]:
        """The weights by name, as the structure calls them."""
        if hasattr(self.structure, "named_weights"):
            return self.structure.named_weights(self.layout, self.weights)
        return {}

    def labellings(self, examples: Examples, labels: NDArray[np.int32]) -> Any:
        """Numbers of labels as labels: a list for every example, or one array if X was a table."""
        found = self.classes[labels]
        if examples.flat:
            return found
        every = found.tolist()  # once: a list is cut in a tenth of the time that an array takes
        return Labellings([every[first:last] for first, last in pairwise(examples.offsets.tolist())])
