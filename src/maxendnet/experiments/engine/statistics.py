"""Paired tests and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from maxendnet.experiments.engine.experiment import (
    BETTER,
    COMPARABLE,
    DIFFERENT,
    FAILS,
    HOLDS,
    NOT_BETTER,
    OPEN,
    WORSE,
    Estimate,
    Verdict,
)

LEVEL = 0.95


class Paired(NamedTuple):
    """Mean of paired differences, confidence interval, and p-values of two tests that it is zero."""

    mean: float
    low: float
    high: float
    p: float
    p_wilcoxon: float
    n: int
    n_positive: int

    def text(self, unit: str = "points", scale: float = 100.0) -> str:
        """Describe the test in words, by default in percentage points."""
        if self.n == 0:
            return "nothing to compare yet"
        if self.n == 1:
            return f"difference {scale * self.mean:+.2f} {unit} in 1 pair: too few for a test"
        return (
            f"difference {scale * self.mean:+.2f} {unit}, 95 % interval {scale * self.low:+.2f} to "
            f"{scale * self.high:+.2f} (paired t over {self.n} pairs, p = {_p(self.p)}; "
            f"Wilcoxon p = {_p(self.p_wilcoxon)}; {self.n_positive} of {self.n} above 0)"
        )


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def paired(differences: Any, overlap: float = 0.0) -> Paired:
    """Test paired differences.

    Parameters
    ----------
    differences : array-like
        One difference per draw or fold; NaN is ignored.
    overlap : float
        Ratio of test to training examples if the training sets of the pairs overlap, as in ten-fold cross-validation
        (1/9). The variance of the mean is then ``(1/n + overlap)`` times that of a difference (Nadeau and Bengio
        2003).

    Examples
    --------
    >>> result = paired([1.0, 2.0, 3.0, 2.0])
    >>> result.mean, round(result.low, 2), round(result.high, 2)
    (2.0, 0.7, 3.3)
    """
    d = np.asarray(differences, dtype=float)
    d = d[~np.isnan(d)]
    n = len(d)
    mean = float(d.mean()) if n else np.nan
    if n < 2:
        return Paired(mean, -np.inf, np.inf, np.nan, np.nan, n, int(np.sum(d > 0)))
    error = float(d.std(ddof=1) * np.sqrt(1 / n + overlap))
    half = float(stats.t.ppf(0.5 + LEVEL / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error else float(mean == 0)
    wilcoxon = float(stats.wilcoxon(d).pvalue) if np.any(d) else 1.0
    return Paired(mean, mean - half, mean + half, p, wilcoxon, n, int(np.sum(d > 0)))


def estimate(label: str, test: Paired, scale: float = 100.0) -> Estimate:
    """Return the mean difference with its interval, by default in percentage points."""
    return Estimate(label, scale * test.mean, scale * test.low, scale * test.high)


def is_positive(test: Paired) -> Verdict:
    """Verdict on "the difference is above zero"."""
    return HOLDS if test.low > 0 else FAILS if test.high < 0 else OPEN


def superiority(test: Paired) -> Verdict:
    """Verdict on "better": the difference is above zero."""
    return BETTER if test.low > 0 else NOT_BETTER if test.high < 0 else OPEN


def non_inferiority(test: Paired, margin: float) -> Verdict:
    """Verdict on "at least as good": the difference is at least ``-margin``."""
    if test.low > -margin:
        return BETTER if test.low > 0 else COMPARABLE
    return WORSE if test.high < -margin else OPEN


def equality(test: Paired, margin: float) -> Verdict:
    """Verdict on "comparable": the absolute difference is at most ``margin``."""
    if test.low > -margin and test.high < margin:
        return COMPARABLE
    return DIFFERENT if test.low > margin else WORSE if test.high < -margin else OPEN


def combined(*verdicts: Verdict) -> Verdict:
    """Verdict on a claim of several parts: it agrees if all parts do, and contradicts the claim if one does."""
    for agrees in (False, None):
        for verdict in verdicts:
            if verdict.agrees is agrees:
                return verdict
    return COMPARABLE if COMPARABLE in verdicts else verdicts[0] if verdicts else OPEN


def holm(p_values: Sequence[float], level: float = 1 - LEVEL) -> list[bool]:
    """Return which tests remain significant at a familywise level, by the method of Holm (1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03, 0.001])
    [True, False, False, True]
    """
    order = np.argsort(p_values, kind="stable")
    significant = [False] * len(order)
    for rank, k in enumerate(order.tolist()):
        if not p_values[k] <= level / (len(order) - rank):
            break
        significant[k] = True
    return significant
