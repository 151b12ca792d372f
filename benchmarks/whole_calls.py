"""Whole calls with default settings: `Tagger().fit` beside CRFsuite, from sentences in memory to a fitted model.

CRFsuite has the features of `Tagger`, c1 = c2 = 0.1, and its usual limit of 100 iterations; its time includes the
features and their conversion to strings. The documents are the sentences of the names, joined to five sequences.

    python benchmarks/whole_calls.py --data DATA
    python benchmarks/whole_calls.py --data DATA --rows names --profile
"""

from __future__ import annotations

import cProfile
import pstats
from itertools import pairwise
from pathlib import Path
from typing import Any

import common
import text_defaults

from maxendnet.text import Tagger, TokenFeatures, span_scores
from maxendnet.text.reading.tag_schemes import detect_scheme

ROWS = {
    "names": ("uner_pt", 1000),
    "documents": ("uner_pt", 1000),
    "wnut17": ("wnut17", None),
    "chunks": ("conll2000", 2000),
}
"""Data set and number of training sentences of each row."""
N_DOCUMENTS = 5


def joined(columns: Any, labels: list[list[str]]) -> tuple[Any, list[list[str]]]:
    """Join the sentences to `N_DOCUMENTS` sequences."""
    bounds = [len(labels) * k // N_DOCUMENTS for k in range(N_DOCUMENTS + 1)]
    words, offsets = columns.cells[0], columns.offsets
    rows = [words[a:b] for a, b in pairwise(offsets)]
    return (
        [[token for i in range(a, b) for token in rows[i]] for a, b in pairwise(bounds)],
        [[label for i in range(a, b) for label in labels[i]] for a, b in pairwise(bounds)],
    )


def peer(features: TokenFeatures, examples: Any, y: Any, new: Any) -> tuple[float, list[list[str]]]:
    """Train CRFsuite on the features of `Tagger`; return its CPU seconds and its labels of new examples."""
    constants = {"c1": 0.1, "c2": 0.1, "max_iterations": 100}
    return text_defaults.crfsuite(constants, features, (examples, y), new)


def row(name: str, folder: Path, profile: bool, alone: bool) -> tuple[str, ...]:
    data, n_sentences = ROWS[name]
    X, y = text_defaults.read(folder / data, "train", n_sentences)
    new, truth = text_defaults.read(folder / data, "test", None)
    scheme = detect_scheme(y)
    if name == "documents":
        X, y = joined(X, y)
    tagger = Tagger(text_defaults.SETS[data])
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    seconds, _ = common.cpu(lambda: tagger.fit(X, y))
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
    f1 = 100 * span_scores(truth, tagger.predict(new), scheme=scheme).f1
    if alone:
        return name, f"{seconds:.2f}", f"{f1:.2f}", "", "", ""
    features = TokenFeatures(text_defaults.SETS[data])
    reading, examples = common.cpu(lambda: features.fit_transform(X, y))
    peer_seconds, labels = peer(features, examples, y, features.transform(new))
    peer_f1 = 100 * span_scores(truth, labels, scheme=scheme).f1
    total = reading + peer_seconds
    return name, f"{seconds:.2f}", f"{f1:.2f}", f"{total:.2f}", f"{peer_f1:.2f}", f"{seconds / total:.2f}"


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with a subfolder for each data set")
    arguments.add_argument("--rows", default=",".join(ROWS), help="rows, separated by commas (default: %(default)s)")
    arguments.add_argument("--profile", action="store_true", help="print a profile of Tagger.fit")
    arguments.add_argument("--alone", action="store_true", help="leave out CRFsuite")
    args = arguments.parse_args()
    rows = []
    for name in args.rows.split(","):
        rows.append(row(name, Path(args.data), args.profile, args.alone))
        common.say(str(rows[-1]))
    head = ("", "Tagger(), CPU s", "F1", "CRFsuite, CPU s", "F1", "share")
    print(common.table(head, rows))
    print(common.machine())


if __name__ == "__main__":
    main()
