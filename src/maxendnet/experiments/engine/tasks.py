"""Readers of four further data sets: training examples, test examples, and scored nodes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxendnet import Examples
from maxendnet.data.examples import as_examples


class Task(NamedTuple):
    """Training examples, test examples, and a mask of the scored test nodes (None for all)."""

    train: Examples
    test: Examples
    scored: np.ndarray | None = None


Features = list[dict[str, object]]


def build(train: list[tuple[Features, list[str]]], test: list[tuple[Features, list[str]]]) -> tuple[Examples, Examples]:
    """Build training and test examples with the features of the training set."""
    first = as_examples([x for x, _ in train], [y for _, y in train])
    names = first.feature_names
    return first, as_examples([x for x, _ in test], [y for _, y in test], feature_names=names)


def thinned(items: list[Any], limit: int | None) -> list[Any]:
    """Return at most ``limit`` evenly spaced items."""
    if limit is None or len(items) <= limit:
        return items
    return [items[int(k)] for k in np.linspace(0, len(items) - 1, limit)]


def blocks(path: Path) -> Iterator[list[list[str]]]:
    """Yield blocks of lines between blank lines, each line split into fields."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        block: list[list[str]] = []
        for line in file:
            if line.strip():
                block.append(line.rstrip("\n").split("\t"))
            elif block:
                yield block
                block = []
        if block:
            yield block


def window(sequence: str, t: int, width: int) -> dict[str, object]:
    """Return indicator features for the residues around a position."""
    return {f"{d:+d}": sequence[t + d] for d in range(-width, width + 1) if 0 <= t + d < len(sequence)}


def shape(word: str) -> str:
    """Return the shape of a word with runs collapsed: ``McDonald-1`` is ``XxXx-0``."""
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(k for i, k in enumerate(kinds) if i == 0 or kinds[i - 1] != k)


def token_features(words: list[str], t: int) -> dict[str, object]:
    """Return features of a word, its affixes and shape, and the neighbouring words."""
    word = words[t]
    lower = word.lower()
    features: dict[str, object] = {
        "bias": 1.0, "word": lower, "shape": shape(word), "suffix3": lower[-3:], "suffix2": lower[-2:],
        "prefix3": lower[:3], "digits": sum(c.isdigit() for c in word) if any(map(str.isdigit, word)) else False,
        "last_char": word[-1], "place": "first" if t == 0 else "last" if t == len(words) - 1 else False,
    }  # fmt: skip
    for d in (-2, -1, 1, 2):
        if 0 <= t + d < len(words):
            features[f"word{d:+d}"] = words[t + d].lower()
            if abs(d) == 1:
                features[f"shape{d:+d}"] = shape(words[t + d])
    return {name: value for name, value in features.items() if value is not False}


def tagged(path: Path) -> list[tuple[Features, list[str]]]:
    sentences = []
    for block in blocks(path):
        words = [fields[0] for fields in block]
        sentences.append(([token_features(words, t) for t in range(len(words))], [fields[-1] for fields in block]))
    return sentences


def wnut17(folder: Path, limit: int | None, fold: int) -> Task:
    return Task(*build(thinned(tagged(folder / "train.tsv.gz"), limit), thinned(tagged(folder / "test.tsv.gz"), limit)))


usaddress = wnut17  # same file names


def cb513(folder: Path, limit: int | None, fold: int) -> Task:
    with gzip.open(folder / "cb513.jsonl.gz", "rt", encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    chains_used: set[int] = set()
    parts: tuple[list[Any], list[Any]] = ([], [])
    scored: list[np.ndarray] = []
    for entry in thinned(entries, limit):
        inside = entry["fold"] != fold
        if inside and entry["group"] in chains_used:  # two domains of one chain have the same sequence
            continue
        chains_used.add(entry["group"])
        x = [window(entry["seq"], t, 7) | {"bias": 1.0} for t in range(len(entry["seq"]))]
        parts[0 if inside else 1].append((x, list(entry["q3"])))
        if not inside:
            flags = (np.array([int(c) for c in entry[name]]) for name in ("domain", "ordered"))
            scored.append(np.logical_and(*flags))
    return Task(*build(*parts), np.concatenate(scored))


def bach_chorales(folder: Path, limit: int | None, fold: int) -> Task:
    parts: tuple[list[Any], list[Any]] = ([], [])
    for i, block in enumerate(thinned(list(blocks(folder / "chorales.tsv.gz")), limit)):
        x: Features = []
        for t, (_, pitches, bass, metre, _) in enumerate(block):
            features: dict[str, object] = {f"pitch{k}": 1.0 for k, bit in enumerate(pitches) if bit == "1"}
            features |= {"bass": bass, "metre": metre, "bias": 1.0, "pitches": pitches}
            if t:
                features |= {f"before{k}": 1.0 for k, bit in enumerate(block[t - 1][1]) if bit == "1"}
            x.append(features)
        parts[0 if i % 5 != fold % 5 else 1].append((x, [fields[-1] for fields in block]))
    return Task(*build(*parts))


TASKS: dict[str, Callable[[Path, int | None, int], Task]] = {
    "usaddress": usaddress, "bach_chorales": bach_chorales, "cb513": cb513, "wnut17": wnut17,
}  # fmt: skip
FOLDS = {"usaddress": 1, "wnut17": 1, "cb513": 5, "bach_chorales": 5}
"""Number of splits: 1 for data sets with a test set, otherwise folds."""


@lru_cache(maxsize=2)
def load(name: str, data: Path, limit: int | None, fold: int) -> Task:
    """Read a task from its folder."""
    return TASKS[name](data / name, limit, fold)
