"""Pages of SWDE with values embedded in longer texts: captions, units, separators, inline elements.

In SWDE a value is the whole text of a node, unlike on many other pages. A variant changes the texts around the values
by a rule that depends on site, field and a fixed seed, as another template of the site would. The values themselves do
not change. Used by the tests of boundaries and by ``benchmarks/web_values.py``.
"""

from __future__ import annotations

import json
from enum import Enum
from html import escape, unescape
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from maxendnet.experiments.engine.web_data import read_rows
from maxendnet.web.fields.spans import normalise_text
from maxendnet.web.pages.page import Page

CAPTIONS = (
    "{field}: ",
    "{field} - ",
    "Our {field}: ",
    "by ",
    "{field} = ",
    "The {field} is ",
    "Item no. {n}: ",
    "[{field}] ",
)
UNITS = (
    " incl. VAT",
    " ({n} reviews)",
    " each",
    " *",
    " USD",
    " / {n} items",
    ", see details",
    " (official)",
    ".",
    " | {n}",
)
SEPARATORS = (" | ", " / ", ", ", " - ", " · ", "; ")
WORDS = (
    "Home", "Best of the year", "New", "In stock", "Free delivery", "Special offer", "Third edition", "Limited",
    "Ships today", "Paperback", "Top rated", "Only here", "Staff pick",
)  # fmt: skip
TAGS = ("b", "span", "em", "strong", "font")


class Variant(Enum):
    """Position of values within their texts."""

    CAPTION = "captions before"
    UNIT = "units after"
    BOTH = "captions and units"
    SEPARATED = "between separators"
    PIECES = "in inline pieces, with a caption"


def swde_rows(data: Path, vertical: str, n_sites: int | None = None) -> list[dict[str, Any]]:
    """Read the pages of a vertical as HTML with a title, with unescaped values."""
    rows = read_rows(Path(data) / "swde" / f"{vertical}.jsonl.gz", vertical)
    if n_sites is not None:
        first_sites = sorted({row["site"] for row in rows})[:n_sites]
        rows = [row for row in rows if row["site"] in first_sites]
    for row in rows:
        row["values"] = {name: [unescape(v) for v in values if v.strip()] for name, values in row["values"].items()}
        row["body"] = row["html"]
        row["html"] = f"<html><head><title>{escape(row.get('title', ''))}</title></head>{row['body']}</html>"
    return rows


def variant_of(row: dict[str, Any], kind: Variant) -> dict[str, Any]:
    """Return a page with its values embedded in longer texts.

    Examples
    --------
    >>> body = "<body><h1>Red Cup</h1><p>$5</p></body>"
    >>> row = {"site": "x", "page": "1", "body": body, "values": {"price": ["$5"]}, "labels": [[4, "price"]]}
    >>> variant_of(row, Variant.CAPTION)["html"]
    '<html><head><title></title></head><body><h1>Red Cup</h1><p>by $5</p></body></html>'
    """
    page = Page.from_canonical(row["body"])
    fields: dict[int, list[str]] = {}
    for node, name in row["labels"]:
        fields.setdefault(node, []).append(name)
    page_rng = np.random.default_rng(crc32(f"{row['site']} {row['page']}".encode()))
    texts: dict[int, str] = {}
    for node, names in sorted(fields.items()):
        if page.tags[node] == "#text" and len(names) == 1:
            texts[node] = _changed(page.texts[node].strip(), names[0], row["site"], kind, page_rng)
    body = _with_texts(page, texts)
    title = escape(row.get("title", ""))
    return {**row, "html": f"<html><head><title>{title}</title></head>{body}</html>"}


def _changed(value: str, field: str, site: str, kind: Variant, page_rng: np.random.Generator) -> str:
    """Return the HTML of a node. Site and field determine the template, the page its words and numbers."""
    template = np.random.default_rng(crc32(json.dumps([site, field, kind.name]).encode()))
    caption = CAPTIONS[template.integers(len(CAPTIONS))]
    caption = caption.format(field=field.replace("_", " "), n=page_rng.integers(10, 9999))
    unit = UNITS[template.integers(len(UNITS))].format(n=page_rng.integers(2, 999))
    separator = SEPARATORS[template.integers(len(SEPARATORS))]
    before, after = template.integers(0, 3, size=2)
    tag = TAGS[template.integers(len(TAGS))]
    text = escape(value)
    if kind is Variant.CAPTION:
        return caption + text
    if kind is Variant.UNIT:
        return text + unit
    if kind is Variant.BOTH:
        return caption + text + unit
    if kind is Variant.SEPARATED:
        words = page_rng.choice(WORDS, size=before + max(1, after), replace=False).tolist()
        return separator.join([*words[:before], text, *words[before:]])
    cut = len(value) // 2
    head, tail = escape(value[:cut]), escape(value[cut:])
    return f"{caption}<{tag}>{head}</{tag}>{tail} <i>{WORDS[page_rng.integers(len(WORDS))]}</i>"


def _with_texts(page: Page, texts: dict[int, str]) -> str:
    """Return the page as HTML, with the given texts replaced by HTML."""
    marks = {t: f"\ue000{t}\ue001" for t in texts}
    changed = Page(
        page.tags, page.parents, [marks.get(t, text) for t, text in enumerate(page.texts)], page.attributes
    ).canonical()  # fmt: skip
    for t, mark in marks.items():
        changed = changed.replace(mark, texts[t])
    return changed


def values_on_page(row: dict[str, Any]) -> bool:
    """Whether the page still shows a value of every field."""
    shown = normalise_text(Page.from_html(row["html"]).text(0))
    return all(any(normalise_text(v) in shown for v in values) for values in row["values"].values() if values)
