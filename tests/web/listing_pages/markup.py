"""Markup of items with slots for their fields, and pages of such items.

The slot ``[date]`` is replaced by the value of a field, and ``[date:<i>%</i>]`` by the value in markup.
``[date:<i>%</i>|-]`` also specifies a text for items without the field. The template computes other slots, such as
``[link]``. In frames, ``*`` represents the items.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from random import Random

from listing_pages.items import Item

Template = Callable[[list[Item], Random], str]
Texts = Callable[[Item, Random], dict[str, str]]
SLOT = re.compile(r"\[(\w+)(?::([^|\]]*))?(?:\|([^\]]*))?\]")
ADS = ("Try our app", "Subscribe to the letter", "Hotels nearby from $49.99", "Win two tickets",
       "Car hire $19.00 a day")  # fmt: skip


def fill(markup: str, item: Item, **texts: object) -> str:
    """Fill the slots of markup.

    Examples
    --------
    >>> fill("<p>[k]: [name]</p>[price:<b>%</b>|-]", {"name": "A & B", "price": None}, k=1)
    '<p>1: A &amp; B</p>-'
    """

    def value_of(slot: re.Match[str]) -> str:
        name, form, missing = slot.groups()
        value = item[name]
        return missing or "" if value is None else (form or "%").replace("%", escape(value))

    for name, text in texts.items():
        markup = markup.replace(f"[{name}]", str(text))
    return SLOT.sub(value_of, markup)


def fill_record(markup: str, item: Item, k: int = 0, **texts: object) -> str:
    """Fill the slots of item k of a page, including those for a link, its number and remainders."""
    code = sum(ord(letter) * (i + 1) for i, letter in enumerate(str(item["name"])))
    link = f"<a href='/e/{code}'>{escape(str(item['name']))}</a>"
    return fill(
        markup, item, link=link, code=code, k=k, number=k + 1, parity="odd" if k % 2 else "even", third=k % 3, **texts
    )


def repeated(
    title: str, frame: str, markup: str, *, separator: str = "", texts: Texts = lambda item, rng: {},
    row: str = "*", per_row: int = 1,
) -> Template:  # fmt: skip
    """Return a template with the same markup for every item.

    Parameters
    ----------
    title, frame, markup : str
        ``[n]`` in the frame is the number of items.
    separator : str
        Markup between items.
    texts : callable
        Random texts for slots of an item.
    row, per_row : str, int
        Frame of every ``per_row`` items.
    """

    def template(items: list[Item], rng: Random) -> str:
        records = [fill_record(markup, item, k, **texts(item, rng)) for k, item in enumerate(items)]
        return framed(title, frame.replace("[n]", str(len(items))), in_rows(records, row, per_row, separator), rng)

    return template


def grouped(title: str, frame: str, group: str, markup: str, most: int, headings: Sequence[str]) -> Template:
    """Return a template with items in groups of at most ``most``, each with a heading."""

    def template(items: list[Item], rng: Random) -> str:
        groups, start = "", 0
        while start < len(items):
            end = start + rng.randint(1, most)
            records = "".join(fill_record(markup, item) for item in items[start:end])
            groups += group.replace("[heading]", rng.choice(headings)).replace("*", records)
            start = end
        return framed(title, frame, groups, rng)

    return template


def in_rows(records: list[str], row: str, per_row: int, separator: str = "") -> str:
    """Return items in rows of ``per_row`` each."""
    rows = ("".join(records[k : k + per_row]) for k in range(0, len(records), per_row))
    return separator.join(row.replace("*", cells) for cells in rows)


def framed(title: str, frame: str, records: str, rng: Random) -> str:
    """Return a page with menu, heading, the items in their frame, and footer."""
    menu = "".join(
        f"<li><a href='/{word}'>{word.title()}</a></li>" for word in ("home", "events", "places", "about us", "contact")
    )
    note = f"<p>{rng.choice(ADS)}</p>" if rng.random() < 0.5 else ""
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title></head><body><div id='top'><ul class='menu'>{menu}"
        f"</ul></div><h1>{title}</h1>{note}{frame.replace('*', records)}<div id='foot'><p>Prices in $ and with tax. "
        f"<a href='/terms'>Terms</a></p><p>&copy; 2026 {title}</p></div></body></html>"
    )
