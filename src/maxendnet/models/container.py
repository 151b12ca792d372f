"""Files of numbers and names under a checksum: what model files and checkpoints have in common.

A sealed file is

    8 bytes    which kind of file it is
    4 bytes    format version, little-endian
    32 bytes   SHA-256 of the four bytes before it and of all that follows
    the rest   safetensors: the arrays, and under ``__metadata__`` the text of one JSON header; of some kinds of file
               compressed by zlib

A compressed file states the size of its content: safetensors begins with the places of all arrays. They are read
first, and no more than that size is decompressed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from maxendnet.utils.atomic_write import write_whole
from maxendnet.utils.memory import check_memory

METADATA = "maxendnet"
NAMES = "feature_names"
"""The array that a header refers to by a truth value, and not by ``{"array": name}``."""
MAX_UNUSED_BYTES = 1 << 20
"""Of arrays that no part of a header refers to: smaller ones are left to the checks of what is read."""
MAX_HEADER_BYTES = 100_000_000
"""Limit of safetensors for its JSON header."""


class Kind(NamedTuple):
    """What tells one kind of file from another, and the words of its messages."""

    magic: bytes
    readable: tuple[int, ...]
    """Format versions, the newest last; the newest is written."""
    name: str
    """Such as "model file"."""
    writer: str
    """What writes such files."""
    again: str
    """What to do about one that is damaged."""
    error: type[ValueError]
    compressed_from: int | None = None
    """The first format version that is compressed; None: no version is."""

    def compresses(self, version: int) -> bool:
        """Whether a format version is compressed."""
        return self.compressed_from is not None and version >= self.compressed_from

    @property
    def prefix(self) -> int:
        """Bytes before the arrays."""
        return len(self.magic) + 4 + hashlib.sha256().digest_size


class Content(NamedTuple):
    """A sealed file, checked to be whole, but not yet what it stands for."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write_sealed(
    path: str | os.PathLike[str], kind: Kind, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write header and arrays, whole or not at all. ``header["format"]`` is the version."""
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    body = safetensors.numpy.save(arrays, {METADATA: text})
    if kind.compresses(header["format"]):
        body = zlib.compress(body)
    version = header["format"].to_bytes(4, "little")
    digest = _digest(version, body)
    write_whole(path, lambda file: file.writelines([kind.magic, version, digest, body]))


def read_sealed(path: str | os.PathLike[str], kind: Kind) -> Content:
    """Header and arrays of a file, after its checksum was found right; ``kind.error`` otherwise."""
    path = Path(path)
    if path.is_dir():
        raise kind.error(f"{path} is a folder; give the path of a {kind.name}.")
    with open(path, "rb") as file:
        prefix = file.read(kind.prefix)
        if prefix[: len(kind.magic)] != kind.magic[: len(prefix)]:
            raise kind.error(f"{path} is not a maxendnet {kind.name}; give a file that {kind.writer} wrote.")
        if len(prefix) < kind.prefix:
            raise kind.error(
                f"{path} is cut short: it has {len(prefix)} bytes, and a {kind.name} has more; {kind.again}."
            )
        found = prefix[len(kind.magic) : len(kind.magic) + 4]
        version = int.from_bytes(found, "little")
        if version not in kind.readable:
            oldest, newest = kind.readable[0], kind.readable[-1]
            if version > newest:
                remedy = "update maxendnet, or copy the file again if it may be damaged"
            elif version:
                remedy = f"it was written by an earlier version: fit again with this one, and use {kind.writer}"
            else:
                remedy = "it is damaged"
            raise kind.error(
                f"{path} has format version {version}, and this maxendnet reads versions {oldest} to {newest}; "
                f"{remedy}."
            )
        body = file.read()
    if _digest(found, body) != prefix[-hashlib.sha256().digest_size :]:
        raise kind.error(f"{path} is damaged or cut short: its checksum is not that of its content; {kind.again}.")
    first = partial(_decompressed, body) if kind.compresses(version) else lambda n_bytes: body[:n_bytes]
    try:
        header, n_bytes = _header_and_size(first, kind)
        if header.get("format") != version:
            raise kind.error("the header does not say the format")
        what = f"{path}, a {kind.name} of {os.path.getsize(path):,} bytes,"
        check_memory(2 * n_bytes, what, "read it on a machine with more memory", error=TooLargeError)
        content = first(n_bytes + 1)
        if len(content) != n_bytes:
            raise kind.error(f"its content does not have the {n_bytes:,} bytes that its arrays need")
        # safetensors checks that names, shapes and offsets fit the bytes that are there, before anything is allocated
        arrays = {name: _own(array, kind) for name, array in safetensors.numpy.load(content).items()}
    except TooLargeError as error:
        raise kind.error(str(error)) from None
    except Exception as error:
        # The checksum is right, so the file is what its writer meant, and its writer was not `write_sealed`. Whatever
        # goes wrong with it is the file's content, not a bug to be shown as a crash.
        raise kind.error(
            f"{path} has a right checksum, but is not laid out as a {kind.name} ({error}); it was not written by "
            f"{kind.writer}."
        ) from error
    return Content(header, arrays)


class TooLargeError(ValueError):
    """A file needs more memory than is available."""


def _decompressed(body: bytes, n_bytes: int) -> bytes:
    """The first bytes of what was compressed."""
    return zlib.decompressobj().decompress(body, n_bytes)


def _header_and_size(first: Callable[[int], bytes], kind: Kind) -> tuple[dict[str, Any], int]:
    """The JSON header of safetensors content, and the size that its arrays imply.

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
        raise kind.error("the header is no JSON object")
    sizes = {name: array["data_offsets"][1] - array["data_offsets"][0] for name, array in arrays.items()}
    if min(sizes.values(), default=0) < 0:
        raise kind.error("an array ends before it begins")
    unused = sizes.keys() - {*_arrays_named(header), NAMES}
    if sum(sizes[name] for name in unused) > MAX_UNUSED_BYTES:
        raise kind.error(f"nothing refers to the array {max(unused, key=sizes.__getitem__)!r}")
    return header, 8 + length + sum(sizes.values())


def _arrays_named(plain: Any) -> Iterator[str]:
    """The names in all ``{"array": name}`` of a header."""
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


def _own(array: np.ndarray, kind: Kind) -> np.ndarray:
    """A copy that can be changed; a truth value is 0 or 1, as numpy relies on."""
    if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
        raise kind.error("a tensor of truth values has others than 0 and 1")
    return array.copy()
