"""Training of the estimator of an extractor, and computation of margins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.utils.scikit_learn import clone
from maxendnet.web.fields.boundaries import Boundaries, LabelledValue
from maxendnet.web.fields.leaf_labels import fields_of
from maxendnet.web.model.dataset import Featurised, max_marginals, to_examples, vocabulary
from maxendnet.web.model.decode import TYPICAL_LEAD, field_margins, levels_of, scale_of
from maxendnet.web.model.labelled_page import LabelledPage
from maxendnet.web.model.numbering import Vocabulary
from maxendnet.web.model.site_votes import vote_by_site
from maxendnet.web.model.systems import default_system, set_model, situation
from maxendnet.web.model.systems import estimator as estimator_of
from maxendnet.web.views.view import View

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor


CONSTANT_PENALTY = 3 * TYPICAL_LEAD
"""Reduction of the margins of constant texts: more than the lead of almost any leaf."""
MAX_CONSTANT = 0.1  # share of constant values, over labelled sites, of a field whose values vary


class FittedModel(NamedTuple):
    """Fitted estimator with the calibration of its margins.

    Attributes
    ----------
    estimator : MarkovNetwork
        Fitted.
    scale : float
        Factor by which margins are multiplied, see `scale_of`.
    levels : list of float
        Margin of even odds of each field, see `levels_of`.
    boundaries : Boundaries
        Model of where values start and end.
    columns : Vocabulary or None
        Columns of the estimator; derived from its feature names if None.
    sites : collection of str
        Sites that the model was trained on.
    varying : sequence of str
        Fields whose values vary between the pages of a site, see `varying_fields`.
    """

    estimator: Any
    scale: float
    levels: list[float]
    boundaries: Boundaries
    columns: Vocabulary | None = None
    sites: Collection[str] = ()
    varying: Sequence[str] = ()

    @classmethod
    def of(cls, extractor: Extractor) -> FittedModel:
        """Return the model of a fitted extractor."""
        fitted = (extractor.estimator_, extractor.scale_, extractor.levels_, extractor.boundaries_)
        return cls(*fitted, None, extractor.sites_, extractor.varying_)


def fit_model(
    extractor: Extractor, labelled: Sequence[LabelledPage], similar: Sequence[tuple[LabelledPage, LabelledPage]],
    tol: float | None = None,
) -> FittedModel:  # fmt: skip
    """Fit a model to labelled pages and to similar unlabelled records.

    Parameters
    ----------
    extractor : Extractor
        Provides the settings and fields.
    labelled : sequence of LabelledPage
    similar : sequence of (LabelledPage, LabelledPage)
        Pairs of an unlabelled record and the labelled record it is aligned with, see `similar_records`. Pairs whose
        labelled record is not in ``labelled`` are ignored.
    tol : float, optional
        Lower bound on the tolerance of the estimator: a smaller ``estimator.tol`` is raised to it.
    """
    samples = {id(page) for page in labelled}
    labelled = [*labelled, *(page for page, sample in similar if id(sample) in samples)]
    features, of_leaves = [page.features for page in labelled], [page.labels for page in labelled]
    new_sites, model = extractor.features == "new", extractor.model
    min_sites = extractor.min_sites if extractor.min_sites is not None else 2 if new_sites else 1
    columns = vocabulary(features, [page.site for page in labelled], min_sites)
    estimator: Any = (
        clone(extractor.estimator)
        if extractor.estimator is not None
        else estimator_of(default_system(model), None, situation(new_sites, len(extractor.sites_)), model)
    )
    examples = to_examples(features, columns, model, of_leaves, [page.unknown for page in labelled])
    miss = extractor.miss if extractor.miss is not None else 1.0 if model == "choice" else 5.0
    set_model(estimator, model, np.asarray(examples.y).tolist(), miss, extractor.siblings, extractor.constraints)
    if tol is not None:
        estimator.set_params(tol=max(tol, estimator.tol))
    estimator.fit(examples)
    margins = _margins(extractor, estimator, features, columns)
    scale = scale_of(margins)
    levels = levels_of([scale * m for m in margins], of_leaves, extractor.fields_)
    values = [LabelledValue(page.view, name, span) for page in labelled for span, name in page.values]
    boundaries = Boundaries.learn(values, not new_sites, tol)
    varying = varying_fields(labelled, extractor.fields_)
    return FittedModel(estimator, scale, levels, boundaries, columns, {page.site for page in labelled}, varying)


def leaf_margins(
    extractor: Extractor, fitted: FittedModel, views: Sequence[View], features: Sequence[Featurised]
) -> list[NDArray[np.float64]]:
    """Return the margins of the fields at the leaves of each view, including votes between pages.

    On a site without labels, a text that is constant on the site cannot win a field whose values vary.
    """
    margins = [fitted.scale * m for m in _margins(extractor, fitted.estimator, features, fitted.columns)]
    columns = [f for f, name in enumerate(extractor.fields_) if name in fitted.varying]
    for view, m in zip(views, margins) if columns else ():
        if view.page.site not in fitted.sites:
            constant = [k for k in range(len(view)) if view.is_constant(k)]
            m[np.ix_(constant, columns)] -= CONSTANT_PENALTY
    return vote_by_site(views, margins, extractor.agreement)


def varying_fields(labelled: Sequence[LabelledPage], fields: Sequence[str]) -> list[str]:
    """Return the fields whose values are rarely constant on a labelled site, see `View.is_constant`."""
    shares: dict[str, dict[str, list[bool]]] = {name: {} for name in fields}
    for page in labelled:
        for name in {name for label in page.labels for name in fields_of(label)} & set(fields):
            leaves = [k for k, label in enumerate(page.labels) if name in fields_of(label)]
            shares[name].setdefault(page.site, []).append(all(page.view.is_constant(k) for k in leaves))
    return [
        name
        for name, by_site in shares.items()
        if by_site and np.mean([np.mean(of_site) for of_site in by_site.values()]) <= MAX_CONSTANT
    ]


def _margins(
    extractor: Extractor, estimator: Any, features: Sequence[Featurised], columns: Vocabulary | None
) -> list[NDArray[np.float64]]:
    scores = max_marginals(estimator, features, extractor.model, columns)
    return [field_margins(values, estimator.classes_.tolist(), extractor.fields_) for values in scores]
