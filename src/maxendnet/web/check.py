"""Has a site changed? Compares pages with what a model remembers of a site, and its confidence with what it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.extractor import Extractor
from maxendnet.web.page import Page, in_order

GONE = 0.5  # share of pages on which the places of a field may be missing
UNSURE = 0.5  # confidence below which a cell should be looked at


class SiteReport(NamedTuple):
    """State of one site.

    Attributes
    ----------
    site : str
    n_pages : int
    known : bool
        Whether pages of this site were labelled.
    confidence : dict of str to float
        Mean for every field.
    gone : list of str
        Fields whose places are no longer there on most pages.
    unsure : list of str
        Fields with a low mean confidence.
    look_at : list of str
        The least certain pages.
    """

    site: str
    n_pages: int
    known: bool
    confidence: dict[str, float]
    gone: list[str]
    unsure: list[str]
    look_at: list[str]

    @property
    def changed(self) -> bool:
        """Whether somebody should look."""
        return bool(self.gone or self.unsure)


def check(extractor: Extractor, pages: Sequence[Page]) -> list[SiteReport]:
    """A report for every site of some pages."""
    records = extractor.extract(pages)
    views, _ = extractor.margins(pages)
    out = []
    for site, rows in in_order(pages).items():
        mean = {}
        for name in extractor.fields_:
            cells = [records[i].fields[name] for i in rows]
            mean[name] = sum(cell.confidence for cell in cells if cell is not None) / len(rows)
        gone = []
        for name, kinds in extractor.memory_.get(site, {}).items():
            there = sum(not set(kinds).isdisjoint(views[i].kinds) for i in rows)
            if there < GONE * len(rows):
                gone.append(name)
        least = sorted(
            rows, key=lambda i: min((c.confidence if c else 0.0 for c in records[i].fields.values()), default=0.0)
        )
        out.append(
            SiteReport(
                site, len(rows), site in extractor.sites_, mean, gone,
                [name for name, value in mean.items() if value < UNSURE], [pages[i].name for i in least[:3]],
            )
        )  # fmt: skip
    return out
