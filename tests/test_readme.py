"""The README: examples run and print what is shown, and links are valid."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import maxendnet
from maxendnet.estimators.markov_network import MarkovNetwork

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = PAGES[0].read_text()


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def test_the_examples_print_their_comments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    assert blocks(README)
    for block in blocks(README):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(block, "README.md", "exec"), names)
        expected = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert output.getvalue().splitlines() == expected


def test_the_first_example_is_short():
    assert len([line for line in blocks(README)[0].splitlines() if line]) <= 10


def test_the_table_has_every_estimator():
    named = set(re.findall(r"^\| `(\w+)\(", README, re.MULTILINE))
    exported = [getattr(maxendnet, name) for name in maxendnet.__all__]
    networks = {c.__name__ for c in exported if isinstance(c, type) and issubclass(c, MarkovNetwork)}
    assert named == networks


def test_the_two_commands_are_targets():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = set(re.findall(r"\bmake (\w+)", README + (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"demo", "test"} <= mentioned <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
