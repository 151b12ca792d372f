import csv
import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from click.testing import CliRunner

from maxendnet.cli import main
from maxendnet.web.tool.toy import toy_pages


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["web", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Folder with pages, labels of the first three pages of each site, and a model."""
    folder = tmp_path_factory.mktemp("shop")
    toy = toy_pages(n_sites=3, n_pages=5, random_state=1)
    toy.write(folder / "pages")
    lines = [{"page": x.page, "values": x.values} for x in toy.labels]
    write_lines(folder / "labels.jsonl", [line for i, line in enumerate(lines) if i % 5 < 3])
    write_lines(folder / "test.jsonl", [line for i, line in enumerate(lines) if i % 5 >= 3])
    output = run("train", folder / "pages", folder / "labels.jsonl", "-o", folder / "m.medn")
    assert "trained on 9 labelled pages of 3 sites and 6 unlabelled pages" in output
    return folder, toy


@pytest.mark.parametrize(
    "command", [[], ["init"], ["label"], ["train"], ["extract"], ["evaluate"], ["check"], ["demo"]]
)
def test_every_help_has_examples(command):
    assert "Examples:\n    maxendnet web" in run(*command, "--help")


def test_extract_to_json_lines(shop):
    folder, toy = shop
    pages = [folder / "pages" / "shop0.example" / f"{i}.html" for i in (3, 4)]
    run("extract", folder / "m.medn", *pages, "-o", folder / "out.jsonl")
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [row["page"] for row in rows] == [str(page) for page in pages]
    for row, labels in zip(rows, toy.labels[3:5]):
        assert (
            row["site"] == "shop0.example"
            and row["record"] == 0
            and set(row) == {"page", "url", "site", "record", "fields", "error"}
            and row["error"] is None
        )
        price = row["fields"]["price"]
        assert price["value"] == labels.values["price"][0] and 0 <= price["confidence"] <= 1 and price["node"] > 0
    printed = [json.loads(line) for line in run("extract", folder / "m.medn", *pages).splitlines()]
    assert printed == rows


def test_extract_to_csv_with_empty_cells(shop):
    folder, _ = shop
    run("extract", folder / "m.medn", folder / "pages", "-o", folder / "out.csv", "--min-confidence", "0.999999")
    with open(folder / "out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15 and all(row["name"] == "" and row["name_confidence"] == "" for row in rows)
    run("extract", folder / "m.medn", folder / "pages", "-o", folder / "out.csv", "--min-confidence", "0")
    with open(folder / "out.csv", newline="", encoding="utf-8") as file:
        assert all(row["price"].startswith("$") for row in csv.DictReader(file))


def test_evaluate(shop):
    folder, _ = shop
    scores = json.loads(run("evaluate", folder / "m.medn", folder / "pages", folder / "test.jsonl", "--json"))
    assert scores["pages"] == 6 and scores["average_f1"] > 0.95
    assert "average F1" in run("evaluate", folder / "m.medn", folder / "pages", folder / "test.jsonl")


def test_labels_by_nodes_and_by_values_give_the_same_model(shop, tmp_path):
    folder, toy = shop
    from maxendnet.web.fields.labels import labels_on_page
    from maxendnet.web.views.view import View

    lines = []
    for page, labels in [x for i, x in enumerate(zip(toy.pages, toy.labels)) if i % 5 < 3]:
        pairs, _ = labels_on_page(View(page, images=True), labels)
        lines.append({"page": labels.page, "labels": pairs, "sha": page.sha})
    nodes = write_lines(tmp_path / "nodes.jsonl", lines)
    run("train", folder / "pages", nodes, "-o", tmp_path / "m.medn")
    page = folder / "pages" / "shop1.example" / "4.html"
    assert run("extract", tmp_path / "m.medn", page) == run("extract", folder / "m.medn", page)


def test_check(shop, tmp_path):
    folder, _ = shop
    assert "shop0.example: ok (5 pages)" in run("check", folder / "m.medn", folder / "pages")
    changed = tmp_path / "shop0.example"
    changed.mkdir()
    for i in range(3):
        text = (folder / "pages" / "shop2.example" / f"{i}.html").read_text(encoding="utf-8")
        (changed / f"{i}.html").write_text(text, encoding="utf-8")
    output = run("check", folder / "m.medn", tmp_path, code=3)
    assert "shop0.example: CHANGED" in output and "price: it was at body > " in output and "0 of 3 pages have" in output
    report = json.loads(run("check", folder / "m.medn", tmp_path, "--json", code=3))
    assert report["changed"] and report["known"] and "price" in report["gone"]


def test_init_then_train(shop, tmp_path):
    _, toy = shop
    project = tmp_path / "mine"
    output = run("init", project, "--fields", "price,name,weight")
    assert f"maxendnet web train {project / 'pages'}" in output
    assert json.loads((project / "project.json").read_text()) == {"fields": ["price", "name", "weight"]}
    toy.write(project / "pages")
    write_lines(project / "labels.jsonl", [{"page": x.page, "values": x.values} for x in toy.labels[:3]])
    output = run("train", project / "pages", project / "labels.jsonl", "-o", tmp_path / "m.medn", "--no-confidence")
    assert "5 fields (price, name, weight, brand, image)" in output
    row = json.loads(run("extract", tmp_path / "m.medn", project / "pages" / "shop0.example" / "4.html"))
    assert row["fields"]["weight"] is None
    run("init", project, "--fields", "price", code=1)
    run("init", tmp_path / "b", "--fields", "price,price", code=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"page": "../secret.html", "values": {"price": "5"}}, "is outside"),
        ({"page": "gone.html", "values": {"price": "5"}}, "there is no page 'gone.html'"),
        ({"page": "shop0.example/0.html", "labels": [[99999, "price"]]}, "'price' is at node 99999"),
        ({"page": "shop0.example/0.html", "values": {"price": "not there"}}, "price 'not there' is not on the page"),
    ],
)
def test_unusable_labels_are_errors(shop, tmp_path, line, message):
    folder, _ = shop
    labels = write_lines(tmp_path / "labels.jsonl", [line])
    assert message in run("train", folder / "pages", labels, "-o", tmp_path / "m.medn", code=1)
    assert not (tmp_path / "m.medn").exists()


def test_unmatched_values_are_an_error_unless_they_are_skipped(shop, tmp_path):
    folder, toy = shop
    lines = [{"page": x.page, "values": {**x.values, "brand": ["No Such Brand"]}} for x in toy.labels[:3]]
    labels = write_lines(tmp_path / "labels.jsonl", lines)
    train = ["train", folder / "pages", labels, "-o", tmp_path / "m.medn", "--no-confidence"]
    output = run(*train, code=1)
    assert "shop0.example/1.html (line 2): brand 'No Such Brand' is not on the page; nearest texts: 'Brand:'" in output
    assert "--skip-unmatched" in output and not (tmp_path / "m.medn").exists()
    run(*train, "--skip-unmatched", "--strict", code=1)
    assert not (tmp_path / "m.medn").exists()
    output = run(*train, "--skip-unmatched")
    assert "note: shop0.example/0.html: brand 'No Such Brand' is not on the page" in output
    row = json.loads(run("extract", tmp_path / "m.medn", folder / "pages" / "shop0.example" / "4.html"))
    assert row["fields"]["brand"] is None and row["fields"]["price"] is not None
    lines = [{"page": x.page, "values": {**x.values, "brand": None}} for x in toy.labels[:3]]
    write_lines(labels, lines)
    run(*train)  # null: the page lacks the field


def test_errors_are_messages(shop, tmp_path):
    folder, _ = shop
    assert "No such file" in run("extract", tmp_path / "none.medn", "a.html", code=1)
    assert "none of the pages could be read" in run("extract", folder / "m.medn", tmp_path / "a.html", code=1)
    assert "neither .jsonl nor .csv" in run("extract", folder / "m.medn", "a.html", "-o", tmp_path / "a.txt", code=2)
    assert "has no page" in run("train", tmp_path, folder / "labels.jsonl", "-o", tmp_path / "m.medn", code=1)
    (tmp_path / "text.medn").write_text("hello")
    assert "not a maxendnet model file" in run("extract", tmp_path / "text.medn", "a.html", code=1)


def test_an_unreadable_page_does_not_stop_the_others(shop, tmp_path):
    folder, _ = shop
    good = folder / "pages" / "shop0.example" / "3.html"
    output = run("extract", folder / "m.medn", tmp_path / "gone.html", good)
    assert "note:" in output and '"record": 0' in output
    assert f'"error": "{tmp_path / "gone.html"}: No such file or directory"' in output
    run("extract", folder / "m.medn", tmp_path / "gone.html", good, "--strict", code=1)


def test_demo(tmp_path):
    output = run("demo", "--out", tmp_path / "demo")
    assert "Average F1" in output and (tmp_path / "demo" / "records.jsonl").exists()


def test_without_the_parser_the_error_names_the_package(tmp_path, monkeypatch):
    from maxendnet.web.pages import parser_process

    parser_process.shared.close()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'maxendnet[web]'" in run("demo", "--out", tmp_path / "demo", code=1)


def test_label_stops_on_ctrl_c(shop, tmp_path):
    folder, _ = shop
    command = [
        sys.executable,
        "-m",
        "maxendnet",
        "web",
        "label",
        str(tmp_path / "mine"),
        str(folder / "pages"),
        "--fields",
        "price",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "15 pages, 0 of them done" in process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", process.stdout.readline())[0]
            with urllib.request.urlopen(address + "api/state", timeout=300) as answer:
                assert json.load(answer)["fields"] == ["price"]
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=300)
        assert process.returncode == 0 and "Traceback" not in errors


def test_label_reports_missing_input(shop, tmp_path):
    folder, _ = shop
    assert "there are no fields" in run("label", tmp_path / "mine", folder / "pages", code=1)
    assert "has no page" in run("label", tmp_path / "mine", tmp_path, "--fields", "a", code=1)
    assert "is not a valid field name" in run("label", tmp_path / "a", folder / "pages", "--fields", "none", code=1)
    (tmp_path / "bad.medn").write_text("hello")
    assert "not a maxendnet model file" in run("label", tmp_path / "bad.medn", folder / "pages", code=1)


def test_extract_ends_quietly_when_its_reader_has_closed_the_pipe(shop):
    folder, _ = shop
    command = [sys.executable, "-m", "maxendnet", "web", "extract", str(folder / "m.medn"), str(folder / "pages")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert "Error" not in errors and "Traceback" not in errors
