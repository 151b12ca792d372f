"""The commands of README.md and docs/text.md run as they are written, with the sample files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from test_text_commands import run

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r'^    (?:echo "(?P<text>.*)" \| )?maxendnet (?P<rest>.*)$', re.MULTILINE)
OTHERS = ("reproduce", "web")
"""Commands of README.md on other topics."""


def commands(page):
    """Return the commands of a page in their order: the text on their input, and their arguments."""
    lines = [(match["text"], shlex.split(match["rest"], comments=True)) for match in COMMAND.finditer(page.read_text())]
    return [(text, arguments) for text, arguments in lines if arguments[0] not in OTHERS]


@pytest.fixture(params=["README.md", "docs/text.md"])
def output(request, tmp_path, monkeypatch):
    """Run the commands of a page in an empty folder, and return the output of each."""
    monkeypatch.chdir(tmp_path)
    lines = commands(ROOT / request.param)
    assert lines[0] == (None, ["sample"]) and len(lines) >= 5
    result = {}
    for text, arguments in lines:
        done = run(*arguments, text=f"{text}\n" if text else None)
        assert "Traceback" not in done.stderr
        result[" ".join(arguments)] = done.stdout
    return request.param, result


def test_the_commands_of_the_pages(output):
    page, results = output
    assert results["sample"] == "train.txt: 102 sentences\ntest.txt: 34 sentences\n"
    assert "span F1" in results["train train.txt -o names.medn --test test.txt"]
    f1 = re.search(r"FB1: +([\d.]+)", results["evaluate names.medn test.txt"])
    assert float(f1[1]) > 80
    if page == "README.md":
        spans = [line.split("\t") for line in results["tag names.medn --text --format spans"].splitlines()]
        assert {("PER", "Ada"), ("PER", "Bob"), ("LOC", "Paris")} == {(span[3], span[-1]) for span in spans}
        return
    assert results["tag names.medn --text"] == "Ada\tB-PER\nmet\tO\nBob\tB-PER\n\n"
    assert Path("labelled.txt").read_text().count("\n\n") == 34 and "<html" in Path("weights.html").read_text()
    assert "met: O" in results["explain names.medn Ada met Bob"]
    assert "maxendnet.text" in results["info names.medn"]


def test_samples_do_not_replace_other_files(tmp_path):
    run("sample", tmp_path / "a")
    run("sample", tmp_path / "a")
    (tmp_path / "a" / "test.txt").write_text("mine")
    message = run("sample", tmp_path / "a", code=1).stderr
    assert "test.txt: The file exists and is not replaced; pass another folder." in message
    assert (tmp_path / "a" / "test.txt").read_text() == "mine"
