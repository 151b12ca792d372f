"""Model files of the default `Tagger` beside CRFsuite: F1 on the test part, size, and time to load.

CRFsuite has the features of `Tagger`, c1 = c2 = 0.1, and its usual limit of 100 iterations. "Exact" is the tagger
before its weights are rounded (`maxendnet.estimators.pruned.rounded`). Times to load are CPU milliseconds, the minimum
of ten loads in one process.

    python benchmarks/text_files.py --data DATA
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import common
import text_defaults

from maxendnet.text import Tagger, TokenFeatures, span_scores

SETS = {"uner_pt": 1000, "wnut17": None, "usaddress": None, "zh_seg": None, "conll2000": 2000}
"""Data sets, and their number of training sentences."""
CONSTANTS = {"c1": 0.1, "c2": 0.1, "max_iterations": 100}


def load_time(load: Any) -> str:
    return f"{1e3 * min(common.cpu(load)[0] for _ in range(10)):.1f}"


def row(name: str, folder: Path, n_sentences: int | None) -> tuple[str, ...]:
    import pycrfsuite

    X, y = text_defaults.read(folder, "train", n_sentences)
    new, truth = text_defaults.read(folder, "test", None)
    tagger = Tagger(text_defaults.SETS[name]).fit(X, y)
    with mock.patch("maxendnet.text.tagger.rounded", lambda model, *_: model):
        exact = Tagger(text_defaults.SETS[name]).fit(X, y)
    features = TokenFeatures(text_defaults.SETS[name])
    examples = features.fit_transform(X, y)
    with tempfile.TemporaryDirectory() as out:
        files = [Path(out) / label for label in ("exact", "rounded", "crfsuite")]
        exact.save(files[0])
        tagger.save(files[1])
        _, labels = text_defaults.crfsuite(CONSTANTS, features, (examples, y), features.transform(new), str(files[2]))
        sizes = [file.stat().st_size / 1e6 for file in files]
        times = load_time(lambda: Tagger.load(files[1])), load_time(lambda: pycrfsuite.Tagger().open(str(files[2])))
    f1 = [
        f"{100 * span_scores(truth, rows, scheme=tagger.scheme_).f1:.2f}"
        for rows in (exact.predict(new), tagger.predict(new), labels)
    ]
    gaps = f"{exact.estimator_.gap_:.2e} to {tagger.estimator_.gap_:.2e}"
    return (name, *f1, *(f"{size:.2f}" for size in sizes), f"{sizes[1] / sizes[2]:.2f}", *times, gaps)


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with a subfolder for each data set")
    arguments.add_argument("--sets", default=",".join(SETS), help="data sets, separated by commas")
    args = arguments.parse_args()
    rows = []
    for name in args.sets.split(","):
        rows.append(row(name, Path(args.data) / name, 100 if args.quick else SETS[name]))
        common.say(str(rows[-1]))
    head = (
        "", "F1, exact", "F1, rounded", "F1, CRFsuite", "exact, MB", "rounded, MB", "CRFsuite, MB", "share",
        "load, ms", "CRFsuite, ms", "gap",
    )  # fmt: skip
    print(common.table(head, rows))
    print(common.machine())


if __name__ == "__main__":
    main()
