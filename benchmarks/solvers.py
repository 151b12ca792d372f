"""Which solver when: gap against seconds, for every solver that accepts M3N, LapMEDN, L1-M3N and the CRFs.

All on the same words of the OCR letters (2,000 of folds 1-9), pixels and transitions, one thread, each with a budget of
CPU seconds. Then two questions of the paper: whether its Algorithm 1 around any solver of Gaussian problems gives the
mean of the exact LapMEDN with four times lam and twice C, and how long an L1-M3N takes on 100 words.

    python benchmarks/solvers.py --figure docs/figures/solvers.svg
"""

from __future__ import annotations

import contextlib
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1M3N, LapMEDN, solvers
from maxendnet.losses import Hinge, Log
from maxendnet.priors import L1, Flat, Gaussian, L1Ball, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import Solver
from maxendnet.solvers.base import Progress, missing

# name, loss, prior, C: constants near the cross-validated ones
SYSTEMS = (
    ("M3N(C=0.1)", Hinge(), Gaussian(), 0.1),
    ("LapMEDN(C=1, lam=10)", Hinge(), Laplace(10.0), 1.0),
    ("L1M3N(C=0.1)", Hinge(), L1(0.5), 0.1),
    ("L1M3N(radius=300)", Hinge(), L1Ball(300.0), 1.0),
    ("L2CRF(lam=2)", Log(), Gaussian(0.5), 1.0),
    ("L1CRF(lam=1)", Log(), L1(1.0), 1.0),
    ("CRF()", Log(), Flat(), 1.0),
)
# the second form of a solver that has two
OTHER_FORMS: dict[str, list[Solver]] = {
    "CuttingPlane": [solvers.CuttingPlane(slacks="n")],
    "Subgradient": [solvers.Subgradient(online=True)],
}


# examples for which a linear programme is tried: one round of it may take minutes, and cannot be interrupted
LARGEST_PROGRAMME = 500


class OutOfTimeError(BaseException):
    """Like KeyboardInterrupt, and unlike an error that somebody on the way may handle."""


class Course:
    """Keeps CPU seconds and what `tol` is compared with, at every look."""

    def __init__(self) -> None:
        self.began = time.process_time()
        self.points: list[tuple[float, float]] = []

    def __call__(self, progress: Progress) -> None:
        self.points.append((time.process_time() - self.began, progress.row.gap))


def course(solver: Solver, problem: Problem, budget: float, tol: float) -> list[tuple[float, float]]:
    """CPU seconds and gap, until the gap is ``tol`` or the budget is spent."""
    seen = Course()
    fit = lambda: solvers.run(solver, problem, tol=tol, max_passes=10**6, seed=0, hooks=[seen], warn=False)  # noqa: E731
    with contextlib.suppress(OutOfTimeError):
        within(budget, fit)
    return seen.points


def within(budget: float, function: Callable[[], Any]) -> Any:
    """What a function returns; OutOfTimeError when it takes more CPU seconds than that."""

    def stop(number: int, frame: Any) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, budget)
    try:
        return function()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def forms(kind: type[Solver]) -> dict[str, Solver]:
    """A solver by its name, and its other form by its settings."""
    return {kind.__name__: kind()} | {repr(other): other for other in OTHER_FORMS.get(kind.__name__, [])}


def reached(points: list[tuple[float, float]], gap: float) -> str:
    return next((f"{seconds:.2g}" for seconds, found in points if found <= gap), "-")


def gaps_against_seconds(words: Any, budget: float, tol: float) -> tuple[dict[str, dict[str, Any]], str]:
    courses: dict[str, dict[str, Any]] = {}
    rows = []
    for system, loss, prior, C in SYSTEMS:
        courses[system] = {}
        problem = common.problem_of(words, loss, prior, C)
        for kind in solvers.ALL:
            if missing(kind, problem):
                continue
            for name, solver in forms(kind).items():
                if kind is solvers.ConstraintGeneration and problem.n_examples > LARGEST_PROGRAMME:
                    rows.append([system, f"`{name}`", "-", "-", "-", "-", "not tried: takes minutes"])
                    continue
                common.say(f"{system} by {name}")
                points = course(solver, problem.replace(prior=prior), budget, tol)
                courses[system][name] = points
                last = f"{points[-1][1]:.1e}" if points else "none in time"
                rows.append([system, f"`{name}`", *(reached(points, gap) for gap in (1e-1, 1e-2, 1e-3, 1e-4)), last])
    head = ["system", "solver", "s to 0.1", "to 0.01", "to 0.001", "to 0.0001", "last gap"]
    return courses, common.table(head, rows)


def draw(courses: dict[str, dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("svg" if path.endswith(".svg") else "Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    shown = {system: found for system, found in courses.items() if system != "CRF()"}  # which has no gap
    names = sorted({name for found in shown.values() for name in found})
    styles = {
        name: {
            "color": plt.get_cmap("tab10")(k % 10),
            "linestyle": ("-", "--")[k // 10],
            "marker": "osD^v<>*Xp"[k % 10],
        }
        for k, name in enumerate(names)
    }
    figure, axes = plt.subplots(2, 3, figsize=(12, 7.5), sharey=True)
    for axis, (system, found) in zip(axes.flat, shown.items()):
        for name, points in found.items():
            kept = [(s, g) for s, g in points if 0 < g <= 2][:: max(1, len(points) // 60)]
            if kept:
                seconds, gaps = zip(*kept)
                axis.plot(seconds, gaps, markevery=max(1, len(kept) // 6), markersize=4, lw=1.3, **styles[name])
        axis.set(xscale="log", yscale="log", title=system, xlabel="CPU seconds, one thread", ylim=(5e-6, 1.5))
        axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())  # within one decade they overlap
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("relative duality gap")
    handles = [plt.Line2D([], [], markersize=5, lw=1.3, **style) for style in styles.values()]
    figure.legend(handles, names, loc="lower center", ncol=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "maxendnet"
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def algorithm_1(words: Any, C: float, lam: float, tol: float, budget: float) -> str:
    """The paper's Algorithm 1 with (lam, C) around each solver of Gaussian problems, and the exact model."""
    reference = LapMEDN(
        2 * C, 4 * lam, solver=solvers.BlockFrankWolfe(), tol=tol / 1e4, max_passes=20_000, random_state=0
    )
    seconds, exact = common.cpu(lambda: reference.fit(words))
    rows: list[list[Any]] = [
        ["exact, `BlockFrankWolfe()`, (4 lam, 2C), the reference", f"{seconds:.1f}", f"{exact.gap_:.1e}", ""]
    ]
    candidates: list[tuple[str, Any]] = [
        ("exact, `BlockFrankWolfe()`, (4 lam, 2C)", LapMEDN(2 * C, 4 * lam, solver=solvers.BlockFrankWolfe()))
    ]
    inner: list[Solver] = [
        solvers.BlockFrankWolfe(), solvers.ExponentiatedGradient(), solvers.SMO(), solvers.Subgradient(),
        solvers.CuttingPlane(), solvers.CuttingPlane(slacks="n"), solvers.Extragradient(),
    ]  # fmt: skip
    for solver in inner:
        model = LapMEDN(C, lam, method="variational", iterations=None, solver=solver)
        candidates.append((f"Algorithm 1 around `{solver!r}`", model))
    mean = lambda model: np.concatenate([model.coef_.ravel(), model.transitions_.ravel()])  # noqa: E731
    for name, model in candidates:
        common.say(name)
        model.set_params(tol=tol, max_passes=20_000, random_state=0)
        try:
            seconds, _ = common.cpu(lambda model=model: within(budget, lambda: model.fit(words)))
        except OutOfTimeError:
            rows.append([name, f"> {budget:g}", "", ""])
            continue
        away = np.abs(mean(model) - mean(exact)).max() / np.abs(mean(exact)).max()
        rows.append([name, f"{seconds:.1f}", f"{model.gap_:.1e}", f"{away:.1e}"])
    return common.table(["LapMEDN", "CPU s", "gap", "largest difference of a mean, relative"], rows)


def l1m3n_on_100_words(raw: Any, examples: Any, n_folds: int, C: float) -> str:
    """The paper's OCR100: 100 words a fold; train on one fold, test on the others' words."""
    chosen = [np.flatnonzero(raw.folds == fold)[:100] for fold in range(10)]
    rows, errors = [], []
    total = 0.0
    for fold in range(n_folds):
        model = L1M3N(C, random_state=0)
        seconds, _ = common.cpu(lambda model=model, fold=fold: model.fit(examples[chosen[fold]]))
        total += seconds
        test = examples[np.concatenate([words for other, words in enumerate(chosen) if other != fold])]
        zeros = np.mean(np.concatenate([model.coef_.ravel(), model.transitions_.ravel()]) == 0)
        errors.append(100 * (1 - model.score(test)))
        rows.append([fold, f"{seconds:.1f}", f"{model.gap_:.1e}", f"{100 * zeros:.0f}", f"{errors[-1]:.1f}"])
    rows.append(["all", f"{total:.1f}", "", "", f"{np.mean(errors):.1f}"])
    return common.table(["fold", "CPU s", "gap", "% exact zeros", "% letters wrong"], rows)


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--budget", type=float, default=20.0, help="CPU seconds a solver (default: %(default)s)")
    arguments.add_argument(
        "--patience",
        type=float,
        default=300.0,
        help="CPU seconds for Algorithm 1 around a solver (default: %(default)s)",
    )
    arguments.add_argument("--words", type=int, default=2000, help="how many (default: %(default)s)")
    arguments.add_argument("--figure", metavar="FILE", help="where to draw (default: nowhere)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # gaps are in the tables
    raw, examples = common.letters(given.data)
    nine = examples[raw.folds != 0]
    words = common.subset(nine, 60 if given.quick else given.words)
    budget = 1.0 if given.quick else given.budget
    print(f"{len(words):,} words, {words.X.shape[0]:,} letters, at most {budget:g} CPU seconds each:\n")
    courses, text = gaps_against_seconds(words, budget, 1e-5)
    print(text)
    if given.figure:
        draw(courses, given.figure)
    few, tol = common.subset(nine, 8, seed=1), 1e-3 if given.quick else 1e-5
    print(f"The same LapMEDN (C=0.1, lam=1) by the paper's Algorithm 1, {len(few)} words, to a gap of {tol:g}:\n")
    print(algorithm_1(few, 0.1, 1.0, tol, 3.0 if given.quick else given.patience))
    print("L1-M3N(C=0.5) on 100 words a fold, to a certified gap of 1e-3 (the paper: 20 hours for ten folds):\n")
    print(l1m3n_on_100_words(raw, examples, 1 if given.quick else 10, 0.5))


if __name__ == "__main__":
    main()
