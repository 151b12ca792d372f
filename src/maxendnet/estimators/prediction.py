"""`Predictor`: predictions of a fitted estimator, with probabilities and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxendnet.backends import Backend, Threads
from maxendnet.data.examples import Examples
from maxendnet.data.truth import known_nodes
from maxendnet.estimators.fitted import FittedModel, FloatArray
from maxendnet.piece import options
from maxendnet.problem.partitions import partitions_of
from maxendnet.solvers.base import TraceRow
from maxendnet.structures import as_structure
from maxendnet.structures.base import Structure, decode
from maxendnet.utils.checks import generator, require_count
from maxendnet.utils.memory import check_memory
from maxendnet.utils.scikit_learn import BaseEstimator
from maxendnet.utils.warn import warn_caller


class Predictor(BaseEstimator):
    """Base class of estimators with a fitted model.

    Subclasses have the settings ``structure``, ``n_jobs`` and ``backend``. `set_model` sets the fitted attributes.
    """

    structure: Structure | str
    n_jobs: int | None
    backend: Backend | None

    model_: FittedModel
    classes_: NDArray[Any]
    posterior_: Any
    n_features_in_: int
    feature_names_: tuple[str, ...] | None
    # from the report of the fit
    objective_: float
    dual_: float
    gap_: float
    converged_: bool
    which_: str
    n_passes_: int
    trace_: list[TraceRow]
    round_gap_: float
    n_rounds_: int
    solver_: str
    C_: float
    lam_: float
    # weights, by the names of the structure
    coef_: FloatArray
    transitions_: FloatArray
    siblings_: FloatArray
    intercept_: FloatArray
    start_: FloatArray
    end_: FloatArray
    edge_coef_: FloatArray
    label_coef_: FloatArray
    ngrams_: dict[tuple[Any, ...], float]

    def set_model(self, model: FittedModel) -> None:
        """Set the fitted attributes, such as ``classes_``, from a fitted model."""
        self.model_ = model
        self.classes_, self.posterior_ = model.classes, model.posterior
        self.n_features_in_, self.feature_names_ = model.n_features_in, model.feature_names
        report = model.report._asdict()
        for name, value in (report | report.pop("constants")).items():
            setattr(self, f"{name}_", value)
        for name, part in model.named_weights().items():
            setattr(self, f"{name}_", part)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Feature names as in scikit-learn. The attribute does not exist if features have no names."""
        if getattr(self, "feature_names_", None) is None:
            raise AttributeError(f"{type(self).__name__} was fitted on features without names")
        return np.array(self.feature_names_, dtype=object)

    def changed_structure(self) -> str:
        """Return an error message if ``structure`` changed since `fit`, or ""."""
        current, fitted = as_structure(self.structure), self.model_.structure
        if type(current) is type(fitted):
            new, old = vars(current), vars(fitted)
            identical = new.keys() == old.keys() and all(new[name] is old[name] for name in new)
            if identical or repr(options(current)) == repr(options(fitted)):
                return ""
        return f"structure was changed after the fit, from {fitted!r} to {current!r}; restore it, or fit again."

    def _backend(self) -> Any:
        if self.backend is None:
            return Threads(self.n_jobs)
        if not isinstance(self.backend, Backend) or isinstance(self.backend, type):
            raise ValueError(f"backend must be None or a backend such as Threads(2), got {self.backend!r}.")
        return self.backend

    def _partitions(self, X: Any) -> Any:
        """Return the partitions of X on the workers of the backend, or None if X is not partitioned."""
        if self.backend is None or getattr(self.backend, "local", True):
            return None
        return partitions_of(X, self.backend)

    def _for_workers(self) -> Self:
        """Return a copy without a backend, which predicts on workers."""
        estimator = copy(self)
        estimator.backend = None
        return estimator

    def _prepare(self, X: Any, given: Any = None, rules: Any = None) -> tuple[Examples, Any]:
        """Return the examples, and the structure bound to them."""
        model = self.fitted_model()
        examples = model.read(X)
        return examples, model.bind(examples, given, rules)

    def fitted_model(self) -> FittedModel:
        """Return the fitted model, or raise ``ValueError`` if the structure changed."""
        if "model_" not in vars(self):  # check_is_fitted is slow compared to a short sentence
            check_is_fitted(self, "model_")
        changed = self.changed_structure()
        if changed:
            raise ValueError(changed)
        return self.model_

    def predict(
        self, X: Any, given: Any = None, by: str = "mean", n_draws: int = 25, random_state: Any = None,
        rules: Any = None, return_proof: bool = False,
    ) -> Any:  # fmt: skip
        """Return the best labelling of each example.

        Parameters
        ----------
        X : list of examples, or Examples
        given : list of label sequences, optional
            Known labels: for each node a label, a set of labels, or `UNKNOWN`. Predictions are limited to labellings
            that agree with them. All prediction methods accept this argument.
        by : {"mean", "sample", "vote"}, default="mean"
            Weights of the prediction: the posterior mean; a sample from the posterior for each example (the Gibbs
            predictor of PAC-Bayes bounds); or a majority vote at each node over ``n_draws`` samples.
        n_draws : int, default=25
            Number of samples that vote.
        random_state : int, Generator or None, default=None
            Seed of the samples.
        rules : a rule or a list of rules of `maxendnet.rules`, optional
            For chains: predictions are limited to labellings that also satisfy these rules. All prediction methods
            accept this argument.
        return_proof : bool, default=False
            Whether to return ``(labels, proven)``, with a bool array that is True for examples whose labelling is
            proven to have the highest score. Only graphs with cycles may have unproven examples; small ones are
            searched by branch and bound, for at most ten seconds each.

        Returns
        -------
        list of lists of labels, or ndarray of shape (n_rows,) if X is a table

        Examples
        --------
        >>> from maxendnet import L2CRF, UNKNOWN
        >>> model = L2CRF().fit([[[1.0], [0.0]], [[0.0], [1.0]]], [["a", "b"], ["b", "a"]])
        >>> model.predict([[[1.0], [0.0]]], given=[["b", UNKNOWN]])
        [['b', 'a']]
        >>> from maxendnet.rules import starts_with
        >>> model.predict([[[1.0], [0.0]]], rules=starts_with("b"))
        [['b', 'a']]
        """
        partitions = self._partitions(X)
        if partitions is not None:
            if not (given is None and rules is None and by == "mean" and not return_proof):
                raise ValueError(
                    "given, rules, by and return_proof are not supported for partitions; pass the examples of one "
                    "partition."
                )
            check_is_fitted(self, "model_")
            return partitions.predict(self._for_workers())
        examples, bound = self._prepare(X, given, rules)
        if return_proof:
            if by != "mean":
                raise ValueError(f"return_proof needs by='mean', got by={by!r}.")
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
        """Yield the best labelling of each example, for data that does not fit in memory.

        Parameters
        ----------
        X : Examples, or an iterable of examples
            `Examples` of a folder (see `Examples.open`), or an iterator of single examples as for `predict`, or of
            chunks of `Examples`.
        n_at_once : int, default=1000
            Number of examples that are read and labelled together.
        **options
            ``rules``, ``by``, ``n_draws`` and ``random_state`` of `predict`.

        Yields
        ------
        list of labels, or one label if X is a table

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
            raise TypeError(f"predict_stream() got an unexpected argument {min(wrong)!r}; use predict for it.")
        if options.get("random_state") is not None:
            options["random_state"] = generator(options["random_state"])
        for chunk in in_chunks(X, int(n_at_once)):
            yield from self.predict(chunk, **options)

    def predict_marginals(self, X: Any, given: Any = None, rules: Any = None) -> Any:
        """Return the probability of each label at each node.

        For margin models, probabilities are computed from scores as for likelihood models. They are not calibrated, but
        can be used for ranking.

        Parameters
        ----------
        X, given, rules
            As for `predict`.

        Returns
        -------
        list of ndarray of shape (n_nodes, n_labels), or ndarray of shape (n_rows, n_labels) if X is a table
        """
        examples, bound = self._prepare(X, given, rules)
        return examples.split(bound.logsum(self.model_.weights, backend=self._backend())[1].node)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label of each row of a table.

        See `predict_marginals` for sequences, trees and graphs, and for the probabilities of margin models.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_labels)
        """
        marginals: list[Any] | NDArray[np.float64] = self.predict_marginals(X)
        if isinstance(marginals, list):
            raise ValueError(
                f"predict_proba needs a table with a row per example, but X is a list of {len(marginals)} examples; "
                "predict_marginals(X) returns an array of shape (n_nodes, n_labels) for each of them."
            )
        return marginals

    def predict_max_marginals(self, X: Any, given: Any = None, rules: Any = None) -> Any:
        """Return the score of the best labelling with each label at each node.

        Parameters
        ----------
        X, given, rules
            As for `predict`.

        Returns
        -------
        list of ndarray of shape (n_nodes, n_labels), or ndarray of shape (n_rows, n_labels) if X is a table
        """
        examples, bound = self._prepare(X, given, rules)
        return examples.split(offered(bound, "max_marginals")(self.model_.weights, backend=self._backend()))

    def predict_top(
        self, X: Any, k: int = 5, given: Any = None, rules: Any = None
    ) -> list[list[tuple[float, list[Any]]]]:
        """Return the k best labellings of each example, as pairs (score, labels).

        Parameters
        ----------
        X, given, rules
            As for `predict`.
        k : int, default=5

        Returns
        -------
        list of lists of (float, list of labels)
            Fewer than k pairs if fewer labellings exist.
        """
        return self._top(*self._prepare(X, given, rules), self.model_.weights, k)

    def _top(
        self, examples: Examples, bound: Any, w: NDArray[np.float64], k: int
    ) -> list[list[tuple[float, list[Any]]]]:
        """Return the k best labellings of a bound structure."""
        require_count("k", k)
        longest, n_labels = int(np.diff(bound.offsets).max(initial=0)), len(self.classes_)
        k = min(int(k), n_labels ** min(longest, 64))  # there are at most this many labellings
        check_room("k", k, examples.n_nodes + len(examples) + longest * n_labels)
        values, labels = offered(bound, "top")(w, k, backend=self._backend())
        by_rank = [np.split(row, examples.offsets[1:-1]) for row in labels]
        return [
            [(float(v), self.classes_[by_rank[rank][i]].tolist()) for rank, v in enumerate(row) if v > -np.inf]
            for i, row in enumerate(values)
        ]

    def sample(self, X: Any, n: int = 1, random_state: Any = None, given: Any = None, rules: Any = None) -> list[Any]:
        """Draw labellings of each example from p(y|x).

        Parameters
        ----------
        X, given, rules
            As for `predict`.
        n : int, default=1
            Number of labellings.
        random_state : int, Generator or None, default=None

        Returns
        -------
        list of n predictions, each as from `predict`
        """
        require_count("n", n)
        examples, bound = self._prepare(X, given, rules)
        check_room("n", int(n), examples.n_nodes)
        drawn = offered(bound, "sample")(self.model_.weights, int(n), generator(random_state), backend=self._backend())
        return [self.model_.labellings(examples, labels) for labels in drawn]

    def decision_function(self, X: Any, given: Any = None, rules: Any = None) -> NDArray[np.float64]:
        """Return the score of the best labelling of each example, of shape (n_examples,)."""
        _, bound = self._prepare(X, given, rules)
        values: NDArray[np.float64] = bound.maximum(self.model_.weights, backend=self._backend())[0]
        return values

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy over all nodes with known labels.

        Parameters
        ----------
        X : list of examples, or Examples
        y : list of label sequences, optional
            True labels; by default those of `Examples`.
        sample_weight : array-like of shape (n_examples,), optional
            Weights of the nodes of each example.

        Returns
        -------
        float
        """
        check_is_fitted(self, "model_")
        truth = self.model_.read(X, y, sample_weight)
        if truth.y is None:
            raise ValueError("score needs the true labels; pass y.")
        _, bound = self._prepare(truth)
        predicted = self.classes_[decode(bound, self.model_.weights, self._backend())]
        known = known_nodes(truth.y)
        self._warn_of_unseen_labels(truth.y[known])
        if self.model_.whole:  # all nodes have the same label, so count one node per example
            known &= np.isin(np.arange(len(known)), truth.offsets[:-1])
        right = np.fromiter((p == t for p, t in zip(predicted[known], truth.y[known])), dtype=bool, count=known.sum())
        if truth.sample_weight is None:
            return float(right.mean()) if len(right) else float("nan")
        return float(np.average(right, weights=np.repeat(truth.sample_weight, np.diff(truth.offsets))[known]))

    def _warn_of_unseen_labels(self, labels: NDArray[Any]) -> None:
        """Warn about true labels that did not occur in `fit`, which are never predicted."""
        unseen = Counter(labels.tolist())
        for label in self.classes_.tolist():
            unseen.pop(label, None)
        if unseen:
            names = ", ".join(repr(label) for label, _ in unseen.most_common(5)) + (", ..." if len(unseen) > 5 else "")
            warn_caller(
                f"{unseen.total()} of {len(labels)} labels in y did not occur in fit and count as wrong: {names}."
            )


def in_chunks(X: Any, n_at_once: int) -> Iterator[Any]:
    """Yield chunks of `Examples`, or of an iterable of examples."""
    if isinstance(X, Examples):
        for first in range(0, len(X), n_at_once):
            yield X[first : first + n_at_once]
        return
    iterator = iter(X)
    for item in iterator:
        if isinstance(item, Examples):
            yield from in_chunks(item, n_at_once)
        else:
            yield [item, *islice(iterator, n_at_once - 1)]


def best_and_proven(bound: Any, w: NDArray[np.float64], backend: Any) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the best labelling of each example, and whether it is proven to have the highest score."""
    if not bound.capabilities.proofs:
        return decode(bound, w, backend), np.ones(len(bound.sample_weight), dtype=bool)
    proof = bound.search(w, bound.prove(w, backend=backend))
    return proof.labels, proof.proven


def decode_samples(bound: Any, posterior: Any, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the best labelling of each example under weights sampled for that example."""
    labels = [np.zeros(0, dtype=np.int32)]
    for i in range(len(bound.offsets) - 1):
        labels.append(decode(bound.take(i, i + 1), posterior.sample(1, rng)[0]))
    return np.concatenate(labels)


def decode_votes(bound: Any, posterior: Any, n_draws: int, rng: np.random.Generator, backend: Any) -> NDArray[np.int32]:
    """Return the majority vote at each node over posterior samples of weights."""
    votes = np.zeros((int(bound.offsets[-1]), bound.n_labels), dtype=np.int32)
    nodes = np.arange(len(votes))
    for _ in range(n_draws):
        votes[nodes, decode(bound, posterior.sample(1, rng)[0], backend)] += 1
    labels: NDArray[np.int32] = votes.argmax(axis=1).astype(np.int32)
    return labels


def offered(bound: Any, method: str) -> Any:
    """Return a supported method of a bound structure, or raise ``ValueError``."""
    if not getattr(bound.capabilities, method):
        raise ValueError(f"{bound.described} does not support {method}; see docs/extend/structure.md.")
    return getattr(bound, method)


MAX_BYTES = 8 << 30
"""Maximum memory in bytes for the results of one prediction."""


def check_room(name: str, value: int, numbers_each: int) -> None:
    """Raise ``ValueError`` if the requested number of results needs too much memory."""
    advice = f"use a smaller {name}, or fewer and shorter examples at a time"
    check_memory(8 * value * numbers_each, f"{name}={value}", advice, MAX_BYTES)
