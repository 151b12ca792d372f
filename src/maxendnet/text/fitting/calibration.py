"""Calibration of probabilities: temperature and reliability diagram.

Scores of a margin model are in units of its margin. Divided by a temperature they become log-probabilities. The
temperature maximises the likelihood of held-out labels. It does not change predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples, as_examples
from maxendnet.text.reading.errors import TextError
from maxendnet.utils.scikit_learn import clone

FloatArray = NDArray[np.float64]

MIN_PROBABILITY = 1e-12
"""Lower limit for the probability of a true label, so that the log loss is finite."""
GRID_STEP, GRID_SIZE = np.log(100.0) / 8, 8
"""Grid of log temperatures from 0.01 to 100: the distance of two values, and their number on either side of 0."""
ENOUGH_TOKENS = 3000
"""Number of held-out tokens that is enough to fit the temperature (measured in benchmarks/TEXT.md)."""


class HeldOut(NamedTuple):
    """A held-out fold: its sentences, and a model fitted to the other folds."""

    model: Any
    examples: Examples
    bound: Any
    """The structure of the model, bound to the sentences."""
    labels: NDArray[np.int64]
    """(n_tokens,): indices of the true labels among the classes of the model; -1 for other labels."""
    train: Examples
    """Sentences of the other folds."""


def fit_temperature(model: Any, X: Any, y: Any = None, cv: int = 3, random_state: int = 0) -> float:
    """Fit the temperature of a model by cross-validation.

    The temperature minimises the log loss of held-out token marginals, with a weak prior around 1. One fold after
    another is held out while the model is fitted to the other folds, until there are `ENOUGH_TOKENS` held-out tokens.
    For most data this takes one additional fit.

    Parameters
    ----------
    model : an estimator
    X, y : as for its ``fit``
    cv : int, default=3
        Number of folds.
    random_state : int, default=0
        Seed of the split into folds.

    Returns
    -------
    float

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X = [[["the"], ["dog"]], [["dog"], ["the"]], [["cat"]]] * 4
    >>> y = [["D", "N"], ["N", "D"], ["N"]] * 4
    >>> bool(fit_temperature(M3N(), X, y) < 1)  # held-out labels are more certain than the scores suggest
    True
    """
    return temperature_of(held_out(model, as_examples(X, y, needs_y=True), cv, random_state))


def shuffled_folds(cv: int, random_state: int = 0) -> Any:
    """Return the splitter of the search and the calibration.

    Folds are shuffled because files are often sorted by source.
    """
    from sklearn.model_selection import KFold

    return KFold(cv, shuffle=True, random_state=random_state)


def held_out(model: Any, examples: Examples, cv: int = 3, random_state: int = 0, rules: Any = None) -> list[HeldOut]:
    """Hold out one fold after another, and fit a model to the other folds each time.

    No more folds are held out after `ENOUGH_TOKENS` held-out tokens.

    If there are ``rules``, predictions for the held-out folds follow them.
    """
    if len(examples) < cv:
        raise TextError(f"a temperature needs at least {cv} examples for {cv} folds, got {len(examples)}.")
    folds = []
    for train, test in shuffled_folds(cv, random_state).split(np.zeros(len(examples))):
        others = examples[train]
        fitted = clone(model).fit(others)
        code_of = {label: k for k, label in enumerate(fitted.classes_.tolist())}
        truth = np.asarray(examples[test].y).tolist()
        labels = np.array([code_of.get(label, -1) for label in truth], dtype=np.int64)
        prepared, bound = fitted._prepare(examples[test], rules=rules)
        folds.append(HeldOut(fitted, prepared, bound, labels, others))
        if sum(len(fold.labels) for fold in folds) >= ENOUGH_TOKENS:
            break
    return folds


def temperature_of(folds: list[HeldOut]) -> float:
    """Return the temperature with the lowest log loss on held-out folds."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        # log-normal prior with standard deviation 1, because a few sentences without any error would lead to
        # temperature 0
        return 0.5 * log_temperature**2 + sum(_log_loss(fold, float(np.exp(log_temperature))) for fold in folds)

    # go down a grid from temperature 1, because the loss need not be convex and is flat at the ends
    values, best = {0: loss(0.0)}, 0
    for direction in (1, -1):
        while abs(best + direction) <= GRID_SIZE and best * direction >= 0:
            values[best + direction] = loss(GRID_STEP * (best + direction))
            if values[best + direction] >= values[best]:
                break
            best += direction
    around = GRID_STEP * (best - 1), GRID_STEP * (best + 1)
    return float(np.exp(minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-3}).x))


def _log_loss(fold: HeldOut, temperature: float) -> float:
    known = fold.labels >= 0
    node = fold.bound.logsum(fold.model.model_.weights / temperature)[1].node
    return -float(np.log(np.maximum(node[known, fold.labels[known]], MIN_PROBABILITY)).sum())


@dataclass(frozen=True)
class Reliability:
    """Accuracy of predictions by confidence.

    Parameters
    ----------
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean confidence and accuracy of the predictions in each bin, or NaN for empty bins.
    count : ndarray of shape (n_bins,)
        Number of predictions in each bin.

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
        """Expected calibration error: mean distance between confidence and accuracy."""
        filled = self.count > 0
        distance = np.abs(self.confidence[filled] - self.accuracy[filled])
        return float(np.average(distance, weights=self.count[filled])) if filled.any() else 0.0

    def __str__(self) -> str:
        rows = zip(self.confidence, self.accuracy, self.count)
        lines = [f"{c:10.3f}   {a:5.3f}   {n:6d}" for c, a, n in rows if n]
        return "\n".join(["confidence   right   number", *lines])

    def plot(self, ax: Any = None) -> Any:
        """Draw the reliability diagram, and return its axis.

        ``ax`` is a matplotlib axis. None creates one.
        """
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(4.5, 4.5)).add_subplot()
        filled = self.count > 0
        ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        sizes = 200 * np.sqrt(self.count[filled] / max(1, int(self.count.max(initial=1)))) + 5
        ax.plot(self.confidence[filled], self.accuracy[filled], color="C0", linewidth=1)
        ax.scatter(self.confidence[filled], self.accuracy[filled], s=sizes, color="C0")
        ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="accuracy", aspect="equal")
        ax.set_title(f"expected calibration error {self.error:.3f}", fontsize=10)
        return ax


def reliability(probabilities: Any, right: Any, n_bins: int = 10) -> Reliability:
    """Compare confidence with accuracy, in bins of equal width.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Probabilities of predicted tokens, spans or sequences.
    right : array-like of bool, shape (n,)
        Whether each prediction is correct.
    n_bins : int, default=10

    Returns
    -------
    Reliability

    Examples
    --------
    >>> reliability([0.9, 0.8, 0.2, 0.1], [True, True, False, False], n_bins=2).count.tolist()
    [2, 2]
    """
    p, truth = np.asarray(probabilities, dtype=np.float64).ravel(), np.asarray(right, dtype=bool).ravel()
    if p.shape != truth.shape:
        raise TextError(
            f"there are {len(p)} probabilities and {len(truth)} truth values; expected one truth value per probability."
        )
    if len(p) and not (p.min() >= 0 and p.max() <= 1 + 1e-9):
        raise TextError(f"probabilities must be between 0 and 1, got {p.min():g} to {p.max():g}.")
    bins = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bins, p, minlength=n_bins) / count
        accuracy = np.bincount(bins, truth, minlength=n_bins) / count
    return Reliability(confidence, accuracy, count)
