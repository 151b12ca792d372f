"""Further templates of events, whose errors were inspected later."""

from __future__ import annotations

from html import escape
from random import Random

from listing_pages.items import FIRST, SECOND, THIRD, Item
from listing_pages.markup import ADS, Template, fill, framed, in_rows, repeated

TAGS = ("music", "family", "outdoors", "free entry", "late", "food", "for kids", "sold out soon")


def article_texts(item: Item, rng: Random) -> dict[str, str]:
    tags = "".join(f"<li>{tag}</li>" for tag in rng.sample(TAGS, rng.randint(0, 4)))
    speakers = "".join(
        f"<li><a href='/u'>{rng.choice(FIRST)} {rng.choice(THIRD)}</a></li>" for _ in range(rng.randint(1, 3))
    )
    return {"tags": tags, "speakers": speakers}


def deal_texts(item: Item, rng: Random) -> dict[str, str]:
    first, rest = escape(str(item["name"])).split(" ", 1)
    old = f"<del>${rng.randint(250, 400)}.00</del>" if rng.random() < 0.5 else ""
    return {"first": first, "rest": rest, "old": old}


def rows_by_field(items: list[Item], rng: Random) -> str:
    """Return a grid of three columns: a row of names, then a row of dates and places, then a row of prices."""
    cells = ("<td><b>[name]</b></td>", "<td>[date:%<br>][place:<i>%</i>]</td>", "<td>[price|&nbsp;]</td>")
    rows = [
        "<tr>" + "".join(fill(cell, item) for item in items[k : k + 3]) + "</tr>"
        for k in range(0, len(items), 3)
        for cell in cells
    ]
    return framed("Shop window", "<table class='grid'>*</table>", "".join(rows), rng)


def columns(items: list[Item], rng: Random) -> str:
    """Return a comparison table in which each column is a record."""
    rows = "".join(
        f"<tr><th>{field.replace('name', 'event').title()}</th>"
        + "".join(fill(f"<td>[{field}|&nbsp;]</td>", item) for item in items)
        + "</tr>"
        for field in ("name", "price", "date", "place")
    )
    return framed("Compare", "<table>*</table>", rows, rng)


def with_sidebar(items: list[Item], rng: Random) -> str:
    """Return a list with a sidebar that contains a short list of similar items."""
    popular = [(f"{rng.choice(SECOND)} {rng.choice(THIRD)}", rng.randint(3, 99)) for _ in range(5)]
    aside = "".join(f"<li><a href='/x'>{name}</a><span>${price}.00</span></li>" for name, price in popular)
    frame = (
        f"<div class='wrap'><div class='side'><h4>Popular</h4><ul class='top'>{aside}</ul></div>"
        "<div class='main'><ul class='results'>*</ul></div></div>"
    )
    markup = "<li><a href='/e'>[name]</a><span>[price]</span><small>[date]</small>[place:<small>%</small>]</li>"
    return repeated("Search", frame, markup)(items, rng)


def links(items: list[Item], rng: Random) -> str:
    """Return a page on which every record is a link with nested boxes, and the currency is a separate element."""
    markup = (
        "<a class='item' href='/e/[code]'><div>[name]</div><div>[date] [place:&middot; <span>%</span>]</div>"
        "[price:<div><span>$</span>%</div>]</a>"
    )
    return repeated("Mobile", "<div class='list'>*</div>", markup)(items, rng).replace("</span>$", "</span>")


def rows_of_cards(items: list[Item], rng: Random) -> str:
    """Return rows of three cards; the last row may be shorter, and an advertisement replaces a card."""
    markup = (
        "<h4>[name]</h4><p>[date]</p><ul><li>[place:Venue: %|Venue to be told]</li><li>[price:Price: %|Free]</li></ul>"
    )
    cells = []
    for item in items:
        while rng.random() < 0.1:
            cells.append(f"<p>{rng.choice(ADS)}</p>")
        cells.append(fill(markup, item))
    cards = [f"<div class='col-4'><div class='panel'>{cell}</div></div>" for cell in cells]
    rows = in_rows(cards, "<div class='row'>*</div>", 3)
    return framed("Gallery", "<div class='container'>*</div>", rows, rng)


MORE_EVENT_TEMPLATES: dict[str, Template] = {
    "lists-inside": repeated(
        "Talks",
        "<main>*</main>",
        "<article><header><h2>[link]</h2>[date:<time>%</time>]</header><ul class='tags'>[tags]</ul>"
        "<section>[place:<address>%</address>]<ul>[speakers]</ul></section>"
        "[price:<footer>from %</footer>]</article>",
        texts=article_texts,
    ),
    # a definition list in which every value has its term, and nothing is between records
    "captioned": repeated(
        "Register",
        "<dl class='data'>*</dl>",
        "<dt>Event</dt><dd>[name]</dd>[date:<dt>Date</dt><dd>%</dd>][place:<dt>Venue</dt><dd>%</dd>]"
        "[price:<dt>Price</dt><dd>%</dd>]",
    ),
    "name-row": rows_by_field,
    "columns": columns,
    # text with line breaks, and a rule between records
    "rules": repeated("Plain", "<div>*</div>", "[name]<br>[date:%<br>][place:%<br>][price:Price: %]", separator="<hr>"),
    "sidebar": with_sidebar,
    # rows of boxes with the price first, an old price, and a part of the name in bold
    "price-first": repeated(
        "Deals",
        "<div class='rows'>*</div>",
        "<div class='row'><div class='c1'>[price:<ins>%</ins>][old]</div><div class='c2'><a href='/e'><b>[first]</b> "
        "[rest]</a></div><div class='c3'>[place][date: <span>on %</span>]</div></div>",
        texts=deal_texts,
    ),
    # a body of the table for every record
    "bodies": repeated(
        "Timetable",
        "<table>*</table>",
        "<tbody><tr><th colspan='2'>[link]</th></tr>[date:<tr><td>When</td><td>%</td></tr>]"
        "[place:<tr><td>Where</td><td>%</td></tr>][price:<tr><td>Price</td><td>%</td></tr>]</tbody>",
    ),
    "links": links,
    "rows-of-cards": rows_of_cards,
    # lines, with an empty line between records
    "double-breaks": repeated(
        "Notice board",
        "<div class='text'>*</div>",
        "<b>[name]</b><br>[date][place:, %][price:<br>%]<br><br>",
    ),
    # wrappers, white space, comments and hidden parts
    "deep": repeated(
        "Archive",
        "<div><div><ul>*\n</ul></div></div>",
        "\n  <li id='r[k]'>\n   <!-- [k] --><div>\n <div>\n<p>\n  [name]\n  </p><p hidden>[k]</p></div></div>\n "
        "<div><p>\n[place|-]\n</p><p>\n [date|-] \n</p> <p> \n [price|-]\n</p></div>\n</li>",
    ),
}
