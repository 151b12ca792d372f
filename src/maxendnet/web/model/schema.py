"""Extraction from schema.org data, without a model or before that of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxendnet.web.fields.types import normalise
from maxendnet.web.model.calibration import MAX_UNCALIBRATED
from maxendnet.web.model.record import SEPARATOR, Cell, Record, unread_record
from maxendnet.web.pages.page import Page, UnreadPage
from maxendnet.web.pages.schema_items import SchemaItems, SchemaValue
from maxendnet.web.pages.source import Source, read_sources
from maxendnet.web.progress import Progress, quiet

if TYPE_CHECKING:
    from maxendnet.web.model.extraction import Records
    from maxendnet.web.model.extractor import Extractor


class SchemaExtractor:
    """Extract records from JSON-LD and microdata, the other cells with a model.

    Labels override: on a labelled site, fields with labels are extracted by the model, and structured data fills only
    cells that are empty. The ``source`` of a cell states where its value is from.

    Parameters
    ----------
    fields : sequence of str or mapping of str to str
        Fields, or for each field the property of schema.org, such as ``{"price": "offers.price"}``. Fields of the model
        follow. See `maxendnet.web.pages.schema_items.SchemaItems.values`.
    several : sequence of str
        Fields that may have several values, in addition to those of the model.
    extractor : Extractor, optional
        Fitted model.

    Examples
    --------
    >>> script = '{"@type": "Product", "name": "Cup", "offers": {"price": 5}}'
    >>> html = f"<script type=application/ld+json>{script}</script>"
    >>> record, = SchemaExtractor(["name", "price"]).extract(html)
    >>> record.fields["price"].value, record.fields["price"].source
    ('5', 'json-ld')
    """

    def __init__(
        self, fields: Sequence[str] | Mapping[str, str] = (), several: Sequence[str] = (),
        extractor: Extractor | None = None,
    ) -> None:  # fmt: skip
        self.extractor = extractor
        of_model = extractor.fields_ if extractor is not None else []
        given = fields if isinstance(fields, Mapping) else {name: name for name in fields}
        self.properties = {**given, **{name: given.get(name, name) for name in of_model}}
        self.several = (*several, *(extractor.several if extractor is not None else ()))
        self.fields_ = list(self.properties)
        self.kinds_: dict[str, str] = extractor.kinds_ if extractor is not None else {}
        self.sites_: list[str] = extractor.sites_ if extractor is not None else []
        self.layout_ = extractor.layout_ if extractor is not None else False
        if not self.fields_:
            raise ValueError('no fields are given; name them, for example fields=["name", "price"].')

    def extract(
        self, pages: Source | Sequence[Source], *, records: Records = None, min_confidence: float = 0.0,
        progress: Progress = quiet,
    ) -> list[Record]:  # fmt: skip
        """Extract records from pages; the parameters are those of `Extractor.extract`."""
        sources = read_sources(pages, self.sites_)
        if self.extractor is None:
            rows = [
                [
                    unread_record(page, self.fields_)
                    if isinstance(page, UnreadPage)
                    else Record(page.name, page.site, 0, {}, page.url)
                ]
                for page in progress(sources, "schema.org")
            ]
        else:
            rows = self.extractor.rows(sources, records, min_confidence, progress)
        return [
            self._complete(page, record) if isinstance(page, Page) and len(of_page) == 1 else record
            for page, of_page in zip(sources, rows)
            for record in of_page
        ]

    def _complete(self, page: Page, record: Record) -> Record:
        """Return the only record of a page with the cells of structured data."""
        labelled = self.extractor.memory_.get(page.site, {}) if self.extractor is not None else {}
        values = SchemaItems(page).values(list(self.properties.values()))
        cells: dict[str, Cell | None] = {}
        for name, path in self.properties.items():
            cell = record.fields.get(name)
            is_given = cell is not None and name in labelled
            cells[name] = cell if is_given or path not in values else self._cell(page, name, values[path])
        return record._replace(fields=cells)

    def _cell(self, page: Page, name: str, values: Sequence[SchemaValue]) -> Cell:
        texts = tuple(value.text for value in values)
        normal = normalise(self.kinds_.get(name, ""), texts[0], page.url) or None
        cell = Cell(texts[0], MAX_UNCALIBRATED, values[0].node, normal=normal, source=values[0].place)
        return cell._replace(value=SEPARATOR.join(texts), values=texts) if name in self.several else cell
