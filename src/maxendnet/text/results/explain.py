"""Explanations of models and of predicted sentence labels.

An explanation can be printed, converted to JSON, a pandas DataFrame or a self-contained HTML page, and displayed in a
notebook.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.examples import as_examples
from maxendnet.structures.base import decode
from maxendnet.text.fitting.outside_bias import added_scores
from maxendnet.text.reading.errors import TextError
from maxendnet.text.results import explain_html
from maxendnet.text.results.confidence import scaled_weights
from maxendnet.utils.atomic_write import write_whole

FloatArray = NDArray[np.float64]

EXTRA_FEATURES = {"bias": ("(bias)",), "ends": ("(first token)", "(last token)")}
"""Names of the features that the options of a structure add."""


class FeatureTable(NamedTuple):
    """Full names of features, and how often they occurred in training."""

    counts: NDArray[Any] | None = None
    """(n_features,), or None if unknown."""
    sources: tuple[tuple[str, str], ...] = ()
    """Beginning of the feature names of each template line, and what the line contains."""

    def name(self, name: str) -> str:
        """Return the full name of a feature: with the cells of its template line, unless the name mentions them.

        Examples
        --------
        >>> FeatureTable(sources=(("U0=", "word, lower[+1]"),)).name("U0=the/dog")
        'U0=the/dog  [word, lower[+1]]'
        """
        lines = [(start, source) for start, source in self.sources if name.startswith(start)]
        return f"{name}  [{max(lines, key=lambda line: len(line[0]))[1]}]" if lines else name

    def n_tokens(self, number: int) -> int | None:
        """Return the number of training tokens with a feature, or None if unknown."""
        return None if self.counts is None or number >= len(self.counts) else int(self.counts[number])


class Explanation:
    """Base class of explanations, with their output formats."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return values

    def to_json(self, indent: int | None = 2) -> str:
        """Return `as_dict` as a JSON string."""
        return json.dumps(self.as_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per number of the explanation, all with the same keys."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return the `rows` as a pandas DataFrame. This needs pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        return explain_html.fragment(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return an HTML page, and write it to ``path`` if that is not None."""
        text = explain_html.page(self)
        if path is not None:
            write_whole(path, lambda file: file.write(text.encode()))
        return text


# ---- a model ---------------------------------------------------------------------------------------------------------


class Weight(NamedTuple):
    """Weight of a feature for a label."""

    feature: str
    weight: float
    spread: float | None = None
    """Standard deviation under the posterior, or None if there is no posterior."""
    relevance: float | None = None
    """``|P(w > 0) - P(w < 0)|``: 1 when the sign is certain."""
    n_tokens: int | None = None
    """Number of training tokens with the feature, or None if unknown."""


@dataclass(frozen=True)
class ModelExplanation(Explanation):
    """The largest weights of a model.

    Attributes
    ----------
    estimator, posterior : str
    n_features, n_weights, n_nonzero : int
    labels : list of str
    top : dict of str to lists of Weight
        For each label, the weights that are largest in absolute value, in decreasing order.
    transitions : list of lists of float
        Weights of pairs of neighbouring labels. Rows are left labels. Empty if there are no such weights.
    """

    estimator: str
    posterior: str
    n_features: int
    n_weights: int
    n_nonzero: int
    labels: list[str]
    top: dict[str, list[Weight]]
    transitions: list[list[float]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        top = {label: [weight._asdict() for weight in weights] for label, weights in self.top.items()}
        return {**asdict(self), "top": top}

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per weight: features first, then pairs of labels."""
        rows: list[dict[str, Any]] = [
            {"label": label, "left": None, **weight._asdict()} for label in self.top for weight in self.top[label]
        ]
        for left, row in zip(self.labels, self.transitions):
            for right, value in zip(self.labels, row):
                rows.append(
                    {
                        "label": right,
                        "left": left,
                        "feature": None,
                        "weight": value,
                        "spread": None,
                        "relevance": None,
                        "n_tokens": None,
                    }
                )
        return rows

    def __str__(self) -> str:
        lines = [
            f"{self.estimator}: {len(self.labels)} labels, {self.n_features} features, {self.n_weights} weights, "
            f"{self.n_nonzero} non-zero; posterior: {self.posterior}"
        ]
        with_spread = any(weight.spread is not None for weights in self.top.values() for weight in weights)
        for label, weights in self.top.items():
            lines += ["", label]
            for feature, weight, spread, relevance, n_tokens in weights:
                more = f"  +- {spread:.3f}  relevance {relevance:.2f}" if with_spread else ""
                lines.append(f"  {weight:+8.3f}{more}  {feature}{counted(n_tokens)}")
        if self.transitions:
            lines += ["", "Pairs of labels (rows: left label)", *_matrix(self.labels, self.transitions)]
        return "\n".join(lines)


def counted(n_tokens: int | None) -> str:
    """Return the number of training tokens with a feature, as the end of a line.

    Examples
    --------
    >>> counted(3), counted(None)
    ('  (3 tokens)', '')
    """
    return "" if n_tokens is None else f"  ({n_tokens:,} token{'s' if n_tokens != 1 else ''})"


def _matrix(labels: Sequence[str], values: Sequence[Sequence[float]]) -> list[str]:
    width = max(7, max(map(len, labels)) + 1)
    head = " " * width + "".join(f"{label:>{width}}" for label in labels)
    return [head, *(f"{a:<{width}}" + "".join(f"{v:>{width}.2f}" for v in row) for a, row in zip(labels, values))]


def explain_model(model: Any, top: int = 10, features: FeatureTable | None = None) -> ModelExplanation:
    """Explain a model by its largest weights.

    Parameters
    ----------
    model : a fitted estimator
    top : int, default=10
        Number of features for each label.
    features : FeatureTable, optional
        Names and counts of the features. None displays the names of the model.

    Returns
    -------
    ModelExplanation

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF().fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> explain_model(model).top["N"][0].feature
    'dog'
    """
    check_is_fitted(model, "model_")
    fitted = model.model_
    _refuse_states(model)
    layout, labels = fitted.layout, [str(label) for label in fitted.classes.tolist()]
    table = FeatureTable() if features is None else features
    names = feature_names(model)
    spread = relevance = None
    if model.posterior_.kind != "point":
        spread, relevance = np.sqrt(model.posterior_.variance), model.posterior_.relevance
    tables = [_by_label(layout, values) for values in (fitted.weights, spread, relevance) if values is not None]
    largest = {}
    for a, label in enumerate(labels):
        columns = [table[:, [a]].toarray().ravel() for table in tables]
        size = np.abs(columns[0])
        order = np.argsort(-size, kind="stable")[:top]
        largest[label] = [
            Weight(
                table.name(names[k]),
                float(columns[0][k]),
                None if spread is None else float(columns[1][k]),
                None if relevance is None else float(columns[2][k]),
                table.n_tokens(k),
            )
            for k in order.tolist()
            if size[k] > 0
        ]
    transitions = np.asarray(getattr(model, "transitions_", np.zeros(0)))
    return ModelExplanation(
        type(model).__name__,
        model.posterior_.kind,
        len(names),
        len(fitted.weights),
        int(np.count_nonzero(fitted.weights)),
        labels,
        largest,
        transitions.tolist() if transitions.shape == (len(labels), len(labels)) else [],
    )


def _refuse_states(model: Any) -> None:
    if model.model_.layout.n_labels != len(model.classes_):
        raise TextError(
            f"{model.model_.structure!r} has weights for hidden states instead of labels, so it cannot be explained."
        )


def feature_names(model: Any) -> list[str]:
    """Return the names of all features, including those that the structure adds."""
    known = model.feature_names_
    names = list(known) if known is not None else [f"feature {k}" for k in range(model.n_features_in_)]
    for option, extra in EXTRA_FEATURES.items():
        if getattr(model.model_.structure, option, False):
            names += extra
    return names


def _by_label(layout: Any, values: FloatArray) -> sparse.csc_array:
    """Return the node weights as a sparse matrix of shape (n_features, n_labels)."""
    return sparse.csc_array(layout.node_rows(values))


# ---- a sentence ------------------------------------------------------------------------------------------------------


class Reason(NamedTuple):
    """A contribution to the score difference between a label and its runner-up."""

    name: str
    kind: str
    """"feature", "neighbour", "outside" (outside bias) or "rest"."""
    contribution: float
    """Positive for the label, negative for the runner-up."""
    n_tokens: int | None = None
    """Number of training tokens with the feature, or None if unknown."""


@dataclass(frozen=True)
class TokenExplanation:
    """Explanation of the label of a token.

    Attributes
    ----------
    token, label : str
    probability : float
    runner_up : str or None
        The true label if it is known and differs from the label, else the most probable other label.
    runner_up_probability : float
    lead : float
        Score of the labelling minus the score with the runner-up at this token: the sum of all contributions.
    reasons : list of Reason
        Contributions in decreasing order. The last one may be the sum of the remaining ones.
    truth : str or None
        The true label, or None if it is unknown.
    """

    token: str
    label: str
    probability: float
    runner_up: str | None
    runner_up_probability: float
    lead: float
    reasons: list[Reason]
    truth: str | None = None


@dataclass(frozen=True)
class SentenceExplanation(Explanation):
    """Explanation of the labels of a sentence.

    Attributes
    ----------
    probability : float
        Probability of all labels together.
    tokens : list of TokenExplanation
    """

    probability: float
    tokens: list[TokenExplanation]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = asdict(self)
        for plain_token, token in zip(plain["tokens"], self.tokens):
            plain_token["reasons"] = [reason._asdict() for reason in token.reasons]
        return plain

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per reason of each token."""
        return [
            {"position": t, "token": token.token, "label": token.label, "probability": token.probability,
             "runner_up": token.runner_up, "truth": token.truth, "lead": token.lead, **reason._asdict()}
            for t, token in enumerate(self.tokens)
            for reason in token.reasons
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [f"All labels together: probability {self.probability:.4f}"]
        for token in self.tokens:
            against = f", not {token.runner_up} ({token.runner_up_probability:.3f})" if token.runner_up else ""
            true = "" if token.truth is None else f", true label {token.truth}"
            lines.append("")
            lines.append(
                f"{token.token}: {token.label} ({token.probability:.3f}){against}, lead {token.lead:+.3f}{true}"
            )
            lines += [
                f"  {reason.contribution:+8.3f}  {reason.name}{counted(reason.n_tokens)}" for reason in token.reasons
            ]
        return "\n".join(lines)


def explain_sentence(
    model: Any,
    X: Any,
    tokens: Sequence[str] | None = None,
    top: int = 10,
    temperature: float = 1.0,
    outside: float = 0.0,
    rules: Any = None,
    truth: Sequence[str] | None = None,
    features: FeatureTable | None = None,
) -> SentenceExplanation:
    """Explain the labels of one sentence by contributions to their scores.

    Each label is compared with its runner-up, the most probable other label, while the labels of other tokens are
    fixed. The score difference is a sum of contributions of the features of the token and of its neighbours.

    Parameters
    ----------
    model : a fitted estimator
    X : examples
        One example, as for ``model.predict``.
    tokens : list of str, optional
        Words to display. None displays token numbers.
    top : int, default=10
        Number of features for each token.
    temperature : float, default=1.0
        Divisor of the scores for probabilities; see `fit_temperature`.
    outside : float, default=0.0
        Number added to the score of the label O, but not in probabilities; see `maxendnet.text.fitting.outside_bias`.
    rules : a rule or a list of rules, optional
        Rules that labels follow, as in ``model.predict``.
    truth : list of labels, optional
        True labels. Wrong labels are then compared with the true label instead of the runner-up.
    features : FeatureTable, optional
        Names and counts of the features. None displays the names of the model.

    Returns
    -------
    SentenceExplanation

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=1.0, tol=1e-3).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> explanation = explain_sentence(model, [[["the"], ["dog"]]], ["the", "dog"])
    >>> first = explanation.tokens[0]
    >>> first.label, first.runner_up, first.reasons[0].name
    ('D', 'N', 'before N')
    >>> round(sum(reason.contribution for reason in first.reasons) - first.lead, 9)
    0.0
    """
    check_is_fitted(model, "model_")
    _refuse_states(model)
    examples = as_examples(X, feature_names=model.model_.feature_names, n_features=model.n_features_in_)
    if len(examples) != 1:
        raise TextError(f"expected one sentence, got {len(examples)}; explain sentences one by one.")
    if tokens is not None and len(tokens) != examples.n_nodes:
        raise TextError(f"the sentence has {examples.n_nodes} tokens, but there are {len(tokens)} words to display.")
    if truth is not None and len(truth) != examples.n_nodes:
        raise TextError(f"the sentence has {examples.n_nodes} tokens, but there are {len(truth)} true labels.")
    table = FeatureTable() if features is None else features
    words = [f"token {t}" for t in range(examples.n_nodes)] if tokens is None else [str(token) for token in tokens]
    _, bound = model._prepare(examples, rules=rules)
    w, scaled = model.model_.weights, scaled_weights(model, temperature)
    added = added_scores(model.classes_, outside)
    labels = decode(bound, w, added=added)
    log_partition, marginals = bound.logsum(scaled)
    whole = float(np.exp(min(float((bound.score(scaled, labels) - log_partition)[0]), 0.0)))
    classes, names = [str(label) for label in model.classes_.tolist()], feature_names(model)
    explanations = []
    for t, word in enumerate(words):
        probability = marginals.node[t]
        a, true = int(labels[t]), None if truth is None else str(truth[t])
        if len(classes) == 1:
            explanations.append(TokenExplanation(word, classes[a], float(probability[a]), None, 0.0, 0.0, [], true))
            continue
        b = int(np.argmax(np.where(np.arange(len(classes)) == a, -1.0, probability)))
        if true in classes and true != classes[a]:
            b = classes.index(true)
        changed = labels.copy()
        changed[t] = b
        lead = float((bound.score(w, labels) - bound.score(w, changed))[0])
        reasons = [*_of_features(model, bound, t, a, b, names, table), *_of_neighbours(model, labels, t, a, b, classes)]
        if added is not None and added[a] != added[b]:
            lead += float(added[a] - added[b])
            reasons.append(Reason("added to O", "outside", float(added[a] - added[b])))
        explanations.append(
            TokenExplanation(
                word, classes[a], float(probability[a]), classes[b], float(probability[b]), lead,
                _shortened(reasons, lead, top), true,
            )
        )  # fmt: skip
    return SentenceExplanation(whole, explanations)


def _of_features(
    model: Any, bound: Any, t: int, a: int, b: int, names: Sequence[str], table: FeatureTable
) -> list[Reason]:
    """Return the contributions of all features of a token."""
    batch, layout = bound.batch, model.model_.layout
    part = slice(int(batch.indptr[t]), int(batch.indptr[t + 1]))
    columns, values = batch.indices[part], batch.data[part]
    differences = np.zeros(len(columns))
    for sign, label in ((1.0, a), (-1.0, b)):
        places = layout.node_places(columns, np.full(len(columns), label))
        differences += sign * np.where(places >= 0, model.model_.weights[places], 0.0)
    contributions = values * differences
    return [
        Reason(table.name(names[k]) + ("" if v == 1 else f" (= {v:g})"), "feature", float(c), table.n_tokens(k))
        for k, v, c in zip(columns.tolist(), values.tolist(), contributions.tolist())
        if c != 0
    ]


def _of_neighbours(model: Any, labels: NDArray[Any], t: int, a: int, b: int, classes: Sequence[str]) -> list[Reason]:
    """Return the contributions of the pairs with the previous and the next label."""
    matrix = np.asarray(getattr(model, "transitions_", np.zeros(0)))
    if matrix.shape != (len(classes), len(classes)):
        return []
    reasons = []
    if t > 0:
        left = int(labels[t - 1])
        reasons.append(Reason(f"after {classes[left]}", "neighbour", float(matrix[left, a] - matrix[left, b])))
    if t + 1 < len(labels):
        right = int(labels[t + 1])
        reasons.append(Reason(f"before {classes[right]}", "neighbour", float(matrix[a, right] - matrix[b, right])))
    return reasons


def _shortened(reasons: list[Reason], lead: float, top: int) -> list[Reason]:
    """Return all contributions of neighbours, the largest other ones, and the sum of the rest.

    The returned contributions add up to the lead.
    """
    order = sorted(reasons, key=lambda reason: (reason.kind != "neighbour", -abs(reason.contribution)))
    n_shown = top + sum(reason.kind == "neighbour" for reason in reasons)
    shown = sorted(order[:n_shown], key=lambda reason: -abs(reason.contribution))
    rest = lead - sum(reason.contribution for reason in shown)
    n_rest = len(reasons) - len(shown)
    if n_rest or abs(rest) > 1e-9 * max(1.0, abs(lead)):
        shown.append(Reason(f"{n_rest} other features" if n_rest else "all else", "rest", rest))
    return shown
