"""Lists of values of one field, such as ingredients, learned from labelled lists and extracted as a whole.

The elements of a list are like each other, so a list is one decision instead of one for each element: a selector that
matches the labelled elements of a page, and nothing else on it, matches all elements of the list on other pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.spans import Span, span_of_leaves, span_text
from maxendnet.web.views.outline import readable_classes
from maxendnet.web.views.view import View
from maxendnet.web.views.words import words_of

MAX_LEVELS = 7  # levels above an element at which a class is part of a selector
MAX_CLASSES = 12  # of an element
MAX_PATH = 4  # tags in the path of a selector
MAX_LEAVES = 40  # of an element of a list
MAX_SHARE = 5.0  # of an element in the score of a list
MAX_CANDIDATES = 200  # selectors that match the most labelled values, which are then compared
MAX_FINALISTS = 40  # of these, which are also looked up on unlabelled pages
MAX_SELECTORS = 3  # selectors of a list that has parts with different markup
MIN_GAIN = 0.02  # of F1 by another selector
MIN_F1 = 0.6  # on labelled pages; otherwise each element is decided separately
PAGES_WEIGHT = 0.05  # of the share of pages on which a selector matches, beside F1 on labelled pages
SIGNS = re.compile(r"^[^\w\s(\[{\"'“‘«<>=~+$€£¥#@&*-]+\s*")
"""Bullets and check boxes before a value."""


class Selector(NamedTuple):
    """Elements with a path of tags, and optionally a class.

    Attributes
    ----------
    path : tuple of str
        Tags of the element and of those above it, the element last.
    level : int
        Level above the element at which ``name`` is looked up.
    name : str
        Class; empty for no condition.
    """

    path: tuple[str, ...]
    level: int = 0
    name: str = ""

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """Preference between selectors that match the same elements: with a class near the element, short paths."""
        is_stable = bool(readable_classes({"class": self.name}))
        return bool(self.name), is_stable, -self.level, -len(self.path) if self.name else len(self.path)

    def matches(self, view: View, t: int) -> bool:
        """Whether an element matches."""
        tags, parents = view.page.tags, view.parents
        if tags[t] != self.path[-1]:
            return False
        above = t
        for tag in self.path[-2::-1]:
            above = parents[above]
            if above < 0 or tags[above] != tag:
                return False
        above = t
        for _ in range(self.level):
            above = parents[above] if above >= 0 else above
        return not self.name or (above >= 0 and self.name in view.page.attributes[above].get("class", "").split())


class ValueList(NamedTuple):
    """Model of the lists of a field on the pages of a site.

    Attributes
    ----------
    selectors : list of Selector
        Their matches together are the elements of the list.
    n_correct, n_wrong : int
        Elements on the labelled pages that are labelled, and that are not or are missing.
    signs : bool
        Whether labelled values begin with signs such as bullets, which are dropped otherwise.
    """

    selectors: list[Selector]
    n_correct: int
    n_wrong: int
    signs: bool

    @property
    def confidence(self) -> float:
        """Probability, by the rule of succession, that an element of the list is correct and none is missing."""
        return (self.n_correct + 1) / (self.n_correct + self.n_wrong + 2)

    def spans(self, view: View) -> list[Span]:
        """Return the spans of the elements of the list on a page, in document order."""
        ranges: dict[tuple[int, int], None] = {}
        for t, tag in enumerate(view.page.tags):
            if tag != "#text" and any(selector.matches(view, t) for selector in self.selectors):
                a, b = view.leaf_range(t)
                inside = bool(ranges) and a < next(reversed(ranges))[1]
                if a < b and not inside:
                    ranges[a, b] = None
        return [span_of_leaves(view, a, b) for a, b in ranges]

    def text(self, view: View, span: Span) -> str:
        """Return the text of an element of the list."""
        text = span_text(view, span)
        return text if self.signs else SIGNS.sub("", text) or text

    def to_plain(self) -> dict[str, Any]:
        """Return the model as JSON values, to be stored in a file."""
        return {**self._asdict(), "selectors": [list(selector) for selector in self.selectors]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ValueList:
        """Return the model from the output of `to_plain`; ValueError, TypeError or KeyError if it is damaged."""
        selectors = []
        for path, level, name in plain["selectors"]:
            if (
                not path
                or not all(isinstance(text, str) for text in [*path, name])
                or not 0 <= int(level) <= MAX_LEVELS
            ):
                raise ValueError(f"there is no selector with path {path!r}, level {level!r} and class {name!r}")
            selectors.append(Selector(tuple(path), int(level), name))
        n_correct, n_wrong = int(plain["n_correct"]), int(plain["n_wrong"])
        if n_correct < 0 or n_wrong < 0:
            raise ValueError(f"a list has {n_correct} correct and {n_wrong} wrong elements; expected numbers from 0")
        return cls(selectors, n_correct, n_wrong, bool(plain["signs"]))


class LabelledList(NamedTuple):
    """A page, and the labelled values of a field on it."""

    view: View
    values: Collection[str]

    @property
    def words(self) -> set[str]:
        """Words of each value."""
        return {" ".join(words_of(value)) for value in self.values} - {""}


def learn_list(labelled: Sequence[LabelledList], unlabelled: Sequence[View] = ()) -> ValueList | None:
    """Return the selectors that match the labelled lists best, or None if none matches most of their elements.

    Parameters
    ----------
    labelled : sequence of LabelledList
        Labelled pages of one site, with all values of the field on each page.
    unlabelled : sequence of View
        Further pages of the site: selectors that match there too are preferred.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> def page(*items):
    ...     return View(Page.from_html("<ul><li>Home</ul><ul class=list><li>" + "<li>".join(items) + "</ul>"))
    >>> learned = learn_list([LabelledList(page("1 cup", "2 pots"), ["1 cup", "2 pots"])])
    >>> view = page("3 cups", "a pot", "salt")
    >>> [learned.text(view, span) for span in learned.spans(view)]
    ['3 cups', 'a pot', 'salt']
    """
    covered: Counter[Selector] = Counter()
    for page in labelled:
        by_words = page.view.elements_by_words
        pairs = {
            (selector, words)
            for words in page.words
            for t in by_words.get(words, ())
            for selector in _selectors(page.view, t)
        }
        covered.update(selector for selector, _ in pairs)
    candidates = sorted(covered, key=lambda selector: (-covered[selector], *(-x for x in selector.rank)))
    targets = frozenset((i, words) for i, page in enumerate(labelled) for words in page.words)
    matches = {selector: _Matches.of(selector, labelled, targets) for selector in candidates[:MAX_CANDIDATES]}
    n_pages = max(1, len(unlabelled))
    chosen: list[Selector] = []
    union = _Matches(
        frozenset(), frozenset(), frozenset((i, words) for i, x in enumerate(labelled) for words in x.words)
    )
    while len(chosen) < MAX_SELECTORS:
        joined = {selector: union.with_others(of_selector) for selector, of_selector in matches.items()}
        best = max((x.f1 for x in joined.values()), default=0.0)
        if best < union.f1 + MIN_GAIN:
            break
        near = [selector for selector, x in joined.items() if x.f1 >= best - PAGES_WEIGHT]
        score = {
            selector: joined[selector].f1
            + PAGES_WEIGHT * sum(_occurs(selector, view) for view in unlabelled) / n_pages
            for selector in near[:MAX_FINALISTS]
        }  # fmt: skip
        selector = max(score, key=lambda x: (round(score[x], 3), *x.rank))
        if joined[selector].f1 < union.f1 + MIN_GAIN:
            break
        chosen.append(selector)
        union = joined[selector]
    if union.f1 < MIN_F1:
        return None
    signs = any(SIGNS.match(value) for page in labelled for value in page.values)
    return ValueList(chosen, len(union.correct), len(union.wrong) + len(union.targets - union.correct), signs)


class _Matches(NamedTuple):
    """Texts of elements on labelled pages, as pairs of page and words: labelled ones, others, and all labels."""

    correct: frozenset[tuple[int, str]]
    wrong: frozenset[tuple[int, str]]
    targets: frozenset[tuple[int, str]]

    @classmethod
    def of(
        cls, selector: Selector, labelled: Sequence[LabelledList], targets: frozenset[tuple[int, str]]
    ) -> _Matches:  # fmt: skip
        correct: set[tuple[int, str]] = set()
        wrong: set[tuple[int, str]] = set()
        candidate = ValueList([selector], 0, 0, True)
        for i, page in enumerate(labelled):
            for span in candidate.spans(page.view):
                if words := " ".join(words_of(span_text(page.view, span))):
                    (correct if (i, words) in targets else wrong).add((i, words))
        return cls(frozenset(correct), frozenset(wrong), targets)

    def with_others(self, others: _Matches) -> _Matches:
        return _Matches(self.correct | others.correct, self.wrong | others.wrong, self.targets)

    @property
    def f1(self) -> float:
        n = len(self.targets) + len(self.correct) + len(self.wrong)
        return 2 * len(self.correct) / n if n else 0.0


def _occurs(selector: Selector, view: View) -> bool:
    return any(tag == selector.path[-1] and selector.matches(view, t) for t, tag in enumerate(view.page.tags))


def _selectors(view: View, t: int) -> Iterator[Selector]:
    """Yield the selectors of an element, and of those around it with the same leaves."""
    leaves = view.leaf_range(t)
    while t > 0 and view.leaf_range(t) == leaves:
        path, above = [view.page.tags[t]], t
        names = [
            (n, name) for n, s in _above(view, t) for name in view.page.attributes[s].get("class", "").split()[:12]
        ]
        for _ in range(MAX_PATH):
            yield Selector(tuple(path))
            for level, name in names:
                yield Selector(tuple(path), level, name)
            above = view.parents[above]
            if above < 0:
                break
            path.insert(0, view.page.tags[above])
        t = view.parents[t]


def _above(view: View, t: int) -> Iterator[tuple[int, int]]:
    """Yield an element and those above it, each with its level."""
    for level in range(MAX_LEVELS + 1):
        if t < 0:
            return
        yield level, t
        t = view.parents[t]


# ---- lists without labels on their site ----------------------------------------------------------------------------


def like_elements(view: View, margins: NDArray[np.float64], k: int, taken: Collection[int] = ()) -> list[Span]:
    """Return the spans of the elements of the list around a leaf that most likely has the values of a field.

    A list consists of the elements with the same tag, classes and path. Its score is the sum, over its elements, of the
    margin of their best leaf, so one decision is made for the whole list.

    Parameters
    ----------
    view : View
    margins : ndarray of shape (n_leaves,)
        Margins of the field. They are negative at leaves that more likely belong to no element of the list.
    k : int
        Leaf in an element of the list.
    taken : collection of int
        Leaves with other fields.

    Returns
    -------
    list of Span
        Empty if the score of every list is negative.
    """
    lists: dict[Any, dict[tuple[int, int], float]] = {}
    keys: dict[int, Any] = {}
    for t, tag in enumerate(view.page.tags):
        p = view.parents[t]
        if tag == "#text" or p < 0:
            continue
        keys[t] = tag, view.page.attributes[t].get("class", ""), keys.get(p, ())[:2], keys.get(view.parents[p], ())[:2]
        a, b = view.leaf_range(t)
        if a < b <= a + MAX_LEAVES and not any(k in taken for k in range(a, b)):
            best = float(np.clip(margins[a:b].max(), -MAX_SHARE, MAX_SHARE))
            lists.setdefault(keys[t], {}).setdefault((a, b), best)
    scored = [
        (sum(of_list.values()), -n, of_list)
        for n, of_list in enumerate(lists.values())
        if len(of_list) > 1 and any(a <= k < b for a, b in of_list)
    ]
    score, _, best_list = max(scored, key=lambda row: row[:2], default=(0.0, 0, {}))
    return [span_of_leaves(view, a, b) for a, b in best_list] if score > 0 else []
