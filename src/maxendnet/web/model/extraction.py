"""Extraction of records from views: find the leaves of each record, then the cells of its fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
from maxendnet.web.views.view import View

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

Records = str | Sequence[Sequence[Sequence[int]]] | None
"""How to find records: ``"one"``, ``"auto"``, None, or the first and last nodes of the records of each page.

See `Extractor.extract`.
"""
MIN_FAMILIAR = 0.5  # share of the records of a page with a field at a familiar place, to remove the other records
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
    familiar: dict[int, list[bool]] = {}
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
                    familiar.setdefault(id(page.source), []).append(_is_familiar(extractor, view, values))
                of_view.append(Record(page.name, page.site, number, dict(zip(fields, cells)), page.url))
                number += 1
        rows.append(of_view)
    return _without_others(views, rows, familiar)


def _is_familiar(extractor: Extractor, view: View, values: Sequence[Value | None]) -> bool:
    """Whether the value of some field is at a place where the labelled records of the site have the field."""
    history = extractor.memory_.get(view.page.site, {})
    return any(
        value is not None and name in history and view.kinds[value.best.leaf] in history[name].kinds
        for name, value in zip(extractor.fields_, values)
    )


def _without_others(
    views: Sequence[View], rows: Sequence[list[Record]], familiar: Mapping[int, Sequence[bool]]
) -> list[list[Record]]:
    """Remove records of listings in which no field is at a familiar place, if most records of the page have one.

    They are advertisements, or prices per unit, between the records.
    """
    out: list[list[Record]] = []
    flags = {page: iter(of_page) for page, of_page in familiar.items()}
    n_kept: Counter[int] = Counter()
    for view, of_view in zip(views, rows):
        page = id(view.page.source)
        if page not in familiar or sum(familiar[page]) < MIN_FAMILIAR * len(familiar[page]):
            out.append(of_view)
            continue
        records = [record for record in of_view if next(flags[page])]
        out.append([record._replace(record=n_kept[page] + n) for n, record in enumerate(records)])
        n_kept[page] += len(records)
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
