"""Feature names, layout and prior of a `partial_fit`, from the previous model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.estimators.fitted import FittedModel
from maxendnet.priors import Gaussian
from maxendnet.structures.weights.layout import Layout, SeenPairs


def with_known_names(model: FittedModel, examples: Examples, estimator: str = "the model") -> Examples:
    """Return the examples with the features of the model first, followed by new features.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> model = M3N().fit([[{"a": 1}, {"b": 1}]], [["x", "y"]]).model_
    >>> with_known_names(model, Examples.build([[{"c": 1}, {"b": 1}]])).feature_names
    ('a', 'b', 'c')
    """
    old, new = model.feature_names, examples.feature_names
    if old is None or new is None:
        if (old is None) != (new is None):
            raise ValueError(
                f"{estimator} was fitted on features {'without' if old is None else 'with'} names, but X has features "
                f"{'without' if new is None else 'with'} names; pass features as in the first fit."
            )
        if examples.n_features != model.n_features_in:
            raise ValueError(
                f"X has {examples.n_features} features, but {estimator} is expecting {model.n_features_in} features as "
                "input; only features with names may be new."
            )
        return examples
    place = {name: k for k, name in enumerate(old)}
    for name in new:
        place.setdefault(name, len(place))
    column = np.array([place[name] for name in new], dtype=np.int64)
    X = sparse.csr_array(examples.X)
    wide = sparse.csr_array((X.data, column[X.indices], X.indptr), shape=(X.shape[0], len(place)))
    return replace(examples, X=wide, feature_names=FeatureNames(list(place)))


def grown_layout(model: FittedModel, examples: Examples) -> tuple[Layout, NDArray[np.int64]]:
    """Return the layout with new features, and the indices of the old weights.

    With ``pairs="seen"`` there are also weights for new feature-label pairs. N-grams of labels do not change.
    """
    old = model.layout
    if not isinstance(old, Layout):
        raise ValueError(f"partial_fit does not support {model.structure!r}; fit the model to all examples.")
    n_added = examples.n_features - model.n_features_in
    n_features = old.n_features + n_added
    # columns that the structure adds (bias, ends) follow those of the examples
    column = np.arange(old.n_features) + np.where(np.arange(old.n_features) < model.n_features_in, 0, n_added)
    if old.seen is None:
        layout, L = replace(old, n_features=n_features), old.n_labels
        node = (column[:, None] * L + np.arange(L)).ravel()
    else:
        more = model.structure.layout(examples, model.classes).seen
        features = np.concatenate([column[old.seen.features], more.features])
        labels = np.concatenate([old.seen.labels, more.labels])
        pairs = SeenPairs.of(features, labels, n_features, old.n_labels)
        layout = replace(old, n_features=n_features, seen=pairs)
        keys = pairs.features * old.n_labels + pairs.labels
        node = np.searchsorted(keys, column[old.seen.features] * old.n_labels + old.seen.labels)
    rest = np.arange(old.n_node_weights, old.n_weights) + layout.n_node_weights - old.n_node_weights
    return layout, np.concatenate([node, rest])


def prior_after(model: FittedModel, prior: Any, n_weights: int, places: NDArray[np.int64]) -> Gaussian:
    """Return a Gaussian prior with the mean and variance of the posterior.

    With a Gaussian prior this is the posterior itself. Likelihood models, which have no posterior, use the variance of
    their prior. New weights have the initial prior.
    """
    has_variance = model.posterior.kind != "point"
    start: Any = model.posterior.prior if model.posterior.kind == "exact" else prior
    if np.ndim(getattr(start, "prior_variance", 0.0)) == 2:
        raise ValueError("partial_fit does not support a full covariance; fit the model to all examples.")
    mean = np.zeros(n_weights)
    mean[places] = model.weights
    variance = np.array(np.broadcast_to(np.mean(start.variance(np.zeros(len(places)))), n_weights))
    variance[places] = model.posterior.variance if has_variance else start.variance(np.zeros(len(places)))
    return Gaussian(float(variance[0]) if np.all(variance == variance[0]) else variance, mean)
