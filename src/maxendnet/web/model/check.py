"""Detection of changed sites: compare pages with the field histories stored in a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.model.extraction import extract_records
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.page import Page, group_by_site
from maxendnet.web.views.selectors import css_path

MIN_SHARE = 0.5  # minimum share of pages with a field, relative to that at training
MAX_DROP = 0.3  # maximum decrease of the confidence on a labelled site
MIN_CONFIDENCE = 0.5  # minimum confidence on an unlabelled site
MIN_PAGES = 2  # pages needed to report a change of their site; a single page may be an exception


class SiteReport(NamedTuple):
    """Comparison of one site with its state at training.

    Attributes
    ----------
    site : str
    n_pages : int
    known : bool
        Whether the site was labelled.
    confidence : dict of str to float
        Mean confidence of the non-empty cells of each field; 0 if there are none.
    gone : list of str
        Fields whose places are missing on most of the pages that should have them.
    unsure : list of str
        On a labelled site, fields with a lower confidence than on the training pages; only the better half of the pages
        counts, because pages may lack a field. On an unlabelled site, fields with a low confidence.
    look_at : list of str
        The least certain pages.
    words : list of str
        Descriptions of the changes, one sentence each.
    """

    site: str
    n_pages: int
    known: bool
    confidence: dict[str, float]
    gone: list[str]
    unsure: list[str]
    look_at: list[str]
    words: list[str]

    @property
    def changed(self) -> bool:
        """Whether a labelled site has changed."""
        return self.known and bool(self.gone or self.unsure)


def check(extractor: Extractor, pages: Sequence[Page]) -> list[SiteReport]:
    """Compare pages with the training pages of their sites.

    Parameters
    ----------
    extractor : Extractor
        Fitted.
    pages : sequence of Page

    Returns
    -------
    list of SiteReport
        One for each site.
    """
    views, margins = extractor.margins(pages)
    records = [record for (record,) in extract_records(extractor, views, margins, "one", all_rows=True)]
    units = [view.page for view in views]  # pages and records of listings
    pages_of_site = group_by_site(pages)
    reports = []
    for site, rows in group_by_site(units).items():
        known = site in extractor.sites_
        mean, gone, unsure, words = {}, [], [], []
        for name in extractor.fields_:
            cells = [cell for i in rows if (cell := records[i].fields[name]) is not None]
            mean[name] = sum(cell.confidence for cell in cells) / len(cells) if cells else 0.0
            past = extractor.memory_.get(site, {}).get(name)
            if past is None:
                if not known and mean[name] < MIN_CONFIDENCE:
                    unsure.append(name)
                    words.append(f"{name}: confidence is {mean[name]:.2f}; label a page of this site")
                continue
            n_present = sum(not set(past.kinds).isdisjoint(views[i].kinds) for i in rows)
            enough_pages = len(rows) >= MIN_PAGES
            if enough_pages and n_present < MIN_SHARE * past.share * len(rows):
                gone.append(name)
                new_paths = Counter(
                    css_path(units[i].source or units[i], cell.node)
                    for i in rows
                    if (cell := records[i].fields[name]) is not None
                )
                hint = f"; it may now be at {new_paths.most_common(1)[0][0]}" if new_paths else ""
                words.append(
                    f"{name}: it was at {past.path}, which {n_present} of {len(rows)} pages have "
                    f"({past.share:.0%} of the labelled pages had it){hint}"
                )
            elif (
                enough_pages and (sure := _upper_half_mean([x.confidence for x in cells])) < past.confidence - MAX_DROP
            ):
                unsure.append(name)
                words.append(
                    f"{name}: confidence was {past.confidence:.2f} on the labelled pages and is {sure:.2f} on the "
                    "better half of these"
                )
        by_certainty = sorted(
            rows, key=lambda i: min((c.confidence for c in records[i].fields.values() if c is not None), default=0.0)
        )
        least_certain = list(dict.fromkeys(units[i].name for i in by_certainty))[:3]
        n_pages = len(pages_of_site[site])
        reports.append(SiteReport(site, n_pages, known, mean, gone, unsure, least_certain, words))
    return reports


def _upper_half_mean(confidences: Sequence[float]) -> float:
    """Return the mean of the larger half of the confidences."""
    best = sorted(confidences, reverse=True)[: (len(confidences) + 1) // 2]
    return sum(best) / len(best) if best else 0.0
