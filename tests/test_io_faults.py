"""Faults of the disk and kills at every write, rename, sync and truncation; see `faults/inject.py`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).with_name("faults")
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs LD_PRELOAD (Linux)"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler (cc)"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", path, FAULTS / "faults.c", "-ldl"], check=True)
    return path


def inject(library, *operations):
    script = [sys.executable, str(FAULTS / "inject.py"), str(library), *operations]
    done = subprocess.run(script, env=os.environ | {"LD_PRELOAD": library}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["violations"] == []
    return answer["counts"]


def test_faults_while_files_are_written(library):
    counts = inject(library, "save", "labels")
    assert all(of["cases"] >= 9 and of["killed"] == of["cases"] // 3 for of in counts.values())


@pytest.mark.long
@pytest.mark.parametrize("operation", ["checkpoint", "folder write", "folder append", "train", "extract"])
def test_faults_while_fits_and_commands_write_files(library, operation):
    if operation == "extract":
        pytest.importorskip("selectolax")
    counts = inject(library, operation)[operation]
    assert counts["cases"] >= 9
    if operation == "checkpoint":
        assert counts["done"] > 0  # a fit goes on
