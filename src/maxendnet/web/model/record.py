"""What is extracted: records of cells."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maxendnet.web.fields.types import NORMAL

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last are wide forms
NUMBER = re.compile(r"[+-]?\d[\d.,]*%?")


class Cell(NamedTuple):
    """A value found on a page.

    Attributes
    ----------
    value : str
        As it is written on the page, white space as a reader sees it.
    confidence : float
        That the value is right, letter by letter.
    node : int
        Where it begins.
    span : tuple of int, or None
        First node, letter, last node, letter after it; None if it is the whole text of the node, an image or another
        attribute.
    normal : dict, or None
        What the value means to a program, by the kind of the field: see `maxendnet.web.fields.types`.
    values : tuple of str
        Of a field with several values: each of them; ``value`` has all.
    """

    value: str
    confidence: float
    node: int
    span: tuple[int, ...] | None = None
    normal: dict[str, Any] | None = None
    values: tuple[str, ...] = ()


class Record(NamedTuple):
    """One row of the table: every field has a cell, or None when it was not found.

    A page that could not be read has a row without a record, with the reason as ``error``.
    """

    page: str
    site: str
    record: int | None
    fields: dict[str, Cell | None]
    url: str = ""
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a line of output."""
        cells: dict[str, Any] = {}
        for name, cell in self.fields.items():
            cells[name] = None
            if cell is not None:
                cells[name] = {"value": cell.value, "confidence": round(cell.confidence, 4), "node": cell.node}
                if cell.span is not None:
                    cells[name]["span"] = list(cell.span)
                if cell.values:
                    cells[name]["values"] = list(cell.values)
                cells[name] |= cell.normal or {}
        about = {"page": self.page, "url": self.url, "site": self.site, "record": self.record}
        return {**about, "fields": cells, "error": self.error or None}


def as_lines(records: Iterable[Record]) -> str:
    """A line of JSON for each record."""
    return "".join(json.dumps(record.to_json(), ensure_ascii=False) + "\n" for record in records)


def as_csv(
    records: Iterable[Record], fields: Sequence[str], head: bool = True, kinds: Mapping[str, str] | None = None
) -> str:
    """A table: page, url, site and record, then value, confidence and node of every field, empty where not found.

    A field of a known kind, such as ``price``, has columns for what its values mean to a program. The last column says
    why a page could not be read. Cells that a spreadsheet would take for a formula begin with an apostrophe.

    Examples
    --------
    >>> record = Record("a.html", "x.com", 0, {"price": Cell("$12", 0.93, 214), "name": Cell("=1+2", 0.5, 3)})
    >>> as_csv([record], ["price", "name"]).splitlines()[1]
    "a.html,,x.com,0,$12,0.9300,214,'=1+2,0.5000,3,"
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    if head:
        writer.writerow(csv_head(fields, kinds))
    for record in records:
        line: list[Any] = [safe_cell(record.page), safe_cell(record.url), safe_cell(record.site), record.record]
        for name in fields:
            cell = record.fields[name]
            line += ["", "", ""] if cell is None else [safe_cell(cell.value), f"{cell.confidence:.4f}", cell.node]
            normal = (cell.normal if cell is not None else None) or {}
            line += [safe_cell(str(normal.get(key, ""))) for key in NORMAL.get((kinds or {}).get(name, ""), ())]
        writer.writerow([*line, safe_cell(record.error)])
    return out.getvalue()


def csv_head(fields: Sequence[str], kinds: Mapping[str, str] | None = None) -> list[str]:
    """Names of the columns.

    Examples
    --------
    >>> csv_head(["cost"], {"cost": "price"})[4:]
    ['cost', 'cost_confidence', 'cost_node', 'cost_number', 'cost_currency', 'error']
    """
    columns = ["page", "url", "site", "record"]
    for name in fields:
        more = NORMAL.get((kinds or {}).get(name, ""), ())
        columns += [safe_cell(column) for column in (name, *(f"{name}_{x}" for x in ("confidence", "node", *more)))]
    return [*columns, "error"]


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula; numbers stay as they are.

    Examples
    --------
    >>> safe_cell("=cmd|' /C calc'!A0"), safe_cell("-5.20"), safe_cell("-5+2")
    ("'=cmd|' /C calc'!A0", '-5.20', "'-5+2")
    """
    return f"'{text}" if text[:1] in FORMULA and not NUMBER.fullmatch(text) else text


def as_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """A dictionary for each record, with value and confidence of every field: what ``pandas.DataFrame`` takes.

    A field with several values has them as a list, too, in ``<field>_values``.

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
            if cell is not None:
                row |= {f"{name}_{key}": value for key, value in (cell.normal or {}).items()}
        rows.append({**row, "error": record.error or None})
    return rows
