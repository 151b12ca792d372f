"""What all estimators share: data in, fit, prediction, in the conventions of scikit-learn."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxendnet import solvers
from maxendnet.backends import Backend, Threads, one_blas_thread
from maxendnet.data.annotations import read_node_weight
from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.data.truth import known_nodes
from maxendnet.losses import Hinge
from maxendnet.models.fitted import FitReport, FittedModel
from maxendnet.piece import options
from maxendnet.posterior import PointEstimate, Posterior
from maxendnet.priors import Gaussian
from maxendnet.priors.base import is_number, offers
from maxendnet.problem import Problem
from maxendnet.solvers import Monitor, Solver, run
from maxendnet.solvers.base import Result, Support, check_requirements
from maxendnet.solvers.choose import choose, default_solver
from maxendnet.solvers.concave_convex import ConcaveConvex, RoundsState
from maxendnet.solvers.self_training import SelfTraining, SelfTrainingState
from maxendnet.structures import as_structure
from maxendnet.structures.base import decode

COMMON = """\
    structure : a structure or its name, default="chain"
        How the labels of one example depend on each other: `Chain`, `Tree`, `Graph`, `Independent` or `Choice`, with
        options such as ``Chain(bias=True)``. A name in small letters is short for the default of one.
    solver : Solver or None, default=None
        None takes the one made for the model.
    tol : float, default=1e-3
        The fit stops when `gap_` is at most this.
    max_passes : int, default=1000
        Passes over the data at most; if they do not suffice there is a ConvergenceWarning.
    n_jobs : int or None, default=None
        Threads for passes over all examples; None is 1, -1 all processors. The result is the same for any number.
    warm_start : bool, default=False
        Start from the last fit of this estimator: where the examples, their sample weights and the cost are the same;
        with `LBFGS` and `OWLQN` where the problem has the same shape.
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
    round_gap_ : float
        Where labels are not known, the certificate of the last convex problem that a margin model solved: `gap_` is nan
        then. Otherwise the same as `gap_`.
    n_rounds_ : int
        Convex problems solved; 1 where all labels are known.
    solver_ : str
        Which solver ran, and why it was chosen.
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


def on_workers(examples: Any) -> bool:
    """Whether these are partitions on workers, whose nodes this process does not see."""
    return examples.offsets is None


def has_prior_to_go_on_from(estimator: Any) -> bool:
    """Whether an estimator learns a distribution over weights that can be the prior of the next fit."""
    try:
        prior = estimator.compose()[0]
    except ValueError:
        return True  # `fit` says what is wrong with the settings
    if isinstance(prior, Gaussian) or (offers(prior, "exact") and getattr(estimator, "method", "exact") == "exact"):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} with these settings learns no distribution over weights that could be the prior "
        "of the next fit, so that it has no partial_fit; fit it to all examples, or take L2CRF, M3N or LapMEDN."
    )


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

    def _asked(self, problem: Problem) -> Solver | None:
        """The solver that was asked for."""
        if not (self.solver is None or isinstance(self.solver, Solver)):
            names = ", ".join(f"{kind.__name__}()" for kind in solvers.ALL)
            raise ValueError(f"solver must be None or a solver such as {names}, got {self.solver!r}.")
        return self.solver

    def _solver(self, default: Solver, problem: Problem) -> tuple[Solver, str]:
        """The solver to take, and why."""
        solver, reason = self._asked(problem), "it was asked for"
        if problem.kinds.all_known or problem.loss.smooth:
            if solver is None:
                solver, reason = choose(default, problem, self.tol)
        elif not isinstance(solver, (ConcaveConvex, SelfTraining)):
            # round after round, each a convex problem for the solver
            usual = type(default) is type(default_solver(problem.prior, problem.loss))
            inner = default if solver is None and not usual else solver
            unlabelled = getattr(self, "unlabelled", 0.0)
            if not (is_number(unlabelled) and 0 <= unlabelled < np.inf):
                raise ValueError(f"unlabelled must be a finite number of at least 0, got {unlabelled!r}.")
            solver = SelfTraining(unlabelled, inner=inner) if unlabelled > 0 else ConcaveConvex(inner)
            reason = "some labels are not known"
        check_requirements(solver, problem)
        return solver, reason

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

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, node_weight: Any = None, *, checkpoint: Any = None,
        checkpoint_every: float = 60.0,
    ) -> MarkovNetwork:  # fmt: skip
        """Learn from labelled examples.

        Parameters
        ----------
        X : list of examples, or Examples
            With the backend `Dask` also partitions: a Dask bag of pairs (x, y), a list of delayed `Examples`, or of
            files; see docs/scale.md.
            An example is an array or CSR matrix of shape (n_nodes, n_features), a list of feature dicts, or for trees
            a pair (node_features, edges). A 2-D array is a list of examples of one node.
        y : list of label sequences
            One label per node; any hashables. `UNKNOWN` where it is not known, a set of labels where one of them is
            the true one.
        sample_weight : array-like of shape (n_examples,), optional
            Multiplies the loss of an example.
        node_weight : list of arrays of shape (n_nodes,), optional
            For margin models: multiplies the costs of a node.
        checkpoint : str or path-like, optional
            A file in which the fit notes where it stands, between two passes. If the process ends, the same call goes
            on from there, to the same bits. A checkpoint of other examples or settings is refused with a
            `CheckpointError`, as is a damaged one; ``max_passes`` may change. When the fit has ended the file is
            removed, unless ``max_passes`` did not suffice: then a call with more goes on.
        checkpoint_every : float, default=60.0
            Seconds between two notes, at least; more where a note takes longer than a twentieth of that.
        """
        rng = self._check_settings()
        as_structure(self.structure).check()
        examples = self._read(X, y, sample_weight)
        if node_weight is not None:
            if on_workers(examples):
                raise ValueError("Partitions hold weights of nodes themselves, in Examples; leave node_weight out.")
            weights = read_node_weight(node_weight, examples.offsets, examples.flat)
            examples = replace(examples, node_weight=weights)
        classes = distinct_labels(np.asarray(examples.y))
        if not len(classes):
            raise ValueError("All labels of y are UNKNOWN; there must be some that are known, or sets of labels.")
        problem, default = self.pose(examples, classes)
        return self._fit(examples, classes, problem, default, rng, self._keeper(checkpoint, checkpoint_every))

    @available_if(has_prior_to_go_on_from)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MarkovNetwork:
        """Learn from more examples, without those of before: what was learned is the prior of what is learned now.

        The weights move away from where they are as far as the new examples ask for it: the prior of this fit is a
        Gaussian with the mean and variance of the last posterior. Features with new names get weights; labels and
        n-grams are those of the first fit. The certificate is that of this problem. The first call is `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Examples
        --------
        >>> from maxendnet import L2CRF
        >>> model = L2CRF(lam=0.1).fit([[{"a": 1}, {"b": 1}]], [["x", "y"]])
        >>> model = model.partial_fit([[{"c": 1}, {"a": 1}]], [["y", "x"]])
        >>> model.predict([[{"a": 1}, {"c": 1}]])
        [['x', 'y']]
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight)
        from maxendnet.models.carried import grown_layout, prior_after, with_known_names

        rng, model = self._check_settings(), self.model_
        changed = self.changed_structure()
        if changed:
            raise ValueError(changed)
        examples = self._read(X, y, sample_weight)
        if on_workers(examples):
            raise ValueError("partial_fit takes examples and no partitions on workers; give Examples or lists.")
        examples = with_known_names(model, examples, type(self).__name__)
        layout, places = grown_layout(model, examples)
        prior = prior_after(model, self.compose()[0], layout.n_weights, places)
        problem, default = self.pose(examples, model.classes, layout, prior)
        return self._fit(examples, model.classes, problem, default, rng)

    def _fit(
        self, examples: Examples, classes: NDArray, problem: Problem, default: Solver, rng: Any, keeper: Any = None
    ) -> MarkovNetwork:
        """Solve a problem, and take over what is found."""
        solver, reason = self._solver(default, problem)
        hooks = [Monitor(self.verbose, type(self).__name__), *([] if self.callback is None else [self.callback])]
        with one_blas_thread:
            result = run(
                solver, problem, tol=self.tol, max_passes=self.max_passes, warm=self._warm_state(solver, problem),
                seed=rng, hooks=hooks, checkpoint=keeper,
            )  # fmt: skip
        inference = getattr(problem.structure, "inference_said", "")
        result.solver = f"{type(solver).__name__}: {reason}{inference and '; ' + inference}"
        model = self._model(examples, classes, problem, result)
        # nothing is stored before this line: a fit that fails or is interrupted leaves the last one whole
        self._state = (type(solver), result.state, problem.fingerprint) if self.warm_start else None
        self.set_model(model)
        parted = on_workers(examples)
        self._support: Any = (examples.offsets, None if parted else solver.support(problem, result.state))
        if keeper is not None:
            keeper.end(result.reason)
        return self

    def _keeper(self, path: Any, every: Any) -> Any:
        """What keeps checkpoints of a fit, or None."""
        if not (is_number(every) and every >= 0):
            raise ValueError(f"checkpoint_every must be a number of seconds of at least 0, got {every!r}.")
        if path is None:
            return None
        from maxendnet.models.checkpoint import Checkpoint

        return Checkpoint(path, float(every), self.random_state)

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

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Any:
        parted = partitions(X, self.backend)
        if parted is not None:
            if not (y is None and sample_weight is None):
                raise ValueError(
                    "Partitions hold labels, and weights of examples, themselves; leave y and weights out."
                )
            if not parted.n_nodes or not len(parted.y):
                raise ValueError(
                    f"{len(parted.read)} partitions have no labelled node; there is nothing to learn from."
                )
            return parted
        whole = bool(getattr(as_structure(self.structure), "whole", False))
        examples = as_examples(
            X, y, sample_weight=sample_weight, estimator=type(self).__name__, needs_y=True, whole=whole
        )
        if examples.n_nodes == 0:
            raise ValueError(f"X has {len(examples)} examples but no node at all; there is nothing to learn from.")
        return examples

    def pose(self, examples: Any, classes: NDArray, layout: Any = None, prior: Any = None) -> tuple[Problem, Solver]:
        """The learning problem, and the solver to take if none was asked for; with another layout or prior if given."""
        own, loss, C, default = self.compose()
        if prior is None:
            prior = own
        else:
            default = default_solver(prior, loss)
        structure = as_structure(self.structure)
        structure.check()
        if hasattr(loss, "for_labels"):
            labels = examples.label_counts if on_workers(examples) else examples.y
            loss = loss.for_labels(classes, labels, getattr(structure, "hidden", 1))
        elif examples.node_weight is not None:
            raise ValueError(
                f"node_weight is a factor of the costs of nodes, and {type(self).__name__} has no costs; give "
                "sample_weight, or take a margin model such as M3N."
            )
        if on_workers(examples):
            return Problem(examples.place(structure, classes), loss, prior, C), default
        return Problem.pose(structure.bind(examples, classes, layout), loss, prior, C, self._backend()), default

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
        n_rounds, last = 1, result
        if isinstance(
            result.state, (RoundsState, SelfTrainingState)
        ):  # what is reported beside the objective is of the last convex problem
            best = result.state.best_round
            assert best.solved is not None and best.result is not None
            n_rounds, problem, last = result.state.n_rounds, best.solved, best.result
            if isinstance(last.state, RoundsState):  # rounds within a round
                inner = last.state.best_round
                assert inner.solved is not None and inner.result is not None
                problem, last = inner.solved, inner.result
        *values, posterior = self._report(problem, last)
        objective, dual, gap = map(float, values)
        round_gap = gap
        if last is not result:
            objective, dual, gap = result.primal, np.nan, np.nan
        converged = result.converged and not round_gap > self.tol
        report = FitReport(
            objective, dual, gap, converged, result.which, result.n_pass, result.trace, round_gap, n_rounds,
            result.solver,
        )  # fmt: skip
        return FittedModel(
            clone(as_structure(self.structure)), problem.structure.layout, classes, result.w, posterior,
            examples.n_features, examples.feature_names, report, type(self).__name__,
        )  # fmt: skip

    def set_model(self, model: FittedModel) -> None:
        """Become an estimator with this fitted model: set the attributes that `fit` sets."""
        self.model_ = model
        self.classes_, self.posterior_ = model.classes, model.posterior
        self.n_features_in_, self.feature_names_ = model.n_features_in, model.feature_names
        for name, value in model.report._asdict().items():
            setattr(self, f"{name}_", value)
        for name, part in model.named_weights().items():
            setattr(self, f"{name}_", part)

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        """Objective, dual, gap and posterior, in the terms of this estimator."""
        eta, mu = result.eta, result.w
        if not isinstance(problem.loss, Hinge) or eta is None or not offers(problem.prior, "exact"):
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

    @property
    def support_(self) -> list[list[tuple[list[Any], float]]]:
        """Dual support: for every example of the fit, the labellings other than the true one that have dual weight, as
        pairs (labels, weight). An example without any has no say in the weights.

        It is that of the last iterate of `BlockFrankWolfe`, which keeps labellings, or of `SMO`, which keeps marginals
        of nodes and edges: then it is one set of labellings that has them. Other solvers spread dual weight over all
        labellings. It is not saved.
        """
        offsets, support = self._find_support("support_")
        found: list[list[tuple[list[Any], float]]] = [[] for _ in range(len(offsets) - 1)]
        states = support.labels // (self.model_.layout.n_labels // len(self.classes_))
        labels, begin = self.classes_[states].tolist(), 0
        for i, weight in zip(support.examples.tolist(), support.weights.tolist()):
            end = begin + int(offsets[i + 1] - offsets[i])
            found[i].append((labels[begin:end], weight))
            begin = end
        return found

    @property
    def n_support_(self) -> int:
        """Number of labellings in `support_`."""
        return len(self._find_support("n_support_")[1].examples)

    def _find_support(self, name: str) -> tuple[NDArray[np.int64], Support]:
        if not hasattr(self, "_support") or self._support[1] is None:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: margin models have it after BlockFrankWolfe or SMO, "
                "such as M3N(solver=BlockFrankWolfe())."
            )
        offsets, support = self._support
        if callable(support):
            self._support = (offsets, support())
        return self._support

    # ---- prediction ---------------------------------------------------------------------------------------------

    def _prepare(self, X: Any, given: Any = None, rules: Any = None) -> tuple[Examples, Any]:
        """The examples, and the structure bound to them; limited to labellings that agree with what is asked."""
        if "model_" not in vars(self):  # the check itself takes a tenth of the time for a short sentence
            check_is_fitted(self, "model_")
        changed = self.changed_structure()
        if changed:
            raise ValueError(changed)
        examples = self.model_.read(X)
        return examples, self.model_.bind(examples, given, rules)

    def predict(
        self, X: Any, given: Any = None, by: str = "mean", n_draws: int = 25, random_state: Any = None,
        rules: Any = None, return_proof: bool = False,
    ) -> Any:  # fmt: skip
        """The best labelling of every example: a list of labels for each (one array if X is a 2-D array).

        Parameters
        ----------
        X : list of examples, or Examples
        given : list of label sequences, optional
            What is known of the labels: for every node a label, a set of labels, or `UNKNOWN`. Only labellings that
            agree with it are predicted. All other methods for predictions take it too.
        by : {"mean", "sample", "vote"}, default="mean"
            With the mean of the posterior; with weights drawn from it, anew for every example (the stochastic predictor
            that PAC-Bayes bounds are about); or the label that most of ``n_draws`` draws give to a node.
        n_draws : int, default=25
            Draws of weights that vote.
        random_state : int, Generator or None, default=None
            For the draws.
        rules : a rule or a list of rules of `maxendnet.rules`, optional
            For chains: only labellings that keep these rules too are predicted. All other methods for predictions take
            them too.
        return_proof : bool, default=False
            Return ``(labels, proven)``: a bool array says for every example whether no labelling has a higher score.
            Only graphs with cycles may have examples for which that is not known; small ones are then searched by
            branch and bound, at most ten seconds each.

        Examples
        --------
        >>> from maxendnet import L2CRF, UNKNOWN
        >>> model = L2CRF().fit([[[1.0], [0.0]], [[1.0], [0.0]]], [["a", "b"], ["a", "b"]])
        >>> model.predict([[[1.0], [0.0]]], given=[["b", UNKNOWN]])
        [['b', 'a']]
        >>> from maxendnet.rules import starts_with
        >>> model.predict([[[1.0], [0.0]]], rules=starts_with("b"))
        [['b', 'a']]
        """
        parted = partitions(X, self.backend)
        if parted is not None:
            if not (given is None and rules is None and by == "mean" and not return_proof):
                raise ValueError(
                    "Partitions are predicted without given, rules, by and return_proof; read one and ask."
                )
            check_is_fitted(self, "model_")
            there = copy(self)
            there.backend = there.callback = there._state = there._support = None
            return parted.predict(there)
        examples, bound = self._prepare(X, given, rules)
        if return_proof:
            if by != "mean":
                raise ValueError(f"return_proof is about the mean of the posterior, and by is {by!r}.")
            labels, proven = best_and_proven(bound, self.model_.weights, self._backend())
            return self.model_.labellings(examples, labels), proven
        if by == "mean":
            return self.model_.labellings(examples, decode(bound, self.model_.weights, self._backend()))
        require_count("n_draws", n_draws)
        rng = generator(random_state)
        if by == "sample":
            return self.model_.labellings(examples, decode_samples(bound, self.posterior_, rng))
        if by == "vote":
            return self.model_.labellings(examples, decode_votes(bound, self.posterior_, n_draws, rng, self._backend()))
        raise ValueError(f"by must be 'mean', 'sample' or 'vote', got {by!r}.")

    def predict_stream(self, X: Any, *, n_at_once: int = 1000, **options: Any) -> Iterator[Any]:
        """The best labelling of one example after the other, as `predict` gives it: for more than fits memory.

        Parameters
        ----------
        X : Examples, or an iterable of examples
            `Examples` of a folder (see `Examples.open`), or any iterator: of the examples that `predict` takes in a
            list, or of `Examples`, some at a time.
        n_at_once : int, default=1000
            Examples that are read and labelled together.
        **options
            ``rules``, ``by``, ``n_draws`` and ``random_state`` of `predict`.

        Yields
        ------
        list of labels, or a label where X is a table

        Examples
        --------
        >>> from maxendnet import L2CRF
        >>> model = L2CRF().fit([[[1.0], [0.0]], [[1.0], [0.0]]], [["a", "b"], ["a", "b"]])
        >>> next(model.predict_stream([[1.0], [0.0]] for _ in range(1_000_000)))
        ['a', 'b']
        """
        require_count("n_at_once", n_at_once)
        wrong = options.keys() - {"rules", "by", "n_draws", "random_state"}
        if wrong:
            raise TypeError(f"predict_stream() takes no {min(wrong)!r}; predict examples that need it by themselves.")
        if options.get("random_state") is not None:
            options["random_state"] = generator(options["random_state"])
        for some in in_parts(X, int(n_at_once)):
            yield from self.predict(some, **options)

    def predict_marginals(self, X: Any, given: Any = None, rules: Any = None) -> Any:
        """Probability of every label at every node: a list of arrays of shape (n_nodes, n_labels).

        For likelihood models these are the model's probabilities. For margin models they are made from the scores in
        the same way, are not calibrated, and serve for ranking.
        """
        examples, bound = self._prepare(X, given, rules)
        return examples.split(bound.logsum(self.model_.weights, backend=self._backend())[1].node)

    def predict_max_marginals(self, X: Any, given: Any = None, rules: Any = None) -> Any:
        """Score of the best labelling with each label at each node: a list of arrays of shape (n_nodes, n_labels)."""
        examples, bound = self._prepare(X, given, rules)
        return examples.split(offered(bound, "max_marginals")(self.model_.weights, backend=self._backend()))

    def predict_top(
        self, X: Any, k: int = 5, given: Any = None, rules: Any = None
    ) -> list[list[tuple[float, list[Any]]]]:
        """The k best labellings of every example, best first, as pairs (score, labels); fewer where fewer exist."""
        require_count("k", k)
        examples, bound = self._prepare(X, given, rules)
        longest, n_labels = int(np.diff(bound.offsets).max(initial=0)), len(self.classes_)
        k = min(int(k), n_labels ** min(longest, 64))  # there are no more labellings than that
        require_room("k", k, examples.n_nodes + len(examples) + longest * n_labels)
        values, labels = offered(bound, "top")(self.model_.weights, k, backend=self._backend())
        found = [np.split(row, examples.offsets[1:-1]) for row in labels]
        return [
            [(float(v), self.classes_[found[rank][i]].tolist()) for rank, v in enumerate(row) if v > -np.inf]
            for i, row in enumerate(values)
        ]

    def sample(self, X: Any, n: int = 1, random_state: Any = None, given: Any = None, rules: Any = None) -> list[Any]:
        """Draw n labellings of every example from p(y|x): a list of n predictions as `predict` gives them."""
        require_count("n", n)
        examples, bound = self._prepare(X, given, rules)
        require_room("n", int(n), examples.n_nodes)
        drawn = offered(bound, "sample")(self.model_.weights, int(n), generator(random_state), backend=self._backend())
        return [self.model_.labellings(examples, labels) for labels in drawn]

    def decision_function(self, X: Any, given: Any = None, rules: Any = None) -> NDArray[np.float64]:
        """Score of the best labelling, shape (n_examples,)."""
        _, bound = self._prepare(X, given, rules)
        return bound.maximum(self.model_.weights, backend=self._backend())[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of nodes labelled right, of those whose label is known; with ``sample_weight``, nodes count as much as
        their example."""
        check_is_fitted(self, "model_")
        truth = self.model_.read(X, y, sample_weight)
        if truth.y is None:
            raise ValueError("score needs the true labels: give y.")
        _, bound = self._prepare(truth)
        predicted = self.classes_[decode(bound, self.model_.weights, self._backend())]
        known = known_nodes(truth.y)
        if self.model_.whole:  # one node of each example counts
            known &= np.isin(np.arange(len(known)), truth.offsets[:-1])
        right = np.fromiter((p == t for p, t in zip(predicted[known], truth.y[known])), dtype=bool, count=known.sum())
        if truth.sample_weight is None:
            return float(right.mean()) if len(right) else float("nan")
        return float(np.average(right, weights=np.repeat(truth.sample_weight, np.diff(truth.offsets))[known]))

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


def partitions(X: Any, backend: Any) -> Any:
    """Examples in partitions on the workers of a backend, where X is such; otherwise None."""
    if backend is None or getattr(backend, "local", True):
        return None
    from maxendnet.backends.partitions import partitions_of

    return partitions_of(X, backend)


def in_parts(X: Any, n_at_once: int) -> Iterator[Any]:
    """Examples, or an iterable of examples, some at a time."""
    if isinstance(X, Examples):
        for first in range(0, len(X), n_at_once):
            yield X[first : first + n_at_once]
        return
    iterator = iter(X)
    for first_of_part in iterator:
        if isinstance(first_of_part, Examples):
            yield from in_parts(first_of_part, n_at_once)
        else:
            yield [first_of_part, *islice(iterator, n_at_once - 1)]


def best_and_proven(bound: Any, w: NDArray[np.float64], backend: Any) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The best labelling of every example, and whether it is known to be the best."""
    if not hasattr(bound, "prove"):
        return decode(bound, w, backend), np.ones(len(bound.sample_weight), dtype=bool)
    proof = bound.search(w, bound.prove(w, backend=backend))
    return proof.labels, proof.proven


def decode_samples(bound: Any, posterior: Any, rng: np.random.Generator) -> NDArray[np.int32]:
    """The best labelling of every example under weights of its own, drawn from the posterior."""
    parts = [np.zeros(0, dtype=np.int32)]
    for i in range(len(bound.offsets) - 1):
        parts.append(decode(bound.take(i, i + 1), posterior.sample(1, rng)[0]))
    return np.concatenate(parts)


def decode_votes(bound: Any, posterior: Any, n_draws: int, rng: np.random.Generator, backend: Any) -> NDArray[np.int32]:
    """For every node the label that it has in most of the best labellings under weights drawn from the posterior."""
    votes = np.zeros((int(bound.offsets[-1]), bound.n_labels), dtype=np.int32)
    nodes = np.arange(len(votes))
    for _ in range(n_draws):
        votes[nodes, decode(bound, posterior.sample(1, rng)[0], backend)] += 1
    return votes.argmax(axis=1).astype(np.int32)


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
