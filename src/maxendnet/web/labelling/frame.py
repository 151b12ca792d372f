"""Sanitised copy of a saved page for display in the labelling page.

The copy is a list of nodes, not HTML. The script of the labelling page creates the elements one by one in an empty
document, so there is no HTML parser that could interpret the copy differently. It contains only the elements and
attributes listed in this module. A second, independent protection is the sandbox of the frame with its content security
policy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from maxendnet.web.pages import parser_process
from maxendnet.web.pages.elements import words
from maxendnet.web.pages.encoding import decode
from maxendnet.web.pages.page import MAX_BYTES, Page, canonical_nodes
from maxendnet.web.pages.parser import RawTree
from maxendnet.web.pages.saved_files import unpack
from maxendnet.web.pages.structured_data import OBJECT, VALUE_TAGS

TAGS = words(
    "body div p span a b i u s em strong small big font center sup sub tt code pre kbd samp var abbr acronym cite "
    "dfn q blockquote bdi bdo mark ins del strike data time wbr br hr img picture h1 h2 h3 h4 h5 h6 hgroup ul ol li "
    "dl dt dd menu table caption colgroup col thead tbody tfoot tr td th section article header footer nav aside "
    "main figure figcaption address details summary fieldset legend label button input select optgroup option "
    "textarea output meter progress ruby rt rp search"
)
BLOCKS = words("form noscript dialog marquee dir listing xmp plaintext")  # drawn as inert div elements
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
MAX_DATA_PICTURE, MAX_STYLE, MAX_STYLES = 500_000, 500_000, 2_000_000  # characters
MAX_NODES = 100_000
CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\r\n\f])?|([g-zG-Z-]))")
CSS_IMPORT = re.compile(r"@import\b[^;]*(?:;|\Z)", re.IGNORECASE)
# url(), and functions that take an address as text
CSS_ADDRESS = re.compile(
    r"(?:url|src|image|(?:-webkit-)?image-set)\s*\("
    r"(?!\s*[\"']?data:image/(?:png|jpe?g|gif|webp|avif)[;,][^)]{0,100000}\))", re.IGNORECASE,
)  # fmt: skip
# style of the list of structured data below the page, which must not depend on the style sheets of the page
DATA_BOX = (
    "all:initial;display:block;clear:both;margin:24px 8px 8px;padding:12px;border:1px dashed #8a94a3;background:#fff;"
    "color:#1c2430;font:14px/1.9 system-ui,sans-serif"
)
DATA_ROW = "display:block;overflow-wrap:anywhere"
DATA_NAME = "color:#5b6675;margin-right:12px"
MAX_DEPTH = 400  # browsers stop at about 500 levels and are slow before that


class Frame(NamedTuple):
    """Content of the frame.

    Attributes
    ----------
    nodes : list
        ``[tag, parent, attributes, number]`` or ``["#", parent, text, number]``, parents first. ``parent`` is an index
        in this list, ``number`` a page node or -1.
    styles : list of str
        Style sheets.
    quirks : bool
        Whether browsers display the page in quirks mode.
    notes : list of str
        Messages for the user.
    """

    nodes: list[list[Any]]
    styles: list[str]
    quirks: bool
    notes: list[str]


def make_frame(page: Page, path: Path, root: Path) -> Frame:
    """Read the file of a page again and return the content to display.

    Parameters
    ----------
    page : Page
        The page as read for labelling.
    path : Path
        File of the page.
    root : Path
        Folder of pages. No file outside this folder is read or named.

    Raises
    ------
    OSError
    PageError
    """
    saved = unpack(path.read_bytes()[: MAX_BYTES + 1], path.name, MAX_BYTES)
    text, _, _ = decode(saved.data, saved.charset)
    if text.lstrip().startswith("<body") and _is_canonical(page, text):
        tree = RawTree(page.tags, page.parents.tolist(), page.texts, page.attributes)
        raw_nodes, current = list(range(len(page))), page
    else:
        tree = parser_process.shared.parse(text)
        raw_nodes, current = canonical_nodes(tree)
    notes = []
    if current is not page and (current.tags != page.tags or current.texts != page.texts):
        notes.append("The file has changed since the server was started; restart the server.")
    quirks = not re.search(r"<!doctype\s+html", text[:2_000], re.IGNORECASE)
    nodes = _nodes(tree, raw_nodes, path.parent, root)
    if len(nodes) > MAX_NODES:
        notes.append(f"Only the first {MAX_NODES:,} of {len(nodes):,} nodes are displayed.")
        nodes = nodes[:MAX_NODES]
    return Frame(nodes + _structured_data(page, len(nodes)), _styles(tree, path.parent, root), quirks, notes)


def _structured_data(page: Page, start: int) -> list[list[Any]]:
    """Return nodes that list the structured data of a page below it, so that it can be labelled."""
    values = page.structured_values
    if not values or not start:
        return []
    nodes: list[list[Any]] = [
        ["details", 0, {"style": DATA_BOX, "open": ""}, -1],
        ["summary", start, {"style": "font-weight:600;margin-bottom:8px"}, -1],
        ["#", start + 1, "Structured data, not displayed on the page", -1],
    ]
    for value in values:
        row = start + len(nodes)
        nodes += [
            ["div", start, {"style": DATA_ROW}, -1],
            ["span", row, {"style": DATA_NAME}, -1],
            ["#", row + 1, value.path, -1],
            ["span", row, {}, value.node],
            ["#", row + 3, value.text, -1],
        ]
    return nodes


def _is_canonical(page: Page, text: str) -> bool:
    try:
        return Page.from_canonical(text).tags == page.tags
    except ValueError:
        return False


def _nodes(tree: RawTree, raw_nodes: list[int], folder: Path, root: Path) -> list[list[Any]]:
    number = dict(zip(raw_nodes, range(len(raw_nodes))))
    position: dict[int, int] = {}  # index in `nodes` of each displayed element
    last_text: dict[int, int] = {}  # page node of the last text below an element
    depth: list[int] = []
    nodes: list[list[Any]] = []

    def add_child(above: int) -> int:
        """Return the parent of a new node, or a higher ancestor if the parent is too deep."""
        parent = position.get(above, -1)
        if parent >= 0 and depth[parent] >= MAX_DEPTH:
            parent = nodes[parent][1]
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
        return parent

    for k, tag in enumerate(tree.tags):
        above = tree.parents[k]
        if tag == "#text":
            if above not in position:
                continue
            if k in number:
                last_text[above] = number[k]
            # a text after a comment is part of the same page node as the previous text
            is_blank = not tree.texts[k].strip()
            page_node = -1 if is_blank else number.get(k, last_text.get(above, -1))
            nodes.append(["#", add_child(above), tree.texts[k], page_node])
        elif k in number and tag not in (*VALUE_TAGS, OBJECT):
            position[k] = len(nodes)
            safe_tag = tag if tag in TAGS or CUSTOM.match(tag) else "div" if tag in BLOCKS else "span"
            nodes.append([safe_tag, add_child(above), _attributes(tag, tree.attributes[k], folder, root), number[k]])
    return nodes


def _attributes(tag: str, original: dict[str, str], folder: Path, root: Path) -> dict[str, str]:
    attributes = {name: value for name, value in original.items() if name in ATTRIBUTES}
    if "style" in attributes:
        attributes["style"] = safe_css(attributes["style"])
    if tag == "a" and "href" in original:
        attributes["href"] = "#"  # display it as a link, but without a target
    if tag == "img":
        attributes["src"] = picture_address(original, folder, root)
    if tag == "input":
        kind = original.get("type", "").lower()
        attributes["type"] = kind if kind in INPUTS else "text"
    if tag == "details":
        attributes["open"] = ""
    return attributes


def picture_address(attributes: dict[str, str], folder: Path, root: Path) -> str:
    """Return a safe address of a picture.

    Parameters
    ----------
    attributes : dict of str to str
        Attributes of the ``img`` element.
    folder, root : Path
        Folder of the page, and folder that contains all pages.

    Returns
    -------
    str
        Path of a picture within ``root``, relative to the page, or a small ``data:`` address. Empty if the address is
        neither.

    Examples
    --------
    >>> picture_address({"src": "http://example.com/a.png"}, Path("/x"), Path("/x"))
    ''
    >>> picture_address({"src": "data:image/gif;base64,R0lGODlhAQABAAAAACw="}, Path("/x"), Path("/x"))
    'data:image/gif;base64,R0lGODlhAQABAAAAACw='
    """
    for name in ("src", "data-src"):
        address = attributes.get(name, "").strip()
        if DATA_PICTURE.match(address) and len(address) <= MAX_DATA_PICTURE:
            return address
        file = _local_file(address, folder, root)
        if file is not None and file.suffix.lower() in PICTURES:
            return "/".join([".."] * len(folder.relative_to(root).parts) + [quote(file.relative_to(root).as_posix())])
    return ""


def _local_file(address: str, folder: Path, root: Path) -> Path | None:
    """Return the file of a relative address within the folder of pages, or None.

    For an address that begins with "/", the folder of the page and its parents are searched, because a site may have
    been saved with its folder structure.
    """
    try:
        parts = urlsplit(address)
        name = unquote(parts.path)
        if parts.scheme or parts.netloc or not name.strip("/"):
            return None
        for start in [folder, *folder.parents] if name.startswith("/") else [folder]:
            path = (start / name.lstrip("/")).resolve()
            if start.is_relative_to(root) and path.is_relative_to(root) and path.is_file():
                return path
    except (ValueError, OSError):
        pass
    return None


def file_inside(root: Path, name: str) -> Path | None:
    """Return a file by its path within a folder, or None if it does not exist or is outside the folder.

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


def safe_css(css: str) -> str:
    """Return CSS without ``@import`` and without addresses, except those of small pictures within the text.

    Escaped letters, which could hide a name, are written plainly first.

    Examples
    --------
    >>> safe_css('@import "a.css"; p { color: red; background: u\\\\72l(http://x.com/a.png) }')
    ' p { color: red; background: blocked(http://x.com/a.png) }'
    >>> safe_css("p { background: url(data:image/png;base64,AA) }")
    'p { background: url(data:image/png;base64,AA) }'
    """
    css = CSS_ESCAPE.sub(_plain_letter, css)
    return CSS_ADDRESS.sub("blocked(", CSS_IMPORT.sub("", css))


def _plain_letter(escape: re.Match[str]) -> str:
    letter = chr(int(escape[1], 16)) if escape[1] and int(escape[1], 16) < 128 else escape[2] or ""
    return letter if letter.isascii() and (letter.isalpha() or letter == "-") else escape[0]


def _styles(tree: RawTree, folder: Path, root: Path) -> list[str]:
    """Return the style sheets of a page, embedded or in local files, in document order."""
    styles: list[str] = []
    for k, tag in enumerate(tree.tags):
        attributes = tree.attributes[k]
        media = attributes.get("media", "").lower()
        if "print" in media and "screen" not in media:
            continue
        css = ""
        if tag == "#text" and tree.parents[k] >= 0 and tree.tags[tree.parents[k]] == "style":
            css = tree.texts[k]
        elif tag == "link" and "stylesheet" in attributes.get("rel", "").lower().split():
            path = _local_file(attributes.get("href", ""), folder, root)
            if path is not None and path.suffix.lower() == ".css" and path.stat().st_size <= MAX_STYLE:
                css = path.read_text(encoding="utf-8", errors="replace")
        css = safe_css(css)
        if css and sum(map(len, styles)) + len(css) <= MAX_STYLES:
            styles.append(css)
    return styles
