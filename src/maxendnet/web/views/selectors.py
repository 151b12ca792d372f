"""Places in words that others understand: the CSS path of a node, and the path that serves for a field of a site."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from maxendnet.web.model.record import Record
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.structured_data import NAMES, OBJECT, VALUES, names_above

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
ATTRIBUTE_OF_TAG = {"img": "src", "meta": "content", "link": "href"}
MOSTLY = 0.8  # a path with positions is taken if it serves that share of the answers that one without them does


class Selector(NamedTuple):
    """Where a field is on the pages of a site.

    Attributes
    ----------
    site, field, css : str
    share : float
        Of the answers that stand there.
    n_answers : int
    alone : bool
        Whether nothing else is there on the pages: the first match is then the value, of a field with several values
        every match is one.
    part : bool
        Whether values are a part of the text there, or go over several: the path alone does not cut them out.
    attribute : str
        What to take of the element: an attribute, or its text if this is empty.
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
    """The path of an element from the body; of a text, that of its element.

    Of what the head says, the name of its ``meta`` element; of JSON-LD, names of JSON after the path of the script.

    Parameters
    ----------
    page : Page
    node : int
    positions : bool
        With the position among the elements of the same name, instead of classes.

    Examples
    --------
    >>> page = Page.from_html("<div id=a class='item big'><p>x</p><p class=price>$5</p></div>")
    >>> css_path(page, 5), css_path(page, 5, positions=True)
    ('body > div.item > p.price', 'body > div:nth-of-type(1) > p:nth-of-type(2)')
    """
    t = int(page.parents[node]) if page.tags[node] == "#text" else node
    if page.tags[t] in VALUES and (page.parents[t] == 0 or page.tags[page.parents[t]] == OBJECT):
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
                first = page.attributes[t].get("class", "").split(" ", 1)[0]
                step += f".{first}" if PLAIN.match(first) else ""
        steps.append(step)
        t = parent
    return " > ".join(reversed(steps))


def _path_of_data(page: Page, t: int) -> str:
    """Where a value is that is said outside of the body: by the name of its element, or by names of JSON."""
    if page.tags[page.parents[t]] == OBJECT:
        return f'script[type="application/ld+json"] {".".join(names_above(page, t))}'
    given = page.attributes[t]
    name = next(name for name in NAMES if given.get(name))
    return f"{page.tags[t]}[{name}={json.dumps(given[name], ensure_ascii=False)}]"


def whole_path(page: Page, node: int) -> str:
    """The CSS path of a node of a page, or of a record, on the whole page."""
    return (
        css_path(page, node) if page.source is None or page.nodes is None else css_path(page.source, page.nodes[node])
    )


def find_selectors(
    pages: Sequence[Page], records: Iterable[Record], attributes: Mapping[str, str] | None = None
) -> list[Selector]:
    """For every field of every site, the CSS path that most of its answers share.

    Parameters
    ----------
    pages : sequence of Page
    records : iterable of Record
        Of these pages.
    attributes : mapping of str to str, optional
        Of the fields whose values are attributes, which one: ``Extractor.attributes_``.

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
    out = []
    for (site, name), some in answers.items():
        css, share = _most([css_path(page, node) for page, node, _ in some])
        alone = _alone(some, css)
        if not alone:
            exact, exact_share = _most([css_path(page, node, positions=True) for page, node, _ in some])
            if exact_share >= MOSTLY * share and all(n == 1 for _, _, n in some):
                css, share, alone = exact, exact_share, True
        attribute = (attributes or {}).get(name, "") or _attribute_of_element(some[0].page, some[0].node)
        out.append(Selector(site, name, css, share, len(some), alone, parts[site, name], attribute))
    return out


class _Answer(NamedTuple):
    page: Page
    node: int
    n_values: int


def _attribute_of_element(page: Page, node: int) -> str:
    """Where an element without a text has its value; names of JSON have no attributes."""
    in_json = node > 0 and page.tags[page.parents[node]] == OBJECT
    return "" if in_json else ATTRIBUTE_OF_TAG.get(page.tags[node], "")


def _with_attribute(page: Page, node: int, attribute: str) -> int:
    """The nearest element around a node that has an attribute; the node itself, if none does or none is asked for."""
    t = node
    while attribute and t >= 0 and not page.attributes[t].get(attribute):
        t = int(page.parents[t])
    return t if t >= 0 else node


def _most(paths: Sequence[str]) -> tuple[str, float]:
    path, times = Counter(paths).most_common(1)[0]
    return path, times / len(paths)


def _alone(answers: Sequence[_Answer], css: str) -> bool:
    """Whether on each page no more elements have the path than there are values."""
    last = css.rsplit(" > ", 1)[-1].split(".")[0]
    n_values: Counter[int] = Counter()
    for page, _, n in answers:
        n_values[id(page)] = max(n_values[id(page)], n)
    for page in {id(page): page for page, _, _ in answers}.values():
        found = [t for t, tag in enumerate(page.tags) if tag == last and css_path(page, t) == css]
        if len(found) > n_values[id(page)]:
            return False
    return True
