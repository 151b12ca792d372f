"""Self-training, a heuristic for margin models with unlabelled examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.ragged import owners
from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.base import Evaluation, Result, Solver, check_requirements, run
from maxendnet.solvers.concave_convex import ConcaveConvex
from maxendnet.structures.base import Table
from maxendnet.utils.checks import is_number, require_count
from maxendnet.utils.state_fields import Values

ADJUSTMENTS = 10
"""Number of steps that adjust the frequencies of predicted labels to those of the known labels."""


class SelfTrainingState(NamedTuple):
    """The last convex problem, its solution, and the labels that this solution predicts for all nodes."""

    solved: Problem
    result: Result
    rng: np.random.Generator
    tol: float
    labels: Annotated[NDArray[np.int32], Values("nodes", below="labels")]
    changed: float = 1.0
    """Share of the unlabelled nodes whose predicted label changed in the last round."""
    n_rounds: int = 1
    finished: str = ""

    @property
    def best_round(self) -> SelfTrainingState:
        """This state; it has the attributes of a `Round` of `ConcaveConvex` that callers need."""
        return self


@dataclass(eq=False, repr=False)
class SelfTraining(Solver):
    """Self-training, a heuristic: use predictions as labels of unlabelled examples.

    The first round ignores unlabelled examples. Every further round labels them with the previous model and learns from
    all examples. The weight of unlabelled examples increases to ``weight`` over ``rounds`` rounds. A term is added to
    the scores so that the frequencies of predicted labels are close to those of the known labels. The result may be
    worse than that of the first round, because the rounds do not decrease a common objective. ``gap_`` is therefore
    nan, and ``round_gap_`` is the certificate of the last convex problem.

    Parameters
    ----------
    weight : float, default=0.1
        Weight of an unlabelled example in the last round; labelled examples have weight 1.
    rounds : int, default=5
        Number of rounds after the first one.
    inner : Solver or None, default=None
        Solver of the convex problems. None uses the default solver of each problem.
    max_passes : int, default=1000
        Largest number of passes over the data in a round.

    Examples
    --------
    >>> from maxendnet import M3N, UNKNOWN
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.1]], [[0.9], [0.0]]], [["a", "b"], ["b", "a"], UNKNOWN]
    >>> M3N(C=10, solver=SelfTraining(weight=0.5, rounds=2)).fit(X, y).predict(X)
    [['a', 'b'], ['b', 'a'], ['b', 'a']]
    """

    weight: float = 0.1
    rounds: int = 5
    inner: Solver | None = None
    max_passes: int = 1000
    requires: ClassVar[tuple[str, ...]] = ("not loss.smooth", "not label_sets.all_known", "structure.unknown_labels")
    instead_of_gap = "share of labels that changed in a round"

    def check(self) -> None:
        if not (is_number(self.weight) and 0 <= self.weight < np.inf):
            raise ValueError(f"weight must be a finite number of at least 0, got {self.weight!r}.")
        for name in ("rounds", "max_passes"):
            require_count(name, getattr(self, name))

    def start(self, problem: Problem, warm: Any = None, seed: Any = None, tol: float = 1e-3) -> SelfTrainingState:
        self.check()
        rng = np.random.default_rng(seed)
        first = self._with_pseudo_labels(problem, problem.structure.y, 0.0)
        check_requirements(self._inner(first, tol), first)
        return self._solve(problem, first, rng, tol)

    def _inner(self, convex: Problem, tol: float) -> Solver:
        from maxendnet.solvers.choose import default_solver

        if not convex.label_sets.all_known:  # partly labelled examples
            return ConcaveConvex(self.inner)
        return self.inner or default_solver(convex, tol).solver

    def _solve(self, problem: Problem, convex: Problem, rng: np.random.Generator, tol: float) -> SelfTrainingState:
        result = run(self._inner(convex, tol), convex, tol=tol, max_passes=self.max_passes, seed=rng, warn=False)
        problem.n_oracle += convex.n_oracle
        return SelfTrainingState(convex, result, rng, tol, self._labels(problem, result.w))

    def step(self, problem: Problem, state: SelfTrainingState) -> SelfTrainingState:
        factor = self.weight * min(1.0, state.n_rounds / self.rounds)
        new = self._solve(problem, self._with_pseudo_labels(problem, state.labels, factor), state.rng, state.tol)
        nodes = unlabelled(problem)[owners(problem.structure.offsets)]
        changed = float(np.mean(new.labels[nodes] != state.labels[nodes])) if nodes.any() else 0.0
        n_rounds = state.n_rounds + 1
        done = "rounds" if n_rounds > self.rounds else ""
        return new._replace(n_rounds=n_rounds, changed=changed, finished=done)

    def _with_pseudo_labels(self, problem: Problem, labels: NDArray[np.int32], factor: float) -> Problem:
        """Return the problem with ``labels`` as the truth of unlabelled examples, whose weights get a factor."""
        structure, nothing = problem.structure.completed(labels), unlabelled(problem)
        weight = structure.sample_weight * np.where(nothing, factor, 1.0)
        structure = structure.with_pseudo_labels(nothing[owners(structure.offsets)], weight)
        return replace(problem, data=PlacedData(structure, problem.backend), linear_term=None)

    @staticmethod
    def _labels(problem: Problem, w: FloatArray) -> NDArray[np.int32]:
        """Return the best labels that agree with the known ones, with similar frequencies as the known labels."""
        structure, label_sets = problem.structure, problem.label_sets
        nodes = unlabelled(problem)[owners(structure.offsets)]
        known = label_sets.sets.sum(axis=1)[structure.row] == 1
        target_shares = np.bincount(label_sets.label[structure.row[known]], minlength=structure.n_labels) + 0.5
        target_shares = target_shares / target_shares.sum()
        term = np.zeros(structure.n_labels)
        scale = float(np.abs(w).max(initial=0.0)) or 1.0
        for k in range(ADJUSTMENTS):
            table = Table(np.stack([term, np.zeros_like(term)]), np.where(nodes, 0, 1).astype(np.int32))
            labels: NDArray[np.int32] = structure.within_truth.maximum(w, table, backend=problem.backend)[1]
            if not nodes.any():
                break
            counts = np.bincount(labels[nodes], minlength=structure.n_labels) + 0.5
            term += 0.3 * scale / (k + 1) * np.clip(np.log(target_shares / (counts / counts.sum())), -1.0, 1.0)
        return labels

    def due(self, problem: Problem, state: SelfTrainingState, n_pass: int, tol: float) -> bool:
        return n_pass > 0

    def evaluate(self, problem: Problem, state: SelfTrainingState) -> Evaluation:
        result = state.result
        measure = 0.0 if state.finished else max(state.changed, 1.0)
        return Evaluation(result.w, result.eta, result.primal, np.nan, np.nan, measure, result.which, result.cost)


def unlabelled(problem: Problem) -> NDArray[np.bool_]:
    """Return a mask of the examples whose labels are all unknown; examples without nodes are left out."""
    structure, sets = problem.structure, problem.label_sets.sets.astype(bool)
    allowed = structure.batch.allowed.astype(bool)
    if allowed.size:  # a label is unknown if all allowed labels are possible
        of_node: NDArray[np.bool_] = np.asarray((sets[structure.row] == allowed).all(axis=1))
    else:
        of_node = np.asarray(sets.all(axis=1))[structure.row]
    known = np.bincount(owners(structure.offsets), ~of_node, minlength=len(structure.sample_weight))
    values: NDArray[np.bool_] = (known == 0) & (np.diff(structure.offsets) > 0)
    return values
