"""How fast are likelihood models: L2-CRF and L1-CRF until they are as good as CRFsuite when it stops.

CRFsuite trains first: L-BFGS with c2=1, which is our lam=2, and OWL-QN with c1=1, our lam=1, otherwise as it comes. Our
objective at the weights it wrote is compared with the loss it reports: the models are the same. Then we look for the
least number of passes with which our objective is at or below that loss. Then both train in turn, and the CPU seconds
of one thread are compared: for us of one `fit` with that number of passes, and of one `fit` to the default tol, which
also proves how near the optimum it is. What it takes to bring the data in (ours: lists of arrays to `Examples`;
CRFsuite's: lists of attributes to its own) is given apart.

    python benchmarks/ocr_likelihood.py
"""

from __future__ import annotations

import warnings
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1CRF, L2CRF
from maxendnet.data.examples import as_examples
from maxendnet.losses import Log
from maxendnet.priors import L1, Gaussian

# a model of ours, its prior, and the settings of CRFsuite that have the same objective
PAIRS = {
    "L2-CRF, lam=2": (L2CRF, 2.0, Gaussian(0.5), {"c1": 0.0, "c2": 1.0}),
    "L1-CRF, lam=1": (L1CRF, 1.0, L1(1.0), {"c1": 1.0, "c2": 0.0}),
}
LEAST_RATIO = 20.0
MOST_PASSES = 2000


def passes_needed(kind: type, lam: float, train: Any, target: float, most: int) -> int | None:
    """The least max_passes with which a fit ends at or below the target; None if ``most`` are not enough."""

    def good(n: int) -> bool:
        return kind(lam=lam, tol=1e-12, max_passes=n, random_state=0).fit(train).objective_ <= target

    # the trace has the objective every few passes; the number found there is then narrowed down
    trace = kind(lam=lam, tol=1e-12, max_passes=most, random_state=0).fit(train).trace_
    reached = [row.n_pass for row in trace if row.primal <= target]
    if not reached:
        return None
    high = reached[0]
    low = max((row.n_pass for row in trace if row.n_pass < high), default=0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--repeat", type=int, default=3, help="times that both train in turn (default: %(default)s)")
    arguments.add_argument("--models", default="L2,L1", help="which (default: %(default)s)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # fits are stopped on purpose

    raw, examples = common.letters(given.data)
    words = np.flatnonzero(raw.folds != 0)[: 200 if given.quick else None]
    door = common.cpu(lambda: as_examples([raw.X[i] for i in words], [raw.y[i] for i in words]))[0]
    train = examples[words]
    rows, full, checks, doors = [], [], [], []
    for name, (kind, lam, prior, settings) in PAIRS.items():
        if name[:2] not in given.models.split(","):
            continue
        crfsuite = common.CRFsuite(train, "lbfgs", **settings)
        theirs, ours, default = [crfsuite.train()], [], []
        target = crfsuite.loss
        problem = common.problem_of(train, Log(), prior)
        at_theirs = problem.primal(crfsuite.weights(problem.structure.layout, np.unique(train.y)))
        checks.append((name, f"{target:.3f}", f"{at_theirs:.3f}", f"{at_theirs / target - 1:+.1e}"))
        if abs(at_theirs / target - 1) > 1e-5:  # its weights have six decimals
            raise SystemExit(
                f"{name}: at the weights of CRFsuite our objective is {at_theirs!r} and its loss {target!r}; they "
                "should agree to 1e-5, so the two do not solve the same problem. Look at the settings in PAIRS."
            )
        common.say(f"{name}: CRFsuite {theirs[0]:.1f} CPU s, {crfsuite.n_passes} iterations, loss {target:.3f}")
        n = passes_needed(kind, lam, train, target, MOST_PASSES)
        if n is None:
            rows.append(
                (name, f"{theirs[0]:.2f}", f"{crfsuite.n_passes}", f"not in {MOST_PASSES} passes", "-", "-", "-")
            )
            continue
        for turn in range(given.repeat):
            if turn:
                theirs.append(crfsuite.train())
            # random_state: the fit that was counted, again
            seconds, model = common.cpu(lambda: kind(lam=lam, tol=1e-12, max_passes=n, random_state=0).fit(train))  # noqa: B023
            if model.objective_ > target:
                raise SystemExit(
                    f"{name}: {n} passes gave {model.objective_!r} this time, above the target {target!r}."
                )
            ours.append(seconds)
            seconds, certified = common.cpu(lambda: kind(lam=lam, random_state=0).fit(train))  # noqa: B023
            default.append(seconds)
            common.say(
                f"{name}: CRFsuite {theirs[-1]:.2f}, ours {ours[-1]:.2f} CPU s ({n} passes, {model.objective_:.3f}); "
                f"to tol 1e-3 {seconds:.2f} ({certified.n_passes_} passes, gap {certified.gap_:.1e})"
            )
        ratio = float(np.median(theirs) / np.median(ours))
        rows.append(
            (
                name, f"{np.median(theirs):.2f}", str(crfsuite.n_passes), f"{np.median(ours):.2f}", str(n),
                f"**{ratio:.1f}**", common.verdict(ratio, LEAST_RATIO, least=True),
            )
        )  # fmt: skip
        full.append(
            (
                name, f"{np.median(default):.2f}", str(certified.n_passes_), f"{certified.objective_:.3f}",
                f"{certified.gap_:.1e}", f"{np.median(theirs) / np.median(default):.1f}",
            )
        )  # fmt: skip
        doors.append((name, f"{crfsuite.door_seconds:.2f}", f"{door:.2f}"))

    if given.quick:
        print("(--quick: 200 words; not a measurement)\n")
    times = f"median of {given.repeat}" if given.repeat > 1 else "one run"
    print(f"{len(train):,} words, {len(train.y):,} letters. CPU seconds of one thread, {times}, in turn:\n")
    head = ("until CRFsuite's objective", "CRFsuite", "iterations", "maxendnet", "passes", "ratio", "target")
    print(common.table(head, rows))
    print("The same models by a plain `fit`, to a proven relative gap of 1e-3:\n")
    print(common.table(("to gap 1e-3", "maxendnet", "passes", "objective", "gap", "ratio to CRFsuite"), full))
    print("The models are the same: our objective at the weights that CRFsuite wrote.\n")
    print(common.table(("", "its loss", "our objective there", "difference"), checks))
    print("CPU seconds to bring the data in, not counted above:\n")
    print(common.table(("", "CRFsuite", "maxendnet"), doors))


if __name__ == "__main__":
    main()
