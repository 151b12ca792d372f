"""Error messages for labels that do not match their page, with the most similar texts."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from maxendnet.web.fields.spans import VALUE_ATTRIBUTES, normalise_text
from maxendnet.web.pages.page import Page
from maxendnet.web.views.leaves import is_text_attribute
from maxendnet.web.views.view import View, value_of

MAX_NAMED = 10
MAX_CANDIDATES = 20_000
MAX_CHARS = 100  # values and texts are truncated to this length
MIN_SIMILARITY = 0.5


class Unmatched(NamedTuple):
    """A label that does not match its page.

    Attributes
    ----------
    field : str
    reason : str
    value : str
        Empty for a label by node number.
    """

    field: str
    reason: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.field} {self.reason}"


def missing_value(name: str, value: str) -> Unmatched:
    """Return the unmatched label for a value that is not on its page.

    Examples
    --------
    >>> str(missing_value("price", "$12"))
    "price '$12' is not on the page"
    """
    return Unmatched(name, f"{value!r} is not on the page", value)


def nearest_texts(page: Page, value: str, n: int = 3) -> list[str]:
    """Return the texts, attributes or phrases of a page that are most similar to a value.

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
            candidates.setdefault(candidate[:MAX_CHARS].casefold(), candidate[:MAX_CHARS])
        if len(candidates) > MAX_CANDIDATES:
            break
    near = get_close_matches(value[:MAX_CHARS].casefold(), candidates, n, MIN_SIMILARITY)
    return [candidates[text] for text in near]


def is_hidden(page: Page, value: str) -> bool:
    """Whether a value equals an attribute or a text of the page, visible or hidden.

    Examples
    --------
    >>> is_hidden(Page.from_html("<p hidden>$12"), "$ 12")
    True
    """
    return normalise_text(value) in map(normalise_text, page.texts + _attributes(page))


def _attributes(page: Page) -> list[str]:
    return [
        value
        for attributes in page.attributes
        for name, value in attributes.items()
        if name in VALUE_ATTRIBUTES or is_text_attribute(name)
    ]


def _hint(page: Page, value: str) -> str:
    if not value:
        return ""
    if is_hidden(page, value):
        return "; it is hidden: label a visible text or image"
    near = ", ".join(map(repr, nearest_texts(page, value)))
    return f"; nearest texts: {near}" if near else "; no text is similar"


def unmatched_error(labels: Sequence[tuple[Page, str, Unmatched]]) -> str:
    """Return the error message for unmatched labels, with the page and the line of each label."""
    lines = []
    for page, where, label in labels[:MAX_NAMED]:
        lines.append(f"  {where}: {label}{_hint(page, label.value)}")
    if len(labels) > MAX_NAMED:
        lines.append(f"  and {len(labels) - MAX_NAMED} more")
    return "\n".join([
        "a label is not on its page:" if len(labels) == 1 else f"{len(labels)} labels are not on their pages:",
        *lines,
        "Write values as on the page, write null for a field that is absent from a page, or ignore such labels with "
        "--skip-unmatched (in Python, fit(..., skip_unmatched=True)): the field is then unknown on that page.",
    ])  # fmt: skip
