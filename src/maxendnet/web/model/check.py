"""Has a site changed? Compares pages with what a model remembers of a site, and its confidence with what it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.model.extraction import extract_records
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.page import Page, in_order
from maxendnet.web.views.selectors import css_path

GONE = 0.5  # of the pages that had a field, the share on which its places may be missing
LOWER = 0.3  # by how much confidence may fall on a labelled site
UNSURE = 0.5  # confidence below which cells of a site that was never labelled should be looked at
FEWEST = 2  # pages of a site; one page that differs is no change of the site


class SiteReport(NamedTuple):
    """State of one site.

    Attributes
    ----------
    site : str
    n_pages : int
    known : bool
        Whether pages of this site were labelled.
    confidence : dict of str to float
        Mean of the cells that were found, for every field; 0 where none was.
    gone : list of str
        Fields whose places are no longer there on most pages that should have them.
    unsure : list of str
        Fields whose confidence, on the better half of the pages, is lower than on the pages the model was learned
        from (a field that some pages lack is no change); on a site that was never labelled, with a low one.
    look_at : list of str
        The least certain pages.
    words : list of str
        What has changed, in words.
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
        """Whether somebody should look: a site that was never labelled cannot have changed."""
        return self.known and bool(self.gone or self.unsure)


def check(extractor: Extractor, pages: Sequence[Page]) -> list[SiteReport]:
    """A report for every site of some pages."""
    views, margins = extractor.margins(pages)
    records = [record for (record,) in extract_records(extractor, views, margins, "one", all_rows=True)]
    units = [view.page for view in views]  # pages, and records of listings
    of_site = in_order(pages)
    out = []
    for site, rows in in_order(units).items():
        known = site in extractor.sites_
        mean, gone, unsure, words = {}, [], [], []
        for name in extractor.fields_:
            cells = [cell for i in rows if (cell := records[i].fields[name]) is not None]
            mean[name] = sum(cell.confidence for cell in cells) / len(cells) if cells else 0.0
            past = extractor.memory_.get(site, {}).get(name)
            if past is None:
                if not known and mean[name] < UNSURE:
                    unsure.append(name)
                    words.append(f"{name}: confidence is {mean[name]:.2f}; label a page of this site")
                continue
            there = sum(not set(past.kinds).isdisjoint(views[i].kinds) for i in rows)
            enough = len(rows) >= FEWEST
            if enough and there < GONE * past.share * len(rows):
                gone.append(name)
                now = Counter(
                    css_path(units[i].source or units[i], cell.node)
                    for i in rows
                    if (cell := records[i].fields[name]) is not None
                )
                best = f"; it may now be at {now.most_common(1)[0][0]}" if now else ""
                words.append(
                    f"{name}: it was at {past.path}, which {there} of {len(rows)} pages have "
                    f"({past.share:.0%} did when it was labelled){best}"
                )
            elif enough and (now_sure := _upper_half([cell.confidence for cell in cells])) < past.confidence - LOWER:
                unsure.append(name)
                words.append(
                    f"{name}: confidence was {past.confidence:.2f} on the labelled pages and is {now_sure:.2f} on the "
                    "better half of these"
                )
        least = sorted(
            rows, key=lambda i: min((c.confidence for c in records[i].fields.values() if c is not None), default=0.0)
        )
        look_at = list(dict.fromkeys(units[i].name for i in least))[:3]
        out.append(SiteReport(site, len(of_site[site]), known, mean, gone, unsure, look_at, words))
    return out


def _upper_half(confidences: Sequence[float]) -> float:
    """Mean of the larger half."""
    best = sorted(confidences, reverse=True)[: (len(confidences) + 1) // 2]
    return sum(best) / len(best) if best else 0.0
