"""A saved page made harmless: the nodes that a browser is to draw, with their numbers, and nothing that acts.

What comes out is data, not HTML: the page's own script makes elements of it, one by one, in an empty document. So no
parser can read it in another way than it was written. Only elements and attributes that are listed here pass; the
frame's sandbox and its content security policy hold without this, and this holds without them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from maxendnet.web.pages import parser_process
from maxendnet.web.pages.encoding import decode
from maxendnet.web.pages.page import MOST_BYTES, Page, canonical_nodes, words
from maxendnet.web.pages.parser import RawTree
from maxendnet.web.pages.saved_files import unpack
from maxendnet.web.pages.structured_data import OBJECT, VALUES

TAGS = words(
    "body div p span a b i u s em strong small big font center sup sub tt code pre kbd samp var abbr acronym cite "
    "dfn q blockquote bdi bdo mark ins del strike data time wbr br hr img picture h1 h2 h3 h4 h5 h6 hgroup ul ol li "
    "dl dt dd menu table caption colgroup col thead tbody tfoot tr td th section article header footer nav aside "
    "main figure figcaption address details summary fieldset legend label button input select optgroup option "
    "textarea output meter progress ruby rt rp search"
)
BLOCKS = words("form noscript dialog marquee dir listing xmp plaintext")  # these are drawn as blocks, and do nothing
CUSTOM = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+\Z")
ATTRIBUTES = words(
    "class id style dir lang align valign width height border bgcolor color size face colspan rowspan cellpadding "
    "cellspacing nowrap hidden start alt"
)
INPUTS = words("hidden checkbox radio button")
PICTURES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".avif": "image/avif", ".svg": "image/svg+xml", ".bmp": "image/bmp", ".ico": "image/x-icon",
}  # fmt: skip
DATA_PICTURE = re.compile(r"data:image/(?:png|jpe?g|gif|webp|avif|svg\+xml)[;,]")
LONGEST_DATA, LONGEST_STYLE, LONGEST_STYLES = 500_000, 500_000, 2_000_000
MOST_NODES = 100_000
# by themselves below the page, whatever its style sheets say
DATA_BOX = (
    "all:initial;display:block;clear:both;margin:24px 8px 8px;padding:12px;border:1px dashed #8a94a3;background:#fff;"
    "color:#1c2430;font:14px/1.9 system-ui,sans-serif"
)
DATA_ROW = "display:block;overflow-wrap:anywhere"
DATA_NAME = "color:#5b6675;margin-right:12px"
DEEPEST = 400  # levels; browsers themselves stop at some 500, and are slow before


class Frame(NamedTuple):
    """What is drawn.

    Attributes
    ----------
    nodes : list
        ``[tag, parent, attributes, number]`` or ``["#", parent, text, number]``, parents first; ``parent`` is a
        position in this list, ``number`` a page node or -1.
    styles : list of str
    quirks : bool
        Whether a browser draws the page as before there were standards.
    notes : list of str
    """

    nodes: list[list[Any]]
    styles: list[str]
    quirks: bool
    notes: list[str]


def make_frame(page: Page, path: Path, root: Path) -> Frame:
    """Read a page again, for drawing.

    Parameters
    ----------
    page : Page
        As it was read for labelling.
    path : Path
        Its file.
    root : Path
        Nothing outside of this folder is read or named.

    Raises
    ------
    OSError
    PageError
    """
    saved = unpack(path.read_bytes()[: MOST_BYTES + 1], path.name, MOST_BYTES)
    text, _, _ = decode(saved.data, saved.charset)
    if text.lstrip().startswith("<body") and _is_canonical(page, text):
        tree = RawTree(page.tags, page.parents.tolist(), page.texts, page.attributes)
        kept, again = list(range(len(page))), page
    else:
        tree = parser_process.shared.parse(text)
        kept, again = canonical_nodes(tree)
    notes = []
    if again is not page and (again.tags != page.tags or again.texts != page.texts):
        notes.append("The file has changed since the server was started: start it again.")
    quirks = not re.search(r"<!doctype\s+html", text[:2_000], re.IGNORECASE)
    nodes = _nodes(tree, kept, path.parent, root)
    if len(nodes) > MOST_NODES:
        notes.append(f"Only the first {MOST_NODES:,} of {len(nodes):,} nodes are drawn.")
        nodes = nodes[:MOST_NODES]
    return Frame(nodes + _data(page, len(nodes)), _styles(tree, path.parent, root), quirks, notes)


def _data(page: Page, start: int) -> list[list[Any]]:
    """What the page says to programs, as a list below it, so that it can be picked, too."""
    values = page.structured_values
    if not values or not start:
        return []
    out: list[list[Any]] = [
        ["details", 0, {"style": DATA_BOX, "open": ""}, -1],
        ["summary", start, {"style": "font-weight:600;margin-bottom:8px"}, -1],
        ["#", start + 1, "Not shown on the page, but said to programs", -1],
    ]
    for value in values:
        row = start + len(out)
        out += [
            ["div", start, {"style": DATA_ROW}, -1],
            ["span", row, {"style": DATA_NAME}, -1],
            ["#", row + 1, value.path, -1],
            ["span", row, {}, value.node],
            ["#", row + 3, value.text, -1],
        ]
    return out


def _is_canonical(page: Page, text: str) -> bool:
    try:
        return Page.from_canonical(text).tags == page.tags
    except ValueError:
        return False


def _nodes(tree: RawTree, kept: list[int], folder: Path, root: Path) -> list[list[Any]]:
    number = dict(zip(kept, range(len(kept))))
    position: dict[int, int] = {}  # of the elements that are drawn
    last_text: dict[int, int] = {}  # page node of the last text below an element
    depth: list[int] = []
    out: list[list[Any]] = []

    def below(above: int) -> int:
        """Where a child of a node is put: what lies too deep is put beside it."""
        parent = position.get(above, -1)
        if parent >= 0 and depth[parent] >= DEEPEST:
            parent = out[parent][1]
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
        return parent

    for k, tag in enumerate(tree.tags):
        above = tree.parents[k]
        if tag == "#text":
            if above not in position:
                continue
            if k in number:
                last_text[above] = number[k]
            # a text after a comment belongs to the text before it
            blank = not tree.texts[k].strip()
            out.append(["#", below(above), tree.texts[k], -1 if blank else number.get(k, last_text.get(above, -1))])
        elif k in number and tag not in (*VALUES, OBJECT):
            position[k] = len(out)
            drawn = tag if tag in TAGS or CUSTOM.match(tag) else "div" if tag in BLOCKS else "span"
            out.append([drawn, below(above), _attributes(tag, tree.attributes[k], folder, root), number[k]])
    return out


def _attributes(tag: str, given: dict[str, str], folder: Path, root: Path) -> dict[str, str]:
    out = {name: value for name, value in given.items() if name in ATTRIBUTES}
    if tag == "a" and "href" in given:
        out["href"] = "#"  # looks like a link, leads nowhere
    if tag == "img":
        out["src"] = picture_address(given, folder, root)
    if tag == "input":
        kind = given.get("type", "").lower()
        out["type"] = kind if kind in INPUTS else "text"
    if tag == "details":
        out["open"] = ""
    return out


def picture_address(given: dict[str, str], folder: Path, root: Path) -> str:
    """Where a picture lies in the folder of pages, seen from the page; a small picture in the address itself; or empty.

    Examples
    --------
    >>> picture_address({"src": "http://example.com/a.png"}, Path("/x"), Path("/x"))
    ''
    >>> picture_address({"src": "data:image/gif;base64,R0lGODlhAQABAAAAACw="}, Path("/x"), Path("/x"))
    'data:image/gif;base64,R0lGODlhAQABAAAAACw='
    """
    for name in ("src", "data-src"):
        address = given.get(name, "").strip()
        if DATA_PICTURE.match(address) and len(address) <= LONGEST_DATA:
            return address
        found = _beside(address, folder, root)
        if found is not None and found.suffix.lower() in PICTURES:
            return "/".join([".."] * len(folder.relative_to(root).parts) + [quote(found.relative_to(root).as_posix())])
    return ""


def _beside(address: str, folder: Path, root: Path) -> Path | None:
    """The file that an address without a host names, if it lies in the folder of pages.

    One that begins with "/" is looked for from the folder of the page upwards: the pages of a site may have been saved
    with its folders.
    """
    try:
        parts = urlsplit(address)
        name = unquote(parts.path)
        if parts.scheme or parts.netloc or not name.strip("/"):
            return None
        above = [folder, *folder.parents] if name.startswith("/") else [folder]
        for start in above:
            path = (start / name.lstrip("/")).resolve()
            if start.is_relative_to(root) and path.is_relative_to(root) and path.is_file():
                return path
    except (ValueError, OSError):
        pass
    return None


def file_inside(root: Path, name: str) -> Path | None:
    """A file by its path in a folder, or None: never one outside, whatever dots, slashes and links say.

    Examples
    --------
    >>> file_inside(Path("/etc").resolve(), "../etc/passwd") is None
    True
    """
    parts = name.split("/")
    if "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts):
        return None
    try:
        path = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return path if path.is_relative_to(root) and path.is_file() else None


def _styles(tree: RawTree, folder: Path, root: Path) -> list[str]:
    """Style sheets in the page, and those beside it that it names, in their order."""
    out: list[str] = []
    for k, tag in enumerate(tree.tags):
        given = tree.attributes[k]
        media = given.get("media", "").lower()
        if "print" in media and "screen" not in media:
            continue
        css = ""
        if tag == "#text" and tree.parents[k] >= 0 and tree.tags[tree.parents[k]] == "style":
            css = tree.texts[k]
        elif tag == "link" and "stylesheet" in given.get("rel", "").lower().split():
            path = _beside(given.get("href", ""), folder, root)
            if path is not None and path.suffix.lower() == ".css" and path.stat().st_size <= LONGEST_STYLE:
                css = path.read_text(encoding="utf-8", errors="replace")
        if css and sum(map(len, out)) + len(css) <= LONGEST_STYLES:
            out.append(css)
    return out
