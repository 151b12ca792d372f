"""Labels of pages: lines of ``labels.jsonl``, by node numbers or by values as people have them in a spreadsheet."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from maxendnet.web.fields.leaf_labels import INNER, JOIN, NONE
from maxendnet.web.fields.spans import Span, find_value, leaves_of_span, span_text, whole
from maxendnet.web.fields.unmatched import Unmatched, missing_value
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.structured_data import VALUE_TAGS
from maxendnet.web.views.view import View

Values = dict[str, list[str | tuple[str, ...] | None]]
"""For every field its values; of a listing, one place for every record."""
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
    labels : list of (int or Span, str)
        Node and field, if the value is the whole text of a node or an image; else where it begins and ends.
    values : dict of str to list of str, tuple or None
        Instead of places: values as they are written. Of a listing: one for every labelled record, in the same order
        in all lists, None where a record has none, a tuple where it has several.
    records : list of tuple of int
        First and last node of every record, several pairs if others lie between; empty for one record a page.
    complete : bool
        Of a listing: whether all of its records are labelled. If not, nothing is known of the others.
    sha : str
        Checksum of the page that the node numbers belong to; empty when the line does not say.
    done : bool
        False for a page that is still being labelled.
    line : int
        In the file, from 1.
    """

    page: str
    site: str = ""
    labels: list[tuple[int | Span, str]] = field(default_factory=list)
    values: Values = field(default_factory=dict)
    records: list[tuple[int, ...]] = field(default_factory=list)
    sha: str = ""
    done: bool = True
    line: int = 0
    complete: bool = False

    @property
    def fields(self) -> set[str]:
        return {name for _, name in self.labels} | set(self.values)

    def written(self, name: str) -> list[str]:
        """The values of a field that are there."""
        out: list[str] = []
        for value in self.values.get(name, []):
            out += [value] if isinstance(value, str) else value or ()
        return out


def read_labels(path: str | Path) -> list[PageLabels]:
    """Read ``labels.jsonl``.

    A line is ``{"page": "a.html", "site": "x.com", "labels": [[214, "price"], ...]}`` or
    ``{"page": "a.html", "values": {"price": ["$12"]}}``, with ``"records": [[first, last], ...]`` if there are several
    (``[first, last, first, last]`` for one between whose parts others lie).
    Of a listing, lists of values have a place for every labelled record, ``null`` where it has none:
    ``{"name": ["Cup", "Pot"], "price": ["$12", null]}``; other records are unknown, unless ``"complete": true`` says
    that there are none.
    ``[[214, 7, 216, 2], "price"]`` labels the text from letter 7 of node 214 up to letter 2 of node 216.
    Lines with ``"done": false``, which ``maxendnet web label`` writes for a page in work, are passed over.

    Raises
    ------
    LabelError
        With file, line, what was expected and what came.
    """
    found = [labels for labels, _ in read_lines(path) if labels.done]
    if not found:
        raise LabelError(f'{path} has no label; a line is {{"page": "a.html", "values": {{"price": "$12"}}}}.')
    return found


def read_lines(path: str | Path) -> list[tuple[PageLabels, str]]:
    """All lines of a file of labels, also of pages in work, each with its text.

    Raises
    ------
    LabelError
        With file, line, what was expected and what came.
    OSError
    """
    found: dict[str, tuple[PageLabels, str]] = {}
    for number, data in enumerate(Path(path).read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        where = f"{path}, line {number}"
        try:
            line = data.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise LabelError(f"{where} is not UTF-8 ({error}); save the file as UTF-8.") from error
        if not line:
            continue
        try:
            row = json.loads(line)
        except RecursionError as error:
            raise LabelError(f"{where} has brackets within brackets without end; give one object a line.") from error
        except ValueError as error:
            raise LabelError(f"{where} is not JSON ({error}); repair or remove the line.") from error
        labels = parse_line(row, where)
        labels.line = number
        if labels.page in found:
            first = found[labels.page][0].line
            raise LabelError(f"{where} labels {labels.page!r} again, which line {first} has labelled; keep one.")
        found[labels.page] = (labels, line)
    return list(found.values())


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
        complete=_flag(row, "complete", where),
    )


def _flag(row: dict[str, Any], name: str, where: str) -> bool:
    value = row.get(name, False)
    if not isinstance(value, bool):
        raise LabelError(f'{where}: "{name}" is {value!r}; expected true or false.')
    return value


def check_field(name: Any, where: str) -> str:
    """The name of a field, or an error that says what a name may be."""
    if not isinstance(name, str) or not name.strip() or JOIN in name or name == NONE or name.startswith(INNER):
        raise LabelError(
            f'{where}: {name!r} cannot be the name of a field; give text without "{JOIN}" that is not "{NONE}".'
        )
    return name


def _pairs(given: Any, where: str) -> list[tuple[int | Span, str]]:
    out = []
    for item in given if isinstance(given, list) else [given]:
        place = parse_place(item[0]) if isinstance(item, list) and len(item) == 2 else None
        if place is None:
            raise LabelError(
                f'{where}: "labels" has {item!r}; expected pairs [node, "field"], a node number from 0, or '
                '[[first node, letter, last node, letter], "field"].'
            )
        out.append((place, check_field(item[1], where)))
    return out


def parse_place(given: Any) -> int | Span | None:
    """A node, or a stretch of text; None if it is neither.

    Examples
    --------
    >>> parse_place(3), parse_place([3, 0, 4, 2]), parse_place([4, 0, 3, 2])
    (3, Span(first=3, begin=0, last=4, end=2), None)
    """
    if type(given) is int and given >= 0:
        return given
    if not (isinstance(given, list) and len(given) == 4 and all(type(n) is int and n >= 0 for n in given)):
        return None
    span = Span(*given)
    return span if (span.first, span.begin) < (span.last, span.end) else None


def _values(given: Any, where: str) -> Values:
    if not isinstance(given, dict):
        raise LabelError(f'{where}: "values" is {given!r}; expected an object such as {{"price": ["$12"]}}.')
    out: Values = {}
    for name, values in given.items():
        check_field(name, where)
        found: list[str | tuple[str, ...] | None] = []
        for one in values if isinstance(values, list) else [values]:
            inner = one if isinstance(one, list) else [one]
            if not all(v is None or (isinstance(v, (str, int, float)) and not isinstance(v, bool)) for v in inner):
                raise LabelError(
                    f'{where}: the values of "{name}" are {values!r}; expected text or a list of texts, null for none.'
                )
            there = tuple(str(v) for v in inner if v is not None and str(v).strip())
            found.append(None if not there else there if isinstance(one, list) else there[0])
        out[name] = found if len(found) > 1 else [v for v in found if v is not None]
    return out


def _records(given: Any, where: str) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    for item in given if isinstance(given, list) else [given]:
        numbers = isinstance(item, list) and bool(item) and all(type(n) is int for n in item)
        if not numbers or len(item) % 2 or item != sorted(item):
            raise LabelError(f'{where}: "records" has {item!r}; expected pairs [first node, last node].')
        out.append(tuple(item))
    return out


def in_record(nodes: Iterable[int], record: Sequence[int]) -> bool:
    """Whether nodes lie in a record, which is given by the first and last node of each of its parts.

    Examples
    --------
    >>> in_record([2, 7], (1, 3, 7, 9)), in_record([2, 5], (1, 3, 7, 9))
    (True, False)
    """
    return all(any(a <= t <= b for a, b in zip(record[::2], record[1::2])) for t in nodes)


def labels_on_page(view: View, given: PageLabels) -> tuple[list[tuple[Span, str]], list[Unmatched]]:
    """Places of the labels of a page, as pairs (stretch of text, field), and the labels without a place.

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
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>A cup<p>$12.00"))
    >>> places, unmatched = labels_on_page(view, PageLabels("a.html", values={"price": ["12.00"], "brand": ["Acme"]}))
    >>> places, str(unmatched[0])
    ([(Span(first=4, begin=1, last=4, end=6), 'price')], "brand 'Acme' is not on the page")
    """
    page = view.page
    if given.sha and given.sha != page.sha:
        given = _numbered_again(page, given)
    unmatched = []
    found = []
    for place, name in given.labels:
        node = place.last if isinstance(place, Span) else place
        if node >= len(page):
            raise LabelError(f"{given.page} has nodes 0 to {len(page) - 1}, and {name!r} is at node {node}.")
        if isinstance(place, Span):
            if span_text(view, place):
                found.append((place, name))
            else:
                reason = f"at {list(place)} is no visible text: give nodes of texts, and letters in them"
                unmatched.append(Unmatched(name, reason))
        elif node in view.leaf_of:
            found.append((whole(view, view.leaf_of[node]), name))
        else:
            is_leaf_tag = page.tags[node] in ("#text", "img", *VALUE_TAGS)
            problem = "is not shown" if is_leaf_tag else f"is an element {page.tags[node]!r}"
            unmatched.append(Unmatched(name, f"at node {node} {problem}: label a visible text or an image"))
    placed = {name for _, name in given.labels}
    for name in given.values:
        for value in given.written(name) if name not in placed else ():
            spans = find_value(view, value)
            if not spans:
                unmatched.append(missing_value(name, value))
            found += [(span, name) for span in spans]
    return list(dict.fromkeys(found)), unmatched


def _numbered_again(page: Page, given: PageLabels) -> PageLabels:
    """Labels of a page whose nodes were counted without what it says to programs, as before version 0.2.

    Raises
    ------
    LabelError
        The page is not the one that was labelled.
    """
    before = page.shown
    if given.sha != before.sha:
        raise LabelError(
            f"{given.page} is not the page that was labelled (checksum {page.sha}, labels are for {given.sha}); "
            "restore the page, or label it again."
        )
    assert before.nodes is not None
    now = before.nodes.tolist()
    last = max([t for place, _ in given.labels for t in ([place.last] if isinstance(place, Span) else [place])] or [0])
    if last >= len(now):
        raise LabelError(f"{given.page} has nodes 0 to {len(now) - 1}, and node {last} is labelled.")
    places = [
        (p._replace(first=now[p.first], last=now[p.last]) if isinstance(p, Span) else now[p], name)
        for p, name in given.labels
    ]
    records = [tuple(now[min(t, len(now) - 1)] for t in own) for own in given.records]
    return replace(given, labels=places, records=records, sha=page.sha)


def labelled_nodes(view: View, pairs: Iterable[tuple[Span, str]]) -> list[tuple[int, str]]:
    """Pairs (node, field) for every leaf that a labelled value lies on."""
    return [(view.leaves[k], name) for span, name in pairs for k in leaves_of_span(view, span)]


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
        nodes = [place.first if isinstance(place, Span) else place for place, _ in given.labels]
        if any(node < len(page) and page.tags[node] == "img" for node in nodes):
            return True
        for name in given.values:
            if any(value.lower().rsplit("?", 1)[0].endswith(IMAGE_ENDINGS) for value in given.written(name)):
                return True
    return False


def labels_data(pages: Sequence[Page], labels: Sequence[PageLabels | None]) -> bool:
    """Whether some label is on a value that a page says to programs, and does not show."""
    for page, given in zip(pages, labels):
        if given is None or not page.structured_values:
            continue
        nodes = [place.first if isinstance(place, Span) else place for place, _ in given.labels]
        if any(node < len(page) and page.tags[node] in VALUE_TAGS for node in nodes):
            return True
        written = [value for name in given.values for value in given.written(name)]
        view = View(page, images=True, data=True)
        for value in written:
            spans = find_value(view, value)
            if spans and view.data[view.leaf_of[spans[0].first]]:
                return True
    return False


# ---- listings -------------------------------------------------------------------------------------------------------


class LabelledRecord(NamedTuple):
    """A labelled record of a listing.

    Attributes
    ----------
    places : list of (str, list of Span)
        Fields, each with the places where its value may be: all of the page that show it. A field with several values
        is there several times.
    values : dict of str to list of str
        As they are written.
    """

    places: list[tuple[str, list[Span]]]
    values: dict[str, list[str]]


def labelled_records(
    view: View, given: PageLabels, several: Collection[str] = ()
) -> tuple[list[LabelledRecord], list[Unmatched]]:
    """The labelled records of a listing, and the labels without a place.

    Values with the same place in their lists are of one record. Labelled nodes are put together by ``records``, or, in
    the order of the page, until a field comes again that is not one of ``several``. A field of a record has places only
    if all of its values have one.

    Raises
    ------
    LabelError
        Lists of values differ in length.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>cup<p>$5<p>pot"))
    >>> found, _ = labelled_records(view, PageLabels("a", values={"name": ["cup", "pot"], "price": ["$5", None]}))
    >>> [[name for name, _ in record.places] for record in found]
    [['name', 'price'], ['name']]
    """
    lengths = {name: len(values) for name, values in given.values.items() if values}
    if len(set(lengths.values())) > 1:
        (one, n), (other, m) = sorted(lengths.items(), key=lambda item: item[1])[:: len(lengths) - 1]
        raise LabelError(
            f"{given.page}: {other!r} has {m} values and {one!r} {n}; in a listing give one for every record, and null "
            "where a record has none."
        )
    placed, unmatched = labels_on_page(view, replace(given, values={}))
    found = [
        LabelledRecord([(name, [span]) for span, name in some], {})
        for some in _by_record(placed, given.records, several)
    ]
    for i in range(max(lengths.values(), default=0)):
        record = LabelledRecord([], {})
        for name in lengths:
            value = given.values[name][i]
            if value is None:
                continue
            record.values[name] = [value] if isinstance(value, str) else list(value)
            places = [find_value(view, text, everywhere=True) for text in record.values[name]]
            unmatched += [missing_value(name, text) for text, spans in zip(record.values[name], places) if not spans]
            if all(places):
                record.places.extend((name, spans) for spans in places)
        if record.places:
            found.append(record)
    return found, unmatched


def _by_record(
    placed: Sequence[tuple[Span, str]], ranges: Sequence[tuple[int, ...]], several: Collection[str]
) -> list[list[tuple[Span, str]]]:
    """Labelled places of the same record together."""
    ordered = sorted(placed)
    if ranges:
        some = [[item for item in ordered if in_record((item[0].first, item[0].last), own)] for own in ranges]
        return [items for items in some if items]
    out: list[list[tuple[Span, str]]] = []
    for span, name in ordered:
        if not out or (name not in several and name in {field for _, field in out[-1]}):
            out.append([])
        out[-1].append((span, name))
    return out
