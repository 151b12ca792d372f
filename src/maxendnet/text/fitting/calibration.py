"""Probabilities that can be believed: a temperature fitted to held-out folds, and a diagram to look at.

A margin model has scores in units of its own margin. Dividing them by one number, the temperature, makes probabilities
of them; it is the one for which labels that were held out are most probable. Predictions do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from maxendnet.data.examples import Examples, as_examples
from maxendnet.text.reading.errors import TextError

FloatArray = NDArray[np.float64]

LEAST = 1e-12
"""Probability below which a label that came true counts as this."""
ENOUGH_TOKENS = 3000
"""Held-out tokens from which one number is known well enough (benchmarks/TEXT.md)."""


class HeldOut(NamedTuple):
    """A model and examples that it has not seen, with the number of each label among its classes (-1: not there)."""

    model: Any
    examples: Examples
    bound: Any
    labels: NDArray[np.int64]


def fit_temperature(model: Any, X: Any, y: Any = None, cv: int = 3, random_state: int = 0) -> float:
    """The temperature of a model, by cross-validation.

    A fold is held out, and a copy of the model is fitted to the others; then the next, until `ENOUGH_TOKENS` were held
    out or all folds had their turn. So one more fit is needed on most texts. The temperature is the one with the lowest
    log loss of the marginals of the tokens that were held out; where these are few it is drawn towards 1.

    Parameters
    ----------
    model : an estimator
    X, y : as for its ``fit``
    cv : int, default=3
        Number of folds.
    random_state : int, default=0
        For the shuffling of examples into folds.

    Returns
    -------
    float

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X = [[["the"], ["dog"]], [["dog"], ["the"]], [["cat"]]] * 4
    >>> y = [["D", "N"], ["N", "D"], ["N"]] * 4
    >>> bool(fit_temperature(M3N(), X, y) < 1)  # the margin is clear, and scores of 1 say more than their size
    True
    """
    return temperature_of(held_out(model, as_examples(X, y, needs_y=True), cv, random_state))


def held_out(model: Any, examples: Examples, cv: int = 3, random_state: int = 0, rules: Any = None) -> list[HeldOut]:
    """Folds and models that were fitted to the others, until `ENOUGH_TOKENS` were held out or all had their turn.

    Predictions for the folds keep the rules, where there are some.
    """
    from sklearn.model_selection import KFold

    if len(examples) < cv:
        raise TextError(f"a temperature needs at least {cv} examples for {cv} folds, got {len(examples)}.")
    folds = []
    for train, test in KFold(cv, shuffle=True, random_state=random_state).split(np.zeros(len(examples))):
        fitted = clone(model).fit(examples[train])
        code = {label: k for k, label in enumerate(fitted.classes_.tolist())}
        truth = np.asarray(examples[test].y).tolist()
        labels = np.array([code.get(label, -1) for label in truth], dtype=np.int64)
        prepared, bound = fitted._prepare(examples[test], rules=rules)
        folds.append(HeldOut(fitted, prepared, bound, labels))
        if sum(len(fold.labels) for fold in folds) >= ENOUGH_TOKENS:
            break
    return folds


def temperature_of(folds: list[HeldOut]) -> float:
    """The temperature with the lowest log loss on these folds; see `fit_temperature`."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        # a prior of e^-1 to e^1 around 1: without it the temperature of a few sentences that are all right would be 0
        return 0.5 * log_temperature**2 + sum(_log_loss(fold, float(np.exp(log_temperature))) for fold in folds)

    # a bracket first: the loss need not be convex, and flat ends would lead astray
    grid = np.log(np.geomspace(0.01, 100.0, 17))
    best = int(np.argmin([loss(value) for value in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(np.exp(minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-3}).x))


def _log_loss(fold: HeldOut, temperature: float) -> float:
    known = fold.labels >= 0
    node = fold.bound.logsum(fold.model.model_.weights / temperature)[1].node
    return -float(np.log(np.maximum(node[known, fold.labels[known]], LEAST)).sum())


@dataclass(frozen=True)
class Reliability:
    """How often predictions of some confidence were right.

    Parameters
    ----------
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean confidence and share of right predictions in every bin; nan in an empty one.
    count : ndarray of shape (n_bins,)
        Number of predictions.

    Examples
    --------
    >>> table = reliability([0.9, 0.8, 0.6, 0.95], [True, True, False, True], n_bins=2)
    >>> table.count.tolist(), round(table.error, 4)
    ([0, 4], 0.0625)
    >>> print(table)
    confidence   right   number
         0.812   0.750        4
    """

    confidence: FloatArray
    accuracy: FloatArray
    count: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance between confidence and accuracy."""
        some = self.count > 0
        distance = np.abs(self.confidence[some] - self.accuracy[some])
        return float(np.average(distance, weights=self.count[some])) if some.any() else 0.0

    def __str__(self) -> str:
        rows = zip(self.confidence, self.accuracy, self.count)
        lines = [f"{c:10.3f}   {a:5.3f}   {n:6d}" for c, a, n in rows if n]
        return "\n".join(["confidence   right   number", *lines])

    def plot(self, ax: Any = None) -> Any:
        """The reliability diagram; ``ax`` is one of matplotlib's, None makes one."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(4.5, 4.5)).add_subplot()
        some = self.count > 0
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        sizes = 200 * np.sqrt(self.count[some] / max(1, int(self.count.max(initial=1)))) + 5
        ax.plot(self.confidence[some], self.accuracy[some], color="C0", linewidth=1)
        ax.scatter(self.confidence[some], self.accuracy[some], s=sizes, color="C0")
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="share that was right", aspect="equal")
        ax.set_title(f"expected calibration error {self.error:.3f}", fontsize=10)
        return ax


def reliability(probabilities: Any, right: Any, n_bins: int = 10) -> Reliability:
    """Confidence against accuracy, in bins of equal width.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Of predictions: tokens, spans or sequences.
    right : array-like of bool, shape (n,)
    n_bins : int, default=10

    Returns
    -------
    Reliability
    """
    p, truth = np.asarray(probabilities, dtype=np.float64).ravel(), np.asarray(right, dtype=bool).ravel()
    if p.shape != truth.shape:
        raise TextError(f"there are {len(p)} probabilities and {len(truth)} truth values; give one for each.")
    if len(p) and not (p.min() >= 0 and p.max() <= 1 + 1e-9):
        raise TextError(f"probabilities must be between 0 and 1, got {p.min():g} to {p.max():g}.")
    bins = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bins, p, minlength=n_bins) / count
        accuracy = np.bincount(bins, truth, minlength=n_bins) / count
    return Reliability(confidence, accuracy, count)
