"""How good records are, against labelled pages: a hit is a value of the field as it is written, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from maxendnet.web.labels import PageLabels, labels_on_page
from maxendnet.web.page import Page
from maxendnet.web.record import Record
from maxendnet.web.spans import same_value, span_text
from maxendnet.web.view import View


class FieldScore(NamedTuple):
    """Counts of one field: pages that have it, answers, and right answers."""

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
    """Scores of every field, and the share of pages with all fields right."""

    fields: list[FieldScore]
    all_right: float
    n_pages: int
    wrong: list[tuple[str, str, str, list[str]]]  # page, field, answer, truth
    problems: list[str]  # truth that is not on its page, and so counts as missed

    @property
    def average_f1(self) -> float:
        """Mean over the fields that some page has."""
        some = [field.f1 for field in self.fields if field.n_true]
        return sum(some) / len(some) if some else 0.0


def evaluate(
    pages: Sequence[Page], labels: Sequence[PageLabels], records: Sequence[Record], fields: Sequence[str],
    images: bool = False,
) -> Scores:  # fmt: skip
    """Compare one record a page with the labels of the page.

    An answer is right if it is one of the values of the field, letter by letter but for case and white space: values
    are compared as they are written in the labels, and labelled places by their text. A value that is not on the page
    counts as missed, and is named. A field that the page lacks is right when there is no answer; an answer then lowers
    precision, and does not touch "all right".

    Parameters
    ----------
    pages, labels, records : sequences of the same length
    fields : sequence of str
    images : bool
        Whether images can be answers.
    """
    counts = {name: [0, 0, 0] for name in fields}
    n_right = 0
    wrong, not_there = [], []
    for page, given, record in zip(pages, labels, records):
        view = View(page, images)
        pairs, problems = labels_on_page(view, given)
        not_there += [f"{page.name}: {problem}" for problem in problems]
        complete = True
        for name in fields:
            truth = set(given.written(name))
            # an image by the name of its file, and what was labelled by its place
            truth |= {
                span_text(view, span)
                for span, field in pairs
                if field == name and (name not in given.values or page.tags[span.first] == "img")
            }
            folded = {same_value(value) for value in truth}
            cell = record.fields.get(name)
            hit = cell is not None and same_value(cell.value) in folded
            counts[name][0] += bool(truth)
            counts[name][1] += cell is not None
            counts[name][2] += hit
            if truth and not hit:
                complete = False
                wrong.append((page.name, name, "" if cell is None else cell.value, sorted(truth)))
        n_right += complete
    scores = [FieldScore(name, *counts[name]) for name in fields]
    return Scores(scores, n_right / max(1, len(pages)), len(pages), wrong, not_there)
