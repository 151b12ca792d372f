"""Listings of made-up events in templates that differ in markup, with the truth of every record: for `web_listings`.

Every template is a function of a page (its records, a source of chance) that gives HTML. Records have a name, a price,
a date and a place; price, date and place are missing now and then. All templates were written before records could be
found; errors on both sets were looked at while the search for records was made, those on ``TEMPLATES`` first.
``STAFF_TEMPLATES`` have other fields (name, role, phone, mail), and were written and measured afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from random import Random
from typing import NamedTuple

from maxendnet.web.fields.labels import PageLabels, Values
from maxendnet.web.pages.page import Page

FIELDS = ("name", "price", "date", "place")
FIRST = (
    "Winter",
    "Open",
    "Silent",
    "Grand",
    "Little",
    "Northern",
    "Electric",
    "Old",
    "Midnight",
    "River",
    "Paper",
    "Second",
)
SECOND = (
    "Jazz",
    "Poetry",
    "Garden",
    "Film",
    "Chess",
    "Robot",
    "Tango",
    "Ceramics",
    "Choir",
    "Opera",
    "Bread",
    "Comics",
)
THIRD = ("Night", "Fair", "Workshop", "Festival", "Marathon", "Evening", "Club", "Market", "School", "Parade")
PLACES = ("Town Hall", "Old Harbour", "St. Anne's Church", "Museum of Glass", "City Library", "Pier 39", "Blue Barn",
          "North Park", "Café Milo", "The Dome", "Central Station", "Rose & Crown")  # fmt: skip
MONTHS = ("January", "March", "April", "June", "July", "September", "October", "December")
TAGS = ("music", "family", "outdoors", "free entry", "late", "food", "for kids", "sold out soon")
ADS = (
    "Try our app",
    "Subscribe to the letter",
    "Hotels nearby from $49.99",
    "Win two tickets",
    "Car hire $19.00 a day",
)

GIVEN = ("Ada", "Bea", "Carl", "Dora", "Emil", "Fay", "Gero", "Hana", "Ivo", "Jana", "Kai", "Lena")
FAMILY = (
    "Abel",
    "Brandt",
    "Costa",
    "Dahl",
    "Ek",
    "Fuchs",
    "Gallo",
    "Horn",
    "Ito",
    "Jung",
    "Klein",
    "Lund",
    "Mora",
    "Ode",
)
ROLES = (
    "Professor",
    "Senior Lecturer",
    "Dean",
    "Technician",
    "PhD student",
    "Visiting scholar",
    "Secretary",
    "Librarian",
)

Item = dict[str, str | None]


class Listing(NamedTuple):
    """A page with its records, in order."""

    html: str
    items: list[Item]


class ListedPages(NamedTuple):
    """Pages of templates, a site each, with the truth.

    Attributes
    ----------
    pages : list of Page
    items : list of list of dict
        Records of every page; a field that is missing is None.
    html : dict of str to str
        Path to text.
    """

    pages: list[Page]
    items: list[list[Item]]
    html: dict[str, str]

    def labels(self, n_records: int, random_state: int = 0) -> list[PageLabels | None]:
        """Labels of so many records on the first page of every site, and of no other.

        The first has all fields: what was never labelled cannot be learned. The others are any.
        """
        rng = Random(f"labels {random_state}")
        out: list[PageLabels | None] = []
        seen: set[str] = set()
        for page, items in zip(self.pages, self.items):
            out.append(None)
            if page.site in seen:
                continue
            seen.add(page.site)
            first = rng.choice([item for item in items if all(item.values())])
            others = rng.sample([item for item in items if item is not first], n_records - 1)
            chosen = [first, *others]
            values: Values = {name: [item[name] for item in chosen] for name in first}
            out[-1] = PageLabels(page.name, page.site, values=values)
        return out


def make_listings(
    templates: dict[str, Callable[[list[Item], Random], str]] | None = None, n_pages: int = 5, random_state: int = 0,
    fewest: int = 10, most: int = 50,
) -> ListedPages:  # fmt: skip
    """Pages of all templates.

    Parameters
    ----------
    templates : dict, optional
        Name to function; None: ``TEMPLATES``.
    n_pages : int
        Of each template.
    random_state : int
    fewest, most : int
        Records on a page.

    Examples
    --------
    >>> listed = make_listings(n_pages=1)
    >>> len(listed.pages), 10 <= len(listed.items[0]) <= 50
    (12, True)
    """
    found = ListedPages([], [], {})
    for name, template in (TEMPLATES if templates is None else templates).items():
        for n in range(n_pages):
            rng = Random(f"{random_state} {name} {n}")
            make = make_people if name in STAFF_TEMPLATES else make_items
            items = make(rng, rng.randint(fewest, most))
            html = template(items, rng)
            path = f"{name}.example/{n}.html"
            found.html[path] = html
            found.pages.append(Page.from_html(html, name=path, site=f"{name}.example"))
            found.items.append(items)
    return found


def make_items(rng: Random, n: int) -> list[Item]:
    """Events with different names, of which some lack a price, a date or a place; at least one has all fields."""
    names: dict[str, None] = {}
    while len(names) < n:
        names[
            f"{rng.choice(FIRST)} {rng.choice(SECOND)} {rng.choice(THIRD)}"
            + rng.choice(("", "", f" {rng.randint(2, 40)}"))
        ] = None
    items: list[Item] = []
    for name in names:
        item: Item = {
            "name": name,
            "price": f"${rng.randint(3, 240)}.{rng.randint(0, 99):02d}",
            "date": f"{rng.randint(1, 28)} {rng.choice(MONTHS)} {rng.randint(2019, 2027)}",
            "place": f"{rng.choice(PLACES)}" + rng.choice(("", f", Hall {rng.randint(1, 9)}")),
        }
        for field, share in (("price", 0.1), ("date", 0.05), ("place", 0.15)):
            if rng.random() < share:
                item[field] = None
        items.append(item)
    if not any(all(item.values()) for item in items):
        items[0] = {field: value or "TBA" for field, value in items[0].items()}
    return items


def make_people(rng: Random, n: int) -> list[Item]:
    """Members of a staff with different names, of whom some lack a role, a phone number or a mail address."""
    names: dict[str, None] = {}
    while len(names) < n:
        names[f"{rng.choice(GIVEN)} {rng.choice(FAMILY)}" + rng.choice(("", f" {rng.choice('ABCDE')}."))] = None
    items: list[Item] = []
    for name in names:
        item: Item = {
            "name": name,
            "role": rng.choice(ROLES),
            "phone": f"555-{rng.randint(1000, 9999)}",
            "mail": f"{name.split()[0].lower()}{rng.randint(1, 99)}@uni.example",
        }
        for field, share in (("role", 0.1), ("phone", 0.15), ("mail", 0.1)):
            if rng.random() < share:
                item[field] = None
        items.append(item)
    return items


# ---- what templates share -------------------------------------------------------------------------------------------


def page_of(title: str, body: str, rng: Random) -> str:
    """A whole page: menu, a heading, the list, a foot."""
    menu = "".join(
        f"<li><a href='/{word}'>{word.title()}</a></li>" for word in ("home", "events", "places", "about us", "contact")
    )
    note = f"<p>{rng.choice(ADS)}</p>" if rng.random() < 0.5 else ""
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title></head><body><div id='top'><ul class='menu'>{menu}"
        f"</ul></div>"
        f"<h1>{title}</h1>{note}{body}<div id='foot'><p>Prices in $ and with tax. <a href='/terms'>Terms</a></p>"
        f"<p>&copy; 2026 {title}</p></div></body></html>"
    )


def say(item: Item, field: str, form: str = "{}", missing: str = "") -> str:
    """A value in its markup, or what stands there without it."""
    value = item[field]
    return missing if value is None else form.format(escape(value))


def hashed(rng: Random) -> str:
    """A class name as build tools make them."""
    return (
        "css-"
        + "".join(rng.choice("abcdefghijkmnpqrstuvwxyz0123456789") for _ in range(4))
        + rng.choice("0123456789")
        + rng.choice("abcdef")
    )


def link(item: Item) -> str:
    """A link with the name."""
    return f"<a href='/e/{abs(hash_of(item))}'>{escape(str(item['name']))}</a>"


def hash_of(item: Item) -> int:
    """A number of the name that is the same in every run."""
    return sum(ord(letter) * (k + 1) for k, letter in enumerate(str(item["name"])))


# ---- templates ------------------------------------------------------------------------------------------------------


def table(items: list[Item], rng: Random) -> str:
    """A table with a head, odd and even rows, and a sum at its foot."""
    rows = "".join(
        f"<tr class='{'odd' if k % 2 else 'even'}'><td>{k + 1}</td><td>{link(item)}</td><td>{say(item, 'date')}</td>"
        f"<td>{say(item, 'place')}</td><td>{say(item, 'price', '<b>{}</b>', '&ndash;')}</td></tr>\n"
        for k, item in enumerate(items)
    )
    head = "<tr><th>No.</th><th>Event</th><th>When</th><th>Where</th><th>Price</th></tr>"
    foot = f"<tr class='sum'><td colspan='4'>All events</td><td>{len(items)}</td></tr>"
    return page_of("Events", f"<table border='1'>{head}{rows}{foot}</table>", rng)


def cards(items: list[Item], rng: Random) -> str:
    """Cards in a grid, some with a badge and an old price."""
    out = ""
    for item in items:
        badge = "<span class='badge'>New!</span>" if rng.random() < 0.3 else ""
        old = f"<s>${rng.randint(250, 400)}.00</s> " if item["price"] and rng.random() < 0.4 else ""
        out += (
            f"<div class='card{rng.choice((' sale', '', ' featured'))}'>{badge}<a href='/p'><img src='/i/"
            f"{hash_of(item)}.jpg' alt=''></a>"
            f"<h3>{link(item)}</h3><div class='info'>{say(item, 'date', '<span class=when>{}</span>')}"
            f"{say(item, 'place', '<span class=where>{}</span>')}</div>"
            f"{say(item, 'price', '<div class=price>' + old + '<b>{}</b></div>')}"
            "<button>Add to basket</button></div>"
        )
    return page_of("What is on", f"<div class='grid'>{out}</div>", rng)


def definitions(items: list[Item], rng: Random) -> str:
    """A definition list: a term, then as many definitions as are known."""
    out = "".join(
        f"<dt>{escape(str(item['name']))}</dt>{say(item, 'date', '<dd>{}</dd>')}"
        f"{say(item, 'place', '<dd><i>{}</i></dd>')}"
        f"{say(item, 'price', '<dd>Tickets: {}</dd>')}"
        for item in items
    )
    return page_of("Calendar", f"<dl>{out}</dl>", rng)


def nested(items: list[Item], rng: Random) -> str:
    """Lists in lists: a list of months with a list of events each."""
    out, rest = "", list(items)
    while rest:
        some, rest = rest[: (n := rng.randint(1, 9))], rest[n:]
        inner = "".join(
            f"<li><strong>{escape(str(item['name']))}</strong> <em>{say(item, 'date')}</em>"
            f"{say(item, 'place', ' at <span>{}</span>')}{say(item, 'price', ' <tt>{}</tt>')}</li>"
            for item in some
        )
        out += f"<li><h2>{rng.choice(MONTHS)}</h2><ul>{inner}</ul></li>"
    return page_of("Programme", f"<ul class='months'>{out}</ul>", rng)


def two_a_row(items: list[Item], rng: Random) -> str:
    """A table for layout with two cards in every row."""
    cells = [
        f"<td valign='top'><font size='4'>{link(item)}</font><br>{say(item, 'date', '<i>{}</i>')}<br>"
        f"{say(item, 'place', '{}<br>')}{say(item, 'price', '<font color=red>{}</font>')}</td>"
        for item in items
    ]
    rows = "".join(f"<tr>{''.join(cells[k : k + 2])}</tr>" for k in range(0, len(cells), 2))
    return page_of("Tickets", f"<table width='100%'>{rows}</table>", rng)


def two_a_row_flat(items: list[Item], rng: Random) -> str:
    """A table whose rows have the cells of two records, one after the other."""
    rows = ""
    for k in range(0, len(items), 2):
        cells = "".join(
            f"<td>{escape(str(item['name']))}</td><td>{say(item, 'price', '{}', '&nbsp;')}</td>"
            f"<td>{say(item, 'date', '{}', '&nbsp;')}</td><td>{say(item, 'place', '{}', '&nbsp;')}</td>"
            for item in items[k : k + 2]
        )
        rows += f"<tr>{cells}</tr>"
    return page_of("Price list", f"<table>{rows}</table>", rng)


def with_ads(items: list[Item], rng: Random) -> str:
    """Boxes with advertisements between them that are boxes too."""
    out = ""
    for item in items:
        out += (
            f"<div class='box event'><div class='left'><p class='t'>{escape(str(item['name']))}</p>"
            f"{say(item, 'place', '<p>{}</p>')}</div>"
            f"<div class='right'>{say(item, 'price', '<p>{}</p>', '<p>ask us</p>')}"
            f"{say(item, 'date', '<p>{}</p>')}</div></div>"
        )
        if rng.random() < 0.25:
            out += (
                f"<div class='box ad'><div class='left'><p>{rng.choice(ADS)}</p></div>"
                "<div class='right'><p>Sponsored</p></div></div>"
            )
    return page_of("City guide", f"<div id='list'>{out}</div>", rng)


def line_breaks(items: list[Item], rng: Random) -> str:
    """One paragraph with a line for every record."""
    out = "".join(
        f"<b>{escape(str(item['name']))}</b>{say(item, 'price', ' - {}')}{say(item, 'date', ' - <i>{}</i>')}"
        f"{say(item, 'place', ' (<u>{}</u>)')}<br>\n"
        for item in items
    )
    return page_of("List", f"<p>{out}</p>", rng)


def two_rows(items: list[Item], rng: Random) -> str:
    """A table with two rows for a record, and a rule after it."""
    out = "".join(
        f"<tr><td colspan='3'><b>{escape(str(item['name']))}</b></td></tr><tr><td>{say(item, 'date')}</td>"
        f"<td>{say(item, 'place')}</td><td align='right'>{say(item, 'price')}</td></tr><tr><td colspan='3'><hr>"
        f"</td></tr>"
        for item in items
    )
    return page_of("Diary", f"<table>{out}</table>", rng)


def hashed_classes(items: list[Item], rng: Random) -> str:
    """Boxes in boxes, with class names that a build tool has made, other ones on every page."""
    a, b, c, d, e = (hashed(rng) for _ in range(5))
    out = "".join(
        f"<div class='{a}'><div class='{b}'><div class='{c}'><span><span>{escape(str(item['name']))}</span>"
        f"</span></div>"
        f"<div class='{d}'>{say(item, 'date', '<div><span>{}</span></div>')}"
        f"{say(item, 'place', '<div><span>{}</span></div>')}</div></div>"
        f"<div class='{e}'>{say(item, 'price', '<span>{}</span>')}</div></div>"
        for item in items
    )
    return page_of("App", f"<div class='{hashed(rng)}'><div class='{hashed(rng)}'>{out}</div></div>", rng)


def headings(items: list[Item], rng: Random) -> str:
    """No element for a record: a heading, and paragraphs up to the next."""
    out = "".join(
        f"<h3>{escape(str(item['name']))}</h3>{say(item, 'date', '<p>{}</p>')}{say(item, 'place', '<p>{}</p>')}"
        f"{say(item, 'price', '<p class=cost>Entry <b>{}</b> per person</p>')}<p><a href='/more'>read more</a></p>"
        for item in items
    )
    return page_of("Blog", f"<div class='content'><p>All that is coming up.</p>{out}</div>", rng)


def one_text(items: list[Item], rng: Random) -> str:
    """Items whose values stand in one text, with separators."""
    out = "".join(
        "<li>" + " | ".join(part for part in (
            escape(str(item["name"])), say(item, "date"), say(item, "place", "at {}"),
            say(item, "price", "{} incl. fees"),
        ) if part) + "</li>"
        for item in items
    )  # fmt: skip
    return page_of("Digest", f"<ol>{out}</ol>", rng)


TEMPLATES: dict[str, Callable[[list[Item], Random], str]] = {
    "table": table, "cards": cards, "definitions": definitions, "nested": nested, "two-a-row": two_a_row,
    "two-a-row-flat": two_a_row_flat, "ads": with_ads, "breaks": line_breaks, "two-rows": two_rows,
    "hashed": hashed_classes, "headings": headings, "one-text": one_text,
}  # fmt: skip


# ---- other templates ------------------------------------------------------------------------------------------------


def lists_inside(items: list[Item], rng: Random) -> str:
    """Articles with lists of tags and of speakers in them."""
    out = ""
    for item in items:
        tags = "".join(f"<li>{tag}</li>" for tag in rng.sample(TAGS, rng.randint(0, 4)))
        people = "".join(
            f"<li><a href='/u'>{rng.choice(FIRST)} {rng.choice(THIRD)}</a></li>" for _ in range(rng.randint(1, 3))
        )
        out += (
            f"<article><header><h2>{link(item)}</h2>{say(item, 'date', '<time>{}</time>')}</header>"
            f"<ul class='tags'>{tags}</ul>"
            f"<section>{say(item, 'place', '<address>{}</address>')}<ul>{people}</ul></section>"
            f"{say(item, 'price', '<footer>from {}</footer>')}</article>"
        )
    return page_of("Talks", f"<main>{out}</main>", rng)


def captioned(items: list[Item], rng: Random) -> str:
    """One definition list in which every value has its term, and nothing is between records."""
    out = "".join(
        f"<dt>Event</dt><dd>{escape(str(item['name']))}</dd>{say(item, 'date', '<dt>Date</dt><dd>{}</dd>')}"
        f"{say(item, 'place', '<dt>Venue</dt><dd>{}</dd>')}{say(item, 'price', '<dt>Price</dt><dd>{}</dd>')}"
        for item in items
    )
    return page_of("Register", f"<dl class='data'>{out}</dl>", rng)


def name_row_price_row(items: list[Item], rng: Random) -> str:
    """A grid of three columns: a row of names, below it a row of dates and places, below it a row of prices."""
    rows = ""
    for k in range(0, len(items), 3):
        some = items[k : k + 3]
        rows += "<tr>" + "".join(f"<td><b>{escape(str(item['name']))}</b></td>" for item in some) + "</tr>"
        rows += (
            "<tr>"
            + "".join(f"<td>{say(item, 'date', '{}<br>')}{say(item, 'place', '<i>{}</i>')}</td>" for item in some)
            + "</tr>"
        )
        rows += "<tr>" + "".join(f"<td>{say(item, 'price', '{}', '&nbsp;')}</td>" for item in some) + "</tr>"
    return page_of("Shop window", f"<table class='grid'>{rows}</table>", rng)


def columns(items: list[Item], rng: Random) -> str:
    """A comparison: records are the columns of a table."""
    rows = ""
    for field, head in (("name", "Event"), ("price", "Price"), ("date", "Date"), ("place", "Place")):
        rows += (
            f"<tr><th>{head}</th>" + "".join(f"<td>{say(item, field, '{}', '&nbsp;')}</td>" for item in items) + "</tr>"
        )
    return page_of("Compare", f"<table>{rows}</table>", rng)


def rules(items: list[Item], rng: Random) -> str:
    """Text with line breaks, and a rule between records."""
    out = "<hr>".join(
        f"{escape(str(item['name']))}<br>{say(item, 'date', '{}<br>')}{say(item, 'place', '{}<br>')}"
        f"{say(item, 'price', 'Price: {}')}"
        for item in items
    )
    return page_of("Plain", f"<div>{out}</div>", rng)


def with_sidebar(items: list[Item], rng: Random) -> str:
    """A list, beside it a short list of other things made in the same way."""

    def row(item: Item) -> str:
        return (
            f"<li><a href='/e'>{escape(str(item['name']))}</a><span>{say(item, 'price')}</span><small>"
            f"{say(item, 'date')}</small>"
            f"{say(item, 'place', '<small>{}</small>')}</li>"
        )

    others = [(f"{rng.choice(SECOND)} {rng.choice(THIRD)}", rng.randint(3, 99)) for _ in range(5)]
    aside = "".join(f"<li><a href='/x'>{name}</a><span>${price}.00</span></li>" for name, price in others)
    body = (
        f"<div class='wrap'><div class='side'><h4>Popular</h4><ul class='top'>{aside}</ul></div>"
        f"<div class='main'><ul class='results'>{''.join(map(row, items))}</ul></div></div>"
    )
    return page_of("Search", body, rng)


def price_first(items: list[Item], rng: Random) -> str:
    """Rows of flexible boxes with the price first, an old price, and names that have a part in bold."""
    out = ""
    for item in items:
        words = str(item["name"]).split(" ", 1)
        old = f"<del>${rng.randint(250, 400)}.00</del>" if rng.random() < 0.5 else ""
        out += (
            f"<div class='row'><div class='c1'>{say(item, 'price', '<ins>{}</ins>')}{old}</div><div class='c2'>"
            f"<a href='/e'><b>{escape(words[0])}</b> "
            f"{escape(words[1])}</a></div><div class='c3'>{say(item, 'place', '{}')}"
            f"{say(item, 'date', ' <span>on {}</span>')}</div></div>"
        )
    return page_of("Deals", f"<div class='rows'>{out}</div>", rng)


def bodies(items: list[Item], rng: Random) -> str:
    """A table with a body for every record."""
    out = "".join(
        f"<tbody><tr><th colspan='2'>{link(item)}</th></tr>{say(item, 'date', '<tr><td>When</td><td>{}</td></tr>')}"
        f"{say(item, 'place', '<tr><td>Where</td><td>{}</td></tr>')}"
        f"{say(item, 'price', '<tr><td>Price</td><td>{}</td></tr>')}</tbody>"
        for item in items
    )
    return page_of("Timetable", f"<table>{out}</table>", rng)


def links(items: list[Item], rng: Random) -> str:
    """Every record is a link, with boxes in it."""
    out = "".join(
        f"<a class='item' href='/e/{hash_of(item)}'><div>{escape(str(item['name']))}</div><div>"
        f"{say(item, 'date')} {say(item, 'place', '&middot; <span>{}</span>')}</div>"
        f"{say(item, 'price', '<div><span>$</span>{}</div>').replace('</span>$', '</span>')}</a>"
        for item in items
    )
    return page_of("Mobile", f"<div class='list'>{out}</div>", rng)


def rows_of_cards(items: list[Item], rng: Random) -> str:
    """Rows of three cards; the last row may be shorter, and an advertisement takes the place of a card."""
    cells, k = [], 0
    while k < len(items):
        if rng.random() < 0.1:
            cells.append(f"<div class='col-4'><div class='panel'><p>{rng.choice(ADS)}</p></div></div>")
            continue
        item = items[k]
        cells.append(
            f"<div class='col-4'><div class='panel'><h4>{escape(str(item['name']))}</h4><p>{say(item, 'date')}</p>"
            f"<ul><li>{say(item, 'place', 'Venue: {}', 'Venue to be told')}</li><li>"
            f"{say(item, 'price', 'Price: {}', 'Free')}</li></ul></div></div>"
        )
        k += 1
    rows = "".join(f"<div class='row'>{''.join(cells[k : k + 3])}</div>" for k in range(0, len(cells), 3))
    return page_of("Gallery", f"<div class='container'>{rows}</div>", rng)


def double_breaks(items: list[Item], rng: Random) -> str:
    """Lines, with an empty line between records."""
    out = "".join(
        f"<b>{escape(str(item['name']))}</b><br>{say(item, 'date')}{say(item, 'place', ', {}')}"
        f"{say(item, 'price', '<br>{}')}<br><br>"
        for item in items
    )
    return page_of("Notice board", f"<div class='text'>{out}</div>", rng)


def deep_list(items: list[Item], rng: Random) -> str:
    """A list with wrappers, white space, comments and hidden parts."""
    out = "".join(
        f"\n  <li id='r{k}'>\n   <!-- {k} --><div>\n <div>\n<p>\n  {escape(str(item['name']))}\n  </p><p hidden>"
        f"{k}</p></div></div>\n <div><p>\n{say(item, 'place', '{}', '-')}\n</p>"
        f"<p>\n {say(item, 'date', '{}', '-')} \n</p> <p> \n {say(item, 'price', '{}', '-')}\n</p></div>\n</li>"
        for k, item in enumerate(items)
    )
    return page_of("Archive", f"<div><div><ul>{out}\n</ul></div></div>", rng)


OTHER_TEMPLATES: dict[str, Callable[[list[Item], Random], str]] = {
    "lists-inside": lists_inside, "captioned": captioned, "name-row": name_row_price_row, "columns": columns,
    "rules": rules, "sidebar": with_sidebar, "price-first": price_first, "bodies": bodies, "links": links,
    "rows-of-cards": rows_of_cards, "double-breaks": double_breaks, "deep": deep_list,
}  # fmt: skip


# ---- staff directories ----------------------------------------------------------------------------------------------


def staff_table(items: list[Item], rng: Random) -> str:
    """A table with two values in one cell."""
    rows = ""
    for item in items:
        both = "<br>" if item["phone"] and item["mail"] else ""
        rows += (
            f"<tr><td><a href='#'>{say(item, 'name')}</a></td><td>{say(item, 'role')}</td>"
            f"<td>{say(item, 'phone', 'Tel. {}')}{both}{say(item, 'mail')}</td></tr>"
        )
    head = "<thead><tr><th>Name</th><th>Role</th><th>Contact</th></tr></thead>"
    return page_of("Staff", f"<table class='tbl'>{head}<tbody>{rows}</tbody></table>", rng)


def staff_cards(items: list[Item], rng: Random) -> str:
    """Cards with a definition list in each."""
    out = "".join(
        f"<div class='person p{k % 3}'><img src='a.png'><div><span>{say(item, 'name')}</span>"
        f"{say(item, 'role', '<span>{}</span>')}</div><dl>{say(item, 'phone', '<dt>Phone</dt><dd>{}</dd>')}"
        f"{say(item, 'mail', '<dt>Mail</dt><dd>{}</dd>')}</dl></div>"
        for k, item in enumerate(items)
    )
    return page_of("People", f"<div class='people'>{out}</div>", rng)


def staff_paragraphs(items: list[Item], rng: Random) -> str:
    """A paragraph for everyone, among other paragraphs."""
    out = "".join(
        f"<p><strong>{say(item, 'name')}</strong>{say(item, 'role', ', {}')}<br>{say(item, 'phone', '{}<br>')}"
        f"{say(item, 'mail', '<a href=x>{}</a>')}</p>"
        for item in items
    )
    return page_of("Team", f"<p>Call us.</p>{out}<p>Updated weekly</p>", rng)


def staff_groups(items: list[Item], rng: Random) -> str:
    """Articles in sections, with paragraphs that look alike."""
    out, rest = "", list(items)
    while rest:
        some, rest = rest[: (n := rng.randint(1, 6))], rest[n:]
        inner = "".join(
            f"<article><h4>{say(item, 'name')}</h4>{say(item, 'role', '<p>{}</p>')}{say(item, 'mail', '<p>{}</p>')}"
            f"{say(item, 'phone', '<p>{}</p>')}</article>"
            for item in some
        )
        out += f"<section><h3>Group {rng.choice(FAMILY)}</h3>{inner}</section>"
    return page_of("Groups", out, rng)


def staff_two_rows(items: list[Item], rng: Random) -> str:
    """Two rows for everyone."""
    out = "".join(
        f"<tr class='a'><td>{say(item, 'name')}</td><td>{say(item, 'role')}</td></tr>"
        f"<tr class='b'><td>{say(item, 'phone')}</td><td>{say(item, 'mail')}</td></tr>"
        for item in items
    )
    return page_of("Faculty", f"<table>{out}</table>", rng)


def staff_lines(items: list[Item], rng: Random) -> str:
    """Items with dashes and commas between."""
    out = "".join(
        f"<li>{say(item, 'name')} &ndash; {say(item, 'role', '<em>{}</em>, ')}{say(item, 'phone')} "
        f"<small>{say(item, 'mail')}</small></li>"
        for item in items
    )
    return page_of("Directory", f"<ol>{out}</ol>", rng)


def staff_flat(items: list[Item], rng: Random) -> str:
    """Four boxes for everyone, and nothing around them."""
    out = "".join("".join(f"<div>{say(item, field, '{}', 'n/a')}</div>" for field in item) for item in items)
    return page_of("Index", f"<div>{out}</div>", rng)


def staff_ads(items: list[Item], rng: Random) -> str:
    """A list with advertisements that have a phone number."""
    out = ""
    for item in items:
        if rng.random() < 0.2:
            out += f"<li class='z-ad'><a>Advert {rng.randint(1, 9)}</a><span>555-0000</span></li>"
        out += (
            f"<li class='z-item'><a>{say(item, 'name')}</a>{say(item, 'role', '<i>{}</i>')}"
            f"{say(item, 'phone', '<span>{}</span>')}{say(item, 'mail', '<span>{}</span>')}</li>"
        )
    return page_of("Contacts", f"<ul class='z-list'>{out}</ul>", rng)


STAFF_TEMPLATES: dict[str, Callable[[list[Item], Random], str]] = {
    "staff-table": staff_table, "staff-cards": staff_cards, "staff-paragraphs": staff_paragraphs,
    "staff-groups": staff_groups, "staff-two-rows": staff_two_rows, "staff-lines": staff_lines,
    "staff-flat": staff_flat, "staff-ads": staff_ads,
}  # fmt: skip
