"""Field histories: where the fields were on the labelled pages of a site, to detect changes later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from maxendnet.web.fields.leaf_labels import fields_of
from maxendnet.web.model.labelled_page import LabelledPage
from maxendnet.web.model.record import Record
from maxendnet.web.views.selectors import whole_path


class FieldHistory(NamedTuple):
    """Where a field was on the labelled pages of a site.

    Attributes
    ----------
    kinds : list of int
        Kinds of the leaves with the field, see `View`.
    path : str
        Most frequent CSS path of the field.
    share : float
        Share of the labelled pages with the field.
    confidence : float
        Mean confidence on the labelled pages.
    """

    kinds: list[int]
    path: str
    share: float
    confidence: float


def field_histories(
    labelled: Sequence[LabelledPage], records: Sequence[Record], sites: Iterable[str], fields: Iterable[str]
) -> dict[str, dict[str, FieldHistory]]:
    """Return the history of each labelled field, by site and field.

    Parameters
    ----------
    labelled : sequence of LabelledPage
    records : sequence of Record
        Record extracted from each page.
    sites, fields : iterable of str
    """
    histories: dict[str, dict[str, FieldHistory]] = {}
    for site in sites:
        histories[site] = {}
        for name in fields:
            rows = [k for k, page in enumerate(labelled) if page.site == site and name not in page.unknown]
            places = [
                (k, leaf) for k in rows for leaf, label in enumerate(labelled[k].labels) if name in fields_of(label)
            ]
            if not places:
                continue
            views = [(labelled[k].view, leaf) for k, leaf in places]
            kinds = list(dict.fromkeys(view.kinds[leaf] for view, leaf in views))
            paths = Counter(whole_path(view.page, view.leaves[leaf]) for view, leaf in views)
            cells = [cell for k in rows if (cell := records[k].fields[name]) is not None]
            confidence = sum(cell.confidence for cell in cells) / max(1, len(cells))
            share = len({k for k, _ in places}) / len(rows)
            histories[site][name] = FieldHistory(kinds, paths.most_common(1)[0][0], share, confidence)
    return histories
