"""The data sets on which default constants are chosen: training and test part of each, as a first user has them.

Text is given as feature dicts in the style of the tutorial of sklearn-crfsuite. Large sets are cut to about 1,000
examples, so that a grid of constants takes minutes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import common
import graphs
import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from maxendnet import UNKNOWN, Chain, Choice, Examples, Graph, Independent, Tree
from maxendnet.datasets import make_synthetic_chains


class Rows(NamedTuple):
    """Rows with several labels each, for `MultiLabel`."""

    X: np.ndarray
    Y: np.ndarray

    def select(self, chosen: Any) -> Rows:
        return Rows(self.X[chosen], self.Y[chosen])


class Dicts(NamedTuple):
    """Examples of feature dicts and their labels, as CRFsuite takes them."""

    X: list[list[dict[str, Any]]]
    y: list[list[str]]


class Task(NamedTuple):
    """Training and test part."""

    train: Examples | Rows
    test: Examples | Rows
    truth: list[list[Any]]
    """True labels of the test part; None is not scored."""
    structure: Any = "chain"
    dicts: tuple[Dicts, Dicts] | None = None
    """Both parts as feature dicts, for fits that are compared with CRFsuite."""


def sample(n_examples: int, size: int) -> list[int]:
    """Numbers of at most ``size`` examples, drawn without replacement, in ascending order."""
    return np.sort(np.random.default_rng(0).permutation(n_examples)[:size]).tolist()


def labels_of(examples: Examples | Rows) -> list[list[Any]]:
    """True labels of every example."""
    if isinstance(examples, Rows):
        return examples.Y.tolist()
    return [examples.y[a:b].tolist() for a, b in zip(examples.offsets[:-1], examples.offsets[1:])]


def of_examples(train: Examples, test: Examples, structure: Any = "chain") -> Task:
    return Task(train, test, labels_of(test), structure)


def of_dicts(train: Dicts, test: Dicts, truth: list[list[Any]] | None = None) -> Task:
    known = Examples.build(*train)
    new = Examples.build(test.X, feature_names=known.feature_names)
    return Task(known, new, test.y if truth is None else truth, dicts=(train, test))


# ------------------------------------------------------------------------------------------------------------- text


def columns(path: Path) -> Iterator[list[list[str]]]:
    """Sentences of a column file, a list of fields for every token."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for block in file.read().split("\n\n"):
            if block.strip():
                yield [line.split("\t") for line in block.split("\n") if line]


def token(word: str, tags: list[str], where: str, long: bool) -> dict[str, Any]:
    """Features of a word; ``long`` adds its suffixes."""
    features: dict[str, Any] = {
        f"{where}lower": word.lower(), f"{where}isupper": word.isupper(), f"{where}istitle": word.istitle()
    }  # fmt: skip
    for tag in tags:
        features |= {f"{where}tag": tag, f"{where}tag[:2]": tag[:2]}
    if long:
        features |= {f"{where}[-3:]": word[-3:], f"{where}[-2:]": word[-2:], f"{where}isdigit": word.isdigit()}
    return features


def sentence(rows: list[list[str]]) -> list[dict[str, Any]]:
    """A word with its suffixes, and its neighbours; the last field of a row is the label."""
    found = []
    for t, (word, *tags, _) in enumerate(rows):
        features = token(word, tags, "", True)
        for step in (-1, 1):
            if 0 <= t + step < len(rows):
                word, *tags, _ = rows[t + step]
                features |= token(word, tags, f"{step}:", False)
            else:
                features[f"{step}:none"] = 1.0
        found.append(features)
    return found


def characters(rows: list[list[str]]) -> list[dict[str, Any]]:
    """Characters in a window of five, and pairs of neighbours."""
    padded = ["", "", *(row[0] for row in rows), "", ""]
    return [
        {f"{k}": padded[t + k] for k in range(5)} | {f"{k}{k + 1}": padded[t + k] + padded[t + k + 1] for k in (1, 2)}
        for t in range(len(rows))
    ]


def text(folder: Path, n: int, features: Callable[[list[list[str]]], list[dict[str, Any]]] = sentence) -> Task:
    parts = []
    for name in ("train", "test"):
        sentences = list(columns(folder / f"{name}.tsv.gz"))
        sentences = [sentences[i] for i in sample(len(sentences), n)]
        parts.append(Dicts([features(rows) for rows in sentences], [[row[-1] for row in rows] for rows in sentences]))
    return of_dicts(*parts)


def cb513(folder: Path, n: int) -> Task:
    with gzip.open(folder / "cb513.jsonl.gz", "rt") as file:
        proteins = [json.loads(line) for line in file]

    def part(chosen: list[dict[str, Any]]) -> Dicts:
        padded = [7 * "-" + protein["seq"] + 7 * "-" for protein in chosen]
        windows = [[{f"{k}": row[t + k] for k in range(15)} for t in range(len(row) - 14)] for row in padded]
        return Dicts(windows, [list(protein["q3"]) for protein in chosen])

    train = [protein for protein in proteins if protein["fold"] > 1][: n // 10]
    test = [protein for protein in proteins if protein["fold"] <= 1]
    truth = [
        [label if a == b == "1" else None for label, a, b in zip(p["q3"], p["domain"], p["ordered"])] for p in test
    ]
    return of_dicts(part(train), part(test), truth)


def bach_chorales(folder: Path, n: int) -> Task:
    """Pitches, bass and metre of an event and of its neighbours."""
    songs = []
    for events in columns(folder / "chorales.tsv.gz"):
        x = []
        for t in range(len(events)):
            features: dict[str, Any] = {"metre": events[t][3]}
            for k in (-1, 0, 1):
                if 0 <= t + k < len(events):
                    features |= {f"{k}:{note}": 1.0 for note, bit in enumerate(events[t + k][1]) if bit == "1"}
                    features[f"{k}:bass"] = events[t + k][2]
            x.append(features)
        songs.append((x, [event[4].strip() for event in events]))
    train, test = [song for i, song in enumerate(songs) if i % 5][:n], songs[::5]
    return of_dicts(*(Dicts([x for x, _ in part], [y for _, y in part]) for part in (train, test)))


# ---------------------------------------------------------------------------------------------------- other structures


def letters(folder: Path, n: int, structure: Any = "chain") -> Task:
    raw, examples = common.letters(str(folder))
    return of_examples(common.subset(examples[raw.folds == 0], n), examples[raw.folds == 1], structure)


def lines(folder: Path, n: int, kind: str) -> Task:
    """Parts of speech on the dependency tree, or which word is the root: the tags of a word and of its neighbours."""
    parts, names = [], None
    for name in ("train", "test"):
        sentences = list(columns(folder / f"{name}.tsv.gz"))
        sentences = [sentences[i] for i in sample(len(sentences), n)]
        if kind == "tree":
            X: Any = [sentence([[row[1], row[3]] for row in rows]) for rows in sentences]
            y = [[row[3] for row in rows] for rows in sentences]
            edges = [[(int(row[5]) - 1, t) for t, row in enumerate(rows) if row[5] != "0"] for rows in sentences]
        else:
            X = [sentence([[row[1], row[3], row[5]] for row in rows]) for rows in sentences]
            y = [["root" if row[5] == "0" else "-" for row in rows] for rows in sentences]
            edges = None
        examples = Examples.build(X, y, edges=edges, feature_names=names)
        names = names or examples.feature_names
        parts.append(examples)
    return of_examples(*parts, Tree() if kind == "tree" else Choice(rest="-"))


def snakes(folder: Path, n: int) -> Task:
    data = np.load(folder / "snakes.npz")
    train, test = (graphs.snakes(data, part, colours_of_edges=True) for part in ("train", "test"))
    return of_examples(train[: n // 25], test, Graph("relaxed"))


def rows(folder: Path, n: int) -> Task:
    data = np.load(folder / f"{folder.name}.npz")
    X, new = data["X_train"].astype(float)[:n], data["X_test"].astype(float)[:n]
    Y, truth = data["y_train"].astype(int)[:n], data["y_test"].astype(int)[:n]
    return Task(Rows(X, Y), Rows(new, truth), truth.tolist(), None)


def synthetic(n: int, correlated: bool) -> Task:
    drawn = make_synthetic_chains(n, 30, 100, correlated=correlated, n_gibbs=500, random_state=0)
    examples = Examples.build(drawn.X, drawn.y)
    return of_examples(examples[: n // 5], examples[n // 5 :])


def camvid(folder: Path, n: int) -> Task:
    """Single cells of images: standardised colours, their squares, and the place in the image."""
    data = np.load(folder / "camvid_grid.npz")
    parts = []
    for name in ("train", "test"):
        images = graphs.label_images.load(data, name, "single cells", n // 20)
        known = np.flatnonzero([label is not UNKNOWN for label in images.y])
        chosen = known[sample(len(known), 3 * n)]
        parts.append(Examples.build(images.X[chosen], images.y[chosen]))
    return of_examples(*parts, Independent())


def single_labels(load: Callable[..., Any]) -> Task:
    """Rows with one label each, from scikit-learn."""
    X, new, y, truth = train_test_split(*load(return_X_y=True), test_size=0.5, random_state=0)
    return of_examples(Examples.build(X, y), Examples.build(new, truth), Independent())


def transformed(task: Task, transformer: Any) -> Task:
    """Task whose features went through a transformer of scikit-learn, fitted to the training part."""
    dense = task.train.X if isinstance(task.train, Rows) else task.train.X.toarray()
    transformer.fit(dense)

    def apply(examples: Any) -> Any:
        if isinstance(examples, Rows):
            return examples._replace(X=transformer.transform(examples.X))
        return replace(examples, X=sparse.csr_array(transformer.transform(examples.X.toarray())))

    return task._replace(train=apply(task.train), test=apply(task.test), dicts=None)


def standardised(task: Task) -> Task:
    return transformed(task, StandardScaler())


def multiplied(task: Task, factor: float) -> Task:
    return transformed(task, FunctionTransformer(lambda X: factor * X))


SETS: dict[str, Callable[[Path, int], Task]] = {
    "letters": lambda data, n: letters(data / "ocr_letters", n),
    "letters, 100 words": lambda data, n: letters(data / "ocr_letters", n // 10),
    "letters, order 3": lambda data, n: letters(data / "ocr_letters", n, Chain(order=3)),
    "Portuguese names": lambda data, n: text(data / "uner_pt", n),
    "chunks": lambda data, n: text(data / "conll2000", n),
    "tweets": lambda data, n: text(data / "wnut17", n),
    "addresses": lambda data, n: text(data / "usaddress", n),
    "Chinese words": lambda data, n: text(data / "zh_seg", n, characters),
    "chorales": lambda data, n: bach_chorales(data / "bach_chorales", n),
    "proteins": lambda data, n: cb513(data / "cb513", n),
    "tags, tree": lambda data, n: lines(data / "ud_english_lines", n, "tree"),
    "root, choice": lambda data, n: lines(data / "ud_english_lines", n, "choice"),
    "snakes, graph": lambda data, n: snakes(data / "snakes", n),
    "scene": lambda data, n: rows(data / "scene", n),
    "scene, scaled": lambda data, n: standardised(rows(data / "scene", n)),
    "yeast": lambda data, n: rows(data / "yeast", n),
    "yeast, scaled": lambda data, n: standardised(rows(data / "yeast", n)),
    "synthetic": lambda data, n: synthetic(n, False),
    "synthetic, correlated": lambda data, n: synthetic(n, True),
    "letters, scaled": lambda data, n: standardised(letters(data / "ocr_letters", n)),
    "letters, times 10": lambda data, n: multiplied(letters(data / "ocr_letters", n), 10.0),
    "letters, times 0.1": lambda data, n: multiplied(letters(data / "ocr_letters", n), 0.1),
    "letters, norm 1": lambda data, n: transformed(letters(data / "ocr_letters", n), Normalizer()),
    "proteins, scaled": lambda data, n: standardised(cb513(data / "cb513", n // 3)),
    "chorales, scaled": lambda data, n: standardised(bach_chorales(data / "bach_chorales", n)),
    "cells of images": lambda data, n: camvid(data / "camvid_grid", n),
    "digits": lambda data, n: single_labels(load_digits),
    "digits, scaled": lambda data, n: standardised(single_labels(load_digits)),
    "breast cancer, scaled": lambda data, n: standardised(single_labels(load_breast_cancer)),
}
