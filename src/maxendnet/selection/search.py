"""`PathSearchCV`: choice of hyper-parameters by cross-validation."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.estimators import L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.losses import Log
from maxendnet.priors.base import FloatArray
from maxendnet.selection.geometric_grid import GeometricGrid
from maxendnet.selection.node_scorer import node_scorer
from maxendnet.selection.regularisation_path import Point, expand, follow, visiting_order
from maxendnet.selection.score_plot import plot_scores
from maxendnet.structures import as_structure
from maxendnet.utils.checks import generator, is_number
from maxendnet.utils.progress import progress_bar
from maxendnet.utils.scikit_learn import BaseEstimator, MetaEstimatorMixin, available_if, clone


class Cell(NamedTuple):
    """Score and report of one fit: one point of the grid in one fold."""

    score: float
    fit_seconds: float
    score_seconds: float
    gap: float
    n_nonzero: int
    failure: str = ""


STEP = 10**0.5
"""Ratio of neighbouring hyper-parameters in the default grids of all estimators except L1M3N."""
MAX_GROWTH = 2
"""Maximum number of steps by which a default grid grows at an edge."""


def default_grid(estimator: MarkovNetwork, examples: Examples) -> list[Point]:
    """Return the points of the initial grid of `PathSearchCV`.

    Parameters
    ----------
    estimator : MarkovNetwork
    examples : Examples
        The grid follows the scale of their features.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> from maxendnet import Examples, M3N
    >>> examples = Examples.build([[[1.0], [0.0]], [[1.0]]], [["a", "b"], ["a"]])
    >>> [sorted(point) for point in default_grid(M3N(), examples)][:2]
    [['C'], ['C']]
    """
    grid = initial_grid(estimator, examples)
    return [grid.point(place) for place in grid.places]


def initial_grid(estimator: MarkovNetwork, examples: Examples) -> GeometricGrid:
    """Return the default grid, which adapts to the scale of the features.

    A margin of 1 at a node needs weights of size 1/R, where R^2 is the mean squared norm of the features of a node. So
    C is in units of 1/R^2 (M3N), and lam in units of R^2 (L2CRF). With an L1 penalty, all weights are zero if lam is at
    least the largest absolute entry of the gradient at zero, so the grid starts there. LapMEDN with lam = 2 C / c tends
    to M3N(c) for small C and to L1M3N for large C, so its grid is a band around good values of c.
    """
    R2 = examples.mean_squared_norm + getattr(as_structure(estimator.structure), "bias", False)
    if isinstance(estimator, LapMEDN):
        start = {"C": 1 / STEP, "lam": 2 / STEP * R2}
        return GeometricGrid(start, ({"C": STEP, "lam": STEP}, {"lam": 1 / STEP}), (4, 3))
    if isinstance(estimator, M3N):
        return GeometricGrid({"C": 0.1 / R2}, ({"C": STEP},), (7,))
    if isinstance(estimator, L2CRF):
        return GeometricGrid({"lam": R2}, ({"lam": 1 / STEP},), (7,))
    if isinstance(estimator, L1CRF) or (isinstance(estimator, L1M3N) and estimator.radius is None):
        problem = estimator.pose(examples, distinct_labels(np.asarray(examples.y)))
        likelihood = problem.replace(loss=Log(), C=1.0)
        slope = (
            float(np.abs(likelihood.loss_and_gradient(np.zeros(problem.n_weights)).gradient).max(initial=0.0)) or 1.0
        )
        if isinstance(estimator, L1CRF):
            return GeometricGrid({"lam": 0.3 * slope}, ({"lam": 1 / STEP},), (7,))
        return GeometricGrid({"C": 1.5 / slope}, ({"C": (1000 / 3) ** (1 / 6)},), (7,))
    raise ValueError(
        f"{type(estimator).__name__} has no default grid; pass one, for instance grid={{'C': [0.1, 1.0, 10.0]}}."
    )


def _refitted(self: Any) -> bool:
    if not self.refit:
        raise AttributeError("refit is False, so there is no fitted model; set refit=True, or fit best_params_.")
    return True


class PathSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Choose hyper-parameters by cross-validation, with warm starts.

    It has the attributes of scikit-learn's GridSearchCV. In each fold, the points of the grid are visited from more
    regularisation to less, with warm starts. Fits of the search use a loose tolerance (``search_tol``) and do not issue
    convergence warnings. Their gaps are in ``cv_results_["mean_gap"]``. The best hyper-parameters are then fitted to
    all examples with the ``tol`` of the estimator.

    Parameters
    ----------
    estimator : M3N, LapMEDN, L1M3N, L1CRF, L2CRF, MaxEnDNet or CRF
    grid : dict of lists, list of dicts, or None, default=None
        ``{"C": [...], "lam": [...]}`` for all combinations, or a list of points. None is 7 points (12 for LapMEDN) that
        adapt to the scale of the features. While the best point of this default grid is at an edge and better than its
        neighbour, the grid grows there, by at most two steps.
    scoring : str, callable or None, default=None
        Scorer ``scoring(model, X, y)``, higher is better, or the name of a scikit-learn metric such as "f1_macro",
        which is applied to nodes (see `node_scorer`). None is the accuracy over nodes.
    cv : int, splitter or iterable of (train, test), default=None
        As in scikit-learn; None is 5 folds. Examples are split, never nodes. Stratified splitters need one label per
        example, as in tables.
    refit : bool, default=True
        Whether to fit the best hyper-parameters to all examples.
    search_tol : float or None, default=1e-2
        Tolerance of the fits of the search, if it is larger than ``tol`` of the estimator. None uses that ``tol``.
    n_jobs : int or None, default=None
        Number of folds in parallel, by joblib. Results do not depend on it. If the ``backend`` of the estimator is
        `maxendnet.backends.Dask`, each fold is computed on one of its workers.
    error_score : "raise" or float, default=nan
        Score of a failed fit, or "raise" to raise its error.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    best_estimator_ : estimator
        The model fitted to all examples. It exists only with ``refit=True``.
    best_params_ : dict
        The best hyper-parameters. Ties are broken in favour of more regularisation.
    best_score_ : float
        Mean score over the folds.
    best_index_ : int
    cv_results_ : dict of arrays
        As in GridSearchCV, in the order of the grid, with additional ``mean_gap`` and ``mean_n_nonzero``.
    n_splits_ : int
    refit_time_ : float
    classes_, n_features_in_
        Attributes of the best model.

    Examples
    --------
    >>> from maxendnet import M3N, PathSearchCV
    >>> X = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0]]] * 5
    >>> y = [["a", "b"], ["b"]] * 5
    >>> search = PathSearchCV(M3N(), {"C": [0.1, 1.0]}, cv=2).fit(X, y)
    >>> search.best_params_, search.best_score_
    ({'C': 0.1}, 1.0)
    >>> search.predict(X[:1])
    [['a', 'b']]
    """

    def __init__(
        self,
        estimator: Any,
        grid: Any = None,
        *,
        scoring: Callable[..., float] | None = None,
        cv: Any = None,
        refit: bool = True,
        search_tol: float | None = 1e-2,
        n_jobs: int | None = None,
        error_score: Any = np.nan,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.search_tol = search_tol
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> PathSearchCV:
        """Search for the best hyper-parameters, and fit them to all examples.

        Parameters
        ----------
        X, y, sample_weight : as for the ``fit`` of the estimator
        groups : array-like of shape (n_examples,), optional
            Groups for splitters such as GroupKFold.

        Returns
        -------
        self
        """
        from sklearn.model_selection import check_cv  # slow to import

        self._check_settings()
        name = type(self.estimator).__name__
        examples = as_examples(X, y, sample_weight=sample_weight, estimator=name, needs_y=True)
        grid = initial_grid(self.estimator, examples) if self.grid is None else None
        points = expand(self.grid) if grid is None else [grid.point(place) for place in grid.places]
        for point in points:
            clone(self.estimator).set_params(
                **point
            )  # check the names before the first fit (each fit checks the values)
        rough = clone(self.estimator)
        if self.search_tol is not None and is_number(rough.tol):
            rough.set_params(tol=max(rough.tol, self.search_tol))
        if not isinstance(rough.random_state, (int, np.integer)):
            # all folds use one seed, so that results do not depend on the order of folds
            rough.set_params(random_state=int(generator(rough.random_state).integers(2**31)))
        strata = np.asarray(examples.y) if examples.flat else None
        if strata is None and "Stratified" in type(self.cv).__name__:
            raise ValueError(
                f"{type(self.cv).__name__} needs one label per example, but examples have one label per node; use "
                "cv=KFold(5, shuffle=True), or stratify by a property of the examples: "
                "cv=list(StratifiedKFold(5).split(X, property))."
            )
        splits = list(check_cv(self.cv).split(np.zeros(len(examples)), strata, groups))
        if not splits:
            raise ValueError(
                f"cv={self.cv!r} yields no split of the {len(examples)} examples; pass at least one split."
            )
        cells = self._run(rough, examples, points, splits)
        if grid is not None:
            cells = self._grow(grid, points, cells, lambda new: self._run(rough, examples, new, splits))
        self._failures(cells, points)
        self.n_splits_: int = len(splits)
        self.cv_results_: dict[str, Any] = _results(points, cells)
        self.best_index_: int = _best(points, _mean_scores(cells))
        self.best_params_: Point = points[self.best_index_]
        self.best_score_: float = float(_mean_scores(cells)[self.best_index_])
        if self.refit:
            began = time.perf_counter()
            self.best_estimator_: Any = clone(self.estimator).set_params(**self.best_params_).fit(examples)
            self.refit_time_: float = time.perf_counter() - began
            self.classes_: Any = self.best_estimator_.classes_
            self.n_features_in_: Any = self.best_estimator_.n_features_in_
        return self

    def _grow(
        self, grid: GeometricGrid, points: list[Point], cells: list[list[Cell]], run: Callable[[list[Point]], Any]
    ) -> list[list[Cell]]:
        """Add points to the grid while the best one is at an edge, and return all cells."""
        for _ in range(MAX_GROWTH):
            scores = _mean_scores(cells)
            new = grid.grow(dict(zip(grid.places, scores)), grid.places[_best(points, scores)])
            if not new:
                break
            points += [grid.point(place) for place in new]
            cells = [[*fold, *beyond] for fold, beyond in zip(cells, run(points[-len(new) :]))]
        return cells

    def _check_settings(self) -> None:
        if not isinstance(self.estimator, MarkovNetwork):
            raise ValueError(f"estimator must be an estimator of maxendnet such as M3N(), got {self.estimator!r}.")
        if not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            raise ValueError(
                f"scoring must be None, a name such as 'f1_macro' or a function of (model, X, y), got {self.scoring!r}."
            )
        if not (self.error_score == "raise" or is_number(self.error_score)):
            raise ValueError(f'error_score must be "raise" or a number, got {self.error_score!r}.')
        if not (self.search_tol is None or (is_number(self.search_tol) and self.search_tol > 0)):
            raise ValueError(f"search_tol must be None or a positive number, got {self.search_tol!r}.")

    def _run(self, rough: Any, examples: Examples, points: list[Point], splits: list[Any]) -> list[list[Cell]]:
        """Fit all points on each split, in parallel, and return the cells by fold."""
        total, name = len(splits) * len(points), type(self.estimator).__name__
        with progress_bar(total=total, desc=f"{name} search", unit=" fits", show=self.verbose) as bar:
            arguments = rough, examples, points
            options = {"scoring": _scorer(self.scoring), "error_score": self.error_score}
            if hasattr(rough.backend, "run_all"):  # a backend with workers
                rough, backend = clone(rough).set_params(backend=None), rough.backend
                cells_of: dict[int, list[Cell]] = {}
                for number, result in backend.run_all(partial(_fold, **options), splits, (rough, examples, points)):
                    if isinstance(result, BaseException):
                        raise result
                    bar.update(len(points))
                    cells_of[number] = result
                return [cells_of[number] for number in range(len(splits))]
            if effective_n_jobs(self.n_jobs) == 1:
                return [_fold(*arguments, train, test, **options, tick=bar.update) for train, test in splits]
            folds = []
            jobs = (delayed(_fold)(*arguments, train, test, **options) for train, test in splits)
            for cells in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs):
                bar.update(len(points))
                folds.append(cells)
            return folds

    def _failures(self, cells: list[list[Cell]], points: list[Point]) -> None:
        """Warn about failed fits, or raise ``ValueError`` if all fits failed."""
        failed = [(point, cell.failure) for fold in cells for point, cell in zip(points, fold) if cell.failure]
        if not failed:
            return
        first = f"The first one failed at {failed[0][0]}: {failed[0][1]}"
        if len(failed) == len(cells) * len(points):
            raise ValueError(f"All {len(failed)} fits of the search failed. {first}")
        warnings.warn(
            f"{len(failed)} fits of the search failed; their score is {self.error_score}. {first}",
            FitFailedWarning,
            stacklevel=3,
        )

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.classifier_tags = inner.estimator_type, inner.classifier_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        return tags

    @available_if(_refitted)
    def score(self, X: Any, y: Any = None) -> float:
        """Return the score of the best model: by ``scoring``, or by default the accuracy over nodes."""
        check_is_fitted(self)
        scorer = _scorer(self.scoring)
        return float(self.best_estimator_.score(X, y) if scorer is None else scorer(self.best_estimator_, X, y))

    def plot(self, ax: Any = None) -> Any:
        """Plot scores against hyper-parameters.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        Axes
        """
        check_is_fitted(self, "cv_results_")
        return plot_scores(self.cv_results_, self.best_index_, ax)


def _scorer(scoring: Any) -> Any:
    return node_scorer(scoring) if isinstance(scoring, str) else scoring


def _delegate(name: str) -> Any:
    def call(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X, *args, **kwargs)

    call.__name__, call.__doc__ = name, f"Call ``{name}`` of the best model."
    return available_if(_refitted)(call)


for _name in (
    "predict", "predict_proba", "predict_marginals", "predict_max_marginals", "predict_top", "sample",
    "decision_function",
):  # fmt: skip
    setattr(PathSearchCV, _name, _delegate(_name))


def _fold(
    rough: Any,
    examples: Examples,
    points: list[Point],
    train: Any,
    test: Any,
    *,
    scoring: Any,
    error_score: Any,
    tick: Callable[[], Any] = lambda: None,
) -> list[Cell]:
    """Fit and score all points on one split."""
    held_out = examples[test]
    cells: list[Any] = [None] * len(points)

    def visit(number: int, model: Any, seconds: float, error: Exception | None) -> None:
        if error is not None:
            if error_score == "raise":
                raise error
            message = f"{type(error).__name__}: {error}"
            cells[number] = Cell(float(error_score), seconds, 0.0, np.nan, 0, message)
        else:
            began = time.perf_counter()
            if scoring is None:
                score = model.score(held_out)
            else:
                score = float(scoring(model, held_out, held_out.split(np.asarray(held_out.y))))
            n_nonzero = int(np.count_nonzero(model.model_.weights))
            cells[number] = Cell(score, seconds, time.perf_counter() - began, model.gap_, n_nonzero)
        tick()

    follow(rough, examples[train], points, visit, warn=False)
    return cells


def _mean_scores(cells: list[list[Cell]]) -> FloatArray:
    """Return the mean score of each point over the folds, or -inf if a fit failed."""
    mean = np.array([[cell.score for cell in fold] for fold in cells]).mean(axis=0)
    values: FloatArray = np.nan_to_num(mean, nan=-np.inf)
    return values


def _best(points: list[Point], scores: FloatArray) -> int:
    """Return the index of the point with the highest score.

    Ties are broken in favour of more regularisation.
    """
    return next(number for row in visiting_order(points) for number in row if scores[number] == scores.max())


def _results(points: list[Point], cells: list[list[Cell]]) -> dict[str, Any]:
    """Return the columns of ``cv_results_``."""
    results: dict[str, Any] = {"params": points}
    for name in dict.fromkeys(name for point in points for name in point):
        absent = [name not in point for point in points]
        values = np.empty(len(points), dtype=object)
        values[:] = [point.get(name) for point in points]
        results[f"param_{name}"] = np.ma.MaskedArray(values, mask=absent)
    table = {name: np.array([[getattr(cell, name) for cell in fold] for fold in cells]) for name in Cell._fields[:-1]}
    for k, scores in enumerate(table["score"]):
        results[f"split{k}_test_score"] = scores
    mean = table["score"].mean(axis=0)
    results |= {"mean_test_score": mean, "std_test_score": table["score"].std(axis=0)}
    comparable = np.nan_to_num(mean, nan=-np.inf)
    results["rank_test_score"] = 1 + (comparable > comparable[:, None]).sum(axis=1, dtype=np.int32)
    for name, column in (("fit_time", "fit_seconds"), ("score_time", "score_seconds")):
        results |= {f"mean_{name}": table[column].mean(axis=0), f"std_{name}": table[column].std(axis=0)}
    return results | {"mean_gap": table["gap"].mean(axis=0), "mean_n_nonzero": table["n_nonzero"].mean(axis=0)}
