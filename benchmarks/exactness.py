"""Do default fits reach the gap that is requested: all systems over four decades of their constants.

Every fit uses default settings except for the constants and ``tol=1e-3``. It stops at the first evaluation after
``--budget`` CPU seconds of one thread. A fit that does not pass 1e-2 on its way is repeated with ``tol=1e-2``, the
default. CRF has no duality gap; its own measure, the relative norm of the gradient, is counted instead.

- OCR letters: 25, 250 and 2,500 words, sampled from all folds;
- names: 1,000 Portuguese sentences as feature dicts (a word, its suffixes, its neighbours).

The constants are the defaults times the factors; LapMEDN has the product of factors for C and lam. The fits named in
`CASES` are run as well; they are not part of the grid.

    python benchmarks/exactness.py --data DATA --out build/exactness.jsonl --figure docs/figures/exactness.svg
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import common
import numpy as np
from default_sets import text
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, LapMEDN, MaxEnDNet
from maxendnet.data.examples import Examples
from maxendnet.text import TokenFeatures, read_columns

FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)
TOLS = (1e-2, 1e-3)
MARKS = (0.98, 0.90)
SYSTEMS: dict[str, tuple[type[MaxEnDNet], tuple[str, ...]]] = {
    "M3N": (M3N, ("C",)), "LapMEDN": (LapMEDN, ("C", "lam")), "L1M3N": (L1M3N, ("C",)), "CRF": (CRF, ()),
    "L1CRF": (L1CRF, ("lam",)), "L2CRF": (L2CRF, ("lam",)),
}  # fmt: skip
Cell = dict[str, Any]

# ------------------------------------------------------------------------------------------------------------- data


@cache
def examples_of(name: str, folder: str | None, quick: bool) -> tuple[Examples, Any]:
    """Return a data set and the structure of its models."""
    kind, _, size = name.rpartition(" ")
    n = int(size.replace(",", "")) // (10 if quick else 1)
    root = Path(folder or "")
    if kind == "letters":
        return common.subset(common.letters(folder)[1], n), Chain()
    if kind == "names":
        train = text(root / "uner_pt", n).train
        assert isinstance(train, Examples)
        return train, Chain()
    features, path = {"names, seen": ("words", "uner_pt"), "chunks, seen": ("chunks", "conll2000")}[kind]
    X, y = read_columns(root / path / "train.tsv.gz").split()
    return TokenFeatures(features).fit_transform(X[:n], y[:n]), Chain(pairs="seen")


SETS = ("letters 25", "letters 250", "letters 2,500", "names 1,000")
CASES: tuple[tuple[str, Any], ...] = (
    ("letters 25", L1M3N(0.6, tol=1e-6)), ("letters 100", L1M3N(0.6, tol=1e-3)), ("letters 900", M3N(81.0)),
    ("letters 900", LapMEDN(3.0, 9.0)), ("names, seen 1,500", LapMEDN(1.0, 1.0)), ("chunks, seen 2,000", L1M3N()),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- fits


class Budget:
    """Callback that records CPU seconds and gaps, and stops a fit after ``seconds`` CPU seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.began = seconds, time.process_time()
        self.points: list[tuple[float, float]] = []

    def __call__(self, progress: Any) -> bool:
        used = time.process_time() - self.began
        self.points.append((used, float(progress.evaluation.measure)))
        return used > self.seconds

    def seconds_to(self, gap: float) -> float | None:
        """Return the CPU seconds to the first evaluation at most ``gap``."""
        return next((seconds for seconds, value in self.points if value <= gap and seconds <= self.seconds), None)


def fit(model: Any, examples: Examples, structure: Any, budget: float) -> tuple[Budget, Cell]:
    """Fit a model within a budget; return the course of its gap, and what to report."""
    watch = Budget(budget)
    fitted = clone(model).set_params(structure=structure, random_state=0, callback=watch)
    fitted.fit(examples)
    gap = min((value for _, value in watch.points), default=np.nan)
    solver = fitted.solver_.split(":")[0]
    return watch, {"passes": fitted.n_passes_, "solver": solver, "gap": gap, "total": watch.points[-1][0]}


def measure(model: Any, examples: Examples, structure: Any, budget: float) -> Cell:
    """Return the CPU seconds to each of `TOLS`, None where it is not reached."""
    watch, cell = fit(model.set_params(tol=min(TOLS)), examples, structure, budget)
    seconds = {f"{tol:g}": watch.seconds_to(tol) for tol in TOLS}
    if seconds[f"{max(TOLS):g}"] is None:
        watch, rough = fit(model.set_params(tol=max(TOLS)), examples, structure, budget)
        seconds[f"{max(TOLS):g}"] = watch.seconds_to(max(TOLS))
        cell["gap"] = min(cell["gap"], rough["gap"])
    return {**cell, "seconds": seconds}


def grid(name: str, examples: Examples, factors: tuple[float, ...]) -> list[tuple[tuple[float, ...], Any]]:
    """Return the models of a system with their factors."""
    kind, constants = SYSTEMS[name]
    if not constants:
        return [((), kind())]
    defaults = kind().constants(examples)
    combinations = np.stack(np.meshgrid(*[factors] * len(constants), indexing="ij"), -1).reshape(-1, len(constants))
    return [
        (tuple(row), kind(**{key: float(f * defaults[key]) for key, f in zip(constants, row)}))
        for row in combinations.tolist()
    ]


# ----------------------------------------------------------------------------------------------------------- results


def summary(cells: dict[tuple[str, str, tuple[float, ...]], Cell]) -> str:
    """Return the share of fits that reach each gap, by system and data set."""

    def share(chosen: list[Cell], tol: float) -> str:
        reached = sum(cell["seconds"][f"{tol:g}"] is not None for cell in chosen)
        return f"{reached} of {len(chosen)}"

    names = [s for s in SETS if any(key[0] == s for key in cells)]
    systems = [s for s in SYSTEMS if any(key[1] == s for key in cells)]
    rows = []
    for tol in TOLS:
        for system in [*systems, "all"]:
            of_system = {key: cell for key, cell in cells.items() if system in (key[1], "all")}
            rows.append(
                (f"{system}, {tol:g}", *(share([c for k, c in of_system.items() if k[0] == s], tol) for s in names),
                 share(list(of_system.values()), tol))
            )  # fmt: skip
    return common.table(("", *names, "all"), rows)


def misses(cells: dict[tuple[str, str, tuple[float, ...]], Cell]) -> str:
    """Return the fits that miss a gap."""
    rows = [
        (f"{name}, {system}, {' x '.join(f'{f:g}' for f in factors)}", cell["solver"], cell["passes"],
         f"{cell['total']:.0f}", f"{cell['gap']:.1e}")
        for (name, system, factors), cell in cells.items()
        if cell["seconds"][f"{min(TOLS):g}"] is None
    ]  # fmt: skip
    return common.table(("missed", "solver", "passes", "CPU s", "smallest gap"), rows)


def draw(cells: dict[tuple[str, str, tuple[float, ...]], Cell], factors: tuple[float, ...], path: str) -> None:
    """Draw a heat map of CPU seconds for each data set and system."""
    import matplotlib

    matplotlib.use("svg" if path.endswith(".svg") else "Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    plt.rcParams["svg.fonttype"] = "none"
    names = [s for s in SETS if any(key[0] == s for key in cells)]
    n = len(factors)
    heights = [n if len(constants) == 2 else 1 for _, constants in SYSTEMS.values()]
    figure, axes = plt.subplots(
        len(SYSTEMS), len(names), figsize=(3.1 * len(names) + 1.2, 0.42 * sum(heights) + 3.2), layout="constrained",
        gridspec_kw={"height_ratios": heights}, squeeze=False,
    )  # fmt: skip
    colours = plt.get_cmap("viridis_r").with_extremes(over="white")
    for column, name in enumerate(names):
        for axis, (system, (_, constants)), height in zip(axes[:, column], SYSTEMS.items(), heights):
            values = np.full((height, n if constants else 1), np.nan)
            for (k, s, at), cell in cells.items():
                if (k, s) != (name, system):
                    continue
                at = tuple(factors.index(f) for f in at)
                place = (0, 0) if not at else (0, at[0]) if len(at) == 1 else (at[1], at[0])
                exact, rough = (cell["seconds"][f"{tol:g}"] for tol in (min(TOLS), max(TOLS)))
                values[place] = 1e6 if exact is None else max(exact, 0.01)
                text = f"{cell['gap']:.0e}".replace("e-0", "e-") if exact is None else f"{exact:.1f}"
                axis.text(*place[::-1], text, ha="center", va="center", fontsize=7,
                          color="tab:red" if rough is None else "black" if exact is None or exact < 8 else "white",
                          weight="bold" if exact is None else "normal")  # fmt: skip
            axis.set_facecolor("0.85")  # cells that are not finished
            image = axis.imshow(values, norm=LogNorm(0.03, 60), cmap=colours, aspect="auto", origin="lower")
            ticks = [f"{f:g}" for f in factors] if constants else [""]
            axis.set_xticks(range(len(ticks)), ticks, fontsize=7)
            axis.set_yticks(range(height), ticks if height > 1 else [""], fontsize=7)
            if height > 1 and column == 0:
                axis.set_ylabel("lam / default", fontsize=7)
            label = f"{system}: {constants[0]} / default" if constants else system
            axis.set_xlabel(label, fontsize=8)
        axes[0, column].set_title(name, fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.5, label="CPU seconds to a gap of 1e-3")
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--budget", type=float, default=60.0, help="CPU seconds of a fit (default: %(default)s)")
    arguments.add_argument("--sets", default=";".join(SETS), help="data sets, separated by ; (default: %(default)s)")
    arguments.add_argument("--systems", default=",".join(SYSTEMS), help="(default: %(default)s)")
    arguments.add_argument("--factors", default=",".join(f"{f:g}" for f in FACTORS), help="(default: %(default)s)")
    arguments.add_argument("--no-cases", action="store_true", help="leave out the single fits")
    arguments.add_argument("--out", metavar="FILE", help="file of finished cells; an interrupted run resumes from it")
    arguments.add_argument("--finished", action="store_true", help="show the finished cells of --out, and fit nothing")
    arguments.add_argument("--figure", metavar="FILE", help="heat map (default: none)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    store, budget = common.Cells(given.out), 2.0 if given.quick else given.budget
    factors = tuple(float(f) for f in given.factors.split(","))

    def cell_of(name: str, key: Cell, compute: Callable[..., Cell], model: Any) -> Cell | None:
        key = {"set": name, "quick": given.quick, **key}
        if given.finished and not store.has(key):
            return None
        cell = store.get(key, lambda: compute(model, *examples_of(name, given.data, given.quick), budget))
        common.say(f"{name}, {key}: {cell}")
        return cell

    cells: dict[tuple[str, str, tuple[float, ...]], Cell] = {}
    for name in given.sets.split(";"):
        for system in given.systems.split(","):
            for at, model in grid(system, examples_of(name, given.data, given.quick)[0], factors):
                cell = cell_of(name, {"system": system, "factors": list(at)}, measure, model)
                if cell is not None:
                    cells[name, system, at] = cell
    if given.quick:
        print("(--quick: a tenth of the data, 2 seconds a fit; not a measurement)\n")
    print(summary(cells))
    for tol, mark in zip(TOLS, MARKS):
        reached = float(np.mean([cell["seconds"][f"{tol:g}"] is not None for cell in cells.values()]))
        print(
            f"{tol:g} within {budget:g} CPU s: {100 * reached:.1f} % ({common.verdict(reached, mark, least=True)}).\n"
        )
    print(misses(cells))
    if not given.no_cases:
        rows = []
        for name, model in CASES:
            model = clone(model)
            cell = cell_of(name, {"case": str(model)}, lambda *fitted: fit(*fitted)[1], model)
            if cell is None:
                continue
            rows.append(
                (f"{name}, {model}", cell["solver"], cell["passes"], f"{cell['total']:.1f}", f"{cell['gap']:.1e}")
            )
        print(common.table(("", "solver", "passes", "CPU s", "gap"), rows))
    if given.figure:
        draw(cells, factors, given.figure)


if __name__ == "__main__":
    main()
