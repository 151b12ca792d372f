"""What a fitted estimator offers: predictions, their probabilities and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxendnet.backends import Backend, Threads
from maxendnet.data.examples import Examples
from maxendnet.data.truth import known_nodes
from maxendnet.estimators.fitted import FittedModel
from maxendnet.piece import options
from maxendnet.problem.partitions import partitions_of
from maxendnet.structures import as_structure
from maxendnet.structures.base import decode
from maxendnet.utils.checks import generator, require_count
from maxendnet.utils.warn import warn_caller


class Predictor(BaseEstimator):
    """An estimator with a fitted model: what can be asked of it, however it was learned.

    It needs the settings ``structure``, ``n_jobs`` and ``backend``; `set_model` gives it the rest.
    """

    structure: Any
    n_jobs: int | None
    backend: Any

    def set_model(self, model: FittedModel) -> None:
        """Become an estimator with this fitted model: set the attributes that `fit` sets."""
        self.model_ = model
        self.classes_, self.posterior_ = model.classes, model.posterior
        self.n_features_in_, self.feature_names_ = model.n_features_in, model.feature_names
        report = model.report._asdict()
        for name, value in (report | report.pop("constants")).items():
            setattr(self, f"{name}_", value)
        for name, part in model.named_weights().items():
            setattr(self, f"{name}_", part)

    @property
    def feature_names_in_(self) -> NDArray:
        """Names of the features as scikit-learn has them; there is no such attribute where they have no names."""
        if getattr(self, "feature_names_", None) is None:
            raise AttributeError(f"{type(self).__name__} was not fitted on features with names")
        return np.array(self.feature_names_, dtype=object)

    def changed_structure(self) -> str:
        """What to say if the structure was changed after the fit; empty if it was not."""
        now, fitted = as_structure(self.structure), self.model_.structure
        if type(now) is type(fitted):
            current, original = vars(now), vars(fitted)
            identical = current.keys() == original.keys() and all(current[name] is original[name] for name in current)
            if identical or repr(options(now)) == repr(options(fitted)):
                return ""
        return f"structure was changed after the fit, from {fitted!r} to {now!r}; set it back, or fit again."

    def _backend(self) -> Any:
        if self.backend is None:
            return Threads(self.n_jobs)
        if not isinstance(self.backend, Backend) or isinstance(self.backend, type):
            raise ValueError(f"backend must be None or a backend such as Threads(2), got {self.backend!r}.")
        return self.backend

    def _partitions(self, X: Any) -> Any:
        """Examples in partitions on the workers of the backend, where X is such; otherwise None."""
        if self.backend is None or getattr(self.backend, "local", True):
            return None
        return partitions_of(X, self.backend)

    def _for_workers(self) -> Self:
        """A copy that predicts on workers; the backend stays here."""
        there = copy(self)
        there.backend = None
        return there

    def _prepare(self, X: Any, given: Any = None, rules: Any = None) -> tuple[Examples, Any]:
        """The examples, and the structure bound to them; limited to labellings that agree with what is asked."""
        model = self.fitted_model()
        examples = model.read(X)
        return examples, model.bind(examples, given, rules)

    def fitted_model(self) -> FittedModel:
        """The model of the last fit, which must have had the current structure."""
        if "model_" not in vars(self):  # the check itself takes a tenth of the time for a short sentence
            check_is_fitted(self, "model_")
        changed = self.changed_structure()
        if changed:
            raise ValueError(changed)
        return self.model_

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
        >>> model = L2CRF().fit([[[1.0], [0.0]], [[0.0], [1.0]]], [["a", "b"], ["b", "a"]])
        >>> model.predict([[[1.0], [0.0]]], given=[["b", UNKNOWN]])
        [['b', 'a']]
        >>> from maxendnet.rules import starts_with
        >>> model.predict([[[1.0], [0.0]]], rules=starts_with("b"))
        [['b', 'a']]
        """
        parted = self._partitions(X)
        if parted is not None:
            if not (given is None and rules is None and by == "mean" and not return_proof):
                raise ValueError(
                    "Partitions are predicted without given, rules, by and return_proof; read one and ask."
                )
            check_is_fitted(self, "model_")
            return parted.predict(self._for_workers())
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

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of every label of every row of a table, shape (n_rows, n_labels).

        For sequences, trees and graphs see `predict_marginals`, which also says what margin models give.
        """
        marginals = self.predict_marginals(X)
        if isinstance(marginals, list):
            raise ValueError(
                f"predict_proba is for tables with a row per example, and X is a list of {len(marginals)} examples; "
                "predict_marginals(X) returns an array of shape (n_nodes, n_labels) for each of them."
            )
        return marginals

    def predict_max_marginals(self, X: Any, given: Any = None, rules: Any = None) -> Any:
        """Score of the best labelling with each label at each node: a list of arrays of shape (n_nodes, n_labels)."""
        examples, bound = self._prepare(X, given, rules)
        return examples.split(offered(bound, "max_marginals")(self.model_.weights, backend=self._backend()))

    def predict_top(
        self, X: Any, k: int = 5, given: Any = None, rules: Any = None
    ) -> list[list[tuple[float, list[Any]]]]:
        """The k best labellings of every example, best first, as pairs (score, labels); fewer where fewer exist."""
        return self._top(*self._prepare(X, given, rules), self.model_.weights, k)

    def _top(
        self, examples: Examples, bound: Any, w: NDArray[np.float64], k: int
    ) -> list[list[tuple[float, list[Any]]]]:
        """As `predict_top`, of a bound structure."""
        require_count("k", k)
        longest, n_labels = int(np.diff(bound.offsets).max(initial=0)), len(self.classes_)
        k = min(int(k), n_labels ** min(longest, 64))  # there are no more labellings than that
        require_room("k", k, examples.n_nodes + len(examples) + longest * n_labels)
        values, labels = offered(bound, "top")(w, k, backend=self._backend())
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
        self._warn_of_unseen_labels(truth.y[known])
        if self.model_.whole:  # one node of each example counts
            known &= np.isin(np.arange(len(known)), truth.offsets[:-1])
        right = np.fromiter((p == t for p, t in zip(predicted[known], truth.y[known])), dtype=bool, count=known.sum())
        if truth.sample_weight is None:
            return float(right.mean()) if len(right) else float("nan")
        return float(np.average(right, weights=np.repeat(truth.sample_weight, np.diff(truth.offsets))[known]))

    def _warn_of_unseen_labels(self, labels: NDArray) -> None:
        """Warn about true labels that `fit` has not seen: no prediction can be right there."""
        unseen = Counter(labels.tolist())
        for label in self.classes_.tolist():
            unseen.pop(label, None)
        if unseen:
            names = ", ".join(repr(label) for label, _ in unseen.most_common(5)) + (", ..." if len(unseen) > 5 else "")
            warn_caller(
                f"{unseen.total()} of {len(labels)} labels in y were not seen in fit and count as wrong: {names}."
            )


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
    if not bound.capabilities.proofs:
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


def offered(bound: Any, method: str) -> Any:
    """A method of a bound structure; ``ValueError`` if it has none of that name."""
    if not getattr(bound.capabilities, method):
        raise ValueError(f"{bound.described} offers no {method}; see docs/extend/structure.md for what it may offer.")
    return getattr(bound, method)


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
