"""Graphs with cycles, multi-label classification and kernels: what they reach, and what they cost.

Parts, of which --part chooses some:

snakes      200 / 100 grids of Nowozin et al. (2011), 11 labels: accuracy, CPU seconds of the fit to a gap of 1e-2, and
            the share of test grids whose prediction is proven to be the best; edges with types by direction alone,
            and with the colours of both ends as features too
multilabel  scene and yeast: Hamming loss, F1 and whole sets that are right without edges, with a tree and with all
            edges, beside scikit-learn's ClassifierChain and OneVsRestClassifier on logistic regressions
camvid      grids of 24 x 32 cells, 11 labels (void is unknown and never scored): accuracy by class of independent nodes
            and of the grid
sweep       CPU seconds of one relaxed maximum with costs over the camvid grids at fitted weights, by its tolerance; and
            the growth with the grid
kernels     OCR letters, train on one fold, test on nine: error, time and memory by the number of landmarks

Constants are those of the command line, or the defaults here. Data are read from the folders of --data, by their names.

    python benchmarks/graphs.py --data DATA --part snakes
"""

from __future__ import annotations

import resource
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxendnet import (
    L2CRF,
    M3N,
    UNKNOWN,
    Chain,
    Examples,
    Graph,
    Independent,
    KernelFeatures,
    LapMEDN,
    MultiLabel,
    OnNodes,
    grid_edges,
)
from maxendnet.structures.base import Table

PARTS = ("snakes", "multilabel", "camvid", "sweep", "kernels")
CLASSES = ["sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"]


def cpu(function: Any, *arguments: Any, **options: Any) -> tuple[float, Any]:
    """CPU seconds of a call, and its result."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = function(*arguments, **options)
    return time.process_time() - began, result


# ---- snakes ----------------------------------------------------------------------------------------------------------


def snakes(data: Any, split: str, colours_of_edges: bool) -> Examples:
    """Nodes have the colours of the 3 x 3 cells around them; edges, if asked for, those of their ends by direction."""
    palette = np.unique(data["X_train"], axis=0)
    shapes = data[f"shape_{split}"].astype(int)
    ends = np.cumsum(shapes.prod(axis=1))
    X, y, edges, types, features = [], [], [], [], []
    for (h, w), end in zip(shapes, ends):
        cells = slice(end - h * w, end)
        colour = (data[f"X_{split}"][cells][:, None] == palette).all(axis=2).argmax(axis=1)
        wide = np.zeros((h + 2, w + 2, len(palette)))
        wide[1:-1, 1:-1] = np.eye(len(palette))[colour].reshape(h, w, -1)
        around = [wide[a : a + h, b : b + w] for a in range(3) for b in range(3)]
        X.append(np.concatenate(around, axis=2).reshape(h * w, -1))
        y.append(data[f"y_{split}"][cells].tolist())
        pairs, kind = grid_edges((h, w))
        own = np.eye(len(palette))[colour[pairs]].reshape(len(pairs), -1)
        edges.append(pairs)
        types.append(kind)
        features.append(np.concatenate([own * (kind == k)[:, None] for k in range(2)], axis=1))
    more = {"edge_features": features} if colours_of_edges else {}
    return Examples.build(X, y, edges=edges, edge_types=types, **more)


def part_snakes(folder: Path, quick: bool, C: float) -> None:
    data = np.load(folder / "snakes" / "snakes.npz")
    rows = []
    for name, colours in (("directions only", False), ("directions and colours of the ends", True)):
        train, test = snakes(data, "train", colours), snakes(data, "test", colours)
        train = train[:20] if quick else train
        for structure in (Independent(bias=True), Graph("relaxed", bias=True)):
            seconds, model = cpu(M3N(C=C, structure=structure, tol=1e-2, max_passes=500).fit, train)
            at, (labels, proven) = cpu(model.predict, test, return_proof=True)
            right = np.concatenate([np.array(own) for own in labels]) == np.asarray(test.y)
            shown = [f"{right.mean():.4f}", f"{model.gap_:.1e}", f"{seconds:.0f}", f"{proven.mean():.2f}", f"{at:.1f}"]
            rows.append([name, structure, *shown])
            common.say(str(rows[-1]))
    table(["edges", "structure", "accuracy", "gap", "CPU s of the fit", "proven", "CPU s of prediction"], rows)


# ---- multi-label -----------------------------------------------------------------------------------------------------


def part_multilabel(folder: Path, quick: bool, C: float) -> None:
    rows = []
    for name in ("scene", "yeast"):
        data = np.load(folder / name / f"{name}.npz")
        scale = StandardScaler().fit(data["X_train"])
        X, new = scale.transform(data["X_train"]), scale.transform(data["X_test"])
        Y, truth = data["y_train"].astype(int), data["y_test"].astype(int)
        if quick:
            X, Y = X[:200], Y[:200]
        logistic = LogisticRegression(C=0.1, max_iter=2000)
        models = {
            "OneVsRest(LogisticRegression(C=0.1))": OneVsRestClassifier(logistic),
            "ClassifierChain(LogisticRegression(C=0.1))": ClassifierChain(logistic, random_state=0),
        }
        for edges in ("none", "tree", "full"):
            models[f"MultiLabel({edges!r}, L2CRF(lam=20))"] = MultiLabel(edges, L2CRF(lam=20.0, tol=1e-2))
            models[f"MultiLabel({edges!r}, M3N(C=0.01))"] = MultiLabel(edges, M3N(C=0.01, tol=1e-2))
            models[f"MultiLabel({edges!r}, LapMEDN(C=0.1, lam=100))"] = MultiLabel(
                edges, LapMEDN(C=0.1, lam=100.0, tol=1e-2)
            )
        for described, model in models.items():
            seconds, _ = cpu(model.fit, X, Y)
            found = model.predict(new)
            rows.append([name, described, f"{hamming_loss(truth, found):.4f}",
                         f"{f1_score(truth, found, average='macro', zero_division=0):.3f}",
                         f"{f1_score(truth, found, average='micro', zero_division=0):.3f}",
                         f"{(truth == found).all(axis=1).mean():.3f}", f"{seconds:.1f}"])  # fmt: skip
            common.say(str(rows[-1]))
    table(["set", "model", "Hamming loss", "macro F1", "micro F1", "whole sets right", "CPU s"], rows)


# ---- camvid ----------------------------------------------------------------------------------------------------------


def camvid(data: Any, split: str, n: int | None = None) -> Examples:
    """Scaled features, their squares and the place in the picture."""
    plain = data["X_train"].reshape(-1, data["X_train"].shape[-1])
    X = (data[f"X_{split}"][:n] - plain.mean(axis=0)) / plain.std(axis=0)
    h, w = X.shape[1:3]
    r, c = np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij")
    place = np.stack([r, r * r, c, c * c, r * c], axis=-1).reshape(h * w, -1)
    nodes = [np.concatenate([own.reshape(h * w, -1), own.reshape(h * w, -1) ** 2 - 1, place], axis=1) for own in X]
    y = [[UNKNOWN if a == 11 else CLASSES[a] for a in own.ravel()] for own in data[f"y_{split}"][:n]]
    edges, types = grid_edges((h, w))
    return Examples.build(nodes, y, edges=[edges] * len(X), edge_types=[types] * len(X))


def part_camvid(folder: Path, quick: bool, C: float) -> None:
    data = np.load(folder / "camvid_grid" / "camvid_grid.npz")
    train, test = camvid(data, "train", 5 if quick else None), camvid(data, "test")
    truth, rows = np.asarray(test.y), []
    known = np.array([label is not UNKNOWN for label in truth])
    for structure in (Independent(bias=True), Graph(bias=True)):
        seconds, model = cpu(M3N(C=C, structure=structure, tol=1e-2).fit, train)
        at, (labels, proven) = cpu(model.predict, test, return_proof=True)
        found = np.concatenate([np.array(own) for own in labels])
        right = found[known] == truth[known]
        by_class = [f"{right[truth[known] == name].mean():.2f}" for name in CLASSES]
        rows.append([structure, f"{right.mean():.4f}", *by_class, f"{seconds:.0f}", f"{model.round_gap_:.1e}",
                     f"{proven.mean():.2f}", f"{at:.1f}"])  # fmt: skip
        common.say(str(rows[-1]))
    table(["structure", "all", *CLASSES, "CPU s of the fit", "gap", "proven", "CPU s of prediction"], rows)


def part_sweep(folder: Path, quick: bool, C: float) -> None:
    """Weights of a short fit; what is measured is the maximum with costs, from no messages."""
    data = np.load(folder / "camvid_grid" / "camvid_grid.npz")
    train = camvid(data, "train", 10 if quick else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = M3N(C=C, structure=Graph(bias=True), tol=0.1, max_passes=40).fit(train[:10])
    bound, w = model.model_.structure.bind(train, model.classes_, model.model_.layout), model.model_.weights
    costs = Table(np.where(np.eye(len(CLASSES)) > 0, 0.0, 1.0), bound.y)
    rows = []
    for tol in (1e-2, 1e-3, 1e-4):
        cold = bound.take(0, len(train))
        scores = cold.scores(w, costs)
        seconds, found = cpu(cold.hard, scores, w, costs, tol=tol, max_sweeps=2000)
        gap = float((found.upper - found.attained).sum())
        rows.append(
            ["24 x 32", len(train), f"{tol:g}", f"{seconds:.2f}", f"{gap:.3g}", f"{gap / abs(found.upper.sum()):.1e}"]
        )
        common.say(str(rows[-1]))
    rng = np.random.default_rng(0)
    for size in (8, 16, 32, 64):
        edges, types = grid_edges((size, size))
        X = [rng.normal(size=(size * size, train.n_features))]
        grid = Examples.build(X, [["sky"] * size * size], edges=[edges], edge_types=[types])
        one = model.model_.structure.bind(grid, model.classes_, model.model_.layout)
        seconds, found = cpu(one.hard, one.scores(w), w, None, tol=1e-3, max_sweeps=2000)
        gap = float((found.upper - found.attained).sum())
        rows.append([f"{size} x {size}, noise", 1, "0.001", f"{seconds:.2f}", f"{gap:.3g}",
                     f"{gap / abs(found.upper.sum()):.1e}"])  # fmt: skip
    table(["grid", "grids", "tol", "CPU s", "summed gap", "share of the sum"], rows)


# ---- kernels ---------------------------------------------------------------------------------------------------------


def part_kernels(folder: Path, quick: bool, C: float) -> None:
    data = np.load(folder / "ocr_letters" / "ocr_letters.npz")
    pixels = np.unpackbits(data["pixels"], axis=1).astype(float)
    words = [
        (pixels[a:b], [chr(97 + label) for label in data["labels"][a:b]])
        for a, b in zip(data["offsets"][:-1], data["offsets"][1:])
    ]
    train = [word for word, fold in zip(words, data["folds"]) if fold == 0]
    test = [word for word, fold in zip(words, data["folds"]) if fold != 0]
    rows = []
    for n in (200,) if quick else (500, 1500, None):
        features = OnNodes(KernelFeatures("rbf", gamma=0.02, n_landmarks=n))
        model = make_pipeline(features, M3N(C=C, structure=Chain(bias=True, ends=True), tol=1e-2))
        seconds, _ = cpu(model.fit, [x for x, _ in train], [y for _, y in train])
        wrong = total = 0
        began = time.process_time()
        for k in range(0, len(test), 300):
            some = test[k : k + 300]
            for found, (_, true) in zip(model.predict([x for x, _ in some]), some):
                wrong, total = wrong + sum(a != b for a, b in zip(found, true)), total + len(true)
        kernel = model[0].transformer_
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        shown = [f"{kernel.trace_left_:.3f}", f"{100 * wrong / total:.2f}", f"{seconds:.0f}"]
        rows.append([len(kernel.landmarks_), *shown, f"{time.process_time() - began:.0f}", memory])
        common.say(str(rows[-1]))
    table(
        ["landmarks", "trace left", "error, per cent", "CPU s of the fit", "CPU s of prediction", "peak MB so far"],
        rows,
    )


def table(head: list[str], rows: list[list[Any]]) -> None:
    """A table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main() -> None:
    options = common.parser(__doc__, letters=False)
    options.add_argument("--data", required=True, metavar="FOLDER")
    options.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument(
        "--C", type=float, default=None, help="of margin models (default: 0.1; camvid 0.01, kernels 5)"
    )
    given = options.parse_args()
    defaults = {"camvid": 0.01, "sweep": 0.01, "kernels": 5.0}
    for part in given.part:
        print(f"\n## {part}\n")
        C = defaults.get(part, 0.1) if given.C is None else given.C
        globals()[f"part_{part}"](Path(given.data), given.quick, C)


if __name__ == "__main__":
    main()
