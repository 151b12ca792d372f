"""Labels for unlabelled items of a listing, by alignment with a labelled item.

As many leaves of the two items as possible are aligned in order, each with a leaf of the same tag and kind of text. If
the alignment of a leaf is unique, the leaf gets the field of the labelled leaf. A field whose labelled leaf is not
aligned is missing in the other item, unless an unaligned text of the same kind remains: then the field is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.fields.leaf_labels import JOIN, NONE, fields_of
from maxendnet.web.views.outline import Token, leaf_tokens, readable_classes
from maxendnet.web.views.view import View

MAX_LEAVES = 200  # maximum number of leaves of an item


class Alignment(NamedTuple):
    """Labels of the leaves of an item, and its unknown fields."""

    labels: list[str]
    unknown: frozenset[str]


def record_tokens(view: View) -> list[Token]:
    """Return a token per leaf of an item: its tag with the first class, and the kind of its text or its caption."""
    page = view.page
    out = []
    for k, (tag, kind) in enumerate(leaf_tokens(view)):
        names = readable_classes(page.attributes[view.elements[k]])
        out.append((f"{tag}.{names[0]}" if names else tag, f"={view.folded[k]}" if view.is_fixed(k) else kind))
    return out


def align(tokens: Sequence[Token], sample: Sequence[Token], labels: Sequence[str]) -> Alignment | None:
    """Transfer the labels of a labelled item to another item; None if no leaf with a field is aligned.

    Parameters
    ----------
    tokens : sequence of Token
        Tokens of the leaves of the item.
    sample : sequence of Token
        Tokens of the leaves of the labelled item.
    labels : sequence of str
        Labels of the leaves of the labelled item.

    Examples
    --------
    >>> sample, labels = [("b", "text"), ("i", "date"), ("b", "price")], ["name", "date", "price"]
    >>> align([("b", "text"), ("b", "price")], sample, labels)
    Alignment(labels=['name', 'price'], unknown=frozenset())
    >>> alignment = align([("b", "text"), ("b", "text"), ("u", "price")], sample, labels)
    >>> alignment.labels, sorted(alignment.unknown)
    (['none', 'none', 'none'], ['name', 'price'])
    """
    if max(len(tokens), len(sample)) > MAX_LEAVES:
        return None
    early, late = _matches(tokens, sample), _matches(tokens[::-1], sample[::-1])
    last, end = len(tokens) - 1, len(sample) - 1
    late = {end - i: last - j for i, j in late.items()}
    of_leaf: list[set[str]] = [set() for _ in tokens]
    unknown: set[str] = set()
    aligned = set(early.values())
    kinds_left = {kind for j, (_, kind) in enumerate(tokens) if j not in aligned}
    for i, label in enumerate(labels):
        fields = fields_of(label)
        if not fields:
            continue
        if early.get(i) != late.get(i) or (i not in early and sample[i][1] in kinds_left):
            unknown |= set(fields)
        elif i in early:
            of_leaf[early[i]] |= set(fields)
    if not any(of_leaf) and not unknown:
        return None
    return Alignment([JOIN.join(sorted(names - unknown)) or NONE for names in of_leaf], frozenset(unknown))


def _matches(tokens: Sequence[Token], sample: Sequence[Token]) -> dict[int, int]:
    """Return the longest common subsequence with the earliest matches, as a map from sample leaves to leaves."""
    n, m = len(sample), len(tokens)
    longest = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            same = longest[i + 1][j + 1] + 1 if sample[i] == tokens[j] else 0
            longest[i][j] = max(same, longest[i + 1][j], longest[i][j + 1])
    out, i, j = {}, 0, 0
    while i < n and j < m:
        if sample[i] == tokens[j] and longest[i][j] == longest[i + 1][j + 1] + 1:
            out[i] = j
            i, j = i + 1, j + 1
        elif longest[i + 1][j] == longest[i][j]:
            i += 1
        else:
            j += 1
    return out
