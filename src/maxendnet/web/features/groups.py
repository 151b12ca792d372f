"""Groups of leaf features. Each group is a function that maps a `View` to the feature names of every leaf.

All features are binary. ``KNOWN_SITES`` lists the groups for pages of labelled sites, ``NEW_SITES`` the groups for
unlabelled sites, without neighbours and exact positions because these are site-specific.
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
    """Return the feature names of every leaf, with the group as prefix.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>$5"))
    >>> leaf_features(view, ["tags"])
    [['tags:path=p', 'tags:path=p/body', 'tags:tag0=p', 'tags:tag1=body']]
    """
    unknown = [name for name in groups if name not in GROUPS]
    if unknown:
        raise ValueError(f"unknown feature group {unknown[0]!r}; choose from {', '.join(GROUPS)}.")
    out: Names = [[] for _ in range(len(view))]
    for group in groups:
        for names, group_names in zip(out, GROUPS[group](view)):
            names += [f"{group}:{name}" for name in group_names]
    return out
