"""From pages to records: a listing becomes as many small pages as it has records, and all else follows from there.

A record of a listing is to its listing what a page is to its site: the records are made alike, they tell what is a
caption and what a value, and they vote on where a field is. So they are learned from and extracted from as pages are.
Records that are not labelled, on a page where others are, are pages without labels: nothing is known of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from maxendnet.web.fields.labels import LabelError, LabelledRecord, PageLabels, Values, labelled_records
from maxendnet.web.fields.spans import Span, leaves_of_span
from maxendnet.web.listings.patterns import Listing, Sample, find_listing, made_alike, page_of_part, sample_of
from maxendnet.web.pages.page import Page, group_by_site
from maxendnet.web.views.outline import Item, Outline
from maxendnet.web.views.view import View

MODES = ("one", "many", "auto")
FEWEST = {"many": 2, "auto": 3}  # records that must be found on a labelled page
SINGLE = 0.75  # of the fields of pages with one record, what a page must have at their places to be one


class SiteRecords(NamedTuple):
    """How the pages of a site are split.

    Attributes
    ----------
    listing : Listing
    single : list of list of int
        Kinds of the leaves that have the fields, for every labelled page of the site that is no listing.
    """

    listing: Listing
    single: list[list[int]]

    def parts(self, outline: Outline) -> list[Item]:
        """Records of a page; none, if it is about one thing."""
        here = set(outline.view.kinds)
        if any(sum(kind in here for kind in kinds) >= SINGLE * len(kinds) for kinds in self.single):
            return []
        return self.listing.records(outline)

    def to_plain(self) -> dict[str, Any]:
        """As lists and numbers, for a file."""
        return {**self.listing.to_plain(), "single": self.single}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> SiteRecords:
        """What `to_plain` gave; a ValueError, TypeError or KeyError if it is something else."""
        return cls(Listing.from_plain(plain), [[int(kind) for kind in kinds] for kinds in plain["single"]])


class Units(NamedTuple):
    """What is learned from: pages and records of listings, with their labels, and the page each is from."""

    pages: list[Page]
    labels: list[PageLabels | None]
    origin: list[int]


def learn_records(
    views: Sequence[View], labels: Sequence[PageLabels | None], mode: str, several: Collection[str] = ()
) -> tuple[dict[str, SiteRecords], list[str]]:
    """How the listings of every site are split, and what could not be used, in words.

    Parameters
    ----------
    views : sequence of View
    labels : sequence of PageLabels or None
    mode : {"one", "many", "auto"}
        One record a page; labelled pages are listings; or they are if something repeats around what is labelled.
    several : collection of str
        Fields with several values in a record.
    """
    found: dict[str, SiteRecords] = {}
    problems: list[str] = []
    if mode == "one":
        return found, problems
    for site, rows in group_by_site([view.page for view in views]).items():
        samples: list[Sample] = []
        given = {i: labels[i] for i in rows if labels[i] is not None}
        single = []
        for i, own in given.items():
            assert own is not None
            outline = Outline(views[i])
            records = _records_on(views[i], own, mode, several)
            some = [sample for record in records if (sample := _sample(outline, record)) is not None]
            alone = find_listing(some, fewest=FEWEST[mode]) if some else None
            if alone is not None and (mode == "many" or made_alike(some[0], alone) >= FEWEST[mode]):
                samples += some
                continue
            if mode == "many":
                problems.append(f"{own.page}: nothing repeats around the labelled record; it is taken for one record")
            kinds = [views[i].kinds[leaves[0]] for record in records for places in _leaves(views[i], record)
                     for leaves in places[:1]]  # fmt: skip
            if kinds:
                single.append(kinds)
        if samples:
            others = [Outline(views[i]) for i in rows if i not in given][:8]
            listing = find_listing(samples, others, FEWEST[mode])
            if listing is not None:
                found[site] = SiteRecords(listing, single)
    return found, problems


def _records_on(view: View, given: PageLabels, mode: str, several: Collection[str]) -> list[LabelledRecord]:
    """Labelled records of a page; none if, by its labels, it can be no listing."""
    try:
        return labelled_records(view, given, several)[0]
    except LabelError:
        if mode == "many":
            raise
        return []  # several values of a field, and not as many of another: a page about one thing


def _leaves(view: View, record: LabelledRecord) -> list[list[list[int]]]:
    found = [[list(leaves_of_span(view, span)) for span in spans] for _, spans in record.places]
    return [some for places in found if (some := [leaves for leaves in places if leaves])]


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
    """Pages and records, with the labels of each, and what could not be used, in words."""
    units, problems = Units([], [], []), []
    for i, (view, given) in enumerate(zip(views, labels)):
        site = sites.get(view.page.site)
        parts: list[Item] = []
        records: list[LabelledRecord] = []
        if site is not None:
            outline = Outline(view)
            parts = site.parts(outline) if given is None else site.listing.records(outline)
            if given is not None:
                try:
                    records, more = labelled_records(view, given, several)
                except LabelError:
                    parts, more = [], []
                where = [_part_of(parts, record) for record in records]
                if not any(at is not None for at in where):
                    parts = []  # a page about one thing, which happens to have a list
                elif parts:
                    problems += [f"{given.page}: {label}" for label in more]
        if not parts:
            units.pages.append(view.page)
            units.labels.append(given)
            units.origin.append(i)
            continue
        own: dict[int, PageLabels] = {}
        rest = None  # labels of the parts that are no labelled record
        if given is not None:
            if given.complete and not more and None not in where:
                rest = PageLabels(given.page, given.site)
            for record, at in zip(records, where):
                if at is None:
                    names = ", ".join(name for name, _ in record.places)
                    problems.append(f"{given.page}: a labelled record ({names}) is none of those that were found")
                else:
                    own[at] = _labels_in(given, record, parts[at])
        for k, part in enumerate(parts):
            units.pages.append(page_of_part(view.page, part))
            units.labels.append(own.get(k, rest))
            units.origin.append(i)
    return units, problems


def _part_of(parts: Sequence[Item], record: LabelledRecord) -> int | None:
    """The part that has all values of a record."""
    for k, part in enumerate(parts):
        if all(any(_inside(span, part) for span in spans) for _, spans in record.places):
            return k
    return None


def _inside(span: Span, part: Item) -> bool:
    return all(any(a <= node < b for a, b in part) for node in (span.first, span.last))


def _labels_in(given: PageLabels, record: LabelledRecord, part: Item) -> PageLabels:
    """Labels of a record in the numbers of its own small page."""
    number = {t: k + 1 for k, t in enumerate(t for a, b in part for t in range(a, b))}
    places: list[tuple[int | Span, str]] = [
        (Span(number[span.first], span.begin, number[span.last], span.end), name)
        for name, spans in record.places
        for span in spans
        if _inside(span, part)
    ]
    values: Values = {name: list(some) for name, some in record.values.items()}
    return PageLabels(given.page, given.site, labels=places, values=values)
