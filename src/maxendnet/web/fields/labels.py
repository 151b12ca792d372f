"""Labels of pages, by node number or by value: read ``labels.jsonl``, and match labels with pages."""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from maxendnet.web.fields.leaf_labels import INNER, JOIN, NONE
from maxendnet.web.fields.spans import Span, find_value, is_part, leaves_of_span, normalise_text, span_text, whole
from maxendnet.web.fields.unmatched import Unmatched, missing_value
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.structured_data import VALUE_TAGS
from maxendnet.web.views.leaves import is_text_attribute
from maxendnet.web.views.texts import MAX_LEVELS, is_shortened
from maxendnet.web.views.view import View

Values = dict[str, list[str | tuple[str, ...] | None]]
"""Values of every field; for a listing, one entry per labelled item."""
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif")


class LabelError(ValueError):
    """Raised if a line of a label file is invalid, or does not match its page."""


@dataclass
class PageLabels:
    """Labels of a page.

    Attributes
    ----------
    page : str
        Path of the page, relative to the folder of pages.
    site : str
        Site of the page; empty if not specified.
    labels : list of (int or Span, str)
        Pairs of a place and a field. The place is a node if the value is an image or the whole text of a node,
        otherwise a span.
    values : dict of str to list of str, tuple or None
        Alternative to ``labels``: the values of each field as on the page. For a listing, one entry per labelled item,
        in the same order for all fields: None if the item has no value, a tuple if it has several.
    records : list of tuple of int
        First and last node of every labelled item, or several such pairs if the item is not contiguous. Empty for a
        page with one record.
    complete : bool
        For a listing, whether all of its items are labelled. If not, the labels of the other items are unknown.
    sha : str
        Checksum of the page to which the node numbers refer; empty if not specified.
    done : bool
        False for a page in progress.
    line : int
        Line number in the file, from 1.
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
        """Labelled fields."""
        return {name for _, name in self.labels} | set(self.values)

    def written(self, name: str) -> list[str]:
        """Return the values of a field as written in the file, without missing ones."""
        out: list[str] = []
        for value in self.values.get(name, []):
            out += [value] if isinstance(value, str) else value or ()
        return out


def read_labels(path: str | Path) -> list[PageLabels]:
    """Read ``labels.jsonl``.

    A line is ``{"page": "a.html", "site": "x.com", "labels": [[214, "price"], ...]}`` or
    ``{"page": "a.html", "values": {"price": ["$12"]}}``. ``[[214, 7, 216, 2], "price"]`` labels the text from character
    7 of node 214 to character 2 of node 216, exclusive.

    For a listing, ``"records": [[first, last], ...]`` contains the first and last node of every labelled item
    (``[first, last, first, last]`` if the item is not contiguous). Lists of values contain one entry per labelled item,
    ``null`` for a missing value: ``{"name": ["Cup", "Pot"], "price": ["$12", null]}``. The labels of other items are
    unknown, unless the line contains ``"complete": true``.

    Lines with ``"done": false``, which ``maxendnet web label`` writes for a page in progress, are skipped.

    Parameters
    ----------
    path : path

    Returns
    -------
    list of PageLabels

    Raises
    ------
    LabelError
        A line is invalid, or the file contains no labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
    ...     _ = file.write('{"page": "a.html", "values": {"price": "$12"}}')
    ...     file.flush()
    ...     read_labels(file.name)[0].values
    {'price': ['$12']}
    """
    pages = [labels for labels, _ in read_lines(path) if labels.done]
    if not pages:
        raise LabelError(f'{path} has no labels; a line is {{"page": "a.html", "values": {{"price": "$12"}}}}.')
    return pages


def read_lines(path: str | Path) -> list[tuple[PageLabels, str]]:
    """Return the labels and text of every line of a label file, including pages in progress.

    Raises
    ------
    LabelError
        A line is invalid.
    OSError
        The file cannot be read.
    """
    lines: dict[str, tuple[PageLabels, str]] = {}
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
            raise LabelError(f"{where} is nested too deeply; expected one object per line.") from error
        except ValueError as error:
            raise LabelError(f"{where} is not JSON ({error}); fix or remove the line.") from error
        labels = parse_line(row, where)
        labels.line = number
        if labels.page in lines:
            first = lines[labels.page][0].line
            raise LabelError(f"{where} labels {labels.page!r} again, after line {first}; remove one of the lines.")
        lines[labels.page] = (labels, line)
    return list(lines.values())


def parse_line(row: Any, where: str) -> PageLabels:
    """Return the labels of one line; ``where`` names the line in error messages.

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
    """Return the name of a field, or raise a `LabelError` if it is invalid."""
    if not isinstance(name, str) or not name.strip() or JOIN in name or name == NONE or name.startswith(INNER):
        raise LabelError(f'{where}: {name!r} is not a valid field name; use any text without "{JOIN}" except "{NONE}".')
    return name


def _pairs(pairs: Any, where: str) -> list[tuple[int | Span, str]]:
    out = []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        place = parse_place(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if place is None:
            raise LabelError(
                f'{where}: "labels" has {pair!r}; expected pairs [node, "field"] with a node number from 0, or '
                '[[first node, character, last node, character], "field"].'
            )
        out.append((place, check_field(pair[1], where)))
    return out


def parse_place(place: Any) -> int | Span | None:
    """Return the node or span that a JSON value denotes, or None if it denotes neither.

    Examples
    --------
    >>> parse_place(3), parse_place([3, 0, 4, 2])[:4], parse_place([4, 0, 3, 2])
    (3, (3, 0, 4, 2), None)
    >>> parse_place([3, 0, 3, 7, "title"]).attribute
    'title'
    """
    if type(place) is int and place >= 0:
        return place
    if not isinstance(place, list) or not 4 <= len(place) <= 5:
        return None
    if not all(type(n) is int and n >= 0 for n in place[:4]) or not all(isinstance(name, str) for name in place[4:]):
        return None
    span = Span(*place)
    return span if (span.first, span.begin) < (span.last, span.end) else None


def _values(by_field: Any, where: str) -> Values:
    if not isinstance(by_field, dict):
        raise LabelError(f'{where}: "values" is {by_field!r}; expected an object such as {{"price": ["$12"]}}.')
    out: Values = {}
    for name, values in by_field.items():
        check_field(name, where)
        entries: list[str | tuple[str, ...] | None] = []
        for entry in values if isinstance(values, list) else [values]:
            inner = entry if isinstance(entry, list) else [entry]
            if not all(v is None or (isinstance(v, (str, int, float)) and not isinstance(v, bool)) for v in inner):
                raise LabelError(
                    f'{where}: the values of "{name}" are {values!r}; expected text or a list of texts, or null.'
                )
            texts = tuple(str(v) for v in inner if v is not None and str(v).strip())
            entries.append(None if not texts else texts if isinstance(entry, list) else texts[0])
        out[name] = entries if len(entries) > 1 else [v for v in entries if v is not None]
    return out


def _records(records: Any, where: str) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    for record in records if isinstance(records, list) else [records]:
        has_numbers = isinstance(record, list) and bool(record) and all(type(n) is int for n in record)
        if not has_numbers or len(record) % 2 or record != sorted(record):
            raise LabelError(f'{where}: "records" has {record!r}; expected pairs [first node, last node].')
        out.append(tuple(record))
    return out


def in_record(nodes: Iterable[int], record: Sequence[int]) -> bool:
    """Whether all nodes are in a record, which is specified by pairs of first and last node.

    Examples
    --------
    >>> in_record([2, 7], (1, 3, 7, 9)), in_record([2, 5], (1, 3, 7, 9))
    (True, False)
    """
    return all(any(a <= t <= b for a, b in zip(record[::2], record[1::2])) for t in nodes)


def labels_on_page(view: View, given: PageLabels) -> tuple[list[tuple[Span, str]], list[Unmatched]]:
    """Return the spans of the labels of a page, and the labels that do not match it.

    Parameters
    ----------
    view : View
    given : PageLabels

    Returns
    -------
    spans : list of (Span, str)
        Span and field.
    unmatched : list of Unmatched

    Raises
    ------
    LabelError
        The page has changed since it was labelled, or has no such node.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>A cup<p>$12.00"))
    >>> places, unmatched = labels_on_page(view, PageLabels("a.html", values={"price": ["12.00"], "brand": ["Acme"]}))
    >>> [(span.to_json(), name) for span, name in places], str(unmatched[0])
    ([([4, 1, 4, 6], 'price')], "brand 'Acme' is not on the page")
    """
    page = view.page
    if given.sha and given.sha != page.sha:
        given = _renumber(page, given)
    unmatched = []
    spans_of_labels = []
    for place, name in given.labels:
        node = place.last if isinstance(place, Span) else place
        if node >= len(page):
            raise LabelError(f"{given.page} has nodes 0 to {len(page) - 1}, but {name!r} is at node {node}.")
        if isinstance(place, Span):
            if span_text(view, place):
                spans_of_labels.append((place, name))
            else:
                reason = (
                    f"at {place.to_json()} is not visible text: expected text nodes and character positions within them"
                )
                unmatched.append(Unmatched(name, reason))
        elif node in view.leaf_of:
            spans_of_labels.append((whole(view, view.leaf_of[node]), name))
        else:
            is_leaf_tag = page.tags[node] in ("#text", "img", *VALUE_TAGS)
            problem = "is not shown" if is_leaf_tag else f"is an element {page.tags[node]!r}"
            unmatched.append(Unmatched(name, f"at node {node} {problem}: label a visible text or an image"))
    labelled_by_node = {name for _, name in given.labels}
    for name in given.values:
        for value in given.written(name) if name not in labelled_by_node else ():
            spans = find_value(view, value)
            if not spans:
                unmatched.append(missing_value(name, value))
            spans_of_labels += [(span, name) for span in spans]
    return list(dict.fromkeys(spans_of_labels)), unmatched


def _renumber(page: Page, given: PageLabels) -> PageLabels:
    """Return the labels in current node numbers; versions before 0.2 did not number structured data.

    Raises
    ------
    LabelError
        The page has changed since it was labelled.
    """
    before = page.shown
    if given.sha != before.sha:
        raise LabelError(
            f"{given.page} has changed since it was labelled (its checksum is {page.sha}, the labels are for "
            f"{given.sha}); restore the page, or label it again."
        )
    assert before.nodes is not None
    now = before.nodes.tolist()
    last = max((place.last if isinstance(place, Span) else place for place, _ in given.labels), default=0)
    if last >= len(now):
        raise LabelError(f"{given.page} has nodes 0 to {len(now) - 1}, but node {last} is labelled.")
    places = [
        (p._replace(first=now[p.first], last=now[p.last]) if isinstance(p, Span) else now[p], name)
        for p, name in given.labels
    ]
    records = [tuple(now[min(t, len(now) - 1)] for t in record) for record in given.records]
    return replace(given, labels=places, records=records, sha=page.sha)


def labelled_leaves(view: View, pairs: Iterable[tuple[Span, str]]) -> list[tuple[int, str]]:
    """Return a pair (leaf, field) for every leaf of every labelled span."""
    return [(k, name) for span, name in pairs for k in leaves_of_span(view, span)]


def field_order(given: Iterable[PageLabels], first: Sequence[str] = ()) -> list[str]:
    """Return all fields: those of ``first``, then others in the order of the labels."""
    order = dict.fromkeys(first)
    for labels in given:
        order |= dict.fromkeys([name for _, name in labels.labels] + list(labels.values))
    return list(order)


def labels_images(pages: Sequence[Page], labels: Sequence[PageLabels | None]) -> bool:
    """Whether an image is labelled."""
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
    """Whether a value of structured data that the page does not display is labelled."""
    for page, given in zip(pages, labels):
        if given is None or not page.structured_values:
            continue
        nodes = [place.first if isinstance(place, Span) else place for place, _ in given.labels]
        if any(node < len(page) and page.tags[node] in VALUE_TAGS for node in nodes):
            return True
        view = View(page, images=True, data=True, attributes=None)
        for value in (value for name in given.values for value in given.written(name)):
            spans = find_value(view, value)
            if spans and view.page.tags[spans[0].first] in VALUE_TAGS:
                return True
    return False


def labels_hidden(pages: Sequence[Page], labels: Sequence[PageLabels | None]) -> bool:
    """Whether a labelled value is on its page, but hidden until the reader does something, such as choosing a tab."""
    for page, given in zip(pages, labels):
        if given is None or not given.values:
            continue
        view = View(page, images=True, data=True, attributes=None)
        missing = [x for name in given.values for x in given.written(name) if not find_value(view, x)]
        view = View(page, hidden=True) if missing else view
        if any(find_value(view, value) for value in missing):
            return True
    return False


def labels_attributes(pages: Sequence[Page], labels: Sequence[PageLabels | None]) -> list[str]:
    """Return the text attributes, such as ``title``, that contain labelled values that are not texts of the page."""
    names: set[str] = set()
    for page, given in zip(pages, labels):
        if given is None:
            continue
        names |= {place.attribute for place, _ in given.labels if isinstance(place, Span) and place.attribute}
        view = View(page, images=True)
        missing = []
        for value in (value for name in given.values for value in given.written(name)):
            spans = find_value(view, value)
            missing += [value] if not spans else []
            names |= {name for span in spans for name in _full_attributes(view, span, value)}
        if missing:
            view = View(page, images=True, attributes=None)
            names |= {span.attribute for value in missing for span in find_value(view, value) if span.attribute}
    return sorted(names)


def _full_attributes(view: View, span: Span, value: str) -> list[str]:
    """Return the attributes around a text that equal it and extend other texts of the same kind, which are cut off."""
    k = view.leaf_of.get(span.first)
    if k is None or is_part(view, span) or view.page.tags[span.first] != "#text":
        return []
    page, names, above = view.page, [], span.first
    for level in range(1, MAX_LEVELS + 1):
        above = int(page.parents[above])
        if above < 0:
            break
        for name, text in page.attributes[above].items():
            if is_text_attribute(name) and normalise_text(text) == normalise_text(value):
                nodes = [t for t, kind in zip(view.leaves, view.kinds) if kind == view.kinds[k]]
                if is_shortened(page, nodes, level, name):
                    names.append(name)
    return names


# ---- listings -------------------------------------------------------------------------------------------------------


class LabelledRecord(NamedTuple):
    """Labels of an item of a listing.

    Attributes
    ----------
    places : list of (str, list of Span)
        Pairs of a field and all spans that show its value. A field with several values occurs several times.
    values : dict of str to list of str
        Labelled values of every field.
    """

    places: list[tuple[str, list[Span]]]
    values: dict[str, list[str]]


def labelled_records(
    view: View, given: PageLabels, several: Collection[str] = ()
) -> tuple[list[LabelledRecord], list[Unmatched]]:
    """Return the labelled items of a listing, and the labels that do not match the page.

    Values at the same index of their lists belong to one item. Labelled nodes are grouped by ``records``. Without
    ``records``, a new item begins, in document order, when a field that is not one of ``several`` occurs again. A field
    has places only if all of its values occur on the page.

    Raises
    ------
    LabelError
        Lists of values differ in length.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>cup<p>$5<p>pot"))
    >>> records, _ = labelled_records(view, PageLabels("a", values={"name": ["cup", "pot"], "price": ["$5", None]}))
    >>> [[name for name, _ in record.places] for record in records]
    [['name', 'price'], ['name']]
    """
    lengths = {name: len(values) for name, values in given.values.items() if values}
    if len(set(lengths.values())) > 1:
        (shorter, n), (longer, m) = sorted(lengths.items(), key=lambda item: item[1])[:: len(lengths) - 1]
        raise LabelError(
            f"{given.page}: {longer!r} has {m} values and {shorter!r} {n}; in a listing write one value per "
            "record, and null for a missing value."
        )
    spans_of_labels, unmatched = labels_on_page(view, replace(given, values={}))
    labelled = [
        LabelledRecord([(name, [span]) for span, name in pairs], {})
        for pairs in _by_record(spans_of_labels, given.records, several)
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
            labelled.append(record)
    return labelled, unmatched


def _by_record(
    pairs: Sequence[tuple[Span, str]], records: Sequence[tuple[int, ...]], several: Collection[str]
) -> list[list[tuple[Span, str]]]:
    """Group labelled spans by record."""
    ordered = sorted(pairs)
    if records:
        groups = [[pair for pair in ordered if in_record((pair[0].first, pair[0].last), nodes)] for nodes in records]
        return [group for group in groups if group]
    out: list[list[tuple[Span, str]]] = []
    for span, name in ordered:
        if not out or (name not in several and name in {field for _, field in out[-1]}):
            out.append([])
        out[-1].append((span, name))
    return out
