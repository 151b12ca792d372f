"""Label the cells of images with three structures: independent cells, a tree, and a grid.

An image is a grid of cells, each with a few features (mean colours, edges) and one of eleven classes. Cells of the
class "void" are unknown labels in training, and are not scored. Edges connect each cell with its four neighbours, and
the type of an edge is its direction.

The data are CamVid as small grids (Brostow et al. 2009): a file ``camvid_grid.npz`` with arrays ``X_train`` of shape
(n, 24, 32, 12), ``y_train`` of shape (n, 24, 32), and the same for val and test. Label 11 is void.

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
    "independent cells": Independent(bias=True),
    "tree": Tree(bias=True),
    "grid": Graph(bias=True, inference="relaxed"),
}


def comb(shape: tuple[int, int]) -> np.ndarray:
    """Return a mask of the grid edges that form a tree: all vertical edges, and those of the middle row."""
    rows, columns = shape
    edges, _ = grid_edges(shape)
    row = edges // columns
    return (row[:, 0] != row[:, 1]) | (row[:, 0] == rows // 2)


def load(data: Any, split: str, structure: str, n_images: int | None = None) -> Examples:
    """Return the images of a split: scaled features, their squares, the position in the image, and edges."""
    plain = data["X_train"].reshape(-1, data["X_train"].shape[-1])
    X = (data[f"X_{split}"][:n_images] - plain.mean(axis=0)) / plain.std(axis=0)
    rows, columns = X.shape[1:3]
    r, c = np.meshgrid(np.linspace(-1, 1, rows), np.linspace(-1, 1, columns), indexing="ij")
    position = np.stack([r, r * r, c, c * c, r * c], axis=-1).reshape(rows * columns, -1)
    cells = [image.reshape(rows * columns, -1) for image in X]
    nodes = [np.concatenate([features, features**2 - 1, position], axis=1) for features in cells]
    labels = [image.ravel() for image in data[f"y_{split}"][:n_images]]
    y = [[UNKNOWN if a == len(CLASSES) else CLASSES[a] for a in image] for image in labels]
    if structure == "independent cells":
        return Examples.build(nodes, y)
    edges, types = grid_edges((rows, columns))
    if structure == "tree":
        in_tree = comb((rows, columns))
        edges, types = edges[in_tree], types[in_tree]
    return Examples.build(nodes, y, edges=[edges] * len(X), edge_types=[types] * len(X))


def is_correct(predictions: list[list[str]], images: Examples) -> np.ndarray:
    """Return for each cell that is not void whether its prediction is correct."""
    truth = images.y.tolist()
    known = np.array([label is not UNKNOWN for label in truth])
    labels = [label for image in predictions for label in image]
    return np.array([a == b for a, b in zip(labels, truth)])[known]


def draw(data: Any, predictions: dict[str, list[list[str]]], shown: list[int], path: Path) -> None:
    """Draw a row for each image: true labels (void is white), and the predictions of each model."""
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
    parser.add_argument("--images", type=int, default=20, help="number of training images (default: %(default)s)")
    parser.add_argument("--C", type=float, default=0.01, help="C of the models (default: %(default)s)")
    parser.add_argument("--show", type=int, nargs="+", default=[0, 20, 40, 60], help="test images in the figure")
    parser.add_argument("-o", "--out", type=Path, default=Path("images.png"))
    options = parser.parse_args()
    data = np.load(options.data)
    predictions = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, structure in STRUCTURES.items():
            start = time.process_time()
            train, test = load(data, "train", name, options.images), load(data, "test", name)
            model = M3N(C=options.C, structure=structure, tol=1e-2).fit(train)
            predictions[name] = model.predict(test)
            accuracy = is_correct(predictions[name], test).mean()
            print(f"{name:17} accuracy {accuracy:.1%}, {time.process_time() - start:.0f} CPU s", flush=True)
    draw(data, predictions, options.show, options.out)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
