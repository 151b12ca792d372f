"""Container of model files and checkpoints, with a checksum.

A file consists of

    8 bytes    kind of file
    4 bytes    format version, little-endian
    32 bytes   SHA-256 of the format version and of all following bytes
    the rest   safetensors, for some kinds compressed by zlib: the arrays, and under ``__metadata__`` a JSON header

Safetensors begins with the offsets of all arrays. They are read first, and at most the size that they imply is
decompressed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from maxendnet.utils.atomic_write import write_whole
from maxendnet.utils.memory import check_memory

METADATA = "maxendnet"
NAMES = "feature_names"
"""Name of the only array that a header marks by a bool instead of ``{"array": name}``."""
MAX_UNUSED_BYTES = 1 << 20
"""Maximum size of arrays that the header does not mention."""
MAX_HEADER_BYTES = 100_000_000
"""Maximum size of a JSON header in safetensors."""


class Kind(NamedTuple):
    """Kind of file: its format, and words for error messages."""

    magic: bytes
    readable: tuple[int, ...]
    """Supported format versions in ascending order."""
    name: str
    """Name of the kind in messages, such as "model file"."""
    writer: str
    """Function that writes such files."""
    again: str
    """Advice for a damaged file."""
    error: type[ValueError]
    compressed_from: int | None = None
    """First format version that is compressed, or None if none is."""

    def compresses(self, version: int) -> bool:
        """Whether a format version is compressed."""
        return self.compressed_from is not None and version >= self.compressed_from

    @property
    def prefix(self) -> int:
        """Number of bytes before the arrays."""
        return len(self.magic) + 4 + hashlib.sha256().digest_size


class Content(NamedTuple):
    """Header and arrays of a file with a valid checksum."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write_sealed(
    path: str | os.PathLike[str], kind: Kind, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write header and arrays atomically. ``header["format"]`` is the format version."""
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    body = safetensors.numpy.save(arrays, {METADATA: text})
    if kind.compresses(header["format"]):
        body = zlib.compress(body)
    version = header["format"].to_bytes(4, "little")
    digest = _digest(version, body)
    write_whole(path, lambda file: file.writelines([kind.magic, version, digest, body]))


def read_sealed(path: str | os.PathLike[str], kind: Kind) -> Content:
    """Return the header and arrays of a file, or raise ``kind.error`` if the file is invalid."""
    path = Path(path)
    if path.is_dir():
        raise kind.error(f"{path} is a folder; expected the path of a {kind.name}.")
    with open(path, "rb") as file:
        prefix = file.read(kind.prefix)
        if prefix[: len(kind.magic)] != kind.magic[: len(prefix)]:
            raise kind.error(f"{path} is not a maxendnet {kind.name}; expected a file written by {kind.writer}.")
        if len(prefix) < kind.prefix:
            raise kind.error(f"{path} is truncated: it has only {len(prefix)} bytes; {kind.again}.")
        version_bytes = prefix[len(kind.magic) : len(kind.magic) + 4]
        version = int.from_bytes(version_bytes, "little")
        if version not in kind.readable:
            oldest, newest = kind.readable[0], kind.readable[-1]
            if version > newest:
                remedy = "update maxendnet, or copy the file again if it may be damaged"
            elif version:
                remedy = f"it was written by an earlier version: fit again with this one, and use {kind.writer}"
            else:
                remedy = "it is damaged"
            raise kind.error(
                f"{path} has format version {version}, but this maxendnet reads versions {oldest} to {newest}; "
                f"{remedy}."
            )
        body = file.read()
    if _digest(version_bytes, body) != prefix[-hashlib.sha256().digest_size :]:
        raise kind.error(f"{path} is damaged or truncated: its checksum does not match its content; {kind.again}.")

    def first(n_bytes: int) -> bytes:
        return _decompressed(body, n_bytes) if kind.compresses(version) else body[:n_bytes]

    try:
        header, n_bytes = _header_and_size(first, kind)
        if header.get("format") != version:
            raise kind.error("the header has another format version")
        what = f"{path}, a {kind.name} of {os.path.getsize(path):,} bytes,"
        check_memory(2 * n_bytes, what, "read it on a machine with more memory", error=TooLargeError)
        content = first(n_bytes + 1)
        if len(content) != n_bytes:
            raise kind.error(f"its content does not have the {n_bytes:,} bytes that its arrays need")
        # safetensors checks names, shapes and offsets before it allocates memory
        arrays = {name: _copied(array, kind) for name, array in safetensors.numpy.load(content).items()}
    except TooLargeError as error:
        raise kind.error(str(error)) from None
    except Exception as error:
        # the checksum is right, so another program wrote this content, and any error is due to the file
        raise kind.error(
            f"{path} has a valid checksum, but its content is not that of a {kind.name} ({error}); it was not written "
            f"by {kind.writer}."
        ) from error
    return Content(header, arrays)


class TooLargeError(ValueError):
    """A file needs more memory than is available."""


def _decompressed(body: bytes, n_bytes: int) -> bytes:
    """Return the first ``n_bytes`` bytes of the decompressed content."""
    return zlib.decompressobj().decompress(body, n_bytes)


def _header_and_size(first: Callable[[int], bytes], kind: Kind) -> tuple[dict[str, Any], int]:
    """Return the JSON header of safetensors, and the size that it implies.

    Parameters
    ----------
    first : callable
        Returns the first n bytes of the content.
    kind : Kind
    """
    length = int.from_bytes(first(8), "little")
    if length > MAX_HEADER_BYTES:
        raise kind.error(f"it states a header of {length:,} bytes")
    arrays = json.loads(first(8 + length)[8:])
    header = json.loads(arrays.pop("__metadata__")[METADATA])
    if not isinstance(header, dict):
        raise kind.error("the header is not a JSON object")
    sizes = {name: array["data_offsets"][1] - array["data_offsets"][0] for name, array in arrays.items()}
    if min(sizes.values(), default=0) < 0:
        raise kind.error("an array ends before it begins")
    unused = sizes.keys() - {*_arrays_named(header), NAMES}
    if sum(sizes[name] for name in unused) > MAX_UNUSED_BYTES:
        raise kind.error(f"nothing refers to the array {max(unused, key=sizes.__getitem__)!r}")
    return header, 8 + length + sum(sizes.values())


def _arrays_named(plain: Any) -> Iterator[str]:
    """Yield the names of the arrays that a header refers to by ``{"array": name}``."""
    if isinstance(plain, dict):
        if isinstance(plain.get("array"), str):
            yield plain["array"]
        plain = list(plain.values())
    if isinstance(plain, list):
        for item in plain:
            yield from _arrays_named(item)


def _digest(version: bytes, body: bytes | memoryview) -> bytes:
    sha = hashlib.sha256(version)
    sha.update(body)
    return sha.digest()


def _copied(array: np.ndarray, kind: Kind) -> np.ndarray:
    """Return a writeable copy. Raise ``kind.error`` unless bools are 0 or 1, as numpy requires."""
    if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
        raise kind.error("a bool array has values other than 0 and 1")
    return array.copy()
