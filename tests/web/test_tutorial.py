"""The commands of the tutorial run in order and produce the rows that it shows."""

import csv
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from maxendnet.cli import main
from maxendnet.web.fields.labels import labels_on_page
from maxendnet.web.tool.toy import toy_pages

TUTORIAL = Path(__file__).parents[2] / "docs" / "web_tutorial.md"


def label_three_pages(session, *_):
    """Label three pages in the suggested order, instead of running the server."""
    truth = {x.page: x for x in toy_pages(n_sites=2, n_pages=5).labels}
    session.start()
    for _ in range(3):
        i = session.next()
        session.save(
            i, session.pages[i].sha, labels_on_page(session.view(i), truth[session.pages[i].name])[0], done=True
        )
        stop = time.monotonic() + 300
        while session._changed or session.doing:
            assert time.monotonic() < stop, session.problem
            time.sleep(0.02)
    session.stop()


def test_the_commands_of_the_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("maxendnet.web.labelling.command.serve", label_three_pages)
    text = TUTORIAL.read_text()
    commands = re.findall(r"^    (maxendnet|python) (.*)$", text, re.MULTILINE)
    assert len(commands) == 6
    for program, rest in commands:
        if program == "python":
            exec(re.fullmatch(r'-c "(.*)"', rest)[1], {})
        else:
            result = CliRunner().invoke(main, rest.split())
            assert result.exit_code == 0, result.output
    with open("shop.csv", newline="", encoding="utf-8") as file:
        rows = {row["page"]: row for row in csv.DictReader(file)}
    assert len(rows) == 40
    shown = re.findall(r"^\| (new/\S+) \| (.*) \|$", text, re.MULTILINE)
    assert len(shown) == 3
    for page, values in shown:
        assert values.split(" | ") == [rows[page][name] for name in ("name", "price", "brand", "image")]


@pytest.mark.parametrize("name", re.findall(r"\]\((figures/\S+)\)", TUTORIAL.read_text()))
def test_pictures_exist_and_are_small(name):
    path = TUTORIAL.parent / name
    assert path.read_bytes()[:4] == b"\x89PNG" and path.stat().st_size < 80_000
