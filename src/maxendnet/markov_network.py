"""What all estimators share: data in, fit, prediction, in the conventions of scikit-learn."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxendnet import solvers
from maxendnet.backends import Threads, one_blas_thread
from maxendnet.data.batch import UNJOINED, Batch, encode, labels_by_node_type
from maxendnet.data.choices import check_rest, rest_of
from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.data.forbidden_pairs import check_directions, check_pairs, check_possible, pair_codes
from maxendnet.losses import Hinge
from maxendnet.posterior import PointEstimate, Posterior
from maxendnet.priors.base import is_number
from maxendnet.problem import Problem
from maxendnet.solvers import Monitor, Solver, run
from maxendnet.solvers.base import Result, check_requirements
from maxendnet.structures import Choice, Forest, Hierarchy

COMMON = """\
    structure : {"chain", "tree", "independent", "choice"}, default="chain"
        Which nodes are joined: each to the one before it, by the edges that come with the examples, or none. Edges that
        come with an example are used under "chain" too. With "choice" nodes compete: at most one node of an example has
        another label than ``rest``; see `Choice`.
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node (of a tree: at the root and at the leaves).
    siblings : bool, default=False
        Add weights for every pair of neighbouring children of a node given its label; see `Hierarchy`. Children stand
        in the order of their numbers.
    forbidden_pairs : list of (label, label) or None, default=None
        Labels that a parent and its child (in a chain, a node and the next) cannot have together, neither in learning
        nor in prediction.
    rest : label or None, default=None
        With structure="choice", the label of all nodes but the chosen one. None is the most frequent label that can be.
    solver : Solver or None, default=None
        None takes the one made for the model.
    tol : float, default=1e-3
        The fit stops when `gap_` is at most this.
    max_passes : int, default=1000
        Passes over the data at most; if they do not suffice there is a ConvergenceWarning.
    n_jobs : int or None, default=None
        Threads for passes over all examples; None is 1, -1 all processors. The result is the same for any number.
    warm_start : bool, default=False
        Start from the last fit of this estimator: for a margin model where the examples, their weights and the cost
        are the same, for a likelihood model where the problem has the same shape.
    random_state : int, Generator or None, default=None
        For the order in which examples are visited.
    verbose : int, default=0
        1 shows a progress line, 2 a line for every look at the gap.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
    transitions_ : ndarray of shape (n_labels, n_labels), or (n_edge_types, n_labels, n_labels) for several types
        Row: the left node, or the parent.
    siblings_ : ndarray of shape (n_labels, n_labels, n_labels), or (n_edge_types, n_labels, n_labels, n_labels)
        With ``siblings``: label of the parent, of the left child, of the right one; its edge has the type. Otherwise
        empty.
    intercept_, start_, end_ : ndarray of shape (n_labels,)
        With ``bias`` and ``ends``; zero otherwise.
    edge_coef_ : ndarray of shape (n_edge_features, n_labels, n_labels)
    tied_coef_ : ndarray of shape (n_tied,)
    classes_ : ndarray of shape (n_labels,)
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


class MarkovNetwork(BaseEstimator):
    """Base of the estimators; a row of the table says only what `_compose` returns."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # the parameters and attributes that all share are documented once, and appear in the help of each
        doc = cls.__doc__ or ""
        if "    Examples\n" in doc:
            start, examples = doc.split("    Examples\n", 1)
            heading = "" if "    Parameters\n" in doc else "\n    Parameters\n    ----------\n"
            cls.__doc__ = start.rstrip() + "\n" + heading + COMMON + "\n    Examples\n" + examples

    def _store(self, structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose,
               siblings, forbidden_pairs, rest):  # fmt: skip
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
        self.siblings = siblings
        self.forbidden_pairs = forbidden_pairs
        self.rest = rest

    def _compose(self) -> tuple[Any, Any, float, Solver]:
        """Prior, loss, C and default solver."""
        raise NotImplementedError

    def _solver(self, default: Solver, problem: Problem) -> Solver:
        solver = self.solver
        if solver is None:  # what is best for the hinge depends on the examples
            by_blocks = isinstance(default, solvers.BlockFrankWolfe)
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
        # what kernels hold cannot be copied or pickled: a warm start begins afresh, the sizes make their caches anew
        state = super().__getstate__()
        if "_structure" in state:
            state = state | {"_state": None, "_structure": replace(state["_structure"])}
        return state

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
        type_allowed = labels_by_node_type(examples, classes) if examples.node_types is not None else None
        problem, default = self._pose(examples, classes, type_allowed)
        solver = self._solver(default, problem)
        with one_blas_thread:
            result = run(
                solver, problem, tol=self.tol, max_passes=self.max_passes, warm=self._warm_state(solver, problem),
                seed=rng, monitor=Monitor(self.verbose, type(self).__name__),
            )  # fmt: skip
        # nothing is stored before this line: a fit that fails or is interrupted leaves the last one whole
        self.classes_, self._type_allowed = classes, type_allowed
        self.n_features_in_, self.feature_names_ = examples.shape[1], examples.feature_names
        self._structure = problem.structure
        self._state = (type(solver), result.state, self._origin(problem)) if self.warm_start else None
        self._keep(problem, result)
        return self

    def _check_settings(self) -> np.random.Generator:
        if not (is_number(self.tol) and self.tol > 0):
            raise ValueError(
                f"tol must be a positive number, got {self.tol!r}; it is the relative duality gap to reach."
            )
        require_count("max_passes", self.max_passes)
        for name in ("bias", "ends", "warm_start", "siblings"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        require_level("verbose", self.verbose)
        return generator(self.random_state)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Examples:
        examples = as_examples(X, y, weights=sample_weight, estimator=type(self).__name__, needs_y=True)
        if examples.n_nodes == 0:
            raise ValueError(f"X has {len(examples)} examples but no node at all; there is nothing to learn from.")
        return examples

    def _pose(self, examples: Examples, classes: NDArray, type_allowed: Any = None) -> tuple[Problem, Solver]:
        """The learning problem, and the solver to take if none was asked for."""
        prior, loss, C, default = self._compose()
        batch = encode(examples, classes, self.structure, bias=self.bias, ends=self.ends, type_allowed=type_allowed)
        joined = self.structure not in UNJOINED
        structure = Forest(
            n_features=examples.n_features + int(self.bias) + 2 * int(self.ends),
            n_labels=len(classes),
            n_edge_types=examples.n_edge_types if joined else 0,
            n_edge_features=examples.n_edge_features if joined else 0,
            n_tied=examples.n_tied,
        )
        siblings, forbidden = self._triples_and_pairs(classes)
        if siblings or forbidden:
            if not joined:
                raise ValueError(
                    f"siblings and forbidden_pairs are about nodes that are joined, and structure={self.structure!r} "
                    "joins none; choose structure='tree' or 'chain'."
                )
            structure = Hierarchy(**asdict(structure), siblings=siblings, forbidden=forbidden)
            check_directions(batch, examples)
            check_pairs(batch, examples, classes, structure.forbidden_matrix)
        if self.structure == "choice":
            structure = Choice(**asdict(structure), rest=rest_of(batch, examples, classes, self.rest))
        return Problem(batch, structure, loss, prior, C, Threads(self.n_jobs)), default

    def _triples_and_pairs(self, classes: NDArray) -> tuple[bool, tuple[tuple[int, int], ...]]:
        """Whether neighbouring children are scored together, and the pairs that are forbidden, as numbers."""
        return bool(self.siblings), pair_codes(self.forbidden_pairs, classes)

    def _warm_state(self, solver: Solver, problem: Problem) -> Any:
        """The last state of the same solver, where it is of use: on a problem of the same shape.

        Dual variables belong to labellings of certain examples, with their weights and costs. Taken for those of
        others they would certify what is not true.
        """
        kind, state, origin = getattr(self, "_state", None) or (None, None, None)
        if not self.warm_start or kind is not type(solver) or self._structure != problem.structure:
            return None
        return state if solver.warm_anywhere or origin == self._origin(problem) else None

    @staticmethod
    def _origin(problem: Problem) -> str:
        """What tells one set of examples, weights and costs from another."""
        digest = hashlib.blake2b(problem.cost.tobytes())
        for value in problem.batch:
            digest.update(value.data if isinstance(value, np.ndarray) and value.size else repr(value).encode())
        return digest.hexdigest()

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        """Objective, dual, gap and posterior, in the terms of this estimator."""
        prior, eta, mu = problem.prior, result.eta, result.w
        if not isinstance(problem.loss, Hinge) or eta is None:
            return result.primal, result.dual, result.gap, PointEstimate(mu)
        if not np.array_equal(prior.mean(eta), mu):
            eta = prior.gradient(mu)  # a solver that works in the primal: the posterior is the one with this mean
        return result.primal, result.dual, result.gap, Posterior(prior, eta)

    def _keep(self, problem: Problem, result: Result) -> None:
        *values, self.posterior_ = self._report(problem, result)
        self.objective_, self.dual_, self.gap_ = map(float, values)
        self.converged_, self.which_ = result.converged and not self.gap_ > self.tol, result.which
        self.trace_, self.n_passes_ = result.trace, result.n_pass
        self._set_weights(result.w)

    def _set_weights(self, w: NDArray[np.float64]) -> None:
        self._w = w
        parts = self._structure.parts(w)
        n = self.n_features_in_
        self.coef_ = parts.node[:n]
        extra, zero = parts.node[n:], np.zeros(self._structure.n_labels)
        self.intercept_ = extra[0] if self.bias else zero
        self.start_ = extra[-2] if self.ends else zero
        self.end_ = extra[-1] if self.ends else zero
        self.transitions_ = parts.transitions[0] if len(parts.transitions) == 1 else parts.transitions
        self.edge_coef_, self.tied_coef_ = parts.edge, parts.tied
        siblings = getattr(parts, "siblings", np.zeros((0, *[len(zero)] * 3)))
        self.siblings_ = siblings[0] if len(siblings) == 1 else siblings

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _prepare(self, X: Any) -> tuple[Examples, Batch, Threads]:
        check_is_fitted(self, "coef_")
        examples = as_examples(
            X, feature_names=self.feature_names_, n_features=self.n_features_in_, estimator=type(self).__name__
        )
        s = self._structure
        extra = int(self.bias) + 2 * int(self.ends)
        if s.n_features != self.n_features_in_ + extra or not is_named(s, self.structure):
            raise ValueError("structure, bias or ends was changed after the fit; set it back, or fit again.")
        if self._triples_and_pairs(self.classes_) != (getattr(s, "siblings", False), getattr(s, "forbidden", ())):
            raise ValueError("siblings or forbidden_pairs was changed after the fit; set it back, or fit again.")
        if isinstance(s, Choice) and self.rest is not None and not np.array_equal(self.classes_[s.rest], self.rest):
            raise ValueError("rest was changed after the fit; set it back, or fit again.")
        batch = encode(
            replace(examples, y=None), self.classes_, self.structure, bias=self.bias, ends=self.ends,
            type_allowed=self._type_allowed, n_edge_types=s.n_edge_types, n_edge_features=s.n_edge_features,
            n_tied=s.n_tied,
        )  # fmt: skip
        backend = Threads(self.n_jobs)
        if isinstance(s, Hierarchy):
            check_directions(batch, examples)
            check_possible(s.impossible(batch, backend), examples)
        if isinstance(s, Choice):
            check_rest(batch, examples, s.rest)
        return examples, batch, backend

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
        require_count("k", k)
        examples, batch, backend = self._prepare(X)
        longest, n_labels = int(np.diff(batch.offsets).max(initial=0)), len(self.classes_)
        k = min(int(k), n_labels ** min(longest, 64))  # there are no more labellings than that
        require_room("k", k, examples.n_nodes + len(examples) + longest * n_labels)
        values, labels = self._structure.top(self._w, batch, k, backend)
        found = [np.split(row, examples.offsets[1:-1]) for row in labels]
        return [
            [(float(v), self.classes_[found[rank][i]]) for rank, v in enumerate(row) if v > -np.inf]
            for i, row in enumerate(values)
        ]

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[Any]:
        """Draw n labellings of every example from p(y|x): a list of n predictions as `predict` gives them."""
        require_count("n", n)
        examples, batch, backend = self._prepare(X)
        require_room("n", int(n), examples.n_nodes)
        drawn = self._structure.sample(self._w, batch, int(n), generator(random_state), backend)
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

    @property
    def feature_names_in_(self) -> NDArray:
        """Names of the features as scikit-learn has them; there is no such attribute where they have no names."""
        if getattr(self, "feature_names_", None) is None:
            raise AttributeError(f"{type(self).__name__} was not fitted on features with names")
        return np.array(self.feature_names_, dtype=object)

    # ---- files --------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, whole or not at all; `maxendnet.load` reads it."""
        from maxendnet.model_file import save

        save(self, path)


def is_named(structure: Forest, name: Any) -> bool:
    """Whether a model with the setting ``structure=name`` can have weights of this structure."""
    unjoined, choice = structure.n_edge_types == 0, isinstance(structure, Choice)
    return (name in UNJOINED) == unjoined and (name == "choice") == choice


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
