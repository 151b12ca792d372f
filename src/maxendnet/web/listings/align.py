"""What is known of the records of a listing that nobody labelled: those made like a labelled one are lined up with it.

The leaves of a record and of a labelled one are matched in their order, each with one of the same tag and kind of text,
as many as can be. Where this can be done in one way only, it tells which leaf has which field; a field whose leaf has
no match is missing, unless there is a text of its kind left over: then nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.fields.leaf_labels import JOIN, NONE, fields_of
from maxendnet.web.views.outline import Token, leaf_tokens, readable_classes
from maxendnet.web.views.view import View

LONGEST = 200  # leaves of a record that is lined up


class Aligned(NamedTuple):
    """Labels of the leaves of a record, and the fields of which nothing is known."""

    labels: list[str]
    unknown: frozenset[str]


def record_tokens(view: View) -> list[Token]:
    """What every leaf of a record looks like: tag and first class, and the kind of its text; of a caption, the text."""
    page = view.page
    out = []
    for k, (tag, kind) in enumerate(leaf_tokens(view)):
        names = readable_classes(page.attributes[view.elements[k]])
        out.append((f"{tag}.{names[0]}" if names else tag, f"={view.folded[k]}" if view.is_fixed(k) else kind))
    return out


def align(tokens: Sequence[Token], sample: Sequence[Token], labels: Sequence[str]) -> Aligned | None:
    """Labels of a record, from those of a labelled one; None if no leaf with a field has a match.

    Parameters
    ----------
    tokens : sequence of Token
        Of the leaves of the record.
    sample : sequence of Token
        Of the leaves of the labelled record.
    labels : sequence of str
        Of the leaves of the labelled record.

    Examples
    --------
    >>> sample, labels = [("b", "text"), ("i", "date"), ("b", "price")], ["name", "date", "price"]
    >>> align([("b", "text"), ("b", "price")], sample, labels)
    Aligned(labels=['name', 'price'], unknown=frozenset())
    >>> found = align([("b", "text"), ("b", "text"), ("u", "price")], sample, labels)
    >>> found.labels, sorted(found.unknown)
    (['none', 'none', 'none'], ['name', 'price'])
    """
    if max(len(tokens), len(sample)) > LONGEST:
        return None
    early, late = _matches(tokens, sample), _matches(tokens[::-1], sample[::-1])
    last, end = len(tokens) - 1, len(sample) - 1
    late = {end - i: last - j for i, j in late.items()}
    found: list[set[str]] = [set() for _ in tokens]
    unknown: set[str] = set()
    taken = set(early.values())
    left = {kind for j, (_, kind) in enumerate(tokens) if j not in taken}
    for i, label in enumerate(labels):
        fields = fields_of(label)
        if not fields:
            continue
        if early.get(i) != late.get(i) or (i not in early and sample[i][1] in left):
            unknown |= set(fields)
        elif i in early:
            found[early[i]] |= set(fields)
    if not any(found) and not unknown:
        return None
    return Aligned([JOIN.join(sorted(names - unknown)) or NONE for names in found], frozenset(unknown))


def _matches(tokens: Sequence[Token], sample: Sequence[Token]) -> dict[int, int]:
    """A longest common subsequence that takes the first match it can: leaf of the sample to leaf of the record."""
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
