"""Progress bars without a terminal print few lines."""

from __future__ import annotations

import io
import re

import pytest

from maxendnet import L2CRF
from maxendnet.utils import progress
from maxendnet.utils.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time of the lines, in seconds; advance it by ``clock[0] += 1``."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_per_minute_and_the_last(monkeypatch, clock):
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    for _ in progress_bar(range(200), desc="pages", mininterval=0):
        clock[0] += 1
    assert [line[:12] for line in log.getvalue().splitlines()] == [
        "pages:  30%|",
        "pages:  60%|",
        "pages:  90%|",
        "pages: 100%|",
    ]
    assert "\r" not in log.getvalue()


def test_nested_bars_do_not_move_the_cursor_of_a_log(capfd):
    for _ in progress_bar(range(2), desc="outer"):
        list(progress_bar(range(2), desc="inner"))
    assert [line[:6] for line in capfd.readouterr().err.splitlines()] == ["inner:", "inner:", "outer:"]


def test_a_bar_that_vanishes_leaves_a_log_empty(capfd):
    list(progress_bar(range(3), leave=False))
    assert capfd.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    list(progress_bar(range(3), desc="pages"))
    assert "\rpages: " in terminal.getvalue()


def test_a_hidden_bar_only_iterates(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(progress_bar(range(3), show=False)) == [0, 1, 2] and terminal.getvalue() == ""


def test_a_short_fit_writes_one_line_to_a_log(capfd):
    L2CRF(verbose=1).fit([[[1.0]], [[-1.0]]], [["a"], ["b"]])
    assert re.fullmatch(r"L2CRF: \d+ passes .*gap.*\n", capfd.readouterr().err)
