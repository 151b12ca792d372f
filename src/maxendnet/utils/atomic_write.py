"""Atomic writes of files, and file locks."""

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
    """Write a file atomically, even if there is a power cut.

    The content goes to a temporary file in the same folder, which is synced and renamed. Then the folder is synced.
    Permissions are those of the replaced file, or of an ordinary new file. If the path is a symbolic link, its target
    is replaced. After a failure the temporary file is removed and the old file is unchanged. A process that is killed
    leaves its temporary file, which the next write to the same path removes (not on Windows).

    Parameters
    ----------
    path : str or path-like
    write : callable
        Function of the open binary file, which writes the content.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written, or ``path`` is a folder or a device.

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
        raise FileNotFoundError(errno.ENOENT, "The folder does not exist; create it, or use another path", folder)
    mode = _mode(final)
    start = _start_of_temporaries(name)
    _remove_leftovers(folder, start)  # done first, because the new content may need their space
    temporary, file = _new_temporary(folder, start)
    try:
        with file:
            if mode is not None:
                os.chmod(temporary, mode)
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows does not rename open files
            os.replace(temporary, final)  # the lock must still be held, see _remove_leftovers
    except BaseException as error:  # this includes Ctrl-C
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:  # such as a full disk
            error.filename = os.fspath(path)
        raise
    _sync_folder(folder)


def _start_of_temporaries(name: str) -> str:
    """Return the start of the names of temporary files: 60 bytes of the name."""
    return f".{os.fsencode(name)[:60].decode(errors='ignore')}-"


def _new_temporary(folder: str, start: str) -> tuple[str, BinaryIO]:
    """Create a file, and return it open and locked.

    mkstemp is not used, because only the owner could read its files.
    """
    while True:
        path = os.path.join(folder, f"{start}{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = open(path, "xb")  # noqa: SIM115 - the caller closes it
        try:
            # on file systems without locks, temporary files of killed processes are never removed
            if not take_lock(file.fileno(), wait=True) or os.fstat(file.fileno()).st_nlink > 0:
                return path, file
        except BaseException:
            file.close()
            with suppress(OSError):
                os.unlink(path)
            raise
        file.close()  # another process removed it before it was locked, so try again


def _remove_leftovers(folder: str, start: str) -> None:
    """Remove temporary files of this path whose writers were killed.

    A writer holds an exclusive lock (flock) on its temporary file until it is renamed, and the system releases the lock
    when the process ends. So a file whose lock can be taken has no writer. Neither its age nor the process id in its
    name would show that, because writes may be slow, ids are reused, and containers have their own ids. A writer whose
    new file is removed before it was locked creates another one.
    """
    if fcntl is None:
        return
    ours = re.compile(re.escape(start) + r"\d+-[0-9a-f]{8}\.tmp")
    with suppress(OSError):  # a folder that cannot be listed may still be writeable
        entries = [entry for entry in os.scandir(folder) if ours.fullmatch(entry.name)]
        for path in [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]:
            with suppress(OSError):  # it was removed meanwhile, belongs to another user, or is locked by its writer
                handle = os.open(path, os.O_RDWR)  # network file systems lock only files open for writing
                try:
                    if take_lock(handle, wait=False):
                        os.unlink(path)
                finally:
                    os.close(handle)


def take_lock(handle: int, wait: bool) -> bool:
    """Take the exclusive lock of an open file.

    The system releases it when the process ends.

    Parameters
    ----------
    handle : int
        Descriptor of a file that is open for writing, as network file systems require.
    wait : bool
        Whether to wait for the lock. If False, ``BlockingIOError`` is raised if the lock is taken, even by another
        descriptor of the file in the same process.

    Returns
    -------
    bool
        False if the operating system or the file system does not support locks.
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
    """Release the lock of an open file, including locks that child processes inherited."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)


def _mode(path: str) -> int | None:
    """Return the permissions of the file to be replaced, or None."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "This is a folder; expected the path of a file", path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "This is not a regular file and is not replaced; expected the path of a file", path)
    return stat.S_IMODE(status.st_mode)


def _sync_folder(folder: str) -> None:
    """Sync a folder where possible, so that a new name survives a power cut."""
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
