"""Where the records of a listing are: a pattern of markup, found from one or two labelled records.

A labelled record is a few leaves. What repeats around them is looked for: an element for every record (a row, a card,
an item), or stretches of siblings, which begin at a mark (a term, a heading, a row of a certain shape), lie between
marks (a rule, line breaks), or have a fixed length (two records a row); and such stretches may be cut by columns. A
pattern is good if it gives many parts that look like the labelled record: the same kinds of texts in the same order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from maxendnet.web.pages.page import Page, words
from maxendnet.web.views.outline import Item, Outline, Token

BACK = 6  # siblings before the first labelled one that may begin a record
ABOVE = 3  # elements above the labelled leaves whose children may be records
LONGEST_STEP = 12  # siblings of a record without marks
MOST_PAGES = 8  # of a site that patterns are tried on
MOST_PARTS = 400  # that a pattern is tried on, on a labelled page
HIGHEST = 30  # elements above the labelled leaves that may be records
FINALISTS = 12  # patterns that are tried on more than the labelled pages
ALIKE = 0.45  # of the labelled leaves, what a part must have to be a record
LEAST = 0.2  # the same for a part made of the same elements as a labelled record
REGION = 0.5  # the same, mean over the records under one element
FEW = 3  # records under one element that are not looked at by themselves
EVEN = 0.55  # a part that has so much speaks neither for a pattern nor against it
SPECIFIC = 0.75  # a pattern with a class is taken if it finds that share of what the best one finds
JUNK = 0.1  # the most that a part which is no record costs
UNITS = {
    "element": 1.0,
    "from": 0.985,
    "between": 0.975,
    "every": 0.95,
}  # simple patterns first, when all else is equal
MARKS = {"tag": 1.0, "class": 1.0, "void": 1.0, "text": 0.99, "shape": 0.97}
COLUMNS = 0.97
MADE_ALIKE = 0.6  # of the leaves of two records, what they must share to be made alike
SEPARATORS = words("br hr")

ANY = "any"


class Pattern(NamedTuple):
    """Where records are.

    Attributes
    ----------
    unit : {"element", "from", "between", "every"}
        An element is a record, or its children make several.
    path : str
        Tags from the body to the element.
    level, name : int, str
        A class that the element, or the one so many above, must have; empty: none.
    mark : tuple of str
        Of the children that begin records, or lie between them.
    step, offset : int
        Of ``"every"``: how many children are a record, and which is the first.
    columns : bool
        Whether what was found is cut by columns.
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
        mark = MARKS[self.mark[0]] if self.mark else 1.0
        return UNITS[self.unit] * mark * (COLUMNS if self.columns else 1.0)


# ---- parts ----------------------------------------------------------------------------------------------------------


def parts_of(outline: Outline, pattern: Pattern) -> list[tuple[int, Item]]:
    """What a pattern finds on a page: the element around, and the nodes of every part, in order.

    Examples
    --------
    >>> from maxendnet.web.views.view import View
    >>> outline = Outline(View(Page.from_html("<dl><dt>a<dd>1<dt>b<dd>2<dd>3</dl>")))
    >>> parts_of(outline, Pattern("from", "body/dl", mark=("tag", "dt")))
    [(1, [(2, 6)]), (1, [(6, 12)])]
    """
    found: list[tuple[int, list[int]]] = []
    for t in outline.at.get(pattern.path, ()):
        if pattern.name:
            above = outline.above(t, pattern.level)
            if above < 0 or pattern.name not in outline.page.attributes[above].get("class", "").split():
                continue
        if pattern.unit == "element":
            found.append((outline.parents[t], [t]))
        else:
            found += [(t, some) for some in _stretches(outline, outline.children.get(t, []), pattern)]
    if pattern.columns:
        return [(t, part) for t, some in found for part in _columns(outline, some)]
    end = outline.page.end
    return [(t, [(some[0], end(some[-1]))]) for t, some in found]


def _stretches(outline: Outline, siblings: list[int], pattern: Pattern) -> list[list[int]]:
    """Siblings that belong together."""
    if pattern.unit == "every":
        same = [t for t in siblings if outline.page.tags[t] == pattern.mark[1]]
        return [same[k : k + pattern.step] for k in range(pattern.offset, len(same), pattern.step)]
    at = [k for k in range(len(siblings)) if outline.has_mark(siblings, k, pattern.mark)]
    if not at:
        return []
    if pattern.unit == "from":
        bounds = [*at, len(siblings)]
        out = [siblings[a:b] for a, b in pairwise(bounds)]
        if len(out) > 2:  # what follows the last record is no part of it
            out[-1] = out[-1][: max(map(len, out[:-1]))]
        return out
    wide = int(pattern.mark[-1]) if pattern.mark[0] == "void" else 1
    out, begin = [], 0
    for k in [*at, len(siblings)]:
        if begin < k:
            out.append(siblings[begin:k])
        begin = max(begin, k + wide)
    return out


def _columns(outline: Outline, rows: list[int]) -> list[Item]:
    """Cells of the same column together."""
    if len(rows) == 1:
        rows = outline.children.get(rows[0], [])
    cells = [[t for t in outline.children.get(row, ()) if outline.page.tags[t] != "#text"] for row in rows]
    end = outline.page.end
    return [
        [(some[q], end(some[q])) for some in cells if q < len(some)] for q in range(max(map(len, cells), default=0))
    ]


# ---- likeness -------------------------------------------------------------------------------------------------------


def likeness(tokens: Sequence[Token], wanted: Sequence[Token], n: int) -> float:
    """Which share of n wanted leaves is there, in their order; another tag counts half.

    Examples
    --------
    >>> likeness([("b", "text"), ("td", "date"), ("td", "price")], [("b", "text"), ("i", "price")], 2)
    0.75
    """
    at, found = 0, 0.0
    for tag, kind in wanted:
        best, where = 0.0, at
        for k in range(at, len(tokens)):
            same = kind in (ANY, tokens[k][1])
            value = (1.0 if tokens[k][0] == tag else 0.5) if same else 0.3 if tokens[k][0] == tag else 0.0
            if value > best:
                best, where = value, k + 1
                if value == 1.0:
                    break
        found, at = found + best, where
    return found / max(1, n)


class Sample(NamedTuple):
    """A labelled record.

    Attributes
    ----------
    outline : Outline
        Of its page.
    leaves : list of int
        That are surely in it, in order.
    either : list of list of list of int
        For every value that several places show, the leaves of each.
    tokens : list of Token
        What its leaves look like, in order.
    """

    outline: Outline
    leaves: list[int]
    either: list[list[list[int]]]
    tokens: list[Token]

    def lies_in(self, part: Item) -> bool:
        """Whether a part has all of it."""
        at = self.outline.view.leaves
        return all(_inside(at[k], part) for k in self.leaves) and all(
            any(all(_inside(at[k], part) for k in leaves) for leaves in places) for places in self.either
        )


class Found(NamedTuple):
    """Parts of a page that are records, with their likeness to a labelled one."""

    parts: list[Item]
    value: float


def find_parts(
    outline: Outline, pattern: Pattern, samples: Sequence[Sequence[Token]], near: int | None = None
) -> Found:
    """Parts that look like a labelled record; where few under an element do, none of them.

    With ``near``, a node, of very many parts only those around it are looked at.
    """
    n = max(map(len, samples), default=1)
    regions: dict[int, list[tuple[Item, float]]] = {}
    parts = parts_of(outline, pattern)
    if near is not None and len(parts) > MOST_PARTS:
        at = bisect_left([part[0][0] for _, part in parts], near) if not pattern.columns else 0
        parts = parts[max(0, at - MOST_PARTS // 2) : at + MOST_PARTS // 2]
    for around, part in parts:
        tokens = [outline.tokens[k] for k in outline.leaves_in(part)]
        if tokens:
            alike = max(likeness(tokens, wanted, n) for wanted in samples)
            regions.setdefault(around, []).append((part, alike))
    kept: list[tuple[Item, float]] = []
    value = 0.0
    small = [item for some in regions.values() if len(some) < FEW for item in some]  # rows of two, say: seen together
    for some in [small, *(some for some in regions.values() if len(some) >= FEW)]:
        good = [alike for _, alike in some if alike >= ALIKE]
        # what lies between records may be unlike them, but a menu with a price in it is no list of records
        if good and sum(good) / len(good) >= REGION:
            kept += [(part, alike) for part, alike in some if alike >= LEAST]
            value += sum(max((alike - EVEN) / (1.0 - EVEN), -JUNK) for _, alike in some)
        else:
            value -= JUNK * len(some)
    kept.sort(key=lambda item: item[0][0])
    return Found([part for part, _ in kept], value)


# ---- the search -----------------------------------------------------------------------------------------------------


class Listing(NamedTuple):
    """How the records of a site's listings are found.

    Attributes
    ----------
    patterns : list of Pattern
        Of those, the one that finds most on a page is taken.
    samples : list of list of Token
        What labelled records look like.
    """

    patterns: list[Pattern]
    samples: list[list[Token]]

    def records(self, outline: Outline) -> list[Item]:
        """Records of a page; none, if it is no listing."""
        found = [find_parts(outline, pattern, self.samples) for pattern in self.patterns]
        return max(found, key=lambda some: some.value).parts if found else []

    def to_plain(self) -> dict[str, Any]:
        """As lists and numbers, for a file."""
        return {"patterns": [list(pattern) for pattern in self.patterns], "samples": self.samples}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Listing:
        """What `to_plain` gave; a ValueError, TypeError or KeyError if it is something else."""
        patterns = []
        for unit, path, level, name, mark, step, offset, columns in plain["patterns"]:
            texts = [unit, path, name, *mark]
            numbers = [level, step, offset]
            if not all(isinstance(text, str) for text in texts) or any(type(n) is not int or n < 0 for n in numbers):
                raise TypeError("a pattern of records has something else than names and numbers")
            marked = unit != "element"
            if unit not in UNITS or marked != bool(mark) or (mark and (mark[0] not in MARKS or len(mark) < 2)):
                raise ValueError(f"there is no pattern of records {unit!r} with the mark {mark!r}")
            if (unit == "every" and step < 1) or (
                mark and mark[0] == "void" and not 1 <= int(mark[-1]) <= LONGEST_STEP
            ):
                raise ValueError("a pattern of records repeats after no element")
            patterns.append(Pattern(unit, path, level, name, tuple(mark), step, offset, bool(columns)))
        samples = [[(str(tag), str(kind)) for tag, kind in sample] for sample in plain["samples"]]
        return cls(patterns, samples)


def sample_of(outline: Outline, places: Sequence[Sequence[Sequence[int]]]) -> Sample:
    """A labelled record, of the leaves that each of its values may be on.

    Parameters
    ----------
    outline : Outline
    places : list of list of list of int
        For every value the places where it may be, and their leaves.
    """
    chosen = _nearest(places)
    sure = [some for some, found in zip(chosen, places) if len(found) == 1]
    either = [[list(some) for some in found] for found in places if len(found) > 1] if sure else []
    times = Counter(k for some in chosen for k in some)
    # a text with several fields may have fewer in another record: its kind says little
    tokens = [(outline.tokens[k][0], ANY if times[k] > 1 else outline.tokens[k][1]) for k in sorted(times)]
    return Sample(outline, sorted({k for some in sure or chosen for k in some}), either, tokens)


def _nearest(places: Sequence[Sequence[Sequence[int]]]) -> list[Sequence[int]]:
    """Of every value the place that makes the stretch over all of them short.

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
            chosen[f] = min(places[f], key=lambda some: (max(low - some[0], 0) + max(some[-1] - high, 0), -some[0]))
            low, high = min(low, chosen[f][0]), max(high, chosen[f][-1])
        if best is None or high - low < best[0]:
            best = high - low, chosen
    assert best is not None
    return [best[1][f] for f in range(len(places))]


def find_listing(samples: Sequence[Sample], others: Sequence[Outline] = (), fewest: int = 2) -> Listing | None:
    """The patterns by which the labelled records, and those like them, are found.

    Parameters
    ----------
    samples : sequence of Sample
        Labelled records of one site.
    others : sequence of Outline
        More pages of the site.
    fewest : int
        Records that must be found on a labelled page.

    Returns
    -------
    Listing or None
        None if nothing repeats around the labelled records.
    """
    patterns: list[Pattern] = []
    waiting = list(samples)
    tokens = [sample.tokens for sample in samples]
    while waiting:
        found = _best_pattern(waiting, samples, others, fewest)
        if found is None:
            waiting = waiting[1:]
            continue
        patterns.append(found)
        waiting = [sample for sample in waiting if not _holds(found, sample, tokens)]
    return Listing(patterns, tokens) if patterns else None


def made_alike(sample: Sample, listing: Listing) -> int:
    """How many records of its page are made like a labelled one; 0 if they are fewer than half.

    All leaves are compared, also those without a field: large parts of a page about one thing have a name and a price
    somewhere, but are not made alike.
    """
    outline = sample.outline
    parts = listing.records(outline)
    counts = [Counter(outline.tokens[k] for k in outline.leaves_in(part)) for part in parts]
    labelled = next((tokens for tokens, part in zip(counts, parts) if sample.lies_in(part)), None)
    if labelled is None:
        return 0
    n = sum(2 * (labelled & tokens).total() >= MADE_ALIKE * (labelled.total() + tokens.total()) for tokens in counts)
    return n if 2 * n >= len(parts) else 0


def _best_pattern(
    waiting: Sequence[Sample], samples: Sequence[Sample], others: Sequence[Outline], fewest: int
) -> Pattern | None:
    first = waiting[0]
    tokens = [sample.tokens for sample in samples]
    beside = [sample for sample in samples if sample.outline is first.outline and sample is not first]
    node = first.outline.view.leaves[first.leaves[0]]
    scored: list[tuple[int, float, Pattern]] = []
    for pattern in dict.fromkeys(candidates(first)):
        parts = find_parts(first.outline, pattern, tokens, node)
        if len(parts.parts) < fewest or not _apart(first, beside, parts.parts):
            continue
        held = sum(_holds(pattern, sample, tokens) for sample in waiting)
        scored.append((held, parts.value * pattern.factor, pattern))
    if not scored:
        return None
    most = max(held for held, _, _ in scored)
    scored = sorted((item for item in scored if item[0] == most), key=lambda item: -item[1])[: 4 * FINALISTS]
    pages = list({id(o): o for o in [*(sample.outline for sample in samples), *others]}.values())[:MOST_PAGES]
    final = []
    for _, value, pattern in scored:
        if value < 0.5 * scored[0][1]:
            continue
        total = sum(find_parts(outline, pattern, tokens).value for outline in pages)
        final.append((total * pattern.factor, pattern))
    best = max(value for value, _ in final)
    # a class keeps other lists out, as long as it does not keep out records
    named = [(value, pattern) for value, pattern in final if pattern.name or pattern.mark[:1] == ("class",)]
    if named and max(value for value, _ in named) >= SPECIFIC * best:
        final = named
    # of those as good, the one highest in the page: what was not labelled may lie around what was
    return max(
        final, key=lambda item: (round(item[0], 6), -item[1].path.count("/"), item[1].name != "", -item[1].level)
    )[1]


def _apart(first: Sample, beside: Sequence[Sample], parts: Sequence[Item]) -> bool:
    """Whether a labelled record is in one part, and nothing of another labelled record with it."""
    leaves = first.outline.view.leaves
    own = next((part for part in parts if first.lies_in(part)), None)
    return own is not None and not any(_inside(leaves[k], own) for other in beside for k in other.leaves)


def _holds(pattern: Pattern, sample: Sample, tokens: Sequence[Sequence[Token]]) -> bool:
    """Whether a labelled record is in one part."""
    return _apart(sample, [], find_parts(sample.outline, pattern, tokens).parts)


def _inside(node: int, part: Item) -> bool:
    return any(a <= node < b for a, b in part)


def candidates(sample: Sample) -> Iterator[Pattern]:
    """Patterns that might hold a labelled record."""
    outline = sample.outline
    nodes = [outline.view.leaves[k] for k in sample.leaves]
    around = outline.view.elements[sample.leaves[0]] if len(nodes) == 1 else _common(outline, nodes)
    t, level = around, 0
    while outline.parents[t] >= 0 and level < HIGHEST:
        for where in _selectors(outline, t):
            yield Pattern("element", *where)
            if len(nodes) > 1 and level < 2:
                yield Pattern("element", *where, columns=True)
        t, level = outline.parents[t], level + 1
    t = around
    for _ in range(ABOVE + 1):
        if t < 0:
            return
        yield from _of_children(outline, t, nodes)
        t = outline.parents[t]


def _of_children(outline: Outline, t: int, nodes: Sequence[int]) -> Iterator[Pattern]:
    """Patterns of stretches of the children of an element."""
    siblings = outline.children.get(t, [])
    if len(siblings) < 2:
        return
    first = max(k for k, s in enumerate(siblings) if s <= nodes[0])
    last = max(k for k, s in enumerate(siblings) if s <= nodes[-1])
    selectors = list(islice(_selectors(outline, t), 2))
    marks = dict.fromkeys(m for k in range(max(0, first - BACK), first + 1) for m in outline.marks_of(siblings[k]))
    between = dict.fromkeys(
        m
        for k in [*range(max(0, first - BACK), first), *range(last + 1, min(len(siblings), last + 1 + BACK))]
        for m in outline.marks_of(siblings[k])
        if m[0] in ("class", "shape") or m[1] in SEPARATORS
    )
    for tag in SEPARATORS:
        for n in (2, 3):
            between["void", tag, str(n)] = None
    tag = outline.page.tags[siblings[first]]
    same = [s for s in siblings if outline.page.tags[s] == tag]
    for where in selectors:
        for columns in (False, True):
            for mark in marks:
                yield Pattern("from", *where, mark=mark, columns=columns)
            for mark in between:
                yield Pattern("between", *where, mark=mark, columns=columns)
            if tag == "#text" or siblings[last] not in same:
                continue
            a, b = same.index(siblings[first]), same.index(siblings[last])
            for step in range(max(2, b - a + 1), min(LONGEST_STEP, len(same) - 1) + 1):
                for begin in range(max(0, b - step + 1), a + 1):
                    yield Pattern("every", *where, mark=("tag", tag), step=step, offset=begin % step, columns=columns)


def _selectors(outline: Outline, t: int) -> Iterator[tuple[str, int, str]]:
    """Ways to name the elements like one: by its path, and by a class of it or of one above."""
    yield outline.paths[t], 0, ""
    level, above = 0, t
    while above > 0 and level < HIGHEST:
        for name in outline.names(above):
            yield outline.paths[t], level, name
        above, level = outline.parents[above], level + 1


def _common(outline: Outline, nodes: Sequence[int]) -> int:
    """The smallest element with all these nodes, sorted, in it."""
    t = outline.parents[nodes[0]]
    while outline.page.end(t) <= nodes[-1]:
        t = outline.parents[t]
    return t


# ---- records as pages -----------------------------------------------------------------------------------------------


def page_of_part(page: Page, part: Item) -> Page:
    """A record as a small page of its own; ``nodes`` has the numbers of its nodes on the page it is from.

    Examples
    --------
    >>> page = Page.from_html("<ul><li>a<li><b>c</b> d</ul>")
    >>> small = page_of_part(page, [(4, 8)])
    >>> small.tags, small.nodes.tolist()
    (['body', 'li', 'b', '#text', '#text'], [1, 4, 5, 6, 7])
    """
    around = max(0, int(page.parents[part[0][0]]))
    record = page.select([around, *(t for a, b in part for t in range(a, b))])
    record.tags[0], record.attributes[0] = "body", {}
    record.name, record.site, record.url, record.source = page.name, page.site, page.url, page
    return record if page.layout is None else record.with_layout(page.layout[record.nodes])
