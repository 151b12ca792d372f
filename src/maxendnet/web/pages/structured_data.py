"""Structured data of a page (JSON-LD, microdata, ``meta`` elements) as page nodes.

A value is represented by a ``meta`` element. The attribute ``itemprop`` (or ``property``, ``name``) contains its name,
and ``content`` its text. Values in the body keep their position. Values of the head and of JSON-LD scripts are appended
after the nodes of the body: a ``meta`` element for each value, and an ``object`` element for each JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from maxendnet.web.pages.page import Page
    from maxendnet.web.pages.parser import RawTree

VALUE_TAGS = ("meta", "link")
"""Elements that contain a value but display nothing."""
OBJECT = "object"  # no conflict: HTML elements with this name never become page nodes
NAME_ATTRIBUTES = ("itemprop", "property", "name")
MAX_VALUES = 1_000
MAX_SCRIPTS = 20
MAX_SCRIPT_CHARS = 1_000_000
MAX_DEPTH = 20
MAX_PATH_CHARS = 200
COMMENT_START = re.compile(r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)?\s*")
TYPE_NAME = re.compile(r"[A-Za-z]\w*\Z")


class DataNode(NamedTuple):
    """A node for structured data: tag, index of its parent among these nodes (-1 for the body), and attributes."""

    tag: str
    parent: int
    attributes: dict[str, str]


class Value(NamedTuple):
    """A value of structured data.

    Attributes
    ----------
    node : int
    path : str
        Property names from the outermost object to the value, in lower case, such as ``product.offers.price``. The
        first name is the type of the object.
    text : str
    """

    node: int
    path: str
    text: str

    @property
    def name(self) -> str:
        """Last name of the path, without a prefix such as "og:"."""
        return re.split("[.:]", self.path)[-1]


def has_value(tag: str, attributes: dict[str, str]) -> bool:
    """Whether an element is a value of structured data.

    Examples
    --------
    >>> has_value("meta", {"itemprop": "price", "content": "5"}), has_value("link", {"rel": "icon", "href": "a"})
    (True, False)
    """
    if tag == "meta":
        return bool(attributes.get("content")) and any(attributes.get(name) for name in NAME_ATTRIBUTES)
    return tag == "link" and bool(attributes.get("href")) and bool(attributes.get("itemprop"))


def value_text(attributes: dict[str, str]) -> str:
    """Return the text of a value from the attributes of its element."""
    return attributes.get("content") or attributes.get("href", "")


def data_nodes(tree: RawTree) -> list[DataNode]:
    """Return nodes for the structured data outside the body, parents before children.

    Examples
    --------
    >>> from maxendnet.web.pages.parser import parse
    >>> text = '{"@type": "Book", "name": "Cup", "offers": {"price": 12.50}}'
    >>> for node in data_nodes(parse(f"<script type=application/ld+json>{text}</script><p>x")):
    ...     print(node)
    DataNode(tag='object', parent=-1, attributes={'type': 'Book'})
    DataNode(tag='meta', parent=0, attributes={'itemprop': 'name', 'content': 'Cup'})
    DataNode(tag='object', parent=0, attributes={'itemprop': 'offers'})
    DataNode(tag='meta', parent=2, attributes={'itemprop': 'price', 'content': '12.50'})
    """
    nodes: list[DataNode] = []
    n_scripts = 0
    in_body = [False] * len(tree.tags)
    for k, tag in enumerate(tree.tags):
        parent, attributes = tree.parents[k], tree.attributes[k]
        in_body[k] = parent >= 0 and (in_body[parent] or tree.tags[parent] == "body")
        if len(nodes) >= MAX_VALUES:
            break
        if tag == "#text" and parent >= 0 and tree.tags[parent] == "script" and n_scripts < MAX_SCRIPTS:
            if "ld+json" in tree.attributes[parent].get("type", "").lower():
                n_scripts += 1
                _add(nodes, read_json(tree.texts[k]), "", -1, 0)
        elif tag in VALUE_TAGS and not in_body[k] and has_value(tag, attributes):
            names = [name for name in (*NAME_ATTRIBUTES, "content", "href") if name in attributes]
            nodes.append(DataNode("meta", -1, {name: attributes[name] for name in names}))
    return nodes[:MAX_VALUES]


def read_json(text: str) -> Any:
    """Return the JSON value of a script with numbers as text, or None if the script is invalid or too long.

    Examples
    --------
    >>> read_json('<!-- {"price": 12.50, "note": "a\\nb"}; -->'), read_json('{"price": ')
    ({'price': '12.50', 'note': 'a\\nb'}, None)
    """
    if len(text) > MAX_SCRIPT_CHARS:
        return None
    text = text[COMMENT_START.match(text).end() :]  # type: ignore[union-attr]  # the pattern always matches, perhaps the empty string
    reader = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str, strict=False)
    try:
        return reader.raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _add(nodes: list[DataNode], value: Any, name: str, parent: int, depth: int) -> None:
    """Append the nodes for a JSON value to ``nodes``."""
    if len(nodes) >= MAX_VALUES or depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for element in value:
            _add(nodes, element, name, parent, depth + 1)
    elif isinstance(value, dict):
        if not name and "@graph" in value:
            _add(nodes, value["@graph"], "", parent, depth + 1)
            return
        type_name = value.get("@type")
        type_name = type_name[0] if isinstance(type_name, list) and type_name else type_name
        attributes = {"itemprop": name} if name else {}
        type_name = re.split("[/#]", type_name)[-1] if isinstance(type_name, str) else ""
        if TYPE_NAME.match(type_name):
            attributes["type"] = type_name
        if isinstance(value.get("@id"), str) and value["@id"]:
            attributes["itemid"] = value["@id"]
        node = len(nodes)
        nodes.append(DataNode(OBJECT, parent, attributes))
        if isinstance(value.get("@value"), str):
            _add(nodes, value["@value"], "value", node, depth + 1)
        for key, member in value.items():
            if isinstance(key, str) and key and not key.startswith("@"):
                _add(nodes, member, key, node, depth + 1)
    elif value is not None and name:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text.strip():
            nodes.append(DataNode("meta", parent, {"itemprop": name, "content": text}))


def values_of(page: Page) -> Iterator[Value]:
    """Yield the values of structured data on a page, except microdata that is displayed as text.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> list(values_of(Page.from_html("<div itemscope itemprop=offers><p>x<meta itemprop=price content=5></div>")))
    [Value(node=4, path='offers.price', text='5')]
    """
    for t, tag in enumerate(page.tags):
        if tag in VALUE_TAGS:
            yield Value(t, ".".join(names_above(page, t))[:MAX_PATH_CHARS].lower(), value_text(page.attributes[t]))


def names_above(page: Page, t: int) -> list[str]:
    """Return the property names of an element and its ancestors, outermost first."""
    names: list[str] = []
    steps = 0
    while t >= 0 and steps < MAX_DEPTH:
        attributes = page.attributes[t]
        if page.tags[t] in VALUE_TAGS:
            name = next((attributes[source] for source in NAME_ATTRIBUTES if attributes.get(source)), "")
        else:
            name = attributes.get("itemprop", "")
        if not name and t > 0 and page.tags[t] == OBJECT and page.parents[t] == 0:
            name = attributes.get("type", "")
        names += name.split()[:1]
        t, steps = int(page.parents[t]), steps + 1
    return names[::-1]
