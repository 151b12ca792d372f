"""Examples in a folder, as memory-mapped arrays that are written in chunks.

A folder contains one file of little-endian numbers for each array of the examples (``X_data``, ``X_indices``,
``lengths``, ...), and ``header.json`` with the format version, the length and checksum (CRC-32) of each file, the
distinct labels, and the feature names. The file ``y`` contains indices into the labels of the header.

The header is written last and atomically, and bytes beyond the lengths in it are ignored. A writer that is killed
therefore leaves the folder unchanged. A writer holds the lock of the file ``lengths``, so that a folder has one writer
at a time. On file systems without locks, a writer adds nothing if another process has changed the header or the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

import numpy as np
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.data.folder_checks import check_arrays, check_header
from maxendnet.data.labels import label_array
from maxendnet.data.ragged import Array, csr, offsets_of
from maxendnet.data.unknown import UNKNOWN
from maxendnet.utils.atomic_write import drop_lock, take_lock, write_whole
from maxendnet.utils.checks import require_count

FORMAT = 1
HEADER = "header.json"
LOCKED = "lengths"
"""File that a writer locks, because every folder contains it and it is never replaced."""
TYPES = {
    "X_data": "float64", "X_indices": "int32", "X_lengths": "int32", "lengths": "int32", "y": "int32",
    "edges": "int32", "edge_lengths": "int32", "edge_types": "int32", "edge_features": "float64",
    "node_types": "int32", "allowed": "bool", "label_features": "float64", "sample_weight": "float64",
    "node_weight": "float64",
}  # fmt: skip
"""Files and their dtypes. Files of lengths store the entries per row of X, or the nodes or edges per example."""
CHUNK_EXAMPLES = 1000
CHECKSUM_BYTES = 1 << 24
"""Number of bytes read at a time to compute checksums."""


class FolderError(ValueError):
    """A folder of examples is damaged or incomplete, or cannot be written."""

    __module__ = "maxendnet"  # the public module


# ---- writing --------------------------------------------------------------------------------------------------------


class FolderWriter:
    """Append examples to a folder. They become valid when `close` writes the header.

    Parameters
    ----------
    folder : path-like
    header : dict
        Header of the existing examples, see `read_header`.
    """

    folder: Path
    header: dict[str, Any]

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder, self.header = folder, header
        self._before = _header_bytes(folder)
        self.places: dict[Any, int] = {_key(label): k for k, label in enumerate(header["labels"])}
        self.names = None if header["names"] is None else {name: k for k, name in enumerate(header["names"])}
        self._files: dict[str, Any] = {}

    def add(self, examples: Examples) -> None:
        """Append examples."""
        if examples.n_nodes == 0 and not len(examples):
            return
        X = self._columns(examples)
        arrays: dict[str, Array] = {
            "X_data": X.data, "X_indices": X.indices, "X_lengths": np.diff(X.indptr),
            "lengths": np.diff(examples.offsets),
        }  # fmt: skip
        if examples.y is not None:
            arrays["y"] = self._codes(examples.y)
        if examples.edge_offsets is not None:
            arrays["edge_lengths"] = np.diff(examples.edge_offsets)
        for name in TYPES:
            if hasattr(examples, name) and name != "y" and getattr(examples, name) is not None:
                arrays[name] = getattr(examples, name)
        kind = {
            "flat": examples.flat,
            "order": None if examples.labels is None else list(examples.labels),
            "files": {name: list(array.shape[1:]) for name, array in arrays.items()},
        }
        if self.header["kind"] is None:
            self.header["kind"] = kind
        elif kind != self.header["kind"]:
            raise FolderError(
                f"The examples in {self.folder} have the arrays {self.header['kind']}, but the new examples have "
                f"{kind}; "
                "pass examples with the same arrays, of the same shapes."
            )
        for name, array in arrays.items():
            self._append(name, array)
        self.header["n_examples"] += len(examples)

    def _columns(self, examples: Examples) -> sparse.csr_array:
        """Return X with the columns of the folder."""
        n_hashed, X = self.header["n_hashed"], examples.X
        named = examples.feature_names is not None and n_hashed is None
        if n_hashed is not None and examples.feature_names is None:
            raise FolderError("n_hashed is given, but the examples have no feature names; leave n_hashed out.")
        if self.header["n_examples"] and named != (self.names is not None):
            raise FolderError(
                "Some examples have feature names and others have none; all examples must have names, or none."
            )
        if examples.feature_names is None:
            if self.header["n_examples"] and X.shape[1] != self.header["n_features"]:
                raise FolderError(
                    f"The examples in {self.folder} have {self.header['n_features']} features, but the new ones have "
                    f"{X.shape[1]}; pass examples with the same features."
                )
            self.header["n_features"] = int(X.shape[1])
            return X
        if n_hashed is not None:
            column = [hashed(name, n_hashed) for name in examples.feature_names]
            n_features = n_hashed
        else:
            self.names = {} if self.names is None else self.names
            column = [self.names.setdefault(name, len(self.names)) for name in examples.feature_names]
            n_features = len(self.names)
        self.header["n_features"] = n_features
        permuted = sparse.csr_array(
            (X.data.copy(), np.array(column, dtype=np.int32)[X.indices], X.indptr), shape=(X.shape[0], n_features)
        )
        permuted.sum_duplicates()  # hashed names may share a column; this also sorts the indices
        permuted.eliminate_zeros()
        return permuted

    def _codes(self, y: Array) -> Array:
        """Return the label indices of the nodes, and add new labels to the header."""
        labels, values, code = self.header["labels"], y.tolist(), {}
        for label in dict.fromkeys(values):
            code[label] = self.places.setdefault(_key(label), len(labels))
            if code[label] == len(labels):
                labels.append(label)
        return np.fromiter(map(code.__getitem__, values), dtype=np.int32, count=len(values))

    def _append(self, name: str, array: Array) -> None:
        numbers = np.ascontiguousarray(array, dtype=np.dtype(TYPES[name]).newbyteorder("<"))
        content = numbers.tobytes()
        entry = self.header["files"].setdefault(name, {"bytes": 0, "crc32": 0})
        if name not in self._files:
            self._check_alone()  # must precede the truncation
            file = open(self.folder / name, "ab")  # noqa: SIM115 - `close` closes it
            file.truncate(entry["bytes"])  # drop the bytes that a killed writer left
            file.seek(entry["bytes"])
            self._files[name] = file
        self._files[name].write(content)
        entry["bytes"] += len(content)
        entry["crc32"] = crc32(content, entry["crc32"])

    def close(self) -> None:
        """Write the header, so that the appended examples become valid."""
        self._check_alone()
        for file in self._files.values():
            os.fsync(file.fileno())
        self.abandon()
        header = self.header | {"labels": _plain_labels(self.header["labels"])}
        if self.names is not None:
            header["names"] = list(self.names)
        if header["kind"] is not None and header["kind"]["order"] is not None:
            header["kind"] = header["kind"] | {"order": _plain_labels(header["kind"]["order"])}
        body = json.dumps(header, separators=(",", ":")).encode()
        write_whole(self.folder / HEADER, lambda file: file.writelines([b"%08x\n" % crc32(body), body]))

    def _check_alone(self) -> None:
        """Raise ``FolderError`` if another writer has changed the folder.

        This can happen on file systems without locks.
        """
        for file in self._files.values():
            file.flush()
        sizes = {name: (self.folder / name).stat().st_size for name in self._files}
        expected = {name: self.header["files"][name]["bytes"] for name in self._files}
        if _header_bytes(self.folder) != self._before or sizes != expected:
            raise FolderError(f"Another process has changed {self.folder}; nothing was added. Append again.")

    def abandon(self) -> None:
        """Close the files without making the appended examples valid."""
        for file in self._files.values():
            file.close()
        self._files = {}


def write(folder: Any, items: Iterable[Any], n_hashed: int | None = None) -> Examples:
    """Write examples to a folder, see `Examples.write`."""
    folder = Path(folder)
    if n_hashed is not None:
        require_count("n_hashed", n_hashed)
    folder.mkdir(parents=True, exist_ok=True)
    unexpected = sorted(
        path.name for path in folder.iterdir() if path.name not in (*TYPES, HEADER) and not path.name.startswith(".")
    )
    if unexpected:
        raise FolderError(f"{folder} contains other files, such as {unexpected[0]!r}; use a new or empty folder.")
    header: dict[str, Any] = {
        "format": FORMAT, "n_examples": 0, "n_features": 0, "n_hashed": None if n_hashed is None else int(n_hashed),
        "labels": [], "names": None, "kind": None, "files": {},
    }  # fmt: skip
    with _lock(folder, "ab"):
        if _header_bytes(folder) is not None:
            raise FolderError(
                f"{folder} already contains examples; add to them with Examples.append, or use another folder."
            )
        return _add_all(folder, header, items)


def append(folder: Any, items: Iterable[Any]) -> Examples:
    """Append examples to a folder, see `Examples.append`."""
    folder = Path(folder)
    with _lock(folder, "r+b"):
        return _add_all(folder, read_header(folder), items)


@contextmanager
def _lock(folder: Path, mode: str) -> Iterator[None]:
    """Lock a folder, or raise ``FolderError`` if another writer holds the lock."""
    try:
        file = open(folder / LOCKED, mode)  # noqa: SIM115 - closed below
    except (FileNotFoundError, NotADirectoryError):
        read_header(folder)  # raises a FolderError that describes what is missing
        raise
    with file:
        try:
            take_lock(file.fileno(), wait=False)
        except BlockingIOError:
            raise FolderError(
                f"Another writer is writing to {folder}, in this process or another one; nothing was added. Append "
                "when that writer has finished."
            ) from None
        try:
            yield
        finally:
            drop_lock(file.fileno())


def _add_all(folder: Path, header: dict[str, Any], items: Iterable[Any]) -> Examples:
    writer = FolderWriter(folder, header)
    try:
        for examples in chunks(items):
            writer.add(examples)
        if not header["n_examples"]:
            raise FolderError("There are no examples to write: the iterator is empty.")
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    return open_folder(folder, check=False, written_here=True)


def chunks(items: Iterable[Any]) -> Iterator[Examples]:
    """Yield `Examples` in chunks, from an iterable of pairs (x, y) or of `Examples`."""
    iterator = iter(items)
    first = next(iterator, None)
    if first is None:
        return
    if isinstance(first, Examples):
        yield first
        for number, examples in enumerate(iterator, start=1):
            if not isinstance(examples, Examples):
                raise ValueError(
                    f"item {number} is a {type(examples).__name__}, but the previous items are Examples; expected "
                    f"Examples."
                )
            yield examples
        return
    start, pairs = 0, [first, *islice(iterator, CHUNK_EXAMPLES - 1)]
    while pairs:
        for k, item in enumerate(pairs):
            if not (isinstance(item, tuple) and len(item) == 2):
                raise ValueError(f"item {start + k} is a {type(item).__name__}; expected pairs (x, y) or Examples.")
        try:
            yield Examples.build([x for x, _ in pairs], [y for _, y in pairs])
        except ValueError as error:
            raise ValueError(f"Among items {start} to {start + len(pairs) - 1}, counted from 0: {error}") from error
        start += len(pairs)
        pairs = list(islice(iterator, CHUNK_EXAMPLES))


def hashed(name: str, n_columns: int) -> int:
    """Return the column of a hashed name, as in `maxendnet.text.DictFeatures`.

    Examples
    --------
    >>> hashed("word=dog", 1000)
    680
    """
    return crc32(name.encode("utf-8", "surrogatepass")) % n_columns


# ---- JSON encoding of labels ----------------------------------------------------------------------------------------


def _key(label: Any) -> Any:
    """Return a key that distinguishes 1 and True."""
    return type(label), label


def _plain_labels(labels: list[Any]) -> list[Any]:
    return [_to_plain(label) for label in labels]


def _to_plain(label: Any) -> Any:
    if label is UNKNOWN:
        return {"unknown": True}
    if isinstance(label, (frozenset, tuple)):
        kind = "set" if isinstance(label, frozenset) else "tuple"
        return {kind: [_to_plain(member) for member in (sorted(label, key=repr) if kind == "set" else label)]}
    if label is None or type(label) in (bool, int, float, str):
        return label
    if isinstance(label, np.generic):
        return _to_plain(label.item())
    raise FolderError(
        f"The label {label!r} has type {type(label).__name__}, which a folder cannot store; use strings, numbers, "
        "tuples or sets of these, or UNKNOWN."
    )


def _from_plain(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == "unknown":
        return UNKNOWN
    return (frozenset if kind == "set" else tuple)(map(_from_plain, content))


# ---- reading --------------------------------------------------------------------------------------------------------


def _header_bytes(folder: Path) -> bytes | None:
    try:
        return (folder / HEADER).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_header(folder: Path) -> dict[str, Any]:
    """Return the header after checking its checksum and the file sizes."""
    path, content = folder / HEADER, _header_bytes(folder)
    if content is None:
        raise FolderError(f"{folder} is not a folder of examples, or is incomplete: it has no {HEADER}.")
    checksum, _, body = content.partition(b"\n")
    if checksum != b"%08x" % crc32(body):
        raise FolderError(
            f"{path} is damaged: its checksum does not match its content. Copy or write the folder again."
        )
    fail = partial(_fail, path)
    try:
        header: dict[str, Any] = json.loads(body)
    except (ValueError, RecursionError) as error:
        fail(f"it is not JSON ({error})")
    written = header.get("format") if isinstance(header, dict) else None
    if written != FORMAT:
        raise FolderError(f"{folder} has format {written}, but this version of maxendnet reads format {FORMAT}.")
    check_header(header, TYPES, fail)
    header["labels"] = [_from_plain(label) for label in header["labels"]]
    if header["kind"]["order"] is not None:
        header["kind"]["order"] = [_from_plain(label) for label in header["kind"]["order"]]
    for name, entry in header["files"].items():
        size = (folder / name).stat().st_size if (folder / name).exists() else -1
        if size < entry["bytes"]:
            damage = "is missing" if size < 0 else f"has {size} bytes instead of {entry['bytes']}"
            raise FolderError(f"{folder / name} {damage}. Copy or write the folder again.")
    return header


def _fail(path: Path, problem: str) -> NoReturn:
    raise FolderError(
        f"{path} has a valid checksum, but its content does not fit the files: {problem}. It was not written by "
        "Examples.write; write the folder again."
    )


def open_folder(folder: Any, check: bool = True, written_here: bool = False) -> Examples:
    """Open a folder, see `Examples.open`.

    ``written_here`` skips the checks of the arrays, for a writer that has just written them.
    """
    folder = Path(folder)
    header = read_header(folder)
    if check:
        for name, entry in header["files"].items():
            if _checksum(folder / name, entry["bytes"]) != entry["crc32"]:
                raise FolderError(
                    f"{folder / name} is damaged: its checksum does not match its content. Copy or write the folder "
                    "again."
                )
    kind = header["kind"]
    arrays = {name: _map(folder / name, header["files"][name]["bytes"], shape) for name, shape in kind["files"].items()}
    _with_empty_entries(arrays)
    if not written_here:
        check_arrays(header, arrays, check, partial(_fail, folder / HEADER))
    offsets = offsets_of(arrays.pop("lengths"))
    indptr = offsets_of(arrays.pop("X_lengths"))
    X = csr(arrays.pop("X_data"), arrays.pop("X_indices"), indptr, header["n_features"])
    edge_offsets = offsets_of(arrays.pop("edge_lengths")) if "edge_lengths" in arrays else None
    y = label_array(header["labels"])[arrays.pop("y")] if "y" in arrays else None
    return Examples(
        X=X, offsets=offsets, y=y, edge_offsets=edge_offsets, flat=kind["flat"],
        labels=None if kind["order"] is None else tuple(kind["order"]),
        feature_names=None if header["names"] is None else FeatureNames(header["names"]), **arrays,
    )  # fmt: skip


def _map(path: Path, n_bytes: int, shape: list[int]) -> Array:
    dtype = np.dtype(TYPES[path.name]).newbyteorder("<")
    if n_bytes == 0:
        return np.zeros((0, *shape), dtype=TYPES[path.name])
    n_rows = n_bytes // (dtype.itemsize * int(np.prod(shape, dtype=np.int64)))
    mapped = np.memmap(path, dtype=dtype, mode="r", shape=(n_rows, *shape))
    return np.asarray(mapped, dtype=TYPES[path.name])  # copies only on big-endian machines


def _with_empty_entries(arrays: dict[str, Array]) -> None:
    """Give arrays without bytes, such as features of edges that have none, their number of rows."""
    for name, rows in (("edge_features", "edges"), ("allowed", "X_lengths"), ("label_features", "X_lengths")):
        if name in arrays and arrays[name].size == 0:
            arrays[name] = np.zeros((len(arrays[rows]), *arrays[name].shape[1:]), dtype=TYPES[name])


def _checksum(path: Path, n_bytes: int) -> int:
    checksum, left = 0, n_bytes
    with open(path, "rb") as file:
        while left > 0:
            block = file.read(min(CHECKSUM_BYTES, left))
            if not block:
                return -1
            checksum, left = crc32(block, checksum), left - len(block)
    return checksum


__all__ = ["FolderError", "append", "chunks", "open_folder", "write"]
