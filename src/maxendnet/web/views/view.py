"""View of a page for feature extraction: leaves, their ancestors and texts, and statistics of the site."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from maxendnet.web.pages.page import Page, group_by_template, image_address
from maxendnet.web.pages.runs import Runs, find_runs
from maxendnet.web.pages.structured_data import NAME_ATTRIBUTES, OBJECT, VALUE_TAGS
from maxendnet.web.views.leaves import find_attributes, find_leaves
from maxendnet.web.views.texts import full_text, join_prices
from maxendnet.web.views.words import words_of

MAX_TEXT_CHARS = 400  # of a text that features use
MAX_ELEMENT_LEAVES = 40  # of an element whose whole text is compared with values
MAX_ANCESTORS = 6  # of a leaf that features use
CACHE_SIZE = 20_000  # texts or paths with cached feature names: pages of a site share most of them
Names = list[list[str]]
"""Feature names of every leaf."""
MIN_PAGES = 3  # pages of a site needed for statistics
MIN_PAGES_CONSTANT = 5  # pages of a site needed to call a text constant
CONSTANT_SHARE = 0.9  # of the pages of a site
MAX_TEXTS = 50  # texts at a place that statistics use
PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
FOLD = re.compile(r"[^\w$€£%.@]+")


class SiteFacts(NamedTuple):
    """Statistics of the texts and places on the pages of a site, computed without labels.

    Attributes
    ----------
    n_pages : int
    pages_with_text : Counter
        Number of pages with a text, normalised by `fold`.
    pages_with_place : Counter
        Number of pages with a leaf at a place.
    texts_at_place : Counter
        Number of distinct texts at a place.
    at_place : dict of int to list of str
        Texts at a place, one per page with a leaf there.
    """

    n_pages: int
    pages_with_text: Counter[str]
    pages_with_place: Counter[int]
    texts_at_place: Counter[int]
    at_place: dict[int, list[str]]


def fold(text: str) -> str:
    """Return a text in lower case, without punctuation and extra spaces, for comparison.

    Examples
    --------
    >>> fold("  Price:  $ 12.99 ")
    'price $ 12.99'
    """
    return FOLD.sub(" ", text[:MAX_TEXT_CHARS].lower()).strip()


class View:
    """Leaves of a page with their texts, elements and places.

    Parameters
    ----------
    page : Page
    images, data : bool
        Whether images, and values of structured data, are leaves.
    attributes : collection of str, optional
        Text attributes that are leaves, such as ``title``; None for all of them.
    hidden : bool
        Whether hidden texts are leaves.

    Attributes
    ----------
    page : Page
    leaves : list of int
        Node of every leaf.
    attributes : list of str
        Attribute of every leaf; empty unless the leaf is an attribute of its node.
    texts : list of str
        Text of every leaf; for an image, its alternative text. See `maxendnet.web.views.texts`.
    images, data : list of bool
        Whether a leaf is an image, and whether it is a value of structured data.
    runs : Runs
        Words and runs of the leaves.
    elements : list of int
        Element of every leaf: the parent of a text, an image itself.
    places : list of int
        Hash of the path from the root with positions among siblings. It is the same for leaves at the same place of
        different pages.
    kinds : list of int
        Hash of the path without positions, but with the first class of each element.
    facts : SiteFacts or None
        Statistics of the site, set by `make_views`.

    Examples
    --------
    >>> view = View(Page.from_html("<div><p>Cup<p>$5</div>"))
    >>> view.texts, view.ancestors(0)
    (['Cup', '$5'], [2, 1, 0])
    >>> view.places[0] == view.places[1], view.kinds[0] == view.kinds[1]
    (False, True)
    """

    def __init__(
        self, page: Page, images: bool = False, data: bool = False, attributes: Collection[str] | None = (),
        hidden: bool = False,
    ) -> None:  # fmt: skip
        self.page = page
        tags, parents = page.tags, page.parents.tolist()
        leaves = find_leaves(page, images, data, hidden)
        elements = [parents[t] if tags[t] == "#text" else t for t in leaves]
        texts = [_text(page, t) for t in leaves]
        runs = find_runs(page, leaves)
        join_prices(texts, runs, elements, tags)
        names = [""] * len(leaves)
        if attributes is None or attributes:
            leaves, names, texts, elements, runs = _with_attributes(
                page, find_attributes(page, attributes), leaves, texts, elements, runs
            )
        self.leaves: list[int] = leaves
        self.attributes: list[str] = names
        self.parents: list[int] = parents
        self.images: list[bool] = [tags[t] == "img" and not name for t, name in zip(leaves, names)]
        self.data: list[bool] = [tags[t] in VALUE_TAGS for t in leaves]
        self.texts: list[str] = texts
        self.runs: Runs = runs
        self.elements: list[int] = elements
        self._walk(tags, parents)
        self._above: dict[int, list[int]] = {}
        self.facts: SiteFacts | None = None

    def __len__(self) -> int:
        return len(self.leaves)

    def _walk(self, tags: list[str], parents: list[int]) -> None:
        """Set depths, positions among siblings, and path hashes, in one pass because paths may be long."""
        n = len(tags)
        depth, rank, n_children = [0] * n, [0] * n, [0] * n
        self.depth: list[int] = depth
        self.rank: list[int] = rank  # position among the element children of the parent
        self.n_children: list[int] = n_children
        place, kind = [0] * n, [0] * n
        position: dict[tuple[int, int], int] = {}  # (parent, tag) -> position of the last such child
        codes: dict[str, int] = {}
        for t in range(n):
            p = parents[t]
            tag = tags[t]
            if tag in VALUE_TAGS or tag == OBJECT:  # structured data: its name attributes are part of the tag
                attributes = self.page.attributes[t]
                tag = " ".join([tag, *(attributes[name] for name in NAME_ATTRIBUTES if name in attributes)])
            code = codes.get(tag)
            if code is None:
                code = codes[tag] = crc32(tag.encode())
            if p < 0:
                place[t] = kind[t] = code
                continue
            depth[t] = depth[p] + 1
            # hash only integers, because hashes of strings differ between processes
            position[p, code] = position.get((p, code), -1) + 1
            place[t] = hash((place[p], code, position[p, code]))
            if tag != "#text":
                rank[t] = n_children[p]
                n_children[p] += 1
                classes = self.page.attributes[t].get("class", "")
                kind[t] = hash((kind[p], code, crc32(classes.split(" ", 1)[0].encode())))
            else:
                kind[t] = hash((kind[p], code, 0))
        leaves = list(zip(self.leaves, self.attributes))
        self.places: list[int] = [hash((place[t], _code(name))) if name else place[t] for t, name in leaves]
        self.kinds: list[int] = [hash((kind[t], _code(name))) if name else kind[t] for t, name in leaves]

    def ancestors(self, k: int) -> list[int]:
        """Return the element of leaf k and the nearest elements above it, nearest first."""
        element = self.elements[k]
        above = self._above.get(element)
        if above is None:
            above = self._above[element] = []
            while element >= 0 and len(above) < MAX_ANCESTORS:
                above.append(element)
                element = self.parents[element]
        return above

    @cached_property
    def folded(self) -> list[str]:
        """Texts of the leaves, normalised by `fold`."""
        return [fold(text) for text in self.texts]

    @cached_property
    def leaf_of(self) -> dict[int, int]:
        """Mapping of nodes to indices of leaves, except attributes."""
        return {t: k for k, (t, name) in enumerate(zip(self.leaves, self.attributes)) if not name}

    @cached_property
    def leaf_of_attribute(self) -> dict[tuple[int, str], int]:
        """Mapping of nodes and attributes to indices of leaves."""
        return {(t, name): k for k, (t, name) in enumerate(zip(self.leaves, self.attributes)) if name}

    def leaf_range(self, t: int) -> tuple[int, int]:
        """Return the first leaf of an element that is not an attribute, and one past the last."""
        a, b = bisect_left(self.leaves, t), bisect_left(self.leaves, self.page.end(t))
        while a < b and self.attributes[a]:
            a += 1
        while a < b and self.attributes[b - 1]:
            b -= 1
        return a, b

    @cached_property
    def elements_by_words(self) -> dict[str, list[int]]:
        """Elements with text, except long ones, by their words; of elements with the same leaves the innermost."""
        words = [[] if name else words_of(text[:MAX_TEXT_CHARS]) for text, name in zip(self.texts, self.attributes)]
        ranges: dict[tuple[int, int], int] = {}
        for t, tag in enumerate(self.page.tags):
            if tag != "#text":
                a, b = self.leaf_range(t)
                if a < b <= a + MAX_ELEMENT_LEAVES:
                    ranges[a, b] = t
        elements: dict[str, list[int]] = {}
        for (a, b), t in ranges.items():
            joined = " ".join(word for of_leaf in words[a:b] for word in of_leaf)
            if joined and len(joined) <= MAX_TEXT_CHARS:
                elements.setdefault(joined, []).append(t)
        return elements

    @cached_property
    def on_page(self) -> Counter[str]:
        """Number of occurrences of each normalised text on this page."""
        return Counter(self.folded)

    @cached_property
    def row_heads(self) -> list[str]:
        """For every leaf, the first text of its table row, list item or definition; empty for that text itself."""
        starts: dict[int, str] = {}
        out = []
        parents, tags = self.parents, self.page.tags
        for k, element in enumerate(self.elements):
            row, steps = element, 0
            while row >= 0 and tags[row] not in ROWS and steps < MAX_ANCESTORS:
                row, steps = parents[row], steps + 1
            if row < 0 or tags[row] not in ROWS:
                out.append("")
            elif row in starts:
                out.append(starts[row])
            else:
                starts[row] = self.folded[k]
                out.append("")
        return out

    def is_fixed(self, k: int) -> bool:
        """Whether the text of leaf k occurs on most pages of the site, so that it is a caption rather than a value."""
        facts = self.facts
        if facts is None or facts.n_pages < MIN_PAGES:
            return self.texts[k].endswith(":")
        return facts.pages_with_text[self.folded[k]] > 0.6 * facts.n_pages

    def is_constant(self, k: int) -> bool:
        """Whether leaf k has the same text on nearly all pages of the site, such as the heading of a section."""
        facts = self.facts
        if facts is None or facts.n_pages < MIN_PAGES_CONSTANT:
            return False
        n_with_text = facts.pages_with_text[self.folded[k]]
        return n_with_text >= CONSTANT_SHARE * facts.n_pages and facts.texts_at_place[self.places[k]] == 1

    def is_rare(self, k: int) -> bool:
        """Whether most pages of the site have no leaf at the place of leaf k."""
        facts = self.facts
        if facts is None or facts.n_pages < MIN_PAGES:
            return False
        return facts.pages_with_place[self.places[k]] <= 0.5 * facts.n_pages

    def share_at_place(self, k: int, word: str) -> float | None:
        """Return the share of the site's pages whose text at the place of leaf k contains a word, or None if unknown.

        ``word`` is in lower case; a number is written as one zero per digit, at most five.
        """
        facts = self.facts
        texts = facts.at_place.get(self.places[k], []) if facts is not None else []
        if len(texts) < MIN_PAGES:
            return None
        counts = _word_counts(tuple(text[: 5 * MAX_TEXT_CHARS] for text in texts[:MAX_TEXTS]))
        return counts[word] / min(len(texts), MAX_TEXTS)

    @cached_property
    def captions(self) -> list[str]:
        """For every leaf, the nearest fixed text before it, at most six leaves away."""
        out, last, at = [], "", -10
        for k in range(len(self)):
            out.append(last if k - at <= 6 else "")
            if self.is_fixed(k) and self.folded[k]:
                last, at = self.folded[k], k
        return out

    @cached_property
    def roles(self) -> list[int]:
        """Hash of the kind of every leaf, its caption and its row head."""
        return [hash((kind, _code(a), _code(b))) for kind, a, b in zip(self.kinds, self.captions, self.row_heads)]


def _text(page: Page, t: int) -> str:
    """Return the text of a leaf; for an image, its alternative text."""
    if page.tags[t] == "#text":
        return full_text(page, t)
    return page.attributes[t].get("alt", "") if page.tags[t] == "img" else page.text(t)


def _with_attributes(
    page: Page, attributes: Sequence[tuple[int, str]], leaves: Sequence[int], texts: Sequence[str],
    elements: Sequence[int], runs: Runs,
) -> tuple[list[int], list[str], list[str], list[int], Runs]:  # fmt: skip
    """Insert attributes into the leaves of a page, in document order; each is a run of its own.

    Returns the nodes, attributes, texts, elements and runs of all leaves.
    """
    n_runs = runs.run[-1] + 1 if runs.run else 0
    n_words = runs.word[-1] + 1 if runs.word else 0
    rows = [(t, "", texts[k], elements[k], runs.word[k], runs.run[k], runs.before[k]) for k, t in enumerate(leaves)]
    rows += [
        (t, name, page.attributes[t][name], t, n_words + i, n_runs + i, " ") for i, (t, name) in enumerate(attributes)
    ]
    rows.sort(key=lambda row: row[:2])
    columns: list[list[Any]] = [list(column) for column in zip(*rows)] or [[] for _ in range(7)]
    return columns[0], columns[1], columns[2], columns[3], Runs(*columns[4:])


@lru_cache(maxsize=512)
def _word_counts(texts: tuple[str, ...]) -> Counter[str]:
    """Return, for each word or sign, the number of texts that contain it."""
    counts: Counter[str] = Counter()
    for text in texts:
        pieces = {piece.lower() for piece in PIECE.findall(text)}
        counts.update({"0" * min(len(piece), 5) if piece.isdigit() else piece for piece in pieces})
    return counts


def _code(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


ROWS = frozenset(("tr", "li", "dd", "dl"))


def gather_facts(views: Sequence[View]) -> SiteFacts:
    """Return the statistics of the pages of one site.

    Examples
    --------
    >>> facts = gather_facts([View(Page.from_html(f"<p>Price:<p>{x}")) for x in (1, 2)])
    >>> facts.pages_with_text["price"], facts.texts_at_place.most_common(1)[0][1]
    (2, 2)
    """
    texts: Counter[str] = Counter()
    filled: Counter[int] = Counter()
    distinct: set[tuple[int, str]] = set()
    at_place: dict[int, list[str]] = {}
    for view in views:
        for place, text in zip(view.places, view.texts):
            at_place.setdefault(place, []).append(text)
        texts.update(set(view.folded))
        filled.update(set(view.places))
        distinct.update(zip(view.places, view.folded))
    return SiteFacts(len(views), texts, filled, Counter(place for place, _ in distinct), at_place)


def make_views(
    pages: Sequence[Page], images: bool = False, data: bool = False, attributes: Collection[str] = (),
    hidden: bool = False,
) -> list[View]:  # fmt: skip
    """Return views of pages that include the statistics of their sites.

    Parameters
    ----------
    pages : sequence of Page
        All available pages, labelled or not, because more pages of a site yield better statistics.
    images, data : bool
        Whether images, and values of structured data, are leaves.
    attributes : collection of str
        Text attributes that are leaves.
    hidden : bool
        Whether hidden texts are leaves.
    """
    views = [View(page, images, data, attributes, hidden) for page in pages]
    for rows in group_by_template(pages):
        facts = gather_facts([views[i] for i in rows])
        for i in rows:
            views[i].facts = facts
    return views


def value_of(view: View, k: int) -> str:
    """Return the text of leaf k, or its address if it is an image."""
    return image_address(view.page.attributes[view.leaves[k]]) if view.images[k] else view.texts[k]


def log2_bin(x: float) -> int:
    """Return the bin of a number: 0, 1, 2-3, 4-7, ..."""
    return int(x).bit_length()
