"""The elastic net: L1 and squared penalties together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class ElasticNet(Piece):
    """The penalty ``l1 |w|_1 + l2/2 |w|^2``: weights of little use are exactly zero, the others are kept small.

    In the dual it charges ``sum_k max(|eta_k| - l1, 0)^2 / (2 l2)``, whose slope, a soft threshold, gives the weights.
    A point estimate: there is no posterior.

    CRFsuite's ``c1`` and ``c2`` are ``l1=c1`` and ``l2=2 * c2``.

    Parameters
    ----------
    l1 : float, default=0.1
        Price of a unit of ``|w_k|``.
    l2 : float, default=0.2
        Price of a unit of ``w_k^2 / 2``.

    Examples
    --------
    >>> from maxendnet import ElasticNet, Log, MaxEnDNet
    >>> prior = ElasticNet(l1=0.5, l2=2.0)
    >>> prior.penalty([1.0, 0.0]), prior.conjugate_slope([-2.5, 0.3]).tolist()
    (1.5, [-1.0, 0.0])
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> MaxEnDNet(prior=ElasticNet(l1=0.01, l2=0.1), loss=Log()).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    l1: float = 0.1
    l2: float = 0.2

    def check(self) -> None:
        require_positive(self, "with l1=0 take Gaussian(1 / l2), with l2=0 take L1(l1).", l1=self.l1, l2=self.l2)

    def penalty(self, mu: FloatArray) -> float:
        mu = np.asarray(mu, dtype=float)
        return float(self.l1 * np.abs(mu).sum() + 0.5 * self.l2 * np.sum(mu**2))

    def prox(self, v: FloatArray, step: float | FloatArray) -> FloatArray:
        v = np.asarray(v, dtype=float)
        return (v - np.clip(v, -self.l1 * step, self.l1 * step)) / (1.0 + self.l2 * step)

    def conjugate(self, eta: FloatArray) -> float:
        """The conjugate of the penalty; not a cumulant, since it belongs to no density."""
        return float(np.sum(np.maximum(np.abs(eta) - self.l1, 0.0) ** 2) / (2 * self.l2))

    def conjugate_slope(self, eta: FloatArray) -> FloatArray:
        """The weights that belong to a dual point."""
        eta = np.asarray(eta, dtype=float)
        return (eta - np.clip(eta, -self.l1, self.l1)) / self.l2

    def kernel_args(self) -> tuple[str, tuple[Any, ...]]:
        return "proximal_l1", (self.l1, 1.0 / self.l2, 0.0)
