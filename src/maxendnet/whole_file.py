"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that readers, and a power cut, see the old content or the new, never a part.

    The content goes to a temporary file in the same folder, which is synced and renamed; then the folder is synced.
    Permissions are those of an ordinary new file, or of the file that is replaced; a symbolic link stays one and its
    target is replaced. When anything fails, the temporary file is removed and the old file is as it was.

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
    # not mkstemp: its files are for their owner alone. A name may have 255 bytes, and some are for the suffix.
    temporary = os.path.join(folder, f".{name[:60]}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


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
