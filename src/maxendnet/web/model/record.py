"""Extracted records, with conversion to JSON lines, CSV and data frames."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maxendnet.web.fields.types import NORMAL_FORMS
from maxendnet.web.pages.page import UnreadPage

FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # the last four are full-width forms
NUMBER = re.compile(r"[+-]?\d[\d.,]*%?")
SEPARATOR = "; "  # joins several values of a field


class Cell(NamedTuple):
    """Extracted value of a field.

    Attributes
    ----------
    value : str
        Text as on the page, with white space as displayed.
    confidence : float
        Estimated probability that the value is exactly correct.
    node : int
        Page node at which the value begins.
    span : tuple or None
        First node, first character, last node, the position after the last character, and the attribute if the value is
        from an attribute such as ``title``. None if the value is the whole text of the node, or an address.
    normal : dict or None
        Normalised value, which depends on the type of the field, see `maxendnet.web.fields.types`.
    values : tuple of str
        For a field with several values, each of them; ``value`` is the joined text.
    source : str
        ``"json-ld"`` or ``"microdata"`` if the value is from schema.org data, see
        `maxendnet.web.model.schema.SchemaExtractor`; empty if the model found it.
    """

    value: str
    confidence: float
    node: int
    span: tuple[Any, ...] | None = None
    normal: dict[str, Any] | None = None
    values: tuple[str, ...] = ()
    source: str = ""


class Record(NamedTuple):
    """Extracted record.

    Attributes
    ----------
    page, site, url : str
        Name, site and address of the page.
    record : int or None
        Index of the record on its page; None if the page could not be read.
    fields : dict of str to Cell or None
        Cell of each field; None for an empty cell.
    error : str
        Reason why the page could not be read; empty if it was read.

    Examples
    --------
    >>> record = Record("a.html", "x.com", 0, {"price": Cell("$12", 0.93, 214), "brand": None})
    >>> record.fields["price"].value
    '$12'
    """

    page: str
    site: str
    record: int | None
    fields: dict[str, Cell | None]
    url: str = ""
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary of JSON values."""
        cells: dict[str, Any] = {}
        for name, cell in self.fields.items():
            cells[name] = None
            if cell is not None:
                cells[name] = {"value": cell.value, "confidence": round(cell.confidence, 4), "node": cell.node}
                if cell.span is not None:
                    cells[name]["span"] = list(cell.span)
                if cell.values:
                    cells[name]["values"] = list(cell.values)
                if cell.source:
                    cells[name]["source"] = cell.source
                cells[name] |= cell.normal or {}
        about = {"page": self.page, "url": self.url, "site": self.site, "record": self.record}
        return {**about, "fields": cells, "error": self.error or None}


def unread_record(page: UnreadPage, fields: Sequence[str]) -> Record:
    """Return the record of a page that could not be read, which states the reason."""
    return Record(page.name, "", None, dict.fromkeys(fields), error=page.error)


def as_lines(records: Iterable[Record]) -> str:
    """Return the records as JSON lines."""
    return "".join(json.dumps(record.to_json(), ensure_ascii=False) + "\n" for record in records)


def as_csv(
    records: Iterable[Record], fields: Sequence[str], head: bool = True, kinds: Mapping[str, str] | None = None,
    sources: bool = False,
) -> str:  # fmt: skip
    """Return the records as CSV.

    The columns are page, url, site and record, then value, confidence and node of each field, then error.

    Fields with a type, such as ``price``, have further columns for the normalised value. An apostrophe precedes values
    that a spreadsheet would interpret as formulas.

    Parameters
    ----------
    records : iterable of Record
    fields : sequence of str
    head : bool
        Whether the first line contains the column names.
    kinds : mapping of str to str, optional
        Types of the fields.
    sources : bool
        Whether each field has a column for the ``source`` of its cells.

    Examples
    --------
    >>> record = Record("a.html", "x.com", 0, {"price": Cell("$12", 0.93, 214), "name": Cell("=1+2", 0.5, 3)})
    >>> as_csv([record], ["price", "name"]).splitlines()[1]
    "a.html,,x.com,0,$12,0.9300,214,'=1+2,0.5000,3,"
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    if head:
        writer.writerow(csv_head(fields, kinds, sources))
    for record in records:
        line: list[Any] = [safe_cell(record.page), safe_cell(record.url), safe_cell(record.site), record.record]
        for name in fields:
            cell = record.fields[name]
            line += ["", "", ""] if cell is None else [safe_cell(cell.value), f"{cell.confidence:.4f}", cell.node]
            line += [cell.source if cell is not None else ""] * sources
            normal = (cell.normal if cell is not None else None) or {}
            line += [safe_cell(str(normal.get(key, ""))) for key in NORMAL_FORMS.get((kinds or {}).get(name, ""), ())]
        writer.writerow([*line, safe_cell(record.error)])
    return out.getvalue()


def csv_head(fields: Sequence[str], kinds: Mapping[str, str] | None = None, sources: bool = False) -> list[str]:
    """Return the column names of `as_csv`.

    Examples
    --------
    >>> csv_head(["cost"], {"cost": "price"})[4:]
    ['cost', 'cost_confidence', 'cost_node', 'cost_number', 'cost_currency', 'error']
    """
    columns = ["page", "url", "site", "record"]
    for name in fields:
        suffixes = ("confidence", "node", *["source"] * sources, *NORMAL_FORMS.get((kinds or {}).get(name, ""), ()))
        columns += [safe_cell(column) for column in (name, *(f"{name}_{suffix}" for suffix in suffixes))]
    return [*columns, "error"]


def safe_cell(text: str) -> str:
    """Return a text with a leading apostrophe if a spreadsheet would interpret it as a formula.

    Examples
    --------
    >>> safe_cell("=cmd|' /C calc'!A0"), safe_cell("-5.20"), safe_cell("-5+2")
    ("'=cmd|' /C calc'!A0", '-5.20', "'-5+2")
    """
    return f"'{text}" if text[:1] in FORMULA and not NUMBER.fullmatch(text) else text


def as_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return a flat dictionary for each record, ready for ``pandas.DataFrame``.

    Parameters
    ----------
    records : iterable of Record

    Returns
    -------
    list of dict
        ``page``, ``url``, ``site``, ``record``, ``error`` and for each field ``<field>``, ``<field>_confidence`` and
        the normalised values; a field with several values also has the list ``<field>_values``, and one with a
        value from schema.org data ``<field>_source``.

    Examples
    --------
    >>> as_rows([Record("a.html", "x.com", 0, {"price": Cell("$12", 0.93, 214), "name": None}, "https://x.com/a")])[0]
    ... # doctest: +NORMALIZE_WHITESPACE
    {'page': 'a.html', 'url': 'https://x.com/a', 'site': 'x.com', 'record': 0, 'price': '$12', 'price_confidence': 0.93,
     'name': None, 'name_confidence': None, 'error': None}
    """
    rows = []
    for record in records:
        row: dict[str, Any] = {"page": record.page, "url": record.url, "site": record.site, "record": record.record}
        for name, cell in record.fields.items():
            row[name] = None if cell is None else cell.value
            row[f"{name}_confidence"] = None if cell is None else cell.confidence
            if cell is not None and cell.values:
                row[f"{name}_values"] = list(cell.values)
            if cell is not None and cell.source:
                row[f"{name}_source"] = cell.source
            if cell is not None:
                row |= {f"{name}_{key}": value for key, value in (cell.normal or {}).items()}
        rows.append({**row, "error": record.error or None})
    return rows
