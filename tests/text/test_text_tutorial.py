"""The commands of docs/text.md run in order, with the documented results."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner
from test_tagger import corpus

from maxendnet.cli import main
from maxendnet.text.reading.columns import columns_text

TUTORIAL = Path(__file__).parents[2] / "docs" / "text.md"


def test_the_commands_of_the_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(columns_text(*corpus(40)))
    Path("test.txt").write_text(columns_text(*corpus(10, 1)))
    lines = re.findall(r'^    (?:echo "(.*)" \| )?maxendnet (.*)$', TUTORIAL.read_text(), re.MULTILINE)
    assert len(lines) == 8
    output = {}
    for text, rest in lines:
        result = CliRunner().invoke(main, shlex.split(rest), input=f"{text}\n" if text else None)
        assert result.exit_code == 0, (rest, result.output)
        output[rest] = result.stdout
    assert "FB1: 100.00" in output["evaluate names.medn test.txt"]
    assert output["tag names.medn --text"] == "Ada\tB-PER\nmet\tO\nBob\tB-PER\n\n"
    assert Path("labelled.txt").read_text().count("\n\n") == 10 and "<html" in Path("weights.html").read_text()
    assert "met: O" in output["explain names.medn Ada met Bob"]
    assert "maxendnet.text" in output["info names.medn"]
