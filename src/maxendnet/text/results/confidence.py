"""How sure a prediction is: probabilities of tokens, of spans, of whole sequences, and of the n best labellings.

All follow from ``p(y|x) = exp(score(x, y) / T) / Z``. For a model of the log loss T is 1. For a margin model, which has
scores and no probabilities, T is a temperature that was fitted to held-out examples (`text.fitting.calibration`).
What a tagger adds to the score of the label O (`text.fitting.outside_bias`) decides which labellings are best, and does
not change their probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.structures import Chain, Independent
from maxendnet.text.fitting.internal_scheme import InnerTags
from maxendnet.text.fitting.outside_bias import added_scores, decode_with, with_added
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import OUTSIDE, Span, SpanRules, find_spans, scheme_of, span_rules
from maxendnet.text.reading.tag_schemes import read_tags

FloatArray = NDArray[np.float64]

MOST_NUMBERS = 1 << 22
"""Marginals of pairs that are held at a time: 32 MB."""


class ScoredSpan(NamedTuple):
    """A span that was found, and its probability."""

    start: int
    end: int
    """The token behind the last one."""
    type: str
    probability: float


class Confidence(NamedTuple):
    """A labelling and how sure it is."""

    labels: list[Any]
    tokens: FloatArray
    """(n_tokens,): probability of the label of every token."""
    sequence: float
    """Probability of all labels together."""


class Ranked(NamedTuple):
    """One of the n best labellings."""

    probability: float
    labels: list[Any]


def scaled_weights(model: Any, temperature: float) -> FloatArray:
    """The weights of a model divided by the temperature; the same array for the same temperature."""
    if not (isinstance(temperature, (int, float, np.number)) and np.isfinite(temperature) and temperature > 0):
        raise TextError(f"temperature must be a positive number, got {temperature!r}.")
    weights: FloatArray = model.model_.weights
    if temperature == 1.0:
        return weights
    kept = vars(model).get("_scaled")
    if kept is None or kept[0] is not weights or kept[1] != temperature:
        scaled = weights / temperature
        scaled.flags.writeable = False  # so that it is laid out for the kernels once
        kept = (weights, temperature, scaled)
        model._scaled = kept
    found: FloatArray = kept[2]
    return found


def prepared(model: Any, X: Any, inner: InnerTags | None = None) -> tuple[Examples, Any]:
    """Examples and the structure bound to them, where every token has a label of its own."""
    examples, bound = model._prepare(X, rules=None if inner is None else inner.rules)
    if model.model_.whole:
        raise TextError(
            f"{model.model_.structure!r} gives one label to all tokens, and so no labels or spans of tokens."
        )
    return examples, bound


def log_scores(model: Any, examples: Examples, bound: Any, w: FloatArray, labels: NDArray) -> FloatArray:
    """Logarithm of what the log-partition has for these labels: their score, or a sum over hidden states."""
    if hasattr(bound, "score"):
        found: FloatArray = bound.score(w, labels)
        return found
    given = [part.tolist() for part in _pieces(examples, model.classes_[labels])]
    summed: FloatArray = model.model_.bind(examples, given).logsum(w)[0]
    return summed


def predict_confidence(
    model: Any, X: Any, temperature: float = 1.0, outside: float = 0.0, inner: InnerTags | None = None
) -> list[Confidence]:
    """The best labelling of every example, with probabilities of its tokens and of the whole.

    Parameters
    ----------
    model : a fitted estimator
    X : as for ``model.predict``
    temperature : float, default=1.0
    outside : float, default=0.0
        Added to the score of the label O where the best labelling is searched, and not in probabilities; see
        `maxendnet.text.fitting.outside_bias`.
    inner : InnerTags, optional
        How labels are shown that are not those of the sentences.

    Returns
    -------
    list of Confidence

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=0.1).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> (found,) = predict_confidence(model, [[["the"], ["dog"]]])
    >>> found.labels, bool(found.sequence <= min(found.tokens))
    (['D', 'N'], True)
    """
    examples, bound = prepared(model, X, inner)
    w = scaled_weights(model, temperature)
    labels = decode_with(bound, w, added_scores(model.classes_, outside / temperature), model._backend())
    log_partition, marginals = bound.logsum(w, backend=model._backend())
    if inner is None:
        names, tokens = model.classes_, marginals.node[np.arange(len(labels)), labels]
    else:
        names, tokens = inner.names, inner.probabilities(marginals.node, labels)
    whole = np.exp(np.minimum(log_scores(model, examples, bound, w, labels) - log_partition, 0.0))
    parts = zip(_pieces(examples, names[labels]), _pieces(examples, tokens), whole.tolist())
    return [Confidence(some.tolist(), probabilities, sequence) for some, probabilities, sequence in parts]


def predict_ranked(
    model: Any, X: Any, k: int = 5, temperature: float = 1.0, outside: float = 0.0, inner: InnerTags | None = None
) -> list[list[Ranked]]:
    """The k best labellings of every example, best first: the first is that of `predict_confidence`.

    Parameters
    ----------
    model : a fitted estimator
    X : as for ``model.predict``
    k : int, default=5
    temperature : float, default=1.0
    outside, inner : as for `predict_confidence`
        As there, probabilities are without ``outside``. So they need not descend where it is not 0.

    Returns
    -------
    list of lists of Ranked

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=0.1).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> (found,) = predict_ranked(model, [[["dog"]]], k=2)
    >>> [ranked.labels for ranked in found], round(sum(ranked.probability for ranked in found), 6)
    ([['N'], ['D']], 1.0)
    """
    examples, bound = prepared(model, X, inner)
    log_partition, _ = bound.logsum(scaled_weights(model, temperature), backend=model._backend())
    added = added_scores(model.classes_, outside)
    shown = list if inner is None else inner.shown

    def ranked(score: float, labels: list[Any], total: float) -> Ranked:
        without = score - outside * labels.count(OUTSIDE)
        return Ranked(float(np.exp(min(without / temperature - total, 0.0))), shown(labels))

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
    inner: InnerTags | None = None,
) -> list[list[ScoredSpan]]:
    """The spans of the best labelling of every example, each with its exact probability.

    The probability of a span is that of all labellings which have a span of this type from this token to that one,
    whatever else they have. Along a chain these are sums of products of the marginals of pairs of neighbours, the
    neighbours of the span included, which must not continue it.

    Parameters
    ----------
    model : a fitted estimator
        With a chain; for structures with more than pairs of labels, the probability is that the tokens have just the
        labels predicted and their neighbours do not continue them.
    X : as for ``model.predict``
    scheme : str, default="auto"
        See `maxendnet.text.reading.spans`; "auto" goes by the labels of the model.
    temperature : float, default=1.0
        By which scores are divided; see `maxendnet.text.fitting.calibration`.
    strict : bool, default=False
        Leave out spans that break the scheme.
    outside, inner : as for `predict_confidence`

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
    examples, bound = prepared(model, X, inner)
    w = scaled_weights(model, temperature)
    classes = model.classes_.tolist()
    chosen = scheme_of(scheme) if scheme != "auto" else scheme_of_labels(classes)
    rules = span_rules(classes, chosen)
    labels = decode_with(bound, w, added_scores(model.classes_, outside / temperature), model._backend())
    spans = [find_spans(part.tolist(), chosen, strict) for part in _pieces(examples, model.classes_[labels])]
    if is_chain(model, bound):
        probabilities = list(_along_chains(bound, w, rules, spans))
    else:
        probabilities = _clamped(model, examples, w, rules, labels, spans)
    return [
        [ScoredSpan(*span, min(probability, 1.0)) for span, probability in zip(some, found)]
        for some, found in zip(spans, probabilities)
    ]


def scheme_of_labels(labels: Sequence[Any]) -> str:
    """The scheme of the labels of a model, by their letters: between IOB1 and IOB2 these do not decide."""
    return read_tags([[label] for label in labels], place=lambda *_: "the labels of the model")[1]


def is_chain(model: Any, bound: Any) -> bool:
    """Whether labels are a Markov chain along every example: given one, those before and behind are independent."""
    return type(model.model_.structure) in (Chain, Independent) and bound.capabilities.forest


def _pieces(examples: Examples, values: NDArray) -> list[NDArray]:
    return [values[a:b] for a, b in zip(examples.offsets[:-1].tolist(), examples.offsets[1:].tolist())]


def _along_chains(
    bound: Any, w: FloatArray, rules: SpanRules, spans: Sequence[Sequence[Span]]
) -> Iterator[list[float]]:
    """Probabilities from marginals of pairs, some examples at a time."""
    offsets, n_labels = bound.offsets, bound.n_labels
    at_once = max(1, MOST_NUMBERS // n_labels**2)
    first = 0
    while first < len(spans):
        last = int(np.searchsorted(offsets, offsets[first] + at_once, side="right")) - 1
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
    """Probability that a sentence has this span.

    Parameters
    ----------
    node : ndarray of shape (n_tokens, n_labels)
        Marginals of labels.
    pairs : ndarray of shape (n_tokens, n_labels, n_labels), or None
        Of a token's label, last axis, with that of the token before it; None if labels are independent.
    rules : SpanRules
    span : Span
    """
    n_tokens = len(node)
    of_type = np.array([kind == span.type for kind in rules.types]) & rules.inside

    def given(t: int) -> FloatArray:
        """P(label of t | label of t - 1)."""
        if pairs is None:
            return np.broadcast_to(node[t], (node.shape[1], node.shape[1]))
        before = node[t - 1][:, None]
        return np.divide(pairs[t], before, out=np.zeros_like(pairs[t]), where=before > 0)

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
    model: Any, examples: Examples, w: FloatArray, rules: SpanRules, labels: NDArray, spans: Sequence[Sequence[Span]]
) -> list[list[float]]:
    """For any structure: the log-partition where the labels of a span are fixed, against that where they are not."""
    classes = tuple(model.classes_.tolist())
    found: list[list[float]] = []
    for i, some in enumerate(spans):
        if not some:
            found.append([])
            continue
        one = replace(examples[i], y=None)
        own = labels[int(examples.offsets[i]) : int(examples.offsets[i + 1])]
        free = np.ones((len(own), len(classes)), dtype=bool)
        if one.allowed is not None and one.labels is not None:
            known = one.allowed
            place = {label: k for k, label in enumerate(one.labels)}
            for k, label in enumerate(classes):
                free[:, k] = known[:, place[label]] if label in place else False
        total = _log_partition(model, one, w)
        values = []
        for start, end, _ in some:
            fixed = free.copy()
            fixed[start:end] = False
            fixed[np.arange(start, end), own[start:end]] = True
            if start > 0:
                fixed[start - 1] &= ~rules.joined[:, own[start]]
            if end < len(own):
                fixed[end] &= ~rules.joined[own[end - 1]]
            possible = fixed.any(axis=1).all()
            clamped = replace(one, allowed=fixed, labels=classes)
            values.append(float(np.exp(_log_partition(model, clamped, w) - total)) if possible else 0.0)
        found.append(values)
    return found


def _log_partition(model: Any, example: Examples, w: FloatArray) -> float:
    return float(model.model_.bind(example).logsum(w)[0][0])
