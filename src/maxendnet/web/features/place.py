"""Features of where a leaf is: tags, classes, position, and the box and font a browser gives it."""

from __future__ import annotations

import re
from functools import lru_cache
from math import log2

from maxendnet.web.views.view import CACHE_SIZE, Names, View, log2_bin

LONGEST_NAMES = 800  # characters of a list of classes
LEVELS = 3  # ancestors whose classes are told apart by level
INSIDE = (
    "h1", "h2", "h3", "h4", "h5", "a", "table", "th", "td", "ul", "dl", "dt", "dd", "form", "b", "strong", "select",
)  # fmt: skip
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# a name no person gave: digits among letters, or a long run without a vowel
HASHED = re.compile(
    r"(?=.*\d)(?=.*[a-z])(?=.{5,}$)\w*[a-z]+\d+[a-z]+\w*$|^[bcdfghjklmnpqrstvwxz]{6,}$|^[0-9a-f]{8,}$", re.I
)


def tag_names(view: View) -> Names:
    """Suffixes of the tag path, tags by level, and what the leaf is inside of."""
    tags = view.page.tags
    return [_paths(tuple(tags[t] for t in view.ancestors(k))) for k in range(len(view))]


@lru_cache(maxsize=CACHE_SIZE)
def _paths(above: tuple[str, ...]) -> list[str]:
    names = [f"path={'/'.join(above[:n])}" for n in range(1, min(5, len(above)) + 1)]
    names += [f"tag{level}={tag}" for level, tag in enumerate(above[:4])]
    return names + [f"in={tag}" for tag in INSIDE if tag in above[:5]]


def class_names(view: View) -> Names:
    """Classes, ids and item properties of the nearest elements, whole and in pieces; hashed names are dropped."""
    cache: dict[int, list[str]] = {}
    given: dict[int, tuple[str, ...]] = {}
    out = []
    for k in range(len(view)):
        element = view.elements[k]
        names = cache.get(element)
        if names is None:
            above = view.ancestors(k)
            for t in above:
                if t not in given:
                    given[t] = _given_names(view.page.attributes[t])
            names = cache[element] = _class_names(tuple([given[t] for t in above]))
        out.append(names)
    return out


@lru_cache(maxsize=CACHE_SIZE)
def _class_names(above: tuple[tuple[str, ...], ...]) -> list[str]:
    found: dict[str, None] = {}
    for level, given in enumerate(above):
        for token in _tokens(*given):
            found[f"class={token}"] = None
            if level < LEVELS:
                found[f"class{level}={token}"] = None
    return list(found)


def _given_names(attributes: dict[str, str]) -> tuple[str, ...]:
    # names are kept for other pages: no more of them than is looked at
    return tuple([attributes.get(source, "")[:LONGEST_NAMES] for source in ("class", "id", "itemprop")])


def class_tokens(attributes: dict[str, str]) -> list[str]:
    """Names a person gave to an element, in lower case, whole and in pieces.

    Examples
    --------
    >>> class_tokens({"class": "productPrice css-1x2yz9", "id": "item123"})
    ['productprice', 'product', 'price', 'css', 'item0', 'item']
    """
    return _tokens(*_given_names(attributes))


@lru_cache(maxsize=CACHE_SIZE)
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
    out: Names = []
    parents, rank, n_children = view.parents, view.rank, view.n_children
    of_element: dict[int, list[str]] = {}
    for k, element in enumerate(view.elements):
        names = of_element.get(element)
        if names is None:
            names = [f"depth={view.depth[element]}"]
            for level, t in enumerate(view.ancestors(k)[:4]):
                names += _siblings(level, min(rank[t], 20), log2_bin(n_children[parents[t]] if parents[t] >= 0 else 1))
            of_element[element] = names
        out.append([*names, f"from_end={log2_bin(len(view) - k)}"])
    return out


@lru_cache(maxsize=CACHE_SIZE)
def _siblings(level: int, rank: int, count: int) -> list[str]:
    return [f"sibling{level}={rank}", f"siblings{level}={count}"]


def layout(view: View) -> Names:
    """Box, font and colours, where a browser has drawn the page."""
    boxes = view.page.layout
    if boxes is None:
        return [[] for _ in range(len(view))]
    fonts = [float(boxes[view.leaves[k], 4]) for k in range(len(view))]
    body = sorted(fonts)[len(fonts) // 2] if fonts else 16.0
    largest = max(fonts, default=16.0)
    out = []
    for k, font in enumerate(fonts):
        x, y, width, height, _, bold, italic, pointer, colour, background, align = boxes[view.leaves[k]].tolist()
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
