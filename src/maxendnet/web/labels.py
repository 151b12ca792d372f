"""Labels of pages: lines of ``labels.jsonl``, by node numbers or by values as people have them in a spreadsheet."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxendnet.web.blocks import INNER, JOIN, NONE
from maxendnet.web.page import Page, image_address
from maxendnet.web.view import View

BLANK = re.compile(r"\s+")
NUMBER = re.compile(r"\d[\d.,]*")
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif")


class LabelError(ValueError):
    """A line of labels cannot be used."""


@dataclass
class PageLabels:
    """What is known of a page.

    Attributes
    ----------
    page : str
        Path within the folder of pages.
    site : str
        Empty when the line does not say.
    labels : list of (int, str)
        Node and field.
    values : dict of str to list of str
        Instead of, or beside, node numbers.
    records : list of (int, int)
        First and last node of every record; empty for one record a page.
    sha : str
        Checksum of the page that the node numbers belong to; empty when the line does not say.
    done : bool
        False for a page that is still being labelled.
    line : int
        In the file, from 1.
    """

    page: str
    site: str = ""
    labels: list[tuple[int, str]] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    records: list[tuple[int, int]] = field(default_factory=list)
    sha: str = ""
    done: bool = True
    line: int = 0

    @property
    def fields(self) -> set[str]:
        return {name for _, name in self.labels} | set(self.values)


def read_labels(path: str | Path) -> list[PageLabels]:
    """Read ``labels.jsonl``.

    A line is ``{"page": "a.html", "site": "x.com", "labels": [[214, "price"], ...]}`` or
    ``{"page": "a.html", "values": {"price": ["$12"]}}``, with ``"records": [[first, last], ...]`` if there are several.
    Lines with ``"done": false``, which ``maxendnet web label`` writes for a page in work, are passed over.

    Raises
    ------
    LabelError
        With file, line, what was expected and what came.
    """
    found: list[PageLabels] = []
    seen: dict[str, int] = {}
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise LabelError(f"{where} is not JSON ({error}); give one object a line.") from error
            labels = parse_line(row, where)
            labels.line = number
            if labels.page in seen:
                raise LabelError(
                    f"{where} labels {labels.page!r} again, which line {seen[labels.page]} has labelled; keep one."
                )
            seen[labels.page] = number
            if labels.done:
                found.append(labels)
    if not found:
        raise LabelError(f'{path} has no label; a line is {{"page": "a.html", "values": {{"price": "$12"}}}}.')
    return found


def parse_line(row: Any, where: str) -> PageLabels:
    """One line, checked.

    Examples
    --------
    >>> parse_line({"page": "a.html", "values": {"price": "$12"}}, "line 1").values
    {'price': ['$12']}
    """
    if not isinstance(row, dict) or not isinstance(row.get("page"), str) or not row["page"]:
        raise LabelError(f'{where} does not name its page; expected an object with "page": "a.html".')
    for key in ("site", "sha"):
        if not isinstance(row.get(key) or "", str):
            raise LabelError(f'{where}: "{key}" is {row[key]!r}; expected text.')
    return PageLabels(
        page=row["page"],
        site=row.get("site") or "",
        labels=_pairs(row.get("labels") or [], where),
        values=_values(row.get("values") or {}, where),
        records=_records(row.get("records") or [], where),
        sha=row.get("sha") or "",
        done=row.get("done") is not False,
    )


def check_field(name: Any, where: str) -> str:
    """The name of a field, or an error that says what a name may be."""
    if not isinstance(name, str) or not name.strip() or JOIN in name or name == NONE or name.startswith(INNER):
        raise LabelError(
            f'{where}: {name!r} cannot be the name of a field; give text without "{JOIN}" that is not "{NONE}".'
        )
    return name


def _pairs(given: Any, where: str) -> list[tuple[int, str]]:
    out = []
    for item in given if isinstance(given, list) else [given]:
        if not (isinstance(item, list) and len(item) == 2 and type(item[0]) is int and item[0] >= 0):
            raise LabelError(f'{where}: "labels" has {item!r}; expected pairs [node, "field"], a node number from 0.')
        out.append((item[0], check_field(item[1], where)))
    return out


def _values(given: Any, where: str) -> dict[str, list[str]]:
    if not isinstance(given, dict):
        raise LabelError(f'{where}: "values" is {given!r}; expected an object such as {{"price": ["$12"]}}.')
    out = {}
    for name, values in given.items():
        check_field(name, where)
        some = values if isinstance(values, list) else [] if values is None else [values]
        if not all(isinstance(v, (str, int, float)) and not isinstance(v, bool) for v in some):
            raise LabelError(f'{where}: the values of "{name}" are {values!r}; expected text or a list of texts.')
        out[name] = [str(v) for v in some if str(v).strip()]
    return out


def _records(given: Any, where: str) -> list[tuple[int, int]]:
    out = []
    for item in given if isinstance(given, list) else [given]:
        if not (isinstance(item, list) and len(item) == 2 and all(type(n) is int for n in item) and item[0] <= item[1]):
            raise LabelError(f'{where}: "records" has {item!r}; expected pairs [first node, last node].')
        out.append((item[0], item[1]))
    return out


def labels_on_page(view: View, given: PageLabels) -> tuple[list[tuple[int, str]], list[str]]:
    """Labels of a page as pairs (node, field), and what could not be used, in words.

    Parameters
    ----------
    view : View
    given : PageLabels

    Raises
    ------
    LabelError
        The page is not the one that was labelled, or has no such node.

    Examples
    --------
    >>> from maxendnet.web.page import Page
    >>> view = View(Page.from_html("<p>A cup<p>$12.00"))
    >>> labels_on_page(view, PageLabels("a.html", values={"price": ["12.00"], "brand": ["Acme"]}))
    ([(4, 'price')], ["brand 'Acme' is not on the page"])
    """
    page = view.page
    if given.sha and given.sha != page.sha:
        raise LabelError(
            f"{given.page} is not the page that was labelled (checksum {page.sha}, labels are for {given.sha}); "
            "restore the page, or label it again."
        )
    problems = []
    for node, name in given.labels:
        if node >= len(page):
            raise LabelError(f"{given.page} has nodes 0 to {len(page) - 1}, and {name!r} is at node {node}.")
    in_leaf = {t for leaf in view.leaves for t in leaf}
    found = []
    for node, name in given.labels:
        if node in in_leaf:
            found.append((node, name))
        else:
            what = "is not shown" if page.tags[node] in ("#text", "img") else f"is an element {page.tags[node]!r}"
            problems.append(f"{name} at node {node} {what}: label a visible text or an image")
    for name, values in given.values.items():
        for value in values:
            nodes = match_value(view, value)
            if not nodes:
                problems.append(f"{name} {value!r} is not on the page")
            found += [(node, name) for node in nodes]
    return list(dict.fromkeys(found)), problems


def same_value(text: str) -> str:
    """A value without case, white space and differences of writing.

    Examples
    --------
    >>> same_value("Caf\\u0065\\u0301  Noir") == same_value("CAFÉ NOIR")
    True
    """
    return BLANK.sub("", unicodedata.normalize("NFKC", text)).casefold()


def match_value(view: View, value: str) -> list[int]:
    """First nodes of the leaves that show a value.

    All leaves with exactly this text; if there is none, those with the same number and nothing else but signs; if there
    is none, the shortest that contains it, if it is not much longer.

    Examples
    --------
    >>> from maxendnet.web.page import Page
    >>> view = View(Page.from_html("<p>$ 12.99<p>by Ann Lee<p>12"))
    >>> match_value(view, "12.99"), match_value(view, "Ann Lee"), match_value(view, "no")
    ([2], [4], [])
    """
    wanted = same_value(value)
    if not wanted:
        return []
    shown = [
        same_value(image_address(view.page.attributes[leaf[0]]) if image else text)
        for leaf, image, text in zip(view.leaves, view.images, view.texts)
    ]
    exact = [leaf[0] for leaf, text in zip(view.leaves, shown) if text == wanted]
    if exact:
        return exact
    if any(view.images) and re.search(r"\.(?:jpe?g|png|gif|webp|avif)\b", wanted):
        name = wanted.rsplit("/", 1)[-1]
        exact = [leaf[0] for leaf, image, text in zip(view.leaves, view.images, shown) if image and text.endswith(name)]
        if exact:
            return exact
    if NUMBER.fullmatch(wanted.strip("$€£¥")):
        number = NUMBER.findall(wanted)
        for leaf, text in zip(view.leaves, shown):
            if len(text) <= len(wanted) + 4 and NUMBER.findall(text) == number:
                exact.append(leaf[0])
        return exact
    holding = [(len(text), leaf[0]) for leaf, text in zip(view.leaves, shown) if wanted in text]
    if holding and len(wanted) >= 3 and min(holding)[0] <= 2 * len(wanted) + 10:
        return [min(holding)[1]]
    return []


def field_order(given: Iterable[PageLabels], first: Sequence[str] = ()) -> list[str]:
    """Fields in the order in which they are wanted, or else first seen."""
    order = dict.fromkeys(first)
    for labels in given:
        order |= dict.fromkeys([name for _, name in labels.labels] + list(labels.values))
    return list(order)


def labels_images(pages: Sequence[Page], labels: Sequence[PageLabels | None]) -> bool:
    """Whether some label is on an image."""
    for page, given in zip(pages, labels):
        if given is None:
            continue
        if any(node < len(page) and page.tags[node] == "img" for node, _ in given.labels):
            return True
        for values in given.values.values():
            if any(value.lower().rsplit("?", 1)[0].endswith(IMAGE_ENDINGS) for value in values):
                return True
    return False
