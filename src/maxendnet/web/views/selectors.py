"""CSS paths of nodes, and CSS selectors for the fields of a site."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from maxendnet.web.model.record import Record
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.structured_data import NAME_ATTRIBUTES, OBJECT, VALUE_TAGS, names_above

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
ATTRIBUTE_OF_TAG = {"img": "src", "meta": "content", "link": "href"}
MIN_RELATIVE_SHARE = 0.8  # to prefer a path with positions: its share relative to that of the path without


class Selector(NamedTuple):
    """CSS selector for a field on the pages of a site.

    Attributes
    ----------
    site, field, css : str
    share : float
        Share of the extracted values that the selector matches.
    n_answers : int
        Number of extracted values.
    alone : bool
        Whether the selector matches no more elements of a page than there are values, so that every match is a value.
    part : bool
        Whether values are only part of a text, or span several texts, so that the selector does not delimit them.
    attribute : str
        Attribute that contains the value; empty if the value is the text of the element.
    """

    site: str
    field: str
    css: str
    share: float
    n_answers: int
    alone: bool
    part: bool
    attribute: str = ""


def css_path(page: Page, node: int, positions: bool = False) -> str:
    """Return the CSS path of an element from the body; for a text, that of its element.

    For a value in the head, the path is its ``meta`` element with the name. For a JSON-LD value, it is the script
    followed by the property names.

    Parameters
    ----------
    page : Page
    node : int
    positions : bool
        Use the position among the siblings of the same tag instead of classes.

    Examples
    --------
    >>> page = Page.from_html("<div id=a class='item big'><p>x</p><p class=price>$5</p></div>")
    >>> css_path(page, 5), css_path(page, 5, positions=True)
    ('body > div.item > p.price', 'body > div:nth-of-type(1) > p:nth-of-type(2)')
    """
    t = int(page.parents[node]) if page.tags[node] == "#text" else node
    if page.tags[t] in VALUE_TAGS and (page.parents[t] == 0 or page.tags[page.parents[t]] == OBJECT):
        return _path_of_data(page, t)
    steps = []
    while t >= 0:
        step = page.tags[t]
        parent = int(page.parents[t])
        if parent >= 0:
            if positions:
                before = sum(page.tags[s] == step for s in range(parent + 1, t) if page.parents[s] == parent)
                step += f":nth-of-type({before + 1})"
            else:
                first_class = page.attributes[t].get("class", "").split(" ", 1)[0]
                step += f".{first_class}" if IDENTIFIER.match(first_class) else ""
        steps.append(step)
        t = parent
    return " > ".join(reversed(steps))


def _path_of_data(page: Page, t: int) -> str:
    """Return the path of a value outside the body: its ``meta`` element, or its property names in JSON-LD."""
    if page.tags[page.parents[t]] == OBJECT:
        return f'script[type="application/ld+json"] {".".join(names_above(page, t))}'
    attributes = page.attributes[t]
    name = next(name for name in NAME_ATTRIBUTES if attributes.get(name))
    return f"{page.tags[t]}[{name}={json.dumps(attributes[name], ensure_ascii=False)}]"


def whole_path(page: Page, node: int) -> str:
    """Return the CSS path of a node on its page; ``page`` may be an item of a listing."""
    return (
        css_path(page, node) if page.source is None or page.nodes is None else css_path(page.source, page.nodes[node])
    )


def find_selectors(
    pages: Sequence[Page], records: Iterable[Record], attributes: Mapping[str, str] | None = None
) -> list[Selector]:
    """Return, for every site and field, the CSS path that most extracted values share.

    Parameters
    ----------
    pages : sequence of Page
    records : iterable of Record
        Records of these pages.
    attributes : mapping of str to str, optional
        Attribute of every field whose values are attributes, see ``Extractor.attributes_``.

    Examples
    --------
    >>> from maxendnet.web.model.record import Cell
    >>> page = Page.from_html("<p class=price>$5</p><p>x</p>", name="a", site="s")
    >>> record = Record("a", "s", 0, {"price": Cell("$5", 0.9, 2)})
    >>> find_selectors([page], [record])[0].css
    'body > p.price'
    """
    of_name = {page.name: page for page in pages}
    answers: dict[tuple[str, str], list[_Answer]] = {}
    parts: dict[tuple[str, str], bool] = defaultdict(bool)
    for record in records:
        for name, cell in record.fields.items():
            if cell is not None and record.page in of_name:
                page, attribute = of_name[record.page], (attributes or {}).get(name, "")
                answer = _Answer(page, _with_attribute(page, cell.node, attribute), max(1, len(cell.values)))
                answers.setdefault((record.site, name), []).append(answer)
                parts[record.site, name] |= cell.span is not None
    selectors = []
    for (site, name), values in answers.items():
        css, share = _most_common([css_path(page, node) for page, node, _ in values])
        is_unique = _matches_only(values, css)
        if not is_unique:
            exact, exact_share = _most_common([css_path(page, node, positions=True) for page, node, _ in values])
            if exact_share >= MIN_RELATIVE_SHARE * share and all(n == 1 for _, _, n in values):
                css, share, is_unique = exact, exact_share, True
        attribute = (attributes or {}).get(name, "") or _attribute_of_element(values[0].page, values[0].node)
        selectors.append(Selector(site, name, css, share, len(values), is_unique, parts[site, name], attribute))
    return selectors


class _Answer(NamedTuple):
    """An extracted cell: its page, node and number of values."""

    page: Page
    node: int
    n_values: int


def _attribute_of_element(page: Page, node: int) -> str:
    """Return the attribute that contains the value of an element without text; empty for JSON-LD values."""
    in_json = node > 0 and page.tags[page.parents[node]] == OBJECT
    return "" if in_json else ATTRIBUTE_OF_TAG.get(page.tags[node], "")


def _with_attribute(page: Page, node: int, attribute: str) -> int:
    """Return the nearest ancestor with an attribute, or the node if there is none or ``attribute`` is empty."""
    t = node
    while attribute and t >= 0 and not page.attributes[t].get(attribute):
        t = int(page.parents[t])
    return t if t >= 0 else node


def _most_common(paths: Sequence[str]) -> tuple[str, float]:
    """Return the most common path and its share."""
    path, count = Counter(paths).most_common(1)[0]
    return path, count / len(paths)


def _matches_only(answers: Sequence[_Answer], css: str) -> bool:
    """Whether on every page at most as many elements match the path as there are values."""
    last_tag = css.rsplit(" > ", 1)[-1].split(".")[0]
    n_values: Counter[int] = Counter()
    for page, _, n in answers:
        n_values[id(page)] = max(n_values[id(page)], n)
    for page in {id(page): page for page, _, _ in answers}.values():
        n_matches = sum(tag == last_tag and css_path(page, t) == css for t, tag in enumerate(page.tags))
        if n_matches > n_values[id(page)]:
            return False
    return True
