"""Layout of pages from headless Chromium: one DOM snapshot per page, without scripts and network."""

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
MAX_COMPARED_NODES = 20_000  # maximum size of a page whose tree in the browser differs from the parsed tree


def render_page(browser: Chromium, page: Page, path: Path) -> Page:
    """Return a page with its layout.

    Parameters
    ----------
    browser : Chromium
    page : Page
        Page as read from the file.
    path : Path
        File of the page. Style sheets and images are loaded from local files.

    Raises
    ------
    RenderError
    """
    browser.start()
    with open(path, "rb") as file:
        canonical = file.read(200).lstrip().startswith(b"<body")
    if canonical:
        # browsers may change the tree of a canonical page, so node numbers are added as attributes
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
    """Render pages in headless Chromium.

    Parameters
    ----------
    pages : sequence of (Page, Path)
        Pages and their files.
    seconds : float
        Time limit for a page.
    progress : callable, optional

    Returns
    -------
    pages : list of Page
        Pages with layout.
    unread : list of UnreadPage
        Pages that cannot be rendered.

    Raises
    ------
    RenderError
        Chromium was not found.
    """
    rendered, unread = [], []
    with Chromium(seconds) as browser:
        for page, path in progress(pages, "drawing"):
            try:
                rendered.append(render_page(browser, page, path))
            except (RenderError, OSError) as error:
                unread.append(UnreadPage(page.name, f"{page.name}: not rendered: {error}"))
                browser.close()
    return rendered, unread


def _marked(page: Page) -> str:
    """Return the canonical XML of a page with node numbers as attributes."""
    attributes = [{**of_node, MARK: str(t)} for t, of_node in enumerate(page.attributes)]
    return Page(page.tags, page.parents, page.texts, attributes).canonical()


def _snapshot(browser: Chromium, address: str) -> tuple[RawTree, NDArray[np.float64]]:
    """Return the tree in the browser, and the layout of every node; boxes are -1 for nodes that have none."""
    browser.load(address)
    snapshot = browser.call("DOMSnapshot.captureSnapshot", computedStyles=list(STYLES))
    strings, document = snapshot["strings"], snapshot["documents"][0]
    if strings[document["documentURL"]] != address:
        raise RenderError("the page redirected the browser.")
    nodes, layout = document["nodes"], document["layout"]
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
    for k, bounds, styles in zip(layout["nodeIndex"], layout["bounds"], layout["styles"]):
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
    """Return the number of a CSS colour; -1 if it is transparent.

    Examples
    --------
    >>> _colour("rgb(0, 1, 0)"), _colour("rgba(0, 0, 0, 0)")
    (256.0, -1.0)
    """
    match = COLOUR.match(text)
    if not match or match[4] == "0":
        return -1.0
    return float(int(match[1]) << 16 | int(match[2]) << 8 | int(match[3]))


def _rows(page: Page, tree: RawTree, marked: bool) -> list[int]:
    """Return for every element of the page its node in the browser's tree; -1 for texts and missing nodes."""
    rows = [-1] * len(page)
    if marked:
        for k, attributes in enumerate(tree.attributes):
            if MARK in attributes:
                rows[int(attributes[MARK])] = k
        return rows
    tree_nodes, drawn = canonical_nodes(tree)
    if drawn.tags == page.tags:
        return [
            k if tag != "#text" else -1 for k, tag in zip(tree_nodes, page.tags)
        ]  # the tree node of structured data is -1 too
    if max(len(page), len(drawn)) > MAX_COMPARED_NODES:
        raise RenderError(f"Chromium parses the page differently ({len(drawn)} nodes instead of {len(page)}).")
    ours = list(zip(page.tags, (text.strip() for text in page.texts)))
    theirs = list(zip(drawn.tags, (text.strip() for text in drawn.texts)))
    for a, b, n in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for j in range(n):
            if page.tags[a + j] != "#text":
                rows[a + j] = tree_nodes[b + j]
    return rows


def _fill(page: Page, rows: Sequence[int], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the layout of all nodes. Texts, and transparent backgrounds, inherit from their parent."""
    out = np.full((len(page), len(LAYOUT)), -1.0)
    for t, row in enumerate(rows):
        parent = page.parents[t]
        if row >= 0:
            out[t] = boxes[row]
        elif parent >= 0:
            out[t] = out[parent]  # a text, or an element that the browser moved
        if out[t, 9] < 0:
            out[t, 9] = out[parent, 9] if parent >= 0 else 0xFFFFFF
        if out[t, 4] < 0 and parent >= 0:
            out[t, 4:9] = out[parent, 4:9]
            out[t, 10] = out[parent, 10]
    return out
