"""Label the cells of images: truth, single cells, a tree, and the grid, side by side.

An image is a grid of cells, each with a few numbers (mean colours, edges) and one of eleven classes. Cells of the class
"void" are unknown: they are no class in learning, and are never scored. Four neighbours of a cell are joined, and the
direction of an edge is its type.

The data are CamVid as small grids (Brostow et al. 2009), one file ``camvid_grid.npz`` with the arrays ``X_train`` of
shape (n, 24, 32, 12), ``y_train`` of shape (n, 24, 32), and the same for val and test; label 11 is void.

    python examples/label_images.py camvid_grid.npz --images 20 -o images.png
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import M3N, UNKNOWN, Examples, Graph, Independent, Tree, grid_edges

CLASSES = ["sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"]
COLOURS = [
    "#87c9f5", "#8c3b3b", "#d9c27e", "#7a4b8f", "#3f49b8", "#5f9e3f",
    "#e58f8f", "#5a5a78", "#e0559a", "#e8a33d", "#12b5b0",
]  # fmt: skip
STRUCTURES = {
    "single cells": Independent(bias=True),
    "tree": Tree(bias=True),
    "grid": Graph(bias=True, inference="relaxed"),
}


def comb(shape: tuple[int, int]) -> np.ndarray:
    """Which edges of a grid make a tree: those down the columns, and those along the middle row."""
    rows, columns = shape
    edges, _ = grid_edges(shape)
    row = edges // columns
    return (row[:, 0] != row[:, 1]) | (row[:, 0] == rows // 2)


def load(data: Any, split: str, structure: str, n_images: int | None = None) -> Examples:
    """The images of a split: scaled features, their squares and the place in the image, and edges for a structure."""
    plain = data["X_train"].reshape(-1, data["X_train"].shape[-1])
    X = (data[f"X_{split}"][:n_images] - plain.mean(axis=0)) / plain.std(axis=0)
    rows, columns = X.shape[1:3]
    r, c = np.meshgrid(np.linspace(-1, 1, rows), np.linspace(-1, 1, columns), indexing="ij")
    place = np.stack([r, r * r, c, c * c, r * c], axis=-1).reshape(rows * columns, -1)
    cells = [own.reshape(rows * columns, -1) for own in X]
    nodes = [np.concatenate([own, own**2 - 1, place], axis=1) for own in cells]
    y = [[UNKNOWN if a == len(CLASSES) else CLASSES[a] for a in own.ravel()] for own in data[f"y_{split}"][:n_images]]
    if structure == "single cells":
        return Examples.build(nodes, y)
    edges, types = grid_edges((rows, columns))
    if structure == "tree":
        kept = comb((rows, columns))
        edges, types = edges[kept], types[kept]
    return Examples.build(nodes, y, edges=[edges] * len(X), edge_types=[types] * len(X))


def right(found: list[list[str]], images: Examples) -> np.ndarray:
    """Whether each cell that is not void has its class."""
    truth = images.y.tolist()
    known = np.array([label is not UNKNOWN for label in truth])
    labels = [label for own in found for label in own]
    return np.array([a == b for a, b in zip(labels, truth)])[known]


def draw(data: Any, predictions: dict[str, list[list[str]]], shown: list[int], path: Path) -> None:
    """A row for every image: its truth (void is white), and what each model says."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    number = {name: k for k, name in enumerate(CLASSES)}
    colours = ListedColormap([*COLOURS, "#ffffff"])
    columns = ["truth", *predictions]
    figure, axes = pyplot.subplots(
        len(shown), len(columns), figsize=(2.6 * len(columns), 2.1 * len(shown) + 0.8), squeeze=False
    )
    for row, k in zip(axes, shown):
        truth = data["y_test"][k]
        for axis, name in zip(row, columns):
            labels = truth if name == "truth" else np.array([number[a] for a in predictions[name][k]])
            axis.imshow(labels.reshape(truth.shape), cmap=colours, vmin=-0.5, vmax=len(CLASSES) + 0.5)
            axis.set_xticks([])
            axis.set_yticks([])
    for axis, name in zip(axes[0], columns):
        axis.set_title(name)
    patches = [Patch(facecolor=colour, label=name) for name, colour in zip(CLASSES, COLOURS)]
    figure.legend(handles=patches, loc="lower center", ncol=6, frameon=False)
    figure.tight_layout(rect=(0, 0.8 / figure.get_figheight(), 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="camvid_grid.npz")
    parser.add_argument("--images", type=int, default=20, help="images to learn from (default: %(default)s)")
    parser.add_argument("--C", type=float, default=0.01, help="of the models (default: %(default)s)")
    parser.add_argument("--show", type=int, nargs="+", default=[0, 20, 40, 60], help="test images in the figure")
    parser.add_argument("-o", "--out", type=Path, default=Path("images.png"))
    options = parser.parse_args()
    data = np.load(options.data)
    predictions = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, structure in STRUCTURES.items():
            began = time.process_time()
            train, test = load(data, "train", name, options.images), load(data, "test", name)
            model = M3N(C=options.C, structure=structure, tol=1e-2).fit(train)
            predictions[name] = model.predict(test)
            share = right(predictions[name], test).mean()
            print(f"{name:14} {share:.1%} of the cells right, {time.process_time() - began:.0f} CPU s", flush=True)
    draw(data, predictions, options.show, options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
