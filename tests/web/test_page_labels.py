import json

import pytest

from maxendnet.web.fields.labels import LabelError, PageLabels, labels_on_page, read_labels
from maxendnet.web.fields.spans import Span, find_value, span_text
from maxendnet.web.labelling.label_file import LabelFile
from maxendnet.web.pages.page import Page
from maxendnet.web.views.view import View, make_views


def write(tmp_path, *lines):
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_labels_by_node_and_by_value_are_read(tmp_path):
    nodes = {"page": "a.html", "site": "x.com", "labels": [[3, "price"]], "records": [[1, 9]]}
    values = {"page": "b.html", "values": {"price": "$12", "name": ["A", "B"], "brand": None, "year": 1999}}
    first, second = read_labels(write(tmp_path, nodes, "", values))
    assert (first.labels, first.site, first.records) == ([(3, "price")], "x.com", [(1, 9)])
    assert second.values == {"price": ["$12"], "name": ["A", "B"], "brand": [], "year": ["1999"]} and second.line == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not JSON"),
        ([1], "does not name its page"),
        ({"page": 3}, "does not name its page"),
        ({"page": "a", "labels": [["x", "price"]]}, r"\"labels\" has \['x', 'price'\]; expected pairs"),
        ({"page": "a", "labels": [[-1, "price"]]}, "expected pairs"),
        ({"page": "a", "labels": [[[3, 5, 3, 5], "price"]]}, r"has \[\[3, 5, 3, 5\], 'price'\]; expected pairs"),
        ({"page": "a", "labels": [[1, "none"]]}, "'none' is not a valid field name"),
        ({"page": "a", "values": {"a+b": "x"}}, r"'a\+b' is not a valid field name"),
        ({"page": "a", "values": ["x"]}, "expected an object"),
        ({"page": "a", "values": {"price": {"x": 1}}}, "expected text or a list"),
        ({"page": "a", "records": [[5, 2]]}, "expected pairs"),
        ({"page": "a", "site": 5}, '"site" is 5; expected text'),
    ],
)
def test_the_error_of_an_invalid_line_names_place_and_problem(tmp_path, line, message):
    with pytest.raises(LabelError, match=message):
        read_labels(write(tmp_path, line))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"page": "a"}\n{"page": "caf\xe9"}', "labels.jsonl, line 2 is not UTF-8"),
        (b'{"page": "a"}\n' + b'{"values":' * 100_000, "labels.jsonl, line 2 is nested too deeply"),
        (b'{"page": "a"}\n' + b"[" * 100_000 + b"]" * 100_000, "labels.jsonl, line 2 is nested too deeply"),
        (b'{"page": "a", "labels": [[' + b"9" * 5_000 + b', "price"]]}', "labels.jsonl, line 1 is not JSON"),
    ],
    ids=["not UTF-8", "objects", "lists", "long number"],
)
def test_the_error_of_an_invalid_file_names_the_line(tmp_path, data, message):
    path = tmp_path / "labels.jsonl"
    path.write_bytes(data)
    for read in (read_labels, lambda p: LabelFile(p).read()):
        with pytest.raises(LabelError, match=message):
            read(path)


def test_a_page_is_labelled_once(tmp_path):
    with pytest.raises(LabelError, match="line 2 labels 'a' again, after line 1"):
        read_labels(write(tmp_path, {"page": "a"}, {"page": "a"}))
    with pytest.raises(LabelError, match="has no label"):
        read_labels(write(tmp_path))


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("A Red Cup", ["A red  cup"]),
        ("$12.50", ["$12.50", "$ 12.50"]),
        ("12.50", ["12.50", "12.50"]),
        ("Ann Lee", ["Ann Lee"]),
        ("Ann", ["Ann"]),
        ("an", []),
        ("12", []),
        ("a red cup $12.50", ["A red cup $12.50"]),
        ("red cup $12.50", []),
        ("/p/cup.jpg", ["/p/cup.jpg"]),
        ("https://x.com/q/cup.jpg", ["/p/cup.jpg"]),
        ("1", []),
        ("ed", []),
        ("  ", []),
        ("a thing that is not there", []),
    ],
)
def test_values_are_found(value, texts):
    html = "<h1>A red  cup</h1><p>$12.50</p><p>$ 12.50</p><p>by Ann Lee</p><p>112.50</p><img src=/p/cup.jpg>"
    view = View(Page.from_html(html), images=True)
    assert [span_text(view, span) for span in find_value(view, value)] == [t.replace("  ", " ") for t in texts]


def test_a_value_that_is_a_word_of_its_own_is_preferred():
    page = Page.from_html(
        "<p>www.usa.canon.com</p><p>Maker of this camera: Canon (official)</p><p>Canon and Nikon and others</p>"
    )
    (span,) = find_value(View(page), "canon")
    assert span == Span(6, 0, 6, 5)  # not in the address, but in the shortest other text


def test_a_value_over_several_nodes_reads_as_on_the_screen():
    view = View(Page.from_html("<div>Now <b>$</b>12<sup>.99</sup> <i>new</i><br>12 Main St<br>Springfield</div><p>x"))
    for value in ("$12.99", "12 Main St Springfield", "12.99 new"):
        (span,) = find_value(view, value)
        assert span_text(view, span) == value


def test_labels_without_visible_text_are_unmatched():
    page = Page.from_html("<p>a</p><p hidden>b</p>")
    spans, unmatched = labels_on_page(View(page), PageLabels("x.html", labels=[(2, "n"), (1, "n"), (4, "n")]))
    assert spans == [(Span(2, 0, 2, 1), "n")]
    assert str(unmatched[0]).startswith("n at node 1 is an element 'p'") and "node 4 is not shown" in str(unmatched[1])
    part = PageLabels("x.html", labels=[(Span(2, 0, 2, 1), "n"), (Span(1, 0, 2, 1), "n"), (Span(2, 1, 2, 7), "n")])
    spans, unmatched = labels_on_page(View(page), part)
    assert spans == [(Span(2, 0, 2, 1), "n")] and len(unmatched) == 2 and "not visible text" in unmatched[0].reason
    with pytest.raises(LabelError, match="has nodes 0 to 4, but 'n' is at node 9"):
        labels_on_page(View(page), PageLabels("x.html", labels=[(9, "n")]))
    with pytest.raises(LabelError, match="has changed since it was labelled"):
        labels_on_page(View(page), PageLabels("x.html", labels=[(2, "n")], sha="0" * 16))
    assert labels_on_page(View(page), PageLabels("x.html", labels=[(2, "n")], sha=page.sha))[1] == []


def test_of_several_texts_the_one_with_fixed_words_around_the_value_is_chosen():
    """The maker is also in the heading, which is shorter, but whose other words vary between pages."""
    things = [("Kodak", "EasyShare C180"), ("Sony", "Alpha 7"), ("Fuji", "X100"), ("Leica", "Q3")]
    pages = [
        Page.from_html(f"<h1>{maker} {name}</h1><p>The manufacturer is {maker} (12 reviews) and no other</p>", site="s")
        for maker, name in things
    ]
    view = make_views(pages)[0]
    (span,) = find_value(view, "Kodak")
    assert page_text(view, span) == "The manufacturer is Kodak (12 reviews) and no other"
    single = View(pages[0])  # without other pages, the shortest text
    (span,) = find_value(single, "Kodak")
    assert page_text(single, span) == "Kodak EasyShare C180"


def test_of_several_texts_one_at_a_common_place_is_chosen():
    """The name is also in a shorter text at a place that no other page has."""
    names = ["Red Cup", "Tea Pot", "Oak Bowl", "Glass Jar"]
    notes = ["<ul><li>Red Cup!</ul>", "", "", ""]
    pages = [
        Page.from_html(f"<h1>New | {name} | Home | {i}</h1>{note}", site="s")
        for i, (name, note) in enumerate(zip(names, notes))
    ]
    view = make_views(pages)[0]
    (span,) = find_value(view, "Red Cup")
    assert page_text(view, span) == "New | Red Cup | Home | 0"
    assert page_text(view, find_value(View(pages[0]), "Red Cup")[0]) == "Red Cup!"


def page_text(view, span):
    return view.page.text(span.first)
