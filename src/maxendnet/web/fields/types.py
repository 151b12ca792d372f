"""Kinds of values: prices, dates, numbers, addresses and texts; how each looks, and what it means to a program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any
from urllib.parse import urljoin

from maxendnet.web.fields.patterns import PATTERNS

KINDS = ("text", "price", "date", "number", "mail", "link", "image")
NOTHING = frozenset(("n/a", "na", "none", "tba", "tbd", "unknown", "null", "nil"))
NORMAL: dict[str, tuple[str, ...]] = {
    "price": ("number", "currency"), "number": ("number",), "date": ("date",), "link": ("url",), "image": ("url",),
}  # fmt: skip
"""What stands beside the value as it is written, for every kind."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = re.compile(
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\b",
    re.IGNORECASE,
)
CURRENCIES = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "kr": "SEK"}
CURRENCY = re.compile(r"\b(?:USD|EUR|GBP|JPY|INR|SEK|NOK|DKK|CHF|CAD|AUD|PLN)\b|[$€£¥₹]|\bkr\b")
FIGURES = re.compile(r"-?\d[\d.,'\u00a0\u202f ]*")
ADDRESS = re.compile(r"(?:https?:/)?/\S+\Z", re.IGNORECASE)
PICTURE = re.compile(r"\.(?:jpe?g|png|gif|webp|avif)(?:\?|\Z)", re.IGNORECASE)
LONGEST_DATE = 40
LOOKED_AT = 200  # letters of a value


def kind_of(value: str) -> str:
    """The kind of a value: ``price``, ``date``, ``number``, ``mail``, ``text``, or ``sign`` if it says nothing.

    Examples
    --------
    >>> [kind_of(value) for value in ("$12.50", "3 May 2021", "1,200", "Hotels from $49", "Marathon 12", "-", "n/a")]
    ['price', 'date', 'number', 'text', 'text', 'sign', 'sign']
    """
    value = value[:LOOKED_AT].strip()
    if not any(map(str.isalnum, value)) or value.lower() in NOTHING:
        return "sign"
    if PATTERNS["mail"].search(value) and " " not in value:
        return "mail"
    found = PATTERNS["price"].search(value)
    if found is not None and 2 * len(found[0]) >= len(value):
        return "price"
    digits = any(map(str.isdigit, value))
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
    """The kind that all values of a field have; empty, if they have several or there are none."""
    kinds = {kind_of(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else ""


def kind_of_addresses(values: Iterable[str]) -> str:
    """``image`` or ``link`` if all values are addresses, else empty.

    Examples
    --------
    >>> kind_of_addresses(["/a.jpg", "https://x.com/b.PNG?w=9"]), kind_of_addresses(["//x.com/"])
    ('image', 'link')
    """
    values = list(values)
    if not values or not all(ADDRESS.match(value) for value in values):
        return ""
    return "image" if all(PICTURE.search(value) for value in values) else "link"


def fits(kind: str, value: str) -> bool:
    """Whether a value may be one of a field, by the kind of its labelled values.

    Examples
    --------
    >>> fits("price", "$5"), fits("price", "ask us"), fits("text", "Pier 39"), fits("text", "$5"), fits("", "$5")
    (True, False, True, False, True)
    """
    own = kind_of(value)
    if kind in ("price", "date", "number", "mail"):
        return own == kind or (kind == "price" and own == "number")
    return kind != "text" or own in ("text", "number")


def normalise(kind: str, value: str, address: str = "") -> dict[str, Any]:
    """What a value means to a program; nothing where that cannot be told.

    Parameters
    ----------
    kind : str
        One of ``KINDS``, or empty.
    value : str
        As it is written.
    address : str
        Of the page: links are taken from there.

    Examples
    --------
    >>> normalise("price", "from $1,299.50"), normalise("price", "12,50 €")
    ({'number': 1299.5, 'currency': 'USD'}, {'number': 12.5, 'currency': 'EUR'})
    >>> normalise("date", "3 May 2021"), normalise("date", "05/03/2021"), normalise("date", "2021-05-03T10:00")
    ({'date': '2021-05-03'}, {}, {'date': '2021-05-03'})
    >>> normalise("link", "../a?b=1", "https://x.com/shop/list.html")
    {'url': 'https://x.com/a?b=1'}
    """
    if kind in ("price", "number"):
        number = number_of(value)
        if number is None:
            return {}
        if kind == "number":
            return {"number": number}
        sign = CURRENCY.search(value)
        return {"number": number} | ({"currency": CURRENCIES.get(sign[0], sign[0])} if sign else {})
    if kind == "date":
        found = date_of(value)
        return {} if found is None else {"date": found.isoformat()}
    if kind in ("link", "image"):
        try:
            whole = urljoin(address, value)
        except ValueError:
            return {}
        return {"url": whole} if "://" in whole else {}
    return {}


def number_of(text: str) -> float | None:
    """The first number of a text; the last of "." and "," is taken for the decimal sign if one or two digits follow.

    Examples
    --------
    >>> [number_of(text) for text in ("1,299.50", "1.299,50", "12,5", "1,200", "1.200.000", "1 200", "none")]
    [1299.5, 1299.5, 12.5, 1200.0, 1200000.0, 1200.0, None]
    """
    found = FIGURES.search(text)
    if found is None:
        return None
    figures = re.sub(r"['\u00a0\u202f ](?=\d{3}(?!\d))", "", found[0]).split(" ")[0].rstrip(".,'\u00a0\u202f")
    last = max(figures.rfind("."), figures.rfind(","))
    both = "." in figures and "," in figures
    decimal = last >= 0 and figures.count(figures[last]) == 1 and (both or len(figures) - last - 1 != 3)
    whole, rest = (figures[:last], figures[last + 1 :]) if decimal else (figures, "")
    digits = re.sub(r"[^\d-]", "", whole) + ("." + re.sub(r"\D", "", rest) if rest else "")
    try:
        return float(digits)
    except ValueError:
        return None


def date_of(text: str) -> date | None:
    """The date that a text says, if it says one in one way: year first, or with the name of the month.

    Numbers alone, such as 05/03/2021, are read only where the day cannot be a month.

    Examples
    --------
    >>> [str(date_of(text)) for text in ("May 3, 2021", "Sat, 3 May 2021", "31.12.2020", "03/04/2020", "May 2021")]
    ['2021-05-03', '2021-05-03', '2020-12-31', 'None', 'None']
    """
    iso = re.search(r"\b(\d{4})-(\d{1,2})-(\d{1,2})", text)
    if iso is not None:
        return _date(int(iso[1]), int(iso[2]), int(iso[3]))
    named = MONTH.search(text)
    if named is not None:
        year = re.search(r"\b(?:1[5-9]|20)\d\d\b", text)
        days = [int(n) for n in re.findall(r"\b(\d{1,2})(?:st|nd|rd|th)?\b", text)]
        if year is None or not days:
            return None
        return _date(int(year[0]), MONTHS.index(named[0].lower()[:3]) + 1, days[0])
    plain = re.search(r"\b(\d{1,2})([./-])(\d{1,2})\2(\d{4})\b", text)
    if plain is None:
        return None
    first, second, year_ = int(plain[1]), int(plain[3]), int(plain[4])
    if first > 12 or plain[2] == ".":
        return _date(year_, second, first)
    return _date(year_, first, second) if second > 12 else None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
