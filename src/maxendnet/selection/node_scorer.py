"""`node_scorer`: scikit-learn metrics on node labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.labels import label_array
from maxendnet.data.ragged import Array
from maxendnet.data.unknown import UNKNOWN
from maxendnet.utils.scikit_learn import BaseEstimator, ClassifierMixin


def node_scorer(scoring: Any) -> Callable[..., float]:
    """Return a scorer on node labels, to be passed as ``scoring=``.

    scikit-learn's metrics do not accept lists of label sequences: ``cross_val_score(..., scoring="f1_macro")`` returns
    NaN. This scorer concatenates the sequences first, and ignores unknown labels.

    Parameters
    ----------
    scoring : str or scorer
        Name of a metric on predicted labels, such as "accuracy" or "f1_macro", or a result of ``make_scorer``.

    Returns
    -------
    callable
        ``scorer(model, X, y)``.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from maxendnet import M3N
    >>> from maxendnet.selection import node_scorer
    >>> X, y = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0]]] * 4, [["a", "b"], ["b"]] * 4
    >>> cross_val_score(M3N(), X, y, cv=2, scoring=node_scorer("f1_macro")).tolist()
    [1.0, 1.0]
    """
    from sklearn.metrics import get_scorer  # slow to import

    return partial(score_nodes, scoring=get_scorer(scoring))


def score_nodes(model: Any, X: Any, y: Any = None, *, scoring: Callable[..., float]) -> float:
    """Apply a scikit-learn scorer to the true and predicted labels of all nodes."""
    if y is None and isinstance(X, Examples) and X.y is not None:
        y = X.split(X.y)
    predicted = model.predict(X)
    if isinstance(predicted, np.ndarray):  # one label per example
        return scoring(Nodes(predicted), X, y)
    truth = list(chain.from_iterable(y))
    known = [i for i, label in enumerate(truth) if label is not UNKNOWN and not isinstance(label, (set, frozenset))]
    labels = list(chain.from_iterable(predicted))
    return scoring(Nodes(_labels(labels[i] for i in known)), X, _labels(truth[i] for i in known))


class Nodes(ClassifierMixin, BaseEstimator):
    """Classifier that returns fixed predictions, for scorers that need a model."""

    def __init__(self, predicted: Array) -> None:
        self.predicted = predicted
        self.classes_: NDArray[Any] = np.unique(predicted)

    def predict(self, X: Any) -> Array:
        """Return the predictions."""
        return self.predicted


def _labels(labels: Iterable[Any]) -> Array:
    """Return labels as an array, with a string dtype if all are strings."""
    array = label_array(list(labels))
    return array.astype(np.str_) if all(isinstance(label, str) for label in array) else array
