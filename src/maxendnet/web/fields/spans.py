"""Spans of text on a page (a leaf, part of a leaf, or several leaves), and the search for values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import urljoin

from maxendnet.web.views.leaves import TEXT_ATTRIBUTES
from maxendnet.web.views.texts import MAX_LEVELS
from maxendnet.web.views.view import PIECE, View, value_of
from maxendnet.web.views.words import words_of

BLANK = re.compile(r"\s+")
MAX_LEAVES = 20  # maximum number of leaves that a value spans
MIN_WORDS = 3  # of a value that is searched for by its words
WINDOW = 8  # number of leaves of a run considered on either side of a leaf
MAX_WINDOW_CHARS = 16_000
MAX_WORD_CHARS = 40
FIXED_SHARE = 0.6  # a word on a larger share of pages is fixed text, not part of a value
SHORT_CHARS, SHORT_TEXT_CHARS = 3, 40  # search values of less than 3 characters only in texts of at most 40


class Span(NamedTuple):
    """Text from a character of one node to a character of the same or a later node.

    ``begin`` is the index of the first character in ``page.text(first)``, ``end`` is one past that of the last
    character in ``page.text(last)``. The text of an attribute has the name of the attribute.
    """

    first: int
    begin: int
    last: int
    end: int
    attribute: str = ""

    def to_json(self) -> list[int | str]:
        """Return the span as a list, with the attribute only if there is one."""
        return list(self if self.attribute else self[:4])


def whole(view: View, k: int) -> Span:
    """Return the span of leaf k."""
    t = view.leaves[k]
    return Span(t, 0, t, len(value_of(view, k)), view.attributes[k])


def span_of_leaves(view: View, a: int, b: int) -> Span:
    """Return the span from leaf a to leaf b - 1, which are not attributes."""
    return Span(view.leaves[a], 0, view.leaves[b - 1], len(value_of(view, b - 1)))


def overlap(a: Span, b: Span) -> bool:
    """Whether two spans have a character in common.

    Examples
    --------
    >>> overlap(Span(2, 0, 2, 5), Span(2, 4, 3, 1)), overlap(Span(2, 0, 2, 4), Span(2, 4, 3, 1))
    (True, False)
    """
    if a.attribute != b.attribute:
        return False
    return max((a.first, a.begin), (b.first, b.begin)) < min((a.last, a.end), (b.last, b.end))


def leaf_at(view: View, span: Span) -> int | None:
    """Return the first leaf of a span, or None if it is not a leaf of the view."""
    if span.attribute:
        return view.leaf_of_attribute.get((span.first, span.attribute))
    return view.leaf_of.get(span.first)


def leaves_of_span(view: View, span: Span) -> list[int]:
    """Return the leaves of a span; empty if its nodes are not leaves.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> leaves_of_span(View(Page.from_html("<p>a<b>b</b>c")), Span(2, 0, 4, 1))
    [0, 1]
    """
    first, last = leaf_at(view, span), leaf_at(view, span._replace(first=span.last))
    if first is None or last is None:
        return []
    return [k for k in range(first, last + 1) if view.attributes[k] == span.attribute]


def span_text(view: View, span: Span) -> str:
    """Return the text of a span as displayed, with a space between leaves that do not touch.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<div>Only <b>$</b>5<sup>99</sup></div><div>in stock</div>"))
    >>> span_text(view, Span(4, 0, 7, 3)), span_text(view, Span(7, 0, 9, 2))
    ('$5.99', '.99 in')
    """
    out = ""
    for k in leaves_of_span(view, span):
        text, t = value_of(view, k), view.leaves[k]
        piece = text[span.begin if t == span.first else 0 : span.end if t == span.last else len(text)]
        out += view.runs.before[k] * bool(out) + piece
    return BLANK.sub(" ", out).strip()


def is_part(view: View, span: Span) -> bool:
    """Whether a span is something else than exactly one leaf."""
    k = leaf_at(view, span)
    return k is None or span.first != span.last or span.begin > 0 or span.end < len(value_of(view, k))


# ---- tokens -------------------------------------------------------------------------------------------------------


class Tokens(NamedTuple):
    """Words, numbers and punctuation marks around a leaf, in order.

    Attributes
    ----------
    texts : list of str
    leaves, begins, ends : list of int
        Leaf of every token, and the token's start and end in the text of the leaf.
    """

    texts: list[str]
    leaves: list[int]
    begins: list[int]
    ends: list[int]


def tokens_around(view: View, k: int, reach: int = 0) -> Tokens:
    """Return the tokens of leaf k, of its run, and of ``reach`` leaves on either side.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>Price: <b>$5.99</b><p>new"))
    >>> tokens_around(view, 1).texts
    ['Price', ':', '$', '5', '.', '99']
    """
    out = Tokens([], [], [], [])
    for j in _window(view, k, reach):
        for match in PIECE.finditer(view.texts[j]):
            out.texts.append(match[0])
            out.leaves.append(j)
            out.begins.append(match.start())
            out.ends.append(match.end())
    return out


def _window(view: View, k: int, reach: int) -> list[int]:
    """Return the leaves that `tokens_around` uses; empty if leaf k is an image or a very long text."""
    if view.images[k] or len(view.texts[k]) > MAX_WINDOW_CHARS:
        return []
    if view.attributes[k]:
        return [k]
    first = last = k
    n_chars = len(view.texts[k])
    run = view.runs.run
    for step in range(1, max(WINDOW, reach) + 1):
        for j in (first - 1, last + 1):
            if not 0 <= j < len(view) or view.images[j] or view.data[j] or view.data[k]:
                continue
            if n_chars + len(view.texts[j]) > MAX_WINDOW_CHARS:
                continue
            if step <= reach or (run[j] == run[k] and step <= WINDOW):
                n_chars += len(view.texts[j])
                first, last = min(first, j), max(last, j)
    return [j for j in range(first, last + 1) if not view.attributes[j]]


def span_of_tokens(view: View, tokens: Tokens, i: int, j: int) -> Span:
    """Return the span from token i to token j, both included."""
    first, last = tokens.leaves[i], tokens.leaves[j]
    return Span(view.leaves[first], tokens.begins[i], view.leaves[last], tokens.ends[j], view.attributes[first])


def tokens_of_span(view: View, tokens: Tokens, span: Span) -> tuple[int, int] | None:
    """Return the first and last token of a span, or None if the tokens do not cover the span."""
    covered = leaves_of_span(view, span)
    if not covered or covered[0] not in tokens.leaves or covered[-1] not in tokens.leaves:
        return None
    begin, end = (covered[0], span.begin), (covered[-1], span.end)
    inside = [
        n
        for n, (leaf, a, b) in enumerate(zip(tokens.leaves, tokens.begins, tokens.ends))
        if (leaf, b) > begin and (leaf, a) < end
    ]
    return (inside[0], inside[-1]) if inside else None


# ---- values -------------------------------------------------------------------------------------------------------


def normalise_text(text: str) -> str:
    """Return a text without case and white space, in Unicode normal form, for comparison.

    Examples
    --------
    >>> normalise_text("Caf\\u0065\\u0301  Noir") == normalise_text("CAFÉ NOIR")
    True
    """
    return BLANK.sub("", unicodedata.normalize("NFKD", text)).casefold()


def find_value(view: View, value: str, everywhere: bool = False) -> list[Span]:
    """Return the spans of a page that show a value.

    The result is the first of these that is not empty:

    1. leaves with exactly this text, or images with this file name;
    2. parts of a text, or sequences of texts, that equal the value and start and end at word boundaries; of these only
       the best, which are those with the least other text around them;
    3. leaves in an element with an attribute that equals the value, such as the address of a link;
    4. text attributes, if they are leaves, and parts of them;
    5. values of structured data, if they are leaves;
    6. elements with the same words, if these are at least `MIN_WORDS`: punctuation and brackets may differ.

    Parameters
    ----------
    view : View
    value : str
    everywhere : bool
        Return all parts in step 2, not only the best.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>$ 12.99<p>by Ann Lee<p>12"))
    >>> [[span.to_json() for span in find_value(view, value)] for value in ("12.99", "Ann Lee", "Ann L")]
    [[[2, 2, 2, 7]], [[4, 3, 4, 10]], []]
    """
    target = normalise_text(value)
    if not target:
        return []
    texts = [normalise_text(value_of(view, k)) for k in range(len(view))]
    shown = ["" if is_data or name else text for is_data, name, text in zip(view.data, view.attributes, texts)]
    spans = _in_texts(view, target, shown, everywhere)
    if not spans:
        text_leaves = (k for k, name in enumerate(view.attributes) if not view.data[k] and not name)
        spans = [whole(view, k) for k in text_leaves if attribute_of_value(view, k, value)]
    around = [_in_attribute_around(view, span, target) for span in spans]
    if not spans:
        spans = _in_attributes(view, target, texts, everywhere)
    else:  # the text of other pages or records may be cut off
        spans = list(dict.fromkeys(full or span for full, span in zip(around, spans)))
    if not spans and any(view.data):
        data_texts = [text if is_data else "" for is_data, text in zip(view.data, texts)]
        spans = _in_texts(view, target, data_texts, everywhere)
    if not spans and "://" in value:
        data_leaves = [k for k, is_data in enumerate(view.data) if is_data]
        spans = [whole(view, k) for k in data_leaves if _address(view, view.texts[k]) == value.strip()]
    words = words_of(value) if not spans else []
    if len(words) >= MIN_WORDS:
        spans = [span_of_leaves(view, *view.leaf_range(t)) for t in view.elements_by_words.get(" ".join(words), ())]
    return sorted(set(spans)) if everywhere else spans


def _in_texts(view: View, target: str, texts: Sequence[str], everywhere: bool) -> list[Span]:
    """Return the leaves whose normalised text is ``target``, or the matching parts of texts if there are none."""
    exact = [k for k, text in enumerate(texts) if text == target]
    if not exact and any(view.images) and re.search(r"\.(?:jpe?g|png|gif|webp|avif)\b", target):
        name = target.rsplit("/", 1)[-1]
        exact = [k for k, (image, text) in enumerate(zip(view.images, texts)) if image and text.endswith(name)]
    spans = [whole(view, k) for k in exact]
    if spans and not everywhere:
        return spans
    without_images = ["" if image else text for image, text in zip(view.images, texts)]
    return spans + _parts(view, target, without_images, everywhere) if target in "".join(without_images) else spans


def _in_attributes(view: View, target: str, texts: Sequence[str], everywhere: bool) -> list[Span]:
    """Return the attributes that equal a value, or parts of attributes; all have the same name.

    The texts of two attributes never form a value together. Of several names the first is chosen, in the order of
    `TEXT_ATTRIBUTES`.
    """
    order = {name: rank for rank, name in enumerate(TEXT_ATTRIBUTES)}
    near = [k for k, name in enumerate(view.attributes) if name and target in texts[k]]
    spans = [whole(view, k) for k in near if texts[k] == target]
    if not spans:
        for k in near:
            of_leaf = ["" for _ in texts]
            of_leaf[k] = texts[k]
            spans += [span._replace(attribute=view.attributes[k]) for span in _parts(view, target, of_leaf, everywhere)]
    names = {span.attribute for span in spans}
    first = min(names, key=lambda name: (order.get(name, len(order)), name), default="")
    return [span for span in spans if span.attribute == first]


def _in_attribute_around(view: View, span: Span, target: str) -> Span | None:
    """Return an attribute leaf of an element around a span that equals its text, or None."""
    above = span.first if span.attribute or view.page.tags[span.first] != "#text" else view.parents[span.first]
    for _ in range(MAX_LEVELS):
        for name in view.page.attributes[above] if above >= 0 and view.leaf_of_attribute else ():
            k = view.leaf_of_attribute.get((above, name))
            if k is not None and normalise_text(view.texts[k]) == target:
                return whole(view, k)
        above = view.parents[above] if above >= 0 else above
    return None


# ---- attributes -----------------------------------------------------------------------------------------------------

VALUE_ATTRIBUTES = ("href", "src", "data-src", "datetime")
"""Attributes with addresses and machine-readable dates: each belongs to the text or image that its element displays."""


def attribute_of(view: View, k: int, name: str) -> str | None:
    """Return an attribute of the nearest element around leaf k that has it, or None.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> attribute_of(View(Page.from_html("<a href='/cup'><b>Cup</b></a>")), 0, "href")
    '/cup'
    """
    values = (view.page.attributes[t].get(name) for t in view.ancestors(k))
    return next((value for value in values if value), None)


def attribute_of_value(view: View, k: int, value: str) -> str:
    """Return the name of the attribute around leaf k that equals a value; empty if there is none.

    A relative address is considered equal to its absolute form.
    """
    value = value.strip()
    for name in VALUE_ATTRIBUTES:
        attribute = attribute_of(view, k, name)
        if attribute is not None and (attribute == value or ("://" in value and _address(view, attribute) == value)):
            return name
    return ""


def _address(view: View, address: str) -> str:
    """Return an address in absolute form."""
    try:
        return urljoin(view.page.url, address)
    except ValueError:
        return address


def _parts(view: View, target: str, texts: Sequence[str], everywhere: bool) -> list[Span]:
    """Return the best spans that equal ``target`` and are part of a text or span several texts.

    The criteria are, in this order: spans within one run, not joined to other words, at a place that most pages have,
    between words that are the same on all pages, and in short texts. With ``everywhere`` only the first two apply.
    """
    ranked = []
    for k, begin, last, end, length in _occurrences(view, target, texts):
        is_split = view.runs.run[k] != view.runs.run[last]
        n_joined = _is_joined(view.texts[k], begin, -1) + _is_joined(view.texts[last], end, 1)
        rank: tuple[int, ...] = (is_split, n_joined)
        if not everywhere:
            n_varying = _is_varying(view, k, begin, -1) + _is_varying(view, last, end, 1)
            rank += (view.is_rare(k), n_varying, length)
        ranked.append((rank, Span(view.leaves[k], begin, view.leaves[last], end)))
    best = min((rank for rank, _ in ranked), default=())
    return [span for rank, span in ranked if rank == best]


def _occurrences(view: View, target: str, texts: Sequence[str]) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the first leaf, start, last leaf and end of every occurrence, and the total length of its texts."""
    joined = "".join(texts)
    starts = [0, *accumulate(map(len, texts))]
    at, k = joined.find(target), 0
    while at >= 0:
        while starts[k + 1] <= at:
            k += 1
        last = k
        while starts[last + 1] < at + len(target):
            last += 1
        length = starts[last + 1] - starts[k]
        if last - k <= MAX_LEAVES and (len(target) >= SHORT_CHARS or length <= SHORT_TEXT_CHARS):
            begin = _position(view.texts[k], at - starts[k])
            end = _position(view.texts[last], at + len(target) - starts[last] - 1, after=True)
            if begin is not None and end is not None and _at_boundaries(view, k, begin, last, end):
                yield k, begin, last, end, length
        at = joined.find(target, at + 1)


def _position(text: str, n: int, after: bool = False) -> int | None:
    """Return the position in a text of the n-th character of its normalised form, or the position after it."""
    n_passed = 0
    for position, c in enumerate(text):
        n_passed += len(normalise_text(c))
        if n_passed > n:
            return position + after
    return None


def _at_boundaries(view: View, first: int, begin: int, last: int, end: int) -> bool:
    """Whether a span starts and ends at word boundaries and, if it spans several runs, consists of whole leaves."""
    left, right = view.texts[first], view.texts[last]
    if view.runs.run[first] != view.runs.run[last] and (begin > 0 or end < len(right)):
        return False
    return not _cuts(left, begin) and not _cuts(right, end)


def _is_joined(text: str, at: int, side: int) -> bool:
    """Whether a part of a text is joined to the adjacent text, as in an address or a hyphenated word."""
    near = text[at : at + 2] if side > 0 else text[max(0, at - 2) : at][::-1]
    return len(near) == 2 and (near[0].isalnum() or (near[0] in "._-/@" and near[1].isalnum()))


def _is_varying(view: View, k: int, at: int, side: int) -> bool:
    """Whether the word next to a part of leaf k differs between the pages of the site; False at the end of the text.

    A value is surrounded by captions, units and separators, which are the same on all pages. If its words also occur in
    another text, such as the brand in a heading, the words around them vary.
    """
    text = view.texts[k]
    beside = PIECE.findall(text[at : at + MAX_WORD_CHARS] if side > 0 else text[max(0, at - MAX_WORD_CHARS) : at])
    if not beside:
        return False
    word = beside[0 if side > 0 else -1].lower()
    share = view.share_at_place(k, "0" * min(len(word), 5) if word.isdigit() else word)
    return share is not None and share <= FIXED_SHARE


def _cuts(text: str, at: int) -> bool:
    """Whether a position is within a word or a number."""
    if not 0 < at < len(text):
        return False
    a, b = text[at - 1], text[at]
    if (a.isalpha() and b.isalpha()) or (a.isdigit() and b.isdigit()):
        return True
    digits = [c.isdigit() for c in text]
    if a in ".,":
        return at >= 2 and digits[at - 2] and digits[at]
    return b in ".," and digits[at - 1] and at + 1 < len(text) and digits[at + 1]
