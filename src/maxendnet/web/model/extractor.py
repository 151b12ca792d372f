"""Extractor: extracts records from pages after training on labelled pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.utils.scikit_learn import BaseEstimator
from maxendnet.web.features.groups import GROUPS, KNOWN_SITES, NEW_SITES
from maxendnet.web.fields.labels import (
    LabelError,
    PageLabels,
    field_order,
    labels_attributes,
    labels_data,
    labels_hidden,
    labels_images,
)
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
from maxendnet.web.model.field_lists import learn_lists
from maxendnet.web.model.fitting import FittedModel, fit_model, leaf_margins
from maxendnet.web.model.held_out import calibrate
from maxendnet.web.model.labelled_page import check_matched, labelled_pages, similar_records
from maxendnet.web.model.numbering import Numbering
from maxendnet.web.model.record import Record, unread_record
from maxendnet.web.pages.page import Page, UnreadPage
from maxendnet.web.pages.source import Source, has_layout, read_sources
from maxendnet.web.progress import Progress, quiet
from maxendnet.web.views.view import View, make_views

if TYPE_CHECKING:
    from maxendnet.web.fields.boundaries import Boundaries
    from maxendnet.web.listings.split import SiteRecords
    from maxendnet.web.listings.value_lists import ValueList
    from maxendnet.web.model.field_history import FieldHistory

FEATURE_SETS = {"known": KNOWN_SITES, "new": NEW_SITES}


class Extractor(BaseEstimator):
    """Extract records from web pages, trained on labelled pages.

    Parameters
    ----------
    estimator : MarkovNetwork, optional
        Estimator. By default LapMEDN with ``model="choice"`` and L2CRF otherwise, with constants from
        `maxendnet.web.model.systems`. Its ``structure`` (except ``bias`` and ``ends``) and its ``cost`` are set by
        `fit`.
    model : {"choice", "independent", "chain", "hierarchical"}, default="choice"
        Page model. ``"choice"``: the leaves compete for each field; ``"independent"``: each leaf is labelled
        separately; ``"chain"``: a chain of leaves in document order; ``"hierarchical"``: the vision tree, with labels
        of inner blocks. With a small number of labelled pages ``"choice"`` is by far the most accurate.
    features : {"known", "new"} or sequence of str, default="known"
        Feature groups: those for labelled sites, those for unlabelled sites, or names of groups in
        `maxendnet.web.features.groups.GROUPS`.
    min_sites : int, optional
        Minimum number of labelled sites on which a feature must occur. By default 1, or 2 with ``features="new"``.
    miss : float, optional
        Cost of missing a field, for margin models; other errors cost 1. The default is 1 with ``model="choice"`` and 5
        otherwise.
    agreement : float, default=1.0
        Weight of the votes between pages of a site; 0 treats each page separately.
    calibrate : bool, default=True
        Learn confidences from held-out sites and pages. This requires several more fits.
    siblings, constraints : bool, default=False
        Options of the hierarchical model, see `maxendnet.web.model.systems.set_model`.
    records : {"one", "many", "auto"}, default="one"
        ``"one"``: one record per page; ``"many"``: labelled pages are listings; ``"auto"``: labelled pages are
        listings if similar items repeat around the labels. See `maxendnet.web.listings.split`.
    types : dict of str to str, optional
        Types of fields, from `maxendnet.web.fields.types.KINDS`. Values of another type are discarded. By default types
        are learned from the labelled values, and values of another type are discarded in listings only.
    several : sequence of str, default=()
        Fields that may have several values in a record, such as authors.

    Attributes
    ----------
    estimator_ : MarkovNetwork
        The fitted estimator.
    fields_ : list of str
        Fields, in the order of the output.
    sites_ : list of str
        Labelled sites.
    layout_ : bool
        Whether the training pages were rendered. If so, pages to extract from must be rendered too; if not, they must
        not be.
    images_ : bool
        Whether some field has images as values.
    data_ : bool
        Whether some field has values from structured data that the page does not display, see
        `maxendnet.web.pages.structured_data`.
    hidden_ : bool
        Whether some labelled value is hidden on its page until the reader does something, such as choosing a tab.
    text_attributes_ : list of str
        Attributes whose texts are values of a field, such as ``title``.
    calibrations_ : dict of str to Calibration
        Confidence curves for labelled sites (``"known"``) and unlabelled ones (``"new"``).
    boundaries_ : Boundaries
        Model of where values start and end within texts.
    together_ : set of (int, int)
        Pairs of fields, as indices in `fields_`, that may share a leaf.
    scale_ : float
        Factor by which margins are multiplied, see `maxendnet.web.model.decode.scale_of`.
    levels_ : list of float
        Margin of even odds of each field, see `maxendnet.web.model.decode.levels_of`.
    varying_ : list of str
        Fields whose values vary between the pages of a site: a constant text of an unlabelled site cannot win them.
    listings_ : dict of str to SiteRecords
        Patterns of the records on sites with labelled listings.
    kinds_ : dict of str to str
        Type of each field, see `maxendnet.web.fields.types`.
    attributes_ : dict of str to str
        HTML attribute of each field whose values are addresses or dates in an attribute, such as ``href``.
    overlap_ : bool
        Whether values of two fields overlap in labelled records of listings.
    lists_ : dict of str to dict of str to ValueList
        Lists of each field with several values, on each labelled site, see `maxendnet.web.listings.value_lists`.
    memory_ : dict of str to dict of str to FieldHistory
        Places of the fields on each labelled site, for `maxendnet.web.model.check`.
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

    constraints: bool
    siblings: bool
    data_: bool
    images_: bool
    hidden_: bool = False
    listings_: dict[str, SiteRecords]
    boundaries_: Boundaries
    estimator_: Any
    levels_: list[float]
    scale_: float

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
        """Train on pages.

        Parameters
        ----------
        pages : sequence of Page
            Unlabelled pages help too, because they show what the pages of a site have in common.
        labels : sequence of PageLabels or None
            Labels of each page; None for unlabelled pages.
        fields : sequence of str
            Fields that come first in the output; other labelled fields follow.
        skip_unmatched : bool
            Ignore labels that do not occur on their page, and list them in ``problems_``. With ``model="choice"`` the
            field then counts as unknown on that page; other models ignore the whole page.
        progress : callable, optional
            Called with the items of a loop and a description; returns an iterator over the items.

        Returns
        -------
        Extractor
            The fitted extractor itself.

        Raises
        ------
        LabelError
            No page is labelled, or a label does not occur on its page.
        """
        if len(labels) != len(pages):
            raise ValueError(
                f"{len(pages)} pages but {len(labels)} labels; pass one entry per page, None if unlabelled."
            )
        features_of = self.features_of()
        self.fields_: list[str] = field_order([x for x in labels if x is not None], fields)
        if not self.fields_:
            raise LabelError('no page is labelled; label at least one, such as {"page": "a.html", "values": {...}}.')
        self.layout_: bool = has_layout(pages)
        self.images_, self.data_ = labels_images(pages, labels), labels_data(pages, labels)
        self.text_attributes_: list[str] = labels_attributes(pages, labels)
        self.hidden_ = labels_hidden(pages, labels)
        of_pages = self.make_views(list(progress(pages, "reading")))
        if not skip_unmatched:
            check_matched(of_pages, labels)
        views, of_views = self.split_labelled(of_pages, labels)
        return self.fit_views(views, of_views, features_of, progress)

    def features_of(self) -> FeaturesOf:
        """Return a function that computes the features of a view, with a feature numbering shared by all views."""
        return partial(featurise, groups=self.check_settings(), model=self.model, numbering=Numbering())

    def make_views(self, pages: Sequence[Page]) -> list[View]:
        """Return views of pages with the leaves that the model uses."""
        return make_views(pages, self.images_, self.data_, self.text_attributes_, self.hidden_)

    def split_labelled(
        self, views: Sequence[View], labels: Sequence[PageLabels | None]
    ) -> tuple[list[View], list[PageLabels | None]]:
        """Learn the listings and split them; return views of pages and records, and their labels."""
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
        """Train on views, for callers that cache features.

        ``fields_``, ``layout_``, ``images_``, ``data_``, ``hidden_`` and ``text_attributes_`` must be set.
        """
        labelled = labelled_pages(views, labels, self.model, features_of, self.problems_, progress, self.several)
        self.sites_: list[str] = sorted({page.site for page in labelled})
        self.together_: set[tuple[int, int]] = fields_together(
            {label for page in labelled for label in page.labels}, self.fields_
        )
        self.attributes_: dict[str, str] = learn_attributes(labelled, self.fields_)
        self.kinds_: dict[str, str] = learn_kinds(labelled, self.fields_, self.attributes_) | (self.types or {})
        self.overlap_: bool = fields_overlap(labelled, self.attributes_)
        self.lists_: dict[str, dict[str, ValueList]] = learn_lists(self, views, labelled)
        similar = similar_records(views, labels, labelled, features_of) if self.model == "choice" else []
        fitted = fit_model(self, labelled, similar)
        self.estimator_, self.scale_, self.levels_, self.boundaries_ = fitted[:4]
        self.varying_: list[str] = list(fitted.varying)
        self.calibrations_: dict[str, Calibration] = (
            calibrate(self, labelled, similar, progress)
            if self.calibrate
            else {"known": Calibration(), "new": Calibration()}
        )
        of_labelled = [page.view for page in labelled]
        margins = leaf_margins(self, fitted, of_labelled, [page.features for page in labelled])
        records = extract_records(self, of_labelled, margins, "one", all_rows=True)
        self.memory_: dict[str, dict[str, FieldHistory]] = field_histories(
            labelled, [record for (record,) in records], self.sites_, self.fields_
        )
        return self

    def check_settings(self) -> list[str]:
        """Check the parameters and return the feature groups."""
        for name, choices in (("model", MODELS), ("records", RECORDS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(map(repr, choices))}.")
        if isinstance(self.features, str) and self.features not in FEATURE_SETS:
            raise ValueError(f"features is {self.features!r}; choose one of {', '.join(map(repr, FEATURE_SETS))}.")
        if isinstance(self.several, str) or not all(isinstance(name, str) for name in self.several):
            raise ValueError(f"several is {self.several!r}; pass a list of field names.")
        if not (self.types is None or isinstance(self.types, dict)):
            raise ValueError(f"types is {self.types!r}; pass a dict from fields to types.")
        wrong = [kind for kind in (self.types or {}).values() if kind not in KINDS]
        if wrong:
            raise ValueError(f"there is no type {wrong[0]!r}; choose one of {', '.join(KINDS)}.")
        if (self.siblings or self.constraints) and self.model != "hierarchical":
            raise ValueError(f"siblings and constraints require model='hierarchical'; model is {self.model!r}.")
        groups = list(FEATURE_SETS[self.features] if isinstance(self.features, str) else self.features)
        unknown = [name for name in groups if name not in GROUPS]
        if unknown:
            raise ValueError(f"there is no feature group {unknown[0]!r}; choose among {', '.join(GROUPS)}.")
        return groups

    def margins(
        self, pages: Sequence[Page], progress: Progress = quiet
    ) -> tuple[list[View], list[NDArray[np.float64]]]:
        """Return views of pages, and the margins of the fields at their leaves.

        A listing of a labelled site is split into a view for each record, see `maxendnet.web.listings.split`.

        Parameters
        ----------
        pages : sequence of Page
        progress : callable, optional

        Returns
        -------
        views : list of View
        margins : list of ndarray of shape (n_leaves, n_fields)
            See `maxendnet.web.model.decode.field_margins`.
        """
        if has_layout(pages) != self.layout_ and len(pages):
            raise ValueError(
                "the model was trained on rendered pages, but these pages are not rendered; use render_pages."
                if self.layout_
                else "the model was trained on pages that were not rendered, but these are; read them without layout."
            )
        views = self.split_views(self.make_views(pages))
        return views, self.margins_of(views, self.features_of(), progress)

    def margins_of(
        self, views: Sequence[View], features_of: FeaturesOf, progress: Progress
    ) -> list[NDArray[np.float64]]:
        """Return the margins at the leaves of views, for callers that cache features."""
        features = [features_of(view) for view in progress(views, "features")]
        return leaf_margins(self, FittedModel.of(self), views, features)

    def extract(
        self, pages: Source | Sequence[Source], *, records: Records = None,
        min_confidence: float = 0.0, progress: Progress = quiet,
    ) -> list[Record]:  # fmt: skip
        """Extract records from pages.

        Pass all pages of a site at once, because they vote on the places of the fields.

        Parameters
        ----------
        pages : Page, UnreadPage, str, bytes or path, or a sequence of these
            A str that contains "<" is HTML, any other str is a path; bytes are HTML.
        records : {"one", "auto"} or a list for each page, optional
            Records on a page. Listings of labelled sites are always split into their records. For other pages:

            - ``"one"``: one record per page.
            - ``"auto"``: detect repeated items.
            - None: one record per page on labelled sites and for models trained with ``records="one"``; otherwise
              detect repeated items.
            - a list of (first node, last node) of the records of each page.
        min_confidence : float
            Cells with a lower confidence are None.
        progress : callable, optional

        Returns
        -------
        list of Record
            Records in the order of the pages. An unreadable page (too large, not HTML) yields a record without cells
            whose ``error`` states the reason.

        Raises
        ------
        OSError
            A file cannot be opened.
        """
        return list(chain.from_iterable(self.rows(read_sources(pages, self.sites_), records, min_confidence, progress)))

    def rows(
        self, sources: Sequence[Page | UnreadPage], records: Records, min_confidence: float, progress: Progress
    ) -> list[list[Record]]:
        """Return the records of each page; a page that was passed twice has all its records at its first position."""
        if isinstance(records, str) and records not in ("one", "auto"):
            raise ValueError(f"records is {records!r}; choose 'one' or 'auto', or pass the records of each page.")
        if records is not None and not isinstance(records, str):
            records = [given for source, given in zip(sources, records) if isinstance(source, Page)]
        views, margins = self.margins([source for source in sources if isinstance(source, Page)], progress)
        rows: dict[int, list[Record]] = {}
        for view, of_view in zip(views, extract_records(self, views, margins, records, min_confidence)):
            rows.setdefault(id(view.page.source or view.page), []).extend(of_view)
        return [
            [unread_record(source, self.fields_)] if isinstance(source, UnreadPage) else rows.pop(id(source), [])
            for source in sources
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file for `Extractor.load` and ``maxendnet info``.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        OSError
            The file cannot be written.
        """
        save_extractor(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Extractor:
        """Read a model written by `save`.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        maxendnet.ModelFileError
            The file is not a model of web pages, or it is damaged.
        OSError
            The file cannot be read.
        """
        return load_extractor(cls, path)
