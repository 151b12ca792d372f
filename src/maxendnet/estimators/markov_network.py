"""`MarkovNetwork`: base class of the estimators, with the scikit-learn API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import ClassifierTags

from maxendnet import solvers
from maxendnet.backends import one_blas_thread
from maxendnet.data.annotations import read_node_weight
from maxendnet.data.examples import Examples, as_examples, distinct_labels
from maxendnet.estimators.fitted import FitReport, FittedModel
from maxendnet.estimators.prediction import Predictor
from maxendnet.estimators.setting_hints import hint_for, with_hints
from maxendnet.estimators.settings import COMMON, ScaleFunctions, Seed, documented, more_regularisation
from maxendnet.estimators.warm_prior import grown_layout, prior_after, with_known_names
from maxendnet.losses import Hinge, Log
from maxendnet.posterior import PointEstimate, Posterior
from maxendnet.priors import Gaussian
from maxendnet.priors.base import Prior, offers
from maxendnet.problem import Problem
from maxendnet.solvers import Monitor, Solver, run
from maxendnet.solvers.base import Hook, Result, Support, check_requirements
from maxendnet.solvers.choose import Choice, default_solver
from maxendnet.solvers.concave_convex import ConcaveConvex, RoundsState
from maxendnet.solvers.self_training import SelfTraining, SelfTrainingState
from maxendnet.structures import as_structure
from maxendnet.utils.checks import generator, is_number, require_count, require_level
from maxendnet.utils.scikit_learn import available_if, clone
from maxendnet.utils.suggest import did_you_mean
from maxendnet.utils.warn import warn_caller


def on_workers(examples: Any) -> bool:
    """Whether examples are partitions on workers, so that their nodes are not in this process."""
    return examples.offsets is None


def supports_partial_fit(estimator: Any) -> bool:
    """Whether the posterior of an estimator can be the prior of the next fit."""
    try:
        prior = estimator.compose()[0]
    except ValueError:
        return True  # `fit` raises an error for invalid settings
    if isinstance(prior, Gaussian) or (offers(prior, "exact") and getattr(estimator, "method", "exact") == "exact"):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} with these settings has no partial_fit, because it has no posterior that could be "
        "the prior of the next fit; fit it to all examples, or use L2CRF, M3N or LapMEDN."
    )


class MarkovNetwork(Predictor):
    """Base class of the estimators.

    A subclass defines `compose`, which returns prior, loss and C.
    """

    documented_parameters = COMMON
    """Parameters and attributes that the docstrings of subclasses share."""
    solver: Solver | None
    tol: float
    max_passes: int
    warm_start: bool
    random_state: Seed
    verbose: int
    callback: Hook | None
    at_scale: ClassVar[ScaleFunctions] = {}
    """Values of "scale" by hyper-parameter: functions of the mean squared norm of the features of a node."""
    warns_of_gap = True
    """Whether a fit warns if it ends above ``tol``. Fits of a search do not warn."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = documented(cls.__doc__, cls.documented_parameters)
        if "__init__" in vars(cls):
            cls.__init__ = with_hints(cls.__init__)  # type: ignore[method-assign]

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...

    def _store(self, arguments: dict[str, Any]) -> None:
        """Store the ``locals()`` of an ``__init__`` as attributes."""
        for name, value in arguments.items():
            if name != "self":
                setattr(self, name, value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name. Parameters of the structure are set as ``structure__bias=True``."""
        hint = hint_for(type(self), params)
        if hint:
            raise ValueError(hint)  # as in scikit-learn
        structure = params.get("structure", self.structure)
        if isinstance(structure, str) and any(name.startswith("structure__") for name in params):
            params["structure"] = as_structure(structure)
        return super().set_params(**params)

    def constants(self, examples: Any = None, earlier: Mapping[str, float] = MappingProxyType({})) -> dict[str, Any]:
        """Return C and lam, if the estimator has them, with numbers instead of "scale".

        Parameters
        ----------
        examples : Examples or partitions, optional
            Their `mean_squared_norm` (1 if there are no examples) determines the numbers, which are rounded to three
            digits so that the order of the examples does not affect them.
        earlier : mapping
            Numbers of an earlier fit, which replace "scale".
        """
        values = {name: getattr(self, name) for name in ("C", "lam") if hasattr(self, name)}
        scaled = [name for name in self.at_scale if isinstance(values[name], str) and values[name] == "scale"]
        if any(name not in earlier for name in scaled):
            squared_norm = 1.0 if examples is None else examples.mean_squared_norm
            values |= {name: float(f"{self.at_scale[name](squared_norm):.3g}") for name in scaled}
        return values | {name: earlier[name] for name in scaled if name in earlier}

    def compose(self, constants: Mapping[str, Any] | None = None) -> tuple[Prior, Hinge | Log, float]:
        """Return the prior, the loss and C.

        ``constants`` is a result of the method `constants`, by default the one without examples.
        """
        raise NotImplementedError

    def _requested_solver(self, problem: Problem) -> Solver | None:
        """Return the solver given by ``solver=``, or None."""
        if not (self.solver is None or isinstance(self.solver, Solver)):
            names = ", ".join(f"{kind.__name__}()" for kind in solvers.ALL)
            word = self.solver if isinstance(self.solver, str) else getattr(self.solver, "__name__", "")
            raise ValueError(
                f"solver must be None or a solver such as {names}, got {self.solver!r}."
                + did_you_mean(word, [kind.__name__ for kind in solvers.ALL], "maxendnet.solvers.{}()")
            )
        return self.solver

    def _choose_solver(self, problem: Problem) -> Choice:
        """Return the requested or the default solver.

        With unknown labels, a convex solver is used within rounds.
        """
        requested, unlabelled = self._requested_solver(problem), getattr(self, "unlabelled", 0.0)
        if not (is_number(unlabelled) and 0 <= unlabelled < np.inf):
            raise ValueError(f"unlabelled must be a finite number of at least 0, got {unlabelled!r}.")
        in_rounds = not (problem.label_sets.all_known or problem.loss.smooth)
        if requested is None or (in_rounds and not isinstance(requested, (ConcaveConvex, SelfTraining))):
            choice = default_solver(problem, self.tol, unlabelled)
            if in_rounds:
                options = {"weight": unlabelled} if isinstance(choice.solver, SelfTraining) else {}
                kind: Any = type(choice.solver)
                choice = choice._replace(solver=kind(**options, inner=requested))
        else:
            choice = Choice(requested, "requested")
        check_requirements(choice.solver, problem)
        return choice

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.classifier_tags = ClassifierTags()  # scikit-learn requires them if there is a predict_proba
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # solver states cannot be copied or pickled, so the next fit of a copy is not a warm start
        state = super().__getstate__()
        values: dict[str, Any] = state | {"_state": None} if "_state" in state else state
        return values

    def _for_workers(self) -> Self:
        estimator = super()._for_workers()
        estimator.callback = estimator._state = estimator._support = None  # these are only used by fits
        return estimator

    # ---- learning -----------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, node_weight: Any = None, *, checkpoint: Any = None,
        checkpoint_every: float = 60.0,
    ) -> Self:  # fmt: skip
        """Learn from labelled examples.

        Parameters
        ----------
        X : list of examples, or Examples
            An example is an array or CSR matrix of shape (n_nodes, n_features), a list of feature dicts, or for trees
            and graphs a pair (node_features, edges). In a 2-D array, each row is an example of one node. With the
            backend `Dask` also partitions: a Dask bag of pairs (x, y), or a list of delayed `Examples` or of files; see
            docs/scale.md.
        y : list of label sequences
            One hashable label per node. Unknown labels are `UNKNOWN`, or a set of labels that contains the true one.
        sample_weight : array-like of shape (n_examples,), optional
            Multiplies the loss of an example.
        node_weight : list of arrays of shape (n_nodes,), optional
            For margin models: multiplies the costs of a node.
        checkpoint : str or path-like, optional
            File for checkpoints, which are written between passes. If the process ends, the same call resumes from the
            last checkpoint, and its result is bit-for-bit identical to that of an uninterrupted fit. A damaged
            checkpoint, or one of other examples or settings, raises `CheckpointError`; only ``max_passes`` may change.
            The file is removed at the end of the fit, unless it stopped at ``max_passes``: then a call with a larger
            value resumes.
        checkpoint_every : float, default=60.0
            Minimum number of seconds between checkpoints. Writing takes at most a twentieth of the time.

        Returns
        -------
        self
        """
        rng = self._check_settings()
        as_structure(self.structure).check()
        examples = self._read(X, y, sample_weight)
        if node_weight is not None:
            if on_workers(examples):
                raise ValueError(
                    "node_weight cannot be passed with partitions; store the weights in the Examples of each partition."
                )
            weights = read_node_weight(node_weight, examples.offsets, examples.flat)
            examples = replace(examples, node_weight=weights)
        classes = distinct_labels(np.asarray(examples.y))
        if not len(classes):
            raise ValueError("All labels of y are UNKNOWN; pass known labels, or sets of labels, for some nodes.")
        constants = self.constants(examples)
        problem = self.pose(examples, classes, constants=constants)
        return self._fit(examples, classes, problem, rng, constants, self._checkpoint(checkpoint, checkpoint_every))

    @available_if(supports_partial_fit)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from additional examples, with the last posterior as the prior.

        The prior is a Gaussian with the mean and variance of the last posterior. Features with new names get new
        weights. Labels, n-grams and the values that replaced "scale" do not change after the first fit. The
        certificate refers to the problem with this prior and the additional examples. The first call is equivalent to
        `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        self

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
        rng, model = self._check_settings(), self.model_
        changed = self.changed_structure()
        if changed:
            raise ValueError(changed)
        examples = self._read(X, y, sample_weight)
        if on_workers(examples):
            raise ValueError("partial_fit does not support partitions on workers; pass Examples or lists.")
        examples = with_known_names(model, examples, type(self).__name__)
        layout, places = grown_layout(model, examples)
        constants = self.constants(examples, model.report.constants)
        prior = prior_after(model, self.compose(constants)[0], layout.n_weights, places)
        problem = self.pose(examples, model.classes, layout, prior, constants)
        return self._fit(examples, model.classes, problem, rng, constants)

    def _fit(
        self, examples: Examples, classes: NDArray[Any], problem: Problem, rng: Any, constants: dict[str, Any],
        checkpoint: Any = None,
    ) -> Self:  # fmt: skip
        """Solve a problem, and set the fitted model."""
        solver, rule = self._choose_solver(problem)
        hooks: list[Hook] = [Monitor(self.verbose, type(self).__name__)]
        if self.callback is not None:
            hooks.append(self.callback)
        with one_blas_thread:
            result = run(
                solver, problem, tol=self.tol, max_passes=self.max_passes, warm=self._warm_state(solver, problem),
                seed=rng, hooks=hooks, warn=self.warns_of_gap, regularise=more_regularisation(self),
                checkpoint=checkpoint,
            )  # fmt: skip
        inference = problem.structure.inference_note
        result.solver = f"{type(solver).__name__}: {rule}{inference and '; ' + inference}"
        model = self._model(examples, classes, problem, result)
        floats = {name: float(value) for name, value in constants.items()}
        model = replace(model, report=model.report._replace(constants=floats))
        # nothing is stored before this line: a fit that fails or is interrupted does not change the estimator
        self._state = (type(solver), result.state, problem.fingerprint) if self.warm_start else None
        self.set_model(model)
        support = None if on_workers(examples) else solver.support(problem, result.state)
        self._support: Any = (examples.offsets, support)
        if checkpoint is not None:
            checkpoint.end(result.reason)
        return self

    def _checkpoint(self, path: Any, every: Any) -> Any:
        """Return the `Checkpoint` of a fit, or None if there is no path."""
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
        partitions = self._partitions(X)
        if partitions is not None:
            if not (y is None and sample_weight is None):
                raise ValueError(
                    "y and sample_weight cannot be passed with partitions, which contain both; remove these arguments."
                )
            if not partitions.n_nodes or not len(partitions.y):
                raise ValueError(
                    f"The {len(partitions.read)} partitions have no labelled node; pass labelled examples."
                )
            return partitions
        structure = as_structure(self.structure)
        whole = bool(structure.whole)
        examples = as_examples(
            X, y, sample_weight=sample_weight, estimator=type(self).__name__, needs_y=True, whole=whole
        )
        if examples.n_nodes == 0:
            raise ValueError(f"X has {len(examples)} examples without any node; pass examples with nodes.")
        if examples.flat and structure.expects_sequences:
            warn_caller(
                f"X is one table, so each of its {len(examples)} rows is an example of one node, and "
                f"{type(structure).__name__} learns no transitions. If the rows are one sequence, pass [X] and [y]; if "
                "they are independent, use structure=Independent()."
            )
        return examples

    def pose(
        self, examples: Any, classes: NDArray[Any], layout: Any = None, prior: Any = None,
        constants: Mapping[str, Any] | None = None,
    ) -> Problem:  # fmt: skip
        """Return the learning problem, optionally with another layout, prior or constants."""
        default_prior, loss, C = self.compose(self.constants(examples) if constants is None else constants)
        prior = default_prior if prior is None else prior
        structure = as_structure(self.structure)
        structure.check()
        if hasattr(loss, "for_labels"):
            labels = examples.label_counts if on_workers(examples) else examples.y
            loss = loss.for_labels(classes, labels, structure.hidden)
        elif examples.node_weight is not None:
            raise ValueError(
                f"node_weight multiplies the costs of nodes, but {type(self).__name__} has no costs; pass "
                "sample_weight, or use a margin model such as M3N."
            )
        if on_workers(examples):
            return Problem(examples.place(structure, classes), loss, prior, C)
        bound = structure.bind(examples, classes, layout)
        if not bound.layout.n_weights:
            raise ValueError(
                f"There is nothing to learn: X has {examples.n_features} features, and {structure!r} has no weights "
                "without features. Pass features, or use bias=True or a structure that joins nodes."
            )
        return Problem.pose(bound, loss, prior, C, self._backend())

    def _warm_state(self, solver: Solver, problem: Problem) -> Any:
        """Return the last state of the solver if it is valid for this problem.

        Dual variables are only valid for the same examples, sample weights and costs. For other problems,
        certificates would be wrong.
        """
        kind, state, fingerprint = self.warm_state or (None, None, None)
        if not self.warm_start or kind is not type(solver) or self.model_.layout != problem.structure.layout:
            return None
        return state if solver.warm_anywhere or fingerprint == problem.fingerprint else None

    @property
    def warm_state(self) -> Any:
        """State of the solver after the last fit, for a warm start. Assign to it to start from another state."""
        return getattr(self, "_state", None)

    @warm_state.setter
    def warm_state(self, state: Any) -> None:
        self._state = state

    def _model(self, examples: Examples, classes: NDArray[Any], problem: Problem, result: Result) -> FittedModel:
        last = result
        while isinstance(last.state, (RoundsState, SelfTrainingState)):  # report the last convex problem
            best = last.state.best_round
            assert best.solved is not None and best.result is not None
            problem, last = best.solved, best.result
        n_rounds = 1 if last is result else result.state.n_rounds
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

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        """Return objective, dual, gap and posterior of this estimator."""
        eta, mu = result.eta, result.w
        if not isinstance(problem.loss, Hinge) or eta is None or not offers(problem.prior, "exact"):
            return result.primal, result.dual, result.gap, PointEstimate(mu)
        prior = problem.exact_prior
        if not np.array_equal(prior.mean(eta), mu):
            eta = prior.gradient(mu)  # primal solvers return only mu, so use the posterior with this mean
        return result.primal, result.dual, result.gap, Posterior(prior, eta)

    @property
    def support_(self) -> list[list[tuple[list[Any], float]]]:
        """Dual support: for each training example, the wrong labellings with positive dual weight.

        They are pairs (labels, weight).

        Examples without support do not affect the weights. `BlockFrankWolfe` returns the support of its last iterate,
        and `SMO` one set of labellings with its marginals. The support of `ProximalPoint` determines the weights only
        up to the gap. Other solvers spread dual weight over all labellings, so they have no support. The support is not
        saved in model files.
        """
        offsets, support = self._find_support("support_")
        labellings: list[list[tuple[list[Any], float]]] = [[] for _ in range(len(offsets) - 1)]
        states = support.labels // (self.model_.layout.n_labels // len(self.classes_))
        labels, begin = self.classes_[states].tolist(), 0
        for i, weight in zip(support.examples.tolist(), support.weights.tolist()):
            end = begin + int(offsets[i + 1] - offsets[i])
            labellings[i].append((labels[begin:end], weight))
            begin = end
        return labellings

    @property
    def n_support_(self) -> int:
        """Number of labellings in `support_`."""
        return len(self._find_support("n_support_")[1].examples)

    def _find_support(self, name: str) -> tuple[NDArray[np.int64], Support]:
        if not hasattr(self, "_support") or self._support[1] is None:
            raise AttributeError(
                f"{type(self).__name__} has no {name}; it exists for margin models fitted with ProximalPoint, "
                "BlockFrankWolfe or SMO, such as M3N(solver=ProximalPoint())."
            )
        offsets, support = self._support
        if callable(support):
            self._support = (offsets, support())
        loaded: tuple[NDArray[np.int64], Support] = self._support
        return loaded

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, which `maxendnet.load` reads."""
        from maxendnet.estimators.file import save

        save(self, path)
