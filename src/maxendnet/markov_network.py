"""What all estimators share: data in, fit, prediction, in the conventions of scikit-learn."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from maxendnet import solvers
from maxendnet.backends import Backend, Threads, one_blas_thread
from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.losses import Hinge
from maxendnet.models.fitted import FitReport, FittedModel
from maxendnet.piece import options
from maxendnet.posterior import PointEstimate, Posterior
from maxendnet.priors.base import is_number
from maxendnet.problem import Problem
from maxendnet.solvers import Monitor, Solver, run
from maxendnet.solvers.base import Result, check_requirements
from maxendnet.structures import as_structure
from maxendnet.structures.base import decode

COMMON = """\
    structure : a structure or its name, default="chain"
        How the labels of one example depend on each other: `Chain`, `Tree`, `Independent` or `Choice`, with options
        such as ``Chain(bias=True)``. A name in small letters is short for the default of one.
    solver : Solver or None, default=None
        None takes the one made for the model.
    tol : float, default=1e-3
        The fit stops when `gap_` is at most this.
    max_passes : int, default=1000
        Passes over the data at most; if they do not suffice there is a ConvergenceWarning.
    n_jobs : int or None, default=None
        Threads for passes over all examples; None is 1, -1 all processors. The result is the same for any number.
    warm_start : bool, default=False
        Start from the last fit of this estimator: for a margin model where the examples, their sample weights and
        the cost are the same, for a likelihood model where the problem has the same shape.
    random_state : int, Generator or None, default=None
        For the order in which examples are visited.
    verbose : int, default=0
        1 shows a progress line, 2 a line for every look at the gap.
    backend : Backend or None, default=None
        Where sums over all examples are computed. None is ``Threads(n_jobs)``.
    callback : callable or None, default=None
        Called with a `Progress` after every look at the gap. If it returns True the fit stops there.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
    transitions_ : ndarray of shape (n_labels, n_labels), or (n_edge_types, n_labels, n_labels) for several types
        Row: the left node, or the parent.
    siblings_ : ndarray of shape (n_labels, n_labels, n_labels), or (n_edge_types, n_labels, n_labels, n_labels)
        With ``Tree(siblings=True)``: label of the parent, of the left child, of the right one; its edge has the type.
        Otherwise empty.
    intercept_, start_, end_ : ndarray of shape (n_labels,)
        With the options ``bias`` and ``ends`` of the structure; zero otherwise.
    edge_coef_ : ndarray of shape (n_edge_features, n_labels, n_labels)
    label_coef_ : ndarray of shape (n_label_features,)
    classes_ : ndarray of shape (n_labels,)
    model_ : FittedModel
        Weights, structure, labels and posterior in one object.
    posterior_ : Posterior, VariationalPosterior or PointEstimate
    objective_, dual_, gap_ : float
        The objective at the weights returned, a lower bound of its minimum, and their relative difference.
    converged_ : bool
    which_ : {"last", "average", "best"}
        Which iterate was returned.
    trace_ : list of TraceRow
        n_pass, seconds, n_oracle, primal, dual, gap, n_nonzero.
    n_passes_ : int
    n_features_in_ : int
    feature_names_ : tuple of str or None
        Of feature dicts, or the columns of DataFrames; a DataFrame at prediction must have the same in the same order.
    feature_names_in_ : ndarray of str
        The same, where features have names; as in scikit-learn.
"""

MOVED = {
    "bias": "structure=Chain(bias={})",
    "ends": "structure=Chain(ends={})",
    "siblings": "structure=Tree(siblings={})",
    "forbidden_pairs": "structure=Tree(forbidden={})",
    "rest": "structure=Choice(rest={})",
}
"""Settings of version 0.1.0 that are options of structures now."""


class MarkovNetwork(BaseEstimator):
    """Base of the estimators; a row of the table says only what `compose` returns."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # the parameters and attributes that all share are documented once, and appear in the help of each
        # (from Python 3.13 on the compiler takes the indentation out of docstrings; here it is out for all)
        start, title, examples = inspect.cleandoc(cls.__doc__ or "").partition("\nExamples\n--------\n")
        if title:
            heading = "\n" if "\nParameters\n----------\n" in start else "\n\nParameters\n----------\n"
            cls.__doc__ = start.rstrip() + heading + textwrap.dedent(COMMON) + title + examples

    def __new__(cls, *args: Any, **settings: Any) -> Any:
        moved_setting(cls.__name__, settings)
        return super().__new__(cls)

    def _store(self, structure, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose, backend, callback):
        self.structure = structure
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.backend = backend
        self.callback = callback

    def set_params(self, **params: Any) -> MarkovNetwork:
        """Change settings by name; ``structure__bias=True`` changes an option of the structure."""
        moved_setting(type(self).__name__, params)
        structure = params.get("structure", self.structure)
        if isinstance(structure, str) and any(name.startswith("structure__") for name in params):
            params["structure"] = as_structure(structure)
        return super().set_params(**params)

    def compose(self) -> tuple[Any, Any, float, Solver]:
        """Prior, loss, C and default solver."""
        raise NotImplementedError

    def _solver(self, default: Solver, problem: Problem) -> Solver:
        solver = self.solver
        if solver is None:  # what is best for the hinge depends on the examples
            by_blocks = isinstance(default, (solvers.BlockFrankWolfe, solvers.ProximalPoint))
            solver = solvers.for_hinge(problem, self.tol) if by_blocks else default
        if not isinstance(solver, Solver):
            names = ", ".join(f"{kind.__name__}()" for kind in solvers.ALL)
            raise ValueError(f"solver must be None or a solver such as {names}, got {solver!r}.")
        check_requirements(solver, problem)
        return solver

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # what solvers hold cannot be copied or pickled: a warm start begins afresh
        state = super().__getstate__()
        return state | {"_state": None} if "_state" in state else state

    # ---- learning -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MarkovNetwork:
        """Learn from labelled examples.

        Parameters
        ----------
        X : list of examples, or Examples
            An example is an array or CSR matrix of shape (n_nodes, n_features), a list of feature dicts, or for trees
            a pair (node_features, edges). A 2-D array is a list of examples of one node.
        y : list of label sequences
            One label per node; any hashables.
        sample_weight : array-like of shape (n_examples,), optional
            Multiplies the loss of an example.
        """
        rng = self._check_settings()
        examples = self._read(X, y, sample_weight)
        classes = distinct_labels(np.asarray(examples.y))
        problem, default = self.pose(examples, classes)
        solver = self._solver(default, problem)
        hooks = [Monitor(self.verbose, type(self).__name__), *([] if self.callback is None else [self.callback])]
        with one_blas_thread:
            result = run(
                solver, problem, tol=self.tol, max_passes=self.max_passes, warm=self._warm_state(solver, problem),
                seed=rng, hooks=hooks,
            )  # fmt: skip
        model = self._model(examples, classes, problem, result)
        # nothing is stored before this line: a fit that fails or is interrupted leaves the last one whole
        self._state = (type(solver), result.state, problem.fingerprint) if self.warm_start else None
        self.set_model(model)
        return self

    def _check_settings(self) -> np.random.Generator:
        if not (is_number(self.tol) and self.tol > 0):
            raise ValueError(
                f"tol must be a positive number, got {self.tol!r}; it is the relative duality gap to reach."
            )
        require_count("max_passes", self.max_passes)
        if not isinstance(self.warm_start, (bool, np.bool_)):
            raise ValueError(f"warm_start must be True or False, got {self.warm_start!r}.")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be None or a function of a Progress, got {self.callback!r}.")
        require_level("verbose", self.verbose)
        return generator(self.random_state)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        examples = as_examples(X, y, sample_weight=sample_weight, estimator=type(self).__name__, needs_y=True)
        if examples.n_nodes == 0:
            raise ValueError(f"X has {len(examples)} examples but no node at all; there is nothing to learn from.")
        return examples

    def pose(self, examples: Examples, classes: NDArray) -> tuple[Problem, Solver]:
        """The learning problem, and the solver to take if none was asked for."""
        prior, loss, C, default = self.compose()
        structure = as_structure(self.structure)
        structure.check()
        return Problem.pose(structure.bind(examples, classes), loss, prior, C, self._backend()), default

    def _backend(self) -> Any:
        if self.backend is None:
            return Threads(self.n_jobs)
        if not isinstance(self.backend, Backend) or isinstance(self.backend, type):
            raise ValueError(f"backend must be None or a backend such as Threads(2), got {self.backend!r}.")
        return self.backend

    def _warm_state(self, solver: Solver, problem: Problem) -> Any:
        """The last state of the same solver, where it is of use: on a problem of the same shape.

        Dual variables belong to labellings of certain examples, with their sample weights and costs. Taken for those of
        others they would certify what is not true.
        """
        kind, state, fingerprint = self.warm_state or (None, None, None)
        if not self.warm_start or kind is not type(solver) or self.model_.layout != problem.structure.layout:
            return None
        return state if solver.warm_anywhere or fingerprint == problem.fingerprint else None

    @property
    def warm_state(self) -> Any:
        """What a warm start begins from: the solver's state at the end of the last fit, or None. It can be set."""
        return getattr(self, "_state", None)

    @warm_state.setter
    def warm_state(self, state: Any) -> None:
        self._state = state

    def _model(self, examples: Examples, classes: NDArray, problem: Problem, result: Result) -> FittedModel:
        *values, posterior = self._report(problem, result)
        objective, dual, gap = map(float, values)
        report = FitReport(
            objective, dual, gap, result.converged and not gap > self.tol, result.which, result.n_pass, result.trace
        )
        return FittedModel(
            clone(as_structure(self.structure)), problem.structure.layout, classes, result.w, posterior,
            examples.n_features, examples.feature_names, report, type(self).__name__,
        )  # fmt: skip

    def set_model(self, model: FittedModel) -> None:
        """Become an estimator with this fitted model: set the attributes that `fit` sets."""
        self.model_ = model
        self.classes_, self.posterior_ = model.classes, model.posterior
        self.n_features_in_, self.feature_names_ = model.n_features_in, model.feature_names
        self.objective_, self.dual_, self.gap_, self.converged_, self.which_, self.n_passes_, self.trace_ = model.report
        for name, part in model.named_weights().items():
            setattr(self, f"{name}_", part)

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        """Objective, dual, gap and posterior, in the terms of this estimator."""
        eta, mu = result.eta, result.w
        if not isinstance(problem.loss, Hinge) or eta is None:
            return result.primal, result.dual, result.gap, PointEstimate(mu)
        prior = problem.exact_prior
        if not np.array_equal(prior.mean(eta), mu):
            eta = prior.gradient(mu)  # a solver that works in the primal: the posterior is the one with this mean
        return result.primal, result.dual, result.gap, Posterior(prior, eta)

    def changed_structure(self) -> str:
        """What to say if the structure was changed after the fit; empty if it was not."""
        now, fitted = as_structure(self.structure), self.model_.structure
        if type(now) is type(fitted) and repr(options(now)) == repr(options(fitted)):
            return ""
        return f"structure was changed after the fit, from {fitted!r} to {now!r}; set it back, or fit again."

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _prepare(self, X: Any) -> tuple[Examples, Any]:
        """The examples, and the structure bound to them."""
        check_is_fitted(self, "model_")
        changed = self.changed_structure()
        if changed:
            raise ValueError(changed)
        examples = self.model_.read(X)
        return examples, self.model_.bind(examples)

    def predict(self, X: Any) -> Any:
        """The best labelling of every example: a list of labels for each (one array if X is a 2-D array)."""
        examples, bound = self._prepare(X)
        return self.model_.labellings(examples, decode(bound, self.model_.weights, self._backend()))

    def predict_marginals(self, X: Any) -> Any:
        """Probability of every label at every node: a list of arrays of shape (n_nodes, n_labels).

        For likelihood models these are the model's probabilities. For margin models they are made from the scores in
        the same way, are not calibrated, and serve for ranking.
        """
        examples, bound = self._prepare(X)
        return examples.split(bound.logsum(self.model_.weights, backend=self._backend())[1].node)

    def predict_max_marginals(self, X: Any) -> Any:
        """Score of the best labelling with each label at each node: a list of arrays of shape (n_nodes, n_labels)."""
        examples, bound = self._prepare(X)
        return examples.split(offered(bound, "max_marginals")(self.model_.weights, backend=self._backend()))

    def predict_top(self, X: Any, k: int = 5) -> list[list[tuple[float, list[Any]]]]:
        """The k best labellings of every example, best first, as pairs (score, labels); fewer where fewer exist."""
        require_count("k", k)
        examples, bound = self._prepare(X)
        longest, n_labels = int(np.diff(bound.offsets).max(initial=0)), len(self.classes_)
        k = min(int(k), n_labels ** min(longest, 64))  # there are no more labellings than that
        require_room("k", k, examples.n_nodes + len(examples) + longest * n_labels)
        values, labels = offered(bound, "top")(self.model_.weights, k, backend=self._backend())
        found = [np.split(row, examples.offsets[1:-1]) for row in labels]
        return [
            [(float(v), self.classes_[found[rank][i]].tolist()) for rank, v in enumerate(row) if v > -np.inf]
            for i, row in enumerate(values)
        ]

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[Any]:
        """Draw n labellings of every example from p(y|x): a list of n predictions as `predict` gives them."""
        require_count("n", n)
        examples, bound = self._prepare(X)
        require_room("n", int(n), examples.n_nodes)
        drawn = offered(bound, "sample")(self.model_.weights, int(n), generator(random_state), backend=self._backend())
        return [self.model_.labellings(examples, labels) for labels in drawn]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score of the best labelling, shape (n_examples,)."""
        _, bound = self._prepare(X)
        return bound.maximum(self.model_.weights, backend=self._backend())[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of nodes labelled right; with ``sample_weight``, nodes count as much as their example."""
        check_is_fitted(self, "model_")
        truth = self.model_.read(X, y, sample_weight)
        if truth.y is None:
            raise ValueError("score needs the true labels: give y.")
        _, bound = self._prepare(truth)
        predicted = self.classes_[decode(bound, self.model_.weights, self._backend())]
        right = np.fromiter((p == t for p, t in zip(predicted, truth.y)), dtype=bool, count=len(truth.y))
        if truth.sample_weight is None:
            return float(right.mean()) if len(right) else float("nan")
        return float(np.average(right, weights=np.repeat(truth.sample_weight, np.diff(truth.offsets))))

    @property
    def feature_names_in_(self) -> NDArray:
        """Names of the features as scikit-learn has them; there is no such attribute where they have no names."""
        if getattr(self, "feature_names_", None) is None:
            raise AttributeError(f"{type(self).__name__} was not fitted on features with names")
        return np.array(self.feature_names_, dtype=object)

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, whole or not at all; `maxendnet.load` reads it."""
        from maxendnet.models.file import save

        save(self, path)


def moved_setting(estimator: str, settings: dict[str, Any]) -> None:
    """Raise ``TypeError`` for a setting that is an option of a structure now, and show the new form."""
    for name in settings:
        if name in MOVED:
            new = MOVED[name].format(repr(settings[name]))
            raise TypeError(f"{name} is an option of structures: {estimator}({new}).")


def offered(bound: Any, method: str) -> Any:
    """A method of a bound structure; ``ValueError`` if it has none of that name."""
    if not hasattr(bound, method):
        raise ValueError(f"{bound.described} offers no {method}; see docs/extend/structure.md for what it may offer.")
    return getattr(bound, method)


def require_count(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")


def require_level(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless the value is a whole number of at least 0, or True or False."""
    if not isinstance(value, (int, np.integer, np.bool_)) or value < 0:
        raise ValueError(f"{name} must be 0, 1 or 2, got {value!r}.")


MOST_NUMBERS = 1 << 30
"""At most so many numbers are kept for one answer: 8 GiB."""


def require_room(name: str, value: int, numbers_each: int) -> None:
    """Raise ``ValueError`` where so many results would need more memory than a prediction should ask for."""
    needed = value * numbers_each
    if needed > MOST_NUMBERS:
        raise ValueError(
            f"{name}={value} needs {needed} numbers ({numbers_each} for each result), beyond the limit of "
            f"{MOST_NUMBERS} (8 GiB); give a smaller {name}, or fewer and shorter examples at a time."
        )


def generator(random_state: Any) -> np.random.Generator:
    """A random generator from whatever scikit-learn's users give as ``random_state``."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be None, a whole number of at least 0 or a random Generator, got {random_state!r}."
        ) from None
