import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

from maxendnet.utils import atomic_write as whole_file
from maxendnet.utils.atomic_write import write_whole

try:
    import fcntl
except ImportError:
    fcntl = None


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


@pytest.mark.skipif(os.name == "nt", reason="needs signals, which Windows lacks")
@pytest.mark.parametrize("call", ["os.fsync", "os.replace"])
def test_a_kill_leaves_the_old_file(tmp_path, call):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    script = f"""
        import os, runpy, signal
        write_whole = runpy.run_path({whole_file.__file__!r})["write_whole"]
        {call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        write_whole({str(path)!r}, lambda file: file.write(b"new"))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


# the module by itself: importing the package takes much longer than a save
KILLED = """
    import os, runpy, signal, sys
    write_whole = runpy.run_path(sys.argv[2])["write_whole"]
    def write(file):
        file.write(b"half")
        file.flush()
        if "wait" in sys.argv:
            print("writing", flush=True)
            sys.stdin.readline()
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    write_whole(sys.argv[1], write)
"""
needs_locks = pytest.mark.skipif(os.name == "nt", reason="needs signals and locks, which Windows lacks")


def killed_save(path):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path), whole_file.__file__], check=False)
    assert done.returncode == -signal.SIGKILL


@needs_locks
@pytest.mark.parametrize("name", ["model", "model.medn", "n" * 250, "\u00e9" * 120, "\U0001f600" * 60, "a[b]*-1"])
def test_the_next_save_removes_files_of_killed_ones(tmp_path, name):
    path, others = tmp_path / name, {tmp_path / "x" / "y", tmp_path / "model-7", tmp_path / ".model-1-x.tmp"}
    (tmp_path / "x").mkdir()
    for other in others:
        other.write_bytes(b"")
    killed_save(path)
    killed_save(path)  # removes what the first one left, and leaves the same
    assert not path.exists() and len(os.listdir(tmp_path)) == 4
    write_whole(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new" and set(os.listdir(tmp_path)) == {"x", "model-7", ".model-1-x.tmp", name}


@needs_locks
def test_leftovers_of_another_path_stay(tmp_path):
    killed_save(tmp_path / "model-12")
    write_whole(tmp_path / "model", lambda file: file.write(b"new"))
    assert len(os.listdir(tmp_path)) == 2


@needs_locks
def test_a_live_writer_is_left_alone(tmp_path):
    """Another process, and an outer save of this one, are in the middle of a save to the same path."""
    path = tmp_path / "model"
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(path), whole_file.__file__, "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as slow:
        assert slow.stdout.readline() == "writing\n"

        def write(file):
            write_whole(path, lambda inner: inner.write(b"inner"))
            assert path.read_bytes() == b"inner"
            file.write(b"outer")

        write_whole(path, write)
        assert path.read_bytes() == b"outer" and len(os.listdir(tmp_path)) == 2
        slow.communicate("go on\n")
        assert slow.returncode == 0
    assert path.read_bytes() == b"half" and os.listdir(tmp_path) == ["model"]


@needs_locks
def test_a_writer_whose_new_file_was_removed_creates_another(tmp_path, monkeypatch):
    path, flock, removed = tmp_path / "model", fcntl.flock, []

    def remove_first(handle, operation):
        if not removed:
            removed.extend(os.listdir(tmp_path))
            os.unlink(tmp_path / removed[0])
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    write_whole(path, lambda file: file.write(b"new"))
    assert removed and path.read_bytes() == b"new" and os.listdir(tmp_path) == ["model"]


@needs_locks
def test_without_locks_a_save_works_and_removes_nothing(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    killed_save(tmp_path / "model")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    write_whole(tmp_path / "model", lambda file: file.write(b"new"))
    assert (tmp_path / "model").read_bytes() == b"new" and len(os.listdir(tmp_path)) == 2


def test_the_file_and_then_the_folder_are_synced(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    monkeypatch.setattr(os, "replace", lambda *paths: calls.append("replace") or os.rename(*paths))
    write_whole(tmp_path / "a", lambda file: file.write(b"new"))
    assert calls == [False, "replace", True]


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [("no/such/model", FileNotFoundError, "The folder does not exist"), ("", IsADirectoryError, "a folder")],
)
def test_a_place_that_cannot_be_written_is_named(tmp_path, path, kind, message):
    with pytest.raises(kind, match=message):
        write_whole(tmp_path / path, lambda file: file.write(b"new"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes, which Windows lacks")
def test_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(tmp_path / "pipe", lambda file: file.write(b"new"))


def test_a_very_long_name(tmp_path):
    write_whole(tmp_path / ("n" * 250), lambda file: file.write(b"new"))
    assert os.listdir(tmp_path) == ["n" * 250]
