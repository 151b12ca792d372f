"""Labels that do not occur on their page."""

import time

import pytest

from maxendnet.web.fields.unmatched import Unmatched, missing_value, nearest_texts, unmatched_error
from maxendnet.web.pages.page import Page

PAGE = Page.from_html(
    "<h1>Red Tea Cup</h1><p>Our price: $1,299.00 incl. VAT</p><p>by Arthur Lubin</p><a href='/cups/17.html'>more</a>"
)


@pytest.mark.parametrize(
    ("value", "near"),
    [("Red Cup", "Red Tea Cup"), ("1299.00", "$1,299.00"), ("Artur Lubin", "Arthur Lubin"),
     ("/cup/17.html", "/cups/17.html"), ("ARTHUR LUBINN", "Arthur Lubin")],
)  # fmt: skip
def test_the_nearest_text_is_the_intended_one(value, near):
    assert nearest_texts(PAGE, value)[0] == near


def test_a_very_different_value_has_no_nearest_text():
    assert nearest_texts(PAGE, "zzz 2026 zzz") == []


def test_the_error_lists_ten_labels_and_counts_the_rest():
    labels = [(PAGE, f"{k}.html", missing_value("price", f"1299.0{k}")) for k in range(12)]
    labels[1] = (PAGE, "1.html", Unmatched("price", "at node 7 is not shown"))
    lines = unmatched_error(labels).splitlines()
    assert lines[0] == "12 labels are not on their pages:"
    assert lines[1] == "  0.html: price '1299.00' is not on the page; nearest texts: '$1,299.00'"
    assert lines[2] == "  1.html: price at node 7 is not shown" and lines[11] == "  and 2 more"
    alone = unmatched_error([(PAGE, "a.html", missing_value("brand", "zzz"))]).splitlines()
    assert alone[:2] == ["a label is not on its page:", "  a.html: brand 'zzz' is not on the page; no text is similar"]


@pytest.mark.parametrize(
    "html", ["<p hidden>$12</p>", "<p style='display:none'>$12</p>", "<i hidden content='$12'></i>"]
)
def test_a_hidden_value_is_reported_as_hidden(html):
    message = unmatched_error([(Page.from_html(html), "a.html", missing_value("price", "$12"))])
    assert "price '$12' is not on the page; it is hidden: label a visible text or image" in message


def test_nearest_texts_of_a_large_page_are_fast():
    page = Page.from_html(
        "".join(f"<p>Some words about thing {i} of many" for i in range(20_000)) + "<p>" + "x " * 9_000
    )
    started = time.process_time()
    nearest_texts(page, "words " * 2_000)
    assert nearest_texts(page, "Thing 17 of manyy")
    assert time.process_time() - started < 10
