"""Values in attributes, shortened texts, and prices that are set from several elements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listing_pages.pages import make_listings

from maxendnet.web import Extractor, Page, PageLabels
from maxendnet.web.fields.labels import labels_attributes, parse_place
from maxendnet.web.fields.spans import find_value, leaves_of_span, span_text
from maxendnet.web.views.view import View

SHOPS = ("shop-title", "shop-cut", "shop-aria", "shop-sentence", "shop-raised", "shop-pieces", "shop-data",
         "shop-content")  # fmt: skip


def values_of(records, name):
    return [None if record.fields[name] is None else record.fields[name].value for record in records]


@pytest.mark.parametrize("name", SHOPS)
def test_one_labelled_record_finds_values_in_attributes_and_in_several_elements(name, tmp_path):
    listed = make_listings([name], n_pages=2, most=14)
    extractor = Extractor(records="auto", calibrate=False).fit(listed.pages, listed.labels(1))
    extractor.save(tmp_path / "m.medn")
    records = Extractor.load(tmp_path / "m.medn").extract(listed.pages, min_confidence=0.2)
    assert records == extractor.extract(listed.pages, min_confidence=0.2)
    rows = [{field: cell and cell.value for field, cell in record.fields.items()} for record in records]
    items = [item for of_page in listed.items for item in of_page if sum(map(bool, item.values())) > 1]
    assert [row for row in rows if row in items] == items


@pytest.mark.parametrize(
    "html, text",
    [
        ("<p><span>$</span><span>12</span><sup>99</sup>", "$12.99"),
        ("<p><span>$</span>\n<span>12</span>\n<span>99</span>", "$12.99"),
        ("<p><b>12</b><sup>50</sup> €", "12.50€"),
        ("<p>$1,299<sup>50</sup>", "$1,299.50"),
        ("<p><b>$</b>12.<sup>99</sup>", "$12.99"),
        ("<p>$5 <b>20</b> left", "$5 20 left"),
        ("<p><s>$15</s> <b>12</b>", "$15 12"),
        ("<p>10<sup>12</sup> m", "1012 m"),
        ("<p>$520", "$520"),
    ],
)
def test_a_fraction_in_its_own_element_gets_a_decimal_point(html, text):
    view = View(Page.from_html(html))
    first, last = view.leaves[0], view.leaves[-1]
    spans = find_value(view, text)
    assert spans and (spans[0].first, spans[0].last) == (first, last) and span_text(view, spans[0]) == text


@pytest.mark.parametrize(
    "html, text",
    [
        ("<a title='A red cup'>A red…</a>", "A red cup"),
        ("<a title='A red cup'><b>A red ...</b></a>", "A red cup"),
        ("<a title='A red and blue cup'>A red and bl</a>", "A red and blue cup"),
        ("<a title='Buy this'>A red…</a>", "A red…"),
        ("<a title='Acme and sons'>Acme</a>", "Acme"),
        ("<a href='A red cup'>A red…</a>", "A red…"),
    ],
)
def test_a_shortened_text_is_read_in_full_length(html, text):
    assert View(Page.from_html(html)).texts == [text]


def test_attributes_are_leaves_only_if_a_labelled_value_needs_them():
    page = Page.from_html("<p title='Red Cup'>Cup</p><i aria-label='Price $5'></i><b data-src='/a'>x</b>", name="a")
    assert View(page).texts == ["Cup", "x"]
    assert View(page, attributes=None).texts == ["Red Cup", "Cup", "Price $5", "x"]
    labels = PageLabels("a", values={"name": ["Cup"], "price": ["$5"]})
    assert labels_attributes([page], [labels]) == ["aria-label"]
    view = View(page, attributes=["aria-label"])
    (span,) = find_value(view, "$5")
    assert span_text(view, span) == "$5" and span.attribute == "aria-label"
    assert parse_place(span.to_json()) == span and leaves_of_span(View(page), span) == []


def test_a_label_may_refer_to_an_attribute():
    pages = [
        Page.from_html(f"<h1>Shop</h1><div><i title='{n} stars'></i><p>Cup {n}</p></div>", name=str(n), site="s")
        for n in range(4)
    ]
    place = parse_place([4, 0, 4, 1, "title"])
    extractor = Extractor(calibrate=False).fit(pages, [PageLabels("0", "s", [(place, "stars")]), None, None, None])
    records = extractor.extract(pages)
    assert values_of(records, "stars") == ["0", "1", "2", "3"]
    assert records[1].to_json()["fields"]["stars"]["span"] == [4, 0, 4, 1, "title"]


def test_values_of_a_site_do_not_extend_like_those_of_another_site():
    """On one site prices are in three elements; on the other an old price precedes the price."""
    listed = make_listings(["shop-pieces", "shop-unit"], n_pages=2, most=16)
    extractor = Extractor(records="auto", calibrate=False).fit(listed.pages, listed.labels(1))
    prices = values_of(extractor.extract(listed.pages, min_confidence=0.2), "price")
    assert not [price for price in prices if price and price.count("$") != 1]


@given(st.text(alphabet="ab…. 12$", max_size=12), st.text(alphabet="ab. 12$", max_size=12))
def test_the_full_text_begins_like_the_displayed_one(text, title):
    page = Page.from_html(f"<a title='{title}'>{text}</a>")
    for t, node in zip(View(page).texts, View(page).leaves):
        shown = page.text(node)
        assert t == shown or t.startswith(shown.rstrip("…. "))
