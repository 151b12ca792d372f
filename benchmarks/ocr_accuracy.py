"""How accurate: letter error of the six systems on the OCR letters, at cross-validated constants.

Trains on fold 0 and tests on folds 1-9, and the reverse; with pixels and transitions alone, and with `bias` and start
and end weights (`ends`) added. Constants are chosen on the training part only, by cross-validation over words in five
parts (seed 0), with fits to a relative gap of 1e-2; the model that is tested is fitted to the whole training part, to
1e-3. On fold 0 all five parts are held out in turn; on folds 1-9, ten times as many words, the first two. Of equal
constants the first of the grid is taken. CRF has no constant.

Finished cells are written to the file of --out, and an interrupted run resumes from it.

    python benchmarks/ocr_accuracy.py --out ocr_accuracy.jsonl
"""

from __future__ import annotations

import itertools
import signal
import time
import warnings
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN

# LapMEDN with lam / C fixed tends to M3N with C = 2 C / lam for small C, to L1-M3N for large: the good ones are a band.
# For folds 1-9 the grids are coarser, and shifted to where more data needs less of a prior.
GRIDS: dict[str, dict[str, dict[str, list[float]]]] = {
    "0": {
        "LapMEDN": {"C": [1, 2, 5, 10, 20, 50], "lam/C": [10, 20, 50, 100, 200]},
        "M3N": {"C": [0.02, 0.05, 0.1, 0.2, 0.5, 1]},
        "L2CRF": {"lam": [0.2, 0.5, 1, 2, 5, 10]},
        "L1CRF": {"lam": [0.1, 0.2, 0.5, 1, 2, 5]},
        "CRF": {},
        "L1M3N": {"C": [0.05, 0.1, 0.2, 0.5, 1, 2]},
    },
    "1-9": {
        "LapMEDN": {"C": [0.5, 1, 2, 5], "lam/C": [5, 10, 20, 50]},
        "M3N": {"C": [0.1, 0.2, 0.5, 1, 2, 5]},
        "L2CRF": {"lam": [0.2, 0.5, 1, 2, 5]},
        "L1CRF": {"lam": [0.1, 0.2, 0.5, 1, 2]},
        "CRF": {},
        "L1M3N": {"C": [0.1, 0.2, 0.5, 1, 2]},
    },
}
KINDS = {"LapMEDN": LapMEDN, "M3N": M3N, "L2CRF": L2CRF, "L1CRF": L1CRF, "CRF": CRF, "L1M3N": L1M3N}
OPTIONS = {
    "plain": {},
    "bias": {"bias": True},
    "ends": {"ends": True},
    "bias+ends": {"bias": True, "ends": True},
}

# letter error in per cent on the same splits (fold 0 -> 1-9, 1-9 -> 0), measured with those tools
OTHERS = {
    "CRFsuite": ("20.1-20.9", "11.8-12.2"),
    "pystruct (Frank-Wolfe)": ("20.5", "12.6"),
    "SVM-hmm": ("20.5", "12.7"),
    "Wapiti": ("20.6", "12.8"),
    "pytorch-crf (start and end weights)": ("19.3", "-"),
}


class TooLong(Exception):
    """A fit took more than its time."""


def fit(model: Any, train: Any, limit: float) -> Any:
    """Fit, quietly; TooLong after ``limit`` CPU seconds."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap reached is in the table
            return model.fit(train)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def cross_validate(system: str, settings: dict[str, Any], train: Any, parts: int, limit: float) -> dict[str, Any]:
    """Letter error on parts held out in turn."""
    wrong = total = 0
    seconds = 0.0
    folds = KFold(5, shuffle=True, random_state=0).split(np.arange(len(train)))
    for inside, outside in itertools.islice(folds, parts):
        model = KINDS[system](**settings, tol=1e-2, random_state=0)
        began = time.process_time()
        try:
            fit(model, train[inside], limit)
        except TooLong:
            return {"error": None, "why": f"a fit took more than {limit:g} CPU s"}
        seconds += time.process_time() - began
        held_out = train[outside]
        n = int(held_out.offsets[-1])
        wrong += round((1 - model.score(held_out)) * n)
        total += n
    return {"error": wrong / total, "seconds_per_fit": seconds / parts}


def test(system: str, settings: dict[str, Any], train: Any, other: Any, limit: float) -> dict[str, Any]:
    """Letter error on the other folds of a model of the whole training part."""
    model = KINDS[system](**settings, tol=1e-3, random_state=0)
    began = time.process_time()
    try:
        fit(model, train, limit)
    except TooLong:
        return {"error": None, "why": f"the fit took more than {limit:g} CPU s"}
    return {
        "error": 1 - model.score(other),
        "gap": float(model.gap_),
        "converged": bool(model.converged_),
        "n_passes": int(model.n_passes_),
        "seconds": time.process_time() - began,
    }


def constants_of(point: dict[str, float]) -> dict[str, float]:
    """What the estimator takes: a ratio lam/C becomes lam."""
    if "lam/C" not in point:
        return point
    return {"C": point["C"], "lam": float(f"{point['C'] * point['lam/C']:.6g}")}


def text(constants: dict[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in constants.items()) or "-"


def shown(grid: dict[str, list[float]]) -> str:
    return " x ".join(f"{name} in {', '.join(f'{v:g}' for v in values)}" for name, values in grid.items()) or "none"


def percent(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:.2f}"


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--out", metavar="FILE", help="finished cells, kept and read again (default: none)")
    arguments.add_argument("--systems", default=",".join(KINDS), help="which, in this order (default: %(default)s)")
    arguments.add_argument(
        "--options", default="plain,bias+ends", help=f"of {', '.join(OPTIONS)} (default: %(default)s)"
    )
    arguments.add_argument("--splits", default=",".join(GRIDS), help="folds trained on (default: %(default)s)")
    arguments.add_argument("--parts", type=int, help="parts held out, of five (default: 5 on fold 0, 2 on folds 1-9)")
    arguments.add_argument(
        "--limit", type=float, default=300.0, help="CPU seconds that a fit may take (default: %(default)s)"
    )
    given = arguments.parse_args()

    raw, examples = common.letters(given.data)
    n_words = 100 if given.quick else None
    sides = {
        "0": (common.subset(examples[raw.folds == 0], n_words), common.subset(examples[raw.folds != 0], n_words)),
        "1-9": (common.subset(examples[raw.folds != 0], n_words), common.subset(examples[raw.folds == 0], n_words)),
    }
    cells = common.Cells(given.out)
    rows = []
    for split in given.splits.split(","):
        train, other = sides[split]
        parts = given.parts or (2 if split == "1-9" or given.quick else 5)
        for system, option in itertools.product(given.systems.split(","), given.options.split(",")):
            grid = {name: values[1:3] if given.quick else values for name, values in GRIDS[split][system].items()}
            what = {"system": system, "option": option, "split": split, "n_words": len(train)}
            tried = []
            for values in itertools.product(*grid.values()):
                point = dict(zip(grid, values))
                constants = constants_of(point)
                settings = {**constants, **OPTIONS[option]}
                found = cells.get(
                    {**what, "kind": "cv", "constants": constants, "parts": parts},
                    lambda s=settings: cross_validate(system, s, train, parts, given.limit),  # noqa: B023 called here
                )
                common.say(f"{split} {system} {option} {text(constants)}: held out {percent(found['error'])} %")
                if found["error"] is not None:
                    tried.append((found["error"], len(tried), point))
            if not tried:
                rows.append((split, system, option, "-", "-", "-", f"no fit within {given.limit:g} CPU s", "-"))
                continue
            held_out, _, point = min(tried)
            best = constants_of(point)
            edge = any(point[name] in (values[0], values[-1]) for name, values in grid.items())
            settings = {**best, **OPTIONS[option]}
            found = cells.get(
                {**what, "kind": "test", "constants": best},
                lambda s=settings: test(system, s, train, other, given.limit),  # noqa: B023 called here
            )
            common.say(f"{split} {system} {option} {text(best)}: TEST {percent(found['error'])} %")
            ok = found["error"] is not None
            rows.append(
                (
                    split, system, option, text(best) + (" (edge of the grid)" if edge else ""), percent(held_out),
                    f"**{percent(found['error'])}**", f"{found['gap']:.1e}" if ok else found["why"],
                    f"{found['seconds']:.1f}" if ok else "-",
                )
            )  # fmt: skip

    if given.quick:
        print("(--quick: 100 words, two constants each; not a measurement)\n")
    for split in given.splits.split(","):
        print(f"Trained on fold{'s' * (split != '0')} {split}, letter error in per cent on the rest:\n")
        head = ("system", "weights", "constants", "held out", "test", "gap", "CPU s")
        print(common.table(head, (row[1:] for row in rows if row[0] == split)))
    print("Others on the same splits, letter error in per cent:\n")
    print(common.table(("", "fold 0 -> 1-9", "folds 1-9 -> 0"), ((name, *pair) for name, pair in OTHERS.items())))
    for split in given.splits.split(","):
        print(
            f"Grids on {split}: " + "; ".join(f"{name}: {shown(grid)}" for name, grid in GRIDS[split].items()) + ".\n"
        )


if __name__ == "__main__":
    main()
