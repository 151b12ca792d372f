"""The recipes of docs/web.md for pandas and Scrapy."""

import re
from pathlib import Path

import pytest

from maxendnet.web import Extractor, toy_pages

DOCUMENT = Path(__file__).parents[2] / "docs" / "web.md"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    toy = toy_pages(n_sites=1, n_pages=6, missing=0.0)
    toy.write(folder / "pages")
    Extractor(calibrate=False).fit(toy.pages[:3], toy.labels[:3]).save(folder / "shop.medn")
    return folder, toy


def test_the_data_frame_of_the_documentation(shop, monkeypatch):
    pandas = pytest.importorskip("pandas")
    folder, toy = shop
    monkeypatch.chdir(folder)
    line = re.search(r"^    frame = (.*)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)[1]
    import maxendnet.web

    frame = eval(line, {"pandas": pandas, "maxendnet": maxendnet, "Extractor": Extractor, "Path": Path})
    prices = dict(zip(frame["page"], frame["price"]))
    assert prices == {f"{i}.html": labels.values["price"][0] for i, labels in enumerate(toy.labels)}
    assert frame["price_number"].notna().all() and frame["price_confidence"].between(0, 1).all()


def test_the_scrapy_pipeline_of_the_documentation(shop):
    scrapy = pytest.importorskip("scrapy")
    from scrapy.crawler import CrawlerProcess  # noqa: F401 - Scrapy is complete
    from scrapy.utils.test import get_crawler

    folder, toy = shop
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    code = next(block for block in blocks if "class ExtractFields" in block)
    names = {"__name__": "pipelines"}
    exec(code, names)
    crawler = get_crawler(scrapy.Spider, {"MAXENDNET_MODEL": str(folder / "shop.medn")})
    pipeline = names["ExtractFields"].from_crawler(crawler)
    assert pipeline.min_confidence == 0.2
    for i, labels in enumerate(toy.labels):
        html = (folder / "pages" / toy.pages[i].name).read_text(encoding="utf-8")
        item = pipeline.process_item({"html": html, "url": f"https://shop.example/{i}", "site": toy.pages[i].site})
        assert item == {"url": f"https://shop.example/{i}", **{name: x[0] for name, x in labels.values.items()}}
