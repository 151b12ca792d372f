"""Outline of a page, used to search for items: elements by path, marks of siblings, tokens of leaves."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from zlib import crc32

from maxendnet.web.features.place import HASHED
from maxendnet.web.fields.patterns import PATTERNS
from maxendnet.web.fields.types import MONTH, is_number
from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View, fold

MAX_PATH_CHARS = 500
MAX_MARK_CHARS = 30  # maximum length of a caption that marks an item
LONG_TEXT_CHARS = 120

Item = list[tuple[int, int]]
"""Nodes of an item of a listing, as half-open ranges (first, end)."""
Token = tuple[str, str]
"""Tag of a leaf's element, and the kind of its text."""


class Outline:
    """Paths, children and marks of the elements of a page.

    Attributes
    ----------
    view : View
    children : dict of int to list of int
        Child nodes of every element, including texts.
    at : dict of str to list of int
        Elements by their tag path.
    paths : list of str
        Tag path of every node, empty for texts.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.page: Page = view.page
        self.parents: list[int] = view.parents
        self.children: dict[int, list[int]] = {}
        self.at: dict[str, list[int]] = {}
        self.paths: list[str] = [""] * len(self.page)
        self._shapes: dict[int, str] = {}
        for t, tag in enumerate(self.page.tags):
            p = self.parents[t]
            if p >= 0:
                self.children.setdefault(p, []).append(t)
            if tag != "#text":
                path = self.paths[t] = _path(self.paths[p], tag) if p >= 0 else tag
                self.at.setdefault(path, []).append(t)

    @cached_property
    def tokens(self) -> list[Token]:
        """Token of every leaf."""
        return leaf_tokens(self.view)

    def names(self, t: int) -> list[str]:
        """Return the classes of an element, except generated ones."""
        return readable_classes(self.page.attributes[t])

    def above(self, t: int, level: int) -> int:
        """Return the ancestor ``level`` levels above t."""
        while level and t >= 0:
            t, level = self.parents[t], level - 1
        return t

    def leaves_in(self, item: Item) -> list[int]:
        """Return the leaves of an item, as indices in the view."""
        leaves = self.view.leaves
        return [k for a, b in item for k in range(bisect_left(leaves, a), bisect_left(leaves, b))]

    def shape(self, t: int) -> str:
        """Return the distinct tags below an element, two levels deep."""
        if t not in self._shapes:
            tags = set()
            for child in self.children.get(t, ()):
                tag = self.page.tags[child]
                tags.add(tag)
                tags |= {f"{tag}/{self.page.tags[below]}" for below in self.children.get(child, ())}
            self._shapes[t] = " ".join(sorted(tags))
        return self._shapes[t]

    def has_mark(self, siblings: Sequence[int], k: int, mark: tuple[str, ...]) -> bool:
        """Whether sibling k has a mark (see `marks_of`), or begins n equal tags in a row: ``("void", tag, n)``."""
        t = siblings[k]
        if self.page.tags[t] != mark[1]:
            return False
        kind, detail = mark[0], mark[-1]
        if kind == "tag":
            return True
        if kind == "class":
            return detail in self.page.attributes[t].get("class", "").split()
        if kind == "shape":
            return self.shape(t) == detail
        if kind == "text":
            return self.caption(t) == detail
        n = int(detail)
        return all(self.page.tags[s] == mark[1] for s in siblings[k : k + n]) and len(siblings) >= k + n

    def marks_of(self, t: int) -> Iterator[tuple[str, ...]]:
        """Yield the marks of an element: its tag, and its classes, shape and short text together with the tag."""
        tag = self.page.tags[t]
        if tag == "#text":
            return
        yield "tag", tag
        for name in self.names(t):
            yield "class", tag, name
        yield "shape", tag, self.shape(t)
        text = self.caption(t)
        if 0 < len(text) <= MAX_MARK_CHARS:
            yield "text", tag, text

    def caption(self, t: int) -> str:
        """Return the normalised text of a small element; empty for a large one."""
        end = self.page.end(t)
        return fold(" ".join(self.page.texts[t:end])) if end - t < 10 else ""


def _path(above: str, tag: str) -> str:
    """Return the tag path of an element; long paths are hashed to save memory on deep pages."""
    path = f"{above}/{tag}"
    return path if len(path) < MAX_PATH_CHARS else f"{crc32(path.encode()):x}"


def readable_classes(attributes: dict[str, str]) -> list[str]:
    """Return the classes of an element, except generated ones.

    Examples
    --------
    >>> readable_classes({"class": "card css-1x2yz9"})
    ['card']
    """
    names = attributes.get("class", "").split()[:12]
    return [name for name in names if not any(HASHED.search(part) for part in re.split("[-_]+", name))]


def leaf_tokens(view: View) -> list[Token]:
    """Return the token of every leaf."""
    tags = view.page.tags
    return [
        (tags[element], "image" if image else kind_of_text(text))
        for element, image, text in zip(view.elements, view.images, view.texts)
    ]


def kind_of_text(text: str) -> str:
    """Return the coarse kind of a text.

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
    return "number" if is_number(text) else "text" if len(text) < LONG_TEXT_CHARS else "long"
