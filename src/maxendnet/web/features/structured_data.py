"""Features of what a page says to programs: the name of a value, and which texts show one that is said, too."""

from __future__ import annotations

from functools import lru_cache

from maxendnet.web.fields.types import is_number, number_of
from maxendnet.web.pages.structured_data import Value, names_above
from maxendnet.web.views.view import CACHE_SIZE, Names, View, fold

MOST_COMPARED = 200  # values of a page that texts are compared with
SHORTEST = 4  # letters of a value that is looked for within texts
LONGEST = 200
LONGEST_NAME = 60


def structured_data_names(view: View) -> Names:
    """Names that JSON-LD, microdata and ``meta`` elements give to the value of a leaf, in lower case.

    A name means the same on all sites that use it: ``is=price`` is a feature of a text in an element with
    ``itemprop="price"``, of a text that equals a price of JSON-LD, and of that price itself.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> html = '<script type=application/ld+json>{"@type": "Offer", "price": "5.00"}</script><b>$5</b> <i>new</i>'
    >>> structured_data_names(View(Page.from_html(html)))
    [['is=price', 'path=offer.price', 'number'], []]
    """
    page = view.page
    source = page.source or page
    said = [value for value in source.structured_values if len(value.text) <= LONGEST][:MOST_COMPARED]
    by_text: dict[str, list[Value]] = {}
    by_number: dict[float, list[Value]] = {}
    parts: list[tuple[str, Value]] = []
    for value in said:
        folded = fold(value.text)
        if not folded:
            continue
        by_text.setdefault(folded, []).append(value)
        number = number_of(value.text) if is_number(value.text) else None
        if number is not None:
            by_number.setdefault(number, []).append(value)
        elif len(folded) >= SHORTEST:
            parts.append((folded, value))
    scopes: dict[int, list[str]] = {}
    named = any("itemprop" in given for given in page.attributes)
    out: Names = []
    for k, element in enumerate(view.elements):
        if element not in scopes:
            known = named or view.data[k]
            scopes[element] = [name[:LONGEST_NAME].lower() for name in names_above(page, element)] if known else []
        scope = scopes[element]
        names = [f"is={scope[-1].split(':')[-1]}", f"path={'.'.join(scope[-3:])}"] if scope else []
        if view.data[k]:
            names.append("said")
        elif said:
            names += _same(view.folded[k], view.texts[k], by_text, by_number, parts)
        out.append(list(dict.fromkeys(names)))
    return out


def _same(
    folded: str, text: str, by_text: dict[str, list[Value]], by_number: dict[float, list[Value]],
    parts: list[tuple[str, Value]],
) -> list[str]:  # fmt: skip
    """Names of the values that a text shows: as they are, as a number, or among other words."""
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
    """The number that a short text says, such as a price."""
    digits = sum(map(str.isdigit, text))
    return number_of(text) if digits and 2 * digits >= sum(map(str.isalnum, text)) else None
