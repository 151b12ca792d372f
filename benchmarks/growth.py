"""How does the time of a fit grow with words, labels, features, lengths of sequences and sizes of graphs.

CPU seconds of one thread of a whole `fit` with default settings, to a gap of 0.01 (L1-M3N: 0.1; CRF: gradient), on

- the OCR letters, folds 1-9, an eighth of the words to eight times all of them;
- chains of 8 nodes with 60 dense features and 5 to 200 labels, 20,000 nodes in all;
- sentences of 20 words with 15 sparse features each, of 1,000 to 1,000,000 in all that follow Zipf's law, 9 labels,
  40,000 nodes, weights of the pairs that occur;
- the same with 10,000 features and 100,000 nodes in all, in sequences of 10 to 100,000 nodes;
- grids of 4 x 4 to 64 x 64 nodes with 20 dense features and 3 labels, 8,192 nodes in all.

The exponent is the slope of log seconds over log size by least squares. Fits stop at the first evaluation after twice
``--budget`` seconds, and a model that has taken more than ``--budget`` seconds is not tried at larger sizes.

    python benchmarks/growth.py --figure docs/figures/growth.svg
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import common
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, Graph, LapMEDN, grid_edges
from maxendnet.data.examples import Examples

MODELS = {
    "M3N(C=0.1)": M3N(0.1), "LapMEDN(C=1, lam=10)": LapMEDN(1.0, 10.0), "L1M3N(C=0.1)": L1M3N(0.1),
    "L2CRF(lam=2)": L2CRF(2.0), "L1CRF(lam=1)": L1CRF(1.0), "CRF()": CRF(),
}  # fmt: skip
TOL = {"L1M3N(C=0.1)": 0.1}


def words(data: str | None, quick: bool) -> Iterator[tuple[float, Examples]]:
    raw, examples = common.letters(data)
    train = common.subset(examples[raw.folds != 0], 400 if quick else None)
    for times in (1 / 8, 1 / 4, 1 / 2):
        yield times, common.subset(train, int(times * len(train)))
    for times in (1, 2, 4, 8):
        yield float(times), common.repeated(train, times)


def labels(quick: bool) -> Iterator[tuple[float, Examples]]:
    n_nodes = 800 if quick else 20_000
    for n_labels in (5, 10, 20, 50, 100, 200):
        rng = np.random.default_rng(n_labels)
        prototypes = rng.normal(size=(n_labels, 60))
        y = rng.integers(n_labels, size=n_nodes)
        X = prototypes[y] + 3.0 * rng.normal(size=(n_nodes, 60))
        yield float(n_labels), Examples.build(np.split(X, n_nodes // 8), np.split(y, n_nodes // 8))


def features(quick: bool) -> Iterator[tuple[float, Examples]]:
    for n_features in (1_000, 10_000, 100_000, 1_000_000):
        yield float(n_features), sequences(800 if quick else 40_000, n_features, 20)


def lengths(quick: bool) -> Iterator[tuple[float, Examples]]:
    n_nodes = 1_000 if quick else 100_000
    for length in (10, 100, 1_000, 10_000, 100_000):
        if length <= n_nodes:
            yield float(length), sequences(n_nodes, 10_000, length)


def sequences(n_nodes: int, n_features: int, length: int) -> Examples:
    """Sequences with 15 sparse features per node that follow Zipf's law, and 9 labels."""
    n_labels, per_node = 9, 15
    rng = np.random.default_rng(0)
    y = rng.integers(n_labels, size=n_nodes)
    ranks = np.floor(n_features ** rng.random((n_nodes, per_node))).astype(np.int64) - 1
    # a third of the features of a node belong to its label
    of_label = rng.random((n_nodes, per_node)) < 0.33
    names = np.where(of_label, (ranks * n_labels + y[:, None]) % n_features, ranks)
    X = sparse.csr_array((np.ones(names.size), names.ravel(), np.arange(0, names.size + 1, per_node)),
                         shape=(n_nodes, n_features))  # fmt: skip
    X.sum_duplicates()
    rows = [X[a : a + length] for a in range(0, n_nodes, length)]
    return Examples.build(rows, np.split(y, n_nodes // length))


def graphs(quick: bool) -> Iterator[tuple[float, Examples]]:
    n_nodes, n_labels = (512 if quick else 8_192), 3
    for side in (4, 8, 16, 32, 64):
        if side * side > n_nodes:
            return
        rng = np.random.default_rng(side)
        n, pairs = n_nodes // side**2, grid_edges((side, side))
        # labels of a grid: the sign of a smooth random field, in three levels
        field = rng.normal(size=(n, side, side))
        for _ in range(2):
            field = field + np.roll(field, 1, axis=1) + np.roll(field, 1, axis=2)
        y = np.digitize(field, np.quantile(field, [1 / 3, 2 / 3])).reshape(n, -1)
        X = 0.5 * rng.normal(size=(n_labels, 20))[y] + rng.normal(size=(n, side * side, 20))
        yield float(side * side), Examples.build(list(X), list(y), edges=[pairs[0]] * n, edge_types=[pairs[1]] * n)


def measure(
    kind: str, sets: Iterator[tuple[float, Examples]], structure: Any, budget: float, cells: common.Cells
) -> dict[str, list[Any]]:
    """Of every model: sizes and seconds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MODELS}
    for size, examples in sets:
        for name, model in MODELS.items():
            if found[name] and not found[name][-1][1] <= budget:
                continue
            key = {"kind": kind, "size": size, "model": name, "nodes": len(examples.y)}
            cell = cells.get(key, lambda: fit(model, structure, examples, TOL.get(name, 1e-2), budget))  # noqa: B023
            common.say(f"{size:g} {name}: {cell['seconds']:.2f} s, {cell['passes']} passes, {cell['solver']}")
            found[name].append((size, cell["seconds"]))
    return found


def fit(model: Any, structure: Any, examples: Examples, tol: float, budget: float) -> dict[str, Any]:
    end = time.process_time() + 2 * budget
    fitted = clone(model).set_params(
        structure=structure, tol=tol, random_state=0, callback=lambda progress: time.process_time() > end
    )
    try:
        seconds = common.cpu(lambda: fitted.fit(examples))[0]
    except ValueError as error:  # the structure has no sum over labellings, or none for graphs of this size
        return {"seconds": float("nan"), "passes": 0, "solver": str(error)}
    return {"seconds": seconds, "passes": fitted.n_passes_, "solver": fitted.solver_.split(":")[0]}


def exponent(points: list[tuple[float, float]]) -> float:
    points = [point for point in points if np.isfinite(point[1])]
    if len(points) < 2:
        return float("nan")
    sizes, seconds = np.log(np.array(points)).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def draw(found: dict[str, dict[str, list[Any]]], path: str) -> None:
    import matplotlib

    matplotlib.use("svg" if path.endswith(".svg") else "Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"  # letters as text: a third of the size

    figure, axes = plt.subplots(1, len(found), figsize=(4.2 * len(found), 4.8), layout="constrained")
    for axis, (title, courses) in zip(np.atleast_1d(axes), found.items()):
        for name, points in courses.items():
            axis.plot(*zip(*points), marker="o", markersize=4, label=f"{name.split('(')[0]}: {exponent(points):.2f}")
        axis.set(xscale="log", yscale="log", xlabel=title, ylabel="CPU seconds of a fit, one thread")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, title="exponent", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument(
        "--only", default="words,labels,features,lengths,graphs", help="which (default: %(default)s)"
    )
    arguments.add_argument("--budget", type=float, default=40.0, help="CPU seconds (default: %(default)s)")
    arguments.add_argument("--out", metavar="FILE", help="file of finished fits; an interrupted run resumes from it")
    arguments.add_argument("--figure", metavar="FILE", help="where a figure goes (default: none)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    kinds: dict[str, tuple[str, Callable[[], Iterator[tuple[float, Examples]]], Any]] = {
        "words": ("times the words of the OCR letters", lambda: words(given.data, given.quick), Chain()),
        "labels": ("labels", lambda: labels(given.quick), Chain()),
        "features": ("features", lambda: features(given.quick), Chain(pairs="seen")),
        "lengths": ("nodes of a sequence", lambda: lengths(given.quick), Chain(pairs="seen")),
        "graphs": ("nodes of a grid", lambda: graphs(given.quick), Graph()),
    }
    found = {}
    for kind in given.only.split(","):
        title, sets, structure = kinds[kind]
        found[title] = measure(kind, sets(), structure, given.budget, common.Cells(given.out))
        sizes = sorted({size for points in found[title].values() for size, _ in points})
        rows = [
            (name, *(f"{dict(points)[size]:.1f}" if size in dict(points) else "-" for size in sizes),
             f"**{exponent(points):.2f}**")
            for name, points in found[title].items()
        ]  # fmt: skip
        print(common.table((f"CPU s; {title}:", *(f"{size:g}" for size in sizes), "exponent"), rows))
    if given.figure:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
