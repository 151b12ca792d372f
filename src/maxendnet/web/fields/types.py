"""Value types, called kinds (price, date, number, address, text): recognition and normalisation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any
from urllib.parse import urljoin

from maxendnet.web.fields.patterns import PATTERNS

KINDS = ("text", "price", "date", "number", "mail", "link", "image")
PLACEHOLDERS = frozenset(("n/a", "na", "none", "tba", "tbd", "unknown", "null", "nil"))
NORMAL_FORMS: dict[str, tuple[str, ...]] = {
    "price": ("number", "currency"), "number": ("number",), "date": ("date",), "link": ("url",), "image": ("url",),
}  # fmt: skip
"""Keys of the normalised value of every kind."""
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
MAX_DATE_CHARS = 40
MAX_CHARS = 200  # number of characters of a value that determine its kind


def kind_of(value: str) -> str:
    """Return the kind of a value: ``price``, ``date``, ``number``, ``mail``, ``text``, or ``sign`` for a placeholder.

    Examples
    --------
    >>> [kind_of(value) for value in ("$12.50", "3 May 2021", "1,200", "Hotels from $49", "Marathon 12", "-", "n/a")]
    ['price', 'date', 'number', 'text', 'text', 'sign', 'sign']
    """
    value = value[:MAX_CHARS].strip()
    if not any(map(str.isalnum, value)) or value.lower() in PLACEHOLDERS:
        return "sign"
    if PATTERNS["mail"].search(value) and " " not in value:
        return "mail"
    price = PATTERNS["price"].search(value)
    if price is not None and 2 * len(price[0]) >= len(value):
        return "price"
    digits = any(map(str.isdigit, value))
    if len(value) <= MAX_DATE_CHARS and (PATTERNS["date"].search(value) or (digits and MONTH.search(value))):
        return "date"
    return "number" if is_number(value) else "text"


def is_number(text: str) -> bool:
    """Whether a text is a number, possibly with a unit.

    It must start with a digit and contain at most as many letters as digits.

    Examples
    --------
    >>> is_number("1,200 km"), is_number("X100"), is_number("4 doors")
    (True, False, False)
    """
    first = next(filter(str.isalnum, text), "")
    return first.isdigit() and 2 * sum(map(str.isdigit, text)) >= sum(map(str.isalnum, text))


def learned_kind(values: Iterable[str]) -> str:
    """Return the kind of all values of a field; empty if kinds differ or there are no values."""
    kinds = {kind_of(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else ""


def kind_of_addresses(values: Iterable[str]) -> str:
    """Return ``image`` or ``link`` if all values are addresses, otherwise an empty string.

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
    """Whether a value fits a field, given the kind of its labelled values.

    Examples
    --------
    >>> fits("price", "$5"), fits("price", "ask us"), fits("text", "Pier 39"), fits("text", "$5"), fits("", "$5")
    (True, False, True, False, True)
    """
    value_kind = kind_of(value)
    if kind in ("price", "date", "number", "mail"):
        return value_kind == kind or (kind == "price" and value_kind == "number")
    return kind != "text" or value_kind in ("text", "number")


def normalise(kind: str, value: str, address: str = "") -> dict[str, Any]:
    """Return the normalised form of a value as a dict with the keys ``NORMAL_FORMS``; empty if it is ambiguous.

    Parameters
    ----------
    kind : str
        One of ``KINDS``, or empty.
    value : str
        Value as on the page.
    address : str
        Address of the page, the base of relative links.

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
        day = date_of(value)
        return {} if day is None else {"date": day.isoformat()}
    if kind in ("link", "image"):
        try:
            url = urljoin(address, value)
        except ValueError:
            return {}
        return {"url": url} if "://" in url else {}
    return {}


def number_of(text: str) -> float | None:
    """Return the first number of a text, or None.

    The last "." or "," is the decimal point if this character occurs once, except that three digits after the only
    separator are thousands.

    Examples
    --------
    >>> [number_of(text) for text in ("1,299.50", "1.299,50", "12,5", "1,200", "1.200.000", "1 200", "none")]
    [1299.5, 1299.5, 12.5, 1200.0, 1200000.0, 1200.0, None]
    """
    match = FIGURES.search(text)
    if match is None:
        return None
    figures = re.sub(r"['\u00a0\u202f ](?=\d{3}(?!\d))", "", match[0]).split(" ")[0].rstrip(".,'\u00a0\u202f")
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
    """Return the date in a text, or None if there is none or it is ambiguous.

    A date is unambiguous if the year comes first or the month is a name. A numeric date such as 05/03/2021 is ambiguous
    unless the day is greater than 12.

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
