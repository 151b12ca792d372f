"""Evaluation of extracted records against labelled pages by exact match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.fields.labels import LabelledRecord, PageLabels, labelled_records, labels_on_page
from maxendnet.web.fields.spans import normalise_text, span_text
from maxendnet.web.fields.unmatched import Unmatched
from maxendnet.web.model.record import Cell, Record
from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View


class FieldScore(NamedTuple):
    """Counts of one field.

    Attributes
    ----------
    name : str
    n_true : int
        Number of records with the field.
    n_answers : int
        Number of extracted cells.
    n_hits : int
        Number of correct cells.
    """

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
    """Scores of an evaluation.

    Attributes
    ----------
    fields : list of FieldScore
    all_right : float
        Share of records with all fields correct.
    n_pages : int
    wrong : list of (str, str, str, list of str)
        Page, field, extracted value and true values of every error.
    problems : list of str
        Labelled values that do not occur on their page; they count as missed.
    n_records : int
        Number of labelled records.
    """

    fields: list[FieldScore]
    all_right: float
    n_pages: int
    wrong: list[tuple[str, str, str, list[str]]]
    problems: list[str]
    n_records: int

    @property
    def average_f1(self) -> float:
        """Mean F1 of the fields that occur in the labelled records."""
        scores = [field.f1 for field in self.fields if field.n_true]
        return sum(scores) / len(scores) if scores else 0.0


Truth = dict[str, set[str]]
"""True values of each field of a record."""


def evaluate(
    pages: Sequence[Page], labels: Sequence[PageLabels], records: Sequence[Record], fields: Sequence[str],
    images: bool = False, data: bool = False,
) -> Scores:  # fmt: skip
    """Compare extracted records with the labels of their pages.

    A cell is correct if it equals one of the true values of the field, ignoring case and white space. The true value of
    a label by value is that value as written, and that of a label by node is the text of the node. A labelled value
    that does not occur on its page counts as missed and is reported in ``problems``. A cell with several values must
    contain all of them. An answer for a field that the record lacks lowers precision but not ``all_right``.

    In a listing, each labelled record is compared with the extracted record that shares most values with it. Other
    extracted records are ignored, unless the labels are complete, in which case they lower precision.

    Parameters
    ----------
    pages : sequence of Page
    labels : sequence of PageLabels
        Labels of each page.
    records : sequence of Record
        Extracted records: either one per page in the same order, or any number, which are matched with pages by name.
    fields : sequence of str
        Fields to evaluate.
    images, data : bool
        Whether images and structured data can be values; see `Extractor`.

    Returns
    -------
    Scores

    Examples
    --------
    >>> from maxendnet.web import Cell
    >>> page = Page.from_html("<p>Red Cup<p>$5", name="a.html")
    >>> record = Record("a.html", "", 0, {"name": Cell("red cup", 0.9, 2), "price": Cell("$6", 0.8, 4)})
    >>> labels = PageLabels("a.html", values={"name": ["Red Cup"], "price": ["$5"]})
    >>> [(field.name, field.f1) for field in evaluate([page], [labels], [record], ["name", "price"]).fields]
    [('name', 1.0), ('price', 0.0)]
    """
    counts = {name: [0, 0, 0] for name in fields}
    n_correct = n_records = 0
    errors, problems = [], []
    for page, given, rows in zip(pages, labels, _rows_of(pages, records)):
        view = View(page, images, data, attributes=None)
        is_listing = len(rows) > 1 or any(record.record for record in rows) or _labels_several_records(given)
        labelled, unmatched = labelled_records(view, given) if is_listing else _whole_page(view, given)
        truth = [_true_values(view, record) for record in labelled]
        problems += [f"{page.name}: {label}" for label in unmatched]
        unmatched_rows = list(rows)
        for values in truth:
            folded = {name: set(map(normalise_text, of_field)) for name, of_field in values.items()}
            row = max(unmatched_rows, key=lambda row: _n_correct(row, folded), default=None)
            if row is not None and (_n_correct(row, folded) or not is_listing):
                unmatched_rows.remove(row)
            else:
                row = None
            all_correct = True
            for name in fields:
                cell = None if row is None else row.fields.get(name)
                is_hit = cell is not None and _is_correct(cell, folded.get(name, set()))
                counts[name][0] += bool(values.get(name))
                counts[name][1] += cell is not None
                counts[name][2] += is_hit
                if values.get(name) and not is_hit:
                    all_correct = False
                    errors.append((page.name, name, "" if cell is None else cell.value, sorted(values[name])))
            n_correct += all_correct
        n_records += len(truth)
        if given.complete:
            for row in unmatched_rows:
                for name in fields:
                    counts[name][1] += row.fields.get(name) is not None
    scores = [FieldScore(name, *counts[name]) for name in fields]
    return Scores(scores, n_correct / max(1, n_records), len(pages), errors, problems, n_records)


def _rows_of(pages: Sequence[Page], records: Sequence[Record]) -> list[list[Record]]:
    """Group records by page."""
    if len(records) == len(pages) and not any(record.record for record in records):
        return [[record] for record in records]
    of_page: dict[str, list[Record]] = {}
    for record in records:
        of_page.setdefault(record.page, []).append(record)
    return [of_page.get(page.name, []) for page in pages]


def _labels_several_records(given: PageLabels) -> bool:
    """Whether the labels are a complete listing with several records."""
    lengths = [len(values) for values in given.values.values() if values]
    return given.complete and len(lengths) > 1 and len(set(lengths)) == 1 and lengths[0] > 1


def _whole_page(view: View, given: PageLabels) -> tuple[list[LabelledRecord], list[Unmatched]]:
    """Return the labels of a page as one record, and the unmatched labels."""
    pairs, unmatched = labels_on_page(view, given)
    places = [(name, [span]) for span, name in pairs]
    return [LabelledRecord(places, {name: given.written(name) for name in given.values})], unmatched


def _true_values(view: View, record: LabelledRecord) -> Truth:
    """Return the true values of each field of a labelled record."""
    truth: Truth = {name: set(values) for name, values in record.values.items()}
    for name, spans in record.places:
        if name not in record.values or view.page.tags[spans[0].first] == "img":
            truth.setdefault(name, set()).update(span_text(view, span) for span in spans)
    return truth


def _n_correct(row: Record, folded: Truth) -> int:
    cells = [(name, cell) for name, cell in row.fields.items() if cell is not None]
    return sum(_is_correct(cell, folded.get(name, set())) for name, cell in cells)


def _is_correct(cell: Cell, folded: set[str]) -> bool:
    """Whether a cell equals one of the values, as text or absolute address.

    A cell with several values must have all of them.
    """
    if len(cell.values) > 1:
        return {normalise_text(value) for value in cell.values} == folded
    return normalise_text(cell.value) in folded or normalise_text((cell.normal or {}).get("url", "")) in folded - {""}
