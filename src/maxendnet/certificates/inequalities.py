"""Concentration inequalities: from a share seen in a sample to the share that is true, with a given confidence."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, xlogy

from maxendnet.problem import FloatArray


def binary_kl(q: float, p: float) -> float:
    """``kl(q || p)`` of two coins, in nats.

    Examples
    --------
    >>> round(binary_kl(0.5, 0.25), 4), binary_kl(0.0, 0.0), binary_kl(0.5, 1.0)
    (0.1438, 0.0, inf)
    """
    with np.errstate(divide="ignore"):
        return float(xlogy(q, q) - xlogy(q, p) + xlogy(1 - q, 1 - q) - xlogy(1 - q, 1 - p))


def kl_upper(q: float, c: float) -> float:
    """The largest p with ``kl(q || p) <= c``, by bisection; what rounding leaves is on the safe side.

    Examples
    --------
    >>> round(kl_upper(0.1, 0.02), 4), kl_upper(1.0, 0.3)
    (0.1704, 1.0)
    """
    low, high = min(float(q), 1.0), 1.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if binary_kl(q, middle) <= c else (low, middle)
    return high


def chernoff(mean: float, n: int, delta: float) -> float:
    """Upper bound of the expectation of [0, 1]-valued variables from the mean of ``n`` independent ones.

    Chernoff's bound in its kl form, ``kl(mean || expectation) <= log(1/delta) / n``: at least as good as Hoeffding's.
    """
    return kl_upper(mean, np.log(1 / delta) / n)


def empirical_bernstein(values: FloatArray, delta: float) -> float:
    """The same from the values themselves, better where they vary little (Maurer & Pontil 2009, Theorem 4)."""
    n, log = len(values), np.log(2 / delta)
    if n < 2:
        return 1.0
    return float(min(1.0, values.mean() + np.sqrt(2 * values.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))))


def mean_upper(values: FloatArray, delta: float) -> float:
    """Upper bound of the expectation of independent [0, 1]-valued variables: the better of the two, half of delta each.

    Examples
    --------
    >>> values = np.full(1000, 0.1)
    >>> round(mean_upper(values, 0.05), 4), round(chernoff(0.1, 1000, 0.05), 4)
    (0.1102, 0.1248)
    """
    return min(chernoff(float(values.mean()), len(values), delta / 2), empirical_bernstein(values, delta / 2))


def clopper_pearson(n_wrong: int, n: int, delta: float) -> float:
    """Upper bound of a probability from ``n_wrong`` of ``n`` independent events: the exact binomial one.

    Examples
    --------
    >>> round(clopper_pearson(0, 100, 0.05), 4)  # the rule of three
    0.0295
    """
    return 1.0 if n_wrong >= n else float(betaincinv(n_wrong + 1, n - n_wrong, 1 - delta))


def pac_bayes_kl(gibbs: float, kl: float, n: int, delta: float) -> float:
    """``kl(gibbs || true) <= (KL + log(2 sqrt(n)/delta)) / n`` (Seeger 2002, Maurer 2004), solved for the true risk.

    With probability ``1 - delta`` over the n examples, for all posteriors at once.
    """
    return kl_upper(gibbs, (kl + np.log(2 * np.sqrt(n) / delta)) / n)


def margin_bound(margins: FloatArray, kl: float, log_labellings: float, c: float, delta: float) -> tuple[float, float]:
    """Theorem 8 of Zhu & Xing with the constants of its proof (Appendix B.5), at the best margin threshold and m.

    ``Pr(margin <= gamma) + |Y| exp(-m gamma^2 / (32 c^2)) + sqrt((m KL + ln N + 3 ln((m + 1)/delta) + 2) / (2N - 1))``,
    which the proof gives for all gamma > 0 and all whole m at once.

    Parameters
    ----------
    margins : ndarray of shape (n_examples,)
        Score of the truth minus that of the best other labelling; any number <= 0 for a wrong prediction.
    kl : float
    log_labellings : float
        ``log |Y|``.
    c : float
        All scores are in [-c, c].
    delta : float

    Returns
    -------
    bound, gamma : float
        The bound may be above 1; gamma is the threshold it is taken at.
    """
    n = len(margins)
    found = np.unique(margins[margins > 0])
    if not found.size:
        return float("inf"), float("nan")
    # just below a margin that occurs the share is smallest; 500 of them are plenty
    gammas = np.nextafter(found[np.unique(np.linspace(0, len(found) - 1, 500).astype(int))], 0.0)
    gammas = np.minimum(gammas, 2 * c)
    share = np.searchsorted(np.sort(margins), gammas, side="right") / n
    m = np.unique(np.round(np.geomspace(1, 1e12, 2000)))
    deviation = np.sqrt((m * kl + np.log(n) + 3 * np.log((m + 1) / delta) + 2) / (2 * n - 1))
    with np.errstate(over="ignore"):
        tail = np.exp(np.minimum(log_labellings - np.outer((gammas / c) ** 2, m) / 32, 700.0))
    total = share[:, None] + tail + deviation
    best = np.unravel_index(np.argmin(total), total.shape)
    return float(total[best]), float(gammas[best[0]])
