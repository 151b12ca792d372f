"""Small models: the weights of features that matter least are left out.

The rule: a weight of a feature and a label counts ``|w| * sqrt(sum over training nodes of x^2)``, the size of what it
adds to the scores of all training nodes. The largest are kept; so are all weights of pairs and n-grams of labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.estimators.fitted import FittedModel
from maxendnet.posterior import PointEstimate, Posterior, VariationalPosterior
from maxendnet.structures.weights.layout import SeenPairs

FloatArray = NDArray[np.float64]


def pruned(model: FittedModel, examples: Examples, n_weights: int) -> FittedModel:
    """The model with at most so many weights of features; features without any are dropped, with their names.

    The certificate is that of the fit and not of what is left: ``gap`` and ``dual`` are NaN.

    Parameters
    ----------
    model : FittedModel
        With weights for pairs of a feature and a label that were seen.
    examples : Examples
        Those of the fit.
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
            f"only weights for seen pairs of a feature and a label can be left out, and the structure is "
            f"{model.structure!r}; use pairs='seen'."
        )
    features = layout.seen.features
    size = sizes_of_columns(model, examples)[features]
    counts = np.abs(model.weights[: len(features)]) * size
    kept = np.sort(np.argsort(-counts, kind="stable")[: max(0, int(n_weights))])
    columns = np.arange(layout.n_features)
    if model.feature_names is not None:  # columns of hashed features, and those of bias and ends, stay
        columns = np.union1d(features[kept], columns[model.n_features_in :])
    number = np.zeros(layout.n_features, dtype=np.int64)
    number[columns] = np.arange(len(columns))
    seen = SeenPairs.of(number[features[kept]], layout.seen.labels[kept], len(columns), layout.n_labels)
    places = np.concatenate([kept, np.arange(len(features), layout.n_weights)])
    names = model.feature_names
    n_features_in = model.n_features_in - (layout.n_features - len(columns))
    return replace(
        model,
        layout=replace(layout, n_features=len(columns), seen=seen),
        weights=model.weights[places],
        posterior=_part(model.posterior, places),
        n_features_in=n_features_in,
        feature_names=None if names is None else FeatureNames([names[k] for k in columns[:n_features_in].tolist()]),
        report=model.report._replace(gap=np.nan, dual=np.nan, which="pruned"),
    )


def sizes_of_columns(model: FittedModel, examples: Examples) -> FloatArray:
    """``sqrt(sum of x^2)`` over all nodes, for every feature; columns that the structure adds are among them."""
    batch = model.structure.bind(replace(examples, y=None), model.classes, model.layout).batch
    return np.sqrt(np.bincount(batch.indices, batch.data**2, minlength=model.layout.n_features))


def _part(posterior: Any, places: NDArray[np.int64]) -> Any:
    """The posterior of some of the weights."""
    if isinstance(posterior, Posterior):
        prior: Any = clone(posterior.prior)
        for name, value in prior.get_params(deep=False).items():  # one number for every weight, or for every two
            if isinstance(value, np.ndarray) and value.ndim:
                prior.set_params(**{name: value[np.ix_(*[places] * value.ndim)]})
        return Posterior(prior, posterior.eta[places])
    if isinstance(posterior, VariationalPosterior):
        return VariationalPosterior(posterior.mean[places], posterior.variance[places], posterior.kl)
    return PointEstimate(posterior.mean[places])
