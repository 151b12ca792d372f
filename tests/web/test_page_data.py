"""Structured data (JSON-LD, microdata, meta elements) as candidate values and as features."""

import json

import pytest

from maxendnet.web import Extractor, evaluate
from maxendnet.web.features.groups import leaf_features
from maxendnet.web.fields.labels import LabelError, PageLabels, labels_data, labels_on_page
from maxendnet.web.labelling.frame import make_frame
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.structured_data import MAX_VALUES, read_json
from maxendnet.web.views.selectors import css_path, find_selectors
from maxendnet.web.views.view import View


def product(i, **more):
    return {
        "@context": "https://schema.org", "@type": "Product", "name": f"Cup {i}", "sku": f"AB-{i * 7}",
        "image": f"/img/{i}.jpg", "offers": {"@type": "Offer", "price": 10 + i, "seller": {"name": f"Shop {i % 3}"}},
        **more,
    }  # fmt: skip


def script(value):
    return f'<script type="application/ld+json">{value if isinstance(value, str) else json.dumps(value)}</script>'


def shop_page(i, site="shop.example"):
    html = f"""<head><title>Cup {i}</title><link rel=canonical href="https://{site}/cups/{i}">
    <meta property="og:title" content="Cup {i}"><meta name=viewport content="width=1">{script(product(i))}</head>
    <body><h1>Cup {i}</h1><p>Now <b>${10 + i}.00</b> <i>only</i></p>
    <div itemscope>more<meta itemprop=gtin content="40{i}12"><link itemprop=help href="/help/{i}"></div>"""
    return Page.from_html(html, name=f"{i}.html", site=site)


@pytest.fixture(scope="module")
def pages():
    return [shop_page(i) for i in range(8)]


def test_structured_values_are_nodes_after_the_body(pages):
    page = pages[2]
    paths = {value.path: value.text for value in page.structured_values}
    assert paths["product.offers.price"] == "12" and paths["product.offers.seller.name"] == "Shop 2"
    assert paths["og:title"] == "Cup 2" and paths["gtin"] == "40212" and paths["help"] == "/help/2"
    again = Page.from_canonical(page.canonical())
    assert again.sha == page.sha and again.structured_values == page.structured_values
    assert [page.texts[t] for t in page.shown.nodes] == page.shown.texts
    assert page.shown.tags == [tag for tag in page.tags if tag not in ("meta", "link", "object")]
    assert View(page).texts == ["Cup 2", "Now", "$12.00", "only", "more"]  # no leaves unless requested
    assert "Shop 2" in View(page, data=True).texts


def test_labels_with_node_numbers_of_older_versions_are_converted(pages):
    page = Page.from_html("<div>a<meta itemprop=x content=1></div><p>b", name="a.html")
    old = page.shown
    (span, name), *rest = labels_on_page(View(page), PageLabels("a.html", labels=[(4, "f")], sha=old.sha))[0]
    assert page.text(span.first) == "b" and name == "f" and not rest and old.sha != page.sha
    with pytest.raises(LabelError, match="nodes 0 to 4, but node 9"):
        labels_on_page(View(page), PageLabels("a.html", labels=[(9, "f")], sha=old.sha))
    with pytest.raises(LabelError, match="has changed since it was labelled"):
        labels_on_page(View(page), PageLabels("a.html", labels=[(4, "f")], sha="0" * 16))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"price": 12.50}', ["12.50"]),  # as written
        ('<!--\n{"price": 1}\n-->', ["1"]),
        ('//<![CDATA[\n{"price": 1}\n//]]>', ["1"]),
        ('{"a": "x\ny"};', ["x y"]),  # line break within a string, text after the end
        ('{"a": tru', []),
        ("", []),
        ('"text"', []),
        ("[" * 100_000, []),
        ('{"a":' * 100_000, []),
        ('{"a": [' + "[" * 15 + '"deep"' + "]" * 15 + "]}", ["deep"]),
        ('{"a": NaN, "b": null, "c": true, "d": "\\ud800", "": "x", "@id": "y", "e": " "}', ["NaN", "true"]),
        ('{"a": ' + "9" * 10_000 + "}", ["9" * 2_000]),
        ('{"@type": ["Book", "Thing"], "@graph": [{"name": {"@value": "x"}}]}', ["x"]),
        ('{"a": "' + "x" * 2_000_000 + '"}', []),
    ],
)
def test_scripts_may_be_damaged_deep_or_large(text, values):
    page = Page.from_html(f"{script(text)}<p>shown")
    assert [value.text for value in page.structured_values if value.text] == values
    assert View(page).texts == ["shown"] and Page.from_canonical(page.canonical()).sha == page.sha


def test_the_number_of_structured_values_is_limited():
    page = Page.from_html(script([{"name": str(i)} for i in range(20_000)]) + "<p>shown")
    assert len(page) - 3 == MAX_VALUES
    assert len(Page.from_html(script({"a": 1}) * 50 + "<p>x")) < 60
    assert read_json("[1]" + " " * 2_000_000) is None


def test_fields_may_be_structured_values_only(pages):
    def truth(i):
        values = {"name": f"Cup {i}", "sku": f"AB-{i * 7}", "seller": f"Shop {i % 3}", "gtin": f"40{i}12"}
        values |= {"photo": f"https://shop.example/img/{i}.jpg", "price": f"{10 + i}.00", "help": f"/help/{i}"}
        return PageLabels(f"{i}.html", values={name: [value] for name, value in values.items()})

    labels = [truth(i) if i < 2 else None for i in range(len(pages))]
    assert labels_data(pages, labels)
    extractor = Extractor(calibrate=False).fit(pages, labels)
    records = extractor.extract(pages[2:])
    assert extractor.problems_ == [] and extractor.data_
    tested = [truth(i) for i in range(2, len(pages))]
    scores = evaluate(pages[2:], tested, records, extractor.fields_, extractor.images_, extractor.data_)
    assert scores.all_right == 1.0, scores.wrong
    cells = records[0].fields
    assert cells["photo"].value == "/img/2.jpg" and cells["photo"].normal == {"url": "https://shop.example/img/2.jpg"}
    assert cells["help"].normal == {"url": "https://shop.example/help/2"}
    assert pages[2].tags[cells["name"].node] == "#text"  # displayed values are extracted from the text
    selectors = find_selectors(pages, records, extractor.attributes_)
    paths = {selector.field: selector.css for selector in selectors}
    attributes = {selector.field: selector.attribute for selector in selectors}
    assert (attributes["gtin"], attributes["seller"], attributes["name"], attributes["help"]) == (
        "content",
        "",
        "",
        "href",
    )
    assert paths["seller"] == 'script[type="application/ld+json"] Product.offers.seller.name'
    assert paths["gtin"] == "body > div > meta" and paths["name"] == "body > h1"
    og = next(value.node for value in pages[0].structured_values if value.path == "og:title")
    assert css_path(pages[0], og) == 'meta[property="og:title"]'


def test_structured_values_are_not_leaves_if_all_values_are_displayed(pages, tmp_path):
    labels = [PageLabels(f"{i}.html", values={"name": [f"Cup {i}"]}) if i < 2 else None for i in range(len(pages))]
    extractor = Extractor(calibrate=False).fit(pages, labels)
    assert not extractor.data_
    extractor.data_ = True
    extractor.save(tmp_path / "m.medn")
    assert Extractor.load(tmp_path / "m.medn").data_


def test_parts_of_structured_values_can_be_values():
    pages = [
        Page.from_html(f'<meta itemprop=availability content="https://schema.org/{x}"><p>a cup', site="s")
        for x in ("InStock", "SoldOut", "PreOrder", "InStoreOnly")
    ]
    labels = [PageLabels("", values={"state": [x]}) for x in ("InStock", "SoldOut")]
    extractor = Extractor(calibrate=False).fit(pages, [*labels, None, None])
    assert [record.fields["state"].value for record in extractor.extract(pages)[2:]] == ["PreOrder", "InStoreOnly"]


def test_names_are_equal_for_microdata_json_and_displayed_texts():
    micro = View(Page.from_html("<div itemscope itemprop=offers><b itemprop=price>$5.00</b> new</div>"))
    with_json = View(Page.from_html(script({"offers": {"price": "5.00"}}) + "<b>$5</b><i>now only $5.00</i>"))
    json_value = View(Page.from_html(script({"offers": {"price": "5.00"}}) + "x"), data=True)
    for view, k in ((micro, 0), (with_json, 0), (json_value, 1)):
        assert {"data:is=price", "data:path=offers.price"} <= set(leaf_features(view, ["data"])[k]), k
    assert leaf_features(with_json, ["data"])[1] == []  # the text has other words and numbers
    page = Page.from_html(script({"author": {"name": "Ann Lee"}}) + "<p>by Ann Lee<p>x")
    assert leaf_features(View(page), ["data"]) == [["data:has=name"], []]


def test_structured_data_transfers_to_a_new_site():
    """Markup, captions and order of texts differ between sites; JSON-LD names the maker on all of them."""

    def page(site, i):
        maker, line, place = f"{'ABCDEFG'[i]}rno {site}", f"{'HIJKLMN'[i]}bel {site}", f"{'OPQRSTU'[i]}vik {site}"
        order = [(maker, line, place), (line, place, maker), (place, maker, line), (line, maker, place)][site]
        tag = ["p", "li", "b", "i"][site]
        data = {"@type": "Product", "manufacturer": {"name": maker}}
        texts = "".join(f"<{tag}>{text}</{tag}> " for text in order)
        product_page = Page.from_html(f"{script(data)}<div>{texts}</div>", name=f"{site}-{i}", site=f"s{site}.example")
        return product_page, PageLabels(f"{site}-{i}", values={"maker": [maker]})

    products = [page(site, i) for site in range(4) for i in range(5)]
    pages, labels = [p for p, _ in products], [x for _, x in products]
    extractor = Extractor(features="new", calibrate=False).fit(pages[:15], labels[:15])
    records = extractor.extract(pages[15:])
    assert evaluate(pages[15:], labels[15:], records, ["maker"]).all_right == 1.0


def test_items_of_json_are_records_of_a_listing():
    def page(n, start):
        items = [product(start + i, sku=f"X-{start + i}") for i in range(n)]
        data = {"@type": "ItemList", "itemListElement": [{"@type": "ListItem", "item": item} for item in items]}
        return Page.from_html(f"{script(data)}<h1>Cups</h1><p>Loading", name=f"{start}.html", site="s")

    pages = [page(5, 10), page(8, 40)]
    given = PageLabels("10.html", values={"name": ["Cup 11"], "sku": ["X-11"], "price": ["21"]})
    extractor = Extractor(calibrate=False, records="auto").fit(pages, [given, None])
    rows = [{name: cell and cell.value for name, cell in r.fields.items()} for r in extractor.extract(pages)]
    expected = [{"name": f"Cup {i}", "sku": f"X-{i}", "price": str(10 + i)} for i in (*range(10, 15), *range(40, 48))]
    assert rows == expected


def test_structured_data_can_be_labelled(tmp_path):
    path = tmp_path / "a.html"
    path.write_text(script({"sku": "<img src=x onerror=alert(1)>", "a": "b"}) + "<p>x<meta itemprop=gtin content=7>")
    page = Page.from_html(path.read_text(), name="a.html")
    nodes = make_frame(page, path, tmp_path).nodes
    meta = {t for t, tag in enumerate(page.tags) if tag == "meta"}
    texts = {number: nodes[k + 1][2] for k, (_, _, _, number) in enumerate(nodes) if number in meta}
    assert texts == {value.node: value.text for value in page.structured_values} and len(texts) == 3
    assert "script" not in {tag for tag, *_ in nodes}
    assert not any(name.startswith("on") for tag, _, given, _ in nodes if tag != "#" for name in given)
