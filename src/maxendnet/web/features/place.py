"""Features of the place of a leaf: tags, classes, position, and layout in a browser."""

from __future__ import annotations

import re
from functools import lru_cache
from math import log2

from maxendnet.web.views.view import CACHE_SIZE, Names, View, log2_bin

MAX_CLASS_CHARS = 800  # longer class, id and itemprop attributes are truncated
MAX_LEVELS = 3  # elements, from that of the leaf upwards, with class features for each level
CONTAINERS = (
    "h1", "h2", "h3", "h4", "h5", "a", "table", "th", "td", "ul", "dl", "dt", "dd", "form", "b", "strong", "select",
)  # fmt: skip
PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# generated names contain digits among letters, or many letters without a vowel
HASHED = re.compile(
    r"(?=.*\d)(?=.*[a-z])(?=.{5,}$)\w*[a-z]+\d+[a-z]+\w*$|^[bcdfghjklmnpqrstvwxz]{6,}$|^[0-9a-f]{8,}$", re.I
)


def tag_names(view: View) -> Names:
    """Return features of the tags of every leaf: suffixes of its tag path, tags by level, and containers."""
    tags = view.page.tags
    return [_paths(tuple(tags[t] for t in view.ancestors(k))) for k in range(len(view))]


@lru_cache(maxsize=CACHE_SIZE)
def _paths(above: tuple[str, ...]) -> list[str]:
    names = [f"path={'/'.join(above[:n])}" for n in range(1, min(5, len(above)) + 1)]
    names += [f"tag{level}={tag}" for level, tag in enumerate(above[:4])]
    return names + [f"in={tag}" for tag in CONTAINERS if tag in above[:5]]


def class_names(view: View) -> Names:
    """Return the classes, ids and ``itemprop`` names of the nearest elements of every leaf, and the words in them.

    Generated names are dropped.
    """
    cache: dict[int, list[str]] = {}
    of_element: dict[int, tuple[str, ...]] = {}
    out = []
    for k in range(len(view)):
        element = view.elements[k]
        names = cache.get(element)
        if names is None:
            above = view.ancestors(k)
            for t in above:
                if t not in of_element:
                    of_element[t] = _raw_names(view.page.attributes[t])
            names = cache[element] = _class_names(tuple([of_element[t] for t in above]))
        out.append(names)
    return out


@lru_cache(maxsize=CACHE_SIZE)
def _class_names(above: tuple[tuple[str, ...], ...]) -> list[str]:
    names: dict[str, None] = {}  # an ordered set
    for level, raw_names in enumerate(above):
        for token in _tokens(*raw_names):
            names[f"class={token}"] = None
            if level < MAX_LEVELS:
                names[f"class{level}={token}"] = None
    return list(names)


def _raw_names(attributes: dict[str, str]) -> tuple[str, ...]:
    # truncate them, because they are keys of a cache
    return tuple([attributes.get(source, "")[:MAX_CLASS_CHARS] for source in ("class", "id", "itemprop")])


def class_tokens(attributes: dict[str, str]) -> list[str]:
    """Return the class, id and ``itemprop`` names of an element and the words in them, in lower case.

    Examples
    --------
    >>> class_tokens({"class": "productPrice css-1x2yz9", "id": "item123"})
    ['productprice', 'product', 'price', 'css', 'item0', 'item']
    """
    return _tokens(*_raw_names(attributes))


@lru_cache(maxsize=CACHE_SIZE)
def _tokens(*raw_names: str) -> list[str]:
    tokens: dict[str, None] = {}  # an ordered set
    for text in raw_names:
        for name in text.split()[:12]:
            name = name[:60]
            segments = re.split(r"[-_:]+", name)
            if any(HASHED.match(segment) for segment in segments):
                words = [segment for segment in segments if not HASHED.match(segment)]
            else:
                tokens[re.sub(r"\d+", "0", name.lower())] = None
                words = [word for word in PIECE.findall(name) if not word.isdigit()]
            tokens |= dict.fromkeys(word.lower() for word in words if len(word) > 1)
    return list(tokens)


def coarse_position(view: View) -> Names:
    """Return the approximate position of every leaf on the page."""
    n = max(1, len(view))
    return [
        [f"tenth={10 * k // n}", f"from_start={log2_bin(k)}", f"depth={min(view.depth[view.elements[k]], 30) // 3}"]
        for k in range(len(view))
    ]


def exact_position(view: View) -> Names:
    """Return the depth of every leaf, and the positions of its nearest elements among their siblings."""
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
    """Return features of the box, font and colours of every leaf; no features if the page has no layout."""
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
        names += [name for name, is_set in (("bold", bold), ("italic", italic), ("pointer", pointer)) if is_set]
        out.append(names)
    return out


def _colour(rgb: int) -> str:
    """Return the bin of a colour."""
    red, green, blue = rgb >> 16 & 255, rgb >> 8 & 255, rgb & 255
    if max(red, green, blue) - min(red, green, blue) < 48:
        return f"grey{(red + green + blue) // 192}"
    return "rgb"[max(range(3), key=lambda c: (red, green, blue)[c])]
