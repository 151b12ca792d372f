"""Listings: items found from one or two labelled ones, and extracted as small pages."""

import json

import pytest
from click.testing import CliRunner
from listing_pages.pages import TEMPLATES, make_listings
from listing_pages.shop import SHOP_TEMPLATES

from maxendnet.estimators.file import ModelFileError
from maxendnet.web import Extractor, LabelError, Page, PageLabels, evaluate, toy_pages
from maxendnet.web.fields.labels import labelled_records, parse_line
from maxendnet.web.listings.align import align
from maxendnet.web.listings.patterns import Listing, Pattern, find_items, page_of_item
from maxendnet.web.listings.split import learn_records, split_pages
from maxendnet.web.model.labelled_page import labelled_pages, similar_records
from maxendnet.web.progress import quiet
from maxendnet.web.tool.commands import web
from maxendnet.web.views.outline import Outline
from maxendnet.web.views.view import View, make_views


def rows_of(records, page):
    return [
        {name: None if cell is None else cell.value for name, cell in record.fields.items()}
        for record in records
        if record.page == page.name
    ]


@pytest.mark.parametrize("name", ["table", "cards", "definitions", "two-a-row-flat", "two-rows", "name-row", "columns"])
def test_one_labelled_record_is_enough(name, tmp_path):
    listed = make_listings([name], n_pages=2, most=16)
    extractor = Extractor(records="auto", calibrate=False).fit(listed.pages, listed.labels(1))
    extractor.save(tmp_path / "m.medn")
    records = Extractor.load(tmp_path / "m.medn").extract(listed.pages, min_confidence=0.2)
    assert records == extractor.extract(listed.pages, min_confidence=0.2)
    for page, items in zip(listed.pages, listed.items):
        assert rows_of(records, page) == items
        of_page = [record for record in records if record.page == page.name]
        assert [record.record for record in of_page] == list(range(len(items)))
        for record in of_page:  # nodes of cells are numbered as on the original page
            for cell in record.fields.values():
                if cell is not None and cell.span is None:
                    assert page.text(cell.node) == cell.value


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - set(SHOP_TEMPLATES)))
def test_items_begin_and_end_at_the_right_nodes(name):
    """Every item contains all values of one true item, and no value of another."""
    listed = make_listings([name], n_pages=2, most=20)
    labels = listed.labels(2)
    views = make_views(listed.pages)
    sites, problems = learn_records(views, labels, "many")
    units, split_problems = split_pages(views, labels, sites)
    assert not problems and not split_problems and sum(given is not None for given in units.labels) == 2
    for i, items in enumerate(listed.items):
        texts = [page.text(0) for page, origin in zip(units.pages, units.origin) if origin == i]
        names = sorted((item["name"] for item in items), key=len, reverse=True)
        for text in texts:
            inside, rest = [], text
            for name in names:  # a name may be a prefix of another
                if name in rest:
                    inside.append(name)
                    rest = rest.replace(name, "")
            if inside:
                assert len(inside) == 1
                item = next(item for item in items if item["name"] == inside[0])
                assert all(value is None or value in text for value in item.values())
        assert sum(any(name in text for name in names) for text in texts) >= len(items) - 1


def test_a_site_may_have_listings_and_pages_with_one_record():
    """A shop has a listing and pages with one record, both labelled."""
    listed = make_listings(["sidebar"], n_pages=2, most=12)
    details = []
    for k, item in enumerate(listed.items[0][:4]):
        html = (
            f"<h1>{item['name']}</h1><div class='facts'><p>Price <b>{item['price'] or '$1.00'}</b></p>"
            f"<p>On <i>{item['date'] or '1 May 2020'}</i></p><p>At <u>{item['place'] or 'Town Hall'}</u></p></div>"
            "<ul class='similar'><li><a>Other Thing</a><span>$5.00</span></li>"
            "<li><a>Next Thing</a><span>$6.00</span></li></ul>"
        )
        details.append(Page.from_html(html, name=f"detail{k}", site=listed.pages[0].site))
    item = next(item for item in listed.items[0][:4] if all(item.values()))
    k = listed.items[0].index(item)
    of_detail = PageLabels(details[k].name, details[k].site, values={name: [value] for name, value in item.items()})
    pages = [*listed.pages, *details]
    labels = [*listed.labels(1), *(of_detail if i == k else None for i in range(4))]
    records = Extractor(records="auto", calibrate=False).fit(pages, labels).extract(pages, min_confidence=0.2)
    for page, items in zip(listed.pages, listed.items):
        assert rows_of(records, page) == items
    for page in details:
        assert len(rows_of(records, page)) == 1
    assert rows_of(records, details[k]) == [item]


def test_a_page_without_records_on_a_site_with_listings_has_no_value_of_another_kind():
    """A page about the shop has "since 1999", which is not a date."""
    lists = [
        Page.from_html(
            "<table>" + "".join(f"<tr><td>{name} {k}<td>${i}.50<td>200{i}-05-1{k}" for i, name in enumerate("ABCDEF")),
            name=f"{k}", site="s",
        )
        for k in range(2)
    ]  # fmt: skip
    about = Page.from_html("<h1>About us</h1><p>We sell things since 1999.</p>", name="about", site="s")
    given = PageLabels("0", "s", values={"name": ["B 0"], "price": ["$1.50"], "date": ["2001-05-10"]})
    extractor = Extractor(records="auto", calibrate=False).fit([*lists, about], [given, None, None])
    records = extractor.extract([*lists, about])
    assert len(records) == 13
    assert records[-1].fields["date"] is None and records[-1].fields["price"] is None


def test_auto_does_not_split_pages_with_one_record():
    toy = toy_pages(n_sites=5, n_pages=2)
    assert learn_records(make_views(toy.pages, images=True), toy.labels, "auto")[0] == {}
    _, problems = learn_records(make_views(toy.pages[:1]), [PageLabels("x", values={"name": ["nothing"]})], "many")
    assert "nothing repeats" in problems[0]


def test_unlabelled_items_are_unknown_unless_labels_are_complete():
    page = Page.from_html("<ul><li><b>a</b> $1<li><b>b</b> $2<li><b>c</b> $3<li><b>d</b> $4</ul>", name="x", site="s")
    given = PageLabels("x", "s", values={"name": ["a", "c"], "price": ["$1", "$3"]})
    views = make_views([page])
    sites, _ = learn_records(views, [given], "many")
    units, _ = split_pages(views, [given], sites)
    assert [labels is not None for labels in units.labels] == [True, False, True, False]
    given.complete = True
    units, _ = split_pages(views, [given], sites)
    assert [None if x is None else len(x.labels) for x in units.labels] == [2, 0, 2, 0]


def test_complete_labels_with_unmatched_ones_leave_other_items_unknown():
    rows = "".join(f"<tr><td>Thing {n}<td>${n}.50" for n in range(4))
    views = make_views([Page.from_html(f"<table>{rows}</table>", name="a", site="s")])
    given = PageLabels("a", values={"name": ["Thing 0", "Thing 9"], "price": ["$0.50", "$9.50"]}, complete=True)
    units, problems = split_pages(views, [given], learn_records(views, [given], "many")[0])
    assert [None if x is None else len(x.labels) for x in units.labels] == [2, None, None, None]
    assert problems == ["a: name 'Thing 9' is not on the page", "a: price '$9.50' is not on the page"]


def test_a_skipped_label_is_unknown_in_similar_items():
    rows = "".join(f"<tr><td>Thing {n}<td>${n}.50<td>2001-05-1{n}" for n in range(8))
    page = Page.from_html(f"<table>{rows}</table>", name="a", site="s")
    given = PageLabels("a", "s", values={"name": ["Thing 2"], "price": ["2,50"], "date": ["2001-05-12"]})
    with pytest.raises(LabelError, match=r"a: price '2,50' is not on the page; nearest texts: '\$2.50'"):
        Extractor(records="many", calibrate=False).fit([page], [given])
    extractor = Extractor(records="many", calibrate=False).fit([page], [given], skip_unmatched=True)
    assert extractor.problems_ == ["a: price '2,50' is not on the page"]
    views, labels = extractor.split_labelled(extractor.make_views([page]), [given])
    labelled = labelled_pages(views, labels, "choice", lambda view: None, [], quiet)
    similar = similar_records(views, labels, labelled, lambda view: None)
    assert len(similar) == 7 and all(record.unknown == {"price"} for record, _ in similar)
    assert len(extractor.extract([page])) == 8


def test_a_field_has_places_only_if_all_of_its_values_match():
    view = View(Page.from_html("<p>x<p>A<p>B<p>y"))
    given = parse_line({"page": "a", "values": {"name": ["x", "y"], "author": [["A", "C"], ["B"]]}}, "line 1")
    records, unmatched = labelled_records(view, given)
    assert [[name for name, _ in record.places] for record in records] == [["name"], ["name", "author"]]
    assert [(label.field, label.value) for label in unmatched] == [("author", "C")]


def test_values_of_items_are_in_parallel_lists():
    view = View(Page.from_html("<p>cup<p>$5<p>pot<p>$5<p>pan"))
    given = parse_line({"page": "a", "values": {"name": ["cup", "pan"], "price": ["$5", None]}, "complete": True}, "1")
    records, problems = labelled_records(view, given)
    assert given.complete and not problems
    assert [[(name, len(spans)) for name, spans in record.places] for record in records] == [
        [("name", 1), ("price", 2)], [("name", 1)]
    ]  # fmt: skip
    with pytest.raises(LabelError, match="'name' has 2 values and 'price' 1; in a listing"):
        labelled_records(view, PageLabels("a", values={"name": ["cup", "pan"], "price": ["$5"]}))
    with pytest.raises(LabelError, match="expected true or false"):
        parse_line({"page": "a", "complete": "yes"}, "line 1")


def test_labelled_nodes_are_grouped_by_record():
    page = Page.from_html("<ul><li><b>a</b> $1<li><b>b</b> $2<li><b>c</b> $3</ul>")
    view = View(page)
    nodes = view.leaves
    places = [(nodes[0], "name"), (nodes[1], "price"), (nodes[2], "name"), (nodes[4], "name"), (nodes[5], "price")]
    records, _ = labelled_records(view, PageLabels("a", labels=places))
    assert [len(record.places) for record in records] == [2, 1, 2]
    ranges = [(nodes[0], nodes[1]), (nodes[4], nodes[5])]
    records, _ = labelled_records(view, PageLabels("a", labels=places, records=ranges))
    assert [len(record.places) for record in records] == [2, 2]


def test_alignment_of_items():
    sample = [("b", "text"), ("p", "text"), ("p", "price")]
    labels = ["name", "place", "price"]
    # no aligned price, but another price: unknown
    alignment = align([("b", "text"), ("p", "text"), ("i", "price")], sample, labels)
    assert alignment.labels == ["name", "place", "none"] and alignment.unknown == {"price"}
    # either of the two texts may be the place
    alignment = align([("b", "text"), ("p", "text"), ("p", "text"), ("p", "price")], sample, labels)
    assert alignment.labels == ["name", "none", "none", "price"] and alignment.unknown == {"place"}
    assert align([("p", "image")], sample, labels) is None


def test_patterns_from_a_file_are_checked():
    outline = Outline(View(Page.from_html("<p>a<hr>b<hr><hr>c")))
    plain = Listing([Pattern("between", "body", mark=("tag", "hr"))], [[("body", "text")]]).to_plain()
    listing = Listing.from_plain(json.loads(json.dumps(plain)))
    assert [item[0][0] for _, item in find_items(outline, listing.patterns[0])] == [1, 4, 7]
    for bad in (
        ["sideways"],
        ["every", "body", 0, "", ["tag", "p"], 0, 0, False],
        ["from", "body", 0, "", [], 0, 0, 0],
    ):
        with pytest.raises((ValueError, TypeError)):
            Listing.from_plain({"patterns": [bad], "samples": []})


def test_a_damaged_model_is_refused(tmp_path):
    listed = make_listings(["table"], n_pages=1)
    extractor = Extractor(records="many", calibrate=False).fit(listed.pages, listed.labels(1))
    site = listed.pages[0].site
    broken = extractor.listings_[site].listing.patterns[0]._replace(unit="nowhere")
    extractor.listings_[site].listing.patterns[0] = broken
    extractor.save(tmp_path / "m.medn")
    with pytest.raises(ModelFileError, match="its part about web pages is damaged"):
        Extractor.load(tmp_path / "m.medn")


def test_an_item_is_a_small_page():
    page = Page.from_html("<table><tr><td>a<td>b<tr><td>c <td> d</table>", name="x", site="s")
    row = next(t for t in range(len(page)) if page.tags[t] == "tr")
    small = page_of_item(page, [(row, page.end(row))])
    assert small.source is page and [page.tags[t] for t in small.nodes[1:]] == small.tags[1:]
    assert small.spaced == page.spaced and small.template != page.template


def test_evaluate_compares_labelled_records_with_their_rows():
    listed = make_listings(["cards"], n_pages=2, most=12)
    extractor = Extractor(records="many", calibrate=False).fit(listed.pages, listed.labels(1))
    records = extractor.extract(listed.pages, min_confidence=0.2)
    names = extractor.fields_
    labels = [
        PageLabels(page.name, page.site, values={name: [item[name] for item in items] for name in names}, complete=True)
        for page, items in zip(listed.pages, listed.items)
    ]
    scores = evaluate(listed.pages, labels, records, names)
    assert scores.all_right == 1.0 and scores.n_records == sum(map(len, listed.items))
    assert all(field.precision == field.recall == 1.0 for field in scores.fields)
    missing = evaluate(listed.pages, labels, records[1:], names)
    assert missing.all_right == 1 - 1 / scores.n_records and missing.fields[0].precision == 1.0
    two = PageLabels(labels[0].page, labels[0].site, values={name: v[:2] for name, v in labels[0].values.items()})
    assert all(field.precision == 1.0 for field in evaluate(listed.pages[:1], [two], records, names).fields)
    two.complete = True
    assert evaluate(listed.pages[:1], [two], records, names).fields[0].precision < 0.5


def test_the_command_line_needs_no_flag_to_extract(tmp_path):
    listed = make_listings(["definitions"], n_pages=2, most=12)
    for name, text in listed.html.items():
        path = tmp_path / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    given = listed.labels(2)[0]
    line = {"page": given.page, "values": given.values}
    (tmp_path / "labels.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    run = CliRunner().invoke
    model, out = str(tmp_path / "m.medn"), tmp_path / "out.jsonl"
    done = run(web, ["train", str(tmp_path / "pages"), str(tmp_path / "labels.jsonl"), "-o", model])
    assert done.exit_code == 0 and "Sites with listings (one row per record): definitions.example." in done.output
    done = run(web, ["extract", model, str(tmp_path / "pages"), "-o", str(out)])
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert done.exit_code == 0 and len(rows) == sum(map(len, listed.items))
    names = [row["fields"]["name"]["value"] for row in rows]
    assert names == [item["name"] for items in listed.items for item in items]
    done = run(web, ["evaluate", model, str(tmp_path / "pages"), str(tmp_path / "labels.jsonl"), "--json"])
    assert json.loads(done.output)["records"] == 2 and json.loads(done.output)["all_right"] == 1.0
    done = run(web, ["check", model, str(tmp_path / "pages")])
    assert done.exit_code == 0 and "definitions.example: ok (2 pages)" in done.output


def test_advertisements_and_unit_prices_are_no_records():
    def product(k):
        return (f'<div class="card"><h3 class="title">Cup number {k}</h3><span class="price">${k + 3}.50</span>'
                f'<p class="shop">by Shop {k % 4}</p></div>')  # fmt: skip

    def advertisement(k):
        return (f'<div class="card"><h3 class="offer">Great sale {k}</h3><span class="from">${k}.99</span>'
                f'<p class="sponsor">by Advertiser {k}</p></div>')  # fmt: skip

    def unit(k):
        return (f'<div class="card"><h3 class="unit">Per 100 g</h3><span class="unit">${k}.20</span>'
                '<p class="net">net</p></div>')  # fmt: skip

    pages = []
    for i in range(3):
        parts = [product(7 * i + k) + (advertisement(i + k) if k % 5 == 1 else unit(k) if k % 8 == 2 else "")
                 for k in range(24)]  # fmt: skip
        html = f"<h1>Cups, page {i}</h1><div class='grid'>{''.join(parts)}</div>"
        pages.append(Page.from_html(html, name=f"{i}.html", site="cups.example"))
    values = {"name": ["Cup number 0"], "price": ["$3.50"], "shop": ["Shop 0"]}
    labels = [PageLabels("0.html", "cups.example", values=values), None, None]
    records = Extractor(calibrate=False, records="many").fit(pages, labels).extract(pages)
    for i, page in enumerate(pages):
        of_page = [record for record in records if record.page == page.name]
        assert [record.fields["name"].value for record in of_page] == [f"Cup number {7 * i + k}" for k in range(24)]
        assert [record.record for record in of_page] == list(range(24))
