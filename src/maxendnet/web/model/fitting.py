"""Training of the estimator of an extractor, and computation of margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.utils.scikit_learn import clone
from maxendnet.web.fields.boundaries import Boundaries, LabelledValue
from maxendnet.web.model.dataset import Featurised, max_marginals, to_examples, vocabulary
from maxendnet.web.model.decode import field_margins, levels_of, scale_of
from maxendnet.web.model.labelled_page import LabelledPage
from maxendnet.web.model.numbering import Vocabulary
from maxendnet.web.model.site_votes import vote_by_site
from maxendnet.web.model.systems import default_system, set_model, situation
from maxendnet.web.model.systems import estimator as estimator_of
from maxendnet.web.views.view import View

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor


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
    """

    estimator: Any
    scale: float
    levels: list[float]
    boundaries: Boundaries
    columns: Vocabulary | None = None

    @classmethod
    def of(cls, extractor: Extractor) -> FittedModel:
        """Return the model of a fitted extractor."""
        return cls(extractor.estimator_, extractor.scale_, extractor.levels_, extractor.boundaries_)


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
    return FittedModel(estimator, scale, levels, Boundaries.learn(values, not new_sites, tol), columns)


def leaf_margins(
    extractor: Extractor, fitted: FittedModel, views: Sequence[View], features: Sequence[Featurised]
) -> list[NDArray[np.float64]]:
    """Return the margins of the fields at the leaves of each view, including votes between pages."""
    margins = _margins(extractor, fitted.estimator, features, fitted.columns)
    return vote_by_site(views, [fitted.scale * m for m in margins], extractor.agreement)


def _margins(
    extractor: Extractor, estimator: Any, features: Sequence[Featurised], columns: Vocabulary | None
) -> list[NDArray[np.float64]]:
    scores = max_marginals(estimator, features, extractor.model, columns)
    return [field_margins(values, estimator.classes_.tolist(), extractor.fields_) for values in scores]
