"""Listing of toy products."""

from __future__ import annotations

from html import escape

import numpy as np

from maxendnet.web.tool.toy import Item, framed, toy_item


def toy_list(n: int, random_state: int = 0, site: str = "list.example") -> tuple[str, list[Item]]:
    """Return a page with n products, and the products."""
    rng = np.random.default_rng(random_state)
    items = [toy_item(rng) for _ in range(n)]
    rows = "".join(
        f'<li class="item"><img src="{x["image"]}" alt=""><h3 class="name">{escape(x["name"])}</h3>'
        f'<p class="brand">by <a href="#">{escape(x["brand"])}</a></p><span class="price">{x["price"]}</span></li>'
        for x in items
    )
    return framed(f"All things | {site}", f'<h1>All things</h1><ul class="items">{rows}</ul>', site), items
