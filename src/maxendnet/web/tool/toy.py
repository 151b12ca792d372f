"""Toy pages of small shops for ``maxendnet web demo``, examples and tests."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxendnet.web.fields.labels import PageLabels
from maxendnet.web.pages.page import Page

FIELDS = ("name", "price", "brand", "image")
THINGS = ("Cup", "Kettle", "Lamp", "Chair", "Teapot", "Blanket", "Clock", "Vase", "Basket", "Mirror", "Tray", "Stool")
ADJECTIVES = ("Red", "Blue", "Small", "Large", "Folding", "Oak", "Glass", "Woven", "Striped", "Plain", "Round", "Tall")
BRANDS = ("Nordhus", "Acme", "Bellini", "Ferro & Co", "Hana", "Lindqvist", "Okapi", "Tarn")
SENTENCES = (
    "Made by hand in small numbers.", "Easy to clean and hard to break.", "Looks well in any room.",
    "Comes with a bag of cotton.", "A gift that is used every day.", "Takes little space when put away.",
)  # fmt: skip
STYLE = (
    "body { max-width: 860px; margin: 0 auto; padding: 0 16px; font: 16px/1.6 sans-serif; color: #222 } "
    ".menu { display: flex; gap: 20px; list-style: none; padding: 12px 0; border-bottom: 1px solid #ccc } "
    "#foot { margin-top: 32px; border-top: 1px solid #ccc; font-size: 13px } "
    "th { text-align: left; padding-right: 16px }"
)
Item = dict[str, str]


class ToyPages(NamedTuple):
    """Generated pages.

    Attributes
    ----------
    pages : list of Page
    labels : list of PageLabels
        Labels of each page, by value.
    html : dict of str to str
        HTML of each page by its path.
    """

    pages: list[Page]
    labels: list[PageLabels]
    html: dict[str, str]

    def write(self, folder: str | Path) -> None:
        """Write the pages to a folder, with one subfolder for each site."""
        for name, text in self.html.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def toy_pages(n_sites: int = 3, n_pages: int = 8, random_state: int = 0, missing: float = 0.1) -> ToyPages:
    """Generate product pages with menus, other prices and missing fields.

    Parameters
    ----------
    n_sites : int
        Number of sites. There are five templates; further sites reuse them under other names.
    n_pages : int
        Number of pages per site.
    random_state : int
        Seed.
    missing : float
        Share of pages without a brand.

    Returns
    -------
    ToyPages

    Examples
    --------
    >>> toy = toy_pages(n_sites=2, n_pages=1)
    >>> [page.name for page in toy.pages], sorted(toy.labels[0].values)
    (['shop0.example/0.html', 'shop1.example/0.html'], ['brand', 'image', 'name', 'price'])
    """
    rng = np.random.default_rng(random_state)
    pages, labels, html = [], [], {}
    for s in range(n_sites):
        site = f"shop{s}.example"
        for i in range(n_pages):
            item, similar = toy_item(rng), [toy_item(rng) for _ in range(3)]
            if rng.random() < missing:
                item["brand"] = ""
            name = f"{site}/{i}.html"
            html[name] = TEMPLATES[s % len(TEMPLATES)].page(item, similar, site)
            pages.append(Page.from_html(html[name], name=name, site=site))
            labels.append(PageLabels(name, site, values={k: [item[k]] for k in FIELDS if item[k]}))
    return ToyPages(pages, labels, html)


def toy_item(rng: np.random.Generator) -> Item:
    """Return a random product."""
    adjective, thing = str(rng.choice(ADJECTIVES)), str(rng.choice(THINGS))
    number = int(rng.integers(100, 999))
    return {
        "name": f"{adjective} {thing} {number}",
        "price": f"${int(rng.integers(5, 400))}.{int(rng.integers(0, 100)):02d}",
        "brand": str(rng.choice(BRANDS)),
        "image": f"/pictures/{thing.lower()}-{number}.jpg",
        "text": " ".join(rng.choice(SENTENCES, size=2, replace=False)),
        "code": f"{thing[:2].upper()}-{number}",
    }


def framed(title: str, body: str, site: str) -> str:
    """Return a page with a menu and a footer around its body."""
    menu = "".join(
        f'<li><a href="/{word.lower()}">{word}</a></li>' for word in ("Home", "New", "Sale", "Help", "Basket")
    )
    return (
        f"<!doctype html><html><head><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style></head>"
        "<body>"
        f'<div id="top"><ul class="menu">{menu}</ul><p>Free delivery over $50</p></div>{body}'
        f'<div id="foot"><p>Copyright {site}</p><p><a href="/terms">Terms</a> <a href="/contact">Contact</a></p></div>'
        "</body></html>"
    )


class Template(NamedTuple):
    """Format strings of the pages of a shop.

    Attributes
    ----------
    title, body : str
        They may refer to the properties of the item, the site, two other items (``first`` and ``second``), all
        ``similar`` items, and the parts of the price.
    brand : str
        Inserted if the item has a brand.
    similar : str
        Format of each similar item.
    """

    title: str
    body: str
    brand: str
    similar: str = ""

    def page(self, item: Item, similar: list[Item], site: str) -> str:
        """Return the HTML page of an item."""
        whole, cents = item["price"][1:].split(".")
        escaped = {name: escape(value) for name, value in item.items()}
        escaped["brand"] = self.brand.format(**escaped) if item["brand"] else ""
        similar_html = "".join(self.similar.format(**x) for x in similar)
        body = self.body.format(
            **escaped, similar=similar_html, first=similar[0], second=similar[1], whole=whole, cents=cents
        )
        return framed(self.title.format(**item, site=site), body, site)


TEMPLATES = (
    Template(
        "{name} | {site}",
        '<div class="product"><h1>{name}</h1><img src="{image}" alt="{name}">{brand}<p class="price">{price}</p>'
        '<div class="about"><p>{text}</p></div></div><div class="similar"><h2>Similar</h2><ul>{similar}</ul></div>',
        '<p class="brand">Brand: <b>{brand}</b></p>',
        '<li><a href="#">{name}</a> <span>{price}</span></li>',
    ),
    Template(
        "{site}: {name}",
        '<h2 id="title">{name}</h2><table class="facts"><tr><td rowspan=5><img src="{image}"><tr><th>Price</th>'
        "<td>{price}</td></tr>{brand}<tr><th>Code</th><td>{code}</td></tr></table>"
        '<p class="text">{text}</p><p>Others bought {first[name]} for {first[price]}</p>',
        "<tr><th>Maker</th><td>{brand}</td></tr>",
    ),
    Template(
        "Buy {name} at {site}",
        '<div class="css-9x1k2z"><div class="gallery"><img src="{image}" width=400></div><div class="buy">'
        '<h1 class="css-1a2b3c">{name}</h1>{brand}<div class="cost"><span>$</span><b>{whole}</b><sup>.{cents}</sup>'
        "</div><p>{text}</p></div></div>{similar}",
        '<span class="by">by</span> <a class="maker" href="#">{brand}</a>',
        '<div class="card"><b>{name}</b><i>{price}</i></div>',
    ),
    Template(
        "{name} - {site}",
        '<div style="display:none">{first[price]}</div><h1>{name}</h1><img src="{image}"><dl><dt>Our price:</dt>'
        "<dd><strong>{price}</strong></dd>{brand}<dt>Item:</dt><dd>{code}</dd></dl><hr><p>{text}</p>",
        "<dt>Brand:</dt><dd>{brand}</dd>",
    ),
    Template(
        "{site} {name}",
        "<center><table width=600><tr><td><img src={image} border=0><td><font size=5><b>{name}</b></font><br>{brand}"
        "<b>Only</b> <font color=red>{price}</font><p>{text}<p>Order code {code}</table>"
        "<p>Last week: {second[name]}, {second[price]}",
        "<font color=grey>{brand}</font><br>",
    ),
)
