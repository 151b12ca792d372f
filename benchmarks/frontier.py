"""Error on new examples and proven gap against CPU seconds: all systems, CRFsuite, and an independent classifier.

Five data sets, each as a user would fit it: OCR letters (folds 1-9, pixels and a bias), CoNLL-2000 (the CRF++
template, weights of pairs that occur), CB513 (windows of 15 residues), Bach chorales (pitches, bass and metre around an
event) and Portuguese names (the ready features for words). Every system is fitted by `fit` with default settings and
constants to gaps of 0.1, 0.01 and 0.001, each from the start: a point is what a user gets with that ``tol``. CRFsuite
has the same features and its own default constants, which are also those of sklearn-crfsuite. It is trained for several
numbers of iterations, from the start too, and to its own stop. `LogisticRegression` labels every node independently.
Seconds are CPU seconds of one thread. A fit ends at the first evaluation after ``--budget`` seconds, and smaller gaps
are then not tried. Seconds of a fit are also given in units of a probe (`check.py`) that is run before it, because the
speed of the machine varies. The first table, one row for each data set, is a summary.

    python benchmarks/frontier.py --data DATA --sets ocr_letters --out cells.jsonl --figures docs/figures
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np
from check import probe
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, LapMEDN
from maxendnet.data.examples import Examples
from maxendnet.text import TokenFeatures, read_columns, span_scores

TOLS = (1e-1, 1e-2, 1e-3)
ITERATIONS = {"lbfgs": (10, 100, 2000), "l2sgd": (5, 20, 100), "ap": (5, 20, 100), "pa": (5, 20, 100),
              "arow": (5, 20, 100)}  # fmt: skip
MODELS = {f"{cls.__name__}()": cls() for cls in (LapMEDN, M3N, L1M3N, L2CRF, L1CRF, CRF)}
SUMMARY = {
    "independent": ("LogisticRegression()", 0), "CRFsuite, 100 iterations": ("CRFsuite lbfgs", 1),
    "CRFsuite, to its stop": ("CRFsuite lbfgs", -1), "its averaged perceptron": ("CRFsuite ap", -1),
    "LapMEDN()": ("LapMEDN()", 1), "M3N()": ("M3N()", 1), "L2CRF()": ("L2CRF()", 1),
}  # fmt: skip
"""Columns of the first table: a system and the number of its point. Ours stop at a gap of 0.01, their default."""
Score = Callable[[list[Any], list[Any]], float]


class Task(NamedTuple):
    """A data set, divided, and how labels are judged."""

    train: Examples
    test: Examples
    truth: list[Any]
    error: Score
    """Per cent, of the true labels and of those that were found."""
    structure: Any
    unit: str


def wrong_labels(truth: list[Any], found: list[Any]) -> float:
    pairs = [(a, b) for one, other in zip(truth, found) for a, b in zip(one, other) if a is not None]
    return 100 * float(np.mean([str(a) != str(b) for a, b in pairs]))


def wrong_spans(truth: list[Any], found: list[Any]) -> float:
    return 100 * (1 - span_scores(truth, found).f1)


# ------------------------------------------------------------------------------------------------------------- data


def ocr_letters(folder: Path, n: int | None) -> Task:
    raw, examples = common.letters(str(folder))
    train, test = common.subset(examples[raw.folds != 0], n), examples[raw.folds == 0]
    truth = [test.y[a:b].tolist() for a, b in pairwise(test.offsets)]
    return Task(train, test, truth, wrong_labels, Chain(bias=True), "letters wrong, %")


def columns(folder: Path, n: int | None, features: str) -> Task:
    made = TokenFeatures(features)
    X, y = read_columns(folder / "train.tsv.gz").split()
    train = made.fit_transform(X if n is None else X[:n], y[:n])
    new, truth = read_columns(folder / "test.tsv.gz").split()
    return Task(train, made.transform(new), truth, wrong_spans, Chain(pairs="seen"), "100 - F1 of spans")


def conll2000(folder: Path, n: int | None) -> Task:
    return columns(folder, n, "chunks")


def uner_pt(folder: Path, n: int | None) -> Task:
    return columns(folder, n, "words")


def from_dicts(train: list[Any], test: list[Any]) -> Task:
    """Sequences of (features, labels); labels that are not judged are None, in the test part alone."""
    known = Examples.build([x for x, _ in train], [y for _, y in train])
    new = Examples.build([x for x, _ in test], feature_names=known.feature_names)
    return Task(known, new, [y for _, y in test], wrong_labels, Chain(), "labels wrong, %")


def cb513(folder: Path, n: int | None) -> Task:
    with gzip.open(folder / "cb513.jsonl.gz", "rt") as file:
        proteins = [json.loads(line) for line in file]

    def sequence(protein: dict[str, Any], judged: bool) -> Any:
        padded = 7 * "-" + protein["seq"] + 7 * "-"
        x = [{f"{k}": padded[t + k] for k in range(15)} for t in range(len(protein["seq"]))]
        kept = [a == b == "1" for a, b in zip(protein["domain"], protein["ordered"])]
        return x, [label if keep or not judged else None for label, keep in zip(protein["q3"], kept)]

    train = [sequence(protein, False) for protein in proteins if protein["fold"] != 0][:n]
    test = [sequence(protein, True) for protein in proteins if protein["fold"] == 0]
    return from_dicts(train, test)


def bach_chorales(folder: Path, n: int | None) -> Task:
    with gzip.open(folder / "chorales.tsv.gz", "rt") as file:
        blocks = [block.splitlines() for block in file.read().strip().split("\n\n")]
    sequences = []
    for block in blocks:
        events = [line.split("\t") for line in block]
        x = []
        for t in range(len(events)):
            found: dict[str, Any] = {"metre": events[t][3]}
            for k in (-1, 0, 1):
                if 0 <= t + k < len(events):
                    found |= {f"{k}:{note}": 1.0 for note, bit in enumerate(events[t + k][1]) if bit == "1"}
                    found[f"{k}:bass"] = events[t + k][2]
            x.append(found)
        sequences.append((x, [event[4] for event in events]))
    train = [one for i, one in enumerate(sequences) if i % 5 != 0][:n]
    return from_dicts(train, sequences[::5])


SETS: dict[str, Callable[[Path, int | None], Task]] = {
    "ocr_letters": ocr_letters, "conll2000": conll2000, "cb513": cb513, "bach_chorales": bach_chorales,
    "uner_pt": uner_pt,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- fits


def ours(task: Task, model: Any, tol: float, budget: float) -> dict[str, Any]:
    began = [0.0]

    def late(progress: Any) -> bool:
        return time.process_time() - began[0] > budget

    fitted = clone(model).set_params(structure=task.structure, tol=tol, random_state=0, callback=late, max_passes=10**6)
    unit = common.cpu(probe)[0]
    began[0] = time.process_time()
    seconds, _ = common.cpu(lambda: fitted.fit(task.train))
    error = task.error(task.truth, fitted.predict(task.test))
    gap = fitted.gap_ if np.isfinite(fitted.gap_) else None
    return {"seconds": seconds, "units": seconds / unit, "error": error, "gap": gap, "passes": fitted.n_passes_,
            "late": seconds > budget, "solver": fitted.solver_.split(":")[0]}  # fmt: skip


class Peer:
    """CRFsuite with the examples of a task."""

    def __init__(self, task: Task) -> None:
        import pycrfsuite

        seen = task.structure.pairs == "seen"
        self.task, self.bias = task, getattr(task.structure, "bias", False)
        self.options = {"feature.possible_states": not seen, "feature.possible_transitions": True}
        self.trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
        labels = [task.train.y[a:b] for a, b in pairwise(task.train.offsets)]
        for x, y in zip(self.items(task.train), labels):
            self.trainer.append(pycrfsuite.ItemSequence(x), [str(label) for label in y])

    def items(self, examples: Examples) -> list[list[Any]]:
        X = examples.X
        rows = [
            dict(zip(map(str, X.indices[a:b].tolist()), X.data[a:b].tolist())) | ({"bias": 1.0} if self.bias else {})
            for a, b in pairwise(X.indptr)
        ]
        return [rows[a:b] for a, b in pairwise(examples.offsets)]

    def train(self, algorithm: str, settings: dict[str, Any]) -> dict[str, Any]:
        import pycrfsuite

        self.trainer.select(algorithm)
        self.trainer.set_params({**self.options, **settings})
        unit = common.cpu(probe)[0]
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model")
            seconds = common.cpu(lambda: self.trainer.train(file))[0]
            tagger = pycrfsuite.Tagger()
            tagger.open(file)
            found = [tagger.tag(pycrfsuite.ItemSequence(x)) for x in self.items(self.task.test)]
        passes = self.trainer.logparser.last_iteration["num"]
        error = self.task.error(self.task.truth, found)
        return {"seconds": seconds, "units": seconds / unit, "error": error, "gap": None, "passes": passes}


def settings_of(algorithm: str, n: int) -> dict[str, Any]:
    """The number of iterations; algorithms of single examples make all of them."""
    return {"max_iterations": n, **({"epsilon": 0.0} if algorithm in ("ap", "pa", "arow") else {})}


def independent(task: Task) -> dict[str, Any]:
    """Fit a logistic regression to single nodes, with the settings of scikit-learn but more iterations."""
    model = LogisticRegression(max_iter=1000)
    seconds, _ = common.cpu(lambda: model.fit(task.train.X, task.train.y))
    labels = model.predict(task.test.X)
    error = task.error(task.truth, [labels[a:b].tolist() for a, b in pairwise(task.test.offsets)])
    return {"seconds": seconds, "units": np.nan, "error": error, "gap": None, "passes": int(model.n_iter_[0])}


def courses(name: str, folder: Path, n: int | None, budget: float, cells: common.Cells) -> tuple[Any, str]:
    """All points of a data set: system to (seconds, gap, error), in the order of the tables."""
    task = SETS[name](folder / name, n)
    found: dict[str, list[dict[str, Any]]] = {}
    for label, model in MODELS.items():
        for tol in TOLS:
            key = {"set": name, "n": n, "model": label, "tol": tol}
            cell = cells.get(key, lambda: ours(task, model, tol, budget))  # noqa: B023
            found.setdefault(label, []).append({"limit": f"{tol:g}", **cell})
            common.say(f"{name} {label} {tol:g}: {cell}")
            if cell["late"]:
                break
    cell = cells.get({"set": name, "n": n, "independent": True}, lambda: independent(task))
    found["LogisticRegression()"] = [{"limit": "1000", **cell}]
    peer: list[Peer] = []
    for algorithm, numbers in ITERATIONS.items():
        for k in numbers:
            key = {"set": name, "n": n, "crfsuite": algorithm, "iterations": k}

            def compute() -> dict[str, Any]:
                if not peer:
                    peer.append(Peer(task))
                return peer[0].train(algorithm, settings_of(algorithm, k))  # noqa: B023

            cell = cells.get(key, compute)
            found.setdefault(f"CRFsuite {algorithm}", []).append({"limit": str(k), **cell})
            common.say(f"{name} CRFsuite {algorithm} {k}: {cell}")
            if cell["seconds"] > 3 * budget or cell["passes"] < k:
                break
    return found, task.unit


def draw(found: dict[str, list[dict[str, Any]]], unit: str, title: str, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"  # letters as text: a third of the size

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
    colors = plt.get_cmap("tab10")
    peers = [name for name in found if name.startswith("CRFsuite")]
    for k, (name, points) in enumerate(found.items()):
        peer = name in peers
        style = {"color": colors(peers.index(name) if peer else k), "linestyle": ":" if peer else "-",
                 "marker": "x" if peer else "o", "markersize": 5}  # fmt: skip
        left.plot([p["seconds"] for p in points], [p["error"] for p in points], label=name, **style)
        proven = [p for p in points if p["gap"] is not None and p["gap"] > 0]
        if proven:
            right.plot([p["seconds"] for p in proven], [p["gap"] for p in proven], **style)
    best = min(p["error"] for points in found.values() for p in points)
    most = np.median([points[-1]["error"] for points in found.values()])
    left.set(xscale="log", xlabel="CPU seconds, one thread", ylabel=unit, ylim=(best - 0.3 * (most - best) - 0.1,
             most + 1.5 * (most - best) + 0.5), title=f"{title}: error on new examples")  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="CPU seconds, one thread", ylabel="relative duality gap",
              title="proven gap")  # fmt: skip
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    figure.set_layout_engine("constrained")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="with a folder for every set")
    arguments.add_argument("--sets", default=",".join(SETS), help="which, separated by commas (default: %(default)s)")
    arguments.add_argument("--budget", type=float, default=60.0, help="CPU seconds of a fit (default: %(default)s)")
    arguments.add_argument("--out", metavar="FILE", help="file of finished points; an interrupted run resumes from it")
    arguments.add_argument("--figures", metavar="FOLDER", help="where figures go (default: none)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    cells, n, budget = common.Cells(given.out), (40 if given.quick else None), (2.0 if given.quick else given.budget)
    summary, sections = [], []
    for name in given.sets.split(","):
        found, unit = courses(name, Path(given.data), n, budget, cells)
        rows = [
            (label, point["limit"], f"{point['seconds']:.1f}", f"{point['units']:.0f}", point["passes"],
             "-" if point["gap"] is None else f"{point['gap']:.1e}", f"{point['error']:.2f}")
            for label, points in found.items() for point in points
        ]  # fmt: skip
        head = ("", "tol or iterations", "CPU s", "in probes", "passes", "gap", unit)
        sections.append(f"## {name}\n\n{common.table(head, rows)}")
        points = [found[system][min(k, len(found[system]) - 1)] for system, k in SUMMARY.values()]
        summary.append((f"{name}, {unit}", *(f"{p['error']:.2f} ({p['seconds']:.1f} s)" for p in points)))
        if given.figures:
            draw(found, unit, name, Path(given.figures) / f"frontier_{name}.svg")
    print(common.table(("", *SUMMARY), summary))
    print("\n\n".join([*sections, common.machine()]))


if __name__ == "__main__":
    main()
