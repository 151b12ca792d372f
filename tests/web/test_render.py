import shutil

import numpy as np
import pytest

from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.page import read_page
from maxendnet.web.rendering.chromium import PROGRAMS, Chromium, RenderError
from maxendnet.web.rendering.render import render_pages
from maxendnet.web.tool.toy import toy_pages
from maxendnet.web.views.view import View

pytestmark = pytest.mark.skipif(not any(map(shutil.which, PROGRAMS)), reason="needs Chromium (apt install chromium)")


def draw(tmp_path, *texts):
    pairs = []
    for i, text in enumerate(texts):
        path = tmp_path / f"{i}.html"
        path.write_text(text, encoding="utf-8")
        pairs.append((read_page(path), path))
    pages, problems = render_pages(pairs)
    assert not problems
    return pages


def row(page, text):
    return page.layout[[t.strip() for t in page.texts].index(text)]


def test_boxes_fonts_and_colours(tmp_path):
    (tmp_path / "a.css").write_text("h1 { font-size: 40px; color: #ff0000; background: #0000ff }")
    (page,) = draw(
        tmp_path,
        "<link rel=stylesheet href=a.css><h1>Big</h1><p style='position:absolute; left:50px; top:300px; width:200px'>"
        "<b>bold</b></p><p style='display:none'>gone</p><table><td>cell</table>"
        "<script>document.body.innerHTML=''</script>",
    )
    assert row(page, "Big")[4] == 40 and row(page, "Big")[8] == 0xFF0000 and row(page, "Big")[9] == 0x0000FF
    assert row(page, "bold")[:2].tolist() == [50, 316] and row(page, "bold")[5] == 1
    assert row(page, "gone")[:4].tolist() == [-1] * 4
    assert "gone" not in View(page).texts and "cell" in View(page).texts


def test_a_canonical_page_keeps_its_numbers(tmp_path):
    (page,) = draw(tmp_path, "<body><table><tr><td>1</td></tr></table><a/><p>x</p></body>")
    assert page.tags == ["body", "table", "tr", "td", "#text", "a", "p", "#text"]
    assert (page.layout[:, 2] >= 0).all() and page.layout[7, 1] > page.layout[4, 1]


def test_the_network_is_off(tmp_path):
    (page,) = draw(
        tmp_path, "<img src='http://example.com/a.png'><iframe src='https://example.com'></iframe>"
        "<meta http-equiv=refresh content='0;url=http://example.com'><p>here</p>",
    )  # fmt: skip
    assert row(page, "here")[2] > 0


def test_a_slow_browser_is_stopped(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("<p>x")
    with Chromium(seconds=10) as browser:
        browser.start()
        pid = browser._pid
        browser.seconds = 0.0
        with pytest.raises(RenderError, match="took more than 0 s"):
            browser.load(path.as_uri())
        assert browser._pid == 0
    import os

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_error_without_a_browser_names_the_package(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RenderError, match="apt install chromium"):
        Chromium()


def test_a_model_with_layout(tmp_path):
    toy = toy_pages(n_sites=2, n_pages=4)
    toy.write(tmp_path)
    pages, problems = render_pages([(page, tmp_path / page.name) for page in toy.pages])
    assert not problems and all(np.isfinite(page.layout).all() for page in pages)
    extractor = Extractor(calibrate=False).fit(pages[:3] + pages[4:7], toy.labels[:3] + toy.labels[4:7])
    assert extractor.layout_ and any(name.startswith("layout:") for name in extractor.estimator_.feature_names_)
    assert extractor.extract(pages[3:4])[0].fields["price"].value == toy.labels[3].values["price"][0]
    with pytest.raises(ValueError, match="trained on rendered pages"):
        extractor.extract(toy.pages[:1])
