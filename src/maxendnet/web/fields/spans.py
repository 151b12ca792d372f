"""Where a value stands on a page: whole leaves, a part of one, or a stretch over several; and its text for a reader."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urljoin

from maxendnet.web.views.view import PIECE, View, value_of

BLANK = re.compile(r"\s+")
MOST_LEAVES = 20  # that a value may stretch over
WINDOW = 8  # leaves of a run that are looked at before and after the chosen one
MOST_TOKENS = 2_000
LONGEST_WORD = 40
FIXED = 0.6  # share of pages on which a word must be to be no part of a value
SHORT, NEAR = 3, 40  # a value of fewer letters is looked for in texts of so many


class Span(NamedTuple):
    """A stretch of text: from a letter of one node to a letter of the same or a later one.

    Letters are counted in ``page.text(node)``, from 0; ``end`` is one after the last.
    """

    first: int
    begin: int
    last: int
    end: int


def whole(view: View, k: int) -> Span:
    """All of leaf k."""
    t = view.leaves[k]
    return Span(t, 0, t, len(value_of(view, k)))


def overlap(a: Span, b: Span) -> bool:
    """Whether two stretches have a letter in common.

    Examples
    --------
    >>> overlap(Span(2, 0, 2, 5), Span(2, 4, 3, 1)), overlap(Span(2, 0, 2, 4), Span(2, 4, 3, 1))
    (True, False)
    """
    return max((a.first, a.begin), (b.first, b.begin)) < min((a.last, a.end), (b.last, b.end))


def leaves_of_span(view: View, span: Span) -> range:
    """The leaves that a stretch lies on; none, if its nodes are not leaves.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> leaves_of_span(View(Page.from_html("<p>a<b>b</b>c")), Span(2, 0, 4, 1))
    range(0, 2)
    """
    first, last = view.leaf_of.get(span.first), view.leaf_of.get(span.last)
    return range(0) if first is None or last is None else range(first, last + 1)


def span_text(view: View, span: Span) -> str:
    """What a reader sees: what touches is one word, a break between elements is a space.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<div>Only <b>$</b>5<sup>99</sup></div><div>in stock</div>"))
    >>> span_text(view, Span(4, 0, 7, 2)), span_text(view, Span(7, 0, 9, 2))
    ('$599', '99 in')
    """
    out = ""
    for k in leaves_of_span(view, span):
        text, t = value_of(view, k), view.leaves[k]
        piece = text[span.begin if t == span.first else 0 : span.end if t == span.last else len(text)]
        out += view.runs.before[k] * bool(out) + piece
    return BLANK.sub(" ", out).strip()


def is_part(view: View, span: Span) -> bool:
    """Whether a stretch is anything but one whole leaf."""
    return span.first != span.last or span.begin > 0 or span.end < len(value_of(view, view.leaf_of[span.first]))


# ---- tokens -------------------------------------------------------------------------------------------------------


class Tokens(NamedTuple):
    """Words, numbers and signs around a leaf, in order.

    Attributes
    ----------
    texts : list of str
    leaves, begins, ends : list of int
        The leaf of each, and the letters in its text.
    """

    texts: list[str]
    leaves: list[int]
    begins: list[int]
    ends: list[int]


def tokens_around(view: View, k: int, reach: int = 0) -> Tokens:
    """The tokens of leaf k, of its run, and of ``reach`` leaves on either side.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>Price: <b>$5.99</b><p>new"))
    >>> tokens_around(view, 1).texts
    ['Price', ':', '$', '5', '.', '99']
    """
    out = Tokens([], [], [], [])
    for j in _window(view, k, reach):
        for found in PIECE.finditer(view.texts[j]):
            out.texts.append(found[0])
            out.leaves.append(j)
            out.begins.append(found.start())
            out.ends.append(found.end())
    return out


def _window(view: View, k: int, reach: int) -> range:
    if view.images[k] or len(view.texts[k]) > 8 * MOST_TOKENS:
        return range(0)
    first = last = k
    letters = len(view.texts[k])
    run = view.runs.run
    for step in range(1, max(WINDOW, reach) + 1):
        for j in (first - 1, last + 1):
            if not 0 <= j < len(view) or view.images[j] or view.data[j] or view.data[k]:
                continue
            if letters + len(view.texts[j]) > 8 * MOST_TOKENS:
                continue
            if step <= reach or (run[j] == run[k] and step <= WINDOW):
                letters += len(view.texts[j])
                first, last = min(first, j), max(last, j)
    return range(first, last + 1)


def span_of_tokens(view: View, tokens: Tokens, i: int, j: int) -> Span:
    """The stretch from token i to token j, both included."""
    return Span(view.leaves[tokens.leaves[i]], tokens.begins[i], view.leaves[tokens.leaves[j]], tokens.ends[j])


def tokens_of_span(view: View, tokens: Tokens, span: Span) -> tuple[int, int] | None:
    """First and last token that a stretch has a part of; None if some of it is not among the tokens."""
    some = leaves_of_span(view, span)
    if not some or some[0] not in tokens.leaves or some[-1] not in tokens.leaves:
        return None
    begin, end = (some[0], span.begin), (some[-1], span.end)
    inside = [
        n
        for n, (leaf, a, b) in enumerate(zip(tokens.leaves, tokens.begins, tokens.ends))
        if (leaf, b) > begin and (leaf, a) < end
    ]
    return (inside[0], inside[-1]) if inside else None


# ---- values -------------------------------------------------------------------------------------------------------


def same_value(text: str) -> str:
    """A value without case, white space and differences of writing.

    Examples
    --------
    >>> same_value("Caf\\u0065\\u0301  Noir") == same_value("CAFÉ NOIR")
    True
    """
    return BLANK.sub("", unicodedata.normalize("NFKD", text)).casefold()


def find_value(view: View, value: str, everywhere: bool = False) -> list[Span]:
    """Where a page shows a value, as it is written.

    All leaves with exactly this text; if there is none, a part of a text, or several in a row that make it together,
    at the bounds of words and numbers: where there is least else in these texts. An image is found by the name of its
    file, too. What no text shows may be an attribute, such as the address of a link: then all leaves in it are meant;
    or, if these are leaves, a value that the page says to programs.

    Parameters
    ----------
    view : View
    value : str
    everywhere : bool
        All places, also those where there is more else in the texts: which of them is meant will be found otherwise.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>$ 12.99<p>by Ann Lee<p>12"))
    >>> find_value(view, "12.99"), find_value(view, "Ann Lee"), find_value(view, "Ann L")
    ([Span(first=2, begin=2, last=2, end=7)], [Span(first=4, begin=3, last=4, end=10)], [])
    """
    wanted = same_value(value)
    if not wanted:
        return []
    texts = [same_value(value_of(view, k)) for k in range(len(view))]
    shown = ["" if said else text for said, text in zip(view.data, texts)]
    found = _in_texts(view, wanted, shown, everywhere)
    if not found:
        shown_leaves = (k for k, said in enumerate(view.data) if not said)
        found = [whole(view, k) for k in shown_leaves if attribute_of_value(view, k, value)]
    if not found and any(view.data):
        found = _in_texts(view, wanted, [text if said else "" for said, text in zip(view.data, texts)], everywhere)
    if not found and "://" in value:
        said_leaves = [k for k, said in enumerate(view.data) if said]
        found = [whole(view, k) for k in said_leaves if _address(view, view.texts[k]) == value.strip()]
    return sorted(set(found)) if everywhere else found


def _in_texts(view: View, wanted: str, texts: Sequence[str], everywhere: bool) -> list[Span]:
    """Where a folded value is: the leaves that are it, or else the parts of leaves."""
    exact = [k for k, text in enumerate(texts) if text == wanted]
    if not exact and any(view.images) and re.search(r"\.(?:jpe?g|png|gif|webp|avif)\b", wanted):
        name = wanted.rsplit("/", 1)[-1]
        exact = [k for k, (image, text) in enumerate(zip(view.images, texts)) if image and text.endswith(name)]
    found = [whole(view, k) for k in exact]
    if found and not everywhere:
        return found
    parts = ["" if image else text for image, text in zip(view.images, texts)]
    return found + _parts(view, wanted, parts, everywhere) if wanted in "".join(parts) else found


# ---- attributes -----------------------------------------------------------------------------------------------------

ATTRIBUTES = ("href", "src", "data-src", "datetime", "content")
"""Attributes that can be values: where a link leads, a picture, a date as programs read it."""


def attribute_of(view: View, k: int, name: str) -> str | None:
    """The attribute of the nearest element around leaf k that has it.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> attribute_of(View(Page.from_html("<a href='/cup'><b>Cup</b></a>")), 0, "href")
    '/cup'
    """
    found = (view.page.attributes[t].get(name) for t in view.ancestors(k))
    return next((value for value in found if value), None)


def attribute_of_value(view: View, k: int, value: str) -> str:
    """The attribute around leaf k that is a value; empty, if none is. Addresses may be whole ones."""
    for name in ATTRIBUTES:
        own = attribute_of(view, k, name)
        if own is not None and (own == value.strip() or ("://" in value and _address(view, own) == value.strip())):
            return name
    return ""


def _address(view: View, own: str) -> str:
    try:
        return urljoin(view.page.url, own)
    except ValueError:
        return own


def _parts(view: View, wanted: str, texts: Sequence[str], everywhere: bool = False) -> list[Span]:
    """The best of the places where a value is a part of a text, or goes over several; or all in one run."""
    text = "".join(texts)
    starts = [0]
    for some in texts:
        starts.append(starts[-1] + len(some))
    best: tuple[bool, int, bool, int, int] | None = None
    found: list[Span] = []
    at, k = text.find(wanted), 0
    while at >= 0:
        while starts[k + 1] <= at:
            k += 1
        last = k
        while starts[last + 1] < at + len(wanted):
            last += 1
        length = starts[last + 1] - starts[k]
        if last - k <= MOST_LEAVES and (len(wanted) >= SHORT or length <= NEAR):
            begin = _letter(view.texts[k], at - starts[k])
            end = _letter(view.texts[last], at + len(wanted) - starts[last] - 1, after=True)
            if begin is not None and end is not None and _bounded(view, k, begin, last, end):
                span = Span(view.leaves[k], begin, view.leaves[last], end)
                joined = _joined(view.texts[k], begin, -1) + _joined(view.texts[last], end, 1)
                # in one run, standing alone, at a place that other pages have, too, between what is the same on
                # them, with as little else in its texts as can be
                apart = view.runs.run[k] != view.runs.run[last]
                size = (apart, joined, False, 0, 0) if everywhere else (
                    apart, joined, view.is_rare(k), _varies(view, k, begin, -1) + _varies(view, last, end, 1), length
                )  # fmt: skip
                if best is not None and size > best:
                    at = text.find(wanted, at + 1)
                    continue
                found = [span] if best is None or size < best else [*found, span]
                best = size
        at = text.find(wanted, at + 1)
    return found


def _letter(text: str, n: int, after: bool = False) -> int | None:
    """The letter of a text that the n-th of its folded letters comes from, or one after it."""
    passed = 0
    for letter, c in enumerate(text):
        passed += len(same_value(c))
        if passed > n:
            return letter + after
    return None


def _bounded(view: View, first: int, begin: int, last: int, end: int) -> bool:
    """Whether a part begins and ends where words do; over several runs, whether it is made of whole leaves."""
    left, right = view.texts[first], view.texts[last]
    if view.runs.run[first] != view.runs.run[last] and (begin > 0 or end < len(right)):
        return False
    return not _cuts(left, begin) and not _cuts(right, end)


def _joined(text: str, at: int, side: int) -> int:
    """1 if a part hangs together with what is beside it, as in an address or a compound; else 0."""
    near = text[at : at + 2] if side > 0 else text[max(0, at - 2) : at][::-1]
    return int(len(near) == 2 and (near[0].isalnum() or (near[0] in "._-/@" and near[1].isalnum())))


def _varies(view: View, k: int, at: int, side: int) -> int:
    """1 if the word beside a part of leaf k is another one on most pages of the site; 0 at the bounds of its text.

    A value stands between captions, units and separators, which stay; its words may occur in other texts, too, such as
    the name of a maker in a heading, and there words beside them change.
    """
    text = view.texts[k]
    beside = PIECE.findall(text[at : at + LONGEST_WORD] if side > 0 else text[max(0, at - LONGEST_WORD) : at])
    if not beside:
        return 0
    word = beside[0 if side > 0 else -1].lower()
    share = view.share_at_place(k, "0" * min(len(word), 5) if word.isdigit() else word)
    return int(share is not None and share <= FIXED)


def _cuts(text: str, at: int) -> bool:
    """Whether a place lies within a word or a number."""
    if not 0 < at < len(text):
        return False
    a, b = text[at - 1], text[at]
    if (a.isalpha() and b.isalpha()) or (a.isdigit() and b.isdigit()):
        return True
    digits = [c.isdigit() for c in text]
    if a in ".,":
        return at >= 2 and digits[at - 2] and digits[at]
    return b in ".," and digits[at - 1] and at + 1 < len(text) and digits[at + 1]
