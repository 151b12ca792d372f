"""Templates of events. They were written before the search for items, and their errors were inspected first."""

from __future__ import annotations

from random import Random

from listing_pages.items import MONTHS, Item
from listing_pages.markup import ADS, Template, fill, framed, grouped, repeated


def card_texts(item: Item, rng: Random) -> dict[str, str]:
    badge = "<span class='badge'>New!</span>" if rng.random() < 0.3 else ""
    old = f"<s>${rng.randint(250, 400)}.00</s> " if item["price"] and rng.random() < 0.4 else ""
    return {"badge": badge, "old": old, "class": rng.choice((" sale", "", " featured"))}


def box_texts(item: Item, rng: Random) -> dict[str, str]:
    ad = "<div class='box ad'><div class='left'><p>{}</p></div><div class='right'><p>Sponsored</p></div></div>"
    return {"ad": ad.format(rng.choice(ADS)) if rng.random() < 0.25 else ""}


def hashed(rng: Random) -> str:
    """Return a class name like those that build tools generate."""
    letters = "".join(rng.choice("abcdefghijkmnpqrstuvwxyz0123456789") for _ in range(4))
    return f"css-{letters}{rng.choice('0123456789')}{rng.choice('abcdef')}"


def hashed_classes(items: list[Item], rng: Random) -> str:
    """Return a page of nested boxes with class names that differ from page to page."""
    a, b, c, d, e = (hashed(rng) for _ in range(5))
    markup = (
        f"<div class='{a}'><div class='{b}'><div class='{c}'><span><span>[name]</span></span></div>"
        f"<div class='{d}'>[date:<div><span>%</span></div>][place:<div><span>%</span></div>]</div></div>"
        f"<div class='{e}'>[price:<span>%</span>]</div></div>"
    )
    frame = f"<div class='{hashed(rng)}'><div class='{hashed(rng)}'>*</div></div>"
    return repeated("App", frame, markup)(items, rng)


def single_text(items: list[Item], rng: Random) -> str:
    """Return a page of items whose values are in one text, with separators."""
    parts = ("[name]", "[date]", "[place:at %]", "[price:% incl. fees]")
    texts = [" | ".join(filter(None, (fill(part, item) for part in parts))) for item in items]
    return framed("Digest", "<ol>*</ol>", "".join(f"<li>{text}</li>" for text in texts), rng)


EVENT_TEMPLATES: dict[str, Template] = {
    # a head, odd and even rows, and a sum at the foot
    "table": repeated(
        "Events",
        "<table border='1'><tr><th>No.</th><th>Event</th><th>When</th><th>Where</th><th>Price</th></tr>*"
        "<tr class='sum'><td colspan='4'>All events</td><td>[n]</td></tr></table>",
        "<tr class='[parity]'><td>[number]</td><td>[link]</td><td>[date]</td><td>[place]</td>"
        "<td>[price:<b>%</b>|&ndash;]</td></tr>\n",
    ),
    # a grid, with badges and old prices
    "cards": repeated(
        "What is on",
        "<div class='grid'>*</div>",
        "<div class='card[class]'>[badge]<a href='/p'><img src='/i/[code].jpg' alt=''></a><h3>[link]</h3>"
        "<div class='info'>[date:<span class=when>%</span>][place:<span class=where>%</span>]</div>"
        "[price:<div class=price>[old]<b>%</b></div>]<button>Add to basket</button></div>",
        texts=card_texts,
    ),
    "definitions": repeated(
        "Calendar",
        "<dl>*</dl>",
        "<dt>[name]</dt>[date:<dd>%</dd>][place:<dd><i>%</i></dd>][price:<dd>Tickets: %</dd>]",
    ),
    "nested": grouped(
        "Programme",
        "<ul class='months'>*</ul>",
        "<li><h2>[heading]</h2><ul>*</ul></li>",
        "<li><strong>[name]</strong> <em>[date]</em>[place: at <span>%</span>][price: <tt>%</tt>]</li>",
        9,
        MONTHS,
    ),
    # a table for layout, with two cards in every row
    "two-a-row": repeated(
        "Tickets",
        "<table width='100%'>*</table>",
        "<td valign='top'><font size='4'>[link]</font><br>[date:<i>%</i>]<br>[place:%<br>]"
        "[price:<font color=red>%</font>]</td>",
        row="<tr>*</tr>",
        per_row=2,
    ),
    # rows with the cells of two records
    "two-a-row-flat": repeated(
        "Price list",
        "<table>*</table>",
        "<td>[name]</td><td>[price|&nbsp;]</td><td>[date|&nbsp;]</td><td>[place|&nbsp;]</td>",
        row="<tr>*</tr>",
        per_row=2,
    ),
    # boxes, with advertisements in such boxes
    "ads": repeated(
        "City guide",
        "<div id='list'>*</div>",
        "<div class='box event'><div class='left'><p class='t'>[name]</p>[place:<p>%</p>]</div>"
        "<div class='right'>[price:<p>%</p>|<p>ask us</p>][date:<p>%</p>]</div></div>[ad]",
        texts=box_texts,
    ),
    # a paragraph with a line for every record
    "breaks": repeated("List", "<p>*</p>", "<b>[name]</b>[price: - %][date: - <i>%</i>][place: (<u>%</u>)]<br>\n"),
    # two rows for a record, and a rule
    "two-rows": repeated(
        "Diary",
        "<table>*</table>",
        "<tr><td colspan='3'><b>[name]</b></td></tr><tr><td>[date]</td><td>[place]</td><td align='right'>[price]</td>"
        "</tr><tr><td colspan='3'><hr></td></tr>",
    ),
    "hashed": hashed_classes,
    # no element for a record: a heading, and paragraphs up to the next
    "headings": repeated(
        "Blog",
        "<div class='content'><p>All that is coming up.</p>*</div>",
        "<h3>[name]</h3>[date:<p>%</p>][place:<p>%</p>][price:<p class=cost>Entry <b>%</b> per person</p>]"
        "<p><a href='/more'>read more</a></p>",
    ),
    "one-text": single_text,
}
