"""Labels that are nowhere on their page: what is said about them, with the nearest texts of the page."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from maxendnet.web.fields.spans import ATTRIBUTES, same_value
from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View, value_of

MAX_NAMED = 10
MAX_CANDIDATES = 20_000
MAX_LETTERS = 100  # of a value and of a text, to be compared and shown
MIN_SIMILARITY = 0.5


class Unmatched(NamedTuple):
    """A label without a place on its page.

    Attributes
    ----------
    field : str
    reason : str
    value : str
        Empty for a label by its node.
    """

    field: str
    reason: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.field} {self.reason}"


def missing_value(name: str, value: str) -> Unmatched:
    """A labelled value that the page does not have.

    Examples
    --------
    >>> str(missing_value("price", "$12"))
    "price '$12' is not on the page"
    """
    return Unmatched(name, f"{value!r} is not on the page", value)


def nearest_texts(page: Page, value: str, n: int = 3) -> list[str]:
    """Texts and attributes of a page, or words in a row, that are most similar to a value.

    Examples
    --------
    >>> nearest_texts(Page.from_html("<h1>Red Cup</h1><p>Price: $12.50 incl. VAT<p>Help"), "12,50 $")
    ['$12.50 incl.']
    >>> nearest_texts(Page.from_html("<h1>Red Cup</h1>"), "2026")
    []
    """
    view = View(page, images=True, data=True)
    texts = [value_of(view, k) for k in range(len(view))] + _attributes(page)
    n_words = len(value.split())
    candidates: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        words = text.split()
        windows = (" ".join(words[i : i + n_words]) for i in range(len(words) - n_words + 1))
        for candidate in (text, *windows):
            candidates.setdefault(candidate[:MAX_LETTERS].casefold(), candidate[:MAX_LETTERS])
        if len(candidates) > MAX_CANDIDATES:
            break
    near = get_close_matches(value[:MAX_LETTERS].casefold(), candidates, n, MIN_SIMILARITY)
    return [candidates[text] for text in near]


def is_hidden(page: Page, value: str) -> bool:
    """Whether a value that no visible text has is a text or an attribute of the page.

    Examples
    --------
    >>> is_hidden(Page.from_html("<p hidden>$12"), "$ 12")
    True
    """
    return same_value(value) in map(same_value, page.texts + _attributes(page))


def _attributes(page: Page) -> list[str]:
    return [given[name] for given in page.attributes for name in ATTRIBUTES if name in given]


def _hint(page: Page, value: str) -> str:
    if not value:
        return ""
    if is_hidden(page, value):
        return "; it is hidden there: label a visible text or image"
    near = ", ".join(map(repr, nearest_texts(page, value)))
    return f"; nearest texts: {near}" if near else "; no text is similar"


def unmatched_error(labels: Sequence[tuple[Page, str, Unmatched]]) -> str:
    """Error message for labels, each with its page and where it was given."""
    lines = []
    for page, where, label in labels[:MAX_NAMED]:
        lines.append(f"  {where}: {label}{_hint(page, label.value)}")
    if len(labels) > MAX_NAMED:
        lines.append(f"  and {len(labels) - MAX_NAMED} more")
    return "\n".join([
        "a label is not on its page:" if len(labels) == 1 else f"{len(labels)} labels are not on their pages:",
        *lines,
        "Write values as the page does, give null for a field that a page does not have, or leave such labels out by "
        "--skip-unmatched (in Python, fit(..., skip_unmatched=True)): the field is then unknown on that page.",
    ])  # fmt: skip
