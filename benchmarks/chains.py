"""Accuracy and time of chains with higher orders and rules.

Experiments, selected with --part:

speed   microseconds per letter of a pass (loss-augmented decoding with features) on the OCR letters, one thread
orders  letter error of M3N on the OCR letters, orders 1 to 6: nine folds train, one tests. Hyper-parameters
        are chosen with folds 1 to 8 for training and fold 9 for validation. The baseline knows the 55 words: logistic
        regression of single letters, then the most likely training word of the same length
words   the same with a split by words: the 55 words in five folds. Another fold is held out to choose C and the scale
        of the pixels (--scales; C is divided by its square, which reduces the influence of n-grams only)
rules   text with valid chunks (BIO, BMES) or labels that occur at most once: F1 or accuracy, invalid sentences and time
        of the fit, without rules, with rules in training and prediction, and with rules at prediction only

Results are appended to the file of --out, and an interrupted run resumes from it. --data is the folder of the data sets
(ocr_letters, conll2000, ...).

    python benchmarks/chains.py --data DATA --out chains.jsonl
"""

from __future__ import annotations

import gzip
import itertools
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, M3N, Chain
from maxendnet.data.examples import as_examples
from maxendnet.rules import at_most_once, bio, bioes
from maxendnet.structures import Table
from maxendnet.structures.base import ExcessOptions
from maxendnet.text import TokenFeatures, span_f1

ORDERS = {
    "1": {},
    "2, all": {"order": 2},
    "2, seen": {"order": 2, "ngrams": "seen"},
    "3, seen": {"order": 3},
    "4, seen": {"order": 4},
    "5, seen": {"order": 5},
    "6, seen": {"order": 6},
}
CONSTANTS = [0.05, 0.1, 0.2, 0.5, 1.0]
TOL = 1e-2


def folder(data: str | None, name: str) -> Path:
    return Path(data or ".") / name


def fit(model: Any, X: Any, y: Any) -> tuple[float, Any]:
    """Return the CPU seconds of a fit, and the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return common.cpu(lambda: model.fit(X, y))


def chain(name: str) -> Chain:
    return Chain(bias=True, ends=True, **ORDERS[name])


# ---- OCR letters ----------------------------------------------------------------------------------------------------


def speed(letters: Any) -> list[list[str]]:
    examples = as_examples(letters.X, letters.y)
    few = as_examples(letters.X[:300], letters.y[:300])  # for what is slow
    classes, rng = np.unique(np.asarray(examples.y)), np.random.default_rng(0)
    rows = []
    for name, options in {**ORDERS, "3, all": {"order": 3, "ngrams": "all"}}.items():
        some = few if name == "3, all" else examples
        bound = Chain(**options).bind(some, classes)
        w = 0.05 * rng.normal(size=bound.layout.n_weights)
        cost = Table(1.0 - np.eye(len(classes)), bound.y)
        states = bound.reader.automaton.n_states if hasattr(bound, "reader") else ""
        times = []
        for aggregate, single in (("maximum", True), ("logsum", False)):
            options = ExcessOptions(single=single)
            seconds = min(common.cpu(lambda: bound.excess(aggregate, w, cost, options))[0] for _ in range(3))  # noqa: B023
            times.append(f"{1e6 * seconds / some.n_nodes:.2f}")
        rows.append([name, states, bound.layout.n_weights, *times])
        common.say(f"speed {rows[-1]}")
    return rows


def letter_error(model: Any, X: list[Any], y: list[Any]) -> float:
    return 100 * (1 - model.score(X, y))


def split(letters: Any, test: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    inside = np.flatnonzero(~test).tolist(), np.flatnonzero(test).tolist()
    return tuple([values[i] for i in some] for some in inside for values in (letters.X, letters.y))  # type: ignore[return-value]


def known_words(train_X: Any, train_y: Any, test_X: Any, test_y: Any) -> float:
    """Letter error of single letters with a word list."""
    model = fit(L2CRF(structure="independent", tol=TOL), train_X, train_y)[1]
    number = {label: k for k, label in enumerate(model.classes_.tolist())}
    words = {tuple(y) for y in train_y}
    wrong = total = 0
    for p, truth in zip(model.predict_marginals(test_X), test_y):
        logs = np.log(np.maximum(p, 1e-300))
        fits = [word for word in sorted(words) if len(word) == len(truth)]
        best = max(fits, key=lambda word: sum(logs[t, number[a]] for t, a in enumerate(word)), default=None)
        found = best or [model.classes_[a] for a in p.argmax(axis=1)]
        wrong += sum(a != b for a, b in zip(found, truth))
        total += len(truth)
    return 100 * wrong / total


def ocr_cell(letters: Any, test: Any, train: Any, name: str, C: float, scale: float = 1.0) -> dict[str, Any]:
    """Error and time of one fit, with pixels multiplied by ``scale``."""
    train_X, train_y, _, _ = split(letters, ~train)
    _, _, test_X, test_y = split(letters, test)
    train_X, test_X = ([scale * np.asarray(x, dtype=float) for x in X] for X in (train_X, test_X))
    if name == "words":
        return {"error": known_words(train_X, train_y, test_X, test_y), "n": sum(map(len, test_y))}
    seconds, model = fit(M3N(C=C, structure=chain(name), tol=TOL, max_passes=300, random_state=0), train_X, train_y)
    return {
        "error": letter_error(model, test_X, test_y), "n": sum(map(len, test_y)), "seconds": seconds,
        "gap": model.gap_, "states": getattr(model.model_.layout, "n_ngrams", 0),
    }  # fmt: skip


def orders(letters: Any, cells: Any, names: list[str], n_folds: int, constants: list[float]) -> list[list[Any]]:
    folds, rows = np.asarray(letters.folds), []
    for name in [*names, "words"]:
        C = 0.0
        if name != "words":
            tried = {
                C: cells.get(
                    {"part": "constants", "order": name, "C": C},
                    lambda: ocr_cell(letters, folds == 9, (folds > 0) & (folds < 9), name, C),  # noqa: B023
                )
                for C in constants
            }
            common.say(f"order {name}: " + ", ".join(f"C={C} {found['error']:.2f}" for C, found in tried.items()))
            C = min(tried, key=lambda C: tried[C]["error"])
        found = [
            cells.get(
                {"part": "orders", "order": name, "C": C, "fold": fold},
                lambda: ocr_cell(letters, folds == fold, folds != fold, name, C),  # noqa: B023
            )
            for fold in range(n_folds)
        ]
        errors = np.array([cell["error"] for cell in found])
        mean = np.average(errors, weights=[cell["n"] for cell in found])
        spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.nan
        seconds = np.mean([cell.get("seconds", np.nan) for cell in found])
        rows.append([name, C or "", f"{mean:.2f}", f"{spread:.2f}", f"{seconds:.0f}", len(errors)])
        common.say(f"orders {rows[-1]}")
    return rows


def by_words(
    letters: Any, cells: Any, name: str, parts: Any, test: int, constants: list[float], scales: list[float]
) -> tuple[tuple[float, float], dict[str, Any]]:
    """Best hyper-parameters on held-out words, and error and time on test words."""
    held = (test + 1) % 5

    def cell(part: str, tested: Any, trained: Any, C: float, scale: float) -> dict[str, Any]:
        key = {"part": part, "order": name, "C": C, "scale": scale, "test": test}
        return cells.get(key, lambda: ocr_cell(letters, tested, trained, name, C / scale**2, scale))

    tried = {
        both: cell("words, constants", parts == held, (parts != held) & (parts != test), *both)
        for both in itertools.product(constants, scales)
    }
    best = min(tried, key=lambda both: tried[both]["error"])
    return best, cell("words", parts == test, parts != test, *best)


def words(letters: Any, cells: Any, names: list[str], constants: list[float], scales: list[float]) -> list[list[Any]]:
    spelled = np.array(["".join(map(str, y)) for y in letters.y])
    distinct = np.random.default_rng(0).permutation(np.unique(spelled))
    part = {word: k % 5 for k, word in enumerate(distinct)}
    parts, rows = np.array([part[word] for word in spelled]), []
    for name in names:
        found = [by_words(letters, cells, name, parts, test, constants, scales) for test in range(5)]
        errors, sizes = ([cell[key] for _, cell in found] for key in ("error", "n"))
        chosen = [f"{C:g} {scale:g}" for (C, scale), _ in found]
        mean = np.average(errors, weights=sizes)
        rows.append([name, ", ".join(chosen), f"{mean:.2f}", " ".join(f"{e:.1f}" for e in errors)])
        common.say(f"words {rows[-1]}")
    return rows


# ---- rules ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[list[list[Any]], list[list[str]]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [[line.split("\t") for line in block.split("\n") if line] for block in file.read().split("\n\n")]
    sentences = [sentence for sentence in sentences if sentence]
    tokens = [[row[0] if len(row) == 2 else tuple(row[:-1]) for row in sentence] for sentence in sentences]
    return tokens, [[row[-1] for row in sentence] for sentence in sentences]


def once_in_training(y: list[list[str]], most: int = 6) -> Any:
    """Return the most frequent labels that have at most one run per training example."""
    runs = [Counter(label for label, _ in itertools.groupby(labels)) for labels in y]
    total = Counter(label for labels in runs for label in labels)
    once = [label for label, _ in total.most_common() if all(run[label] <= 1 for run in runs)]
    return at_most_once(*once[:most], runs=True)


def chorales(path: Path) -> tuple[list[Any], list[list[str]]]:
    """Chorales with the pitches, bass and metre of an event as features."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = [[line.split("\t") for line in block.splitlines()] for block in file.read().strip().split("\n\n")]
    X = [
        [
            {**{f"pitch{k}": 1.0 for k, bit in enumerate(bits) if bit == "1"}, f"bass{bass}": 1.0, f"metre{metre}": 1.0}
            for _, bits, bass, metre, _ in rows
        ]
        for rows in blocks
    ]
    return X, [[row[-1].strip() for row in rows] for rows in blocks]


TASKS = {
    "conll2000": ("chunks", lambda y: bio(), "F1"),
    "wnut17": ("words", lambda y: bio(), "F1"),
    "uner_pt": ("words", lambda y: bio(), "F1"),
    "zh_seg": ("characters", lambda y: bioes(inside="M"), "accuracy"),
    "usaddress": ("words", once_in_training, "accuracy"),
}


def task(data: str | None, name: str, quick: bool) -> tuple[Any, Any, Any, Any, Any, str]:
    if name == "bach_chorales":
        X, y = chorales(folder(data, name) / "chorales.tsv.gz")
        test = [i % 5 == 0 for i in range(len(X))]
        pick = lambda values, inside: [v for v, t in zip(values, test) if t == inside]  # noqa: E731
        return pick(X, False), pick(y, False), pick(X, True), pick(y, True), None, "accuracy"
    template, rule, metric = TASKS[name]
    (train, train_y), (test, test_y) = (read(folder(data, name) / f"{part}.tsv.gz") for part in ("train", "test"))
    if quick:
        train, train_y = train[:200], train_y[:200]
    features = TokenFeatures(template)
    known = {label for labels in train_y for label in labels}
    rules = rule(train_y)
    test_y = [[label if label in known else train_y[0][0] for label in labels] for labels in test_y]
    return features.fit_transform(train), train_y, features.transform(test), test_y, rules, metric


def breaks(rules: Any, classes: Any, predicted: list[list[str]]) -> int:
    """Number of sentences that break the rule."""
    automaton = rules.automaton(classes)
    number = {label: k for k, label in enumerate(classes.tolist())}
    return sum(not automaton.accepts([number[label] for label in labels]) for labels in predicted)


def quality(metric: str, truth: Any, predicted: Any) -> float:
    if metric == "F1":
        return 100 * span_f1(truth, predicted)
    right = [a == b for one, other in zip(truth, predicted) for a, b in zip(one, other)]
    return 100 * float(np.mean(right))


def with_rules(data: str | None, name: str, quick: bool) -> dict[str, Any]:
    X, y, test_X, test_y, rules, metric = task(data, name, quick)
    found: dict[str, Any] = {"metric": metric}
    settings: dict[str, Any] = {"C": 0.1, "tol": TOL, "max_passes": 200, "random_state": 0}
    if rules is None:  # nothing but order to be had
        for order in ("1", "2, seen", "3, seen"):
            seconds, model = fit(M3N(structure=Chain(bias=True, **ORDERS[order]), **settings), X, y)
            found[f"order {order}"] = quality(metric, test_y, model.predict(test_X))
            found[f"seconds {order}"] = seconds
        return found
    found["rule"] = repr(rules)
    for way, structure in (("without", Chain(pairs="seen")), ("with", Chain(pairs="seen", rules=rules))):
        seconds, model = fit(M3N(structure=structure, **settings), X, y)
        predicted = model.predict(test_X)
        found |= {
            way: quality(metric, test_y, predicted), f"seconds {way}": seconds, f"passes {way}": model.n_passes_,
            f"invalid {way}": breaks(rules, model.classes_, predicted),
        }  # fmt: skip
        if way == "without":
            predicted = model.predict(test_X, rules=rules)
            found["at prediction"] = quality(metric, test_y, predicted)
            found["invalid at prediction"] = breaks(rules, model.classes_, predicted)
    found["n"] = len(test_y)
    return found


def main() -> None:
    options = common.parser(__doc__)
    options.add_argument("--part", nargs="+", default=["speed", "orders", "words", "rules"])
    options.add_argument("--out", help="file of finished cells, one JSON value a line")
    options.add_argument("--folds", type=int, default=10)
    options.add_argument("--orders", nargs="+", default=list(ORDERS))
    options.add_argument("--constants", nargs="+", type=float, default=CONSTANTS, help="values of C to choose from")
    options.add_argument("--scales", nargs="+", type=float, default=[1.0, 3.0, 10.0], help="factors of pixels in words")
    options.add_argument("--tasks", nargs="+", default=[*TASKS, "bach_chorales"])
    given = options.parse_args()
    cells = common.Cells(given.out)
    if {"speed", "orders", "words"} & set(given.part):
        letters = common.fetch_ocr_letters(folder(given.data, "ocr_letters"))
    if "speed" in given.part:
        head = ["order", "states", "weights", "hinge, us a letter", "log, us a letter"]
        print("\n" + common.table(head, speed(letters)))
    if "rules" in given.part:
        for name in given.tasks:
            found = cells.get(
                {"part": "rules", "task": name, "quick": given.quick},
                lambda: with_rules(given.data, name, given.quick),  # noqa: B023
            )
            print(f"\n{name}: {found}", flush=True)
    if "orders" in given.part:
        head = ["order", "C", "letter error, %", "standard error", "CPU s a fit", "folds"]
        print("\n" + common.table(head, orders(letters, cells, given.orders, given.folds, given.constants)), flush=True)
    if "words" in given.part:
        head = ["order", "C and scale of each part", "letter error, %", "of each part"]
        found = words(letters, cells, given.orders, given.constants, given.scales)
        print("\n" + common.table(head, found), flush=True)


if __name__ == "__main__":
    main()
