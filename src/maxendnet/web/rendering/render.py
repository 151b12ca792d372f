"""Boxes and styles of pages, drawn by headless Chromium: one snapshot a page, without scripts and network."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.page import LAYOUT, Page, UnreadPage, canonical_nodes
from maxendnet.web.pages.parser import RawTree
from maxendnet.web.progress import Progress, quiet
from maxendnet.web.rendering.chromium import Chromium, RenderError

__all__ = ["RenderError", "render_page", "render_pages"]

STYLES = ("font-size", "font-weight", "font-style", "cursor", "color", "background-color", "text-align")
COLOUR = re.compile(r"rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)")
MARK = "data-maxendnet"
LARGEST = 20_000  # nodes for which a page drawn otherwise than it was parsed is still compared


def render_page(browser: Chromium, page: Page, path: Path) -> Page:
    """The page with its layout.

    Parameters
    ----------
    browser : Chromium
    page : Page
        As it was read from the file.
    path : Path
        The file; what it needs (style sheets, pictures) is found beside it.

    Raises
    ------
    RenderError
    """
    browser.start()
    with open(path, "rb") as file:
        canonical = file.read(200).lstrip().startswith(b"<body")
    if canonical:
        # a browser would change the tree of such a page, so its elements carry their numbers
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as marked:
            marked.write('<!doctype html><meta charset="utf-8">' + _marked(page))
            marked.flush()
            tree, boxes = _snapshot(browser, Path(marked.name).as_uri())
    else:
        tree, boxes = _snapshot(browser, path.resolve().as_uri())
    return page.with_layout(_fill(page, _rows(page, tree, canonical), boxes))


def render_pages(
    pages: Sequence[tuple[Page, Path]], *, seconds: float = 10.0, progress: Progress = quiet
) -> tuple[list[Page], list[UnreadPage]]:
    """Pages with layout, and those that cannot be drawn.

    Raises
    ------
    RenderError
        There is no browser.
    """
    done, unread = [], []
    with Chromium(seconds) as browser:
        for page, path in progress(pages, "drawing"):
            try:
                done.append(render_page(browser, page, path))
            except (RenderError, OSError) as error:
                unread.append(UnreadPage(page.name, f"{page.name}: left out: {error}"))
                browser.close()
    return done, unread


def _marked(page: Page) -> str:
    attributes = [{**given, MARK: str(t)} for t, given in enumerate(page.attributes)]
    return Page(page.tags, page.parents, page.texts, attributes).canonical()


def _snapshot(browser: Chromium, address: str) -> tuple[RawTree, NDArray[np.float64]]:
    """The tree as drawn, and for every node its row of layout, -1 four times where it has no box."""
    browser.load(address)
    found = browser.call("DOMSnapshot.captureSnapshot", computedStyles=list(STYLES))
    strings, document = found["strings"], found["documents"][0]
    if strings[document["documentURL"]] != address:
        raise RenderError("the page has sent the browser elsewhere.")
    nodes, drawn = document["nodes"], document["layout"]
    tree = RawTree([], [], [], [])
    number: dict[int, int] = {}
    for k, kind in enumerate(nodes["nodeType"]):
        if kind not in (1, 3):
            continue
        number[k] = len(tree.tags)
        parent = number.get(nodes["parentIndex"][k], -1)
        if kind == 3:
            tree.add("#text", parent, strings[nodes["nodeValue"][k]] if nodes["nodeValue"][k] >= 0 else "")
        else:
            pairs = [strings[s] if s >= 0 else "" for s in nodes["attributes"][k]]
            tree.add(strings[nodes["nodeName"][k]].lower(), parent, attributes=dict(zip(pairs[::2], pairs[1::2])))
    boxes = np.full((len(tree.tags), len(LAYOUT)), -1.0)
    for k, bounds, styles in zip(drawn["nodeIndex"], drawn["bounds"], drawn["styles"]):
        if k in number and boxes[number[k], 2] < 0:
            boxes[number[k], :4] = bounds
            if styles:
                boxes[number[k], 4:] = _style([strings[s] if s >= 0 else "" for s in styles])
    return tree, boxes


def _style(values: Sequence[str]) -> list[float]:
    size, weight, slope, cursor, colour, background, align = values
    return [
        float(size.removesuffix("px") or 16),
        float(weight.isdecimal() and int(weight) >= 600),
        float(slope == "italic"),
        float(cursor == "pointer"),
        _colour(colour),
        _colour(background),
        {"center": 1.0, "-webkit-center": 1.0, "right": 2.0, "end": 2.0, "-webkit-right": 2.0}.get(align, 0.0),
    ]


def _colour(text: str) -> float:
    """A colour as a number; -1 if it is transparent.

    Examples
    --------
    >>> _colour("rgb(0, 1, 0)"), _colour("rgba(0, 0, 0, 0)")
    (256.0, -1.0)
    """
    found = COLOUR.match(text)
    if not found or found[4] == "0":
        return -1.0
    return float(int(found[1]) << 16 | int(found[2]) << 8 | int(found[3]))


def _rows(page: Page, tree: RawTree, marked: bool) -> list[int]:
    """For every element of the page, the node of the drawn tree; -1 for texts and what was not drawn."""
    rows = [-1] * len(page)
    if marked:
        for k, given in enumerate(tree.attributes):
            if MARK in given:
                rows[int(given[MARK])] = k
        return rows
    kept, drawn = canonical_nodes(tree)
    if drawn.tags == page.tags:
        return [k if tag != "#text" else -1 for k, tag in zip(kept, page.tags)]  # -1: said in the head
    if max(len(page), len(drawn)) > LARGEST:
        raise RenderError(f"Chromium reads the page otherwise ({len(drawn)} nodes, and not {len(page)}).")
    ours = list(zip(page.tags, (text.strip() for text in page.texts)))
    theirs = list(zip(drawn.tags, (text.strip() for text in drawn.texts)))
    for a, b, n in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for j in range(n):
            if page.tags[a + j] != "#text":
                rows[a + j] = kept[b + j]
    return rows


def _fill(page: Page, rows: Sequence[int], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Layout of all nodes: texts have their parent's, and a transparent background is that behind it."""
    out = np.full((len(page), len(LAYOUT)), -1.0)
    for t, row in enumerate(rows):
        parent = page.parents[t]
        if row >= 0:
            out[t] = boxes[row]
        elif parent >= 0:
            out[t] = out[parent]  # a text, or an element that the browser has put elsewhere
        if out[t, 9] < 0:
            out[t, 9] = out[parent, 9] if parent >= 0 else 0xFFFFFF
        if out[t, 4] < 0 and parent >= 0:
            out[t, 4:9] = out[parent, 4:9]
            out[t, 10] = out[parent, 10]
    return out
