"""What is extracted: records of cells."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


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
        First node, letter, last node, letter after it; None if it is the whole text of the node, or an image.
    """

    value: str
    confidence: float
    node: int
    span: tuple[int, ...] | None = None


class Record(NamedTuple):
    """One row of the table: every field has a cell, or None when it was not found."""

    page: str
    site: str
    record: int
    fields: dict[str, Cell | None]

    def to_json(self) -> dict[str, Any]:
        """As a line of output."""
        cells: dict[str, Any] = {}
        for name, cell in self.fields.items():
            cells[name] = None
            if cell is not None:
                cells[name] = {"value": cell.value, "confidence": round(cell.confidence, 4), "node": cell.node}
                if cell.span is not None:
                    cells[name]["span"] = list(cell.span)
        return {"page": self.page, "site": self.site, "record": self.record, "fields": cells}


def as_lines(records: Iterable[Record]) -> str:
    """A line of JSON for each record."""
    return "".join(json.dumps(record.to_json(), ensure_ascii=False) + "\n" for record in records)


def as_csv(records: Iterable[Record], fields: Sequence[str]) -> str:
    """A table: page, site and record, then value, confidence and node of every field, empty where it was not found.

    Examples
    --------
    >>> record = Record("a.html", "x.com", 0, {"price": Cell("$12", 0.93, 214), "name": None})
    >>> as_csv([record], ["price", "name"]).splitlines()[1]
    'a.html,x.com,0,$12,0.9300,214,,,'
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    head = ["page", "site", "record"]
    for name in fields:
        head += [name, f"{name}_confidence", f"{name}_node"]
    writer.writerow(head)
    for record in records:
        line: list[Any] = [record.page, record.site, record.record]
        for name in fields:
            cell = record.fields[name]
            line += ["", "", ""] if cell is None else [cell.value, f"{cell.confidence:.4f}", cell.node]
        writer.writerow(line)
    return out.getvalue()
