"""Squared L1 penalty, minimised by the EM algorithm of Zhu, Xing & Zhang."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class SquaredL1(Piece):
    """Penalty ``lam/(2K) |w|_1^2`` for K weights (Zhu, Xing & Zhang 2009).

    It is the minimum of ``sum_k w_k^2/(2 tau_k)`` over variances tau with sum ``K/lam``, attained at
    ``tau_k = K |w_k|/(lam |w|_1)``: the adaptive variances of their EM algorithm, which `Variational` implements. Its
    conjugate is ``K/(2 lam) max_k eta_k^2``. The result is a point estimate, without a posterior.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty. Larger values give sparser models.

    Examples
    --------
    >>> prior = SquaredL1(lam=2.0)
    >>> prior.penalty([3.0, -1.0]), prior.conjugate([0.0, -2.0]), prior.conjugate_slope([0.0, -2.0]).tolist()
    (8.0, 2.0, [0.0, -2.0])
    """

    lam: float = 1.0

    def check(self) -> None:
        require_positive(self, "larger values give sparser models.", lam=self.lam)

    def penalty(self, mu: FloatArray) -> float:
        return float(self.lam / (2 * max(1, np.size(mu))) * np.abs(mu).sum() ** 2)

    def conjugate(self, eta: FloatArray) -> float:
        """Conjugate of the penalty. It is not the cumulant of a density."""
        return float(np.size(eta) / (2 * self.lam) * np.abs(eta).max(initial=0.0) ** 2)

    def conjugate_slope(self, eta: FloatArray) -> FloatArray:
        """Return a subgradient of `conjugate`, non-zero at one largest ``|eta_k|``."""
        eta = np.asarray(eta, dtype=float)
        out = np.zeros_like(eta)
        if eta.size:
            k = int(np.argmax(np.abs(eta)))
            out[k] = eta.size / self.lam * eta[k]
        return out

    def first_variance(self, n_weights: int) -> FloatArray:
        return np.full(n_weights, 1.0 / self.lam)

    def next_variance(self, mu: FloatArray, variance: FloatArray) -> FloatArray:
        total = np.abs(mu).sum()
        return len(mu) * np.abs(mu) / (self.lam * total) if total > 0 else variance
