"""The extractor: learns fields from labelled pages, and extracts records from other pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.web.features.groups import GROUPS, KNOWN_SITES, NEW_SITES
from maxendnet.web.fields.labels import LabelError, PageLabels, field_order, labels_data, labels_images
from maxendnet.web.fields.types import KINDS
from maxendnet.web.listings.split import MODES as RECORDS
from maxendnet.web.listings.split import learn_records, split_pages
from maxendnet.web.model.calibration import Calibration
from maxendnet.web.model.dataset import MODELS, FeaturesOf, featurise
from maxendnet.web.model.decode import fields_together
from maxendnet.web.model.extraction import Records, extract_records
from maxendnet.web.model.extractor_file import load_extractor, save_extractor
from maxendnet.web.model.field_history import field_histories
from maxendnet.web.model.field_kinds import fields_overlap, learn_attributes, learn_kinds
from maxendnet.web.model.fitting import FittedModel, fit_model, leaf_margins
from maxendnet.web.model.held_out import calibrate
from maxendnet.web.model.labelled_page import check_matched, labelled_pages, similar_records
from maxendnet.web.model.numbering import Numbering
from maxendnet.web.model.record import Record
from maxendnet.web.pages.page import Page, UnreadPage
from maxendnet.web.pages.source import Source, has_layout, read_source
from maxendnet.web.progress import Progress, quiet
from maxendnet.web.views.view import View, make_views

SETS = {"known": KNOWN_SITES, "new": NEW_SITES}


class Extractor(BaseEstimator):
    """Learn fields from labelled pages, and extract records from other pages.

    Parameters
    ----------
    estimator : an estimator of maxendnet, optional
        None is a LapMEDN if leaves compete, and else an L2CRF, see `web.model.systems`. What depends on the labels
        is set here: ``structure`` (but for its ``bias`` and ``ends``) and ``cost``.
    model : {"choice", "independent", "chain", "hierarchical"}
        Leaves compete for every field; each leaf by itself; leaves in a row; or leaves of the vision tree, whose inner
        blocks are labelled too. With few labelled pages the first is best by far; the others are alike, since features
        see what is around a leaf.
    features : {"known", "new"} or sequence of str
        The groups for pages of labelled sites, those for new sites, or names of groups.
    min_sites : int or None
        A feature counts only if it occurs on that many labelled sites; None is 1, or 2 with ``features="new"``.
    miss : float or None
        For margin models: what it costs to miss a field; any other error costs 1. None is 1 if leaves compete, else 5.
    agreement : float
        Weight of the votes of pages of the same site; 0 for one page at a time.
    calibrate : bool
        Learn confidences from held-out sites and pages; takes a few more fits.
    siblings, constraints : bool
        For the hierarchical model, see `set_model`. On pages about one thing both cost time and gain nothing.
    types : dict of str to str, optional
        Kinds of fields, out of ``web.fields.types.KINDS``: a cell of another kind is left out. None learns kinds
        from the labelled values; they then hold for listings.
    several : sequence of str
        Fields that may have several values in a record, such as authors.
    records : {"one", "many", "auto"}
        One record a page; labelled pages are listings; or those are around whose labels something repeats, see
        `maxendnet.web.listings.split`.

    Attributes
    ----------
    estimator_ : the fitted estimator
    fields_ : list of str
    sites_ : list of str
        Labelled sites.
    layout_ : bool
        Whether the pages had boxes. Pages to extract from must be alike.
    images_ : bool
        Whether a field is an image.
    data_ : bool
        Whether a field is a value that pages say to programs and do not show, see `web.pages.structured_data`.
    calibrations_ : dict
        ``"known"`` and ``"new"``: for pages of labelled sites, and of others.
    boundaries_ : Boundaries
        Where values begin and end in the texts around them.
    together_ : set of (int, int)
        Fields that a leaf may have together, as places in `fields_`.
    scale_, levels_ : float, list of float
        What scores of the estimator are multiplied by, and for every field which of them means even odds; see
        `scale_of` and `levels_of` in `maxendnet.web.model.decode`.
    listings_ : dict of str to SiteRecords
        For every site with labelled listings, how records are found.
    kinds_ : dict of str to str
        The kind of value that every field has, see `maxendnet.web.fields.types`.
    attributes_ : dict of str to str
        Fields whose values are attributes, such as the address of a link, and which.
    overlap_ : bool
        Whether values of two fields overlap in labelled records of listings.
    problems_ : list of str
        Labels that could not be used, one sentence each.

    Examples
    --------
    >>> from maxendnet.web import toy_pages
    >>> toy = toy_pages(n_sites=2, n_pages=4, random_state=0)
    >>> extractor = Extractor(calibrate=False).fit(toy.pages[:-1], toy.labels[:-1])
    >>> record, = extractor.extract(toy.pages[-1:])
    >>> record.fields["price"].value == toy.labels[-1].values["price"][0]
    True
    """

    def __init__(
        self,
        estimator: MarkovNetwork | None = None,
        model: str = "choice",
        features: str | Sequence[str] = "known",
        min_sites: int | None = None,
        miss: float | None = None,
        agreement: float = 1.0,
        calibrate: bool = True,
        siblings: bool = False,
        constraints: bool = False,
        records: str = "one",
        types: dict[str, str] | None = None,
        several: Sequence[str] = (),
    ) -> None:
        self.estimator = estimator
        self.model = model
        self.features = features
        self.min_sites = min_sites
        self.miss = miss
        self.agreement = agreement
        self.calibrate = calibrate
        self.siblings, self.constraints = siblings, constraints
        self.records = records
        self.types = types
        self.several = several

    def fit(
        self, pages: Sequence[Page], labels: Sequence[PageLabels | None], *, fields: Sequence[str] = (),
        skip_unmatched: bool = False, progress: Progress = quiet,
    ) -> Extractor:  # fmt: skip
        """Learn from pages; those without labels (None) still tell what the pages of a site have in common.

        Parameters
        ----------
        pages : sequence of Page
        labels : sequence of PageLabels or None
            One for every page.
        fields : sequence of str
            Wanted fields, in the order of the output; None: those that are labelled.
        skip_unmatched : bool
            Leave out labels that are nowhere on their page, and name them in ``problems_``: the field is then unknown
            on that page. Models other than ``"choice"`` leave out the page.
        progress : callable, optional
            Wraps the items of a loop, given a word for it.

        Raises
        ------
        LabelError
            No page has a label, or a label is nowhere on its page.
        """
        if len(labels) != len(pages):
            raise ValueError(f"{len(pages)} pages have {len(labels)} entries of labels; give one for each, or None.")
        features_of = self.features_of()
        self.fields_ = field_order([x for x in labels if x is not None], fields)
        if not self.fields_:
            raise LabelError('no page has a label; give at least one, such as {"page": "a.html", "values": {...}}.')
        self.layout_ = has_layout(pages)
        self.images_, self.data_ = labels_images(pages, labels), labels_data(pages, labels)
        of_pages = self.make_views(list(progress(pages, "reading")))
        if not skip_unmatched:
            check_matched(of_pages, labels)
        views, of_views = self.split_labelled(of_pages, labels)
        return self.fit_views(views, of_views, features_of, progress)

    def features_of(self) -> FeaturesOf:
        """Function that computes the features of a view; views given to one function share a numbering."""
        return partial(featurise, groups=self.check_settings(), model=self.model, numbering=Numbering())

    def make_views(self, pages: Sequence[Page]) -> list[View]:
        """Views of pages with the leaves that this model knows."""
        return make_views(pages, self.images_, data=self.data_)

    def split_labelled(
        self, views: Sequence[View], labels: Sequence[PageLabels | None]
    ) -> tuple[list[View], list[PageLabels | None]]:
        """Learn how listings are split, and split them: views of pages and records, with the labels of each."""
        self.problems_: list[str]
        self.listings_, self.problems_ = learn_records(views, labels, self.records, self.several)
        if not self.listings_:
            return list(views), list(labels)
        units, problems = split_pages(views, labels, self.listings_, self.several)
        self.problems_ += problems
        return self.make_views(units.pages), units.labels

    def split_views(self, views: Sequence[View]) -> list[View]:
        """Split listings of labelled sites into a view for each record."""
        if not self.listings_:
            return list(views)
        units, _ = split_pages(views, [None] * len(views), self.listings_)
        return self.make_views(units.pages)

    def fit_views(
        self, views: Sequence[View], labels: Sequence[PageLabels | None], features_of: FeaturesOf, progress: Progress
    ) -> Extractor:
        """The rest of `fit`, for callers that store views and features; fields, layout and images are set."""
        labelled = labelled_pages(views, labels, self.model, features_of, self.problems_, progress)
        self.sites_ = sorted({page.site for page in labelled})
        self.together_ = fields_together({label for page in labelled for label in page.labels}, self.fields_)
        self.attributes_ = learn_attributes(labelled, self.fields_)
        self.kinds_ = learn_kinds(labelled, self.fields_, self.attributes_) | (self.types or {})
        self.overlap_ = fields_overlap(labelled, self.attributes_)
        similar = similar_records(views, labels, labelled, features_of) if self.model == "choice" else []
        fitted = fit_model(self, labelled, similar)
        self.estimator_, self.scale_, self.levels_, self.boundaries_, _ = fitted
        self.calibrations_ = (
            calibrate(self, labelled, similar, progress)
            if self.calibrate
            else {"known": Calibration(), "new": Calibration()}
        )
        of_labelled = [page.view for page in labelled]
        margins = leaf_margins(self, fitted, of_labelled, [page.features for page in labelled])
        records = extract_records(self, of_labelled, margins, "one", all_rows=True)
        self.memory_ = field_histories(labelled, [record for (record,) in records], self.sites_, self.fields_)
        return self

    def check_settings(self) -> list[str]:
        """The requested feature groups; an error if a parameter has no meaning."""
        for name, choices in (("model", MODELS), ("records", RECORDS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(map(repr, choices))}.")
        if isinstance(self.features, str) and self.features not in SETS:
            raise ValueError(f"features is {self.features!r}; choose one of {', '.join(map(repr, SETS))}.")
        if isinstance(self.several, str) or not all(isinstance(name, str) for name in self.several):
            raise ValueError(f"several is {self.several!r}; give the names of fields in a list.")
        if not (self.types is None or isinstance(self.types, dict)):
            raise ValueError(f"types is {self.types!r}; give a dict of fields and their types.")
        wrong = [kind for kind in (self.types or {}).values() if kind not in KINDS]
        if wrong:
            raise ValueError(f"there is no type {wrong[0]!r}; choose one of {', '.join(KINDS)}.")
        if (self.siblings or self.constraints) and self.model != "hierarchical":
            raise ValueError(f"siblings and constraints are for model='hierarchical', and model is {self.model!r}.")
        groups = list(SETS[self.features] if isinstance(self.features, str) else self.features)
        unknown = [name for name in groups if name not in GROUPS]
        if unknown:
            raise ValueError(f"there is no feature group {unknown[0]!r}; choose among {', '.join(GROUPS)}.")
        return groups

    def margins(
        self, pages: Sequence[Page], progress: Progress = quiet
    ) -> tuple[list[View], list[NDArray[np.float64]]]:
        """Views of pages, and by how much each field beats ``none`` at each of their leaves.

        A listing of a labelled site has a view for each of its records, see `maxendnet.web.listings.split`.
        """
        if has_layout(pages) != self.layout_ and len(pages):
            raise ValueError(
                "the model was trained with boxes of a browser, and these pages have none; render them (--layout on)."
                if self.layout_
                else "the model was trained without boxes of a browser, and these pages have them; leave them out."
            )
        views = self.split_views(self.make_views(pages))
        return views, self.margins_of(views, self.features_of(), progress)

    def margins_of(
        self, views: Sequence[View], features_of: FeaturesOf, progress: Progress
    ) -> list[NDArray[np.float64]]:
        """The margins of `margins`, for callers with views and features."""
        features = [features_of(view) for view in progress(views, "features")]
        return leaf_margins(self, FittedModel.of(self), views, features)

    def extract(
        self, pages: Source | Sequence[Source], *, records: Records = None,
        min_confidence: float = 0.0, progress: Progress = quiet,
    ) -> list[Record]:  # fmt: skip
        """Records of pages, best given all pages of a site at once.

        Parameters
        ----------
        pages : Page, UnreadPage, HTML (str), bytes or path, or a sequence of these
            Text with a "<" is HTML, other text a path.
        records : {"one", "auto"} or a list for every page, optional
            None: as the model has learned it: listings of labelled sites are split into their records, other pages of
            these sites are one, and on other sites records are found as runs of similar blocks if the model was learned
            with "many" or "auto". Else one record for what is not a listing by its labels, runs of similar blocks also
            on labelled sites, or the first and last nodes of the records.
        min_confidence : float
            A cell below is "not found".
        progress : callable, optional

        Returns
        -------
        list of Record
            In the order of pages, then of records on a page. A page that cannot be read (too large, no HTML) has a row
            without cells and with an ``error``.

        Raises
        ------
        OSError
            A file cannot be opened.
        """
        if isinstance(records, str) and records not in ("one", "auto"):
            raise ValueError(f"records is {records!r}; choose 'one' or 'auto', or give the records of every page.")
        single = (Page, UnreadPage, str, bytes)
        items = pages if isinstance(pages, Iterable) and not isinstance(pages, single) else [pages]
        sources = [read_source(source, self.sites_) for source in items]
        if records is not None and not isinstance(records, str):
            records = [given for source, given in zip(sources, records) if isinstance(source, Page)]
        views, margins = self.margins([source for source in sources if isinstance(source, Page)], progress)
        rows: dict[int, list[Record]] = {}
        for view, of_view in zip(views, extract_records(self, views, margins, records, min_confidence)):
            rows.setdefault(id(view.page.source or view.page), []).extend(of_view)
        out: list[Record] = []
        for source in sources:
            if isinstance(source, UnreadPage):
                out.append(Record(source.name, "", None, dict.fromkeys(self.fields_), error=source.error))
            else:
                out += rows.pop(id(source), [])  # a page that is given twice has all of its rows at its first place
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `Extractor.load` reads, and ``maxendnet info`` too."""
        save_extractor(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Extractor:
        """Read a model that `save` wrote; `maxendnet.ModelFileError` if it is none, or damaged."""
        return load_extractor(cls, path)
