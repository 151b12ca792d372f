"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that readers, and a power cut, see the old content or the new, never a part.

    The content goes to a temporary file in the same folder, which is synced and renamed; then the folder is synced.
    Permissions are those of an ordinary new file, or of the file that is replaced; a symbolic link stays one and its
    target is replaced. When anything fails, the temporary file is removed and the old file is as it was. A process that
    is killed leaves its temporary file; the next write to the same path removes it (not on Windows).

    Parameters
    ----------
    path : str or path-like
    write : callable
        Gets the open binary file.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written, or `path` is a folder or a device.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(os.path.join(folder, "note"), lambda file: file.write(b"all of it"))
    ...     os.listdir(folder)
    ['note']
    """
    final = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(final)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "There is no such folder; make it first, or give another path", folder)
    mode = _mode(final)
    start = _start_of_temporaries(name)
    _remove_leftovers(folder, start)  # before the new content, which may need their space
    temporary, file = _new_temporary(folder, start)
    try:
        with file:
            if mode is not None:
                os.chmod(temporary, mode)
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames no open file
            os.replace(temporary, final)  # while the lock is held: see _remove_leftovers
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _start_of_temporaries(name: str) -> str:
    """A name may have 255 bytes, and some are for the rest: at most 60 of them, and no part of a character."""
    return f".{os.fsencode(name)[:60].decode(errors='ignore')}-"


def _new_temporary(folder: str, start: str) -> tuple[str, BinaryIO]:
    """A new file, open and locked. Not by mkstemp: its files are for their owner alone."""
    while True:
        path = os.path.join(folder, f"{start}{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = open(path, "xb")  # noqa: SIM115 - the caller closes it
        try:
            # some file systems have no locks; there the temporary files of killed processes stay
            if not take_lock(file.fileno(), wait=True) or os.fstat(file.fileno()).st_nlink > 0:
                return path, file
        except BaseException:
            file.close()
            with suppress(OSError):
                os.unlink(path)
            raise
        file.close()  # another process took it for a leftover before the lock was ours: once more


def _remove_leftovers(folder: str, start: str) -> None:
    """Remove temporary files of this path whose writers were killed.

    The rule: a writer holds an exclusive lock (flock) on its temporary file from its creation until it is renamed, and
    the system drops the lock when the process ends, however it ends. So a file whose lock can be taken has no writer.
    Neither an age (a save may be slow) nor the process id in the name (ids are used again, and other machines or
    containers have their own) could say that. A writer that has made its file and not yet locked it sees afterwards
    that the file is gone, and makes another.
    """
    if fcntl is None:
        return
    ours = re.compile(re.escape(start) + r"\d+-[0-9a-f]{8}\.tmp")
    with suppress(OSError):  # a folder that cannot be listed can still be written
        for found in [entry.path for entry in os.scandir(folder) if ours.fullmatch(entry.name) and _is_file(entry)]:
            with suppress(OSError):  # gone meanwhile, another user's, or locked by its writer
                handle = os.open(found, os.O_RDWR)  # network file systems lock only what is open for writing
                try:
                    if take_lock(handle, wait=False):
                        os.unlink(found)
                finally:
                    os.close(handle)


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def take_lock(handle: int, wait: bool) -> bool:
    """Take the exclusive lock of an open file. The system drops it when the process ends, however it ends.

    Parameters
    ----------
    handle : int
        Open for writing: network file systems lock nothing else.
    wait : bool
        Wait for a holder of the lock, or raise ``BlockingIOError``. A file that is opened twice has two holders, within
        a process too.

    Returns
    -------
    bool
        False where the system or the file system has no locks.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def drop_lock(handle: int) -> None:
    """Drop the lock of an open file, also for child processes that have inherited the handle."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)


def _mode(path: str) -> int | None:
    """Permissions of the file that would be replaced; None when there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "This is a folder; give the path of a file", path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "This is no ordinary file and is not replaced; give the path of a file", path)
    return stat.S_IMODE(status.st_mode)


def _sync_folder(folder: str) -> None:
    """Make the new name last; where the system has no such call, or the folder may not be read, do without."""
    if os.name == "nt":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
