"""Paired tests and verdicts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN

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


def is_positive(test: Paired) -> str:
    """Verdict on "the difference is above zero"."""
    return HOLDS if test.low > 0 else FAILS if test.high < 0 else OPEN


def is_at_least(test: Paired, margin: float) -> str:
    """Verdict on "the difference is at least ``-margin``" (at least as good, comparable)."""
    return HOLDS if test.low > -margin else FAILS if test.high < -margin else OPEN


def is_small(test: Paired, margin: float) -> str:
    """Verdict on "the absolute difference is at most ``margin``" (similar)."""
    if test.low > -margin and test.high < margin:
        return HOLDS
    return FAILS if test.low > margin or test.high < -margin else OPEN


def all_of(*verdicts: str) -> str:
    """Combine verdicts: a claim holds if all its parts hold, and fails if one fails."""
    return FAILS if FAILS in verdicts else OPEN if OPEN in verdicts else HOLDS
