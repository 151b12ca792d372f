"""Detection of items without labels, as runs of similar siblings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.labels import in_record
from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View

MIN_ITEMS = 3  # minimum number of items in a run
MIN_SIMILARITY = 0.6  # minimum similarity of siblings in a run
MAX_DEPTH = 4  # levels of the subtree that a signature describes
MAX_NODES = 200  # nodes of the subtree that a signature describes
MAX_CHILDREN = 3_000  # children of one element that are compared
MIN_GAIN = 1.5  # items must score at least this times as high as the whole page

Region = list[tuple[int, int]]
"""Run of similar siblings: first and last node of every item."""
Signature = Counter[tuple[int, str, str]]
"""Signature of an element: number of nodes below it by depth, tag and class."""


def find_regions(page: Page) -> list[Region]:
    """Return the runs of similar siblings of a page, after Liu, Grossman and Zhai (MDR, 2003).

    Children of an element are compared by the tags and classes in their subtrees. An item consists of one to three
    children, because it may have several rows.

    Examples
    --------
    >>> rows = "".join(f"<tr><td>{name}<td>{price}" for name, price in [("a", 1), ("b", 2), ("c", 3)])
    >>> page = Page.from_html(f"<h1>List</h1><table>{rows}</table>")
    >>> [len(region) for region in find_regions(page)]
    [3]
    """
    children: dict[int, list[int]] = {}
    for t, tag in enumerate(page.tags):
        if tag != "#text" and t:
            children.setdefault(int(page.parents[t]), []).append(t)
    regions = []
    for siblings in children.values():
        if len(siblings) >= MIN_ITEMS:
            siblings = siblings[:MAX_CHILDREN]
            regions += _runs(page, siblings, [_signature(page, t) for t in siblings])
    return regions


def _signature(page: Page, t: int) -> Signature:
    out: Signature = Counter()
    depth = {t: 0}
    for s in range(t, min(page.end(t), t + MAX_NODES)):
        if s != t:
            depth[s] = depth.get(int(page.parents[s]), MAX_DEPTH) + 1
            if depth[s] > MAX_DEPTH:
                continue
        out[depth[s], page.tags[s], page.attributes[s].get("class", "").split("-", 1)[0].split(" ", 1)[0]] += 1
    return out


def _similarity(a: Signature, b: Signature) -> float:
    """Return the fraction that two signatures have in common, from 0 to 1."""
    return 2.0 * sum((a & b).values()) / max(1, a.total() + b.total())


def _runs(page: Page, children: list[int], signatures: list[Signature]) -> list[Region]:
    """Return the longest disjoint runs, preferring fewer children per item."""
    n = len(children)
    candidates: list[tuple[int, int, int]] = []  # number of children, -period (children per item), start
    for period in (1, 2, 3):
        similar = [
            _similarity(signatures[k], signatures[k + period]) > MIN_SIMILARITY for k in range(n - period)
        ]  # fmt: skip
        start = 0
        for is_run, group in groupby(similar):
            length = len(list(group))
            n_items = length // period + 1
            if is_run and n_items >= MIN_ITEMS:
                candidates.append((n_items * period, -period, start))
            start += length
    out: list[Region] = []
    taken = np.zeros(n, dtype=bool)
    for length, minus_period, start in sorted(candidates, reverse=True):
        period = -minus_period
        if taken[start : start + length].any():
            continue
        taken[start : start + length] = True
        items = []
        for k in range(start, start + length, period):
            first, end = children[k], page.end(children[min(k + period, n) - 1])
            if any(page.texts[first:end]) or "img" in page.tags[first:end]:
                items.append((first, end - 1))
        if len(items) >= MIN_ITEMS:
            out.append(items)
    return out


def choose_records(view: View, margins: NDArray[np.float64]) -> list[list[int]]:
    """Return the leaves of every record: the items of the best run, or the whole page as a single record.

    Parameters
    ----------
    view : View
    margins : ndarray of shape (n_leaves, n_fields)
        Score of each field minus that of ``none``.
    """
    whole_page: list[list[int]] = [list(range(len(view)))]
    if not len(view):
        return whole_page
    starts = np.array(view.leaves)
    gain = np.maximum(margins, 0.0)
    best, chosen = MIN_GAIN * float(gain.max(axis=0).sum()), whole_page
    for region in find_regions(view.page):
        bounds = [(np.searchsorted(starts, a), np.searchsorted(starts, b, side="right")) for a, b in region]
        items = [(int(a), int(b)) for a, b in bounds if a < b]
        gains = [gain[a:b].max(axis=0) for a, b in items]
        has_field = [value.any() for value in gains]
        if sum(has_field) < 2:
            continue
        total = float(sum(value.sum() for value in gains))
        if total > best:
            best, chosen = total, [list(range(a, b)) for (a, b), is_record in zip(items, has_field) if is_record]
    return chosen


def given_records(view: View, records: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the leaves of records specified by pairs of first and last node; of the whole page if there are none."""
    if not records:
        return [list(range(len(view)))]
    return [[k for k, t in enumerate(view.leaves) if in_record([t], record)] for record in records]
