"""Templates of shops: values in attributes, shortened names, prices in pieces, old prices, unit prices and adverts."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from random import Random

from listing_pages.items import Item
from listing_pages.markup import Template, framed

SHORT_CHARS = 16
ADVERTS = (
    ("Free shipping club", "from $4.99 a month"),
    ("Gift cards", "$25.00"),
    ("Store credit", "Save $15.00 today"),
)

Markup = Callable[[Item, Random], str]


def shop(title: str, frame: str, markup: Markup, advert: str = "") -> Template:
    """Return a template; an advert with ``[head]`` and ``[text]`` follows some of the items."""

    def template(items: list[Item], rng: Random) -> str:
        records = ""
        for item in items:
            records += markup(item, rng)
            if advert and rng.random() < 0.2:
                head, text = rng.choice(ADVERTS)
                records += advert.replace("[head]", head).replace("[text]", text)
        return framed(title, frame, records, rng)

    return template


def given(value: str | None, markup: str) -> str:
    """Return markup with ``%`` replaced by a value, or nothing if there is no value."""
    return "" if value is None else markup.replace("%", escape(value, quote=True))


def split(price: str | None, markup: str) -> str:
    """Return markup with ``[u]`` and ``[c]`` replaced by the units and cents of a price."""
    if price is None:
        return ""
    units, _, cents = price.strip("$").partition(".")
    return markup.replace("[u]", units).replace("[c]", cents).replace("%", price)


def short(item: Item, ending: str = "\u2026") -> str:
    """Return the name of an item, shortened if it is long."""
    name = str(item["name"])
    return escape(name if len(name) <= SHORT_CHARS else name[:SHORT_CHARS].rstrip() + ending)


def full(item: Item) -> str:
    return escape(str(item["name"]), quote=True)


def old(item: Item, rng: Random, markup: str) -> str:
    """Return markup with an old price in 40 % of the items that have a price."""
    if item["price"] is None or rng.random() > 0.4:
        return ""
    return markup.replace("%", f"${rng.randint(250, 400)}.{rng.randint(10, 99)}")


def unit(item: Item, rng: Random, markup: str) -> str:
    """Return markup with a unit price."""
    return "" if item["price"] is None else markup.replace("%", f"${rng.randint(1, 9)}.{rng.randint(10, 99)} / 100 g")


STARS = "<i class='stars' aria-label='% out of 5 stars'></i>"
CENTS = "<span class=sign>$</span>\n<span class=units>[u]</span>\n<span class=cents>[c]</span>"
DRAWN = """<div class="cost" aria-label="%"><svg></svg></div>"""
SENTENCE = """<span class="amount" aria-label="Now only %"><span>[u]</span><span>[c]</span></span>"""


def titled(item: Item, rng: Random) -> str:
    return (
        f"<div class='tile'><a href='/p' title='{full(item)}'>{short(item)}</a>{given(item['maker'], '<i>by %</i>')}"
        f"{given(item['price'], '<b>%</b>')}{given(item['rating'], STARS)}</div>"
    )


def cut(item: Item, rng: Random) -> str:
    return (
        f"<li><div data-full='{full(item)}'><img src='/1.jpg' alt=''><span>{full(item)[:SHORT_CHARS]}</span></div>"
        f"<p>{given(item['maker'], '<i>%</i>')} {given(item['price'], '<b>%</b>')}"
        f"{given(item['rating'], ' <u>% / 5</u>')}</p></li>"
    )


def drawn(item: Item, rng: Random) -> str:
    return (
        f"<article><h3>{full(item)}</h3>{given(item['maker'], '<p>%</p>')}{given(item['price'], DRAWN)}"
        f"{given(item['rating'], STARS)}<button aria-label='Add to cart'>+</button></article>"
    )


def sentence(item: Item, rng: Random) -> str:
    return (
        f"<div class='card'><h2><a href='/p'>{full(item)}</a></h2>{given(item['maker'], '<small>%</small>')}"
        f"{split(item['price'], SENTENCE)}{given(item['rating'], STARS)}</div>"
    )


def raised(item: Item, rng: Random) -> str:
    price = "<div class=p><span>$</span><span>[u]</span><sup>[c]</sup></div>"
    return (
        f"<div class='item'><div class='n'>{full(item)}</div>{given(item['maker'], '<div class=m>%</div>')}"
        f"{split(item['price'], price)}{given(item['rating'], '<div class=r>%</div>')}</div>"
    )


def in_pieces(item: Item, rng: Random) -> str:
    was = old(item, rng, "<div class=was><del>%</del></div>")
    return (
        f"<li>\n<h4>{full(item)}</h4>\n{given(item['maker'], '<span class=brand>%</span>')}\n{was}<div class='now'>\n"
        f"{split(item['price'], CENTS)}\n</div>{given(item['rating'], '<em>%</em>')}</li>"
    )


def data_only(item: Item, rng: Random) -> str:
    values = "".join(given(item[name], f" data-{name}='%'") for name in ("name", "price", "maker", "rating"))
    return f"<li class='product'{values}><img src='/i.jpg'><button>Buy</button></li>"


def pictured(item: Item, rng: Random) -> str:
    return (
        f"<a class='shot' href='/v'><img src='/v.jpg' alt='Photo of {full(item)}'><span class='tag'>"
        f"{given(item['price'], '%')}</span>{given(item['maker'], '<span class=maker>%</span>')}"
        f"{given(item['rating'], '<span class=rate title=%>rated</span>')}</a>"
    )


def three_prices(item: Item, rng: Random) -> str:
    was, per = old(item, rng, "<span class=list-price>%</span> "), unit(item, rng, "<span>%</span>")
    return (
        f"<div class='product'><h3>{full(item)}</h3>{given(item['maker'], '<div>%</div>')}<div class='prices'>"
        f"{was}{given(item['price'], '<span>%</span>')} {per}</div>{given(item['rating'], '<div>% stars</div>')}</div>"
    )


def with_unit(item: Item, rng: Random) -> str:
    return (
        f"<div class='cell'><h3>{full(item)}</h3>{given(item['maker'], '<p class=mk>%</p>')}"
        f"{given(item['price'], '<p class=pr>%</p>')}{unit(item, rng, '<p class=per>%</p>')}"
        f"{given(item['rating'], '<p class=ra>%</p>')}</div>"
    )


def row(item: Item, rng: Random) -> str:
    return (
        f"<tr><td><a href='/t' title='{full(item)}'>{short(item, '...')}</a></td><td>{given(item['maker'], '%')}</td>"
        f"<td>{split(item['price'], '<b>$[u]</b><sup>[c]</sup>')}</td><td>{given(item['rating'], '%')}</td></tr>"
    )


def with_content(item: Item, rng: Random) -> str:
    price = "<div><span content='%'><b>[u]</b><small>[c]</small></span></div>"
    return (
        f"<div itemscope><a itemprop='name' href='/p'>{full(item)}</a>{given(item['maker'], ' by <span>%</span>')}"
        f"{split(item['price'], price)}{given(item['rating'], STARS)}</div>"
    )


SHOP_TEMPLATES: dict[str, Template] = {
    # the full name in title over a shortened text
    "shop-title": shop("Cups", "<div class='grid'>*</div>", titled),
    # cut without an ellipsis, the full name around a picture
    "shop-cut": shop("Pots", "<ul class='l'>*</ul>", cut),
    # a price that is drawn, with an attribute for readers; and the same as part of a sentence
    "shop-aria": shop("Pans", "<section>*</section>", drawn),
    "shop-sentence": shop("Jars", "<div>*</div>", sentence),
    # raised cents, and the same on several lines after an old price
    "shop-raised": shop("Mugs", "<div id='list'>*</div>", raised),
    "shop-pieces": shop("Bowls", "<ol class='results'>*</ol>", in_pieces),
    # nothing but attributes
    "shop-data": shop("Lamps", "<ul id='app'>*</ul>", data_only),
    "shop-alt": shop("Vases", "<div class='wall'>*</div>", pictured),
    # old price, price and unit price next to each other
    "shop-unit": shop("Tea", "<div class='products'>*</div>", three_prices),
    # adverts between items of the same markup
    "shop-ads": shop(
        "Chairs",
        "<div class='feed'>*</div>",
        with_unit,
        "<div class='cell promo'><h3>[head]</h3><p>[text]</p><p>Sponsored</p></div>",
    ),
    "shop-table": shop(
        "Tools", "<table><tr><th>Tool</th><th>Maker</th><th>Price</th><th>Rated</th></tr>*</table>", row
    ),
    # machine-readable content beside the displayed pieces
    "shop-content": shop("Plants", "<div>*</div>", with_content),
}
