"""Smaller models: rounded weights, and models without the least important feature weights.

`rounded` rounds the feature weights of a point estimate to multiples of a step. Weights that become zero, and features
without weights, are dropped. Rounding spends a part of the tolerance of the fit: the relative duality gap, computed
again for the rounded weights, rises by at most a tenth of ``tol``, and a gap of at most ``tol`` remains at most
``tol``.

`pruned` keeps a given number of feature weights. The importance of the weight of a feature and a label is
``|w| * sqrt(sum over training nodes of x^2)``, the size of its contribution to the scores of all training nodes.

Weights of label pairs and n-grams are neither rounded nor removed.
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
from maxendnet.problem import Problem
from maxendnet.structures.weights.layout import Layout, SeenPairs
from maxendnet.utils.scikit_learn import clone

FloatArray = NDArray[np.float64]

FIRST_STEP = 1 / 512
"""First step of `rounded`, as a share of the largest weight. Most text models need one trial with it."""
MAX_TRIALS = 8


def pruned(model: FittedModel, examples: Examples, n_weights: int) -> FittedModel:
    """Return the model with at most ``n_weights`` feature weights.

    Features without weights are dropped.

    The certificate of the fit does not apply to the pruned model: ``gap`` and ``dual`` are NaN.

    Parameters
    ----------
    model : FittedModel
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
    features, _ = _pairs(model.layout)
    size = sizes_of_columns(model, examples)[features]
    importance = np.abs(model.weights[: len(features)]) * size
    largest = np.sort(np.argsort(-importance, kind="stable")[: max(0, int(n_weights))])
    report = model.report._replace(gap=np.nan, dual=np.nan, which="pruned")
    return replace(_restricted(model, largest), report=report)


def rounded(model: FittedModel, problem: Problem, tol: float) -> FittedModel:
    """Return the model with rounded feature weights, for small files.

    The step of the weights of a feature is inversely proportional to the largest absolute value of the feature. Other
    models than point estimates, whose posterior determines the weights, are returned unchanged.

    Parameters
    ----------
    model : FittedModel
    problem : Problem
        The learning problem of the fit.
    tol : float
        Tolerance of the fit.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> X, y = [[{"a": 1, "c": 0.01}, {"b": 1}], [{"a": 1}, {"b": 1}]], [["x", "y"], ["x", "y"]]
    >>> estimator = L2CRF(tol=0.1).fit(X, y)
    >>> problem = estimator.pose(Examples.build(X, y), estimator.classes_)
    >>> small = rounded(estimator.model_, problem, tol=0.1)
    >>> small.layout.n_weights < estimator.model_.layout.n_weights, small.report.gap <= 0.1
    (True, True)
    """
    layout, report = model.layout, model.report
    if not isinstance(model.posterior, PointEstimate):
        return model
    room = tol - report.gap if report.gap <= tol else tol
    allowed = report.objective + min(tol / 10, room) * problem.gap_scale(report.objective)
    batch = problem.structure.batch
    largest = np.zeros(layout.n_features)
    np.maximum.at(largest, batch.indices, np.abs(batch.data))
    features, _ = _pairs(layout)
    unit = 1 / np.where(largest > 0, largest, 1.0)[features]
    weights, node = np.array(model.weights), model.weights[: len(features)] / unit
    step = np.abs(node).max(initial=0.0) * FIRST_STEP
    for _ in range(MAX_TRIALS if step > 0 else 0):
        weights[: len(features)] = np.rint(node / step) * step * unit
        objective = problem.primal(weights)
        if objective <= allowed:
            break
        # the objective rises by about the square of the step
        step *= max(0.8 * np.sqrt(max(allowed - report.objective, 0.0) / (objective - report.objective)), 0.01)
    else:
        return model
    gap = problem.relative(objective - report.dual, objective)
    changed = replace(
        model, weights=weights, posterior=PointEstimate(weights),
        report=report._replace(objective=objective, gap=gap),
    )  # fmt: skip
    return _restricted(changed, np.flatnonzero(weights[: len(features)]))


def _pairs(layout: Layout) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the feature and the label of each node weight."""
    if layout.seen is not None:
        return layout.seen.features, layout.seen.labels
    features, labels = np.divmod(np.arange(layout.n_node_weights), layout.n_labels)
    return features, labels


def _restricted(model: FittedModel, places: NDArray[np.int64]) -> FittedModel:
    """Return the model with the node weights at the given indices, and without features that have no weight."""
    layout = model.layout
    features, labels = _pairs(layout)
    columns = np.arange(layout.n_features)
    if model.feature_names is not None:  # columns of hashed features, bias and ends are not dropped
        columns = np.union1d(features[places], columns[model.n_features_in :])
    number = np.zeros(layout.n_features, dtype=np.int64)
    number[columns] = np.arange(len(columns))
    pairs = SeenPairs.of(number[features[places]], labels[places], len(columns), layout.n_labels)
    places = np.concatenate([places, np.arange(len(features), layout.n_weights)])
    weights = model.weights[places]
    names = model.feature_names
    n_features_in = model.n_features_in - (layout.n_features - len(columns))
    return replace(
        model,
        structure=clone(model.structure).set_params(pairs="seen"),
        layout=replace(layout, n_features=len(columns), seen=pairs),
        weights=weights,
        posterior=_part(model.posterior, places, weights),
        n_features_in=n_features_in,
        feature_names=None if names is None else FeatureNames([names[k] for k in columns[:n_features_in].tolist()]),
    )


def sizes_of_columns(model: FittedModel, examples: Examples) -> FloatArray:
    """Return ``sqrt(sum over nodes of x^2)`` of each column of the model."""
    batch = model.structure.bind(replace(examples, y=None), model.classes, model.layout).batch
    return np.sqrt(np.bincount(batch.indices, batch.data**2, minlength=model.layout.n_features))


def _part(posterior: Any, places: NDArray[np.int64], weights: FloatArray) -> Any:
    """Return the posterior of the weights at the given indices."""
    if isinstance(posterior, Posterior):
        prior: Any = clone(posterior.prior)
        for name, value in prior.get_params(deep=False).items():  # one value per weight, or per pair of weights
            if isinstance(value, np.ndarray) and value.ndim:
                prior.set_params(**{name: value[np.ix_(*[places] * value.ndim)]})
        return Posterior(prior, posterior.eta[places])
    if isinstance(posterior, VariationalPosterior):
        return VariationalPosterior(posterior.mean[places], posterior.variance[places], posterior.kl)
    return PointEstimate(weights)  # the same array, so that a file contains it once
