"""Extraction of records from views: find the leaves of each record, then the cells of its fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.spans import attribute_of, is_part, span_text
from maxendnet.web.fields.types import normalise
from maxendnet.web.listings.regions import choose_records, given_records
from maxendnet.web.model.calibration import Calibration
from maxendnet.web.model.field_lists import add_values
from maxendnet.web.model.fitting import FittedModel
from maxendnet.web.model.record import Cell, Record
from maxendnet.web.model.values import Value, find_values
from maxendnet.web.views.outline import readable_classes
from maxendnet.web.views.view import View

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

Records = str | Sequence[Sequence[Sequence[int]]] | None
"""How to find records: ``"one"``, ``"auto"``, None, or the first and last nodes of the records of each page.

See `Extractor.extract`.
"""
MIN_USUAL = 0.6  # share of the values of a field on a page with the same mark, to call this mark usual
MIN_CELLS = 2  # minimum number of cells of a record in a listing with at least three fields


def extract_records(
    extractor: Extractor, views: Sequence[View], margins: Sequence[NDArray[np.float64]], records: Records,
    min_confidence: float = 0.0, all_rows: bool = False,
) -> list[list[Record]]:  # fmt: skip
    """Extract the records of each view.

    Parameters
    ----------
    extractor : Extractor
        Fitted.
    views : sequence of View
        Pages, or records of listings.
    margins : sequence of ndarray of shape (n_leaves, n_fields)
    records : {"one", "auto"}, list or None
        See `Extractor.extract`.
    min_confidence : float
    all_rows : bool
        Keep records of listings with fewer than `MIN_CELLS` cells.

    Returns
    -------
    list of list of Record
        Records of each view. On each page they are numbered from 0.
    """
    fields, fitted = extractor.fields_, FittedModel.of(extractor)
    rows: list[list[Record]] = []
    marks: dict[int, list[list[Mark | None]]] = {}
    number, previous = 0, None
    for i, (view, m) in enumerate(zip(views, margins)):
        page, of_view = view.page, []
        number = number if page.source is not None and page.source is previous else 0
        previous = page.source
        curve = extractor.calibrations_["known" if page.site in extractor.sites_ else "new"]
        for leaves in _record_leaves(extractor, view, m, records, i):
            values = find_values(extractor, fitted, view, m, leaves)
            cells = [_cell(extractor, view, name, x, curve, min_confidence) for name, x in zip(fields, values)]
            if extractor.several:
                add_values(extractor, view, cells, m, leaves)
            # records with hardly any cell are table headers or advertisements
            n_cells = sum(cell is not None for cell in cells)
            if page.source is None or all_rows or n_cells >= min(MIN_CELLS, (len(cells) + 1) // 2):
                if page.source is not None and not all_rows:
                    # values below the minimum confidence do not count
                    of_values = [
                        None if x is None or cell is None else _mark(view, x.best.leaf)
                        for x, cell in zip(values, cells)
                    ]
                    marks.setdefault(id(page.source), []).append(of_values)
                of_view.append(Record(page.name, page.site, number, dict(zip(fields, cells)), page.url))
                number += 1
        rows.append(of_view)
    return _without_others(views, rows, {page: _are_alike(of_page) for page, of_page in marks.items()})


Mark = tuple[str, frozenset[str]]
"""Tag and classes of the element of a value."""


def _mark(view: View, k: int) -> Mark:
    element = view.elements[k]
    return view.page.tags[element], frozenset(readable_classes(view.page.attributes[element]))


def _are_alike(records: Sequence[Sequence[Mark | None]]) -> list[bool]:
    """Return whether the values of each record of a page are marked like those of most of its records.

    Two marks differ if their tags do, or if both have classes and share none. A record is unlike the others if more
    than half of its values are. It is an advertisement, or a price per unit, between the records.

    Examples
    --------
    >>> title, offer = ("h3", frozenset(["title"])), ("h3", frozenset(["offer"]))
    >>> _are_alike([[title], [title], [title], [offer], [("h3", frozenset())]])
    [True, True, True, False, True]
    """
    usual: list[Mark | None] = []
    for column in zip(*records):
        counts = Counter(mark for mark in column if mark is not None)
        mark, n = counts.most_common(1)[0] if counts else (None, 0)
        usual.append(mark if n >= MIN_USUAL * counts.total() else None)
    alike = []
    for record in records:
        pairs = [(mark, other) for mark, other in zip(record, usual) if mark is not None and other is not None]
        n = sum(a[0] != b[0] or bool(a[1] and b[1] and not a[1] & b[1]) for a, b in pairs)
        alike.append(2 * n <= sum(mark is not None for mark in record))
    return alike


def _without_others(
    views: Sequence[View], rows: Sequence[list[Record]], alike: Mapping[int, Sequence[bool]]
) -> list[list[Record]]:
    """Remove the records of listings that are unlike the others of their page, and number the rest."""
    flags = {page: iter(of_page) for page, of_page in alike.items()}
    numbers = {page: count() for page in alike}
    out = []
    for view, of_view in zip(views, rows):
        page = id(view.page.source)
        if page in alike:
            of_view = [record._replace(record=next(numbers[page])) for record in of_view if next(flags[page])]
        out.append(of_view)
    return out


def _record_leaves(
    extractor: Extractor, view: View, margins: NDArray[np.float64], records: Records, i: int
) -> Sequence[Sequence[int]]:
    """Return the leaves of each record of view i."""
    single = extractor.records == "one" or view.page.site in extractor.sites_
    if view.page.source is not None or records == "one" or (records is None and single):
        return [range(len(view))]
    if records is None or isinstance(records, str):
        return choose_records(view, margins)
    return given_records(view, records[i])


def _cell(
    extractor: Extractor, view: View, name: str, value: Value | None, curve: Calibration, min_confidence: float
) -> Cell | None:
    if value is None or (confidence := curve(value.best)) < min_confidence:
        return None
    best, span = value
    attribute = extractor.attributes_.get(name)
    text = attribute_of(view, best.leaf, attribute) if attribute else span_text(view, span)
    if text is None:
        return None
    part = not attribute and is_part(view, span)
    nodes = view.page.nodes
    if view.page.tags[span.last] == "#text":  # positions refer to the displayed text, see `maxendnet.web.views.texts`
        span = span._replace(end=min(span.end, len(view.page.text(span.last))))
    if nodes is not None:
        span = span._replace(first=int(nodes[span.first]), last=int(nodes[span.last]))
    normal = normalise(extractor.kinds_.get(name, ""), text, view.page.url)
    place = tuple(span.to_json()) if part or span.attribute else None
    return Cell(text, confidence, span.first, place, normal or None)
