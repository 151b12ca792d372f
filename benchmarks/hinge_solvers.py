"""Which solver for hinge models: `ProximalPoint`, `BlockFrankWolfe` and `Smoothing` to gaps of 1e-2 and 1e-3.

The constants are multiples of the defaults. *Letters* are words of the OCR letters, *names* are 1,000 Portuguese
sentences as feature dicts, *proteins* and *chorales* are those of `frontier.py`. *Noisy* are generated chains of 8
nodes with 50 labels and 60 dense features; half of the labels are random. A fit ends at the first evaluation
after ``--budget`` CPU seconds of one thread; a dash means that the gap is not reached.

    python benchmarks/hinge_solvers.py --data DATA
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import common
import frontier
import numpy as np
from exactness import Budget, examples_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import M3N, Chain, Examples, LapMEDN
from maxendnet.solvers import BlockFrankWolfe, ProximalPoint, Smoothing

TOLS = (1e-2, 1e-3)
ROWS: tuple[tuple[str, type, dict[str, float]], ...] = (
    ("letters 25", M3N, {}), ("letters 250", M3N, {}), ("letters 250", LapMEDN, {}),
    ("letters 250", LapMEDN, {"C": 100}), ("letters 2,500", M3N, {}), ("letters 2,500", LapMEDN, {}),
    ("letters 2,500", M3N, {"C": 100}), ("all letters", M3N, {}), ("all letters", M3N, {"C": 10}),
    ("all letters", LapMEDN, {}), ("names 1,000", M3N, {}), ("names 1,000", M3N, {"C": 100}),
    ("names 1,000", LapMEDN, {}), ("names 1,000", LapMEDN, {"lam": 0.01}), ("names 1,000", LapMEDN, {"C": 10}),
    ("chorales", M3N, {}), ("chorales", LapMEDN, {}), ("noisy", M3N, {}), ("noisy", M3N, {"C": 10}),
    ("noisy", LapMEDN, {}), ("proteins", M3N, {}), ("proteins", M3N, {"C": 10}), ("proteins", LapMEDN, {}),
)  # fmt: skip


def noisy(n_examples: int = 2500, n_labels: int = 50, n_features: int = 60) -> Examples:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(n_labels, n_features))
    y = rng.integers(n_labels, size=(n_examples, 8))
    X = means[y] + rng.normal(size=(n_examples, 8, n_features))
    random = rng.random(y.shape) < 0.5
    y[random] = rng.integers(n_labels, size=int(random.sum()))
    return Examples.build(X, y)


@cache
def data(name: str, folder: str) -> tuple[Examples, Any]:
    """Return examples and the structure of their models."""
    if name == "noisy":
        return noisy(), Chain()
    if name == "all letters":
        raw, examples = common.letters(folder)
        return examples[raw.folds != 0], Chain(bias=True)
    tasks = {"proteins": ("cb513", frontier.cb513), "chorales": ("bach_chorales", frontier.bach_chorales)}
    if name not in tasks:
        return examples_of(name, folder, False)
    where, read = tasks[name]
    task = read(Path(folder) / where, None)
    return task.train, task.structure


def seconds(model: Any, examples: Examples, structure: Any, solver: Any, budget: float) -> str:
    """Return the CPU seconds to each gap."""
    watch = Budget(budget)
    options = {"structure": structure, "solver": solver, "tol": min(TOLS), "random_state": 0, "max_passes": 10**6}
    clone(model).set_params(**options, callback=watch).fit(examples)
    return " / ".join("-" if (s := watch.seconds_to(tol)) is None else f"{s:.2f}" for tol in TOLS)


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--budget", type=float, default=20.0, help="CPU seconds of a fit (default: %(default)s)")
    arguments.add_argument("--sets", default="", help="data sets, separated by ; (default: all)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for name, kind, factors in ROWS:
        if given.sets and name not in given.sets.split(";"):
            continue
        examples, structure = data(name, given.data)
        constants = kind().constants(examples)
        model = kind(**{key: float(value) * factors.get(key, 1) for key, value in constants.items()})
        cells = [
            seconds(model, examples, structure, solver, 2.0 if given.quick else given.budget)
            for solver in (ProximalPoint(), BlockFrankWolfe(), Smoothing())
        ]
        scale = ", ".join(f"{key} x {factor:g}" for key, factor in factors.items())
        rows.append((f"{name}, {kind.__name__}({scale})", *cells))
        common.say(f"{rows[-1]}")
    print(common.table(("CPU s to 1e-2 / 1e-3", "ProximalPoint", "BlockFrankWolfe", "Smoothing"), rows))
    print(common.machine())


if __name__ == "__main__":
    main()
