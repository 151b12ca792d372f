"""Extraction of records from views: find the leaves of each record, then the cells of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.spans import attribute_of, is_part, span_text
from maxendnet.web.fields.types import normalise
from maxendnet.web.listings.regions import choose_records, given_records
from maxendnet.web.model.calibration import Calibration
from maxendnet.web.model.fitting import FittedModel
from maxendnet.web.model.record import SEPARATOR, Cell, Record
from maxendnet.web.model.values import Value, find_values
from maxendnet.web.views.view import View

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

Records = str | Sequence[Sequence[Sequence[int]]] | None
"""How to find records: ``"one"``, ``"auto"``, None, or the first and last nodes of the records of each page.

See `Extractor.extract`.
"""
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
                _add_values(extractor, view, cells, m, leaves)
            # records with hardly any cell are table headers or advertisements
            n_cells = sum(cell is not None for cell in cells)
            if page.source is None or all_rows or n_cells >= min(MIN_CELLS, (len(cells) + 1) // 2):
                of_view.append(Record(page.name, page.site, number, dict(zip(fields, cells)), page.url))
                number += 1
        rows.append(of_view)
    return rows


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


def _add_values(
    extractor: Extractor, view: View, cells: list[Cell | None], margins: NDArray[np.float64], leaves: Sequence[int]
) -> None:
    """Add further values to the cells of fields that may have several values.

    They come from leaves of the same kind as the best leaf on which the field is more likely than not.
    """
    nodes = view.page.nodes
    keys = zip(view.leaves if nodes is None else nodes[view.leaves].tolist(), view.attributes)
    leaf_of = {key: k for k, key in enumerate(keys)}
    taken = {leaf_of[_leaf_key(cell)] for cell in cells if cell is not None}
    for f, name in enumerate(extractor.fields_):
        cell = cells[f]
        if name not in extractor.several or cell is None:
            continue
        best = leaf_of[_leaf_key(cell)]
        values = {best: cell.value}
        for k in leaves:
            if k not in taken and view.kinds[k] == view.kinds[best] and margins[k, f] > extractor.levels_[f]:
                span, _ = extractor.boundaries_.find(view, name, k, taken | (set(values) - {k}))
                attribute = extractor.attributes_.get(name)
                values[k] = (attribute_of(view, k, attribute) or "") if attribute else span_text(view, span)
        ordered = tuple(dict.fromkeys(value for _, value in sorted(values.items()) if value))
        cells[f] = cell._replace(value=SEPARATOR.join(ordered), values=ordered)


def _leaf_key(cell: Cell) -> tuple[int, str]:
    """Return the node and attribute at which the value of a cell begins."""
    return cell.node, str(cell.span[4]) if cell.span is not None and len(cell.span) > 4 else ""
