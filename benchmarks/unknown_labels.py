"""Letter error with unknown labels in the training data.

Trains on one fold of the OCR letters (about 690 words) and tests on the other nine, for every fold; 0, 25, 50 and 75 %
of the training labels are hidden at random (seed: the fold). Methods:

- known: all labels, for comparison;
- marginal: the marginal likelihood (L2CRF);
- best, average: the concave-convex procedure with the best or the averaged completion (M3N, LapMEDN);
- dropped: only completely labelled words;
- a label: unknown letters get a separate label "?", which is not allowed at prediction.

Hyper-parameters are fixed, and suit fully labelled data. Results are appended to the file of --out, and an interrupted
run resumes from it.

    python benchmarks/unknown_labels.py --out unknown_labels.jsonl
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, M3N, UNKNOWN, Examples, LapMEDN

SHARES = (0.25, 0.5, 0.75)
SYSTEMS: dict[str, Any] = {
    "L2CRF": L2CRF(lam=2.0, tol=1e-3),
    "M3N": M3N(C=0.1, tol=1e-2),
    "LapMEDN": LapMEDN(C=5.0, lam=250.0, tol=1e-2),
}
WAYS = {
    "L2CRF": ("marginal", "dropped", "a label"),
    "M3N": ("best", "average", "dropped", "a label"),
    "LapMEDN": ("best", "average", "dropped", "a label"),
}
LETTERS = [chr(ord("a") + k) for k in range(26)]


def fitted(system: str, way: str, X: list[Any], y: list[list[str]], hidden: list[np.ndarray], seed: int) -> Any:
    """Fit a model to words with hidden letters; None if no word is left."""
    model = SYSTEMS[system]
    model = type(model)(**model.get_params(deep=False)).set_params(random_state=seed)
    if way == "average":
        model.set_params(completion="average")
    if way == "dropped":
        whole = [i for i, mask in enumerate(hidden) if not mask.any()]
        if not whole:
            return None
        return model.fit([X[i] for i in whole], [y[i] for i in whole])
    mark = "?" if way == "a label" else UNKNOWN
    labels = [[mark if h else a for a, h in zip(row, mask)] for row, mask in zip(y, hidden)]
    return model.fit(X, labels)


def error(model: Any, X: list[Any], y: list[list[str]]) -> float:
    """Letter error in per cent, without the label "?"."""
    if "?" in model.classes_:
        known = [label for label in model.classes_.tolist() if label != "?"]
        X = Examples.build(X, labels=known, allowed=[np.ones((len(x), len(known)), dtype=bool) for x in X])
    found = model.predict(X)
    wrong = sum(p != t for row, truth in zip(found, y) for p, t in zip(row, truth))
    return 100.0 * wrong / sum(map(len, y))


def ocr_cells(data: str | None, done: set[tuple], folds: range):
    letters = common.fetch_ocr_letters(data)
    for fold in folds:
        train, test = np.flatnonzero(letters.folds == fold), np.flatnonzero(letters.folds != fold)
        X, y = [letters.X[i].astype(float) for i in train], [letters.y[i].tolist() for i in train]
        X_test, y_test = [letters.X[i].astype(float) for i in test], [letters.y[i].tolist() for i in test]
        rng = np.random.default_rng(fold)
        draws = [rng.random(len(row)) for row in y]
        for share in (0.0, *SHARES):
            hidden = [draw < share for draw in draws]
            for system, ways in WAYS.items():
                for way in ("known",) if share == 0.0 else ways:
                    key = ("ocr", fold, share, system, way)
                    if key in done:
                        continue
                    began = time.process_time()
                    model = fitted(system, way, X, y, hidden, fold)
                    yield (
                        key,
                        {
                            "error": None if model is None else error(model, X_test, y_test),
                            "seconds": time.process_time() - began,
                            "rounds": getattr(model, "n_rounds_", None),
                        },
                    )


def report(cells: dict[tuple, dict[str, Any]]) -> str:
    """Mean error over folds, and half the width of its 95 % confidence interval."""
    rows = []
    for system, ways in WAYS.items():
        for way in ("known", *ways):
            row = [f"{system}, {way}"]
            for share in (0.0, *SHARES):
                found = [
                    cell["error"] for (kind, _, s, name, how), cell in cells.items()
                    if kind == "ocr" and (s, name, how) == (share, system, way) and cell["error"] is not None
                ]  # fmt: skip
                half = 2.26 * np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
                row.append(f"{np.mean(found):.1f} ± {half:.1f}" if found else "")
            rows.append(row)
    return common.table(["", "0 %", *(f"{share:.0%} unknown" for share in SHARES)], rows)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("unknown_labels.jsonl"))
    options = parser.parse_args()
    cells = {}
    if options.out.exists():
        for line in options.out.read_text().splitlines():
            entry = json.loads(line)
            cells[tuple(entry["key"])] = entry["cell"]
    with warnings.catch_warnings(), options.out.open("a") as file:
        warnings.simplefilter("ignore", ConvergenceWarning)
        for key, cell in ocr_cells(options.data, set(cells), range(1 if options.quick else 10)):
            cells[key] = cell
            print(json.dumps({"key": key, "cell": cell}), file=file, flush=True)
            common.say(f"{key} {cell}")
    print(report(cells))


if __name__ == "__main__":
    main()
