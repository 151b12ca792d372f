"""Values within longer texts: matched with labels, learned from few pages, and extracted exactly."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from value_variants import Variant, variant_of

from maxendnet.web.fields.boundaries import MAX_LEAD, Boundaries, LabelledValue, best_interval
from maxendnet.web.fields.labels import PageLabels
from maxendnet.web.fields.spans import Span, find_value, span_text, tokens_around, tokens_of_span, whole
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.page import Page
from maxendnet.web.tool.evaluation import evaluate
from maxendnet.web.views.view import View, make_views

BOOKS = [
    ("Yen Press", "Ann Lee", "12.50", 1990), ("Houghton Mifflin Harcourt", "Bo", "7.00", 1991),
    ("Penguin", "Carl von Ossietzky", "1,299.95", 2002), ("O'Reilly & Co.", "D. E. Fish", "15.00", 1993),
    ("Tor", "X. Yu", "9.99", 2024), ("Saint Martin's", "Élise Du Pont", "100.00", 1984),
]  # fmt: skip


def book_page(n, publisher, author, price, year):
    whole_price, cents = price.split(".")
    return Page.from_html(
        f"<title>Book {n}</title><h1>Book {n}</h1><p>Publisher: {publisher}</p>"
        f"<p>Our price: <b>$</b>{whole_price}<sup>.{cents}</sup> incl. VAT</p><p>by {author} | {year} | {n} pages</p>",
        name=str(n), site="s",
    )  # fmt: skip


def book_labels(n, publisher, author, price, year):
    values = {"publisher": [publisher], "price": [price], "author": [author], "year": [str(year)]}
    return PageLabels(str(n), "s", values=values)


@pytest.mark.parametrize("n_labelled", [1, 2, 4])
def test_captions_units_and_separators_are_learned_from_few_pages(n_labelled, tmp_path):
    pages = [book_page(n, *x) for n, x in enumerate(BOOKS)]
    labels = [book_labels(n, *x) for n, x in enumerate(BOOKS)]
    extractor = Extractor(calibrate=False).fit(pages, [x if n < n_labelled else None for n, x in enumerate(labels)])
    records = extractor.extract(pages)
    scores = evaluate(pages, labels, records, extractor.fields_)
    assert scores.average_f1 == 1.0, scores.wrong
    price = records[2].fields["price"]
    assert price.value == "1,299.95" and pages[2].text(price.span[0]) == "1,299" and price.span[3] == 3
    extractor.save(tmp_path / "m.medn")
    assert Extractor.load(tmp_path / "m.medn").extract(pages) == records


def test_fields_with_whole_texts_have_no_boundaries():
    views = make_views([Page.from_html(f"<p>Cup {n}, blue</p>", site="s") for n in range(3)])
    boundaries = Boundaries.learn([LabelledValue(view, "name", whole(view, 0)) for view in views[:2]])
    assert not boundaries.weights and boundaries.find(views[2], "name", 0) == (whole(views[2], 0), MAX_LEAD)


def values_found(html, value, others):
    """Return the values found on other pages after training on one; ``html`` is a format string."""
    views = make_views([Page.from_html(html.format(*x), site="s") for x in [value, *others]])
    (span,) = find_value(views[0], "".join(value))
    bounds = Boundaries.learn([LabelledValue(views[0], "name", span)])
    leaf = views[0].leaf_of[span.first]
    for model in (bounds, Boundaries.from_plain(json.loads(json.dumps(bounds.to_plain())))):
        values = [[span_text(view, model.find(view, "name", k).span) for k in (leaf, leaf + 1)] for view in views[1:]]
    return values


PIECES = "<p>Name: <b>{}</b>{} <i>new</i></p>"


def test_a_value_does_not_end_within_a_word():
    """The labelled value is one word in two texts; others have more words, one of them in two texts."""
    others = [("Royal St", "reet Grill"), ("La Bri", "oche Dorée"), ("12 Wash", "ington Street")]
    assert values_found(PIECES, ("McC", "abes"), others) == [["".join(x)] * 2 for x in others]


def test_a_boundary_within_a_word_scores_lowest():
    names, weights = ["start", "stop"], {"name": np.array([[1.0, 0.0], [0.0, 1.0]])}  # the scores prefer the whole text
    view = View(Page.from_html(PIECES.format("Royal St", "reet Grill")))
    for cutting, expected in ((["name"], "Royal St"), ([], "Royal Street Grill new")):
        value = Boundaries(names, weights, {"name": 1}, cutting).find(view, "name", 1)
        assert span_text(view, value.span) == expected


def test_a_value_ends_within_a_word_if_labelled_ones_do():
    pattern = "<p>Price: {}<b>{}</b> <i>now</i></p>"
    views = make_views([Page.from_html(pattern.format(*x)) for x in [("12", "In stock"), ("7", "Sold")]])
    span = Span(views[0].leaves[0], 7, views[0].leaves[0], 9)
    bounds = Boundaries.learn([LabelledValue(views[0], "price", span)])
    assert bounds.cutting == {"price"}
    assert span_text(views[1], bounds.find(views[1], "price", 0).span) == "7"


def test_two_values_in_a_row_are_not_one():
    """A paragraph has several values with the same markup; the labelled page has one."""
    link = "<a>by <b>{}</b>{} <i>new</i></a>"
    pages = [
        link.format("Com", "edy"),
        " | ".join(link.format(*x) for x in (("Dr", "ama"), ("Cr", "ime"), ("W", "ar"))),
    ]
    views = make_views([Page.from_html(f"<p>115 min - {html} - more</p>", site="s") for html in pages])
    (span,) = find_value(views[0], "Comedy")
    bounds = Boundaries.learn([LabelledValue(views[0], "genre", span)])
    at = views[1].texts.index("Dr")
    assert span_text(views[1], bounds.find(views[1], "genre", at).span) == "Drama"


def test_confidence_is_that_of_the_value():
    """The place is certain, the end of the value is not: it has one or two words at random."""
    rng = np.random.default_rng(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    pages, labels = [], []
    for n in range(60):
        words = ["".join(rng.choice(list(letters), 5)) for _ in range(4)]
        cut = int(rng.integers(1, 3))
        html = f"<h1>Cup {n}</h1><p class=c>colour {' '.join(words)}</p>"
        pages.append(Page.from_html(html, name=str(n), site=f"s{n % 4}"))
        labels.append(PageLabels(str(n), f"s{n % 4}", values={"colour": [" ".join(words[:cut])]}))
    extractor = Extractor().fit(pages[:20], labels[:20])
    cells = [record.fields["colour"] for record in extractor.extract(pages[20:])]
    right = np.array([cell.value == x.values["colour"][0] for cell, x in zip(cells, labels[20:])])
    assert 0.2 < right.mean() < 0.8
    assert abs(np.mean([cell.confidence for cell in cells]) - right.mean()) < 0.25


def test_confidence_without_held_out_values_is_below_one():
    pages = [book_page(n, *x) for n, x in enumerate(BOOKS)]
    extractor = Extractor().fit(pages, [book_labels(0, *BOOKS[0]), *[None] * 5])
    assert all(cell.confidence <= 0.95 for record in extractor.extract(pages) for cell in record.fields.values())


def test_a_value_that_is_not_on_the_page_counts_as_missed():
    pages = [book_page(n, *x) for n, x in enumerate(BOOKS)]
    labels = [book_labels(n, *x) for n, x in enumerate(BOOKS)]
    records = Extractor(calibrate=False).fit(pages, labels).extract(pages)
    labels[3].values["price"] = ["15.99"]
    labels[4].values["publisher"] = ["Publisher: Tor"]  # on the page, but longer than the value
    scores = evaluate(pages, labels, records, ["publisher", "price", "author", "year"])
    of = {field.name: field for field in scores.fields}
    assert scores.problems == ["3: price '15.99' is not on the page"]
    assert of["price"].n_true == 6 and of["price"].n_hits == 5 and of["publisher"].n_hits == 5
    assert sorted((page, field) for page, field, _, _ in scores.wrong) == [("3", "price"), ("4", "publisher")]


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=2, max_size=9).map(
        lambda pairs: np.array(pairs, dtype=float)
    )
)
def test_the_best_interval_has_the_highest_score(scores):
    begins, ends = scores.T
    n = len(begins) - 1
    intervals = sorted(((begins[b] + ends[e], (b, e - 1)) for b in range(n) for e in range(b + 1, n + 1)), reverse=True)
    i, j, lead = best_interval(begins, ends)
    assert begins[i] + ends[j + 1] == intervals[0][0]
    assert lead == (intervals[0][0] - intervals[1][0] if len(intervals) > 1 else np.inf)


def test_tokens_of_a_span():
    view = View(Page.from_html("<p>Maße: <b>12,5</b>×3 cm<br>neu</p><p>x"))
    tokens = tokens_around(view, 1)
    assert tokens.texts == ["Maße", ":", "12", ",", "5", "×", "3", "cm", "neu"]
    (span,) = find_value(view, "12,5×3 cm")
    assert tokens_of_span(view, tokens, span) == (2, 7) and span_text(view, span) == "12,5×3 cm"
    assert tokens_of_span(view, tokens, Span(view.leaves[-1], 0, view.leaves[-1], 1)) is None


@pytest.mark.parametrize("kind", Variant)
def test_variants_keep_the_values_and_change_their_texts(kind):
    body = "<body><h1>Red &amp; Blue Cup</h1><p>$5</p><p>x</p></body>"
    row = {"site": "x", "page": "1", "title": "Cup", "body": body, "labels": [[2, "name"], [4, "price"]],
           "values": {"name": ["Red & Blue Cup"], "price": ["$5"]}}  # fmt: skip
    changed = variant_of(json.loads(json.dumps(row)), kind)
    assert changed == variant_of(row, kind)  # deterministic
    view = View(Page.from_html(changed["html"]))
    for value in ("Red & Blue Cup", "$5"):
        spans = find_value(view, value)
        assert [span_text(view, span) for span in spans] == [value]
        assert spans[0] != whole(view, view.leaf_of[spans[0].first])
