"""F1 of chunks with half of the training tags unknown.

Trains on the first sentences of CoNLL-2000 (``--sentences``) and tests on its test data; half of the tags are hidden at
random (seed 0). Features are those of the CRF++ template for the task, with ``pairs="seen"``. The methods are those of
unknown_labels.py without "dropped", because no sentence is completely labelled. Hyper-parameters are fixed, the same
for all methods. Intervals are by bootstrap over test sentences.

    python benchmarks/unknown_chunks.py --data DATA --out unknown_chunks.jsonl
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, M3N, UNKNOWN, Chain, LapMEDN
from maxendnet.data.examples import Examples
from maxendnet.text import TokenFeatures, read_columns, span_f1
from maxendnet.text.features.templates import CHUNKS

SYSTEMS: dict[str, Any] = {
    "L2CRF": L2CRF(lam=1.0, tol=1e-2),
    "M3N": M3N(C=0.1, tol=5e-2),
    "LapMEDN": LapMEDN(C=0.2, lam=2.0, tol=5e-2),
}
WAYS = {
    "L2CRF": ("known", "marginal", "a label"),
    "M3N": ("known", "best", "average", "a label"),
    "LapMEDN": ("known", "best", "average", "a label"),
}


def predicted(model: Any, test: Examples) -> list[list[str]]:
    """Predict labels of the test sentences, without the label "?"."""
    if "?" in model.classes_:
        known = tuple(label for label in model.classes_.tolist() if label != "?")
        test = replace(test, labels=known, allowed=np.ones((int(test.offsets[-1]), len(known)), dtype=bool))
    return list(model.predict(test))


def interval(truth: list[list[str]], found: list[list[str]], n_draws: int = 200) -> float:
    """Half the width of the 95 % confidence interval of F1."""
    rng = np.random.default_rng(0)
    scores = []
    for _ in range(n_draws):
        some = rng.integers(len(truth), size=len(truth)).tolist()
        scores.append(span_f1([truth[i] for i in some], [found[i] for i in some]))
    low, high = np.quantile(scores, [0.025, 0.975])
    return 50.0 * float(high - low)


def cell(system: str, way: str, train: Any, test: Any, hidden: list[np.ndarray]) -> dict[str, float]:
    features, X, y = train
    mark = "?" if way == "a label" else UNKNOWN
    labels = y if way == "known" else [[mark if h else a for a, h in zip(*row)] for row in zip(y, hidden)]
    model = clone(SYSTEMS[system]).set_params(structure=Chain(pairs="seen"), random_state=0, max_passes=400)
    if way == "average":
        model.set_params(completion="average")
    began = time.process_time()
    model.fit(features.transform(X, labels))
    seconds = time.process_time() - began
    found = predicted(model, features.transform(test[0]))
    return {
        "F1": 100 * span_f1(test[1], found), "half": interval(test[1], found), "seconds": seconds,
        "rounds": getattr(model, "n_rounds_", 0) or 0,
    }  # fmt: skip


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--out", help="file of finished cells, one JSON value a line")
    parser.add_argument("--sentences", type=int, default=8936, help="of the training part (default: %(default)s)")
    options = parser.parse_args()
    cells, folder = common.Cells(options.out), Path(options.data or ".") / "conll2000"
    n = 200 if options.quick else options.sentences
    X, y = read_columns(folder / "train.tsv.gz")[:n].split()
    test = read_columns(folder / "test.tsv.gz").split()
    features = TokenFeatures(CHUNKS)
    features.fit_transform(X, y)
    rng = np.random.default_rng(0)
    hidden = [rng.random(len(row)) < 0.5 for row in y]
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for system, ways in WAYS.items():
            for way in ways:
                found = cells.get(
                    {"system": system, "way": way, "sentences": len(y)},
                    lambda: cell(system, way, (features, X, y), test, hidden),  # noqa: B023
                )
                rows.append([
                    f"{system}, {way}", f"{found['F1']:.2f} ± {found['half']:.2f}", f"{found['seconds']:.0f}",
                    int(found["rounds"]) or "",
                ])  # fmt: skip
                common.say(str(rows[-1]))
    print(common.table(["", "F1", "CPU s", "rounds"], rows))


if __name__ == "__main__":
    main()
