"""Accuracy and time of graphs with cycles and of multi-label classification.

Experiments, selected with --part:

snakes      200 / 100 grids of Nowozin et al. (2011), 11 labels: accuracy, CPU seconds of the fit to a gap of 1e-2, and
            the fraction of test grids with a proven optimal prediction; edge types by direction, without and with the
            colours of both ends as edge features
multilabel  scene and yeast: Hamming loss, F1 and subset accuracy without edges, with a tree and with all edges; six
            systems with hyper-parameters chosen on a third of the training rows, compared with scikit-learn's
            ClassifierChain and OneVsRestClassifier on logistic regressions
camvid      grids of 24 x 32 cells, 11 labels (void is unknown and not scored): accuracy by class of independent cells,
            of a tree and of the grid; examples/label_images.py plots them
sweep       CPU seconds of one relaxed maximum with costs over the camvid grids at fitted weights, by tolerance, and by
            the size of grids of noise

--data is the folder of the data sets.

    python benchmarks/graphs.py --data DATA --part snakes
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    UNKNOWN,
    Examples,
    Graph,
    Independent,
    LapMEDN,
    MultiLabel,
    grid_edges,
)
from maxendnet.structures.base import Table

sys.path.append(str(Path(__file__).parent.parent / "examples"))
import label_images

PARTS = ("snakes", "multilabel", "camvid", "sweep")


def cpu(function: Any, *arguments: Any, **options: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and its result."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = function(*arguments, **options)
    return time.process_time() - began, result


# ---- snakes ----------------------------------------------------------------------------------------------------------


def snakes(data: Any, split: str, colours_of_edges: bool) -> Examples:
    """Grids with colours of 3 x 3 cells as node features, and of both ends as edge features."""
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


def part_snakes(folder: Path, quick: bool, C: float, cells: common.Cells) -> None:
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


SYSTEMS: dict[str, tuple[Any, dict[str, list[float]]]] = {
    "LapMEDN": (LapMEDN(tol=1e-2), {"C": [0.03, 0.1, 0.3], "lam": [30.0, 100.0, 300.0]}),
    "M3N": (M3N(tol=1e-2), {"C": [0.001, 0.003, 0.01, 0.03, 0.1]}),
    "L1M3N": (L1M3N(tol=1e-2, max_passes=150), {"C": [0.01, 0.03, 0.1, 0.3]}),
    "CRF": (CRF(tol=1e-2, max_passes=150), {}),
    "L2CRF": (L2CRF(tol=1e-2), {"lam": [3.0, 10.0, 30.0, 100.0, 300.0]}),
    "L1CRF": (L1CRF(tol=1e-2, max_passes=150), {"lam": [1.0, 3.0, 10.0, 30.0]}),
    "logistic regression": (LogisticRegression(max_iter=2000), {"C": [0.001, 0.003, 0.01, 0.03, 0.1, 1.0]}),
}


def multilabel_models(system: str, estimator: Any) -> dict[str, Any]:
    """Edges between labels, by their names in the table."""
    if system == "logistic regression":
        chain = ClassifierChain(estimator, random_state=0)
        return {"`OneVsRestClassifier`": OneVsRestClassifier(estimator), "`ClassifierChain`": chain}
    return {edges: MultiLabel(edges, estimator) for edges in ("none", "tree", "full")}


def chosen(system: str, X: Any, Y: Any) -> dict[str, float]:
    """Hyper-parameters with the smallest Hamming loss on a third of the training rows."""
    estimator, grid = SYSTEMS[system]
    kept = np.random.default_rng(0).permutation(len(X)) % 3 > 0
    best: tuple[float, dict[str, float]] = (np.inf, {})
    for values in itertools.product(*grid.values()) if grid else ():
        constants = dict(zip(grid, values))
        models = multilabel_models(system, clone(estimator).set_params(**constants))
        model = cpu(models.get("tree", models.get("`OneVsRestClassifier`")).fit, X[kept], Y[kept])[1]
        best = min(best, (hamming_loss(Y[~kept], model.predict(X[~kept])), constants), key=lambda one: one[0])
    return best[1]


def measured(model: Any, X: Any, Y: Any, new: Any, truth: Any) -> dict[str, Any]:
    """Scores of a fit on the test data."""
    seconds, _ = cpu(model.fit, X, Y)
    found = model.predict(new)
    return {
        "hamming": hamming_loss(truth, found),
        "macro": f1_score(truth, found, average="macro", zero_division=0),
        "micro": f1_score(truth, found, average="micro", zero_division=0),
        "whole": float((truth == found).all(axis=1).mean()),
        "seconds": seconds,
        "gap": f"{model.estimator_.gap_:.0e}" if isinstance(model, MultiLabel) else "",
    }


def part_multilabel(folder: Path, quick: bool, C: float, cells: common.Cells) -> None:
    rows = []
    for name in ("scene", "yeast"):
        data = np.load(folder / name / f"{name}.npz")
        scale = StandardScaler().fit(data["X_train"])
        X, new = scale.transform(data["X_train"]), scale.transform(data["X_test"])
        Y, truth = data["y_train"].astype(int), data["y_test"].astype(int)
        if quick:
            X, Y = X[:200], Y[:200]
        for system in SYSTEMS:
            key = {"set": name, "system": system, "rows": len(X)}
            constants = cells.get(key, lambda: chosen(system, X, Y))  # noqa: B023
            for how, model in multilabel_models(system, clone(SYSTEMS[system][0]).set_params(**constants)).items():
                found = cells.get(key | {"model": how}, lambda: measured(model, X, Y, new, truth))  # noqa: B023
                shown = ", ".join(f"{key}={value:g}" for key, value in constants.items())
                numbers = [f"{found['hamming']:.4f}", *(f"{found[k]:.3f}" for k in ("macro", "micro", "whole"))]
                rows.append([name, f"{system}, {how}", shown, *numbers, f"{found['seconds']:.1f}", found["gap"]])
                common.say(str(rows[-1]))
    table(
        ["set", "model", "constants", "Hamming loss", "macro F1", "micro F1", "whole sets right", "CPU s", "gap"], rows
    )


# ---- camvid ----------------------------------------------------------------------------------------------------------


def part_camvid(folder: Path, quick: bool, C: float, cells: common.Cells) -> None:
    data, rows = np.load(folder / "camvid_grid" / "camvid_grid.npz"), []
    for name, structure in label_images.STRUCTURES.items():
        train, test = (label_images.load(data, split, name, 5 if quick else None) for split in ("train", "test"))
        truth = np.array([label for label in test.y.tolist() if label is not UNKNOWN])
        seconds, model = cpu(M3N(C=C, structure=structure, tol=1e-2).fit, train)
        at, (labels, proven) = cpu(model.predict, test, return_proof=True)
        right = label_images.is_correct(labels, test)
        by_class = [right[truth == kind].mean() for kind in label_images.CLASSES]
        rows.append([name, f"{right.mean():.4f}", f"{np.mean(by_class):.3f}", *(f"{x:.2f}" for x in by_class),
                     f"{seconds:.0f}", f"{model.round_gap_:.1e}", f"{proven.mean():.2f}", f"{at:.1f}"])  # fmt: skip
        common.say(str(rows[-1]))
    head = ["structure", "all", "mean of classes", *label_images.CLASSES]
    table([*head, "CPU s of the fit", "gap", "proven", "CPU s of prediction"], rows)


def part_sweep(folder: Path, quick: bool, C: float, cells: common.Cells) -> None:
    """Time of maxima with costs, without previous messages, at weights of a fit to ten images."""
    data = np.load(folder / "camvid_grid" / "camvid_grid.npz")
    train = label_images.load(data, "train", "grid", 10 if quick else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = M3N(C=C, structure=Graph("relaxed", bias=True), tol=1e-2, max_passes=200).fit(train[:10])
    bound, w = model.model_.structure.bind(train, model.classes_, model.model_.layout), model.model_.weights
    costs = Table(1.0 - np.eye(len(label_images.CLASSES)), bound.y)
    rows = []
    for tol in (1e-2, 1e-3, 1e-4, 1e-5):
        cold = bound.take(0, len(train))
        scores = cold.scores(w, costs)
        seconds, found = cpu(cold.hard, scores, w, costs, tol=tol, max_sweeps=5000)
        gap = float((found.upper - found.attained).sum())
        rows.append(
            ["24 x 32", len(train), f"{tol:g}", f"{seconds:.2f}", f"{gap:.3g}", f"{gap / abs(found.upper.sum()):.1e}"]
        )
        common.say(str(rows[-1]))
    table(["grid", "grids", "tol", "CPU s", "summed gap", "share of the sum"], rows)
    rng, rows = np.random.default_rng(0), []
    for size in (8, 16, 32, 64):
        n_grids, edges = 16384 // size**2, grid_edges((size, size))
        X = [rng.normal(size=(size * size, train.n_features)) for _ in range(n_grids)]
        y = [["sky"] * size * size] * n_grids
        grids = Examples.build(X, y, edges=[edges[0]] * n_grids, edge_types=[edges[1]] * n_grids)
        noise = model.model_.structure.bind(grids, model.classes_, model.model_.layout)
        scores = noise.scores(w)
        seconds, found = cpu(noise.hard, scores, w, None, tol=1e-3, max_sweeps=5000)
        gap = float((found.upper - found.attained).sum()) / abs(found.upper.sum())
        rows.append([f"{size} x {size}", n_grids, f"{1e6 * seconds / 16384:.1f}", f"{gap:.1e}"])
        common.say(str(rows[-1]))
    table(["grid of noise", "grids", "CPU microseconds a node", "share of the sum"], rows)


def table(head: list[str], rows: list[list[Any]]) -> None:
    """Return a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main() -> None:
    options = common.parser(__doc__, letters=False)
    options.add_argument("--data", required=True, metavar="FOLDER")
    options.add_argument("--out", help="file of finished fits of multilabel, one JSON value a line")
    options.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--C", type=float, default=None, help="of margin models (default: 0.1; camvid 0.01)")
    given = options.parse_args()
    defaults = {"camvid": 0.01, "sweep": 0.01}
    for part in given.part:
        print(f"\n## {part}\n")
        C = defaults.get(part, 0.1) if given.C is None else given.C
        globals()[f"part_{part}"](Path(given.data), given.quick, C, common.Cells(given.out))


if __name__ == "__main__":
    main()
