"""Values of a record: find the span of each field, around its best leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.boundaries import MAX_LEAD
from maxendnet.web.fields.spans import Span, overlap, span_text, whole
from maxendnet.web.fields.types import fits
from maxendnet.web.model.decode import BestLeaf, best_leaves
from maxendnet.web.model.fitting import FittedModel
from maxendnet.web.views.view import View

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor


class Value(NamedTuple):
    """Span of a value, and the best leaf of its field."""

    best: BestLeaf
    span: Span


def find_values(
    extractor: Extractor, fitted: FittedModel, view: View, margins: NDArray[np.float64],
    leaves: Sequence[int] | None = None,
) -> list[Value | None]:  # fmt: skip
    """Find the value of each field among the leaves of a record or page.

    A value does not extend into a leaf where another field is more likely than not. On sites with listings, and for
    fields whose type the user has set, values of another type are discarded.

    Parameters
    ----------
    extractor : Extractor
    fitted : FittedModel
    view : View
    margins : ndarray of shape (n_leaves, n_fields)
    leaves : sequence of int, optional
        Leaves of the record; all leaves of the page if not given.

    Returns
    -------
    list of Value or None
        One for each field.
    """
    chosen = best_leaves(margins, view.texts, leaves, extractor.together_)
    scored = [x if x is None else x._replace(score=x.score - level) for x, level in zip(chosen, fitted.levels)]
    taken = {best.leaf for best in scored if best is not None and best.score > 0}
    is_listing = view.page.source is not None or view.page.site in extractor.listings_
    values: list[Value | None] = []
    for name, best in zip(extractor.fields_, scored):
        value = None
        if best is not None and name in extractor.attributes_:
            value = Value(best._replace(edge=MAX_LEAD), whole(view, best.leaf))
        elif best is not None:
            span, edge = fitted.boundaries.find(view, name, best.leaf, taken - {best.leaf})
            has_kind = is_listing or name in (extractor.types or {})
            if not has_kind or fits(extractor.kinds_.get(name, ""), span_text(view, span)):
                value = Value(best._replace(edge=edge), span)
        values.append(value)
    if view.page.source is not None and not extractor.overlap_:
        _drop_overlaps(values, [name in extractor.attributes_ for name in extractor.fields_])
    return values


def _drop_overlaps(values: list[Value | None], is_attribute: Sequence[bool]) -> None:
    """Remove values that overlap a more certain value."""
    texts = [(f, value) for f, value in enumerate(values) if value is not None and not is_attribute[f]]
    spans: list[Span] = []
    for f, value in sorted(texts, key=lambda item: -item[1].best.edge):
        if any(overlap(value.span, span) for span in spans):
            values[f] = None
        elif value.best.score > 0:
            spans.append(value.span)
