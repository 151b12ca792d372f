"""Six systems and CRFsuite on four text data sets: F1 on the test part, with constants chosen on the training part.

The data sets and features are those of text_defaults.py. Constants are chosen by the F1 of spans on the first of three
folds of the training part. Then a fit to the whole training part is scored on the test part, with a bootstrap interval
over sentences. All systems have the same features, and weights for seen pairs of a feature and a label. Fits stop at a
gap of 1e-2, or after 200 passes.

Results are appended to the file of --out; an interrupted run resumes from there.

    python benchmarks/text_systems.py --data DATA --out text_systems.jsonl
"""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from text_defaults import SETS, crfsuite, interval, read

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, LapMEDN
from maxendnet.text import TokenFeatures, span_scores
from maxendnet.text.reading.tag_schemes import detect_scheme

COMMON: dict[str, Any] = {"structure": Chain(pairs="seen"), "tol": 1e-2, "max_passes": 200, "random_state": 0}
SYSTEMS: dict[str, tuple[Any, dict[str, list[float]]]] = {
    "LapMEDN": (LapMEDN(**COMMON), {"C": [0.2, 0.5, 2.0], "lam": [2.0, 10.0]}),
    "M3N": (M3N(**COMMON), {"C": [0.03, 0.1, 0.3, 1.0]}),
    "L1M3N": (L1M3N(**COMMON), {"C": [1.0, 3.0]}),
    "CRF": (CRF(**COMMON), {}),
    "L2CRF": (L2CRF(**COMMON), {"lam": [0.1, 0.3, 1.0]}),
    "L1CRF": (L1CRF(**COMMON), {"lam": [0.1, 0.3, 1.0]}),
    "CRFsuite": (None, {"c1": [0.0, 0.1], "c2": [0.1, 1.0]}),
}


class Data:
    """Training and held-out sentences, with features."""

    def __init__(self, name: str, X: Any, y: list[list[str]], new: Any, truth: list[list[str]]) -> None:
        self.features = TokenFeatures(SETS[name])
        self.y, self.truth, self.scheme = y, truth, detect_scheme(y)
        self.examples = self.features.fit_transform(X, y)
        self.new = self.features.transform(new)


def fit(system: str, constants: dict[str, float], data: Data) -> tuple[float, list[list[str]], str]:
    """Return the CPU seconds of a fit, its predictions and its gap."""
    if system == "CRFsuite":
        return *crfsuite(constants, data.features, (data.examples, data.y), data.new), ""
    model = clone(SYSTEMS[system][0]).set_params(**constants)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds = common.cpu(lambda: model.fit(data.examples))[0]
    return seconds, list(model.predict(data.new)), f"{model.gap_:.0e}"


def score(system: str, constants: dict[str, float], data: Data) -> dict[str, Any]:
    """Fit a system and score it, with an interval."""
    seconds, labels, gap = fit(system, constants, data)
    f1 = 100 * span_scores(data.truth, labels, scheme=data.scheme).f1
    return {"F1": f1, "shown": interval(data.truth, labels, data.scheme), "seconds": seconds, "gap": gap}


def row(name: str, system: str, folds: Data, whole: Data, cells: Any) -> list[str]:
    """Choose the constants of a system on a fold, and score it on the test part."""
    grid = SYSTEMS[system][1]
    scores = []
    for values in product(*grid.values()) if len(grid) else [()]:
        constants = dict(zip(grid, values))
        key = {"set": name, "system": system, "part": "fold", **constants}
        result = cells.get(key, lambda: score(system, constants, folds)) if grid else {"F1": 0.0}  # noqa: B023
        scores.append((result["F1"], constants))
        common.say(f"{key} {result}")
    best = max(scores, key=lambda pair: pair[0])[1]
    key = {"set": name, "system": system, "part": "test", **best}
    result = cells.get(key, lambda: score(system, best, whole))
    common.say(f"{key} {result}")
    shown = ", ".join(f"{constant}={value:g}" for constant, value in best.items())
    return [name, system, shown, result["shown"], f"{result['seconds']:.1f}", result["gap"]]


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with a subfolder for each data set")
    arguments.add_argument("--sets", default="usaddress,zh_seg,wnut17,uner_pt", help="data sets, separated by commas")
    arguments.add_argument(
        "--systems", default=",".join(SYSTEMS), help="systems, separated by commas (default: %(default)s)"
    )
    arguments.add_argument("--out", help="file of results, one JSON value a line")
    args = arguments.parse_args()
    cells, rows = common.Cells(args.out), []
    for name in args.sets.split(","):
        folder = Path(args.data) / name
        X, y = read(folder, "train", 200 if args.quick else None)
        train, held = next(iter(KFold(3, shuffle=True, random_state=0).split(np.arange(len(X)))))
        folds = Data(name, X[train], [y[i] for i in train], X[held], [y[i] for i in held])
        whole = Data(name, X, y, *read(folder, "test", None))
        rows += [row(name, system, folds, whole, cells) for system in args.systems.split(",")]
    print(common.table(("set", "system", "constants", "F1 of the test part", "CPU s of the fit", "gap"), rows))
    print(common.machine())


if __name__ == "__main__":
    main()
