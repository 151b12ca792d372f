"""Probabilities of predicted labels, spans and sequences, and the k best labellings.

All follow from ``p(y|x) = exp(score(x, y) / T) / Z``. T is 1 for the log loss. For a margin model, whose scores are not
log-probabilities, T is a temperature fitted to held-out examples (`text.fitting.calibration`). The outside bias
(`text.fitting.outside_bias`) affects which labellings are best, but not their probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.labels import read_labels
from maxendnet.data.truth import possible_labels
from maxendnet.data.unknown import UNKNOWN
from maxendnet.estimators.fitted import Labellings
from maxendnet.structures import Chain, Independent
from maxendnet.structures.base import decode
from maxendnet.text.fitting.internal_scheme import InternalTags
from maxendnet.text.fitting.outside_bias import added_scores, with_added
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import OUTSIDE, Span, SpanRules, find_spans, scheme_of, span_rules
from maxendnet.text.reading.tag_schemes import read_tags

FloatArray = NDArray[np.float64]

MAX_PAIR_MARGINALS = 1 << 22
"""Maximum number of label-pair marginals in memory at a time (32 MB)."""


class ScoredSpan(NamedTuple):
    """A predicted span and its probability."""

    start: int
    end: int
    """One past the last token."""
    type: str
    probability: float


class Confidence(NamedTuple):
    """A labelling and its probabilities."""

    labels: list[Any]
    tokens: FloatArray
    """(n_tokens,): probability of the label of each token."""
    sequence: float
    """Probability of all labels together."""


class Ranked(NamedTuple):
    """One of the k best labellings."""

    probability: float
    labels: list[Any]


def scaled_weights(model: Any, temperature: float) -> FloatArray:
    """Return the weights of a model divided by the temperature.

    The array is cached for repeated calls.
    """
    if not (isinstance(temperature, (int, float, np.number)) and np.isfinite(temperature) and temperature > 0):
        raise TextError(f"temperature must be a positive number, got {temperature!r}.")
    weights: FloatArray = model.model_.weights
    if temperature == 1.0:
        return weights
    scaled: FloatArray
    previous, previous_temperature, scaled = vars(model).get("_scaled", (None, None, weights))
    if previous is not weights or previous_temperature != temperature:
        scaled = weights / temperature
        scaled.flags.writeable = False  # kernels cache the conversion of read-only weights
        model._scaled = (weights, temperature, scaled)
    return scaled


def bind_tokens(
    model: Any, X: Any, inner: InternalTags | None = None, given: Any = None, rules: Any = None
) -> tuple[Examples, Any]:
    """Return examples and the structure bound to them, limited to given labels and rules.

    Raise `TextError` if the structure has one label for all tokens.
    """
    examples, bound = model._prepare(X, given, inner.rules if rules is None and inner is not None else rules)
    if model.model_.whole:
        raise TextError(
            f"{model.model_.structure!r} assigns one label to all tokens, so there are no token labels or spans."
        )
    return examples, bound


def log_scores(model: Any, examples: Examples, bound: Any, w: FloatArray, labels: NDArray[Any]) -> FloatArray:
    """Return the score of each labelling.

    With hidden states, it is the log-sum over all states of the labelling.
    """
    if hasattr(bound, "score"):
        scores: FloatArray = bound.score(w, labels)
        return scores
    given = Labellings.split(model.classes_[labels], examples.offsets)
    sums: FloatArray = model.model_.bind(examples, given).logsum(w)[0]
    return sums


def predict_confidence(
    model: Any, X: Any, temperature: float = 1.0, outside: float = 0.0, inner: InternalTags | None = None,
    given: Any = None, rules: Any = None,
) -> list[Confidence]:  # fmt: skip
    """Predict labellings with probabilities of each label and the whole labelling.

    Parameters
    ----------
    model : a fitted estimator
    X : as for ``model.predict``
    temperature : float, default=1.0
        Divisor of the scores; see `fit_temperature`.
    outside : float, default=0.0
        Number added to the score of the label O in the search for the best labelling, but not in probabilities; see
        `maxendnet.text.fitting.outside_bias`.
    inner : InternalTags, optional
        Conversion of the labels of the model to the user's tags, if they differ.
    given, rules : optional
        Known labels of the model and rules, as for ``model.predict``. Probabilities are conditional on them.

    Returns
    -------
    list of Confidence

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=0.1).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> (prediction,) = predict_confidence(model, [[["the"], ["dog"]]])
    >>> prediction.labels, bool(prediction.sequence <= min(prediction.tokens))
    (['D', 'N'], True)
    """
    examples, bound = bind_tokens(model, X, inner, given, rules)
    w = scaled_weights(model, temperature)
    labels = decode(bound, w, model._backend(), added_scores(model.classes_, outside / temperature))
    log_partition, marginals = bound.logsum(w, backend=model._backend())
    if inner is None:
        names, tokens = model.classes_, marginals.node[np.arange(len(labels)), labels]
    else:
        names, tokens = inner.names, inner.probabilities(marginals.node, labels)
    whole = np.exp(np.minimum(log_scores(model, examples, bound, w, labels) - log_partition, 0.0))
    labellings = Labellings.split(names[labels], examples.offsets)
    return list(map(Confidence, labellings, _by_example(examples, tokens), whole.tolist()))


def predict_ranked(
    model: Any, X: Any, k: int = 5, temperature: float = 1.0, outside: float = 0.0, inner: InternalTags | None = None,
    given: Any = None, rules: Any = None,
) -> list[list[Ranked]]:  # fmt: skip
    """Predict the k best labellings of each example, best first.

    The first labelling is that of `predict_confidence`.

    Parameters
    ----------
    model : a fitted estimator
    X : as for ``model.predict``
    k : int, default=5
    temperature : float, default=1.0
    outside, inner, given, rules : as for `predict_confidence`
        The ranking includes ``outside``, but the probabilities do not, so they need not decrease.

    Returns
    -------
    list of lists of Ranked

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=0.1).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> (best,) = predict_ranked(model, [[["dog"]]], k=2)
    >>> [ranked.labels for ranked in best], round(sum(ranked.probability for ranked in best), 6)
    ([['N'], ['D']], 1.0)
    """
    examples, bound = bind_tokens(model, X, inner, given, rules)
    log_partition, _ = bound.logsum(scaled_weights(model, temperature), backend=model._backend())
    added = added_scores(model.classes_, outside)
    shown = list if inner is None else inner.as_bio

    def ranked(score: float, labels: list[Any], total: float) -> Ranked:
        unbiased = score - outside * labels.count(OUTSIDE)
        return Ranked(float(np.exp(min(unbiased / temperature - total, 0.0))), shown(labels))

    best = model._top(examples, *with_added(bound, model.model_.weights, added), k)
    return [
        [ranked(score, labels, total) for score, labels in pairs] for pairs, total in zip(best, log_partition.tolist())
    ]


def predict_spans(
    model: Any,
    X: Any,
    scheme: str = "auto",
    temperature: float = 1.0,
    strict: bool = False,
    outside: float = 0.0,
    inner: InternalTags | None = None,
    given: Any = None,
    rules: Any = None,
) -> list[list[ScoredSpan]]:
    """Predict the spans of each example, with exact probabilities.

    The probability of a span is the total probability of all labellings that contain a span with the same first token,
    last token and type.

    Parameters
    ----------
    model : a fitted estimator
        For structures other than a chain with weights of label pairs, the probability of a span is that its tokens have
        exactly the predicted labels and its neighbours do not continue it.
    X : as for ``model.predict``
    scheme : str, default="auto"
        Tag scheme; see `maxendnet.text.reading.spans`. "auto" detects it from the labels of the model.
    temperature : float, default=1.0
        Divisor of the scores; see `fit_temperature`.
    strict : bool, default=False
        Whether to leave out spans that violate the scheme.
    outside, inner, given, rules : as for `predict_confidence`

    Returns
    -------
    list of lists of ScoredSpan

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> X = [[["Ada"], ["Lovelace"], ["wrote"]], [["We"], ["met"], ["Ada"]]]
    >>> model = L2CRF(lam=0.1).fit(X, [["B-PER", "I-PER", "O"], ["O", "O", "B-PER"]])
    >>> ((span,),) = predict_spans(model, [[["Ada"], ["Lovelace"]]])
    >>> span.start, span.end, span.type, bool(0.5 < span.probability < 1)
    (0, 2, 'PER', True)
    """
    examples, bound = bind_tokens(model, X, inner, given, rules)
    w = scaled_weights(model, temperature)
    classes = model.classes_.tolist()
    chosen = scheme_of(scheme) if scheme != "auto" else scheme_of_labels(classes)
    pattern = span_rules(classes, chosen)
    labels = decode(bound, w, model._backend(), added_scores(model.classes_, outside / temperature))
    spans = [find_spans(tags, chosen, strict) for tags in Labellings.split(model.classes_[labels], examples.offsets)]
    if is_chain(model, bound):
        probabilities = list(_along_chains(bound, w, pattern, spans))
    else:
        probabilities = _clamped(model, _with_given(model, examples, given), w, pattern, labels, spans, rules)
    return [
        [ScoredSpan(*span, min(probability, 1.0)) for span, probability in zip(*sentence)]
        for sentence in zip(spans, probabilities)
    ]


def scheme_of_labels(labels: Sequence[Any]) -> str:
    """Detect the tag scheme from the labels of a model.

    IOB1 and IOB2 cannot be distinguished from the labels alone.
    """
    return read_tags([[label] for label in labels], place=lambda *_: "the labels of the model")[1]


def is_chain(model: Any, bound: Any) -> bool:
    """Whether the labels of each example are a Markov chain."""
    return type(model.model_.structure) in (Chain, Independent) and bound.capabilities.forest


def _by_example(examples: Examples, values: NDArray[Any]) -> list[NDArray[Any]]:
    return [values[first:last] for first, last in pairwise(examples.offsets.tolist())]


def _along_chains(
    bound: Any, w: FloatArray, rules: SpanRules, spans: Sequence[Sequence[Span]]
) -> Iterator[list[float]]:
    """Yield the span probabilities of each example, from pairwise marginals."""
    offsets = bound.offsets
    n_tokens = max(1, MAX_PAIR_MARGINALS // bound.n_labels**2)
    first = 0
    while first < len(spans):
        last = int(np.searchsorted(offsets, offsets[first] + n_tokens, side="right")) - 1
        last = min(max(last, first + 1), len(spans))
        part = bound.take(first, last)
        joined = bool((part.batch.parent >= 0).any())
        marginals = part.logsum(w, cliques=joined)[1]
        for i in range(first, last):
            begin, end = (int(offsets[k] - offsets[first]) for k in (i, i + 1))
            node = marginals.node[begin:end]
            pairs = None if marginals.edge is None else marginals.edge[begin:end]
            yield [span_probability(node, pairs, rules, span) for span in spans[i]]
        first = last


def span_probability(node: FloatArray, pairs: FloatArray | None, rules: SpanRules, span: Span) -> float:
    """Return the probability that a sentence has this span.

    It is a product of transition matrices along the span, restricted to labels that continue it. The first and the last
    transition, from and to its neighbours, are restricted to labels that do not continue it.

    Parameters
    ----------
    node : ndarray of shape (n_tokens, n_labels)
        Label marginals.
    pairs : ndarray of shape (n_tokens, n_labels, n_labels), or None
        Joint marginals of the labels of the previous token (rows) and of the token (columns), or None if labels are
        independent.
    rules : SpanRules
    span : Span
    """
    n_tokens = len(node)
    of_type = np.array([kind == span.type for kind in rules.types])

    def given(t: int) -> FloatArray:
        """P(label of t | label of t - 1)."""
        if pairs is None:
            return np.broadcast_to(node[t], (node.shape[1], node.shape[1]))
        before = node[t - 1][:, None]
        values: FloatArray = np.divide(pairs[t], before, out=np.zeros_like(pairs[t]), where=before > 0)
        return values

    if span.start == 0:
        reached = node[0] * of_type
    else:
        reached = (node[span.start - 1] @ (given(span.start) * ~rules.joined)) * of_type
    for t in range(span.start + 1, span.end):
        reached = reached @ (given(t) * rules.joined)
    if span.end < n_tokens:
        reached = reached @ (given(span.end) * ~rules.joined)
    return float(reached.sum())


def _clamped(
    model: Any,
    examples: Examples,
    w: FloatArray,
    rules: SpanRules,
    labels: NDArray[Any],
    spans: Sequence[Sequence[Span]],
    limits: Any = None,
) -> list[list[float]]:
    """Return the probability of each span, for any structure, with the rules ``limits``.

    It is the partition function with the labels of the span fixed, divided by the unrestricted partition function.
    """
    classes = tuple(model.classes_.tolist())
    probabilities = []
    for i, (sentence_spans, codes) in enumerate(zip(spans, _by_example(examples, labels))):
        example = replace(examples[i], y=None)
        free = _allowed_classes(example, classes)
        total = _log_partition(model, example, w, limits) if sentence_spans else 0.0
        values = []
        for start, end, _ in sentence_spans:
            allowed = free.copy()
            allowed[start:end] = np.arange(len(classes)) == codes[start:end, None]
            # neighbours may have any label that does not continue the span, such as the predicted one
            if start > 0:
                allowed[start - 1] &= ~rules.joined[:, codes[start]]
            if end < len(codes):
                allowed[end] &= ~rules.joined[codes[end - 1]]
            clamped = replace(example, allowed=allowed, labels=classes)
            values.append(float(np.exp(_log_partition(model, clamped, w, limits) - total)))
        probabilities.append(values)
    return probabilities


def _allowed_classes(example: Examples, classes: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Return the mask of the labels that each token may have, shape (n_tokens, n_labels)."""
    if example.allowed is None or example.labels is None:
        return np.ones((example.n_nodes, len(classes)), dtype=bool)
    columns = dict(zip(example.labels, example.allowed.T))
    never = np.zeros(example.n_nodes, dtype=bool)
    return np.stack([columns.get(label, never) for label in classes], axis=1)


def _with_given(model: Any, examples: Examples, given: Any) -> Examples:
    """Return the examples with given labels as allowed labels."""
    if given is None:
        return examples
    classes = tuple(model.classes_.tolist())
    allowed = _allowed_classes(examples, classes)
    for t, label in enumerate(read_labels(given, examples.offsets, flat=False, name="given").tolist()):
        if label is not UNKNOWN:
            allowed[t] &= np.isin(np.arange(len(classes)), [classes.index(name) for name in possible_labels([label])])
    return replace(examples, allowed=allowed, labels=classes)


def _log_partition(model: Any, example: Examples, w: FloatArray, rules: Any = None) -> float:
    return float(model.model_.bind(example, rules=rules).logsum(w)[0][0])
