"""Chunks of CoNLL-2000: how good a model is after some passes, and how good it gets.

Features are those of the template of CRF++ ("chunks"), or of a richer set ("rich"). Without --test, models are fitted
to four fifths of the training part and scored on the rest: constants are chosen there. With --test a fit to the whole
training part is scored on the test part. CPU seconds are those of the fit, from `Examples` to the weights.

    python benchmarks/conll_quality.py --data conll2000
    python benchmarks/conll_quality.py --data conll2000 --rows "quick M3N" --test
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, M3N, Chain, LapMEDN
from maxendnet.rules import bio
from maxendnet.text import TokenFeatures, read_columns, span_scores
from maxendnet.text.templates import CHUNKS

SEEN: dict[str, Any] = {"structure": Chain(pairs="seen"), "random_state": 0}
BIO: dict[str, Any] = {"structure": Chain(pairs="seen", rules=bio()), "random_state": 0}
AFFIXES = [*(f"Uprefix{n}=%x[0,prefix{n}]" for n in (2, 3, 4)), *(f"Usuffix{n}=%x[0,suffix{n}]" for n in (1, 2, 3, 4))]
FORMS = ["Ushape=%x[0,short_shape]", "Ulower=%x[0,lower]"]
WORDS_AND_TAGS = [
    "Uwt0=%x[0,0]/%x[0,1]", "Uwt1=%x[0,0]/%x[1,1]", "Uwt2=%x[0,0]/%x[-1,1]", "Uwt3=%x[-1,0]/%x[0,1]",
    "Uwt4=%x[1,0]/%x[0,1]", "Uwt5=%x[-1,1]/%x[0,0]/%x[1,1]", "Uwt6=%x[-1,0]/%x[0,1]/%x[1,1]",
    "Uwt7=%x[-1,1]/%x[0,1]/%x[1,0]", "Uwords=%x[-1,0]/%x[1,0]",
]  # fmt: skip
WIDER = [
    "Ut-3=%x[-3,1]", "Ut+3=%x[3,1]", "Utags4a=%x[-2,1]/%x[-1,1]/%x[0,1]/%x[1,1]",
    "Utags4b=%x[-1,1]/%x[0,1]/%x[1,1]/%x[2,1]", "Utags5=%x[-2,1]/%x[-1,1]/%x[0,1]/%x[1,1]/%x[2,1]",
]  # fmt: skip
FEATURES = {
    "chunks": CHUNKS,
    "rich": CHUNKS.replace("\nB\n", "\n" + "\n".join([*AFFIXES, *FORMS, *WORDS_AND_TAGS, *WIDER]) + "\nB\n"),
}
MODELS: dict[str, Any] = {
    "quick M3N": M3N(C=0.2, max_passes=10, tol=1e-3, **SEEN),
    "quick LapMEDN": LapMEDN(C=0.2, lam=2.0, max_passes=15, tol=1e-3, **SEEN),
    "M3N": M3N(C=0.2, max_passes=30, tol=1e-2, **SEEN),
    "M3N, valid tags": M3N(C=0.2, max_passes=30, tol=1e-2, **BIO),
    "L2CRF, margin 3": L2CRF(lam=0.3, margin=3.0, max_passes=60, tol=1e-2, **SEEN),
    "L2CRF, margin 5": L2CRF(lam=0.3, margin=5.0, max_passes=60, tol=1e-2, **SEEN),
}


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="with train.tsv.gz and test.tsv.gz")
    arguments.add_argument("--rows", default=";".join(MODELS), help="separated by semicolons (default: %(default)s)")
    arguments.add_argument("--features", default="chunks", choices=FEATURES)
    arguments.add_argument("--sentences", type=int, help="to learn from, at most (default: all)")
    arguments.add_argument("--test", action="store_true", help="the one look at the test part")
    arguments.add_argument("--out", help="file of finished fits, one JSON value a line")
    given = arguments.parse_args()
    folder = Path(given.data)
    X, y = read_columns(folder / "train.tsv.gz").split()
    order = np.random.default_rng(0).permutation(len(X))
    held, some = np.split(order, [len(X) // 5])
    if given.test:
        some, (new, truth) = order, read_columns(folder / "test.tsv.gz").split()
    else:
        new, truth = X[held], [y[i] for i in held]
    some = np.sort(some[: 300 if given.quick else given.sentences])
    features = TokenFeatures(FEATURES[given.features])
    examples = features.fit_transform(X[some], [y[i] for i in some])
    prepared, rows, cells = features.transform(new), [], common.Cells(given.out)

    def score(name: str) -> dict[str, float]:
        model = MODELS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # some end early on purpose
            seconds = common.cpu(lambda: model.fit(examples))[0]
        f1 = 100 * span_scores(truth, model.predict(prepared)).f1
        return {"F1": f1, "seconds": seconds, "passes": model.n_passes_, "gap": model.gap_}

    for name in given.rows.split(";"):
        key = {"model": name, "features": given.features, "sentences": len(some), "test": given.test}
        found = cells.get(key, lambda: score(name))  # noqa: B023
        common.say(f"{key} {found}")
        rows.append((name, *(f"{found[k]:{form}}" for k, form in zip(found, (".2f", ".1f", "d", ".1e")))))
    print(f"{len(examples):,} sentences to learn from, {examples.n_features:,} features.\n")
    print(common.table(("", "F1", "CPU s", "passes", "gap"), rows))
    print(common.machine())


if __name__ == "__main__":
    main()
