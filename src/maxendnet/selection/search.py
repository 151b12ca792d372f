"""Constants by cross-validation, with a path of warm starts in every fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.estimators import L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.losses import Log
from maxendnet.markov_network import MarkovNetwork
from maxendnet.priors.base import is_number
from maxendnet.selection.regularisation_path import Point, expand, follow, visiting_order
from maxendnet.settings import generator
from maxendnet.structures import as_structure
from maxendnet.utils.progress import progress_bar


class Cell(NamedTuple):
    """A fit in a fold."""

    score: float
    fit_seconds: float
    score_seconds: float
    gap: float
    n_nonzero: int
    failure: str = ""


def default_grid(estimator: MarkovNetwork, examples: Examples) -> list[Point]:
    """Points around where constants start to matter, whatever the scale of the features.

    A margin of 1 at one node needs weights of the size 1/R, R^2 the mean squared norm of the features of a node, so C
    is counted in units of 1/R^2 (M3N) and lam in R^2 (L2CRF). With an L1 penalty no weight is left where lam is the
    largest entry of the gradient at zero, which is where the grid begins. LapMEDN with lam = 2 C / c tends to M3N with
    the constant c for small C, and to L1M3N for large: a band around good c.
    """
    squares = examples.X.multiply(examples.X).sum() / max(examples.n_nodes, 1) + getattr(
        as_structure(estimator.structure), "bias", False
    )
    R2 = float(squares) or 1.0
    if isinstance(estimator, LapMEDN):
        return [{"C": C, "lam": 2 * C * R2 / c} for C in (0.3, 1.0, 3.0, 10.0) for c in (1.0, 3.0, 10.0)]
    if isinstance(estimator, M3N):
        return [{"C": c / R2} for c in np.geomspace(0.1, 100, 7).tolist()]
    if isinstance(estimator, L2CRF):
        return [{"lam": R2 / c} for c in np.geomspace(1, 1000, 7).tolist()]
    if isinstance(estimator, L1CRF) or (isinstance(estimator, L1M3N) and estimator.radius is None):
        problem = estimator.pose(examples, distinct_labels(np.asarray(examples.y)))
        likelihood = problem.ask(loss=Log(), C=1.0)
        slope = float(np.abs(likelihood.losses(np.zeros(problem.n_weights))[1]).max(initial=0.0)) or 1.0
        if isinstance(estimator, L1CRF):
            return [{"lam": slope * c} for c in np.geomspace(0.3, 3e-4, 7).tolist()]
        return [{"C": 0.5 / slope * c} for c in np.geomspace(3, 1000, 7).tolist()]
    raise ValueError(
        f"{type(estimator).__name__} has no default grid; give one, for instance grid={{'C': [0.1, 1.0, 10.0]}}."
    )


def _refitted(self: Any) -> bool:
    if not self.refit:
        raise AttributeError("refit is False, so there is no fitted model; set refit=True, or fit best_params_.")
    return True


class PathSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Choose constants by cross-validation: a grid search whose fits start from each other.

    As scikit-learn's GridSearchCV, with its attributes, but in every fold the points of the grid are one path with warm
    starts, from more regularisation to less, and fits during the search are rough. The best constants are then
    fitted to all examples, to the ``tol`` of the estimator.

    Parameters
    ----------
    estimator : M3N, LapMEDN, L1M3N, L1CRF, L2CRF, MaxEnDNet or CRF
    grid : dict of lists, list of dicts, or None, default=None
        ``{"C": [...], "lam": [...]}`` stands for all combinations. None is 7 points (12 for LapMEDN) that follow the
        scale of the features.
    scoring : callable or None, default=None
        ``scoring(model, X, y)``, higher is better; None is the share of nodes labelled right.
    cv : int, splitter or iterable of (train, test), default=None
        As in scikit-learn: None is 5 folds. Examples are split, never nodes.
    refit : bool, default=True
        Fit the best constants to all examples.
    search_tol : float or None, default=1e-2
        Relative gap of fits during the search, where that is larger than the estimator's; None is the estimator's.
    n_jobs : int or None, default=None
        Folds at a time, by joblib; the result is the same for any number. With an estimator whose ``backend`` is
        `maxendnet.backends.Dask` folds are computed on its workers, each on one.
    error_score : "raise" or float, default=nan
        Score of a fit that fails.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    best_estimator_ : the model of all examples, with ``refit``
    best_params_ : dict
    best_score_ : float
        Mean score over the folds. Of equals the one with more regularisation is taken.
    best_index_ : int
    cv_results_ : dict of arrays
        As of GridSearchCV, in the order of the grid; also ``mean_gap`` and ``mean_n_nonzero``.
    n_splits_ : int
    refit_time_ : float
    classes_, n_features_in_ : of the best model

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
        """Search, and fit the best constants to all examples.

        Parameters
        ----------
        X, y, sample_weight : as for the ``fit`` of the estimator
        groups : array-like of shape (n_examples,), optional
            For splitters such as GroupKFold.
        """
        from sklearn.model_selection import check_cv  # slow to import, and needed by nothing else

        self._check_settings()
        name = type(self.estimator).__name__
        examples = as_examples(X, y, sample_weight=sample_weight, estimator=name, needs_y=True)
        points = expand(default_grid(self.estimator, examples) if self.grid is None else self.grid)
        for point in points:
            clone(self.estimator).set_params(**point)  # names are checked before the first fit, values by each
        rough = clone(self.estimator)
        if self.search_tol is not None and is_number(rough.tol):
            rough.set_params(tol=max(rough.tol, self.search_tol))
        if not isinstance(rough.random_state, (int, np.integer)):
            # one number for all folds: a generator would give each what the others have left
            rough.set_params(random_state=int(generator(rough.random_state).integers(2**31)))
        splits = list(check_cv(self.cv).split(np.zeros(len(examples)), None, groups))
        if not splits:
            raise ValueError(f"cv gives no split of {len(examples)} examples into training and test, got {self.cv!r}.")
        cells = self._run(rough, examples, points, splits)
        self._failures(cells, points)
        self.n_splits_ = len(splits)
        self.cv_results_ = _results(points, cells)
        scores = self.cv_results_["mean_test_score"]
        order = [number for row in visiting_order(points) for number in row]
        best = np.nan_to_num(scores, nan=-np.inf).max()
        self.best_index_ = next(number for number in order if scores[number] == best)
        self.best_params_, self.best_score_ = points[self.best_index_], float(best)
        if self.refit:
            began = time.perf_counter()
            self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_).fit(examples)
            self.refit_time_ = time.perf_counter() - began
            self.classes_ = self.best_estimator_.classes_
            self.n_features_in_ = self.best_estimator_.n_features_in_
        return self

    def _check_settings(self) -> None:
        if not isinstance(self.estimator, MarkovNetwork):
            raise ValueError(f"estimator must be one of maxendnet's, such as M3N(), got {self.estimator!r}.")
        if not (self.scoring is None or callable(self.scoring)):
            raise ValueError(f"scoring must be None or a function of (model, X, y), got {self.scoring!r}.")
        if not (self.error_score == "raise" or is_number(self.error_score)):
            raise ValueError(f'error_score must be "raise" or a number, got {self.error_score!r}.')
        if not (self.search_tol is None or (is_number(self.search_tol) and self.search_tol > 0)):
            raise ValueError(f"search_tol must be None or a positive number, got {self.search_tol!r}.")

    def _run(self, rough: Any, examples: Examples, points: list[Point], splits: list[Any]) -> list[list[Cell]]:
        """The cells of every fold; folds in parallel, each a path."""
        total, name = len(splits) * len(points), type(self.estimator).__name__
        with progress_bar(total=total, desc=f"{name} search", unit=" fits", show=self.verbose) as bar:
            arguments = rough, examples, points
            options = {"scoring": self.scoring, "error_score": self.error_score}
            if hasattr(rough.backend, "run_all"):  # workers
                rough, backend = clone(rough).set_params(backend=None), rough.backend
                of_folds: dict[int, list[Cell]] = {}
                common = (partial(_fold, **options), rough, examples, points)
                for number, result in backend.run_all(_call, splits, common):
                    if isinstance(result, BaseException):
                        raise result
                    bar.update(len(points))
                    of_folds[number] = result
                return [of_folds[number] for number in range(len(splits))]
            if effective_n_jobs(self.n_jobs) == 1:
                return [_fold(*arguments, train, test, **options, tick=bar.update) for train, test in splits]
            found = []
            jobs = (delayed(_fold)(*arguments, train, test, **options) for train, test in splits)
            for cells in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs):
                bar.update(len(points))
                found.append(cells)
            return found

    def _failures(self, cells: list[list[Cell]], points: list[Point]) -> None:
        failed = [(point, cell.failure) for fold in cells for point, cell in zip(points, fold) if cell.failure]
        if not failed:
            return
        first = f"The first: at {failed[0][0]}, {failed[0][1]}"
        if len(failed) == len(cells) * len(points):
            raise ValueError(f"All {len(failed)} fits of the search failed. {first}")
        warnings.warn(
            f"{len(failed)} fits of the search failed; their score is {self.error_score}. {first}",
            FitFailedWarning,
            stacklevel=3,
        )

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags, tags.target_tags = (
            inner.estimator_type,
            inner.input_tags,
            inner.target_tags,
        )
        return tags

    @available_if(_refitted)
    def score(self, X: Any, y: Any = None) -> float:
        """Score of the best model: by ``scoring``, else the share of nodes labelled right."""
        check_is_fitted(self)
        return self.best_estimator_.score(X, y) if self.scoring is None else self.scoring(self.best_estimator_, X, y)


def _delegate(name: str) -> Any:
    def call(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X, *args, **kwargs)

    call.__name__, call.__doc__ = name, f"``{name}`` of the best model."
    return available_if(_refitted)(call)


for _name in ("predict", "predict_marginals", "predict_max_marginals", "predict_top", "sample", "decision_function"):
    setattr(PathSearchCV, _name, _delegate(_name))


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


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
    """All points on one split."""
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

    follow(rough, examples[train], points, visit)
    return cells


def _results(points: list[Point], cells: list[list[Cell]]) -> dict[str, Any]:
    """The columns of GridSearchCV's table."""
    found: dict[str, Any] = {"params": points}
    for name in dict.fromkeys(name for point in points for name in point):
        absent = [name not in point for point in points]
        values = np.empty(len(points), dtype=object)
        values[:] = [point.get(name) for point in points]
        found[f"param_{name}"] = np.ma.MaskedArray(values, mask=absent)
    table = {name: np.array([[getattr(cell, name) for cell in fold] for fold in cells]) for name in Cell._fields[:-1]}
    for k, scores in enumerate(table["score"]):
        found[f"split{k}_test_score"] = scores
    mean = table["score"].mean(axis=0)
    found |= {"mean_test_score": mean, "std_test_score": table["score"].std(axis=0)}
    known = np.nan_to_num(mean, nan=-np.inf)
    found["rank_test_score"] = 1 + (known > known[:, None]).sum(axis=1, dtype=np.int32)
    for name, column in (("fit_time", "fit_seconds"), ("score_time", "score_seconds")):
        found |= {f"mean_{name}": table[column].mean(axis=0), f"std_{name}": table[column].std(axis=0)}
    return found | {"mean_gap": table["gap"].mean(axis=0), "mean_n_nonzero": table["n_nonzero"].mean(axis=0)}
