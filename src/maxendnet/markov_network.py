"""What all estimators share: data in, fit, prediction, in the conventions of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxendnet.backends import Threads
from maxendnet.data.batch import Batch, encode, labels_by_node_type
from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.losses import Hinge
from maxendnet.posterior import PointEstimate, Posterior
from maxendnet.problem import Problem
from maxendnet.solvers import ALL, Monitor, Solver, run
from maxendnet.solvers.base import Result, check_requirements
from maxendnet.structures import Forest

COMMON = """\
    structure : {"chain", "tree", "independent"}, default="chain"
        Which nodes are joined: each to the one before it, by the edges that come with the examples, or none. Edges that
        come with an example are used under "chain" too.
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node (of a tree: at the root and at the leaves).
    solver : Solver or None, default=None
        None takes the one made for the model.
    tol : float, default=1e-3
        The fit stops when `gap_` is at most this.
    max_passes : int, default=1000
        Passes over the data at most; if they do not suffice there is a ConvergenceWarning.
    n_jobs : int or None, default=None
        Threads for passes over all examples; None is 1, -1 all processors. The result is the same for any number.
    warm_start : bool, default=False
        Start from the last fit of this estimator where the problem has the same shape.
    random_state : int, Generator or None, default=None
        For the order in which examples are visited.
    verbose : int, default=0
        1 shows a progress line, 2 a line for every look at the gap.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
    transitions_ : ndarray of shape (n_labels, n_labels), or (n_edge_types, n_labels, n_labels) for several types
        Row: the left node, or the parent.
    intercept_, start_, end_ : ndarray of shape (n_labels,)
        With ``bias`` and ``ends``; zero otherwise.
    edge_coef_ : ndarray of shape (n_edge_features, n_labels, n_labels)
    tied_coef_ : ndarray of shape (n_tied,)
    classes_ : ndarray of shape (n_labels,)
    posterior_ : Posterior, VariationalPosterior or PointEstimate
    objective_, dual_, gap_ : float
        The objective at the weights returned, a lower bound of its minimum, and their relative difference.
    converged_ : bool
    which_ : {"last", "average"}
        Which iterate was returned.
    trace_ : list of TraceRow
        n_pass, seconds, n_oracle, primal, dual, gap, n_nonzero.
    n_passes_ : int
    n_features_in_ : int
    feature_names_ : tuple of str or None
"""


class MarkovNetwork(BaseEstimator):
    """Base of the estimators; a row of the table says only what `_compose` returns."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # the parameters and attributes that all share are documented once, and appear in the help of each
        doc = cls.__doc__ or ""
        if "    Examples\n" in doc:
            start, examples = doc.split("    Examples\n", 1)
            heading = "" if "    Parameters\n" in doc else "    Parameters\n    ----------\n"
            cls.__doc__ = start.rstrip() + "\n" + ("\n" + heading if heading else "") + COMMON + "\n    Examples\n" + examples

    def _store(self, structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose):
        self.structure = structure
        self.bias = bias
        self.ends = ends
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _compose(self) -> tuple[Any, Any, float, Solver]:
        """Prior, loss, C and default solver."""
        raise NotImplementedError

    def _solver(self, default: Solver) -> Solver:
        return default if self.solver is None else self.solver

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
        self._check_settings()
        examples = self._read(X, y, sample_weight)
        self.classes_ = distinct_labels(examples.y)
        self._type_allowed = labels_by_node_type(examples, self.classes_) if examples.node_types is not None else None
        self.n_features_in_ = examples.shape[1]
        self.feature_names_ = examples.feature_names
        batch = self._encode(examples)
        structure = self._make_structure(examples, batch)
        prior, loss, C, default = self._compose()
        problem = Problem(batch, structure, loss, prior, C, Threads(self.n_jobs))
        solver = self._solver(default)
        check_requirements(solver, problem, ALL)
        warm = getattr(self, "_state", None) if self.warm_start and getattr(self, "_structure", None) == structure else None
        result = run(
            solver, problem, tol=self.tol, max_passes=self.max_passes, warm=warm, seed=self._seed(),
            monitor=Monitor(self.verbose, type(self).__name__),
        )  # fmt: skip
        self._structure, self._state = structure, result.state if self.warm_start else None
        self._keep(problem, result)
        return self

    def _seed(self) -> Any:
        state = self.random_state
        return state.randint(2**31) if isinstance(state, np.random.RandomState) else state

    def _check_settings(self) -> None:
        if isinstance(self.tol, bool) or not isinstance(self.tol, (int, float, np.number)) or not self.tol > 0:
            raise ValueError(f"tol must be a positive number, got {self.tol!r}; it is the relative duality gap to reach.")
        if not isinstance(self.max_passes, (int, np.integer)) or self.max_passes < 1:
            raise ValueError(f"max_passes must be a whole number of at least 1, got {self.max_passes!r}.")

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        if y is None and not (isinstance(X, Examples) and X.y is not None):
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        examples = as_examples(X, y, weights=sample_weight)
        if examples.offsets[-1] == 0:
            raise ValueError(f"X has {len(examples)} examples but no node at all; there is nothing to learn from.")
        return examples

    def _encode(self, examples: Examples) -> Batch:
        return encode(
            examples, self.classes_, self.structure, bias=self.bias, ends=self.ends, type_allowed=self._type_allowed
        )

    def _make_structure(self, examples: Examples, batch: Batch) -> Forest:
        extra = int(self.bias) + 2 * int(self.ends)
        n_edge_types = 0
        if self.structure != "independent":
            n_edge_types = 1 if examples.edge_types is None else int(examples.edge_types.max(initial=0)) + 1
        n_edge_features = batch.edge_features.shape[1] if n_edge_types else 0
        n_tied = batch.label_features.shape[2]
        return Forest(examples.shape[1] + extra, len(self.classes_), n_edge_types, n_edge_features, n_tied)

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        """Objective, dual, gap and posterior, in the terms of this estimator."""
        exact = isinstance(problem.loss, Hinge) and result.eta is not None
        posterior = Posterior(problem.prior, result.eta) if exact else PointEstimate(result.w)
        return result.primal, result.dual, result.gap, posterior

    def _keep(self, problem: Problem, result: Result) -> None:
        self.objective_, self.dual_, self.gap_, self.posterior_ = self._report(problem, result)
        self.converged_, self.which_ = result.converged, result.which
        self.trace_, self.n_passes_ = result.trace, result.n_pass
        self._set_weights(result.w)

    def _set_weights(self, w: NDArray[np.float64]) -> None:
        self._w = w
        parts = self._structure.parts(w)
        n = self.n_features_in_
        self.coef_ = parts.node[:n]
        extra = iter(parts.node[n:])
        zero = np.zeros(self._structure.n_labels)
        self.intercept_ = next(extra) if self.bias else zero
        self.start_, self.end_ = (next(extra), next(extra)) if self.ends else (zero, zero)
        self.transitions_ = parts.transitions[0] if len(parts.transitions) == 1 else parts.transitions
        self.edge_coef_, self.tied_coef_ = parts.edge, parts.tied

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _prepare(self, X: Any) -> tuple[Examples, Batch, Threads]:
        check_is_fitted(self, "classes_")
        examples = as_examples(
            X, feature_names=self.feature_names_, n_features=self.n_features_in_, estimator=type(self).__name__
        )
        s = self._structure
        batch = encode(
            replace(examples, y=None), self.classes_, self.structure, bias=self.bias, ends=self.ends,
            type_allowed=self._type_allowed, n_edge_types=s.n_edge_types, n_edge_features=s.n_edge_features,
            n_tied=s.n_tied,
        )  # fmt: skip
        return examples, batch, Threads(self.n_jobs)

    def predict(self, X: Any) -> Any:
        """The best labelling of every example: a list of label arrays (one array if X is a 2-D array)."""
        examples, batch, backend = self._prepare(X)
        return examples.split(self.classes_[self._structure.decode(self._w, batch, backend)])

    def predict_marginals(self, X: Any) -> Any:
        """Probability of every label at every node: a list of arrays of shape (n_nodes, n_labels).

        For likelihood models these are the model's probabilities. For margin models they are made from the scores in
        the same way, are not calibrated, and serve for ranking.
        """
        examples, batch, backend = self._prepare(X)
        return examples.split(self._structure.logsum(self._w, batch, backend=backend)[1])

    def predict_max_marginals(self, X: Any) -> Any:
        """Score of the best labelling with each label at each node: a list of arrays of shape (n_nodes, n_labels)."""
        examples, batch, backend = self._prepare(X)
        return examples.split(self._structure.max_marginals(self._w, batch, backend))

    def predict_top(self, X: Any, k: int = 5) -> list[list[tuple[float, NDArray]]]:
        """The k best labellings of every example, best first, as pairs (score, labels); fewer where fewer exist."""
        if not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
        examples, batch, backend = self._prepare(X)
        values, labels = self._structure.top(self._w, batch, int(k), backend)
        found = [np.split(row, examples.offsets[1:-1]) for row in labels]
        return [
            [(float(v), self.classes_[found[rank][i]]) for rank, v in enumerate(row) if v > -np.inf]
            for i, row in enumerate(values)
        ]

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[Any]:
        """Draw n labellings of every example from p(y|x): a list of n predictions as `predict` gives them."""
        examples, batch, backend = self._prepare(X)
        drawn = self._structure.sample(self._w, batch, n, np.random.default_rng(random_state), backend)
        return [examples.split(self.classes_[labels]) for labels in drawn]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Score of the best labelling, shape (n_examples,)."""
        _, batch, backend = self._prepare(X)
        return self._structure.maximum(self._w, batch, backend=backend)[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of nodes labelled right; with ``sample_weight``, nodes count as much as their example."""
        truth = as_examples(
            X, y, feature_names=getattr(self, "feature_names_", None), weights=sample_weight,
            estimator=type(self).__name__,
        )  # fmt: skip
        if truth.y is None:
            raise ValueError("score needs the true labels: give y.")
        predicted = self.predict(truth)
        predicted = predicted if truth.flat else np.concatenate([*predicted, self.classes_[:0]])
        right = np.fromiter((p == t for p, t in zip(predicted, truth.y)), dtype=bool, count=len(truth.y))
        if truth.weights is None:
            return float(right.mean()) if len(right) else float("nan")
        return float(np.average(right, weights=np.repeat(truth.weights, np.diff(truth.offsets))))

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, whole or not at all; `maxendnet.load` reads it."""
        from maxendnet.model_file import save

        save(self, path)
