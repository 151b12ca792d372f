"""Forged checkpoints and model files: valid containers with changed content, and what reading them does."""

from __future__ import annotations

import copy
import json

import numpy as np

NUMBERS = [0, 1, -1, 2, 7, 2**31, 2**62, -(2**62), 0.0, 0.5, -0.5, 1e-300, 1e300, {"float": "nan"}, {"float": "inf"},
           {"float": "-inf"}, True, None, "x", [], {}]  # fmt: skip
ENTRIES = [0.0, 1.0, -1.0, 1e9, 1e300, np.nan, np.inf, -np.inf]
POSITIONS = [0, 1, -1, 2, 2**20, 2**31 - 1, -(2**31), 2**62, -(2**62)]


def leaves(plain, path=()):
    """Yield the paths of all values in a JSON header."""
    yield path
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from leaves(value, (*path, key))
    elif isinstance(plain, list):
        for k, value in enumerate(plain):
            yield from leaves(value, (*path, k))


def at(plain, path):
    for key in path:
        plain = plain[key]
    return plain


def set_at(plain, path, value):
    at(plain, path[:-1])[path[-1]] = value


def forged_array(array, rng):
    """Return a copy with one or all entries changed, or another size, shape or type, and what was changed."""
    kind = int(rng.integers(8))
    array = array.copy()
    flat = array.reshape(-1)
    if kind <= 2 and flat.size:
        k = int(rng.integers(flat.size))
        pool = ENTRIES if array.dtype.kind == "f" else POSITIONS
        with np.errstate(all="ignore"):
            flat[k] = np.array(pool[int(rng.integers(len(pool)))]).astype(array.dtype)
        return array, f"[{k}] = {flat[k]}"
    if kind == 3 and flat.size:
        factor = [-1, 2, 0, 3][int(rng.integers(4))]
        with np.errstate(all="ignore"):
            return (array.astype(np.float64) * factor).astype(array.dtype), f"times {factor}"
    if kind == 4:
        return flat[: flat.size // 2].copy(), "first half"
    if kind == 5:
        return np.concatenate([flat, flat, np.ones(1, array.dtype)]), "twice"
    if kind == 6:
        dtype = {"f": np.int64, "i": np.float64, "u": np.int32, "b": np.uint8}[array.dtype.kind]
        with np.errstate(all="ignore"):
            return array.astype(dtype), f"as {dtype.__name__}"
    return array.reshape(1, *array.shape), "one more axis"


def forged(header, arrays, seed, under=("state",)):
    """Return header and arrays with one random change below ``under``, and its description."""
    rng = np.random.default_rng(seed)
    header, arrays = copy.deepcopy(header), dict(arrays)
    if arrays and rng.random() < 0.5:
        name = sorted(arrays)[int(rng.integers(len(arrays)))]
        if rng.random() < 0.1:
            source = sorted(arrays)[int(rng.integers(len(arrays)))]
            arrays[name] = arrays[source]
            return header, arrays, f"array {name} = {source}"
        arrays[name], what = forged_array(arrays[name], rng)
        return header, arrays, f"array {name} {what}"
    paths = [path for key in under for path in leaves(header[key], (key,))]
    path = paths[int(rng.integers(len(paths)))]
    before = at(header, path)
    value = NUMBERS[int(rng.integers(len(NUMBERS)))]
    if isinstance(before, (list, dict)) and before and rng.random() < 0.6:
        value = copy.deepcopy(before)
        if isinstance(value, list):
            value = value[:-1] if rng.random() < 0.5 else [*value, value[0]]
        else:
            value.pop(next(iter(value)))
    elif rng.random() < 0.2:
        value = copy.deepcopy(at(header, paths[int(rng.integers(len(paths)))]))
    elif isinstance(before, float) and rng.random() < 0.5:
        value = before * float(rng.choice([2.0, 0.5, -1.0, 1.01]))
    elif type(before) is int and rng.random() < 0.5:
        value = before + int(rng.choice([1, -1, 5]))
    set_at(header, path, value)
    return header, arrays, f"{'/'.join(map(str, path))} = {json.dumps(value)[:60]} (was {json.dumps(before)[:40]})"
