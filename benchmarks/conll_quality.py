"""Chunks of CoNLL-2000: F1 and CPU time of models, features and tag schemes.

The features are those of the CRF++ template ("chunks"), or of larger sets ("rich", "richer"). Tags are IOB2, as in the
file, or BIOES. With --schemes IOB2,BIOES two models are fitted and their scores are added: those of B also count for S,
those of I for E. With --together the scores of all rows are added; --features may then name one feature set for each
row. Without --test, models are fitted to four fifths of the training part and scored on the rest, to choose constants.
With --test, a fit to the whole training part is scored on the test part. Predictions follow the rules of the scheme.
CPU seconds are those of the fits.

    python benchmarks/conll_quality.py --data conll2000
    python benchmarks/conll_quality.py --data conll2000 --rows "L2CRF, margin 3" --schemes IOB2,BIOES
    python benchmarks/conll_quality.py --data conll2000 --rows "quick M3N" --test
"""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import common
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, M3N, Chain, Examples, LapMEDN
from maxendnet.rules import bio, bioes
from maxendnet.text import TokenFeatures, convert_tags, read_columns, span_scores
from maxendnet.text.features.templates import CHUNKS

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
RICH = [*AFFIXES, *FORMS, *WORDS_AND_TAGS, *WIDER]
NEIGHBOURS = [
    "Uw3=%x[-1,0]/%x[0,0]/%x[1,0]", "Uw-2-1=%x[-2,0]/%x[-1,0]", "Uw+1+2=%x[1,0]/%x[2,0]",
    "Uwtt1=%x[0,0]/%x[1,1]/%x[2,1]", "Uwtt2=%x[-2,1]/%x[-1,1]/%x[0,0]", "Uwtt3=%x[-2,1]/%x[-1,0]/%x[0,1]",
    "Uwtt4=%x[0,1]/%x[1,0]/%x[2,1]", "Us3-1=%x[-1,suffix3]", "Us3+1=%x[1,suffix3]", "Us2-1=%x[-1,suffix2]/%x[0,1]",
    "Us2+1=%x[1,suffix2]/%x[0,1]", "Ush-1=%x[-1,short_shape]/%x[0,short_shape]",
    "Ush+1=%x[0,short_shape]/%x[1,short_shape]", "Us3t=%x[0,suffix3]/%x[0,1]", "Us3t1=%x[0,suffix3]/%x[1,1]",
    "Us3t-1=%x[-1,1]/%x[0,suffix3]", "Utagskip=%x[-1,1]/%x[1,1]", "Utagskip2=%x[0,1]/%x[2,1]",
    "Utagskip3=%x[-2,1]/%x[0,1]",
]  # fmt: skip


def template(*lines: str) -> str:
    """Return the CRF++ template with additional lines."""
    return CHUNKS.replace("\nB\n", "\n" + "\n".join(lines) + "\nB\n")


FEATURES = {"chunks": CHUNKS, "rich": template(*RICH), "richer": template(*RICH, *NEIGHBOURS)}
MODELS: dict[str, Any] = {
    "quick M3N": M3N(C=0.2, max_passes=10, tol=1e-3, **SEEN),
    "quick LapMEDN": LapMEDN(C=0.2, lam=2.0, max_passes=15, tol=1e-3, **SEEN),
    "M3N": M3N(C=0.2, max_passes=30, tol=1e-2, **SEEN),
    "M3N, valid tags": M3N(C=0.2, max_passes=30, tol=1e-2, **BIO),
    "L2CRF, margin 3": L2CRF(lam=0.3, margin=3.0, max_passes=60, tol=1e-2, **SEEN),
    "L2CRF, margin 5": L2CRF(lam=0.3, margin=5.0, max_passes=60, tol=1e-2, **SEEN),
    "L2CRF 1, margin 3": L2CRF(lam=1.0, margin=3.0, max_passes=60, tol=1e-2, **SEEN),
    "L2CRF 1, margin 3, all pairs": L2CRF(lam=1.0, margin=3.0, max_passes=60, tol=1e-2, random_state=0),
    "M3N, order 2": M3N(C=0.2, max_passes=10, tol=1e-3, structure=Chain(pairs="seen", order=2, ngrams="seen")),
}
RULES = {"IOB2": bio, "BIOES": bioes}
AS_BIO = {"B": "B", "S": "B", "I": "I", "E": "I", "O": "O"}


def together(models: list[tuple[Any, Examples]]) -> list[list[str]]:
    """Predict BIOES tags by the sum of the scores of several models, scaled to a standard deviation of 1.

    Each model comes with its features of the sentences.
    """
    classes, offsets = max((model.classes_ for model, _ in models), key=len), models[0][1].offsets
    nodes, transitions = 0.0, 0.0
    for model, prepared in models:
        index_of = {label: k for k, label in enumerate(model.classes_.tolist())}
        is_bioes = len(index_of) == len(classes)
        indices = [index_of[tag if is_bioes else AS_BIO[tag[0]] + tag[1:]] for tag in classes.tolist()]
        scores = np.asarray(prepared.X @ sparse.csr_array(model.coef_).toarray())
        nodes = nodes + scores[:, indices] / scores.std()
        transitions = transitions + model.transitions_[np.ix_(indices, indices)] / scores.std()
    dense = Examples(sparse.csr_array(nodes), offsets)
    w = np.concatenate([np.eye(len(classes)).ravel(), transitions.ravel()])
    labels = classes[Chain(rules=bioes()).bind(dense, classes).decode(w)]
    return [part.tolist() for part in np.split(labels, offsets[1:-1])]


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with train.tsv.gz and test.tsv.gz")
    arguments.add_argument(
        "--rows", default=";".join(MODELS), help="models, separated by semicolons (default: %(default)s)"
    )
    arguments.add_argument(
        "--features", default="chunks", help=f"feature sets: {', '.join(FEATURES)} (default: %(default)s)"
    )
    arguments.add_argument("--schemes", default="IOB2", help="tag schemes: IOB2, BIOES or both (default: %(default)s)")
    arguments.add_argument("--together", action="store_true", help="add the scores of all rows")
    arguments.add_argument("--sentences", type=int, help="maximum number of training sentences (default: all)")
    arguments.add_argument("--test", action="store_true", help="score the test part")
    arguments.add_argument("--out", help="file of results, one JSON value a line")
    args = arguments.parse_args()
    folder = Path(args.data)
    X, y = read_columns(folder / "train.tsv.gz").split()
    order = np.random.default_rng(0).permutation(len(X))
    held, train = np.split(order, [len(X) // 5])
    if args.test:
        train, (new, truth) = order, read_columns(folder / "test.tsv.gz").split()
    else:
        new, truth = X[held], [y[i] for i in held]
    train = np.sort(train[: 300 if args.quick else args.sentences])
    sets, schemes = args.features.split(","), args.schemes.split(",")
    rows, cells = [], common.Cells(args.out)

    def score(names: list[str]) -> dict[str, float]:
        models, seconds = [], 0.0
        for (name, kind), scheme in product(zip(names, sets if len(sets) > 1 else sets * len(names)), schemes):
            features, model = TokenFeatures(FEATURES[kind]), clone(MODELS[name])
            labelled = features.fit_transform(X[train], convert_tags([y[i] for i in train], scheme, "IOB2"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # short fits are intended
                seconds += common.cpu(lambda: model.fit(labelled))[0]  # noqa: B023
            models.append((model, features.transform(new)))
        if len(models) == 1:
            predicted = model.predict(models[0][1], rules=RULES[schemes[0]]())
        else:
            predicted = together(models)
        f1 = 100 * span_scores(truth, predicted, "IOB2").f1
        passes, gap = (max(getattr(model, name) for model, _ in models) for name in ("n_passes_", "gap_"))
        return {"F1": f1, "seconds": seconds, "passes": passes, "gap": gap}

    for names in [args.rows.split(";")] if args.together else [[row] for row in args.rows.split(";")]:
        name = " and ".join(names)
        key = {
            "model": name,
            "features": args.features,
            "schemes": args.schemes,
            "sentences": len(train),
            "test": args.test,
        }
        result = cells.get(key, lambda: score(names))  # noqa: B023
        common.say(f"{key} {result}")
        rows.append((name, *(f"{result[k]:{form}}" for k, form in zip(result, (".2f", ".1f", "d", ".1e")))))
    print(f"{len(train):,} training sentences.\n")
    print(common.table(("", "F1", "CPU s", "passes", "gap"), rows))
    print(common.machine())


if __name__ == "__main__":
    main()
