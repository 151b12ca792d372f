"""Fields: several values, attributes, types that restrict cells, and normalised values."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

from maxendnet.web import Extractor, LabelError, Page, PageLabels, as_rows, evaluate
from maxendnet.web.fields.labels import labelled_records, parse_line
from maxendnet.web.fields.types import date_of, fits, kind_of, normalise, number_of
from maxendnet.web.model.record import as_csv
from maxendnet.web.tool.commands import web
from maxendnet.web.views.selectors import find_selectors
from maxendnet.web.views.view import View

HEAD = "<head><link rel='canonical' href='https://x.com/books/'></head>"
PEOPLE = ("Ann Lee", "Bo Holm", "Cy Diaz", "Di Wu", "Eve Roy", "Flo Kant", "Gus Ort")


def book(k, n_authors, site="x.com"):
    """Return a page about a book with a link, a machine-readable date, a price and several authors."""
    people = [PEOPLE[(k + i) % len(PEOPLE)] for i in range(n_authors)]
    authors = "".join(f"<li><a href='/p/{name[0]}'>{name}</a></li>" for name in people)
    html = (
        f"<html>{HEAD}<body><ul class='menu'><li><a href='/'>Home</a><li><a href='/new'>New</a></ul>"
        f"<h1><a class='more' href='b/{k}.html'>Book number {k + 11}</a></h1><ul class='authors'>{authors}</ul>"
        f"<p>Published <time datetime='202{k % 7}-0{k % 8 + 1}-1{k % 9}'>some time ago</time></p>"
        f"<p class='cost'>Price: <b>${k + 3}.{k}5</b></p><p class='note'>Ships in {k} days.</p></body></html>"
    )
    truth = {
        "title": [f"Book number {k + 11}"], "author": people, "link": [f"b/{k}.html"],
        "date": [f"202{k % 7}-0{k % 8 + 1}-1{k % 9}"], "cost": [f"${k + 3}.{k}5"],
    }  # fmt: skip
    page = Page.from_html(html, name=f"{k}.html", site=site)
    return page, PageLabels(page.name, site, values=truth)


@pytest.fixture(scope="module")
def books():
    pairs = [book(k, n) for k, n in enumerate((2, 1, 3, 2, 1, 3, 2, 1))]
    return [page for page, _ in pairs], [labels for _, labels in pairs]


@pytest.fixture(scope="module")
def fitted(books):
    pages, labels = books
    given = [x if k < 4 else None for k, x in enumerate(labels)]
    return Extractor(several=["author"], calibrate=False).fit(pages, given)


def test_attributes_and_several_values(books, fitted, tmp_path):
    pages, labels = books
    assert fitted.attributes_ == {"link": "href", "date": "datetime"} and not fitted.problems_
    assert fitted.kinds_ == {"title": "text", "author": "text", "link": "link", "date": "date", "cost": "price"}
    records = fitted.extract(pages)
    for record, given in zip(records, labels):
        assert list(record.fields["author"].values) == given.values["author"]
        for name in ("title", "link", "date", "cost"):
            assert record.fields[name].value == given.values[name][0]
    assert evaluate(pages, labels, records, fitted.fields_).all_right == 1.0
    fitted.save(tmp_path / "m.medn")
    assert Extractor.load(tmp_path / "m.medn").extract(pages) == records


def test_records_have_normalised_values(books, fitted):
    record = fitted.extract(books[0][4])[0]
    cells = record.to_json()["fields"]
    assert cells["cost"]["value"] == "$7.45" and cells["cost"]["number"] == 7.45 and cells["cost"]["currency"] == "USD"
    assert cells["link"]["url"] == "https://x.com/books/b/4.html" and cells["date"]["date"] == "2024-05-14"
    assert cells["author"]["values"] == ["Eve Roy"] and "number" not in cells["title"]
    line = next(csv.DictReader(io.StringIO(as_csv([record], fitted.fields_, kinds=fitted.kinds_))))
    assert (line["cost_number"], line["cost_currency"], line["date_date"]) == ("7.45", "USD", "2024-05-14")
    (row,) = as_rows([record])
    assert row["cost_number"] == 7.45 and row["author_values"] == ["Eve Roy"]


def test_selectors_have_the_attribute_and_match_all_of_several_values(books, fitted):
    pages, _ = books
    selectors = {s.field: s for s in find_selectors(pages, fitted.extract(pages), fitted.attributes_)}
    assert (selectors["link"].css, selectors["link"].attribute) == ("body > h1 > a.more", "href")
    assert (selectors["date"].css, selectors["date"].attribute) == ("body > p > time", "datetime")
    assert selectors["author"].css == "body > ul.authors > li > a" and selectors["author"].alone


@pytest.mark.parametrize("source", [None, 5, "", [None]])
def test_a_source_that_is_not_a_page_is_an_error(fitted, source):
    with pytest.raises(TypeError, match="expected HTML"):
        fitted.extract(source)


def test_all_values_of_a_field_with_several_must_be_right(books, fitted):
    pages, labels = books
    records = fitted.extract(pages[2:3])
    cell = records[0].fields["author"]
    records[0].fields["author"] = cell._replace(values=cell.values[:2])
    assert evaluate(pages[2:3], labels[2:3], records, fitted.fields_).all_right == 0.0


def test_a_type_excludes_values_of_another_kind(books):
    pages, labels = books
    odd = Page.from_html(
        "<html><body><h1>Book number 99</h1><p class='cost'>Price: <b>ask us</b></p></body></html>",
        name="o",
        site="x.com",
    )
    given = [x if k < 4 else None for k, x in enumerate(labels)]
    free = Extractor(calibrate=False).fit(pages, given).extract([*pages, odd])[-1]
    guarded = Extractor(calibrate=False, types={"cost": "price"}).fit(pages, given).extract([*pages, odd])[-1]
    assert free.fields["cost"].value == "ask us" and guarded.fields["cost"] is None
    with pytest.raises(ValueError, match="there is no type 'prize'"):
        Extractor(types={"cost": "prize"}).fit(pages, given)


def test_several_values_and_links_in_a_listing():
    items = [(f"Book {k + 20}", [PEOPLE[(k + i) % 7] for i in range(k % 3 + 1)], f"/b/{k}") for k in range(12)]
    rows = "".join(
        f"<div class='row'><h3><a href='{link}'>{title}</a></h3>"
        f"<ul>{''.join(f'<li>{x}</li>' for x in people)}</ul></div>"
        for title, people, link in items
    )
    page = Page.from_html(f"<html>{HEAD}<body><div>{rows}</div></body></html>", name="l", site="x.com")
    chosen = [items[2], items[4]]
    given = PageLabels("l", "x.com", values={
        "title": [x[0] for x in chosen], "author": [tuple(x[1]) for x in chosen], "link": [x[2] for x in chosen],
    })  # fmt: skip
    extractor = Extractor(records="auto", several=["author"], calibrate=False).fit([page], [given])
    records = extractor.extract([page], min_confidence=0.2)
    rows = [(r.fields["title"].value, list(r.fields["author"].values), r.fields["link"].value) for r in records]
    assert rows == items and records[0].fields["link"].normal == {"url": "https://x.com/b/0"}


def test_an_item_may_have_a_list_of_values():
    given = parse_line({"page": "a", "values": {"name": ["x", "y"], "author": [["A", "B"], None]}}, "line 1")
    assert given.values["author"] == [("A", "B"), None] and given.written("author") == ["A", "B"]
    records, problems = labelled_records(View(Page.from_html("<p>x<p>A<p>B<p>y")), given)
    assert [name for name, _ in records[0].places] == ["name", "author", "author"] and not problems
    with pytest.raises(LabelError, match="expected text or a list of texts"):
        parse_line({"page": "a", "values": {"name": [{"x": 1}]}}, "line 1")


def test_labelled_nodes_of_a_field_with_several_values_are_one_record():
    view = View(Page.from_html("<h1>Soup</h1><ul><li>salt<li>water<li>leek</ul>"))
    places = [(node, "name" if k == 0 else "part") for k, node in enumerate(view.leaves)]
    assert len(labelled_records(view, PageLabels("a", labels=places))[0]) == 3
    assert len(labelled_records(view, PageLabels("a", labels=places), ["part"])[0]) == 1


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("price", "US$ 1,299", {"number": 1299.0, "currency": "USD"}),
        ("price", "12,50 EUR", {"number": 12.5, "currency": "EUR"}),
        ("price", "£0.99", {"number": 0.99, "currency": "GBP"}),
        ("price", "1 299,00 kr", {"number": 1299.0, "currency": "SEK"}),
        ("price", "12.50", {"number": 12.5}),
        ("price", "ask us", {}),
        ("number", "4.5 of 5 stars", {"number": 4.5}),
        ("number", "1'234'567", {"number": 1234567.0}),
        ("date", "1st of February 2019", {"date": "2019-02-01"}),
        ("date", "31 February 2019", {}),
        ("date", "12/31/2019", {"date": "2019-12-31"}),
        ("link", "https://y.org/z", {"url": "https://y.org/z"}),
        ("link", "//y.org/z", {"url": "https://y.org/z"}),
        ("link", "http://[", {}),
        ("text", "12", {}),
        ("", "12", {}),
    ],
)
def test_normal_forms(kind, value, expected):
    assert normalise(kind, value, "https://x.com/a/") == expected


def test_unusual_values_raise_no_error():
    for value in ("", "-", ".", ",", "$", "1" * 500, "9" * 5000, "1,2,3", "0/0/0000", "may", "\u0660\u0661"):
        assert isinstance(kind_of(value), str) and isinstance(fits("price", value), bool)
        number_of(value), date_of(value)
        for kind in ("price", "date", "number", "link", "image", "text"):
            normalise(kind, value)


def test_types_and_several_on_the_command_line(books, tmp_path):
    pages, labels = books
    (tmp_path / "pages").mkdir()
    for page in pages:
        (tmp_path / "pages" / page.name).write_text(page.canonical(), encoding="utf-8")
    lines = [json.dumps({"page": x.page, "site": "x.com", "values": x.values}) for x in labels[:4]]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines), encoding="utf-8")
    where = [str(tmp_path / "pages"), str(tmp_path / "labels.jsonl"), "-o", str(tmp_path / "m.medn")]
    options = ["--no-confidence", "--type", "cost=price", "--several", "author"]
    done = CliRunner().invoke(web, ["train", *where, *options])
    assert done.exit_code == 0, done.output
    loaded = Extractor.load(tmp_path / "m.medn")
    assert loaded.types == {"cost": "price"} and list(loaded.several) == ["author"]
    done = CliRunner().invoke(web, ["train", *where, "--type", "cost=prize"])
    assert done.exit_code == 2 and "is not FIELD=TYPE" in done.output
