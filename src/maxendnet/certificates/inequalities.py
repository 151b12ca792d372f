"""Concentration inequalities: upper confidence bounds of means and risks."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, xlogy

from maxendnet.problem import FloatArray


def binary_kl(q: float, p: float) -> float:
    """Return ``kl(q || p)`` of two Bernoulli distributions, in nats.

    Examples
    --------
    >>> round(binary_kl(0.5, 0.25), 4), binary_kl(0.0, 0.0), binary_kl(0.5, 1.0)
    (0.1438, 0.0, inf)
    """
    with np.errstate(divide="ignore"):
        return float(xlogy(q, q) - xlogy(q, p) + xlogy(1 - q, 1 - q) - xlogy(1 - q, 1 - p))


def kl_upper(q: float, c: float) -> float:
    """Return the largest p with ``kl(q || p) <= c``, by bisection, rounded up.

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
    """Return an upper bound on the expectation of [0, 1]-valued variables, from the mean of ``n`` of them.

    This is Chernoff's bound in kl form, ``kl(mean || expectation) <= log(1/delta) / n``, which is never worse than
    Hoeffding's bound.
    """
    return kl_upper(mean, np.log(1 / delta) / n)


def empirical_bernstein(values: FloatArray, delta: float) -> float:
    """Return an upper bound on the expectation of [0, 1]-valued variables, from their mean and variance.

    This is Theorem 4 of Maurer & Pontil (2009). It is tighter than `chernoff` if the variance is small.
    """
    n, log = len(values), np.log(2 / delta)
    if n < 2:
        return 1.0
    return float(min(1.0, values.mean() + np.sqrt(2 * values.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))))


def mean_upper(values: FloatArray, delta: float) -> float:
    """Return an upper bound on the expectation of independent [0, 1]-valued variables.

    The bound is the smaller of `chernoff` and `empirical_bernstein`, each with half of delta.

    Examples
    --------
    >>> values = np.full(1000, 0.1)
    >>> round(mean_upper(values, 0.05), 4), round(chernoff(0.1, 1000, 0.05), 4)
    (0.1102, 0.1248)
    """
    return min(chernoff(float(values.mean()), len(values), delta / 2), empirical_bernstein(values, delta / 2))


def clopper_pearson(n_wrong: int, n: int, delta: float) -> float:
    """Return the exact binomial upper bound on a probability, given ``n_wrong`` of ``n`` trials.

    Examples
    --------
    >>> round(clopper_pearson(0, 100, 0.05), 4)  # the rule of three
    0.0295
    """
    return 1.0 if n_wrong >= n else float(betaincinv(n_wrong + 1, n - n_wrong, 1 - delta))


def pac_bayes_kl(gibbs: float, kl: float, n: int, delta: float) -> float:
    """Return the PAC-Bayes-kl bound on the true risk of a Gibbs predictor.

    The bound solves ``kl(gibbs || true) <= (KL + log(2 sqrt(n)/delta)) / n`` (Seeger 2002, Maurer 2004). It holds with
    probability ``1 - delta`` over the n examples, simultaneously for all posteriors.
    """
    return kl_upper(gibbs, (kl + np.log(2 * np.sqrt(n) / delta)) / n)


def margin_bound(margins: FloatArray, kl: float, log_labellings: float, c: float, delta: float) -> tuple[float, float]:
    """Return the margin bound of Theorem 8 of Zhu & Xing, minimised over gamma and m.

    With the constants of the proof (Appendix B.5) it is
    ``Pr(margin <= gamma) + |Y| exp(-m gamma^2 / (32 c^2)) + sqrt((m KL + ln N + 3 ln((m + 1)/delta) + 2) / (2N - 1))``,
    simultaneously for all gamma > 0 and all integers m.

    Parameters
    ----------
    margins : ndarray of shape (n_examples,)
        Score of the truth minus the best score of another labelling; any number <= 0 for a wrong prediction.
    kl : float
    log_labellings : float
        ``log |Y|``.
    c : float
        Bound on the scores, which lie in [-c, c].
    delta : float

    Returns
    -------
    bound : float
        May be above 1.
    gamma : float
        Margin threshold of the bound.
    """
    n = len(margins)
    thresholds = np.unique(margins[margins > 0])
    if not thresholds.size:
        return float("inf"), float("nan")
    # the bound is smallest just below an observed margin; at most 500 margins are tried
    places = np.unique(np.linspace(0, len(thresholds) - 1, 500).astype(int))
    gammas = np.nextafter(thresholds[places], 0.0)
    gammas = np.minimum(gammas, 2 * c)
    share = np.searchsorted(np.sort(margins), gammas, side="right") / n
    m = np.unique(np.round(np.geomspace(1, 1e12, 2000)))
    deviation = np.sqrt((m * kl + np.log(n) + 3 * np.log((m + 1) / delta) + 2) / (2 * n - 1))
    with np.errstate(over="ignore"):
        tail = np.exp(np.minimum(log_labellings - np.outer((gammas / c) ** 2, m) / 32, 700.0))
    total = share[:, None] + tail + deviation
    best = np.unravel_index(np.argmin(total), total.shape)
    return float(total[best]), float(gammas[best[0]])
