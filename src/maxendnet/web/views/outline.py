"""A page prepared for the search for records: elements by their paths, marks of siblings, and what leaves look like."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from zlib import crc32

from maxendnet.web.features.place import HASHED
from maxendnet.web.fields.patterns import PATTERNS
from maxendnet.web.fields.types import MONTH, is_number
from maxendnet.web.views.view import View, fold

LONGEST_PATH = 500
LONGEST_MARK = 30  # letters of a caption that marks a record
LONG_TEXT = 120

Part = list[tuple[int, int]]
"""Nodes of a record: ranges from a first node up to, not including, a last one."""
Token = tuple[str, str]
"""What a leaf looks like: the tag of its element, and the kind of its text."""


class Outline:
    """A page prepared for patterns.

    Attributes
    ----------
    view : View
    children : dict of int to list of int
        Of every element, texts too.
    at : dict of str to list of int
        Elements by their path of tags.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        page = self.page = view.page
        self.parents = view.parents
        self.children: dict[int, list[int]] = {}
        self.at: dict[str, list[int]] = {}
        self.paths = [""] * len(page)
        self._shapes: dict[int, str] = {}
        for t, tag in enumerate(page.tags):
            p = self.parents[t]
            if p >= 0:
                self.children.setdefault(p, []).append(t)
            if tag != "#text":
                path = self.paths[t] = _path(self.paths[p], tag) if p >= 0 else tag
                self.at.setdefault(path, []).append(t)

    @cached_property
    def tokens(self) -> list[Token]:
        """Of every leaf."""
        return leaf_tokens(self.view)

    def names(self, t: int) -> list[str]:
        """Classes of an element that a person gave."""
        return given_names(self.page.attributes[t])

    def above(self, t: int, level: int) -> int:
        """The element so many above."""
        while level and t >= 0:
            t, level = self.parents[t], level - 1
        return t

    def leaves_in(self, part: Part) -> list[int]:
        """Leaves of a part, as numbers in the view."""
        leaves = self.view.leaves
        return [k for a, b in part for k in range(bisect_left(leaves, a), bisect_left(leaves, b))]

    def shape(self, t: int) -> str:
        """Tags below an element, two levels deep, each once."""
        known = self._shapes.get(t)
        if known is not None:
            return known
        found = set()
        for child in self.children.get(t, ()):
            tag = self.page.tags[child]
            found.add(tag)
            found |= {f"{tag}/{self.page.tags[below]}" for below in self.children.get(child, ())}
        shape = self._shapes[t] = " ".join(sorted(found))
        return shape

    def has_mark(self, siblings: Sequence[int], k: int, mark: tuple[str, ...]) -> bool:
        """Whether a sibling has a mark."""
        t = siblings[k]
        if self.page.tags[t] != mark[1]:
            return False
        kind, what = mark[0], mark[-1]
        if kind == "tag":
            return True
        if kind == "class":
            return what in self.page.attributes[t].get("class", "").split()
        if kind == "shape":
            return self.shape(t) == what
        if kind == "text":
            return self.caption(t) == what
        n = int(what)
        return all(self.page.tags[s] == mark[1] for s in siblings[k : k + n]) and len(siblings) >= k + n

    def marks_of(self, t: int) -> Iterator[tuple[str, ...]]:
        """Marks of a sibling, by which it may be known."""
        tag = self.page.tags[t]
        if tag == "#text":
            return
        yield "tag", tag
        for name in self.names(t):
            yield "class", tag, name
        yield "shape", tag, self.shape(t)
        text = self.caption(t)
        if 0 < len(text) <= LONGEST_MARK:
            yield "text", tag, text

    def caption(self, t: int) -> str:
        """The text of a small element, folded; empty for others."""
        end = self.page.end(t)
        return fold(" ".join(self.page.texts[t:end])) if end - t < 10 else ""


def _path(above: str, tag: str) -> str:
    """The path of an element; a very long one as a number, so that deep pages take no more space than others."""
    path = f"{above}/{tag}"
    return path if len(path) < LONGEST_PATH else f"{crc32(path.encode()):x}"


def given_names(attributes: dict[str, str]) -> list[str]:
    """Classes that a person gave to an element.

    Examples
    --------
    >>> given_names({"class": "card css-1x2yz9"})
    ['card']
    """
    names = attributes.get("class", "").split()[:12]
    return [name for name in names if not any(HASHED.search(part) for part in re.split("[-_]+", name))]


def leaf_tokens(view: View) -> list[Token]:
    """What every leaf looks like."""
    tags = view.page.tags
    return [
        (tags[element], "image" if image else kind_of_text(text))
        for element, image, text in zip(view.elements, view.images, view.texts)
    ]


def kind_of_text(text: str) -> str:
    """What a text looks like, roughly.

    Examples
    --------
    >>> [kind_of_text(text) for text in ("Red Cup 2", "only $5", "3 May 2021", "1,200", "-")]
    ['text', 'price', 'date', 'number', 'sign']
    """
    text = text[:200]
    if PATTERNS["price"].search(text):
        return "price"
    if PATTERNS["date"].search(text) or (MONTH.search(text) and any(map(str.isdigit, text))):
        return "date"
    if not any(map(str.isalnum, text)):
        return "sign"
    return "number" if is_number(text) else "text" if len(text) < LONG_TEXT else "long"
