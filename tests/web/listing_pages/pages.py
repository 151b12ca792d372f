"""Pages of the templates, one site each, with labels and true items."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from listing_pages.events import EVENT_TEMPLATES
from listing_pages.items import Item, make_events, make_products, make_staff
from listing_pages.markup import Template
from listing_pages.more_events import MORE_EVENT_TEMPLATES
from listing_pages.shop import SHOP_TEMPLATES
from listing_pages.staff import STAFF_TEMPLATES
from maxendnet.web.fields.labels import PageLabels, Values
from maxendnet.web.pages.page import Page

TEMPLATES: dict[str, Template] = EVENT_TEMPLATES | MORE_EVENT_TEMPLATES | STAFF_TEMPLATES | SHOP_TEMPLATES


class ListedPages(NamedTuple):
    """Pages of templates, one site each, with their true items.

    Attributes
    ----------
    pages : list of Page
    items : list of list of dict
        Items of every page; the value of a missing field is None.
    html : dict of str to str
        HTML by path.
    """

    pages: list[Page]
    items: list[list[Item]]
    html: dict[str, str]

    def labels(self, n_records: int, random_state: int = 0) -> list[PageLabels | None]:
        """Label ``n_records`` items on the first page of every site, the first of them with all fields."""
        rng = Random(f"labels {random_state}")
        out: list[PageLabels | None] = []
        labelled_sites: set[str] = set()
        for page, items in zip(self.pages, self.items):
            out.append(None)
            if page.site in labelled_sites:
                continue
            labelled_sites.add(page.site)
            first = rng.choice([item for item in items if all(item.values())])
            chosen = [first, *rng.sample([item for item in items if item is not first], n_records - 1)]
            values: Values = {name: [item[name] for item in chosen] for name in first}
            out[-1] = PageLabels(page.name, page.site, values=values)
        return out


def make_listings(
    names: Iterable[str] = EVENT_TEMPLATES, n_pages: int = 5, random_state: int = 0, fewest: int = 10, most: int = 50
) -> ListedPages:
    """Return pages of the named templates.

    Parameters
    ----------
    names : iterable of str
        Keys of ``TEMPLATES``.
    n_pages : int
        Number of pages of each template.
    random_state : int
    fewest, most : int
        Range of the number of items on a page.

    Examples
    --------
    >>> listed = make_listings(n_pages=1)
    >>> len(listed.pages), 10 <= len(listed.items[0]) <= 50
    (12, True)
    """
    listed = ListedPages([], [], {})
    for name in names:
        make = make_staff if name in STAFF_TEMPLATES else make_products if name in SHOP_TEMPLATES else make_events
        for n in range(n_pages):
            rng = Random(f"{random_state} {name} {n}")
            items = make(rng, rng.randint(fewest, most))
            path = f"{name}.example/{n}.html"
            listed.html[path] = TEMPLATES[name](items, rng)
            listed.pages.append(Page.from_html(listed.html[path], name=path, site=f"{name}.example"))
            listed.items.append(items)
    return listed
