"""What a page says to programs and does not show: JSON-LD, microdata and ``meta`` elements, as nodes like all others.

A value becomes an element ``meta`` with its name in ``itemprop`` (or ``property``, ``name``) and its text in
``content``. Those of the body stay where they are. What the head and the JSON-LD scripts say follows after the body's
own nodes, which keep their numbers: a ``meta`` each, and an element ``object`` for every object of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from maxendnet.web.pages.page import Page
    from maxendnet.web.pages.parser import RawTree

VALUES = ("meta", "link")
"""Elements that say a value and show nothing."""
OBJECT = "object"  # an HTML element of this name is never a node of a page
NAMES = ("itemprop", "property", "name")
MOST_VALUES = 1_000
MOST_SCRIPTS = 20
LONGEST_SCRIPT = 1_000_000  # letters
DEEPEST = 20
LONGEST_PATH = 200
WRAPPING = re.compile(r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)?\s*")
TYPE = re.compile(r"[A-Za-z]\w*\Z")


class Said(NamedTuple):
    """A node made of data: its tag, the place of its parent among them (-1 for the body), and its attributes."""

    tag: str
    parent: int
    attributes: dict[str, str]


class Value(NamedTuple):
    """A value that a page says to programs.

    Attributes
    ----------
    node : int
    path : str
        Its names from the outermost object to the value, such as ``product.offers.price``, in lower case; the first is
        a type.
    text : str
    """

    node: int
    path: str
    text: str

    @property
    def name(self) -> str:
        """The last name of the path; prefixes such as "og:" are left out."""
        return re.split("[.:]", self.path)[-1]


def says_value(tag: str, attributes: dict[str, str]) -> bool:
    """Whether an element of the body says a value to programs and shows nothing.

    Examples
    --------
    >>> says_value("meta", {"itemprop": "price", "content": "5"}), says_value("link", {"rel": "icon", "href": "a"})
    (True, False)
    """
    if tag == "meta":
        return bool(attributes.get("content")) and any(attributes.get(name) for name in NAMES)
    return tag == "link" and bool(attributes.get("href")) and bool(attributes.get("itemprop"))


def text_of_value(attributes: dict[str, str]) -> str:
    """What an element of these says."""
    return attributes.get("content") or attributes.get("href", "")


def outside_body(tree: RawTree) -> list[Said]:
    """What the head and the scripts of a page say, parents before children.

    Examples
    --------
    >>> from maxendnet.web.pages.parser import parse
    >>> text = '{"@type": "Book", "name": "Cup", "offers": {"price": 12.50}}'
    >>> for said in outside_body(parse(f"<script type=application/ld+json>{text}</script><p>x")):
    ...     print(said)
    Said(tag='object', parent=-1, attributes={'type': 'Book'})
    Said(tag='meta', parent=0, attributes={'itemprop': 'name', 'content': 'Cup'})
    Said(tag='object', parent=0, attributes={'itemprop': 'offers'})
    Said(tag='meta', parent=2, attributes={'itemprop': 'price', 'content': '12.50'})
    """
    found: list[Said] = []
    n_scripts = 0
    below_body = [False] * len(tree.tags)
    for k, tag in enumerate(tree.tags):
        above, given = tree.parents[k], tree.attributes[k]
        below_body[k] = above >= 0 and (below_body[above] or tree.tags[above] == "body")
        if len(found) >= MOST_VALUES:
            break
        if tag == "#text" and above >= 0 and tree.tags[above] == "script" and n_scripts < MOST_SCRIPTS:
            if "ld+json" in tree.attributes[above].get("type", "").lower():
                n_scripts += 1
                _add(found, read_json(tree.texts[k]), "", -1, 0)
        elif tag in VALUES and not below_body[k] and says_value(tag, given):
            found.append(Said("meta", -1, {name: given[name] for name in (*NAMES, "content", "href") if name in given}))
    return found[:MOST_VALUES]


def read_json(text: str) -> Any:
    """The value of a script, numbers as they are written; None if it is damaged, or too large.

    Examples
    --------
    >>> read_json('<!-- {"price": 12.50, "note": "a\\nb"}; -->'), read_json('{"price": ')
    ({'price': '12.50', 'note': 'a\\nb'}, None)
    """
    if len(text) > LONGEST_SCRIPT:
        return None
    text = text[WRAPPING.match(text).end() :]  # type: ignore[union-attr]  # it may match nothing
    reader = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str, strict=False)
    try:
        return reader.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _add(found: list[Said], value: Any, name: str, parent: int, depth: int) -> None:
    if len(found) >= MOST_VALUES or depth > DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            _add(found, one, name, parent, depth + 1)
    elif isinstance(value, dict):
        if not name and "@graph" in value:
            _add(found, value["@graph"], "", parent, depth + 1)
            return
        kind = value.get("@type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        given = {"itemprop": name} if name else {}
        if isinstance(kind, str) and TYPE.match(kind):
            given["type"] = kind
        found.append(Said(OBJECT, parent, given))
        own = len(found) - 1
        if isinstance(value.get("@value"), str):
            _add(found, value["@value"], "value", own, depth + 1)
        for key, one in value.items():
            if isinstance(key, str) and key and not key.startswith("@"):
                _add(found, one, key, own, depth + 1)
    elif value is not None and name:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text.strip():
            found.append(Said("meta", parent, {"itemprop": name, "content": text}))


def values_of(page: Page) -> Iterator[Value]:
    """Values that a page says to programs, without those of microdata that are shown as texts.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> list(values_of(Page.from_html("<div itemscope itemprop=offers><p>x<meta itemprop=price content=5></div>")))
    [Value(node=4, path='offers.price', text='5')]
    """
    for t, tag in enumerate(page.tags):
        if tag in VALUES:
            yield Value(t, ".".join(names_above(page, t))[:LONGEST_PATH].lower(), text_of_value(page.attributes[t]))


def names_above(page: Page, t: int) -> list[str]:
    """Names of an element and of those around it that say what it is, outermost first."""
    names: list[str] = []
    steps = 0
    while t >= 0 and steps < DEEPEST:
        given = page.attributes[t]
        name = next((given[x] for x in NAMES if given.get(x)), "") if page.tags[t] in VALUES else given.get("itemprop")
        top = t > 0 and page.tags[t] == OBJECT and page.parents[t] == 0
        name = name or (given.get("type", "") if top else "")
        if name:
            names += name.split()[:1]
        t, steps = int(page.parents[t]), steps + 1
    return names[::-1]
