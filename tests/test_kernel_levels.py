"""The level of vector instructions: chosen at import, by the environment, and for a while."""

import importlib
import os
import subprocess
import sys

import numpy as np
import pytest

from maxendnet import _kernels


def imported(level):
    """What a new process that has the variable says."""
    code = "from maxendnet import _kernels; print(_kernels.level(), _kernels.decode.__module__)"
    environment = {**os.environ, "MAXENDNET_LEVEL": level}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_the_best_level_is_the_last_and_the_default():
    assert [name for name in ("baseline", "avx2") if name in _kernels.levels()] == list(_kernels.levels())
    assert imported("").stdout.split()[0] == _kernels.levels()[-1]


@pytest.mark.parametrize("level", _kernels.levels())
def test_the_environment_chooses(level):
    assert imported(level).stdout.split() == [level, f"maxendnet._kernels_{level}"]


def test_an_unknown_level_in_the_environment_is_an_error():
    done = imported("sse9")
    assert done.returncode and not done.stdout
    assert "MAXENDNET_LEVEL: level 'sse9' is unknown; available levels are " in done.stderr


def test_a_level_that_the_processor_does_not_have_is_an_error(monkeypatch):
    monkeypatch.setattr(_kernels, "levels", lambda: ("baseline",))
    with pytest.raises(ValueError, match="level 'avx2' is not available on this machine; available levels are b"):
        _kernels.at_level("avx2").__enter__()


def test_kernels_that_the_processor_cannot_run_are_an_error(monkeypatch):
    module = importlib.import_module(f"maxendnet._kernels_{_kernels.levels()[0]}")
    monkeypatch.setattr(module, "_processor_levels", lambda: ["none of these"])
    with pytest.raises(ImportError, match=r"compiled for .*, which this processor does not support; reinstall"):
        _kernels.levels()


def test_kernels_that_are_not_compiled_are_an_error(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="the kernels of maxendnet are not compiled"):
        _kernels.levels()


@pytest.mark.parametrize("level", _kernels.levels())
def test_names_follow_a_switch_and_come_back(level):
    before, function = _kernels.level(), _kernels.decode
    with pytest.raises(ZeroDivisionError), _kernels.at_level(level):
        assert _kernels.level() == level
        assert _kernels.decode.__module__ == _kernels.ActiveSets.__module__ == f"maxendnet._kernels_{level}"
        raise ZeroDivisionError
    assert _kernels.level() == before and _kernels.decode is function


def test_objects_of_another_level_are_refused():
    first, *others = _kernels.levels()
    with _kernels.at_level(first):
        sets = _kernels.ActiveSets(np.array([0, 1]), np.array([0], np.int32), np.ones(1), 1.0)
    for level in others:
        with _kernels.at_level(level), pytest.raises(TypeError):
            _kernels.ActiveSets.total_cost(sets)
