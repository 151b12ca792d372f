"""Repeated training on the same pages, with cached views and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from maxendnet.utils.scikit_learn import clone
from maxendnet.web.fields.labels import PageLabels, labels_attributes, labels_data, labels_images
from maxendnet.web.labelling.order import page_certainty
from maxendnet.web.listings.regions import choose_records, given_records
from maxendnet.web.model.dataset import Featurised
from maxendnet.web.model.decode import best_leaves
from maxendnet.web.model.extraction import extract_records
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.record import Record
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.source import has_layout
from maxendnet.web.progress import Progress
from maxendnet.web.views.view import View, make_views


class Kinds(NamedTuple):
    """Which kinds of leaves are candidates in addition to texts."""

    images: bool = False
    data: bool = False
    attributes: tuple[str, ...] = ()

    @classmethod
    def of(cls, extractor: Extractor) -> Kinds:
        """Return the kinds of leaves of a fitted extractor."""
        return cls(extractor.images_, extractor.data_, tuple(extractor.text_attributes_))


class Answers(NamedTuple):
    """Predictions of a model for all pages.

    Attributes
    ----------
    extractor : Extractor
    records : list of list of Record
        Records of each page.
    ranges : list of list of tuple of int
        First and last nodes of the records of each page; empty if the page has one record.
    certainty : list of float
        Certainty of each page, see `page_certainty`.
    """

    extractor: Extractor
    records: list[list[Record]]
    ranges: list[list[tuple[int, ...]]]
    certainty: list[float]

    @property
    def is_calibrated(self) -> bool:
        """Whether confidences were calibrated on held-out pages."""
        return any(curve.n_answers for curve in self.extractor.calibrations_.values())


class Learner:
    """Trains extractors on the same pages, with cached views and features.

    Parameters
    ----------
    pages : sequence of Page
    settings : Extractor
        Extractor with the parameters to use. It need not be fitted.
    records : {"one", "many", "auto"}

    Attributes
    ----------
    pictures : bool
        Whether images are candidates even if no image is labelled yet.
    """

    def __init__(self, pages: Sequence[Page], settings: Extractor, records: str = "one") -> None:
        self.pages: list[Page] = list(pages)
        self.settings = settings
        self.records = records
        self.pictures = False
        self._kinds: Kinds | None = None
        self._views: list[View] = []
        self._features: WeakKeyDictionary[View, Featurised] = WeakKeyDictionary()
        self._compute_features = settings.features_of()

    def views(self, kinds: Kinds) -> list[View]:
        """Return the views of all pages."""
        if kinds != self._kinds:
            self._kinds, self._views = kinds, make_views(self.pages, *kinds)
        return self._views

    def features_of(self, view: View) -> Featurised:
        """Return the cached features of a view."""
        if view not in self._features:
            self._features[view] = self._compute_features(view)
        return self._features[view]

    def prepare(self, kinds: Kinds, progress: Progress) -> None:
        """Compute and cache the features of all pages."""
        for view in progress(self.views(kinds), "features"):
            self.features_of(view)

    def fit(
        self, labels: Sequence[PageLabels | None], fields: Sequence[str], calibrate: bool, progress: Progress
    ) -> Extractor:
        """Train an extractor on the labelled pages.

        Parameters
        ----------
        labels : sequence of PageLabels or None
            Labels of each page.
        fields : sequence of str
        calibrate : bool
            Whether to learn confidences.
        progress : callable

        Raises
        ------
        LabelError
            No label occurs on its page.
        """
        extractor: Any = clone(self.settings)
        extractor.calibrate = calibrate
        extractor.fields_ = list(fields)
        extractor.layout_ = has_layout(self.pages)
        kinds = Kinds(
            self.pictures or labels_images(self.pages, labels),
            labels_data(self.pages, labels),
            tuple(labels_attributes(self.pages, labels)),
        )
        extractor.images_, extractor.data_, extractor.text_attributes_ = *kinds[:2], list(kinds.attributes)
        extractor.records = self.records
        views, of_views = extractor.split_labelled(self.views(kinds), labels)
        extractor.fit_views(views, of_views, self.features_of, progress)
        fitted: Extractor = extractor
        return fitted

    def answer(self, extractor: Extractor, min_confidence: float, progress: Progress) -> Answers:
        """Extract the records of all pages and compute how certain the model is about each page.

        Parameters
        ----------
        extractor : Extractor
            Fitted.
        min_confidence : float
        progress : callable
        """
        views = extractor.split_views(self.views(Kinds.of(extractor)))
        margins = extractor.margins_of(views, self.features_of, progress)
        one_record = self.records == "one" or bool(extractor.listings_)
        view_ranges = [[] if one_record else _record_ranges(view, m) for view, m in zip(views, margins)]
        extracted = extract_records(extractor, views, margins, view_ranges, min_confidence)
        number = {id(page): i for i, page in enumerate(self.pages)}
        records: list[list[Record]] = [[] for _ in self.pages]
        ranges: list[list[tuple[int, ...]]] = [[] for _ in self.pages]
        certainty: list[list[float]] = [[] for _ in self.pages]
        for view, m, of_view, detected in zip(views, margins, extracted, view_ranges):
            nodes = view.page.nodes
            i = number[id(view.page.source or view.page)]
            records[i] += of_view
            ranges[i] += detected if nodes is None else [_pairs(nodes[1:].tolist())] if of_view else []
            for leaves in given_records(view, detected):
                certainty[i].append(page_certainty(best_leaves(m, view.texts, leaves, extractor.together_)))
        return Answers(extractor, records, ranges, [min(of_page) for of_page in certainty])


def _record_ranges(view: View, margins: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Return the first and last nodes of the records of a page; empty if the page has one record."""
    parts = choose_records(view, margins)
    return [(view.leaves[part[0]], view.leaves[part[-1]]) for part in parts] if len(parts) > 1 else []


def _pairs(nodes: Sequence[int]) -> tuple[int, ...]:
    """Return the first and last node of each run of consecutive nodes.

    Examples
    --------
    >>> _pairs([1, 2, 3, 7, 8])
    (1, 3, 7, 8)
    """
    starts = [t for k, t in enumerate(nodes) if not k or nodes[k - 1] != t - 1]
    ends = [t for k, t in enumerate(nodes) if k + 1 == len(nodes) or nodes[k + 1] != t + 1]
    return tuple(t for pair in zip(starts, ends) for t in pair)
