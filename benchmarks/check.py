"""Speed regression check: CPU time of small fits and predictions, relative to a probe.

Every task runs on generated data. Its CPU time is divided by that of a probe, NumPy code that is independent of this
library and runs just before and after the task; this corrects for the speed and the load of the machine. The smallest
of several ratios is compared with the one in benchmarks/ratios.json. The exit code is 1 if a task takes more than
``--most`` times as long. Ratios depend on the processor: first write them with --update, with the version to compare
with.

    make bench-check
    make bench-check ARGS=--update
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1CRF, L1M3N, L2CRF, M3N, Chain, Graph, LapMEDN, grid_edges
from maxendnet.data.examples import Examples

FILE = Path(__file__).with_name("ratios.json")


def dense(n_words: int = 600, n_features: int = 60, n_labels: int = 12) -> Examples:
    """Return chains with noisy prototypes of labels as features, similar to OCR letters."""
    rng = np.random.default_rng(0)
    prototypes = rng.random((n_labels, n_features)) < 0.3
    follow = rng.dirichlet(np.full(n_labels, 0.3), size=n_labels)
    X, y = [], []
    for _ in range(n_words):
        labels = [int(rng.integers(n_labels))]
        for _ in range(7):
            labels.append(int(rng.choice(n_labels, p=follow[labels[-1]])))
        X.append((prototypes[labels] ^ (rng.random((8, n_features)) < 0.2)).astype(float))
        y.append(labels)
    return Examples.build(X, y)


def sparse(n_sentences: int = 600, n_labels: int = 8) -> Examples:
    """Return sentences of rare and frequent words."""
    rng = np.random.default_rng(1)
    X, y = [], []
    for _ in range(n_sentences):
        labels = rng.integers(n_labels, size=12).tolist()
        words = [f"{a}-{rng.zipf(1.4) % 500}" if rng.random() < 0.7 else str(rng.integers(200)) for a in labels]
        X.append([{"word": w, "before": b, "first": w[0]} for w, b in zip(words, ["", *words])])
        y.append(labels)
    return Examples.build(X, y)


def grids(n: int = 15, side: int = 6) -> Examples:
    """Return noisy images as grids of nodes."""
    rng = np.random.default_rng(2)
    edges, types = grid_edges((side, side))
    truth = [np.kron(rng.integers(3, size=(2, 2)), np.ones((side // 2, side // 2), int)).ravel() for _ in range(n)]
    X = [np.eye(3)[labels] + 0.7 * rng.normal(size=(side * side, 3)) for labels in truth]
    pairs: list[Any] = [edges] * n
    return Examples.build(X, [labels.tolist() for labels in truth], edges=pairs, edge_types=[types] * n)


def tasks() -> dict[str, Callable[[], Any]]:
    """Return the tasks by name."""
    letters, text, images, seen_pairs = dense(), sparse(), grids(), Chain(pairs="seen")
    fitted = M3N(C=0.1, tol=0.1, random_state=0).fit(letters)
    options: dict[str, Any] = {"random_state": 0, "tol": 1e-2}
    return {
        "M3N": lambda: M3N(C=0.5, **options).fit(letters),
        "LapMEDN": lambda: LapMEDN(C=2.0, lam=20.0, **options).fit(letters),
        "L1M3N": lambda: L1M3N(C=0.3, **options | {"tol": 5e-2}).fit(letters),
        "L2CRF": lambda: L2CRF(lam=1.0, **options).fit(letters),
        "L1CRF": lambda: L1CRF(lam=1.0, **options).fit(letters),
        "M3N, order 2": lambda: M3N(C=0.2, structure=Chain(order=2), **options | {"tol": 0.1}).fit(letters),
        "L2CRF, text": lambda: L2CRF(lam=1.0, structure=seen_pairs, **options).fit(text),
        "L1CRF, text": lambda: L1CRF(lam=0.5, structure=seen_pairs, **options).fit(text),
        "M3N, text": lambda: M3N(C=0.1, structure=seen_pairs, **options).fit(text),
        "M3N, grids": lambda: M3N(C=0.1, structure=Graph("relaxed"), **options | {"tol": 0.1}).fit(images),
        "predict": lambda: [fitted.predict(letters) for _ in range(20)],
        "marginals": lambda: [fitted.predict_marginals(letters) for _ in range(10)],
    }


def probe() -> None:
    """Compute for about a tenth of a second: products, sorting, indexing and Python."""
    rng = np.random.default_rng(3)
    matrix, values = rng.random((150, 150)), rng.random(200_000)
    for _ in range(30):
        matrix = matrix @ matrix / matrix.max()
    order = np.argsort(values)
    np.cumsum(np.exp(values[order]))
    sum(k * k for k in range(300_000))


def ratio(task: Callable[[], Any], repeat: int) -> float:
    """Return the smallest CPU time of a task divided by the mean of the probes around it."""
    ratios = []
    for _ in range(repeat):
        before, (seconds, _), after = common.cpu(probe)[0], common.cpu(task), common.cpu(probe)[0]
        ratios.append(2 * seconds / (before + after))
    return min(ratios)


def main() -> int:
    parser = common.parser(__doc__, letters=False)
    parser.add_argument("--update", action="store_true", help="write benchmarks/ratios.json")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.3, help="largest allowed multiple (default: %(default)s)")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    last = json.loads(FILE.read_text()) if FILE.exists() else {}
    now, rows = {}, []
    for name, task in tasks().items():
        now[name] = ratio(task, 1 if args.quick else args.repeat)
        times = now[name] / last[name] if name in last else float("nan")
        rows.append([name, f"{now[name]:.2f}", f"{last.get(name, float('nan')):.2f}", f"{times:.2f}"])
        common.say(str(rows[-1]))
    print(common.table(["", "probes", "last", "times as long"], rows))
    if args.update:
        FILE.write_text(json.dumps({name: round(value, 3) for name, value in now.items()}, indent=2) + "\n")
        return 0
    slower = [name for name, value in now.items() if value > args.most * last.get(name, np.inf)]
    if slower:
        print(f"\nSlower than {args.most} times the last ratio: {', '.join(slower)}.")
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
