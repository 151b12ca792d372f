"""The level of vector instructions: chosen at import, by the environment, and for a while."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from maxendnet import L2CRF, _bindings, _kernels


def imported(level, code="from maxendnet import _kernels; print(_kernels.level())"):
    """What a new process that has the variable prints."""
    environment = {**os.environ, "MAXENDNET_LEVEL": level}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_the_best_level_is_the_last_and_the_default():
    assert [name for name in ("baseline", "avx2") if name in _kernels.levels()] == list(_kernels.levels())
    assert imported("").stdout.split()[0] == _kernels.levels()[-1]


@pytest.mark.parametrize("level", _kernels.levels())
def test_the_environment_chooses(level):
    assert imported(level).stdout.split() == [level]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
@pytest.mark.parametrize("level", _kernels.levels())
def test_only_the_library_of_the_level_is_loaded(level):
    code = "import maxendnet._kernels; print(open('/proc/self/maps').read())"
    loaded = {name for name in ("baseline", "avx2") if f"libmaxendnet_{name}" in imported(level, code).stdout}
    assert loaded == {level}


def test_an_unknown_level_in_the_environment_is_an_error():
    done = imported("sse9")
    assert done.returncode and not done.stdout
    assert "MAXENDNET_LEVEL: level 'sse9' is unknown; available levels are " in done.stderr


def test_a_level_that_the_processor_does_not_have_is_an_error(monkeypatch):
    monkeypatch.setattr(_kernels, "levels", lambda: ("baseline",))
    with pytest.raises(ValueError, match="level 'avx2' is not available on this machine; available levels are b"):
        _kernels.at_level("avx2").__enter__()


def test_kernels_that_the_processor_cannot_run_are_an_error(monkeypatch):
    monkeypatch.setattr(_bindings, "_processor_levels", lambda: ["none of these"])
    with pytest.raises(ImportError, match=r"compiled for .*, which this processor does not support; reinstall"):
        _kernels.levels()


def test_kernels_that_are_not_compiled_are_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(_bindings, "__file__", str(tmp_path / "_bindings.so"))
    with pytest.raises(ImportError, match="the kernels of maxendnet are not compiled"):
        _kernels.levels()


def test_a_library_that_cannot_be_loaded_or_is_of_another_build_is_an_error(tmp_path):
    level = _kernels.level()
    with pytest.raises(RuntimeError, match=r"missing\.so"):
        _bindings._use(str(tmp_path / "missing.so"))
    foreign = tmp_path / "other.so"
    shutil.copy(importlib.util.find_spec("numpy.random.mtrand").origin, foreign)
    with pytest.raises(RuntimeError, match=r"other\.so is not from the build of this module; install maxendnet again"):
        _bindings._use(str(foreign))
    assert _kernels.level() == level


@pytest.mark.parametrize("level", _kernels.levels())
def test_the_level_follows_a_switch_and_comes_back(level):
    before = _kernels.level()
    with pytest.raises(ZeroDivisionError), _kernels.at_level(level):
        assert _kernels.level() == level
        raise ZeroDivisionError
    assert _kernels.level() == before


@pytest.mark.skipif(len(_kernels.levels()) < 2, reason="needs two levels of kernels")
def test_a_switch_changes_the_code_that_runs():
    """Levels sum in another order and with or without fused multiply-adds, so only the last digits differ."""
    X = [np.random.default_rng(0).standard_normal((200, 6)) for _ in range(5)]
    model = L2CRF(lam=0.1).fit(X, [["a", "b", "c", "d"] * 50 for _ in X])
    first, second = (marginals_at(level, model, X) for level in _kernels.levels())
    np.testing.assert_allclose(first, second, rtol=1e-9)
    assert not np.array_equal(first, second)


def marginals_at(level, model, X):
    with _kernels.at_level(level):
        return np.concatenate(model.predict_marginals(X))


@pytest.mark.parametrize("level", _kernels.levels())
def test_objects_do_not_depend_on_the_level(level):
    with _kernels.at_level(_kernels.levels()[0]):
        sets = _kernels.ActiveSets(np.array([0, 1]), np.array([0], np.int32), np.ones(1), 1.0)
    with _kernels.at_level(level):
        assert sets.total_cost() == 0.0 and len(sets.copy()) == 1
