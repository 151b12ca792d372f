"""A page prepared for features: leaves, their ancestors and texts, and what its site says about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple
from zlib import crc32

from maxendnet.web.pages.page import Page, image_address, made_alike
from maxendnet.web.pages.runs import Runs, find_runs
from maxendnet.web.pages.structured_data import NAMES, OBJECT, VALUES
from maxendnet.web.views.leaves import find_leaves

LONGEST_TEXT = 400  # characters of a text that features look at
NEAREST = 6  # ancestors that features look at
KEPT = 20_000  # names of as many texts or paths are kept: pages of a site share most of them
Names = list[list[str]]
FEWEST_PAGES = 3  # of a site, to say what its pages have in common
MOST_TEXTS = 50  # of a place that are compared
PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
FOLD = re.compile(r"[^\w$€£%.@]+")


class SiteFacts(NamedTuple):
    """What the pages of a site have in common, without any label.

    Attributes
    ----------
    n_pages : int
    pages_with_text : Counter
        On how many pages a text occurs, by `fold`.
    pages_with_place : Counter
        On how many pages a place is filled.
    texts_at_place : Counter
        How many different texts a place has.
    at_place : dict of int to list of str
        The texts of a place, one for every page that fills it.
    """

    n_pages: int
    pages_with_text: Counter[str]
    pages_with_place: Counter[int]
    texts_at_place: Counter[int]
    at_place: dict[int, list[str]]


def fold(text: str) -> str:
    """A text without case, punctuation and spare space, for comparison.

    Examples
    --------
    >>> fold("  Price:  $ 12.99 ")
    'price $ 12.99'
    """
    return FOLD.sub(" ", text[:LONGEST_TEXT].lower()).strip()


class View:
    """Leaves of a page with what features ask for.

    Attributes
    ----------
    page : Page
    leaves : list of int
        Nodes.
    texts : list of str
        Of the leaves; of an image, its alternative text.
    images, data : list of bool
        Which leaves are images, and which are values that the page says to programs.
    runs : Runs
        Which leaves touch, and which stand in one paragraph, cell or item.
    elements : list of int
        The element that each leaf hangs on (an image: itself).
    places : list of int
        A number for the path from the root with the positions among siblings: the same place on pages made alike.
    kinds : list of int
        The same without positions, with classes.

    Examples
    --------
    >>> view = View(Page.from_html("<div><p>Cup<p>$5</div>"))
    >>> view.texts, view.ancestors(0)
    (['Cup', '$5'], [2, 1, 0])
    >>> view.places[0] == view.places[1], view.kinds[0] == view.kinds[1]
    (False, True)
    """

    def __init__(self, page: Page, images: bool = False, data: bool = False) -> None:
        self.page = page
        self.leaves = find_leaves(page, images, data)
        tags, parents = page.tags, page.parents.tolist()
        self.parents: list[int] = parents
        self.images = [tags[t] == "img" for t in self.leaves]
        self.data = [tags[t] in VALUES for t in self.leaves]
        self.texts = [page.attributes[t].get("alt", "") if tags[t] == "img" else page.text(t) for t in self.leaves]
        self.runs: Runs = find_runs(page, self.leaves)
        self.elements = [parents[t] if tags[t] == "#text" else t for t in self.leaves]
        self._walk(tags, parents)
        self._above: dict[int, list[int]] = {}
        self.facts: SiteFacts | None = None

    def __len__(self) -> int:
        return len(self.leaves)

    def _walk(self, tags: list[str], parents: list[int]) -> None:
        """Depth, position among siblings, and paths as numbers; one pass, since a path may be long."""
        n = len(tags)
        self.depth = depth = [0] * n
        self.rank = rank = [0] * n  # among the element children of its parent
        self.n_children = n_children = [0] * n
        place, kind = [0] * n, [0] * n
        seen: dict[tuple[int, int], int] = {}
        codes: dict[str, int] = {}
        for t in range(n):
            p = parents[t]
            tag = tags[t]
            if tag in VALUES or tag == OBJECT:  # told apart by their names, wherever they stand
                given = self.page.attributes[t]
                tag = " ".join([tag, *(given[name] for name in NAMES if name in given)])
            code = codes.get(tag)
            if code is None:
                code = codes[tag] = crc32(tag.encode())
            if p < 0:
                place[t] = kind[t] = code
                continue
            depth[t] = depth[p] + 1
            # hashes of whole numbers are the same in every run; those of texts are not
            same = seen[p, code] = seen.get((p, code), -1) + 1
            place[t] = hash((place[p], code, same))
            if tag != "#text":
                rank[t] = n_children[p]
                n_children[p] += 1
                classes = self.page.attributes[t].get("class", "")
                kind[t] = hash((kind[p], code, crc32(classes.split(" ", 1)[0].encode())))
            else:
                kind[t] = hash((kind[p], code, 0))
        self.places = [place[t] for t in self.leaves]
        self.kinds = [kind[t] for t in self.leaves]

    def ancestors(self, k: int) -> list[int]:
        """The nearest elements above leaf k, nearest first; an image is its own first."""
        element = self.elements[k]
        found = self._above.get(element)
        if found is None:
            found = []
            while element >= 0 and len(found) < NEAREST:
                found.append(element)
                element = self.parents[element]
            self._above[self.elements[k]] = found
        return found

    @cached_property
    def folded(self) -> list[str]:
        """Texts of the leaves for comparison, see `fold`."""
        return [fold(text) for text in self.texts]

    @cached_property
    def leaf_of(self) -> dict[int, int]:
        """The leaf of a node."""
        return {t: k for k, t in enumerate(self.leaves)}

    @cached_property
    def on_page(self) -> Counter[str]:
        """How often each text occurs on this page."""
        return Counter(self.folded)

    @cached_property
    def row_heads(self) -> list[str]:
        """For every leaf, the first text of its table row, list item or definition, where that is another leaf."""
        starts: dict[int, str] = {}
        out = []
        parents, tags = self.parents, self.page.tags
        for k, element in enumerate(self.elements):
            row, steps = element, 0
            while row >= 0 and tags[row] not in ROWS and steps < NEAREST:
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
        """Whether the text of a leaf stands on most pages of the site: a caption, not a value."""
        facts = self.facts
        if facts is None or facts.n_pages < 3:
            return self.texts[k].endswith(":")
        return facts.pages_with_text[self.folded[k]] > 0.6 * facts.n_pages

    def is_rare(self, k: int) -> bool:
        """Whether most pages of the site have nothing at the place of leaf k."""
        facts = self.facts
        if facts is None or facts.n_pages < FEWEST_PAGES:
            return False
        return facts.pages_with_place[self.places[k]] <= 0.5 * facts.n_pages

    def share_at_place(self, k: int, word: str) -> float | None:
        """On which share of the site's pages the text at the place of leaf k has a word; None if that is not known.

        Words are in lower case, numbers as many zeros as they have digits, up to five.
        """
        facts = self.facts
        texts = facts.at_place.get(self.places[k], []) if facts is not None else []
        if len(texts) < FEWEST_PAGES:
            return None
        counts = _word_counts(tuple(text[: 5 * LONGEST_TEXT] for text in texts[:MOST_TEXTS]))
        return counts[word] / min(len(texts), MOST_TEXTS)

    @cached_property
    def captions(self) -> list[str]:
        """For every leaf, the nearest fixed text before it, at most six leaves back."""
        out, last, at = [], "", -10
        for k in range(len(self)):
            out.append(last if k - at <= 6 else "")
            if self.is_fixed(k) and self.folded[k]:
                last, at = self.folded[k], k
        return out

    @cached_property
    def roles(self) -> list[int]:
        """A number for the kind of every leaf together with the captions before it."""
        return [hash((kind, _code(a), _code(b))) for kind, a, b in zip(self.kinds, self.captions, self.row_heads)]


@lru_cache(maxsize=512)
def _word_counts(texts: tuple[str, ...]) -> Counter[str]:
    """On how many texts each word or sign is."""
    found: Counter[str] = Counter()
    for text in texts:
        pieces = {piece.lower() for piece in PIECE.findall(text)}
        found.update({"0" * min(len(piece), 5) if piece.isdigit() else piece for piece in pieces})
    return found


def _code(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))


ROWS = frozenset(("tr", "li", "dd", "dl"))


def gather_facts(views: Sequence[View]) -> SiteFacts:
    """What pages of one site have in common.

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


def make_views(pages: Sequence[Page], images: bool = False, data: bool = False) -> list[View]:
    """Views of pages, with the facts of their sites.

    Parameters
    ----------
    pages : sequence of Page
        All pages at hand, labelled or not; those of one site help each other.
    images, data : bool
        Whether images, and values that pages say to programs, are leaves.
    """
    views = [View(page, images, data) for page in pages]
    for rows in made_alike(pages):
        facts = gather_facts([views[i] for i in rows])
        for i in rows:
            views[i].facts = facts
    return views


def value_of(view: View, k: int) -> str:
    """What leaf k shows or says: its text, or the address of an image."""
    return image_address(view.page.attributes[view.leaves[k]]) if view.images[k] else view.texts[k]


def log2_bin(x: float) -> int:
    """A number as one of few: 0, 1, 2-3, 4-7, ..."""
    return int(x).bit_length()
