"""Fields with several values: lists on labelled sites, and like leaves elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.spans import attribute_of, span_text
from maxendnet.web.listings.value_lists import LabelledList, ValueList, learn_list, like_elements
from maxendnet.web.model.decode import TYPICAL_LEAD
from maxendnet.web.model.labelled_page import LabelledPage
from maxendnet.web.model.record import SEPARATOR, Cell
from maxendnet.web.views.view import View
from maxendnet.web.views.words import words_of

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

MAX_UNLABELLED = 8  # unlabelled pages of a site that are used to choose selectors


def learn_lists(
    extractor: Extractor, views: Sequence[View], labelled: Sequence[LabelledPage]
) -> dict[str, dict[str, ValueList]]:
    """Learn the lists of the fields with several values on each labelled site, except in records of listings."""
    lists: dict[str, dict[str, ValueList]] = {}
    for name in extractor.several:
        if name in extractor.attributes_:
            continue
        by_site: dict[str, list[LabelledList]] = {}
        for page in labelled:
            texts = [span_text(page.view, span) for span, field in page.values if field == name and not span.attribute]
            written = {" ".join(words_of(value)): value for value in page.written(name)}
            texts = [written.get(" ".join(words_of(text)), text) for text in texts]
            if texts and not page.is_record:
                by_site.setdefault(page.site, []).append(LabelledList(page.view, texts))
        for site, pages in by_site.items():
            known = {id(page.view) for page in pages}
            others = [v for v in views if v.page.site == site and v.page.source is None and id(v) not in known]
            learned = learn_list(pages, others[:MAX_UNLABELLED])
            if learned is not None:
                lists.setdefault(site, {})[name] = learned
    return lists


def add_values(
    extractor: Extractor, view: View, cells: list[Cell | None], margins: NDArray[np.float64], leaves: Sequence[int]
) -> None:
    """Complete the cells of fields with several values.

    On labelled sites the values are the elements of the list. Elsewhere they are the best value and those of leaves of
    the same kind on which the field is more likely than not.
    """
    lists = extractor.lists_.get(view.page.site, {}) if view.page.source is None else {}
    nodes = view.page.nodes
    keys = zip(view.leaves if nodes is None else nodes[view.leaves].tolist(), view.attributes)
    leaf_of = {key: k for k, key in enumerate(keys)}
    taken = {leaf_of[_leaf_key(cell)] for cell in cells if cell is not None}
    for f, name in enumerate(extractor.fields_):
        if name not in extractor.several:
            continue
        if name in lists and (spans := lists[name].spans(view)):
            texts = tuple(dict.fromkeys(lists[name].text(view, span) for span in spans))
            place = None if spans[0].first == spans[0].last else tuple(spans[0].to_json())
            cells[f] = Cell(SEPARATOR.join(texts), lists[name].confidence, spans[0].first, place, None, texts)
            continue
        cell = cells[f]
        if cell is None:
            continue
        if name in lists:  # its markup differs on this page
            best = leaf_of[_leaf_key(cell)]
            above = margins[:, f] - (margins[best, f] - TYPICAL_LEAD / 2)
            if spans := like_elements(view, above, best, taken - {best}):
                texts = tuple(dict.fromkeys(lists[name].text(view, span) for span in spans))
                cells[f] = cell._replace(value=SEPARATOR.join(texts), values=texts, confidence=0.5 * cell.confidence)
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
