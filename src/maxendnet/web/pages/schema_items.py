"""Items of schema.org on a page: JSON-LD objects and elements with microdata, with their properties."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxendnet.web.pages.page import Page, image_address
from maxendnet.web.pages.structured_data import OBJECT, VALUE_TAGS, value_text

MAX_DEPTH = 4  # properties from an item to a value, such as offers.priceSpecification.price
ITEM_TEXT = ("text", "name", "url", "value", "ratingvalue")
"""Properties that represent an item where a text is expected, such as the name of a person: the first that occurs."""
IMAGE_TEXT = ("contenturl", "url")
PAGE_TYPES = frozenset((
    "webpage", "website", "organization", "breadcrumblist", "listitem", "imageobject", "person", "searchaction",
    "itempage", "collectionpage", "wpheader", "wpfooter", "sitenavigationelement", "review", "comment", "question",
))  # fmt: skip
"""Types of items that describe the page or its publisher rather than what the page is about, in lower case."""
OTHER_NAMES = {
    "title": ("name", "headline"), "name": ("headline",), "ingredients": ("recipeingredient",),
    "instructions": ("recipeinstructions",), "servings": ("recipeyield",), "yields": ("recipeyield",),
    "rating": ("ratingvalue",), "phone": ("telephone",), "date": ("datepublished",),
    "publicationdate": ("datepublished",), "currency": ("pricecurrency",), "price": ("lowprice",),
    "cuisine": ("servescuisine", "recipecuisine"), "company": ("hiringorganization",), "location": ("joblocation",),
    "zip": ("postalcode",), "city": ("addresslocality",), "manufacturer": ("brand",), "reviews": ("reviewcount",),
    "text": ("articlebody", "description"),
}  # fmt: skip
"""Properties of schema.org for usual names of fields, after the property with the name of the field itself."""
OWN_NAMES = ("name", "title", "headline", "url", "description", "image")
"""Properties that every item may have, so that those of its parts do not describe the item itself."""
OTHER_SUBJECTS = (
    "review", "reviews", "comment", "isrelatedto", "issimilarto", "publisher", "mainentityofpage", "ispartof",
)  # fmt: skip
"""Properties whose values are about something else than the item."""
MARKUP = re.compile(r"<[^<>]*>")
BLANK = re.compile(r"\s+")


class Item(NamedTuple):
    """Item of schema.org.

    Attributes
    ----------
    node : int
        Page node of the item: an ``object`` node for JSON-LD, an element for microdata.
    type : str
        Type in lower case, such as ``product``; empty if not specified.
    properties : dict of str to list of int
        Nodes of the values of each property, by its name in lower case.
    is_part : bool
        Whether it is a property of another item.
    """

    node: int
    type: str
    properties: dict[str, list[int]]
    is_part: bool


class SchemaValue(NamedTuple):
    """Value of a property: its node, its text, and whether it is from ``json-ld`` or ``microdata``."""

    node: int
    text: str
    place: str


class SchemaItems:
    """Items of schema.org on a page.

    Attributes
    ----------
    items : dict of int to Item
        Items by their nodes, in document order.

    Examples
    --------
    >>> page = Page.from_html("<p itemscope itemtype=https://schema.org/Book><b itemprop=name>A cup</b>")
    >>> SchemaItems(page).items
    {1: Item(node=1, type='book', properties={'name': [2]}, is_part=False)}
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.items: dict[int, Item] = {}
        owner = [-1] * len(page)
        for t, tag in enumerate(page.tags):
            parent, attributes = int(page.parents[t]), page.attributes[t]
            owner[t] = parent if parent in self.items else owner[parent] if parent >= 0 else -1
            names = attributes.get("itemprop", "").lower().split() if owner[t] >= 0 else []
            for name in names:
                self.items[owner[t]].properties.setdefault(name, []).append(t)
            if tag == OBJECT or "itemscope" in attributes:
                kinds = attributes.get("itemtype" if tag != OBJECT else "type", "").split()
                kind = re.split("[/#:]", kinds[0])[-1].lower() if kinds else ""
                self.items[t] = Item(t, kind, {}, bool(names))
        ids = {page.attributes[t].get("itemid", ""): item for t, item in self.items.items() if item.properties}
        self._by_id = {name: item for name, item in ids.items() if name}

    def property_names(self) -> list[str]:
        """Return the names of the properties of the items, except those that describe the page itself."""
        items = [item for item in self.items.values() if not item.is_part and item.type not in PAGE_TYPES]
        return list(dict.fromkeys(name for item in items for name in item.properties))

    def values(self, fields: Sequence[str]) -> dict[str, list[SchemaValue]]:
        """Return the values of fields in the item that the page is about.

        This is the item with the most of the fields. Items that describe the page itself, such as its publisher, come
        last. Fields that the item lacks are read from other items of the same type.

        Parameters
        ----------
        fields : sequence of str
            Names of properties, or paths such as ``offers.price``. Case, spaces, "-" and "_" are ignored. Usual names
            of fields stand for properties of schema.org, see `OTHER_NAMES`.

        Returns
        -------
        dict of str to list of SchemaValue
            Distinct values of the fields that occur, in document order.

        Examples
        --------
        >>> script = '{"@type": "Product", "name": "Cup", "offers": {"price": 5}}'
        >>> page = Page.from_html(f"<script type=application/ld+json>{script}</script>")
        >>> {name: values[0].text for name, values in SchemaItems(page).values(["title", "price", "brand"]).items()}
        {'title': 'Cup', 'price': '5'}
        """
        ranked = []
        for item in self.items.values():
            cells = {} if item.is_part else {name: self._find(item, name) for name in fields}
            cells = {name: of_field for name, of_field in cells.items() if of_field}
            if cells:
                ranked.append(((item.type in PAGE_TYPES, -len(cells), item.node), item.type, cells))
        ranked.sort(key=lambda row: row[0])
        out: dict[str, list[SchemaValue]] = {}
        for _, kind, cells in ranked:
            if kind == ranked[0][1]:
                out = cells | out
        return out

    def _find(self, item: Item, field: str) -> list[SchemaValue]:
        """Return the values of a field in an item or in its parts, nearest first."""
        *steps, last = (re.sub(r"[\s_-]+", "", step).lower() for step in field.split("."))
        for name in (last, *OTHER_NAMES.get(last, ())):
            level = [item]
            for _ in range(1 if last in OWN_NAMES else MAX_DEPTH):
                nodes = [t for at in level for t in self._at(at, [*steps, name])]
                values = [self._value(t) for t in nodes]
                if distinct := {value.text: value for value in reversed(values) if value.text}:
                    return list(distinct.values())[::-1]
                level = [part for at in level for part in self._parts(at)]
        return []

    def _at(self, item: Item, path: Sequence[str]) -> list[int]:
        """Return the nodes at a path of properties."""
        nodes = item.properties.get(path[0], [])
        for name in path[1:]:
            nodes = [s for t in nodes if (part := self._item(t)) is not None for s in part.properties.get(name, ())]
        return nodes

    def _parts(self, item: Item) -> Iterator[Item]:
        """Yield the items that are properties of an item, except those about something else."""
        for name, nodes in item.properties.items():
            for t in nodes if name not in OTHER_SUBJECTS else ():
                if (part := self._item(t)) is not None:
                    yield part

    def _item(self, t: int) -> Item | None:
        """Return the item at a node; for a reference to an item elsewhere on the page, that item."""
        item = self.items.get(t)
        if item is None or item.properties:
            return item
        return self._by_id.get(self.page.attributes[t].get("itemid", ""), item)

    def _value(self, t: int) -> SchemaValue:
        """Return the value of a node; for an item, its text, name or address."""
        place = "json-ld" if self._is_script(t) else "microdata"
        item = self._item(t)
        if item is not None:
            nodes = [
                s
                for name in (IMAGE_TEXT if item.type == "imageobject" else ITEM_TEXT)
                for s in item.properties.get(name, ())
                if s not in self.items
            ]
            return SchemaValue(nodes[0], self._text(nodes[0]), place) if nodes else SchemaValue(t, "", place)
        return SchemaValue(t, self._text(t), place)

    def _is_script(self, t: int) -> bool:
        while t > 0 and self.page.tags[t] in (OBJECT, *VALUE_TAGS):
            if self.page.tags[t] == OBJECT:
                return True
            t = int(self.page.parents[t])
        return False

    def _text(self, t: int) -> str:
        """Return the text of a value, without markup and character references."""
        tag, attributes = self.page.tags[t], self.page.attributes[t]
        if tag in VALUE_TAGS:
            return BLANK.sub(" ", MARKUP.sub(" ", html.unescape(html.unescape(value_text(attributes))))).strip()
        if tag == "img":
            return image_address(attributes)
        name = "href" if tag in ("a", "area") else "datetime" if tag == "time" else "content"
        return attributes.get("content") or attributes.get(name) or self.page.text(t)
