"""Features of leaves in named groups; each is a function of a `View` that gives names for every leaf.

All features are binary, and a name says where it comes from. ``KNOWN_SITES`` is for pages of sites that are labelled,
``NEW_SITES`` for others: neighbours remember a site's menu, and exact positions its template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maxendnet.web.features.place import class_names, coarse_position, exact_position, layout, tag_names
from maxendnet.web.features.structured_data import structured_data_names
from maxendnet.web.features.text import (
    label_text,
    near_shape,
    neighbours,
    run_text,
    site_variation,
    text_shape,
    text_words,
    title_overlap,
)
from maxendnet.web.views.view import Names, View

GROUPS: dict[str, Callable[[View], Names]] = {
    "tags": tag_names,
    "classes": class_names,
    "position": coarse_position,
    "exact_position": exact_position,
    "text": text_shape,
    "words": text_words,
    "run": run_text,
    "title": title_overlap,
    "site": site_variation,
    "label": label_text,
    "near": near_shape,
    "neighbours": neighbours,
    "layout": layout,
    "data": structured_data_names,
}
KNOWN_SITES = tuple(GROUPS)
NEW_SITES = tuple(name for name in GROUPS if name not in ("neighbours", "exact_position"))


def leaf_features(view: View, groups: Sequence[str]) -> Names:
    """Names of the features of every leaf, each with its group before it.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>$5"))
    >>> leaf_features(view, ["tags"])
    [['tags:path=p', 'tags:path=p/body', 'tags:tag0=p', 'tags:tag1=body']]
    """
    unknown = [name for name in groups if name not in GROUPS]
    if unknown:
        raise ValueError(f"there is no feature group {unknown[0]!r}; choose among {', '.join(GROUPS)}.")
    out: Names = [[] for _ in range(len(view))]
    for group in groups:
        for names, some in zip(out, GROUPS[group](view)):
            names += [f"{group}:{name}" for name in some]
    return out
