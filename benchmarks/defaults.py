"""Are the default constants as good as constants chosen by cross-validation, and what does a default fit cost?

Parts, selected by --part:

folds   error of every system and every point of its grid in three folds of the training part: the least error, per
        cent, and the excess of every point over it
test    the test part, evaluated once: the default of every system beside the constants with the least error in the
        folds and beside CRFsuite with the defaults of sklearn-crfsuite (L-BFGS, c2 = 1; sets of feature dicts only).
        The interval is the paired 95 % interval of the difference of errors, by bootstrap over examples
bias    error in the folds with the default constants, without and with an intercept
tol     error in the folds with the default constants, by the relative gap at which a fit ends

Every finished cell goes to the file of --out, and a run that was stopped resumes from there. Seconds are CPU seconds of
one thread and include reading the dicts.

    python benchmarks/defaults.py --data DATA --out defaults.jsonl
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
from default_sets import SETS, Dicts, Rows, Task, labels_of
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN, MultiLabel
from maxendnet.structures import as_structure

Constants = dict[str, float]
SYSTEMS: dict[str, Any] = {
    "LapMEDN": LapMEDN(), "M3N": M3N(), "L1M3N": L1M3N(), "CRF": CRF(), "L1CRF": L1CRF(), "L2CRF": L2CRF()
}  # fmt: skip
SEARCH = {"tol": 1e-2, "max_passes": 200, "random_state": 0}
"""Settings of fits in the folds."""
TOLS = (1e-1, 3e-2, 1e-2, 1e-3)
N_FOLDS, BUDGET, N_BOOTSTRAP = 3, 4.0, 2000
Cell = dict[str, Any]


def grid(system: str, squared_norm: float) -> list[Constants]:
    """Constants to choose from: fixed ones, and multiples of the mean squared norm of the features of a node."""
    scaled = lambda *factors: [float(f"{factor * squared_norm:.3g}") for factor in factors]  # noqa: E731
    inverse = lambda *factors: [float(f"{factor / squared_norm:.3g}") for factor in factors]  # noqa: E731
    if system == "M3N":
        return [{"C": C} for C in (0.3, 0.1, 1.0, *inverse(0.3, 1, 2, 4, 10))]
    if system == "L2CRF":
        return [{"lam": lam} for lam in (0.5, 0.1, 3.0, *scaled(0.01, 0.03, 0.06, 0.1, 0.3, 1))]
    if system == "LapMEDN":
        return [{"C": 3.0, "lam": 30.0}, *({"C": C, "lam": lam} for C in (3.0, 1.0) for lam in scaled(1, 3, 6))]
    if system == "CRF":
        return [{"tol": tol} for tol in (1e-1, 1e-2, 1e-3)]
    name = "C" if system == "L1M3N" else "lam"
    return [{name: value} for value in (0.1, 0.3, 0.5, 1.0, 3.0)]


def deadline(seconds: float) -> Any:
    """Callback that stops a fit after this much CPU time."""
    began = time.process_time()
    return lambda progress: time.process_time() - began > seconds


def fit(task: Task, estimator: Any, examples: Any) -> Any:
    """Fitted model; ``examples`` are those of a part of the task, or its dicts; None is the default of `MultiLabel`."""
    model = None if estimator is None else clone(estimator)
    if isinstance(examples, Rows):
        return MultiLabel(estimator=model).fit(examples.X, examples.Y)
    if task.structure != "chain" and model.structure == "chain":
        model.set_params(structure=task.structure)
    return model.fit(*examples) if isinstance(examples, Dicts) else model.fit(examples)


def errors(truth: list[list[Any]], predicted: Any) -> np.ndarray:
    """Wrong and scored labels of every example, shape (n_examples, 2)."""
    rows = [[(a, b) for a, b in zip(*pair) if a is not None] for pair in zip(truth, predicted)]
    return np.array([(sum(str(a) != str(b) for a, b in row), len(row)) for row in rows])


def rate(counts: np.ndarray) -> float:
    """Wrong labels, per cent."""
    return 100 * counts[:, 0].sum() / counts[:, 1].sum()


def predictions(model: Any, examples: Any) -> Any:
    """Predicted labels of every example."""
    if isinstance(examples, Rows):
        return model.predict(examples.X)
    return model.predict(examples).reshape(-1, 1) if examples.flat else model.predict(examples)


def select(examples: Any, chosen: Any) -> Any:
    return examples.select(chosen) if isinstance(examples, Rows) else examples[chosen]


def in_folds(task: Task, estimator: Any) -> Cell:
    """Error in the held-out folds, mean CPU seconds of a fit, and the largest gap."""
    counts, seconds, gaps = [], 0.0, []
    n_examples = len(task.train.X) if isinstance(task.train, Rows) else len(task.train)
    for train, held_out in KFold(N_FOLDS, shuffle=True, random_state=0).split(np.arange(n_examples)):
        model = clone(estimator).set_params(callback=deadline(BUDGET))
        used, model = common.cpu(lambda: fit(task, model, select(task.train, train)))  # noqa: B023
        part = select(task.train, held_out)
        counts.append(errors(labels_of(part), predictions(model, part)))
        gaps.append(getattr(model, "estimator_", model).gap_)
        seconds += used / N_FOLDS
    return {"error": rate(np.concatenate(counts)), "seconds": seconds, "gap": float(np.max(gaps))}


def on_test(task: Task, estimator: Any) -> Cell:
    """Errors on the test part, CPU seconds, and whether a fit of the training part warned."""
    examples = task.train if task.dicts is None else task.dicts[0]
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        seconds, model = common.cpu(lambda: fit(task, estimator, examples))
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in raised)
    counts = errors(task.truth, predictions(model, task.test))
    gap = getattr(model, "estimator_", model).gap_
    return {"counts": counts.tolist(), "seconds": seconds, "warned": warned, "gap": gap}


def crfsuite(task: Task) -> Cell:
    """CRFsuite with the defaults of sklearn-crfsuite."""
    import pycrfsuite

    train, test = task.dicts or ()

    def run() -> Any:
        trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
        for x, y in zip(train.X, train.y):
            trainer.append(x, y)
        trainer.train(file)

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model")
        seconds = common.cpu(run)[0]
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        predicted = [tagger.tag(x) for x in test.X]
        tagger.close()
    return {"counts": errors(task.truth, predicted).tolist(), "seconds": seconds}


def interval(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """95 % interval of the error of a minus that of b, in points, by paired bootstrap over examples."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(a), size=(N_BOOTSTRAP, len(a)))
    differences = 100 * (a[drawn, 0].sum(axis=1) - b[drawn, 0].sum(axis=1)) / a[drawn, 1].sum(axis=1)
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(low), float(high)


def settings_of(estimator: Any, *names: str) -> dict[str, Any]:
    """Those of the named settings that an estimator has."""
    return {name: value for name, value in estimator.get_params(deep=False).items() if name in names}


def shown(constants: Constants) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in constants.items())


class Study:
    """All cells of a run."""

    def __init__(self, data: Path, n: int, cells: common.Cells) -> None:
        self.data, self.n, self.cells = data, n, cells
        self.loaded: dict[str, Task] = {}

    def task(self, name: str) -> Task:
        if name not in self.loaded:
            self.loaded = {name: SETS[name](self.data, self.n)}
        return self.loaded[name]

    def fold_cell(self, name: str, system: str, constants: Constants, bias: bool | None = None) -> Cell:
        settings = SEARCH | settings_of(SYSTEMS[system], "C", "lam") | constants
        key = {"part": "folds", "set": name, "n": self.n, "system": system, "settings": settings, "bias": bias}

        def compute() -> Cell:
            task, estimator = self.task(name), clone(SYSTEMS[system]).set_params(**settings)
            if bias is not None:
                estimator.set_params(structure=clone(as_structure(task.structure)).set_params(bias=bias))
            return in_folds(task, estimator)

        cell = self.cells.get(key, compute)
        common.say(f"{name} {system} {shown(constants)} {bias or ''}: " + " ".join(f"{cell[k]:.3g}" for k in cell))
        return cell

    def grid(self, name: str, system: str) -> list[Constants]:
        """Constants to choose from on a set."""
        X = sparse.csr_array(self.task(name).train.X)
        intercept = isinstance(self.task(name).train, Rows)
        return grid(system, X.multiply(X).sum() / X.shape[0] + intercept)

    def chosen(self, name: str, system: str) -> Constants:
        """Constants with the least error in the folds."""
        return min(self.grid(name, system), key=lambda constants: self.fold_cell(name, system, constants)["error"])

    def test_cell(self, name: str, system: str, constants: Constants | None) -> Cell:
        estimator = clone(SYSTEMS[system]).set_params(**({} if constants is None else SEARCH | constants))
        if constants is None and system == "L2CRF" and isinstance(self.task(name).train, Rows):
            estimator = None
        settings = {} if estimator is None else settings_of(estimator, "C", "lam", "tol", "max_passes")
        key = {"part": "test", "set": name, "n": self.n, "system": system, "settings": settings}
        return self.cells.get(key, lambda: on_test(self.task(name), estimator))

    def peer_cell(self, name: str) -> Cell | None:
        task = self.task(name)
        key = {"part": "test", "set": name, "n": self.n, "system": "CRFsuite"}
        return None if task.dicts is None else self.cells.get(key, lambda: crfsuite(task))


def part_folds(study: Study, sets: list[str], systems: list[str]) -> None:
    for system in systems:
        print(f"\n### {system}\n")
        for name in sets:
            points = study.grid(name, system)
            cells = [study.fold_cell(name, system, constants) for constants in points]
            best = min(cell["error"] for cell in cells)
            excess = [f"{shown(point)}: {100 * (cell['error'] / best - 1):.0f}" for point, cell in zip(points, cells)]
            print(f"- {name}, {best:.2f} %: " + "; ".join(excess), flush=True)


def part_bias(study: Study, sets: list[str], systems: list[str]) -> None:
    rows = []
    for name, system in ((name, system) for name in sets for system in systems):
        if not isinstance(study.task(name).train, Rows):
            pair = [study.fold_cell(name, system, {}, bias) for bias in (False, True)]
            rows.append([name, system, *(f"{cell['error']:.2f} ({cell['seconds']:.1f} s)" for cell in pair)])
    print(common.table(["", "system", "without intercept", "with"], rows), flush=True)


def part_tol(study: Study, sets: list[str], systems: list[str]) -> None:
    rows = []
    for name, system in ((name, system) for name in sets for system in systems):
        cells = [study.fold_cell(name, system, {"tol": tol, "max_passes": 1000}) for tol in TOLS]
        rows.append([name, system, *(f"{cell['error']:.2f} ({cell['seconds']:.1f} s)" for cell in cells)])
    print(common.table(["", "system", *(f"tol={tol:g}" for tol in TOLS)], rows), flush=True)


def compared(study: Study, name: str, system: str) -> list[str]:
    """A row of the table: the default of a system beside chosen constants."""
    constants = study.chosen(name, system)
    default, best = study.test_cell(name, system, None), study.test_cell(name, system, constants)
    a, b = np.array(default["counts"]), np.array(best["counts"])
    low, high = interval(a, b)
    met = rate(a) <= 1.03 * rate(b) or low <= 0
    return [
        name, system, f"{rate(a):.2f}", f"{rate(b):.2f} ({shown(constants)})", f"{low:+.2f} to {high:+.2f}",
        "yes" if met else "NO", f"{default['seconds']:.2f}", "WARNS" if default["warned"] else "",
    ]  # fmt: skip


def part_test(study: Study, sets: list[str], systems: list[str]) -> None:
    rows = []
    for name in sets:
        for system in systems:
            rows.append(compared(study, name, system))
            common.say(str(rows[-1]))
        peer = study.peer_cell(name)
        if peer:
            rows.append([name, "CRFsuite", f"{rate(np.array(peer['counts'])):.2f}", *["", "", ""],
                         f"{peer['seconds']:.2f}", ""])  # fmt: skip
    head = ["", "system", "default, %", "chosen, %", "difference, 95 %", "met", "CPU s", ""]
    print(common.table(head, rows), flush=True)


PARTS = {"folds": part_folds, "bias": part_bias, "tol": part_tol, "test": part_test}


def main() -> None:
    options = common.parser(__doc__, letters=False)
    options.add_argument("--data", required=True, metavar="FOLDER", help="with a folder for every set")
    options.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), metavar="SET")
    options.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    options.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    options.add_argument("--out", metavar="FILE", help="finished cells, to resume from")
    given = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    study = Study(Path(given.data), 60 if given.quick else 1000, common.Cells(given.out))
    for part in given.part:
        print(f"\n## {part}\n")
        PARTS[part](study, given.sets, given.systems)
    print(common.machine())


if __name__ == "__main__":
    main()
