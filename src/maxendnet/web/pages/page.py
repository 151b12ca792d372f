"""Pages as lists of nodes. Labels refer to node numbers, which are the same each time a page is read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages import parser_process
from maxendnet.web.pages.elements import BREAKS, words
from maxendnet.web.pages.encoding import decode
from maxendnet.web.pages.parser import MAX_NODES, RawTree, TooManyNodes, too_many_nodes
from maxendnet.web.pages.parser_process import PageError
from maxendnet.web.pages.runs import find_runs
from maxendnet.web.pages.saved_files import SAVED_FROM, unpack
from maxendnet.web.pages.structured_data import (
    OBJECT,
    VALUE_TAGS,
    Value,
    data_nodes,
    has_value,
    value_text,
    values_of,
)

__all__ = ["LAYOUT", "Page", "PageError", "UnreadPage", "read_page"]


# elements whose content is not shown as text
DROPPED_TAGS = words(
    "head script style template svg math canvas iframe frame frameset object embed applet param meta link base title "
    "audio video source track map area noframes noembed"
)
KEPT_ATTRIBUTES = words(
    "class id src href alt title name type role style width height border align valign colspan rowspan bgcolor color "
    "size face itemprop property rel hidden datetime content data-src aria-label"
)
ITEM_ATTRIBUTES = words("itemscope itemtype itemid")
SPACE = re.compile(r"[\s\u200b\ufeff]+")
# characters that XML does not allow and that values do not need
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
TAG_NAME = re.compile(r"[a-z_][a-z0-9_.-]*\Z")
DATA_NAME = re.compile(r"data-[a-z][a-z0-9_-]{0,40}\Z")
VOID_TAGS = words("br hr img input wbr col meta link")
LAYOUT = ("x", "y", "width", "height", "font", "bold", "italic", "pointer", "colour", "background", "align")
MAX_BYTES = 16_000_000
MAX_ATTRIBUTE_CHARS = 2_000
MAX_DATA_ATTRIBUTES = 12  # ``data-*`` attributes of an element
MAX_DATA_CHARS = 300  # of a ``data-*`` attribute; longer ones are scripts' state rather than values


class UnreadPage(NamedTuple):
    """Name of a page that could not be read or rendered, and the reason."""

    name: str
    error: str


@dataclass(eq=False, repr=False)
class Page:
    """Nodes of a page in document order.

    Nodes are the elements of the body and the non-blank texts. They are followed by nodes for structured data outside
    the body (JSON-LD, elements of the head), see `maxendnet.web.pages.structured_data`.

    Create a page with `read_page`, `Page.from_html` or `Page.from_canonical`.

    Attributes
    ----------
    tags : list of str
        Element names; ``"#text"`` for a text.
    parents : ndarray of shape (n_nodes,)
        Parent of each node; -1 for node 0, the body.
    texts : list of str
        Texts with white space collapsed to single spaces, also at both ends; empty for elements.
    attributes : list of dict
        Attributes of each node that features or values use; long values are truncated.
    title : str
    name : str
        Name of the file.
    site : str
        Name of the site. Pages of one site share a template.
    url : str
        Address of the page, if the file contains it as canonical link, ``og:url``, base, comment of the browser that
        saved the page, or location in MHTML.
    layout : ndarray of shape (n_nodes, 11), or None
        Box and style of every element in a browser, with the columns ``LAYOUT``, in CSS pixels. Texts have the values
        of their parent. The first four columns are -1 for nodes that are not displayed.
    warnings : list of str
        Problems while reading.
    source, nodes : Page and ndarray, or None
        For an item of a listing, which is treated as a small page (see `maxendnet.web.listings.patterns`): the
        original page, and the numbers of the item's nodes on the original page.

    Examples
    --------
    >>> page = Page.from_html("<title>Cup</title><p>A <b>cup</b>, <i>$5</i>", name="cup.html", site="shop")
    >>> page.tags
    ['body', 'p', '#text', 'b', '#text', '#text', 'i', '#text']
    >>> page.text(4), page.title
    ('cup', 'Cup')
    >>> again = Page.from_canonical(page.canonical())
    >>> again.tags == page.tags and again.texts == page.texts
    True
    """

    tags: list[str]
    parents: NDArray[np.int32]
    texts: list[str]
    attributes: list[dict[str, str]]
    title: str = ""
    name: str = ""
    site: str = ""
    layout: NDArray[np.float64] | None = None
    warnings: list[str] = field(default_factory=list)
    url: str = ""
    source: Page | None = None
    nodes: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.tags)

    def __repr__(self) -> str:
        return f"Page({self.name!r}, site={self.site!r}, n_nodes={len(self)})"

    @classmethod
    def from_html(cls, html: str, *, name: str = "", site: str = "") -> Page:
        """Parse HTML, valid or not, as browsers do."""
        tree = parser_process.shared.parse(html)
        tree_nodes, page = canonical_nodes(tree)
        page.name, page.title, page.url = name, title_of(tree), canonical_url(tree)
        if not page.url and (saved_from := SAVED_FROM.search(html[:4_000])):
            page.url = saved_from[1]
        page.site = site or host_of(page.url)
        if not tree_nodes:
            page.warnings.append("the page has no body")
        return page

    @classmethod
    def from_canonical(cls, text: str, *, title: str = "", name: str = "", site: str = "") -> Page:
        """Read the output of `canonical`, or other XML with the root ``body``, without changing its nodes."""
        page = cls([], np.zeros(0, dtype=np.int32), [], [], title=title, name=name, site=site)
        _read_xml(text, page)
        return page

    def canonical(self) -> str:
        """Return the page as XML, from which `from_canonical` restores the same nodes with the same numbers."""
        out: list[str] = []
        open_nodes: list[int] = []
        for t, tag in enumerate(self.tags):
            while open_nodes and open_nodes[-1] != self.parents[t]:
                out.append(f"</{self.tags[open_nodes.pop()]}>")
            if tag == "#text":
                out.append(escape(self.texts[t]))
            else:
                attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes[t].items())
                if tag in VOID_TAGS:
                    out.append(f"<{tag}{attributes}/>")  # a form that is also valid HTML
                else:
                    out.append(f"<{tag}{attributes}>")
                    open_nodes.append(t)
        out += [f"</{self.tags[t]}>" for t in reversed(open_nodes)]
        return "".join(out)

    @cached_property
    def sha(self) -> str:
        """Checksum of the nodes. Labels by node number are valid only for pages with the same checksum."""
        return hashlib.sha256(self.canonical().encode("utf-8")).hexdigest()[:16]

    @cached_property
    def structured_values(self) -> list[Value]:
        """Values of the structured data, except microdata that is shown as text."""
        return list(values_of(self))

    @property
    def shown(self) -> Page:
        """The page without structured data and ``data-*`` attributes, as in versions before 0.2."""
        page = self.select([t for t, tag in enumerate(self.tags) if tag not in (*VALUE_TAGS, OBJECT)])
        page.attributes = [
            {name: value for name, value in attributes.items() if name in KEPT_ATTRIBUTES}
            for attributes in page.attributes
        ]
        return page

    def select(self, nodes: Sequence[int]) -> Page:
        """Return a page with only these nodes. The first is the root, which also adopts nodes without their parent."""
        number = {t: k for k, t in enumerate(nodes)}
        parents = [-1, *(number.get(int(self.parents[t]), 0) for t in nodes[1:])][: len(nodes)]
        return Page(
            [self.tags[t] for t in nodes],
            np.array(parents, dtype=np.int32),
            [self.texts[t] for t in nodes],
            [self.attributes[t] for t in nodes],
            nodes=np.array(nodes, dtype=np.int64),
        )

    def text(self, t: int) -> str:
        """Return the text of a text node, or all text below an element as displayed.

        The text of an image is its address, and the text of structured data is its value.

        Examples
        --------
        >>> Page.from_html("<p>$<b>5</b>.99<br>new").text(1)
        '$5.99 new'
        """
        if self.tags[t] == "#text":
            return self.texts[t].strip()
        if self.tags[t] == "img":
            return image_address(self.attributes[t])
        if self.tags[t] in VALUE_TAGS:
            return value_text(self.attributes[t])
        nodes = [s for s in range(t, self.end(t)) if self.tags[s] == "#text"]
        pieces = zip(find_runs(self, nodes).before, nodes)
        return SPACE.sub(" ", "".join(before + self.texts[s].strip() for before, s in pieces)).strip()

    def end(self, t: int) -> int:
        """Return one past the number of the last node below t."""
        return int(self.ends[t])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """For every node, one past the number of the last node below it."""
        ends, parents = np.arange(1, len(self) + 1), self.parents
        for t in range(len(self) - 1, 0, -1):
            p = parents[t]
            if ends[t] > ends[p]:
                ends[p] = ends[t]
        return ends

    @property
    def template(self) -> tuple[str, bool]:
        """Key of the template. Pages of a site share one template, and items of its listings share another."""
        return self.site, self.source is not None

    @cached_property
    def spaced(self) -> bool:
        """Whether some text begins or ends with white space; if not, it is unknown which texts touch."""
        if self.source is not None:
            return self.source.spaced
        return any(text and (text[0] == " " or text[-1] == " ") for text in self.texts)

    def with_layout(self, layout: NDArray[np.float64] | None) -> Page:
        """Return a copy of the page with the boxes and styles from a browser."""
        return replace(self, layout=layout)


def image_address(attributes: dict[str, str]) -> str:
    """Return the address of an image, which is in ``data-src`` on pages with lazy loading."""
    address = attributes.get("src", "")
    return attributes.get("data-src", address) if not address or address.startswith("data:") else address


def read_page(
    source: str | Path | bytes, *, name: str | None = None, site: str = "", most_bytes: int = MAX_BYTES
) -> Page:
    """Read a saved page from a file or bytes: HTML, gzip-compressed HTML or MHTML.

    Parameters
    ----------
    source : path or bytes
    name : str, optional
        Name of the page; by default that of the file.
    site : str
        Site of the page; by default the host of its canonical link.
    most_bytes : int
        Maximum size of a page.

    Returns
    -------
    Page

    Raises
    ------
    PageError
        The page is too large, not HTML, or too slow to parse.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> read_page(b"<p>hello").texts[2]
    'hello'
    """
    if not isinstance(source, bytes):
        source = Path(source)
        name = source.name if name is None else name
    name = name or ""
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if size > most_bytes:
        raise PageError(
            f"{name or 'the page'} has {size:,} bytes; the maximum is most_bytes={most_bytes:,}: exclude it"
        )
    saved = unpack(source if isinstance(source, bytes) else source.read_bytes(), name, most_bytes)
    text, encoding, n_replaced = decode(saved.data, saved.charset)
    try:
        page = _from_text(text, name, site)
    except (PageError, TooManyNodes) as error:
        raise PageError(f"{name or 'the page'}: {error}") from error
    if saved.url:
        page.url, page.site = page.url or saved.url, page.site or host_of(saved.url)
    if n_replaced:
        page.warnings.append(f"{n_replaced} characters could not be decoded as {encoding} and became U+FFFD")
    return page


def _from_text(text: str, name: str, site: str) -> Page:
    if text.lstrip().startswith("<body"):
        with suppress(PageError):  # not canonical XML, so parse it as HTML
            return Page.from_canonical(text, name=name, site=site)
    return Page.from_html(text, name=name, site=site)


# ---- from a parse tree ----------------------------------------------------------------------------------------------


def canonical_nodes(tree: RawTree) -> tuple[list[int], Page]:
    """Convert a parse tree to a page.

    Returns the index of the tree node of each page node, and the page. Nodes for structured data outside the body come
    last; their index is -1.

    Examples
    --------
    >>> tree = RawTree(["html", "head", "body", "#text"], [-1, 0, 0, 2], ["", "", "", " a\\n b"], [{}] * 4)
    >>> tree_nodes, page = canonical_nodes(tree)
    >>> tree_nodes, page.texts
    ([2, 3], ['', ' a b'])
    """
    number = [-1] * len(tree.tags)
    tree_nodes: list[int] = []
    tags: list[str] = []
    parents: list[int] = []
    texts: list[str] = []
    attributes: list[dict[str, str]] = []
    last_text = -1
    bodies = [k for k, tag in enumerate(tree.tags) if tag == "body"]
    body = bodies[0] if bodies else -1
    for k, tag in enumerate(tree.tags):
        above = tree.parents[k]
        if k == body:
            parent = -1
        elif above < 0 or number[above] < 0 or (tag in DROPPED_TAGS and not has_value(tag, tree.attributes[k])):
            continue
        else:
            parent = number[above]
        if tag == "#text":
            text = clean(tree.texts[k])
            if not text.strip():
                # texts with white space between them do not touch
                if text and last_text >= 0 and not texts[last_text].endswith(" "):
                    texts[last_text] += " "
                continue
            if last_text >= 0 and last_text == len(tags) - 1 and parents[last_text] == parent:
                texts[last_text] += text  # only a comment or a dropped element separates the two texts
                continue
            last_text = len(tags)
            texts.append(text)
            attributes.append({})
            tags.append(tag)
        else:
            number[k] = len(tags)
            texts.append("")
            attributes.append(_attributes(tree.attributes[k]))
            tags.append(tag if TAG_NAME.match(tag) else "unknown")
            if last_text >= 0 and tag in BREAKS and not texts[last_text].endswith(" "):
                texts[last_text] += " "
        tree_nodes.append(k)
        parents.append(parent)
    n = len(tags)
    for tag, above, data_attributes in data_nodes(tree) if tree_nodes else ():
        tree_nodes.append(-1)
        parents.append(n + above if above >= 0 else 0)
        tags.append(tag)
        texts.append("")
        attributes.append(_attributes(data_attributes))
    return tree_nodes, Page(tags, np.array(parents, dtype=np.int32), texts, attributes)


def _attributes(attributes: dict[str, str]) -> dict[str, str]:
    retained = {
        name: clean(value[:MAX_ATTRIBUTE_CHARS]).strip()
        for name, value in attributes.items()
        if name in KEPT_ATTRIBUTES or name in ITEM_ATTRIBUTES
    }
    n_data = 0
    for name, value in attributes.items():
        if n_data < MAX_DATA_ATTRIBUTES and name not in retained and DATA_NAME.match(name):
            text = clean(value[: MAX_DATA_CHARS + 1]).strip()
            if 0 < len(text) <= MAX_DATA_CHARS:
                retained[name] = text
                n_data += 1
    return retained


def clean(text: str) -> str:
    """Collapse white space, and drop characters that XML does not allow."""
    return FORBIDDEN.sub("", SPACE.sub(" ", text))


def title_of(tree: RawTree) -> str:
    """Return the text of the title element."""
    for k, tag in enumerate(tree.tags):
        if tag == "#text" and tree.parents[k] >= 0 and tree.tags[tree.parents[k]] == "title":
            return clean(tree.texts[k]).strip()
    return ""


def canonical_url(tree: RawTree) -> str:
    """Return the canonical link, ``og:url`` or base of a page; empty if none is an absolute address.

    Examples
    --------
    >>> canonical_url(RawTree(["link"], [-1], [""], [{"rel": "canonical", "href": "https://www.x.com/a"}]))
    'https://www.x.com/a'
    """
    base = ""
    for tag, attributes in zip(tree.tags, tree.attributes):
        address = ""
        if tag == "link" and attributes.get("rel", "").lower() == "canonical":
            address = attributes.get("href", "")
        elif tag == "meta" and attributes.get("property", "").lower() == "og:url":
            address = attributes.get("content", "")
        elif tag == "base":
            base = base or attributes.get("href", "").strip()
        elif tag == "body":
            break
        if host_of(address.strip()):
            return FORBIDDEN.sub("", address.strip())
    return FORBIDDEN.sub("", base) if host_of(base) else ""


def host_of(address: str) -> str:
    """Return the host of an address without "www.".

    Examples
    --------
    >>> host_of("https://www.x.com/a"), host_of("a.html")
    ('x.com', '')
    """
    try:
        return (urlsplit(address).hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def _read_xml(text: str, page: Page) -> None:
    """Fill a page from XML, with the expat parser because it has no depth limit."""
    parents: list[int] = []
    open_nodes: list[int] = []
    pieces: list[str] = []

    def flush_text() -> None:
        if pieces:
            joined = "".join(pieces)
            pieces.clear()
            if joined:
                page.tags.append("#text")
                page.texts.append(joined)
                page.attributes.append({})
                parents.append(open_nodes[-1])

    def start(tag: str, attributes: dict[str, str]) -> None:
        flush_text()
        if len(page.tags) > MAX_NODES:
            raise too_many_nodes()
        parents.append(open_nodes[-1] if open_nodes else -1)
        open_nodes.append(len(page.tags))
        page.tags.append(tag)
        page.texts.append("")
        page.attributes.append(attributes)

    def end(tag: str) -> None:
        flush_text()
        open_nodes.pop()

    def refuse_doctype(*_: object) -> None:
        raise PageError("a canonical page has no doctype")

    reader = expat.ParserCreate()
    reader.buffer_text = True
    reader.StartElementHandler, reader.EndElementHandler = start, end
    reader.CharacterDataHandler = pieces.append
    reader.StartDoctypeDeclHandler = refuse_doctype  # without a doctype, entities cannot be expanded
    try:
        reader.Parse(text, True)
    except expat.ExpatError as error:
        raise PageError(f"not a canonical page: {error}") from error
    if not page.tags or page.tags[0] != "body":
        raise PageError(f"the root of a canonical page must be body, got {page.tags[:1]}")
    page.parents = np.array(parents, dtype=np.int32)


def group_by_site(pages: Sequence[Page]) -> dict[str, list[int]]:
    """Return the indices of the pages of every site."""
    rows: dict[str, list[int]] = {}
    for i, page in enumerate(pages):
        rows.setdefault(page.site, []).append(i)
    return rows


def group_by_template(pages: Sequence[Page]) -> list[list[int]]:
    """Return the indices of the pages of every template, see `Page.template`."""
    rows: dict[tuple[str, bool], list[int]] = {}
    for i, page in enumerate(pages):
        rows.setdefault(page.template, []).append(i)
    return list(rows.values())
