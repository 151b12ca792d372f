"""Features of leaves in named groups; each is a function of a `View` that gives names for every leaf.

All features are binary, and a name says where it comes from. ``KNOWN_SITES`` is for pages of sites that are labelled,
``NEW_SITES`` for others: neighbours remember a site's menu, and exact positions its template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log2

from maxendnet.web.patterns import PATTERNS
from maxendnet.web.view import View, log2_bin

Names = list[list[str]]
STEM = 5  # letters that words of one root share
LEVELS = 3  # ancestors whose classes are told apart by level
INSIDE = (
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "a",
    "table",
    "th",
    "td",
    "ul",
    "dl",
    "dt",
    "dd",
    "form",
    "b",
    "strong",
    "select",
)
WORD = re.compile(r"[^\W\d_]+|\d+|[$€£%#@]")
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# a name no person gave: digits among letters, or a long run without a vowel
HASHED = re.compile(
    r"(?=.*\d)(?=.*[a-z])(?=.{5,}$)\w*[a-z]+\d+[a-z]+\w*$|^[bcdfghjklmnpqrstvwxz]{6,}$|^[0-9a-f]{8,}$", re.I
)
SHAPES = ((re.compile(r"[A-Z]"), "A"), (re.compile(r"[a-z]"), "a"), (re.compile(r"\d"), "0"))
RUN = re.compile(r"(.)\1+")


def tag_names(view: View) -> Names:
    """Suffixes of the tag path, tags by level, and what the leaf is inside of."""
    tags = view.page.tags
    return [_paths(tuple(tags[t] for t in view.ancestors(k))) for k in range(len(view))]


@lru_cache(maxsize=20_000)
def _paths(above: tuple[str, ...]) -> list[str]:
    names = [f"path={'/'.join(above[:n])}" for n in range(1, min(5, len(above)) + 1)]
    names += [f"tag{level}={tag}" for level, tag in enumerate(above[:4])]
    return names + [f"in={tag}" for tag in INSIDE if tag in above[:5]]


def class_names(view: View) -> Names:
    """Classes, ids and item properties of the nearest elements, whole and in pieces; hashed names are dropped."""
    cache: dict[int, list[str]] = {}
    tokens: dict[int, list[str]] = {}
    out = []
    for k in range(len(view)):
        element = view.elements[k]
        names = cache.get(element)
        if names is None:
            found: dict[str, None] = {}
            for level, t in enumerate(view.ancestors(k)):
                some = tokens.get(t)
                if some is None:
                    some = tokens[t] = class_tokens(view.page.attributes[t])
                for token in some:
                    found[f"class={token}"] = None
                    if level < LEVELS:
                        found[f"class{level}={token}"] = None
            names = cache[element] = list(found)
        out.append(names)
    return out


def class_tokens(attributes: dict[str, str]) -> list[str]:
    """Names a person gave to an element, in lower case, whole and in pieces.

    Examples
    --------
    >>> class_tokens({"class": "productPrice css-1x2yz9", "id": "item123"})
    ['productprice', 'product', 'price', 'css', 'item0', 'item']
    """
    return _tokens(*(attributes.get(source, "") for source in ("class", "id", "itemprop")))


@lru_cache(maxsize=20_000)
def _tokens(*given: str) -> list[str]:
    found: dict[str, None] = {}
    for text in given:
        for token in text.split()[:12]:
            whole = token[:60]
            pieces = [piece.lower() for piece in PIECE.findall(whole) if not piece.isdigit()]
            parts = re.split(r"[-_:]+", whole)
            if not any(HASHED.match(part) for part in parts):
                found[re.sub(r"\d+", "0", whole.lower())] = None
                for piece in pieces:
                    if len(piece) > 1:
                        found[piece] = None
            else:
                for part in parts:
                    if len(part) > 1 and not HASHED.match(part):
                        found[part.lower()] = None
    return list(found)


def coarse_position(view: View) -> Names:
    """Where on the page, roughly."""
    n = max(1, len(view))
    return [
        [f"tenth={10 * k // n}", f"from_start={log2_bin(k)}", f"depth={min(view.depth[view.elements[k]], 30) // 3}"]
        for k in range(len(view))
    ]


def exact_position(view: View) -> Names:
    """Depth, and the position among siblings of the leaf's elements."""
    out = []
    for k in range(len(view)):
        names = [f"depth={view.depth[view.elements[k]]}", f"from_end={log2_bin(len(view) - k)}"]
        for level, t in enumerate(view.ancestors(k)[:4]):
            parent = view.parents[t]
            count = view.n_children[parent] if parent >= 0 else 1
            names.append(f"sibling{level}={min(view.rank[t], 20)}")
            names.append(f"siblings{level}={log2_bin(count)}")
        out.append(names)
    return out


def text_shape(view: View) -> Names:
    """How the text looks: length, shape, patterns, shares of digits and capitals."""
    return [
        ["image", "image_with_text" if text else "image_without_text"] if image else _shape(text[:400])
        for text, image in zip(view.texts, view.images)
    ]


# pages of a site share most of their texts
@lru_cache(maxsize=20_000)
def _patterns(text: str) -> list[str]:
    return [name for name, pattern in PATTERNS.items() if pattern.search(text)]


def _kind(letter: str) -> str:
    return "A" if letter.isupper() else "0" if letter.isdigit() else "a" if letter.isalpha() else letter


@lru_cache(maxsize=20_000)
def _shape(text: str) -> list[str]:
    n_words = text.count(" ") + 1
    letters = max(1, len(text))
    shape = text[:40]
    for pattern, letter in SHAPES:
        shape = pattern.sub(letter, shape)
    shape = RUN.sub(r"\1", shape)[:16]
    names = [
        f"length={log2_bin(len(text))}",
        f"words={n_words if n_words < 5 else log2_bin(n_words) + 3}",
        f"shape={shape}",
        f"digits={round(4 * sum(map(str.isdigit, text)) / letters)}",
        f"capitals={round(4 * sum(map(str.isupper, text)) / letters)}",
        f"first={_kind(text[:1])}",
    ]
    if n_words > 1 and text.istitle():
        names.append("title_case")
    return names + [f"is={name}" for name in _patterns(text[:200])]


def text_words(view: View) -> Names:
    """The words of the text, pairs of words, the first and the last."""
    out = []
    for text in view.texts:
        words = WORD.findall(text[:200].lower())[:16]
        words = [re.sub(r"\d", "0", word) for word in words]
        names = [f"word={word}" for word in dict.fromkeys(words)]
        names += [f"pair={a}_{b}" for a, b in pairwise(words[:8])]
        if words:
            names += [f"first_word={words[0]}", f"last_word={words[-1]}"]
        out.append(names)
    return out


def title_overlap(view: View) -> Names:
    """How much of the page's title is in the text, and how often the text occurs on the page."""
    title = _words(view.page.title)
    whole, joined = set(title), " ".join(title)
    headings = [set(_words(view.texts[k])) for k in range(len(view)) if view.page.tags[view.elements[k]] == "h1"][:5]
    anchor = _anchor(view, whole)
    out = []
    for k, text in enumerate(view.texts):
        words = _words(text)
        names = [f"times={min(3, view.on_page[view.folded[k]])}"]
        if anchor is not None:
            side = "before" if k < anchor else "after"
            names.append(f"{side}_heading={log2_bin(abs(k - anchor))}" if k != anchor else "heading")
        if words and whole:
            own = set(words)
            shared = len(own & whole)
            if shared:
                names += [f"overlap={round(4 * shared / len(own))}", f"cover={round(4 * shared / len(whole))}"]
                if shared == len(own):
                    names.append(f"in_title={log2_bin(len(own))}")
                    if joined.startswith(" ".join(words)):
                        names.append("starts_title")
                        names.append(f"starts_title={log2_bin(len(own))}")
                    elif f" {' '.join(words)} " in f" {joined} ":
                        names.append("inside_title")
            if any(own & heading for heading in headings):
                best = max(len(own & h) / max(1, len(own | h)) for h in headings)
                names.append(f"like_heading={round(4 * best)}")
        out.append(names)
    return out


def _anchor(view: View, title: set[str]) -> int | None:
    """The leaf that says what the page is about: most of the title in few words, best in a heading."""
    best, found = 0.0, None
    for k, text in enumerate(view.texts):
        own = set(_words(text)) if len(text) < 200 else set()
        shared = len(own & title)
        if shared:
            tag = view.page.tags[view.elements[k]]
            value = shared / len(own | title) + (0.3 if tag == "h1" else 0.15 if tag in ("h2", "h3") else 0.0)
            if value > best:
                best, found = value, k
    return found


def site_variation(view: View) -> Names:
    """How many pages of the site have this text, and how much the text at this place varies over them."""
    facts = view.facts
    if facts is None or facts.n_pages < 2:
        return [["alone"] for _ in range(len(view))]
    out = []
    n = facts.n_pages
    for k in range(len(view)):
        share = facts.pages_with_text[view.folded[k]]
        filled = facts.pages_with_place[view.places[k]]
        varied = facts.texts_at_place[view.places[k]]
        text = "one" if share <= 1 else "all" if share >= 0.9 * n else f"{min(3, int(4 * share / n))}"
        place = "one" if filled <= 1 else "all" if filled >= 0.9 * n else f"{min(3, int(4 * filled / n))}"
        change = "none" if varied <= 1 else "each" if varied >= 0.9 * filled else f"{min(3, int(4 * varied / filled))}"
        names = [f"text_on={text}", f"place_on={place}", f"varies={change}", f"on_varies={text}_{place}_{change}"]
        if view.is_fixed(k):
            names.append("fixed")
        out.append(names)
    return out


def label_text(view: View) -> Names:
    """Texts that announce a value: before it, at the head of its row, before a colon within it."""
    out = []
    n = len(view)
    for k in range(n):
        names = []
        before = view.folded[k - 1][:30] if k else "^"
        names.append(f"before={before}")
        for source, text in (("caption", view.captions[k]), ("row", view.row_heads[k])):
            if text:
                names.append(f"{source}={text[:30]}")
                names += [f"{source}_word={word}" for word in text.split()[:4]]
        heads = [view.captions[k], view.row_heads[k]]
        head, colon, _ = view.texts[k].partition(":")
        if colon and 0 < len(head) < 30:
            names.append(f"own={head.lower().strip()}")
            heads.append(head.lower())
        elif k and view.texts[k - 1].endswith(":"):
            names += [f"announced={word}" for word in before.split()[:4]]
            names.append("announced")
            heads.append(before)
        # sites arrange captions in different ways, and write "publisher" or "published by": words wherever they stand
        for word in {word for text in heads for word in text.split()[:4]}:
            names.append(f"any={word}")
            if len(word) > STEM:
                names.append(f"stem={word[:STEM]}")
        names.append(f"after={view.folded[k + 1][:30] if k + 1 < n else '$'}")
        out.append(names)
    return out


def neighbours(view: View) -> Names:
    """Tags, lengths, patterns and words of the leaves around."""
    shapes = text_shape(view)
    tags = view.page.tags
    brief = []
    for k in range(len(view)):
        names = [f"tag={tags[view.elements[k]]}", *(s for s in shapes[k] if s.startswith(("length=", "is=")))]
        brief.append(names + [f"word={word}" for word in view.folded[k].split()[:5]])
    out: Names = []
    for k in range(len(view)):
        out.append(
            [f"{step:+d}{name}" for step in (-2, -1, 1, 2) if 0 <= k + step < len(brief) for name in brief[k + step]]
        )
    return out


def near_shape(view: View) -> Names:
    """Patterns of the leaves next to this one, and whether they are captions: no words, so nothing of one site."""
    out: Names = []
    found = [_patterns(text[:200]) for text in view.texts]
    for k in range(len(view)):
        names = []
        for step in (-1, 1):
            if 0 <= k + step < len(view):
                names += [f"{step:+d}is={name}" for name in found[k + step]]
                if view.is_fixed(k + step):
                    names.append(f"{step:+d}fixed")
        out.append(names)
    return out


def layout(view: View) -> Names:
    """Box, font and colours, where a browser has drawn the page."""
    boxes = view.page.layout
    if boxes is None:
        return [[] for _ in range(len(view))]
    fonts = [float(boxes[view.leaves[k][0], 4]) for k in range(len(view))]
    body = sorted(fonts)[len(fonts) // 2] if fonts else 16.0
    largest = max(fonts, default=16.0)
    out = []
    for k, font in enumerate(fonts):
        x, y, width, height, _, bold, italic, pointer, colour, background, align = boxes[view.leaves[k][0]].tolist()
        names = [
            f"x={int(x // 100)}", f"y={log2_bin(max(0.0, y) / 50)}", f"width={log2_bin(max(0.0, width) / 20)}",
            f"height={log2_bin(max(0.0, height) / 10)}", f"fold={y < 600}", f"font={round(font)}",
            f"relative={round(4 * log2(max(font, 1.0) / max(body, 1.0)))}", f"align={int(align)}",
            f"colour={_colour(int(colour))}", f"background={_colour(int(background))}",
        ]  # fmt: skip
        if font >= largest:
            names.append("largest")
        names += [name for name, on in (("bold", bold), ("italic", italic), ("pointer", pointer)) if on]
        out.append(names)
    return out


def _colour(rgb: int) -> str:
    """A colour as one of few."""
    red, green, blue = rgb >> 16 & 255, rgb >> 8 & 255, rgb & 255
    if max(red, green, blue) - min(red, green, blue) < 48:
        return f"grey{(red + green + blue) // 192}"
    return "rgb"[max(range(3), key=lambda c: (red, green, blue)[c])]


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text[:400])]


GROUPS: dict[str, Callable[[View], Names]] = {
    "tags": tag_names,
    "classes": class_names,
    "position": coarse_position,
    "exact_position": exact_position,
    "text": text_shape,
    "words": text_words,
    "title": title_overlap,
    "site": site_variation,
    "label": label_text,
    "near": near_shape,
    "neighbours": neighbours,
    "layout": layout,
}
KNOWN_SITES = tuple(GROUPS)
NEW_SITES = tuple(name for name in GROUPS if name not in ("neighbours", "exact_position"))


def leaf_features(view: View, groups: Sequence[str]) -> Names:
    """Names of the features of every leaf, each with its group before it.

    Examples
    --------
    >>> from maxendnet.web.page import Page
    >>> view = View(Page.from_html("<p>$5"))
    >>> leaf_features(view, ["tags"])
    [['tags:path=p', 'tags:path=p/body', 'tags:tag0=p', 'tags:tag1=body']]
    """
    unknown = [name for name in groups if name not in GROUPS]
    if unknown:
        raise ValueError(f"there is no feature group {unknown[0]!r}; choose among {', '.join(GROUPS)}.")
    out: Names = [[] for _ in range(len(view))]
    for group in groups:
        for names, some in zip(out, GROUPS[group](view)):
            names += [f"{group}:{name}" for name in some]
    return out
