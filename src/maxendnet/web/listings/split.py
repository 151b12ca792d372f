"""Split listings into items, each of which is treated as a small page.

Items of a listing are similar to pages of a site: they share a template, which distinguishes captions from values, and
they vote on the place of a field. Therefore models are trained on items, and applied to items, as if they were pages.
Unlabelled items of a labelled page are treated as unlabelled pages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from maxendnet.web.fields.labels import LabelError, LabelledRecord, PageLabels, Values, labelled_records
from maxendnet.web.fields.spans import Span, leaves_of_span
from maxendnet.web.listings.patterns import Listing, Sample, learn_listing, n_similar_items, page_of_item, sample_of
from maxendnet.web.pages.page import Page, group_by_site
from maxendnet.web.views.outline import Item, Outline
from maxendnet.web.views.view import View

MODES = ("one", "many", "auto")
MIN_ITEMS = {"many": 2, "auto": 3}  # minimum number of items on a labelled page, by mode
MIN_SINGLE = 0.75  # to recognise a page with one record: share of the labelled leaves of such a page that it has
MAX_UNLABELLED = 8  # unlabelled pages of a site that are used to choose patterns


class SiteRecords(NamedTuple):
    """Model that splits the pages of a site.

    Attributes
    ----------
    listing : Listing
    single : list of list of int
        Kinds of the labelled leaves of every labelled page with one record.
    """

    listing: Listing
    single: list[list[int]]

    def items(self, outline: Outline) -> list[Item]:
        """Return the items of a page; empty if the page has one record."""
        on_page = set(outline.view.kinds)
        if any(sum(kind in on_page for kind in kinds) >= MIN_SINGLE * len(kinds) for kinds in self.single):
            return []
        return self.listing.items(outline)

    def to_plain(self) -> dict[str, Any]:
        """Return the model as JSON values, to be stored in a file."""
        return {**self.listing.to_plain(), "single": self.single}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> SiteRecords:
        """Return the model from the output of `to_plain`; ValueError, TypeError or KeyError if it is damaged."""
        return cls(Listing.from_plain(plain), [[int(kind) for kind in kinds] for kinds in plain["single"]])


class Units(NamedTuple):
    """Pages with one record and items of listings, with their labels and the indices of their original pages."""

    pages: list[Page]
    labels: list[PageLabels | None]
    origin: list[int]


def learn_records(
    views: Sequence[View], labels: Sequence[PageLabels | None], mode: str, several: Collection[str] = ()
) -> tuple[dict[str, SiteRecords], list[str]]:
    """Learn to split the listings of every site.

    Parameters
    ----------
    views : sequence of View
    labels : sequence of PageLabels or None
    mode : {"one", "many", "auto"}
        ``"one"``: every page has one record. ``"many"``: labelled pages are listings. ``"auto"``: they are listings if
        items similar to the labelled ones repeat.
    several : collection of str
        Fields with several values in a record.

    Returns
    -------
    sites : dict of str to SiteRecords
        Sites with listings.
    problems : list of str
    """
    sites: dict[str, SiteRecords] = {}
    problems: list[str] = []
    if mode == "one":
        return sites, problems
    for site, rows in group_by_site([view.page for view in views]).items():
        samples: list[Sample] = []
        single = []
        for i in rows:
            of_page = labels[i]
            if of_page is None:
                continue
            outline = Outline(views[i])
            records = _records_on(views[i], of_page, mode, several)
            on_page = [sample for record in records if (sample := _sample(outline, record)) is not None]
            listing = learn_listing(on_page, min_items=MIN_ITEMS[mode]) if on_page else None
            if listing is not None and (mode == "many" or n_similar_items(on_page[0], listing) >= MIN_ITEMS[mode]):
                samples += on_page
                continue
            if mode == "many":
                problems.append(
                    f"{of_page.page}: nothing repeats around the labelled record; the page is used as one record"
                )
            kinds = [views[i].kinds[leaves[0]] for record in records for places in _leaves(views[i], record)
                     for leaves in places[:1]]  # fmt: skip
            if kinds:
                single.append(kinds)
        if samples:
            unlabelled = [Outline(views[i]) for i in rows if labels[i] is None][:MAX_UNLABELLED]
            listing = learn_listing(samples, unlabelled, MIN_ITEMS[mode])
            if listing is not None:
                sites[site] = SiteRecords(listing, single)
    return sites, problems


def _records_on(view: View, given: PageLabels, mode: str, several: Collection[str]) -> list[LabelledRecord]:
    """Return the labelled items of a page; empty if its labels are not those of a listing."""
    try:
        return labelled_records(view, given, several)[0]
    except LabelError:
        if mode == "many":
            raise
        return []  # fields have different numbers of values: a page with one record


def _leaves(view: View, record: LabelledRecord) -> list[list[list[int]]]:
    """Return the leaves of every possible place of every value."""
    values = [[list(leaves_of_span(view, span)) for span in spans] for _, spans in record.places]
    return [shown for places in values if (shown := [leaves for leaves in places if leaves])]


def _sample(outline: Outline, record: LabelledRecord) -> Sample | None:
    places = _leaves(outline.view, record)
    return sample_of(outline, places) if places else None


# ---- splitting ------------------------------------------------------------------------------------------------------


def split_pages(
    views: Sequence[View],
    labels: Sequence[PageLabels | None],
    sites: dict[str, SiteRecords],
    several: Collection[str] = (),
) -> tuple[Units, list[str]]:
    """Split the listings among pages into items.

    Returns
    -------
    units : Units
        Pages with one record and items, with their labels.
    problems : list of str
        Messages about labels that could not be used.
    """
    units, problems = Units([], [], []), []
    for i, (view, given) in enumerate(zip(views, labels)):
        site = sites.get(view.page.site)
        items: list[Item] = []
        records: list[LabelledRecord] = []
        if site is not None:
            outline = Outline(view)
            items = site.items(outline) if given is None else site.listing.items(outline)
            if given is not None:
                try:
                    records, unmatched = labelled_records(view, given, several)
                except LabelError:
                    items, unmatched = [], []
                item_of_record = [_item_of(items, record) for record in records]
                if all(at is None for at in item_of_record):
                    items = []  # the page has one record, and also contains a list
                elif items:
                    problems += [f"{given.page}: {label}" for label in unmatched]
        if not items:
            units.pages.append(view.page)
            units.labels.append(given)
            units.origin.append(i)
            continue
        of_item: dict[int, PageLabels] = {}
        default = None  # labels of unlabelled items
        if given is not None:
            if given.complete and not unmatched and None not in item_of_record:
                default = PageLabels(given.page, given.site)
            for record, at in zip(records, item_of_record):
                if at is None:
                    names = ", ".join(name for name, _ in record.places)
                    problems.append(f"{given.page}: no item of the listing contains the labelled record ({names})")
                else:
                    of_item[at] = _labels_in(given, record, items[at])
        for k, item in enumerate(items):
            units.pages.append(page_of_item(view.page, item))
            units.labels.append(of_item.get(k, default))
            units.origin.append(i)
    return units, problems


def _item_of(items: Sequence[Item], record: LabelledRecord) -> int | None:
    """Return the index of the item that contains all values of a labelled record."""
    for k, item in enumerate(items):
        if all(any(_contains(item, span) for span in spans) for _, spans in record.places):
            return k
    return None


def _contains(item: Item, span: Span) -> bool:
    return all(any(a <= node < b for a, b in item) for node in (span.first, span.last))


def _labels_in(given: PageLabels, record: LabelledRecord, item: Item) -> PageLabels:
    """Return the labels of an item in the node numbers of its small page."""
    number = {t: k + 1 for k, t in enumerate(t for a, b in item for t in range(a, b))}
    places: list[tuple[int | Span, str]] = [
        (span._replace(first=number[span.first], last=number[span.last]), name)
        for name, spans in record.places
        for span in spans
        if _contains(item, span)
    ]
    values: Values = {name: list(texts) for name, texts in record.values.items()}
    return PageLabels(given.page, given.site, labels=places, values=values)
