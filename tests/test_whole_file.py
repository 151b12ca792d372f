import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

from maxendnet.whole_file import write_whole


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    write_whole(tmp_path / "a", lambda file: file.write(b"new"))
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, lambda file: file.write(b"new"))
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, error):
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        write_whole(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["model"]


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals on Windows")
@pytest.mark.parametrize("call", ["os.fsync", "os.replace"])
def test_a_kill_leaves_the_old_file(tmp_path, call):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    script = f"""
        import os, signal
        from maxendnet.whole_file import write_whole
        {call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        write_whole({str(path)!r}, lambda file: file.write(b"new"))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


def test_the_file_and_then_the_folder_are_synced(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    monkeypatch.setattr(os, "replace", lambda *paths: seen.append("replace") or os.rename(*paths))
    write_whole(tmp_path / "a", lambda file: file.write(b"new"))
    assert seen == [False, "replace", True]


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [("no/such/model", FileNotFoundError, "no such folder"), ("", IsADirectoryError, "a folder")],
)
def test_a_place_that_cannot_be_written_is_named(tmp_path, path, kind, message):
    with pytest.raises(kind, match=message):
        write_whole(tmp_path / path, lambda file: file.write(b"new"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no ordinary file"):
        write_whole(tmp_path / "pipe", lambda file: file.write(b"new"))


def test_a_very_long_name(tmp_path):
    write_whole(tmp_path / ("n" * 250), lambda file: file.write(b"new"))
    assert os.listdir(tmp_path) == ["n" * 250]
