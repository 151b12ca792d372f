"""Folders of saved pages: files of browsers, files that are not pages, and streamed extraction."""

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from maxendnet.cli import main
from maxendnet.web import Extractor, PageError, UnreadPage, as_rows, read_page
from maxendnet.web.model.record import Cell, Record, as_csv, safe_cell
from maxendnet.web.pages.folder import page_files
from maxendnet.web.pages.page import LAYOUT
from maxendnet.web.tool.stream import Options, extract_stream
from maxendnet.web.tool.toy import toy_pages

MHTML = (
    b"From: <Saved by Blink>\r\nSnapshot-Content-Location: https://www.shop.example/cup?a=1\r\nSubject: Cup\r\n"
    b'MIME-Version: 1.0\r\nContent-Type: multipart/related;\r\n\ttype="text/html";\r\n\tboundary="--b--"\r\n\r\n'
    b"----b--\r\nContent-Type: text/html; charset=windows-1252\r\nContent-Transfer-Encoding: quoted-printable\r\n"
    b"Content-Location: https://www.shop.example/cup\r\n\r\n<html><body><p>5 =80 caf=E9 =\r\nnoir</p></body></html>\r\n"
    b"----b--\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n----b----\r\n"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    toy = toy_pages(n_sites=3, n_pages=8, random_state=4)
    toy.write(folder / "pages")
    extractor = Extractor(calibrate=False).fit(toy.pages, [x if i % 8 < 3 else None for i, x in enumerate(toy.labels)])
    extractor.save(folder / "m.medn")
    return folder


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["web", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_mhtml_and_gzip_are_read_with_their_address():
    page = read_page(MHTML, name="cup.mhtml")
    assert page.texts[-1] == "5 € café noir" and page.url == "https://www.shop.example/cup?a=1"
    assert page.site == "shop.example"
    assert read_page(gzip.compress(b"<p>x")).texts[-1] == "x"
    with pytest.raises(PageError, match="more than 1,000 bytes when decompressed"):
        read_page(gzip.compress(b"<p>" + b"x" * 5_000), name="bomb", most_bytes=1_000)
    with pytest.raises(PageError, match=r"a\.gz is damaged"):
        read_page(gzip.compress(b"<p>" + bytes(range(256)) * 10)[:-20], name="a.gz")
    with pytest.raises(PageError, match=r"cup\.mht is an MHTML file without HTML"):
        read_page(MHTML.replace(b"text/html; charset", b"text/plain; charset"), name="cup.mht")


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"%PDF-1.7\n", "a PDF"), (b"PK\x03\x04\x14\0", "a ZIP archive"), (b"\x89PNG\r\n\x1a\n", "a PNG image"),
     (b"BM\x36\0\0\0", "a bitmap"), (gzip.compress(b"%PDF-1.7", mtime=0), "a PDF")],
)  # fmt: skip
def test_files_that_are_not_pages_are_rejected_with_a_reason(data, what):
    with pytest.raises(PageError, match=f"thing.html is {what}, not HTML"):
        read_page(data, name="thing.html")
    assert read_page(b"BMW 320i").texts[-1] == "BMW 320i"  # a text may begin like a bitmap


@pytest.mark.parametrize(
    ("html", "url"),
    [
        ("<link rel=canonical href='https://x.com/a'><base href='https://y.com/'>", "https://x.com/a"),
        ("<base href='https://y.com/b/'><link rel=canonical href='/a'>", "https://y.com/b/"),
        ("<meta property=og:url content='https://z.com/c'>", "https://z.com/c"),
        ("<!-- saved from url=(0021)https://www.w.com/d/e --><html>", "https://www.w.com/d/e"),
        ("<base href='[bad'><p>", ""),
    ],
)
def test_the_address_of_a_page(html, url):
    assert read_page((html + "<p>x").encode()).url == url


def test_files_saved_next_to_a_page_are_not_pages(tmp_path):
    for name in ("cup.html", "cup_files/ad.html", "tasse.htm", "tasse-Dateien/x/frame.htm", "other_files/page.html",
                 "a.mhtml", "b.html.gz", "c.txt", "d.HTM"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("<p>x")
    names = [path.relative_to(tmp_path).as_posix() for path in page_files(tmp_path)]
    assert names == ["a.mhtml", "b.html.gz", "cup.html", "d.HTM", "other_files/page.html", "tasse.htm"]


def test_files_that_are_not_pages_are_listed(shop, tmp_path):
    html = (shop / "pages" / "shop0.example" / "5.html").read_text(encoding="utf-8")
    for name in ("item.php", "index", "a.html"):
        (tmp_path / name).write_text(f"\n<!DOCTYPE HTML>{html}", encoding="utf-8")
    (tmp_path / "doc.pdf").write_bytes(b"%PDF-1.4")
    for k in range(6):
        (tmp_path / f"notes{k}.txt").write_text("a note")
    assert [path.name for path in page_files(tmp_path)] == ["a.html", "index", "item.php"]
    output = run("extract", shop / "m.medn", tmp_path, "-o", tmp_path / "out.jsonl")
    assert (
        "7 files are not HTML and ignored: doc.pdf, notes0.txt, notes1.txt, notes2.txt, notes3.txt and 2 more" in output
    )
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3
    assert "contains no HTML element" in run("extract", shop / "m.medn", tmp_path / "notes0.txt", code=1)
    assert "is a PDF" in run("extract", shop / "m.medn", tmp_path / "doc.pdf", code=1)


def test_extract_accepts_pages_html_bytes_and_paths(shop):
    extractor = Extractor.load(shop / "m.medn")
    path = shop / "pages" / "shop0.example" / "5.html"
    html = path.read_text(encoding="utf-8")
    ways = [path, str(path), html, html.encode(), read_page(path), [html]]
    assert len({extractor.extract(way)[0].fields["name"].value for way in ways}) == 1
    row = as_rows(extractor.extract(path))[0]
    assert row["site"] == "shop0.example" and set(row) >= {"page", "url", "price", "price_confidence"}


def test_no_cell_is_a_formula():
    bad = ["=1+2", "+1+2", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "＝1"]
    record = Record("=p.html", "s", 0, {f"={k}": Cell(text, 0.5, 1) for k, text in enumerate(bad)}, "@url")
    rows = list(csv.reader(io.StringIO(as_csv([record], list(record.fields)), newline="")))
    assert all(cell[:1] not in "=+-@\t\r＝" or not cell for row in rows for cell in row)
    for text in ("-5", "+1,299.00", "-7%", "12 = 3", "a@b"):
        assert safe_cell(text) == text


def test_rows_are_identical_with_two_jobs_and_after_an_interruption(shop, tmp_path):
    files = page_files(shop / "pages")
    options = Options(csv=True, batch=3)
    extract_stream(shop / "m.medn", files, tmp_path / "whole.csv", options)
    whole = (tmp_path / "whole.csv").read_bytes()
    assert len(list(csv.reader(io.StringIO(whole.decode())))) == 1 + len(files) and b"shop2.example" in whole
    extract_stream(shop / "m.medn", files, tmp_path / "two.csv", options, jobs=2)
    assert (tmp_path / "two.csv").read_bytes() == whole

    class Stopped(Exception):
        pass

    def stop_after(n):
        def progress(items, _):
            for k, item in enumerate(items):
                if k == n:
                    raise Stopped
                yield item

        return progress

    out = tmp_path / "stopped.csv"
    for n in (4, 2):
        with pytest.raises(Stopped):
            extract_stream(shop / "m.medn", files, out, options, progress=stop_after(n))
    assert whole.startswith(out.read_bytes()) and out.stat().st_size < len(whole)
    with open(out, "ab") as file:
        file.write(b"half a ro")  # a kill in the middle of a row
    total = extract_stream(shop / "m.medn", files, out, options)
    assert out.read_bytes() == whole and total.resumed > 0 and total.n_records == len(files)
    assert not (tmp_path / "stopped.csv.progress").exists()
    # other options start a new extraction
    with pytest.raises(Stopped):
        extract_stream(shop / "m.medn", files, out, options, progress=stop_after(4))
    outcome = extract_stream(shop / "m.medn", files, out, options._replace(min_confidence=0.9))
    assert outcome.resumed == 0 and outcome.n_records == len(files)


def test_a_killed_command_is_resumed(shop, tmp_path):
    pages = tmp_path / "pages"
    for k in range(12):
        (pages / str(k)).mkdir(parents=True)
        for source in sorted((shop / "pages" / "shop1.example").iterdir()):
            os.link(source, pages / str(k) / source.name)
    command = [
        sys.executable,
        "-c",
        "from maxendnet.cli import main; main()",
        "web",
        "extract",
        str(shop / "m.medn"),
        str(pages),
        "-o",
    ]
    expected = run("extract", shop / "m.medn", pages, "-o", tmp_path / "whole.jsonl")
    assert "96 records from 96 pages" in expected
    out = tmp_path / "out.jsonl"
    process = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stop = time.monotonic() + 60
    while not out.with_name("out.jsonl.progress").exists() and process.poll() is None and time.monotonic() < stop:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and out.with_name("out.jsonl.progress").exists()
    output = run("extract", shop / "m.medn", pages, "-o", out)
    assert (
        "96 records from 96 pages" in output
        and "from an earlier run" in output
        and out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    )


def test_excel_and_unreadable_pages(shop, tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.html").write_bytes((shop / "pages" / "shop0.example" / "1.html").read_bytes())
    (pages / "b.html").write_bytes(b"%PDF-1.7")
    (pages / "c.html").write_bytes(b"<meta charset=idna><p>caf\xe9")
    output = run("extract", shop / "m.medn", pages, "-o", tmp_path / "out.csv", "--excel")
    assert "2 records from 2 pages" in output and "b.html is a PDF, not HTML" in output and "1 page not read" in output
    assert (tmp_path / "out.csv").read_bytes().startswith(b"\xef\xbb\xbfpage,url,site,record,")
    assert "--excel requires" in run("extract", shop / "m.medn", pages, "-o", tmp_path / "o.jsonl", "--excel", code=2)
    run("extract", shop / "m.medn", pages, "-o", tmp_path / "o.csv", "--strict", code=1)
    assert not (tmp_path / "o.csv").exists()


@pytest.fixture
def folder_with_a_large_page(shop, tmp_path):
    """Folder with a page of more than 200,000 nodes between two others."""
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("a.html", "c.html"):
        (pages / name).write_bytes((shop / "pages" / "shop0.example" / "1.html").read_bytes())
    (pages / "b.html").write_text("<br>" * 200_001)
    return pages


REASON = "the page has more than 200,000 elements and texts"


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_page_over_the_limit_is_a_row_with_an_error(shop, folder_with_a_large_page, tmp_path, jobs):
    pages = folder_with_a_large_page
    lines, table = io.StringIO(), tmp_path / "out.csv"
    total = extract_stream(shop / "m.medn", page_files(pages), lines, Options(batch=2), jobs)
    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [row["page"] for row in rows] == [str(pages / name) for name in ("a.html", "b.html", "c.html")]
    assert [row["record"] for row in rows] == [0, None, 0] and rows[0]["error"] is None and rows[2]["error"] is None
    assert REASON in rows[1]["error"] and set(rows[1]["fields"].values()) == {None}
    assert (total.n_records, total.n_pages, total.n_cells, total.n_unread) == (2, 2, 2 * len(rows[0]["fields"]), 1)
    output = run("extract", shop / "m.medn", pages, "-o", table)
    assert '1 page not read, see the column "error"' in output
    with open(table, newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert [row["error"] == "" for row in cells] == [True, False, True] and REASON in cells[1]["error"]
    assert cells[1]["record"] == cells[1]["price"] == "" and cells[2]["price"].startswith("$")


def test_unreadable_pages_are_records_in_python_too(shop, folder_with_a_large_page):
    pages, extractor = folder_with_a_large_page, Extractor.load(shop / "m.medn")
    good = extractor.extract([pages / "a.html", pages / "c.html"])
    records = extractor.extract([pages / "b.html", pages / "a.html", b"%PDF-1.7", "<br>" * 200_001, pages / "c.html"])
    assert [records[1], records[4]] == good  # other pages are not affected
    assert [record.page for record in records] == ["b.html", "a.html", "", "", "c.html"]
    assert REASON in records[0].error and "is a PDF" in records[2].error and REASON in records[3].error
    assert records[0].fields == dict.fromkeys(extractor.fields_) and records[0].record is None
    assert [row["error"] is None for row in as_rows(records)] == [False, True, False, False, True]
    assert extractor.extract(UnreadPage("x.html", "torn"))[0].error == "torn"
    with pytest.raises(FileNotFoundError):
        extractor.extract(pages / "gone.html")


def test_a_page_that_cannot_be_rendered_is_a_row_with_an_error(tmp_path, monkeypatch):
    toy = toy_pages(n_sites=1, n_pages=3)
    toy.write(tmp_path / "pages")

    def render_pages(pages, **_):
        drawn = [page.with_layout(np.full((len(page), len(LAYOUT)), 50.0)) for page, _ in pages[1:]]
        return drawn, [UnreadPage(pages[0][0].name, "the browser has gone")]

    monkeypatch.setattr("maxendnet.web.tool.stream.render_pages", render_pages)
    pages = [page.with_layout(np.full((len(page), len(LAYOUT)), 50.0)) for page in toy.pages]
    Extractor(calibrate=False).fit(pages, toy.labels).save(tmp_path / "m.medn")
    out = io.StringIO()
    extract_stream(tmp_path / "m.medn", page_files(tmp_path / "pages"), out, Options())
    assert [json.loads(line)["error"] for line in out.getvalue().splitlines()] == ["the browser has gone", None, None]


def test_a_page_given_twice_has_two_rows(shop):
    page = read_page(shop / "pages" / "shop0.example" / "1.html")
    assert len(Extractor.load(shop / "m.medn").extract([page, page])) == 2


def test_selectors_match_the_extracted_values(shop, tmp_path):
    run("selectors", shop / "m.medn", shop / "pages", "-o", tmp_path / "s.json", "--min-confidence", "0")
    rows = json.loads((tmp_path / "s.json").read_text())
    from selectolax.lexbor import LexborHTMLParser

    by_field = {(row["site"], row["field"]): row for row in rows}
    row = by_field["shop0.example", "price"]
    assert row["alone"] and row["share"] == 1.0 and not row["part"]
    extractor = Extractor.load(shop / "m.medn")
    for path in sorted((shop / "pages" / "shop0.example").iterdir()):
        tree = LexborHTMLParser(path.read_text(encoding="utf-8"))
        value = extractor.extract(path)[0].fields["price"].value
        assert [node.text().strip() for node in tree.css(row["css"])] == [value]


def test_strict_reads_each_page_once_and_writes_the_file_whole_or_not_at_all(shop, tmp_path, monkeypatch):
    from maxendnet.web.pages import folder

    n_read = []
    read = folder.read_page
    monkeypatch.setattr(folder, "read_page", lambda path, **more: n_read.append(path) or read(path, **more))
    pages, out = tmp_path / "pages", tmp_path / "o.jsonl"
    pages.mkdir()
    for i in range(3):
        (pages / f"{i}.html").write_text(f"<h1>Cup {i}</h1><p>$5")
    run("extract", shop / "m.medn", pages, "-o", out, "--strict")
    assert len(n_read) == len(set(n_read)) == 3 and len(out.read_text().splitlines()) == 3
    before = out.read_bytes()
    (pages / "9.html").write_bytes(b"%PDF-1.7")
    assert "nothing was written" in run("extract", shop / "m.medn", pages, "-o", out, "--strict", code=1)
    assert out.read_bytes() == before and [path.name for path in tmp_path.iterdir() if path.is_file()] == ["o.jsonl"]
    printed = run("extract", shop / "m.medn", pages, "--strict", code=1)
    assert '"fields"' not in printed
