"""Markup patterns of the items of a listing, learned from one or two labelled items.

A labelled item is specified by a few leaves. The search considers markup that repeats around them: one element per item
(a table row, a card, a list element), or runs of siblings that begin at a mark (a term, a heading, a row of a certain
shape), are separated by marks (a rule, line breaks), or have a fixed length (two items per row). Runs may be split by
columns. The score of a pattern is high if it matches many items similar to the labelled one, with the same kinds of
texts in the same order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from maxendnet.web.pages.elements import words
from maxendnet.web.pages.page import Page
from maxendnet.web.views.outline import Item, Outline, Token

MAX_SIBLINGS = 6  # siblings before the first labelled one that may be the start of an item
MAX_ANCESTORS = 3  # ancestors of the labelled leaves whose children may form items
MAX_STEP = 12  # maximum number of siblings that form an item of fixed length
MAX_PAGES = 8  # pages of a site on which patterns are scored
MAX_ITEMS = 400  # items of a labelled page on which patterns are scored
MAX_LEVELS = 30  # levels searched above the labelled leaves
MAX_FINALISTS = 48  # best patterns on one labelled page, which are then scored on up to MAX_PAGES pages
MIN_GOOD = 0.45  # minimum similarity of a good item to a labelled item
MIN_ITEM = 0.2  # minimum similarity of any item in a region with good items
MIN_REGION = 0.5  # minimum mean similarity of the good items of a region
MIN_REGION_ITEMS = 3  # smaller regions are judged together
NEUTRAL = 0.55  # similarity of an item that does not change the score of a pattern
SPECIFIC = 0.75  # prefer a pattern with a class if its score is at least this times the best score
MAX_PENALTY = 0.1  # maximum penalty of an item in the score of a pattern
# UNITS, MARKS and COLUMNS: factors of the score that favour simple patterns, see Pattern.factor
UNITS = {
    "element": 1.0,
    "from": 0.985,
    "between": 0.975,
    "every": 0.95,
}
MARKS = {"tag": 1.0, "class": 1.0, "void": 1.0, "text": 0.99, "shape": 0.97}
COLUMNS = 0.97
MIN_SHARED = 0.6  # minimum fraction of leaves that similar items have in common
SEPARATORS = words("br hr")

ANY = "any"


class Pattern(NamedTuple):
    """Markup pattern of items.

    Attributes
    ----------
    unit : {"element", "from", "between", "every"}
        ``"element"``: the element is an item. Otherwise its children form items, which begin at a mark (``"from"``),
        are separated by marks (``"between"``), or have a fixed length (``"every"``).
    path : str
        Tag path from the body to the element.
    level, name : int, str
        The ancestor ``level`` levels above the element must have the class ``name``; empty for no condition.
    mark : tuple of str
        Mark of the children that begin or separate items, see `Outline.marks_of`.
    step, offset : int
        For ``"every"``: number of children per item, and index of the first child of the first item.
    columns : bool
        Whether items are split by columns.
    """

    unit: str
    path: str
    level: int = 0
    name: str = ""
    mark: tuple[str, ...] = ()
    step: int = 0
    offset: int = 0
    columns: bool = False

    @property
    def factor(self) -> float:
        """Factor of the score that favours simple patterns."""
        mark = MARKS[self.mark[0]] if self.mark else 1.0
        return UNITS[self.unit] * mark * (COLUMNS if self.columns else 1.0)


# ---- items ----------------------------------------------------------------------------------------------------------


def find_items(outline: Outline, pattern: Pattern) -> list[tuple[int, Item]]:
    """Return all items of a page that match a pattern, each with the element that contains it.

    Examples
    --------
    >>> from maxendnet.web.views.view import View
    >>> outline = Outline(View(Page.from_html("<dl><dt>a<dd>1<dt>b<dd>2<dd>3</dl>")))
    >>> find_items(outline, Pattern("from", "body/dl", mark=("tag", "dt")))
    [(1, [(2, 6)]), (1, [(6, 12)])]
    """
    groups: list[tuple[int, list[int]]] = []
    for t in outline.at.get(pattern.path, ()):
        if pattern.name:
            above = outline.above(t, pattern.level)
            if above < 0 or pattern.name not in outline.page.attributes[above].get("class", "").split():
                continue
        if pattern.unit == "element":
            groups.append((outline.parents[t], [t]))
        else:
            groups += [(t, group) for group in _group(outline, outline.children.get(t, []), pattern)]
    if pattern.columns:
        return [(t, item) for t, group in groups for item in _columns(outline, group)]
    end = outline.page.end
    return [(t, [(group[0], end(group[-1]))]) for t, group in groups]


def _group(outline: Outline, siblings: list[int], pattern: Pattern) -> list[list[int]]:
    """Group siblings into items."""
    if pattern.unit == "every":
        same = [t for t in siblings if outline.page.tags[t] == pattern.mark[1]]
        return [same[k : k + pattern.step] for k in range(pattern.offset, len(same), pattern.step)]
    at = [k for k in range(len(siblings)) if outline.has_mark(siblings, k, pattern.mark)]
    if not at:
        return []
    if pattern.unit == "from":
        bounds = [*at, len(siblings)]
        out = [siblings[a:b] for a, b in pairwise(bounds)]
        if len(out) > 2:  # the last group may include siblings after the last item
            out[-1] = out[-1][: max(map(len, out[:-1]))]
        return out
    width = int(pattern.mark[-1]) if pattern.mark[0] == "void" else 1
    out, begin = [], 0
    for k in [*at, len(siblings)]:
        if begin < k:
            out.append(siblings[begin:k])
        begin = max(begin, k + width)
    return out


def _columns(outline: Outline, rows: list[int]) -> list[Item]:
    """Return one item per column: the cells of the column in all rows."""
    if len(rows) == 1:
        rows = outline.children.get(rows[0], [])
    cells = [[t for t in outline.children.get(row, ()) if outline.page.tags[t] != "#text"] for row in rows]
    end = outline.page.end
    n_columns = max(map(len, cells), default=0)
    return [[(row[q], end(row[q])) for row in cells if q < len(row)] for q in range(n_columns)]


# ---- similarity -----------------------------------------------------------------------------------------------------


def similarity(tokens: Sequence[Token], sample: Sequence[Token], n: int) -> float:
    """Return the number of sample tokens that occur in order, divided by n.

    A token with another tag counts 0.5, and a token with the same tag but another kind counts 0.3.

    Examples
    --------
    >>> similarity([("b", "text"), ("td", "date"), ("td", "price")], [("b", "text"), ("i", "price")], 2)
    0.75
    """
    start, total = 0, 0.0
    for tag, kind in sample:
        best, next_start = 0.0, start
        for k in range(start, len(tokens)):
            same_kind = kind in (ANY, tokens[k][1])
            value = (1.0 if tokens[k][0] == tag else 0.5) if same_kind else 0.3 if tokens[k][0] == tag else 0.0
            if value > best:
                best, next_start = value, k + 1
                if value == 1.0:
                    break
        total, start = total + best, next_start
    return total / max(1, n)


class Sample(NamedTuple):
    """A labelled item.

    Attributes
    ----------
    outline : Outline
        Outline of its page.
    leaves : list of int
        Leaves that are certainly in the item, in document order.
    either : list of list of list of int
        For every value that occurs several times on the page, the leaves of each occurrence.
    tokens : list of Token
        Tokens of its leaves, in order.
    """

    outline: Outline
    leaves: list[int]
    either: list[list[list[int]]]
    tokens: list[Token]

    def is_in(self, item: Item) -> bool:
        """Whether an item contains all values of the sample."""
        nodes = self.outline.view.leaves
        return all(_contains(item, nodes[k]) for k in self.leaves) and all(
            any(all(_contains(item, nodes[k]) for k in leaves) for leaves in places) for places in self.either
        )


class ScoredItems(NamedTuple):
    """Items of a page, and the score of their pattern on the page."""

    items: list[Item]
    score: float


def similar_items(
    outline: Outline, pattern: Pattern, samples: Sequence[Sequence[Token]], near: int | None = None
) -> ScoredItems:
    """Return the items that match a pattern and are similar to a labelled item.

    Items in the same element form a region. A region counts only if its good items are similar enough on average. If
    there are more than `MAX_ITEMS` items, only those around the node ``near`` are considered.
    """
    n = max(map(len, samples), default=1)
    regions: dict[int, list[tuple[Item, float]]] = {}
    candidates = find_items(outline, pattern)
    if near is not None and len(candidates) > MAX_ITEMS:
        center = bisect_left([item[0][0] for _, item in candidates], near) if not pattern.columns else 0
        candidates = candidates[max(0, center - MAX_ITEMS // 2) : center + MAX_ITEMS // 2]
    for around, item in candidates:
        tokens = [outline.tokens[k] for k in outline.leaves_in(item)]
        if tokens:
            value = max(similarity(tokens, sample, n) for sample in samples)
            regions.setdefault(around, []).append((item, value))
    items: list[Item] = []
    score = 0.0
    small = [pair for region in regions.values() if len(region) < MIN_REGION_ITEMS for pair in region]
    for region in [small, *(region for region in regions.values() if len(region) >= MIN_REGION_ITEMS)]:
        good = [value for _, value in region if value >= MIN_GOOD]
        # accept a listing with some dissimilar items, but not a menu that contains a price
        if good and sum(good) / len(good) >= MIN_REGION:
            items += [item for item, value in region if value >= MIN_ITEM]
            score += sum(max((value - NEUTRAL) / (1.0 - NEUTRAL), -MAX_PENALTY) for _, value in region)
        else:
            score -= MAX_PENALTY * len(region)
    return ScoredItems(sorted(items, key=lambda item: item[0]), score)


# ---- the search -----------------------------------------------------------------------------------------------------


class Listing(NamedTuple):
    """Model of the items of a site's listings.

    Attributes
    ----------
    patterns : list of Pattern
        Patterns of the items. On every page the pattern with the highest score is used.
    samples : list of list of Token
        Tokens of the labelled items.
    """

    patterns: list[Pattern]
    samples: list[list[Token]]

    def items(self, outline: Outline) -> list[Item]:
        """Return the items of a page; empty if it is not a listing."""
        by_pattern = [similar_items(outline, pattern, self.samples) for pattern in self.patterns]
        return max(by_pattern, key=lambda scored: scored.score).items if by_pattern else []

    def to_plain(self) -> dict[str, Any]:
        """Return the model as JSON values, to be stored in a file."""
        return {"patterns": [list(pattern) for pattern in self.patterns], "samples": self.samples}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Listing:
        """Return the model from the output of `to_plain`.

        Raises
        ------
        ValueError, TypeError, KeyError
            ``plain`` is damaged.
        """
        patterns = []
        for unit, path, level, name, mark, step, offset, columns in plain["patterns"]:
            texts = [unit, path, name, *mark]
            numbers = [level, step, offset]
            if not all(isinstance(text, str) for text in texts) or any(type(n) is not int or n < 0 for n in numbers):
                raise TypeError(f"a pattern of items has names and numbers, got {texts} and {numbers}")
            needs_mark = unit != "element"
            if unit not in UNITS or needs_mark != bool(mark) or (mark and (mark[0] not in MARKS or len(mark) < 2)):
                raise ValueError(f"there is no pattern of items {unit!r} with the mark {mark!r}")
            if (unit == "every" and step < 1) or (mark and mark[0] == "void" and not 1 <= int(mark[-1]) <= MAX_STEP):
                raise ValueError(
                    f"a pattern of items has the step {step} and the mark {mark!r}; expected at least one element"
                )
            patterns.append(Pattern(unit, path, level, name, tuple(mark), step, offset, bool(columns)))
        samples = [[(str(tag), str(kind)) for tag, kind in sample] for sample in plain["samples"]]
        return cls(patterns, samples)


def sample_of(outline: Outline, places: Sequence[Sequence[Sequence[int]]]) -> Sample:
    """Return the labelled item whose values have these possible places.

    Parameters
    ----------
    outline : Outline
    places : list of list of list of int
        For every value its possible places, each a list of leaves.
    """
    chosen = _nearest(places)
    unambiguous = [leaves for leaves, of_value in zip(chosen, places) if len(of_value) == 1]
    either = [[list(leaves) for leaves in of_value] for of_value in places if len(of_value) > 1] if unambiguous else []
    n_fields = Counter(k for leaves in chosen for k in leaves)
    # a text with several fields may have fewer fields, and thus another kind, in other items
    tokens = [(outline.tokens[k][0], ANY if n_fields[k] > 1 else outline.tokens[k][1]) for k in sorted(n_fields)]
    return Sample(outline, sorted({k for leaves in unambiguous or chosen for k in leaves}), either, tokens)


def _nearest(places: Sequence[Sequence[Sequence[int]]]) -> list[Sequence[int]]:
    """Choose a place for every value so that all values are close together.

    Examples
    --------
    >>> _nearest([[[5]], [[3], [7]], [[8]]])
    [[5], [7], [8]]
    """
    order = sorted(range(len(places)), key=lambda f: len(places[f]))
    best: tuple[int, dict[int, Sequence[int]]] | None = None
    for start in places[order[0]]:
        chosen: dict[int, Sequence[int]] = {order[0]: start}
        low, high = start[0], start[-1]
        for f in order[1:]:
            chosen[f] = min(
                places[f], key=lambda leaves: (max(low - leaves[0], 0) + max(leaves[-1] - high, 0), -leaves[0])
            )
            low, high = min(low, chosen[f][0]), max(high, chosen[f][-1])
        if best is None or high - low < best[0]:
            best = high - low, chosen
    assert best is not None
    return [best[1][f] for f in range(len(places))]


def learn_listing(samples: Sequence[Sample], unlabelled: Sequence[Outline] = (), min_items: int = 2) -> Listing | None:
    """Return patterns that match the labelled items and similar ones.

    Parameters
    ----------
    samples : sequence of Sample
        Labelled items of one site.
    unlabelled : sequence of Outline
        Further pages of the site.
    min_items : int
        Minimum number of items on a labelled page.

    Returns
    -------
    Listing or None
        None if no markup repeats around the labelled items.
    """
    patterns: list[Pattern] = []
    remaining = list(samples)
    tokens = [sample.tokens for sample in samples]
    while remaining:
        pattern = _best_pattern(remaining, samples, unlabelled, min_items)
        if pattern is None:
            remaining = remaining[1:]
            continue
        patterns.append(pattern)
        remaining = [sample for sample in remaining if not _matches(pattern, sample, tokens)]
    return Listing(patterns, tokens) if patterns else None


def n_similar_items(sample: Sample, listing: Listing) -> int:
    """Return the number of items on a page that are similar to a labelled item, or 0 if most items are not.

    All leaves are compared, also those without a field, because the sections of a page with one record may each contain
    a name and a price, but differ otherwise.
    """
    outline = sample.outline
    items = listing.items(outline)
    counts = [Counter(outline.tokens[k] for k in outline.leaves_in(item)) for item in items]
    labelled = next((tokens for tokens, item in zip(counts, items) if sample.is_in(item)), None)
    if labelled is None:
        return 0
    n = sum(2 * (labelled & tokens).total() >= MIN_SHARED * (labelled.total() + tokens.total()) for tokens in counts)
    return n if 2 * n >= len(items) else 0


def _best_pattern(
    remaining: Sequence[Sample], samples: Sequence[Sample], unlabelled: Sequence[Outline], min_items: int
) -> Pattern | None:
    """Return the pattern that matches the first remaining sample and most others, and has the highest score."""
    first = remaining[0]
    tokens = [sample.tokens for sample in samples]
    same_page = [sample for sample in samples if sample.outline is first.outline and sample is not first]
    node = first.outline.view.leaves[first.leaves[0]]
    scored: list[tuple[int, float, Pattern]] = []
    for pattern in dict.fromkeys(candidates(first)):
        items, score = similar_items(first.outline, pattern, tokens, node)
        if len(items) < min_items or not _is_separate(first, same_page, items):
            continue
        n_matches = sum(_matches(pattern, sample, tokens) for sample in remaining)
        scored.append((n_matches, score * pattern.factor, pattern))
    if not scored:
        return None
    most = max(n_matches for n_matches, _, _ in scored)
    scored = sorted((row for row in scored if row[0] == most), key=lambda row: -row[1])[:MAX_FINALISTS]
    pages = list({id(o): o for o in [*(sample.outline for sample in samples), *unlabelled]}.values())[:MAX_PAGES]
    finalists = []
    for _, score, pattern in scored:
        if score < 0.5 * scored[0][1]:
            continue
        total = sum(similar_items(outline, pattern, tokens).score for outline in pages)
        finalists.append((total * pattern.factor, pattern))
    best = max(score for score, _ in finalists)
    # prefer a pattern with a class, which excludes other lists, unless it also excludes items
    with_class = [(score, pattern) for score, pattern in finalists if pattern.name or pattern.mark[:1] == ("class",)]
    if with_class and max(score for score, _ in with_class) >= SPECIFIC * best:
        finalists = with_class
    # at equal scores prefer the outermost element, because it may contain unlabelled values
    return max(
        finalists, key=lambda row: (round(row[0], 6), -row[1].path.count("/"), row[1].name != "", -row[1].level)
    )[1]


def _is_separate(sample: Sample, same_page: Sequence[Sample], items: Sequence[Item]) -> bool:
    """Whether an item contains the sample, but no leaf of the other samples on the page."""
    nodes = sample.outline.view.leaves
    item = next((item for item in items if sample.is_in(item)), None)
    return item is not None and not any(_contains(item, nodes[k]) for s in same_page for k in s.leaves)


def _matches(pattern: Pattern, sample: Sample, tokens: Sequence[Sequence[Token]]) -> bool:
    """Whether a pattern matches an item that contains the sample."""
    return any(sample.is_in(item) for item in similar_items(sample.outline, pattern, tokens).items)


def _contains(item: Item, node: int) -> bool:
    return any(a <= node < b for a, b in item)


def candidates(sample: Sample) -> Iterator[Pattern]:
    """Yield candidate patterns for a labelled item."""
    outline = sample.outline
    nodes = [outline.view.leaves[k] for k in sample.leaves]
    around = outline.view.elements[sample.leaves[0]] if len(nodes) == 1 else _common(outline, nodes)
    t, level = around, 0
    while outline.parents[t] >= 0 and level < MAX_LEVELS:
        for selector in _selectors(outline, t):
            yield Pattern("element", *selector)
            if len(nodes) > 1 and level < 2:
                yield Pattern("element", *selector, columns=True)
        t, level = outline.parents[t], level + 1
    t = around
    for _ in range(MAX_ANCESTORS + 1):
        if t < 0:
            return
        yield from _of_children(outline, t, nodes)
        t = outline.parents[t]


def _of_children(outline: Outline, t: int, nodes: Sequence[int]) -> Iterator[Pattern]:
    """Yield patterns in which groups of an element's children are items."""
    siblings = outline.children.get(t, [])
    if len(siblings) < 2 or nodes[0] <= t:
        return
    first = max(k for k, s in enumerate(siblings) if s <= nodes[0])
    last = max(k for k, s in enumerate(siblings) if s <= nodes[-1])
    selectors = list(islice(_selectors(outline, t), 2))
    before = range(max(0, first - MAX_SIBLINGS), first)
    after = range(last + 1, min(len(siblings), last + 1 + MAX_SIBLINGS))
    marks = dict.fromkeys(m for k in [*before, first] for m in outline.marks_of(siblings[k]))
    between = dict.fromkeys(
        m
        for k in [*before, *after]
        for m in outline.marks_of(siblings[k])
        if m[0] in ("class", "shape") or m[1] in SEPARATORS
    )
    for tag in SEPARATORS:
        for n in (2, 3):
            between["void", tag, str(n)] = None
    tag = outline.page.tags[siblings[first]]
    same_tag = [s for s in siblings if outline.page.tags[s] == tag]
    for path, level, name in selectors:
        for columns in (False, True):
            for mark in marks:
                yield Pattern("from", path, level, name, mark, columns=columns)
            for mark in between:
                yield Pattern("between", path, level, name, mark, columns=columns)
            if tag == "#text" or siblings[last] not in same_tag:
                continue
            a, b = same_tag.index(siblings[first]), same_tag.index(siblings[last])
            for step in range(max(2, b - a + 1), min(MAX_STEP, len(same_tag) - 1) + 1):
                for begin in range(max(0, b - step + 1), a + 1):
                    yield Pattern("every", path, level, name, ("tag", tag), step, begin % step, columns)


def _selectors(outline: Outline, t: int) -> Iterator[tuple[str, int, str]]:
    """Yield conditions that select elements similar to t: its path, and a class of t or of an ancestor."""
    yield outline.paths[t], 0, ""
    level, above = 0, t
    while above > 0 and level < MAX_LEVELS:
        for name in outline.names(above):
            yield outline.paths[t], level, name
        above, level = outline.parents[above], level + 1


def _common(outline: Outline, nodes: Sequence[int]) -> int:
    """Return the lowest common ancestor of nodes in document order."""
    t = nodes[0] if outline.page.tags[nodes[0]] != "#text" else outline.parents[nodes[0]]
    while outline.page.end(t) <= nodes[-1]:
        t = outline.parents[t]
    return t


# ---- items as pages -------------------------------------------------------------------------------------------------


def page_of_item(page: Page, item: Item) -> Page:
    """Return an item as a separate small page. Its ``nodes`` are node numbers on the original page.

    Examples
    --------
    >>> page = Page.from_html("<ul><li>a<li><b>c</b> d</ul>")
    >>> small = page_of_item(page, [(4, 8)])
    >>> small.tags, small.nodes.tolist()
    (['body', 'li', 'b', '#text', '#text'], [1, 4, 5, 6, 7])
    """
    parent = max(0, int(page.parents[item[0][0]]))
    small = page.select([parent, *(t for a, b in item for t in range(a, b))])
    small.tags[0], small.attributes[0] = "body", {}
    small.name, small.site, small.url, small.source = page.name, page.site, page.url, page
    return small if page.layout is None else small.with_layout(page.layout[small.nodes])
