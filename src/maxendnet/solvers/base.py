"""Base class of the solvers, and the loop that runs them: clock, stopping rule and trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxendnet.backends import BackendError
from maxendnet.piece import Piece
from maxendnet.problem import FloatArray, Problem
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.utils.progress import progress_bar
from maxendnet.utils.state_fields import CHECKED_BY_OWNER, AnyFloat, require
from maxendnet.utils.warn import warn_caller


class TraceRow(NamedTuple):
    """One evaluation during a fit, with the same columns for every solver."""

    n_pass: int
    seconds: float
    n_oracle: int
    primal: AnyFloat
    dual: AnyFloat
    gap: AnyFloat
    n_nonzero: int


class Evaluation(NamedTuple):
    """Weights that the solver would return now, and their certificate."""

    w: FloatArray
    eta: FloatArray | None
    primal: float
    dual: float
    gap: float
    """Relative gap; nan if there is no certificate."""
    measure: float
    """Value that is compared with `tol`: the gap or, if there is no certificate, `Solver.instead_of_gap`."""
    which: str = "last"
    """Which of the iterates is returned: 'last', 'average' or 'best'."""
    cost: float = np.nan
    """``sum alpha l`` of the dual point ``eta``."""

    @classmethod
    def certified(
        cls, problem: Problem, w: FloatArray, eta: FloatArray | None, primal: float, dual: float, which: str = "last",
        cost: float = np.nan,
    ) -> Evaluation:  # fmt: skip
        """Return the evaluation of a point with a known dual value, so that `tol` applies to the relative gap."""
        gap = problem.relative(primal - dual, primal)
        return cls(w, eta, primal, dual, gap, gap, which, cost)


@dataclass
class Result:
    """Solution of a solver, with its certificate and trace."""

    w: FloatArray
    eta: FloatArray | None
    primal: float
    dual: AnyFloat
    gap: AnyFloat
    which: str
    cost: AnyFloat
    n_pass: int
    converged: bool
    reason: str
    state: Any
    trace: Annotated[list[TraceRow], CHECKED_BY_OWNER] = field(default_factory=list)
    solver: str = ""
    """Name of the solver, and the rule that chose it."""

    def check(self, problem: Problem) -> None:
        """Check that the state is a record."""
        require(isinstance(self.state, tuple) or is_dataclass(self.state), "the state of a result is not a record")


class WorkerLost(RuntimeError):
    """A worker died with its state; the fit resumes from the last snapshot."""


class Solver(Piece):
    """Base class of all solvers.

    `run` calls the methods. `start` creates a state, either a new one or one that continues from an earlier state of
    the same solver. `step` makes one pass over the data. `due` decides when to call `evaluate`, which returns the
    current solution with its certificate. `requires` lists what a problem must provide, see `missing`.
    """

    requires: ClassVar[tuple[str, ...]] = ()
    accuracy: ClassVar[float] = 1e-6
    """Smallest relative gap that the solver reaches on small problems in a reasonable number of passes."""
    warm_anywhere: bool = False
    """Whether a state can start a fit to other examples or costs; true if it contains weights but no dual variables."""
    instead_of_gap: str = "relative gradient norm"
    """Description of the quantity that `tol` is compared with when there is no certificate."""

    def reachable_gap(self, problem: Problem) -> float:
        """Return the smallest relative gap that the solver reaches on this problem in a reasonable number of passes."""
        return self.accuracy

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = {field.name for field in fields(Capabilities)}
        for requirement in (
            cls.requires if isinstance(cls.requires, tuple) else ()
        ):  # else a property: it depends on options
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
        """Return a state for a warm start if only the target labels have changed, or None if this is not possible."""
        return None

    def support(self, problem: Problem, state: Any) -> Support | Callable[[], Support] | None:
        """Return the labellings with dual weight or a function that returns them, or None if they are unknown."""
        return None

    def due(self, problem: Problem, state: Any, n_pass: int, tol: float) -> bool:
        """Whether to call `evaluate` after this pass; it may cost as much as a pass."""
        return True


def require_solver_or_none(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the option is a solver or None."""
    if not (value is None or isinstance(value, Solver)):
        raise ValueError(f"{name} must be a solver such as BlockFrankWolfe(), or None, got {value!r}.")


class Support(NamedTuple):
    """Labellings with dual weight other than the true ones."""

    examples: NDArray[np.int64]
    """Example of each labelling."""
    weights: FloatArray
    """Dual weight of each labelling."""
    labels: NDArray[np.int32]
    """Labels of all labellings, concatenated."""


class Progress(NamedTuple):
    """Argument of the hooks: the last evaluation, and the current state of the fit."""

    row: TraceRow
    evaluation: Evaluation
    solver: Solver
    problem: Problem
    state: Any
    tol: float


class Position(NamedTuple):
    """State of a fit between two passes: everything that it needs to resume."""

    state: Any
    n_pass: int = 0
    trace: Sequence[TraceRow] = ()
    seconds: float = 0.0
    n_oracle: int = 0


class CheckpointStore(Protocol):
    """Store of positions, from which an interrupted fit resumes; see `maxendnet.models.checkpoint`."""

    def resume(self, solver: Solver, problem: Problem, tol: float) -> Position | None:
        """Return the position to resume from; None to start from the beginning."""
        ...

    def offer(self, position: Position, problem: Problem, last: bool = False) -> None:
        """Save a position if it is time; its state may change in the next pass."""
        ...


Hook = Callable[[Progress], Any]
"""Called after every evaluation. If it returns True, the fit stops with the ``reason`` "callback"."""


class Monitor:
    """Hook that shows the progress of a fit and estimates the remaining time.

    Level 0 prints nothing, 1 updates a progress bar, 2 prints a line for every evaluation.
    """

    name: str
    verbose: int

    def __init__(self, verbose: int = 0, name: str = "fit") -> None:
        self.verbose, self.name = verbose, name
        self.bar: Any = None
        self.measures: list[tuple[float, float]] = []

    def __call__(self, progress: Progress) -> None:
        if not self.verbose:
            return
        row, tol = progress.row, progress.tol
        text = f"primal {row.primal:.6g}  dual {row.dual:.6g}  gap {row.gap:.2e} (tol {tol:.0e})"
        self.measures = [*self.measures, (row.seconds, progress.evaluation.measure)][-N_EVALUATIONS_OF_TREND:]
        left = seconds_left(self.measures, tol)
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


N_EVALUATIONS_OF_TREND = 6
NEARLY_SEPARABLE = 0.05
"""Loss per node, relative to that of zero weights, below which weak regularisation makes a fit slow (measured on OCR,
see benchmarks/SOLVERS.md)."""


def seconds_left(measures: Sequence[tuple[float, float]], tol: float) -> float | None:
    """Estimate the seconds until the gap is below ``tol``, from the trend of its logarithm.

    Returns None if there are too few evaluations or the gap does not decrease.

    Parameters
    ----------
    measures : sequence of (seconds, gap)
    tol : float

    Examples
    --------
    >>> round(seconds_left([(1.0, 1e-1), (2.0, 1e-2)], 1e-4), 6)
    2.0
    >>> seconds_left([(1.0, 0.1), (2.0, 0.1)], 1e-4)
    """
    at, gaps = np.array([row for row in measures if np.isfinite(row[1]) and row[1] > 0]).reshape(-1, 2).T
    if len(at) < 2 or not np.ptp(at) > 0:
        return None
    slope = float(np.polyfit(at - at.mean(), np.log(gaps), 1)[0])
    if not slope < 0:
        return None
    return max(0.0, float(np.log(gaps[-1] / tol)) / -slope)


def nearly_separable(problem: Problem, at: Evaluation) -> bool:
    """Whether the loss is so small that stronger regularisation would speed up convergence."""
    loss, at_zero = at.primal - problem.prior.penalty(at.w), problem.at_zero
    if problem.loss.smooth:  # at zero weights the log loss of a node is the logarithm of its number of labels
        at_zero /= np.log(max(problem.structure.n_labels, 2))
    return bool(loss < NEARLY_SEPARABLE * at_zero)


def check_requirements(solver: Solver, problem: Problem) -> None:
    """Raise ``ValueError`` if the problem does not meet the requirements of the solver.

    The message lists the solvers that accept the problem.
    """
    lacking = missing(solver, problem)
    if lacking:
        from maxendnet import solvers  # only this message needs all solvers

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
    """Return the requirements that a problem does not meet.

    A requirement is the dotted name of an attribute that must exist and be true, ``not`` and a name that must be
    absent or false, or several of these joined by ``or``. A name after ``structure.`` is a field of `Capabilities`.
    """

    def met(term: str) -> bool:
        value: Any = problem
        for part in term.removeprefix("not ").split("."):
            value = value.structure.capabilities if part == "structure" else getattr(value, part, None)
        return bool(value) != term.startswith("not ")

    solver = solver() if isinstance(solver, type) else solver  # requirements may depend on options
    return [r for r in solver.requires if not any(map(met, r.split(" or ")))]


class Snapshots:
    """Copies of the position of a fit whose state is partly on workers, which may die.

    Parameters
    ----------
    start : callable
        Function that creates the initial state again.
    """

    start: Callable[[], Any]
    position: Position
    n_back: int
    due: float
    scaled: bool

    every: float = 10.0
    """Smallest number of seconds between two copies."""
    share: float = 0.05
    """Largest share of the running time that copies may take."""
    most = 20
    """Largest number of times that a fit resumes from the same position."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.start, self.position, self.n_back = start, Position(None), 0
        self.due = time.monotonic() + self.every
        self.scaled = False  # whether the scale of gaps was known at the copy, because computing it counts as a pass

    def offer(self, position: Position, problem: Problem) -> None:
        """Copy the position if its state is on workers and enough time has passed since the last copy."""
        if getattr(position.state, "may_be_lost", False) and time.monotonic() >= self.due:
            began = time.monotonic()
            self.position = position._replace(state=position.state.collected(), trace=list(position.trace))
            self.scaled = problem.objective_at_zero is not None
            self.n_back, self.due = 0, time.monotonic() + max(self.every, (time.monotonic() - began) / self.share)

    def last(self, error: WorkerLost) -> Position:
        """Return the position to resume from after a worker died."""
        self.n_back += 1
        if self.n_back > self.most:
            raise BackendError(
                f"Workers have died {self.n_back} times since the last copy of their state. Check their logs: they may "
                "have run out of memory. A fit with a checkpoint resumes from it."
            ) from error
        state = self.start() if self.position.state is None else self.position.state.collected()
        return self.position._replace(state=state)


def run(
    solver: Solver,
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_passes: int = 10_000,
    warm: Any = None,
    seed: Any = None,
    hooks: Sequence[Hook] = (),
    warn: bool = True,
    regularise: str = "a smaller C",
    checkpoint: CheckpointStore | None = None,
) -> Result:
    """Run a solver until its gap is at most ``tol``, or for ``max_passes`` passes.

    Parameters
    ----------
    solver : Solver
    problem : Problem
    tol : float, default=1e-3
        Relative duality gap at which the run stops.
    max_passes : int, default=10_000
    warm : state of a solver or None, default=None
        State of a similar run, for a warm start.
    seed : int, Generator or None, default=None
    hooks : sequence of callable, default=()
        Called after every evaluation, for progress, callbacks and early stopping. A hook that returns True ends the
        run. Hooks with a method ``close`` are closed at the end.
    warn : bool, default=True
        Whether to warn if the gap exceeds ``tol`` at the end.
    regularise : str, default="a smaller C"
        Change of hyper-parameters that regularises more, for that warning.
    checkpoint : CheckpointStore or None, default=None
        Stores the position before every evaluation and every pass. A resumed run is bit-for-bit identical to an
        uninterrupted one.

    Returns
    -------
    Result

    Examples
    --------
    >>> from maxendnet import Chain, Examples, Gaussian, Hinge
    >>> from maxendnet.problem.problem import Problem
    >>> from maxendnet.solvers import BlockFrankWolfe, run
    >>> examples = Examples.build([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> problem = Problem.pose(Chain().bind(examples, ["a", "b"]), Hinge(), Gaussian(), 1.0)
    >>> run(BlockFrankWolfe(), problem, seed=0).converged
    True
    """
    began, oracles = time.perf_counter(), problem.n_oracle
    at = None if checkpoint is None else checkpoint.resume(solver, problem, tol)
    first = deepcopy(seed) if at is None and not problem.backend.local else seed
    if at is None:
        at = Position(solver.start(problem, warm, seed, tol))
    else:
        began, oracles = time.perf_counter() - at.seconds, problem.n_oracle - at.n_oracle
    state, n_pass, trace = at.state, at.n_pass, list(at.trace)
    snapshots, n_shown = Snapshots(lambda: solver.start(problem, warm, deepcopy(first), tol)), len(trace)
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
                    if len(trace) > n_shown:  # after a worker was lost, hooks are not called again for the same rows
                        n_shown = len(trace)
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
        measure_name = "gap" if np.isfinite(best.gap) else solver.instead_of_gap
        advice = "raise max_passes or tol" if reason == "max_passes" else "rounding limits the accuracy: raise tol"
        reachable = solver.reachable_gap(problem)
        if tol < reachable and reachable > Solver.accuracy:
            advice = f"it is designed for gaps of at least {reachable:g}: try another solver=, or {advice}"
        if nearly_separable(problem, best):
            advice = (
                f"the examples are nearly separable with so little regularisation: {regularise} converges faster and "
                f"often predicts better, and PathSearchCV selects hyper-parameters by cross-validation; or {advice}"
            )
        warn_caller(
            f"{type(solver).__name__} stopped after {n_pass} passes with {measure_name} {best.measure:.2g} > "
            f"tol {tol:.2g}; {advice}.",
            ConvergenceWarning,
        )
    return result
