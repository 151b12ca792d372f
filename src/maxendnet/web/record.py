"""What is extracted: records of cells."""

from __future__ import annotations

from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A value found on a page."""

    value: str
    confidence: float
    node: int


class Record(NamedTuple):
    """One row of the table: every field has a cell, or None when it was not found."""

    page: str
    site: str
    record: int
    fields: dict[str, Cell | None]

    def to_json(self) -> dict[str, Any]:
        """As a line of output."""
        cells = {
            name: None if cell is None else {**cell._asdict(), "confidence": round(cell.confidence, 4)}
            for name, cell in self.fields.items()
        }
        return {"page": self.page, "site": self.site, "record": self.record, "fields": cells}
