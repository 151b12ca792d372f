"""Extraction from schema.org data: JSON-LD and microdata, without a model and before that of a model."""

import csv
import json

import pytest
from click.testing import CliRunner

from maxendnet.cli import main
from maxendnet.web import Extractor, Page, PageLabels, SchemaExtractor, as_rows
from maxendnet.web.pages.schema_items import SchemaItems
from maxendnet.web.pages.structured_data import MAX_VALUES


def script(value):
    return f'<script type="application/ld+json">{value if isinstance(value, str) else json.dumps(value)}</script>'


def recipe(i, **more):
    return {
        "@context": "https://schema.org", "@type": "http://schema.org/Recipe", "name": f"Soup &amp; bread {i}",
        "recipeIngredient": [f"{n} cups of {x}" for n, x in enumerate(("leek", "<b>water</b>", "salt"), i)],
        "author": {"@id": "#ann"}, "image": [{"@type": "ImageObject", "name": "a bowl", "url": f"/{i}.jpg"}],
        "publisher": {"@type": "Organization", "name": "The Paper"}, **more,
    }  # fmt: skip


def recipe_page(i, site="soup.example"):
    graph = {"@graph": [{"@type": "WebSite", "name": "Soups", "author": "Bo"}, recipe(i),
                        {"@type": "Person", "@id": "#ann", "name": f"Ann {i}"}]}  # fmt: skip
    return Page.from_html(f"{script(graph)}<h1>Soup no. {i}</h1><p>by <i>Cy {i}</i>", name=f"{i}.html", site=site)


MICRODATA = """<div itemscope itemtype="https://schema.org/Organization"><b itemprop=name>Shop</b></div>
<div itemscope itemtype="https://schema.org/Product"><h1 itemprop=name>Red <i>Cup</i></h1>
<div itemprop=offers itemscope itemtype="https://schema.org/Offer"><meta itemprop=priceCurrency content=EUR>
<span itemprop=price content="12.50">12,50 &euro;</span><link itemprop=url href="/cup"></div>
<span itemprop=brand itemscope><em itemprop=name>Acme</em></span><a itemprop=sameAs href="/x">more</a>
<div itemprop=review itemscope><i itemprop=author>Dee</i></div></div>"""


def test_json_ld_is_read_without_a_model():
    extractor = SchemaExtractor(["title", "ingredients", "author", "image", "price"], several=["ingredients"])
    (record,) = extractor.extract(recipe_page(3))
    assert {name: cell and cell.value for name, cell in record.fields.items()} == {
        "title": "Soup & bread 3", "ingredients": "3 cups of leek; 4 cups of water; 5 cups of salt", "author": "Ann 3",
        "image": "/3.jpg", "price": None,
    }  # fmt: skip
    assert record.fields["ingredients"].values == ("3 cups of leek", "4 cups of water", "5 cups of salt")
    assert record.to_json()["fields"]["title"]["source"] == "json-ld"
    assert as_rows([record])[0]["title_source"] == "json-ld" and as_rows([record])[0]["title_confidence"] == 0.95


def test_microdata_is_read_without_a_model():
    page = Page.from_html(MICRODATA)
    fields = {"name": "name", "price": "price", "currency": "offers.priceCurrency", "brand": "brand", "url": "url",
              "link": "offers.url", "author": "author", "see": "same_as"}  # fmt: skip
    (record,) = SchemaExtractor(fields).extract(page)
    assert {name: cell and cell.value for name, cell in record.fields.items()} == {
        "name": "Red Cup", "price": "12.50", "currency": "EUR", "brand": "Acme", "url": None, "link": "/cup",
        "author": None, "see": "/x",
    }  # fmt: skip
    assert record.fields["price"].source == "microdata"
    assert page.text(record.fields["brand"].node) == "Acme"


def test_the_item_with_most_fields_describes_the_page():
    other = {"@type": "Product", "name": "Other", "offers": {"price": 1}}
    this = {"@type": "Product", "name": "This", "sku": "A1"}
    page = Page.from_html(script([{"@type": "WebPage", "name": "Shop", "sku": "?"}, other, {**other, **this}]))
    assert {n: v[0].text for n, v in SchemaItems(page).values(["name", "price", "sku"]).items()} == {
        "name": "This", "price": "1", "sku": "A1",
    }  # fmt: skip
    assert SchemaItems(page).property_names() == ["name", "offers", "sku"]


def test_a_page_without_its_own_item_is_described_by_the_page_item():
    page = Page.from_html(script([{"@type": "Person", "name": "Ann"}]))
    assert SchemaItems(page).values(["name"])["name"][0].text == "Ann"


def test_damaged_and_circular_data():
    loop = {"@type": "Product", "@id": "#a", "isVariantOf": {"@id": "#a"}}
    page = Page.from_html(script('{"@type": "Product", "name": ') + script(loop))
    assert SchemaItems(page).values(["name", "price"]) == {}
    deep = Page.from_html("<div itemscope itemprop=a>" * 3000 + "<b itemprop=price>5")
    assert SchemaItems(deep).values(["price"]) == {}
    many = Page.from_html(script({"@type": "Product", "sku": [str(n) for n in range(2 * MAX_VALUES)]}))
    assert len(SchemaItems(many).values(["sku"])["sku"]) < MAX_VALUES


def test_labels_override_structured_data():
    pages = [recipe_page(i) for i in range(6)]
    labels = [PageLabels(p.name, p.site, values={"author": [f"Cy {i}"]}) if i < 3 else None
              for i, p in enumerate(pages)]  # fmt: skip
    model = Extractor(calibrate=False).fit(pages, labels)
    other = recipe_page(9, "other.example")
    (known, new) = SchemaExtractor(["title"], extractor=model).extract([pages[5], other])
    assert (known.fields["author"].value, known.fields["author"].source) == ("Cy 5", "")
    assert (new.fields["author"].value, new.fields["author"].source) == ("Ann 9", "json-ld")
    assert [row.fields["title"].value for row in (known, new)] == ["Soup & bread 5", "Soup & bread 9"]


def run(*args, code=0):
    result = CliRunner().invoke(main, ["web", *map(str, args)])
    assert result.exit_code == code, result.output
    return result.output


def test_extract_schema_command(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    for i in range(3):
        (pages / f"{i}.html").write_text(script(recipe(i)) + "<p>soup")
    out = tmp_path / "out.csv"
    extract = ("extract", "--schema", pages, "-o", out)
    run(*extract, "--fields", "dish=name,ingredients", "--several", "ingredients")
    rows = list(csv.DictReader(out.open()))
    assert [(row["dish"], row["dish_source"]) for row in rows] == [(f"Soup & bread {i}", "json-ld") for i in range(3)]
    assert rows[1]["ingredients"].split("; ") == ["1 cups of leek", "2 cups of water", "3 cups of salt"]
    assert "recipeingredient" in run(*extract, code=2)  # suggests the properties of the pages
    assert "require --schema" in run("extract", "m.medn", pages, "--fields", "name", code=2)
    assert "name the pages" in run("extract", pages, code=2)


def test_a_model_completes_structured_data(tmp_path):
    pages = [recipe_page(i) for i in range(4)]
    labels = [PageLabels(p.name, p.site, values={"author": [f"Cy {i}"]}) for i, p in enumerate(pages)]
    Extractor(calibrate=False).fit(pages, labels).save(tmp_path / "m.medn")
    path = tmp_path / "new.html"
    path.write_text("<h1>Soup no. 7</h1><p>by <i>Cy 7</i>" + script(recipe(7, author="Bo")))
    line = json.loads(run("extract", "--schema", tmp_path / "m.medn", path, "--site", "new.example"))
    assert line["fields"]["author"]["value"] == "Bo"
    line = json.loads(run("extract", "--schema", tmp_path / "m.medn", path, "--site", "soup.example"))
    assert line["fields"]["author"]["value"] == "Cy 7"


@pytest.mark.parametrize("fields", [[], {}])
def test_fields_are_required(fields):
    with pytest.raises(ValueError, match="no fields are given"):
        SchemaExtractor(fields)
