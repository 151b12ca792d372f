"""`Tagger`: predicts labels and spans of sentences, explains them, and is saved to model files."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.annotations import read_sample_weight
from maxendnet.data.examples import Examples, distinct_labels
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.data.ragged import locate
from maxendnet.data.truth import possible_labels
from maxendnet.estimators import L2CRF
from maxendnet.estimators.file import ModelFileError, load, read, save
from maxendnet.estimators.fitted import Labellings
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.estimators.pruned import pruned, rounded
from maxendnet.losses import Log
from maxendnet.rules import bioes
from maxendnet.selection.search import PathSearchCV
from maxendnet.structures import Chain, Independent, as_structure
from maxendnet.structures.base import decode
from maxendnet.text.features.feature_counts import feature_counts, packed, unpacked
from maxendnet.text.features.own_features import FunctionError, OwnFeatures
from maxendnet.text.features.token_features import TokenFeatures
from maxendnet.text.fitting.candidates import Calibration, Candidate, calibrate_best
from maxendnet.text.fitting.internal_scheme import InternalTags, as_bioes, labels_of
from maxendnet.text.fitting.outside_bias import added_scores
from maxendnet.text.fitting.search import search_constants
from maxendnet.text.fitting.validation import Evaluation, Validation
from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.errors import TextError, check_count
from maxendnet.text.reading.spans import OUTSIDE, scheme_of
from maxendnet.text.reading.tag_schemes import (
    convert_tags,
    has_unknown,
    problems_note,
    read_partial_tags,
    read_tags,
    without_sets,
)
from maxendnet.text.results import confidence
from maxendnet.text.results.confidence import Confidence, Ranked, ScoredSpan
from maxendnet.text.results.scores import span_scorer
from maxendnet.utils.checks import is_number
from maxendnet.utils.scikit_learn import BaseEstimator, clone

VERSION = 1
OWN_FEATURES_VERSION = 2
"""Version of the description of taggers with feature functions in model files."""
MAX_ALL_PAIRS = 5_000_000
"""Maximum number of (feature, label) pairs for which ``pairs="all"`` is the default. More pairs would need several
times the memory of ``pairs="seen"`` (measured in benchmarks/TEXT.md)."""
MAX_LABELS = 16
"""Maximum number of labels for which ``pairs="all"`` and a trial of BIOES are the default. With more labels, passes
take twice as long (measured in benchmarks/TEXT.md)."""
CHOICES = {
    "calibrate": (True, False, "auto"),
    "inner": ("auto", "BIOES", None),
    "pairs": ("all", "seen", "auto", None),
}


def default_model(joined: bool = True, n_jobs: int | None = None, random_state: Any = 0) -> L2CRF:
    """Return the default model: an L2-CRF with a softmax margin.

    The constants were chosen on training folds of four data sets (benchmarks/TEXT.md). `Tagger(search=True)` chooses
    ``lam`` by cross-validation.
    """
    structure = Chain(pairs="seen") if joined else Independent(pairs="seen")
    return L2CRF(
        lam=0.1, margin=3.0, structure=structure, tol=1e-2, max_passes=200, n_jobs=n_jobs, random_state=random_state
    )


@dataclass(repr=False, eq=False)
class Tagger(BaseEstimator):
    """Sequence tagger for sentences: template features and an estimator of maxendnet.

    Parameters
    ----------
    features : TokenFeatures, str, callable, or list of these, default="auto"
        Token features. A string is short for ``TokenFeatures(string)``. "auto" chooses a template that fits the
        columns, so that parts of speech in a second column are used. A callable returns the features of the tokens of a
        sentence as feature dicts, names, an array or a sparse matrix; a list combines callables with a template (see
        `maxendnet.text.features.own_features`). With callables alone, tokens may be any objects: ``features=list``
        accepts sentences of feature dicts.
    model : an estimator, dict or None, default=None
        Model, such as ``M3N(C=0.1)``. None is an L2-CRF with a softmax margin, whose hyper-parameters suit most
        text. A dict changes settings of this default, such as ``{"lam": 0.3}``.
    scheme : str, default="auto"
        Tag scheme; see `maxendnet.text.reading.spans`. "auto" detects it from the labels of the fit.
    search : bool, default=False
        Whether to choose the hyper-parameters of the model by cross-validation, for the best span F1 (token accuracy if
        labels are not span tags).
    calibrate : bool or "auto", default="auto"
        Whether to fit a temperature on held-out sentences, so that confidences are calibrated probabilities; see
        `fit_temperature`. This needs at least one additional fit. "auto" calibrates models with a margin, such as the
        default.
    outside : float or "auto", default="auto"
        Number added to the score of the label O in predictions, but not in probabilities. "auto" maximises the span F1
        on the held-out sentences of the calibration, so that fewer spans are missed; see
        `maxendnet.text.fitting.outside_bias`. If there is no calibration, "auto" is 0.
    inner : {"auto", "BIOES"} or None, default="auto"
        For BIO tags: "BIOES" converts them to BIOES tags for learning, with separate labels for the last token of a
        span and for spans of one token. Predictions are still BIO tags. None learns BIO tags. "auto" compares both on
        the held-out sentences of the calibration, for the default model with at most 16 BIOES labels.
    cv : int, default=3
        Number of folds of the search and the calibration.
    patience : int or None, default=None
        Number of consecutive evaluations without a better score on the validation sentences after which the fit stops.
    pairs : {"all", "seen", "auto"} or None, default=None
        Which pairs of a feature and a label have weights; see `maxendnet.Chain`. "auto" is "all" for at most five
        million pairs and 16 labels, and "seen" otherwise. None is "auto" for the default model, and does not change
        other models.
    max_weights : int or None, default=None
        Maximum number of feature weights, for small models. After the fit, the weights with the largest effect on the
        training sentences are kept (see `maxendnet.estimators.pruned`), and features without weights are dropped.
        ``pairs="auto"`` is then "seen". The certificate of the fit no longer applies, so ``gap_`` is NaN.
    n_jobs : int or None, default=None
        Number of threads of the default model, and number of folds that the search fits in parallel.
    random_state : int, default=0
        Seed of the default model.
    verbose : int, default=0
        1 shows progress.
    rules : a rule or a list of rules of `maxendnet.rules`, optional
        Rules that all labellings satisfy, in the fit and in predictions. The model then learns the tags of y, and not
        BIOES tags.
    repair : bool, default=False
        Whether to correct misspelt tags, such as ``0`` for ``O``, and ``b-PER`` or ``B_PER`` for ``B-PER``, and to
        rewrite misplaced tags by the rules of the scheme, without changing spans. By default misspelt tags raise an
        error, and misplaced tags a warning.

    Attributes
    ----------
    features_ : TokenFeatures or OwnFeatures
    estimator_ : the fitted estimator
    scheme_ : str
    feature_counts_ : ndarray of shape (n_features,) or None
        Number of training tokens with each feature. None for old files.
    temperature_, outside_ : float
    inner_ : InternalTags or None
        Conversion of the model's BIOES labels to BIO tags, or None if the model does not use BIOES labels.
    search_ : PathSearchCV or None
    validation_ : list of Evaluation
        Pass, seconds, objective, gap and score at every evaluation. Empty if there are no validation sentences.
    classes_ : ndarray of shape (n_classes,)
        Labels of the model.
    labels_ : ndarray of shape (n_labels,)
        Labels of predictions, the columns of `predict_marginals`. They differ from ``classes_`` if ``inner_`` is not
        None.

    Examples
    --------
    >>> sentences = [["Ada", "met", "Bob"], ["Bob", "slept"]]
    >>> tagger = Tagger().fit(sentences, [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
    >>> tagger.predict([["Ada", "slept"]])
    [['B-PER', 'O']]
    >>> [(span.start, span.end, span.type) for span in tagger.predict_spans([["Ada", "slept"]])[0]]
    [(0, 1, 'PER')]
    """

    features: Any = "auto"
    model: MarkovNetwork | dict[str, Any] | None = None
    scheme: str = "auto"
    search: bool = False
    calibrate: bool | str = "auto"
    outside: float | str = "auto"
    inner: str | None = "auto"
    cv: int = 3
    patience: int | None = None
    pairs: str | None = None
    max_weights: int | None = None
    n_jobs: int | None = None
    random_state: Any = 0
    verbose: int = 0
    repair: bool = False
    rules: Any = None

    # ---- learning ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, validation: Any = None, sample_weight: Any = None) -> Tagger:
        """Fit the tagger to labelled sentences.

        Parameters
        ----------
        X : Columns, or list of sentences
            A sentence is a list of tokens, or a list of tuples (token, other columns, ...).
        y : list of lists of labels
            Unknown labels are `maxendnet.UNKNOWN`, or a set of labels that contains the true one.
        validation : pair (X, y), optional
            Held-out sentences. They are scored at every evaluation of the duality gap: ``validation_`` contains the
            scores, ``verbose`` prints them, and ``patience`` stops the fit when they no longer improve.
        sample_weight : array-like of shape (n_sentences,), optional
            Weights of the sentences in the fit. They do not affect calibration.
        """
        self._check_options()
        features = self._new_features()
        columns = features.read(X)
        labels, scheme = read_partial_tags(y, self.scheme, self.repair, columns.place)
        examples = features.fit_transform(columns, labels)
        if sample_weight is not None:
            examples = replace(examples, sample_weight=read_sample_weight(sample_weight, len(examples)))
        note = problems_note(without_sets(labels), scheme, columns.place)
        if note:
            warnings.warn(f"{note}; repair=True (--repair) rewrites them.", stacklevel=2)

        search = self._search(features, examples, scheme)
        constants = {} if search is None else search.best_params_
        candidates = self._candidates(features, examples, labels, scheme, constants)
        chosen, calibration = self._choose(candidates, scheme)
        outside = calibration.outside if self.outside == "auto" else float(self.outside)

        callback = self._validation(chosen, features, validation, scheme, outside)
        estimator = self._fit_estimator(chosen, callback)
        problem = estimator.pose(chosen.examples, estimator.classes_, constants=estimator.model_.report.constants)
        model = rounded(estimator.model_, problem, estimator.tol)
        if self.max_weights is not None:
            model = pruned(model, chosen.examples, self.max_weights)
        estimator.set_params(structure=model.structure).set_model(model)
        features = features.renamed(estimator.model_.feature_names)

        # attributes are set last, so that a fit that fails or is interrupted keeps those of the previous fit
        self.features_: Any = features
        self.estimator_: Any = estimator
        self.feature_counts_: Any = feature_counts(chosen.examples, estimator.model_.feature_names)
        self.scheme_: str = scheme
        self.search_: PathSearchCV | None = search
        self.temperature_: float = calibration.temperature
        self.outside_: float = outside
        self.inner_: InternalTags | None = None if chosen.rules is None else InternalTags.of(estimator.classes_)
        self.validation_: list[Evaluation] = [] if callback is None else callback.evaluations
        self.classes_: Any = estimator.classes_
        self.labels_: Any = labels_of(estimator.classes_, self.inner_)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Tagger:
        """Continue the fit with new sentences only; see `maxendnet.L2CRF.partial_fit`.

        New features get weights. The labels, the tag scheme, the temperature and the outside bias do not change after
        the first fit: new labels raise an error. The first call is equivalent to `fit`.

        Examples
        --------
        >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
        >>> tagger.partial_fit([["Cleo", "slept"]], [["B-PER", "O"]]).predict([["Cleo", "met", "Ada"]])
        [['B-PER', 'O', 'B-PER']]
        """
        if "estimator_" not in vars(self):
            return self.fit(X, y, sample_weight=sample_weight)
        if self.features_.has_pair_features:
            raise TextError(
                "partial_fit does not support templates whose lines B have cells; fit all sentences again, or write "
                "lines U."
            )
        names, estimator = self.features_.feature_names_, copy.copy(self.estimator_)
        features = self.features_.renamed(None if names is None else FeatureNames())
        columns = features.read(X)
        labels, _ = read_partial_tags(y, self.scheme_, self.repair, columns.place)
        examples = features.fit_transform(columns, labels)
        if self.inner_ is not None:
            if has_unknown(labels):
                raise TextError(
                    "the model has BIOES tags, for which partial_fit does not support unknown labels; fit with "
                    "inner=None, or leave these sentences out."
                )
            examples = as_bioes(examples, labels)
        self._refuse_new_labels(examples, columns)
        estimator.partial_fit(examples, sample_weight=sample_weight)
        self.features_ = features.renamed(estimator.model_.feature_names, in_order=False)
        self.estimator_ = estimator
        if self.feature_counts_ is not None:
            self.feature_counts_ = feature_counts(examples, estimator.model_.feature_names, self.feature_counts_, names)
        return self

    def _refuse_new_labels(self, examples: Examples, columns: Columns) -> None:
        """Raise `TextError` if there are labels that did not occur in the first fit."""
        classes = set(self.classes_.tolist())
        for k, label in enumerate(np.asarray(examples.y).tolist()):
            new = sorted(map(str, set(possible_labels([label])) - classes))
            if new:
                note = "" if self.inner_ is None else " (the model has BIOES tags for the last and for single tokens)"
                raise TextError(
                    f"{columns.place(*locate(examples.offsets, k))}: the label {new[0]!r} did not occur in the first "
                    f"fit{note}, and partial_fit cannot add labels. Fit all sentences again, or start with a fit that "
                    f"contains every label."
                )

    def _new_features(self) -> Any:
        """Return unfitted features."""
        if isinstance(self.features, str):
            return TokenFeatures(self.features)
        return (
            clone(self.features) if isinstance(self.features, TokenFeatures) else OwnFeatures(self.features).checked()
        )

    def _check_options(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                expected = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
                raise TextError(f"{name} must be {expected}, got {value!r}.")
        if not (self.outside == "auto" or (is_number(self.outside) and np.isfinite(self.outside))):
            raise TextError(f"outside must be a number or 'auto', got {self.outside!r}.")
        if not (self._has_default_model or isinstance(self.model, MarkovNetwork)):
            raise TextError(
                f"model must be None, a dict of settings or an estimator of maxendnet, such as M3N(), got "
                f"{self.model!r}."
            )
        for name in ("max_weights", "patience"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    @property
    def _has_default_model(self) -> bool:
        return self.model is None or isinstance(self.model, dict)

    def _new_model(self, features: Any, examples: Examples) -> Any:
        """Return an unfitted model for these examples."""
        if self._has_default_model:
            model: Any = default_model(features.joins_labels, self.n_jobs, self.random_state)
            settings: Any = self.model or {}
            model.set_params(**settings)
        else:
            model = clone(self.model)
        pairs = "auto" if self.pairs is None and self._has_default_model else self.pairs
        if pairs == "auto":
            n_labels = len(distinct_labels(np.asarray(examples.y)))
            is_small = n_labels <= MAX_LABELS and examples.n_features * n_labels <= MAX_ALL_PAIRS
            pairs = "all" if is_small and self.max_weights is None else "seen"
        if pairs is not None:
            model.set_params(structure=clone(as_structure(model.structure)).set_params(pairs=pairs))
        if self.rules is not None:
            structure = clone(as_structure(model.structure))
            if not structure.takes_rules:
                raise TextError(f"rules need a chain, but the structure of the model is {structure!r}.")
            model.set_params(structure=structure.set_params(rules=self.rules))
        return model

    def _search(self, features: Any, examples: Examples, scheme: str) -> PathSearchCV | None:
        """Choose hyper-parameters by cross-validation, or return None if ``search`` is False."""
        return self._search_by(partial(span_scorer, scheme=scheme), features, examples)

    def _search_by(self, scoring: Any, features: Any, examples: Examples) -> PathSearchCV | None:
        if not self.search:
            return None
        model = self._new_model(features, examples)
        return search_constants(model, examples, scoring, self.cv, self.n_jobs, self.verbose)

    def _candidates(
        self, features: Any, examples: Examples, labels: list[list[Any]], scheme: str, constants: Any
    ) -> list[Candidate]:
        """Return the tag schemes to compare: the scheme of the user's tags, BIOES, or both."""
        user = Candidate(examples, self._new_model(features, examples).set_params(**constants))
        if not self._considers_bioes(user, features, labels, scheme):
            return [user]
        recoded = as_bioes(examples, labels)
        internal = Candidate(recoded, self._new_model(features, recoded).set_params(**constants), bioes())
        return [internal] if self.inner == "BIOES" else [user, internal]

    def _considers_bioes(self, user: Candidate, features: Any, labels: list[list[Any]], scheme: str) -> bool:
        """Whether BIOES is a candidate for BIO tags."""
        if self.inner is None or scheme != "IOB2" or not features.joins_labels:
            return False
        if self.rules is not None or has_unknown(labels):
            if self.inner == "BIOES":
                raise TextError("inner='BIOES' does not support rules= or unknown labels; use inner=None.")
            return False
        tags = {tag for row in labels for tag in row}
        if not all(isinstance(tag, str) and (tag == OUTSIDE or tag[:2] in ("B-", "I-")) for tag in tags):
            return False
        n_labels = 4 * len({tag[2:] for tag in tags - {OUTSIDE}}) + 1
        is_default = self._has_default_model and n_labels <= MAX_LABELS
        return self.inner == "BIOES" or (is_default and self._calibrates(user))

    def _calibrates(self, candidate: Candidate) -> bool:
        """Whether a temperature is fitted."""
        if self.calibrate != "auto":
            return bool(self.calibrate)
        loss = candidate.model.compose()[1]
        has_margin = not isinstance(loss, Log) or loss.margin > 0
        return has_margin and len(candidate.examples) >= self.cv

    def _choose(self, candidates: list[Candidate], scheme: str) -> tuple[Candidate, Calibration]:
        """Calibrate the candidates on held-out sentences, and return the one with the best F1."""
        if not self._calibrates(candidates[0]):
            return candidates[0], Calibration()
        return calibrate_best(candidates, scheme, self.cv)

    def _validation(
        self, chosen: Candidate, features: Any, validation: Any, scheme: str, outside: float
    ) -> Validation | None:
        """Return the callback of the final fit, or None if there are no validation sentences."""
        if validation is None:
            if self.patience is not None:
                raise TextError("patience needs validation sentences: fit(X, y, validation=(X, y)).")
            return None
        columns = features.read(validation[0])
        y, _ = read_tags(validation[1], scheme, self.repair, columns.place)
        classes = distinct_labels(np.asarray(chosen.examples.y))
        return Validation(
            as_structure(chosen.model.structure), features.transform(columns), y, classes, scheme, self.patience,
            self.verbose, outside, chosen.rules,
        )  # fmt: skip

    def _fit_estimator(self, chosen: Candidate, callback: Validation | None) -> Any:
        """Fit the model of the chosen candidate to all sentences."""
        user_callback = chosen.model.callback
        verbose = self.verbose if callback is None else 0  # the callback prints its own lines
        hooks = [hook for hook in (callback, user_callback) if hook is not None]

        def both(progress: Any) -> bool:
            answers = [hook(progress) for hook in hooks]
            return any(isinstance(answer, (bool, np.bool_)) and bool(answer) for answer in answers)

        estimator = clone(chosen.model).set_params(verbose=verbose, callback=both if hooks else None)
        return estimator.fit(chosen.examples).set_params(callback=user_callback)

    # ---- prediction --------------------------------------------------------------------------------------------------

    def examples(self, X: Any, y: Any = None) -> Examples:
        """Convert sentences to the input of the estimator."""
        self._fitted()
        examples: Examples = self.features_.transform(X, y)
        return examples

    def predict(self, X: Any, given: Any = None, rules: Any = None) -> Any:
        """Return the labels of each sentence.

        Parameters
        ----------
        X : Columns, or list of sentences
        given : list of lists of labels, optional
            Known labels: for each token a label, a set of labels, or `maxendnet.UNKNOWN`. Predictions are limited to
            labellings that agree with them. The other prediction methods accept this argument as well.
        rules : a rule or a list of rules of `maxendnet.rules`, optional
            Predictions are limited to labellings that also satisfy these rules. The other prediction methods accept
            this argument as well.

        Returns
        -------
        list of lists of labels

        Examples
        --------
        >>> from maxendnet import UNKNOWN
        >>> from maxendnet.rules import starts_with
        >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
        >>> tagger.predict([["Ada", "met"]], given=[[UNKNOWN, "B-PER"]])
        [['B-PER', 'B-PER']]
        >>> tagger.predict([["Ada", "met"]], rules=starts_with("O"))
        [['O', 'O']]
        """
        model = self._fitted().fitted_model()
        columns = self.features_.read(X)
        names = self.classes_ if self.inner_ is None else self.inner_.names
        given, rules = self._limits(given, rules)
        if given is None and not self.features_.has_pair_features:
            bound = model.bind_entries(*self.features_.entries(columns), columns.offsets, rules)
        else:
            bound = model.bind(self.features_.transform(columns), given, rules)
        added = added_scores(self.classes_, self.outside_)
        labels = decode(bound, model.weights, self.estimator_._backend(), added)
        return Labellings.split(names[labels], columns.offsets)

    def _limits(self, given: Any, rules: Any) -> tuple[Any, Any]:
        """Return given labels and rules for the labels of the model."""
        return (given, rules) if self.inner_ is None else (self.inner_.given(given), self.inner_.all_rules(rules))

    def predict_stream(self, X: Iterable[Any], *, n_at_once: int = 1) -> Iterator[list[Any]]:
        """Yield the labels of each sentence of a stream, in constant memory.

        Parameters
        ----------
        X : iterable of sentences, or of Columns
            The iterable may be endless, such as a generator that reads from a pipe. `stream_columns` yields blocks of
            sentences, which are labelled together.
        n_at_once : int, default=1
            Number of single sentences that are read and labelled together. 1 yields the labels of a sentence before the
            next one is read. Larger numbers are faster.

        Yields
        ------
        list of labels

        Examples
        --------
        >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
        >>> lines = iter(["Bob met Ada", "Ada"])
        >>> for labels in tagger.predict_stream(line.split() for line in lines):
        ...     print(labels)
        ['B-PER', 'O', 'B-PER']
        ['B-PER']
        """
        check_count("n_at_once", n_at_once)
        batch: list[Any] = []
        for item in X:
            is_block = isinstance(item, Columns)
            if not is_block:
                batch.append(item)
            if batch and (is_block or len(batch) == n_at_once):
                yield from self.predict(batch)
                batch = []
            if is_block:
                yield from self.predict(item)
        if batch:
            yield from self.predict(batch)

    def predict_spans(
        self, X: Any, strict: bool = False, given: Any = None, rules: Any = None
    ) -> list[list[ScoredSpan]]:
        """Return the spans of each sentence with their probabilities.

        See `maxendnet.text.predict_spans`. With ``given`` or ``rules``, probabilities are conditional on them.
        """
        model, examples = self._fitted(), self.examples(X)
        scheme = self.scheme_ if self.inner_ is None else "BIOES"
        return confidence.predict_spans(
            model, examples, scheme, self.temperature_, strict, self.outside_, self.inner_, *self._limits(given, rules)
        )

    def predict_top(self, X: Any, k: int = 5, given: Any = None, rules: Any = None) -> list[list[Ranked]]:
        """Return the k best labellings of each sentence with their probabilities.

        The first labelling is that of `predict`. The ranking includes the bias ``outside_``, but the probabilities do
        not, so they need not decrease. With ``given`` or ``rules``, probabilities are conditional on them.
        """
        return confidence.predict_ranked(
            self._fitted(), self.examples(X), k, self.temperature_, self.outside_, self.inner_,
            *self._limits(given, rules),
        )  # fmt: skip

    def predict_confidence(self, X: Any, given: Any = None, rules: Any = None) -> list[Confidence]:
        """Return the labels of each sentence with their probabilities.

        With ``given`` or ``rules``, probabilities are conditional on them.
        """
        return confidence.predict_confidence(
            self._fitted(), self.examples(X), self.temperature_, self.outside_, self.inner_,
            *self._limits(given, rules),
        )  # fmt: skip

    def predict_marginals(self, X: Any, given: Any = None, rules: Any = None) -> list[Any]:
        """Return the probability of each label at each token.

        Parameters
        ----------
        X, given, rules
            As for `predict`. Probabilities are conditional on given labels and rules.

        Returns
        -------
        list of ndarray of shape (n_tokens, n_labels)
            The columns are those of ``labels_``. Probabilities are calibrated if the tagger is.

        Examples
        --------
        >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
        >>> (marginals,) = tagger.predict_marginals([["Ada", "met"]])
        >>> tagger.labels_.tolist(), (marginals[0] > 0.5).tolist()
        (['B-PER', 'O'], [True, False])
        """
        model, (given, rules) = self._fitted(), self._limits(given, rules)
        examples, bound = confidence.bind_tokens(model, self.examples(X), None, given, rules)
        w = confidence.scaled_weights(model, self.temperature_)
        node = bound.logsum(w, backend=model._backend())[1].node
        if self.inner_ is not None:
            node = node @ (self.inner_.names[:, None] == self.labels_)
        return list(examples.split(node))

    def score(self, X: Any, y: Any) -> float:
        """Return the span F1, or the token accuracy if labels are not span tags."""
        self._fitted()
        columns = self.features_.read(X)
        truth, _ = read_tags(y, self.scheme_, self.repair, columns.place)
        return span_scorer(self, columns, truth, self.scheme_)

    def explain(self, sentence: Any = None, top: int = 10, truth: Any = None) -> Any:
        """Explain the model by its largest weights, or explain the predicted labels of one sentence.

        Parameters
        ----------
        sentence : list of tokens or rows, optional
            Sentence to explain. None explains the model.
        top : int, default=10
            Number of features for each label or token.
        truth : list of labels, optional
            True labels of the sentence. They are shown, and wrong labels are compared with them.

        Returns
        -------
        ModelExplanation or SentenceExplanation
            Can be printed, displayed in a notebook, or converted by ``as_dict``, ``to_json``, ``to_frame`` and
            ``to_html``.
        """
        from maxendnet.text.results.explain import FeatureTable, explain_model, explain_sentence

        model = self._fitted()
        table = FeatureTable(self.feature_counts_, getattr(self.features_, "sources", ()))
        if sentence is None:
            return explain_model(model, top, table)
        columns = self.features_.read([sentence])
        rules = None if self.inner_ is None else self.inner_.rules
        if truth is not None and self.inner_ is not None:
            (truth,) = convert_tags([truth], "BIOES", "IOB2")
        return explain_sentence(
            model, self.examples(columns), columns.cells[0], top, self.temperature_, self.outside_, rules, truth, table
        )

    def _fitted(self) -> Any:
        if "estimator_" not in vars(self):  # check_is_fitted alone takes a tenth of the time for a short sentence
            check_is_fitted(self, "estimator_")
        return self.estimator_

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tagger to a file, for `Tagger.load` and ``maxendnet tag``."""
        estimator = self._fitted()
        application = {
            "kind": "text",
            "version": VERSION if isinstance(self.features_, TokenFeatures) else OWN_FEATURES_VERSION,
            "features": self.features_.to_plain(),
            "scheme": self.scheme_,
            "temperature": self.temperature_,
            "outside": self.outside_,
            "inner": None if self.inner_ is None else "BIOES",
            "counts": None if self.feature_counts_ is None else packed(self.feature_counts_),
        }
        save(estimator, path, application)

    @classmethod
    def load(cls, path: str | os.PathLike[str], features: Any = None) -> Tagger:
        """Read a tagger from a file that `save` wrote.

        Parameters
        ----------
        path : str or path-like
        features : callable or list of callables, optional
            The feature functions of the tagger. A file contains their names only.

        Returns
        -------
        Tagger

        Raises
        ------
        ModelFileError
            The file is not a tagger, or is damaged.
        """
        content = read(path)
        application = content.header.get("application")
        versions = (VERSION, OWN_FEATURES_VERSION)
        if (
            not isinstance(application, dict)
            or application.get("kind") != "text"
            or application.get("version") not in versions
        ):
            raise ModelFileError(
                f"{os.fspath(path)} is a model, but not a tagger that this version can read; Tagger.save and maxendnet "
                f"train write taggers."
            )
        estimator = load(path, content)
        try:
            fitted = cls._fitted_features(application["features"], estimator.model_.feature_names, features)
            return cls._from_application(application, fitted, estimator)
        except FunctionError as error:
            raise FunctionError(f"{os.fspath(path)}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(
                f"{os.fspath(path)}: the description of the tagger is damaged ({problem}); train it again with "
                f"maxendnet train."
            ) from error

    @staticmethod
    def _fitted_features(plain: dict[str, Any], names: FeatureNames | None, functions: Any) -> Any:
        """Return the features that `save` described."""
        if "functions" in plain:
            return OwnFeatures.from_plain(plain, FeatureNames() if names is None else names, functions)
        if functions is not None:
            raise FunctionError("the tagger has no feature functions; load it without features=.")
        return TokenFeatures.from_plain(plain, names)

    @classmethod
    def _from_application(cls, application: dict[str, Any], features: Any, estimator: Any) -> Tagger:
        """Return the tagger that `save` described, or raise an error if the description is invalid."""
        if features.n_hashed is not None and features.n_hashed != estimator.n_features_in_:
            raise TextError(
                f"there are {features.n_hashed} hashed features, but weights for {estimator.n_features_in_}"
            )
        temperature = float(application["temperature"])
        if not (np.isfinite(temperature) and temperature > 0):
            raise TextError(f"the temperature is {temperature}")
        outside = float(application.get("outside", 0.0))  # old files do not have it
        if not np.isfinite(outside):
            raise TextError(f"the outside bias is {outside}")
        inner = application.get("inner")
        if inner not in (None, "BIOES"):
            raise TextError(f"the internal tag scheme is {inner!r}")
        tagger = cls(clone(features) if isinstance(features, TokenFeatures) else features.parts, clone(estimator))
        tagger.features_, tagger.estimator_, tagger.classes_ = features, estimator, estimator.classes_
        tagger.scheme_, tagger.temperature_, tagger.outside_ = scheme_of(application["scheme"]), temperature, outside
        tagger.inner_ = None if inner is None else InternalTags.of(estimator.classes_)
        tagger.labels_ = labels_of(estimator.classes_, tagger.inner_)
        counts = application.get("counts")  # old files do not have it
        tagger.feature_counts_ = None if counts is None else unpacked(counts, estimator.n_features_in_)
        tagger.search_, tagger.validation_ = None, []
        return tagger
