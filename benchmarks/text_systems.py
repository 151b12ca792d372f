"""Six systems and CRFsuite on four sets of text: F1 on the test part, with constants chosen on the training part.

The sets and their features are those of text_defaults.py. Constants are chosen by F1 of spans on the first of three
folds of the training part, after fits to the other two; then a fit to the whole training part is scored on the test
part, with an interval by bootstrap over sentences. All systems, CRFsuite too, have the same features and weights for
pairs of a feature and a label that occur. Fits end at a gap of 1e-2, or after 200 passes.

Every fit goes to the file of --out, and a run that was stopped goes on from there.

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
from maxendnet.text.reading.tag_schemes import found_scheme

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
    """Sentences to learn from and sentences to label, with features."""

    def __init__(self, name: str, X: Any, y: list[list[str]], new: Any, truth: list[list[str]]) -> None:
        self.features = TokenFeatures(SETS[name])
        self.y, self.truth, self.scheme = y, truth, found_scheme(y)
        self.examples = self.features.fit_transform(X, y)
        self.new = self.features.transform(new)


def fit(system: str, constants: dict[str, float], data: Data) -> tuple[float, list[list[str]], str]:
    """CPU seconds of the fit, the labels that it finds, and its gap."""
    if system == "CRFsuite":
        return *crfsuite(constants, data.features, (data.examples, data.y), data.new), ""
    model = clone(SYSTEMS[system][0]).set_params(**constants)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        seconds = common.cpu(lambda: model.fit(data.examples))[0]
    return seconds, list(model.predict(data.new)), f"{model.gap_:.0e}"


def score(system: str, constants: dict[str, float], data: Data) -> dict[str, Any]:
    """F1 of a fit, with an interval."""
    seconds, labels, gap = fit(system, constants, data)
    f1 = 100 * span_scores(data.truth, labels, scheme=data.scheme).f1
    return {"F1": f1, "shown": interval(data.truth, labels, data.scheme), "seconds": seconds, "gap": gap}


def row(name: str, system: str, folds: Data, whole: Data, cells: Any) -> list[str]:
    grid = SYSTEMS[system][1]
    tried = []
    for values in product(*grid.values()) if len(grid) else [()]:
        constants = dict(zip(grid, values))
        key = {"set": name, "system": system, "part": "fold", **constants}
        found = cells.get(key, lambda: score(system, constants, folds)) if grid else {"F1": 0.0}  # noqa: B023
        tried.append((found["F1"], constants))
        common.say(f"{key} {found}")
    best = max(tried, key=lambda one: one[0])[1]
    key = {"set": name, "system": system, "part": "test", **best}
    found = cells.get(key, lambda: score(system, best, whole))
    common.say(f"{key} {found}")
    shown = ", ".join(f"{constant}={value:g}" for constant, value in best.items())
    return [name, system, shown, found["shown"], f"{found['seconds']:.1f}", found["gap"]]


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="with a folder for every set")
    arguments.add_argument("--sets", default="usaddress,zh_seg,wnut17,uner_pt", help="separated by commas")
    arguments.add_argument("--systems", default=",".join(SYSTEMS), help="separated by commas (default: %(default)s)")
    arguments.add_argument("--out", help="file of finished fits, one JSON value a line")
    given = arguments.parse_args()
    cells, rows = common.Cells(given.out), []
    for name in given.sets.split(","):
        folder, most = Path(given.data) / name, 200 if given.quick else None
        X, y = read(folder, "train", most)
        some, held = next(iter(KFold(3, shuffle=True, random_state=0).split(np.arange(len(X)))))
        folds = Data(name, X[some], [y[i] for i in some], X[held], [y[i] for i in held])
        whole = Data(name, X, y, *read(folder, "test", None))
        rows += [row(name, system, folds, whole, cells) for system in given.systems.split(",")]
    print(common.table(("set", "system", "constants", "F1 of the test part", "CPU s of the fit", "gap"), rows))
    print(common.machine())


if __name__ == "__main__":
    main()
