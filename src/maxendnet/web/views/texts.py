"""Texts of leaves: shortened texts in full length, and prices with their decimal point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from maxendnet.web.pages.page import Page
from maxendnet.web.pages.runs import Runs
from maxendnet.web.views.leaves import is_text_attribute

MAX_LEVELS = 3  # elements around a text whose attributes may contain its full length
MIN_CHARS = 4  # minimum length of a shortened text with an ellipsis
MIN_CUT_CHARS = 8  # minimum length of a shortened text that ends within a word, without an ellipsis
ELLIPSIS = re.compile(r"\s*(?:\u2026|\.\.\.|\[\u2026\]|\[\.\.\.\])$")
SIGN = r"(?:[$\u20ac\u00a3\u00a5\u20b9]|USD|EUR|GBP|kr)"
WHOLE_UNITS = re.compile(rf"(?:{SIGN}\s*)?\d[\d.,]*$")
SPLIT_PRICE = re.compile(rf"(?:{SIGN}\s*)?\d[\d.,]*\s*\d\d(?:\s*{SIGN})?$")


def full_text(page: Page, t: int) -> str:
    """Return the text of a text node, in full length if an attribute of an element around it has it.

    Examples
    --------
    >>> full_text(Page.from_html("<a title='A red cup'><b>A red...</b></a>"), 3)
    'A red cup'
    """
    text = page.text(t)
    stem = ELLIPSIS.sub("", text)
    min_chars = MIN_CUT_CHARS if stem == text else MIN_CHARS
    if len(stem) < min_chars:
        return text
    folded = stem.casefold()
    above = int(page.parents[t])
    for _ in range(MAX_LEVELS):
        if above < 0:
            break
        for name, value in page.attributes[above].items():
            extends = len(value) > len(stem) and value[: len(stem)].casefold() == folded
            is_cut = extends and (stem != text or (value[len(stem) - 1].isalnum() and value[len(stem)].isalnum()))
            if is_cut and is_text_attribute(name):
                return value
        above = int(page.parents[above])
    return text


def is_shortened(page: Page, nodes: Sequence[int], level: int, name: str) -> bool:
    """Whether an attribute ``level`` levels above text nodes has their full texts, and at least one is cut off.

    Examples
    --------
    >>> page = Page.from_html("<b title='Red'>Red</b><b title='Red Cup'>Red</b>")
    >>> is_shortened(page, [2, 4], 1, "title")
    True
    """
    is_cut = False
    for t in nodes:
        text = page.text(t).casefold()
        above = t
        for _ in range(level):
            above = int(page.parents[above]) if above >= 0 else above
        value = (page.attributes[above].get(name, "") if above >= 0 else "").casefold()
        if value and not value.startswith(text):
            return False
        is_cut = is_cut or len(value) > len(text)
    return is_cut


def join_prices(texts: list[str], runs: Runs, elements: Sequence[int], tags: Sequence[str]) -> None:
    """Insert the decimal point of prices whose fraction is in an element of its own, and remove spaces within them.

    The displayed pieces "$", "12" and a raised "99" become "$", "12" and ".99". A price has a currency sign. Two digits
    are its fraction if they touch the digits before, are raised, or the run contains only a sign and these digits.

    Parameters
    ----------
    texts : list of str
        Texts of leaves; changed in place.
    runs : Runs
        Runs of these leaves; its separators are changed in place.
    elements : sequence of int
        Element of each leaf.
    tags : sequence of str
        Tags of the elements of the page.
    """
    for _, group in groupby(range(len(texts)), key=runs.run.__getitem__):
        of_run = list(group)
        if len(of_run) < 2:
            continue
        for i in range(1, len(of_run)):
            k, before = of_run[i], of_run[i - 1]
            if len(texts[k]) != 2 or not texts[k].isdecimal() or not WHOLE_UNITS.match(texts[before]):
                continue
            first = of_run[i - 2] if i > 1 and re.fullmatch(SIGN, texts[of_run[i - 2]]) else before
            last = of_run[i + 1] if i + 1 < len(of_run) and re.fullmatch(SIGN, texts[of_run[i + 1]]) else k
            joined = " ".join(texts[first : last + 1])
            if elements[k] == elements[before] or not re.search(SIGN, joined) or not SPLIT_PRICE.match(joined):
                continue
            is_alone = (first < before or last > k) and first == of_run[0] and last == of_run[-1]
            if is_alone or not runs.before[k] or tags[elements[k]] == "sup":
                if texts[before][-1].isdecimal():
                    texts[k] = f".{texts[k]}"
                for j in range(first + 1, last + 1):
                    runs.before[j] = ""
