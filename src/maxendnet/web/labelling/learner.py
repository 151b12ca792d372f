"""Learning along: fits and answers on the same pages again and again; views and features are made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from maxendnet.web.fields.labels import PageLabels, labels_data, labels_images
from maxendnet.web.labelling.order import page_certainty
from maxendnet.web.listings.regions import choose_records, given_records
from maxendnet.web.model.dataset import Featurised, featurise
from maxendnet.web.model.decode import best_leaves
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.numbering import Numbering
from maxendnet.web.model.record import Record
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.source import has_layout
from maxendnet.web.progress import Progress
from maxendnet.web.views.view import View, make_views


class Kinds(NamedTuple):
    """Which leaves there are beside texts: images, and values that pages say to programs."""

    images: bool = False
    data: bool = False


class Answers(NamedTuple):
    """What a model says about all pages."""

    extractor: Extractor
    records: list[list[Record]]  # of every page
    ranges: list[list[tuple[int, ...]]]  # first and last nodes of every record; empty for one record a page
    certainty: list[float]  # of every page, for the order


class Learner:
    """Pages with their views and features, made when first needed.

    Parameters
    ----------
    pages : sequence of Page
    settings : Extractor
        Not fitted, or fitted: its settings are used.
    records : {"one", "many", "auto"}
    """

    def __init__(self, pages: Sequence[Page], settings: Extractor, records: str = "one") -> None:
        self.pages = list(pages)
        self.settings = settings
        self.records = records
        self.pictures = False  # whether images can be values, even if no label is on one yet
        self._views: dict[Kinds, list[View]] = {}
        self._made: dict[tuple[Kinds, int], Featurised] = {}
        self._numbering = Numbering()

    def views(self, kinds: Kinds) -> list[View]:
        """Views of all pages."""
        if kinds not in self._views:
            self._views[kinds] = make_views(self.pages, kinds.images, data=kinds.data)
        return self._views[kinds]

    def features_of(self, kinds: Kinds) -> Callable[[int], Featurised]:
        """A function that gives the features of a page."""
        views, groups = self.views(kinds), self.settings.check_settings()
        self._made = {key: made for key, made in self._made.items() if key[0] == kinds}  # the others take much space

        def one(i: int) -> Featurised:
            if (kinds, i) not in self._made:
                self._made[kinds, i] = featurise(views[i], groups, self.settings.model, self._numbering)
            return self._made[kinds, i]

        return one

    def prepare(self, kinds: Kinds, progress: Progress) -> None:
        """Make all features."""
        one = self.features_of(kinds)
        for i in progress(range(len(self.pages)), "features"):
            one(i)

    def fit(
        self, labels: Sequence[PageLabels | None], fields: Sequence[str], calibrate: bool, progress: Progress
    ) -> Extractor:
        """A model of the labelled pages.

        Raises
        ------
        LabelError
            No label is on its page.
        """
        extractor: Any = clone(self.settings)
        extractor.calibrate = calibrate
        extractor.fields_ = list(fields)
        extractor.layout_ = has_layout(self.pages)
        kinds = Kinds(self.pictures or labels_images(self.pages, labels), labels_data(self.pages, labels))
        extractor.images_, extractor.data_ = kinds
        extractor.records = self.records
        views, of_views = extractor.split_labelled(self.views(kinds), labels)
        if extractor.listings_:
            groups = self.settings.check_settings()
            extractor.fit_views(
                views, of_views, lambda i: featurise(views[i], groups, self.settings.model, self._numbering), progress
            )
        else:
            extractor.fit_views(views, labels, self.features_of(kinds), progress)
        fitted: Extractor = extractor
        return fitted

    def answer(self, extractor: Extractor, min_confidence: float, progress: Progress) -> Answers:
        """Records of all pages."""
        if extractor.listings_:
            return self._answer_listings(extractor, min_confidence, progress)
        kinds = Kinds(extractor.images_, extractor.data_)
        views, one = self.views(kinds), self.features_of(kinds)
        made = [one(i) for i in progress(range(len(self.pages)), "features")]
        margins = extractor.margins_of(views, made)
        ranges: list[list[tuple[int, ...]]] = [[] for _ in views]
        if self.records != "one":
            for i, (view, m) in enumerate(zip(views, margins)):
                parts = choose_records(view, m)
                if len(parts) > 1:
                    ranges[i] = [(view.leaves[part[0]], view.leaves[part[-1]]) for part in parts]
        found: list[list[Record]] = [[] for _ in views]
        at = {view.page.name: i for i, view in enumerate(views)}
        for record in extractor.records_of(views, margins, ranges, min_confidence):
            found[at[record.page]].append(record)
        together = extractor.together_
        certainty = [
            min(page_certainty(best_leaves(m, view.texts, leaves, together)) for leaves in given_records(view, some))
            for view, m, some in zip(views, margins, ranges)
        ]
        return Answers(extractor, found, ranges, certainty)

    def _answer_listings(self, extractor: Extractor, min_confidence: float, progress: Progress) -> Answers:
        """The same, where listings have a view for each of their records."""
        views, margins = extractor.margins(self.pages, progress)
        at = {id(page): i for i, page in enumerate(self.pages)}
        found: list[list[Record]] = [[] for _ in self.pages]
        ranges: list[list[tuple[int, ...]]] = [[] for _ in self.pages]
        certainty = [np.inf] * len(self.pages)
        for view, m in zip(views, margins):
            page, nodes = view.page, view.page.nodes
            i = at[id(page.source or page)]
            records = extractor.records_of([view], [m], "one", min_confidence)
            found[i] += [record._replace(record=len(found[i])) for record in records]
            if nodes is not None and records:
                ranges[i].append(_pairs(nodes[1:].tolist()))
            certainty[i] = min(certainty[i], page_certainty(best_leaves(m, view.texts, None, extractor.together_)))
        return Answers(extractor, found, ranges, [0.0 if np.isinf(value) else value for value in certainty])


def _pairs(nodes: Sequence[int]) -> tuple[int, ...]:
    """First and last node of every stretch without a gap.

    Examples
    --------
    >>> _pairs([1, 2, 3, 7, 8])
    (1, 3, 7, 8)
    """
    starts = [t for k, t in enumerate(nodes) if not k or nodes[k - 1] != t - 1]
    ends = [t for k, t in enumerate(nodes) if k + 1 == len(nodes) or nodes[k + 1] != t + 1]
    return tuple(t for pair in zip(starts, ends) for t in pair)
