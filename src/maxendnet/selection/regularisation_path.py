"""Regularisation paths: fits along a grid with warm starts."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from maxendnet.data.examples import as_examples
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.estimators.settings import SIGNS
from maxendnet.utils.checks import is_number
from maxendnet.utils.progress import progress_bar
from maxendnet.utils.scikit_learn import clone

Point = dict[str, Any]


@dataclass(frozen=True)
class PathPoint:
    """One fit of a path.

    Parameters
    ----------
    params : dict
        The hyper-parameters.
    objective, dual, gap : float
        The attributes ``objective_``, ``dual_`` and ``gap_`` of the model.
    converged : bool
    n_nonzero : int
        Number of non-zero weights.
    n_passes : int
    seconds : float
    score : float
        Score on the validation examples, or nan.
    model : MarkovNetwork
        The fitted model.
    """

    params: Point
    objective: float
    dual: float
    gap: float
    converged: bool
    n_nonzero: int
    n_passes: int
    seconds: float
    score: float
    model: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class Path:
    """Fits of a path in the order of the grid. ``print`` shows them as a table.

    Parameters
    ----------
    points : tuple of PathPoint
    """

    points: tuple[PathPoint, ...]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self.points)

    def __getitem__(self, number: int) -> PathPoint:
        return self.points[number]

    @property
    def models(self) -> list[Any]:
        """Fitted models."""
        return [point.model for point in self.points]

    @property
    def best(self) -> PathPoint:
        """Point with the highest score, or the first such point if there are ties."""
        if all(np.isnan(point.score) for point in self.points):
            raise ValueError("No point has a score; pass validation=(X, y) to path.")
        return max(self.points, key=lambda point: -np.inf if np.isnan(point.score) else point.score)

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for point in self.points for name in point.params))
        scored = not all(np.isnan(point.score) for point in self.points)
        head = [*names, "objective", "gap", "nonzero", "passes", "seconds"] + ["score"] * scored
        lines = [head]
        for p in self.points:
            constants = [f"{p.params[n]:g}" if is_number(p.params.get(n)) else str(p.params.get(n)) for n in names]
            numbers = [f"{p.objective:.6g}", f"{p.gap:.1e}", str(p.n_nonzero), str(p.n_passes), f"{p.seconds:.2f}"]
            lines.append(constants + numbers + [f"{p.score:.4f}"] * scored)
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)


def path(
    estimator: MarkovNetwork,
    X: Any,
    y: Any = None,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None,
    *,
    sample_weight: Any = None,
    validation: Any = None,
    verbose: int = 0,
) -> Path:
    """Fit an estimator at each point of a grid of hyper-parameters, with warm starts.

    Points are visited from more regularisation to less (small C or large lam first), independently of their order in
    the grid. Each fit has the ``tol`` of the estimator and its own certificate.

    Parameters
    ----------
    estimator : MarkovNetwork
        Clones of it are fitted, so it is not changed.
    X, y, sample_weight : as for ``fit``
    grid : dict of lists, or list of dicts
        ``{"C": [...], "lam": [...]}`` for all combinations, or a list of points.
    validation : Examples or pair (X, y), optional
        Held-out examples on which each model is scored.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    Path
        The fits, in the order of the grid.

    Examples
    --------
    >>> from maxendnet import L1M3N, path
    >>> X, y = [[[0.0, 0.1], [1.0, 0.0]], [[1.0, 0.2]]], [["a", "b"], ["b"]]
    >>> fits = path(L1M3N(), X, y, {"C": [0.1, 1.0]}, validation=(X, y))
    >>> [point.n_nonzero for point in fits], fits.best.params
    ([0, 3], {'C': 1.0})
    """
    points = expand(grid)
    check_points(estimator, points)
    examples = as_examples(X, y, sample_weight=sample_weight, estimator=type(estimator).__name__, needs_y=True)
    if validation is not None and isinstance(validation, tuple) and len(validation) != 2:
        raise ValueError(f"validation must be Examples or a pair (X, y), got a tuple of {len(validation)}.")
    held_out = None if validation is None else validation if isinstance(validation, tuple) else (validation, None)
    fits: list[Any] = [None] * len(points)
    with progress_bar(total=len(points), desc=f"{type(estimator).__name__} path", unit=" fits", show=verbose) as bar:

        def keep(number: int, model: Any, seconds: float, error: Exception | None) -> None:
            if error is not None:
                raise error
            frozen = copy.deepcopy(model).set_params(warm_start=estimator.warm_start)
            score = float("nan") if held_out is None else frozen.score(*held_out)
            fits[number] = PathPoint(
                points[number], frozen.objective_, frozen.dual_, frozen.gap_, frozen.converged_,
                int(np.count_nonzero(frozen.model_.weights)), frozen.n_passes_, seconds, score, frozen,
            )  # fmt: skip
            bar.set_postfix_str(", ".join(f"{name}={value}" for name, value in points[number].items()))
            bar.update()

        follow(estimator, examples, points, keep)
    return Path(tuple(fits))


def expand(grid: Any) -> list[Point]:
    """Return the points of a grid, or raise ``ValueError`` if there are none."""
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or len(values) == 0:
                raise ValueError(f"grid[{name!r}] must be a list of at least one value, got {values!r}.")
        points = [dict(zip(grid, values)) for values in product(*grid.values())] if grid else []
    else:
        points = list(grid) if isinstance(grid, (list, tuple)) else []
        if not all(isinstance(point, Mapping) for point in points):
            raise ValueError(f"grid must be a dict of lists or a list of dicts, got {grid!r}.")
        points = [dict(point) for point in points]
    if not points:
        raise ValueError(f'grid has no points, got {grid!r}; pass for instance {{"C": [0.1, 1.0, 10.0]}}.')
    return points


def check_points(estimator: Any, points: Sequence[Point]) -> None:
    """Raise ``ValueError`` for invalid hyper-parameters before the first fit."""
    if not isinstance(estimator, MarkovNetwork):
        raise ValueError(f"estimator must be an estimator of maxendnet such as M3N(), got {estimator!r}.")
    for point in points:
        try:
            prior, *_ = clone(estimator).set_params(**point).compose()
            prior.check()
        except ValueError as error:
            raise ValueError(f"At the point {point} of the grid: {error}") from error


def visiting_order(points: Sequence[Point]) -> list[list[int]]:
    """Return the indices of points in rows, from more regularisation to less.

    Within a row only the last hyper-parameter changes. Warm starts work best from a fit with more regularisation,
    because it has fewer dual variables.

    Examples
    --------
    >>> visiting_order(expand({"C": [1.0, 0.1], "lam": [5.0, 10.0]}))
    [[3, 2], [1, 0]]
    """

    def rank(point: Point) -> tuple[Any, ...]:
        settings, constants = [], []
        for name in sorted(point):
            value, sign = point[name], SIGNS.get(name.split("__")[-1], 0)  # prior__lam is ranked as lam
            if sign and is_number(value):
                constants.append(sign * float(value))
            else:  # a setting that is not a number, such as bias=True, starts another path
                settings.append(f"{name}={value}")
        return (settings, *constants)

    ranks = [rank(point) for point in points]
    rows: dict[str, list[int]] = {}
    for number in sorted(range(len(points)), key=lambda i: (sorted(points[i]), ranks[i])):
        head = ranks[number][:-1] if len(ranks[number]) > 1 else ranks[number]
        rows.setdefault(repr((sorted(points[number]), head)), []).append(number)
    return list(rows.values())


def follow(
    estimator: Any,
    examples: Any,
    points: Sequence[Point],
    visit: Callable[[int, Any, float, Exception | None], None],
    warn: bool = True,
) -> None:
    """Fit at all points with warm starts.

    ``visit(number, model, seconds, error)`` is called after each fit.

    A row starts from the first point of the previous row, which is closer than its last one. With ``warn=False``, there
    is no warning for fits that end above ``tol``.
    """
    model = clone(estimator).set_params(warm_start=True, verbose=0)
    model.warns_of_gap = warn
    usual = model.get_params()
    names = {name for point in points for name in point}
    usual = {name: clone(usual[name], safe=False) for name in names if name in usual}
    head = None
    for row in visiting_order(points):
        model.warm_state = head
        for place, number in enumerate(row):
            began, error = time.perf_counter(), None
            try:
                model.set_params(**usual).set_params(**points[number]).fit(examples)
            except Exception as failure:
                error = failure
            visit(number, model, time.perf_counter() - began, error)
            if place == 0:
                head = model.warm_state
