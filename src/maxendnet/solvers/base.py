"""What all solvers share: the loop, the clock, the stopping rule and the trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxendnet.backends import BackendError
from maxendnet.piece import Piece
from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.utils.progress import progress_bar
from maxendnet.utils.warn import warn_caller


class TraceRow(NamedTuple):
    """One look at a fit in progress; the same columns for every solver."""

    n_pass: int
    seconds: float
    n_oracle: int
    primal: float
    dual: float
    gap: float
    n_nonzero: int


class Evaluation(NamedTuple):
    """A point that could be returned now, and how good it is known to be."""

    w: FloatArray
    eta: FloatArray | None
    primal: float
    dual: float
    gap: float
    """Relative; nan without a certificate."""
    measure: float
    """What `tol` is compared with: the gap or, without a certificate, the relative norm of the gradient."""
    which: str = "last"
    """'last', 'average' or 'best' of the iterates."""
    cost: float = np.nan
    """``sum alpha l`` of the dual point with this eta."""

    @classmethod
    def certified(
        cls, problem: Problem, w: FloatArray, eta: FloatArray | None, primal: float, dual: float, which: str = "last",
        cost: float = np.nan,
    ) -> Evaluation:  # fmt: skip
        """Return the evaluation of a point with a dual value, whose relative gap is compared with `tol`."""
        gap = problem.relative(primal - dual, primal)
        return cls(w, eta, primal, dual, gap, gap, which, cost)


@dataclass
class Result:
    """What a solver brings home."""

    w: FloatArray
    eta: FloatArray | None
    primal: float
    dual: float
    gap: float
    which: str
    cost: float
    n_pass: int
    converged: bool
    reason: str
    state: Any
    trace: list[TraceRow] = field(default_factory=list)
    solver: str = ""
    """Which solver it was, and why."""


class WorkerLost(RuntimeError):
    """What a worker held is lost with it: the fit goes back to where all of it is known."""


class Solver(Piece):
    """Base of the solvers: says what it needs, then `start` and `step`; `run` does the rest.

    `start` makes a state, from nothing or from an earlier state of the same solver; `step` is one pass over the data;
    `evaluate` gives a point with its certificate, and is called when `due`.
    """

    requires: tuple[str, ...] = ()
    accuracy: float = 1e-6
    """The relative gap that a solver is made for: it gets there on small problems in a reasonable number of passes."""
    warm_anywhere: bool = False
    """A state may start a fit to other examples, weights or costs: it holds weights, and no dual variables of those."""
    instead_of_gap: str = "relative gradient norm"
    """What `tol` is compared with where there is no certificate."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = {field.name for field in fields(Capabilities)}
        for requirement in cls.requires if isinstance(cls.requires, tuple) else ():  # else it depends on options
            for term in requirement.split(" or "):
                owner, _, name = term.removeprefix("not ").partition(".")
                if owner == "structure" and name not in names:
                    raise TypeError(f"{cls.__name__} requires {term!r}, and Capabilities has no field {name!r}.")

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> Any:
        raise NotImplementedError

    def step(self, problem: Problem, state: Any) -> Any:
        raise NotImplementedError

    def evaluate(self, problem: Problem, state: Any) -> Evaluation:
        raise NotImplementedError

    def carried(self, problem: Problem, state: Any) -> Any:
        """A state to start from where only the labels that are taken for the true ones have changed; None: there is
        none."""
        return None

    def support(self, problem: Problem, state: Any) -> Support | Callable[[], Support] | None:
        """The labellings that have dual weight, or a function that finds them; None where that cannot be said."""
        return None

    def due(self, problem: Problem, state: Any, n_pass: int, tol: float) -> bool:
        """Whether it is time for `evaluate`; it costs about a pass where the solver has no certificate at hand."""
        return True


def require_solver_or_none(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the option is a solver or None."""
    if not (value is None or isinstance(value, Solver)):
        raise ValueError(f"{name} must be a solver such as BlockFrankWolfe(), or None, got {value!r}.")


class Support(NamedTuple):
    """The labellings other than the true ones that have dual weight, one behind the other."""

    examples: NDArray[np.int64]
    """The example of each."""
    weights: FloatArray
    """Its dual weight."""
    labels: NDArray[np.int32]
    """The labels of all of them, in a row."""


class Progress(NamedTuple):
    """What a hook sees after every look at a fit: all that is known, and all that a fit could go on from."""

    row: TraceRow
    evaluation: Evaluation
    solver: Solver
    problem: Problem
    state: Any
    tol: float


class Position(NamedTuple):
    """Where a fit stands between two passes: all that it needs to go on."""

    state: Any
    n_pass: int = 0
    trace: Sequence[TraceRow] = ()
    seconds: float = 0.0
    n_oracle: int = 0


class CheckpointStore(Protocol):
    """Keeps positions, so that a fit goes on where another one was interrupted: see `maxendnet.models.checkpoint`."""

    def resume(self, solver: Solver, problem: Problem, tol: float) -> Position | None:
        """Where to go on; None: at the beginning."""
        ...

    def offer(self, position: Position, problem: Problem, last: bool = False) -> None:
        """Called between two passes; states may change in the next one."""
        ...


Hook = Callable[[Progress], Any]
"""Called after every look. If it returns True the fit stops there, and ``reason`` says "callback"."""


class Monitor:
    """A hook that shows a fit in progress, with the time that is left by the trend of the gap.

    Level 0 is silent, 1 a line that renews itself, 2 a line for every look.
    """

    def __init__(self, verbose: int = 0, name: str = "fit") -> None:
        self.verbose, self.name = verbose, name
        self.bar: Any = None
        self.seen: list[tuple[float, float]] = []

    def __call__(self, progress: Progress) -> None:
        if not self.verbose:
            return
        row, tol = progress.row, progress.tol
        text = f"primal {row.primal:.6g}  dual {row.dual:.6g}  gap {row.gap:.2e} (tol {tol:.0e})"
        self.seen = [*self.seen, (row.seconds, progress.evaluation.measure)][-LOOKS_OF_TREND:]
        left = seconds_left(self.seen, tol)
        text += (
            "" if left is None else f"  about {left:.0f} s left" if left < 600 else f"  about {left / 60:.0f} min left"
        )
        if self.verbose >= 2:
            print(f"[{self.name}] pass {row.n_pass:4d}  {row.seconds:7.2f} s  {text}  nonzero {row.n_nonzero}")
            return
        if self.bar is None:
            self.bar = progress_bar(desc=self.name, unit=" passes")
        self.bar.update(row.n_pass - self.bar.n)
        self.bar.set_postfix_str(text)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


LOOKS_OF_TREND = 6
NEARLY_SEPARABLE = 0.05
"""Loss per node (a wrong label costs 1, or is log loss) below which too little regularisation makes a fit slow. On OCR
letters 1000 passes reach a gap of about 1e-3 above it; below it margin models have gaps of 0.3 to 1 after 300."""


def seconds_left(seen: Sequence[tuple[float, float]], tol: float) -> float | None:
    """Seconds until a gap is below ``tol``, if its logarithm goes on falling as in the last looks; None if that cannot
    be said.

    Parameters
    ----------
    seen : sequence of (seconds, gap)

    Examples
    --------
    >>> round(seconds_left([(1.0, 1e-1), (2.0, 1e-2)], 1e-4), 6)
    2.0
    >>> seconds_left([(1.0, 0.1), (2.0, 0.1)], 1e-4)
    """
    at, gaps = np.array([row for row in seen if np.isfinite(row[1]) and row[1] > 0]).reshape(-1, 2).T
    if len(at) < 2 or not np.ptp(at) > 0:
        return None
    slope = float(np.polyfit(at - at.mean(), np.log(gaps), 1)[0])
    if not slope < 0:
        return None
    return max(0.0, float(np.log(gaps[-1] / tol)) / -slope)


def nearly_separable(problem: Problem, at: Evaluation) -> bool:
    """Whether little is left of the loss: more regularisation then makes a problem easier."""
    loss, at_zero = at.primal - problem.prior.penalty(at.w), problem.at_zero
    if problem.loss.smooth:  # the log loss of a node is the log of the number of labels there
        at_zero /= np.log(max(problem.structure.n_labels, 2))
    return bool(loss < NEARLY_SEPARABLE * at_zero)


def check_requirements(solver: Solver, problem: Problem) -> None:
    """Refuse a problem that lacks what the solver needs, and name the solvers that fit."""
    lacking = missing(solver, problem)
    if lacking:
        from maxendnet import solvers  # all of them, which only this message needs

        fitting = [kind.__name__ for kind in solvers.ALL if not missing(kind, problem)]
        pieces = f"{type(problem.prior).__name__} prior and {type(problem.loss).__name__} loss"
        if not getattr(problem.loss, "linear_slack", True):
            pieces += f" with {problem.hinge.slack} slack"
        if problem.cost_table.joint is not None:
            pieces += " with costs of several labels together"
        pieces += f" on {problem.structure.described}"
        raise ValueError(
            f"{type(solver).__name__} needs {' and '.join(lacking)}, which a problem with {pieces} does not offer. "
            f"Solvers that fit: {', '.join(fitting) or 'none'}."
        )


def missing(solver: Solver | type[Solver], problem: Problem) -> list[str]:
    """The requirements that a problem does not meet.

    A requirement is the dotted name of something that must exist and be true, ``not`` before a name that must not be,
    or several of these joined by ``or``. What follows ``structure.`` is a field of `Capabilities`.
    """

    def met(term: str) -> bool:
        value: Any = problem
        for part in term.removeprefix("not ").split("."):
            value = value.structure.capabilities if part == "structure" else getattr(value, part, None)
        return bool(value) != term.startswith("not ")

    solver = solver() if isinstance(solver, type) else solver  # what it requires may depend on its options
    return [r for r in solver.requires if not any(map(met, r.split(" or ")))]


class Snapshots:
    """The last position of which all is known here, for fits part of which is on workers that may die.

    Parameters
    ----------
    start : callable
        Makes the first state again.
    """

    every = 10.0
    """Seconds between two copies, at least."""
    share = 0.05
    """Of the time that may go into copies."""
    most = 20
    """Times that a fit goes back to the same position, at most."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.start, self.position, self.n_back = start, Position(None), 0
        self.due = time.monotonic() + self.every
        self.scaled = False  # whether the scale of gaps was known, which is counted as a pass

    def offer(self, position: Position, problem: Problem) -> None:
        """Keep a copy, if it is time and if there is something to lose."""
        if getattr(position.state, "may_be_lost", False) and time.monotonic() >= self.due:
            began = time.monotonic()
            self.position = position._replace(state=position.state.collected(), trace=list(position.trace))
            self.scaled = problem.objective_at_zero is not None
            self.n_back, self.due = 0, time.monotonic() + max(self.every, (time.monotonic() - began) / self.share)

    def last(self, error: WorkerLost) -> Position:
        """Where to go on after a loss."""
        self.n_back += 1
        if self.n_back > self.most:
            raise BackendError(
                f"Workers have died {self.n_back} times since the last copy of what they hold; look at their logs (was "
                "memory short?). A fit with a checkpoint goes on from there."
            ) from error
        state = self.start() if self.position.state is None else self.position.state.collected()
        return self.position._replace(state=state)


def run(
    solver: Solver,
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_passes: int = 1000,
    warm: Any = None,
    seed: Any = None,
    hooks: Sequence[Hook] = (),
    warn: bool = True,
    regularise: str = "a smaller C",
    checkpoint: CheckpointStore | None = None,
) -> Result:
    """Run a solver until its certificate is at most ``tol``, or for ``max_passes`` passes over the data.

    After every look at the certificate all ``hooks`` are called: for progress, callbacks and early stopping.
    One that returns True ends the fit. A hook that has a method ``close`` is closed in the end. A ``checkpoint`` is
    offered the position before every look and every pass; a run that goes on from one has the bits of one that was
    never interrupted. ``regularise`` names the change that regularises more, for a warning where too little of it is
    what makes the fit slow.
    """
    began, oracles = time.perf_counter(), problem.n_oracle
    at = None if checkpoint is None else checkpoint.resume(solver, problem, tol)
    first = deepcopy(seed) if at is None and not problem.backend.local else seed
    if at is None:
        at = Position(solver.start(problem, warm, seed, tol))
    else:
        began, oracles = time.perf_counter() - at.seconds, problem.n_oracle - at.n_oracle
    state, n_pass, trace = at.state, at.n_pass, list(at.trace)
    snapshots, n_seen = Snapshots(lambda: solver.start(problem, warm, deepcopy(first), tol)), len(trace)
    best: Any = None
    reason = "max_passes"
    try:
        while True:
            try:
                now = Position(state, n_pass, trace, time.perf_counter() - began, problem.n_oracle - oracles)
                if checkpoint is not None:
                    checkpoint.offer(now, problem, last=n_pass >= max_passes)
                snapshots.offer(now, problem)
                finished = getattr(state, "finished", False)
                if n_pass >= max_passes or finished or solver.due(problem, state, n_pass, tol):
                    best = solver.evaluate(problem, state)
                    row = TraceRow(
                        n_pass, time.perf_counter() - began, problem.n_oracle - oracles, best.primal, best.dual,
                        best.gap, int(np.count_nonzero(best.w)),
                    )  # fmt: skip
                    trace.append(row)
                    stop = []
                    if len(trace) > n_seen:  # a fit that went back has shown the others
                        n_seen = len(trace)
                        progress = Progress(row, best, solver, problem, state, tol)
                        stop = [hook(progress) for hook in hooks]
                    if best.measure <= tol:
                        reason = "tol"
                        break
                    if finished:
                        reason = finished if isinstance(finished, str) else "stalled"
                        break
                    if any(isinstance(answer, (bool, np.bool_)) and answer for answer in stop):
                        reason = "callback"
                        break
                if n_pass >= max_passes:
                    break
                state = solver.step(problem, state)
                n_pass += 1
            except WorkerLost as error:
                at = snapshots.last(error)
                state, n_pass, trace = at.state, at.n_pass, list(at.trace)
                problem.n_oracle = oracles + at.n_oracle
                if not snapshots.scaled:
                    problem.objective_at_zero = None
    finally:
        for hook in hooks:
            if hasattr(hook, "close"):
                hook.close()
    result = Result(
        best.w, best.eta, best.primal, best.dual, best.gap, best.which, best.cost, n_pass, reason == "tol", reason,
        state, trace,
    )  # fmt: skip
    if warn and reason in ("max_passes", "stalled"):
        what = "gap" if np.isfinite(best.gap) else solver.instead_of_gap
        advice = "raise max_passes or tol" if reason == "max_passes" else "rounding ends the progress: raise tol"
        if nearly_separable(problem, best):
            advice = (
                f"the examples are nearly separable with so little regularisation: {regularise} converges faster and "
                f"often predicts better, and PathSearchCV chooses constants by cross-validation; or {advice}"
            )
        warn_caller(
            f"{type(solver).__name__} stopped after {n_pass} passes with {what} {best.measure:.2g} > tol {tol:.2g}; "
            f"{advice}.",
            ConvergenceWarning,
        )
    return result
