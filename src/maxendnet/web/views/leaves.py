"""Leaves of a page: visible texts, and optionally images, structured data and attributes."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.page import Page, image_address
from maxendnet.web.pages.structured_data import VALUE_TAGS

HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
MIN_IMAGE_PIXELS = 16  # minimum width and height; smaller images are bullets and spacers
WIDTH, HEIGHT = 2, 3  # columns of a layout
TEXT_ATTRIBUTES = ("aria-label", "title", "alt", "content")
"""Attributes that contain text; ``data-*`` attributes do too, see `is_text_attribute`."""


def visible(page: Page) -> NDArray[np.bool_]:
    """Return a mask of the visible nodes, of shape (n_nodes,).

    Examples
    --------
    >>> visible(Page.from_html("<p>a<i hidden>b</i></p>")).tolist()
    [True, True, True, False, False]
    """
    shown = np.ones(len(page), dtype=bool)
    layout = page.layout
    for t, tag in enumerate(page.tags):
        parent = page.parents[t]
        if parent >= 0 and not shown[parent]:
            shown[t] = False
        elif tag != "#text":
            attributes = page.attributes[t]
            if attributes and (
                "hidden" in attributes
                or ("style" in attributes and HIDDEN_STYLE.search(attributes["style"]))
                or (tag == "input" and attributes.get("type") == "hidden")
            ):
                shown[t] = False
    if layout is not None and len(page):
        # an element without a box may have visible children (display: contents), so hide only texts and images
        shown &= (layout[:, WIDTH] >= 0) | np.array([tag not in ("#text", "img") for tag in page.tags])
    return shown


def find_leaves(page: Page, images: bool = False, data: bool = False, hidden: bool = False) -> list[int]:
    """Return the leaves of a page in document order, as node numbers.

    Parameters
    ----------
    page : Page
    images : bool
        Whether images are leaves.
    data : bool
        Whether values of structured data are leaves, see `maxendnet.web.pages.structured_data`.
    hidden : bool
        Whether texts that the page displays only after an action of its reader are leaves.

    Examples
    --------
    >>> find_leaves(Page.from_html("<p>Price: <b>$</b>5<sup>99</sup> <i>new</i></p>"))
    [2, 4, 5, 7, 9]
    """
    shown = visible(page) | hidden
    return [
        t
        for t, tag in enumerate(page.tags)
        if shown[t]
        and (tag == "#text" or (images and tag == "img" and _is_picture(page, t)) or (data and tag in VALUE_TAGS))
    ]


def is_text_attribute(name: str) -> bool:
    """Whether values of an attribute are texts, such as those of ``title`` and ``data-price``, but not addresses.

    Examples
    --------
    >>> [is_text_attribute(name) for name in ("title", "data-price", "data-src", "href")]
    [True, True, False, False]
    """
    return name in TEXT_ATTRIBUTES or (name.startswith("data-") and name != "data-src")


def find_attributes(page: Page, names: Collection[str] | None = None) -> list[tuple[int, str]]:
    """Return the text attributes of the visible elements of a page, as pairs of element and attribute.

    Parameters
    ----------
    page : Page
    names : collection of str, optional
        Attributes to return; all text attributes if not given.

    Examples
    --------
    >>> find_attributes(Page.from_html("<p title='Red Cup' data-price=5>Red...</p>"))
    [(1, 'data-price'), (1, 'title')]
    """
    shown = visible(page)
    return [
        (t, name)
        for t, attributes in enumerate(page.attributes)
        if attributes and shown[t] and page.tags[t] not in VALUE_TAGS
        for name in sorted(attributes)
        if attributes[name] and (is_text_attribute(name) if names is None else name in names)
    ]


def _is_picture(page: Page, t: int) -> bool:
    attributes = page.attributes[t]
    if not image_address(attributes):
        return False
    if page.layout is not None:
        return bool(min(page.layout[t, WIDTH], page.layout[t, HEIGHT]) >= MIN_IMAGE_PIXELS)
    sizes = [attributes.get(side, "").removesuffix("px") for side in ("width", "height")]
    return not any(size.isdecimal() and int(size[:9]) < MIN_IMAGE_PIXELS for size in sizes)
