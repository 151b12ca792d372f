"""Kinds of values: what a price, a date or a number looks like. A value of a kind that no label has is none."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maxendnet.web.patterns import PATTERNS

MONTH = re.compile(
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\b",
    re.IGNORECASE,
)
LONGEST_DATE = 40
LOOKED_AT = 200  # letters of a value


def kind_of(value: str) -> str:
    """The kind of a value: ``price``, ``date``, ``number``, ``text``, or ``sign`` if it has no letter and no digit.

    Examples
    --------
    >>> [kind_of(value) for value in ("$12.50", "3 May 2021", "1,200", "Hotels from $49", "Marathon 12", "-")]
    ['price', 'date', 'number', 'text', 'text', 'sign']
    """
    value = value[:LOOKED_AT].strip()
    digits, letters = sum(map(str.isdigit, value)), sum(map(str.isalpha, value))
    if digits + letters == 0:
        return "sign"
    found = PATTERNS["price"].search(value)
    if found is not None and 2 * len(found[0]) >= len(value):
        return "price"
    if len(value) <= LONGEST_DATE and (PATTERNS["date"].search(value) or (digits and MONTH.search(value))):
        return "date"
    return "number" if is_number(value) else "text"


def is_number(text: str) -> bool:
    """Whether a text is a number, with a unit perhaps: it begins with a digit, and has no more letters than digits.

    Examples
    --------
    >>> is_number("1,200 km"), is_number("X100"), is_number("4 doors")
    (True, False, False)
    """
    first = next(filter(str.isalnum, text), "")
    return first.isdigit() and 2 * sum(map(str.isdigit, text)) >= sum(map(str.isalnum, text))


def learned_kind(values: Iterable[str]) -> str:
    """The kind that all values of a field have; empty, if they have several."""
    kinds = {kind_of(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else ""


def fits(kind: str, value: str) -> bool:
    """Whether a value may be one of a field, by the kind of its labelled values.

    Examples
    --------
    >>> fits("price", "$5"), fits("price", "ask us"), fits("text", "Pier 39"), fits("text", "$5"), fits("", "$5")
    (True, False, True, False, True)
    """
    own = kind_of(value)
    if kind in ("price", "date", "number"):
        return own == kind
    return kind != "text" or own in ("text", "number")
