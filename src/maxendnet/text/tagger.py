"""A tagger: from sentences of words to labels, spans and explanations, and to a file that does the same elsewhere."""

from __future__ import annotations

import copy
import os
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.examples import Examples, distinct_labels
from maxendnet.estimators import L2CRF
from maxendnet.estimators.file import ModelFileError, load, read, save
from maxendnet.estimators.fitted import Labellings
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.estimators.pruned import pruned
from maxendnet.losses import Log
from maxendnet.rules import bioes
from maxendnet.selection.search import PathSearchCV
from maxendnet.structures import Chain, Independent, as_structure
from maxendnet.text.features.token_features import TokenFeatures
from maxendnet.text.fitting.calibration import held_out, temperature_of
from maxendnet.text.fitting.internal_scheme import InnerTags, as_inner
from maxendnet.text.fitting.outside_bias import Outside, added_scores, decode_with, fit_outside
from maxendnet.text.fitting.validation import Validation
from maxendnet.text.reading.columns import Columns
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import OUTSIDE, scheme_of
from maxendnet.text.reading.tag_schemes import problems_note, read_tags
from maxendnet.text.results import confidence
from maxendnet.text.results.confidence import Confidence, Ranked, ScoredSpan
from maxendnet.text.results.scores import span_scorer
from maxendnet.utils.checks import is_number

VERSION = 1
MOST_PAIRS, MOST_LABELS = 5_000_000, 16
"""Up to so many pairs of a feature and a label, and labels, the default model has weights for all pairs: it is better,
but more pairs would take several times the memory of seen ones, and with more labels passes take twice as long. Up to
as many labels BIO tags are also tried as BIOES (benchmarks/TEXT.md)."""


def default_model(joined: bool = True, n_jobs: int | None = None, random_state: Any = 0) -> L2CRF:
    """The model that a tagger has if none is given: a conditional random field with a Gaussian prior and a margin.

    `Tagger` gives weights to all pairs of a feature and a label where these are few enough, and else to those that
    occur. ``lam=0.1`` and ``margin=3`` were chosen on folds of
    the training parts of four sets (names in Portuguese and in tweets, addresses, Chinese segmentation): the margin
    brings 0.3 to 1.3 points of F1 (benchmarks/TEXT.md). `Tagger(search=True)` chooses lam by
    cross-validation.
    """
    structure = Chain(pairs="seen") if joined else Independent(pairs="seen")
    return L2CRF(
        lam=0.1, margin=3.0, structure=structure, tol=1e-2, max_passes=200, n_jobs=n_jobs, random_state=random_state
    )


class Tried(NamedTuple):
    """One way to learn the tags."""

    examples: Examples
    model: Any
    rules: Any
    """That predictions keep; None where labels are those of the sentences."""


class Calibrated(NamedTuple):
    """What was found on sentences held out."""

    temperature: float
    outside: Outside


class Tagger(BaseEstimator):
    """Labels for the tokens of sentences: features by a template, and any estimator of maxendnet.

    Parameters
    ----------
    features : TokenFeatures or str, default="auto"
        How features are made of tokens; a string is short for ``TokenFeatures(string)``. "auto" chooses a template by
        the columns, so that parts of speech in a second column are used.
    model : an estimator, dict or None, default=None
        Such as ``M3N(C=0.1)``. None is an L2-CRF with a margin, whose constants suit most text; a dict has other
        settings for it, such as ``{"lam": 0.3}``.
    scheme : str, default="auto"
        Of the tags, for spans; see `maxendnet.text.reading.spans`. "auto" is that of most labels of the fit.
    search : bool, default=False
        Choose the constants of the model by cross-validation: those with the best F1 of spans (or share of tokens,
        where labels have no letters B, I, ...).
    calibrate : bool or "auto", default="auto"
        Fit a temperature, so that confidences of a model with a margin are probabilities. It takes a fit without a part
        of the sentences, or some where these are few; see `fit_temperature`. "auto" does so for models with a margin,
        such as the default.
    outside : float or "auto", default="auto"
        Added to the score of the label O where labels are predicted, and not in probabilities. "auto" finds what has
        the best F1 of spans on the sentences that are held out for the temperature (0 without them), so that fewer
        spans are missed; see `maxendnet.text.fitting.outside_bias`.
    inner : {"auto", "BIOES"} or None, default="auto"
        For BIO tags: learn them as BIOES, so that last and single tokens of spans have labels of their own inside the
        model; predictions are BIO tags. "auto" compares the two on the sentences that are held out for the temperature,
        for the default model where there are at most 16 labels in BIOES. See `maxendnet.text.fitting.internal_scheme`.
    cv : int, default=3
        Folds of the search and of the calibration.
    patience : int or None, default=None
        End the fit after so many looks in a row without a better score on the validation sentences.
    pairs : {"all", "seen", "auto"} or None, default=None
        Which pairs of a feature and a label have weights, see `maxendnet.Chain`. "auto" is all where these are at most
        five million of at most 16 labels, and else those that occur. None is "auto" for the default model, and leaves
        others as they are.
    max_weights : int or None, default=None
        For a small model: after the fit, keep so many weights of features, those that count most on the training
        sentences (`maxendnet.estimators.pruned` has the rule), and drop features without any. It needs weights for seen
        pairs, which "auto" then is. The certificate is that of the fit before: ``gap_`` is NaN.
    n_jobs : int or None, default=None
        Threads of the default model, and folds of the search at a time.
    random_state : int, default=0
    verbose : int, default=0
        1 shows a progress line.
    repair : bool, default=False
        Correct misspelt tags, such as ``0`` for ``O``, ``b-PER`` or ``B_PER`` for ``B-PER``, and write misplaced ones
        as the scheme asks for, with the same spans. Otherwise misspelt tags are an error, and misplaced ones a warning.

    Attributes
    ----------
    features_ : TokenFeatures
    estimator_ : the fitted estimator
    scheme_ : str
    temperature_, outside_ : float
    inner_ : InnerTags or None
    search_ : PathSearchCV or None
    validation_ : list of Look
        Pass, seconds, objective, gap and score of every look; empty without validation sentences.
    classes_ : ndarray of shape (n_labels,)
        Labels of the model.

    Examples
    --------
    >>> sentences = [["Ada", "met", "Bob"], ["Bob", "slept"]]
    >>> tagger = Tagger().fit(sentences, [["B-PER", "O", "B-PER"], ["B-PER", "O"]])
    >>> tagger.predict([["Ada", "slept"]])
    [['B-PER', 'O']]
    >>> [(span.start, span.end, span.type) for span in tagger.predict_spans([["Ada", "slept"]])[0]]
    [(0, 1, 'PER')]
    """

    def __init__(
        self,
        features: TokenFeatures | str = "auto",
        model: MarkovNetwork | dict[str, Any] | None = None,
        scheme: str = "auto",
        search: bool = False,
        calibrate: bool | str = "auto",
        outside: float | str = "auto",
        inner: str | None = "auto",
        cv: int = 3,
        patience: int | None = None,
        pairs: str | None = None,
        max_weights: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        repair: bool = False,
    ) -> None:
        self.features = features
        self.model = model
        self.scheme = scheme
        self.search = search
        self.calibrate = calibrate
        self.outside = outside
        self.inner = inner
        self.cv = cv
        self.patience = patience
        self.pairs = pairs
        self.max_weights = max_weights
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.repair = repair

    # ---- learning ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, validation: Any = None) -> Tagger:
        """Learn from labelled sentences.

        Parameters
        ----------
        X : Columns, or list of sentences
            A sentence is a list of tokens, or of tuples with a token and its other columns.
        y : list of lists of labels
        validation : pair (X, y), optional
            Sentences that are not learned from. They are predicted at every look at the gap: ``validation_`` has the
            scores, with ``verbose`` a line shows them, and with ``patience`` the fit ends when they no longer rise.
        """
        if self.calibrate not in (True, False, "auto"):
            raise TextError(f"calibrate must be True, False or 'auto', got {self.calibrate!r}.")
        if not (self.outside == "auto" or (is_number(self.outside) and np.isfinite(self.outside))):
            raise TextError(f"outside must be a number or 'auto', got {self.outside!r}.")
        if not (self._is_default or isinstance(self.model, MarkovNetwork)):
            raise TextError(
                f"model must be None, a dict of settings or one of maxendnet's estimators, such as M3N(), got "
                f"{self.model!r}."
            )
        if self.inner not in ("auto", "BIOES", None):
            raise TextError(f"inner must be 'auto', 'BIOES' or None, got {self.inner!r}.")
        if self.pairs not in ("all", "seen", "auto", None):
            raise TextError(f"pairs must be 'all', 'seen', 'auto' or None, got {self.pairs!r}.")
        whole = isinstance(self.max_weights, (int, np.integer)) and not isinstance(self.max_weights, bool)
        if self.max_weights is not None and not (whole and self.max_weights >= 1):
            raise TextError(f"max_weights must be a whole number of at least 1, or None, got {self.max_weights!r}.")
        features = TokenFeatures(self.features) if isinstance(self.features, str) else clone(self.features)
        columns = Columns.of(X)
        labels, scheme = read_tags(y, self.scheme, self.repair, columns.place)
        examples = features.fit_transform(columns, labels)
        note = problems_note(labels, scheme, columns.place)
        if note:
            warnings.warn(f"{note}; repair=True (--repair) rewrites them.", stacklevel=2)
        model = self._model(features, examples)
        search = None
        if self.search:
            from sklearn.model_selection import KFold

            # files are often sorted by their sources, so that folds in order would be of other kinds of text
            folds = KFold(self.cv, shuffle=True, random_state=0)
            search = PathSearchCV(
                model,
                scoring=partial(span_scorer, scheme=scheme),
                cv=folds,
                refit=False,
                n_jobs=self.n_jobs,
                verbose=self.verbose,
            ).fit(examples)
            model.set_params(**search.best_params_)
        loss = model.compose()[1]
        margin = not isinstance(loss, Log) or loss.margin > 0
        wanted = (margin and len(examples) >= self.cv) if self.calibrate == "auto" else self.calibrate
        tried = [Tried(examples, model, None)]
        if self._tries_inner(scheme, labels, features, bool(wanted)):
            inner = as_inner(examples, labels)
            other = self._model(features, inner).set_params(**(search.best_params_ if search is not None else {}))
            tried.append(Tried(inner, other, bioes()))
        if self.inner == "BIOES":
            del tried[:-1]
        found = [self._calibrated(one, scheme) if wanted else Calibrated(1.0, Outside(0.0, np.nan)) for one in tried]
        best = max(range(len(tried)), key=lambda k: found[k].outside.f1) if len(tried) > 1 else 0
        (examples, model, rules), (temperature, (outside, _)) = tried[best], found[best]
        if self.outside != "auto":
            outside = float(self.outside)
        watch = self._watch(tried[best], features, validation, scheme, outside)
        quiet = 0 if watch is not None else self.verbose
        estimator = clone(model).set_params(verbose=quiet, callback=watch or model.callback).fit(examples)
        estimator.set_params(callback=model.callback)
        if self.max_weights is not None:
            estimator.set_model(pruned(estimator.model_, examples, self.max_weights))
            features = TokenFeatures.from_plain(features.to_plain(), estimator.model_.feature_names)
        # nothing is stored before this line: a fit that fails or is interrupted leaves the last one whole
        self.features_, self.estimator_, self.scheme_, self.search_ = features, estimator, scheme, search
        self.temperature_, self.outside_ = temperature, outside
        self.inner_ = None if rules is None else InnerTags.of(estimator.classes_)
        self.validation_ = watch.looks if watch is not None else []
        self.classes_ = estimator.classes_
        return self

    def partial_fit(self, X: Any, y: Any) -> Tagger:
        """Learn from more sentences, without those of before; see `maxendnet.L2CRF.partial_fit`.

        New features get weights. Labels are those of the first fit; so are the scheme, the temperature and what is
        added to the label O. The first call is `fit`.

        Examples
        --------
        >>> tagger = Tagger().fit([["Ada", "met", "Bob"]], [["B-PER", "O", "B-PER"]])
        >>> tagger.partial_fit([["Cleo", "slept"]], [["B-PER", "O"]]).predict([["Cleo", "met", "Ada"]])
        [['B-PER', 'O', 'B-PER']]
        """
        if "estimator_" not in vars(self):
            return self.fit(X, y)
        plain, estimator = self.features_.to_plain(), copy.copy(self.estimator_)
        features = TokenFeatures.from_plain(plain, None if self.features_.feature_names_ is None else ())
        columns = Columns.of(X)
        labels, _ = read_tags(y, self.scheme_, self.repair, columns.place)
        examples = features.fit_transform(columns, labels)
        estimator.partial_fit(examples if self.inner_ is None else as_inner(examples, labels))
        grown = features.to_plain() | {"merged": plain["merged"] or features.to_plain()["merged"]}
        self.features_ = TokenFeatures.from_plain(grown, estimator.model_.feature_names)
        self.estimator_ = estimator
        return self

    @property
    def _is_default(self) -> bool:
        return self.model is None or isinstance(self.model, dict)

    def _tries_inner(self, scheme: str, labels: list[list[Any]], features: TokenFeatures, held_out: bool) -> bool:
        """Whether BIO tags are learned as BIOES, or compared with that."""
        if self.inner is None or scheme != "IOB2" or not features.template_.bigram:
            return False
        tags = {tag for row in labels for tag in row}
        if not all(isinstance(tag, str) and (tag == OUTSIDE or tag[:2] in ("B-", "I-")) for tag in tags):
            return False
        n_labels = 4 * len({tag[2:] for tag in tags - {OUTSIDE}}) + 1
        return self.inner == "BIOES" or (self._is_default and held_out and n_labels <= MOST_LABELS)

    def _calibrated(self, one: Tried, scheme: str) -> Calibrated:
        """Temperature and addition to O, with the F1 of spans that goes with them, on sentences held out."""
        folds = held_out(one.model, one.examples, self.cv, rules=one.rules)
        temperature = temperature_of(folds)
        return Calibrated(temperature, fit_outside(folds, temperature, scheme))

    def _watch(
        self, chosen: Tried, features: TokenFeatures, validation: Any, scheme: str, outside: float
    ) -> Validation | None:
        if validation is None:
            if self.patience is not None:
                raise TextError("patience needs sentences to look at: fit(X, y, validation=(X, y)).")
            return None
        columns = Columns.of(validation[0])
        y, _ = read_tags(validation[1], scheme, self.repair, columns.place)
        classes = distinct_labels(np.asarray(chosen.examples.y))
        return Validation(
            as_structure(chosen.model.structure), features.transform(columns), y, classes, scheme, self.patience,
            self.verbose, outside, chosen.rules,
        )  # fmt: skip

    def _model(self, features: TokenFeatures, examples: Examples) -> Any:
        if self._is_default:
            model: Any = default_model(features.template_.bigram, self.n_jobs, self.random_state)
            model.set_params(**(self.model or {}))
        else:
            model = clone(self.model)
        pairs = "auto" if self.pairs is None and self._is_default else self.pairs
        if pairs == "auto":
            n_labels = len(distinct_labels(np.asarray(examples.y)))
            few = n_labels <= MOST_LABELS and examples.n_features * n_labels <= MOST_PAIRS
            pairs = "all" if few and self.max_weights is None else "seen"
        if pairs is not None:
            model.set_params(structure=clone(as_structure(model.structure)).set_params(pairs=pairs))
        return model

    # ---- prediction --------------------------------------------------------------------------------------------------

    def examples(self, X: Any, y: Any = None) -> Examples:
        """Sentences as the estimator sees them."""
        if "estimator_" not in vars(self):
            check_is_fitted(self, "estimator_")
        return self.features_.transform(X, y)

    def predict(self, X: Any) -> Any:
        """The labels of every sentence."""
        if "estimator_" not in vars(self):
            check_is_fitted(self, "estimator_")
        columns, model = Columns.of(X), self.estimator_.fitted_model()
        names, rules = self.inner_ or (self.classes_, None)
        bound = model.bind_entries(*self.features_.entries(columns), columns.offsets, rules)
        added = added_scores(self.classes_, self.outside_)
        labels = decode_with(bound, model.weights, added, self.estimator_._backend())
        return Labellings.split(names[labels], columns.offsets)

    def predict_spans(self, X: Any, strict: bool = False) -> list[list[ScoredSpan]]:
        """The spans of every sentence, each with its probability; see `maxendnet.text.predict_spans`."""
        model = self._fitted()
        scheme = self.scheme_ if self.inner_ is None else "BIOES"
        return confidence.predict_spans(
            model, self.examples(X), scheme, self.temperature_, strict, self.outside_, self.inner_
        )

    def predict_top(self, X: Any, k: int = 5) -> list[list[Ranked]]:
        """The k best labellings of every sentence with their probabilities; the first is that of `predict`.

        The order has `outside_` in it, and probabilities do not: they need not descend.
        """
        return confidence.predict_ranked(
            self._fitted(), self.examples(X), k, self.temperature_, self.outside_, self.inner_
        )

    def predict_confidence(self, X: Any) -> list[Confidence]:
        """The labels of every sentence, with probabilities of each and of all together."""
        return confidence.predict_confidence(
            self._fitted(), self.examples(X), self.temperature_, self.outside_, self.inner_
        )

    def score(self, X: Any, y: Any) -> float:
        """F1 of spans; the share of right labels where they have no letters B, I, ..."""
        self._fitted()
        columns = Columns.of(X)
        truth, _ = read_tags(y, self.scheme_, self.repair, columns.place)
        return span_scorer(self, columns, truth, self.scheme_)

    def explain(self, sentence: Any = None, top: int = 10) -> Any:
        """Why: the weights of the model, or those that decided the labels of one sentence.

        Parameters
        ----------
        sentence : list of tokens or rows, optional
            None explains the model.
        top : int, default=10
            Features shown for each label or token.

        Returns
        -------
        ModelExplanation or SentenceExplanation
            With ``print``, ``as_dict``, ``to_json``, ``to_frame``, ``to_html``; it displays itself in a notebook.
        """
        from maxendnet.text.results.explain import explain_model, explain_sentence

        if sentence is None:
            return explain_model(self._fitted(), top)
        columns = Columns.of([sentence])
        words = columns.column(0)[0]
        return explain_sentence(
            self._fitted(),
            self.examples(columns),
            words,
            top,
            self.temperature_,
            self.outside_,
            None if self.inner_ is None else self.inner_.rules,
        )

    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tagger to a file, whole or not at all; `Tagger.load` reads it, ``maxendnet tag`` uses it."""
        check_is_fitted(self, "estimator_")
        application = {
            "kind": "text",
            "version": VERSION,
            "features": self.features_.to_plain(),
            "scheme": self.scheme_,
            "temperature": self.temperature_,
            "outside": self.outside_,
            "inner": None if self.inner_ is None else "BIOES",
        }
        save(self.estimator_, path, application)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tagger:
        """Read a tagger that `save` wrote.

        Raises
        ------
        ModelFileError
            It is no tagger, or damaged.
        """
        content = read(path)
        found = content.header.get("application")
        if not isinstance(found, dict) or found.get("kind") != "text" or found.get("version") != VERSION:
            raise ModelFileError(
                f"{os.fspath(path)} is a model, but no tagger that this version reads; Tagger.save and maxendnet train "
                f"write one."
            )
        estimator = load(path, content)
        try:
            names = estimator.model_.feature_names
            features = TokenFeatures.from_plain(found["features"], names)
            if features.n_hashed is not None and features.n_hashed != estimator.n_features_in_:
                raise TextError(f"{features.n_hashed} hashed features, and weights for {estimator.n_features_in_}")
            if names is not None:
                features.feature_names_ = names
            temperature = float(found["temperature"])
            if not (np.isfinite(temperature) and temperature > 0):
                raise TextError(f"the temperature {temperature}")
            outside = float(found.get("outside", 0.0))  # files of before do not have it
            if not np.isfinite(outside):
                raise TextError(f"{outside} for the label O")
            tagger = cls(clone(features), clone(estimator))
            tagger.features_, tagger.estimator_, tagger.temperature_ = features, estimator, temperature
            inner = found.get("inner")
            if inner not in (None, "BIOES"):
                raise TextError(f"tags learned as {inner!r}")
            tagger.outside_, tagger.inner_ = outside, None if inner is None else InnerTags.of(estimator.classes_)
            tagger.scheme_, tagger.search_, tagger.classes_ = scheme_of(found["scheme"]), None, estimator.classes_
            tagger.validation_ = []
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ModelFileError(
                f"{os.fspath(path)}: what it says about text is damaged ({what}); make it again with maxendnet train."
            ) from error
        return tagger
