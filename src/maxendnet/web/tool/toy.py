"""Toy pages of a small shop, made by a seeded generator: for tests, the tutorial and ``maxendnet web demo``."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxendnet.web.fields.labels import PageLabels
from maxendnet.web.pages.page import Page

FIELDS = ("name", "price", "brand", "image")
THINGS = ("Cup", "Kettle", "Lamp", "Chair", "Teapot", "Blanket", "Clock", "Vase", "Basket", "Mirror", "Tray", "Stool")
LOOKS = ("Red", "Blue", "Small", "Large", "Folding", "Oak", "Glass", "Woven", "Striped", "Plain", "Round", "Tall")
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
    """Pages, their labels by value, and their HTML."""

    pages: list[Page]
    labels: list[PageLabels]
    html: dict[str, str]  # path to text

    def write(self, folder: str | Path) -> None:
        """Write the pages, a folder for each site."""
        for name, text in self.html.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def toy_pages(n_sites: int = 3, n_pages: int = 8, random_state: int = 0, missing: float = 0.1) -> ToyPages:
    """Pages of products in several templates, with menus, prices of other things, and some fields missing.

    Parameters
    ----------
    n_sites : int
        Templates; five differ, and then they repeat with other names.
    n_pages : int
        Of each site.
    random_state : int
    missing : float
        Share of pages without a brand.

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
            item, others = toy_item(rng), [toy_item(rng) for _ in range(3)]
            if rng.random() < missing:
                item["brand"] = ""
            name = f"{site}/{i}.html"
            title, body = TEMPLATES[s % len(TEMPLATES)](item, others, site)
            html[name] = _frame(title, body, site)
            pages.append(Page.from_html(html[name], name=name, site=site))
            labels.append(PageLabels(name, site, values={k: [item[k]] for k in FIELDS if item[k]}))
    return ToyPages(pages, labels, html)


def toy_item(rng: np.random.Generator) -> Item:
    """One thing to sell."""
    look, thing = str(rng.choice(LOOKS)), str(rng.choice(THINGS))
    number = int(rng.integers(100, 999))
    return {
        "name": f"{look} {thing} {number}",
        "price": f"${int(rng.integers(5, 400))}.{int(rng.integers(0, 100)):02d}",
        "brand": str(rng.choice(BRANDS)),
        "image": f"/pictures/{thing.lower()}-{number}.jpg",
        "text": " ".join(rng.choice(SENTENCES, size=2, replace=False)),
        "code": f"{thing[:2].upper()}-{number}",
    }


def toy_list(n: int, random_state: int = 0, site: str = "list.example") -> tuple[str, list[Item]]:
    """A page with n things in a row, and the things."""
    rng = np.random.default_rng(random_state)
    items = [toy_item(rng) for _ in range(n)]
    rows = "".join(
        f'<li class="item"><img src="{x["image"]}" alt=""><h3 class="name">{escape(x["name"])}</h3>'
        f'<p class="brand">by <a href="#">{escape(x["brand"])}</a></p><span class="price">{x["price"]}</span></li>'
        for x in items
    )
    return _frame(f"All things | {site}", f'<h1>All things</h1><ul class="items">{rows}</ul>', site), items


def _frame(title: str, body: str, site: str) -> str:
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


def _plain(x: Item, others: list[Item], site: str) -> tuple[str, str]:
    brand = f'<p class="brand">Brand: <b>{escape(x["brand"])}</b></p>' if x["brand"] else ""
    similar = "".join(f'<li><a href="#">{escape(o["name"])}</a> <span>{o["price"]}</span></li>' for o in others)
    body = (
        f'<div class="product"><h1>{escape(x["name"])}</h1><img src="{x["image"]}" alt="{escape(x["name"])}">'
        f'{brand}<p class="price">{x["price"]}</p><div class="about"><p>{x["text"]}</p></div></div>'
        f'<div class="similar"><h2>Similar</h2><ul>{similar}</ul></div>'
    )
    return f"{x['name']} | {site}", body


def _table(x: Item, others: list[Item], site: str) -> tuple[str, str]:
    brand = f"<tr><th>Maker</th><td>{escape(x['brand'])}</td></tr>" if x["brand"] else ""
    body = (
        f'<h2 id="title">{escape(x["name"])}</h2><table class="facts"><tr><td rowspan=5><img src="{x["image"]}">'
        f"<tr><th>Price</th><td>{x['price']}</td></tr>{brand}<tr><th>Code</th><td>{x['code']}</td></tr></table>"
        f'<p class="text">{x["text"]}</p><p>Others bought {escape(others[0]["name"])} for {others[0]["price"]}</p>'
    )
    return f"{site}: {x['name']}", body


def _split(x: Item, others: list[Item], site: str) -> tuple[str, str]:
    whole, cents = x["price"][1:].split(".")
    brand = f'<span class="by">by</span> <a class="maker" href="#">{escape(x["brand"])}</a>' if x["brand"] else ""
    body = (
        f'<div class="css-9x1k2z"><div class="gallery"><img src="{x["image"]}" width=400></div><div class="buy">'
        f'<h1 class="css-1a2b3c">{escape(x["name"])}</h1>{brand}'
        f'<div class="cost"><span>$</span><b>{whole}</b><sup>.{cents}</sup></div>'
        f"<p>{x['text']}</p></div></div>"
        + "".join(f'<div class="card"><b>{escape(o["name"])}</b><i>{o["price"]}</i></div>' for o in others)
    )
    return f"Buy {x['name']} at {site}", body


def _definitions(x: Item, others: list[Item], site: str) -> tuple[str, str]:
    brand = f"<dt>Brand:</dt><dd>{escape(x['brand'])}</dd>" if x["brand"] else ""
    body = (
        f'<div style="display:none">{others[0]["price"]}</div><h1>{escape(x["name"])}</h1><img src="{x["image"]}">'
        f"<dl><dt>Our price:</dt><dd><strong>{x['price']}</strong></dd>{brand}<dt>Item:</dt><dd>{x['code']}</dd></dl>"
        f"<hr><p>{x['text']}</p>"
    )
    return f"{x['name']} - {site}", body


def _unclosed(x: Item, others: list[Item], site: str) -> tuple[str, str]:
    brand = f"<font color=grey>{escape(x['brand'])}</font><br>" if x["brand"] else ""
    body = (
        f"<center><table width=600><tr><td><img src={x['image']} border=0>"
        f"<td><font size=5><b>{escape(x['name'])}</b></font><br>{brand}<b>Only</b> "
        f"<font color=red>{x['price']}</font><p>{x['text']}<p>Order code {x['code']}</table>"
        f"<p>Last week: {escape(others[1]['name'])}, {others[1]['price']}"
    )
    return f"{site} {x['name']}", body


Template = Callable[[Item, list[Item], str], tuple[str, str]]
TEMPLATES: tuple[Template, ...] = (_plain, _table, _split, _definitions, _unclosed)
"""Each makes the title of a page and what stands between its menu and its foot."""
