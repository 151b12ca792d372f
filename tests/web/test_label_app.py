"""The labelling page in Chromium: search, menu, touch targets, large pages, certainty of listings, projects."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from test_label_browser import FIELDS, SURE, reports, saved, settle, working
from toy_list import toy_list

from maxendnet.web.labelling.command import prepare
from maxendnet.web.labelling.frame import safe_css
from maxendnet.web.rendering.chromium import PROGRAMS
from maxendnet.web.tool.toy import toy_pages

needs_chromium = pytest.mark.skipif(
    not any(map(shutil.which, PROGRAMS)), reason="needs Chromium (apt install chromium)"
)
SMALL = """[...document.querySelectorAll("button, summary, input")].filter((e) => e.checkVisibility()).map((e) =>
  [e.textContent || e.id, e.getBoundingClientRect().width, e.getBoundingClientRect().height])
  .filter(([, width, height]) => width < 44 || height < 44)"""


def type_text(browser, text):
    browser.run("get('find').value = ''")
    browser.call("Input.insertText", text=text)


@needs_chromium
def test_a_text_is_found_and_assigned_with_the_keyboard(tmp_path):
    toy = toy_pages(n_sites=1, n_pages=2, missing=0.0)
    toy.write(tmp_path / "pages")
    with working(tmp_path) as (browser, _):
        name = browser.run("page.name")
        truth = {x.page: x for x in toy.labels}[name].values
        n = browser.run(f"page.leaves.filter(([, text]) => text.includes({json.dumps(truth['price'][0])})).length")
        browser.press("2")  # the field price
        browser.press("/")
        assert browser.run("document.activeElement.id") == "find"
        browser.press("1")
        assert browser.run("active") == 1 and browser.run("get('find').value") == "1"  # digits are no commands here
        type_text(browser, truth["price"][0])
        assert browser.run("get('matches').textContent") == f"1 of {n}"
        for _ in range(n):  # around to the first match
            browser.press("Enter")
        assert browser.run("get('matches').textContent") == f"1 of {n}"
        browser.press("Escape")
        browser.press("Enter")
        browser.wait(SURE)
        assert saved(tmp_path)[name][1] == [("price", truth["price"][0])]
        browser.press("/")
        type_text(browser, "no such text")
        assert browser.run("get('matches').textContent") == "not found" and browser.run("cursor") == -1
        assert reports(browser) == []


@needs_chromium
def test_few_buttons_and_a_menu(tmp_path):
    toy_pages(n_sites=1, n_pages=2).write(tmp_path / "pages")
    with working(tmp_path) as (browser, _):
        visible = (
            "[...document.querySelectorAll('#buttons button, #buttons summary')].filter((e) => e.checkVisibility())"
        )
        names = browser.run(f"{visible}.map((e) => e.textContent.trim())")
        assert names == ["All correct, next page d", "Not on this page", "Later", "Undo", "More"]
        x, y = browser.run("(() => {const r = get('more').getBoundingClientRect(); return [r.x + 20, r.y + 9];})()")
        browser.click(x, y)
        assert len(browser.run(f"{visible}.map((e) => e.textContent)")) == 11
        corners = browser.run("[...get('menu').children].map((e) => e.getBoundingClientRect()).map((r) => [r.x, r.y])")
        assert min(map(min, corners)) >= 0
        x, y = browser.run("(() => {const r = get('range').getBoundingClientRect(); return [r.x + 20, r.y + 9];})()")
        browser.click(x, y)
        assert browser.run("mode") == "range" and not browser.run("get('more').open")


@needs_chromium
def test_touch_targets_have_44_pixels(tmp_path):
    toy_pages(n_sites=2, n_pages=2).write(tmp_path / "pages")
    with working(tmp_path, width=390, height=844) as (browser, _):
        browser.run("get('more').open = get('all').open = get('help').open = true")
        assert browser.run(SMALL) == []
        assert browser.run("document.documentElement.scrollWidth") <= 390
        bottom = "get('right').getBoundingClientRect().bottom"
        assert browser.run(f"{bottom} <= innerHeight")


@needs_chromium
def test_pages_are_not_certain_before_calibration(tmp_path):
    """With one labelled record no record can be held out, so confidences of the others mean nothing yet."""
    (tmp_path / "pages").mkdir()
    for i in range(3):
        (tmp_path / "pages" / f"{i}.html").write_text(toy_list(6, random_state=i)[0])
    item = toy_list(6, random_state=0)[1][0]
    line = {"page": "0.html", "values": {name: [item[name]] for name in ("name", "price")}}
    (tmp_path / "shop.labels.jsonl").write_text(json.dumps(line) + "\n")
    with working(tmp_path, fields=["name", "price"], records="auto") as (browser, session):
        settle(session, browser)
        browser.wait("page.records.length === 6")
        state = session.state()
        assert state["has_model"] and not state["calibrated"] and state["certain"] == 0
        assert "certain" not in browser.run("get('counts').textContent")


def test_projects_in_one_folder_have_their_own_labels(tmp_path):
    toy_pages(n_sites=1, n_pages=3).write(tmp_path / "pages")
    first, _ = prepare(tmp_path / "shop", tmp_path / "pages", fields=FIELDS)
    second, notes = prepare(tmp_path / "books", tmp_path / "pages", fields=["title"])
    assert first.file.path == tmp_path / "shop.labels.jsonl" and second.file.path == tmp_path / "books.labels.jsonl"
    assert notes == []
    (tmp_path / "labels.jsonl").write_text('{"page": "x", "values": {"a": "b"}}\n')
    _, notes = prepare(tmp_path / "books", tmp_path / "pages", fields=["title"])
    assert "to continue with" in notes[0] and "--labels" in notes[0]


@pytest.mark.parametrize("address", [
    "url(http://x.com/a)", "URL( 'http://x.com/a' )", "u\\72l(http://x.com/a)", "\\75 \\72 \\6c (http://x.com/a)",
    "u\\rl(//x.com/a)", "image-set('http://x.com/a' 1x)", "-webkit-image-set(url(http://x.com/a) 1x)",
    "src('http://x.com/a')", "url(data:text/html,a)", "url(data:image/svg+xml,a)",
])  # fmt: skip
def test_style_sheets_have_no_addresses(address):
    css = safe_css(f"p {{ color: red; background: {address} }} q {{ top: 0 }}")
    assert css.startswith("p { color: red; background: ") and css.endswith(" q { top: 0 }")
    assert not re.search(r"(?:url|src|image-set)\s*\(", css, re.IGNORECASE) and "\\" not in css


@pytest.mark.parametrize(
    "rule", ["@import url(a.css);", "@IMPORT 'a.css' screen;", "@\\69mport 'a.css';", "@import 'a"]
)
def test_style_sheets_import_nothing(rule):
    assert "import" not in safe_css(f"{rule} p {{ color: red }}").lower()
    assert safe_css("p::before { content: '\\201C' }") == "p::before { content: '\\201C' }"


def test_ctrl_c_is_quiet(tmp_path):
    toy_pages(n_sites=1, n_pages=3).write(tmp_path / "pages")
    command = [sys.executable, "-c", "from maxendnet.cli import main; main()",
               "web", "label", "shop", "pages", "--fields", "name"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    lines = iter(process.stdout.readline, "")
    next(line for line in lines if line.startswith("Open http"))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all processes of the command
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors and "Error" not in errors, errors
    assert process.returncode == 0


@needs_chromium
def test_a_click_on_a_page_of_many_texts_looks_at_one_place(tmp_path):
    (tmp_path / "pages").mkdir()
    lines = "<br>".join(f"Line number {k}" for k in range(300))
    (tmp_path / "pages" / "a.html").write_text(f"<h1>Lines</h1>{lines}", encoding="utf-8")
    with working(tmp_path) as (browser, _):
        browser.run("window.looked = 0; hidesText = () => { looked += 1; return false; }; 0")
        browser.click_text("Line number 200")
        browser.wait(SURE)
        assert saved(tmp_path)["a.html"][1] == [("name", "Line number 200")]
        assert browser.run("looked") == 1  # the first place for the tag is free
        browser.run("show()")
        assert browser.run("looked") == 1 and browser.run("document.querySelectorAll('.mark span').length") == 1
        assert reports(browser) == []
