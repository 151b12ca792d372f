"""Speed of the kernels on one and two threads, import time, and scaling with the number of words.

Decoding, loss-augmented sweeps, gradients and marginals are timed on the letters of folds 1-9 (pixels and transitions),
at the weights of an L2-CRF. Reported is the smallest wall time of several calls. On a shared machine all times grow
together; the time of a dependent addition (four or five cycles on most processors) is printed to measure this.

Import time is the median over new processes. Scaling: one gradient of the log loss and one pass of block Frank-Wolfe on
1/8 to 8 times the words; linear means equal time per letter.

    python benchmarks/kernels.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF
from maxendnet.data.examples import Examples
from maxendnet.losses import Hinge, Log
from maxendnet.priors import Gaussian
from maxendnet.solvers import BlockFrankWolfe

DECODE_NS, SWEEP_MS, TWO_THREADS, IMPORT_SECONDS = 100.0, 15.0, 1.7, 0.1


def sweeps(train: Examples, w: np.ndarray, repeat: int) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the rows of the table of kernels, and those of the table of targets."""
    n = len(train.y)
    hinge = {jobs: common.problem_of(train, Hinge(), Gaussian(), n_jobs=jobs) for jobs in (1, 2)}
    log = {jobs: common.problem_of(train, Log(), Gaussian(), n_jobs=jobs) for jobs in (1, 2)}
    forest = hinge[1].structure
    backends = {jobs: problem.backend for jobs, problem in hinge.items()}
    calls: dict[str, Callable[[int], Any]] = {
        "decode": lambda jobs: forest.decode(w, backend=backends[jobs]),
        "decode, float64, with scores": lambda jobs: forest.maximum(w, backend=backends[jobs]),
        "loss-augmented sweep": lambda jobs: hinge[jobs].loss_and_gradient(w, gradient=False, single=True),
        "loss-augmented sweep, float64": lambda jobs: hinge[jobs].loss_and_gradient(w, gradient=False),
        "loss-augmented sweep with subgradient": lambda jobs: hinge[jobs].loss_and_gradient(w, single=True),
        "loss-augmented sweep with subgradient, float64": lambda jobs: hinge[jobs].loss_and_gradient(w),
        "gradient of the log loss": lambda jobs: log[jobs].loss_and_gradient(w, single=True),
        "gradient of the log loss, float64": lambda jobs: log[jobs].loss_and_gradient(w),
        "node marginals, float64": lambda jobs: forest.logsum(w, backend=backends[jobs]),
    }
    smallest: dict[str, dict[int, float]] = {}
    rows, targets = [], []
    for name, call in calls.items():
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(repeat):  # alternate, so that other load affects both
            for jobs in (1, 2):
                seconds[jobs].append(common.wall(lambda: call(jobs), repeat=3))  # noqa: B023 called here
        t1, t2 = min(seconds[1]), min(seconds[2])
        smallest[name] = {1: t1, 2: t2}
        rows.append((name, f"{1e9 * t1 / n:.1f}", f"{1e3 * t1:.2f}", f"{1e3 * t2:.2f}", f"{t1 / t2:.2f}"))
        common.say(f"{name}: {1e9 * t1 / n:.1f} ns per letter, speed-up by two threads {t1 / t2:.2f}")
    decode = 1e9 * smallest["decode"][1] / n
    targets.append(("decode, ns per letter and thread", f"**{decode:.1f}**", common.verdict(decode, DECODE_NS)))
    sweep = 1e3 * smallest["loss-augmented sweep"][1] * 47_000 / n
    targets.append(("loss-augmented sweep of 47,000 letters, ms", f"**{sweep:.2f}**", common.verdict(sweep, SWEEP_MS)))
    for name in ("decode", "loss-augmented sweep", "loss-augmented sweep with subgradient", "gradient of the log loss"):
        gain = smallest[name][1] / smallest[name][2]
        verdict = common.verdict(gain, TWO_THREADS, least=True)
        targets.append((f"speed-up by two threads, {name}", f"**{gain:.2f}**", verdict))
    return rows, targets


def import_seconds(repeat: int) -> tuple[float, float]:
    """Return the median wall seconds to import scikit-learn, then maxendnet, in a new process."""
    code = (
        "import time; a = time.perf_counter(); import sklearn.base, sklearn.utils.validation, sklearn.exceptions; "
        "b = time.perf_counter(); import maxendnet; print(b - a, time.perf_counter() - b)"
    )
    runs, environment = [], {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # with cached bytecode, as for users
    for _ in range(repeat + 1):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        runs.append([float(number) for number in done.stdout.split()])
    sklearn, ours = np.median(runs[1:], axis=0)  # the first run may read the disk
    return float(sklearn), float(ours)


def growth(examples: Examples, scales: list[float]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Measure ns per letter of a gradient and of a pass of block Frank-Wolfe, for several numbers of words."""
    seconds: dict[float, tuple[float, float]] = {}
    letters: dict[float, int] = {}
    for scale in scales:
        words = common.subset(examples, int(scale * len(examples)))
        words = common.repeated(words, int(scale)) if scale > 1 else words
        n = letters[scale] = len(words.y)
        log = common.problem_of(words, Log(), Gaussian())
        w = 0.1 * np.random.default_rng(0).standard_normal(log.n_weights)
        # more repetitions for small data, which is measured less precisely
        gradient = common.wall(lambda: log.loss_and_gradient(w, single=True), repeat=max(3, int(8 / scale)))  # noqa: B023
        hinge = common.problem_of(words, Hinge(), Gaussian(), C=0.1)
        solver = BlockFrankWolfe()
        state = solver.start(hinge, seed=0)
        passes = []
        for _ in range(4):
            began = time.process_time()
            state = solver.step(hinge, state)
            passes.append(time.process_time() - began)
        seconds[scale] = gradient / n, min(passes[1:]) / n
        common.say(f"{scale:g} times the words: {1e9 * gradient / n:.0f} and {1e9 * seconds[scale][1]:.0f} ns")
    unit = seconds[1.0]
    rows = [
        (
            f"{Fraction(scale)}", f"{letters[scale]:,}", f"{1e9 * a:.0f}", f"{a / unit[0]:.2f}", f"{1e9 * b:.0f}",
            f"{b / unit[1]:.2f}",
        )
        for scale, (a, b) in seconds.items()
    ]  # fmt: skip
    targets = []
    for k, task in enumerate(("gradient of the log loss", "pass of block Frank-Wolfe")):
        # exponent of the scaling, by least squares: 1 is linear
        logs = np.log([(letters[s], seconds[s][k] * letters[s]) for s in scales])
        exponent = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        targets.append((f"scaling exponent, one {task}", f"**{exponent:.3f}**", common.verdict(exponent, 1.1)))
    return rows, targets


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--repeat", type=int, default=10, help="repetitions (default: %(default)s)")
    args = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    speed = [common.dependent_addition()]
    raw, examples = common.letters(args.data)
    train = common.subset(examples[raw.folds != 0], 500 if args.quick else None)
    repeat = 2 if args.quick else args.repeat

    w = L2CRF(lam=2.0, tol=1e-1).fit(train).model_.weights
    rows, targets = sweeps(train, w, repeat)
    speed.append(common.dependent_addition())
    sklearn, ours = import_seconds(repeat)
    targets.append(("import maxendnet after scikit-learn, s", f"**{ours:.3f}**", common.verdict(ours, IMPORT_SECONDS)))
    scales = [1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0]
    grown, more = growth(train, scales[2:5] if args.quick else scales)
    speed.append(common.dependent_addition())

    if args.quick:
        print("(--quick: 500 words; not a measurement)\n")
    print(f"{len(train):,} words, {len(train.y):,} letters, 26 labels, 128 pixels. A dependent float64 addition took ")
    print(f"{', '.join(f'{s:.2f}' for s in speed)} ns before, between and after (the speed of the machine then).\n")
    print(common.table(("", "measured", "target"), targets + more))
    print("Kernels, smallest wall time; float32 search unless noted:\n")
    head = ("", "ns per letter", "ms, one thread", "ms, two threads", "ratio")
    print(common.table(head, rows))
    print(f"A new process takes {sklearn:.3f} s to import scikit-learn, then {ours:.3f} s for maxendnet.\n")
    print("Scaling with the number of words, ns per letter and the ratio to the original data:\n")
    print(common.table(("times the words", "letters", "gradient, ns", "ratio", "pass, ns", "ratio"), grown))


if __name__ == "__main__":
    main()
