import json
import threading
import time

import numpy as np
import pytest
from toy_list import toy_list

from maxendnet.web.fields.labels import LabelError, labels_on_page
from maxendnet.web.fields.spans import Span, is_part
from maxendnet.web.labelling.command import prepare, serve
from maxendnet.web.labelling.label_file import LabelFile
from maxendnet.web.labelling.learner import Learner
from maxendnet.web.labelling.order import next_page
from maxendnet.web.labelling.server import LabelServer
from maxendnet.web.labelling.session import LabellingSession, Refused, Stale
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.systems import estimator
from maxendnet.web.pages.page import PageError
from maxendnet.web.tool.toy import FIELDS, toy_pages
from maxendnet.web.views.view import View


def truth(toy, i, fields=FIELDS):
    view = View(toy.pages[i], images=True)
    pairs, _ = labels_on_page(view, toy.labels[i])
    return [(span if is_part(view, span) else span.first, name) for span, name in pairs if name in fields]


def shown_labels(session, i):
    return {(Span(*place) if isinstance(place, list) else place, name) for place, name in session.show(i)["labels"]}


@pytest.fixture
def shop(tmp_path):
    toy = toy_pages(n_sites=3, n_pages=4, random_state=2)
    toy.write(tmp_path / "pages")
    return tmp_path, toy


def wait(session, condition, seconds=300.0):
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, (session.doing, session.problem)
        time.sleep(0.02)


def test_the_order_visits_each_site_first_and_each_page_once():
    sites, rng = list("aaabbc"), np.random.default_rng(0)
    done = []
    while (i := next_page(sites, done, rng.random(6).tolist(), [3, 1, 0, 5, 4, 2])) is not None:
        done.append(i)
    assert sorted(done) == list(range(6)) and done[:3] == [3, 1, 5]


def test_training_waits_while_a_page_is_opened(shop, monkeypatch):
    """Training begins after the first page is sent, and pauses while another page is prepared."""
    folder, toy = shop
    session = LabellingSession(folder / "pages", toy.pages, FIELDS, LabelFile(folder / "shop.labels.jsonl"))
    opened = []
    session.learner.prepare = lambda kinds, progress: opened.extend(
        bool(session._opened) for _ in progress(range(3), "")
    )
    waiting, wait_for = threading.Event(), session._lock.wait_for

    def watched(condition, **options):
        if not condition():
            waiting.set()
        return wait_for(condition, **options)

    monkeypatch.setattr(session._lock, "wait_for", watched)
    session._opening = 1  # simulate a page that is being opened
    session.show(0)
    session.start()
    assert waiting.wait(60) and session.doing == "reading pages"
    assert opened == []
    session._opening = 0
    session.show(1)
    wait(session, lambda: session.doing == "")
    session.stop()
    assert opened == [True, True, True]


def test_a_session_stops_after_ctrl_c_while_its_thread_starts(shop, monkeypatch):
    folder, toy = shop
    session = LabellingSession(folder / "pages", toy.pages, FIELDS, LabelFile(folder / "shop.labels.jsonl"))

    def interrupted(thread):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.start()
    session.stop()  # there is no thread to wait for


def test_a_complete_labelling_session(shop):
    folder, toy = shop
    session, notes = prepare(folder / "shop", folder / "pages", fields=FIELDS)
    assert not notes and session.next() is not None
    session.start()
    try:
        order = []
        for _ in range(5):
            i = session.next()
            order.append(i)
            session.save(i, toy.pages[i].sha, truth(toy, i), done=True)
            wait(session, lambda: not session._changed and not session.doing)
        assert len({toy.pages[i].site for i in order[:3]}) == 3 and len(set(order)) == 5
        state = session.state()
        assert state["done"] == 5 and state["total"] == 12 and state["certain"] > 0.5 and state["has_model"]
        # suggestions on unlabelled pages are correct
        rest = [i for i in range(12) if i not in order]
        for i in rest:
            shown = session.show(i)
            assert shown["source"] == "model"
            wrong = shown_labels(session, i) ^ set(truth(toy, i))
            assert not wrong or all(shown["confidence"].get(f"{n} {f}", 0) < 0.9 for n, f in wrong)
        assert Extractor.load(folder / "shop.medn").fields_ == list(FIELDS)
    finally:
        session.stop()
    # a new session has all labels
    again, _ = prepare(folder / "shop", folder / "pages")
    assert again.done == set(order) and again.fields == list(FIELDS)
    assert again.show(order[0])["source"] == "done"
    assert shown_labels(again, order[0]) == set(truth(toy, order[0]))


def test_cached_features_give_the_same_model(shop):
    _, toy = shop
    labels = [x if i % 4 < 2 else None for i, x in enumerate(toy.labels)]
    learner = Learner(toy.pages, Extractor())
    quiet = lambda items, _: items  # noqa: E731
    for _ in range(2):
        ours = learner.fit(labels, FIELDS, True, quiet)
        answers = learner.answer(ours, 0.2, quiet)
    theirs = Extractor().fit(toy.pages, labels, fields=FIELDS)
    np.testing.assert_array_equal(ours.estimator_.coef_, theirs.estimator_.coef_)
    assert [r for of_page in answers.records for r in of_page] == theirs.extract(toy.pages, min_confidence=0.2)


def test_a_page_in_progress_is_saved_and_not_used_for_training(shop):
    folder, toy = shop
    session, _ = prepare(folder / "shop", folder / "pages", fields=FIELDS)
    session.save(0, toy.pages[0].sha, truth(toy, 0)[:1], done=False)
    assert not session.done and session.state()["pages"][0]["state"] == "begun"
    assert session.show(0)["source"] == "begun" and len(session.show(0)["labels"]) == 1
    assert json.loads((folder / "shop.labels.jsonl").read_text())["done"] is False


def test_parts_of_texts_are_saved_and_shown(shop):
    folder, toy = shop
    session, _ = prepare(folder / "shop", folder / "pages", fields=FIELDS)
    view, sha = View(toy.pages[0]), toy.pages[0].sha
    (k,) = [k for k, text in enumerate(view.texts) if text.startswith("Free delivery")]
    node = view.leaves[k]
    part, all_of_it = Span(node, 5, node, 13), Span(node, 0, node, len(view.texts[k]))
    session.save(0, sha, [(part, "name"), (all_of_it, "brand")], done=True)
    assert session.show(0)["labels"] == [[node, "brand"], [part.to_json(), "name"]]
    row = json.loads((folder / "shop.labels.jsonl").read_text())
    assert row["labels"] == [[node, "brand"], [part.to_json(), "name"]]
    with pytest.raises(Refused, match="not a visible text"):
        session.save(0, sha, [(Span(node, 90, node, 99), "name")], done=True)


def test_invalid_changes_are_refused(shop):
    folder, toy = shop
    session, _ = prepare(folder / "shop", folder / "pages", fields=FIELDS)
    sha = toy.pages[0].sha
    for given, message in [
        ((0, "0" * 16, [], True), "differs from the one"),
        ((0, sha, [(99999, "price")], True), "Node 99999"),
        ((0, sha, [(-1, "price")], True), "Node -1"),
        ((0, sha, [(0, "price")], True), "Node 0"),  # an element is not a value
        ((0, sha, [(truth(toy, 0)[0][0], "colour")], True), "no field 'colour'"),
        ((0, sha, [], True), "shop0.example/0.html has no labels"),
    ]:
        with pytest.raises(Refused, match=message):
            session.save(*given)
    assert not (folder / "shop.labels.jsonl").exists()


def test_labels_by_value_are_shown_and_replaced_by_nodes(shop):
    folder, toy = shop
    lines = [{"page": x.page, "values": {**x.values, "brand": ["Nobody"]}} for x in toy.labels[:1]]
    lines.append({"page": "gone.html", "values": {"price": "5"}})
    (folder / "shop.labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    session, notes = prepare(folder / "shop", folder / "pages")
    assert any("gone.html is not in" in note for note in notes)
    assert session.fields == ["name", "price", "brand", "image"] and session.done == {0}
    assert "brand 'Nobody' is not on the page" in session.show(0)["problems"]
    session.save(0, toy.pages[0].sha, truth(toy, 0), done=True)
    rows = [json.loads(line) for line in (folder / "shop.labels.jsonl").read_text().splitlines()]
    assert "values" not in rows[0] and rows[1] == lines[1]


def test_an_unmatched_label_is_reported_and_unknown(shop):
    folder, toy = shop
    lines = [{"page": x.page, "values": {**x.values, "brand": [f"Nobody {i}"]}} for i, x in enumerate(toy.labels[:3])]
    (folder / "shop.labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    session, _ = prepare(folder / "shop", folder / "pages")
    session.start()
    try:
        wait(session, lambda: not session._changed and not session.doing and session.answers is not None)
    finally:
        session.stop()
    assert session.state()["problem"] == f"{toy.labels[0].page}: brand 'Nobody 0' is not on the page"
    fields = [record.fields for record in session.answers.records[3]]
    assert [cells["brand"] for cells in fields] == [None] and fields[0]["price"] is not None


def test_several_records(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.html").write_text(toy_list(5, random_state=i)[0])
    (tmp_path / "shop.labels.jsonl").write_text(
        json.dumps(
            {"page": "0.html", "values": {k: [x[k] for x in toy_list(5, random_state=0)[1]] for k in ("name", "price")}}
        )
    )
    session, _ = prepare(tmp_path / "shop", folder, records="auto")
    session.start()
    try:
        wait(session, lambda: session.answers is not None and not session.doing)
    finally:
        session.stop()
    shown = session.show(1)
    assert len(shown["records"]) == 5
    names = [value for node, value, _ in shown["leaves"] if [node, "name"] in shown["labels"]]
    assert names == [x["name"] for x in toy_list(5, random_state=1)[1]]


def test_prepare_reports_missing_input(tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    with pytest.raises(LabelError, match="there are no fields"):
        prepare(tmp_path / "shop", pages)
    with pytest.raises(PageError, match="has no page"):
        prepare(tmp_path / "shop", pages, fields=["a"])
    with pytest.raises(LabelError, match="does not exist; create it"):
        prepare(tmp_path / "no" / "shop", pages, fields=["a"])
    (tmp_path / "secret.html").write_text("<p>secret")
    (pages / "out.html").symlink_to(tmp_path / "secret.html")
    with pytest.raises(PageError, match="links to files outside"):
        prepare(tmp_path / "shop", pages, fields=["a"])
    (pages / "a.html").write_text("<p>x")
    session, notes = prepare(tmp_path / "shop", pages, fields=["a"])
    assert [page.name for page in session.pages] == ["a.html"] and "links to files outside" in notes[0]


def test_the_number_of_pages_is_limited(shop):
    folder, toy = shop
    (folder / "shop.labels.jsonl").write_text(json.dumps({"page": toy.pages[3].name, "values": {"price": "1"}}))
    session, _ = prepare(folder / "shop", folder / "pages", fields=FIELDS, most=5)
    names = [page.name for page in session.pages]
    assert len(names) == 5 and toy.pages[3].name in names and len({page.site for page in session.pages}) == 3


def test_a_damaged_file_only_prevents_saving(shop):
    folder, toy = shop
    session = LabellingSession(folder / "pages", toy.pages, FIELDS, LabelFile(folder / "shop.labels.jsonl"))
    session.save(0, toy.pages[0].sha, truth(toy, 0), done=True)
    with open(folder / "shop.labels.jsonl", "a") as file:
        file.write("{broken")
    with pytest.raises(LabelError, match="line 2 is not JSON"):
        session.save(1, toy.pages[1].sha, truth(toy, 1), done=True)
    assert session.done == {0}


def test_an_existing_model_gives_the_first_suggestions_and_is_saved(shop):
    folder, toy = shop
    labels = [x if i % 4 < 2 else None for i, x in enumerate(toy.labels)]
    Extractor(estimator("m3n"), calibrate=False).fit(toy.pages, labels, fields=FIELDS).save(folder / "shop.medn")
    before = (folder / "shop.medn").read_bytes()
    session, notes = prepare(folder / "shop.medn", folder / "pages")
    assert session.fields == list(FIELDS) and "saved as shop.medn.old" in notes[0]
    session.start()
    try:
        wait(session, lambda: session.answers is not None and not session._changed and not session.doing)
        assert shown_labels(session, 3) == set(truth(toy, 3)) and session.show(3)["source"] == "model"
        session.save(0, toy.pages[0].sha, truth(toy, 0), done=True)
        wait(session, lambda: not session._changed and not session.doing)
        assert not session.problem
    finally:
        session.stop()
    assert (folder / "shop.medn.old").read_bytes() == before != (folder / "shop.medn").read_bytes()
    assert type(Extractor.load(folder / "shop.medn").estimator_).__name__ == "M3N"
    _, notes = prepare(folder / "shop", folder / "pages")  # the model was trained on these labels
    assert not notes


def test_a_port_in_use_is_reported_and_the_next_one_used(tmp_path):
    toy = toy_pages(n_sites=1, n_pages=1)
    toy.write(tmp_path / "pages")
    session, _ = prepare(tmp_path / "shop", tmp_path / "pages", fields=["name"])
    messages = []
    with LabelServer(session) as first:
        port = first.server_port
        serve(session, port, echo=messages.append, ready=lambda server: _end(server, messages))
    assert f"Port {port} is in use; using port" in messages[0] and messages[-1] != port


def _end(server, messages):
    messages.append(server.server_port)
    threading.Thread(target=server.shutdown).start()


def test_labels_are_removed_only_with_the_current_stamp(tmp_path):
    toy = toy_pages(n_sites=1, n_pages=1)
    toy.write(tmp_path / "pages")
    session, _ = prepare(tmp_path / "shop", tmp_path / "pages", fields=["name"])
    node = session.view(0).leaves[0]
    session.save(0, toy.pages[0].sha, [(node, "name")], done=False, stamp="")
    with pytest.raises(Stale, match="changed elsewhere"):
        session.save(0, toy.pages[0].sha, [], done=False, stamp="")
    with pytest.raises(Stale):
        session.forget(0, "")
    session.forget(0, session.stamp(0))
    assert session.stamp(0) == "" and (tmp_path / "shop.labels.jsonl").read_text() == ""
