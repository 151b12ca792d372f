"""Checks of solver states read from checkpoints: types, shapes, ranges, and the bounds that they claim.

The records of a state declare what they contain (`utils.state_fields`). This module compares a state with these
declarations, and calls the ``check`` of its records.

A state also claims numbers that a certificate is built from. Those that follow from the rest of the state are
recomputed by the records. A dual point ``(eta, cost)`` must satisfy ``cost - eta . w <= C * sum of losses at w`` at all
weights of the state (weak duality), and no dual value may exceed an objective. This takes a few passes over the data.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.models.checks import ModelFileError, number, vector
from maxendnet.piece import Piece
from maxendnet.priors import Gaussian
from maxendnet.priors.base import offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.base import Solver, TraceRow
from maxendnet.solvers.lbfgs import SmoothState
from maxendnet.solvers.variational import VariationalState
from maxendnet.structures.weights.padding import lanes
from maxendnet.utils.state_fields import CHECKED_BY_OWNER, Values, require_equal, require_shape, rounding_of

SIZES: dict[str, Callable[[Problem], int]] = {
    "weights": lambda problem: problem.n_weights,
    "examples": lambda problem: problem.n_examples,
    "nodes": lambda problem: int(problem.structure.offsets[-1]),
    "labels": lambda problem: problem.structure.n_labels,
    "lanes": lambda problem: lanes(problem.structure.layout),
    "edge_types": lambda problem: problem.structure.layout.n_edge_types,
    "blocks": lambda problem: problem.structure.blocks.size,
}
"""Sizes of a problem that declarations refer to."""
POINTS = (("eta", "cost"), ("eta", "gain"), ("mean_eta", "mean_cost"), ("average", "average_cost"))
"""Names of the fields of a dual point."""


def check_state(state: Any, solver: Solver, problem: Problem, n_pass: int, tol: float, at_zero: float | None) -> None:
    """Raise `ValueError` unless a state is one that a solver of this problem could have written.

    Parameters
    ----------
    state : record of the solver
    solver : Solver
    problem : Problem
    n_pass : int
    tol : float
        Tolerance of the fit.
    at_zero : float or None
        Objective at zero weights according to the file.
    """
    _check_type(state, get_type_hints(type(solver).start)["return"], problem, "the state")
    problem = problem.replace()  # so that oracle calls are not counted
    if at_zero is not None:
        require_equal(at_zero, problem.at_zero, "the objective at zero weights", rounding=rounding_of(problem))
    if not isinstance(state, SmoothState) and getattr(state, "tol", tol) != tol:  # LBFGS does not set it
        _refuse(state.tol, "tol of the state", repr(tol))
    _walk(state, problem, "the state", ProbeWeights(state, problem.n_weights))
    best = getattr(state, "best_round", state)
    if n_pass > 0 and getattr(best, "result", getattr(best, "inner", best)) is None:
        raise ModelFileError(f"the state has no solution after {n_pass} passes")


class ProbeWeights:
    """Zero and all weights in a state, and the losses at them. Each dual point of the state is tested there."""

    def __init__(self, state: Any, n_weights: int) -> None:
        self.weights = [np.zeros(n_weights), *_weights_in(state, n_weights)]
        self._losses: dict[int, tuple[Problem, list[float]]] = {}

    def losses(self, problem: Problem) -> list[float]:
        """Return C times the sum of losses at each of the weights."""
        if id(problem) not in self._losses:
            self._losses[id(problem)] = problem, [_loss_at(w, problem) for w in self.weights]
        return self._losses[id(problem)][1]


def _weights_in(value: Any, n_weights: int) -> Iterator[FloatArray]:
    """Yield the weights in the records of a value."""
    if _is_record(value):
        kind: type = type(value)
        for name in _hints(kind):
            entry = getattr(value, name)
            if name in ("w", "mu") and isinstance(entry, np.ndarray) and entry.shape == (n_weights,):
                if np.isfinite(entry).all():
                    yield entry
            else:
                yield from _weights_in(entry, n_weights)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _weights_in(item, n_weights)


def _walk(value: Any, problem: Problem, where: str, probes: ProbeWeights | None = None, check: bool = True) -> None:
    """Check the records in a value that is part of a state of this problem. ``probes`` is None without dual points."""
    if not _is_record(value):
        for item in value if isinstance(value, (tuple, list)) else ():
            _walk(item, problem, where, probes, check)
        return
    kind: type = type(value)
    hints, sizes = _hints(kind), dict[str, int]()
    for name, hint in hints.items():
        _check_type(getattr(value, name), hint, problem, f"{name} of {where}", sizes, _default(kind, name))
    inside = _problem_inside(value, problem)
    for name, hint in hints.items():
        owned = CHECKED_BY_OWNER in getattr(hint, "__metadata__", ())
        # the dual points of a sequence of smooth problems are those of the problem itself
        belongs_to = problem if hasattr(value, "soft") and name != "inner" else inside
        _walk(getattr(value, name), belongs_to, f"{name} of {where}", probes, check=not owned)
    if check:
        belongs_to = problem if hasattr(value, "soft") else inside
        if hasattr(value, "check"):
            value.check(belongs_to)
        if probes is not None:
            _check_claims(value, belongs_to, probes)


def _is_record(value: Any) -> bool:
    if isinstance(value, tuple):
        return hasattr(value, "_fields")
    return is_dataclass(value) and not isinstance(value, (Piece, Problem, PlacedData))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Return the declarations of the fields of a record; those that are not compared are not saved, and so None."""
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, tuple):
        return {name: hints[name] for name in kind._fields}
    return {field.name: hints[field.name] if field.compare else None for field in fields(kind)}


def _default(kind: Any, name: str) -> Any:
    """Return the default of a field, which may be infinite or NaN until the first evaluation."""
    return kind._field_defaults.get(name) if issubclass(kind, tuple) else kind.__dataclass_fields__[name].default


def _problem_inside(record: Any, problem: Problem) -> Problem:
    """Return the problem to which the records inside a record belong."""
    for name in ("soft", "problem", "solved"):
        if getattr(record, name, None) is not None:
            inside: Problem = getattr(record, name).replace()
            return inside
    if isinstance(record, VariationalState) and record.used_variance is not None:
        return problem.replace(prior=Gaussian(record.used_variance))
    return problem


# ---- types ----------------------------------------------------------------------------------------------------------


def _check_type(
    value: Any, hint: Any, problem: Problem, where: str, sizes: dict[str, int] | None = None, default: Any = None
) -> None:
    """Check a value against a type annotation. ``sizes`` are those that the record has used so far."""
    declared = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        declared = next((extra for extra in extras if isinstance(extra, Values)), None)
    values, sizes = declared or Values(), {} if sizes is None else sizes
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        if declared is not None:
            _check_sparse(value, values, problem, where, sizes)
    elif hint is None or hint is type(None):
        if value is not None:
            _refuse(value, where, "null")
    elif origin in (Union, types.UnionType):
        options = [part for part in parts if part is not type(None)]
        if value is not None or len(options) == len(parts):
            _check_type(value, options[0], problem, where, sizes, default)
    elif origin in (tuple, list):
        if type(value) is not origin:
            _refuse(value, where, f"a {origin.__name__}")
        for k, item in enumerate(value):
            _check_type(item, parts[0], problem, f"{where}[{k}]", sizes)
    elif origin is np.ndarray:
        dtype = get_args(parts[1])[0] if len(parts) > 1 else None
        _check_array(value, None if dtype is Any else dtype, values, problem, where, sizes)
    elif hint is float:
        also = (*values.also, *((default,) if isinstance(default, float) else ()))
        if type(value) not in (float, np.float64, int):
            _refuse(value, where, "a number")
        if not (np.isfinite(value) or any(np.array_equal(value, special, equal_nan=True) for special in also)):
            _refuse(value, where, "a finite number")
        if values.low is not None and not value >= values.low:
            _refuse(value, where, "a positive number" if values.low > 0 else "a number of at least 0")
    elif hint is int:
        low = values.low or 0
        if type(value) is not int or not low <= value < 2**53:
            _refuse(value, where, f"a whole number of at least {low}")
    elif hint is bool:
        if not isinstance(value, (bool, np.bool_)):
            _refuse(value, where, "true or false")
    elif isinstance(hint, type) and not isinstance(value, hint):
        _refuse(value, where, f"a {hint.__name__}")


def _check_array(
    value: Any, dtype: type | None, values: Values, problem: Problem, where: str, sizes: dict[str, int]
) -> None:
    wanted: Any = np.int64 if dtype is np.intp else dtype
    floats = (np.float32, np.float64)
    if not isinstance(value, np.ndarray) or not (value.dtype == wanted if wanted else value.dtype in floats):
        _refuse(value, where, f"an array of {wanted.__name__ if wanted else 'floats'}")
    _check_shape(value, values, problem, where, sizes)
    if value.dtype.kind == "f":
        refused = ~(np.isfinite(value) | np.isin(value, values.also))
        if refused.any():
            raise ModelFileError(f"{where} contains {value[refused][0]}, where finite numbers are expected")
    if values.below:
        _check_within(value, SIZES[values.below](problem), where)
    if values.low is not None and not np.all(value >= values.low):
        raise ModelFileError(f"{where} contains {value.min()}, expected at least {values.low}")


def _check_shape(value: Any, values: Values, problem: Problem, where: str, sizes: dict[str, int]) -> None:
    """Check the shape of an array or sparse matrix, and note the sizes that are not those of the problem."""
    if values.shape == "any" or (values.may_be_empty and value.shape == (0,)):
        return
    names = values.shape.split()
    if len(names) == value.ndim:
        expected = tuple(
            SIZES[name](problem) if name in SIZES else sizes.setdefault(name, size)
            for name, size in zip(names, value.shape)
        )
    if len(names) != value.ndim or value.shape != expected:
        _refuse(value, where, f"the shape ({', '.join(names)})")


def _check_sparse(value: Any, values: Values, problem: Problem, where: str, sizes: dict[str, int]) -> None:
    if not (isinstance(value, sparse.csr_array) and value.dtype == np.float64 and np.isfinite(value.data).all()):
        _refuse(value, where, "sparse rows of finite float64 numbers")
    _check_shape(value, values, problem, where, sizes)


def _check_within(positions: np.ndarray, limit: int, where: str) -> None:
    if positions.size and not (positions.min() >= 0 and positions.max() < limit):
        raise ModelFileError(f"{where} contains a number outside 0 to {limit - 1}")


def _refuse(value: Any, where: str, expected: str) -> None:
    shown = f"an array of shape {value.shape} and dtype {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
    raise ModelFileError(f"{where} is {shown if len(shown) <= 80 else shown[:77] + '...'}, expected {expected}")


# ---- bounds ---------------------------------------------------------------------------------------------------------


def _check_claims(record: Any, problem: Problem, probes: ProbeWeights) -> None:
    """Check the objective, dual points and dual value of a record against the examples."""
    kind: type = type(record)
    hints = _hints(kind)
    if not problem.convex:
        return
    objective, floor, rounding = np.inf, 1e-3 * abs(problem.at_zero), rounding_of(problem)
    if {"w", "primal"} <= hints.keys() and record.w is not None and np.isfinite(record.primal):
        objective = problem.primal(record.w)
        require_equal(record.primal, objective, "the objective", floor, rounding)
    # an iterate whose examples use a share of their dual weight is that share of a dual point
    share = float(record.mass.max(initial=0.0)) if "mass" in hints else 1.0
    for eta_name, cost_name in POINTS:
        if not {eta_name, cost_name} <= hints.keys() or not _has_entry_per_weight(hints[eta_name]):
            continue
        eta, cost = getattr(record, eta_name), getattr(record, cost_name)
        if eta is None or not eta.size or not np.isfinite(cost):
            continue
        extra = list(_extra_weights(eta, problem))
        losses = probes.losses(problem) + [_loss_at(w, problem) for w in extra]
        for w, loss in zip(probes.weights + extra, losses):
            scale = max(loss, abs(float(eta @ w)), floor)
            if not cost - float(eta @ w) <= share * loss + rounding * scale:
                raise ModelFileError("a dual point exceeds the objective (weak duality)")
            penalty = problem.prior.penalty(w)
            objective = min(objective, penalty + loss) if np.isfinite(penalty) else objective
    highest = min(objective, problem.at_zero)
    if "dual" in hints and record.dual > highest + rounding * max(abs(highest), floor):
        raise ModelFileError(f"the dual value {record.dual} exceeds the objective {highest}")


def _loss_at(w: FloatArray, problem: Problem) -> float:
    return float(problem.C * problem.loss_and_gradient(w, gradient=False).loss)


def _has_entry_per_weight(hint: Any) -> bool:
    """Whether an array is declared to have the shape of the weights."""
    return all(extra.shape == "weights" for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Values))


def _extra_weights(eta: FloatArray, problem: Problem) -> Iterator[FloatArray]:
    """Yield the weights at which this dual point is tested in addition: opposite, and implied by it."""
    largest = float(np.abs(eta).max(initial=0.0))
    if largest > 0:  # here the loss is at least |eta|^2 / (C largest)
        yield -eta / largest
    if not offers(problem.prior, "exact", "conjugate"):
        return
    cumulant, mean = problem.dual_prior.cumulant, problem.dual_prior.mean
    share = 1.0
    while not np.isfinite(cumulant(share * eta)) and share > 1e-9:
        share *= 0.5
    w = mean(share * eta)
    if np.isfinite(w).all() and np.isfinite(problem.prior.penalty(w)):
        yield w


def check_placed(changes: dict[str, Any], problem: Problem) -> None:
    """Check changed fields of examples: target labels, label sets and weights."""
    n_nodes, n_labels = int(problem.structure.offsets[-1]), problem.structure.n_labels
    sets: Any = changes.get("label_sets", problem.batch.label_sets)
    if "label_sets" in changes:
        arrays = ((sets.sets, np.uint8), (sets.label, np.int32), (sets.weight, np.float64))
        if not all(isinstance(array, np.ndarray) and array.dtype == dtype for array, dtype in arrays):
            raise ModelFileError("the label sets have other types")
        require_shape(sets.sets, (len(sets.label), n_labels), "the label sets")
        require_shape(sets.weight, (len(sets.label),), "the weights of label sets")
        _check_within(sets.sets, 2, "the label sets")
        _check_within(sets.label, n_labels, "the targets of label sets")
        vector(sets.weight, len(sets.label), "the weights of label sets", negative=False)
    for name, limit in (("y", n_labels), ("row", len(sets.label))):
        values = changes.get(name, getattr(problem.batch, name))
        if not (isinstance(values, np.ndarray) and values.dtype == np.int32 and values.shape == (n_nodes,)):
            _refuse(values, name, f"{n_nodes} int32 numbers")
        _check_within(values, limit, name)
    if "sample_weight" in changes:
        vector(changes["sample_weight"], problem.n_examples, "sample_weight", negative=False)


def check_problem(inner: Problem, problem: Problem) -> None:
    """Check a problem within a state: it must be one that a solver could have derived from the problem of the fit."""
    if inner.C != problem.C:
        _refuse(inner.C, "C of a problem", repr(problem.C))
    if inner.linear_term is not None:
        vector(inner.linear_term, problem.n_weights, "linear_term of a problem")
    if type(inner.loss) is not type(problem.loss) and not isinstance(inner.loss, SoftHinge):
        _refuse(inner.loss, "the loss of a problem", repr(problem.loss))
    for name in ("cost", "slack", "class_weight", "joint_costs"):
        theirs, ours = getattr(inner.loss, name, None), getattr(problem.loss, name, None)
        if not _same(theirs, ours):
            raise ModelFileError(f"{name} of the loss of a problem is another than that of the fit")
    if not np.isfinite(inner.prior.penalty(inner.first_weights(0))):
        raise ModelFileError("the prior of a problem belongs to other weights")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def check_position(n_pass: Any, seconds: Any, n_oracle: Any, trace: list[TraceRow], problem: Problem) -> None:
    """Check the counters and the trace of a checkpoint."""
    for value, name in ((n_pass, "n_pass"), (n_oracle, "n_oracle")):
        _check_type(value, int, problem, name)
    if number(seconds, "seconds") < 0:
        raise ModelFileError(f"seconds is {seconds}, expected at least 0")
    for row in trace:
        _walk(row, problem, "a row of the trace")


__all__ = ["check_placed", "check_position", "check_problem", "check_state"]
