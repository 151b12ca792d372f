"""Checks of a folder of examples: the header, the sizes of the files, and the values that kernels use as indices.

A checksum does not prove that `Examples.write` wrote a folder. Kernels read the mapped arrays without bounds checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from maxendnet.data.annotations import LARGEST_TYPE, LARGEST_WEIGHT
from maxendnet.data.node_features import LARGEST_VALUE
from maxendnet.data.ragged import Array, offsets_of

BLOCK = 1 << 22
"""Number of values read at a time, about 32 MB."""
N_DIMENSIONS = {"edges": 1, "edge_features": 1, "allowed": 1, "label_features": 2}
"""Number of dimensions of an entry of the files whose entries are not single numbers."""
REQUIRED = ("X_data", "X_indices", "X_lengths", "lengths")


def check_header(header: Any, types: dict[str, str], fail: Callable[[str], Any]) -> None:
    """Check the JSON header; ``fail`` raises the error.

    Parameters
    ----------
    header : Any
        Decoded JSON.
    types : dict of str to str
        Dtype of each file.
    fail : callable
        Function of a description of the problem.
    """

    def require(condition: bool, problem: str) -> None:
        if not condition:
            fail(problem)

    require(isinstance(header, dict), "it is not a JSON object")
    missing = {"n_examples", "n_features", "n_hashed", "labels", "names", "kind", "files"} - header.keys()
    require(not missing, f"it has no {min(missing, default='')!r}")
    for name in ("n_examples", "n_features"):
        require(_is_count(header[name]), f"{name} is {header[name]!r}, expected a whole number of at least 0")
    n_hashed, names, labels, kind = header["n_hashed"], header["names"], header["labels"], header["kind"]
    require(n_hashed is None or (_is_count(n_hashed) and n_hashed == header["n_features"]), f"n_hashed is {n_hashed!r}")
    require(isinstance(labels, list) and all(map(_is_label, labels)), "the labels are not a list of labels")
    texts = names is None or (isinstance(names, list) and all(isinstance(name, str) for name in names))
    require(texts, "the feature names are not a list of strings")
    if names is not None:
        require(
            len(set(names)) == len(names) == header["n_features"],
            f"there are {len(set(names))} feature names for {header['n_features']} features",
        )
    require(isinstance(kind, dict) and {"flat", "order", "files"} <= kind.keys(), "the kind of examples is incomplete")
    require(isinstance(kind["flat"], bool), f"flat is {kind['flat']!r}, expected true or false")
    order = kind["order"]
    require(order is None or (isinstance(order, list) and all(map(_is_label, order))), "the label order is not a list")
    files, shapes = header["files"], kind["files"]
    require(isinstance(files, dict) and isinstance(shapes, dict), "the files are not listed")
    require(files.keys() == shapes.keys(), "the files and their shapes have different names")
    for name in (*REQUIRED, *files):
        require(name in files and name in types, f"the file {name!r} is {'missing' if name in types else 'unknown'}")
        entry, shape = files[name], shapes[name]
        valid = isinstance(entry, dict) and {"bytes", "crc32"} <= entry.keys()
        require(valid and _is_count(entry["bytes"]) and _is_count(entry["crc32"]), f"the size of {name} is {entry!r}")
        n = N_DIMENSIONS.get(name, 0)
        sizes = isinstance(shape, list) and len(shape) == n and all(map(_is_count, shape))
        require(sizes and (name != "edges" or shape == [2]), f"entries of {name} have the shape {shape!r}")
        width = _width(name, shape, types)
        require(entry["bytes"] % width == 0 if width else entry["bytes"] == 0, f"{name} has {entry['bytes']} bytes")
        if order is not None and name in ("allowed", "label_features"):
            require(shape[0] == len(order), f"{name} has {shape[0]} columns for {len(order)} labels")
    for needed, name in (("edge_lengths", "edges"), ("edges", "edge_lengths"), ("edge_lengths", "edge_types"),
                         ("edge_lengths", "edge_features")):  # fmt: skip
        require(name not in files or needed in files, f"there is {name}, but no {needed}")
    rows = _n_rows(header, types)
    require(rows["lengths"] == header["n_examples"], f"there are {rows['lengths']} lengths of examples")
    for left, right in (("X_indices", "X_data"), ("edge_types", "edges"), ("edge_features", "edges"),
                        ("y", "X_lengths"), ("node_types", "X_lengths"), ("allowed", "X_lengths"),
                        ("label_features", "X_lengths"), ("node_weight", "X_lengths"), ("edge_lengths", "lengths"),
                        ("sample_weight", "lengths")):  # fmt: skip
        if left in rows and _width(left, shapes[left], types):
            require(rows[left] == rows[right], f"{left} has {rows[left]} entries, but {right} has {rows[right]}")


def check_arrays(
    header: dict[str, Any], arrays: dict[str, Array], all_values: bool, fail: Callable[[str], Any]
) -> None:
    """Check the lengths and all indices; with ``all_values`` also that numbers are finite and within their limits."""

    def require_range(name: str, low: float, high: float) -> None:
        """Require values from ``low`` to ``high``."""
        for block in _blocks(arrays[name]):
            wrong = ~((block >= low) & (block <= high))
            if wrong.any():
                fail(f"{name} contains {block[wrong][0]}, expected numbers from {low:g} to {high:g}")

    def require_sum(name: str, total: str) -> None:
        if int(arrays[name].sum(dtype=np.int64)) != len(arrays[total]):
            fail(f"{name} add up to {arrays[name].sum(dtype=np.int64)}, but {total} has {len(arrays[total])} entries")

    for name, total in (("lengths", "X_lengths"), ("X_lengths", "X_indices"), ("edge_lengths", "edges")):
        if name in arrays:
            require_range(name, 0, 2**31 - 1)
            require_sum(name, total)
    require_range("X_indices", 0, header["n_features"] - 1)
    if header["kind"]["flat"] and np.any(arrays["lengths"] != 1):
        fail("it is one table, but an example does not have one node")
    if "y" in arrays:
        require_range("y", 0, len(header["labels"]) - 1)
    if "edges" in arrays:
        limits = np.repeat(arrays["lengths"], arrays["edge_lengths"])
        offsets = offsets_of(arrays["edge_lengths"])
        if np.any((arrays["edges"] < 0) | (arrays["edges"] >= limits[:, None])):
            k = int(np.flatnonzero(((arrays["edges"] < 0) | (arrays["edges"] >= limits[:, None])).any(axis=1))[0])
            i = int(np.searchsorted(offsets, k, side="right")) - 1
            fail(f"an edge of example {i} joins {arrays['edges'][k].tolist()}, but it has {limits[k]} nodes")
    for name in ("edge_types", "node_types"):
        if name in arrays:
            require_range(name, 0, LARGEST_TYPE)
    if "allowed" in arrays and arrays["allowed"].view(np.uint8).max(initial=0) > 1:
        fail("allowed contains a number other than 0 and 1")
    for name in ("X_data", "edge_features", "label_features") if all_values else ():
        if name in arrays:
            require_range(name, -LARGEST_VALUE, LARGEST_VALUE)
    for name in ("sample_weight", "node_weight"):
        if name in arrays:
            require_range(name, 0, LARGEST_WEIGHT)


def _blocks(array: Array) -> Iterator[Array]:
    """Yield a mapped array in parts."""
    n_rows = max(1, BLOCK // max(1, int(np.prod(array.shape[1:], dtype=np.int64))))
    for first in range(0, len(array), n_rows):
        yield array[first : first + n_rows]


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_label(plain: Any) -> bool:
    """Whether a JSON value is a label as the folder stores it."""
    if isinstance(plain, dict):
        if len(plain) != 1:
            return False
        ((kind, members),) = plain.items()
        if kind == "unknown":
            return members is True
        return kind in ("set", "tuple") and isinstance(members, list) and all(map(_is_label, members))
    return plain is None or isinstance(plain, (bool, int, float, str))


def _width(name: str, shape: list[int], types: dict[str, str]) -> int:
    """Return the number of bytes of an entry of a file."""
    width = np.dtype(types[name]).itemsize
    for size in shape:
        width *= size
    return width


def _n_rows(header: dict[str, Any], types: dict[str, str]) -> dict[str, int]:
    """Return the number of entries of each file; 0 for entries without bytes."""
    widths = {name: _width(name, header["kind"]["files"][name], types) for name in header["files"]}
    return {name: entry["bytes"] // widths[name] if widths[name] else 0 for name, entry in header["files"].items()}
