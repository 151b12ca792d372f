"""Features from structured data: the property names of values, and of values that a text displays."""

from __future__ import annotations

from functools import lru_cache

from maxendnet.web.fields.types import is_number, number_of
from maxendnet.web.pages.structured_data import Value, names_above
from maxendnet.web.views.view import CACHE_SIZE, Names, View, fold

MAX_VALUES = 200  # maximum number of values compared with the texts of a page
MIN_PART_CHARS = 4  # minimum length of a value that is searched for within texts
MAX_VALUE_CHARS = 200
MAX_NAME_CHARS = 60


def structured_data_names(view: View) -> Names:
    """Return the property names of every leaf in JSON-LD, microdata and ``meta`` elements.

    These features have the same meaning on all sites: ``is=price`` is a feature of a text in an element with
    ``itemprop="price"``, of a text that equals a ``price`` in JSON-LD, and of that JSON-LD value itself.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> html = '<script type=application/ld+json>{"@type": "Offer", "price": "5.00"}</script><b>$5</b> <i>new</i>'
    >>> structured_data_names(View(Page.from_html(html)))
    [['is=price', 'path=offer.price', 'number'], []]
    """
    page = view.page
    source = page.source or page
    values = [value for value in source.structured_values if len(value.text) <= MAX_VALUE_CHARS][:MAX_VALUES]
    by_text: dict[str, list[Value]] = {}
    by_number: dict[float, list[Value]] = {}
    parts: list[tuple[str, Value]] = []
    for value in values:
        folded = fold(value.text)
        if not folded:
            continue
        by_text.setdefault(folded, []).append(value)
        number = number_of(value.text) if is_number(value.text) else None
        if number is not None:
            by_number.setdefault(number, []).append(value)
        elif len(folded) >= MIN_PART_CHARS:
            parts.append((folded, value))
    scopes: dict[int, list[str]] = {}
    has_microdata = any("itemprop" in attributes for attributes in page.attributes)
    out: Names = []
    for k, element in enumerate(view.elements):
        if element not in scopes:
            above = names_above(page, element) if has_microdata or view.data[k] else []
            scopes[element] = [name[:MAX_NAME_CHARS].lower() for name in above]
        scope = scopes[element]
        names = [f"is={scope[-1].split(':')[-1]}", f"path={'.'.join(scope[-3:])}"] if scope else []
        if view.data[k]:
            names.append("said")
        elif values:
            names += _value_names(view.folded[k], view.texts[k], by_text, by_number, parts)
        out.append(list(dict.fromkeys(names)))
    return out


def _value_names(
    folded: str, text: str, by_text: dict[str, list[Value]], by_number: dict[float, list[Value]],
    parts: list[tuple[str, Value]],
) -> list[str]:  # fmt: skip
    """Return features for the values that a text equals, equals as a number, or contains."""
    names: list[str] = []
    for value in by_text.get(folded, ()):
        names += [f"is={value.name}", f"path={value.path}"]
    if by_number:
        number = _number(text[:40])
        for value in by_number.get(number, ()) if number is not None else ():
            names += [f"is={value.name}", f"path={value.path}", "number"]
    for part, value in parts:
        if part in folded and part != folded:
            names.append(f"has={value.name}")
    return names


@lru_cache(maxsize=CACHE_SIZE)
def _number(text: str) -> float | None:
    """Return the number in a short text, such as a price, or None if the text has more letters than digits."""
    digits = sum(map(str.isdigit, text))
    return number_of(text) if digits and 2 * digits >= sum(map(str.isalnum, text)) else None
