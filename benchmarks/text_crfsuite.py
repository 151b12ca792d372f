"""`Tagger()` beside CRFsuite on six text data sets: F1, CPU seconds, memory, model size, load time and latency.

Each cell of the table is a new process that reads the training part, computes the features, trains, saves the model,
and labels the test part. There are two feature sets:

- ``template``: the default template of `Tagger()`;
- ``function``: the features of python-crfsuite's tutorial (word, suffixes, case, part of speech, and those of both
  neighbours), or a window of five characters with pairs.

A Python function computes them for CRFsuite, as its users do. For `Tagger` a template is compiled, and the function is
passed as ``Tagger(function)``. CRFsuite has c1 = c2 = 0.1, with 100 iterations or until it converges, for at most
``--minutes`` of CPU time, which limit the number of iterations by the time of the first 100.

CPU seconds are those from sentences in memory to a model, with the features. The peak memory is the resident set size
after training. The latency is the median wall time of 200 sentences of the test part, one by one, from words to labels,
with a loaded model. Results are appended to the file of --out; an interrupted run resumes from there.

    python benchmarks/text_crfsuite.py --data DATA --out text_crfsuite.jsonl
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SETS = {
    "usaddress": ("words", [0], 1), "zh_seg": ("characters", [0], 1), "wnut17": ("words", [0], 1),
    "ud_english_lines": ("words", [1], 3), "conll2000": ("tagged_words", [0, 1], 2), "uner_pt": ("words", [0], 1),
}  # fmt: skip
"""Template, feature columns and label column of each data set."""
SYSTEMS = ("Tagger", "CRFsuite 100", "CRFsuite converged")
FEATURES = ("template", "function")
CONSTANTS = {"c1": 0.1, "c2": 0.1}
N_SENTENCES = 200

Sentences = list[Any]


def read(path: Path, columns: list[int], label: int) -> tuple[Sentences, list[list[str]]]:
    """Read sentences of words, or of tuples for several columns, and their labels in plain Python."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = [[line.split("\t") for line in block.split("\n")] for block in file.read().strip().split("\n\n")]
    X = [[tuple(row[k] for k in columns) if len(columns) > 1 else row[columns[0]] for row in rows] for rows in blocks]
    return X, [[row[label] for row in rows] for rows in blocks]


# ---- features --------------------------------------------------------------------------------------------------------


def template_function(name: str) -> Callable[[Any], list[list[str]]]:
    """Return a function that computes the features of a built-in template, as a user of CRFsuite would write it."""
    from maxendnet.text.features.templates import READY, Template
    from maxendnet.text.features.word_forms import form_of

    template = Template.parse(READY[name])
    reach = template.reach
    before, after = [f"_B-{k}" for k in range(reach, 0, -1)], [f"_B+{k}" for k in range(1, reach + 1)]
    lines = [
        ("%s".join(text.replace("%", "%%") for text in pattern.texts),
         [(macro.column, reach + macro.row) for macro in pattern.macros])
        for pattern in template.patterns
    ]  # fmt: skip

    def features(sentence: Any) -> list[list[str]]:
        rows = [(token,) if isinstance(token, str) else token for token in sentence]
        cells = {}
        for column in template.columns:
            form = None if column.isdigit() else form_of(column)
            words = [row[int(column) if column.isdigit() else 0] for row in rows]
            cells[column] = before + (words if form is None else list(map(form, words))) + after
        tokens = []
        for t in range(len(rows)):
            values = [(text, tuple([cells[column][t + row] for column, row in macros])) for text, macros in lines]
            tokens.append([text % value for text, value in values if "" not in value])
        return tokens

    return features


def word_features(sentence: Any) -> list[dict[str, Any]]:
    """Return the features of python-crfsuite's tutorial."""
    rows = [(token,) if isinstance(token, str) else token for token in sentence]

    def of_token(row: Any, place: str) -> dict[str, Any]:
        word = row[0]
        values = {
            "word.lower": word.lower(), "word.isupper": word.isupper(), "word.istitle": word.istitle(),
            "word.isdigit": word.isdigit(),
        }  # fmt: skip
        if not place:
            values |= {"word[-3:]": word[-3:], "word[-2:]": word[-2:]}
        if len(row) > 1:
            values |= {"postag": row[1], "postag[:2]": row[1][:2]}
        return {place + name: value for name, value in values.items()}

    tokens = []
    for t, row in enumerate(rows):
        values = {"bias": 1.0, **of_token(row, "")}
        values |= of_token(rows[t - 1], "-1:") if t > 0 else {"BOS": True}
        values |= of_token(rows[t + 1], "+1:") if t + 1 < len(rows) else {"EOS": True}
        tokens.append(values)
    return tokens


def character_features(sentence: Any) -> list[dict[str, Any]]:
    """Return a window of five characters, and the pairs in it."""
    letters = ["<", "<", *sentence, ">", ">"]
    names = range(-2, 3)
    tokens = []
    for t in range(2, len(letters) - 2):
        values = {f"char[{k}]": letters[t + k] for k in names}
        values |= {f"pair[{k}]": letters[t + k] + letters[t + k + 1] for k in names[:-1]}
        tokens.append(values | {"around": letters[t - 1] + letters[t + 1]})
    return tokens


def own_function(name: str) -> Callable[[Any], list[Any]]:
    return character_features if SETS[name][0] == "characters" else word_features


# ---- one cell --------------------------------------------------------------------------------------------------------


def median_ms(label: Callable[[Any], Any], sentences: Sentences) -> float:
    """Return the median wall time of one sentence in milliseconds."""
    for sentence in sentences[:20]:
        label(sentence)
    seconds = []
    for sentence in sentences[:N_SENTENCES]:
        began = time.perf_counter()
        label(sentence)
        seconds.append(time.perf_counter() - began)
    return 1e3 * statistics.median(seconds)


def load_ms(load: Callable[[], Any], repeat: int = 7) -> float:
    """Return the median wall time of loading a model in milliseconds."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        load()
        seconds.append(time.perf_counter() - began)
    return 1e3 * statistics.median(seconds)


def peak_mb() -> float:
    """Return the peak memory of this process. ``ru_maxrss`` would include the process that started it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def tagger_cell(name: str, features: str, train: Any, test: Any, path: str) -> tuple[dict[str, Any], list[list[str]]]:
    from maxendnet.text import Tagger

    function = own_function(name)
    X, y = train
    began = time.process_time()
    tagger = Tagger() if features == "template" else Tagger(function)
    tagger.fit(X, y)
    values: dict[str, Any] = {"cpu": time.process_time() - began, "peak_mb": peak_mb()}
    tagger.save(path)

    def load() -> Any:
        return Tagger.load(path, features=None if features == "template" else function)

    loaded = load()
    values |= {"load_ms": load_ms(load), "latency_ms": median_ms(lambda x: loaded.predict([x]), test[0])}
    gap = loaded.estimator_.gap_
    return values | {"gap": gap, "labels_inside": len(loaded.classes_)}, loaded.predict(test[0])


def crfsuite_cell(
    name: str, features: str, train: Any, test: Any, path: str, iterations: int
) -> tuple[dict[str, Any], list[list[str]]]:
    import pycrfsuite

    function = template_function(SETS[name][0]) if features == "template" else own_function(name)
    X, y = train
    began = time.process_time()
    trainer = pycrfsuite.Trainer("lbfgs", {**CONSTANTS, "max_iterations": iterations}, verbose=False)
    for sentence, labels in zip(X, y):
        trainer.append(function(sentence), labels)
    of_features = time.process_time() - began
    trainer.train(path)
    cpu = time.process_time() - began
    values: dict[str, Any] = {"cpu": cpu, "cpu_features": of_features, "peak_mb": peak_mb()}
    n = trainer.logparser.last_iteration["num"]
    values |= {"iterations": n, "is_limited": n >= iterations}

    def load() -> Any:
        peer = pycrfsuite.Tagger()
        peer.open(path)
        return peer

    peer = load()
    values |= {"load_ms": load_ms(load), "latency_ms": median_ms(lambda x: peer.tag(function(x)), test[0])}
    return values, [peer.tag(function(x)) for x in test[0]]


def cell(key: dict[str, Any], folder: Path, quick: bool) -> dict[str, Any]:
    """Compute one cell in this process, which imports only what it measures."""
    name, system, features = key["set"], key["system"], key["features"]
    _, columns, label = SETS[name]
    train, test = (read(folder / name / f"{part}.tsv.gz", columns, label) for part in ("train", "test"))
    if quick:
        train = train[0][:100], train[1][:100]
    with tempfile.TemporaryDirectory() as out:
        path = str(Path(out) / "model")
        if system == "Tagger":
            values, labels = tagger_cell(name, features, train, test, path)
        else:
            values, labels = crfsuite_cell(name, features, train, test, path, key["iterations"])
        values["model_mb"] = Path(path).stat().st_size / 1e6
    from maxendnet.text import span_scores
    from maxendnet.text.reading.tag_schemes import detect_scheme

    scores = span_scores(test[1], labels, scheme=detect_scheme(train[1]))
    return values | {"f1": 100 * scores.f1, "accuracy": 100 * scores.accuracy, "scheme": scores.scheme}


# ---- the table -------------------------------------------------------------------------------------------------------


def child(key: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Compute a cell in a new process."""
    command = [sys.executable, __file__, "--data", args.data, "--cell", json.dumps(key)]
    done = subprocess.run([*command, *(["--quick"] if args.quick else [])], stdout=subprocess.PIPE, check=True)
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def rows_of(name: str, cells: Any, args: argparse.Namespace) -> list[tuple[str, ...]]:
    rows = []
    for features in FEATURES:
        per_iteration = 0.0
        for system in SYSTEMS:
            key = {"set": name, "features": features, "system": system}
            if system == "CRFsuite 100":
                run = {**key, "iterations": 100}
            elif system == "CRFsuite converged":
                run = {**key, "iterations": max(100, int(60 * args.minutes / max(per_iteration, 1e-3)))}
            else:
                run = key
            if not cells.has(key) and args.most is not None:
                if args.most == 0:
                    continue
                args.most -= 1
            values = cells.get(key, lambda: child(run, args))  # noqa: B023
            if system == "CRFsuite 100":
                per_iteration = (values["cpu"] - values["cpu_features"]) / values["iterations"]
            quality = values["accuracy"] if values["scheme"] == "LABELS" and name != "usaddress" else values["f1"]
            shown = f"{system}, {values['iterations']}" if system == "CRFsuite converged" else system
            rows.append((
                name, features, shown + (" (limit)" if system.endswith("converged") and values["is_limited"] else ""),
                f"{quality:.2f}", f"{values['cpu']:.1f}", f"{values['peak_mb']:.0f}", f"{values['model_mb']:.2f}",
                f"{values['load_ms']:.1f}", f"{values['latency_ms']:.2f}",
            ))  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="FOLDER", help="folder with a subfolder for each data set")
    parser.add_argument("--sets", default=",".join(SETS), help="data sets, separated by commas (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="CPU minutes of CRFsuite (default: %(default)s)")
    parser.add_argument("--out", help="file of results, one JSON value per line")
    parser.add_argument("--most", type=int, help="maximum number of cells to compute in this run")
    parser.add_argument("--quick", action="store_true", help="100 training sentences; the numbers mean little")
    parser.add_argument("--cell", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        print(json.dumps(cell(args.cell, Path(args.data), args.quick)))
        return
    import common

    cells = common.Cells(args.out)
    rows = [row for name in args.sets.split(",") for row in rows_of(name, cells, args)]
    head = ("", "features", "", "F1 or accuracy", "CPU s", "peak MB", "model MB", "load, ms", "one sentence, ms")
    print(common.table(head, rows))
    print(common.machine())


if __name__ == "__main__":
    main()
