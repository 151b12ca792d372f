"""A page as a canonical, numbered list of nodes. Labels refer to these numbers, and reading a page again keeps them."""

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
from maxendnet.web.pages.parser import MOST_NODES, RawTree, TooManyNodes
from maxendnet.web.pages.parser_process import PageError
from maxendnet.web.pages.runs import find_runs
from maxendnet.web.pages.saved_files import SAVED_FROM, unpack
from maxendnet.web.pages.structured_data import (
    OBJECT,
    VALUES,
    Value,
    outside_body,
    says_value,
    text_of_value,
    values_of,
)

__all__ = ["LAYOUT", "Page", "PageError", "UnreadPage", "read_page"]


# Nothing of these is shown as text; a browser keeps them out of the page, or draws them.
DROPPED = words(
    "head script style template svg math canvas iframe frame frameset object embed applet param meta link base title "
    "audio video source track map area noframes noembed"
)
KEPT = words(
    "class id src href alt title name type role style width height border align valign colspan rowspan bgcolor color "
    "size face itemprop property rel hidden datetime content data-src aria-label"
)
SPACE = re.compile(r"[\s\u200b\ufeff]+")
# XML has no place for these, and nor has a value in a table
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
NAME = re.compile(r"[a-z_][a-z0-9_.-]*\Z")
VOID = words("br hr img input wbr col meta link")
LAYOUT = ("x", "y", "width", "height", "font", "bold", "italic", "pointer", "colour", "background", "align")
MOST_BYTES = 16_000_000
LONGEST_ATTRIBUTE = 2_000


class UnreadPage(NamedTuple):
    """A page that could not be read or drawn: its name, and why."""

    name: str
    error: str


@dataclass(eq=False, repr=False)
class Page:
    """The nodes of a page in document order: the elements of its body and its texts that are not blank.

    After them comes what the page says to programs outside of its body, see `maxendnet.web.pages.structured_data`.

    Make one with `read_page`, `Page.from_html` or `Page.from_canonical`.

    Attributes
    ----------
    tags : list of str
        ``"#text"`` for a text.
    parents : ndarray of shape (n_nodes,)
        -1 for node 0, the body.
    texts : list of str
        White space folded; one space is left at an end where there was some. Empty for elements.
    attributes : list of dict
        Those that say something about a node; long ones are cut.
    title : str
    name : str
        Of the file.
    site : str
        Pages of one site are made alike.
    url : str
        Where the page was, if it says so: its canonical link, ``og:url`` or base, a note of the browser that saved it,
        or the location in MHTML.
    layout : ndarray of shape (n_nodes, 11), or None
        Columns as in ``LAYOUT``, in CSS pixels, for every element (texts have their parent's); -1 four times where
        nothing is shown.
    warnings : list of str
        What was lost or changed while reading.
    source, nodes : Page and ndarray, or None
        Of a record of a listing, which is a small page of its own (see `web.listings.patterns`): the page that it is
        from, and the numbers that its nodes have there.

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
        """Read HTML, however broken, as a browser would."""
        tree = parser_process.shared.parse(html)
        kept, page = canonical_nodes(tree)
        page.name, page.title, page.url = name, title_of(tree), canonical_url(tree)
        if not page.url and (noted := SAVED_FROM.search(html[:4_000])):
            page.url = noted[1]
        page.site = site or host_of(page.url)
        if not kept:
            page.warnings.append("the page has no body")
        return page

    @classmethod
    def from_canonical(cls, text: str, *, title: str = "", name: str = "", site: str = "") -> Page:
        """Read what `canonical` wrote, or any well-formed text with the root ``body``, node by node as it is."""
        page = cls([], np.zeros(0, dtype=np.int32), [], [], title=title, name=name, site=site)
        _read_xml(text, page)
        return page

    def canonical(self) -> str:
        """The page as well-formed text; reading it gives the same nodes with the same numbers."""
        out: list[str] = []
        open_nodes: list[int] = []
        for t, tag in enumerate(self.tags):
            while open_nodes and open_nodes[-1] != self.parents[t]:
                out.append(f"</{self.tags[open_nodes.pop()]}>")
            if tag == "#text":
                out.append(escape(self.texts[t]))
            else:
                attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes[t].items())
                if tag in VOID:
                    out.append(f"<{tag}{attributes}/>")  # good as HTML too
                else:
                    out.append(f"<{tag}{attributes}>")
                    open_nodes.append(t)
        out += [f"</{self.tags[t]}>" for t in reversed(open_nodes)]
        return "".join(out)

    @cached_property
    def sha(self) -> str:
        """Checksum of the nodes: labels made for one are not good for another."""
        return hashlib.sha256(self.canonical().encode("utf-8")).hexdigest()[:16]

    @cached_property
    def structured_values(self) -> list[Value]:
        """Values that the page says to programs, without those of microdata that are shown as texts."""
        return list(values_of(self))

    @property
    def shown(self) -> Page:
        """The page without what it says to programs: what versions before 0.2 knew of it, and numbered."""
        return self.select([t for t, tag in enumerate(self.tags) if tag not in (*VALUES, OBJECT)])

    def select(self, nodes: Sequence[int]) -> Page:
        """The page of these nodes, the first of them its root; nodes whose parent is left out hang on the root."""
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
        """The text of a text node, or all the text under an element as a reader sees it.

        Of an image it is the address, of what is said to programs the value.

        Examples
        --------
        >>> Page.from_html("<p>$<b>5</b>.99<br>new").text(1)
        '$5.99 new'
        """
        if self.tags[t] == "#text":
            return self.texts[t].strip()
        if self.tags[t] == "img":
            return image_address(self.attributes[t])
        if self.tags[t] in VALUES:
            return text_of_value(self.attributes[t])
        nodes = [s for s in range(t, self.end(t)) if self.tags[s] == "#text"]
        pieces = zip(find_runs(self, nodes).before, nodes)
        return SPACE.sub(" ", "".join(before + self.texts[s].strip() for before, s in pieces)).strip()

    def end(self, t: int) -> int:
        """One after the last node under t."""
        return int(self.ends[t])

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """For every node, one after the last node under it."""
        ends, parents = np.arange(1, len(self) + 1), self.parents
        for t in range(len(self) - 1, 0, -1):
            p = parents[t]
            if ends[t] > ends[p]:
                ends[p] = ends[t]
        return ends

    @property
    def made_like(self) -> tuple[str, bool]:
        """Pages with the same are made alike: those of a site, and apart from them records of its listings."""
        return self.site, self.source is not None

    @cached_property
    def spaced(self) -> bool:
        """Whether white space at the ends of texts was kept: else nothing is known of which texts touch."""
        if self.source is not None:
            return self.source.spaced
        return any(text and (text[0] == " " or text[-1] == " ") for text in self.texts)

    def with_layout(self, layout: NDArray[np.float64] | None) -> Page:
        """The same page with boxes and styles."""
        return replace(self, layout=layout)


def image_address(attributes: dict[str, str]) -> str:
    """Where the picture is; lazy pages keep it in ``data-src``."""
    address = attributes.get("src", "")
    return attributes.get("data-src", address) if not address or address.startswith("data:") else address


def read_page(
    source: str | Path | bytes, *, name: str | None = None, site: str = "", most_bytes: int = MOST_BYTES
) -> Page:
    """Read a saved page from a file or from bytes: HTML, compressed by gzip or not, or MHTML.

    Parameters
    ----------
    source : path, or bytes of a page
    name : str, optional
        None takes that of the file.
    site : str
        Empty takes the page's canonical link, if it has one.
    most_bytes : int
        Larger pages are refused.

    Returns
    -------
    Page

    Raises
    ------
    PageError
        Too large, no page, or the parser cannot do it in time.
    OSError

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
            f"{name or 'the page'} has {size:,} bytes, and pages of up to {most_bytes:,} are read: leave it out"
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
        page.warnings.append(f"{n_replaced} characters could not be read as {encoding} and are U+FFFD")
    return page


def _from_text(text: str, name: str, site: str) -> Page:
    if text.lstrip().startswith("<body"):
        with suppress(PageError):  # HTML after all
            return Page.from_canonical(text, name=name, site=site)
    return Page.from_html(text, name=name, site=site)


# ---- from a tree ----------------------------------------------------------------------------------------------------


def canonical_nodes(tree: RawTree) -> tuple[list[int], Page]:
    """Which nodes of a tree are nodes of the page, in order, and the page.

    What the page says to programs outside of its body comes last, with -1 in the place of a node of the tree.

    Examples
    --------
    >>> tree = RawTree(["html", "head", "body", "#text"], [-1, 0, 0, 2], ["", "", "", " a\\n b"], [{}] * 4)
    >>> kept, page = canonical_nodes(tree)
    >>> kept, page.texts
    ([2, 3], ['', ' a b'])
    """
    number = [-1] * len(tree.tags)
    kept: list[int] = []
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
        elif above < 0 or number[above] < 0 or (tag in DROPPED and not says_value(tag, tree.attributes[k])):
            continue
        else:
            parent = number[above]
        if tag == "#text":
            text = clean(tree.texts[k])
            if not text.strip():
                # white space between two texts says that they do not touch
                if text and last_text >= 0 and not texts[last_text].endswith(" "):
                    texts[last_text] += " "
                continue
            if last_text >= 0 and last_text == len(tags) - 1 and parents[last_text] == parent:
                texts[last_text] += text  # a comment or a dropped element lay between: one text when read again
                continue
            last_text = len(tags)
            texts.append(text)
            attributes.append({})
            tags.append(tag)
        else:
            number[k] = len(tags)
            texts.append("")
            attributes.append(_attributes(tree.attributes[k]))
            tags.append(tag if NAME.match(tag) else "unknown")
            if last_text >= 0 and tag in BREAKS and not texts[last_text].endswith(" "):
                texts[last_text] += " "
        kept.append(k)
        parents.append(parent)
    said = outside_body(tree) if kept else []
    n = len(tags)
    for tag, above, given in said:
        kept.append(-1)
        parents.append(n + above if above >= 0 else 0)
        tags.append(tag)
        texts.append("")
        attributes.append(_attributes(given))
    return kept, Page(tags, np.array(parents, dtype=np.int32), texts, attributes)


def _attributes(given: dict[str, str]) -> dict[str, str]:
    return {name: clean(value[:LONGEST_ATTRIBUTE]).strip() for name, value in given.items() if name in KEPT}


def clean(text: str) -> str:
    """Fold white space, and drop characters that XML cannot hold."""
    return FORBIDDEN.sub("", SPACE.sub(" ", text))


def title_of(tree: RawTree) -> str:
    """The text of the title element."""
    for k, tag in enumerate(tree.tags):
        if tag == "#text" and tree.parents[k] >= 0 and tree.tags[tree.parents[k]] == "title":
            return clean(tree.texts[k]).strip()
    return ""


def canonical_url(tree: RawTree) -> str:
    """The canonical link, ``og:url`` or base, whichever comes first as a whole address; empty if the page has none.

    Examples
    --------
    >>> canonical_url(RawTree(["link"], [-1], [""], [{"rel": "canonical", "href": "https://www.x.com/a"}]))
    'https://www.x.com/a'
    """
    base = ""
    for tag, given in zip(tree.tags, tree.attributes):
        address = ""
        if tag == "link" and given.get("rel", "").lower() == "canonical":
            address = given.get("href", "")
        elif tag == "meta" and given.get("property", "").lower() == "og:url":
            address = given.get("content", "")
        elif tag == "base":
            base = base or given.get("href", "").strip()
        elif tag == "body":
            break
        if host_of(address.strip()):
            return FORBIDDEN.sub("", address.strip())
    return FORBIDDEN.sub("", base) if host_of(base) else ""


def host_of(address: str) -> str:
    """The host of an address, without "www.".

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
    """Fill a page from well-formed text, with the events of expat: no limit of depth."""
    parents: list[int] = []
    open_nodes: list[int] = []
    pieces: list[str] = []

    def end_of_text() -> None:
        if pieces:
            joined = "".join(pieces)
            pieces.clear()
            if joined:
                page.tags.append("#text")
                page.texts.append(joined)
                page.attributes.append({})
                parents.append(open_nodes[-1])

    def start(tag: str, attributes: dict[str, str]) -> None:
        end_of_text()
        if len(page.tags) > MOST_NODES:
            raise TooManyNodes(f"the page has more than {MOST_NODES:,} elements and texts: leave it out")
        parents.append(open_nodes[-1] if open_nodes else -1)
        open_nodes.append(len(page.tags))
        page.tags.append(tag)
        page.texts.append("")
        page.attributes.append(attributes)

    def end(tag: str) -> None:
        end_of_text()
        open_nodes.pop()

    def declares(*_: object) -> None:
        raise PageError("a page does not declare entities")

    reader = expat.ParserCreate()
    reader.buffer_text = True
    reader.StartElementHandler, reader.EndElementHandler = start, end
    reader.CharacterDataHandler = pieces.append
    reader.StartDoctypeDeclHandler = declares  # no doctype, so no entities that grow
    try:
        reader.Parse(text, True)
    except expat.ExpatError as error:
        raise PageError(f"not a canonical page: {error}") from error
    if not page.tags or page.tags[0] != "body":
        raise PageError(f"a canonical page has the root body, and this one has {page.tags[:1]}")
    page.parents = np.array(parents, dtype=np.int32)


def in_order(pages: Sequence[Page]) -> dict[str, list[int]]:
    """Which pages belong to which site."""
    found: dict[str, list[int]] = {}
    for i, page in enumerate(pages):
        found.setdefault(page.site, []).append(i)
    return found


def made_alike(pages: Sequence[Page]) -> list[list[int]]:
    """Which pages are made alike, see `Page.made_like`."""
    found: dict[tuple[str, bool], list[int]] = {}
    for i, page in enumerate(pages):
        found.setdefault(page.made_like, []).append(i)
    return list(found.values())
