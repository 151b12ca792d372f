"""The summary line at the end of a test run."""

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
browser = pytest.mark.skipif(True, reason="needs a browser (apt install it)")
@browser
def test_a(): ...
@browser
def test_b(): ...
def test_c(): pytest.skip("no pipes here")
def test_d(): ...
@pytest.mark.long
def test_e(): ...
"""


def last_lines(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-2:]


def test_the_line_before_the_last_lists_skipped_tests(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\naddopts = -m 'not long'\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    skipped = "skipped: 2 tests need a browser (apt install it), 1 test: no pipes here"
    for options in ([], ["-n", "1"]):
        summary, last = last_lines(tmp_path, *options)
        assert summary == f"{skipped}; not run: tests marked long (make test-long)"
        assert last.startswith("1 passed, 3 skipped")
    summary, last = last_lines(tmp_path, "-m", "long or not long")
    assert summary == skipped and last.startswith("2 passed, 3 skipped")
