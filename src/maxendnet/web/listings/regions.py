"""Records on a page: runs of similar siblings, each period of a run a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View

FEWEST = 3  # records in a run
ALIKE = 0.6  # mean similarity within a run
DEEPEST = 4  # levels of a signature
LARGEST = 200  # nodes of a signature; what is larger is cut, alike for all
WIDEST = 3_000  # children of one element that are looked at


Region = list[tuple[int, int]]
"""A run of records: first and last node of each."""


def find_regions(page: Page) -> list[Region]:
    """Runs of similar siblings, after Liu, Grossman and Zhai (MDR, 2003).

    Children of an element are compared by the tags and classes in their subtrees; periods of one to three children are
    tried, since a record may have several rows.

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
    found = []
    for some in children.values():
        if len(some) >= FEWEST:
            some = some[:WIDEST]
            signatures = [_signature(page, t) for t in some]
            found += _runs(page, some, signatures)
    return found


def _signature(page: Page, t: int) -> Counter[tuple[int, str, str]]:
    out: Counter[tuple[int, str, str]] = Counter()
    depth = {t: 0}
    for s in range(t, min(page.end(t), t + LARGEST)):
        if s != t:
            depth[s] = depth.get(int(page.parents[s]), DEEPEST) + 1
            if depth[s] > DEEPEST:
                continue
        out[depth[s], page.tags[s], page.attributes[s].get("class", "").split("-", 1)[0].split(" ", 1)[0]] += 1
    return out


def similarity(a: Counter[tuple[int, str, str]], b: Counter[tuple[int, str, str]]) -> float:
    """Shared part of two signatures, 0 to 1."""
    return 2.0 * sum((a & b).values()) / max(1, a.total() + b.total())


def _runs(page: Page, children: list[int], signatures: list[Counter[tuple[int, str, str]]]) -> list[Region]:
    """The longest runs, without overlap; a short period wins over its multiples."""
    n = len(children)
    alike = {
        period: [similarity(signatures[k], signatures[k + period]) for k in range(n - period)] for period in (1, 2, 3)
    }
    candidates: list[tuple[int, int, int]] = []  # children, -period, start
    for period, values in alike.items():
        start = 0
        for is_run, group in groupby(values, key=lambda value: value > ALIKE):
            length = len(list(group))
            n_records = length // period + 1
            if is_run and n_records >= FEWEST:
                candidates.append((n_records * period, -period, start))
            start += length
    out: list[Region] = []
    taken = np.zeros(n, dtype=bool)
    for length, minus_period, start in sorted(candidates, reverse=True):
        period = -minus_period
        if taken[start : start + length].any():
            continue
        taken[start : start + length] = True
        records = []
        for k in range(start, start + length, period):
            first, end = children[k], page.end(children[min(k + period, n) - 1])
            if any(page.texts[first:end]) or "img" in page.tags[first:end]:
                records.append((first, end - 1))
        if len(records) >= FEWEST:
            out.append(records)
    return out


def leaves_of(view: View, record: Sequence[int]) -> list[int]:
    """Leaves that lie in a record, which is given by the first and last node of each of its parts."""
    pairs = list(zip(record[::2], record[1::2]))
    return [k for k, t in enumerate(view.leaves) if any(first <= t <= last for first, last in pairs)]


def choose_records(view: View, margins: NDArray[np.float64]) -> list[list[int]]:
    """Leaves of every record: those of the run that the model likes most, or the whole page as one.

    Parameters
    ----------
    view : View
    margins : ndarray of shape (n_leaves, n_fields)
        By how much each field beats ``none``.
    """
    whole: list[list[int]] = [list(range(len(view)))]
    if not len(view):
        return whole
    starts = np.array(view.leaves)
    gain = np.maximum(margins, 0.0)
    best, chosen = 1.5 * float(gain.max(axis=0).sum()), whole
    for region in find_regions(view.page):
        bounds = [(np.searchsorted(starts, a), np.searchsorted(starts, b, side="right")) for a, b in region]
        parts = [(int(a), int(b)) for a, b in bounds if a < b]
        values = [gain[a:b].max(axis=0) for a, b in parts]
        # a record has most of what a record can have; a menu may have one thing that looks like a name
        fields = [np.count_nonzero(value) for value in values]
        if sum(n >= 1 for n in fields) < 2:
            continue
        total = float(sum(value.sum() for value in values))
        if total > best:
            best, chosen = total, [list(range(a, b)) for (a, b), n in zip(parts, fields) if n]
    return chosen


def given_records(view: View, records: Sequence[Sequence[int]]) -> list[list[int]]:
    """Leaves of every record that a user has named; the whole page when none is."""
    return [leaves_of(view, record) for record in records] if records else [list(range(len(view)))]
