import time

import pytest
from hostile_pages import hostile_pages

from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.page import Page, PageError, read_page
from maxendnet.web.tool.toy import toy_pages

PAGES = dict(hostile_pages(100))


@pytest.fixture(scope="module")
def fitted():
    toy = toy_pages(n_sites=2, n_pages=2)
    return Extractor(calibrate=False).fit(toy.pages, toy.labels)


def test_malformed_pages_are_read_and_extracted(fitted):
    for name, data in PAGES.items():
        started = time.process_time()
        page = read_page(data, name=name)
        again = Page.from_canonical(page.canonical()) if len(page) else page
        assert again.tags == page.tags and again.texts == page.texts, name
        (record,) = fitted.extract([page])
        for cell in record.fields.values():
            assert cell is None or 0 <= cell.confidence <= 1, name
        fitted.extract([page], records="auto")
        assert time.process_time() - started < 10, name


def test_text_before_malformed_markup_is_read():
    for name in ("unclosed attribute", "unclosed comment", "unclosed script"):
        assert read_page(PAGES[name]).text(2) == "before", name
    for name in ("levels", "inline levels", "tables in tables", "fonts", "links around blocks", "canonical levels"):
        assert "x" in read_page(PAGES[name]).texts, name


def test_a_page_of_fifty_megabytes_is_refused_without_parsing():
    started = time.process_time()
    with pytest.raises(PageError, match=r"has 50,000,000 bytes; the maximum is most_bytes=16,000,000"):
        read_page(b"x" * 50_000_000, name="big.html")
    assert time.process_time() - started < 1  # processor time; parsing would take much longer
