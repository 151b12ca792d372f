"""How good records are, against labelled pages: a hit is a value of the field as it is written, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.fields.labels import LabelledRecord, PageLabels, labelled_records, labels_on_page
from maxendnet.web.fields.spans import same_value, span_text
from maxendnet.web.fields.unmatched import Unmatched
from maxendnet.web.model.record import Cell, Record
from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View


class FieldScore(NamedTuple):
    """Counts of one field: records that have it, answers, and right answers."""

    name: str
    n_true: int
    n_answers: int
    n_hits: int

    @property
    def precision(self) -> float:
        return self.n_hits / self.n_answers if self.n_answers else 0.0

    @property
    def recall(self) -> float:
        return self.n_hits / self.n_true if self.n_true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall.

        Examples
        --------
        >>> FieldScore("price", n_true=4, n_answers=4, n_hits=3).f1
        0.75
        """
        total = self.n_answers + self.n_true
        return 2.0 * self.n_hits / total if total else 0.0


class Scores(NamedTuple):
    """Scores of every field, and the share of records with all fields right."""

    fields: list[FieldScore]
    all_right: float
    n_pages: int
    wrong: list[tuple[str, str, str, list[str]]]  # page, field, answer, truth
    problems: list[str]  # truth that is not on its page, and so counts as missed
    n_records: int

    @property
    def average_f1(self) -> float:
        """Mean over the fields that some record has."""
        some = [field.f1 for field in self.fields if field.n_true]
        return sum(some) / len(some) if some else 0.0


Truth = dict[str, set[str]]
"""Values of every field that a record has."""


def evaluate(
    pages: Sequence[Page], labels: Sequence[PageLabels], records: Sequence[Record], fields: Sequence[str],
    images: bool = False, data: bool = False,
) -> Scores:  # fmt: skip
    """Compare records with the labels of their pages.

    An answer is right if it is one of the values of the field, letter by letter but for case and white space: values
    are compared as they are written in the labels, and labelled places by their text. A value that is not on the page
    counts as missed, and is named. Of several values all must be there. A field that the record lacks is right when
    there is no answer; an answer then lowers precision, and does not touch "all right".

    On a listing every labelled record is compared with the row that has most of its values. Other rows count for
    nothing, unless the labels are complete: then they lower precision.

    Parameters
    ----------
    pages, labels : sequences of the same length
    records : sequence of Record
        Of these pages, also of others: one for every page in their order, or any number, by the names of the pages.
    fields : sequence of str
    images, data : bool
        Whether images, and values that pages say to programs, can be answers.
    """
    counts = {name: [0, 0, 0] for name in fields}
    n_right = n_records = 0
    wrong, not_there = [], []
    for page, given, rows in zip(pages, labels, _rows_of(pages, records)):
        view = View(page, images, data=data)
        listing = len(rows) > 1 or any(record.record for record in rows) or _several(given)
        labelled, unmatched = labelled_records(view, given) if listing else _whole_page(view, given)
        truth = [_true_values(view, record) for record in labelled]
        not_there += [f"{page.name}: {label}" for label in unmatched]
        free = list(rows)
        for own in truth:
            folded = {name: {same_value(value) for value in values} for name, values in own.items()}
            row = max(free, key=lambda row: _n_right(row, folded), default=None)
            if row is not None and (_n_right(row, folded) or not listing):
                free.remove(row)
            else:
                row = None
            complete = True
            for name in fields:
                cell = None if row is None else row.fields.get(name)
                hit = cell is not None and _is_right(cell, folded.get(name, set()))
                counts[name][0] += bool(own.get(name))
                counts[name][1] += cell is not None
                counts[name][2] += hit
                if own.get(name) and not hit:
                    complete = False
                    wrong.append((page.name, name, "" if cell is None else cell.value, sorted(own[name])))
            n_right += complete
        n_records += len(truth)
        if given.complete:
            for row in free:
                for name in fields:
                    counts[name][1] += row.fields.get(name) is not None
    scores = [FieldScore(name, *counts[name]) for name in fields]
    return Scores(scores, n_right / max(1, n_records), len(pages), wrong, not_there, n_records)


def _rows_of(pages: Sequence[Page], records: Sequence[Record]) -> list[list[Record]]:
    """The records of every page."""
    if len(records) == len(pages) and not any(record.record for record in records):
        return [[record] for record in records]
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.page, []).append(record)
    return [found.get(page.name, []) for page in pages]


def _several(given: PageLabels) -> bool:
    """Whether labels are those of several records: lists of the same length, for more than one field."""
    lengths = [len(values) for values in given.values.values() if values]
    return len(lengths) > 1 and set(lengths) not in ({0}, {1}) and len(set(lengths)) == 1 and given.complete


def _whole_page(view: View, given: PageLabels) -> tuple[list[LabelledRecord], list[Unmatched]]:
    """The labels of a page about one thing as one record."""
    pairs, unmatched = labels_on_page(view, given)
    places = [(name, [span]) for span, name in pairs]
    return [LabelledRecord(places, {name: given.written(name) for name in given.values})], unmatched


def _true_values(view: View, record: LabelledRecord) -> Truth:
    """Values of a record as written; also the texts of labelled places, and the file names of images."""
    truth: Truth = {name: set(values) for name, values in record.values.items()}
    for name, spans in record.places:
        if name not in record.values or view.page.tags[spans[0].first] == "img":
            truth.setdefault(name, set()).update(span_text(view, span) for span in spans)
    return truth


def _n_right(row: Record, folded: Truth) -> int:
    cells = [(name, cell) for name, cell in row.fields.items() if cell is not None]
    return sum(_is_right(cell, folded.get(name, set())) for name, cell in cells)


def _is_right(cell: Cell, folded: set[str]) -> bool:
    """Whether a cell has one of the values, as it is written or as a whole address; of several values, all of them."""
    if len(cell.values) > 1:
        return {same_value(value) for value in cell.values} == folded
    return same_value(cell.value) in folded or same_value((cell.normal or {}).get("url", "")) in folded - {""}
