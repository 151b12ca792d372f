"""Leaves of a page: its visible texts, and on request images and values for programs."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.page import Page, image_address
from maxendnet.web.pages.structured_data import VALUES

HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
SMALLEST_IMAGE = 16  # pixels: below, bullets and spacers
WIDTH, HEIGHT = 2, 3  # columns of a layout


def visible(page: Page) -> NDArray[np.bool_]:
    """Which nodes are shown: a mask over the nodes of the page.

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
            given = page.attributes[t]
            if given and (
                "hidden" in given
                or ("style" in given and HIDDEN_STYLE.search(given["style"]))
                or (tag == "input" and given.get("type") == "hidden")
            ):
                shown[t] = False
    if layout is not None and len(page):
        # an element without a box may have children with one (display: contents), so only what has no box goes
        shown &= (layout[:, WIDTH] >= 0) | np.array([tag not in ("#text", "img") for tag in page.tags])
    return shown


def find_leaves(page: Page, images: bool = False, data: bool = False) -> list[int]:
    """The leaves of a page: nodes of texts in document order, and of images and values for programs if wanted.

    Parameters
    ----------
    page : Page
    images : bool
    data : bool
        Also what the page says to programs, see `maxendnet.web.pages.structured_data`.

    Examples
    --------
    >>> find_leaves(Page.from_html("<p>Price: <b>$</b>5<sup>99</sup> <i>new</i></p>"))
    [2, 4, 5, 7, 9]
    """
    shown = visible(page)
    return [
        t
        for t, tag in enumerate(page.tags)
        if shown[t]
        and (tag == "#text" or (images and tag == "img" and _is_picture(page, t)) or (data and tag in VALUES))
    ]


def _is_picture(page: Page, t: int) -> bool:
    given = page.attributes[t]
    if not image_address(given):
        return False
    if page.layout is not None:
        return bool(min(page.layout[t, WIDTH], page.layout[t, HEIGHT]) >= SMALLEST_IMAGE)
    sizes = [given.get(side, "").removesuffix("px") for side in ("width", "height")]
    return not any(size.isdecimal() and int(size[:9]) < SMALLEST_IMAGE for size in sizes)
