"""Checks of solver states read from checkpoints: types, shapes, ranges, and the bounds that they claim.

Types follow from the annotations of the record classes, shapes from the problem. A vector of floats has one finite
entry per weight unless a table below says otherwise, so a new record is checked from the day it is defined.

A state also claims numbers that a certificate is built from. Those that follow from the rest of the state are
recomputed. A dual point ``(eta, cost)`` must satisfy ``cost - eta . w <= C * sum of losses at w`` at the weights of the
state (weak duality), and no dual value may exceed an objective. This takes a few passes over the data.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from maxendnet.data.ragged import gather
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.models.checks import ModelFileError, number, vector
from maxendnet.piece import Piece
from maxendnet.priors import Gaussian
from maxendnet.priors.base import offers
from maxendnet.problem import FloatArray, Problem
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers.base import Result, Solver, TraceRow
from maxendnet.solvers.block_frank_wolfe import DualState
from maxendnet.solvers.blocks.updates import BlockState
from maxendnet.solvers.certificate.dual_mixture import DualPoint
from maxendnet.solvers.concave_convex import Round, RoundsState
from maxendnet.solvers.curvature.factor import Factor
from maxendnet.solvers.cutting_plane import CuttingPlaneState
from maxendnet.solvers.interior_point import PathState
from maxendnet.solvers.lbfgs import Curvature, Search, SmoothState
from maxendnet.solvers.potential_ascent import PotentialAscent, PotentialState
from maxendnet.solvers.proximal_ascent import (
    ProximalAscent,
    ProximalAscentState,
    penalty_factors,
    relative_variances,
)
from maxendnet.solvers.proximal_point import ProximalState
from maxendnet.solvers.reference.constraint_generation import ProgrammeState
from maxendnet.solvers.reference.exponentiated_gradient import GibbsState
from maxendnet.solvers.reference.extragradient import Gibbs, SaddleState
from maxendnet.solvers.reference.smo import LabellingState, with_sums
from maxendnet.solvers.self_training import SelfTrainingState
from maxendnet.solvers.smoothing import SmoothingState
from maxendnet.solvers.subgradient import Candidate, Corner, Iterate, SubgradientState, corner_at, geometry_of
from maxendnet.solvers.subproblems.cuts import Cuts, violated
from maxendnet.solvers.variational import VariationalState
from maxendnet.structures.base import sums
from maxendnet.structures.weights.padding import lanes

ROUNDING = 1e-6
"""Largest difference of a recomputed number, relative to the objective. Sums over shards differ by 1e-12."""
ROUNDING_SINGLE = 1e-3
"""The same for passes in float32."""
ROUNDING_RELAXED = 1e-2
"""The same for relaxed inference, whose messages are not saved."""

OTHER_TYPES: dict[tuple[type, str], Any] = {
    (ProximalAscentState, "w"): FloatArray | None,
    (ProximalAscentState, "eta"): FloatArray | None,
    (ProximalState, "w"): FloatArray | None,
    (VariationalState, "inner"): Result | None,
    (DualState, "held"): None,
    (SubgradientState, "fingerprint"): str,
}
"""Types of fields whose annotations are wider."""
SHAPED_BELOW = {
    (DualState, "eta"), (DualState, "average"), (BlockState, "eta"), (BlockState, "weights"), (BlockState, "gaps"),
    (Iterate, "mass"), (Iterate, "w"), (Curvature, "between"), (Curvature, "covered"), (Factor, "lower"),
    (Factor, "size"), (Cuts, "examples"), (Cuts, "gains"), (Cuts, "idle"), (CuttingPlaneState, "gram"),
    (LabellingState, "examples"), (LabellingState, "alpha"), (LabellingState, "labels"),
    (ProximalAscentState, "centre"), (ProximalAscentState, "last_weights"), (SelfTrainingState, "labels"),
    *((PotentialState, name) for name in PotentialState.__dataclass_fields__),
}  # fmt: skip
"""Arrays that do not have one entry per weight."""
POSITIVE = {
    (Curvature, "first"), (Curvature, "curves"), (Factor, "size"), (VariationalState, "variance"),
    (VariationalState, "used_variance"), (PathState, "width"), (PathState, "near"), (ProximalState, "tau"),
    (ProximalAscentState, "tau"), (PotentialState, "row_variance"),
    (SaddleState, "total"), (SaddleState, "size"), (GibbsState, "step"),
    (SmoothState, "first_norm"), (BlockState, "C"), (DualState, "C"), (SubgradientState, "C"), (SaddleState, "C"),
    (CuttingPlaneState, "C"), (RoundsState, "decrease"),
    (RoundsState, "round_tol"), (VariationalState, "inner_tol"), (VariationalState, "loose"),
}  # fmt: skip
"""Numbers that are at least 0."""
NEGATIVE_COUNTS = {(SmoothingState, "mixed")}


class Points(NamedTuple):
    """Names of the fields of a record that claim bounds."""

    points: tuple[tuple[str, str], ...] = ()
    """Dual points: eta and cost."""
    dual: str = ""
    primal: tuple[str, str] | tuple[()] = ()
    """Weights and their objective."""


CLAIMS: dict[type, Points] = {
    DualPoint: Points((("eta", "cost"),)),
    DualState: Points((("average", "average_cost"),)),
    SaddleState: Points((("eta", "cost"), ("mean_eta", "mean_cost"))),
    Gibbs: Points((("eta", "cost"),)),
    GibbsState: Points((("eta", "cost"),)),
    Iterate: Points((("eta", "gain"),)),
    Corner: Points((("eta", "gain"),)),
    Candidate: Points(primal=("w", "primal")),
    LabellingState: Points((("eta", "cost"),)),
    CuttingPlaneState: Points((("eta", "gain"),), "dual", ("w", "primal")),
    ProgrammeState: Points((), "dual", ("w", "primal")),
    SmoothingState: Points((), "dual"),
    PathState: Points((), "dual", ("w", "primal")),
    ProximalState: Points((), "dual", ("w", "primal")),
    ProximalAscentState: Points((), "dual", ("w", "primal")),
    Search: Points((), "dual"),
    Result: Points((("eta", "cost"),), "dual", ("w", "primal")),
}


def check_state(state: Any, solver: Solver, problem: Problem, n_pass: int, tol: float, at_zero: float | None) -> None:
    """Raise `ModelFileError` unless a state is one that a solver of this problem could have written.

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
        _equal(at_zero, problem.at_zero, problem.at_zero, "the objective at zero weights", _rounding(problem))
    if isinstance(state, (RoundsState, SelfTrainingState, SmoothingState, PathState)) and state.tol != tol:
        _refuse(state.tol, "tol of the state", repr(tol))
    _walk(state, type(state), problem, "the state")
    solution = state.best_round.result if isinstance(state, RoundsState) else getattr(state, "inner", state)
    if solution is None and n_pass > 0:
        raise ModelFileError(f"the state has no solution after {n_pass} passes")


def _walk(value: Any, hint: Any, problem: Problem, where: str) -> None:
    """Check a value that is part of a state of this problem."""
    _check_type(value, hint, problem, where)
    if not _is_record(value):
        if isinstance(value, (tuple, list)):
            for item in value:
                _walk(item, Any, problem, where)
        return
    kind: Any = type(value)
    inside = _problem_inside(value, problem)
    for name, its_hint in _hints(kind).items():
        item, key, its_name = getattr(value, name), (kind, name), f"{name} of {where}"
        _check_type(item, its_hint, inside, its_name, key)
        if kind is not TraceRow and (kind, name) != (ProximalAscentState, "inner"):  # its arrays are on the working set
            _walk(item, Any, inside, its_name)
    if kind in CHECKS:
        CHECKS[kind](value, inside)
    _check_claims(value, problem if kind in (SmoothingState, PathState) else inside)


def _is_record(value: Any) -> bool:
    if isinstance(value, tuple):
        return hasattr(value, "_fields")
    return is_dataclass(value) and not isinstance(value, (Piece, Problem, PlacedData))


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    names = kind._fields if issubclass(kind, tuple) else kind.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: OTHER_TYPES.get((kind, name), hints[name]) for name in names}


def _problem_inside(record: Any, problem: Problem) -> Problem:
    """Return the problem to which the fields of a record belong."""
    if isinstance(record, (SmoothingState, PathState)):
        return record.soft.replace()
    if isinstance(record, (DualState, LabellingState, ProximalState)):
        return record.problem.replace()
    if isinstance(record, VariationalState) and record.used_variance is not None and record.inner is not None:
        vector(record.used_variance, problem.n_weights, "used_variance", negative=False)
        return problem.replace(prior=Gaussian(record.used_variance))
    if isinstance(record, Round) and record.solved is not None:
        return record.solved.replace()
    if isinstance(record, SelfTrainingState):
        return record.solved.replace()
    return problem


# ---- types ----------------------------------------------------------------------------------------------------------


def _check_type(value: Any, hint: Any, problem: Problem, where: str, key: Any = None) -> None:
    """Check a value against a type annotation; ``key`` is the record class and the name of the field."""
    if hint is Any:
        return
    if hint is None or hint is type(None):
        if value is not None:
            _refuse(value, where, "null")
        return
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [part for part in parts if part is not type(None)]
        if value is not None or len(options) == len(parts):
            _check_type(value, options[0], problem, where, key)
    elif origin in (tuple, list):
        if type(value) is not origin:
            _refuse(value, where, f"a {origin.__name__}")
        for k, item in enumerate(value):
            _check_type(item, parts[0], problem, f"{where}[{k}]", key)
    elif origin is np.ndarray:
        dtype = get_args(parts[1])[0] if len(parts) > 1 else None
        dtype = None if dtype is Any else dtype
        _check_array(value, dtype if isinstance(dtype, type) else None, problem, where, key)
    elif hint is float:
        if type(value) not in (float, np.float64) and type(value) is not int:
            _refuse(value, where, "a number")
        default = _default(key)
        same = isinstance(default, float) and (value == default or (np.isnan(default) and np.isnan(value)))
        if not (np.isfinite(value) or same or (key and (key[0], key[1]) in MAY_BE_ANYTHING)):
            _refuse(value, where, "a finite number")
        if key in POSITIVE and not value >= 0:
            _refuse(value, where, "a number of at least 0")
    elif hint is int:
        if type(value) is not int or (value < 0 and not (key in NEGATIVE_COUNTS and value == -1)) or value >= 2**53:
            _refuse(value, where, "a whole number of at least 0")
    elif hint is bool:
        if not isinstance(value, (bool, np.bool_)):
            _refuse(value, where, "true or false")
    elif isinstance(hint, type) and not isinstance(value, hint):
        _refuse(value, where, f"a {hint.__name__}")


MAY_BE_ANYTHING = {(TraceRow, "dual"), (TraceRow, "gap"), (TraceRow, "primal"), (Result, "dual"), (Result, "gap"),
                   (Result, "cost")}  # fmt: skip
"""Numbers that are NaN without a certificate."""


def _default(key: Any) -> Any:
    """Return the default of a field, which may be infinite or NaN until the first evaluation."""
    if key is None:
        return None
    kind, name = key
    if issubclass(kind, tuple):
        return INFINITE.get(key, kind._field_defaults.get(name))
    return INFINITE.get(key, kind.__dataclass_fields__[name].default)


INFINITE = {(Round, "objective"): np.inf, (CuttingPlaneState, "primal"): np.inf}
"""Initial values of fields without a default."""


def _check_array(value: Any, dtype: type | None, problem: Problem, where: str, key: Any) -> None:
    wanted: Any = np.int64 if dtype is np.intp else dtype
    floats = (np.float32, np.float64)
    if not isinstance(value, np.ndarray) or not (value.dtype == wanted if wanted else value.dtype in floats):
        _refuse(value, where, f"an array of {wanted.__name__ if wanted else 'floats'}")
    if key is not None and key not in SHAPED_BELOW and value.shape != (problem.n_weights,):
        _refuse(value, where, f"{problem.n_weights} entries")
    if value.dtype.kind == "f":
        free = key in ((BlockState, "gaps"), (PotentialState, "gaps"), (PotentialState, "truths"))
        ok = ~np.isnan(value) if free else value < np.inf if key in WITH_INFINITY else np.isfinite(value)
        if key in POSITIVE:
            ok &= value >= 0
        if not ok.all():
            raise ModelFileError(f"{where} contains {value[~ok][0]}, where finite numbers are expected")


WITH_INFINITY = {(BlockState, "weights"), (PotentialState, "weights")}
"""Weights in the layout of the recursions, where forbidden pairs of labels have weight -inf."""


def _refuse(value: Any, where: str, expected: str) -> None:
    shown = f"an array of shape {value.shape} and dtype {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
    raise ModelFileError(f"{where} is {shown if len(shown) <= 80 else shown[:77] + '...'}, expected {expected}")


def _shape(value: Any, shape: tuple[int, ...], where: str) -> None:
    if value.shape != shape:
        _refuse(value, where, f"an array of shape {shape}")


def _same_infinities(weights: np.ndarray, expected: np.ndarray, where: str) -> None:
    """Check that only forbidden pairs of labels have the weight -inf."""
    if not np.array_equal(np.isinf(weights), np.isinf(expected)):
        raise ModelFileError(f"{where} are infinite at other places than forbidden pairs of labels")


def _within(values: np.ndarray, limit: int, where: str) -> None:
    if values.size and not (values.min() >= 0 and values.max() < limit):
        raise ModelFileError(f"{where} contains a number outside 0 to {limit - 1}")


# ---- shapes and sums of single records ------------------------------------------------------------------------------


def _check_curvature(curvature: Curvature, problem: Problem) -> None:
    if not len(curvature.s) == len(curvature.y) == len(curvature.curves):
        raise ModelFileError("the curvature has different numbers of changes of weights and gradients")
    if curvature.between is not None:
        layout = problem.structure.layout
        shapes = [(layout.n_features,) * 2, (layout.n_labels, layout.n_features, layout.n_features)]
        if curvature.between.shape not in shapes or curvature.n_labels != layout.n_labels:
            _refuse(curvature.between, "between of the curvature", f"an array of shape {shapes[0]}")
    if (curvature.whole is None) != (curvature.covered is None):
        raise ModelFileError("the curvature has a Hessian without the positions of its weights, or the reverse")
    if curvature.whole is not None and curvature.covered is not None:
        _shape(curvature.covered, curvature.whole.size.shape, "covered of the curvature")
        _within(curvature.covered, problem.n_weights, "covered of the curvature")


def _check_factor(factor: Factor, problem: Problem) -> None:
    if factor.size.ndim != 1 or len(factor.size) > problem.n_weights or not (factor.size > 0).all():
        _refuse(factor.size, "size of the factorised Hessian", "positive numbers, at most one per weight")
    _shape(factor.lower, (len(factor.size),) * 2, "lower of the factorised Hessian")
    if not factor.lower.diagonal().all():
        raise ModelFileError("the factorised Hessian is singular")


def _check_dual_state(state: DualState, problem: Problem) -> None:
    _shape(state.eta, (problem.structure.blocks.size,), "eta")
    if state.average.shape != (0,):
        _shape(state.average, (problem.n_weights,), "average")
    if sum(state.sizes) != problem.n_examples or len(state.states) != len(state.sizes):
        raise ModelFileError(f"the parts have {state.sizes} examples, but the problem {problem.n_examples}")
    if not 1 <= state.n_rounds <= max(problem.n_examples, 1) or not state.C <= problem.C * (1 + ROUNDING):
        raise ModelFileError(f"n_rounds is {state.n_rounds} and C {state.C}")
    if len(state.sizes) == 1:
        _check_block_state(state.states[0], problem)
        return
    offsets, first = problem.structure.offsets, 0
    for part, size in zip(state.states, state.sizes):
        for array, name in ((part.eta, "eta"), (part.gaps, "gaps")):
            _shape(array, ((problem.structure.blocks.size if name == "eta" else size),), f"{name} of a part")
        _check_sets(part, np.diff(offsets[first : first + size + 1]), problem.structure.n_labels)
        first += size


def _check_block_state(state: BlockState, problem: Problem) -> None:
    """Check the active labellings against examples and costs: they are the dual point of the certificate."""
    structure = problem.structure
    _shape(state.eta, (structure.blocks.size,), "eta of a part")
    _shape(state.gaps, (problem.n_examples,), "gaps of a part")
    expected = structure.blocks.for_search(np.zeros(problem.n_weights), state.weights.dtype.type)
    _shape(state.weights, expected.shape, "weights of a part")
    _same_infinities(state.weights, expected, "weights of a part")
    _, active, labels, alpha, cost = state.sets.__getstate__()
    _check_sets(state, np.diff(structure.offsets), structure.n_labels)
    owner = np.repeat(np.arange(len(active)), active)
    total = np.bincount(owner, alpha, minlength=len(active))
    limit = state.C * structure.sample_weight
    if not np.allclose(total, limit, rtol=ROUNDING, atol=ROUNDING * limit.max(initial=0.0)):
        raise ModelFileError("the dual weights of an example do not add up to C times its sample weight")
    positions, offsets = gather(structure.offsets, owner)
    table = problem.cost_table
    right = sums(table.rows[table.row[positions], labels], offsets)
    if not np.allclose(cost, right, rtol=ROUNDING, atol=ROUNDING):
        raise ModelFileError("the cost of an active labelling is not that of its labels")


def _check_sets(state: BlockState, lengths: np.ndarray, n_labels: int) -> None:
    nodes, _, labels, alpha, cost = state.sets.__getstate__()
    if not np.array_equal(nodes, lengths):
        raise ModelFileError("the active labellings belong to other examples")
    _within(labels, n_labels, "the active labellings")
    if not (np.isfinite(alpha).all() and (alpha >= 0).all() and np.isfinite(cost).all()):
        raise ModelFileError("a dual weight or cost of the active labellings is negative or not finite")
    if not (state.gaps >= 0).all():
        raise ModelFileError("gaps of a part contain a negative number")


def _check_potentials(state: PotentialState, problem: Problem) -> None:
    """Check the arrays that the kernels index, which have no bounds checks, and recompute eta and weights."""
    _check_potential_shapes(state, problem, problem)
    if state.row_variance is not None:
        _refuse(state.row_variance, "row_variance", "null")
    right = replace(state)
    PotentialAscent().set_eta(problem, right, _eta_of(state, problem))
    _compare(state, right, ("weights",) if isinstance(problem.prior, Gaussian) else ("weights", "eta"))


def _check_working_set(state: ProximalAscentState, problem: Problem) -> None:
    for name, hint in _hints(PotentialState).items():
        _check_type(getattr(state.inner, name), hint, problem, f"{name} of the potentials", (PotentialState, name))
    if not 0 <= state.push < 1 or not state.tau > 0:
        raise ModelFileError(f"push is {state.push} and tau {state.tau}, expected 0 <= push < 1 and tau > 0")
    restricted, l1 = state.restricted(problem), penalty_factors(problem.prior)[0]
    _check_potential_shapes(state.inner, problem, restricted.problem)
    for name in ("centre", "last_weights"):
        _shape(getattr(state, name), state.inner.eta.shape, name)
        if getattr(state, name).dtype != state.inner.eta.dtype:
            _refuse(getattr(state, name), name, f"dtype {state.inner.eta.dtype}")
    if not _same(state.inner.row_variance, relative_variances(restricted.problem)):
        raise ModelFileError("row_variance is not that of these examples")
    solver, right = ProximalAscent(), copy(state)
    right.inner = replace(state.inner)
    solver._set_eta(problem, right, _eta_of(state.inner, problem), solver._unpadded(problem, state, state.centre))
    _compare(state.inner, right.inner, ("weights", "eta") if l1 > 0 else ("weights",))
    vars(state).pop("_restricted", None)  # caches that refer to the copy of the problem
    state.__post_init__()


def _check_potential_shapes(state: PotentialState, problem: Problem, inside: Problem) -> None:
    """Check types and shapes; eta and weights belong to the problem ``inside``, which has fewer weights."""
    structure, layout = problem.structure, problem.structure.layout
    node = (int(structure.offsets[-1]), lanes(layout))
    matrix = (problem.n_examples, layout.n_edge_types, layout.n_labels, lanes(layout))
    dtype = state.node_potentials.dtype
    searched = inside.structure.blocks.for_search(np.zeros(inside.n_weights), dtype.type)
    shapes = {
        "node_potentials": node, "node_marginals": node, "matrix_potentials": matrix, "matrix_marginals": matrix,
        "eta": (inside.structure.blocks.size,), "weights": searched.shape,
        "steps": (problem.n_examples,), "gaps": (problem.n_examples,), "entropies": (problem.n_examples,),
        "truths": (problem.n_examples,),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(state, name)
        _shape(array, shape, f"{name} of the potentials")
        if (len(shape) > 1 or name in ("eta", "weights")) and array.dtype != dtype:
            _refuse(array, f"{name} of the potentials", f"dtype {dtype}")
    _same_infinities(state.weights, searched, "weights of the potentials")
    for name in ("steps", "gaps", "node_marginals", "matrix_marginals"):
        if not (getattr(state, name) >= 0).all():
            raise ModelFileError(f"{name} of the potentials contains a negative number")
    if state.data is not problem.data:
        raise ModelFileError("the potentials belong to other examples")


def _eta_of(state: PotentialState, problem: Problem) -> FloatArray:
    """Return the eta of the potentials."""
    return PotentialAscent().refresh(problem.replace(), deepcopy(state, {id(state.data): state.data}))


def _compare(state: PotentialState, right: PotentialState, names: tuple[str, ...]) -> None:
    """Compare weights, and eta if passes update it, with those that follow from the potentials."""
    for name in names:
        expected = getattr(right, name).astype(np.float64)
        finite = np.isfinite(expected)
        scale = max(float(np.abs(expected[finite]).max(initial=0.0)), 1e-3)
        actual = getattr(state, name)[finite].astype(np.float64)
        if not np.allclose(actual, expected[finite], rtol=0.0, atol=ROUNDING_SINGLE * scale):
            raise ModelFileError(f"{name} do not follow from the potentials")


def _check_cuts(cuts: Cuts, problem: Problem) -> None:
    n = len(cuts.gains)
    for name in ("examples", "gains", "idle"):
        _shape(getattr(cuts, name), (n,), f"{name} of the cuts")
    _within(cuts.examples, max(problem.n_examples, 1), "examples of the cuts")
    rows = cuts.rows
    if not (isinstance(rows, sparse.csr_array) and rows.shape == (n, problem.n_weights) and rows.dtype == np.float64):
        raise ModelFileError(f"the rows of the cuts are not {n} rows of {problem.n_weights} float64 numbers")
    if not np.isfinite(rows.data).all() or (cuts.idle < 0).any():
        raise ModelFileError("the cuts contain a number that is not finite, or a negative count")


def _check_gram(state: CuttingPlaneState, problem: Problem) -> None:
    gram = np.asarray(problem.prior.gram(state.cuts.rows, state.cuts.rows))  # type: ignore[attr-defined]
    if state.gram.shape != gram.shape or not np.allclose(
        state.gram, gram, rtol=ROUNDING, atol=ROUNDING * np.abs(gram).max(initial=1e-300)
    ):
        raise ModelFileError("the inner products of the cuts are not those of their rows")
    if state.C != problem.C:
        _refuse(state.C, "C", repr(problem.C))
    if state.slacks not in ("one", "n") or (state.slacks == "one" and state.cuts.examples.any()):
        raise ModelFileError("the cuts belong to another number of slacks")
    _check_below(state.cuts, state.w, problem, of_examples=state.slacks == "n")


def _check_below(cuts: Cuts, w: FloatArray, problem: Problem, of_examples: bool) -> None:
    """Check that cuts lie below the losses, at a few points."""
    rng = np.random.default_rng(0)
    size = float(np.abs(w).max(initial=0.0)) or 1.0
    for at in (w, 10.0 * w, *rng.normal(0.0, size, (2, problem.n_weights))):
        losses: Any
        if of_examples:
            losses = violated(problem, at, Cuts.none(problem.n_weights)).hinge[cuts.examples]
        else:
            losses = problem.loss_and_gradient(at, gradient=False).loss
        below = cuts.gains - cuts.rows @ at
        if not np.all(below <= losses + _rounding(problem) * (1.0 + np.abs(below) + np.abs(losses))):
            raise ModelFileError("a cut exceeds the loss")


def _check_labellings(state: LabellingState, problem: Problem) -> None:
    examples = state.examples
    _shape(state.alpha, (len(examples),), "alpha")
    if examples.ndim != 1 or state.labels.ndim != 1 or np.any(np.diff(examples) < 0):
        raise ModelFileError("the examples of the labellings are not in ascending order")
    _within(examples, problem.n_examples, "examples")
    _within(state.labels, problem.structure.n_labels, "labels")
    _shape(state.labels, (int(np.diff(problem.structure.offsets)[examples].sum()),), "labels")
    total = np.bincount(examples, state.alpha, minlength=problem.n_examples)
    if (state.alpha < 0).any() or (total > problem.C * problem.structure.sample_weight * (1 + ROUNDING)).any():
        raise ModelFileError("the dual weights of an example are negative, or exceed C times its sample weight")
    right = with_sums(problem, state)
    _equal_points((state.eta, state.cost), (right.eta, right.cost), "the labellings")


def _check_iterates(state: SubgradientState, problem: Problem) -> None:
    for at, name in ((state.at, "at"), (state.average, "average")):
        if at.mass.shape not in ((1,), (max(problem.n_examples, 1),)) or at.mass.shape != state.at.mass.shape:
            _refuse(at.mass, f"mass of {name}", "one number, or one per example")
        if not ((at.mass >= 0).all() and (at.mass <= 1 + ROUNDING).all()):
            raise ModelFileError(f"mass of {name} is not between 0 and 1")
        size = problem.n_weights if hasattr(problem.prior, "radius") else 0
        _shape(at.w, (size,), f"w of {name}")
    if state.C != problem.C:
        _refuse(state.C, "C", repr(problem.C))
    if state.n_steps == 0 and (state.at.mass.any() or state.average.mass.any()):
        raise ModelFileError("the iterate has moved, but n_steps is 0")
    if state.corner is not None:
        right = corner_at(problem, geometry_of(problem).weights(state.at))
        _equal_points(state.corner[:2], right[:2], "the corner", _rounding(problem))
        scale = max(right.risk, 1e-3 * problem.at_zero)
        _equal(state.corner.risk, right.risk, scale, "risk of the corner", _rounding(problem))


def _check_gibbs(state: Gibbs | GibbsState, problem: Problem) -> None:
    if max(abs(state.A), abs(state.B)) > 1e100:
        raise ModelFileError(f"the potentials have A = {state.A} and B = {state.B}")
    value, eta, cost = problem.gibbs(state.A, state.W, state.B)
    _equal_points((state.eta, state.cost), (eta, cost), "the potentials", _rounding(problem))
    if isinstance(state, Gibbs):
        _equal(state.value, value, max(abs(value), 1.0), "the value of the potentials", _rounding(problem))


def _check_smooth(state: SmoothState, problem: Problem) -> None:
    """Recompute loss and gradient, from which the certificate follows."""
    total = problem.loss_and_gradient(state.w, single=state.single)
    rounding = max(ROUNDING_SINGLE if state.single else 0.0, _rounding(problem))
    scale = max(abs(problem.C * total.loss), 1e-3 * abs(problem.at_zero), 1e-300)
    for name, value in (("loss", total.loss), ("cost", total.cost), ("relaxation_gap", total.relaxation_gap)):
        _equal(problem.C * getattr(state, name), problem.C * value, scale, name, rounding)
    penalty = problem.prior.penalty(state.w)
    _equal(state.value, penalty + problem.C * total.loss, max(scale, abs(penalty)), "value", rounding)
    size = max(float(np.abs(total.gradient).max(initial=0.0)), scale / problem.C)
    if not np.allclose(state.loss_slope, total.gradient, rtol=0.0, atol=rounding * size):
        raise ModelFileError("loss_slope is not the gradient of the loss at w")


def _check_labels(state: SelfTrainingState, problem: Problem) -> None:
    _shape(state.labels, problem.structure.y.shape, "labels")
    _within(state.labels, problem.structure.n_labels, "labels")


def _check_path(state: SmoothingState | PathState, problem: Problem) -> None:
    if len(state.points) < 2:
        raise ModelFileError(f"the path has {len(state.points)} dual points, expected at least 2")
    if isinstance(state, PathState) and state.held is None and not offers(problem.prior, "smooth"):
        raise ModelFileError(f"the prior on the path is {problem.prior!r}, which is not smooth")


def _check_proximal(state: ProximalState, problem: Problem) -> None:
    _check_block_state(state.dual_state, problem)
    if not state.tau > 0:
        _refuse(state.tau, "tau", "a positive number")


def _check_programme(state: ProgrammeState, problem: Problem) -> None:
    _check_below(state.cuts, state.w, problem, of_examples=True)


def _check_rounds(state: RoundsState, problem: Problem) -> None:
    if np.isfinite(state.decrease) and state.current.result is None:
        raise ModelFileError("a round without a solution has a decrease")
    if state.best_before is not None and state.best_before.result is None:
        raise ModelFileError("the best round has no solution")


def _check_result(result: Result, problem: Problem) -> None:
    if not _is_record(result.state):
        _refuse(result.state, "the state of a result", "a record")


def _check_variational(state: VariationalState, problem: Problem) -> None:
    for variance in (state.variance, state.used_variance):
        if variance is not None and not (variance > 0).all():
            raise ModelFileError("a variance is not positive")
    if (state.inner is None) != (state.used_variance is None) or (state.inner is None) != (state.n_done == 0):
        raise ModelFileError(f"the solution and its variances do not match n_done = {state.n_done}")


CHECKS: dict[type, Callable[[Any, Problem], None]] = {
    Curvature: _check_curvature, Factor: _check_factor, DualState: _check_dual_state, ProximalState: _check_proximal,
    PotentialState: _check_potentials, ProximalAscentState: _check_working_set, Cuts: _check_cuts,
    CuttingPlaneState: _check_gram, ProgrammeState: _check_programme, LabellingState: _check_labellings,
    SubgradientState: _check_iterates, Gibbs: _check_gibbs, GibbsState: _check_gibbs, SmoothState: _check_smooth,
    SelfTrainingState: _check_labels, SmoothingState: _check_path, PathState: _check_path, RoundsState: _check_rounds,
    VariationalState: _check_variational, Result: _check_result,
}  # fmt: skip


# ---- bounds ---------------------------------------------------------------------------------------------------------


def _equal(value: float, right: float, scale: float, name: str, rounding: float = ROUNDING) -> None:
    if not abs(value - right) <= rounding * max(abs(scale), 1e-300):
        raise ModelFileError(f"{name} is {value}, but {right} for these examples")


def _rounding(problem: Problem) -> float:
    return ROUNDING_RELAXED if problem.structure.capabilities.relaxed else ROUNDING


def _equal_points(
    point: tuple[FloatArray, float], right: tuple[FloatArray, float], owner: str, rounding: float = ROUNDING
) -> None:
    scale = max(float(np.abs(right[0]).max(initial=0.0)), abs(right[1]), 1e-12)
    if not np.allclose(point[0], right[0], rtol=0.0, atol=rounding * scale):
        raise ModelFileError(f"eta is not that of {owner}")
    _equal(point[1], right[1], scale, f"cost of {owner}", rounding)


def _check_claims(record: Any, problem: Problem) -> None:
    """Check objectives, dual points and dual values of a record against the examples."""
    claims = CLAIMS.get(type(record))
    if claims is None or not problem.convex:
        return
    objective = np.inf
    if claims.primal and getattr(record, claims.primal[0]) is not None:
        w, value = (getattr(record, name) for name in claims.primal)
        if np.isfinite(value):
            objective = problem.primal(w)
            scale = max(abs(objective), 1e-3 * abs(problem.at_zero))
            _equal(value, objective, scale, "the objective", _rounding(problem))
    for eta_name, cost_name in claims.points:
        eta, cost = getattr(record, eta_name), getattr(record, cost_name)
        if eta is None or not eta.size or not np.isfinite(cost):
            continue
        for w in _test_weights(record, eta, problem):
            total = problem.C * problem.loss_and_gradient(w, gradient=False).loss
            scale = max(total, abs(float(eta @ w)), 1e-3 * abs(problem.at_zero))
            if not cost - float(eta @ w) <= total + _rounding(problem) * scale:
                raise ModelFileError("a dual point exceeds the objective (weak duality)")
            penalty = problem.prior.penalty(w)
            objective = min(objective, penalty + total) if np.isfinite(penalty) else objective
    dual = getattr(record, claims.dual) if claims.dual else np.nan
    highest = min(objective, problem.at_zero)
    if dual > highest + _rounding(problem) * max(abs(highest), 1e-3 * abs(problem.at_zero)):
        raise ModelFileError(f"the dual value {dual} exceeds the objective {highest}")


def _test_weights(record: Any, eta: FloatArray, problem: Problem) -> Iterator[FloatArray]:
    """Yield the weights at which a dual point is tested: zero, opposite, current, and implied by it."""
    yield np.zeros(problem.n_weights)
    largest = float(np.abs(eta).max(initial=0.0))
    if largest > 0:  # here the loss is at least |eta|^2 / (C largest)
        yield -eta / largest
    for name in ("w", "mu"):
        current = getattr(record, name, None)
        if current is not None and current.shape == eta.shape:
            yield current
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
        _shape(sets.sets, (len(sets.label), n_labels), "the label sets")
        _shape(sets.weight, (len(sets.label),), "the weights of label sets")
        _within(sets.sets, 2, "the label sets")
        _within(sets.label, n_labels, "the targets of label sets")
        vector(sets.weight, len(sets.label), "the weights of label sets", negative=False)
    for name, limit in (("y", n_labels), ("row", len(sets.label))):
        values = changes.get(name, getattr(problem.batch, name))
        if not (isinstance(values, np.ndarray) and values.dtype == np.int32 and values.shape == (n_nodes,)):
            _refuse(values, name, f"{n_nodes} int32 numbers")
        _within(values, limit, name)
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
        _walk(row, TraceRow, problem, "a row of the trace")


__all__ = ["check_placed", "check_position", "check_problem", "check_state"]
