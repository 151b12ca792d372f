"""Kernel features on the OCR letters: error, time and memory against the number of landmarks.

A first-order chain with `bias` and `ends` on kernel features (`KernelFeatures`) is trained on one fold (--fold) and
tested on the other nine, the protocol of published kernel machines on this data set. Hyper-parameters are chosen on the
training fold only: two thirds of its words for training, the rest for validation. Then one model is fitted to the
whole fold for every number of landmarks.

    python benchmarks/kernels_ocr.py --data ocr_letters
"""

from __future__ import annotations

import resource
import warnings
from itertools import product
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from maxendnet import M3N, Chain, KernelFeatures, OnNodes

KERNELS: dict[str, list[dict[str, Any]]] = {
    "rbf": [{"kernel": "rbf", "gamma": gamma} for gamma in (0.03, 0.05, 0.08)],
    "cubic": [{"kernel": "poly", "degree": 3, "gamma": gamma, "coef0": 1.0} for gamma in (0.02, 0.05)],
}
C_OF = {"rbf": (1.0, 3.0, 10.0), "cubic": (0.01, 0.1, 1.0)}


def model(options: dict[str, Any], n_landmarks: int | None, C: float) -> Any:
    """Return a pipeline of kernel features and M3N."""
    features = OnNodes(KernelFeatures(**options, n_landmarks=n_landmarks))
    chain = Chain(bias=True, ends=True)
    return make_pipeline(features, M3N(C=C, structure=chain, tol=1e-2, max_passes=200, random_state=0))


def error(fitted: Any, X: list[Any], y: list[Any]) -> float:
    """Return the letter error in percent; in batches of words, since kernel features are dense."""
    wrong = total = 0
    for first in range(0, len(X), 300):
        words = slice(first, first + 300)
        for predicted, truth in zip(fitted.predict(X[words]), y[words]):
            wrong += sum(a != b for a, b in zip(predicted, truth))
            total += len(truth)
    return 100 * wrong / total


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument("--landmarks", nargs="+", type=int, default=[250, 500, 1000, 2000, 0], help="0 is all nodes")
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
    parser.add_argument("--choose-with", type=int, default=1000, help="landmarks for the choice of hyper-parameters")
    args = parser.parse_args()
    letters = common.fetch_ocr_letters(args.data)
    inside = np.random.default_rng(0).permutation(np.flatnonzero(np.asarray(letters.folds) == args.fold))
    outside = np.flatnonzero(np.asarray(letters.folds) != args.fold)
    if args.quick:
        inside, outside, args.landmarks = inside[:60], outside[:100], [50, 100]
    X, y, new_X, new_y = ([values[i] for i in ids] for ids in (inside, outside) for values in (letters.X, letters.y))
    cut = 2 * len(X) // 3
    rows = []
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in args.kernels:
        errors = {}
        for k, C in product(range(len(KERNELS[name])), C_OF[name]):
            fitted = model(KERNELS[name][k], args.choose_with, C).fit(X[:cut], y[:cut])
            errors[k, C] = error(fitted, X[cut:], y[cut:])
            common.say(f"{KERNELS[name][k]} C={C}: {errors[k, C]:.2f}")
        k, C = min(errors, key=lambda setting: errors[setting])
        for n in args.landmarks:
            seconds, fitted = common.cpu(lambda: model(KERNELS[name][k], n or None, C).fit(X, y))  # noqa: B023
            trace = fitted[0].transformer_.trace_left_
            test_error = error(fitted, new_X, new_y)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            rows.append([
                name, f"gamma={KERNELS[name][k]['gamma']:g}, C={C:g}", n or "all", f"{trace:.3f}", f"{test_error:.2f}",
                f"{seconds:.0f}", f"{fitted[1].gap_:.1e}", f"{memory:.0f}",
            ])  # fmt: skip
            common.say(str(rows[-1]))
    head = ["kernel", "hyper-parameters", "landmarks", "trace left", "letter error, %", "CPU s", "gap", "peak MB"]
    print(common.table(head, rows))
    print(common.machine())


if __name__ == "__main__":
    main()
