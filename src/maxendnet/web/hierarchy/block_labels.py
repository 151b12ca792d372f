"""Labels of inner blocks, derived from those of their leaves, and impossible pairs of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from maxendnet.web.fields.leaf_labels import INNER, NONE, fields_of
from maxendnet.web.hierarchy.vision_tree import VisionTree


def block_labels(tree: VisionTree, of_leaves: Sequence[str]) -> list[str]:
    """Return the labels of all blocks, derived from those of the leaves.

    The label of an inner block is ``none`` if it contains no field, ``has_a`` if it contains only the field a,
    ``record`` if it is a smallest block that contains all fields of the page (there may be several), ``region`` if it
    contains a record, and otherwise ``part``.

    Parameters
    ----------
    tree : VisionTree
    of_leaves : sequence of str
        Labels of the leaves, in their order.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> from maxendnet.web.hierarchy.vision_tree import vision_tree
    >>> tree = vision_tree(Page.from_html("<div><div><p>Cup</p><p>$5</p></div><p>fast</p></div><p>Home</p>"))
    >>> block_labels(tree, ["name", "price", "none", "none"])
    ['block:region', 'block:region', 'block:record', 'name', 'price', 'none', 'none']
    """
    n = len(tree)
    below: list[frozenset[str]] = [frozenset()] * n
    labels = [""] * n
    on_page: frozenset[str] = frozenset(name for label in of_leaves for name in fields_of(label))
    k = len(of_leaves)
    holds_record = np.zeros(n, dtype=bool)
    for b in range(n - 1, -1, -1):
        if tree.leaf[b]:
            k -= 1
            labels[b] = of_leaves[k]
            below[b] = frozenset(fields_of(of_leaves[k]))
        elif not below[b]:
            labels[b] = INNER + NONE
        elif len(below[b]) == 1 and len(on_page) > 1:
            labels[b] = f"{INNER}has_{next(iter(below[b]))}"
        elif holds_record[b]:
            labels[b] = INNER + "region"
        elif below[b] == on_page:
            labels[b] = INNER + "record"
            holds_record[b] = True
        else:
            labels[b] = INNER + "part"
        parent = tree.parents[b]
        if parent >= 0:
            if not below[b] <= below[parent]:
                below[parent] = below[parent] | below[b]
            holds_record[parent] |= holds_record[b]
    return labels


def forbidden_pairs(classes: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs (label of a block, label of a child) that the definitions in `block_labels` rule out.

    Blocks below ``none`` contain no field, blocks below ``has_a`` only the field a, and parents of records and regions
    are regions. No pair is forbidden unless ``none`` is a label of both leaves and inner blocks, because otherwise some
    pages might have no valid labelling.

    Parameters
    ----------
    classes : iterable of str
        Labels of a model.

    Examples
    --------
    >>> forbidden_pairs(["block:none", "block:has_a", "block:region", "a", "b", "none"])
    ... # doctest: +NORMALIZE_WHITESPACE
    [('block:none', 'block:has_a'), ('block:none', 'block:region'), ('block:none', 'a'), ('block:none', 'b'),
     ('block:has_a', 'block:region'), ('block:has_a', 'b')]
    """
    classes = list(classes)
    empty = {NONE, INNER + NONE}
    if not empty <= set(classes):
        return []
    pairs = []
    for parent in classes:
        if not parent.startswith(INNER) or parent == INNER + "region":
            continue
        only = None  # the allowed labels of children; None for all
        if parent == INNER + NONE:
            only = empty
        elif parent.startswith(INNER + "has_"):
            only = empty | {parent, parent.removeprefix(INNER + "has_")}
        for child in classes:
            needs_region = child in (INNER + "record", INNER + "region")
            if needs_region or (only is not None and child not in only):
                pairs.append((parent, child))
    return pairs
