"""Why a model labels as it does: its largest weights, and what decided the label of every token of a sentence.

An explanation is a table of numbers. It prints as text, and becomes plain values for JSON, a pandas DataFrame, or one
HTML page that needs nothing from elsewhere and displays itself in a notebook.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxendnet.data.examples import as_examples
from maxendnet.text.fitting.outside_bias import added_scores, decode_with
from maxendnet.text.reading.errors import TextError
from maxendnet.text.results import explain_html
from maxendnet.text.results.confidence import scaled_weights
from maxendnet.utils.atomic_write import write_whole

FloatArray = NDArray[np.float64]

ADDED = {"bias": ("(bias)",), "ends": ("(first token)", "(last token)")}
"""Names of the columns that options of a structure add."""


class Explanation:
    """What explanations have in common: the forms in which they are given out."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)  # type: ignore[call-overload]

    def to_json(self, indent: int | None = 2) -> str:
        """The same as text."""
        return json.dumps(self.as_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def rows(self) -> list[dict[str, Any]]:
        """One dict for every number, all with the same keys."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for every number; needs pandas."""
        import pandas

        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        return explain_html.fragment(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """A whole page; with ``path`` it is also written there."""
        text = explain_html.page(self)
        if path is not None:
            write_whole(path, lambda file: file.write(text.encode()))
        return text


# ---- a model ---------------------------------------------------------------------------------------------------------


class Weight(NamedTuple):
    """A weight of a feature for a label."""

    feature: str
    weight: float
    spread: float | None
    """Standard deviation under the posterior, where there is one."""
    relevance: float | None
    """``|P(w > 0) - P(w < 0)|``: 1 when the sign is certain."""


@dataclass(frozen=True)
class ModelExplanation(Explanation):
    """The largest weights of a model.

    Attributes
    ----------
    estimator, posterior : str
    n_features, n_weights, n_nonzero : int
    labels : list of str
    top : dict of str to lists of Weight
        For every label the features with the largest weights by size, largest first.
    transitions : list of lists of float
        Weights of pairs of neighbouring labels; row: the left one. Empty if there are none.
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
        """Plain values, ready for JSON."""
        top = {label: [weight._asdict() for weight in weights] for label, weights in self.top.items()}
        return {**asdict(self), "top": top}

    def rows(self) -> list[dict[str, Any]]:
        """Features, then pairs of labels; ``left`` is the label before."""
        found = [{"label": label, "left": None, **weight._asdict()} for label in self.top for weight in self.top[label]]
        for left, row in zip(self.labels, self.transitions):
            for right, value in zip(self.labels, row):
                found.append(
                    {"label": right, "left": left, "feature": None, "weight": value, "spread": None, "relevance": None}
                )
        return found

    def __str__(self) -> str:
        lines = [
            f"{self.estimator}: {len(self.labels)} labels, {self.n_features} features, {self.n_weights} weights, "
            f"{self.n_nonzero} of them not zero; posterior: {self.posterior}"
        ]
        with_spread = any(weight.spread is not None for weights in self.top.values() for weight in weights)
        for label, weights in self.top.items():
            lines += ["", label]
            for feature, weight, spread, relevance in weights:
                more = f"  +- {spread:.3f}  relevance {relevance:.2f}" if with_spread else ""
                lines.append(f"  {weight:+8.3f}{more}  {feature}")
        if self.transitions:
            lines += ["", "Pairs of labels (row: the left one)", *_matrix(self.labels, self.transitions)]
        return "\n".join(lines)


def _matrix(labels: Sequence[str], values: Sequence[Sequence[float]]) -> list[str]:
    width = max(7, max(map(len, labels)) + 1)
    head = " " * width + "".join(f"{label:>{width}}" for label in labels)
    return [head, *(f"{a:<{width}}" + "".join(f"{v:>{width}.2f}" for v in row) for a, row in zip(labels, values))]


def explain_model(model: Any, top: int = 10) -> ModelExplanation:
    """The largest weights of every label, and those of pairs of labels.

    Parameters
    ----------
    model : a fitted estimator
    top : int, default=10
        Features for each label.

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
    names = feature_names(model)
    spread = relevance = None
    if model.posterior_.kind != "point":
        spread, relevance = np.sqrt(model.posterior_.variance), model.posterior_.relevance
    tables = [_by_label(layout, values) for values in (fitted.weights, spread, relevance) if values is not None]
    found = {}
    for a, label in enumerate(labels):
        columns = [_column(table, a) for table in tables]
        size = np.abs(columns[0])
        order = np.argsort(-size, kind="stable")[:top]
        found[label] = [
            Weight(
                names[k],
                float(columns[0][k]),
                float(columns[1][k]) if len(columns) > 1 else None,
                float(columns[2][k]) if len(columns) > 1 else None,
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
        found,
        transitions.tolist() if transitions.shape == (len(labels), len(labels)) else [],
    )


def _refuse_states(model: Any) -> None:
    if model.model_.layout.n_labels != len(model.classes_):
        raise TextError(
            f"{model.model_.structure!r} has weights for hidden states and not for labels; there is no explanation."
        )


def feature_names(model: Any) -> list[str]:
    """Names of the rows of node weights, with those that options of the structure add."""
    known = model.feature_names_
    names = list(known) if known is not None else [f"feature {k}" for k in range(model.n_features_in_)]
    for option, added in ADDED.items():
        if getattr(model.model_.structure, option, False):
            names += added
    return names


def _by_label(layout: Any, values: FloatArray) -> Any:
    rows = layout.node_rows(values)
    return rows if isinstance(rows, np.ndarray) else rows.tocsc()


def _column(table: Any, a: int) -> FloatArray:
    if isinstance(table, np.ndarray):
        return np.ascontiguousarray(table[:, a])
    found = np.zeros(table.shape[0])
    part = slice(table.indptr[a], table.indptr[a + 1])
    found[table.indices[part]] = table.data[part]
    return found


# ---- a sentence ------------------------------------------------------------------------------------------------------


class Reason(NamedTuple):
    """What speaks for a label and against the runner-up."""

    name: str
    kind: str
    """"feature", "neighbour", "outside" (what is added to the score of O) or "rest"."""
    contribution: float
    """By how much it raises the score of the label above that of the runner-up."""


@dataclass(frozen=True)
class TokenExplanation:
    """Why a token has its label.

    Attributes
    ----------
    token, label : str
    probability : float
    runner_up : str or None
        Of the other labels, the one with the highest probability.
    runner_up_probability : float
    lead : float
        By how much the score falls if this token, and no other, had the runner-up: the sum of all contributions.
    reasons : list of Reason
        Largest first; what is not shown one by one is the rest.
    """

    token: str
    label: str
    probability: float
    runner_up: str | None
    runner_up_probability: float
    lead: float
    reasons: list[Reason]


@dataclass(frozen=True)
class SentenceExplanation(Explanation):
    """Why every token of a sentence has its label.

    Attributes
    ----------
    probability : float
        Of all labels together.
    tokens : list of TokenExplanation
    """

    probability: float
    tokens: list[TokenExplanation]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        found = asdict(self)
        for plain, token in zip(found["tokens"], self.tokens):
            plain["reasons"] = [reason._asdict() for reason in token.reasons]
        return found

    def rows(self) -> list[dict[str, Any]]:
        """One row for every reason of every token."""
        return [
            {"position": t, "token": one.token, "label": one.label, "probability": one.probability,
             "runner_up": one.runner_up, "lead": one.lead, **reason._asdict()}
            for t, one in enumerate(self.tokens)
            for reason in one.reasons
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [f"All labels together: probability {self.probability:.4f}"]
        for one in self.tokens:
            against = f", not {one.runner_up} ({one.runner_up_probability:.3f})" if one.runner_up else ""
            lines += ["", f"{one.token}: {one.label} ({one.probability:.3f}){against}, lead {one.lead:+.3f}"]
            lines += [f"  {reason.contribution:+8.3f}  {reason.name}" for reason in one.reasons]
        return "\n".join(lines)


def explain_sentence(
    model: Any,
    X: Any,
    tokens: Sequence[str] | None = None,
    top: int = 10,
    temperature: float = 1.0,
    outside: float = 0.0,
    rules: Any = None,
) -> SentenceExplanation:
    """What decided the label of every token of one sentence.

    Every label is compared with its runner-up, of the other labels the one with the highest probability, while all
    labels of other tokens stay. The difference of the two scores is a sum over the features of the token and over its
    neighbours, and that is what is shown.

    Parameters
    ----------
    model : a fitted estimator
    X : examples
        As for ``model.predict``, with one example.
    tokens : list of str, optional
        For the display; None numbers them.
    top : int, default=10
        Features shown for each token.
    temperature : float, default=1.0
        For the probabilities.
    outside : float, default=0.0
        Added to the score of the label O, and not in probabilities; see `maxendnet.text.fitting.outside_bias`.
    rules : a rule or a list of rules, optional
        That labels keep, as of ``model.predict``.

    Returns
    -------
    SentenceExplanation

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=1.0, tol=1e-3).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]])
    >>> why = explain_sentence(model, [[["the"], ["dog"]]], ["the", "dog"])
    >>> first = why.tokens[0]
    >>> first.label, first.runner_up, first.reasons[0].name
    ('D', 'N', 'before N')
    >>> round(sum(reason.contribution for reason in first.reasons) - first.lead, 9)
    0.0
    """
    check_is_fitted(model, "model_")
    _refuse_states(model)
    examples = as_examples(X, feature_names=model.model_.feature_names, n_features=model.n_features_in_)
    if len(examples) != 1:
        raise TextError(f"an explanation is of one sentence, got {len(examples)}; explain them one by one.")
    if tokens is not None and len(tokens) != examples.n_nodes:
        raise TextError(f"the sentence has {examples.n_nodes} tokens, and {len(tokens)} words were given for them.")
    words = [f"token {t}" for t in range(examples.n_nodes)] if tokens is None else [str(token) for token in tokens]
    _, bound = model._prepare(examples, rules=rules)
    w, scaled = model.model_.weights, scaled_weights(model, temperature)
    added = added_scores(model.classes_, outside)
    labels = decode_with(bound, w, added)
    log_partition, marginals = bound.logsum(scaled)
    whole = float(np.exp(min(float((bound.score(scaled, labels) - log_partition)[0]), 0.0)))
    classes, names = [str(label) for label in model.classes_.tolist()], feature_names(model)
    found = []
    for t, word in enumerate(words):
        probability = marginals.node[t]
        a = int(labels[t])
        others = np.where(np.arange(len(classes)) == a, -1.0, probability)
        b = int(np.argmax(others))
        if len(classes) == 1:
            found.append(TokenExplanation(word, classes[a], float(probability[a]), None, 0.0, 0.0, []))
            continue
        other = labels.copy()
        other[t] = b
        lead = float((bound.score(w, labels) - bound.score(w, other))[0])
        reasons = [*_of_features(model, bound, t, a, b, names), *_of_neighbours(model, labels, t, a, b, classes)]
        if added is not None and added[a] != added[b]:
            lead += float(added[a] - added[b])
            reasons.append(Reason("added to O", "outside", float(added[a] - added[b])))
        found.append(
            TokenExplanation(
                word, classes[a], float(probability[a]), classes[b], float(probability[b]), lead,
                _shortened(reasons, lead, top),
            )
        )  # fmt: skip
    return SentenceExplanation(whole, found)


def _of_features(model: Any, bound: Any, t: int, a: int, b: int, names: Sequence[str]) -> list[Reason]:
    """Contributions of the features of a token, with those that options of the structure add."""
    batch, layout = bound.batch, model.model_.layout
    part = slice(int(batch.indptr[t]), int(batch.indptr[t + 1]))
    columns, values = batch.indices[part], batch.data[part]
    differences = np.zeros(len(columns))
    for sign, label in ((1.0, a), (-1.0, b)):
        places = layout.node_places(columns, np.full(len(columns), label))
        differences += sign * np.where(places >= 0, model.model_.weights[places], 0.0)
    contributions = values * differences
    return [
        Reason(names[k] + ("" if v == 1 else f" (= {v:g})"), "feature", float(c))
        for k, v, c in zip(columns.tolist(), values.tolist(), contributions.tolist())
        if c != 0
    ]


def _of_neighbours(model: Any, labels: NDArray, t: int, a: int, b: int, classes: Sequence[str]) -> list[Reason]:
    """Contributions of pairs with the labels before and behind."""
    matrix = np.asarray(getattr(model, "transitions_", np.zeros(0)))
    if matrix.shape != (len(classes), len(classes)):
        return []
    found = []
    if t > 0:
        left = int(labels[t - 1])
        found.append(Reason(f"after {classes[left]}", "neighbour", float(matrix[left, a] - matrix[left, b])))
    if t + 1 < len(labels):
        right = int(labels[t + 1])
        found.append(Reason(f"before {classes[right]}", "neighbour", float(matrix[a, right] - matrix[b, right])))
    return found


def _shortened(reasons: list[Reason], lead: float, top: int) -> list[Reason]:
    """The largest reasons, neighbours always among them, and one for the rest, so that the sum is the lead."""
    order = sorted(reasons, key=lambda reason: (reason.kind != "neighbour", -abs(reason.contribution)))
    n_shown = top + sum(reason.kind == "neighbour" for reason in reasons)
    shown = sorted(order[:n_shown], key=lambda reason: -abs(reason.contribution))
    rest = lead - sum(reason.contribution for reason in shown)
    n_rest = len(reasons) - len(shown)
    if n_rest or abs(rest) > 1e-9 * max(1.0, abs(lead)):
        shown.append(Reason(f"{n_rest} other features" if n_rest else "all else", "rest", rest))
    return shown
