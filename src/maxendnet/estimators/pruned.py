"""Pruned models: the least important feature weights are removed.

The importance of the weight of a feature and a label is ``|w| * sqrt(sum over training nodes of x^2)``, the size of its
contribution to the scores of all training nodes. Weights of label pairs and n-grams are never removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.estimators.fitted import FittedModel
from maxendnet.posterior import PointEstimate, Posterior, VariationalPosterior
from maxendnet.structures.weights.layout import SeenPairs
from maxendnet.utils.scikit_learn import clone

FloatArray = NDArray[np.float64]


def pruned(model: FittedModel, examples: Examples, n_weights: int) -> FittedModel:
    """Return the model with at most ``n_weights`` feature weights.

    Features without weights are dropped.

    The certificate of the fit does not apply to the pruned model: ``gap`` and ``dual`` are NaN.

    Parameters
    ----------
    model : FittedModel
        A model with ``pairs="seen"``.
    examples : Examples
        Training examples.
    n_weights : int

    Examples
    --------
    >>> from maxendnet import Chain, L2CRF
    >>> examples = Examples.build([[{"a": 1}, {"b": 1}], [{"a": 1}, {"c": 0.01}]], [["x", "y"], ["x", "y"]])
    >>> model = L2CRF(structure=Chain(pairs="seen")).fit(examples).model_
    >>> pruned(model, examples, 2).feature_names
    ('a', 'b')
    """
    layout = model.layout
    if getattr(layout, "seen", None) is None:
        raise ValueError(
            f"only models with pairs='seen' can be pruned, but the structure is {model.structure!r}; fit with "
            f"pairs='seen'."
        )
    features = layout.seen.features
    size = sizes_of_columns(model, examples)[features]
    importance = np.abs(model.weights[: len(features)]) * size
    largest = np.sort(np.argsort(-importance, kind="stable")[: max(0, int(n_weights))])
    columns = np.arange(layout.n_features)
    if model.feature_names is not None:  # columns of hashed features, bias and ends are not dropped
        columns = np.union1d(features[largest], columns[model.n_features_in :])
    number = np.zeros(layout.n_features, dtype=np.int64)
    number[columns] = np.arange(len(columns))
    pairs = SeenPairs.of(number[features[largest]], layout.seen.labels[largest], len(columns), layout.n_labels)
    places = np.concatenate([largest, np.arange(len(features), layout.n_weights)])
    names = model.feature_names
    n_features_in = model.n_features_in - (layout.n_features - len(columns))
    return replace(
        model,
        layout=replace(layout, n_features=len(columns), seen=pairs),
        weights=model.weights[places],
        posterior=_part(model.posterior, places),
        n_features_in=n_features_in,
        feature_names=None if names is None else FeatureNames([names[k] for k in columns[:n_features_in].tolist()]),
        report=model.report._replace(gap=np.nan, dual=np.nan, which="pruned"),
    )


def sizes_of_columns(model: FittedModel, examples: Examples) -> FloatArray:
    """Return ``sqrt(sum over nodes of x^2)`` of each column of the model."""
    batch = model.structure.bind(replace(examples, y=None), model.classes, model.layout).batch
    return np.sqrt(np.bincount(batch.indices, batch.data**2, minlength=model.layout.n_features))


def _part(posterior: Any, places: NDArray[np.int64]) -> Any:
    """Return the posterior of the weights at the given indices."""
    if isinstance(posterior, Posterior):
        prior: Any = clone(posterior.prior)
        for name, value in prior.get_params(deep=False).items():  # one value per weight, or per pair of weights
            if isinstance(value, np.ndarray) and value.ndim:
                prior.set_params(**{name: value[np.ix_(*[places] * value.ndim)]})
        return Posterior(prior, posterior.eta[places])
    if isinstance(posterior, VariationalPosterior):
        return VariationalPosterior(posterior.mean[places], posterior.variance[places], posterior.kl)
    return PointEstimate(posterior.mean[places])
