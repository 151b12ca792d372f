"""The labelling page in Chromium: mouse, keyboard, saved labels, and a hostile page."""

import errno
import json
import shutil
import threading
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest
from labelling_browser import CTRL, SHIFT, Browser
from listing_pages.items import FIELDS as EVENT
from listing_pages.pages import make_listings
from test_label_frame import HOSTILE
from toy_list import toy_list

from maxendnet.web.fields.spans import Span, span_text
from maxendnet.web.labelling.command import prepare
from maxendnet.web.labelling.server import LabelServer
from maxendnet.web.pages.page import read_page
from maxendnet.web.rendering.chromium import PROGRAMS
from maxendnet.web.tool.toy import toy_pages
from maxendnet.web.views.view import View

pytestmark = pytest.mark.skipif(not any(map(shutil.which, PROGRAMS)), reason="needs Chromium (apt install chromium)")
FIELDS = ["name", "price", "brand"]
SURE = "page && !busy && unsaved === 0"


@contextmanager
def working(folder, width=1280, height=800, **settings):
    session, _ = prepare(folder / "shop", folder / "pages", **{"fields": FIELDS, **settings})
    with LabelServer(session) as server, Browser(server.origin, width, height) as browser:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        session.start()
        try:
            browser.begin(server.address)
            browser.wait(SURE)
            yield browser, session
        finally:
            browser.close()
            server.shutdown()
            thread.join()
            session.stop()


def saved(folder):
    """Return for each page whether it is done, and the labelled texts."""
    labels_of = {}
    for line in (folder / "shop.labels.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        page = read_page(folder / "pages" / row["page"])
        assert row["sha"] == page.sha
        view = View(page, images=True)
        spans = [place if type(place) is int else Span(*place) for place, _ in row["labels"]]
        texts = [page.text(place) if type(place) is int else span_text(view, place) for place in spans]
        labels_of[row["page"]] = row["done"], [(name, text) for text, (_, name) in zip(texts, row["labels"])]
    return labels_of


def reports(browser):
    """Return the errors of the browser console except those of the security policy."""
    wrong = [e["params"] for e in browser._events if e["method"] == "Runtime.exceptionThrown"]
    entries = [e["params"]["entry"] for e in browser._events if e["method"] == "Log.entryAdded"]
    return wrong + [e for e in entries if e["level"] == "error" and e["source"] != "security"]


def settle(session, browser):
    """Wait until the model is trained and the page is updated."""
    stop = time.monotonic() + 300
    while session._changed or session.doing:
        assert time.monotonic() < stop, session.problem
        time.sleep(0.02)
    browser.run("poll()")


def test_clicks_and_keys_give_the_right_labels(tmp_path):
    toy = toy_pages(n_sites=2, n_pages=3, missing=0.0)
    toy.write(tmp_path / "pages")
    truth = {x.page: {name: x.values[name][0] for name in FIELDS} for x in toy.labels}
    with working(tmp_path) as (browser, session):
        first = browser.run("page.name")
        # the next empty field is selected automatically
        for name in FIELDS[:2]:
            browser.click_text(truth[first][name] if name == "price" or "shop" in first else "")
        browser.wait(SURE)
        done, labels = saved(tmp_path)[first]  # on the disk before Enter, as a page in progress
        assert not done and len(labels) == 2
        # a wrong click, then its correction
        browser.press("3")
        browser.click_text("Help")
        browser.press("3")
        browser.click_text(truth[first]["brand"])
        browser.press("Enter")
        browser.wait(f"{SURE} && page.name !== {json.dumps(first)}")
        done, labels = saved(tmp_path)[first]
        assert done and {name for name, _ in labels} == set(FIELDS) and len(labels) == 3
        assert dict(labels)["name"] == truth[first]["name"] and dict(labels)["brand"] == truth[first]["brand"]
        second = browser.run("page.name")
        assert second.split("/")[0] != first.split("/")[0]  # one page of each site comes first
        for k, name in enumerate(FIELDS):
            browser.press(str(k + 1))
            settle(session, browser)
            if not browser.run(f"valuesOf({k}, null).some((v) => v.text === {json.dumps(truth[second][name])})"):
                browser.click_text(truth[second][name])
        browser.press("Enter")
        browser.wait(f"{SURE} && page.name !== {json.dumps(second)}")
        settle(session, browser)
        # both sites are labelled: the suggestions are correct, and Enter confirms them
        third = browser.run("page.name")
        shown = browser.run("[...document.querySelectorAll('.row .value')].map((v) => v.textContent)")
        assert shown == [truth[third][name] for name in FIELDS]
        assert browser.run("document.querySelectorAll('.mark:not(.confirmed)').length") == 3
        assert browser.run("[...document.querySelectorAll('.sure')].every((s) => s.textContent === 'suggested')")
        browser.press("Enter")
        browser.wait(f"{SURE} && page.name !== {json.dumps(third)}")
        assert saved(tmp_path)[third][0]
        browser.run("poll()")
        assert browser.run("document.getElementById('counts').textContent").startswith("3 of 6 pages done")
        assert not browser.refused and not reports(browser)
    assert (tmp_path / "shop.medn").exists()


def test_ranges_further_values_removal_and_undo(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text(
        "<h1>Cup</h1>" + "".join(f"<p>part {i}</p>" for i in range(5)) + "<p>$5</p>"
    )
    with working(tmp_path, fields=["about", "price"]) as (browser, _):

        def now():
            browser.wait(SURE)
            return saved(tmp_path)["a.html"][1]

        browser.click_text("part 1")
        browser.press("1")
        browser.click_text("part 3", SHIFT)
        assert now() == [("about", f"part {i}") for i in (1, 2, 3)]
        browser.click_text("Cup", CTRL)
        assert now() == [("about", x) for x in ("Cup", "part 1", "part 2", "part 3")]
        browser.click_text("part 2")  # a second click removes the label
        assert now() == [("about", x) for x in ("Cup", "part 1", "part 3")]
        browser.press("2")
        browser.click_text("$5")
        assert ("price", "$5") in now()
        browser.press("2")
        browser.press("Delete")
        assert now() == [("about", x) for x in ("Cup", "part 1", "part 3")]
        browser.press("z", CTRL)
        assert ("price", "$5") in now()
        browser.press("1")
        browser.click_text("part 4")  # a click without modifier replaces
        assert now() == [("about", "part 4"), ("price", "$5")]
        browser.press("Enter")
        browser.wait("page.source === 'done'")
        assert saved(tmp_path)["a.html"][0]


PARTS = (
    "<h1>Teapot  for\n two</h1><p>Our price: $12.50 incl. VAT</p><p>by <a>Ann Lee</a> and <a>Bo Ray</a></p>"
    "<p>12 Main St<br>Springfield</p><p>Öl – 5 €</p>"
)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_parts_of_texts_and_values_across_texts(tmp_path, size):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text(PARTS, encoding="utf-8")
    with working(tmp_path, *size, fields=["name", "price", "author", "address"]) as (browser, _):

        def now():
            browser.wait(SURE)
            return dict(saved(tmp_path)["a.html"][1])

        browser.drag("Teapot", "for")
        assert now() == {"name": "Teapot for"}
        browser.drag("12.50", "12.50")  # assigned to the next empty field
        assert now()["price"] == "12.50"
        browser.drag("Ann", "Bo Ray")
        assert now()["author"] == "Ann Lee and Bo Ray"
        browser.drag("12 Main", "Springfield")
        assert now() == {"name": "Teapot for", "price": "12.50", "author": "Ann Lee and Bo Ray",
                         "address": "12 Main St Springfield"}  # fmt: skip
        shown = browser.run("[...document.querySelectorAll('.row .value')].map((v) => v.textContent)")
        assert shown == list(now().values())
        assert browser.run("document.querySelectorAll('.mark.confirmed').length") == 4
        browser.press("2")
        browser.double_click("incl")
        assert now()["price"] == "incl"
        browser.press("2")
        browser.double_click("12.50")  # a word may be a number without its decimals
        browser.double_click("VAT", SHIFT)
        assert now()["price"] == "12.50 incl. VAT"
        browser.press("z", CTRL)
        browser.press("z", CTRL)
        assert now()["price"] == "incl"
        # consecutive texts, then merged into one value
        browser.press("4")
        browser.click_text("12 Main St")
        browser.press("4")
        browser.click_text("Springfield", SHIFT)
        browser.press("m")
        assert now()["address"] == "12 Main St Springfield"
        browser.press("1")
        browser.click_text("Teapot for two")
        assert now()["name"] == "Teapot for two"
        browser.press("1")
        browser.drag("Öl", "€")
        assert now()["name"] == "Öl – 5 €"
        assert not reports(browser)


def test_nothing_is_lost_with_the_tab_or_the_server(tmp_path):
    toy = toy_pages(n_sites=1, n_pages=2)
    toy.write(tmp_path / "pages")
    price = toy.labels[0].values["price"][0]
    with working(tmp_path) as (browser, _):
        browser.run("open(0)")
        browser.press("2")
        browser.click_text(price)
        browser.wait(SURE)
    with working(tmp_path) as (browser, _):  # new server, new browser
        browser.run("open(0)")
        assert browser.run("valuesOf(1, null).map((v) => v.text)") == [price]
        assert browser.run("page.source") == "begun"


def test_a_failed_save_is_reported_and_repeated(tmp_path, monkeypatch):
    toy = toy_pages(n_sites=1, n_pages=2)
    toy.write(tmp_path / "pages")
    with working(tmp_path) as (browser, session):
        put = session.file.put

        def full(row):
            raise OSError(errno.ENOSPC, "No space left on device", "labels.jsonl")

        monkeypatch.setattr(session.file, "put", full)
        name = browser.run("page.name")
        browser.press("1")
        browser.click_text("Help")
        browser.wait("document.getElementById('status').textContent.includes('No space left')")
        browser.press("Enter")
        browser.press("ArrowRight")
        browser.wait("failed && !busy")
        assert browser.run("page.name") == name  # the page stays open until it is saved
        monkeypatch.setattr(session.file, "put", put)
        browser.wait(f"!failed && {SURE}")
        assert saved(tmp_path)[name] == (False, [("name", "Help")])


def test_a_small_window_and_several_records(tmp_path):
    (tmp_path / "pages").mkdir()
    for i in range(2):
        (tmp_path / "pages" / f"{i}.html").write_text(toy_list(4, random_state=i)[0])
    items = toy_list(4, random_state=0)[1]
    line = {"page": "0.html", "values": {name: [x[name] for x in items] for name in ("name", "price")}}
    (tmp_path / "shop.labels.jsonl").write_text(json.dumps(line) + "\n")
    with working(tmp_path, 420, 700, fields=["name", "price"], records="auto") as (browser, session):
        settle(session, browser)
        browser.wait("page.n === 1 && page.records.length === 4")
        assert browser.run("document.querySelectorAll('.table tr').length") == 5
        # nothing is wider than the window, and both halves are visible
        assert browser.run("document.documentElement.scrollWidth") == 420
        assert browser.run("stage.clientHeight") > 200 and browser.run("scale") < 1
        # a click on another price changes only this record
        items = toy_list(4, random_state=1)[1]
        before = browser.run("page.records.map((_, r) => valuesOf(1, r).map((v) => v.text))")
        assert before == [[x["price"]] for x in items]
        browser.press("2")
        browser.click_text(items[2]["name"])
        browser.wait(SURE)
        after = browser.run("page.records.map((_, r) => valuesOf(1, r).map((v) => v.text))")
        assert after == [[x["price"]] if r != 2 else [x["name"]] for r, x in enumerate(items)]
        assert not reports(browser)


def test_the_table_of_a_listing_does_not_mix_records(tmp_path):
    """Each row of names is above a row of prices, so the nodes of a record are not contiguous."""
    listed = make_listings(["name-row"], n_pages=2, random_state=1, fewest=8, most=12)
    (tmp_path / "pages").mkdir()
    for i, html in enumerate(listed.html.values()):
        (tmp_path / "pages" / f"{i}.html").write_text(html)
    full = next(item for item in listed.items[0] if all(item.get(name) for name in EVENT))
    line = {"page": "0.html", "values": {name: [full[name]] for name in EVENT}}
    (tmp_path / "shop.labels.jsonl").write_text(json.dumps(line) + "\n")
    with working(tmp_path, fields=list(EVENT), records="auto") as (browser, session):
        settle(session, browser)
        browser.wait("page.n === 1 && page.records.length > 1")
        rows = browser.run("page.records.map((_, r) => fields.map((_, f) => valuesOf(f, r).map((v) => v.text)))")
        assert rows == [[[item[name]] if item.get(name) else [] for name in EVENT] for item in listed.items[1]]
        assert browser.run("document.querySelector('aside').clientWidth") > 450  # room for four columns
        browser.press("d")
        browser.wait(f"{SURE} && page.source === 'done'")
        written = json.loads((tmp_path / "shop.labels.jsonl").read_text().splitlines()[1])
        assert len(written["records"]) == len(rows) and not reports(browser)
        session.show(1)


def test_a_hostile_page_runs_nothing_and_fetches_nothing(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "bad.html").write_text(HOSTILE.replace("evil()", "top.evil=1;document.title='evil'"))
    (tmp_path / "pages" / "x.png").write_bytes(b"not a picture, so that onerror is called")
    with working(tmp_path) as (browser, _):
        assert browser.run("page.name") == "bad.html"
        browser.click_text("link")
        browser.click_text("Go")
        browser.press("1")
        browser.click_text("Hostile Cup")
        browser.wait(SURE)
        browser.wait_until_idle()
        assert browser.run("typeof window.evil") == "undefined" and "evil" not in browser.run("document.title")
        assert browser.run("frame.contentDocument.title") == "page"
        assert not browser.refused
        assert all("/pages/" in x or "/api/" in x or x.endswith(("/", ".js", "app.css")) or x.startswith("data:")
                   for x in browser.reached)  # fmt: skip
        assert not any("evil" in x for x in browser.reached)
        assert saved(tmp_path)["bad.html"][1] == [("name", "Hostile Cup"), *saved(tmp_path)["bad.html"][1][1:]]


def test_the_sandbox_alone_blocks_a_hostile_page(tmp_path):
    """Insert the original HTML with its handlers and addresses into the frame."""
    (tmp_path / "pages").mkdir()
    text = HOSTILE.replace("evil()", "top.evil=1")
    (tmp_path / "pages" / "bad.html").write_text(text)
    with working(tmp_path) as (browser, _):
        browser.run(f"frame.contentDocument.documentElement.innerHTML = {json.dumps(text)}; 1")
        browser.run("frame.contentDocument.querySelector('h1').click(); 1")
        browser.run("const s = frame.contentDocument.createElement('script'); s.textContent = 'top.evil = 1';"
                    "frame.contentDocument.body.append(s); 1")  # fmt: skip
        browser.run("frame.contentDocument.querySelector('form').submit(); 1")
        browser.run("const a = frame.contentDocument.createElement('a'); a.href = 'http://evil.example/z';"
                    "frame.contentDocument.body.append(a); a.click(); 1")  # fmt: skip
        browser.wait("frame.contentDocument === null")  # the policy has replaced the frame by an error page
        browser.wait_until_idle()
        assert browser.run("typeof window.evil") == "undefined"
        assert not browser.refused, browser.refused
        assert browser.run("location.href").startswith(browser.origin)


def test_five_pages_with_the_keyboard_only(tmp_path):
    """Arrow keys move between texts, Enter assigns, d ends the page."""
    toy = toy_pages(n_sites=1, n_pages=5, missing=0.0)
    toy.write(tmp_path / "pages")
    truth = {x.page: {name: x.values[name][0] for name in FIELDS} for x in toy.labels}
    with working(tmp_path) as (browser, session):
        for _ in range(5):
            settle(session, browser)
            name = browser.run("page.name")
            for f, field in enumerate(FIELDS):
                if browser.run(f"valuesOf({f}, null).some((v) => v.text === {json.dumps(truth[name][field])})"):
                    continue
                target = browser.run(f"page.leaves.findIndex(([, text]) => text === {json.dumps(truth[name][field])})")
                browser.press(str(f + 1))
                for _ in range(100):
                    at = browser.run("cursor")
                    if at == target:
                        break
                    browser.press("ArrowDown" if at < target else "ArrowUp")
                assert browser.run(
                    "(() => { const b = boxOf(page.leaves[cursor][0]); return b.top * scale >= stage.scrollTop &&"
                    " b.bottom * scale <= stage.scrollTop + stage.clientHeight; })()"
                )
                browser.press("Enter")
            browser.wait(SURE)
            assert browser.run("page.name") == name  # Enter assigned the text and did not end the page
            browser.press("d")
            browser.wait(f"{SURE} && (page.name !== {json.dumps(name)} || state.done === 5)")
        labels_of = saved(tmp_path)
        assert {name: dict(labels) for name, (_, labels) in labels_of.items()} == truth
        assert all(done for done, _ in labels_of.values()) and not reports(browser)


def test_page_keys_move_by_a_screen(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text("".join(f"<p>Thing {i}</p>" for i in range(100)))
    top = "boxOf(page.leaves[cursor][0]).top"
    with working(tmp_path) as (browser, _):
        browser.press("ArrowDown")
        assert browser.run("cursor") == 0
        tops = [browser.run(top)]
        for _ in range(3):
            browser.press("PageDown")
            tops.append(browser.run(top))
        high = browser.run("stage.clientHeight / scale")
        assert all(0.8 * high <= b - a <= high for a, b in pairwise(tops))
        browser.press("PageUp")
        assert abs(browser.run(top) - tops[2]) < 60
        for _ in range(10):
            browser.press("PageDown")
        assert browser.run("cursor") == 99  # and no further
        assert not reports(browser)


def test_a_stale_tab_is_notified_and_overwrites_nothing(tmp_path):
    toy = toy_pages(n_sites=1, n_pages=2, missing=0.0)
    toy.write(tmp_path / "pages")
    with working(tmp_path) as (browser, session):
        n, sha = browser.run("[page.n, page.sha]")
        price = toy.labels[session.pages.index(session.pages[n])].values["price"][0]
        node = next(t for t in session.view(n).leaves if session.pages[n].text(t) == price)
        browser.run("poll = async () => {}")  # this tab does not notice changes by another one
        session.save(n, sha, [(node, "price")], done=True, stamp="")
        browser.click_text("Help")
        browser.wait("get('status').className === 'bad'")
        assert "changed elsewhere" in browser.run("get('status').textContent")
        browser.wait(f"{SURE} && page.source === 'done'")
        done, labels = saved(tmp_path)[session.pages[n].name]
        assert done and labels == [("price", price)]
        assert browser.run("valuesOf(1, null).map((v) => v.text)") == [price]


def test_undo_leaves_no_trace(tmp_path):
    toy = toy_pages(n_sites=1, n_pages=2, missing=0.0)
    toy.write(tmp_path / "pages")
    with working(tmp_path) as (browser, _):
        browser.click_text("Help")
        browser.wait(SURE)
        assert len(saved(tmp_path)) == 1
        browser.press("z", CTRL)
        browser.wait(f"{SURE} && page.stamp === ''")
        assert saved(tmp_path) == {} and browser.run("[labels.length, page.source]") == [0, "nothing"]
        assert not reports(browser)


ONE_CUP = "<h1>Red Cup</h1><p>Only $12.50 today</p><p>by Acme</p><p>Help</p>"


@contextmanager
def one_cup(folder, **suggestions):
    """Open a page with given suggestions: the text of each field, which may be part of a leaf."""
    (folder / "pages").mkdir()
    (folder / "pages" / "a.html").write_text(ONE_CUP)
    with working(folder) as (browser, session):
        browser.run("poll = async () => {}; 0")  # so that no model replaces them
        browser.run(
            f"""for (const [name, text] of Object.entries({json.dumps(suggestions)})) {{
                const [node, all] = page.leaves.find(([, all]) => all.includes(text));
                const at = all.indexOf(text);
                labels.push([all === text ? node : [node, at, node, at + text.length], name]);
                page.confidence[key(labels[labels.length - 1])] = 0.9;
            }}
            page.source = labels.length ? "model" : "nothing"; active = firstEmpty(); show(); 0"""
        )
        yield browser, session


def fields_of(browser):
    browser.wait(SURE)
    return {name: browser.run(f"valuesOf({f}, null).map((v) => v.text)") for f, name in enumerate(FIELDS)}


def confirmed_fields(browser):
    return browser.run("labels.filter((label) => confirmed.has(key(label))).map(([, name]) => name)")


def test_after_undo_the_same_field_is_selected(tmp_path):
    with one_cup(tmp_path) as (browser, _):
        browser.click_text("Help")
        assert browser.run("active") == 1
        browser.press("z", CTRL)
        assert browser.run("active") == 0 and "Click the name on" in browser.run("get('ask').textContent")
        browser.click_text("Red Cup")
        assert fields_of(browser) == {"name": ["Red Cup"], "price": [], "brand": []}
        browser.press("3")
        browser.click_text("Help")
        browser.press("2")
        browser.press("z", CTRL)  # undoes the brand, and not the later selection
        browser.click_text("by Acme")
        assert fields_of(browser) == {"name": ["Red Cup"], "price": [], "brand": ["by Acme"]}
        # undo of the first word of a part: the next tap is a first word again
        browser.press("2")
        browser.tap_button("part")
        browser.tap("Only")
        browser.tap_button("undo")
        browser.tap("50")
        assert fields_of(browser)["price"] == ["50"]
        assert not reports(browser)


def test_a_click_on_a_suggestion_confirms_it(tmp_path):
    suggested = {"name": "Red Cup", "price": "$12.50", "brand": "by Acme"}
    with one_cup(tmp_path, **suggested) as (browser, _):
        everything = {name: [text] for name, text in suggested.items()}
        browser.click_text("Red Cup")
        assert fields_of(browser) == everything and confirmed_fields(browser) == ["name"]
        browser.click(*browser.where("12.50"))  # part of a text, for a field that is not selected
        assert fields_of(browser) == everything and confirmed_fields(browser) == ["name", "price"]
        assert saved(tmp_path)["a.html"] == (False, list(suggested.items()))
        browser.press("z", CTRL)
        assert fields_of(browser) == everything and confirmed_fields(browser) == ["name"]
        browser.press("z", CTRL)
        browser.wait(f"{SURE} && page.stamp === ''")
        assert confirmed_fields(browser) == [] and browser.run("page.source") == "model" and saved(tmp_path) == {}
        # by keyboard; then select a field and assign the text of another suggestion
        browser.press("ArrowDown")
        browser.press("Enter")
        assert fields_of(browser) == everything and confirmed_fields(browser) == ["name"]
        browser.press("1")
        browser.click_text("by Acme")
        assert fields_of(browser) == everything | {"name": ["by Acme"]}
        # explicit removal: Delete, or a click on a confirmed label
        browser.press("2")
        browser.press("Delete")
        browser.press("1")
        browser.click_text("by Acme")
        assert fields_of(browser) == {"name": [], "price": [], "brand": ["by Acme"]}
        assert not reports(browser)


def test_an_empty_field_can_use_the_text_of_a_suggestion(tmp_path):
    with one_cup(tmp_path, name="Red Cup", price="$12.50") as (browser, _):
        assert browser.run("active") == 2
        browser.click_text("Red Cup")
        assert fields_of(browser) == {"name": ["Red Cup"], "price": ["$12.50"], "brand": ["Red Cup"]}
        assert confirmed_fields(browser) == ["brand"]


@pytest.mark.parametrize("key", ["d", "Enter"])
def test_a_page_without_labels_is_done_only_after_confirmation(tmp_path, key):
    (tmp_path / "pages").mkdir()
    for name in "ab":
        (tmp_path / "pages" / f"{name}.html").write_text(ONE_CUP)
    with working(tmp_path) as (browser, session):
        first = browser.run("page.name")
        browser.press(key)
        browser.wait(f"{SURE} && get('ask').textContent.includes('again if the page has none')")
        assert browser.run("page.name") == first and not (tmp_path / "shop.labels.jsonl").exists() and not session.done
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, autoRepeat=True)  # a key that is held
        browser.wait(SURE)
        assert browser.run("page.name") == first and not session.done
        browser.press("ArrowRight")  # skipped: its labels are unknown
        browser.wait(f"{SURE} && page.name !== {json.dumps(first)}")
        assert not (tmp_path / "shop.labels.jsonl").exists()
        second = browser.run("page.name")
        browser.press(key)
        browser.press(key)
        browser.wait(f"{SURE} && page.name === {json.dumps(first)}")
        assert saved(tmp_path) == {second: (True, [])}
        # removing the last label of a page that was done requires confirmation
        browser.click_text("Red Cup")
        browser.press("d")
        browser.wait(f"{SURE} && page.source === 'done'")
        browser.press("1")
        browser.press("Delete")
        browser.wait(SURE)
        assert saved(tmp_path)[first] == (False, [])
        browser.press("z", CTRL)
        browser.wait(SURE)
        assert saved(tmp_path)[first] == (True, [("name", "Red Cup")])
        assert not reports(browser)


def test_touch_supports_all_actions(tmp_path):
    (tmp_path / "pages").mkdir()
    html = "<h1>Red Cup of Clay</h1><p>by Ann Lee</p><p>Bo Holm</p><p>Cy Diaz</p><p>Only $12.50 today</p>"
    (tmp_path / "pages" / "a.html").write_text(html)
    with working(tmp_path, 390, 844) as (browser, _):

        def texts(f):
            browser.wait(SURE)
            return browser.run(f"valuesOf({f}, null).map((v) => v.text)")

        browser.tap("Red Cup")  # a tap assigns the text and selects the next field
        assert texts(0) == ["Red Cup of Clay"] and browser.run("active") == 1
        browser.tap_button("part")  # first and last word
        browser.tap("$12.50")
        browser.tap("50")
        assert texts(1) == ["$12.50"]
        browser.tap_button("undo")
        browser.tap_button("undo")
        assert texts(1) == [] and texts(0) == ["Red Cup of Clay"]
        browser.slide("Only", "50")  # drag over a part; afterwards dragging scrolls again
        assert texts(1) == ["Only $12.50"] and browser.run("mode") == ""
        browser.press("3")
        browser.tap("by Ann")
        browser.tap_button("range")
        browser.tap("Cy Diaz")
        assert texts(2) == ["by Ann Lee", "Bo Holm", "Cy Diaz"]
        browser.tap_button("merge")
        assert texts(2) == ["by Ann Lee Bo Holm Cy Diaz"]
        browser.tap_button("none")
        assert texts(2) == []
        browser.tap("Bo Holm")
        browser.press("3")
        browser.tap_button("also")
        browser.tap("Cy Diaz")
        assert texts(2) == ["Bo Holm", "Cy Diaz"]
        browser.tap_button("right")
        browser.wait(f"{SURE} && page.source === 'done'")
        assert saved(tmp_path)["a.html"][0] and not reports(browser)


COVERED = """(() => {
  const tags = [...document.querySelectorAll(".mark span")].map((tag) => tag.getBoundingClientRect());
  const corner = frame.getBoundingClientRect();
  let n = 0;
  for (const [node] of page.leaves) for (const piece of drawn.get(node) || []) for (const r of rects(piece)) {
    const box = { left: corner.left + r.left * scale, right: corner.left + r.right * scale,
                  top: corner.top + r.top * scale, bottom: corner.top + r.bottom * scale };
    n += tags.filter((tag) => overlap(tag, box)).length;
  }
  return n;
})()"""


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_tags_do_not_cover_text(tmp_path, size):
    """Texts are close on all sides: tags without room are dots or omitted."""
    (tmp_path / "pages").mkdir()
    cells = "".join(f"<tr><td>Name {i}<td>$ {i}<td>Maker {i}<td>of clay" for i in range(30))
    style = "<style>body{margin:0;line-height:1}td{padding:0}</style>"
    html = f"{style}<table cellspacing=0>{cells}</table><p>Alone</p>"
    (tmp_path / "pages" / "a.html").write_text(html)
    with working(tmp_path, *size, records="auto") as (browser, _):
        browser.run("fields = ['a long name of a field', 'price', 'brand']; show(); 0")
        for i, text in enumerate(("Name 0", "Name 7", "$ 7", "Maker 7", "Name 8", "of clay", "Alone")):
            browser.run(f"labels.push([page.leaves.find(([, t]) => t === {json.dumps(text)})[0], fields[{i % 3}]]); 0")
        browser.run("outline(); 0")
        assert browser.run("document.querySelectorAll('.mark').length") == 7
        assert browser.run("document.querySelectorAll('.mark span').length") >= 2
        assert browser.run(COVERED) == 0


def test_suggestions_are_scrolled_into_view_from_all_sides(tmp_path):
    (tmp_path / "pages").mkdir()
    html = "<div style='width:3000px;height:4000px;position:relative'>" + "".join(
        f"<p style='position:absolute;left:{x}px;top:{y}px'>{text}</p>"
        for text, x, y in (("Here", 10, 10), ("Right", 2500, 60), ("Below", 2600, 3500), ("Left", 20, 1800))
    )
    (tmp_path / "pages" / "a.html").write_text(html)
    with working(tmp_path, fields=["Here", "Right", "Below", "Left"]) as (browser, _):
        browser.run("labels = page.leaves.map(([n, t]) => [n, t]); show(); 0")
        for f in (2, 3, 1, 0, 2, 0):
            browser.run(f"choose({f}); 0")
            in_view = f"""(() => {{ const b = boxOf(labels.find(([, name]) => name === fields[{f}])[0]);
              return b.left * scale >= stage.scrollLeft && b.right * scale <= stage.scrollLeft + stage.clientWidth &&
                b.top * scale >= stage.scrollTop && b.bottom * scale <= stage.scrollTop + stage.clientHeight; }})()"""
            assert browser.run(in_view), f


def test_a_large_page_is_drawn_completely(tmp_path):
    """The first 5,000 nodes can be labelled before the rest is drawn."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text("<ul>" + "".join(f"<li>Thing {i}<b>${i}</b>" for i in range(6_000)))
    (tmp_path / "pages" / "b.html").write_text("<h1>Cup</h1><p>$5")
    with working(tmp_path) as (browser, _):
        browser.run("open(0)")
        assert browser.run("page.n === 0 && shown === page && boxOf(page.leaves[0][0]).bottom > 0")
        browser.wait("complete === page")
        assert browser.run("page.frame.nodes.length > AT_ONCE && page.leaves.every(([n]) => drawn.has(n))")
        last = "page.leaves.findIndex(([, t]) => t === 'Thing 5999')"
        assert browser.run(f"boxOf(page.leaves[{last}][0]).bottom <= frame.clientHeight")
        assert browser.run("frame.contentDocument.querySelectorAll('li').length") == 6_000
        # open another page while this one is still being drawn
        browser.run("window.drawing = []; const rest = drawRest; drawRest = (nodes) => drawing.push(rest(nodes)); 1")
        assert browser.run("open(0).then(() => { const part = complete !== page; return open(1).then(() => part); })")
        browser.wait("complete === page")
        assert browser.run("Promise.all(drawing).then((all) => all.length)") == 2
        assert browser.run("frame.contentDocument.body.textContent") == "Cup$5"


def test_a_label_at_the_end_of_a_large_page_is_outlined(tmp_path):
    (tmp_path / "pages").mkdir()
    html = "<ul>" + "".join(f"<li>Thing {i}<b>${i}</b>" for i in range(6_000))
    (tmp_path / "pages" / "a.html").write_text(html)
    line = {"page": "a.html", "values": {"name": "Thing 5999"}, "done": False}
    (tmp_path / "shop.labels.jsonl").write_text(json.dumps(line) + "\n")
    with working(tmp_path) as (browser, _):
        browser.wait("complete === page && stage.scrollTop > 1000")
        assert browser.run("marks.children.length") == 1
